"""The grounds of an answer about a move: less than the whole kernel, so that the answer can be reused
elsewhere."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import NamedTuple

from dojoir.ir.nodes import Kernel
from dojoir.passes.base.move import Move
from dojoir.passes.engine.counting import counted
from dojoir.passes.engine.locality import neighbourhood
from dojoir.passes.engine.panes import question, shared_apart
from dojoir.proof.check import Answer


class Ground(NamedTuple):
    """A part of a kernel and what is asked of it: of a range that is `counted`, of a `node` and what is around it,
    of two buffers used `apart`, of a `pane`, or of one for a move that is `like` it."""

    kind: str
    asked: Hashable

    def carries(self, answer: Answer) -> bool:
        """Whether an answer follows from this."""
        if self.kind == "counted":
            return answer.legal and answer.in_order
        if self.kind == "like":
            return answer.legal and answer.local
        if self.kind == "apart":
            return answer.legal and answer.sliced
        return answer.sliced if self.kind == "pane" else answer.local


def grounds(kernel: Kernel, move: Move) -> Iterator[Ground]:
    """The grounds of the answer about a move, the least first; each is found out when it is asked for."""
    counting = counted(kernel, move)
    if counting is not None:
        yield Ground("counted", counting)
    place = neighbourhood(kernel, move)
    if place is not None:
        yield Ground("node", place)
    apart = shared_apart(kernel, move)
    if apart is not None:
        yield Ground("apart", apart)
    pane = question(kernel, move)
    if pane is None:
        return
    yield Ground("pane", pane)
    if type(move).like is not Move.like:
        alike = question(kernel, move.like(kernel))
        if alike is not None:
            yield Ground("like", alike)
