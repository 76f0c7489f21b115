"""Remez exchange in multiple precision: where the coefficients of `codegen/math_*.py` come from.

`fit` finds the coefficients of given powers of x that make the largest weighted error smallest, then rounds
them to the precision they are used in one by one, lowest power first, fitting the others again each time.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from mpmath import mp, mpf

Real = Callable[[mpf], mpf]


def round_f32(c: mpf) -> mpf:
    return mpf(struct.unpack("f", struct.pack("f", float(c)))[0])


def round_f64(c: mpf) -> mpf:
    return mpf(float(c))


def remez(
    target: Real, weight: Real, powers: Sequence[int], low: float, high: float, points: int = 40
) -> tuple[list[mpf], mpf]:
    """Coefficients c and error e of the best `Σ c[k] x**powers[k]` ≈ `target` on [low, high], where e is the
    largest |weight · (polynomial − target)|."""
    n = len(powers) + 1
    a, b = mpf(low), mpf(high)
    node = lambda t: (a + b) / 2 - (b - a) / 2 * mp.cos(mp.pi * t)
    xs = [node((i + mpf("0.5")) / n) for i in range(n)]
    grid = [node(mpf(i) / (points * n)) for i in range(points * n + 1)]
    values = [(x, target(x), weight(x)) for x in grid]
    coefficients: list[mpf] = []
    worst = mpf(0)
    for _ in range(60):
        rows = mp.matrix(n, n)
        right = mp.matrix(n, 1)
        for i, x in enumerate(xs):
            w = weight(x)
            for j, p in enumerate(powers):
                rows[i, j] = w * x**p
            rows[i, n - 1] = (-1) ** i
            right[i] = w * target(x)
        solution = mp.lu_solve(rows, right)
        coefficients = [solution[j] for j in range(n - 1)]
        level = abs(solution[n - 1])
        errors = [w * (sum(c * x**p for c, p in zip(coefficients, powers)) - t) for x, t, w in values]
        worst = max(abs(e) for e in errors)
        # one extremum for each run of equal sign
        extrema: list[int] = []
        for i, e in enumerate(errors):
            if extrema and (errors[extrema[-1]] > 0) == (e > 0):
                if abs(e) > abs(errors[extrema[-1]]):
                    extrema[-1] = i
            else:
                extrema.append(i)
        while len(extrema) > n:
            if len(extrema) == n + 1:
                extrema.pop(0 if abs(errors[extrema[0]]) < abs(errors[extrema[-1]]) else -1)
            else:
                k = min(
                    range(len(extrema) - 1), key=lambda k: max(abs(errors[extrema[k]]), abs(errors[extrema[k + 1]]))
                )
                del extrema[k : k + 2]
        if len(extrema) < n:
            return coefficients, worst
        xs = [grid[i] for i in extrema]
        if worst <= level * mpf("1.001"):
            break
    return coefficients, worst


def fit(
    target: Real,
    weight: Real,
    powers: Sequence[int],
    low: float,
    high: float,
    rounding: Sequence[Callable[[mpf], mpf]] | Callable[[mpf], mpf] = round_f64,
) -> tuple[list[mpf], mpf]:
    """`remez`, with the coefficients rounded."""
    rounds = list(rounding) if isinstance(rounding, Sequence) else [rounding] * len(powers)
    done: list[mpf] = []
    for k in range(len(powers)):
        rest = lambda x: target(x) - sum(c * x**p for c, p in zip(done, powers))
        coefficients, _ = remez(rest, weight, powers[k:], low, high, 12)
        done.append(rounds[k](coefficients[0]))
    worst = mpf(0)
    for i in range(2001):
        x = mpf(low) + (mpf(high) - mpf(low)) * i / 2000
        worst = max(worst, abs(weight(x) * (sum(c * x**p for c, p in zip(done, powers)) - target(x))))
    return done, worst
