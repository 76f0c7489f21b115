"""Structures for CPUs: the places of a kernel that each fits, and what schedules it there."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dojoir.backends.machine import Machine
from dojoir.ir.nodes import Kernel, Path
from dojoir.passes.schedule.facts.sizes import Sizes
from dojoir.passes.schedule.steps.combinators import Step
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class Fit:
    """A place that a structure fits by its facts: the path of the node there, empty where it is about the kernel as
    a whole, and what schedules it. That raises DojoError where a move is refused; what goes through a nest by
    itself, as lanes do, makes what is legal there instead."""

    path: Path
    step: Step


Structure = Callable[[Kernel, Machine, Sizes], Iterator[Fit]]
"""The places of a kernel that a structure fits on a machine, at sizes that are known, in the order of the text."""
