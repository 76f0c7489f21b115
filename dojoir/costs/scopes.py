"""The cost of each scope of a kernel at given sizes, from its text alone: as exact as `dojoir.search.features`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil, prod

from dojoir.backends.machine import Machine
from dojoir.costs.cycles import CostedScope, Cycles
from dojoir.costs.features import CountedTree, EnclosingScope
from dojoir.ir.nodes import Kernel, Node, Path, Scope, Statement, format_path
from dojoir.ir.packing import in_halves
from dojoir.meaning.sizes import solve
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class ScopeWork:
    """A scope: its `place`, its `line` (from 1) in the text and how that reads. Then how often its body runs
    in all, and what is done there: operations on floats or integers (`work`), bytes loaded and stored
    (`accessed`), bytes of the lines of memory that one run of the whole scope touches (`footprint`), and the share
    of the time of the kernel that an estimate from the text gives it."""

    place: str
    line: int
    text: str
    runs: int
    work: int
    accessed: int
    footprint: int
    share: float


def scopes(kernel: Kernel, sizes: Mapping[str, int], machine: Machine) -> list[ScopeWork]:
    """The scopes of a kernel in the order of its text. Raises ArgumentError for sizes that do not fit it."""
    kernel = in_halves(kernel)
    given = solve(kernel, {}, sizes)
    cycles = Cycles(CountedTree(kernel, given, machine))
    whole = cycles.nodes(kernel.body, (), ()).cycles
    numbers = {path: (n, text) for n, (path, text) in enumerate(kernel.lines(), 1) if path}
    found: list[ScopeWork] = []
    for path, scope, loops, levels in _scopes(cycles, kernel):
        counted = CountedTree(kernel, given, machine)
        trips = tuple(loop.trips for loop in loops)
        times = prod(trips)
        at_once = prod(min(loop.trips, max(1, machine.cores)) for loop in loops if "p" in loop.marks)
        counted.visit((scope,), loops, times)
        steps = prod(ceil(level.trips / level.lanes) for level in levels if not level.flat)
        own = cycles.scope(scope, loops, levels).cycles * steps / max(1, at_once)
        runs = times * counted.trips(scope, trips)
        number, text = numbers[path]
        found.append(
            ScopeWork(
                format_path(path), number, text, runs, round(counted.found.get("flops", 0.0)),
                round(counted.found.get("accessed", 0.0)), counted.footprint((scope,), trips, len(trips)),
                min(1.0, own / whole) if whole else 0.0,
            )
        )  # fmt: skip
    return found


def _scopes(
    cycles: Cycles, kernel: Kernel
) -> Iterator[tuple[Path, Scope, tuple[EnclosingScope, ...], tuple[CostedScope, ...]]]:
    """Each scope with those around it, and what becomes of these."""

    def inside(
        nodes: tuple[Node, ...], prefix: Path, loops: tuple[EnclosingScope, ...], levels: tuple[CostedScope, ...]
    ) -> Iterator[tuple[Path, Scope, tuple[EnclosingScope, ...], tuple[CostedScope, ...]]]:
        for n, node in enumerate(nodes):
            path = (*prefix, n)
            if isinstance(node, Scope):
                yield path, node, loops, levels
                trips = cycles.counted.trips(node, tuple(one.trips for one in loops))
                around = (*loops, EnclosingScope(trips, node.marks))
                yield from inside(node.body, path, around, (*levels, cycles.level(node, trips, levels)))
            elif not isinstance(node, Statement):
                yield from inside(node.body, path, loops, levels)

    yield from inside(kernel.body, (), (), ())


def hottest_lines(kernel: Kernel, found: list[ScopeWork]) -> tuple[int, ...]:
    """The numbers of the lines of the innermost scope with the largest share, and of what stands in it."""
    innermost = [
        one for one in found if not any(other.place.startswith(f"{one.place}.") for other in found)
    ]  # fmt: skip
    if not innermost:
        return ()
    hot = max(innermost, key=lambda one: one.share)
    inside = [n for n, (path, _) in enumerate(kernel.lines(), 1)
              if f"{format_path(path)}.".startswith(f"{hot.place}.")]  # fmt: skip
    return tuple(inside)
