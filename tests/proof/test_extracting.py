"""A part of an expression in a temporary of its own: seen from the text where the core says so, and no mutant."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from walks import start_kernel

import dojoir
from dojoir.ir.nodes import Dim, Kernel
from dojoir.passes.base.move import Refusal
from dojoir.passes.values.subexpressions import ExtractSubexpression
from dojoir.proof.check import answer
from dojoir.proof.claim import Claim
from dojoir.proof.explain.verdicts import check
from dojoir.proof.patterns.pattern_table import PATTERNS

(EXTRACTING,) = (pattern for pattern in PATTERNS if pattern.name == "hoisted")

KERNEL = """kernel f(N, M)
in  x: f32[N, M]
in  h: f16[N, M]
inout y: f32[N, M]
N
| min(M, N + 3)
| | if {1} >= 1
| | | y[{0}, {1}] += exp(2 * x[{0}, {1}] + y[{0}, {1} - 1]) * f32(h[{0}, {1}])
"""
PLACE = "0.0.0.0"


def kernel() -> Kernel:
    made = dojoir.parse(KERNEL)
    dojoir.prove(made)
    return made


def claim_of(start: Kernel, move: str) -> Claim:
    done = dojoir.parse_move(move).rewrite(start)
    return Claim(start, done.kernel, done.instances)


@pytest.mark.parametrize("part", range(8))
def test_each_part_is_seen_and_is_right(part: int) -> None:
    try:
        claim = claim_of(kernel(), f"extract_subexpression({PLACE}, {part}, t)")
    except Refusal as refusal:
        assert refusal.code in {"no-part", "weak-value"}
        return
    assert EXTRACTING.holds(claim)
    assert check(claim)


def mutants(claim: Claim) -> list[Kernel]:
    """Kernels that are not what the move made, with the certificate that it gave."""
    after = claim.after
    first, second = (site for site in after.sites)
    t = after.buffer("t")

    def text(old: str, new: str) -> Kernel:
        whole = dojoir.to_text(after)
        assert old in whole
        return dojoir.parse(whole.replace(old, new, 1))

    return [
        text("2 * x[{0}, {1}] + y[{0}, {1} - 1]", "3 * x[{0}, {1}] + y[{0}, {1} - 1]"),
        text("x[{0}, {1}] + y", "x[{0}, {1} - 1] + y"),
        text("t[{0}, {1}] = ", "t[{0}, {1} - 1] = "),
        text("exp(t[{0}, {1}])", "exp(t[{0}, {1} - 1])"),
        text("y[{0}, {1}] += ", "y[{0}, {1}] *= "),
        text("y[{0}, {1}] += ", "y[{0}, 0] += "),
        text("t[{0}, {1}] = ", "t[{0}, {1}] += "),
        text("f32[N, M]\n\n", "f32[N, M - 1]\n\n"),
        text("tmp t: f32", "tmp t: f16"),
        after.replace_node(first.path, second.statement).replace_node(second.path, first.statement),
        after.evolve(
            buffers=(*after.buffers[:-1], replace(t, dims=(Dim(t.dims[0].extent, collapsed=True), t.dims[1])))
        ),
        after.evolve(body=(*after.body, *after.body)),
    ]


def test_no_mutant_is_seen() -> None:
    claim = claim_of(kernel(), f"extract_subexpression({PLACE}, 2, t)")
    found = mutants(claim)
    assert EXTRACTING.holds(claim)
    assert len({dojoir.to_text(mutant) for mutant in found} | {dojoir.to_text(claim.after)}) == len(found) + 1
    for mutant in found:
        assert not EXTRACTING.holds(Claim(claim.before, mutant, claim.certificate)), mutant


def test_certificates_of_other_statements_are_not_taken() -> None:
    claim = claim_of(kernel(), f"extract_subexpression({PLACE}, 2, t)")
    (step,) = claim.certificate.extracted
    for wrong in (
        replace(step, ordinal=step.ordinal + 1),
        replace(step, definition=1, site=0),
        replace(step, definition=7),
        replace(step, iterators=step.iterators[:1]),
        replace(step, iterators=step.iterators[::-1]),
    ):
        assert not EXTRACTING.holds(
            Claim(claim.before, claim.after, replace(claim.certificate, extracted=(wrong,)))
        )


@pytest.mark.parametrize("number", range(3))
def test_on_random_kernels_it_says_yes_only_where_the_core_does(number: int) -> None:
    random = Random(f"extracting {number}")
    seen = 0
    for _ in range(4):
        start, _ = start_kernel(random)
        moves = list(ExtractSubexpression.candidates(start))
        for move in random.sample(moves, min(3, len(moves))):
            try:
                done = move.rewrite(start)
            except Refusal:
                continue
            claim = Claim(start, done.kernel, done.instances)
            if EXTRACTING.holds(claim):
                seen += 1
                verdict = check(claim)
                assert verdict or verdict.code in {"undecided", "shared-element", "carried-value", "may-fail"}, (
                    verdict
                )
    assert seen or number


def test_a_deep_stencil_costs_no_budget() -> None:
    """It was `unknown` after all 3,000,000 steps."""
    moves = (
        "cut(0.1.0.0, N - 3)", "split(0.0.0.0, 4)", "split(0.0, 2)", "bind(0.0.0.0.0.0, by)", "shift(0.0.0.0, 1)",
        "cut(0.0.0.0, 16*((N - 1) // 16))",
    )  # fmt: skip
    start = dojoir.kernels.load("heat3d")
    for move in moves:
        start = dojoir.apply(start, move)
    done = dojoir.parse_move("extract_subexpression(0.0.0.0.0.0.0.0, 5, part)").rewrite(start)
    assert answer(start, done.kernel, done.instances, 20_000).legal
