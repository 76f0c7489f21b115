"""What an answer about a move may follow from: less than the whole kernel, so that it is known again elsewhere."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import NamedTuple

from dojoir.ir.nodes import Kernel
from dojoir.passes.base.move import Move
from dojoir.passes.engine.locality import kin, neighbourhood
from dojoir.passes.engine.panes import question, shared_apart
from dojoir.proof.check import Answer


class Ground(NamedTuple):
    """A part of a kernel and what is asked of it: of a `node` and what is around it, that for all of its `kin`, of
    two buffers used `apart`, or of a `pane`."""

    kind: str
    asked: Hashable

    def carries(self, answer: Answer) -> bool:
        """Whether an answer follows from this."""
        if self.kind == "apart":
            return answer.legal and answer.sliced
        return answer.sliced if self.kind == "pane" else answer.local


def grounds(kernel: Kernel, move: Move) -> Iterator[Ground]:
    """What the answer about a move may follow from, the node first; each is found out when it is asked for."""
    place = neighbourhood(kernel, move)
    if place is not None:
        yield Ground("node", place)
        shared = kin(kernel, move, place)
        if shared is not None:
            yield Ground("kin", shared)
    apart = shared_apart(kernel, move)
    if apart is not None:
        yield Ground("apart", apart)
    pane = question(kernel, move)
    if pane is not None:
        yield Ground("pane", pane)
