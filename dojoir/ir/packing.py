"""Packed buffers: two elements of four bits share a byte, neighbours along the innermost dimension that has
storage, the even one in the low half.

What the elements mean does not depend on it. An access to one touches the whole byte, though: `in_halves` gives
the kernel in bytes, for questions about two threads."""

from __future__ import annotations

from dataclasses import replace

from dojoir.errors import Diagnostic, KernelError
from dojoir.ir.affine import Affine, Atom, Mod
from dojoir.ir.buffer import Buffer
from dojoir.ir.expressions import Access
from dojoir.ir.format import format_access, format_statement
from dojoir.ir.kernel import Kernel
from dojoir.ir.rewriting.rewrite import map_accesses
from dojoir.ir.tree import MAY_ASSIGN, Condition
from dojoir.ir.where import diagnostic_at
from dojoir.support.frozen import dataclass

BITS = 4


def packed_dim(buffer: Buffer) -> int:
    """The dimension along which the elements of a packed buffer share bytes."""
    order = buffer.order or tuple(range(len(buffer.dims)))
    return next(dim for dim in reversed(order) if not buffer.dims[dim].collapsed)


def has_packed(kernel: Kernel) -> bool:
    return any(buffer.packed for buffer in kernel.buffers)


def check_packing(kernel: Kernel) -> Kernel:
    """The kernel. Raises KernelError for what `packing_error` finds."""
    error = packing_error(kernel)
    if error is not None:
        raise KernelError(error)
    return kernel


def packing_error(kernel: Kernel) -> Diagnostic | None:
    """The first violation of the rules for packed buffers. They have whole bytes by declaration and facts, and
    each access is to one half of a byte that is known."""
    for buffer in kernel.buffers:
        error = _buffer_error(kernel, buffer) if buffer.packed else _scalar_error(buffer)
        if error is not None:
            return diagnostic_at(kernel, (), "bad-packing", error, buffer)
    packed = {buffer.name: packed_dim(buffer) for buffer in kernel.buffers if buffer.packed}
    halves = {buffer.name for buffer in kernel.buffers if buffer.packed or buffer.dtype.is_nibble}
    for site in kernel.sites if halves else ():
        statement, target = site.statement, site.statement.target
        if target.buffer in packed and statement.accumulation not in (None, MAY_ASSIGN):
            message = f"{target.buffer} is packed, and '{format_statement(statement)}' accumulates into it: "
            message += "accumulate into a tmp, and store that"
            return diagnostic_at(kernel, site.path, "bad-packing", message, target)
        for access in statement.accesses:
            for dim, index in enumerate(access.indices):
                if isinstance(index, Access) and (index.buffer in halves or dim == packed.get(access.buffer)):
                    what = f"{index.buffer} is of {BITS} bits, and no index is read from such"
                    if index.buffer not in halves:
                        what = f"which half of a byte {format_access(access)} is would depend on data"
                    cure = "copy it into a tmp of i32 that is not packed, and use that"
                    return diagnostic_at(kernel, site.path, "bad-packing", f"{what}: {cure}", access)
    return None


def _buffer_error(kernel: Kernel, buffer: Buffer) -> str | None:
    if buffer.dtype.bits != BITS:
        return (
            f"packed is for types of {BITS} bits, two in a byte, and {buffer.name} is {buffer.dtype}: leave it out"
        )
    if all(dim.collapsed for dim in buffer.dims):
        return f"packed is for neighbours in memory, and {buffer.name} has none: leave it out"
    if buffer.flat is not None:
        return (
            f"packed is of the dimensions as they are declared, and {buffer.name} is flat: declare each by itself"
        )
    dim = packed_dim(buffer)
    extent, pad = buffer.dims[dim].extent, buffer.pad[dim] if buffer.pad else 0
    if pad % 2:
        return f"rows of the packed {buffer.name} are whole bytes: pad dimension {dim} by an even number, not {pad}"
    if not is_even(extent, kernel.facts):
        cure = "make it even" if extent.is_constant else f"say so, as in 'where {extent} % 2 == 0'"
        return f"rows of the packed {buffer.name} are whole bytes, and {extent} may be odd: {cure}"
    return None


def _scalar_error(buffer: Buffer) -> str | None:
    if buffer.dtype.is_nibble and not buffer.dims and buffer.role != "tmp":
        return f"an argument without dimensions takes a byte: declare {buffer.name} {buffer.dtype.compute}"
    return None


def in_halves(kernel: Kernel) -> Kernel:
    """The kernel with bytes in the place of the elements of packed buffers: each access is to its byte. It says
    which statements touch the same memory, and nothing of values. The kernel itself, where nothing is packed."""
    packed = {buffer.name: packed_dim(buffer) for buffer in kernel.buffers if buffer.packed}
    if not packed:
        return kernel

    def halved(access: Access) -> Access:
        return at_byte(access, packed[access.buffer]) if access.buffer in packed else access

    buffers = tuple(of_bytes(buffer) if buffer.packed else buffer for buffer in kernel.buffers)
    return kernel.evolve(buffers=buffers, body=tuple(map_accesses(node, halved) for node in kernel.body))


def at_byte(access: Access, dim: int) -> Access:
    """The access to the byte in which an element is."""
    index = access.indices[dim]
    assert isinstance(index, Affine)
    return replace(access, indices=(*access.indices[:dim], index // 2, *access.indices[dim + 1 :]))


def of_bytes(buffer: Buffer) -> Buffer:
    """A packed buffer with half as many elements, one for each byte, that are not packed."""
    dim = packed_dim(buffer)
    dims, pad = list(buffer.dims), list(buffer.pad or (0,) * len(buffer.dims))
    dims[dim], pad[dim] = replace(dims[dim], extent=dims[dim].extent // 2), pad[dim] // 2
    return replace(buffer, dims=tuple(dims), pad=tuple(pad) if buffer.pad else None, packed=False)


# -- even numbers ------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Parity:
    """An expression modulo 2: a sum of atoms, and 1 if it is `odd`."""

    atoms: frozenset[Atom]
    odd: bool

    def __xor__(self, other: _Parity) -> _Parity:
        return _Parity(self.atoms ^ other.atoms, self.odd ^ other.odd)


def is_even(affine: Affine, facts: tuple[Condition, ...]) -> bool:
    """Whether an expression in sizes is seen to be even for all sizes that keep the facts: by elimination modulo 2
    of the equations among them."""
    left, known = _parity(affine), [_parity(fact.left - fact.right) for fact in facts if fact.relation == "=="]
    while known:
        one = known.pop()
        if not one.atoms:
            continue
        atom = min(one.atoms)
        known = [other ^ one if atom in other.atoms else other for other in known]
        left = left ^ one if atom in left.atoms else left
    return not left.atoms and not left.odd


def _parity(affine: Affine) -> _Parity:
    found = _Parity(frozenset(), affine.offset % 2 == 1)
    for atom, coefficient in affine.terms:
        if coefficient % 2:
            if isinstance(atom, Mod) and atom.divisor % 2 == 0:
                found ^= _parity(atom.numerator)
            else:
                found ^= _Parity(frozenset({atom}), False)
    return found
