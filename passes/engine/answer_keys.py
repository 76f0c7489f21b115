"""The keys under which the answer about a move is cached: parts of the kernel on which it depends, so that it can
be reused where another part has changed."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import NamedTuple

from dojoir.ir.nodes import Kernel
from dojoir.passes.base.move import Move
from dojoir.passes.engine.children_key import question, shared_apart
from dojoir.passes.engine.counting import counted
from dojoir.passes.engine.node_key import node_key
from dojoir.proof.check import Answer


class AnswerKey(NamedTuple):
    """A key of the table of answers (`dojoir.passes.engine.engine`): its kind, and the part of the kernel with what
    is asked of it. The part is a range that is `counted`, a `node` and what is around it, two buffers used `apart`,
    some children of the kernel (`pane`), or these for a move that is `like` it."""

    kind: str
    asked: Hashable

    def carries(self, answer: Answer) -> bool:
        """Whether an answer may be stored under this key."""
        if self.kind == "counted":
            return answer.legal and answer.in_order
        if self.kind == "like":
            return answer.legal and answer.local
        if self.kind == "apart":
            return answer.legal and answer.sliced
        return answer.sliced if self.kind == "pane" else answer.local


def answer_keys(kernel: Kernel, move: Move) -> Iterator[AnswerKey]:
    """The keys of the answer about a move, that of the smallest part first; each is made when it is asked for."""
    counting = counted(kernel, move)
    if counting is not None:
        yield AnswerKey("counted", counting)
    place = node_key(kernel, move)
    if place is not None:
        yield AnswerKey("node", place)
    apart = shared_apart(kernel, move)
    if apart is not None:
        yield AnswerKey("apart", apart)
    pane = question(kernel, move)
    if pane is None:
        return
    yield AnswerKey("pane", pane)
    if type(move).like is not Move.like:
        alike = question(kernel, move.like(kernel))
        if alike is not None:
            yield AnswerKey("like", alike)
