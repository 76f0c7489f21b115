"""Finding a C compiler and calling it.

A toolchain is a compiler with the options that it was found to take. Its `identity` says all that the machine
code depends on besides the source, so it belongs into the key of a build cache.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from dojoir.backends.host import architecture, native
from dojoir.errors import Diagnostic, Note, RunError, ToolchainError
from dojoir.runtime.build.headers import read_ahead
from dojoir.support.frozen import dataclass
from dojoir.support.temporary import no_room, temporary_folder

COMPILE_LIMIT = 120.0
"""Seconds that a compilation may take unless the caller says otherwise."""

PROBE_LIMIT = 20.0
"""Seconds that a question to a compiler may take."""

NAMES = ("cc", "gcc", "clang")
"""The compilers that are looked for on the path, in this order, where the variable CC names none."""

_ALWAYS = ("-std=c11", "-O3", "-ffp-contract=off", "-w")
_SHARED = ("-shared", "-fPIC")

# Options that make code faster and change no value, and one without which GCC 12 writes what a loop does not: where
# an iteration stores to elements that a later one stores to again, it keeps the last ones in registers, and stores
# behind the loop what it had read before it of those that this thread never reaches. Each is given where the
# compiler takes it.
_OPTIONAL = (f"-march={native()}", "-fno-math-errno", "-fno-trapping-math", "-fno-predictive-commoning")
_OPENMP = ("-fopenmp", "-fopenmp-simd")

_PROBE = """\
int main(int n, char **arguments)
{
    int sum = 0;
#pragma omp parallel for reduction(+ : sum)
    for (int i = 0; i < n; i++)
        sum += arguments[i][0];
    return sum;
}
"""

_SHOWN_LINES = 8


@dataclass(frozen=True)
class Toolchain:
    """A C compiler: its command (`ccache gcc` is two words), the first line of what it says of its version. Also
    the options for a shared library, and a digest of the instruction set that it compiles for."""

    command: tuple[str, ...]
    version: str
    options: tuple[str, ...]
    machine: str

    @property
    def openmp(self) -> bool:
        """Whether `p` scopes run on several cores."""
        return "-fopenmp" in self.options

    @property
    def identity(self) -> str:
        """One line that tells apart any two toolchains that may compile a source differently."""
        return "; ".join([shlex.join(self.command), self.version, shlex.join(self.options), self.machine])

    def with_options(self, options: tuple[str, ...]) -> Toolchain:
        """The same compiler, told more."""
        return replace(self, options=(*self.options, *options))

    def for_cpu(self, cpu: str | None) -> Toolchain:
        """The same compiler, making code for a processor by its name instead of for this one."""
        if cpu is None:
            return self
        word = "-march=" if architecture() == "x86_64" else "-mcpu="
        return replace(self, options=(*(o for o in self.options if o != _OPTIONAL[0]), word + cpu))

    def compilation(self, out: Path, *sources: Path) -> tuple[str, ...]:
        """The command that compiles `sources` into the shared library `out`."""
        return (*self.command, *self.options, *_SHARED, "-o", str(out), *map(str, sources), "-lm")

    def read_ahead(self, source: str) -> list[str]:
        """The options under which the compiler finds the first header of a source as it has read it before."""

        def compiled(header: Path, made: Path) -> bool:
            options = (*self.options, *_SHARED) if "-static" not in self.options else self.options
            command = (*self.command, *options, "-x", "c-header", "-o", str(made), str(header))
            with suppress(ToolchainError):  # as where it takes too long
                return _run_to_end(command, PROBE_LIMIT).returncode == 0
            return False

        clang = "clang" in self.version or "zig" in self.version
        return read_ahead(source, self.identity, clang, compiled)


def find() -> Toolchain:
    """The compiler that the variable CC names, else the first of cc, gcc and clang on the path that works. Each is
    tried out once in a process.

    Raises ToolchainError where there is none.
    """
    return _find(os.environ.get("CC", "").strip(), os.environ.get("PATH", ""))


@lru_cache(maxsize=8)
def _find(chosen: str, path: str) -> Toolchain:
    candidates = [tuple(shlex.split(chosen))] if chosen else [(name,) for name in NAMES]
    failures: list[Note] = []
    for command in candidates:
        program = shutil.which(command[0], path=path)
        if program is None:
            failures.append(Note(f"{command[0]} is not on the path"))
            continue
        try:
            return probe((program, *command[1:]))
        except ToolchainError as error:
            failures.append(Note(error.diagnostic.message))
    wanted = f"the compiler that CC names, '{chosen}', does not work" if chosen else "no C compiler was found"
    message = (
        f"{wanted}: install one (Debian, Ubuntu: apt install gcc; Fedora: dnf install gcc; macOS: "
        f"xcode-select --install) or name it in the variable CC; target llvm needs none"
    )
    raise ToolchainError(Diagnostic("no-compiler", message, notes=tuple(failures)))


def probe(command: tuple[str, ...]) -> Toolchain:
    """The toolchain of a compiler, with those of the options we like that it takes.

    Raises ToolchainError where it cannot compile at all.
    """
    with temporary_folder() as folder:
        source, out = Path(folder, "probe.c"), Path(folder, "probe")
        source.write_text(_PROBE)

        def takes(*options: str) -> bool:
            # A program and not a library, because only its linking misses an OpenMP library that is not there.
            return (
                _run_to_end((*command, *_ALWAYS, *options, "-o", str(out), str(source)), PROBE_LIMIT).returncode
                == 0
            )

        version = _run_to_end((*command, "--version"), PROBE_LIMIT).stdout.partition("\n")[0].strip()
        library = Toolchain(command, version, _ALWAYS, "").compilation(out, source)
        trial = _run_to_end(library, PROBE_LIMIT)
        if trial.returncode != 0:
            raise _failed(library, trial.stderr, "it makes no shared library")
        options: tuple[str, ...] = (*_OPTIONAL, _OPENMP[0])
        if not takes(*options):
            options = tuple(option for option in _OPTIONAL if takes(option))
            options += tuple(option for option in _OPENMP if takes(option))[:1]
        macros = _run_to_end((*command, *_ALWAYS, *options, "-dM", "-E", str(source)), PROBE_LIMIT)
        machine = sha256(macros.stdout.encode()).hexdigest()[:16]
        return Toolchain(command, version, (*_ALWAYS, *options), machine)


def build_shared(source: str, out: Path, *, toolchain: Toolchain, limit: float = COMPILE_LIMIT) -> None:
    """Compiles C `source` into the shared library `out`, which is there as a whole afterwards, or as before.

    `limit` is in seconds. Raises ToolchainError where the compiler refuses the source or takes longer.
    """
    with tempfile.TemporaryDirectory(prefix=".build-", dir=out.parent) as folder:
        text, library = Path(folder, "kernel.c"), Path(folder, "kernel.so")
        text.write_text(source, encoding="utf-8")
        more = toolchain.read_ahead(source)
        if not more or _run_to_end((*toolchain.compilation(library, text), *more), limit).returncode != 0:
            link_shared([text], library, toolchain=toolchain, limit=limit)
        os.replace(library, out)


def link_shared(sources: Sequence[Path], out: Path, *, toolchain: Toolchain, limit: float = COMPILE_LIMIT) -> None:
    """Compiles C files into one shared library. Raises as `build_shared` does."""
    command = toolchain.compilation(out, *sources)
    done = _run_to_end(command, limit)
    if done.returncode != 0 or not out.exists():
        raise _failed(command, done.stderr, "this is a bug in dojoir, please send us the kernel and these lines")


def build_program(sources: Sequence[str], out: Path, *, toolchain: Toolchain, limit: float = COMPILE_LIMIT) -> None:
    """Compiles C `sources`, of which one has `main`, into the program `out`.

    `limit` is in seconds. Raises ToolchainError where the compiler refuses them or takes longer.
    """
    with tempfile.TemporaryDirectory(prefix=".build-", dir=out.parent) as folder:
        files = [Path(folder, f"part{number}.c") for number in range(len(sources))]
        for file, source in zip(files, sources, strict=True):
            file.write_text(source, encoding="utf-8")
        program = Path(folder, "program")
        command = (*toolchain.command, *toolchain.options, "-o", str(program), *map(str, files))
        more = toolchain.read_ahead(sources[0])
        done = _run_to_end((*command, *more), limit)
        if more and done.returncode != 0:
            done = _run_to_end(command, limit)
        if done.returncode != 0 or not program.exists():
            raise _failed(
                command, done.stderr, "this is a bug in dojoir, please send us the kernel and these lines"
            )
        os.replace(program, out)


def all_lines(command: tuple[str, ...], limit: float) -> list[str]:
    """The output of a command in lines; empty where it fails or takes longer than `limit` seconds."""
    try:
        done = _run_to_end(command, limit)
    except ToolchainError:
        return []
    return done.stdout.splitlines() if done.returncode == 0 else []


def first_line(command: tuple[str, ...], limit: float) -> str:
    """The first line that a command prints, if any."""
    return next(iter(all_lines(command, limit)), "")


def _run_to_end(command: tuple[str, ...], limit: float) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end with messages in English, or kills it and all that it started after `limit` s."""
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env={**os.environ, "LC_ALL": "C"},
            start_new_session=True,
        )
    except OSError as error:
        return subprocess.CompletedProcess(command, 127, "", str(error))
    try:
        stdout, stderr = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        _kill(process)
        message = f"'{shlex.join(command)}' was stopped after {limit:g} s: give it longer, or simplify the kernel"
        raise ToolchainError(Diagnostic("compiler-timeout", message)) from None
    except BaseException:
        _kill(process)
        raise
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


def _kill(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def _failed(command: tuple[str, ...], stderr: str, why: str) -> ToolchainError | RunError:
    full = os.strerror(errno.ENOSPC)
    if full in stderr:
        return no_room(OSError(errno.ENOSPC, full))
    lines = [line for line in stderr.splitlines() if line.strip()]
    shown = lines[:_SHOWN_LINES] + (
        [f"… and {len(lines) - _SHOWN_LINES} lines more"] if lines[_SHOWN_LINES:] else []
    )
    notes = (Note(f"the command was: {shlex.join(command)}"), *map(Note, shown))
    return ToolchainError(Diagnostic("compiler-failed", f"the C compiler {command[0]} failed: {why}", notes=notes))
