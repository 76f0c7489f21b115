"""The tools that a language model plays with, each a method that answers with plain data whatever it is given.

`status` of an answer is `ok`, `refused` (with the verdict of the checker), `error` (with a code and a message) or
`limit`. Nothing that a model says is run as code: it names kernels, moves, passes and files of one folder.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from threading import Lock
from typing import Any, Concatenate, ParamSpec

import dojoir
from dojoir.game.environment_arguments import sizes_of
from dojoir.game.scoring import Scorer, Timer
from dojoir.know import Document, known, like
from dojoir.llm.answers import explained, of_verdict, planned
from dojoir.llm.families import FAMILIES, LANGUAGE
from dojoir.llm.folder import Folder
from dojoir.llm.limits import Limits, SpentLimits, Stop, reached
from dojoir.llm.playing import Game

Answer = dict[str, Any]

SOON = 100_000
"""Steps of the checker within which a move that is listed must be shown to be legal."""

P = ParamSpec("P")


def _tool(method: Callable[Concatenate[Table, P], Answer]) -> Callable[Concatenate[Table, P], Answer]:
    """The method as a tool: one works at a time, and an error is an answer too."""

    @wraps(method)
    def tool(table: Table, /, *args: P.args, **given: P.kwargs) -> Answer:
        return table._call(lambda: method(table, *args, **given))

    return tool


class Table:
    """The games of one connection. `folder` is the only one that is read (`*.dojo`) and written (`save`); `timer`
    is `measure` or `static`; `more` are documents that `know` searches too. One call works at a time; others
    wait."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        limits: Limits | None = None,
        *,
        timer: Timer = "measure",
        more: Sequence[Document] = (),
    ) -> None:
        """Raises ArgumentError for a folder or a timer that there is not."""
        self.folder, self.limits, self.timer = Folder(folder), limits or Limits(), timer
        self.more = list(more)
        self.spent, self.games, self.count = SpentLimits(self.limits), dict[str, Game](), 0
        self._lock, self._scorers = Lock(), dict[str, Scorer]()
        self._scorer("llvm")

    def stop(self) -> Stop:
        """The timer that ends a call at its time limit."""
        return Stop(self.limits.call_seconds)

    # -- the tools: the game -----------------------------------------------------------------------------------
    @_tool
    def new_game(
        self, kernel: str, sizes: Mapping[str, int] | None = None, target: str = "llvm", fp: str | None = None
    ) -> Answer:
        """Begins a game on a kernel: `library:NAME`, the text of one, or a file NAME.dojo of the folder. `sizes`
        are its runtime sizes (chosen where none are given); `fp` what rewrites may do to floating point: strict,
        reassoc or fast."""
        if len(self.games) >= self.limits.games:
            raise reached(f"{self.limits.games} games")
        made = dojoir.parse(self._text(kernel), "<kernel>" if "\n" in kernel else kernel)
        dojoir.prove(made)
        if fp is not None:
            made = made.with_fp(fp)
        game = Game(made, sizes_of(made, sizes), self._scorer(target))
        self.count += 1
        name = f"g{self.count}"
        self.games[name] = game
        return {"game": name, "target": target, "sizes": game.sizes, **game.state()}

    def _text(self, kernel: str) -> str:
        self._short(kernel)
        if "\n" in kernel:
            return kernel
        if kernel.startswith("library:"):
            return dojoir.kernels.source(kernel.removeprefix("library:"))
        return self.folder.read(kernel, self.limits.characters)

    @_tool
    def moves(self, game: str, word: str = "", most: int = 50, stop: Stop | None = None) -> Answer:
        """The legal moves of the state, those with `word` in them, at most `most`. `left` is how many that the
        shape of the tree allows were not looked at."""
        one, stop = self._game(game), self.stop() if stop is None else stop
        could = [move for move in dojoir.candidates(one.trace.kernel, one.target) if word in str(move)]
        found: list[str] = []
        for number, move in enumerate(could):
            if len(found) >= most or stop:
                return {"moves": found, "left": len(could) - number}
            if dojoir.check(one.trace.kernel, move, SOON):
                found.append(str(move))
        return {"moves": found, "left": 0}

    @_tool
    def check(self, game: str, move: str) -> Answer:
        """Whether a move is legal here: the verdict, with a witness where it is not."""
        return of_verdict(dojoir.check(self._kernel(game, move), move))

    @_tool
    def suggest(self, game: str, move: str) -> Answer:
        """As check; the hint names the nearest legal alternative where one is found."""
        return of_verdict(dojoir.suggest(self._kernel(game, move), move))

    @_tool
    def explain(self, game: str, move: str) -> Answer:
        """Why a move is legal or not: the verdict in words, and what its code means, with an example and a
        cure."""
        return explained(self._kernel(game, move), move)

    @_tool
    def apply(self, game: str, moves: str, stop: Stop | None = None) -> Answer:
        """Makes moves and passes, such as `join_scopes(0, 1); default_schedule`, one after another until one is
        refused: those before it stay made."""
        one = self._game(game)
        self._short(moves)
        count, verdict, reason = one.apply(moves, self.stop() if stop is None else stop)
        refused: Answer = {} if verdict is None else {"verdict": verdict.to_json()}
        status = "refused" if verdict is not None else "limit" if reason else "ok"
        return {"status": status, "made": count, "reason": reason, **refused, **one.state()}

    @_tool
    def undo(self, game: str, count: int = 1) -> Answer:
        """Takes the last moves back."""
        one = self._game(game)
        if not 1 <= count <= len(one.trace.moves):
            message = f"{len(one.trace.moves)} moves can be taken back, not {count}"
            raise dojoir.ArgumentError(message, "empty-trace")
        for _ in range(count):
            one.trace.undo()
        return one.state()

    @_tool
    def syntax(self) -> Answer:
        """How a kernel and its moves are written: the words of the language, and every family of moves by what it
        does for speed, with its arguments."""
        return {"language": LANGUAGE, "moves": FAMILIES}

    # -- the tools: how good it is -----------------------------------------------------------------------------
    @_tool
    def measure(self, game: str) -> Answer:
        """Builds, verifies and times the state, beside the start; the fastest is kept as the best."""
        return self._measured(game).measure()

    @_tool
    def verify(self, game: str) -> Answer:
        """Runs the state on random inputs and compares it with what the start means."""
        one = self._measured(game)
        report = dojoir.verify(
            one.trace.kernel, one.trace.start, target=one.target, time_limit=self.limits.call_seconds
        )
        return {"verified": report.status, "reason": report.reason, "cases": len(report.cases)}

    @_tool
    def profile(self, game: str) -> Answer:
        """A card of what bounds the state: bandwidth, arithmetic, and where in its text."""
        one = self._measured(game)
        card = dojoir.profile(one.trace.kernel, one.target, sizes=one.sizes, time_limit=self.limits.call_seconds)
        return {"card": card.to_json(), "words": str(card)}

    @_tool
    def plan(self, game: str, most: int = 8, stop: Stop | None = None) -> Answer:
        """Passes and structures that could be applied here, the best first by an estimate from the texts (no
        measurement): each as the text that `apply` takes."""
        one = self._game(game)
        return planned(one.trace, one.sizes, one.target, 1, most, self.stop() if stop is None else stop)

    # -- the tools: others -------------------------------------------------------------------------------------
    @_tool
    def know(self, question: str = "", game: str | None = None, kind: str | None = None, count: int = 5) -> Answer:
        """Looks up knowledge: by words, or by the name of a code, move, pass, mark, rule, structure or schedule.
        With a `game` and no question, library kernels that are built like its start, with their schedules made on
        it."""
        if bool(question.strip()) == (game is not None):
            raise dojoir.ArgumentError("give either a question or a game", "bad-arguments")
        if game is None:
            found = known(question[:1000], count=count, kind=kind, more=self.more)
            return {"know": [hit.to_json() for hit in found]}
        one = self._game(game)
        alike = like(one.trace.start, count=count, target=one.target, sizes=one.sizes)
        return {"like": [each.to_json() for each in alike]}

    @_tool
    def emit(self, game: str, target: str | None = None) -> Answer:
        """The source of the state: of the game's target, or of c, llvm, asm, avx512, cuda, …"""
        one, most = self._game(game), self.limits.characters
        source = dojoir.emit(one.trace.kernel, target or one.target)
        return {"source": source[:most], "cut": len(source) > most}

    @_tool
    def best(self, game: str) -> Answer:
        """The fastest state that was measured: its moves, its text and its seconds."""
        return self._game(game).answer()

    @_tool
    def save(self, game: str, name: str) -> Answer:
        """Writes the best state to the folder: NAME.dojo, and NAME.json, the trace that anybody can check."""
        one = self._game(game)
        trace = one.trace if one.best is None else one.best[0]
        for each in (f"{name}.dojo", f"{name}.json"):
            self.folder.place(each)
        kernel = self.folder.write(f"{name}.dojo", dojoir.to_text(trace.kernel))
        written = self.folder.write(f"{name}.json", json.dumps(trace.to_json(), indent=1) + "\n")
        return {"files": [kernel, written]}

    # -- what all of them do -----------------------------------------------------------------------------------
    def _call(self, work: Callable[[], Answer]) -> Answer:
        """The answer of a tool, and what is left; an error is an answer too."""
        with self._lock:
            try:
                with self.spent.call():
                    found: Answer = {"status": "ok", **work()}
            except dojoir.IllegalMove as error:
                found = {"status": "refused", "verdict": error.verdict.to_json()}
            except dojoir.DojoError as error:
                code, message = error.diagnostic.code, error.diagnostic.message[:2000]
                status = "limit" if code == "limit-reached" else "error"
                found = {"status": status, "code": code, "message": message}
            plain: Answer = _as_json({**found, "left_of_limits": self.spent.left()})
            return plain

    def _measured(self, name: str) -> Game:
        """A game, for what counts as a measurement."""
        self.spent.measurement()
        return self._game(name)

    def _game(self, name: str) -> Game:
        if name not in self.games:
            known = ", ".join(self.games) or "none: call new_game"
            raise dojoir.ArgumentError(f"there is no game {name[:40]!r}; there are {known}", "no-game")
        return self.games[name]

    def _kernel(self, game: str, move: str) -> dojoir.Kernel:
        """The kernel of a game, for a question on a move. Raises ArgumentError."""
        self._short(move)
        return self._game(game).trace.kernel

    def _short(self, text: str) -> None:
        most = self.limits.characters
        if len(text) > most:
            raise dojoir.ArgumentError(f"the text has more than {most} characters", "bad-arguments")

    def _scorer(self, target: str) -> Scorer:
        if target not in dojoir.TARGETS:
            known = ", ".join(dojoir.TARGETS)
            raise dojoir.ArgumentError(
                f"there is no target {target[:40]!r}; the targets are {known}", "unknown-target"
            )
        if target not in self._scorers:
            self._scorers[target] = Scorer(target, timer=self.timer)
        return self._scorers[target]

    def close(self) -> None:
        """Ends the processes that build and time."""
        for one in self._scorers.values():
            one.close()


def _as_json(value: Any) -> Any:
    """The same as JSON has it: halves of characters escaped, numbers that are none or infinite as null."""
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode("utf-8")
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {_as_json(str(key)): _as_json(one) for key, one in value.items()}
        case list() | tuple():
            return [_as_json(one) for one in value]
    return value
