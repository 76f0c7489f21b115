"""The file of a stored schedule: what it says, and where such files are.

A schedule is a file of moves, as `dojoir-opt -p @FILE` takes it, whose first comments say what it is for:

    # kernel: softmax                     a kernel of the library, or the hash of any other
    # needs: vector_bytes >= 64, masks    what it needs of a machine
    # tuned: znver*                       where it was made, by LLVM's names of processors: tried first there
    # when: M >= 64, N % 8 == 0           where it is the better one; may be left out
    # when: threads == 1                  or here
    # fp: fast                            the fp mode of the kernel, if it is not that of the library

A need compares a fact of a machine (`dojoir.Machine.facts`) with a number, or names one that has to be there
(`cpu`, `masks`); all have to hold. A condition compares a size, a size % a number, or `threads`, how many there
are, with a number. All of a line have to be met, and one line of several. A condition on a size that is not known
is not met: what is for some sizes only is never taken without having been told one of them.

Files of users may say `# targets: llvm c` instead of what they need: they are for these targets, whatever the
machine; `llvm@znver*` is for such processors.

The file is called as the kernel, with more words after a dot where there are several: `softmax.moves`,
`softmax.short.moves`. Its moves are the same on every machine: a pass in it names the machine it is for. (One that
does not, in a file with `# targets:`, is for AVX-512, as it always was.)
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.resources import files
from pathlib import Path

import dojoir
from dojoir.ir.size_condition import SizeCondition
from dojoir.support.public import public

VARIABLE = "DOJOIR_SCHEDULES"
"""Folders to search before those that come with dojoir, separated as in PATH."""

_HEADER = re.compile(r"#\s*(kernel|targets|needs|tuned|when|fp):\s*(.*)")
_IN_NAMES = {
    "%": " mod ", "==": " eq ", "!=": " ne ", "<=": " le ", ">=": " ge ", "<": " lt ", ">": " gt ",
}  # fmt: skip


@dataclass(frozen=True)
class Schedule:
    """A stored schedule: where it is from, the kernel (a name in the library or a hash), the targets (none: any)
    and the conditions on sizes and threads by line. Then the moves as text, the fp mode if it is not that of the
    library, what it needs of a machine, and the processors that it was tuned on."""

    path: str
    kernel: str
    targets: tuple[str, ...]
    when: tuple[tuple[str, ...], ...]
    moves: str
    fp: str = ""
    needs: tuple[str, ...] = ()
    tuned: tuple[str, ...] = ()

    def fits(
        self, kernel: dojoir.Kernel, target: str, sizes: Mapping[str, int], machine: dojoir.Machine | None = None
    ) -> bool:
        """Whether it is for this kernel on this target and machine (by default what the target is scheduled for).
        `sizes` has what is known, `threads` with it; a condition on what is not known is not met."""
        if self.when and not any(all(holds(text, sizes) for text in line) for line in self.when):
            return False
        return self.is_for(kernel, target, dojoir.machine_for(target) if machine is None else machine)

    def is_for(self, kernel: dojoir.Kernel, target: str, machine: dojoir.Machine) -> bool:
        """Whether it is for this kernel on this target and machine, at some sizes."""
        if self.targets and target not in self.targets and not self.is_tuned(target, machine):
            return False
        if not self.suits(machine):
            return False
        if self.kernel == kernel.hash:
            return True
        if self.kernel != kernel.name or self.kernel not in dojoir.kernels.names():
            return False
        fixed = {size.name: size.value for size in kernel.sizes if size.value is not None}
        library = dojoir.kernels.load(self.kernel, **fixed)
        return (library.with_fp(self.fp) if self.fp else library) == kernel

    def lines(self, known: Mapping[str, int], open_sizes: Sequence[str]) -> tuple[str, ...] | None:
        """The conditions by line on sizes that are open, where those on what is `known` hold: an empty line among
        them means always, and is then the only one. None where it is never taken."""
        found: list[str] = []
        for line in self.when or ((),):
            left = [condition for condition in line if not holds(condition, known)]
            if all(SizeCondition.parse(condition).name in open_sizes for condition in left):
                found.append(", ".join(left))
        return ("",) if "" in found else tuple(found) or None

    def suits(self, machine: dojoir.Machine) -> bool:
        """Whether a machine has what it needs."""
        return all(_is_met(need, machine) for need in self.needs)

    def is_tuned(self, target: str, machine: dojoir.Machine) -> bool:
        """Whether it was made for this target on such a processor."""
        entries = (entry.partition("@") for entry in self.targets)
        return any(fnmatchcase(machine.name, cpu) for cpu in self.tuned) or any(
            name == target and at and fnmatchcase(machine.name, cpu) for name, at, cpu in entries
        )

    def on(self, kernel: dojoir.Kernel) -> dojoir.Trace:
        """A new trace of the kernel with these moves, which are the same on every machine. Raises IllegalMove where
        one does not fit after all."""
        trace = dojoir.Trace(kernel)
        meant = dojoir.machine_for("avx512")
        for element in dojoir.parse_pipeline(self.moves, self.path, machine=meant):
            if isinstance(element, dojoir.Pass):
                element(trace)
            else:
                trace.apply(element)
        return trace


@public
def schedules(name: str, folders: Iterable[str | os.PathLike[str]] = ()) -> list[Schedule]:
    """The stored schedules for kernels of a name: those of `folders` and of the variable DOJOIR_SCHEDULES, then
    those that come with dojoir. They are in the order in which `optimize` looks at them where none was tuned on
    the machine."""
    return [*given_schedules(name, folders), *own_schedules(name)]


def given_schedules(name: str, folders: Iterable[str | os.PathLike[str]]) -> list[Schedule]:
    """Those in the folders of the caller, then in those of the variable."""
    variable = [folder for folder in os.environ.get(VARIABLE, "").split(os.pathsep) if folder]
    found: list[Schedule] = []
    for place in (Path(folder) for folder in (*folders, *variable)):
        if not place.is_dir():
            raise dojoir.ArgumentError(f"there is no folder {place} of schedules", "cannot-read")
        paths = [path for path in sorted(place.glob("*.moves")) if path.name.split(".")[0] == name]
        mine = [_schedule_in(str(path), _text_of(path)) for path in paths]
        found += sorted(mine, key=lambda schedule: not schedule.when)
    return found


def _text_of(path: Path) -> str:
    """The text of a file of the caller's. Raises ArgumentError where there is none."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise dojoir.ArgumentError(f"{path} is not UTF-8 text", "not-text") from None
    except OSError as error:
        raise dojoir.ArgumentError(f"cannot read {path}: {error.strerror or error}", "cannot-read") from None


def read_schedule(path: Path) -> Schedule:
    """The schedule of a file. Raises ArgumentError where it cannot be read, or is none."""
    return _schedule_in(str(path), _text_of(path))


def own_schedules(name: str) -> list[Schedule]:
    """Those that come with dojoir."""
    found = [
        _schedule_in(entry.name, entry.read_text(encoding="utf-8"))
        for entry in sorted(files("dojoir.schedules").iterdir(), key=lambda entry: entry.name)
        if entry.name.endswith(".moves") and entry.name.split(".")[0] == name
    ]
    return sorted(found, key=lambda schedule: not schedule.when)


def _schedule_in(path: str, text: str) -> Schedule:
    """A schedule from the text of its file. Raises ArgumentError where it does not say, once, what it is for,
    where a condition is none, or a pass names no machine."""
    header: dict[str, list[str]] = {}
    for line in text.splitlines():
        if match := _HEADER.fullmatch(line.strip()):
            header.setdefault(match[1], []).append(match[2].strip())
    if not header.get("kernel", [""])[0]:
        raise dojoir.ArgumentError(f"{path} is no schedule: it has no line '# kernel: …'", "bad-schedule")
    if not any(header.get(word, [""])[0] for word in ("needs", "targets")):
        message = (
            f"{path} is no schedule: it has no line '# needs: …' that says for what machines it is, such as cpu"
        )
        raise dojoir.ArgumentError(message, "bad-schedule")
    for word in ("kernel", "targets", "fp", "tuned"):
        if len(header.get(word, ())) > 1:
            raise dojoir.ArgumentError(f"{path} has more than one line '# {word}: …'", "bad-schedule")
    when = tuple(tuple(line) for line in map(_conditions_in, header.get("when", ())) if line)
    for condition in itertools.chain(*when):
        check_condition(path, condition)
    needs = tuple(itertools.chain(*map(_conditions_in, header.get("needs", ()))))
    for need in needs:
        _check_need(path, need)
    (fp,) = header.get("fp", [""])
    (targets,), (tuned,) = header.get("targets", [""]), header.get("tuned", [""])
    if not targets:
        _check_passes(path, text)
    return Schedule(path, header["kernel"][0], tuple(targets.split()), when, text, fp, needs, tuple(tuned.split()))


def _conditions_in(line: str) -> list[str]:
    return [part.strip() for part in line.split(",") if part.strip()]


def check_condition(place: str, condition: str) -> None:
    """Raises ArgumentError where a text is no condition."""
    try:
        SizeCondition.parse(condition)
    except dojoir.ArgumentError as error:
        raise dojoir.ArgumentError(f"{place}: {error.diagnostic.message}", "bad-schedule") from None


def condition_words(condition: str) -> str:
    """A condition in words that a file may be called."""
    return re.sub(r"[=!<>]=|[<>%]", lambda found: _IN_NAMES[found[0]], condition)


def _check_need(path: str, need: str) -> None:
    """Raises ArgumentError where a text asks for no fact of a machine."""
    facts = dojoir.machine_for("avx512").facts
    if _fact(need) not in facts:
        message = (
            f"{path}: '{need}' is not a need such as vector_bytes >= 64 or masks; the facts are {', '.join(facts)}"
        )
        raise dojoir.ArgumentError(message, "bad-schedule")


def _fact(need: str) -> str:
    """The fact of a machine that a need is about."""
    try:
        return SizeCondition.parse(need).name
    except dojoir.ArgumentError:
        return need


def _check_passes(path: str, text: str) -> None:
    """Raises ArgumentError where a pass does not name the machine that it is for."""
    for element in dojoir.parse_pipeline(text, path):
        if isinstance(element, dojoir.Pass) and element.asks_for_machine:
            message = f"{path}: the pass {element} names no machine, such as {element.name}(avx2)"
            raise dojoir.ArgumentError(message, "bad-schedule")


def holds(condition: str, facts: Mapping[str, int]) -> bool:
    """Whether a condition is known to be met."""
    return bool(SizeCondition.parse(condition).holds(facts))


def _is_met(need: str, machine: dojoir.Machine) -> bool:
    """Whether a machine has what is needed."""
    facts = machine.facts
    return bool(facts[need]) if need in facts else holds(need, facts)
