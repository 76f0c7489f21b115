"""Certificates: a whole trace proved again by the core alone."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from dojoir.errors import Diagnostic
from dojoir.grammar.pieces import Pieces
from dojoir.ir.nodes import Kernel
from dojoir.passes.base.move import Rewrite, then
from dojoir.passes.engine.trace import Trace
from dojoir.proof.claim import Claim
from dojoir.proof.core.wellformed import complaint
from dojoir.proof.explain.verdicts import check, verdict_of
from dojoir.proof.verdict import LEGAL, Verdict
from dojoir.sets.limits import StepBudget, StepLimitReached, limited_in_part
from dojoir.support.memo import fresh_tables
from dojoir.support.public import public


@public
def certify(trace: Trace, step_limit: int | None = None) -> Verdict:
    """Proves a whole trace again, from the text of its first kernel to its last, trusting no move.

    By the core of the checker alone (`dojoir.proof.core.check`), in a workspace of its own: no pattern, no slice
    and no cached answer is part of a certificate. Its time is unlimited, unless `step_limit` bounds the steps of
    the whole; past that, the answer is `unknown`.

    Each move is compared by itself. One that does not keep the meaning, in a trace that was made without the
    checker, is compared together with some that follow it, through the composed instance map. That is done if all
    of them keep every expression: what counts is what becomes of the kernel, not how.
    """
    try:
        with fresh_tables():
            return (
                _certified(trace) if step_limit is None else StepBudget(step_limit).ask(lambda: _certified(trace))
            )
    except StepLimitReached:
        within = "" if step_limit is None else f" within {step_limit} steps"
        return Verdict("unknown", Diagnostic("undecided", f"the checker did not come to an answer{within}"))


def _certified(trace: Trace) -> Verdict:
    pieces = Pieces()
    kernel = pieces.read(trace.start)
    if not (well := verdict_of(complaint(kernel))):
        return well
    run: list[tuple[Kernel, Rewrite]] = []
    for step in trace.steps:
        done = step.move.rewrite(kernel)
        done = Rewrite(pieces.read(done.kernel), done.instances)
        if not _composes(done):
            verdict = _certify_run(run) and check(Claim(kernel, done.kernel, done.instances))
            if not verdict:
                return verdict
            run = []
        else:
            run.append((kernel, done))
        kernel = done.kernel
    if kernel != trace.kernel:
        return Verdict("illegal", Diagnostic("stale-trace", "the moves of this trace now give another kernel"))
    return _certify_run(run)


def _composes(done: Rewrite) -> bool:
    """Whether the instance map of a rewrite can be part of a longer one."""
    instances = done.instances
    alone = instances.inlined or instances.extracted or instances.backward or instances.beyond or instances.rule
    return not alone


SOON = 300_000
"""The steps within which several moves are compared at once."""

TOGETHER = 8
"""How many moves are compared at once at most: what more of them do to a kernel is seldom seen soon."""


def _certify_run(run: Sequence[tuple[Kernel, Rewrite]]) -> Verdict:
    """Whether some moves, one after another, keep the meaning: each by itself, or, where one does not, with some
    that follow it. The verdict that refuses is that of the one by itself."""
    begin = 0
    while begin < len(run):
        start, done = run[begin]
        refused = verdict = check(Claim(start, done.kernel, done.instances))
        begin += 1
        whole, last = done, begin + TOGETHER - 1
        while not verdict and begin < min(len(run), last):
            whole = then(whole, run[begin][1])
            begin += 1
            with suppress(StepLimitReached), limited_in_part(SOON):
                verdict = check(Claim(start, whole.kernel, whole.instances))
        if not verdict:
            return refused
    return LEGAL
