"""Hints to fetch: what `prefetch(x, 8)` on a scope asks of the caches at the beginning of its iterations."""

from __future__ import annotations

from collections.abc import Sequence

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.arith import add, affine_value, extent_value, integer
from dojoir.codegen.lir.program import INDEX, LINE, Value, Var
from dojoir.codegen.lower.access.state import Block, LoweringState, LoweringUnit, Memory
from dojoir.codegen.lower.access.stream import is_contiguous
from dojoir.codegen.lower.plans.placement import BufferMention
from dojoir.ir import hints
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Access, Extent, Path, Scope, substitute_access, substitute_extent, substitute_iterators
from dojoir.ir.paths import is_inside
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class FetchSpan:
    """A range of iterations that are prefetched for together: from `start` up to `stop`, which it does not
    reach."""

    start: Value
    stop: Value


def fetch_ahead(
    unit: LoweringUnit, path: Path, scope: Scope, state: LoweringState, block: Block, span: FetchSpan | None = None
) -> None:
    """Emits what the hints of the scope at `path` ask for. `state` is that of its body; its iteration is the one
    there, all lanes of it if it runs in lanes, or those of `span`."""
    for hint in scope.hints:
        match hint:
            case hints.Prefetch(buffer, distance):
                place = state.places.get(buffer)
                if isinstance(place, Memory) and place.copies == 1:
                    _Ahead(unit, path, state, place, distance, span).fetch(block)
            case _:
                pass  # the scope is spelled as the instruction, or lowered as any other


class _Ahead:
    """Fetches for one buffer."""

    def __init__(
        self,
        unit: LoweringUnit,
        path: Path,
        state: LoweringState,
        place: Memory,
        distance: int,
        span: FetchSpan | None,
    ) -> None:
        self.unit, self.path, self.state, self.place, self.span = unit, path, state, place, span
        self.depth = len(state.iterators) - 1
        self.later = substitute_iterators({self.depth: Affine.iterator(self.depth) + distance})
        self.line = max(1, LINE // self.unit.arrays[place.array].dtype.itemsize)

    def fetch(self, block: Block) -> None:
        """Each line that the accesses touch, once as far as their text shows."""
        uses = [use for use in self._uses() if _is_affine(use.access) and self._moves(use.access)]
        done: set[tuple[tuple[Affine, ...], frozenset[int]]] = set()
        for use in uses:
            loops = self._loops(use)
            key = (self._rounded(use.access), frozenset(loops))
            if key not in done:
                done.add(key)
                write = any(other.writes and self._rounded(other.access) == key[0] for other in uses)
                self._fetch(substitute_access(use.access, self.later), loops, write, block)

    def _uses(self) -> list[BufferMention]:
        uses = self.unit.uses[self.place.layout.buffer.name]
        return [use for use in uses if is_inside(use.site.path, self.path)]

    def _moves(self, access: Access) -> bool:
        """Whether the access is to another element in another iteration. Otherwise a prefetch gains nothing."""
        dims = self.place.layout.buffer.dims
        return any(
            isinstance(index, Affine) and self.depth in index.iterators and not dim.collapsed
            for index, dim in zip(access.indices, dims, strict=True)
        )

    def _loops(self, use: BufferMention) -> dict[int, Extent]:
        """The scopes inside, by depth, over which the access moves, or on which the extents of such depend."""
        wanted = {d for index in use.access.indices if isinstance(index, Affine) for d in index.iterators}
        extents: dict[int, Extent] = {}
        for d in range(len(use.site.scopes) - 1, self.depth, -1):
            if d in wanted:
                extents[d] = substitute_extent(use.site.scopes[d].extent, self.later)
                wanted |= {inner for bound in extents[d].bounds for inner in bound.iterators}
        return dict(sorted(extents.items()))

    def _rounded(self, access: Access) -> tuple[Affine, ...]:
        """The indices to prefetch: the offset in the innermost dimension is rounded down to a cache line, so
        that accesses which are close to each other share one prefetch."""
        last = self.place.layout.stored[-1][0]
        return tuple(
            index + (index.offset // self.line * self.line - index.offset) if d == last else index
            for d, index in enumerate(access.indices)
            if isinstance(index, Affine)
        )

    def _fetch(self, access: Access, loops: dict[int, Extent], write: bool, block: Block) -> None:
        iterators = list(self.state.iterators)
        if self.span is not None:
            step = self.line if is_contiguous(access, self.place, self.depth) else 1
            var = Var(INDEX, self.unit.names.loop("ahead", tuple(iterators)))
            inner = Block()
            self._inside(access, loops, [*iterators[:-1], var], write, inner)
            block.emit(lir.For(var, self.span.start, self.span.stop, step, inner.body))
        else:
            self._inside(access, loops, iterators, write, block)

    def _inside(
        self, access: Access, loops: dict[int, Extent], iterators: list[Value], write: bool, block: Block
    ) -> None:
        """The scopes inside, outermost first; then one line, or those of all lanes."""
        if loops:
            depth = min(loops)
            iterators = iterators + [integer(0)] * (depth - len(iterators))
            rest = {d: extent for d, extent in loops.items() if d != depth}
            step = self.line if is_contiguous(access, self.place, depth) else 1
            var = Var(INDEX, self.unit.names.loop("ahead", tuple(iterators)))
            inner = Block()
            self._inside(access, rest, [*iterators, var], write, inner)
            block.emit(lir.For(var, integer(0), extent_value(loops[depth], iterators), step, inner.body))
            return
        lanes = self.state.lanes
        steps: Sequence[int] = (0,)
        if lanes is not None and any(lanes.depth in i.iterators for i in access.indices if isinstance(i, Affine)):
            steps = range(0, lanes.count, self.line if is_contiguous(access, self.place, lanes.depth) else 1)
        for step in steps:
            here = list(iterators)
            if lanes is not None:
                here[lanes.depth] = add(here[lanes.depth], integer(step))
            indices = [affine_value(i, here) if isinstance(i, Affine) else integer(0) for i in access.indices]
            block.emit(lir.Prefetch(self.place.array, self.place.layout.offset(indices), write))


def _is_affine(access: Access) -> bool:
    return not any(isinstance(index, Access) for index in access.indices)
