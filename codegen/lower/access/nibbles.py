"""Vector loads of contiguous 4-bit elements: whole bytes are read and split into their halves.

The element `k` of a packed buffer is `q[k // 2] >> 4*(k % 2) & 15` of its bytes. In lanes that begin at an even
one, each lane with its own byte and shift, that is a gather. But the bytes are neighbours: each, in 16 bits, is
`(b | b << 4) & 0x0f0f`, whose two bytes are the two elements in order, the even one in the low half.
"""

from __future__ import annotations

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.arith import affine_value, along, constant_value
from dojoir.codegen.lir.program import Type, Value
from dojoir.codegen.lower.access.elements import ElementAccess
from dojoir.codegen.lower.access.state import Memory
from dojoir.ir.affine import Affine, FloorDiv
from dojoir.ir.dtypes import DTYPES
from dojoir.ir.nodes import Access
from dojoir.types.typed import Apply, IndexValue, Load, Number, Typed

U8, U16 = DTYPES["u8"], DTYPES["u16"]
LOW = 0x0F
HALVES = 0x0F0F


def halves(typed: Typed, accesses: ElementAccess) -> Value | None:
    """The value of an expression that extracts 4-bit elements from bytes, where all lanes are at work on
    contiguous ones; else None."""
    match typed:
        case Apply(_, "bitand", (Apply(_, "shr", (Load(dtype, access), IndexValue(shift))), Number(value=15))):
            if dtype == U8:
                return _neighbours(access, shift, accesses)
    return None


def _neighbours(access: Access, shift: Affine, accesses: ElementAccess) -> Value | None:
    state, lanes, place = accesses.state, accesses.state.lanes, accesses.state.places[access.buffer]
    if not (accesses.unit.target.reshapes and lanes is not None and isinstance(place, Memory)):
        return None
    if lanes.mask is not None or lanes.count % 2 or place.copies != 1:
        return None
    indices = place.layout.joined(access.indices)
    last = place.layout.stored[-1][0]
    for d, index in enumerate(indices):
        if not isinstance(index, Affine) or ((lanes.depth in index.iterators) != (d == last)):
            return None
    index = indices[last]
    assert isinstance(index, Affine)
    varying = [(atom, times) for atom, times in index.terms if lanes.depth in Affine.atom(atom).iterators]
    match varying:
        case [(FloorDiv(numerator, 2), 1)] if shift == numerator % 2 * 4:
            first = constant_value(affine_value(numerator, state.iterators))
            if along(numerator, lanes.depth) != (1, True) or first is None or first % 2:
                return None
        case _:
            return None
    collapsed = [dim.collapsed for dim in place.layout.buffer.dims]
    at = [affine_value(i if not c else Affine.constant(0), state.iterators)
          for i, c in zip(indices, collapsed, strict=True) if isinstance(i, Affine)]  # fmt: skip
    pairs = Type(U16, lanes.count // 2)
    loaded = lir.Load(Type(U8, lanes.count // 2), place.array, place.layout.offset(at))
    both = lir.Var(pairs, accesses.unit.names.fresh(f"{access.buffer}_pairs"))
    accesses.block.emit(lir.Let(both, lir.Convert(pairs, loaded)))
    shifted = lir.Binary(pairs, "shl", both, lir.Const(pairs, 4))
    parted = lir.Binary(pairs, "and", lir.Binary(pairs, "or", both, shifted), lir.Const(pairs, HALVES))
    return lir.Bitcast(Type(U8, lanes.count), parted)
