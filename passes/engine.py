"""What a user does with moves: list them, check one, apply one."""

from __future__ import annotations

from dataclasses import replace

from dojoir.dataflow import LEGAL, STEP_LIMIT, Answer, Verdict, answer, prove_rewrite
from dojoir.errors import ArgumentError, IllegalMove, QueryError
from dojoir.garbage import uncollected
from dojoir.ir import Kernel
from dojoir.memo import Memo
from dojoir.passes.catalogue import MOVES, parse_move
from dojoir.passes.grounds import Ground, grounds
from dojoir.passes.move import Move, Refusal, Rewrite
from dojoir.passes.places import located
from dojoir.passes.refusals import compared, refused
from dojoir.wellformed import prove

_made: Memo[tuple[Kernel, Move, int], tuple[Kernel, Rewrite]] = Memo(1024)
"""Legal moves on kernels, each with the kernel object (an equal one may have other labels) and what came of it."""

_sound: Memo[Kernel, bool] = Memo(2048)
"""Kernels that are well-formed: they were proved to be, or a legal move led to them from one that is."""

_answers: Memo[tuple[Ground, int], bool] = Memo(32768)
"""Whether moves are legal, by what that follows from and the step limit."""


def candidates(kernel: Kernel, target: str | None = None) -> list[Move]:
    """Every structurally possible move, legal or not, in a stable order: by family, then by place.

    `target` leaves out the moves that make no sense for it.
    """
    return [
        move
        for kind in MOVES
        if target is None or kind.targets is None or target in kind.targets
        for move in kind.candidates(kernel)
    ]


def moves(kernel: Kernel, target: str | None = None, step_limit: int = STEP_LIMIT) -> list[Move]:
    """Every legal move of `candidates`, in the same order. Raises KernelError for an ill-formed kernel.

    Python's collector of cycles is off meanwhile (`dojoir.garbage`).
    """
    with uncollected():
        return [move for move in candidates(kernel, target) if _is_legal(kernel, move, step_limit)]


def check(kernel: Kernel, move: Move | str, step_limit: int = STEP_LIMIT) -> Verdict:
    """Whether a move is legal on a kernel, and if it is not, why, with a witness.

    `move` is a Move or its text. Raises KernelError for an ill-formed kernel and ArgumentError for a text that
    is no move; a place or buffer that does not exist is a refusal.
    """
    return _examine(kernel, move, step_limit)[1]


def apply(kernel: Kernel, move: Move | str, unsafe: bool = False, step_limit: int = STEP_LIMIT) -> Kernel:
    """The kernel after a move. Raises IllegalMove, which carries the Verdict, if the move is not legal.

    `unsafe` applies a move that the checker refuses or cannot decide, for experiments; one that the tree does
    not allow is refused all the same.
    """
    return rewrite(kernel, move, unsafe, step_limit).kernel


def rewrite(kernel: Kernel, move: Move | str, unsafe: bool = False, step_limit: int = STEP_LIMIT) -> Rewrite:
    """As `apply`, with the instance map."""
    done, verdict = _examine(kernel, move, step_limit, trust=unsafe)
    if done is None or not (verdict or unsafe):
        raise IllegalMove(verdict)
    if verdict and not unsafe:
        _sound.put(done.kernel, True)
    return done


def _parsed(move: Move | str) -> Move:
    return parse_move(move) if isinstance(move, str) else move


def _examine(
    kernel: Kernel, move: Move | str, step_limit: int, trust: bool = False
) -> tuple[Rewrite | None, Verdict]:
    try:
        move = located(_parsed(move), kernel)
    except QueryError as error:
        return None, Verdict("illegal", error.diagnostic)
    known = _known(kernel, move, step_limit)
    if known is not None:
        return known, LEGAL
    _prove(kernel)
    try:
        done = move.rewrite(kernel)
    except Refusal as refusal:
        return None, refused(kernel, move, refusal)
    except ArgumentError as error:
        diagnostic = replace(error.diagnostic, message=f"{move}: {error.diagnostic.message}")
        return None, Verdict("illegal", diagnostic)
    if trust:
        return done, LEGAL
    narrowest = next(grounds(kernel, move), None)
    if narrowest is not None and narrowest.kind == "node" and _answers.get((narrowest, step_limit)):
        _keep(kernel, move, step_limit, done)
        return done, LEGAL
    verdict = prove_rewrite(kernel, done.kernel, done.instances, step_limit)
    if verdict:
        _keep(kernel, move, step_limit, done)
    else:
        verdict = compared(kernel, move, verdict)
    return done, verdict


def _is_legal(kernel: Kernel, move: Move, step_limit: int) -> bool:
    """As `check`, without a reason."""
    if _known(kernel, move, step_limit) is not None:
        return True
    _prove(kernel)
    open_grounds: list[Ground] = []
    for ground in grounds(kernel, move):
        known = _answers.get((ground, step_limit))
        if known is not None:
            return known
        open_grounds.append(ground)
    try:
        done = move.rewrite(kernel)
    except (Refusal, ArgumentError):
        found = Answer(legal=False, local=True, sliced=True)
    else:
        found = answer(kernel, done.kernel, done.instances, step_limit)
        if found.legal:
            _keep(kernel, move, step_limit, done)
    for ground in open_grounds:
        if ground.carries(found):
            _answers.put((ground, step_limit), found.legal)
    return found.legal


# -- what is known already -----------------------------------------------------------------------------------
def _prove(kernel: Kernel) -> None:
    if _sound.get(kernel) is None:
        prove(kernel)
        _sound.put(kernel, True)


def _keep(kernel: Kernel, move: Move, step_limit: int, done: Rewrite) -> None:
    _made.put((kernel, move, step_limit), (kernel, done))


def _known(kernel: Kernel, move: Move, step_limit: int) -> Rewrite | None:
    """What a move that is known to be legal makes of this very kernel."""
    found = _made.get((kernel, move, step_limit))
    return found[1] if found is not None and found[0] is kernel else None
