"""What a kernel may not do that it did not, though its values stay: end in an error, or touch an element."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import effects
import numpy as np
import pytest

import dojoir
from dojoir.ir.nodes import Kernel
from dojoir.proof.certificate import InstanceMap, Origin, Substitution, identity
from dojoir.proof.check import compare, prove_by_core
from dojoir.proof.checker_mode import by_core

COPIED = """kernel copied(N)
in  x: i32[N]
in  w: i32[8]
out y: i32[N]

N
| y[{0}] = x[{0}]
"""
STRIPES = """kernel stripes(N)
in    x: i32[N]
inout y: i32[N]

N
| if {0} % 2 == 0
| | y[{0}] = x[{0}]
"""
DIVIDED = """kernel divided(N, M)
in  x: i32[N]
in  d: i32[N]
in  ok: bool[N]
out y: i32[N]

N @i
| y[{i}] = 0
| M @j
| | y[{i}] += x[{i}] // d[{i}]
"""


def both(kernel: Kernel, move: str) -> dojoir.Verdict:
    """The verdict on a move, which is that of the core too."""
    found = dojoir.check(kernel, move)
    with by_core():
        alone = dojoir.check(kernel, move)
    assert (alone.status, alone.code) == (found.status, found.code)
    return found


# -- fails -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "data"),
    [
        ("1 // x[{0}]", "where `x[{0}]` is 0"),
        ("1 % x[{0}]", "where `x[{0}]` is 0"),
        ("1 << x[{0}]", "where `x[{0}]` is no distance to shift by"),
        ("x[{0}] >> {0}", "no distance"),
        ("w[x[{0}]]", "where `x[{0}]` is no index of w"),
    ],
)
def test_what_may_fail_is_computed_nowhere_anew(value: str, data: str) -> None:
    verdict = both(dojoir.parse(COPIED), _new(value))
    assert (verdict.status, verdict.code, verdict.obligation) == ("illegal", "may-fail", "fails")
    assert data in verdict.reason
    trace = dojoir.Trace(dojoir.parse(COPIED))
    trace.apply(_new(value), unsafe=True)
    assert dojoir.certify(trace).status == "illegal"


def _new(value: str) -> str:
    return f'restore_temporary("tmp t: i32[N]", 3, 0.0, "t[{{0}}] = {value}")'


@pytest.mark.parametrize(
    "value",
    ["7 // 2", "i32(i64(x[{0}]) // ({0} + 1))", "x[{0}] << 3", "i32(i64(x[{0}]) // N)", "max(x[{0}], w[3])"],
)
def test_what_cannot_fail_may_be_computed_anywhere(value: str) -> None:
    assert both(dojoir.parse(COPIED), _new(value)).status == "legal"


def extracted(value: str, part: str, kept: str, text: str = DIVIDED) -> dojoir.Verdict:
    """The verdict of the core where the last statement of a text reads what one right before it computes."""
    line = "| | y[{i}] += x[{i}] // d[{i}]\n"
    before = dojoir.parse(text.replace(line, f"| | y[{{i}}] += {value}\n"))
    new = f"| | t = {part}\n| | y[{{i}}] += {kept}\n"
    after = dojoir.parse(text.replace(line, new).replace("out y", "tmp t: i32\nout y"))
    origins = identity(before).origins
    number = sum(read.buffer != "t" for read in after.sites[2].statement.reads[: _first(after)])
    step = Substitution(2, number, 1, origins[1].iterators if origins[1] else ())
    certificate = InstanceMap((origins[0], None, origins[1]), extracted=(step,))
    verdict = prove_by_core(before, after, certificate)
    assert compare(before, after, certificate).status == verdict.status
    return verdict


def _first(kernel: Kernel) -> int:
    return next(n for n, read in enumerate(kernel.sites[2].statement.reads) if read.buffer == "t")


@pytest.mark.parametrize(
    ("value", "part", "kept", "legal"),
    [
        ("x[{i}] // d[{i}] + 1", "x[{i}] // d[{i}]", "t + 1", True),
        ("select(ok[{i}], x[{i}] // d[{i}], 0)", "x[{i}] // d[{i}]", "select(ok[{i}], t, 0)", True),
        ("x[{i}] // d[{i}] if ok[{i}]", "x[{i}] // d[{i}]", "t if ok[{i}]", False),
        ("x[{i}] * 2 if ok[{i}]", "x[{i}] * 2", "t if ok[{i}]", True),
        ("1 if x[{i}] // d[{i}] > 0", "x[{i}] // d[{i}]", "1 if t > 0", True),
        ("1 if ok[{i}] and x[{i}] // d[{i}] > 0", "x[{i}] // d[{i}]", "1 if ok[{i}] and t > 0", False),
    ],
)
def test_a_part_is_computed_where_it_was(value: str, part: str, kept: str, legal: bool) -> None:
    verdict = extracted(value, part, kept)
    assert (verdict.status == "legal") == legal, verdict
    assert legal or verdict.code == "may-fail"


@pytest.mark.parametrize(
    ("move", "facts", "legal"),
    [
        ("hoist(@j, 0.1.0, 0, t)", "", True),  # a size is 1 or more
        ("hoist(@j, 0.1.0, 0, t)", "M - 1", False),
        ("hoist(@j, 0.1.0, 0, t)", "{i}", False),
        ("hoist(@j, 0.1.0, 0, t)", "{i} + 1", True),
    ],
)
def test_a_scope_that_may_be_empty_computes_nothing(move: str, facts: str, legal: bool) -> None:
    kernel = dojoir.parse(DIVIDED.replace("| M @j", f"| {facts} @j") if facts else DIVIDED)
    verdict = both(kernel, move)
    assert (verdict.status == "legal") == legal, verdict
    assert legal or verdict.code == "may-fail"


def test_an_index_from_data_keeps_its_range() -> None:
    """A copy of the first elements alone gives the same values where there are some."""
    before = dojoir.parse(
        "kernel k(N)\nin w: f32[8]\nin ids: i32[N]\nout y: f32[N]\ntmp t: f32[8]\n"
        "8\n| t[{0}] = w[{0}]\nN\n| y[{0}] = t[ids[{0}]]\n"
    )
    after = dojoir.parse(str(before).replace("t: f32[8]", "t: f32[4]").replace("8\n| t", "4\n| t"))
    certificate = InstanceMap((None, Origin(1, identity(before).origins[1].iterators)))  # type: ignore[union-attr]
    for found in (compare(before, after, certificate), prove_by_core(before, after, certificate)):
        assert (found.status, found.code) == ("illegal", "may-fail")
    wider = dojoir.parse(str(before).replace("t: f32[8]", "t: f32[9]"))
    assert compare(before, wider, replace(certificate, origins=identity(before).origins)).code != "may-fail"


# -- touches ---------------------------------------------------------------------------------------------------
def test_an_element_that_is_left_alone_is_not_written_back() -> None:
    before = dojoir.parse(STRIPES)
    text = dojoir.to_text(dojoir.apply(before, "stage(0, y, yc, inout)"))
    guard = "| if {0} % 2 == 0\n| | "
    assert text.count(guard) == 3  # it goes with what is copied
    filled = text.replace(guard + "yc[{0}] = y", "| yc[{0}] = y")
    drained = filled.replace(guard + "y[{0}] = yc", "| y[{0}] = yc")
    certificate = InstanceMap((None, identity(before).origins[0], None))
    for written, code in ((filled, "read"), (drained, "written")):
        after = dojoir.parse(written)
        for verdict in (compare(before, after, certificate), prove_by_core(before, after, certificate)):
            assert (verdict.status, verdict.code, verdict.obligation) == ("illegal", "touches", "touches")
            assert f"y[1] would be {code}" in verdict.reason


SHARED = """kernel shared(N, M)
inout c: f32[N + 2, N + 2]
in    a: f32[M]

"""


@pytest.mark.parametrize(
    ("nest", "move", "parts"),
    [
        (
            "N\n| {0} + 1\n| | M\n| | | c[{0}, {1}] += a[{2}]\n",
            "stage(0, c, t, inout)",
            ("N\n| {0} + 1\n| | t[{0}, {1}] = c[{0}, {1}]\n", "N\n| {0} + 1\n| | c[{0}, {1}] = t[{0}, {1}]\n"),
        ),
        (
            "N\n| {0} + 1\n| | c[{1}, {0}] = 1\n",
            "stage(0, c, t, out)",
            ("N\n| N\n| | if {0} < {1} + 1\n| | | c[{0}, {1}] = t[{0}, {1}]\n",),
        ),
        (
            "N\n| if {0} % 3 == 1\n| | c[{0}, 2] += {0}\n",
            "stage(0, c, t, inout)",
            ("N\n| 1\n| | if {0} % 3 == 1\n| | | c[{0}, {1} + 2] = t[{0}, {1}]\n",),
        ),
        (
            "2\n| N - {0}\n| | if {1} % 2 == 0\n| | | c[{0}, 0] += 1\n",
            "stage(0, c, t, inout)",
            ("2\n| 1\n| | if N - {0} >= 1\n| | | t[{0}, {1}] = c[{0}, {1}]\n",),
        ),
        (
            "M\n| N\n| | c[{1} + 1, 0] = c[{1}, 0] + c[{1} + 2, 0]\n",
            "stage(0.0, c, t, inout)",
            (
                "| N + 2\n| | 1\n| | | t[{1}, {2}] = c[{1}, {2}]\n",
                "| N + 1\n| | 1\n| | | if {1} >= 1\n| | | | c[{1}, {2}] = t[{1}, {2}]\n",
            ),
        ),
        ("N\n| c[{0}, {0}] = 1\n", "stage(0, c, t, inout)", ()),
        ("N\n| c[{0}, 0] = 1\n| if {0} >= 1\n| | c[{0}, 1] = 1\n", "stage(0, c, t, inout)", ()),
        ("N\n| N\n| | c[{0} + 1, {1} + 1] += c[{0}, {1} + 1] + c[{0} + 1, {1}]\n", "stage(0, c, t, inout)", ()),
    ],
)
def test_what_is_left_alone_is_not_copied(nest: str, move: str, parts: tuple[str, ...]) -> None:
    """A copy goes as far as the node, under its guards; where that is not seen, it is refused."""
    kernel = dojoir.parse(SHARED + nest)
    verdict = both(kernel, move)
    if not parts:
        assert (verdict.status, verdict.code) == ("illegal", "touches")
        return
    assert verdict.status == "legal", verdict
    trace = dojoir.Trace(kernel)
    trace.apply(move)
    text = dojoir.to_text(trace.kernel)
    assert all(part in text for part in parts), text
    assert dojoir.certify(trace)
    data = {"c": np.arange(49, dtype=np.float32).reshape(7, 7), "a": np.ones(3, np.float32)}
    assert np.array_equal(*(dojoir.interpret(k, data, N=5, M=3)["c"] for k in (kernel, trace.kernel)))
    trace.undo()
    assert trace.kernel == kernel


@pytest.mark.parametrize(
    ("text", "move"),
    [
        (STRIPES.replace("if {0} % 2 == 0\n| | y[{0}]", "if {0} >= 0\n| | y[{0}]"), "stage(0, y, yc, inout)"),
        (STRIPES.replace("if {0} % 2 == 0", "if {0} >= 1"), "stage(0.0.0, y, yc, out)"),
        (
            STRIPES.replace("N\n| if {0} % 2 == 0\n| | y[{0}]", "N // 2 + 1\n| if 2*{0} < N\n| | y[2*{0}]"),
            "stage(0, y, yc, inout)",
        ),
        (
            STRIPES.replace("inout y", "out y").replace("if {0} % 2 == 0\n| | y", "if {0} >= 0\n| | y"),
            "stage(0, y, yc, out)",
        ),
        (STRIPES, "stage(0, x, xc, in)"),
        (STRIPES, "split(0, 16)"),
    ],
)
def test_what_is_touched_may_be_staged(text: str, move: str) -> None:
    assert both(dojoir.parse(text), move).status == "legal"


BY_DATA = """kernel by_data(N)
inout y: i32[N]
in    q: i64[N]
in    x: i32[N]
in    ok: bool[N]

"""


@pytest.mark.parametrize(
    ("nest", "move", "legal"),
    [
        ("N\n| y[{0}] = x[{0}] if ok[{0}]\n", "stage(0, y, yc, inout)", False),
        ("N\n| y[0] += x[{0}] if ok[{0}]\n", "stage(0, y, yc, inout)", False),
        ("N\n| y[{0}] = 0\nN\n| y[{0}] = x[{0}] if ok[{0}]\n", "stage(1, y, yc, inout)", True),
        ("N\n| y[q[{0}]] += x[{0}]\nN\n| y[{0}] = 1\n", "stage(1, y, yc, out)", True),
        ("y[q[0]] += x[0]\nN\n| if {0} % 2 == 0\n| | y[{0}] = 1\n", "stage(1.0.0, y, yc, out)", True),
        ("N\n| y[{0}] = x[{0}] * 3 if ok[{0}]\n", "extract_subexpression(0.0, 2, t)", True),
        ("N\n| y[q[{0}]] = x[{0}]\n", "keep_last_writer(0, 0.0, last)", True),
        ("N\n| y[q[{0}]] += x[{0}]\n", "split(0, 16)", True),
    ],
)
def test_what_data_decide_is_written_nowhere_else(nest: str, move: str, legal: bool) -> None:
    verdict = both(dojoir.parse(BY_DATA + nest), move)
    assert (verdict.status == "legal") == legal, verdict
    assert legal or (verdict.code == "touches" and "only where the data say so" in verdict.reason)


def test_a_scatter_touches_nothing_for_sure() -> None:
    before = dojoir.parse(BY_DATA + "y[q[0]] += x[0]\n")
    after = dojoir.parse(BY_DATA + "y[q[0]] += x[0]\nN\n| y[{0}] = y[{0}]\n")
    certificate = InstanceMap((*identity(before).origins, None))
    for found in (compare(before, after, certificate), prove_by_core(before, after, certificate)):
        assert (found.status, found.code) == ("illegal", "touches")


def test_an_element_is_not_written_with_its_own_value() -> None:
    """An `inout` is a call's own where the kernel touches it, and nowhere else."""
    before = dojoir.parse(STRIPES)
    after = dojoir.parse(STRIPES + "N\n| y[{0}] = y[{0}]\n")
    certificate = InstanceMap((*identity(before).origins, None))
    for found in (compare(before, after, certificate), prove_by_core(before, after, certificate)):
        assert (found.status, found.code) == ("illegal", "touches")
    data = {"x": np.arange(4, dtype=np.int32), "y": np.full(4, 9, np.int32)}
    assert np.array_equal(*(dojoir.interpret(k, data, N=4)["y"] for k in (before, after)))


def test_a_read_of_what_is_left_alone_is_seen() -> None:
    """What others may write there is theirs, whether or not the value counts."""
    kernel = dojoir.parse(STRIPES)
    verdict = both(kernel, 'restore_temporary("tmp t: i32[N]", 2, 0, "t[{0}] = y[{0}]")')
    assert verdict.code != "legal" or verdict.status == "illegal"


@pytest.mark.parametrize("block", range(2))
def test_no_rewrite_that_fails_or_touches_more_is_legal(block: int) -> None:
    """Random kernels that may fail, and what moves make of them unasked; `python tests/helpers/fuzz.py --effects`
    asks any number."""
    counts: Counter[str] = Counter()
    for number in range(6):
        assert not effects.examine(Random(f"effects {block} {number}"), counts)
    assert counts["legal, right"] >= 10
    assert counts["illegal, wrong"] >= 2
