"""Legal moves of a kernel held to the core, to a run, and to their inverses."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from agreement import agree, random_arguments
from walks import some_sizes

import dojoir
from dojoir.ir.nodes import Kernel
from dojoir.passes.base.move import Move
from dojoir.proof.claim import Claim
from dojoir.proof.explain.verdicts import check


def held(
    kernel: Kernel, moves: Iterable[Move], random: Random, most: int, *, exact: bool = True, listed: bool = True
) -> int:
    """How many of some moves, at most as many as asked, are legal: of each the core says so too, a run gives the
    same bits, if `exact`, and the inverse, which is a candidate, if `listed`, gives the text back."""
    found = list(moves)
    legal, sizes = 0, some_sizes(kernel, random, 4)
    for move in random.sample(found, min(most, len(found))):
        if not dojoir.check(kernel, move):
            continue
        legal += 1
        done, back = move.rewrite(kernel), move.inverse(kernel)
        assert check(Claim(kernel, done.kernel, done.instances)), f"{move}\n{kernel}"
        assert not listed or back in type(back).candidates(done.kernel)
        assert dojoir.check(done.kernel, back) and dojoir.apply(done.kernel, back) == kernel
        if sizes is not None:
            inputs = random_arguments(kernel, sizes, random)
            results = [dojoir.interpret(k, inputs, **sizes) for k in (kernel, done.kernel)]
            assert agree(kernel, *results, exact=exact) is None, f"{move}\n{kernel}"
    return legal
