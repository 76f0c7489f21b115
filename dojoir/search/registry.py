"""The strategies by name, and how one of the user's own is found."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

import dojoir
from dojoir.cli.hints import nearest
from dojoir.search.named_objects import named

if TYPE_CHECKING:
    from dojoir.search.play import Play


class Strategy(Protocol):
    """The source of the traces that `tune` tries. `Play` counts the moves of what it gives; a strategy that makes
    traces otherwise says how many with `Play.count`."""

    def ask(self, n: int) -> Sequence[dojoir.Trace]:
        """Up to `n` traces from the kernel that is tuned; none ends the search, for what its `stopped` says, if
        it has that."""

    @property
    def tell(self) -> Callable[..., object]:
        """`tell(evaluations, traces)`: the traces that were asked for and evaluated, in their order, and what
        became of each: fewer where the budget ended. One that takes `evaluations` alone gets these."""


class MakesStrategy(Protocol):
    """A class of strategies, or a function that makes one."""

    def __call__(self, play: Play, **options: object) -> Strategy: ...


STRATEGIES: Mapping[str, str] = {
    "random": "dojoir.search.random_walk:RandomWalk",
    "greedy": "dojoir.search.greedy:Greedy",
    "anneal": "dojoir.search.anneal:Anneal",
    "mcts": "dojoir.search.mcts:Mcts",
    "evolve": "dojoir.search.evolve:Evolve",
    "beam": "dojoir.search.beam:Beam",
}
"""Those that come with dojoir, `module:class`."""


FROM_NAMES: Mapping[str, str] = {
    "maxq": "dojoir.game.strategy:from_file",
    "llm": "dojoir.llm.planner.providers:from_name",
}
"""Those that are made from a name, `maxq:PATH`, `llm:openai/MODEL`: what makes the strategy of what stands behind
the colon."""


def made(makes: MakesStrategy, play: Play, options: Mapping[str, object]) -> Strategy:
    """A strategy with its options. Raises ArgumentError where it does not take them, or is none."""
    try:
        inspect.signature(makes).bind(play, **options)
    except (TypeError, ValueError) as error:
        name = getattr(makes, "__name__", "the strategy")
        message = f"{name} cannot be made with a Play and the options {', '.join(options) or '(none)'}: {error}"
        raise dojoir.ArgumentError(message, "bad-arguments") from None
    strategy = makes(play, **options)
    if not (callable(getattr(strategy, "ask", None)) and callable(getattr(strategy, "tell", None))):
        message = f"a strategy has ask(n) and tell(evaluations, traces): {type(strategy).__name__} has not"
        raise dojoir.ArgumentError(message, "bad-arguments")
    return strategy


def strategy_named(name: str) -> MakesStrategy:
    """The class of a strategy by its name, by `module:class` or `file.py:class`. Raises ArgumentError for one that
    there is not."""
    kind, colon, path = name.partition(":")
    if colon and kind in FROM_NAMES:
        module, _, what = FROM_NAMES[kind].partition(":")
        of_name: MakesStrategy = getattr(importlib.import_module(module), what)(path)
        return of_name
    home = STRATEGIES.get(name, name if ":" in name else "")
    if not home:
        known = ", ".join(STRATEGIES)
        hint = nearest(name, STRATEGIES)
        raise dojoir.ArgumentError(f"there is no strategy '{name}'{hint}; they are {known}", "unknown-strategy")
    found: MakesStrategy = named(home, "strategy", "unknown-strategy")
    return found


def takes_traces(strategy: Strategy) -> bool:
    """Whether `tell` of a strategy takes the traces as well."""
    try:
        inspect.signature(strategy.tell).bind([], [])
    except (TypeError, ValueError):
        return False
    return True
