"""The operator table of the importer at special values: each row, for each type that it takes, against PyTorch in
f64 or in exact integers; and the gradients there.

    python tests/helpers/operator_table.py [--all] [--gradients] [ROW …]

prints a line for each row and type: the number of values, the worst error in units of the last place, how many are
wrong. Status 1 where one is."""

from __future__ import annotations

import argparse
import itertools
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import dojoir
from dojoir.codegen.math import elementary
from dojoir.ir.dtypes import F32

FLOATS = {"f64": torch.float64, "f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
INTEGERS = {
    "i64": torch.int64, "i32": torch.int32, "i16": torch.int16, "i8": torch.int8, "u8": torch.uint8
}  # fmt: skip
TYPES = {**FLOATS, **INTEGERS, "bool": torch.bool}
DIGITS = {"f64": (53, -1074), "f32": (24, -149), "bf16": (8, -133), "f16": (11, -24)}
"""The digits of each type of floats, and the exponent of the least number."""

aten: Any = torch.ops.aten


@dataclass(frozen=True)
class Row:
    """An operator: `call` on `arity` tensors. `ulp` is the error that is allowed, in units of the last place of the
    result; 0 is rounded once. `right` gives the right results of floats where PyTorch's own may be wrong. Of two
    zeros the sign is free where PyTorch's own depends on how it adds up lanes, without `signs`, and so is the
    gradient at NaN without `nan_gradient`. Integers have no 0 as a divisor where it `divides`."""

    name: str
    call: Callable[..., Any]
    arity: int = 1
    ulp: float = 0.0
    types: tuple[str, ...] = tuple(TYPES)
    divides: bool = False
    right: Callable[..., Any] | None = None
    signs: bool = True
    has_gradient: bool = True
    nan_gradient: bool = True


def _unary() -> Iterator[Row]:
    exact = (
        "abs", "neg", "relu", "sign", "trunc", "floor", "ceil", "round", "square", "positive", "frac", "sgn",
        "isnan", "isinf", "isfinite", "isposinf", "isneginf", "signbit", "logical_not", "bitwise_not", "sqrt",
        "reciprocal", "deg2rad", "clone", "detach",
    )  # fmt: skip
    for name in exact:
        ulp = 0.5 if name in ("sqrt", "reciprocal", "square") else 1.5 if name == "deg2rad" else 0.0
        yield Row(name, getattr(torch, name), ulp=ulp, signs=name != "relu", has_gradient=name != "detach")
    yield Row("nan_to_num", torch.nan_to_num, right=torch.nan_to_num)
    for name, ulp in FUNCTIONS.items():
        yield Row(name, getattr(torch, name), ulp=ulp, right=RIGHT.get(name))


FUNCTIONS = {n: f.ulp[F32] for n, f in elementary.FUNCTIONS.items()} | {"sin": 1.5, "cos": 1.5, "tan": 2.0}
"""The elementary functions of the table, and the error of each."""


def _of_numbers(function: Callable[..., Any], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Of two of which a NaN is not taken, a signalling one neither."""
    return torch.where(x.isnan(), y, torch.where(y.isnan(), x, function(x, y)))


def _in_numpy(function: Callable[..., Any]) -> Callable[..., torch.Tensor]:
    def right(x: torch.Tensor) -> torch.Tensor:
        with np.errstate(all="ignore"):
            return torch.from_numpy(function(x.double().numpy()))

    return right


RIGHT = {"sinh": _in_numpy(np.sinh), "cosh": _in_numpy(np.cosh)}
"""Those of which PyTorch's own overflow too early in f64."""


def _binary() -> Iterator[Row]:
    exact = (
        "add", "sub", "mul", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or",
        "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "copysign", "heaviside",
    )  # fmt: skip
    for name in exact:
        yield Row(name, getattr(torch, name), 2, signs=name not in ("maximum", "minimum"))
    for name, of in (("fmax", torch.maximum), ("fmin", torch.minimum)):
        yield Row(name, getattr(torch, name), 2, right=lambda x, y, of=of: _of_numbers(of, x, y), signs=False)
    for name in ("div", "true_divide"):
        yield Row(name, getattr(torch, name), 2, 0.5, divides=True)
    for name, right in DIVISIONS.items():
        ulp = 0.6 if name == "floor_divide" else 0.0
        yield Row(name, getattr(torch, name), 2, ulp, divides=True, right=right)
    yield Row("div_trunc", lambda x, y: torch.div(x, y, rounding_mode="trunc"), 2, divides=True)
    yield Row(
        "div_floor", lambda x, y: torch.div(x, y, rounding_mode="floor"), 2, 0.6, divides=True, right=floor_div
    )
    yield Row("xlogy", torch.xlogy, 2, 2.0, tuple(FLOATS))
    yield Row("hypot", torch.hypot, 2, 1.1, tuple(FLOATS))
    yield Row("atan2", torch.atan2, 2, 2.0)
    yield Row("pow", torch.pow, 2, 1.5, tuple(FLOATS))
    yield Row("where", lambda x, y: torch.where(x > y, x, y), 2)
    yield Row("clamp", lambda x, y: torch.clamp(x, min=y), 2, signs=False)


def _elementwise(function: Callable[..., Any]) -> Callable[..., torch.Tensor]:
    """A function of NumPy's arrays in f64 on tensors of floats, rounded to their type at the end. A number beside a
    narrow tensor is rounded as PyTorch does: a divisor of a quotient to f32, one of a rest to the type."""

    def right(x: torch.Tensor, y: Any) -> torch.Tensor:
        kind = x.dtype
        number = torch.float32 if function is _floor_div and kind.itemsize == 2 else kind
        wide = torch.as_tensor(y, dtype=kind if isinstance(y, torch.Tensor) else number).double().expand_as(x)
        with np.errstate(all="ignore"):
            return torch.from_numpy(function(x.double().numpy(), wide.numpy())).to(kind)

    return right


def _floor_mod(x: Any, y: Any) -> Any:
    rest = np.fmod(x, y)
    return np.where((rest != 0) & (np.signbit(rest) != np.signbit(y)), rest + y, rest)


def _floor_div(x: Any, y: Any) -> Any:
    rest = np.fmod(x, y)
    near = (x - rest) / y - ((rest != 0) & (np.signbit(rest) != np.signbit(y)))
    down = np.floor(near)
    down = np.where(near - down > 0.5, down + 1, down)
    return np.where(y == 0, x / y, np.where(near == 0, np.copysign(0.0, x / y), down))


floor_div = _elementwise(_floor_div)
DIVISIONS = {"fmod": _elementwise(np.fmod), "remainder": _elementwise(_floor_mod), "floor_divide": floor_div}
"""What is exact, by fmod of the C library, which is."""


def _numbers() -> Iterator[Row]:
    """Overloads whose second operand is a number."""
    for n in (3, -3, 0.1, 2.0, -0.5, math.inf, 0.0):
        is_float = isinstance(n, float)
        types = tuple(FLOATS) if is_float else tuple(t for t in TYPES if t not in ("bool", "u8"))
        for name, right in DIVISIONS.items():
            call = lambda x, f=name, n=n: getattr(torch, f)(x, n)  # noqa: E731
            known = lambda x, r=right, n=n: r(x, n)  # noqa: E731
            ulp = 0.6 if name == "floor_divide" else 0.0
            yield Row(f"{name}_{n}", call, ulp=ulp, types=types, divides=True, right=known)
        call = lambda x, n=n: torch.div(x, n, rounding_mode="trunc")  # noqa: E731
        yield Row(f"div_trunc_{n}", call, types=types, divides=True)
    for n in (0, 1, 2, 3, 4, 5, -1, -2, 0.5, -0.5, 1.5, 0.25, math.inf):
        yield Row(
            f"pow_{n}", lambda x, n=n: torch.pow(x, n), ulp=2.5 if n in (3, 4, -2) else 1.5, types=tuple(FLOATS)
        )
        if isinstance(n, int) and n >= 0:
            yield Row(f"pow_{n}_int", lambda x, n=n: torch.pow(x, n), types=tuple(INTEGERS))
    for name, n in itertools.product(("eq", "ne", "lt", "le", "gt", "ge"), (0.1, -(2.0**62), 3.0, math.inf)):
        yield Row(f"{name}_{n}", lambda x, f=name, n=n: getattr(torch, f)(x, n), types=("bf16", "f16"), right=None)
    for n in (2.0, 0.0, 10.0, -2.0):
        yield Row(f"rpow_{n}", lambda x, n=n: torch.pow(n, x), ulp=1.5, types=tuple(FLOATS))
    for low, high in ((-1.0, 1.0), (0.0, 6.0)):
        call = lambda x, a=low, b=high: torch.nn.functional.hardtanh(x, a, b)  # noqa: E731
        yield Row(f"hardtanh_{high}", call, types=tuple(FLOATS), signs=False, nan_gradient=False)
    yield Row("clamp_both", lambda x: torch.clamp(x, -2, 3), types=tuple(t for t in TYPES if t != "u8"))
    yield Row("leaky_relu", lambda x: torch.nn.functional.leaky_relu(x, 0.1), ulp=1.1, types=tuple(FLOATS))


def _casts() -> Iterator[Row]:
    """A float that is out of range of integers is anything in PyTorch."""
    for name, dtype in TYPES.items():
        low, high = (-(2.0**62), 2.0**62) if name in FLOATS or name == "bool" else _range(dtype)

        def call(x: torch.Tensor, d: Any = dtype, low: float = low, high: float = high) -> torch.Tensor:
            wide = x.double() if x.is_floating_point() else x
            return torch.where((wide >= low) & (wide <= high), x, 1).to(d) if d in INTEGERS.values() else x.to(d)

        yield Row(f"to_{name}", call)


def _range(dtype: torch.dtype) -> tuple[float, float]:
    info = torch.iinfo(dtype)
    return float(max(info.min, -(2**62))), float(min(info.max, 2**62) - (2**30 if info.bits > 16 else 0))


ROWS: dict[str, Row] = {row.name: row for row in (*_unary(), *_binary(), *_numbers(), *_casts())}


# -- values ---------------------------------------------------------------------------------------------------
POINTS = (
    0.0, 0.1, 0.25, 0.34, 1 / 3, 0.414213562, 0.5, 0.75, 0.8, 1.0, 1.5, math.pi / 2, 2.0, 2.414213562, 2.5, 3.0,
    math.pi, 3.5, 4.5, 5.0, 10.0, 17.5, 20.0, 26.5, 28.0, 87.5, 88.7228, 89.415, 100.0, 103.97, 127.0, 128.0, 149.0,
    255.0, 256.0, 709.78, 710.47, 745.1, 1000.0, 1e4, 65504.0, 65520.0, 1e7, 8388608.0, 16777216.0, 7e8, 2.0**31,
    2.0**32, 1e15, 2.0**52, 2.0**53, 2.0**63, 2.0**64, 1e20, 1e30, 3e38, 1e154, 1e300, 1e-8, 1e-5, 1e-3, 1e-20,
    1e-30, 1e-38, 1e-40, 1e-154, 1e-300, 1e-310,
)  # fmt: skip
"""Where formulas change, overflow, cancel; the numbers beside each are taken too."""


def special(name: str) -> torch.Tensor:
    """The special values of a type: all of a type of 8 bits."""
    if name == "bool":
        return torch.tensor([False, True])
    if name in ("i8", "u8"):
        return torch.arange(256).to(TYPES[name])
    if name in INTEGERS:
        bits = torch.iinfo(TYPES[name]).bits
        made = {s * (2**k + d) for k in range(bits) for d in (-1, 0, 1) for s in (1, -1)} | set(range(-12, 13))
        made |= {s * 10**k for k in range(20) for s in (1, -1)}
        return torch.tensor(sorted(v for v in made if -(2 ** (bits - 1)) <= v < 2 ** (bits - 1)), dtype=TYPES[name])
    x = torch.tensor(POINTS, dtype=torch.float64).to(TYPES[name])
    up, down = torch.tensor(math.inf, dtype=x.dtype), torch.tensor(-math.inf, dtype=x.dtype)
    info = torch.finfo(TYPES[name])
    least = torch.tensor([info.smallest_normal, info.max, math.inf], dtype=x.dtype)
    x = torch.cat([x, least])
    x = torch.cat([x, x.nextafter(up.expand_as(x)), x.nextafter(down.expand_as(x))])
    x = torch.cat([x, -x, torch.tensor([math.nan, -0.0], dtype=x.dtype)])
    return _distinct(x)


def _distinct(x: torch.Tensor) -> torch.Tensor:
    kind = {8: torch.int64, 4: torch.int32, 2: torch.int16}[x.element_size()]
    return x.view(kind).unique().view(x.dtype)


def every(name: str, count: int) -> torch.Tensor:
    """All values of a type of up to 16 bits; the special ones of a wider one and `count` of any bits."""
    made = torch.Generator().manual_seed(1)
    if name in ("bf16", "f16", "i16"):
        return torch.arange(-(2**15), 2**15).to(torch.int16).view(TYPES[name])
    if TYPES[name].itemsize == 1:
        return special(name)
    kind = {8: torch.int64, 4: torch.int32}[TYPES[name].itemsize]
    info = torch.iinfo(kind)
    any_bits = torch.randint(info.min, info.max, (count,), generator=made, dtype=kind).view(TYPES[name])
    near = (torch.randn(count, generator=made, dtype=torch.float64) * 3).to(TYPES[name])
    return torch.cat([special(name), any_bits, near])


def pairs(name: str, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """All pairs of special values, and `count` of any."""
    x = special(name)
    a, b = x.repeat_interleave(len(x)), x.repeat(len(x))
    if name in ("i8", "u8", "bool"):
        return a, b
    any_of = every(name, count)
    order = [torch.randint(len(any_of), (count,), generator=torch.Generator().manual_seed(s)) for s in (2, 3)]
    return torch.cat([a, any_of[order[0]]]), torch.cat([b, any_of[order[1]]])


def arguments(row: Row, name: str, count: int) -> tuple[torch.Tensor, ...]:
    """The operands of a row, at a type."""
    if row.arity == 1:
        x = every(name, count)
        given: tuple[torch.Tensor, ...] = (x,)
    else:
        given = pairs(name, count)
    if row.divides and name in INTEGERS and row.arity == 2:
        a, b = given
        least = torch.iinfo(TYPES[name]).min
        keep = (b != 0) & ~((a == least) & (b == -1))
        return a[keep], b[keep]
    return given


# -- the judgement --------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Found:
    """What became of a row at a type. `worst` is in units of the last place; `example` an operand that is wrong."""

    row: str
    type: str
    values: int
    worst: float
    wrong: int
    example: str = ""

    def __str__(self) -> str:
        line = f"{self.row:<22} {self.type:<5} {self.values:>7} values, worst {self.worst:8.3g} ulp"
        line += f", {self.wrong} wrong"
        return f"{line}  {self.example}" if self.wrong else line


class _Module(torch.nn.Module):
    def __init__(self, call: Callable[..., Any]) -> None:
        super().__init__()
        self.call = call

    def forward(self, *given: Any) -> Any:
        return self.call(*given)


def errors(found: torch.Tensor, right: torch.Tensor, name: str, signs: bool = True) -> torch.Tensor:
    """How far results are from the right ones, which are in f64 or of the same type, in units of the last place;
    inf for another zero (with `signs`), a NaN for a number or a number for a NaN."""
    if not found.dtype.is_floating_point:
        return torch.where(found == right, 0.0, math.inf)
    digits, lowest = DIGITS[name]
    wide, true = found.double(), right.double()
    rounded = right.to(found.dtype)
    exponent = np.maximum(np.frexp(true.numpy())[1] - digits, lowest)
    unit = torch.from_numpy(np.ldexp(1.0, exponent))
    error = (wide - true).abs() / unit
    error = torch.where(error.isnan(), math.inf, error)
    same = found == rounded
    error = torch.where(same, torch.where(true.isinf(), 0.0, error.clamp(max=0.5)), error)
    if signs:
        error = torch.where((found == 0) & (rounded == 0) & (found.signbit() != rounded.signbit()), math.inf, error)
    error = torch.where(found.isnan() & right.isnan(), 0.0, error)
    # one side of an overflow: off by no more than the last number is from the next
    largest = torch.finfo(found.dtype).max
    alike = found.sign() == true.sign()
    over = found.isinf() & ~rounded.isinf() & (rounded.abs() == largest) & alike
    under = rounded.isinf() & ~found.isinf() & (wide.abs() == largest) & alike
    return torch.where(over | under, 1.0, error)


def reference(row: Row, given: Sequence[torch.Tensor], name: str) -> torch.Tensor:
    """The right results: of a function in f64, of what is rounded once in the type that it is computed in, else
    PyTorch's own."""
    if name in FLOATS and row.right is not None:
        made = row.right(*given)
    elif row.ulp:
        made = row.call(*((x if name == "f64" else x.float()).double() for x in given))
    elif name in ("bf16", "f16") and not row.name.startswith("to_") and row.types != ("bf16", "f16"):
        kind = row.call(*(x[:1] for x in given)).dtype
        made = row.call(*(x.float() for x in given)).to(kind)
    else:
        made = row.call(*given)
    assert isinstance(made, torch.Tensor)
    return made


def held(row: Row, name: str, count: int = 2000) -> Found | None:
    """A row at a type; None where PyTorch does not take the type, or the importer leaves it to PyTorch."""
    given = arguments(row, name, count)
    try:
        kind = row.call(*(x[:1] for x in given)).dtype
        right = reference(row, given, name)
    except (RuntimeError, TypeError):
        return None
    try:
        imported = dojoir.torch.from_module(_Module(row.call), given, optimize=False, whole=True)
    except dojoir.DojoError as error:
        if "no-operator" not in str(error):
            return Found(row.name, name, len(given[0]), math.inf, len(given[0]), str(error))
        return None
    found = imported(*given)
    assert found.dtype == kind, (found.dtype, kind)
    own = {dtype: n for n, dtype in TYPES.items()}[kind]
    if not kind.is_floating_point and right.dtype != kind:
        right = row.call(*given)
    apart = errors(found, right, own if own in FLOATS else name, row.signs)
    allowed = 0.0
    if own in FLOATS and row.ulp:
        own_error = 0.0 if own != "f64" else 2.0 if row.right is None else 0.5  # of what it is held to
        allowed = row.ulp + own_error if own in ("f64", "f32") else 0.55
    wrong = (apart > allowed).nonzero().flatten()
    example = ""
    if len(wrong):
        at = (
            int(wrong[apart[wrong].argmax()])
            if apart[wrong].isfinite().all()
            else int(wrong[apart[wrong].isinf()][0])
        )
        operands = ", ".join(repr(x[at].item()) for x in given)
        example = f"({operands}) is {found[at].item()!r}, for {right[at].item()!r}"
    finite = apart[apart.isfinite()]
    worst = math.inf if len(finite) < len(apart) else float(finite.max()) if len(finite) else 0.0
    return Found(row.name, name, len(apart), worst, len(wrong), example)


def gradients(row: Row, name: str = "f32", count: int = 200) -> Found | None:
    """The gradients of a row of floats, against those of PyTorch in f64. The formulas are PyTorch's own: wrong is
    what is off by more than 8 units and by more than PyTorch's own gradients in the type are, twice: those there,
    and of one operand those that are next to it."""
    given = arguments(row, name, count)
    wide = [x.double().requires_grad_() for x in given]
    try:
        result = row.call(*wide)
        if not result.requires_grad:
            return None
        result.backward(torch.ones_like(result))
    except (RuntimeError, TypeError):
        return None
    torch._dynamo.reset()
    own = [x.clone().requires_grad_() for x in given]
    backend = dojoir.torch.backend(whole=True, optimize=False)
    compiled = torch.compile(_Module(row.call), backend=backend, fullgraph=True, dynamic=False)
    try:
        made = compiled(*own)
        made.backward(torch.ones_like(made))
    except Exception as error:
        if "no-operator" not in str(error):
            return Found(f"{row.name}'", name, len(given[0]), math.inf, len(given[0]), str(error))
        return None
    plain = [x.clone().requires_grad_() for x in given]
    result = row.call(*plain)
    result.backward(torch.ones_like(result))
    apart = torch.stack([errors(x.grad, w.grad, name) for x, w in zip(own, wide, strict=True)])
    its = torch.stack([errors(x.grad, w.grad, name) for x, w in zip(plain, wide, strict=True)])
    if row.arity == 1:
        order, window = given[0].argsort(), 17
        near = torch.where(its.isfinite(), its, 0.0)[:, order]
        near = torch.nn.functional.max_pool1d(near[None], window, 1, window // 2)[0]
        its = torch.maximum(its, torch.empty_like(its).index_copy_(1, order, near))
    if not row.nan_gradient:
        apart = torch.where(given[0].isnan(), 0.0, apart)
    wrong = ((apart > 8.0) & (apart > 2 * its)).any(0).nonzero().flatten()
    example = ""
    if len(wrong):
        at = int(wrong[0])
        operands = ", ".join(repr(x[at].item()) for x in own)
        grads = ", ".join(
            f"{x.grad[at].item()!r} for {w.grad[at].item()!r}" for x, w in zip(own, wide, strict=True)
        )
        example = f"({operands}) has {grads}"
    finite = apart[apart.isfinite()]
    worst = math.inf if finite.numel() < apart.numel() else float(finite.max())
    return Found(f"{row.name}'", name, apart.shape[1], worst, len(wrong), example)


def judged(rows: Iterable[str], count: int, with_gradients: bool = False) -> Iterator[Found]:
    """Each row at each of its types."""
    for name, kind in itertools.product(rows, TYPES):
        row = ROWS[name]
        if kind in row.types and (found := held(row, kind, count)) is not None:
            yield found
    if with_gradients:
        for name in rows:
            row = ROWS[name]
            if row.has_gradient and "f32" in row.types and (found := gradients(row)) is not None:
                yield found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", choices=[[], *ROWS])
    parser.add_argument("--all", action="store_true", help="200,000 numbers of any bits")
    parser.add_argument("--gradients", action="store_true", help="the gradients too")
    given = parser.parse_args()
    wrong = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for found in judged(given.rows or ROWS, 200_000 if given.all else 2000, given.gradients):
            print(found, flush=True)
            wrong += found.wrong > 0
    print(f"{wrong} rows are wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
