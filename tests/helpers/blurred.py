"""Random traces with an unsafe move that later ones blur: none is certified whose result is another.

`dojoir.certify` compares a move that does not keep the meaning together with some that follow it. The judge is the
interpreter, on integers.

    python tests/helpers/fuzz.py --blurred 10000 --jobs 2
"""

from __future__ import annotations

from collections import Counter
from random import Random

from claims import Maker, judged
from walks import TOO_LONG, draw_moves

import dojoir
from dojoir.passes.base.move import Refusal
from dojoir.proof.certificate import identity
from dojoir.proof.claim import Claim

STEPS = 2_000_000
"""The steps that a certificate may take: past that it is undecided."""


def examine(random: Random, counts: Counter[str]) -> list[tuple[str, str]]:
    """One random trace: what is wrong with its certificate, and the trace as text."""
    maker = Maker(random)
    kernel = maker.kernel(maker.old())
    try:
        if kernel is None:
            return []
        dojoir.prove(kernel)
    except dojoir.DojoError:
        return []
    trace = dojoir.Trace(kernel)
    if not _apply(trace, random, 10, unsafe=True):
        counts["no unsafe move"] += 1
        return []
    for _ in range(random.randint(1, 6)):
        _apply(trace, random, 6, unsafe=False)
    verdict = dojoir.certify(trace, step_limit=STEPS)
    wrong = judged(Claim(kernel, trace.kernel, identity(kernel)))
    counts[f"{verdict.status}, {'right' if wrong is None else 'wrong'}"] += 1
    if not verdict or wrong is None:
        return []
    moves = "; ".join(map(str, trace.moves))
    return [(f"certified, but {wrong}", f"{dojoir.to_text(kernel)}\n# {moves}")]


def _apply(trace: dojoir.Trace, random: Random, count: int, *, unsafe: bool) -> bool:
    """Makes a move without asking whether it is legal; an `unsafe` one is not."""
    for move in draw_moves(trace.kernel, random, count):
        if unsafe and dojoir.check(trace.kernel, move).status != "illegal":
            continue
        try:
            after = trace.apply(move, unsafe=True)
        except (dojoir.DojoError, Refusal):
            continue
        if len(dojoir.to_text(after)) <= TOO_LONG:
            return True
        trace.undo()
    return False
