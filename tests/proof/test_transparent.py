"""Statements that only pass values on: copies and partial results are seen through, and nothing else is."""

from __future__ import annotations

import numpy as np
import pytest

import dojoir
from dojoir.ir.affine import Affine
from dojoir.proof.check import InstanceMap, Origin, compare, identity

SUM = """kernel total(N)
in  x: f32[N]
out s: f32

s = 0
N @i
| s += x[{i}]
"""

PARTIAL = """kernel total(N)
in  x: f32[N]
out s: f32
tmp p: f32[4]

s = 0
4
| p[{0}] = 0
N @i
| p[{0} % 4] += x[{i}]
4
| s += p[{0}]
"""

COPY = """kernel twice(N)
in  x: f32[N]
out y: f32[N]
tmp t: f32[N]

N
| t[{0}] = x[{0}]
N
| y[{0}] = 2 * t[{0}]
"""

PLAIN = """kernel twice(N)
in  x: f32[N]
out y: f32[N]

N
| y[{0}] = 2 * x[{0}]
"""


def origins(before: dojoir.Kernel, *sites: int | None) -> InstanceMap:
    """The map in which each new statement stands for an old one as it is, or for nothing."""
    same = identity(before).origins
    return InstanceMap(tuple(None if site is None else same[site] for site in sites))


TRIANGLE = """kernel below(N)
in  x: f32[N]
out y: f32[N]
tmp w: f32[N]

N
| w[{0}] = x[{0}]
N @i
| y[{i}] = 0
| {i} + 1 @j
| | y[{i}] += w[{j}]
"""


def test_of_a_triangle_the_square_around_it_is_copied() -> None:
    kernel = dojoir.parse(TRIANGLE)
    whole = dojoir.apply(kernel, "stage(@i, w, t, in)")
    assert "tmp t: f32[N]" in str(whole)
    assert "N\n| t[{0}] = w[{0}]\nN @i" in str(whole)
    assert dojoir.apply(whole, dojoir.parse_move("stage(@i, w, t, in)").inverse(kernel)) == kernel
    assert dojoir.check(kernel, "stage(@j, w, t, in)").code == "not-linear"


def test_what_is_above_a_triangle_must_have_a_value_to_be_copied() -> None:
    rows = TRIANGLE.replace("w: f32[N]", "w: f32[N, N]").replace("w[{j}]", "w[{i}, {j}]")
    lower = dojoir.parse(rows.replace("| w[{0}] = x[{0}]", "| {0} + 1\n| | w[{0}, {1}] = x[{1}]"))
    assert dojoir.check(lower, "stage(@i, w, t, in)").code == "read-before-write"
    square = dojoir.parse(rows.replace("| w[{0}] = x[{0}]", "| N\n| | w[{0}, {1}] = x[{1}]"))
    assert dojoir.check(square, "stage(@i, w, t, in)")


def test_partial_results_are_the_sum() -> None:
    before, after = dojoir.parse(SUM), dojoir.parse(PARTIAL)
    assert compare(before, after, origins(before, 0, None, 1, None))
    assert compare(after, before, InstanceMap((identity(after).origins[0], identity(after).origins[2])))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("p[{0}] = 0", "p[{0}] = 1", id="another start"),
        pytest.param("4\n| s += p[{0}]\n", "3\n| s += p[{0}]\n", id="one part forgotten"),
        pytest.param("4\n| s += p[{0}]\n", "4\n| 2\n| | s += p[{0}]\n", id="all parts twice"),
        pytest.param("| s += p[{0}]\n", "| s += p[0]\n", id="the first part four times"),
        pytest.param("| s += p[{0}]\n", "| s = p[{0}]\n", id="the last part alone"),
        pytest.param("| s += p[{0}]\n", "| s max= p[{0}]\n", id="another operator"),
        pytest.param("tmp p: f32[4]", "tmp p: f16[4]", id="narrower parts"),
        pytest.param("p[{0} % 4] += x", "p[{0} % 4] = x", id="parts assigned"),
    ],
)
def test_wrong_partial_results_are_refused(old: str, new: str) -> None:
    before, after = dojoir.parse(SUM), dojoir.parse(PARTIAL.replace(old, new))
    assert old in PARTIAL
    assert compare(before, after, origins(before, 0, None, 1, None)).status == "illegal"


def test_strict_sums_have_no_partial_results() -> None:
    strict = [dojoir.parse(text.replace("in  x", "fp strict\nin  x", 1)) for text in (SUM, PARTIAL)]
    assert compare(*strict, origins(strict[0], 0, None, 1, None)).status == "illegal"
    assert not dojoir.check(strict[0], "split_reduction(@i, s, p, 4)")


MAXIMA = SUM.replace("s = 0", "s = x[0]").replace("s +=", "s max=")


@pytest.mark.parametrize(
    ("dtype", "begin", "other"),
    [
        ("f32", "-inf", "-448.0"),
        ("f16", "-inf", "-65504.0"),
        ("f8e4m3", "-448.0", "-inf"),
        ("f4e2m1", "-inf", "0.0"),
        ("f8e8m0", "5.877471754111438e-39", "-inf"),
        ("i64", "-9223372036854775808", "-9223372036854775807"),
        ("i32", "-2147483648", "0"),
        ("i8", "-128", "-127"),
        ("u32", "0", "1"),
        ("u64", "0", "1"),
    ],
)
def test_partial_maxima_begin_below_everything(dtype: str, begin: str, other: str) -> None:
    """f8e4m3 has no infinity: -inf is stored as NaN, which no maximum gets rid of. Integers have
    a least number."""
    before = dojoir.parse(MAXIMA.replace("f32", dtype))
    after = dojoir.apply(before, "split_reduction(@i, s, p, 4)")
    assert f"p[{{0}}] = {begin}\n" in dojoir.to_text(after)
    assert dojoir.parse(dojoir.to_text(after)) == after
    wrong = dojoir.parse(dojoir.to_text(after).replace(f"p[{{0}}] = {begin}", f"p[{{0}}] = {other}"))
    assert compare(before, wrong, origins(before, 0, None, 1, None)).status == "illegal"


@pytest.mark.parametrize("op", ["max=", "min="])
@pytest.mark.parametrize("dtype", ["i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8"])
def test_integers_have_partial_maxima_and_minima(dtype: str, op: str) -> None:
    """They begin with the number that gives way to any other, and give the same on both kinds of target."""
    info = np.iinfo(("u" if dtype[0] == "u" else "") + "int" + dtype[1:])
    before = dojoir.parse(MAXIMA.replace("f32", dtype).replace("max=", op))
    after = dojoir.apply(before, "split_reduction(@i, s, p, 4)")
    assert f"p[{{0}}] = {info.min if op == 'max=' else info.max}\n" in dojoir.to_text(after)
    ends = np.array([info.max if op == "min=" else info.min] * 5, info.dtype)
    some = np.array([3, 1, 2, 7, 5], info.dtype)
    for x in (ends, some, some[:2]):
        wanted = x.max() if op == "max=" else x.min()
        assert dojoir.interpret(after, {"x": x})["s"] == wanted
        assert dojoir.compile(after).run({"x": x})["s"] == wanted


def test_copies_are_seen_through_both_ways() -> None:
    plain, copy = dojoir.parse(PLAIN), dojoir.parse(COPY)
    assert compare(plain, copy, origins(plain, None, 0))
    assert compare(copy, plain, InstanceMap((identity(copy).origins[1],)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("t[{0}] = x[{0}]", "t[{0}] = x[N - 1 - {0}]", id="reversed"),
        pytest.param("t[{0}] = x[{0}]", "t[{0}] = x[{0}] + 0.0", id="more than a copy"),
        pytest.param("tmp t: f32", "tmp t: f16", id="rounded"),
        pytest.param("tmp t: f32[N]", "tmp t: f32[N~]", id="one element for all"),
        pytest.param("2 * t[{0}]", "2 * t[0]", id="another element"),
    ],
)
def test_wrong_copies_are_refused(old: str, new: str) -> None:
    plain, copy = dojoir.parse(PLAIN), dojoir.parse(COPY.replace(old, new))
    assert old in COPY
    assert compare(plain, copy, origins(plain, None, 0)).status == "illegal"


def test_a_copy_taken_too_early_is_refused() -> None:
    before = dojoir.parse("""kernel f(N)
inout x: f32[N]
out y: f32[N]
N
| x[{0}] = x[{0}] + 1
N
| y[{0}] = x[{0}]
""")
    after = dojoir.parse("""kernel f(N)
inout x: f32[N]
out y: f32[N]
tmp t: f32[N]
N
| t[{0}] = x[{0}]
N
| x[{0}] = x[{0}] + 1
N
| y[{0}] = t[{0}]
""")
    verdict = compare(before, after, origins(before, None, 0, 1))
    assert verdict.status == "illegal"
    assert "as the caller gave it" in verdict.reason or "without what" in verdict.reason


def test_accumulating_aside_block_by_block() -> None:
    k = dojoir.kernels.load("matmul", N=12, M=12, K=12)
    trace = dojoir.Trace(k)
    for move in ("split_scopes(@j, 1)", "split_scopes(@i, 1)", "split(@k, 4)", "stage(1.0.0.0, c, acc, inout)"):
        if move.startswith("stage"):
            for swap in ("swap_scopes(1.0)", "swap_scopes(1)"):
                trace.apply(swap)
            move = "stage(1.0, c, acc, inout)"
        trace.apply(move)
    assert dojoir.certify(trace)


def test_a_new_statement_with_an_effect_is_refused() -> None:
    before = dojoir.parse(SUM)
    after = dojoir.parse(SUM + "s += 1\n")
    verdict = compare(before, after, origins(before, 0, 1, None))
    assert verdict.code == "stray-value"


def test_inlining_keeps_the_rounding() -> None:
    k = dojoir.parse("""kernel f(N)
in  x: f32[N]
out y: f32[N]
tmp t: f16[N]
N
| t[{0}] = x[{0}] * 3
| y[{0}] = t[{0}] + 1
""")
    assert "y[{0}] = f16(x[{0}] * 3) + 1" in dojoir.to_text(dojoir.apply(k, "inline(0.1, t)"))


def test_inlining_another_iteration_is_refused() -> None:
    k = dojoir.parse("""kernel f(N)
in  x: f32[N]
out y: f32[N]
tmp t: f32[N]
N
| t[{0}] = x[{0}] * 3
N
| y[{0}] = t[N - 1 - {0}]
""")
    assert "y[{0}] = x[N - {0} - 1] * 3" in dojoir.to_text(dojoir.apply(k, "inline(1.0, t)"))
    wrong = dojoir.parse(dojoir.to_text(k).replace("= t[N - {0} - 1]", "= x[{0}] * 3"))
    assert compare(k, wrong, identity(k)).status == "illegal"


def test_deleting_what_is_read_is_refused() -> None:
    assert dojoir.check(dojoir.parse(COPY), "delete_temporary(t)").code == "still-read"
    inlined = dojoir.apply(dojoir.parse(COPY), "inline(1.0, t)")
    assert dojoir.to_text(dojoir.apply(inlined, "delete_temporary(t)")) == PLAIN


def test_origins_of_staging_are_not_trusted() -> None:
    before, after = dojoir.parse(PLAIN), dojoir.parse(COPY)
    assert compare(before, after, origins(before, 0, None)).status == "illegal"
    shifted = InstanceMap((None, Origin(0, (Affine.iterator(0) + 1,))))
    assert compare(before, after, shifted).status == "illegal"


def test_a_copy_without_elements_is_refused() -> None:
    k = dojoir.parse("""kernel f(N)
in  x: f32[N]
out y: f32[N]
y[0] = 0
N - 1 @i
| y[{i} + 1] = x[{i}]
""")
    verdict = dojoir.check(k, "stage(@i, x, t, in)")
    assert verdict.code == "empty-dimension"
    assert "N=1" in verdict.reason
    two = dojoir.parse(dojoir.to_text(k).replace("in  x", "where N >= 2\nin  x", 1))
    dojoir.prove(dojoir.apply(two, "stage(1, x, t, in)"))


def test_a_trace_with_inlining_is_certified() -> None:
    trace = dojoir.Trace(dojoir.parse(COPY.replace("x[{0}]\n", "x[{0}] * x[{0}]\n")))
    for move in (
        "split(0, 4)",
        "unsplit(0, N)",
        "inline(1.0, t)",
        "delete_temporary(t)",
        "split(0, 4)",
        "shift(0, 1)",
    ):
        trace.apply(move)
    assert dojoir.certify(trace)


def test_a_statement_that_no_longer_runs_is_lost_and_not_deleted() -> None:
    before = dojoir.parse(
        COPY.replace("tmp t", "tmp u: f32[N]\ntmp t").replace("N\n| y", "N\n| u[{0}] = 1\nN\n| y")
    )
    assert dojoir.check(before, "set_extent(1, 0)").code == "lost-instance"
    assert dojoir.check(before, "delete_temporary(u)")
