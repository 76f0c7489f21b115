"""Stored schedules: the moves that make a kernel fast on a target, and `optimize`, which picks them.

What comes with dojoir was measured to be faster than `default_schedule` for the target, which is what all other
kernels and targets get: a schedule is stored where a rule for all texts does not see what a person sees.

A schedule is a file of moves, as `dojoir-opt -p @FILE` takes it, whose first comments say what it is for:

    # kernel: softmax            a kernel of the library, or the hash of any other
    # targets: llvm c            the targets it was made for; llvm@znver*: on such processors, by LLVM's names
    # when: M >= 64, N % 8 == 0  where it is the better one; may be left out
    # when: threads == 1         or here
    # fp: fast                   the fp mode of the kernel, if it is not that of the library

A condition compares a size, a size % a number, or `threads`, how many there are, with a number. All of a line have
to be met, and one line of several.

The file is called as the kernel, with more words after a dot where there are several: `softmax.moves`,
`softmax.short.moves`. What is for this very processor is the first choice, then what has a `when`. Passes in it are
for the target that they name, not for that of the caller.
"""

from __future__ import annotations

import itertools
import operator
import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.resources import files
from pathlib import Path

import dojoir

VARIABLE = "DOJOIR_SCHEDULES"
"""Folders to search before those that come with dojoir, separated as in PATH."""

SMALL = 1 << 17
"""A kernel that runs fewer statements is done before other threads have begun: some ten microseconds."""

_HEADER = re.compile(r"#\s*(kernel|targets|when|fp):\s*(.*)")
_CONDITION = re.compile(r"([A-Za-z_]\w*)(?:\s*%\s*0*([1-9]\d*))?\s*(==|!=|<=|>=|<|>)\s*(\d+)")
_RELATIONS = {
    "==": operator.eq, "!=": operator.ne, "<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt,
}  # fmt: skip
_IN_NAMES = {"%": " mod "} | {relation: f" {function.__name__} " for relation, function in _RELATIONS.items()}


@dataclass(frozen=True)
class Schedule:
    """A stored schedule: where it is from, the kernel (a name in the library or a hash), the targets, the
    conditions on sizes and threads by line, the moves as text, and the fp mode if it is not that of the library."""

    path: str
    kernel: str
    targets: tuple[str, ...]
    when: tuple[tuple[str, ...], ...]
    moves: str
    fp: str = ""

    def fits(self, kernel: dojoir.Kernel, target: str, sizes: Mapping[str, int]) -> bool:
        """Whether it is for this kernel on this target. `sizes` has what is known, `threads` with it; a condition
        on what is not counts as met."""
        if target not in self.targets and not self.is_tuned(target):
            return False
        if self.when and not any(all(_holds(text, sizes) for text in line) for line in self.when):
            return False
        if self.kernel == kernel.hash:
            return True
        if self.kernel != kernel.name or self.kernel not in dojoir.kernels.names():
            return False
        fixed = {size.name: size.value for size in kernel.sizes if size.value is not None}
        library = dojoir.kernels.load(self.kernel, **fixed)
        return (library.with_fp(self.fp) if self.fp else library) == kernel

    def is_tuned(self, target: str) -> bool:
        """Whether it is for this target on processors such as that of this machine."""
        entries = (entry.partition("@") for entry in self.targets)
        return any(name == target and at and fnmatchcase(dojoir.processor(), cpu) for name, at, cpu in entries)

    def on(self, kernel: dojoir.Kernel) -> dojoir.Trace:
        """A new trace of the kernel with these moves. Raises IllegalMove where one does not fit after all."""
        trace = dojoir.Trace(kernel)
        for element in dojoir.parse_pipeline(self.moves, self.path):
            if isinstance(element, dojoir.Pass):
                element(trace)
            else:
                trace.apply(element)
        return trace


def optimize(
    kernel: dojoir.Kernel,
    target: str = "llvm",
    *,
    sizes: Mapping[str, int] | None = None,
    threads: int | None = None,
    folders: Sequence[str | os.PathLike[str]] = (),
) -> dojoir.Trace:
    """The kernel with the stored schedule that fits it best, or with `default_schedule` for the target where none
    does.

    `sizes` are the runtime sizes that it will mostly run at, as far as they are known. Where they all are, and so
    small that there is less to do than a second thread needs to begin, the kernel stays on one core, and what comes
    with dojoir is passed over. `threads` is how many it will run on; by default as many as `compile` takes.
    `folders` are searched first, then those of the variable DOJOIR_SCHEDULES, then what comes with dojoir; what
    names the processor of this machine goes before what does not. Where sizes are fixed so that the moves of one
    that comes with dojoir do not fit, the next is taken. Raises KernelError for an ill-formed kernel, ArgumentError
    for an unknown target, a number of threads that there cannot be or a stored schedule that cannot be read,
    IllegalMove for one of the caller's whose moves do not fit the kernel that it names.
    """
    fixed = {size.name: size.value for size in kernel.sizes if size.value is not None}
    known = {"threads": dojoir.thread_count(threads), **fixed, **(sizes or {})}
    if given := _fitting(_given(kernel.name, folders), kernel, target, known):
        return given[0].on(kernel)
    default = dojoir.PASSES["default_schedule"].given(target)
    if is_small(kernel, known):
        trace = default.on(kernel)
        while trace.moves and trace.moves[-1].name == "parallelize":  # the last moves that it makes
            trace.undo()
        return trace
    for own in _fitting(_own(kernel.name), kernel, target, known):
        with suppress(dojoir.DojoError):  # sizes that are fixed may leave a place of a move without a scope
            return own.on(kernel)
    return default.on(kernel)


def _fitting(
    found: Iterable[Schedule], kernel: dojoir.Kernel, target: str, sizes: Mapping[str, int]
) -> list[Schedule]:
    """Those that fit, what is for this very processor first."""
    fitting = [schedule for schedule in found if schedule.fits(kernel, target, sizes)]
    return sorted(fitting, key=lambda schedule: not schedule.is_tuned(target))


def is_small(kernel: dojoir.Kernel, sizes: Mapping[str, int]) -> bool:
    """Whether all sizes are known, and other threads are of no use at them."""
    if not all(name in sizes for name in kernel.runtime_sizes):
        return False
    return dojoir.cost(kernel).instances(sizes) < SMALL


def schedules(name: str, folders: Iterable[str | os.PathLike[str]] = ()) -> list[Schedule]:
    """The stored schedules for kernels of a name, in the order in which `optimize` looks at them."""
    return [*_given(name, folders), *_own(name)]


def _given(name: str, folders: Iterable[str | os.PathLike[str]]) -> list[Schedule]:
    """Those in the folders of the caller, then in those of the variable."""
    variable = [folder for folder in os.environ.get(VARIABLE, "").split(os.pathsep) if folder]
    found: list[Schedule] = []
    for place in (Path(folder) for folder in (*folders, *variable)):
        if not place.is_dir():
            raise dojoir.ArgumentError(f"there is no folder {place} of schedules", "cannot-read")
        mine = [_read(str(path), path.read_text(encoding="utf-8")) for path in sorted(place.glob("*.moves"))
                if path.name.split(".")[0] == name]  # fmt: skip
        found += sorted(mine, key=lambda schedule: not schedule.when)
    return found


def _own(name: str) -> list[Schedule]:
    """Those that come with dojoir."""
    found = [
        _read(entry.name, entry.read_text(encoding="utf-8"))
        for entry in sorted(files(__name__).iterdir(), key=lambda entry: entry.name)
        if entry.name.endswith(".moves") and entry.name.split(".")[0] == name
    ]
    return sorted(found, key=lambda schedule: not schedule.when)


def store(
    trace: dojoir.Trace, target: str, folder: str | os.PathLike[str], *, when: Sequence[str] = (), note: str = ""
) -> Path:
    """Writes the moves of a trace as a schedule for its kernel, whole or not at all, and returns its file. One for
    the same kernel, target and conditions is replaced. `note` becomes a comment. Raises ArgumentError."""
    for text in when:
        _check("when", text)
    conditions = (re.sub(r"[=!<>]=|[<>%]", lambda found: _IN_NAMES[found[0]], text) for text in when)
    words = re.sub(r"\W+", "_", "_".join([target, *conditions])).strip("_")
    path = Path(folder) / f"{trace.start.name}.{trace.start.hash[:8]}_{words}.moves"
    lines = [f"# {line}" for line in note.splitlines()]
    lines += [f"# kernel: {trace.start.hash}", f"# targets: {target}"]
    lines += [f"# when: {', '.join(when)}"] if when else []
    text = "\n".join([*lines, *map(str, trace.moves)]) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError as error:
        raise dojoir.ArgumentError(f"cannot write {path}: {error.strerror or error}", "cannot-write") from None
    return path


def _read(path: str, text: str) -> Schedule:
    """A schedule from the text of its file. Raises ArgumentError where it does not say, once, what it is for, or
    where a condition is none."""
    header: dict[str, list[str]] = {}
    for line in text.splitlines():
        if match := _HEADER.fullmatch(line.strip()):
            header.setdefault(match[1], []).append(match[2].strip())
    for word in ("kernel", "targets"):
        if not header.get(word, [""])[0]:
            raise dojoir.ArgumentError(f"{path} is no schedule: it has no line '# {word}: …'", "bad-schedule")
    for word in ("kernel", "targets", "fp"):
        if len(header.get(word, ())) > 1:
            raise dojoir.ArgumentError(f"{path} has more than one line '# {word}: …'", "bad-schedule")
    lines = ([part.strip() for part in line.split(",") if part.strip()] for line in header.get("when", ()))
    when = tuple(tuple(line) for line in lines if line)
    for condition in itertools.chain(*when):
        _check(path, condition)
    (fp,) = header.get("fp", [""])
    return Schedule(path, header["kernel"][0], tuple(header["targets"][0].split()), when, text, fp)


def _check(place: str, condition: str) -> None:
    """Raises ArgumentError where a text is no condition."""
    if _CONDITION.fullmatch(condition.strip()) is None:
        raise dojoir.ArgumentError(
            f"{place}: '{condition}' is not a condition such as N >= 64, N % 16 == 0 or threads == 1",
            "bad-schedule",
        )


def _holds(condition: str, sizes: Mapping[str, int]) -> bool:
    """Whether a condition is met, as far as is known."""
    match = _CONDITION.fullmatch(condition.strip())
    assert match is not None, condition
    name, divisor, relation, number = match.groups()
    if name not in sizes:
        return True
    value = sizes[name] % int(divisor) if divisor else sizes[name]
    return bool(_RELATIONS[relation](value, int(number)))
