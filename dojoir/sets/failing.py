"""Which values may be an error of the run: a divisor that is 0, a count that is no distance, an index that is data.

What a condition does not reach is not computed, so whoever computes a value earlier, or whatever a condition says,
asks here. `Holds` is asked whether an affine value is 0 or more in all iterations in which the value is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import DType
from dojoir.ir.nodes import Scope
from dojoir.sets.ranges import is_nonnegative
from dojoir.types.typed import Apply, Convert, IndexValue, Load, Number, Typed

Holds = Callable[[Affine], bool]


def inside(scopes: Sequence[Scope]) -> Holds:
    """The question in some scopes, answered without isl."""
    return lambda affine: is_nonnegative(affine, scopes)


def may_fail(typed: Typed, holds: Holds) -> bool:
    """Whether computing a value may be an error of the run."""
    match typed:
        case Number() | IndexValue():
            return False
        case Load(_, access):
            return not all(isinstance(index, Affine) for index in access.indices)
        case Convert(_, arg):
            return may_fail(arg, holds)
        case Apply(dtype, name, args):
            return _fails(dtype, name, args, holds) or any(may_fail(arg, holds) for arg in args)


def _fails(dtype: DType, name: str, args: Sequence[Typed], holds: Holds) -> bool:
    match name:
        case "floordiv" | "mod":
            return not is_never_0(args[1], holds)
        case "shl" | "shr":
            return not is_count(args[1], dtype, holds)
        case _:
            return False


def is_never_0(divisor: Typed, holds: Holds) -> bool:
    """Whether an integer is another than 0 whatever the data is: a number (one that is 0 the types refuse), an
    affine value that is more, or less, or a number with a bit that is set for sure."""
    match divisor:
        case Number():
            return True
        case IndexValue(affine) | Convert(_, IndexValue(affine), "cast"):
            known = is_positive(divisor, holds) or (divisor.dtype.kind == "i" and holds(-affine - 1))
            return known and _is_of_type(affine, divisor.dtype, holds)
        case Apply(_, "bitor", args):
            return any(isinstance(arg, Number) and arg.value != 0 for arg in args)
        case _:
            return False


def is_positive(typed: Typed, holds: Holds) -> bool:
    """Whether an integer is seen to be an affine value that is 1 or more."""
    match typed:
        case IndexValue(affine) | Convert(_, IndexValue(affine), "cast"):
            return holds(affine - 1) and _is_of_type(affine, typed.dtype, holds)
        case _:
            return False


def is_count(count: Typed, dtype: DType, holds: Holds) -> bool:
    """Whether a number is seen to be how far a `dtype` can be shifted (one that is known the types refuse)."""
    match count:
        case Number():
            return True
        case IndexValue(affine) | Convert(_, IndexValue(affine), "cast"):
            return holds(affine) and holds(dtype.bits - 1 - affine)
        case _:
            return False


def _is_of_type(affine: Affine, dtype: DType, holds: Holds) -> bool:
    """Whether an affine value is seen to be one of an integer type."""
    if dtype.bits == 64:
        return True
    most = (1 << (dtype.bits - (dtype.kind == "i"))) - 1
    least = -most - 1 if dtype.kind == "i" else 0
    return holds(most - affine) and holds(affine - least)
