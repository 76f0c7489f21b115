"""Speculative moves: made without a proof while a planner searches, and proved once it has chosen a schedule.

A planner makes many schedules and keeps one. To prove each move of those that it gives up would be most of its
time. While it is `supposing`, a move that the tree allows is made without a proof, and its step is `unsafe`. Two
kinds of questions are still asked, as a schedule goes on by their answers: of a single move that is tried (`tried`,
`is_legal`), and of marks, whether iterations are independent. `proved` then proves each step of the schedule that
is wanted, as `Trace.apply` would have, from the same two kernels and certificate.

The kernels meanwhile are only supposed to be well-formed. So what is found of them stays apart: this thread has
other tables, and nothing of these is found again outside, but values that follow from their keys alone, such as the
sets of a kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dojoir.ir.nodes import Kernel
from dojoir.passes.engine.engine import prove_made, prove_unless_known, suppose
from dojoir.passes.engine.step import Step
from dojoir.passes.engine.trace import Trace, with_steps
from dojoir.proof.checker_mode import uses_core
from dojoir.support.memo import Tables, other_tables, tables


@contextmanager
def supposing(kernel: Kernel, held: Tables) -> Iterator[None]:
    """Runs its block with moves on traces that are supposed to be legal, on kernels made of this one. `held` has
    what was found in such blocks before. Where the core alone is asked, it is asked of each move at once."""
    prove_unless_known(kernel)
    if uses_core():
        yield
        return
    around = tables()
    held.sure, held.generation, held.single = around, around.generation, around.single
    with other_tables(held):
        suppose(kernel)
        yield


def proved(trace: Trace, since: int) -> Trace:
    """The trace with its steps beyond the first `since` proved, those that were supposed to be legal. Raises
    IllegalMove for the first that is not."""
    steps = list(trace.steps[:since])
    for step in trace.steps[since:]:
        if step.unsafe:
            prove_made(steps[-1].kernel if steps else trace.start, step.move, step.done)
        steps.append(Step(step.move, step.done))
    return with_steps(trace, tuple(steps))
