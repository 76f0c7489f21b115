"""The agents that play tasks: strategies of a search by name, an agent that learned, and a file of the user's.

An agent has `play(desk)`, which gives an `Answer`, or a trace of the given kernel. A strategy (`ask`, `tell`)
becomes one: it searches where a kernel is asked for, and leaves out moves one by one where a move is."""

from __future__ import annotations

import hashlib
import inspect
import runpy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import dojoir
from dojoir.records.plain_data import from_data
from dojoir.tasks.desk import Desk
from dojoir.tasks.task import Answer, each_without_one, replayed, without

BOUNDS = ("bytes", "FMA", "overhead", "imbalance", "occupancy", "spills", "gathers", "latency", "instructions")
"""The words of `dojoir.runtime.Bottleneck`."""

LONGEST = 1 << 20
"""The most characters of a text that is answered."""


class Agent(Protocol):
    """A player of tasks."""

    def play(self, desk: Desk) -> Answer:
        """The answer to the task of a desk."""


class Searching:
    """An agent of a strategy of `dojoir.tune`, by name or as what makes one; `digest` is that of its file."""

    def __init__(self, strategy: str | Callable[..., object], digest: str = "") -> None:
        self.strategy, self.digest = strategy, digest

    def play(self, desk: Desk) -> Answer:
        """Searches, or leaves out moves one by one and names the best to be without; blindly for `random`."""
        match desk.task.kind:
            case "optimise" | "reformulate":
                tuned = desk.tune(self.strategy)
                return desk.answer(note=tuned.stopped)
            case "diagnose":
                number = self._number_to_play(desk)
                card = None if self.strategy == "random" else desk.profile(desk.trace)
                word = desk.rng.choice(BOUNDS) if card is None else card.kind
                return Answer(move=number, bound=word)
            case "debug":
                number = self._number_to_play(desk)
                return Answer(without(desk.task.given.moves, number), move=number)

    def _number_to_play(self, desk: Desk) -> int:
        """The number of the move to be without."""
        moves = desk.task.given.moves
        if self.strategy == "random":
            return desk.rng.randrange(len(moves))
        _, refused = replayed(desk.kernel, moves)
        if refused is not None:
            return refused[0]
        seconds: dict[int, float] = {}
        for number, trace in each_without_one(desk.kernel, moves).items():
            for found in desk.evaluate([trace]):
                if found.ok and found.seconds:
                    seconds[number] = found.seconds
        return min(seconds, key=lambda number: seconds[number]) if seconds else desk.rng.randrange(len(moves))


class Own:
    """An agent of a function of a desk."""

    def __init__(self, plays: Callable[[Desk], object]) -> None:
        self.plays = plays

    def play(self, desk: Desk) -> Answer:
        """The answer. Raises ArgumentError, `bad-agent`, for an invalid answer."""
        return answer_of(self.plays(desk), desk.kernel)


def answer_of(given: object, kernel: dojoir.Kernel) -> Answer:
    """The answer that an agent gave: an Answer whose fields are what they should be, a trace of the given
    kernel, which stands for its moves, or None, which is an answer without any. Raises ArgumentError, `bad-agent`,
    for something else."""
    match given:
        case Answer():
            pass
        case dojoir.Trace() if given.start == kernel:
            return Answer(tuple(str(move) for move in given.moves))
        case None:
            return Answer()
        case _:
            raise _no_answer(f"it answered a {type(given).__name__}: an Answer, or a Trace of the given kernel")
    if not isinstance(given.moves, list | tuple):
        raise _no_answer(f"moves is a list of texts, not a {type(given.moves).__name__}")
    moves = [str(one) if isinstance(one, dojoir.Move) else one for one in given.moves]
    number = given.move if isinstance(given.move, bool) else getattr(given.move, "__index__", lambda: given.move)()
    try:
        answer = from_data(Answer, {**vars(given), "moves": moves, "move": number}, "the answer")
    except dojoir.ArgumentError as error:
        raise _no_answer(error.diagnostic.message) from None
    if max(map(len, (answer.text, answer.bound, answer.note))) > LONGEST:
        raise _no_answer(f"a text of it has more than {LONGEST} characters")
    return answer


def _no_answer(message: str) -> dojoir.ArgumentError:
    return dojoir.ArgumentError(f"the agent's answer is not valid: {message}", "bad-agent")


def digest_of_file(path: str | Path) -> str:
    """The digest of a file: by it a rollout knows whether an agent is the one that it was begun with. Raises
    ArgumentError, `bad-agent`."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:16]
    except OSError as error:
        raise dojoir.ArgumentError(f"cannot read {path}: {error.strerror or error}", "bad-agent") from None


def in_file(file: str, member: str, seed: int) -> Agent:
    """The agent in a file: `member`, or `Agent`, `agent` or `play`. Runs the file in this process. Raises
    ArgumentError, `bad-agent`, where it cannot be run or has none."""
    try:
        names = runpy.run_path(file)
    except BaseException as error:  # a file of the user's, which may exit as well
        raise dojoir.ArgumentError(f"cannot load {file}: {type(error).__name__}: {error}", "bad-agent") from None
    return _made(names, member, file, seed)


def _made(names: Mapping[str, Any], member: str, file: str, seed: int) -> Agent:
    wanted = [member] if member else ["Agent", "agent", "play"]
    found = next((names[one] for one in wanted if one in names), None)
    if found is None:
        raise dojoir.ArgumentError(f"{file} has no {' and no '.join(wanted)}: name it as {file}:NAME", "bad-agent")
    if inspect.isclass(found):
        if callable(getattr(found, "ask", None)) and callable(getattr(found, "tell", None)):
            return Searching(found)
        try:
            options: dict[str, Any] = {"seed": seed} if "seed" in inspect.signature(found).parameters else {}
            made: Any = found
            found = made(**options)
        except BaseException as error:
            message = f"{file}: the agent cannot be made: {type(error).__name__}: {error}"
            raise dojoir.ArgumentError(message, "bad-agent") from None
    plays = getattr(found, "play", found)
    if not callable(plays):
        message = f"{file}: an agent is a function of a desk, or has play(desk): {type(found).__name__} has not"
        raise dojoir.ArgumentError(message, "bad-agent")
    return Own(plays)
