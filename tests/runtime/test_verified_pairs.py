"""What `verify` asks of pairs: the value and the place, wherever rounding cannot change them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import dojoir
from dojoir.types.keys_apart import keys_apart

NEAREST = """kernel nearest(N, K, D)
in  x: f32[N, D]
in  c: f32[K, D]
out best: f32[N]
out at: i32[N]
tmp s: f32

N
| (best[{0}], at[{0}]) = (inf, 0)
| K
| | s = 0
| | D
| | | s += (x[{0}, {2}] - c[{1}, {2}]) * (x[{0}, {2}] - c[{1}, {2}])
| | (best[{0}], at[{0}]) min= (s, {1})
"""


def unchecked(report: dojoir.Report) -> float:
    return sum(case.unchecked for case in report.cases) / max(sum(case.elements for case in report.cases), 1)


@pytest.mark.parametrize("fp", ["reassoc", "fast"])
def test_places_are_compared_where_values_are_rounded(fp: str) -> None:
    kernel = dojoir.parse(NEAREST).with_fp(fp)
    report = dojoir.verify(kernel)
    assert report.ok, report
    assert unchecked(report) < 0.05
    scheduled = dojoir.verify(dojoir.optimize(kernel, "llvm").kernel, against=kernel)
    assert scheduled.ok, scheduled


@pytest.mark.parametrize(
    "wrong",
    [
        lambda text: text.replace("(s, {1})", "(s, {1} + 1)"),  # another place
        lambda text: text.replace("(s, {1})", "(s, -{1})"),
        lambda text: text.replace("(s, {1})", "(s, {1}) if s < 3"),
        lambda text: text.replace("(inf, 0)", "(-inf, 0)"),
        lambda text: text.replace("min=", "max=").replace("(inf, 0)", "(-inf, 0)"),
    ],
)
def test_a_wrong_place_is_found(wrong: Callable[[str], str]) -> None:
    report = dojoir.verify(dojoir.parse(wrong(NEAREST)), against=dojoir.parse(NEAREST))
    assert not report.ok, report


def test_ties_that_keep_the_last_are_found() -> None:
    text = "kernel k(N)\nin x: i8[N]\nout m: i8\nout at: i32\n\n(m, at) = (-128, 2147483647)\n"
    right = dojoir.parse(text + "N\n| (m, at) max= (x[{0}], {0})\n")
    last = dojoir.parse(text.replace("2147483647", "0") + "N\n| at = {0} if x[{0}] >= m\n| m max= x[{0}]\n")
    assert not dojoir.verify(last, against=right).ok


def test_keys_that_are_used_otherwise_stay() -> None:
    """Their bits are compared, where they are exact."""
    begin, rest = dojoir.to_text(dojoir.parse(NEAREST)).split("tmp best_at: i64[N]\n")
    shown = dojoir.parse(f"{begin}out best_at: i64[N]\n{rest}")
    assert keys_apart(shown) is shown
    assert "best_at_place" in str(keys_apart(dojoir.parse(NEAREST)))
    parts = dojoir.apply(dojoir.parse(NEAREST), "split_reduction(0.1, best_at, parts, 4)")
    assert "parts: i64" in str(parts)
    assert "parts: i64" not in str(keys_apart(parts))
    assert dojoir.verify(parts).ok
