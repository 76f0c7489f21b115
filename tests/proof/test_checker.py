"""The checker against rewrites and instance maps that are wrong: a move's own code is never trusted."""

from __future__ import annotations

import pytest

import dojoir
from dojoir.ir.affine import Affine
from dojoir.proof.check import InstanceMap, Origin, compare, identity, is_exact

GUARDED = """kernel f(N)
in  x: f32[N]
out y: f32[N]
tmp t: f32[N]

N
| t[{0}] = 0
| if {0} >= 1
| | t[{0}] = x[{0} - 1]
N
| y[{0}] = t[{0}] - x[{0}]
| y[{0}] += {0}
"""


def pair(old: str, new: str) -> tuple[dojoir.Kernel, dojoir.Kernel]:
    """The guarded kernel, and it with a piece of its text replaced."""
    assert old in GUARDED
    before, after = dojoir.parse(GUARDED), dojoir.parse(GUARDED.replace(old, new))
    dojoir.prove(before)
    return before, after


def test_a_kernel_means_what_it_means() -> None:
    k = dojoir.parse(GUARDED)
    assert compare(k, k, identity(k))


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        pytest.param("| if {0} >= 1\n", "| if {0} >= 2\n", "lost-instance", id="another guard"),
        pytest.param("N\n| y", "N - 1\n| y", "lost-instance", id="a shorter scope"),
        pytest.param("x[{0} - 1]", "x[{0}]", "wrong-value", id="off by one in a read of an input"),
        pytest.param("t[{0}] - x[{0}]", "x[{0}] - t[{0}]", None, id="swapped operands"),
        pytest.param("t[{0}] - x[{0}]", "t[{0}] + x[{0}]", "changed-operation", id="another operation"),
        pytest.param("y[{0}] += {0}", "y[{0}] += {0} + 1", "changed-operation", id="another value of the iterator"),
        pytest.param("| t[{0}] = 0\n", "| t[{0}] = 1\n", "changed-operation", id="another constant"),
        pytest.param("y[{0}] += {0}", "y[{0}] *= {0}", "changed-operation", id="another accumulation"),
        pytest.param("tmp t: f32[N]", "tmp t: f16[N]", "changed-operation", id="another type of a temporary"),
        pytest.param("out y: f32[N]", "out y: f64[N]", "changed-argument", id="another type of an output"),
        pytest.param("y[{0}] = t", "y[N - 1 - {0}] = t", None, id="another element written"),
    ],
)
def test_wrong_rewrites_are_refused(old: str, new: str, code: str | None) -> None:
    before, after = pair(old, new)
    verdict = compare(before, after, identity(after))
    assert verdict.status == "illegal"
    assert code is None or verdict.code == code, str(verdict)


def test_a_lost_statement_is_refused() -> None:
    before, after = pair("| y[{0}] += {0}\n", "")
    assert compare(before, after, identity(after)).code == "lost-value"


def test_a_dropped_guard_is_refused() -> None:
    before, after = pair("| if {0} >= 1\n| | t[{0}] = x[{0} - 1]\n", "| t[{0}] = x[{0} - 1]\n")
    verdict = compare(before, after, identity(before))
    assert verdict.code == "extra-instance"
    assert "at {0}=0 would run, and does not now" in verdict.reason


def test_a_forgotten_live_out_is_refused() -> None:
    text = """kernel f(N)
in  x: f32[N]
inout y: f32[N]
N
| y[{0}] = x[{0}]
| y[{0}] = 2 * x[{0}]
"""
    before = dojoir.parse(text)
    lines = text.splitlines()
    after = dojoir.parse("\n".join([*lines[:4], lines[5], lines[4]]) + "\n")
    swapped = InstanceMap((Origin(1, (Affine.iterator(0),)), Origin(0, (Affine.iterator(0),))))
    verdict = compare(before, after, swapped)
    assert verdict.code == "wrong-value"
    assert "the returned `y[0]` would be as written by `y[{0}] = x[{0}]`" in verdict.reason


def i(depth: int, offset: int = 0) -> Affine:
    return Affine.iterator(depth) + offset


@pytest.mark.parametrize(
    "origins",
    [
        pytest.param((), id="empty"),
        pytest.param((Origin(0, (i(0),)),), id="too short"),
        pytest.param(
            (Origin(0, (i(0),)), Origin(1, (i(0),)), Origin(2, (i(0),)), Origin(9, (i(0),))), id="nowhere"
        ),
        pytest.param((Origin(0, ()), Origin(1, (i(0),)), Origin(2, (i(0),)), Origin(3, (i(0),))), id="flat"),
        pytest.param(
            (Origin(0, (i(0, 1),)), Origin(1, (i(0),)), Origin(2, (i(0),)), Origin(3, (i(0),))), id="shifted"
        ),
        pytest.param(
            (Origin(0, (i(0),)), Origin(1, (i(0),)), Origin(2, (i(0),)), Origin(2, (i(0),))), id="one twice"
        ),
        pytest.param(
            (Origin(0, (i(0) * 0,)), Origin(1, (i(0),)), Origin(2, (i(0),)), Origin(3, (i(0),))), id="all one"
        ),
        pytest.param(
            (
                Origin(0, (-i(0) + Affine.size("N") - 1,)),
                Origin(1, (i(0),)),
                Origin(2, (i(0),)),
                Origin(3, (i(0),)),
            ),
            id="reversed",
        ),
    ],
)
def test_wrong_instance_maps_are_refused(origins: tuple[Origin, ...]) -> None:
    k = dojoir.parse(GUARDED)
    assert compare(k, k, InstanceMap(origins)).status == "illegal"


def test_the_step_limit_is_an_honest_third_answer() -> None:
    before, after = pair("| y[{0}] += {0}", "| y[{0}] += {0}")
    verdict = compare(before, after, identity(after), step_limit=1)
    assert verdict.status in {"unknown", "legal"}
    moved = dojoir.parse_move("swap_siblings(0)").rewrite(before)
    verdict = compare(before, moved.kernel, moved.instances, step_limit=1)
    assert verdict.status == "unknown"
    assert verdict.code == "undecided"
    assert compare(before, moved.kernel, moved.instances).status == "illegal"


def test_exactness() -> None:
    k = dojoir.parse("""kernel f(N, M)
in x: f32[N, M]
out s: f32
s = 0
N
| M
| | s += x[{0}, {1}]
""")
    swap = dojoir.parse_move("swap_scopes(1)").rewrite(k)
    assert compare(k, swap.kernel, swap.instances)
    assert not is_exact(k, swap.kernel, swap.instances)
    split = dojoir.parse_move("split(1, 4)").rewrite(k)
    assert is_exact(k, split.kernel, split.instances)
    lanes = dojoir.parse_move("vectorize(1.0)").rewrite(k)
    assert compare(k, lanes.kernel, lanes.instances)
    assert not is_exact(k, lanes.kernel, lanes.instances)
