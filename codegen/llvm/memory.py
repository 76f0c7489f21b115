"""Loads and stores as LLVM instructions: contiguous, strided, gathered, masked."""

from __future__ import annotations

from dataclasses import replace

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.arith import add, constant_value, integer
from dojoir.codegen.lir.program import INDEX, Element, Instruct, Load, Prefetch, Quads, Store, Type, Value, Var
from dojoir.codegen.llvm import words as text
from dojoir.codegen.llvm.operands import Operands
from dojoir.ir.dtypes import BOOL, DTYPES, DType

BYTE = DTYPES["u8"]


def _held(dtype: DType) -> DType:
    """The type of an element in memory: a bool is a byte there."""
    return BYTE if dtype == BOOL else dtype


def load(values: Operands, value: Load) -> str:
    """The operand that holds what a load reads."""
    kind = value.type
    held = kind.with_dtype(_held(kind.dtype))
    raw = _loaded(values, value, held)
    if kind.dtype != BOOL:
        return raw
    zero = text.repeated(held, "0")
    return values.code.value(f"icmp ne {text.spelled(held)} {raw}, {zero}")


def quads(values: Operands, value: Quads) -> str:
    """The operand that holds four bytes a lane."""
    pointer = _address(values, value.buffer, value.offset, inbounds=True)
    spelled = text.spelled(value.type)
    if value.mask is None:
        return values.code.value(f"load {spelled}, ptr {pointer}, align 1")
    flags, mask = _mask(values, value.mask, value.type.lanes)
    arguments = [("ptr", pointer), ("i32", "1"), (flags, mask), (spelled, "zeroinitializer")]
    return values.code.call(f"llvm.masked.load.{text.mangled(value.type)}.p0", spelled, arguments)


def store(values: Operands, statement: Store) -> None:
    kind = statement.value.type
    held = kind.with_dtype(_held(kind.dtype))
    operand = values.operand(statement.value)
    if kind.dtype == BOOL:
        operand = values.code.value(f"zext {text.spelled(kind)} {operand} to {text.spelled(held)}")
    _write(values, statement, held, operand)


def prefetch(values: Operands, statement: Prefetch) -> None:
    """Asks for the line of an element, which may be outside of the array."""
    code = values.code
    pointer = _address(values, statement.buffer, statement.offset, inbounds=False)
    given = [("ptr", pointer), ("i32", f"{int(statement.write)}"), ("i32", "3"), ("i32", "1")]
    code.run("llvm.prefetch.p0", given)


def instruct(values: Operands, statement: Instruct) -> None:
    """The call that an instruction is: its operands loaded as the types of the call, its result stored."""
    call, code = statement.instruction.llvm, values.code
    assert call is not None, "the target has the instruction"
    operands = dict(statement.operands)
    given: list[str] = []
    for kind, name, is_operand in call.arguments:
        operand = operands[name] if is_operand else None
        if isinstance(operand, Element):
            pointer = _address(values, operand.buffer, operand.offset, inbounds=True)
            align = values.arrays[operand.buffer][1].itemsize
            given.append(f"{kind} {code.value(f'load {kind}, ptr {pointer}, align {align}')}")
        else:
            given.append(f"{kind} {name if operand is None else values.operand(operand)}")
    code.module.declare(call.function, call.kind, ", ".join(kind for kind, _, _ in call.arguments))
    result = code.value(f"call {call.flags}{call.kind} @{call.function}({', '.join(given)})")
    target = operands[call.result]
    if isinstance(target, Element):
        pointer = _address(values, target.buffer, target.offset, inbounds=True)
        code.do(f"store {call.kind} {result}, ptr {pointer}, align {values.arrays[target.buffer][1].itemsize}")
    else:
        assert isinstance(target, Var)
        code.do(f"store {call.kind} {result}, ptr {values.cells[target.name]}")


def _loaded(values: Operands, value: Load, held: Type) -> str:
    code = values.code
    if _is_reversed(value):
        first = add(value.offset, integer(1 - held.lanes))
        forward = _loaded(values, replace(value, offset=first, stride=None), held)
        return values.lanes(held, forward, range(held.lanes - 1, -1, -1))
    if _is_near(value, held):
        return _read_apart(values, value, held)
    align = held.dtype.itemsize
    spelled = text.spelled(held)
    pointers = _addresses(values, value.buffer, value.offset, value.stride, held, value.mask)
    if pointers is None:
        mask = None if value.mask is None else values.operand(value.mask)
        return _read_beside(values, value.buffer, value.offset, held, mask)
    flags, mask = _mask(values, value.mask, held.lanes)
    arguments = [(f"<{held.lanes} x ptr>", pointers), ("i32", str(align)), (flags, mask)]
    name = f"llvm.masked.gather.{text.mangled(held)}.v{held.lanes}p0"
    return code.call(name, spelled, [*arguments, (spelled, "zeroinitializer")])


def _read_beside(values: Operands, buffer: str, offset: Value, held: Type, mask: str | None) -> str:
    """Neighbours, those whose flag in `mask` is set."""
    pointer = _address(values, buffer, offset, inbounds=mask is None)
    spelled, align = text.spelled(held), held.dtype.itemsize
    if mask is None:
        return values.code.value(f"load {spelled}, ptr {pointer}, align {align}")
    if held.lanes == 1:
        return _read_if(values, pointer, held, mask)
    wide, flags = _whole_vector(values, held, mask)
    spelled = text.spelled(wide)
    arguments = [
        ("ptr", pointer),
        ("i32", str(align)),
        (f"<{wide.lanes} x i1>", flags),
        (spelled, "zeroinitializer"),
    ]
    found = values.code.call(f"llvm.masked.load.{text.mangled(wide)}.p0", spelled, arguments)
    return found if wide == held else values.lanes(wide, found, range(held.lanes))


WHOLE = 128
"""The bits of the shortest vector that every processor with lanes has."""


def _whole_vector(values: Operands, held: Type, mask: str) -> tuple[Type, str]:
    """The type of a vector of WHOLE bits or more in the place of a shorter one, and its flags: none is set past the
    end of the shorter one. LLVM makes such vectors longer by itself, and flags of a comparison of narrow integers,
    as of 8 times `i8`, are then whatever the longer comparison gives: elements behind the last were written."""
    if held.lanes * held.dtype.bits >= WHOLE:
        return held, mask
    wide = replace(held, lanes=WHOLE // held.dtype.bits)
    order = [*range(held.lanes), *[held.lanes] * (wide.lanes - held.lanes)]
    return wide, values.shuffled(Type(BOOL, held.lanes), mask, "zeroinitializer", order)


FARTHEST = 4
"""Elements so many apart are read with what lies between them: as many loads, and a shuffle less, cost less than a
gather of each."""


def _is_near(load: Load, held: Type) -> bool:
    """Whether the lanes of a load are a few elements apart, and vectors of all that lies there can be loaded."""
    apart = None if load.stride is None or load.offset.type.lanes > 1 else constant_value(load.stride)
    whole = held.lanes >= FARTHEST and held.lanes & (held.lanes - 1) == 0
    return apart is not None and 2 <= apart <= FARTHEST and whole and (load.mask is None or held.dtype.bits >= 32)


def _read_apart(values: Operands, load: Load, held: Type) -> str:
    """Lanes a few elements apart, out of vectors that cover all from the first lane to the last and nothing
    beyond: what lies between two elements of an array is in the array. Under a mask only the lanes' own elements
    are read."""
    assert load.stride is not None
    apart, lanes = constant_value(load.stride), held.lanes
    assert apart is not None
    flags = None if load.mask is None else values.operand(load.mask)
    read, done = "", 0
    for number in range(apart):
        start = min(number * lanes, apart * (lanes - 1) + 1 - lanes)
        mask = None if flags is None else _flags_apart(values, flags, lanes, apart, start)
        part = _read_beside(values, load.buffer, add(load.offset, integer(start)), held, mask)
        reached = min(-(-(start + lanes) // apart), lanes)
        if number:
            kept = [lane if number > 1 else apart * lane for lane in range(done)]
            new = [lanes + apart * lane - start for lane in range(done, reached)]
            part = values.shuffled(held, read, part, [*kept, *new, *[None] * (lanes - reached)])
        read, done = part, reached
    return read


def _flags_apart(values: Operands, flags: str, lanes: int, apart: int, start: int) -> str:
    """The flags of so many neighbours from the one numbered `start` on, where those of lanes are so far apart."""
    places = range(start, start + lanes)
    order = [place // apart if place % apart == 0 else lanes for place in places]
    return values.shuffled(Type(BOOL, lanes), flags, "zeroinitializer", order)


def _read_if(values: Operands, pointer: str, held: Type, condition: str) -> str:
    """One element, or zero where it may not be read."""
    code = values.code
    before, yes, done = code.label, code.new_label("read"), code.new_label("done")
    code.do(f"br i1 {condition}, label %{yes}, label %{done}")
    code.start(yes)
    loaded = code.value(f"load {text.spelled(held)}, ptr {pointer}, align {held.dtype.itemsize}")
    code.do(f"br label %{done}")
    code.start(done)
    zero = text.number(held.dtype, 0)
    return code.value(f"phi {text.spelled(held)} [ {loaded}, %{yes} ], [ {zero}, %{before} ]")


def _write(values: Operands, statement: Store, held: Type, operand: str) -> None:
    code = values.code
    if _is_reversed(statement):
        first = add(statement.offset, integer(1 - held.lanes))
        backward = values.lanes(held, operand, range(held.lanes - 1, -1, -1))
        _write(values, replace(statement, offset=first, stride=None), held, backward)
        return
    align = held.dtype.itemsize
    spelled = text.spelled(held)
    pointers = _addresses(values, statement.buffer, statement.offset, statement.stride, held, statement.mask)
    if pointers is None:
        pointer = _address(values, statement.buffer, statement.offset, inbounds=statement.mask is None)
        if statement.mask is None and not statement.streaming:
            _write_in_order(values, statement.buffer, pointer, held, operand)
            return
        if statement.mask is None:
            align = lir.stream_alignment(held)
            code.do(f"store {spelled} {operand}, ptr {pointer}, align {align}, !nontemporal !0")
            return
        if held.lanes == 1:
            _write_if(values, pointer, held, operand, values.operand(statement.mask))
            return
        wide, mask = _whole_vector(values, held, values.operand(statement.mask))
        if wide != held:
            order = [*range(held.lanes), *[None] * (wide.lanes - held.lanes)]
            operand = values.shuffled(held, operand, "poison", order)
        spelled, flags = text.spelled(wide), f"<{wide.lanes} x i1>"
        given = [(spelled, operand), ("ptr", pointer), ("i32", f"{align}"), (flags, mask)]
        code.run(f"llvm.masked.store.{text.mangled(wide)}.p0", given)
        return
    flags, mask = _mask(values, statement.mask, held.lanes)
    given = [(spelled, operand), (f"<{held.lanes} x ptr>", pointers), ("i32", f"{align}"), (flags, mask)]
    code.run(f"llvm.masked.scatter.{text.mangled(held)}.v{held.lanes}p0", given)


def _write_in_order(values: Operands, buffer: str, pointer: str, held: Type, operand: str) -> None:
    """Neighbours, one register after the other from the first on. Of a vector of several, LLVM stores the last
    first: what lies across lines was then written up to a fourth slower. An array on the stack may be a register
    itself, and is written whole."""
    one, align = values.register // held.dtype.bits, held.dtype.itemsize
    if buffer in values.on_stack or one < 2 or held.lanes <= one or held.lanes % one:
        values.code.do(f"store {text.spelled(held)} {operand}, ptr {pointer}, align {align}")
        return
    part, element = text.spelled(replace(held, lanes=one)), text.stored(held.dtype)
    for first in range(0, held.lanes, one):
        piece = values.lanes(held, operand, range(first, first + one))
        at = (
            values.code.value(f"getelementptr inbounds {element}, ptr {pointer}, i64 {first}") if first else pointer
        )
        values.code.do(f"store {part} {piece}, ptr {at}, align {align}")


def _write_if(values: Operands, pointer: str, held: Type, operand: str, condition: str) -> None:
    """One element, where it may be written."""
    code = values.code
    yes, done = code.new_label("write"), code.new_label("done")
    code.do(f"br i1 {condition}, label %{yes}, label %{done}")
    code.start(yes)
    code.do(f"store {text.spelled(held)} {operand}, ptr {pointer}, align {held.dtype.itemsize}")
    code.do(f"br label %{done}")
    code.start(done)


def _is_reversed(access: Load | Store) -> bool:
    """Whether lanes go down in memory, one element each, and all of them take part."""
    stride = access.stride
    return (
        stride is not None
        and constant_value(stride) == -1
        and access.mask is None
        and access.offset.type.lanes == 1
    )


def _mask(values: Operands, mask: Value | None, lanes: int) -> tuple[str, str]:
    flags = f"<{lanes} x i1>"
    return flags, "splat (i1 true)" if mask is None else values.operand(mask)


def _address(values: Operands, buffer: str, offset: Value, inbounds: bool) -> str:
    pointer, dtype = values.arrays[buffer]
    if constant_value(offset) == 0:
        return pointer
    # Under a mask the first lane may be outside the array: then its address is, too.
    within = "inbounds " if inbounds else ""
    element = text.stored(dtype)
    return values.code.value(f"getelementptr {within}{element}, ptr {pointer}, i64 {values.operand(offset)}")


def _addresses(
    values: Operands, buffer: str, offset: Value, stride: Value | None, held: Type, mask: Value | None
) -> str | None:
    """The address of each lane, where they are not simply next to each other."""
    if offset.type.lanes == 1 and (stride is None or constant_value(stride) == 1):
        return None
    code = values.code
    pointer, dtype = values.arrays[buffer]
    lanes = held.lanes
    wide = Type(INDEX.dtype, lanes)
    operand = values.operand(offset)
    if offset.type.lanes == 1:
        assert stride is not None
        steps = values.splat(INDEX.dtype, lanes, values.operand(stride))
        iota = "<" + ", ".join(f"i64 {lane}" for lane in range(lanes)) + ">"
        apart = values.combined(wide, "mul", steps, iota)
        operand = values.combined(wide, "add", values.splat(INDEX.dtype, lanes, operand), apart)
    within = "inbounds " if mask is None else ""
    element = text.stored(dtype)
    return code.value(f"getelementptr {within}{element}, ptr {pointer}, <{lanes} x i64> {operand}")
