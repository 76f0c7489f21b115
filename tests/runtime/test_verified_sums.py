"""Sums that are written out, go on from another operator, or are scattered: what `verify` allows of them."""

from __future__ import annotations

import numpy as np
import pytest

import dojoir
from dojoir.runtime.verification.verify import verify

RUNNING = """kernel running(N)
in  x: f32[N]
out y: f32[N]

y[0] = x[0]
N - 1
| y[{0} + 1] = y[{0}] + x[{0} + 1]
"""
IN_PAIRS = """kernel running(N)
in  x: f32[N]
out y: f32[N]

y[0] = x[0]
N - 1
| y[{0} + 1] = y[{0}] + x[{0} + 1]
N // 4
| y[4*{0} + 3] = (x[4*{0}] + x[4*{0} + 1]) + (x[4*{0} + 2] + x[4*{0} + 3])
"""


@pytest.mark.parametrize("written", ["y[{0}] + x[{0} + 1]", "x[{0} + 1] + y[{0}]"])
def test_a_sum_that_is_written_out_may_be_rounded_in_another_order(written: str) -> None:
    """Each sum of the text is an f32 number here, and a scan in blocks is off by a rounding, as it may be: it was
    called wrong."""
    plain = dojoir.parse(RUNNING.replace("y[{0}] + x[{0} + 1]", written))
    x = np.array([0.76170546, 0.1420294, -0.52798593, -0.39745167], np.float32)
    pairs = dojoir.parse(IN_PAIRS)
    report = verify(pairs, plain, sizes={"N": 4}, inputs={"x": x})
    assert report.ok, str(report)
    (case,) = report.cases
    assert case.worst is not None and case.worst.value != case.worst.expected and case.worst.allowed < 1e-6
    assert not verify(pairs.with_fp("strict"), plain.with_fp("strict"), sizes={"N": 4}, inputs={"x": x}).ok
    for distribution in ("integers", "uniform"):
        off = dojoir.parse(RUNNING.replace("y[{0}] + x[{0} + 1]", "y[{0}] + x[{0} + 1] * 1.00001"))
        assert not verify(off, plain, sizes={"N": 50}, distributions=(distribution,)).ok


def test_a_total_that_is_written_out_is_bounded_as_an_accumulation() -> None:
    total = "kernel total(N)\nin x: f32[N]\nout y: f32\n\ny = 0\nN\n| y += x[{0}]\n"
    kernel = dojoir.parse(total.replace("y += x[{0}]", "y = y + x[{0}]"))
    lanes = dojoir.Trace(dojoir.parse(total)).then("vectorize(1)").kernel
    cancelling = np.array([1.0, 2.0**-24, -1.0] * 200, np.float32)
    assert verify(lanes, kernel, sizes={"N": 600}, inputs={"x": cancelling}).ok
    assert verify(lanes, kernel, sizes={"N": 1000}).ok


@pytest.mark.parametrize("added", ["y[{0}] += z[{0}]", "y[{0}] = y[{0}] + z[{0}]"])
def test_a_sum_that_goes_on_from_a_maximum_or_a_product_is_bounded_anew(added: str) -> None:
    """It was bounded as if it began with what was there before: with -inf, and so not at all."""
    head = "kernel f(N, M)\nin x: f32[N, M]\nin z: f32[N]\nout y: f32[N]\n\nN\n"
    for begin, step in (("-inf", "max= x[{0}, {1}]"), ("inf", "min= x[{0}, {1}]"), ("1", "*= x[{0}, {1}]")):
        kernel = dojoir.parse(f"{head}| y[{{0}}] = {begin}\n| M\n| | y[{{0}}] {step}\n| {added}\n")
        report = verify(kernel, sizes={"N": 100, "M": 3}, distributions=("normal", "uniform"))
        assert report.ok, str(report)


BINS = """kernel bins(N)
in  x: f32[N]
in  w: f32[N]
out h: f32[16]
out n: i32[16]
tmp at: i64[N]

N
| at[{0}] = i64(x[{0}] * 10)
16
| h[{0}] = 0
| n[{0}] = 0
N
| h[at[{0}]] += w[{0}]
| n[at[{0}]] += 1
"""


def test_where_rounding_decides_the_place_of_a_term_each_place_may_have_it() -> None:
    """0.7 * 10 is 7 in f32 and less in f64: the text as it stands was called wrong."""
    kernel, w = dojoir.parse(BINS), np.array([1.5, 2.0], np.float32)
    near, apart = (np.array([first, 0.25], np.float32) for first in (0.7, 0.75))
    assert verify(kernel, sizes={"N": 2}, inputs={"x": near, "w": w}).ok
    assert verify(kernel, sizes={"N": 2}, inputs={"x": apart, "w": w}).ok
    for right, wrong in (("+= w[{0}]", "+= 1.0001 * w[{0}]"), ("* 10", "* 10 + 1"), ("+= 1\n", "+= 2\n")):
        other = dojoir.parse(BINS.replace(right, wrong))
        assert not verify(other, kernel, sizes={"N": 2}, inputs={"x": apart, "w": w}).ok
    more = dojoir.parse(BINS.replace("+= w[{0}]", "+= 4 * w[{0}]"))
    assert not verify(more, kernel, sizes={"N": 2}, inputs={"x": near, "w": w}).ok
