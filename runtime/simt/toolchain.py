"""From the text of a kernel to a program that runs its launches, checked: found in the cache, or compiled."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import lru_cache
from importlib.metadata import version
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from dojoir.errors import Diagnostic, Note, ToolchainError
from dojoir.support.cache import Cache, content_key
from dojoir.support.frozen import dataclass
from dojoir.support.temporary import temporary_folder

NAMES = ("g++", "clang++")
"""The compilers that are looked for on the path, in this order, where the variable CXX names none; then
ziglang."""

BUILD_LIMIT = 300.0
"""Seconds that a compilation may take."""

_PARTS = (
    "interface.h",
    "simt.h",
    "arithmetic.h",
    "report.h",
    "fibers.h",
    "shadow.h",
    "instrumented.h",
    "runtime.cpp",
)
_COMMON = (
    *("-std=c++17", "-O2", "-fno-exceptions", "-fno-rtti", "-ffp-contract=off", "-fno-math-errno", "-w"),
    *("-fno-stack-protector", "-fno-strict-aliasing", "-fno-delete-null-pointer-checks"),
)
_CHECKS = "-fsanitize=thread,alignment,bounds,signed-integer-overflow,shift,integer-divide-by-zero"
_TEXT = (*_COMMON, _CHECKS, "-gdwarf-4", "-g1", "-include", "simt.h", "-x", "c++")
_CLANG = ("-fno-unroll-loops", "-mllvm", "-tsan-instrument-read-before-write=1")

_KERNEL = re.compile(
    r"""__global__\s+
        (?:(?:__launch_bounds__|__attribute__)\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)\s*)*
        void\s+
        (?:(?:__launch_bounds__|__attribute__)\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)\s*)*
        (\w+)\s*\(""",
    re.VERBOSE,
)
_DYNAMIC = re.compile(
    r"\bextern\s+__shared__\s+((?:__align__\s*\(\s*\d+\s*\)\s*)?)([\w\s]+?)\s*\b(\w+)\s*\[\s*\]\s*;"
)


@dataclass(frozen=True)
class CppCompiler:
    """A C++ compiler: its command, the first line of what it says of its version, and what it alone is told
    with the text of a kernel."""

    command: tuple[str, ...]
    version: str
    options: tuple[str, ...]

    @property
    def identity(self) -> str:
        """One line that tells apart any two compilers that may compile a text differently."""
        return "; ".join([shlex.join(self.command), self.version, shlex.join(self.options)])


def find() -> CppCompiler:
    """The compiler that the variable CXX names, else g++ or clang++ on the path, else the package ziglang.

    Raises ToolchainError where there is none, or where threads cannot be switched on this system.
    """
    if sys.platform != "linux" or os.uname().machine not in ("x86_64", "aarch64"):
        message = "GPU code runs without a GPU on Linux on x86-64 and aarch64 only"
        raise ToolchainError(message, "no-harness")
    return _find(os.environ.get("CXX", "").strip(), os.environ.get("PATH", ""))


def compilers() -> list[CppCompiler]:
    """Every compiler here that would do."""
    path = os.environ.get("PATH", "")
    found = [_compiler((program,)) for name in NAMES if (program := shutil.which(name, path=path))]
    return found + ([_ziglang()] if find_spec("ziglang") else [])


@lru_cache(maxsize=8)
def _find(chosen: str, path: str) -> CppCompiler:
    for name in [chosen] if chosen else NAMES:
        command = shlex.split(name)
        program = shutil.which(command[0], path=path)
        if program is not None:
            return _compiler((program, *command[1:]))
    if not chosen and find_spec("ziglang") is not None:
        return _ziglang()
    wanted = f"the compiler that CXX names, '{chosen}', is not there" if chosen else "no C++ compiler was found"
    message = (
        f"{wanted}: running GPU code without a GPU needs one (Debian, Ubuntu: apt install g++; or pip install "
        f"'dojoir[cross]'), or its name in the variable CXX"
    )
    raise ToolchainError(message, "no-compiler")


def _compiler(command: tuple[str, ...]) -> CppCompiler:
    done = _completed((*command, "--version"), Path.cwd())
    if done.returncode != 0:
        raise _failed((*command, "--version"), done.stderr, "it does not say its version")
    return CppCompiler(command, done.stdout.partition("\n")[0].strip(), _CLANG if "clang" in done.stdout else ())


def _ziglang() -> CppCompiler:
    # Of its own it drops all checks but thread, which the compiler inside of it knows.
    kinds = "alignment,array-bounds,signed-integer-overflow,shift-base,shift-exponent,integer-divide-by-zero"
    checks = ("-Xclang", f"-fsanitize={kinds}", "-Xclang", f"-fsanitize-recover={kinds}")
    # As `cc`, since `c++` first builds a C++ library, which takes minutes and is not needed.
    return CppCompiler((sys.executable, "-m", "ziglang", "cc"), f"ziglang {version('ziglang')}", (*_CLANG, *checks))


# -- building ----------------------------------------------------------------------------------------------
def build(text: str, compiler: CppCompiler) -> bytes:
    """The program that runs the kernels of a text. Raises ToolchainError where the compiler refuses the text."""
    parts = _parts()
    options = shlex.join([*_TEXT, *_COMMON])
    whole = harnessed(text)
    key = content_key("simt", compiler.identity, options, *parts.values(), whole)
    store = Cache.default()
    program = store.get(key)
    if program is None:
        runtime = _runtime(compiler, parts, store)
        with temporary_folder() as name:
            folder = Path(name)
            _write(folder, {**parts, "kernel.cu": whole})
            Path(folder, "runtime.o").write_bytes(runtime)
            _compile(compiler, folder, (*compiler.options, *_TEXT, "-c", "kernel.cu", "-o", "kernel.o"))
            # Told so at linking too, ziglang takes no library of its own for checks.
            link = (
                "-O2",
                "-fno-sanitize=all",
                "-Wl,--no-gc-sections",
                "kernel.o",
                "runtime.o",
                "-o",
                "program",
                "-lm",
            )
            _compile(compiler, folder, link)
            program = Path(folder, "program").read_bytes()
        store.put(key, program)
    return program


def harnessed(text: str) -> str:
    """The text as it is compiled: lines stay where they are. Dynamic shared memory, which has no size in the text,
    is a pointer to the runtime's; behind the text stands a table of its kernels."""
    names = kernel_names(text)
    text = _DYNAMIC.sub(r"\1 \2 *const \3 = reinterpret_cast<\2 *>(simt_dynamic_shared);", text)
    rows = ", ".join(f"SIMT_KERNEL({name})" for name in names)
    table = f'\nextern "C" const simt_kernel simt_kernels[] = {{{rows}}};\n' if names else ""
    return f'{text}{table}extern "C" const unsigned simt_kernel_count = {len(names)};\n'


def kernel_names(text: str) -> list[str]:
    """The kernels that a text defines. Raises ToolchainError where it has none."""
    code = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    names = list(
        dict.fromkeys(match[1] for match in _KERNEL.finditer(code) if code[: match.start()].rstrip()[-1:] != ">")
    )
    if not names:
        raise ToolchainError("the text has no kernel: no `__global__ void name(…)`", "no-kernel")
    return names


def restricted(text: str) -> dict[str, frozenset[int]]:
    """The numbers of the parameters of each kernel that are pointers said to be `__restrict__`."""
    code = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    found: dict[str, frozenset[int]] = {}
    for match in _KERNEL.finditer(code):
        parameters = code[match.end() : code.index(")", match.end())].split(",")
        found[match[1]] = frozenset(n for n, own in enumerate(parameters) if "__restrict" in own)
    return found


def _runtime(compiler: CppCompiler, parts: dict[str, str], store: Cache) -> bytes:
    """The object of the runtime, which is the same for all kernels."""
    key = content_key("simt runtime", compiler.identity, shlex.join(_COMMON), *parts.values())
    made = store.get(key)
    if made is None:
        with temporary_folder() as name:
            folder = Path(name)
            _write(folder, parts)
            _compile(compiler, folder, (*_COMMON, "-c", "runtime.cpp", "-o", "runtime.o"))
            made = Path(folder, "runtime.o").read_bytes()
        store.put(key, made)
    return made


def _parts() -> dict[str, str]:
    folder = files(__package__)
    return {name: folder.joinpath(name).read_text(encoding="utf-8") for name in _PARTS}


def _write(folder: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        Path(folder, name).write_text(text, encoding="utf-8")


def _compile(compiler: CppCompiler, folder: Path, options: Sequence[str]) -> None:
    command = (*compiler.command, *options)
    done = _completed(command, folder)
    if done.returncode != 0:
        raise _failed(command, done.stderr, "the text is not CUDA or HIP C++ that it takes")


def _completed(command: tuple[str, ...], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        return subprocess.run(
            command, cwd=folder, capture_output=True, text=True, errors="replace", env=environment,
            timeout=BUILD_LIMIT, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        message = f"'{shlex.join(command)}' was stopped after {BUILD_LIMIT:g} s"
        raise ToolchainError(message, "compiler-timeout") from None
    except OSError as error:
        return subprocess.CompletedProcess(command, 127, "", str(error))


def _failed(command: tuple[str, ...], stderr: str, why: str) -> ToolchainError:
    lines = [line for line in stderr.splitlines() if line.strip()][:12]
    notes = (Note(f"the command was: {shlex.join(command)}"), *map(Note, lines))
    return ToolchainError(Diagnostic("compiler-failed", f"the C++ compiler failed: {why}", notes=notes))
