"""The nests of a program shared out to kernels. What repeats, as the layers of a model do, is one kernel that runs
several times: it is planned and compiled once, however deep the model is."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import dojoir
from dojoir.torch.importer.element_values import ElementValue
from dojoir.torch.importer.graph import NoOperator
from dojoir.torch.importer.index import of_atom
from dojoir.torch.importer.nests import ImportedProgram, Node, ProgramBuffer, change, kernel_text, read, written
from dojoir.torch.importer.results import Lowered, buffers_of

MOST_NESTS = 24
"""How many nests a kernel has at most: what takes longer to plan is shared out to several."""

LEAST_SAVED = 12
"""How many nests must be there already for a repetition to be worth cuts of its own."""

LEAST_PERIOD = MOST_NESTS // 2
"""How many nests repeat at least: a kernel for each step of a chain could join none of them."""

AN_OPEN_SIZE = 64
"""The extent that an open size is assumed to be where buffers are compared."""


@dataclass(frozen=True)
class ProgramKernel:
    """One kernel of a program: its text, and the buffers of the program that it takes, each with its role, in
    declared order. Parts of one text are the same kernel with other buffers."""

    text: str
    arguments: tuple[tuple[str, str], ...]

    @cached_property
    def kernel(self) -> dojoir.Kernel:
        """Raises what `dojoir.parse` and `dojoir.prove` raise."""
        made = dojoir.parse(self.text)
        dojoir.prove(made)
        return made

    def of(self, arguments: tuple[tuple[str, str], ...]) -> ProgramKernel:
        """The same kernel with other buffers."""
        other = replace(self, arguments=arguments)
        other.__dict__["kernel"] = self.kernel
        return other


@dataclass(frozen=True)
class NestGroup:
    """Nests that are one kernel: their numbers. `repeats` says that others like them follow, or came before."""

    start: int
    stop: int
    repeats: bool = False


def share_out(lowered: Lowered, name: str, facts: dict[str, tuple[int, int | None]]) -> list[ProgramKernel]:
    """The kernels of a program, in the order in which they run. Raises NoOperator, with the operator that it was
    made for, where a text is not what a kernel may be."""
    program = lowered.program
    groups = groups_of(program)
    results = buffers_of(lowered.results)
    made: list[ProgramKernel] = []
    there: dict[str, ProgramKernel] = {}
    before = {one.buffer for one in lowered.inputs if one.buffer is not None} | set(lowered.constants)
    for number, group in enumerate(groups):
        nests = program.nests[group.start : group.stop]
        later = {b for nest in program.nests[group.stop :] for b in read(nest) | written(nest)}
        roles = _roles(nests, before, later | results)
        before |= {b for nest in nests for b in written(nest)}
        names = _names(nests, lowered.sizes) if group.repeats else {buffer: buffer for buffer in roles}
        text = _nameless(program, nests, roles, names, facts)
        arguments = _arguments(text, names)
        if text in there:
            made.append(there[text].of(arguments))
            continue
        named = name if len(groups) == 1 else f"{name}_{number + 1}"
        part = there[text] = ProgramKernel(text.replace(_NAMELESS, f"kernel {named}(", 1), arguments)
        try:
            _ = part.kernel
        except dojoir.KernelError as error:
            raise _refused(lowered, nests, facts, error) from error
        made.append(part)
    return made


_NAMELESS = "kernel nameless("


def _nameless(
    program: ImportedProgram,
    nests: Sequence[Node],
    roles: dict[str, str],
    names: dict[str, str],
    facts: dict[str, tuple[int, int | None]],
) -> str:
    """The kernel of some nests, whose buffers have other names."""
    buffers = {names[b]: replace(program.buffers[b], name=names[b]) for b in roles}

    def named(load: ElementValue) -> ElementValue:
        return ElementValue(names[load.buffer], load.index, load.dtype)

    nests = [change(nest, of_atom, named) for nest in nests]
    return kernel_text(
        "nameless", ImportedProgram(buffers), nests, {names[b]: role for b, role in roles.items()}, facts
    )


def _names(nests: Sequence[Node], sizes: Container[str]) -> dict[str, str]:
    """Names that follow from the order in which buffers come, and from their own without numbers: those of one
    layer are those of the next, and none is that of a size."""
    found: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for buffer in dict.fromkeys(load.buffer for nest in nests for load in nest.loads):
        stem = re.sub(r"\d+$", "", re.sub(r"_\d+(?=_|$)", "", buffer)).rstrip("_")
        counts[stem] += 1
        while f"{stem}_{counts[stem]}" in sizes:
            counts[stem] += 1
        found[buffer] = f"{stem}_{counts[stem]}"
    return found


def _arguments(text: str, names: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """The buffers of the program that a kernel takes, with their roles."""
    old = {new: buffer for buffer, new in names.items()}
    lines = (line.split() for line in text.splitlines())
    return tuple((old[words[1].partition(":")[0]], words[0]) for words in lines if words and words[0] in _ROLES)


_ROLES = ("in", "inout", "out")


def _refused(
    lowered: Lowered, group: Sequence[Node], facts: dict[str, tuple[int, int | None]], error: dojoir.KernelError
) -> NoOperator:
    """The error for a kernel that is refused. It names the operator that the first nest was made for which is
    refused by itself, or that of the last nest."""
    nest = group[-1]
    for one in group:
        text = kernel_text("one", lowered.program, [one], _roles([one], read(one), written(one)), facts)
        try:
            _ = ProgramKernel(text, ()).kernel
        except dojoir.KernelError as found:
            nest, error = one, found
            break
    node = lowered.origins[min(written(nest))]
    return NoOperator(node, f"the text that was made of it is refused: {error.diagnostic.message}")


def _roles(group: Sequence[Node], before: set[str], after: set[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for nest in group:
        for buffer in read(nest) | written(nest):
            is_written = any(buffer in written(other) for other in group)
            if buffer in before:
                found[buffer] = "inout" if is_written else "in"
            else:
                found[buffer] = "out" if buffer in after else "tmp"
    return found


# -- where to cut ----------------------------------------------------------------------------------------------
def groups_of(program: ImportedProgram) -> list[NestGroup]:
    """The nests of each kernel, in order. What writes one buffer stays together."""
    cuts = _Cuts.of(program)
    return [*_shared(cuts, 0, len(program.nests))]


@dataclass(frozen=True)
class _Cuts:
    """Facts of the nests of a program: which are alike, and what a cut before each of them costs."""

    kinds: tuple[int, ...]
    """Of each nest a number: those with one number are the same text but for the names of buffers."""

    crossing: tuple[int, ...]
    """The elements of buffers that are written before a nest, and read from there on."""

    may: tuple[bool, ...]
    """Whether a program may be cut before a nest: no buffer is written on both sides."""

    @classmethod
    def of(cls, program: ImportedProgram) -> _Cuts:
        count = len(program.nests)
        numbers: dict[str, int] = {}
        kinds = tuple(numbers.setdefault(_kind(program, nest), len(numbers)) for nest in program.nests)
        first: dict[str, int] = {}
        last_write: dict[str, int] = {}
        last_use: dict[str, int] = {}
        for number, nest in enumerate(program.nests):
            writes = written(nest)
            for buffer in writes:
                first.setdefault(buffer, number)
                last_write[buffer] = number
            for buffer in read(nest) | writes:
                last_use[buffer] = number
        crossing, parted = [0] * (count + 1), [False] * (count + 1)
        for buffer, start in first.items():
            size = _elements(program.buffers[buffer])
            for cut in range(start + 1, last_use[buffer] + 1):
                crossing[cut] += size
                parted[cut] |= cut <= last_write[buffer]
        return cls(kinds, tuple(crossing), tuple(not one for one in parted))


def _kind(program: ImportedProgram, nest: Node) -> str:
    names = {b: f"b{n}" for n, b in enumerate(dict.fromkeys(load.buffer for load in nest.loads))}
    return _nameless(program, [nest], dict.fromkeys(names, "in"), names, {})


def _elements(buffer: ProgramBuffer) -> int:
    count = 1
    for extent in buffer.shape:
        count *= AN_OPEN_SIZE if extent.constant is None else extent.constant
    return count


def _shared(cuts: _Cuts, start: int, stop: int) -> Iterator[NestGroup]:
    """Kernels of the nests from `start` to `stop`: those of what repeats, and of what stands before and behind."""
    found = _repetition(cuts, start, stop)
    bounds = [] if found is None else _pieces(cuts, *found)
    if found is None or any(b - a > MOST_NESTS for a, b in pairwise(bounds)):
        yield from _longest(cuts, start, stop)
        return
    begin, period, times = found
    yield from _shared(cuts, start, begin)
    for number in range(times):
        for a, b in pairwise(bounds):
            yield NestGroup(a + number * period, b + number * period, repeats=True)
    yield from _shared(cuts, begin + times * period, stop)


def _repetition(cuts: _Cuts, start: int, stop: int) -> tuple[int, int, int] | None:
    """Where most nests repeat: the first one, how many are repeated, and how many times they are there. Such a run
    begins where least passes from one kernel to the next."""
    best: tuple[int, int, int] | None = None
    saved = LEAST_SAVED - 1
    for period in range(LEAST_PERIOD, (stop - start) // 2 + 1):  # of a shorter one a multiple
        run = 0
        for number in range(start, stop - period):
            run = run + 1 if cuts.kinds[number] == cuts.kinds[number + period] else 0
            if run // period * period > saved:
                saved, best = run // period * period, (number + 1 - run, period, run // period + 1)
    if best is None:
        return None
    begin, period, times = best
    end = begin + period
    while end < stop and cuts.kinds[end] == cuts.kinds[end - period]:
        end += 1
    ways = []
    for shift in range(period):
        count = (end - begin - shift) // period
        places = range(begin + shift, begin + shift + count * period + 1, period)
        if count >= max(2, times - 1) and all(cuts.may[place] for place in places):
            ways.append((sum(cuts.crossing[p] for p in places[1:-1]) / (count - 1), -count, begin + shift))
    if not ways:
        return None
    _, less, first = min(ways)
    return first, period, -less


def _pieces(cuts: _Cuts, start: int, period: int, times: int) -> list[int]:
    """Bounds of the kernels of the first period, each of at most MOST_NESTS nests where all periods may be cut
    there: where least passes from one to the next."""
    stop = start + period
    count = -(-period // MOST_NESTS)
    bounds = [start]
    for number in range(1, count):
        least = max(stop - (count - number) * MOST_NESTS, bounds[-1] + 1)
        most = min(bounds[-1] + MOST_NESTS, stop - (count - number))
        shared = [p for p in range(least, most + 1) if all(cuts.may[p + n * period] for n in range(times))]
        if shared:
            bounds.append(min(shared, key=lambda place: cuts.crossing[place]))
    return [*bounds, stop]


def _longest(cuts: _Cuts, start: int, stop: int) -> Iterator[NestGroup]:
    """Runs of nests that end where least passes to the next one, each at least half as long as it may be, where
    the program may be cut there."""
    while start < stop:
        most = start + MOST_NESTS
        ends = [n for n in range(start + 1, most + 1) if n < stop and cuts.may[n]]
        late = [n for n in ends if n >= start + MOST_NESTS // 2]
        if stop <= most:
            end = stop
        elif late:
            end = min(late, key=lambda place: (cuts.crossing[place], -place))
        elif ends:
            end = ends[-1]
        else:
            end = next(n for n in range(most, stop + 1) if n == stop or cuts.may[n])
        yield NestGroup(start, end)
        start = end
