"""Elements of buffers: their addresses, checked gathers, loads and stores, one lane or many."""

from __future__ import annotations

from dataclasses import replace

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.arith import (
    RELATION,
    add,
    affine_value,
    along,
    binary,
    both,
    compare,
    constant_value,
    divide,
    extremum,
    integer,
    mul,
    smaller,
    spread,
    sub,
)
from dojoir.codegen.lir.program import Type, Value
from dojoir.codegen.lower.access.conversions import as_stored, convert
from dojoir.codegen.lower.access.named_rows import row_of
from dojoir.codegen.lower.access.state import (
    Block,
    BufferWindow,
    Lanes,
    LoweringState,
    LoweringUnit,
    Memory,
    Variable,
)
from dojoir.codegen.lower.access.stream import is_aligned, may_stream
from dojoir.ir.affine import Affine, Atom, Extremum, FloorDiv, Mod
from dojoir.ir.dtypes import BOOL, DTYPES, I64
from dojoir.ir.nodes import Access, Condition, Path
from dojoir.ir.places import scopes_around
from dojoir.sets.failing import Holds, inside
from dojoir.support.frozen import dataclass

I8, I32 = DTYPES["i8"], DTYPES["i32"]

MIRRORED = {"==": "==", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
"""The relation between the negatives of two numbers."""


@dataclass(frozen=True)
class Address:
    """A scalar `offset` where all lanes mean one element (`stride` None) or elements `stride` apart; a vector
    of offsets otherwise."""

    offset: Value
    stride: Value | None = None

    @property
    def is_uniform(self) -> bool:
        return self.stride is None and self.offset.type.lanes == 1


def index_value(affine: Affine, state: LoweringState) -> Value:
    """The value of an affine expression: a scalar where it is the same in all lanes."""
    lanes = state.lanes
    if lanes is None or lanes.depth not in affine.iterators:
        return affine_value(affine, state.iterators)
    varying = [term for term in affine.terms if lanes.depth in Affine.atom(term[0]).iterators]
    fixed = Affine(tuple(term for term in affine.terms if term not in varying), affine.offset)
    total = affine_value(fixed, state.iterators)
    for atom, coefficient in varying:
        total = add(total, mul(_lane_atom(atom, state, lanes), integer(coefficient)))
    return total


def _lane_atom(atom: Atom, state: LoweringState, lanes: Lanes) -> Value:
    """The value in each lane of an atom that is not the same in all of them."""
    match atom:
        case FloorDiv(numerator, divisor):
            op = "floordiv"
        case Mod(numerator, divisor):
            op = "mod"
        case Extremum(word, some):
            return extremum(word, [index_value(part, state) for part in some])
        case _:
            return add(state.iterators[lanes.depth], lir.Iota(Type(I64, lanes.count)))
    step, linear = along(numerator, lanes.depth)
    if not linear or abs(step) * lanes.count + divisor >= 1 << 31:
        return divide(op, index_value(numerator, state), divisor)
    # With first = q * divisor + r: (first + step * lane) // divisor = q + (r + step * lane) // divisor, and what
    # is divided in each lane is small: vectors of narrow integers are divided much faster than those of i64.
    first = affine_value(numerator, state.iterators)
    lane = Type(I32, lanes.count)
    low = lir.Convert(Type(I32), divide("mod", first, divisor))
    steps = lir.Binary(lane, "mul", lir.Iota(lane), lir.Const(lane, step))
    small = lir.Binary(lane, "add", spread(low, lanes.count), steps)
    divided = lir.Binary(lane, op, small, lir.Const(lane, divisor))
    wide = lir.Convert(Type(I64, lanes.count), divided)
    return wide if op == "mod" else add(divide("floordiv", first, divisor), wide)


def lane_condition(condition: Condition, state: LoweringState) -> Value:
    """Where a condition that differs between lanes holds. One that is linear in the lane compares lane numbers
    with a limit, in bytes: as many as possible at once."""
    lanes = state.lanes
    assert lanes is not None
    difference = condition.left - condition.right
    step, linear = along(difference, lanes.depth)
    if not linear or (condition.relation in ("==", "!=") and abs(step) != 1):
        return compare(RELATION[condition.relation], index_value(difference, state), integer(0))
    # difference = first + step * lane; with step > 0 it is below 0 for the lanes below ceil(-first / step)
    relation, first = condition.relation, affine_value(difference, state.iterators)
    if step < 0:
        relation, first, step = MIRRORED[relation], sub(integer(0), first), -step
    if relation in (">", "<="):  # > 0 is >= 1
        first = sub(first, integer(1))
    limit = sub(integer(0), divide("floordiv", first, step) if step > 1 else first)
    within = binary("min", binary("max", limit, integer(-1)), integer(lanes.count))
    lane = lir.Iota(Type(I8, lanes.count))
    op = {">": "ge", "<=": "lt"}.get(relation, RELATION[relation])
    return lir.Compare(op, lane, spread(lir.Convert(Type(I8), within), lanes.count))


class ElementAccess:
    """Reads and writes elements at one place of the kernel, emitting what they need into a block."""

    def __init__(self, unit: LoweringUnit, state: LoweringState, block: Block, path: Path) -> None:
        self.unit, self.state, self.block, self.path = unit, state, block, path
        self.indices: dict[tuple[Access, Access], tuple[lir.Var, lir.Var]] = {}

    def load(self, access: Access) -> Value:
        """The element as the buffer holds it."""
        place = self.state.places[access.buffer]
        if isinstance(place, Variable):
            self._check_indices(access)
            return place.var
        assert isinstance(place, Memory), "what is written to a window is not read there"
        dtype = as_stored(place.layout.buffer.dtype, self.unit.target)
        if (near := self._along_a_row(access, place)) is not None:
            offset, within = near
            kind = Type(dtype, self.state.lane_count)
            return lir.Load(kind, place.array, offset, None, both(within, self.state.mask))
        address = self.address(access, place)
        if address.is_uniform:
            return lir.Load(Type(dtype), place.array, address.offset)
        kind = Type(dtype, self.state.lane_count)
        mask = None if self._owns_all_lanes(access, place) else self.state.mask
        return lir.Load(kind, place.array, address.offset, _step(address), mask)

    def store(self, access: Access, value: Value) -> None:
        """Gives the element a new value, which is of the type as stored."""
        place = self.state.places[access.buffer]
        if isinstance(place, Variable):
            self._assign(place.var, value)
            return
        if isinstance(place, BufferWindow):
            offset = sub(self.state.iterators[place.depth], place.first)
            self.block.emit(lir.Store(place.array, offset, value))
            return
        address = self.address(access, place)
        if address.is_uniform:
            # Strides that cancel, z[N - 1 - i, i] of z[N, 1]: one lane is active, which the mask picks.
            offset = spread(address.offset, value.type.lanes)
            mask = self.state.mask if value.type.lanes > 1 else None
            self.block.emit(lir.Store(place.array, offset, value, None, mask))
            return
        value = spread(value, self.state.lane_count)
        mask = self.state.mask
        if mask is not None and self._owns_all_lanes(access, place):
            value, mask = lir.Select(mask, value, lir.Load(value.type, place.array, address.offset)), None
        if mask is None and _step(address) is None and may_stream(self.unit, access.buffer, self.state):
            self._stream(access, place, address.offset, value)
            return
        self.block.emit(lir.Store(place.array, address.offset, value, _step(address), mask))

    def _stream(self, access: Access, place: Memory, offset: Value, value: Value) -> None:
        """A non-temporal store, past the caches, where the vector is aligned for one."""
        plain = lir.Store(place.array, offset, value)
        aligned = is_aligned(place.array, offset, value.type) if offset.type.lanes == 1 else None
        if access == self.state.aligned or aligned is None:
            self.block.emit(replace(plain, streaming=aligned is not None))
            return
        var = lir.Var(value.type, self.unit.names.fresh(place.array))
        self.block.emit(lir.Let(var, value))
        plain = replace(plain, value=var)
        self.block.emit(lir.If(aligned, (replace(plain, streaming=True),), (plain,)))

    def _owns_all_lanes(self, access: Access, place: Memory) -> bool:
        """Whether an access is to contiguous elements of an array on the stack that has room for all lanes,
        masked or not. It then needs no mask, and a compiler can keep the array in a register. Not where the
        elements of masked lanes may be another thread's."""
        lanes = self.state.lanes
        if lanes is None or self.unit.arrays[place.array].lives != "stack":
            return False
        if self.unit.homes[access.buffer].is_shared:
            return False
        if place.copies != 1:  # an index that is right in a lane at work is right in all, if it is the same
            alike = all(isinstance(i, Affine) and lanes.depth not in i.iterators for i in access.indices)
            return place.copies == lanes.count and alike
        last, extent = place.layout.stored[-1]
        start = constant_value(self.state.iterators[lanes.depth])
        return (
            start is not None
            and access.indices[last] == Affine.iterator(lanes.depth)
            and extent.is_constant
            and extent.offset >= start + lanes.count
            and not any(
                lanes.depth in index.iterators if isinstance(index, Affine) else True
                for d, index in enumerate(access.indices)
                if d != last
            )
        )

    def _assign(self, var: lir.Var, value: Value) -> None:
        value = spread(value, var.type.lanes)
        if var.name in self.block.pending:
            self.block.pending.remove(var.name)
            self.block.emit(lir.Declare(var, value))
            return
        if var.type.lanes > 1 and self.state.mask is not None:
            value = lir.Select(self.state.mask, value, var)
        self.block.emit(lir.Assign(var, value))

    def within(self, access: Access) -> Value | None:
        """Where all indices of an access that are data are in range; None where none is data. Elsewhere the program
        fails."""
        found: Value | None = None
        for index, dim in zip(access.indices, self.unit.buffers[access.buffer].dims, strict=True):
            if isinstance(index, Access):
                failed = self._outside(access, index, dim.extent)[1]
                found = both(found, lir.Unary(failed.type, "not", failed))
        return found

    def _check_indices(self, access: Access) -> None:
        """The program fails where an index that is data is out of range."""
        for index, dim in zip(access.indices, self.unit.buffers[access.buffer].dims, strict=True):
            if isinstance(index, Access):
                self._outside(access, index, dim.extent)

    # -- addresses -------------------------------------------------------------------------------------------
    def address(self, access: Access, place: Memory) -> Address:
        """Where the element is."""
        indices: list[Value] = []
        stride: Value = integer(0)
        for d, index in enumerate(place.layout.joined(access.indices)):
            dim = place.layout.buffer.dims[d]
            if isinstance(index, Access):
                value = self._gathered(access, index, dim.extent)
            elif dim.collapsed:
                value = integer(0)
            else:
                value, step = self._split(index)
                if step:
                    stride = add(stride, mul(integer(step), place.layout.stride(d).value))
            indices.append(value)
        offset = place.layout.offset(indices)
        lanes = self.state.lanes
        varies = constant_value(stride) != 0
        if lanes is None:
            return Address(offset)
        if offset.type.lanes > 1 and varies:
            offset, varies = add(offset, mul(lir.Iota(Type(I64, lanes.count)), stride)), False
        if place.copies == 1:
            return Address(offset, stride if varies else None)
        if varies:
            offset = add(offset, mul(lir.Iota(Type(I64, lanes.count)), stride))
        offset = mul(offset, integer(place.copies))
        if offset.type.lanes > 1:
            return Address(add(offset, lir.Iota(Type(I64, lanes.count))), None)
        return Address(offset, integer(1))

    def _along_a_row(self, access: Access, place: Memory) -> tuple[Value, Value] | None:
        """A contiguous access through an index from data: the offset of the element in the first lane, and the
        lanes in which the index is in range. None where the lanes are not contiguous, or the target has no
        masks."""
        lanes, stored = self.state.lanes, place.layout.stored
        if lanes is None or place.copies != 1 or not stored or self.unit.target.tail == "scalar":
            return None
        last, _ = stored[-1]
        index = access.indices[last]
        others = [i for d, i in enumerate(access.indices) if d != last]
        if not isinstance(index, Access) or constant_value(place.layout.stride(last).value) != 1:
            return None
        if any(isinstance(other, Access) or lanes.depth in other.iterators for other in others):
            return None
        row = row_of(self.unit, self.state, self.path, index)
        if row is None:
            return None
        scalar = ElementAccess(self.unit, row.state, self.block, self.path)
        values = (convert(self.unit, self.unit.buffers[a.buffer].dtype, I64, scalar.load(a)) for a in row.reads)
        first = row.first(values)
        _, failed = self._outside(access, index, place.layout.buffer.dims[last].extent)
        indices = [first if d == last else affine_value(i, self.state.iterators) if isinstance(i, Affine) else first
                   for d, i in enumerate(access.indices)]  # fmt: skip
        return place.layout.offset(indices), lir.Unary(failed.type, "not", failed)

    def fail_where(self, outside: Value, status: int, name: str) -> lir.Var:
        """The program fails with `status` where `outside` holds in a lane at work. Gives `outside` a name."""
        failed = lir.Var(outside.type, self.unit.names.fresh(name))
        self.block.emit(lir.Let(failed, outside))
        condition = both(failed, self.state.mask if failed.type.lanes > 1 else None)
        assert condition is not None
        self.block.emit(lir.Fail(condition, status))
        return failed

    @property
    def holds(self) -> Holds:
        """The question whether an affine value is 0 or more in the iterations of this place."""
        return inside(scopes_around(self.unit.kernel, self.path))

    def _split(self, index: Affine) -> tuple[Value, int]:
        """The index in the first lane, and how much it grows from lane to lane; or the vector of it, and 0."""
        lanes = self.state.lanes
        if lanes is not None:
            coefficient, linear = along(index, lanes.depth)
            if not linear:
                return index_value(index, self.state), 0
            return affine_value(index, self.state.iterators), coefficient
        return affine_value(index, self.state.iterators), 0

    def _gathered(self, access: Access, index: Access, extent: Affine) -> Value:
        """The value of an index that is an element; 0 where it is out of bounds."""
        var, failed = self._outside(access, index, extent)
        within = lir.Select(failed, lir.Const(var.type, 0), var)
        return within if var.type.dtype == I64 else lir.Convert(var.type.with_dtype(I64), within)

    def _outside(self, access: Access, index: Access, extent: Affine) -> tuple[lir.Var, lir.Var]:
        """The value of an index that is an element, and whether it is out of bounds: then the program fails, and
        goes on. It is looked at once for each access of a statement."""
        known = self.indices.get((access, index))
        if known is None:
            known = self.indices[access, index] = self._checked(access, index, extent)
        return known

    def _checked(self, access: Access, index: Access, extent: Affine) -> tuple[lir.Var, lir.Var]:
        buffer = self.unit.buffers[index.buffer]
        own = self.load(index)
        narrow = own.type.lanes > 1 and (buffer.dtype == I32 or buffer.dtype.bits < 32)
        loaded = convert(self.unit, buffer.dtype, I32 if narrow else I64, own)
        var = lir.Var(loaded.type, self.unit.names.fresh(f"{index.buffer}_index"))
        self.block.emit(lir.Let(var, loaded))
        if narrow:
            outside = _outside_i32(var, affine_value(extent, ()))
        else:
            outside = binary("or", compare("lt", var, integer(0)), compare("ge", var, affine_value(extent, ())))
        return var, self.fail_where(outside, self.unit.index_status(self.path, access), f"{index.buffer}_outside")


def _outside_i32(index: lir.Var, extent: Value) -> Value:
    """Where an index in 32 bits is out of a range of any length: lanes are half as wide as those of i64."""
    lanes, flags = index.type.lanes, Type(BOOL, index.type.lanes)
    last = lir.Convert(Type(I32), sub(smaller(extent, integer(1 << 31)), integer(1)))
    negative = lir.Compare("lt", index, lir.Const(index.type, 0))
    return lir.Binary(flags, "or", negative, lir.Compare("gt", index, spread(last, lanes)))


def _step(address: Address) -> Value | None:
    """The stride as loads and stores have it, where None is contiguous."""
    return None if address.stride is None or constant_value(address.stride) == 1 else address.stride
