"""Loop nests that are one loop over contiguous memory, as the rows of an image are one long row: collapsed and run
in lanes.

Where a scope in lanes is the only child of a scope that does nothing else, and each element that they visit is next
to the one before, from the end of a row to the beginning of the next as well, the lowering makes one loop of the
nest. Lanes are then full but for the last few of all, not of each row. The extent of that loop is a product of
sizes, which the text of a kernel cannot say; so this is no move. What lanes add up in one element, in any order,
is added up over all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from dojoir.codegen.lir.arith import affine_value, along, integer, least, mul
from dojoir.codegen.lir.program import Value
from dojoir.codegen.lower.access.state import LoweringState, LoweringUnit, Memory
from dojoir.codegen.lower.plans.plan import fixed_lanes
from dojoir.ir.affine import Affine
from dojoir.ir.expressions import parts
from dojoir.ir.nodes import Access, Expr, Index, Node, Path, Scope, Statement, accesses_in
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class ContiguousNest:
    """Scopes inside each other that are one loop: their places, outermost first, and their extents. The last one
    runs in lanes; with 0 for the iterators of the others, its own counts the elements from the first on."""

    paths: tuple[Path, ...]
    extents: tuple[Affine, ...]

    def stop(self, iterators: Sequence[Value]) -> Value:
        """How often the loop runs."""
        total: Value = integer(1)
        for extent in self.extents:
            total = mul(total, affine_value(extent, iterators))
        return total


def contiguous_nest(unit: LoweringUnit, path: Path, scope: Scope, state: LoweringState) -> ContiguousNest | None:
    """The nest of the scope at `path` that is one loop, if there is one. `state` is that around it."""
    nest = _nest(unit, path, scope, len(state.iterators))
    if nest is None:
        return None
    last = unit.kernel.at(nest.paths[-1])
    assert isinstance(last, Scope)
    check = _Check(unit, state, nest, range(len(state.iterators), len(state.iterators) + len(nest.paths)))
    return nest if check.allows(last.body) else None


def _nest(unit: LoweringUnit, path: Path, scope: Scope, depth: int) -> ContiguousNest | None:
    """The scopes down to the first that runs in lanes, if they have no other children and one extent each, in the
    iterators around all of them: those below `depth`."""
    paths: list[Path] = []
    extents: list[Affine] = []
    while True:
        (extent, *others) = scope.extent.bounds
        low = least(extent)
        if others or low is None or low < 0 or not extent.iterators.isdisjoint(range(depth, depth + len(paths))):
            return None
        paths.append(path)
        extents.append(extent)
        if path in unit.plans:
            several = len(paths) > 1 and fixed_lanes(scope) is None
            return ContiguousNest(tuple(paths), tuple(extents)) if several else None
        if scope.marks or scope.hints:
            return None
        match scope.body:
            case (Scope() as child,):
                path, scope = (*path, 0), child
            case _:
                return None


@dataclass(frozen=True)
class _Check:
    """Whether statements mean the same in one loop in lanes: the iterators of the nest are those at `depths`."""

    unit: LoweringUnit
    state: LoweringState
    nest: ContiguousNest
    depths: range

    @cached_property
    def sums(self) -> frozenset[Access]:
        """The elements that the lanes add up in, in any order: a longer loop does so too."""
        kernel, plan = self.unit.kernel, self.unit.plans[self.nest.paths[-1]]
        found = (kernel.at(path) for accumulator in plan.accumulators for path in accumulator.paths)
        return frozenset(node.target for node in found if isinstance(node, Statement))

    def allows(self, body: tuple[Node, ...]) -> bool:
        statements = [node for node in body if isinstance(node, Statement)]
        accesses = list(accesses_in(body))
        written = {statement.target for statement in statements}
        return (
            len(statements) == len(body)
            and not any(self._counts(statement.value) for statement in statements)
            and all(self._is_own(access) or self._is_in_order(access, access in written) for access in accesses)
            and all(self._is_written_alike(access, accesses) for access in written)
        )

    def _uses(self, index: Affine) -> bool:
        return not index.iterators.isdisjoint(self.depths)

    def _counts(self, value: Expr) -> bool:
        """Whether an iterator of the nest is used as a number."""
        return any(isinstance(part, Index) and self._uses(part.affine) for part in parts(value))

    def _is_own(self, access: Access) -> bool:
        """Whether it is to a variable of each iteration."""
        home = self.unit.homes.get(access.buffer)
        return home is not None and home.is_variable and home.owner == self.nest.paths[-1]

    def _is_in_order(self, access: Access, is_written: bool) -> bool:
        """Whether each iteration of the nest visits the element after that of the one before; or, where it only
        reads, all the same element."""
        indices = [index for index in access.indices if isinstance(index, Affine)]
        if len(indices) != len(access.indices):
            return False
        moving = [d for d, index in enumerate(indices) if self._uses(index)]
        if not moving:
            return not is_written or access in self.sums
        place = self.state.places.get(access.buffer)
        if not isinstance(place, Memory) or place.layout.steps:
            return False
        stored = place.layout.stored[-len(self.depths) :]
        inner = zip(stored[1:], self.nest.extents[1:], strict=False)  # as many, or refused
        return (
            len(stored) == len(self.depths)
            and sorted(d for d, _ in stored) == moving
            and all(self._follows(indices[d], depth) for (d, _), depth in zip(stored, self.depths, strict=True))
            and all(extent == whole for (_, extent), whole in inner)
        )

    def _follows(self, index: Affine, depth: int) -> bool:
        """Whether an index grows with the iterator at `depth`, and with no other of the nest."""
        return along(index, depth) == (1, True) and index.iterators.isdisjoint(set(self.depths) - {depth})

    def _is_written_alike(self, target: Access, accesses: Sequence[Access]) -> bool:
        """Whether what is written is touched at the same place of each iteration only, so that none sees what
        another one writes."""
        mine = [access for access in accesses if access.buffer == target.buffer]
        return self._is_own(target) or all(access == target or self._is_apart(access, target) for access in mine)

    def _is_apart(self, one: Access, other: Access) -> bool:
        """Whether two accesses to a buffer are to different elements, whichever iterations make them."""
        place = self.state.places[one.buffer]
        assert isinstance(place, Memory)
        pairs = [(one.indices[d], other.indices[d]) for d, _ in place.layout.stored[: -len(self.depths)]]
        differences = [a - b for a, b in pairs if isinstance(a, Affine) and isinstance(b, Affine)]
        return any(difference.is_constant and difference.offset != 0 for difference in differences)
