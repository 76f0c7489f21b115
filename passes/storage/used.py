"""The part of a box that a node uses: how far in each dimension, and under which conditions.

A copy of a part of an argument that a call gets back must leave alone what the node does: a triangle, or what a
guard lets through, is copied in and back as such. So the extents and guards inside of the node become those of the
nest that copies, where the iterators that they name count through dimensions of the box.
"""

from __future__ import annotations

from collections.abc import Sequence

from dojoir.ir.affine import Affine
from dojoir.ir.nodes import (
    Access,
    Condition,
    Extent,
    Guard,
    Kernel,
    Path,
    Scope,
    Site,
    substitute_condition,
    substitute_iterators,
)
from dojoir.ir.paths import is_inside
from dojoir.sets.ranges import is_nonnegative
from dojoir.support.frozen import dataclass

ONE = Affine.constant(1)


@dataclass(frozen=True)
class Part:
    """A part of a box, in the iterators of a nest with a scope for each dimension: the extent of each, None where
    it is not seen, and conditions that hold of all elements."""

    extents: tuple[Extent | None, ...]
    conditions: tuple[Condition, ...]


def used_part(
    kernel: Kernel, path: Path, name: str, bases: Sequence[Affine], steps: Sequence[int], written: bool = False
) -> Part:
    """The part that the node at a path uses, or writes, of the box of a buffer: as far as all accesses agree."""
    parts = [
        _used_by(access, site, path, bases, steps)
        for site in kernel.sites
        if is_inside(site.path, path)
        for access in ((site.statement.target,) if written else site.statement.accesses)
        if access.buffer == name
    ]
    extents = ({part.extents[d] for part in parts} for d in range(len(bases)))
    conditions = parts[0].conditions if parts else ()
    return Part(
        tuple(found.pop() if len(found) == 1 else None for found in extents),
        tuple(c for c in conditions if all(c in part.conditions for part in parts)),
    )


def _used_by(access: Access, site: Site, path: Path, bases: Sequence[Affine], steps: Sequence[int]) -> Part:
    inside = site.ancestors[len(path) - 1 :]
    depth = len(site.scopes) - sum(isinstance(node, Scope) for node in inside)
    dims, ahead = _counted(access, bases, steps, depth)
    new = substitute_iterators({d: Affine.iterator(depth + dim) - ahead[d] for d, dim in dims.items()})
    extents: list[Extent | None] = [None] * len(bases)
    conditions = [c for node in inside if isinstance(node, Guard) for c in node.conditions]
    for d, scope in enumerate(site.scopes[depth:], depth):
        bounds, itself = scope.extent.bounds, Affine.iterator(d)
        if d not in dims:
            around = site.scopes[:d]
            conditions += [Condition(b, ">=", ONE) for b in bounds if not is_nonnegative(b - ONE, around)]
        elif all(i < depth or dims.get(i, len(dims)) < dims[d] for bound in bounds for i in bound.iterators):
            extents[dims[d]] = Extent(tuple(bound.substitute(new) + ahead[d] for bound in bounds))
        else:
            conditions += [Condition(itself, "<", bound) for bound in bounds]
    told = (c for c in conditions if all(i < depth or i in dims for i in c.left.iterators | c.right.iterators))
    begin = (Condition(Affine.iterator(depth + dims[d]), ">=", Affine.constant(n)) for d, n in ahead.items() if n)
    return Part(tuple(extents), tuple(dict.fromkeys((*begin, *(substitute_condition(c, new) for c in told)))))


def _counted(
    access: Access, bases: Sequence[Affine], steps: Sequence[int], depth: int
) -> tuple[dict[int, int], dict[int, int]]:
    """The dimension of a box through which an iterator counts, by the depth of its scope, and where it begins."""
    dims: dict[int, int] = {}
    ahead: dict[int, int] = {}
    for dim, (index, base, step) in enumerate(zip(access.indices, bases, steps, strict=True)):
        if not isinstance(index, Affine):
            continue
        place = (index - base) // step
        d = max(place.iterators, default=-1)
        if d >= depth and d not in dims and place == Affine.iterator(d) + place.offset:
            dims[d], ahead[d] = dim, place.offset
    return dims, ahead
