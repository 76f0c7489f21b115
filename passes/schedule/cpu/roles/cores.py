"""Cores: which scopes are shared out."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dojoir.backends.machine import Machine
from dojoir.ir.nodes import Guard, Kernel, Path, Scope
from dojoir.passes.base.move import place_of
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Parallelize
from dojoir.passes.schedule.facts.sizes import Sizes, count_of, is_little
from dojoir.passes.schedule.facts.strides import is_leaf
from dojoir.passes.schedule.facts.tree import children
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.fit import Fit

FEW_ITERATIONS = 4
"""How many iterations are too few to share out, whatever the number of cores."""


def cores(kernel: Kernel, machine: Machine, sizes: Sizes) -> Iterator[Fit]:
    """Shares the outermost scope that allows it, and runs often enough, out over the cores, unless it is known that
    there is little to do."""
    if machine.cores != 1:
        for n in range(len(kernel.body)):
            if not is_little(kernel, (n,), sizes):
                yield Fit((n,), partial(_share, path=(n,), count=machine.cores, sizes=sizes))


def _share(trace: Trace, path: Path, count: int, sizes: Sizes) -> None:
    """Shares what is at a node, or below it, out over so many cores."""
    _cores(trace, path, count, sizes)


def _cores(trace: Trace, path: Path, cores: int, sizes: Sizes) -> bool:
    """At a node and below it. A scope without scopes inside it is too little work for a team of cores,
    unless it is all there is. One that is known to run so seldom that some cores would wait leaves the work to
    those inside, if there is enough in each of them. Returns whether a scope is shared out."""
    node = trace.kernel.at(path)
    if not isinstance(node, Scope | Guard) or {"u", "v"}.intersection(getattr(node, "marks", ())):
        return False
    large = isinstance(node, Scope) and (len(path) == 1 or not is_leaf(node))
    few = isinstance(node, Scope) and not is_leaf(node) and _is_uneven(node, cores, sizes)
    if few and _cores_inside(trace, path, cores, sizes):
        return True
    if large and tried(trace, Parallelize(place_of(path))):
        return True
    return not few and _cores_inside(trace, path, cores, sizes)


def _cores_inside(trace: Trace, path: Path, cores: int, sizes: Sizes) -> bool:
    """The same for what is inside of a node, where there is enough in it each time."""
    node = trace.kernel.at(path)
    assert isinstance(node, Scope | Guard)
    shared = False
    for inner in children(node, path):
        if not is_little(trace.kernel, inner, sizes):
            shared |= _cores(trace, inner, cores, sizes)
    return shared


def _is_uneven(scope: Scope, cores: int, sizes: Sizes) -> bool:
    """Whether a scope is known to run so seldom that cores would wait for each other: less often than there are
    cores, or a few times but not as often for each."""
    count = count_of(scope.extent, sizes) or FEW_ITERATIONS
    return count < max(cores, FEW_ITERATIONS) or (count < FEW_ITERATIONS * cores and count % cores != 0)
