"""Partial tiles that run with all their lanes: the lanes beyond the edge read memory that is there, and nobody
reads what they write.

Where a target has no masks, the `min(16, M - 16*{0})` iterations of a tile at the edge would run one by one, with
their sums in memory. Where the elements that the other lanes would touch exist and are nobody's, all 16 run there
too, in registers.
"""

from __future__ import annotations

from dojoir.codegen.lower.access.state import LoweringUnit
from dojoir.codegen.lower.plans.placement import BufferMention, Home
from dojoir.codegen.lower.plans.plan import fixed_lanes
from dojoir.ir.affine import Affine
from dojoir.ir.expressions import parts
from dojoir.ir.nodes import Access, Guard, Index, Node, Path, Scope, Statement

ONE = Affine.constant(1)


def may_run_whole(unit: LoweringUnit, path: Path) -> bool:
    """Whether the scope at `path`, one in lanes with a constant bound, may run as often as that says wherever it
    runs at all. Whatever it reads in the lanes beyond its extent has memory, and what it writes there nobody reads.

    So it is where it has statements on floats alone, of which each access is a read of an element that all lanes
    share. Or it is the element of a temporary at the index of the lane, in a dimension as long as the bound. And
    where a temporary that is written has a first value in each iteration of the scopes that its extent depends on,
    and all uses, the first one too, go through the same elements."""
    scope = unit.kernel.at(path)
    assert isinstance(scope, Scope)
    lanes, depth = fixed_lanes(scope), unit.kernel.depth_of(path)
    statements = _statements(scope.body, depth)
    return lanes is not None and statements is not None and all(
        not any(isinstance(part, Index) for part in parts(statement.value))
        and all(_exists(unit, access, depth, lanes) for access in statement.accesses)
        and any(index == Affine.iterator(depth) for index in statement.target.indices)
        and _is_gone_through_alike(unit.homes[statement.target.buffer])
        for statement in statements
    )  # fmt: skip


def _statements(nodes: tuple[Node, ...], depth: int) -> list[Statement] | None:
    """The statements of a scope and of its guards; None where other scopes are among them, or a condition tells
    the iterations at `depth` apart."""
    found: list[Statement] = []
    for node in nodes:
        match node:
            case Statement():
                if node.condition is not None:
                    return None
                found.append(node)
            case Guard(conditions, body):
                sides = [side for c in conditions for side in (c.left, c.right)]
                inner = _statements(body, depth)
                if inner is None or any(depth in side.iterators for side in sides):
                    return None
                found += inner
            case _:
                return None
    return found


def _exists(unit: LoweringUnit, access: Access, depth: int, lanes: int) -> bool:
    """Whether all lanes share the element of an access, or there is one in memory for each of so many; of floats,
    which no value of another lane makes a trap of."""
    buffer = unit.kernel.buffer(access.buffer)
    indices = [index for index in access.indices if isinstance(index, Affine)]
    if not buffer.dtype.is_float or len(indices) != len(access.indices):
        return False
    along = [d for d, index in enumerate(indices) if depth in index.iterators]
    if not along:
        return True
    dim = buffer.dims[along[0]]
    plain = len(along) == 1 and indices[along[0]] == Affine.iterator(depth) and not dim.collapsed
    return plain and buffer.role == "tmp" and dim.extent.is_constant and dim.extent.offset >= lanes


def _is_gone_through_alike(home: Home) -> bool:
    """Whether the first use of a temporary gives values to a box of it, in each iteration of the scopes that the
    extents of that depend on. It also asks whether each other use is of the elements of the box."""
    first = home.uses[0]
    statement, known = first.site.statement, len(home.around)
    inside = first.site.ancestors[len(first.site.ancestors) - (len(first.site.scopes) - known) :]
    if (
        not first.writes
        or statement.accumulation is not None
        or not all(isinstance(node, Scope) for node in inside)
    ):
        return False
    box = _box(home, first, known)
    return box is not None and all(_is_in_box(home, use, first, box) for use in home.uses[1:])


def _box(home: Home, use: BufferMention, known: int) -> dict[int, int] | None:
    """The depths of the scopes inside of all uses that a use goes along, by dimension; None where it goes through
    no box that is the same in each iteration of those around. Dimensions with one element do not count."""
    found: dict[int, int] = {}
    for d, (index, dim) in enumerate(zip(use.access.indices, home.buffer.dims, strict=True)):
        if dim.extent == ONE:
            continue
        depths = [i for i in range(known, len(use.site.scopes)) if index == Affine.iterator(i)]
        if len(depths) != 1 or dim.collapsed:
            return None
        found[d] = depths[0]
    bounds = [bound for i in found.values() for bound in use.site.scopes[i].extent.bounds]
    fixed = all(i < known for bound in bounds for i in bound.iterators)
    return found if fixed and len(set(found.values())) == len(found) else None


def _is_in_box(home: Home, use: BufferMention, first: BufferMention, box: dict[int, int]) -> bool:
    """Whether a use goes along scopes of the extents of the first one, or along the very scopes where it shares
    them."""
    own = _box(home, use, len(home.around))
    if own is None:
        return False
    shared = 0
    for one, other in zip(first.site.scopes, use.site.scopes, strict=False):
        if one is not other:
            break
        shared += 1
    pairs = [(box[d], own[d]) for d in box]
    return all(
        mine == its if min(mine, its) < shared else first.site.scopes[its].extent == use.site.scopes[mine].extent
        for its, mine in pairs
    )
