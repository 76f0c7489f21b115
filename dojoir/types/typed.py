"""The typed tree: what statements are once every value has a type and every conversion is explicit.

The IR's expressions are a tree beside it, as a kernel reads back as it was written: there a number adapts to its
context, and conversions are implied. Numbers, operations and conversions are the same over any leaves.
Those of a kernel are elements and affine values (`Typed`); those of an imported program have indices of their own
(`dojoir.torch.importer.element_values`).
"""

from __future__ import annotations

from typing import Generic, TypeAlias, TypeVar

from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import I64, DType
from dojoir.ir.nodes import Access
from dojoir.support.frozen import dataclass

Leaf = TypeVar("Leaf")
LeafOf = TypeVar("LeafOf", covariant=True)


@dataclass(frozen=True)
class Number:
    """A number, already a value of `dtype`: in range, or rounded to f32 or f64."""

    dtype: DType
    value: int | float


@dataclass(frozen=True)
class IndexValue:
    """The value of an affine expression, as i64."""

    affine: Affine

    @property
    def dtype(self) -> DType:
        return I64


@dataclass(frozen=True)
class Load:
    """The element that `access` reads, in the type in which the buffer holds it."""

    dtype: DType
    access: Access


@dataclass(frozen=True)
class Apply(Generic[LeafOf]):
    """An operation of OPERATIONS. `args` are of one type, which for all but comparisons is `dtype` (the first
    argument of select is bool, and the count of a shift, shl or shr, any integer). No operation has a float type
    narrower than f32."""

    dtype: DType
    name: str
    args: tuple[TypedOver[LeafOf], ...]


@dataclass(frozen=True)
class Convert(Generic[LeafOf]):
    """`arg` converted to `dtype`, which is another type. Rounds to nearest even; float to integer truncates,
    saturates and sends NaN to 0; integer to integer wraps; to bool is `!= 0`. By another `way`:

    - sat: to the nearest number that `dtype` has, NaN to NaN where there is one, else to the largest; of an integer
      to another, or to a float, which may be the type of `arg` (its infinities are the largest numbers then)
    - round_away, round_to_zero: with ties away from 0, or towards 0; to a float, or of a float to an integer
    - bitcast: between a float and the unsigned integer of its width, u8 for f4e2m1; the bits of a NaN are those of
      the quiet positive one"""

    dtype: DType
    arg: TypedOver[LeafOf]
    way: str = "cast"


TypedOver: TypeAlias = Number | Leaf | Apply[Leaf] | Convert[Leaf]
"""A typed expression over leaves of a kind."""

Typed: TypeAlias = TypedOver[IndexValue | Load]


@dataclass(frozen=True)
class TypedStatement:
    """`target = value`, or `target = op(target, value)` for an accumulation (`op` is add, mul, max, min, or of
    integers and bools bitxor, bitand or bitor).

    `dtype` is the type in which the buffer holds the element: storing converts to it. An accumulation is done
    in the type of `value`. A `fused` one adds `value`, a product, without rounding it. Where there is a
    `condition`, all that is done only where it holds, and `value` is not computed elsewhere."""

    target: Access
    dtype: DType
    op: str | None
    value: Typed
    fused: bool = False
    condition: Typed | None = None

    @property
    def result(self) -> Typed:
        """The stored value, converted to `dtype`: with the read of its own element, where it accumulates."""
        value = self.value
        if self.op is not None:
            own = convert(value.dtype, Load(self.dtype, self.target))
            value = (
                Apply(value.dtype, "fma", (*self.factors, own))
                if self.fused
                else Apply(value.dtype, self.op, (own, value))
            )
        return convert(self.dtype, value)

    @property
    def factors(self) -> tuple[Typed, ...]:
        """The two operands of the product that a fused accumulation adds."""
        assert self.fused
        assert isinstance(self.value, Apply)
        return self.value.args


def convert(dtype: DType, value: Typed) -> Typed:
    """The value in the type `dtype`: itself, where it is of that."""
    return value if value.dtype == dtype else Convert(dtype, value)
