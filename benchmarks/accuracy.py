"""How far the elementary functions are from the true values: all 2³² arguments in f32, samples in f64.

    python benchmarks/accuracy.py                   every function
    python benchmarks/accuracy.py exp tanh --jobs 2
    python benchmarks/accuracy.py --every 101       every 101st f32 argument: half a minute for all

Prints a line a function: the largest error in ulp (units in the last place of the true result), the argument it is
at, and how many special results are wrong (NaN, inf, the sign of zero). The functions of `fp fast` count where the
argument and the result are normal numbers. Exit status 1 if an error is beyond its limit.

The f32 references are NumPy's f64 functions and `math.erf`, the f64 references mpmath with 50 digits.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray

import dojoir

Array = NDArray[Any]

LIMIT = 2.0
FAST_LIMIT = 4.0
CHUNK = 1 << 21

NAMES = ("exp", "exp2", "log", "log2", "tanh", "erf", "sigmoid", "sin", "cos", "tan", "atan", "expm1", "log1p",
         "rsqrt")  # fmt: skip
FAST_NAMES = ("exp", "log", "tanh", "sigmoid")


@dataclass(frozen=True)
class Case:
    """A function, in a type, exact or under `fp fast`."""

    name: str
    dtype: str
    fast: bool = False

    @property
    def limit(self) -> float:
        return FAST_LIMIT if self.fast else LIMIT

    def __str__(self) -> str:
        return f"{self.name}{' fast' if self.fast else ''}"


@dataclass(frozen=True)
class Worst:
    """The largest error, in ulp, the arguments it is at, and the number of wrong special results."""

    error: float
    at: tuple[float, ...]
    wrong: int = 0

    def __or__(self, other: Worst) -> Worst:
        larger = self if self.error >= other.error else other
        return Worst(larger.error, larger.at, self.wrong + other.wrong)


def compiled(case: Case) -> Callable[..., None]:
    """The function on arrays, in lanes: arguments, then the result in place."""
    arguments = ("x", "y") if case.name == "pow" else ("x",)
    lines = [
        "kernel elementwise(N)",
        f"fp {'fast' if case.fast else 'reassoc'}",
        *(f"in {a}: {case.dtype}[N]" for a in arguments),
        f"out z: {case.dtype}[N]",
        "",
        "N: v",
        f"| z[{{0}}] = {case.name}({', '.join(f'{a}[{{0}}]' for a in arguments)})",
    ]
    return dojoir.compile(dojoir.parse("\n".join(lines) + "\n"))


# -- f32: every argument -----------------------------------------------------------------------------------
def erf(x: Array) -> Array:
    """erf in f64; its series where |x| is small, so that `math.erf` need not be called for every argument."""
    y = 2 / math.sqrt(math.pi) * x * (1 - x * x / 3)
    y[np.abs(x) > 6] = np.sign(x[np.abs(x) > 6])
    middle = (np.abs(x) > 1e-4) & (np.abs(x) <= 6)
    y[middle] = np.fromiter(map(math.erf, x[middle].tolist()), np.float64, np.count_nonzero(middle))
    return y


def sigmoid(x: Array) -> Array:
    z = np.exp(-np.abs(x))
    return np.where(x < 0, z, 1) / (1 + z)


F64_REFERENCE: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "tanh": np.tanh,
    "erf": erf,
    "sigmoid": sigmoid,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "atan": np.arctan,
    "expm1": np.expm1,
    "log1p": np.log1p,
    "rsqrt": lambda x: 1 / np.sqrt(x),
}


def compare_f32(got: Array, true: Array, x: Array, fast: bool) -> Worst:
    """`got` (f32) beside `true` (f64), one ulp being that of f32 at the true value."""
    with np.errstate(all="ignore"):
        rounded = true.astype(np.float32)
    off = np.flatnonzero(got.view(np.uint32) != rounded.view(np.uint32))
    if fast:
        tiny = np.finfo(np.float32).tiny
        normal = (np.abs(x[off]) >= tiny) & (np.abs(true[off]) >= tiny) & (np.abs(rounded[off]) < 2.0**127.5)
        off = off[normal]
    got, true, rounded, x = got[off], true[off], rounded[off], x[off]
    special = np.isnan(got) | np.isnan(rounded) | ((got == 0) & (rounded == 0))
    wrong = np.count_nonzero(special & ~(np.isnan(got) & np.isnan(rounded)))
    # what overflows counts as the first number that does
    with np.errstate(invalid="ignore", over="ignore"):
        number = np.where(np.isinf(got), np.copysign(2.0**128, got), got.astype(np.float64))
        limited = np.clip(true, -(2.0**128), 2.0**128)
        exponent = np.maximum(np.frexp(limited)[1] - 24, -149)
        error = np.where(special, 0, np.abs(number - limited) / np.ldexp(1.0, np.minimum(exponent, 104)))
    if error.size == 0:
        return Worst(0.5, (), wrong)
    worst = int(np.argmax(error))
    return Worst(float(error[worst]), (float(x[worst]),), wrong)


def sweep(case: Case, start: int, stop: int, every: int) -> Worst:
    """All arguments with bits from `start` to `stop`, or every n-th."""
    call = compiled(case)
    worst = Worst(0.5, ())
    for first in range(start, stop, CHUNK * every):
        x = np.arange(first, min(stop, first + CHUNK * every), every, dtype=np.uint32).view(np.float32)
        z = np.empty_like(x)
        call(x, z)
        with np.errstate(all="ignore"):
            true = F64_REFERENCE[case.name](x.astype(np.float64))
        worst |= compare_f32(z, true, x, case.fast)
    return worst


# -- samples, by mpmath ------------------------------------------------------------------------------------
MP_REFERENCE: dict[str, Callable[..., Any]] = {
    "exp": mpmath.exp,
    "exp2": lambda x: mpmath.mpf(2) ** x,
    "log": mpmath.log,
    "log2": lambda x: mpmath.log(x, 2),
    "tanh": mpmath.tanh,
    "erf": mpmath.erf,
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "tan": mpmath.tan,
    "atan": mpmath.atan,
    "expm1": mpmath.expm1,
    "log1p": mpmath.log1p,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "pow": mpmath.power,
}

RANGES = {"exp": (-745, 709), "exp2": (-1074, 1024), "tanh": (-20, 20), "erf": (-6, 6), "sigmoid": (-745, 40),
          "expm1": (-40, 709)}  # fmt: skip


def arguments(case: Case, count: int) -> tuple[Array, ...]:
    """Some times `count` arguments, of all sizes and where the function does something."""
    rng = np.random.default_rng(1)
    bits, kind = (np.uint64, np.float64) if case.dtype == "f64" else (np.uint32, np.float32)
    any_size = rng.integers(0, np.iinfo(bits).max, count, bits).view(kind)
    any_size = any_size[np.isfinite(any_size)]
    near_one = rng.uniform(0.4, 2.5, count).astype(kind)
    if case.name == "pow":
        x = np.abs(np.concatenate([any_size, near_one, near_one]))
        x = x[(x > 0) & (x != 1)]
        last = (-745, 709) if case.dtype == "f64" else (-103, 88)
        y = (rng.uniform(*last, x.size) / np.log(x.astype(np.float64))).astype(kind)
        return x, y
    if case.name in {"log", "log2", "rsqrt"}:
        return (np.abs(np.concatenate([any_size, near_one])),)
    if case.name == "log1p":
        inside = rng.uniform(-1 + 1e-7, 3, count) * 2.0 ** rng.uniform(-30, 0, count)
        return (np.concatenate([np.abs(any_size), near_one, inside.astype(kind)]),)
    low, high = RANGES.get(case.name, (-100, 100))
    even = rng.uniform(low, high, count)
    small = even * 2.0 ** rng.uniform(-30, 0, count)
    hard = [6381956970095103.0 * 2.0**797, 0.8, 0.85, math.pi / 4, math.pi, 1e22]
    return (np.concatenate([any_size, even, small, near_one, hard]),)


def sample(case: Case, count: int) -> Worst:
    """The errors of a sample, one ulp being that of the type at the true value."""
    xs = arguments(case, count)
    z = np.empty_like(xs[0])
    compiled(case)(*xs, z)
    digits, lowest, last = (53, -1074, 1024) if case.dtype == "f64" else (24, -149, 128)
    worst = Worst(0.5, ())
    with mpmath.workdps(50):
        for *values, got in zip(*(x.tolist() for x in xs), z.tolist(), strict=True):
            true = MP_REFERENCE[case.name](*map(mpmath.mpf, values))
            if abs(true) >= mpmath.ldexp(1, last):
                worst |= Worst(0.0, (), int(not math.isinf(got)))
                continue
            exponent = max(mpmath.frexp(true)[1] - digits, lowest)
            number = mpmath.ldexp(1, last) if math.isinf(got) else mpmath.mpf(got)
            error = abs(number - true) / mpmath.ldexp(1, exponent)
            worst |= Worst(float(error), tuple(values), int(math.isnan(got)))
    return worst


# -- the table ---------------------------------------------------------------------------------------------
def parts(every: int) -> Iterator[tuple[int, int]]:
    """The bits of f32 in pieces of some seconds each."""
    step = (1 << 26) * min(every, 64)
    for start in range(0, 1 << 32, step):
        yield start, min(start + step, 1 << 32)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="FUNCTION", help="default: all")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="take every N-th f32 argument only")
    parser.add_argument("--samples", type=int, default=20_000, metavar="N", help="a measure of the f64 samples")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes")
    options = parser.parse_args()
    names = options.names or [*NAMES, "pow"]
    f32 = [Case(n, "f32") for n in NAMES if n in names] + [Case(n, "f32", True) for n in FAST_NAMES if n in names]
    sampled = [Case("pow", "f32")] if "pow" in names else []
    sampled += [Case(n, "f64") for n in (*NAMES, "pow") if n in names]
    failed = False

    def report(case: Case, scope: str, worst: Worst) -> None:
        nonlocal failed
        failed |= worst.error > case.limit or worst.wrong > 0
        at = ", ".join(f"{v.hex()} ({v:.9g})" for v in worst.at)
        print(f"{case!s:13} {case.dtype}  {scope:8} {worst.error:7.4f}  {worst.wrong:5}  {at}", flush=True)

    print("function      type arguments   max ulp  wrong  at")
    with ProcessPoolExecutor(options.jobs) as pool:
        for case in f32:
            pieces = [pool.submit(sweep, case, *part, options.every) for part in parts(options.every)]
            worst = Worst(0.5, ())
            for piece in pieces:
                worst |= piece.result()
            report(case, "all" if options.every == 1 else f"1/{options.every}", worst)
        counts = [options.samples] * len(sampled)
        for case, worst in zip(sampled, pool.map(sample, sampled, counts), strict=True):
            report(case, "sample", worst)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
