"""The values of a lowered program, and their types (`codegen.lir.program`)."""

from __future__ import annotations

from dataclasses import field, replace

from dojoir.ir.dtypes import BOOL, I64, DType
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
    approximate: approx_exp2, approx_rsqrt (`codegen.math.hardware` says how nearly). In C neg_by_bits, a negation
    that compilers do not see. On a GPU `loaded`, the same value, of a load that compilers leave where it stands."""

    type: Type
    op: str
    arg: Value


@dataclass(frozen=True)
class Binary:
    """add sub mul div; floordiv mod (integers, positive constant on the right); div rem of integers, where
    neither is negative; min max (of floats, minimum and maximum of IEEE 754-2019: NaN propagates, -0 is below +0);
    min_fast max_fast (`a < b ? a : b` and `a > b ? a : b`); ldexp (`a * 2**b` of floats, rounded once, where b is
    an integer; only for targets that say so); and or xor shl shr sar (integers; the first three
    also of bool). `of_data`: an i64 sum or product of data, which wraps around wherever it stands; those that count
    elements do not."""

    type: Type
    op: str
    left: Value
    right: Value
    of_data: bool = field(default=False, kw_only=True)


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
    offset: Position
    mask: Value | None = None


@dataclass(frozen=True)
class Dot:
    """`c` and the four products of the bytes of `a` and `b`, lane by lane, as i32 or u32, wrapping around. `signed`
    says of `a` and of `b` whether their bytes are i8, else they are u8. Only for targets that say so (`dots`)."""

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
    offset: Position
    stride: Position | None = None
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


# -- on a GPU -----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class ThreadNumber:
    """The number of the thread in its block."""

    type: Type


@dataclass(frozen=True)
class BlockNumber:
    """The number of the block in the grid, along one of the AXES."""

    type: Type
    axis: int


@dataclass(frozen=True)
class Extract:
    """One element of a wide value, as it stands in memory."""

    arg: Value
    lane: int

    @property
    def type(self) -> Type:
        return replace(self.arg.type, lanes=1)


@dataclass(frozen=True)
class Pack:
    """A wide value of its elements."""

    type: Type
    args: tuple[Value, ...]


@dataclass(frozen=True)
class Shuffle:
    """The value that `arg` has in another thread of the warp: whose number is this one's exclusive-or `by` (`xor`),
    or `by` less (`up`; the first `by` of each group of `width` threads keep their own). All threads of the groups
    of `width` that run it run it together."""

    how: str
    arg: Value
    by: Value
    width: int

    @property
    def type(self) -> Type:
        return self.arg.type


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

Position = Value
"""A value that only counts elements or iterations, or that guards."""
