"""Where the polynomials of `codegen/math/precision.py`, `fast.py`, `powers.py` and `trigonometry.py` come from.

    python benchmarks/minimax.py                    every polynomial, its coefficients and its error
    python benchmarks/minimax.py erf "exp f32"      those whose name begins so

For each, Remez exchange in 60 digits finds the coefficients of given powers of x that make the largest weighted
error smallest; then they are rounded to the type that they are used in. The weights make the error relative to
the value of the function, and so the errors printed are in powers of two of that: 2**-24 is half an ulp of f32 at
most, 2**-53 half an ulp of f64.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from mpmath import mp, mpf

Real = Callable[[mpf], mpf]


def round_f32(c: mpf) -> mpf:
    return mpf(struct.unpack("f", struct.pack("f", float(c)))[0])


def round_f64(c: mpf) -> mpf:
    return mpf(float(c))


ROUND = {"f32": round_f32, "f64": round_f64}


@dataclass(frozen=True)
class Problem:
    """Σ c[k] x**powers[k] ≈ `target` on [low, high], the error times `weight` to be as small as can be."""

    name: str
    dtype: str
    target: Real
    weight: Real
    powers: Sequence[int]
    low: mpf
    high: mpf

    def error(self, coefficients: Sequence[mpf], x: mpf) -> mpf:
        value = sum(c * x**p for c, p in zip(coefficients, self.powers, strict=True))
        return self.weight(x) * (value - self.target(x))


def remez(problem: Problem) -> list[mpf]:
    """The best coefficients (Remez' second algorithm): the error of these has n + 1 extrema of one size and
    changing sign, found by solving for that at n + 1 points, then moving the points to the extrema."""
    n = len(problem.powers) + 1
    middle, radius = (problem.low + problem.high) / 2, (problem.high - problem.low) / 2
    grid = [middle - radius * mp.cos(mp.pi * mpf(i) / (40 * n)) for i in range(40 * n + 1)]
    points = [middle - radius * mp.cos(mp.pi * (i + mpf("0.5")) / n) for i in range(n)]
    coefficients: list[mpf] = []
    for _ in range(40):
        coefficients, level = _level(problem, points)
        errors = [problem.error(coefficients, x) for x in grid]
        if max(map(abs, errors)) <= abs(level) * mpf("1.0005"):
            break
        extrema = _alternating(errors, n)
        if len(extrema) < n:
            break
        points = [grid[i] for i in extrema]
    return coefficients


def _level(problem: Problem, points: Sequence[mpf]) -> tuple[list[mpf], mpf]:
    """The coefficients whose error is +e, -e, +e, … at the points, and e."""
    n = len(points)
    rows, right = mp.matrix(n, n), mp.matrix(n, 1)
    for i, x in enumerate(points):
        weight = problem.weight(x)
        for j, power in enumerate(problem.powers):
            rows[i, j] = weight * x**power
        rows[i, n - 1] = (-1) ** i
        right[i] = weight * problem.target(x)
    solution = list(mp.lu_solve(rows, right))
    return solution[:-1], solution[-1]


def _alternating(errors: Sequence[mpf], n: int) -> list[int]:
    """Where the error is largest in each stretch of one sign; no more than n, the smallest left out."""
    extrema: list[int] = []
    for i, e in enumerate(errors):
        if not extrema or (errors[extrema[-1]] > 0) != (e > 0):
            extrema.append(i)
        elif abs(e) > abs(errors[extrema[-1]]):
            extrema[-1] = i
    size = lambda k: abs(errors[extrema[k]])  # noqa: E731
    while len(extrema) > n:
        if len(extrema) == n + 1:
            extrema.pop(0 if size(0) < size(n) else n)
        else:
            k = min(range(len(extrema) - 1), key=lambda k: max(size(k), size(k + 1)))
            del extrema[k : k + 2]
    return extrema


def problems() -> Iterator[Problem]:
    """All of them; the intervals are a little wider than what the reductions give."""
    half_ln2 = mp.log(2) / 2 * mpf("1.0005")
    root, one = mpf("0.2929"), mpf("0.4143")  # √2 - 1 = 0.41421, 1 - √½ = 0.29289
    ln2 = mp.log(2)

    def log1p_weight(x: mpf) -> mpf:
        return mpf(1) if x == 0 else 1 / abs(mp.log1p(x))

    def inverse(f: Real) -> Real:
        return lambda x: 1 / abs(f(x))

    for dtype, degree in (("f32", 6), ("f64", 12)):
        ln2_rounded = ROUND[dtype](ln2)
        powers = range(2, degree + 1)
        yield Problem("exp", dtype, lambda x: mp.exp(x) - 1 - x, inverse(mp.exp), powers, -half_ln2, half_ln2)
        yield Problem(
            "exp2",
            dtype,
            lambda x, c=ln2_rounded: mpf(2) ** x - 1 - c * x,
            lambda x: mpf(2) ** -x,
            powers,
            mpf("-0.5"),
            mpf("0.5"),
        )
    for dtype, degree in (("f32", 10), ("f64", 23)):
        powers = range(2, degree + 1)
        yield Problem("log", dtype, lambda x: mp.log1p(x) - x, log1p_weight, powers, -root, one)
        yield Problem(
            "log2",
            dtype,
            lambda x: (mp.log1p(x) - x) / ln2,
            lambda x: log1p_weight(x) * ln2,
            powers,
            -root,
            one,
        )
    for dtype, terms in (("f32", 6), ("f64", 14)):
        powers = range(3, 3 + 2 * terms, 2)
        yield Problem("tanh", dtype, lambda x: mp.tanh(x) - x, inverse(mp.tanh), powers, mpf("1e-6"), mpf("0.8"))
    for dtype, terms in (("f32", 5), ("f64", 11)):
        powers = range(3, 3 + 2 * terms, 2)
        eighth = mpf("0.4143")
        yield Problem("atan", dtype, lambda x: mp.atan(x) - x, inverse(mp.atan), powers, mpf("1e-6"), eighth)
    for dtype, terms in (("f32", 4), ("f64", 8)):
        powers = range(3, 3 + 2 * terms, 2)
        yield Problem("sinh", dtype, lambda x: mp.sinh(x) - x, inverse(mp.sinh), powers, mpf("1e-6"), mpf(1))
    for dtype, terms in (("f32", 5), ("f64", 13)):
        powers = range(3, 3 + 2 * terms, 2)
        yield Problem("asin", dtype, lambda x: mp.asin(x) - x, inverse(mp.asin), powers, mpf("1e-6"), mpf("0.5001"))
    for dtype, degree, middle, end in (("f32", 8, mpf(2), mpf("10.25")), ("f64", 20, mpf(4), mpf("27.4"))):

        def scaled(t: mpf, middle: mpf = middle) -> mpf:
            x = middle * (1 + t) / (1 - t)
            return mp.exp(x * x) * mp.erfc(x) * (1 + 2 * x)

        low, high = ((x - middle) / (x + middle) for x in (mpf("0.624"), end))
        yield Problem("erfc", dtype, scaled, inverse(scaled), range(degree + 1), low, high)
    for dtype, terms, degree, middle, end, lowest in (
        ("f32", 6, 7, mpf("1.4375"), mpf("4.04"), mpf(2) ** -11),
        ("f64", 12, 20, mpf("2.5"), mpf(6), mpf(2) ** -25),
    ):
        yield Problem(
            "erf_small",
            dtype,
            lambda x: mp.erf(x) - x,
            inverse(mp.erf),
            range(1, 1 + 2 * terms, 2),
            mpf("1e-6"),
            mpf("1.01"),
        )
        yield Problem(
            "erf_root",
            dtype,
            lambda x, middle=middle: mp.root(mp.erfc(x + middle), 4),
            lambda x, middle=middle, lowest=lowest: 4 * mp.root(mp.erfc(x + middle), 4) ** 3 + lowest,
            range(degree + 1),
            mpf(1) - middle,
            end - middle,
        )

    yield Problem("fast.EXP", "f32", lambda x: mp.exp(x) - 1 - x, inverse(mp.exp), range(2, 6), -half_ln2, half_ln2)
    expm1 = lambda x: mpf(1) if x == 0 else 1 / abs(mp.expm1(x))  # noqa: E731
    yield Problem("fast.EXPM1", "f32", lambda x: mp.expm1(x) - x, expm1, range(2, 7), -half_ln2, half_ln2)
    yield Problem("fast.LOG", "f32", lambda x: mp.log1p(x) - x, log1p_weight, range(2, 9), -root, one)

    end = mpf("0.626")
    quarter = mp.pi / 2
    yield Problem(
        "trigonometry.SIN_QUARTER",
        "f64",
        lambda x: mp.sin(quarter * x),
        lambda x: 1 / mp.sin(quarter * x),
        range(1, 11, 2),
        mpf("1e-6"),
        end,
    )
    yield Problem(
        "trigonometry.COS_QUARTER",
        "f64",
        lambda x: mp.cos(quarter * x) - 1,
        lambda x: 1 / mp.cos(quarter * x),
        range(2, 10, 2),
        mpf(0),
        end,
    )
    end = mp.pi / 4 * mpf("1.0001")
    yield Problem(
        "trigonometry.SIN",
        "f64",
        lambda x: mp.sin(x) - x,
        inverse(mp.sin),
        range(3, 17, 2),
        mpf("1e-6"),
        end,
    )
    yield Problem(
        "trigonometry.COS",
        "f64",
        lambda x: mp.cos(x) - 1 + x * x / 2,
        inverse(mp.cos),
        range(4, 16, 2),
        mpf(0),
        end,
    )

    end = (mp.sqrt(2) - 1) / (mp.sqrt(2) + 1) * mpf("1.0001")
    slope = 2 / ln2
    yield Problem(
        "powers.LOG2_F32",
        "f64",
        lambda x: mp.atanh(x) * slope,
        lambda x: 1 / (mp.atanh(x) * slope),
        range(1, 11, 2),
        mpf("1e-6"),
        end,
    )
    a0 = round_f64(slope) + round_f64(slope - round_f64(slope))
    a1 = round_f64(slope / 3) + round_f64(slope / 3 - round_f64(slope / 3))
    yield Problem(
        "powers.LOG2_F64",
        "f64",
        lambda w: mp.atanh(mp.sqrt(w)) / mp.sqrt(w) * slope - a0 - a1 * w,
        lambda w: 1 / slope,
        range(2, 10),
        mpf("1e-6"),
        end**2,
    )
    half = mpf("0.5")
    yield Problem(
        "powers.EXP2_F32", "f64", lambda x: mpf(2) ** x - 1, lambda x: mpf(2) ** -x, range(1, 8), -half, half
    )


def main(prefixes: Sequence[str]) -> None:
    mp.dps = 60
    for problem in problems():
        title = f"{problem.name} {problem.dtype}"
        if prefixes and not title.startswith(tuple(prefixes)):
            continue
        best = remez(problem)
        rounded = [ROUND[problem.dtype](c) for c in best]
        width = problem.high - problem.low
        grid = [problem.low + width * i / 1000 for i in range(1001)]
        errors = [max(abs(problem.error(c, x)) for x in grid) for c in (best, rounded)]
        before, after = (float(mp.log(e, 2)) for e in errors)
        print(f"{title}: error 2**{before:.2f}, rounded 2**{after:.2f}")
        print("    " + ", ".join(repr(float(c)) for c in rounded), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
