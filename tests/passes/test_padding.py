"""Statements that run past the end of a result or a sum: legal only where that has no effect."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import padded
import pytest

import dojoir
from dojoir.ir.affine import Affine
from dojoir.proof.certificate import InstanceMap, Origin, Substitution
from dojoir.proof.check import prove_by_core

PRODUCT = """kernel product(N, M, K)
in  a: f32[N, K]
in  b: f32[K, M]
out c: f32[N, M]
N
| M
| | c[{0}, {1}] = 0
| | K
| | | c[{0}, {1}] += a[{0}, {2}] * b[{2}, {1}]
"""

MOVES = """tile(0, 0.0, 8, 8)
stage(0.0.0, c, c_tile, out)
split_scopes(0.0.0.0, 1)
split_scopes(0.0.0, 1)
lift_scope(0.0.1.0.0, 2)
split(0.0.1, 4)
stage(0.0.1.0, a, a_tile, in)
stage(0.0.1.1, b, b_tile, in)
add_guard(0.0.1.2.0.0.0, 1, "{3} < K - 4*{2} and {4} < N - 8*{0} and {5} < M - 8*{1}")
set_extent(0.0.1.2, 4)
set_extent(0.0.1.2.0, 8)
set_extent(0.0.1.2.0.0, 8)
add_guard(0.0.0.0.0, 1, "{2} < N - 8*{0} and {3} < M - 8*{1}")
set_extent(0.0.0, 8)
set_extent(0.0.0.0, 8)
add_guard(0.0.1.0.0.0, 1, "{3} < N - 8*{0} and {4} < K - 4*{2}")
set_extent(0.0.1.0, 8)
set_extent(0.0.1.0.0, 4)
add_guard(0.0.1.1.0.0, 1, "{3} < K - 4*{2} and {4} < M - 8*{1}")
set_extent(0.0.1.1, 4)
set_extent(0.0.1.1.0, 8)"""

ZEROS = [
    'restore_node(0.0.1.0.0.1, "if {3} >= N - 8*{0}; | a_tile[{3}, {4}] = 0")',
    'restore_node(0.0.1.0.0.1, "if {4} >= K - 4*{2}; | a_tile[{3}, {4}] = 0")',
    'restore_node(0.0.1.1.0.1, "if {3} >= K - 4*{2}; | b_tile[{3}, {4}] = 0")',
    'restore_node(0.0.1.1.0.1, "if {4} >= M - 8*{1}; | b_tile[{3}, {4}] = 0")',
]
INIT, SUM = "compute_padding(0.0.0.0.0)", "compute_padding(0.0.1.2.0.0.0)"


def tiled(*zeros: str) -> dojoir.Trace:
    trace = dojoir.Trace(dojoir.parse(PRODUCT))
    for move in (*MOVES.splitlines(), *zeros):
        trace.apply(move)
    return trace


def test_a_product_of_whole_tiles_of_any_sizes_is_certified() -> None:
    trace = tiled(*ZEROS, INIT)
    before = trace.kernel
    after = trace.apply(SUM)
    assert dojoir.certify(trace)
    text = dojoir.to_text(after)
    assert "| | 8\n| | | 8\n| | | | c_tile[{2}, {3}] = 0\n" in text
    assert "| | | 4\n| | | | 8\n| | | | | 8\n| | | | | | c_tile" in text
    draw = np.random.default_rng(0)
    for n, m, k in ((1, 1, 1), (8, 8, 4), (9, 7, 5), (17, 3, 11)):
        a, b = (draw.standard_normal(shape).astype(np.float32) for shape in ((n, k), (k, m)))
        a[0, 0], b[-1, 0] = np.inf, np.nan  # no padding may meet these
        want, found = (dojoir.interpret(kernel, {"a": a, "b": b})["c"] for kernel in (dojoir.parse(PRODUCT), after))
        assert np.array_equal(want, found, equal_nan=True)
    assert dojoir.apply(after, dojoir.parse_move(SUM).inverse(before)) == before


@pytest.mark.parametrize("left_out", range(4))
def test_each_zero_is_needed(left_out: int) -> None:
    """Without one, something is read that was never written, or is of the turn before."""
    trace = tiled(*(zero for n, zero in enumerate(ZEROS) if n != left_out), INIT)
    assert not dojoir.check(trace.kernel, SUM)


def test_sums_begin_before_they_are_padded() -> None:
    assert not dojoir.check(tiled(*ZEROS).kernel, SUM)


HEAD = """kernel f(N)
in  x: f32[N]
in  at: i32[N + 8]
out y: f32[N]
out s: f32
tmp t: f32[N + 8]
tmp u: f32[N + 8]
tmp v: f32[N + 8]
tmp r: f32
N
| t[{{0}}] = x[{{0}}]
| u[{{0}}] = x[{{0}}]
8
| t[N + {{0}}] = {left}
| u[N + {{0}}] = {right}
N + 8
| v[{{0}}] = 1
r = 0
N + 8
| if {{0}} < N
| | {statement}
N
| y[{{0}}] = v[{{0}}]
s = r
"""


def is_legal(statement: str, left: str = "0", right: str = "0", mode: str = "reassoc") -> bool:
    """Whether a statement may run on the padding of two arrays; of that the core gives the same answer."""
    kernel = dojoir.parse(HEAD.format(left=left, right=right, statement=statement)).evolve(fp=mode)
    verdict = bool(dojoir.check(kernel, "compute_padding(4.0)"))
    done = dojoir.parse_move("compute_padding(4.0)").rewrite(kernel)
    assert verdict == bool(prove_by_core(kernel, done.kernel, done.instances))
    return verdict


def test_what_has_no_effect() -> None:
    assert is_legal("r += t[{0}] * u[{0}]")
    assert is_legal("r += t[{0}] * u[{0}]", mode="fast")
    assert is_legal("v[{0}] = 2")
    assert is_legal("v[{0}] = t[{0}]")
    assert is_legal("v[{0}] += t[{0}] * u[{0}]", left="3", right="inf")  # nothing reads it


@pytest.mark.parametrize(
    ("statement", "how"),
    [
        ("r += t[{0}] * u[{0}]", {"left": "1"}),
        ("r += t[{0}] * u[{0}]", {"right": "inf"}),
        ("r += t[{0}] * u[{0}]", {"mode": "strict"}),
        ("r *= t[{0}] * u[{0}]", {}),
        ("r max= t[{0}] * u[{0}]", {}),
        ("r = t[{0}] * u[{0}]", {}),
        ("r += t[{0}] + 1", {}),
        ("r += t[{0}] * x[{0}]", {}),
        ("r += t[{0}] * u[{0}] if at[{0}] > 0", {}),
        ("v[{0} % 8] = 2", {}),
        ("v[0] = 2", {}),
        ("v[at[{0}]] += t[{0}] * u[{0}]", {}),
        ("v[{0}] = f32(at[{0}] // at[0])", {}),
        ("y[{0}] = t[{0}]", {}),
    ],
)
def test_what_has_an_effect_is_refused(statement: str, how: dict[str, str]) -> None:
    assert not is_legal(statement, **how)


def test_padding_out_of_bounds_or_never_written_is_refused() -> None:
    text = HEAD.format(left="0", right="0", statement="v[{0}] = t[{0}]")
    assert dojoir.check(dojoir.parse(text), "compute_padding(4.0)")
    written = text.replace("v: f32[N + 8]", "v: f32[N + 7]").replace("N + 8\n| v", "N + 7\n| v")
    read = text.replace("t: f32[N + 8]", "t: f32[N + 7]").replace("| t[N + {0}]", "| t[N + {0} % 7]")
    for short in (written, read):
        assert dojoir.check(dojoir.parse(short), "compute_padding(4.0)").code == "out-of-bounds"
    unwritten = dojoir.parse(text.replace("| t[N + {0}] = 0\n", ""))
    assert dojoir.check(unwritten, "compute_padding(4.0)").code == "read-before-write"


FORGED = """kernel f(N)
in  a: i32[N + 8]
in  b: i32[N + 8]
out y: i32[N]
tmp v: i32[N + 8]
tmp d: i32[N + 8]
{more}N
| y[{{0}}] = v[{{0}}]
"""


def test_a_value_that_may_fail_is_not_computed_on_padding_by_way_of_another_statement() -> None:
    """What only padding reads of a new statement, the kernel before computes nowhere."""
    before = dojoir.parse(FORGED.format(more="N\n| v[{0}] = a[{0}] // b[{0}]\n"))
    i = Affine.iterator(0)
    for divisor, is_right in (("b[{0}]", False), ("2", True)):
        kernel = dojoir.parse(dojoir.to_text(before).replace("b[{0}]", divisor))
        more = f"N + 8\n| d[{{0}}] = a[{{0}}] // {divisor}\nN + 8\n| v[{{0}}] = d[{{0}}]\n"
        claimed = InstanceMap(
            (None, Origin(0, (i,)), Origin(1, (i,))), extracted=(Substitution(1, 0, 0, (i,)),), beyond=True
        )
        verdict = prove_by_core(kernel, dojoir.parse(FORGED.format(more=more)), claimed)
        assert bool(verdict) == is_right
        assert is_right or verdict.code == "may-fail"


@pytest.mark.parametrize("block", range(4))
def test_random_padding_is_legal_only_where_results_stay(block: int) -> None:
    counts: Counter[str] = Counter()
    for number in range(50):
        assert not padded.examine(Random(f"padded {block} {number}"), counts)
    assert counts["legal, right"] >= 12
    assert counts["illegal, wrong"] >= 15
    assert counts["legal, right"] > counts["illegal, right"]
