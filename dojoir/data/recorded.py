"""A game that is recorded as it goes: what was offered and drawn in each state, the verdicts, and what became
of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, SupportsFloat, SupportsInt

import dojoir
from dojoir.evidence.writing import Writer, fresh_name, store_of
from dojoir.search.needs import needed

needed("gymnasium", "agents", "a recorded game")

import gymnasium  # noqa: E402

REFUSED = "refused"


class Recorded(gymnasium.Wrapper[Any, SupportsInt, Any, SupportsInt]):
    """An environment around `dojoir.game.KernelEnv` that leaves bundles in a folder of runs, one for each
    kernel and sizes: every state with its evaluation, the legal moves that were offered, and actions that were
    refused with the verdict. `dojoir dataset export --runs` makes a data set of them. `close` ends the
    bundles."""

    def __init__(self, env: Any, runs: str | Path, name: str = "game") -> None:
        super().__init__(env)
        self.game: Any = env.unwrapped
        self._runs, self._name = Path(runs), name
        self._database = store_of(self._runs)
        self._writers: dict[tuple[str, tuple[tuple[str, int], ...]], Writer] = {}

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """As the environment, and the start is recorded."""
        seen = self.env.reset(**options)
        self._record()
        return seen

    def step(self, action: SupportsInt) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """As the environment; what was offered in the state before is recorded, and the state after."""
        game = self.game
        before = game.trace.copy()
        offered = [(str(move), "legal") for move in getattr(game.actions, "moves", ())]
        made = game.meaning(action)
        seen = self.env.step(action)
        after = game.trace
        if len(after.moves) > len(before.moves) or after.kernel != before.kernel:
            self._record()
        else:
            verdict = seen[4].get("verdict")
            if verdict is not None and made not in ("stop", "undo", "none"):
                offered = [one for one in offered if one[0] != made]
                offered.append((made, getattr(verdict, "code", "") or REFUSED))
        writer = self._writer()
        if before.is_safe and offered:
            self._database.drew(writer.run.database, before, offered)
            writer.states()
        return seen

    def close(self) -> None:
        """Ends the bundles, each with the fastest trace as its answer, and closes the environment."""
        for writer in self._writers.values():
            writer.end("done", "the game was closed")
            writer.__exit__(None, None, None)
        self._writers.clear()
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

    def _writer(self) -> Writer:
        game = self.game
        key = (game.trace.start.hash, tuple(sorted(game.sizes.items())))
        if key not in self._writers:
            start = dojoir.Trace(game.trace.start)
            settings = {"game": self._name, "timer": game.scorer.timer}
            writer = Writer.begin(
                self._runs, "tune", start, self._database, target=game.target, sizes=[dict(game.sizes)],
                threads=game.scorer.threads, settings=settings, name=fresh_name(f"{self._name}-{start.start.name}"),
            )  # fmt: skip
            self._database.begin(start.start, settings, writer.run.database)
            self._writers[key] = writer.__enter__()
        return self._writers[key]
