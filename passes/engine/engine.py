"""The use of moves: list them, check one, apply one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from time import monotonic
from typing import NamedTuple

from dojoir.errors import ArgumentError, ParseError, QueryError, repr_of
from dojoir.grammar.writable import unwritable
from dojoir.ir.nodes import Kernel, given_kernel
from dojoir.ir.traced import Traced, last_kernel
from dojoir.ir.words import name_error
from dojoir.passes.base.move import Move, Refusal, Rewrite, anchors
from dojoir.passes.engine.answer_keys import AnswerKey, answer_keys, node_key
from dojoir.passes.engine.catalogue import MOVES, parse_move, parse_moves
from dojoir.passes.engine.located import located
from dojoir.passes.engine.refusals import compared, refused
from dojoir.proof.certificate import identity
from dojoir.proof.check import LEGAL, STEP_LIMIT, AnswerReach, CheckerAnswer, Verdict, answer, prove_rewrite
from dojoir.proof.checker_mode import uses_core
from dojoir.proof.difference import same_but_marks
from dojoir.proof.explain.thread_conflicts import with_threads
from dojoir.proof.verdict import IllegalMove
from dojoir.proof.wellformed import is_proved, keep_proved, keeps_marks, prove
from dojoir.sets.data_writes import without_data_writes
from dojoir.sets.limits import TRIES, StepBudget, StepLimitReached
from dojoir.support.gc_pause import uncollected
from dojoir.support.memo import Memo, tables
from dojoir.support.public import public

_made: Memo[tuple[Kernel, Move, int], tuple[Kernel, Rewrite]] = Memo(1024)
"""Legal moves on kernels, each with the kernel object (an equal one may have other labels) and what came of it."""


class _KeptAnswer(NamedTuple):
    """Whether a move is legal. `reach` is the largest kernel, in statements, for which the answer fits the first
    budget, if cost grows with the square."""

    legal: bool
    reach: float


_answers: Memo[tuple[AnswerKey, int], _KeptAnswer] = Memo(32768)
"""Whether moves are legal, by what that follows from and the step limit."""


@public
def candidates(kernel: Kernel, target: str | None = None, *, values: Sequence[int] = ()) -> list[Move]:
    """Every structurally possible move, legal or not, in a stable order: by family, then by place.

    Of moves with numbers for parameters it is a short choice; `values` adds those with numbers of one's own, and
    `Move.space` has all that are worth trying at a place. `target` leaves out the moves that make no sense for it.
    """
    given_kernel(kernel)
    if not all(type(value) is int for value in values):
        raise ArgumentError(f"values are whole numbers, such as (6, 48), not {repr_of(values)}", "bad-arguments")
    found: dict[Move, None] = {}
    for kind in MOVES:
        if target is None or kind.targets is None or target in kind.targets:
            found.update(dict.fromkeys(kind.candidates(kernel)))
            for place in anchors(kernel) if values else ():
                found.update(dict.fromkeys(kind.with_numbers(kernel, place, sorted(set(values)))))
    return list(found)


_SHOWN = 8
"""Of more moves, `repr` counts the families."""


class Moves(list[Move]):
    """A list of legal moves. `complete` is false where time was up before all candidates had been asked: there may
    be more."""

    complete: bool = True

    def __repr__(self) -> str:
        """The moves as they are typed; of many, how many there are of each family."""
        if len(self) <= _SHOWN:
            return super().__repr__()
        counted = Counter(move.name for move in self)
        families = ", ".join(f"{name} {count}" for name, count in counted.items())
        more = "" if self.complete else ", and maybe more"
        return f"<{len(self)} legal moves{more}: {families}>"

    def _repr_html_(self) -> str:
        """The moves by family, in the order in which each comes first; Python's own list is one line."""
        from dojoir.ir.html import moves_html

        families: dict[str, list[str]] = {}
        for move in self:
            families.setdefault(move.name, []).append(str(move))
        return moves_html(families, complete=self.complete)


@public
def moves(
    kernel: Kernel,
    target: str | None = None,
    step_limit: int = STEP_LIMIT,
    *,
    values: Sequence[int] = (),
    seconds: float | None = None,
) -> Moves:
    """Every legal move of `candidates`, in the same order. Raises KernelError for an ill-formed kernel.

    With `seconds`, those that were found in this time: `complete` of the list says whether that is all. A move that
    is asked is asked to the end: whether it is in the list depends on time, whether it is legal does not.

    Python's collector of cycles is off meanwhile (`dojoir.support.gc_pause`).
    """
    found = Moves()
    with uncollected():
        for move, legal in asked(kernel, target, step_limit, values=values, seconds=seconds):
            if legal is None:
                found.complete = False
            elif legal:
                found.append(move)
    return found


def asked(
    kernel: Kernel,
    target: str | None = None,
    step_limit: int = STEP_LIMIT,
    *,
    values: Sequence[int] = (),
    seconds: float | None = None,
) -> Iterator[tuple[Move, bool | None]]:
    """Each candidate with whether it is legal, asked when it comes up; None for the first that there is no time
    left for, and the end."""
    if seconds is not None and not (isinstance(seconds, int | float) and seconds >= 0):
        raise ArgumentError(f"seconds must be a number from 0, not {repr_of(seconds)}", "bad-arguments")
    end = None if seconds is None else monotonic() + seconds
    is_found_legal = _is_legal_in_full if uses_core() else _is_legal
    for move in candidates(kernel, target, values=values):
        if end is not None and monotonic() >= end:
            yield move, None
            return
        yield move, is_found_legal(kernel, move, step_limit)


@public
def check(kernel: Kernel, move: Move | str, step_limit: int = STEP_LIMIT) -> Verdict:
    """Whether a move is legal on a kernel, and if it is not, why, with a witness.

    `move` is a Move or its text. Raises KernelError for an ill-formed kernel and ArgumentError for a text that
    is no move; a place or buffer that does not exist is a refusal.
    """
    return _examine(kernel, move, step_limit)[1]


@public
def apply(kernel: Kernel | Traced, move: Move | str, unsafe: bool = False, step_limit: int = STEP_LIMIT) -> Kernel:
    """The kernel after a move, or after the moves of a text one after another (`split(@j, 16); unroll(@j1)`), of a
    kernel or of the last one of a trace, which stays as it is: `trace.apply` adds them to it. Raises IllegalMove,
    which carries the Verdict, for the first that is not legal.

    `unsafe` applies a move that the checker refuses or cannot decide, for experiments; one that the tree does
    not allow is refused all the same.
    """
    made = last_kernel(kernel)
    for one in parse_moves(move) if isinstance(move, str) else [move]:
        made = rewrite(made, one, unsafe, step_limit).kernel
    return made


def rewrite(kernel: Kernel, move: Move | str, unsafe: bool = False, step_limit: int = STEP_LIMIT) -> Rewrite:
    """As `apply`, with the instance map."""
    done, verdict = _examine(kernel, move, step_limit, trust=unsafe)
    if done is None or not (verdict or unsafe):
        raise IllegalMove(verdict)
    if verdict and not unsafe:
        keep_proved(done.kernel)
    return done


# -- moves that are supposed to be legal (`dojoir.passes.engine.supposing`) ----------------------------------
def supposes() -> bool:
    """Whether moves are supposed to be legal: the tables of this thread hold what follows from that, and nothing of
    it is kept for later."""
    return tables().sure is not None


def suppose(kernel: Kernel) -> None:
    """Takes a kernel to be well-formed, where moves are supposed to be legal."""
    assert supposes()
    keep_proved(kernel)


def made_without_proof(kernel: Kernel, move: Move) -> Rewrite:
    """The rewrite of a move that is supposed to be legal. One that changes nothing but marks is proved: what to do
    next depends on whether iterations are independent more than on all else. Raises IllegalMove for such a one that
    is not legal, and for a move that the tree does not allow."""
    done, verdict = _examine(kernel, move, STEP_LIMIT, trust=True)
    if done is None:
        raise IllegalMove(verdict)
    same = kernel.buffers == done.kernel.buffers and done.instances == identity(kernel)
    if same and not _seems_legal(kernel, done):
        return rewrite(kernel, move)
    suppose(done.kernel)
    return done


def _seems_legal(kernel: Kernel, done: Rewrite) -> bool:
    """Whether a rewrite is legal that leaves each statement where it is. Of one that changes nothing but marks,
    where no data decide what is written, all that there is to ask is what these promise."""
    marked = done.kernel
    if not same_but_marks(kernel.body, marked.body) or without_data_writes(marked) is not marked:
        return answer(kernel, marked, done.instances).legal
    try:
        return StepBudget(STEP_LIMIT).ask(lambda: keeps_marks(marked, kernel, right=kernel))
    except StepLimitReached:
        return False


def prove_made(kernel: Kernel, move: Move, done: Rewrite) -> None:
    """Proves a move that was made without: `done` is its rewrite of a well-formed kernel. Raises IllegalMove where
    it is not legal."""
    assert not supposes()
    verdict = prove_rewrite(kernel, done.kernel, done.instances)
    if not verdict:
        raise IllegalMove(verdict)
    _keep(kernel, move, STEP_LIMIT, done)
    keep_proved(done.kernel)


def _parsed(move: object) -> Move:
    if isinstance(move, Move):
        return move
    if isinstance(move, str):
        return parse_move(move)
    raise ArgumentError(f"a move is a Move or its text, such as split(0, 16), not {repr_of(move)}", "bad-move")


def _examine(
    kernel: Kernel, move: Move | str, step_limit: int, trust: bool = False
) -> tuple[Rewrite | None, Verdict]:
    given_kernel(kernel)
    try:
        move = located(_parsed(move), kernel)
    except QueryError as error:
        return None, Verdict("illegal", error.diagnostic)
    except ParseError as error:  # a text that is no move is a wrong argument, wherever it is wrong
        raise ArgumentError(error.diagnostic) from None
    known = None if uses_core() else _made_before(kernel, move, step_limit)
    if known is not None:
        return known, LEGAL
    prove_unless_known(kernel)
    try:
        done = made(kernel, move)
    except Refusal as refusal:
        return None, refused(kernel, move, refusal)
    except ArgumentError as error:
        diagnostic = replace(error.diagnostic, message=f"{move}: {error.diagnostic.message}")
        return None, Verdict("illegal", diagnostic)
    if trust:
        return done, LEGAL
    narrowest = None if uses_core() else node_key(kernel, move)
    if narrowest is not None and _recalled(kernel, AnswerKey("node", narrowest), step_limit):
        _keep(kernel, move, step_limit, done)
        return done, LEGAL
    verdict = prove_rewrite(kernel, done.kernel, done.instances, step_limit)
    if verdict:
        _keep(kernel, move, step_limit, done)
    else:
        named = with_threads(verdict.diagnostic, done.kernel, kernel)
        verdict = compared(kernel, move, replace(verdict, diagnostic=named))
    return done, verdict


def is_legal(kernel: Kernel, move: Move, step_limit: int = STEP_LIMIT) -> bool:
    """Like `check`, but returns a bool and is faster."""
    return (_is_legal_in_full if uses_core() else _is_legal)(kernel, move, step_limit)


def _is_legal(kernel: Kernel, move: Move, step_limit: int) -> bool:
    """The same with all that is there for speed."""
    prove_unless_known(kernel)
    missing: list[AnswerKey] = []
    for key in answer_keys(kernel, move):
        known = _recalled(kernel, key, step_limit)
        if known is not None:
            return known
        missing.append(key)
    if _made_before(kernel, move, step_limit) is not None:
        return True
    try:
        done = made(kernel, move)
    except (Refusal, ArgumentError):
        found = CheckerAnswer(False, AnswerReach.NODE | AnswerReach.PANE)
    else:
        found = answer(kernel, done.kernel, done.instances, step_limit)
        if found.legal:
            _keep(kernel, move, step_limit, done)
    for key in missing:
        if key.carries(found):
            reach = len(kernel.sites) * (step_limit / TRIES / max(found.steps, 1)) ** 0.5
            _answers.put((key, step_limit), _KeptAnswer(found.legal, reach))
    return found.legal


def _is_legal_in_full(kernel: Kernel, move: Move, step_limit: int) -> bool:
    """As `is_legal`, by the core alone: no cached answer is used, and none is stored."""
    prove_unless_known(kernel)
    try:
        done = made(kernel, move)
    except (Refusal, ArgumentError):
        return False
    return answer(kernel, done.kernel, done.instances, step_limit).legal


def made(kernel: Kernel, move: Move) -> Rewrite:
    """The kernel that a move makes, whose text can be read again. Raises as `Move.rewrite` does."""
    done = move.rewrite(kernel)
    own = type(move) not in MOVES
    wrong = unwritable(done.kernel) or (_misnamed(done.kernel) if own else None)
    if wrong is not None:
        raise Refusal(*wrong)
    return done


def _misnamed(kernel: Kernel) -> tuple[str, str] | None:
    """The code and message for buffers that a move of the user's has named wrongly, or None."""
    names = [*(size.name for size in kernel.sizes), *(buffer.name for buffer in kernel.buffers)]
    if len(kernel.declared) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        return "name-taken", f"the kernel that it makes declares `{twice}` twice"
    if kernel.undeclared:
        return "unknown-buffer", f"the kernel that it makes uses `{kernel.undeclared[0]}` and does not declare it"
    wrong = next(filter(None, map(name_error, names)), None)
    return ("bad-name", wrong) if wrong is not None else None


def _recalled(kernel: Kernel, key: AnswerKey, step_limit: int) -> bool | None:
    """The stored answer for a key, for a kernel where it would be found within the budget as well."""
    found = _answers.get((key, step_limit))
    return found.legal if found is not None and len(kernel.sites) <= found.reach else None


# -- what is known already -----------------------------------------------------------------------------------
def prove_unless_known(kernel: Kernel) -> None:
    """As `prove`, but for a kernel that a legal move led to from one that is well-formed: equivalent kernels are
    equally so. Behind many moves the proof from the text alone can take minutes."""
    if not is_proved(kernel):
        prove(kernel)


def _keep(kernel: Kernel, move: Move, step_limit: int, done: Rewrite) -> None:
    """Keeps what a legal move makes. What is shown within fewer steps than the usual is legal within these too."""
    if not uses_core():
        for limit in {step_limit, max(step_limit, STEP_LIMIT)}:
            _made.put((kernel, move, limit), (kernel, done))


def _made_before(kernel: Kernel, move: Move, step_limit: int) -> Rewrite | None:
    """The kernel that a move makes, where the move is known to be legal for this very kernel."""
    found = _made.get((kernel, move, step_limit))
    return found[1] if found is not None and found[0] is kernel else None
