"""Compares the results of a kernel with a reference and its error bounds."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np
import numpy.typing as npt

from dojoir.ir.dtypes import DType
from dojoir.meaning.bits import to_floats
from dojoir.runtime.verification.comparison_rules import ComparisonRule
from dojoir.support.frozen import dataclass
from dojoir.types.rounding import FORMATS

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Expected:
    """One output of the reference, as it is (`values`), and the most that each element may be off (`bounds`, None:
    not at all). Where a bound is infinite, or NaN of what is not NaN, nothing is asked of the element. `declared`
    is what the reference gives in the declared types, if that was computed: where only one of them is finite,
    nothing is asked either. Under the rule `EXACT` `values` are those of the declared types; under `CODES` nothing
    is asked of an element whose bound reaches further than to the next code."""

    values: np.ndarray
    bounds: Floats | None
    declared: Floats | None
    rule: ComparisonRule = ComparisonRule.BOUNDED

    def part(self, box: tuple[slice, ...]) -> Expected:
        """The same of some of the elements."""
        bounds = None if self.bounds is None else self.bounds[box]
        return Expected(self.values[box], bounds, None if self.declared is None else self.declared[box], self.rule)

    def allowed(self, dtype: DType, slack: float) -> Floats:
        """How far each element may be off. Bounds of integers and of codes are exact; others count `slack`
        times."""
        if self.bounds is None:
            return np.zeros(self.values.shape)
        is_exact = not dtype.is_float or self.rule in (ComparisonRule.CODES, ComparisonRule.SETTLED)
        with np.errstate(all="ignore"):
            return self.bounds if is_exact else slack * self.bounds

    def beside(self, dtype: DType) -> tuple[Floats, Floats]:
        """The numbers of the type next to each element, below and above."""
        wanted = self.values.astype(np.float64)
        if not dtype.is_float:
            return wanted - 1, wanted + 1
        numbers = _numbers(dtype)
        at = np.searchsorted(numbers, wanted)
        return numbers[np.clip(at - 1, 0, numbers.size - 1)], numbers[np.clip(at + 1, 0, numbers.size - 1)]


@dataclass(frozen=True)
class Worst:
    """The element that is off by the largest share of what is allowed. `ulps` counts units in the last place of
    the expected value in the declared type (0 for integers)."""

    argument: str
    index: tuple[int, ...]
    value: float
    expected: float
    allowed: float
    share: float
    ulps: float

    def __str__(self) -> str:
        place = f"{self.argument}[{', '.join(map(str, self.index))}]" if self.index else self.argument
        off = f"off by {abs(self.value - self.expected):.3g}" if math.isfinite(self.value) else "no finite number"
        ulps = f", {self.ulps:.3g} ulp" if self.ulps and math.isfinite(self.ulps) else ""
        return (
            f"{place} is {self.value:.9g}, expected {self.expected:.9g} ({off}{ulps}; allowed {self.allowed:.3g})"
        )


@dataclass(frozen=True)
class Loose:
    """An output whose error bound is larger than a user would expect: an error of `allowed`, where the largest of
    its values is `largest`."""

    argument: str
    dtype: str
    allowed: float
    largest: float

    @property
    def share(self) -> float:
        """The error as a share of the largest value."""
        return self.allowed / self.largest

    def __str__(self) -> str:
        off, of = f"{self.allowed:.2g}", f"{self.largest:.2g}"
        known = f"errors of {off} in {self.argument}, whose largest value is {of}"
        return f"rounding to {self.dtype} alone explains {known}"


@dataclass(frozen=True)
class CodeCounts:
    """How the codes of an output were compared: `exact` to the bit, `near` a tie, where the next one is as right,
    and how many were left out, as rounding may change them to more than the next. `must` says that hardly any may
    be."""

    argument: str
    exact: int
    near: int
    left_out: int
    must: bool


@dataclass(frozen=True)
class Comparison:
    """How one output compares: the `worst` element of those that were compared (None if there is none), how many
    elements were `unchecked`, since rounding alone may change them to anything. It also says whether the bounds
    are `loose`: more than half of the digits of the type."""

    worst: Worst | None
    unchecked: int
    elements: int
    loose: Loose | None = None
    counted: CodeCounts | None = None

    @property
    def ok(self) -> bool:
        return self.worst is None or self.worst.share <= 1


def compare(name: str, dtype: DType, actual: np.ndarray, expected: Expected, slack: float) -> Comparison:
    """`actual` holds what the kernel gave, as `DType.stored` (bools as bytes). Bounds count `slack` times."""
    count = actual.size
    if not count:
        return Comparison(None, 0, 0)
    if not dtype.is_float and expected.bounds is None:
        found = _compare_exactly(name, actual, expected.values)
        return (
            replace(found, counted=CodeCounts(name, count, 0, 0, False))
            if expected.rule is ComparisonRule.EXACT
            else found
        )
    values = to_floats(actual, dtype) if dtype.is_float else actual.astype(np.float64)
    wanted = expected.values.astype(np.float64)
    asked = comparable(dtype, expected, slack)
    with np.errstate(all="ignore"):
        allowed = expected.allowed(dtype, slack)
        finite = np.isfinite(wanted)
        same = (values == wanted) | (np.isnan(values) & np.isnan(wanted))
        if expected.rule is ComparisonRule.EXACT:
            same &= (np.signbit(values) == np.signbit(wanted)) | np.isnan(wanted)
        share = np.abs(values - wanted) / allowed
        if expected.rule is ComparisonRule.CODES:
            low, high = expected.beside(dtype)
            share = np.where((values >= low) & (values <= high), share, np.inf)
        share = np.where(same, 0.0, np.where(finite & np.isfinite(values), share, np.inf))
        share = np.where(asked, share, -1.0)
    at = int(np.argmax(share))
    if share.flat[at] < 0:
        return Comparison(None, count, count, counted=_counted(name, asked, allowed, expected))
    worst = Worst(
        name,
        tuple(int(i) for i in np.unravel_index(at, wanted.shape)),
        float(values.flat[at]),
        float(wanted.flat[at]),
        float(allowed.flat[at]) if finite.flat[at] else 0.0,
        float(share.flat[at]),
        _ulps(float(values.flat[at]), float(wanted.flat[at]), dtype),
    )
    within = asked & finite & np.isfinite(allowed)
    most, largest = (float(np.max(part, initial=0, where=within)) for part in (allowed, np.abs(wanted)))
    known = dtype.is_float and largest > 0 and most > largest * expected_tolerance(dtype)
    loose = Loose(name, dtype.name, most, largest) if known else None
    left_out = int(count - np.count_nonzero(asked))
    return Comparison(worst, left_out, count, loose, _counted(name, asked, allowed, expected))


def _counted(name: str, asked: npt.NDArray[np.bool_], allowed: Floats, expected: Expected) -> CodeCounts | None:
    if expected.rule not in (ComparisonRule.EXACT, ComparisonRule.CODES):
        return None
    exact = int(np.count_nonzero(asked & ~(allowed > 0)))
    near = int(np.count_nonzero(asked)) - exact
    return CodeCounts(name, exact, near, asked.size - exact - near, expected.rule is ComparisonRule.CODES)


@cache
def _numbers(dtype: DType) -> Floats:
    """All finite numbers of a type of at most 8 bits, in order."""
    every = to_floats(np.arange(1 << dtype.bits, dtype=np.uint8), dtype)
    return np.unique(every[np.isfinite(every)])


def counted_of(name: str, dtype: DType, expected: Expected, slack: float) -> CodeCounts | None:
    """How the codes of an output are compared, of whatever comes."""
    asked = comparable(dtype, expected, slack)
    return _counted(name, asked, expected.allowed(dtype, slack), expected)


def expected_tolerance(dtype: DType) -> float:
    """Half of the digits of a float type: the relative error that a user has in mind."""
    return float(2.0 ** -(FORMATS[dtype.name].precision / 2))


def comparable(dtype: DType, expected: Expected, slack: float) -> npt.NDArray[np.bool_]:
    """The elements of which anything is asked."""
    if expected.bounds is None and not dtype.is_float:
        return np.ones(expected.values.shape, bool)
    wanted = expected.values.astype(np.float64)
    allowed = expected.allowed(dtype, slack)
    largest = FORMATS[dtype.name].largest if dtype.is_float else math.inf
    with np.errstate(all="ignore"):
        found = ~np.isposinf(allowed) & (np.isnan(wanted) | ~np.isnan(allowed))
        if expected.declared is not None:
            found &= np.isfinite(wanted) == np.isfinite(expected.declared)
            found &= np.isfinite(wanted) | (np.isnan(wanted) == np.isnan(expected.declared))
        if expected.rule is ComparisonRule.CODES:
            low, high = expected.beside(dtype)
            found &= ~np.isfinite(wanted) | (allowed <= np.maximum(wanted - low, high - wanted))
        else:
            found &= ~np.isfinite(wanted) | (np.abs(wanted) + allowed <= largest)
    return np.asarray(found)


def _compare_exactly(name: str, actual: np.ndarray, wanted: np.ndarray) -> Comparison:
    different = actual != wanted.astype(actual.dtype)
    at = int(np.argmax(different))
    worst = Worst(
        name,
        tuple(int(i) for i in np.unravel_index(at, wanted.shape)),
        float(actual.flat[at]),
        float(wanted.flat[at]),
        0.0,
        math.inf if different.flat[at] else 0.0,
        0.0,
    )
    return Comparison(worst, 0, actual.size)


def _ulps(value: float, expected: float, dtype: DType) -> float:
    if not dtype.is_float or value == expected or not math.isfinite(expected):
        return 0.0
    format_ = FORMATS[dtype.name]
    quantum = max(math.frexp(expected)[1] - format_.precision, format_.quantum)
    return abs(value - expected) / math.ldexp(1.0, quantum)
