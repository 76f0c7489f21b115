"""The part of an array that a node touches, a box: where it begins, how far it goes, in which steps; and copies.

A copy of a part of an argument that a call gets back must leave alone what the node does: a triangle, or what a
guard lets through, is copied in and back as such. So the extents and guards inside of the node become those of the
nest that copies, where the iterators that they name count through dimensions of the box (`used_part`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from math import gcd

from dojoir.ir.affine import Affine, Iter, SizeVar
from dojoir.ir.nodes import (
    Access,
    Buffer,
    Condition,
    Extent,
    Guard,
    Kernel,
    Node,
    Path,
    Scope,
    Site,
    Statement,
    expr_accesses,
    substitute_condition,
    substitute_iterators,
)
from dojoir.ir.paths import is_inside
from dojoir.ir.rewriting.rewrite import map_accesses
from dojoir.passes.base.move import Refusal
from dojoir.sets.kernel_sets import sets_of
from dojoir.sets.ranges import is_nonnegative
from dojoir.support.frozen import dataclass

ONE = Affine.constant(1)


@dataclass(frozen=True)
class BoxPart:
    """A part of a box, in the iterators of a nest with a scope for each dimension: the extent of each, None where
    it is not seen, and conditions that hold of all elements."""

    extents: tuple[Extent | None, ...]
    conditions: tuple[Condition, ...]


def used_part(
    kernel: Kernel, path: Path, name: str, bases: Sequence[Affine], steps: Sequence[int], written: bool = False
) -> BoxPart:
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
    return BoxPart(
        tuple(found.pop() if len(found) == 1 else None for found in extents),
        tuple(c for c in conditions if all(c in part.conditions for part in parts)),
    )


def _used_by(access: Access, site: Site, path: Path, bases: Sequence[Affine], steps: Sequence[int]) -> BoxPart:
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
    return BoxPart(tuple(extents), tuple(dict.fromkeys((*begin, *(substitute_condition(c, new) for c in told)))))


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


def inner_extents(name: str, node: Node, depth: int) -> list[dict[int, Affine]]:
    """For each access to a buffer in a node, in the order of the text: how far each iterator of the node around it
    goes at most, by depth, a constant where there is one."""
    found: list[dict[int, Affine]] = []

    def visit(node: Node, around: dict[int, Affine]) -> None:
        match node:
            case Scope():
                constant = node.constant_bound
                extent = Affine.constant(constant) if constant is not None else _most(node.extent.bounds[0], around)
                for child in node.body:
                    visit(child, {**around, depth + len(around): extent})
            case Guard():
                for child in node.body:
                    visit(child, around)
            case Statement():
                found.extend([around] * len(accesses_to(node, {name})))

    visit(node, {})
    return found


def accesses_of(node: Node) -> Iterator[Access]:
    """Every access in a node, in the order in which `map_accesses` comes to them."""
    if isinstance(node, Statement):
        yield from node.target.accesses()
        yield from expr_accesses(node.value)
    else:
        for child in node.body:
            yield from accesses_of(child)


def accesses_to(node: Node, buffers: Set[str]) -> list[Access]:
    """The accesses of some buffers in a node, in the order of the text."""
    return [access for access in accesses_of(node) if access.buffer in buffers]


def _most(extent: Affine, ends: dict[int, Affine]) -> Affine:
    """An extent when the iterators in it that grow it are at their ends."""
    return extent.substitute(
        lambda atom: (
            ends[atom.depth] - 1
            if isinstance(atom, Iter) and atom.depth in ends and extent.coefficient(atom) > 0
            else Affine.atom(atom)
        )
    )


def base_of(name: str, dim: int, found: list[Access], depth: int, around: Sequence[Mapping[int, Affine]]) -> Affine:
    """Where the accesses begin in a dimension: the part of the index that is fixed while the node runs, which must
    be the same for all, and the smallest number that is added to it. `around` is how far the iterators of the node
    around each go: a window of so many elements may be gone through backwards."""
    bases = {_fixed_part(name, dim, access, depth) for access in found}
    if len(bases) > 1:
        raise Refusal("different-parts", f"accesses of `{name}` begin at different places in dimension {dim}")
    least = (
        index.offset + sum(_falls(atom, coefficient, extents) for atom, coefficient in index.terms)
        for access, extents in zip(found, around, strict=True)
        if isinstance(index := access.indices[dim], Affine)
    )
    return bases.pop() + min(least)


def _falls(atom: object, coefficient: int, extents: Mapping[int, Affine]) -> int:
    """By how much an iterator of a known number of iterations makes an index smaller at most."""
    extent = extents.get(atom.depth) if isinstance(atom, Iter) and coefficient < 0 else None
    return coefficient * (extent.offset - 1) if extent is not None and extent.is_constant else 0


def _fixed_part(name: str, dim: int, access: Access, depth: int) -> Affine:
    index = access.indices[dim]
    if isinstance(index, Access):
        raise Refusal("gathered", f"dimension {dim} of `{name}` is gathered")
    fixed = Affine.constant(0)
    for atom, coefficient in index.terms:
        inner = Affine.atom(atom).iterators
        if all(d < depth for d in inner):
            fixed = fixed + Affine.atom(atom) * coefficient
        elif not isinstance(atom, Iter):
            raise Refusal("not-linear", f"an index of `{name}` in dimension {dim} is divided")
    return fixed


def reach_of(
    name: str,
    dim: int,
    found: Sequence[Access],
    base: Affine,
    around: Sequence[Mapping[int, Affine]],
    outer: int = 0,
) -> Affine:
    """One more than the largest local index in a dimension, of accesses that have scopes of these extents around
    them, in which `outer` iterators may be. Raises Refusal where it is not plain."""
    reaches: set[Affine] = set()
    for access, extents in zip(found, around, strict=True):
        index = access.indices[dim]
        if isinstance(index, Access):
            raise Refusal("gathered", f"dimension {dim} of `{name}` is gathered")
        local = index - base
        reach = Affine.constant(local.offset + 1)
        for atom, coefficient in local.terms:
            assert isinstance(atom, Iter)
            extent = extents[atom.depth]
            if any(d >= outer for d in extent.iterators) or (coefficient < 0 and not extent.is_constant):
                raise Refusal("not-linear", f"how far `{name}` is used in dimension {dim} is not plain")
            reach = reach + (extent - 1) * max(coefficient, 0)
        reaches.add(reach)
    largest = [r for r in reaches if all(_never_negative(r - other) for other in reaches)]
    if not largest:
        raise Refusal("not-linear", f"how far `{name}` is used in dimension {dim} is not plain")
    return largest[0]


def _never_negative(value: Affine) -> bool:
    """Whether a value is 0 or more whatever the sizes: each of them is 1 at least."""
    rises = all(isinstance(atom, SizeVar) and coefficient > 0 for atom, coefficient in value.terms)
    return rises and value.offset + sum(coefficient for _, coefficient in value.terms) >= 0


def common_step(dim: int, found: list[Access], base: Affine, depth: int) -> int:
    """The number that all accesses are multiples of apart in a dimension: 1 where it is not used in steps."""
    step = 0
    for access in found:
        index = access.indices[dim]
        assert isinstance(index, Affine)
        step = gcd(step, (index - base).offset, *(c for _, c in (index - base).terms))
    return step or 1


def redirected(node: Node, old: str, new: str, bases: list[Affine], steps: Sequence[int] = ()) -> Node:
    """The node with every access of one buffer made to the copy."""
    return map_accesses(node, lambda a: redirected_access(a, new, bases, steps) if a.buffer == old else a)


def redirected_access(access: Access, copy: str, bases: list[Affine], steps: Sequence[int] = ()) -> Access:
    """The index of the copy for an access to base + step * i of a buffer: i. Without `steps` they are 1."""
    return Access(
        copy, tuple((i - b) // s for i, b, s in _indices_from_bases(access, bases, steps or (1,) * len(bases)))
    )


def original_access(copy: str, buffer: str, bases: list[Affine], steps: list[int], access: Access) -> Access:
    """The way back: what an access to the copy is to the buffer; any other stays."""
    if access.buffer != copy:
        return access
    return Access(buffer, tuple(base + i * step for i, base, step in _indices_from_bases(access, bases, steps)))


def _indices_from_bases(
    access: Access, bases: list[Affine], steps: Sequence[int]
) -> Iterator[tuple[Affine, Affine, int]]:
    """The indices of an access, each with where its dimension begins and its step. Raises Refusal for a gather."""
    for index, base, step in zip(access.indices, bases, steps, strict=True):
        if isinstance(index, Access):
            raise Refusal("gathered", f"`{access.buffer}` is accessed at an index from data")
        yield index, base, step


def copied(
    buffer: Buffer, staged: Buffer, bases: list[Affine], steps: Sequence[int] = ()
) -> Iterator[tuple[Extent, Affine]]:
    """In each dimension the extent of the copy, and how far the buffer goes from there."""
    for base, step, mine, its in zip(bases, steps or (1,) * len(bases), staged.dims, buffer.dims, strict=True):
        yield Extent((mine.extent,)), (its.extent - base + (step - 1)) // step


def within(kernel: Kernel, path: Path, extent: Extent, whole: Affine) -> Extent:
    """An extent that goes no further than the array: what goes beyond it, a guard keeps from being used."""
    if any(sets_of(kernel).holds_around(path, [Condition(bound, "<=", whole)]) for bound in extent.bounds):
        return extent
    return Extent((*extent.bounds, whole))


def inside_of_array(kernel: Kernel, path: Path, bases: list[Affine], steps: list[int]) -> Iterator[Condition]:
    """The conditions under which an element of a box does not lie before its array begins."""
    zero = Affine.constant(0)
    for d, base in enumerate(bases):
        if may_be_negative(base) and not sets_of(kernel).holds_around(path, [Condition(base, ">=", zero)]):
            yield Condition(base + Affine.iterator(kernel.depth_of(path) + d) * steps[d], ">=", zero)


def narrowed(
    kernel: Kernel, path: Path, box: BoxPart, used: BoxPart, whole: Sequence[tuple[Extent, Affine]], exactly: bool
) -> BoxPart:
    """The part of a box that is used, as far as its extents are the same in each iteration; or `exactly`."""
    depth, extents = kernel.depth_of(path), list(box.extents)
    for dim, (mine, (part, most)) in enumerate(zip(used.extents, whole, strict=True)):
        if mine is not None and all(d < depth for bound in mine.bounds for d in bound.iterators):
            extents[dim] = within(kernel, path, mine, most) if mine != part else extents[dim]
        elif mine is not None and exactly:
            extents[dim] = mine
    return BoxPart(tuple(extents), (*box.conditions, *(used.conditions if exactly else ())))


def copy_nest(
    buffer: Buffer,
    staged: Buffer,
    bases: list[Affine],
    steps: list[int],
    part: BoxPart,
    depth: int,
    back: bool,
) -> Node:
    """Copies a part of a box between a buffer and its copy."""
    own = [Affine.iterator(depth + d) for d in range(len(buffer.dims))]
    outside = Access(buffer.name, tuple(base + i * s for base, i, s in zip(bases, own, steps, strict=True)))
    inside = Access(staged.name, tuple(own))
    node: Node = Statement(outside, "=", inside) if back else Statement(inside, "=", outside)
    if part.conditions:
        node = Guard(part.conditions, (node,))
    for extent in reversed(part.extents):
        assert extent is not None
        node = Scope(extent, (node,))
    return node


def may_be_negative(base: Affine) -> bool:
    """Whether a first index is not a sum of what is never negative, seen from its form alone."""
    return base.offset < 0 or any(coefficient < 0 for _, coefficient in base.terms)
