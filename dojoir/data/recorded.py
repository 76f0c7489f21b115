"""A game that is recorded as it goes: what was offered and drawn in each state, the verdicts, and what became
of it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, SupportsFloat, SupportsInt

import dojoir
from dojoir.evidence.writing import Writer, fresh_name, store_of
from dojoir.search.needs import needed
from dojoir.support.public import public

needed("gymnasium", "agents", "a recorded game")

import gymnasium  # noqa: E402

from dojoir.game.environment import KernelEnv  # noqa: E402

LEGAL, REFUSED, CANDIDATE = "legal", "refused", "candidate"
"""The verdicts: proved, not shown to be legal, and could be written, but was not asked of the checker."""

PROVED = ("legal", "drawn")
"""The ways of actions whose moves are all legal."""


Key = tuple[str, tuple[tuple[str, int], ...]]
"""The hash of a kernel, and the sizes that it is played at."""


@public
def _given(runs: str | Path, name: str) -> tuple[Path, str]:
    return Path(runs), name


class Recorded(gymnasium.Wrapper[Any, SupportsInt, Any, SupportsInt]):
    """An environment around `dojoir.game.KernelEnv` that leaves bundles in a folder of runs, one for each
    kernel and sizes. Every state with its evaluation, the legal moves that were offered, and actions that were
    refused with the verdict. `dojoir dataset export --runs` makes a data set of them. `close` ends the
    bundles. Raises ArgumentError for another environment, a folder that is none, `cannot-write`, and
    `bad-arguments` for a name that is none."""

    def __init__(self, env: Any, runs: str | Path, name: str = "game") -> None:
        game = getattr(env, "unwrapped", None)
        if not isinstance(game, KernelEnv):
            kind = type(env if game is None else game).__name__
            message = f"Recorded takes an environment around dojoir.game.KernelEnv, not a {kind}"
            raise dojoir.ArgumentError(message, "bad-arguments")
        super().__init__(env)
        self.game: Any = game
        self._runs, self._name = _given(runs, name)
        self._database = store_of(self._runs)
        self._writers: dict[Key, Writer] = {}
        self._best: dict[Key, tuple[float, dojoir.Trace]] = {}

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """As the environment, and the start is recorded."""
        seen = self.env.reset(**options)
        self._record()
        return seen

    def step(self, action: SupportsInt) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """As the environment; what was offered in the state before is recorded, and the state after."""
        game = self.game
        if game.trace is None:
            return self.env.step(action)  # which says that there is no episode
        before = game.trace.copy()
        verdict = LEGAL if game.way in PROVED else CANDIDATE
        offered = {str(move): verdict for move in game.actions.moves if isinstance(move, dojoir.Move)}
        made = game.meaning(action)
        seen = self.env.step(action)
        after = game.trace
        if len(after.moves) != len(before.moves):
            self._record()
            if made in offered:
                offered[made] = LEGAL
        elif made in offered and "verdict" in seen[4]:
            offered[made] = REFUSED
        writer = self._writer()
        if before.is_safe and offered:
            self._database.drew(writer.run.database, before, [*offered.items()])
            writer.states()
        return seen

    def close(self) -> None:
        """Ends the bundles, each with the fastest trace as its answer, and closes the environment."""
        for key, writer in self._writers.items():
            _, best = self._best[key]
            writer.answer(best)
            self._database.end(writer.run.database, "the game was closed", best)
            writer.end("done", "the game was closed")
            writer.__exit__(None, None, None)
        self._writers.clear()
        self._best.clear()
        self._database.close()
        super().close()

    def _record(self) -> None:
        game, writer = self.game, self._writer()
        if game.trace.is_safe:
            self._database.record(
                game.trace, game.evaluation, game.target, sizes=dict(game.sizes), threads=game.scorer.threads,
                protocol=game.scorer.protocol, run=writer.run.database,
            )  # fmt: skip
            writer.states()
            seconds = game.evaluation.seconds
            key = self._key()
            if game.evaluation.status == "ok" and seconds and seconds < self._best[key][0]:
                self._best[key] = seconds, game.trace.copy()

    def _key(self) -> Key:
        return self.game.trace.start.hash, tuple(sorted(self.game.sizes.items()))

    def _writer(self) -> Writer:
        game = self.game
        key = self._key()
        if key not in self._writers:
            start = dojoir.Trace(game.trace.start)
            settings = {"game": self._name, "timer": game.scorer.timer}
            writer = Writer.begin(
                self._runs, "tune", start, self._database, target=game.target, sizes=[dict(game.sizes)],
                threads=game.scorer.threads, settings=settings, name=fresh_name(f"{self._name}-{start.start.name}"),
            )  # fmt: skip
            self._database.begin(start.start, settings, writer.run.database)
            self._writers[key], self._best[key] = writer.__enter__(), (math.inf, start)
        return self._writers[key]
