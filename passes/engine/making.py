"""Making a move on a trace: the step that it adds."""

from __future__ import annotations

from dataclasses import replace

from dojoir.errors import ArgumentError, repr_of
from dojoir.ir.nodes import Kernel
from dojoir.passes.base.move import Move
from dojoir.passes.engine.catalogue import parse_move
from dojoir.passes.engine.engine import made_without_proof, rewrite, supposes
from dojoir.passes.engine.located import located
from dojoir.passes.engine.step import Step
from dojoir.proof.verdict import IllegalMove


def step_of(start: Kernel, steps: tuple[Step, ...], move: Move | str, unsafe: bool) -> Step:
    """The step that a move makes from the last kernel of a trace, given by its first kernel and its steps. Raises
    IllegalMove: a place that an earlier move removed is named together with that move; ArgumentError for what is no
    move. Where moves are supposed to be legal, the step is `unsafe` until it is proved."""
    kernels = [start, *(step.kernel for step in steps)]
    kernel = kernels[-1]
    parsed = parse_move(move) if isinstance(move, str) else move
    if not isinstance(parsed, Move):
        raise ArgumentError(f"a move is a Move or its text, not {repr_of(move)}", "bad-move")
    try:
        supposed = not unsafe and supposes()
        done = made_without_proof(kernel, parsed) if supposed else rewrite(kernel, parsed, unsafe)
    except IllegalMove as error:
        remover = _who_removed(kernels, steps, parsed) if error.verdict.code == "unknown-place" else None
        if remover is None:
            raise
        diagnostic = error.verdict.diagnostic
        message = f"{diagnostic.message}; it was there before {remover}"
        raise IllegalMove(replace(error.verdict, diagnostic=replace(diagnostic, message=message))) from None
    return Step(located(parsed, kernel), done, unsafe or supposed)


def _who_removed(kernels: list[Kernel], steps: tuple[Step, ...], move: Move) -> Move | None:
    """The last move before which every place of `move` existed."""
    for step, kernel in reversed(list(zip(steps, kernels, strict=False))):
        if _finds_places(kernel, move):
            return step.move
    return None


def _finds_places(kernel: Kernel, move: Move) -> bool:
    for word in move.places():
        try:
            kernel.path(word)
        except ArgumentError:
            return False
    return True
