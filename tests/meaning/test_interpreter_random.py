"""Random expressions of every type: the interpreter, element by element, against NumPy on whole arrays."""

from __future__ import annotations

from functools import partial
from random import Random

import numpy as np
import numpy.typing as npt
import pytest
from drawing.expressions import Expressions
from typed_values import limits, wrapped

from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import BOOL, DTYPES, F32, DType
from dojoir.ir.nodes import Access, Buffer, Dim, Expr, Extent, Index, Kernel, Scope, Size, Statement
from dojoir.ir.text import to_text
from dojoir.meaning.bits import from_floats, to_floats
from dojoir.meaning.interpreter import interpret
from dojoir.meaning.scalar_ops import FUNCTIONS, OF_TWO, fma, fma_f32
from dojoir.types.elaborate import check
from dojoir.types.rounding import FORMATS, round_integer, rounder
from dojoir.types.typed import Apply, Convert, IndexValue, Load, Number, Typed

Array = npt.NDArray[np.generic]
COUNT = 40
HERE = Affine.iterator(0)
"""The only iterator: an element of each buffer is read at it."""


class Elements(Expressions):
    """Expressions of the elements of one array of each type, and of the iterator."""

    wild = True

    def leaf(self, dtype: DType, exact: bool) -> Expr | None:
        if dtype != BOOL and self.chance(0.1):
            return Index(HERE * self.random.randrange(1, 9) + self.random.randrange(-5, 5))
        if dtype.is_float:
            dtype = self.random.choice([t for t in DTYPES.values() if t.is_float])
        return Access(f"x_{dtype}", (HERE,))

    def tame(self, dtype: DType) -> Expr | None:
        return self.leaf(dtype, True)


def contents(dtype: DType, random: Random) -> Array:
    """Numbers of all magnitudes, with special ones among them, as NumPy computes with them."""
    rng = np.random.default_rng(random.randrange(2**32))
    if dtype == BOOL:
        return rng.integers(0, 2, COUNT).astype(np.bool_)
    if dtype.is_integer:
        info = np.iinfo(dtype.stored)
        wide = rng.integers(*limits(dtype), COUNT, dtype=info.dtype, endpoint=True)
        return np.where(rng.random(COUNT) < 0.5, wide, rng.integers(0, 8, COUNT).astype(info.dtype))
    values = rng.normal(size=COUNT) * 10.0 ** rng.integers(-2, 3, COUNT)
    special = rng.choice(np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, 1e30, 1e-30]), COUNT)
    return as_computed(np.where(rng.random(COUNT) < 0.8, values, special), dtype)


def as_computed(values: npt.NDArray[np.floating], dtype: DType) -> Array:
    """Values rounded to a float type, in the NumPy type in which they are computed with."""
    exact = to_floats(from_floats(values, dtype), dtype)
    return exact if dtype.bits == 64 else exact.astype(np.float32)


def evaluate(typed: Typed, elements: dict[str, Array]) -> Array:
    """The value of a typed tree at every iteration."""
    match typed:
        case Number(dtype, value):
            return np.full(COUNT, value, dtype.stored)
        case IndexValue(affine):
            return np.array([affine.evaluate({}, (i,)) for i in range(COUNT)], np.int64)
        case Load(_, access):
            return elements[access.buffer]
        case Convert(dtype, arg, "cast"):
            return convert(evaluate(arg, elements), dtype)
        case Convert(dtype, arg, way):
            return by_name(evaluate(arg, elements), arg.dtype, dtype, way)
        case Apply(dtype, name, args):
            return apply(name, [evaluate(arg, elements) for arg in args], dtype)


def convert(values: Array, dtype: DType) -> Array:
    if dtype == BOOL:
        return values != 0
    floating = values.dtype.kind == "f"
    if dtype.is_float:
        if floating:
            return as_computed(values, dtype)
        if dtype.bits >= 32:
            return values.astype(dtype.stored)
        return np.array([rounder(dtype)(float(x)) for x in values.tolist()], np.float32)
    if not floating:
        return wrapped(values, dtype)
    low, high = limits(dtype)
    inside = (values > float(low)) & (values < float(high))
    truncated = np.where(inside, values, 0).astype(dtype.stored)
    return np.where(inside | np.isnan(values), truncated, np.where(values > 0, high, low)).astype(dtype.stored)


def by_name(values: Array, source: DType, dtype: DType, way: str) -> Array:
    """A conversion by name; `tests/types/test_conversions.py` holds rounding against what it is."""
    if way == "bitcast" and source.is_float:
        bits = from_floats(values.astype(np.float64), source).view(dtype.stored)
        return np.where(np.isnan(values), np.array(FORMATS[source.name].nan_bits, dtype.stored), bits)
    if way == "bitcast":
        code = values & np.array((1 << dtype.bits) - 1, values.dtype)
        return to_floats(code.view(dtype.stored), dtype).astype(dtype.compute.stored)
    if dtype.is_float:
        rounded = rounder(dtype, way) if source.is_float else partial(round_integer, dtype=dtype, way=way)
        return np.array([rounded(x) for x in values.tolist()]).astype(dtype.compute.stored)
    if source.is_float:
        whole = np.floor(np.abs(values))
        return convert(np.copysign(whole + (np.abs(values) - whole >= 0.5), values), dtype)
    low, high = limits(dtype)
    return np.array([min(max(x, low), high) for x in values.tolist()], dtype.stored)


def _is_negative(a: Array) -> Array:
    """Of two zeros the sign decides."""
    return np.signbit(a) if a.dtype.kind == "f" else np.zeros(a.shape, np.bool_)


def apply(name: str, args: list[Array], dtype: DType) -> Array:
    a, b = args[0], args[-1]
    match name:
        case "min":
            return np.where((a < b) | (a != a) | ((a == b) & _is_negative(a)), a, b)
        case "max":
            return np.where((a > b) | (a != a) | ((a == b) & ~_is_negative(a)), a, b)
        case "select":
            return np.where(args[0], args[1], args[2])
        case "floordiv":
            return a // b
        case "mod":
            return a % b
        case "fma":
            fused = fma if dtype.bits == 64 else fma_f32
            return np.array([fused(*map(float, each)) for each in zip(*args, strict=True)]).astype(dtype.stored)
        case _ if name in OF_TWO:
            function = OF_TWO[name]
            return np.array([function(float(x), float(y)) for x, y in zip(a, b, strict=True)]).astype(dtype.stored)
        case _ if name in FUNCTIONS:
            return np.array([FUNCTIONS[name](float(x)) for x in a]).astype(dtype.stored)
        case _:
            return np.asarray(UFUNCS[name](*args))


UFUNCS: dict[str, np.ufunc] = {
    "or": np.logical_or, "and": np.logical_and, "not": np.logical_not, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal, "add": np.add,
    "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative, "abs": np.absolute,
    "bitand": np.bitwise_and, "bitor": np.bitwise_or, "bitxor": np.bitwise_xor, "bitnot": np.invert,
    "shl": np.left_shift, "shr": np.right_shift,
}  # fmt: skip


@pytest.mark.parametrize("seed", range(300))
def test_random_expressions(seed: int) -> None:
    random = Random(seed)
    dtype = random.choice(list(DTYPES.values()))
    expr = Elements(random).value(F32 if dtype.is_float else dtype, 5, True)
    buffers = (
        *(Buffer("in", f"x_{t}", t, (Dim(Affine.size("N")),)) for t in DTYPES.values()),
        Buffer("out", "y", dtype, (Dim(Affine.size("N")),)),
    )
    statement = Statement(Access("y", (HERE,)), "=", expr)
    kernel = Kernel("k", (Size("N"),), buffers, (Scope(Extent((Affine.size("N"),)), (statement,)),))
    (typed,) = check(kernel)
    elements = {f"x_{t}": contents(t, random) for t in DTYPES.values()}
    inputs = {
        f"x_{t}": from_floats(elements[f"x_{t}"], t) if t.is_float else elements[f"x_{t}"] for t in DTYPES.values()
    }
    got = interpret(kernel, inputs)["y"]
    with np.errstate(all="ignore"):
        want = evaluate(typed.result, elements)
    if dtype.is_float:
        mine, other = to_floats(got, dtype), np.asarray(want, np.float64)
        same = (mine == other) & (np.signbit(mine) == np.signbit(other)) | np.isnan(mine) & np.isnan(other)
    else:
        same = np.asarray(got == want)
    assert same.all(), f"{to_text(kernel)}\n{got[~same][:4]} {want[~same][:4]}"
