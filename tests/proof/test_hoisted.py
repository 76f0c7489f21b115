"""A part of an expression computed before a scope: seen from the text where the core says so, and no mutant."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from drawing import draw
from faults import FAULTS
from walks import MARK_CODES

import dojoir
from dojoir.ir.nodes import Dim, Kernel
from dojoir.passes.base.move import Refusal
from dojoir.passes.values.hoisting import Hoist
from dojoir.proof.claim import Claim
from dojoir.proof.core.check import first_failure, form_errors
from dojoir.proof.explain.verdicts import check
from dojoir.proof.patterns.pattern_table import PATTERNS

(HOISTED,) = (pattern for pattern in PATTERNS if pattern.name == "hoisted")

HEAD = """kernel f(N, M)
in  x: f32[N, M]
in  h: f16[N, M]
in  w: f32[M]
inout y: f32[N, M]
inout s: f32[N]
"""


def kernel_of(body: str) -> Kernel:
    kernel = dojoir.parse(HEAD + body)
    dojoir.prove(kernel)
    return kernel


def claim_of(kernel: Kernel, move: str) -> Claim:
    done = dojoir.parse_move(move).rewrite(kernel)
    return Claim(kernel, done.kernel, done.instances)


ROWS = "N\n| M\n| | y[{0}, {1}] = x[{0}, {1}] * log(s[{0}]) + exp(w[{1}])"


@pytest.mark.parametrize(
    ("body", "move", "seen"),
    [
        (ROWS, "hoist(0.0, 0.0.0, 3, t)", True),
        (ROWS, "hoist(0, 0.0.0, 3, t)", True),
        (ROWS, "hoist(0, 0.0.0, 5, t)", True),
        (ROWS, "hoist(0.0, 0.0.0, 5, t)", True),
        (ROWS, "hoist(0, 0.0.0, 0, t)", True),
        ("N\n| M\n| | s[{0}] += exp(x[{0}, {1}]) * log(w[{1}])", "hoist(0, 0.0.0, 4, t)", True),
        ("N\n| M\n| | y[{0}, {1}] = exp(y[{0}, 0])", "hoist(0.0, 0.0.0, 0, t)", False),  # written in the scope
        ("N\n| M\n| | y[{0}, {1}] = exp(s[{0}])\n| | s[{0}] = 1", "hoist(0.0, 0.0.0, 0, t)", False),
        ("N\n| M\n| | if {1} >= 1\n| | | y[{0}, {1}] = exp(s[{0}])", "hoist(0.0, 0.0.0.0, 0, t)", False),
        ("N\n| if {0} >= 1\n| | M\n| | | y[{0}, {1}] = exp(x[{0} - 1, 0])", "hoist(0.0.0, 0.0.0.0, 0, t)", True),
        ("N\n| M - 1\n| | y[{0}, {1}] = exp(s[{0}])", "hoist(0.0, 0.0.0, 0, t)", False),  # it need not run
        (
            "N\n| M\n| | min(M, {0} + 1)\n| | | y[{0}, {2}] = exp(w[{2}]) * x[{0}, 0]",
            "hoist(0, 0.0.0.0, 1, t)",
            True,
        ),
        ("N\n| M\n| | min(M, {1} + 1)\n| | | y[{0}, {2}] = exp(w[{2}])", "hoist(0, 0.0.0.0, 0, t)", True),
        ("N\n| M\n| | {1} + 1\n| | | y[{0}, {2}] = exp(x[{0}, {1}])", "hoist(0.0, 0.0.0.0, 0, t)", True),
        ("N\n| M\n| | {1}\n| | | y[{0}, {2}] = exp(x[{0}, {1}])", "hoist(0.0, 0.0.0.0, 0, t)", False),
        ("N\n| M\n| | y[{0}, {1}] = f32(h[{0}, M - 1 - {1}])", "hoist(0, 0.0.0, 0, t)", True),
        ("N\n| s[{0}] += 1\n| M\n| | y[{0}, {1}] = exp(s[{0}])", "hoist(0.1, 0.1.0, 0, t)", True),
    ],
)
def test_it_is_seen_where_the_part_is_the_same(body: str, move: str, seen: bool) -> None:
    """And where it is, the core says so, both ways."""
    try:
        claim = claim_of(kernel_of(body), move)
    except Refusal as refusal:
        raise AssertionError(str(refusal)) from None
    assert HOISTED.holds(claim) == seen
    if seen:
        assert check(claim)
        dojoir.prove(claim.after)


KERNEL = """N
| s[{0}] = 2 * s[{0}]
| M
| | M
| | | y[{0}, {1}] += exp(2 * x[{0}, {2}] + s[{0}]) * w[{1}]
"""
MOVE = "hoist(0.1, 0.1.0.0, 1, t)"


def mutants(claim: Claim) -> list[Kernel]:
    """Kernels that are not what the move made, with the certificate that it gave."""
    after = claim.after
    t = after.buffer("t")
    first = after.sites[0]

    def text(old: str, new: str) -> Kernel:
        whole = dojoir.to_text(after)
        assert old in whole, whole
        return dojoir.parse(whole.replace(old, new, 1))

    return [
        text("2 * x[{0}, {1}] + s", "3 * x[{0}, {1}] + s"),
        text("x[{0}, {1}] + s[{0}]", "x[{0}, {1}] + s[0]"),
        text("x[{0}, {1}] + s", "x[{0}, 0] + s"),
        text("| M\n| | t", "| M - 1\n| | t"),
        text("| M\n| | t", "| M + 1\n| | t"),
        text("| M\n| | t", "| min(M, N)\n| | t"),
        text("| M\n| | t", "| M\n| | if {1} >= 1\n| | | t"),
        text("t[{0}, {1}] = ", "t[{1}, {0}] = "),
        text("t[{0}, {1}] = ", "t[{0}, 0] = "),
        text("t[{0}, {1}] = ", "t[{0}, {1}] += "),
        text("t[{0}, {2}]", "t[{0}, {1}]"),
        text("t[{0}, {2}]", "t[{0}, 0]"),
        text("y[{0}, {1}] += ", "y[{0}, {1}] *= "),
        text("y[{0}, {1}] += ", "y[{0}, {2}] += "),
        text("f32[N, M]\n\n", "f32[N, M - 1]\n\n"),
        text("f32[N, M]\n\n", "f32[M, N]\n\n"),
        text("tmp t: f32", "tmp t: f16"),
        text("tmp t: f32", "inout t: f32"),
        after.replace_node(first.path, replace(first.statement, target=claim.before.sites[1].statement.target)),
        after.evolve(
            buffers=(*after.buffers[:-1], replace(t, dims=(t.dims[0], Dim(t.dims[1].extent, collapsed=True))))
        ),
        after.evolve(body=(*after.body, *after.body)),
        after.replace_node((0, 1), after.at((0, 2))).replace_node((0, 2), after.at((0, 1))),
    ]


def test_no_mutant_is_seen() -> None:
    claim = claim_of(kernel_of(KERNEL), MOVE)
    assert HOISTED.holds(claim)
    found = mutants(claim)
    assert len({dojoir.to_text(mutant) for mutant in found} | {dojoir.to_text(claim.after)}) == len(found) + 1
    for mutant in found:
        assert not HOISTED.holds(Claim(claim.before, mutant, claim.certificate)), mutant


def test_certificates_of_other_statements_are_not_taken() -> None:
    claim = claim_of(kernel_of(KERNEL), MOVE)
    (step,) = claim.certificate.extracted
    for wrong in (
        replace(step, ordinal=step.ordinal + 1),
        replace(step, definition=2, site=1),
        replace(step, definition=0),
        replace(step, definition=7),
        replace(step, site=step.site - 1),
        replace(step, iterators=step.iterators[:1]),
        replace(step, iterators=step.iterators[::-1]),
        replace(step, iterators=(step.iterators[0], step.iterators[1] + 1)),
    ):
        assert not HOISTED.holds(Claim(claim.before, claim.after, replace(claim.certificate, extracted=(wrong,))))


@pytest.mark.parametrize("seed", range(4))
def test_on_random_kernels_it_says_yes_only_where_the_core_does(seed: int) -> None:
    random, seen = Random(f"hoisted {seed}"), 0
    for number in range(12):
        start = draw("runnable" if number % 2 else "tangled", random)
        moves = list(Hoist.candidates(start))
        for move in random.sample(moves, min(4, len(moves))):
            try:
                done = move.rewrite(start)
            except Refusal:
                continue
            wrong = (fault(done, random) for fault in random.sample(FAULTS, 4))
            for one in (done, *wrong):
                claim = Claim(start, one.kernel, one.instances) if one is not None else None
                if claim is None or first_failure(form_errors(claim)) is not None or not HOISTED.holds(claim):
                    continue
                seen += 1
                verdict = check(claim)
                others = verdict.code in MARK_CODES or verdict.obligation in ("fails", "touches")
                assert verdict or others, f"{verdict}\n{claim.before}\n{claim.after}"
                back = Claim(claim.after, claim.before, replace(claim.certificate, backward=True))
                assert check(back) or check(back).code in MARK_CODES
    assert seen > 2, seen
