"""The lowered program: what every printer spells.

Loops, lets, mutable variables, loads and stores on flat buffers, and vector values of a fixed lane count.
Everything that is a decision (layout, masks, accumulators, expansion of exp and its like, where a buffer is
allocated) has been taken by `codegen.lower`; a printer only chooses words.

Types are a `DType` of the IR and a lane count (1: a scalar). Offsets, strides and trip counts are i64 in
elements. A comparison gives `bool` lanes. Nothing here is undefined: integer arithmetic wraps, shifts are by
less than the width, float to integer conversion saturates and sends NaN to 0.
"""

from __future__ import annotations

from dataclasses import field

from dojoir.codegen.lir.device import (
    Atomic,
    Barrier,
    BlockNumber,
    Extract,
    Launch,
    Pack,
    Phase,
    Shuffle,
    ThreadNumber,
)
from dojoir.codegen.lir.outcome import Check
from dojoir.ir.dtypes import BOOL, I64, DType
from dojoir.ir.instruction import Instruction
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class Type:
    """`lanes` values of `dtype`."""

    dtype: DType
    lanes: int = 1

    def with_dtype(self, dtype: DType) -> Type:
        return Type(dtype, self.lanes)

    def __str__(self) -> str:
        return str(self.dtype) if self.lanes == 1 else f"{self.dtype}x{self.lanes}"


LINE = 64
"""The bytes of a cache line."""

INDEX = Type(I64)
FLAG = Type(BOOL)


# -- values ------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Const:
    """A number; in every lane, if the type has several."""

    type: Type
    value: int | float | bool


@dataclass(frozen=True)
class Var:
    """A parameter, loop variable, let or mutable variable. No name hides another one; blocks side by side may
    use the same."""

    type: Type
    name: str


@dataclass(frozen=True)
class Unary:
    """neg, not (bool or bits), abs, sqrt, floor, ceil, round (to nearest even). Of one f32, on targets that
    approximate: approx_exp2, approx_rsqrt (`codegen.math.hardware` says how nearly)."""

    type: Type
    op: str
    arg: Value


@dataclass(frozen=True)
class Binary:
    """add sub mul div; floordiv mod (integers, positive constant on the right); div rem of integers, where
    neither is negative; min max (of floats, minimum and maximum of IEEE 754-2019: NaN propagates, -0 is below +0);
    min_fast max_fast (`a < b ? a : b` and `a > b ? a : b`); ldexp (`a * 2**b` of floats, rounded once, where b is
    an integer; only for targets that say so); and or xor shl shr sar (integers; the first three
    also of bool)."""

    type: Type
    op: str
    left: Value
    right: Value


@dataclass(frozen=True)
class Compare:
    """eq ne lt le gt ge; on floats all but `ne` are false with a NaN. Gives bool lanes."""

    op: str
    left: Value
    right: Value

    @property
    def type(self) -> Type:
        return self.left.type.with_dtype(BOOL)


@dataclass(frozen=True)
class Select:
    """Lane by lane `condition ? yes : no`."""

    condition: Value
    yes: Value
    no: Value

    @property
    def type(self) -> Type:
        return self.yes.type


@dataclass(frozen=True)
class Fma:
    """`a * b + c`, rounded once."""

    a: Value
    b: Value
    c: Value

    @property
    def type(self) -> Type:
        return self.a.type


@dataclass(frozen=True)
class Quads:
    """Four neighbouring elements of one byte in each lane: the bytes of an i32 as they lie in memory, in lane l
    those of `buffer` from `offset + 4 l` on, read only where `mask` says so, else 0. The order of bytes in a number
    does not matter to `Dot`."""

    type: Type
    buffer: str
    offset: Value
    mask: Value | None = None


@dataclass(frozen=True)
class Dot:
    """`c` and the four products of the bytes of `a` and `b`, lane by lane, as i32 that wraps around. `signed` says
    of `a` and of `b` whether their bytes are i8, else they are u8. Only for targets that say so (`dots`)."""

    a: Value
    b: Value
    c: Value
    signed: tuple[bool, bool]

    @property
    def type(self) -> Type:
        return self.c.type


@dataclass(frozen=True)
class Convert:
    """The value as another number type of as many lanes: integers wrap, floats round to nearest even, float
    to integer truncates and saturates (NaN gives 0), to bool is `!= 0`."""

    type: Type
    arg: Value


@dataclass(frozen=True)
class Bitcast:
    """The same bits as another type of the same width."""

    type: Type
    arg: Value


@dataclass(frozen=True)
class Splat:
    """A scalar in every one of `lanes` lanes."""

    lanes: int
    arg: Value

    @property
    def type(self) -> Type:
        return Type(self.arg.type.dtype, self.lanes)


@dataclass(frozen=True)
class Iota:
    """0, 1, 2, … in the lanes."""

    type: Type


@dataclass(frozen=True)
class Reduce:
    """All lanes combined into one scalar with a Binary op (add mul min max min_fast max_fast and or xor). The
    order is a balanced tree: the lower half with the upper half, until one is left."""

    op: str
    arg: Value

    @property
    def type(self) -> Type:
        return Type(self.arg.type.dtype)


@dataclass(frozen=True)
class Load:
    """From `buffer` at `offset`. A scalar offset with vector type reads `stride` elements apart (1:
    contiguous); a vector offset gathers. Lanes whose `mask` is false are not read and hold zero."""

    type: Type
    buffer: str
    offset: Value
    stride: Value | None = None
    mask: Value | None = None


@dataclass(frozen=True)
class Call:
    """A call of a `Function` of the program."""

    type: Type
    function: str
    args: tuple[Value, ...]


@dataclass(frozen=True)
class AddressOf:
    """Where the first element of `buffer` is in memory, in bytes: an i64."""

    buffer: str

    @property
    def type(self) -> Type:
        return INDEX


Value = (
    Const
    | Var
    | Unary
    | Binary
    | Compare
    | Select
    | Fma
    | Quads
    | Dot
    | Convert
    | Bitcast
    | Splat
    | Iota
    | Reduce
    | Load
    | Call
    | AddressOf
    | ThreadNumber
    | BlockNumber
    | Extract
    | Pack
    | Shuffle
)


# -- statements --------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Let:
    """Names a value; never assigned again."""

    var: Var
    value: Value


@dataclass(frozen=True)
class Declare:
    """A mutable variable, here to the end of the enclosing block."""

    var: Var
    value: Value


@dataclass(frozen=True)
class Assign:
    var: Var
    value: Value


@dataclass(frozen=True)
class Store:
    """The counterpart of `Load`: contiguous, strided, or scattered by a vector offset, under `mask`.
    `streaming` is a store past the caches, where the target has one: of a contiguous vector, without mask, at an
    address that is a multiple of `stream_alignment` of its type."""

    buffer: str
    offset: Value
    value: Value
    stride: Value | None = None
    mask: Value | None = None
    streaming: bool = False


@dataclass(frozen=True)
class Stream:
    """Copies `elements` elements from the beginning of array `source` to `buffer` at `offset`, past the caches
    where the target can and the address is that of a cache line. For targets without vectors."""

    buffer: str
    offset: Value
    source: str
    elements: Value


@dataclass(frozen=True)
class Fence:
    """Stores past the caches that were made before it are there for other threads after it."""


@dataclass(frozen=True)
class Prefetch:
    """Asks the caches for the line with the element of `buffer` at `offset`, to be written if `write`. The offset
    may lie outside of the array."""

    buffer: str
    offset: Value
    write: bool = False


@dataclass(frozen=True)
class Element:
    """The element of `buffer` at `offset`, which may be the first of several."""

    buffer: str
    offset: Value


@dataclass(frozen=True)
class Instruct:
    """An instruction on operands, by name. The element with which an array begins, or the vector variable that is
    all of it; the value of a scalar, or for one that it writes, its element or variable. `otherwise` does the same
    in other words: for a C compiler that may not have the instruction."""

    instruction: Instruction
    operands: tuple[tuple[str, Element | Value], ...]
    otherwise: tuple[Stmt, ...]


@dataclass(frozen=True)
class Array:
    """A buffer of the program: `elements` of `dtype` (the type as stored; packed types as u16 or u8), aligned
    to `align` bytes (0: that of an element). `lives` is argument, heap, stack, reg or shared."""

    name: str
    dtype: DType
    elements: Value
    lives: str
    align: int = 0
    constant: bool = False


@dataclass(frozen=True)
class Allocate:
    """`array` exists from here to the end of the enclosing block; its contents are undefined at first. A heap
    array that cannot be had ends the program with status OUT_OF_MEMORY."""

    array: Array


@dataclass(frozen=True)
class For:
    """`var` from `start` below `stop` in steps of `step`. `kind` is seq, unroll (repeat the body, trip count
    constant), strips (the vectors in the body have `step` lanes, and as many iterations as are left at the end),
    open strips (the same, but with more lanes where the registers hold more) or simd (a plain loop whose iterations
    a compiler may run in lanes, `reductions` being variables that it may accumulate in any order with an op)."""

    var: Var
    start: Value
    stop: Value
    step: int
    body: tuple[Stmt, ...]
    kind: str = "seq"
    reductions: tuple[tuple[str, Var], ...] = ()
    comment: str = ""


@dataclass(frozen=True)
class Parallel:
    """`var` from 0 below `stop`, iterations shared out over the cores in contiguous chunks. `prologue` runs
    once for each chunk, before its iterations (private buffers), and `epilogue` after them. `captures` are the
    variables and arrays of the outside that the inside uses; it assigns none of them."""

    var: Var
    stop: Value
    prologue: tuple[Stmt, ...]
    body: tuple[Stmt, ...]
    captures: tuple[Var, ...] = ()
    captured_arrays: tuple[Array, ...] = ()
    comment: str = ""
    epilogue: tuple[Stmt, ...] = ()


@dataclass(frozen=True)
class If:
    condition: Value
    then: tuple[Stmt, ...]
    otherwise: tuple[Stmt, ...] = ()
    comment: str = ""


@dataclass(frozen=True)
class Fail:
    """Records that the program failed with `status` (where `condition` is true, in any lane) and goes on. The
    program returns the highest status that was recorded."""

    condition: Value
    status: int


@dataclass(frozen=True)
class Comment:
    text: str


Stmt = (
    Let
    | Declare
    | Assign
    | Store
    | Stream
    | Fence
    | Prefetch
    | Instruct
    | Allocate
    | For
    | Parallel
    | If
    | Fail
    | Comment
    | Launch
    | Barrier
    | Phase
    | Atomic
)


def stream_alignment(kind: Type) -> int:
    """The bytes to whose multiple a vector must be aligned to be stored past the caches: its size, or that of a
    cache line if it is larger. 0 for one that cannot be: less than 16 bytes, or no power of two."""
    size = kind.lanes * kind.dtype.itemsize
    return min(size, LINE) if size >= 16 and size & (size - 1) == 0 else 0


# -- programs ----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Function:
    """A pure function on values: `body` holds only Let, the value is `result`."""

    name: str
    params: tuple[Var, ...]
    body: tuple[Let, ...]
    result: Value
    comment: str = ""


@dataclass(frozen=True)
class Program:
    """A kernel, lowered. The compiled function takes `arguments` in order (a pointer each, or the value itself for
    those named in `by_value`: narrow floats as u16 or u8). Then come `sizes` as i64, behind those of the kernel
    the strides of strided arguments in elements, and returns an i32 status. `text` is the kernel; `fast` says that
    it allows floating-point algebra (`fp fast`)."""

    name: str
    arguments: tuple[Array, ...]
    by_value: tuple[Var, ...]
    sizes: tuple[Var, ...]
    functions: tuple[Function, ...]
    body: tuple[Stmt, ...]
    checks: tuple[Check, ...] = field(default=())
    text: str = ""
    fast: bool = False
