"""New statements that read what nothing has assigned: refused by the first iteration, where the core refuses."""

from __future__ import annotations

from random import Random

import pytest
from faults import FAULTS
from walks import start_kernel

import dojoir
from dojoir.ir.nodes import Kernel
from dojoir.passes.base.move import Refusal
from dojoir.passes.storage.staging import Stage
from dojoir.passes.values.hoisting import Hoist
from dojoir.proof.claim import Claim
from dojoir.proof.core.check import first_failure, form_errors
from dojoir.proof.explain.verdicts import check
from dojoir.proof.refute.first_iteration import differs_somewhere

HEAD = "kernel f(N, M)\nin x: f32[N, M]\ninout y: f32[N, M]\nout z: f32[N]\ntmp t: f32[M]\n"


def kernel_of(body: str) -> Kernel:
    kernel = dojoir.parse(HEAD + body + "\nN\n| z[{0}] = 0")
    dojoir.prove(kernel)
    return kernel


ROWS = "N\n| M\n| | t[{1}] = 2 * x[{0}, {1}]\n| M\n| | y[{0}, {1}] = exp(t[{1}])"


@pytest.mark.parametrize(
    ("body", "move", "seen"),
    [
        (ROWS, "hoist(0, 0.1.0, 0, part)", True),
        (ROWS, "hoist(0.1, 0.1.0, 0, part)", False),  # legal
        (ROWS, "stage(0, t, c, in)", True),
        (ROWS, "stage(0, t, c, out)", False),
        (ROWS, "stage(0.1, t, c, in)", False),  # legal
        (ROWS, "stage(0, y, c, inout)", False),  # legal: it is given
        ("M\n| t[{0}] = 1\n" + ROWS, "hoist(1, 1.1.0, 0, part)", False),  # wrong, and the first iteration reads a 1
        ("0\n| M\n| | t[{1}] = 1\n| M\n| | y[{0}, {1}] = exp(t[{1}])", "hoist(0, 0.1.0, 0, part)", True),
    ],
)
def test_the_first_statement_that_touches_it_reads_it(body: str, move: str, seen: bool) -> None:
    kernel = kernel_of(body)
    done = dojoir.parse_move(move).rewrite(kernel)
    assert differs_somewhere(kernel, done.kernel, done.instances) == seen
    assert not (seen and check(Claim(kernel, done.kernel, done.instances)))


@pytest.mark.parametrize("seed", range(3))
def test_what_is_refuted_is_refused_by_the_core(seed: int) -> None:
    random, seen = Random(f"reads first {seed}"), 0
    for _ in range(27):
        kernel, _ = start_kernel(random, 0.7)
        drawn = [*Hoist.candidates(kernel), *Stage.candidates(kernel)]
        for move in random.sample(drawn, min(8, len(drawn))):
            try:
                done = move.rewrite(kernel)
            except Refusal:
                continue
            wrong = (fault(done, random) for fault in random.sample(FAULTS, 2))
            for one in (done, *wrong):
                claim = Claim(kernel, one.kernel, one.instances) if one is not None else None
                if claim is None or claim.certificate.backward or first_failure(form_errors(claim)) is not None:
                    continue
                if differs_somewhere(*claim.parts):
                    seen += 1
                    assert not check(claim), f"{claim.before}\n{claim.after}"
    assert seen > 3, seen
