"""The form that every schedule begins with: accumulations, nothing dead, no condition that always holds."""

from __future__ import annotations

from collections.abc import Iterator

from dojoir.ir.nodes import Condition, Guard, Kernel, Path
from dojoir.ir.paths import is_inside
from dojoir.passes.base.move import Move, place_of
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.guards import DropCondition, RemoveGuard
from dojoir.passes.schedule.forms.accumulating import accumulate
from dojoir.passes.schedule.steps.combinators import every, tried
from dojoir.passes.schedule.steps.simplify import delete_dead
from dojoir.sets.kernel_sets import sets_of


def settle(trace: Trace) -> None:
    """Makes accumulations of sums written out; deletes dead temporaries, and conditions that always hold."""
    accumulate(trace)
    delete_dead(trace)
    remove_guards(trace)


def remove_guards(trace: Trace) -> None:
    """Removes the conditions that always hold."""
    every(_guards)(trace)


def settle_guards(trace: Trace, path: Path) -> None:
    """Takes away the conditions in a node that always hold."""
    guards = [at for at, node in trace.kernel.walk() if isinstance(node, Guard) and is_inside(at, path)]
    for at in reversed(guards):
        guard, place, sets = trace.kernel.at(at), place_of(at), sets_of(trace.kernel)
        assert isinstance(guard, Guard)
        always = [isinstance(c, Condition) and sets.holds_around(at, [c]) for c in guard.conditions]
        if all(always):
            _ = tried(trace, RemoveGuard(place))
        else:
            for number in reversed([n for n, holds in enumerate(always) if holds]):
                _ = tried(trace, DropCondition(place, number))


def _guards(kernel: Kernel) -> Iterator[Move]:
    """Those inside before those around them: the places of others stay as they are."""
    yield from reversed(list(RemoveGuard.candidates(kernel)))
