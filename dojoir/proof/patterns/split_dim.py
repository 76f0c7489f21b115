"""Recognises `split_dim`: one dimension of a temporary was divided into blocks, and every access moved along.

The theorem. A dimension of extent E became two, of ceil(E / f) blocks and of the constant f, and each access to
element i of it now goes to (i // f, i % f). Nothing else changed. Then both kernels mean the same. The map from old
to new elements is one to one, so two accesses meet in one element exactly where they did, and every read gets its
value from the same write. A temporary is neither given nor returned, so that nobody else sees the new places.

The old indices must be in bounds, as an index beyond E could fall into the last block. Decided on the text, but for
these bounds and whether f divides E.
"""

from __future__ import annotations

from collections.abc import Sequence

from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Access, Buffer, Condition, Dim, Kernel, Node, Scope
from dojoir.ir.rewriting.rewrite import map_accesses
from dojoir.proof.certificate import InstanceMap, identity
from dojoir.proof.core.bounds import prove_bounds
from dojoir.sets.kernel_sets import KernelSets, sets_of
from dojoir.sets.ranges import is_nonnegative, without_divisions

ZERO = Affine.constant(0)


def is_renumbered(before: Kernel, after: Kernel, instances: InstanceMap) -> bool:
    """Whether the kernel after is the kernel before with one dimension of one temporary divided into blocks. False
    says nothing. Raises isl.Error where the step limit of the context is reached.
    """
    if instances != identity(before) or len(before.buffers) != len(after.buffers):
        return False
    pairs = [(b, c) for b, c in zip(before.buffers, after.buffers, strict=True) if b != c]
    if len(pairs) != 1 or len(before.sites) != len(after.sites):
        return False
    old, new = pairs[0]
    dim = _split_dim(sets_of(before), old, new)
    if dim is None or _blank(before.body, old.name) != _blank(after.body, old.name):
        return False
    factor = new.dims[dim + 1].extent.offset
    users = []
    for number, (was, now) in enumerate(zip(before.sites, after.sites, strict=True)):
        touched, touches = was.statement.accesses, now.statement.accesses
        mine = [pair for pair in zip(touched, touches, strict=False) if pair[0].buffer == old.name]
        if len(touched) != len(touches) or not all(
            _is_same_element(*pair, dim, factor, now.scopes) for pair in mine
        ):
            return False
        users += [number] * bool(mine)
    return prove_bounds(before, users) is None


def _split_dim(sets: KernelSets, old: Buffer, new: Buffer) -> int | None:
    """The number of the dimension that became two; None if the declarations differ in more, or in anything else."""
    if (old.role, new.role) != ("tmp", "tmp") or (old.name, old.dtype) != (new.name, new.dtype):
        return None
    for dim, declared in enumerate(old.dims):
        match new.dims[dim : dim + 2]:
            case (blocks, inner) if inner.extent.is_constant and inner.extent.offset > 1:
                rest = (*new.dims[:dim], declared, *new.dims[dim + 2 :])
                stored = not (declared.collapsed or blocks.collapsed or inner.collapsed)
                if rest == old.dims and stored and _holds(sets, declared, blocks, inner.extent.offset):
                    return dim
    return None


def _holds(sets: KernelSets, whole: Dim, blocks: Dim, factor: int) -> bool:
    """Whether the blocks hold all of the dimension, and are no more than it takes."""
    divides = Condition(whole.extent % factor, "==", ZERO)
    if blocks.extent == whole.extent // factor and sets.always(divides):
        return True
    return blocks.extent == (whole.extent + factor - 1) // factor


def _blank(nodes: tuple[Node, ...], buffer: str) -> tuple[Node, ...]:
    """The tree without the indices of one buffer."""

    def blank(access: Access) -> Access:
        return Access(access.buffer, ()) if access.buffer == buffer else access

    return tuple(map_accesses(node, blank) if buffer in node.buffers else node for node in nodes)


def _is_same_element(old: Access, new: Access, dim: int, factor: int, scopes: Sequence[Scope]) -> bool:
    """Whether the new indices are the quotient and the remainder of the old one: to the letter once divisions that
    the scopes decide are left out, or as block * f + inner with 0 <= inner < f."""
    index, parts = old.indices[dim], new.indices[dim : dim + 2]
    rest = (*new.indices[:dim], index, *new.indices[dim + 2 :])
    match index, parts:
        case Affine(), (Affine() as block, Affine() as inner) if rest == old.indices:
            wanted = (without_divisions(part, scopes) for part in (index // factor, index % factor))
            if tuple(wanted) == (without_divisions(block, scopes), without_divisions(inner, scopes)):
                return True
            inside = is_nonnegative(inner, scopes) and is_nonnegative(factor - 1 - inner, scopes)
            return inside and block * factor + inner == index
    return False
