"""LIR functions evaluated by NumPy: what a compiled function must give, bit for bit.

Every lane type is an array type of any shape, so a function of W lanes is evaluated on as many inputs as the
arguments hold. Written from the docstrings of `codegen.lir` and independent of the printers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dojoir.codegen.lir import program as lir
from dojoir.ir.dtypes import DType

Array = NDArray[Any]


def numpy_type(dtype: DType) -> np.dtype[Any]:
    if dtype.name == "bool":
        return np.dtype(np.bool_)
    return np.dtype(f"{dtype.kind}{dtype.bits // 8}")


_FMA = """
declare {t} @llvm.fma.{n}({t}, {t}, {t})
define void @many(ptr noalias %out, ptr %a, ptr %b, ptr %c, i64 %n) {{
head:
  br label %test
test:
  %i = phi i64 [0, %head], [%next, %loop]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %loop, label %end
loop:
  %pa = getelementptr {t}, ptr %a, i64 %i
  %pb = getelementptr {t}, ptr %b, i64 %i
  %pc = getelementptr {t}, ptr %c, i64 %i
  %po = getelementptr {t}, ptr %out, i64 %i
  %va = load {t}, ptr %pa
  %vb = load {t}, ptr %pb
  %vc = load {t}, ptr %pc
  %r = call {t} @llvm.fma.{n}({t} %va, {t} %vb, {t} %vc)
  store {t} %r, ptr %po
  %next = add i64 %i, 1
  br label %test
end:
  ret void
}}
"""


@cache
def _machine_fma(t: str, n: str) -> tuple[Any, Callable[..., None]]:
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_default_triple()
    machine = target.create_target_machine(
        cpu=binding.get_host_cpu_name(), features=binding.get_host_cpu_features().flatten()
    )
    engine = binding.create_mcjit_compiler(binding.parse_assembly(_FMA.format(t=t, n=n)), machine)
    pointers = [ctypes.c_void_p] * 4
    call = ctypes.CFUNCTYPE(None, *pointers, ctypes.c_int64)(engine.get_function_address("many"))
    return engine, call


@cache
def _library_fma(name: str, number: Any) -> np.ufunc:
    """The C library's, one element at a time."""
    function = ctypes.CDLL(None)[name]
    function.argtypes, function.restype = [number] * 3, number
    return np.frompyfunc(function, 3, 1)


def fma(a: Array, b: Array, c: Array) -> Array:
    """`a * b + c` rounded once, by the machine's own instruction or the C library."""
    if find_spec("llvmlite") is None:
        is_double = a.dtype == np.float64
        of = _library_fma("fma", ctypes.c_double) if is_double else _library_fma("fmaf", ctypes.c_float)
        return np.asarray(of(a, b, c), a.dtype)
    _, call = _machine_fma("double", "f64") if a.dtype == np.float64 else _machine_fma("float", "f32")
    a, b, c = (np.ascontiguousarray(v) for v in np.broadcast_arrays(a, b, c))
    out = np.empty_like(a)
    call(out.ctypes.data, a.ctypes.data, b.ctypes.data, c.ctypes.data, a.size)
    return out


def fma_f32_exact(a: Array, b: Array, c: Array) -> Array:
    """`fma` for f32 by f64 arithmetic: the product is exact, and the sum is rounded to odd, so that rounding it
    again to f32 gives what rounding once does (Boldo and Melquiond, 2008)."""
    product, addend = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
    total = product + addend
    back = total - product
    error = (product - (total - back)) + (addend - back)
    bits = total.view(np.int64)
    even = (bits & 1) == 0
    away = np.where((error > 0) == (total > 0), 1, -1)
    fix = np.isfinite(total) & (error != 0) & even
    return np.where(fix, bits + away, bits).view(np.float64).astype(np.float32)


def _convert(value: Array, to: np.dtype[Any]) -> Array:
    if to == np.bool_:
        return value != 0
    if value.dtype.kind == "f" and to.kind in "iu":
        info = np.iinfo(to)
        low, high = float(info.min), float(info.max) + 1.0 if info.bits == 64 else float(info.max)
        whole = np.trunc(np.nan_to_num(value.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf))
        inside = np.where((whole >= low) & (whole < high), whole, 0.0).astype(to)
        return np.where(whole >= high, info.max, np.where(whole < low, info.min, inside)).astype(to)
    return value.astype(to)


_COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal,
}  # fmt: skip


def extreme(a: Any, b: Any, combine: Any, prefers: Any) -> Any:
    """minimum or maximum of IEEE 754-2019: of two zeros, the one that is preferred."""
    if not np.issubdtype(np.asarray(a).dtype, np.floating):
        return combine(a, b)
    return np.where((a == 0) & (b == 0), np.where(prefers(a), a, b), combine(a, b))


_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "min": lambda a, b: extreme(a, b, np.minimum, np.signbit),
    "max": lambda a, b: extreme(a, b, np.maximum, lambda x: ~np.signbit(x)),
    "min_fast": lambda a, b: np.where(a < b, a, b),
    "max_fast": lambda a, b: np.where(a > b, a, b),
    "ldexp": lambda a, b: np.ldexp(a, np.nan_to_num(b).astype(np.int64)).astype(a.dtype),
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": np.left_shift,
    "shr": np.right_shift,
    "sar": np.right_shift,
}

_DIVIDED: dict[str, Callable[[Array, Array], Array]] = {
    "floordiv": np.floor_divide,
    "div": np.floor_divide,
    "mod": np.mod,
    "rem": np.mod,
}
"""Division of integers: by no float, which would lose what is beyond 53 bits."""


def binary(op: str, a: Array, b: Array) -> Array:
    """`a op b` of one type, in that type."""
    divides = op in _DIVIDED and a.dtype.kind in "iu"
    return np.asarray((_DIVIDED if divides else _BINARY)[op](a, b)).astype(a.dtype)


_UNARY: dict[str, Callable[[Array], Array]] = {
    "neg": np.negative,
    "not": np.invert,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "loaded": lambda a: a,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "approx_exp2": lambda a: np.exp2(a.astype(np.float64)).astype(np.float32),
    "approx_rsqrt": lambda a: (1 / np.sqrt(a.astype(np.float64))).astype(np.float32),
}


class _Evaluation:
    def __init__(self, values: dict[str, Array]) -> None:
        self.values = values

    def __call__(self, value: lir.Value) -> Array:
        result = self.compute(value)
        expected = numpy_type(value.type.dtype)
        assert result.dtype == expected, f"{value} gives {result.dtype}, not {expected}"
        return result

    def compute(self, value: lir.Value) -> Array:
        match value:
            case lir.Const(type=t, value=number):
                return np.array(number, numpy_type(t.dtype))
            case lir.Var(name=name):
                return self.values[name]
            case lir.Unary(op=op, arg=arg):
                return _UNARY[op](self(arg))
            case lir.Binary(op=op, left=left, right=right):
                a, b = self(left), self(right)
                assert a.dtype == b.dtype, value
                if op in {"shl", "shr", "sar"}:
                    assert (b < a.dtype.itemsize * 8).all(), value
                    assert op == "shl" or (op == "sar") == (a.dtype.kind == "i"), value
                return binary(op, a, b)
            case lir.Compare(op=op, left=left, right=right):
                a, b = self(left), self(right)
                assert a.dtype == b.dtype, value
                return np.asarray(_COMPARE[op](a, b))
            case lir.Select(condition=condition, yes=yes, no=no):
                a, b = self(yes), self(no)
                assert a.dtype == b.dtype, value
                return np.where(self(condition), a, b)
            case lir.Fma(a=a_, b=b_, c=c_):
                return fma(self(a_), self(b_), self(c_))
            case lir.Convert(type=t, arg=arg):
                return _convert(self(arg), numpy_type(t.dtype))
            case lir.Bitcast(type=t, arg=arg):
                return self(arg).view(numpy_type(t.dtype))
            case _:
                raise AssertionError(f"{value} in a function on values")


def evaluate(function: lir.Function, *args: Array) -> Array:
    """The result of `function` on arrays of one shape, an array for each parameter."""
    values: dict[str, Array] = {}
    for param, arg in zip(function.params, args, strict=True):
        assert arg.dtype == numpy_type(param.type.dtype)
        values[param.name] = arg
    with np.errstate(all="ignore"):
        run = _Evaluation(values)
        for let in function.body:
            values[let.var.name] = run(let.value)
        return np.asarray(np.broadcast_to(run(function.result), np.shape(args[0])))
