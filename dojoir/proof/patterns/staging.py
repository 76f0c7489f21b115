"""Recognises `stage`: a node works on a local copy of a box of an array, filled before it, written back after it,
or both.

Before, the node touches elements base + s*l of `array`, where base is fixed while the node runs and the step s is
at least 1 in each dimension. After, it touches element l of a new temporary, `copy`. The box is all l with
0 <= l < F: `fill` copies it from the array just before the node, `drain` copies it back just after.

The theorem. In each iteration of the scopes around these three, the node reads and leaves the same values, because

- it alone uses the copy, and it no longer uses the array. As l -> base + s*l is one to one, a read of something
  that the node itself wrote finds the same write as before;
- everything that it touches is in the box. With a fill, an element of the copy starts with the value of its element
  of the array. Without one, each element is assigned before it is read or drained;
- a drain writes to the array what the node left, or puts back the value that was already there.

What else has to hold, and is asked here:

- fill and drain stay inside of the array, and the elements that fill reads have been written;
- array and copy have one type: a copy must not round;
- no two elements of the box share storage. A dimension that keeps one element only (`collapsed`) has a box of one
  index; what fill reads there must be what the node read there, since the storage may hold another element's value.

Not asked here: whether marked scopes are still independent. Fill and drain touch elements that the node need not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dojoir.ir.affine import Affine, Iter
from dojoir.ir.nodes import Access, Buffer, Condition, Extent, Guard, Kernel, Node, Scope, Statement
from dojoir.ir.rewriting.rewrite import map_accesses
from dojoir.proof.certificate import InstanceMap, Origin, identity
from dojoir.proof.core.bounds import prove_bounds
from dojoir.proof.core.written import comes_and_goes
from dojoir.proof.difference import Change
from dojoir.proof.facts.spanning import counts_to
from dojoir.proof.patterns.written_before import is_written, reads_no_more
from dojoir.sets.kernel_sets import KernelSets, sets_of
from dojoir.sets.ranges import is_nonnegative
from dojoir.support.frozen import dataclass
from dojoir.support.memo import ObjectMemo

ZERO = Affine.constant(0)
ONE = Affine.constant(1)


def works_on_copy(before: Kernel, after: Kernel, instances: InstanceMap, change: Change) -> bool:
    """Whether the change is that one node works on a copy, as the theorem above has it. False says nothing. Raises
    isl.Error where the step limit of the context is reached.
    """
    found = _staging_of(before, after, instances, change)
    return (
        found is not None
        and _stays_inside(after, change, found)
        and _has_values(before, after, instances, change, found)
    )


def was_read(before: Kernel, after: Kernel, instances: InstanceMap, change: Change, buffer: str) -> bool:
    """Whether the elements of a buffer that the new kernel reads within the change were read there before as well,
    with no assignment to them there first. Then they have been written, as the kernel before is well-formed. False
    says nothing. Raises isl.Error where the step limit of the context is reached.
    """
    found = _staging_of(before, after, instances, change)
    if found is not None and found.filled and found.array.name == buffer and _reads_the_box(after, change, found):
        return True
    return reads_no_more(before, after, change, buffer)


def _staging_of(before: Kernel, after: Kernel, instances: InstanceMap, change: Change) -> _Staging | None:
    """The copied part, if the text of the change has the form of a fill, the node and a drain; else None. The last
    answers are kept."""
    rewrite = before, after, instances, change
    kept = _forms.get(*rewrite)
    return (kept if kept is not None else _forms.put((_form_of(*rewrite),), *rewrite))[0]


def _form_of(before: Kernel, after: Kernel, instances: InstanceMap, change: Change) -> _Staging | None:
    for filled, drained in ((True, True), (True, False), (False, True)):
        if len(change.new) == 1 + filled + drained:
            found = _staging(before, after, change, filled, drained)
            if found is not None and _fits(after, found) and _stands_for_itself(before, instances, change, found):
                return found
    return None


def _stands_for_itself(before: Kernel, instances: InstanceMap, change: Change, found: _Staging) -> bool:
    same = identity(before).origins[change.were.start : change.were.stop]
    fill: tuple[Origin | None, ...] = (None,) * found.filled
    return instances.origins[change.are.start : change.are.stop] == (*fill, *same, *(None,) * found.drained)


@dataclass(frozen=True)
class _Staging:
    """A change in the form of `stage`. In dimension d, element l of the copy stands for element
    `bases[d] + steps[d] * l` of the array, for l below `extents[d]`."""

    copy: Buffer
    array: Buffer
    bases: tuple[Affine, ...]
    steps: tuple[int, ...]
    extents: tuple[Extent, ...]
    filled: bool
    drained: bool


_forms: ObjectMemo[tuple[_Staging | None]] = ObjectMemo(16)


def _staging(before: Kernel, after: Kernel, change: Change, filled: bool, drained: bool) -> _Staging | None:
    """The copied part, if the change is exactly this: a fill if `filled`, the node with every access of the array
    made to the copy, a drain if `drained`. None otherwise."""
    *kept, copy = after.buffers
    if tuple(kept) != before.buffers or copy.role != "tmp" or len(change.old) != 1:
        return None
    into = _copying(change.new[0], copy, change.depth, back=False) if filled else None
    back = _copying(change.new[-1], copy, change.depth, back=True) if drained else None
    box = into or back
    if box is None or (filled and drained and into != back):
        return None
    node = change.new[filled]
    name, bases, steps, extents = box
    if name not in {buffer.name for buffer in kept} or any(buffer.name == copy.name for buffer in kept):
        return None

    def original(access: Access) -> Access:
        if access.buffer != copy.name:
            return access
        parts = zip(bases, steps, access.indices, strict=True)
        return Access(name, tuple(base + i * step for base, step, i in parts if isinstance(i, Affine)))

    touched = {access for k in change.are for access in after.sites[k].statement.accesses}
    gathered = any(a.buffer == copy.name and any(isinstance(i, Access) for i in a.indices) for a in touched)
    mine = change.are[filled : len(change.are) - drained]
    shared = any(a.buffer == name for k in mine for a in after.sites[k].statement.accesses)
    if gathered or shared or map_accesses(node, original) != change.old[0]:
        return None
    return _Staging(copy, before.buffer(name), bases, steps, extents, filled, drained)


def _copying(
    node: Node, copy: Buffer, depth: int, back: bool
) -> tuple[str, tuple[Affine, ...], tuple[int, ...], tuple[Extent, ...]] | None:
    """Of a nest that does nothing but copy a box, from the array or `back` to it: the array, the base and the step
    in each dimension, and the extents of the nest. None for any other node."""
    extents: list[Extent] = []
    while isinstance(node, Scope) and len(node.body) == 1:
        extents.append(node.extent)
        node = node.body[0]
    match node:
        case Statement(target, "=", Access() as value):
            inside, outside = (value, target) if back else (target, value)
        case _:
            return None
    own = tuple(Affine.iterator(depth + d) for d in range(len(copy.dims)))
    if inside.buffer != copy.name or inside.indices != own or {len(outside.indices), len(extents)} != {len(own)}:
        return None
    indices = tuple(index for index in outside.indices if isinstance(index, Affine))
    steps = tuple(index.coefficient(Iter(depth + d)) for d, index in enumerate(indices))
    bases = tuple(i - mine * s for i, mine, s in zip(indices, own, steps, strict=False))
    inner = (d for affine in (*bases, *(b for e in extents for b in e.bounds)) for d in affine.iterators)
    if len(bases) != len(own) or any(d >= depth for d in inner) or min(steps, default=1) < 1:
        return None
    return outside.buffer, bases, steps, tuple(extents)


def _fits(after: Kernel, found: _Staging) -> bool:
    """Whether the copy can hold what the array does, one element for one."""
    sets = sets_of(after)
    return (
        found.copy.dtype == found.array.dtype
        and len(found.copy.dims) == len(found.array.dims)
        and all(
            extent.bounds == (ONE,) or not (mine.collapsed or its.collapsed)
            for extent, mine, its in zip(found.extents, found.copy.dims, found.array.dims, strict=True)
        )
        and all(sets.implies((), Condition(dim.extent - 1, ">=", ZERO)) for dim in found.copy.dims)
    )


def _stays_inside(after: Kernel, change: Change, found: _Staging) -> bool:
    """Whether the node stays in the box, and fill and drain stay in both the copy and the array."""
    sets = sets_of(after)
    copies = [change.are[0]] * found.filled + [change.are[-1]] * found.drained
    if prove_bounds(after, copies) is not None:
        return False
    return all(
        _in_box(sets, k, access, found)
        for k in change.are
        if k not in copies
        for access in after.sites[k].statement.accesses
        if access.buffer == found.copy.name
    )


def _in_box(sets: KernelSets, number: int, access: Access, found: _Staging) -> bool:
    around = sets.kernel.sites[number].ancestors
    return all(
        isinstance(index, Affine)
        and sets.implies(around, Condition(index, ">=", ZERO))
        and all(sets.implies(around, Condition(bound - 1 - index, ">=", ZERO)) for bound in extent.bounds)
        for index, extent in zip(access.indices, found.extents, strict=True)
    )


def _has_values(before: Kernel, after: Kernel, instances: InstanceMap, change: Change, found: _Staging) -> bool:
    """Whether fill reads only elements of the array that were written, and, without one, the node assigns each
    element of the copy before it is read or drained."""
    if not found.filled:
        return comes_and_goes(after, found.copy)
    if not found.drained and any(after.sites[k].statement.target.buffer == found.copy.name for k in change.are[1:]):
        return False
    if was_read(before, after, instances, change, found.array.name):
        return True
    return not any(dim.collapsed for dim in found.array.dims) and is_written(after, found.array)


def _reads_the_box(after: Kernel, change: Change, found: _Staging) -> bool:
    """Whether it is seen from the text that the node reads all of the box in each iteration around it, and assigns
    none of it. Then all that the first copy reads was read before, in a kernel that is well-formed."""
    inside = [after.sites[k] for k in change.are[found.filled : len(change.are) - found.drained]]
    if any(s.statement.target.buffer == found.copy.name and s.statement.accumulation is None for s in inside):
        return False
    for site in inside:
        around, scopes = site.scopes[: change.depth], site.scopes[change.depth :]
        extents = {d: scope.extent.bounds[0] for d, scope in enumerate(scopes, change.depth)}
        single = all(len(scope.extent.bounds) == 1 for scope in scopes) and not any(
            d >= change.depth for extent in extents.values() for d in extent.iterators
        )
        guarded = any(isinstance(node, Guard) for node in site.ancestors[len(change.around) :])
        if guarded or not single or not all(is_nonnegative(extent - 1, around) for extent in extents.values()):
            continue
        reads = [a for a in site.statement.term_reads if a.buffer == found.copy.name]
        if site.statement.target.buffer == found.copy.name:
            reads.append(site.statement.target)
        if any(_spans(read, found.extents, extents, around) for read in reads):
            return True
    return False


def _spans(read: Access, box: Sequence[Extent], extents: Mapping[int, Affine], around: Sequence[Scope]) -> bool:
    """Whether the indices of a read take all values in a box, whatever runs `around`: each counts through its
    dimension, with iterators that are in no other. `extents` has those of the scopes inside, by depth."""
    free = dict(extents)
    for index, extent in zip(read.indices, box, strict=True):
        if not isinstance(index, Affine):
            return False
        reached = counts_to(index, free, around)
        if reached is None or not any(is_nonnegative(reached - bound, around) for bound in extent.bounds):
            return False
        for depth in index.iterators:
            del free[depth]
    return True
