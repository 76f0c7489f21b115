"""The form that every schedule begins with: accumulations, nothing dead, no condition that always holds."""

from __future__ import annotations

from collections.abc import Iterator

from dojoir.ir.nodes import Kernel
from dojoir.passes.base.move import Move
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.guards import RemoveGuard
from dojoir.passes.schedule.forms.accumulating import accumulate
from dojoir.passes.schedule.steps.combinators import every
from dojoir.passes.schedule.steps.simplify import delete_dead


def settle(trace: Trace) -> None:
    """Makes accumulations of sums written out; deletes dead temporaries, and conditions that always hold."""
    accumulate(trace)
    delete_dead(trace)
    remove_guards(trace)


def remove_guards(trace: Trace) -> None:
    """Removes the conditions that always hold."""
    every(_guards)(trace)


def _guards(kernel: Kernel) -> Iterator[Move]:
    """Those inside before those around them: the places of others stay as they are."""
    yield from reversed(list(RemoveGuard.candidates(kernel)))
