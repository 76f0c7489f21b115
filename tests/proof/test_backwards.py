"""Scopes that run backwards, and what is known of the independence of scopes that other kernels have too."""

from __future__ import annotations

from random import Random

import pytest

import dojoir
from dojoir.ir.nodes import Kernel
from dojoir.proof.check import answer
from dojoir.proof.claim import Claim
from dojoir.proof.explain.verdicts import check
from dojoir.proof.patterns.pattern_table import PATTERNS
from dojoir.proof.wellformed import are_independent, find_conflict
from dojoir.support.memo import fresh_tables

(BACKWARDS,) = (pattern for pattern in PATTERNS if pattern.name == "backwards")

HEAD = """kernel f(N, M)
fp {fp}
inout a: f32[N, M]
in  x: f32[N, M]
inout s: f32
tmp t: f32{t}
"""


def kernel_of(body: str, t: str = "[N]", fp: str = "reassoc") -> Kernel:
    kernel = dojoir.parse(HEAD.format(t=t, fp=fp) + body)
    dojoir.prove(kernel)
    return kernel


@pytest.mark.parametrize(
    ("body", "fp", "place", "seen"),
    [
        ("N\n| M\n| | a[{0}, {1}] = 2 * x[{0}, {1}]", "reassoc", "0", True),
        ("N\n| M\n| | a[{0}, {1}] = 2 * x[{0}, {1}]", "reassoc", "0.0", True),
        ("N - 1\n| M\n| | a[{0} + 1, {1}] = 2 * a[{0}, {1}]", "reassoc", "0", False),
        ("N - 1\n| M\n| | a[{0} + 1, {1}] = 2 * a[{0}, {1}]", "reassoc", "0.0", True),
        ("N\n| s += x[{0}, 0]", "reassoc", "0", True),
        ("N\n| s += x[{0}, 0]", "strict", "0", False),
        ("N\n| s = x[{0}, 0]", "reassoc", "0", False),
        ("N\n| t[{0}] = x[{0}, 0]\n| M\n| | a[{0}, {1}] = t[{0}]", "reassoc", "0", True),
        ("N\n| t[0] = x[{0}, 0]\n| M\n| | a[{0}, {1}] = t[0]", "reassoc", "0", True),
        ("N\n| t[0] = x[{0}, 0]\nM\n| a[0, {0}] = t[0]", "reassoc", "0", False),
        ("N\n| if {0} == 0\n| | t[0] = x[{0}, 0]\n| a[{0}, 0] = t[0]", "reassoc", "0", False),
        ("N\n| s += x[{0}, 0]\n| s max= x[{0}, 0]", "reassoc", "0", False),
    ],
)
def test_it_is_seen_where_no_iterations_conflict(body: str, fp: str, place: str, seen: bool) -> None:
    """And where it is, the core says so; where it is not, but for what is not seen from the text, it does not."""
    kernel = kernel_of(body, fp=fp)
    done = dojoir.parse_move(f"reverse_scope({place})").rewrite(kernel)
    claim = Claim(kernel, done.kernel, done.instances)
    assert BACKWARDS.holds(claim) == seen
    assert bool(check(claim)) == seen


@pytest.mark.parametrize("body", ["N\n| M\n| | a[{0}, {1}] = 2 * x[{0}, M - 1]", "N - 1\n| a[{0}, 0] = x[{0}, 0]"])
def test_another_tree_does_not_run_backwards(body: str) -> None:
    kernel = kernel_of("N\n| M\n| | a[{0}, {1}] = 2 * x[{0}, {1}]")
    for place in ("0", "0.0"):
        done = dojoir.parse_move(f"reverse_scope({place})").rewrite(kernel)
        assert not BACKWARDS.holds(Claim(kernel, kernel, done.instances))
        other = kernel_of(body)
        if len(other.sites[0].scopes) == 2:
            assert not BACKWARDS.holds(Claim(kernel, other, done.instances))


# -- independence, by the scope and what is around it --------------------------------------------------------
INSIDE = "N\n| t[0] = x[{0}, 0]\n| a[{0}, 0] = t[0]\n"


def test_a_scope_is_not_independent_because_it_was_where_nothing_else_used_its_temporary() -> None:
    alone, used = kernel_of(INSIDE), kernel_of(INSIDE + "a[0, 0] = t[0]\n")
    with fresh_tables():
        assert are_independent(alone, (0,), "p")
        assert not are_independent(used, (0,), "p")
        assert are_independent(alone, (0,), "p")


def test_nor_because_it_was_under_another_mark_or_declaration_or_mode() -> None:
    body = "N\n| s += x[{0}, 0]\n"
    with fresh_tables():
        assert are_independent(kernel_of(body), (0,), "v")
        assert not are_independent(kernel_of(body), (0,), "p")
        assert not are_independent(kernel_of(body, fp="strict"), (0,), "v")
        assert are_independent(kernel_of(body + "s max= 0\n"), (0,), "v")
        assert are_independent(kernel_of(body.replace("+=", "max=") + "s += 0\n"), (0,), "v")
        rows = "N\n| t[{0}] = x[{0}, 0]\nN\n| a[{0}, 0] = t[{0}]\n"
        assert are_independent(kernel_of(rows), (0,), "p")


def test_what_is_known_of_scopes_is_what_is_found_afresh() -> None:
    random = Random("independent")
    for name in ("softmax", "matmul", "layernorm"):
        kernel = dojoir.kernels.load(name)
        for _ in range(4):
            for path, scope in ((p, n) for p, n in kernel.walk() if isinstance(n, dojoir.ir.nodes.Scope)):
                for mark in ("p", "v"):
                    known = are_independent(kernel, path, mark)
                    with fresh_tables():
                        assert known == (find_conflict(kernel, path, mark) is None), (mark, scope, kernel)
            kernel = dojoir.apply(kernel, random.choice(dojoir.moves(kernel)))


# -- marks around what runs alike ----------------------------------------------------------------------------
LANES = """kernel f(N)
in x: f32[N, 8]
out y: f32[8]
8
| y[{{0}}] = 0
N: {mark}
| {extent}
{rest}
"""


@pytest.mark.parametrize("mark", ["v", "gx", "bx"])
@pytest.mark.parametrize("move", ["split(1.0, 4)", "cut(1.0, 3)", "shift(1.0, 2)", "shift(1.0, {0})"])
def test_marks_around_loops_that_run_alike_are_what_the_core_says(mark: str, move: str) -> None:
    """Iterations may share an accumulator. One whose index names their scope, though it is the same, is none that
    is seen: shifted by {0}, y[{1}] is y[{1} - {0}]."""
    rest = "| | y[{1}] += x[{0}, {1}]"
    kernel = dojoir.parse(LANES.format(mark=mark, extent="8", rest=rest).replace("N: bx", "64: bx"))
    kernel = dojoir.parse(dojoir.to_text(kernel).replace("kernel f(N)", "kernel f(N)\nwhere N >= 64"))
    done = dojoir.parse_move(move).rewrite(kernel)
    legal = answer(kernel, done.kernel, done.instances).legal
    assert legal == bool(check(Claim(kernel, done.kernel, done.instances)))
    assert legal or "{0}" in move
