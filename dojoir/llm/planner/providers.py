"""The providers behind `llm:`: `openai/MODEL`, `anthropic/MODEL`, or `random`."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import dojoir
from dojoir.ir.text import canonical_text
from dojoir.know import notes_in
from dojoir.llm.models.asking import Asker, Prices
from dojoir.llm.models.chat import VERSION, Chat, ChatSubject
from dojoir.llm.models.drawing import Drawing
from dojoir.llm.models.exchange import Model
from dojoir.llm.planner.cards import Cards
from dojoir.llm.planner.settings import Settings
from dojoir.llm.planner.strategy import ModelPlanner
from dojoir.llm.planner.system import SYSTEM
from dojoir.llm.planner.tools import Tools
from dojoir.search import Play
from dojoir.search.budget import Ledger
from dojoir.search.variation import made

PROVIDERS = ("openai", "anthropic")


def check_name(name: str) -> None:
    """Raises ArgumentError, `unknown-strategy`, for a name that is none."""
    provider, _, model = name.partition("/")
    if name != "random" and (provider not in PROVIDERS or not model.strip() or len(name) > 200):
        known = ", ".join(f"llm:{one}/MODEL" for one in PROVIDERS)
        raise dojoir.ArgumentError(
            f"there is no model '{name[:80]}': write {known} or llm:random", "unknown-strategy"
        )


def from_name(name: str) -> Callable[..., ModelPlanner]:
    """A function that makes the strategy of a model: `llm:NAME`. Its options are those of `Settings`. Raises
    ArgumentError, `unknown-strategy`, for a name that is none."""
    check_name(name)

    def llm(play: Play, **options: object) -> ModelPlanner:
        settings = Settings.of(options)
        begun = ChatSubject(
            VERSION, canonical_text(play.kernel), play.target, play.sizes, play.threads, name, SYSTEM,
            tuple(tuple(map(str, trace.moves)) for trace in play.starts),
        )  # fmt: skip
        asker = asker_of(name, settings, Chat(begun, settings.chat, settings.replay_chat), play.ledger, play.rng)
        if asker.chat.live:
            _ = asker.model  # what is missing is told before anything is asked
        starts = [made(play.kernel, moves) for moves in asker.chat.begun.starts]
        more = [*(notes_in(settings.notes) if settings.notes else ())]
        if settings.runs is not None:
            from dojoir.know import recorded  # it needs the extra of databases

            more += recorded([settings.runs])
        tools = Tools(play.target, play.sizes[0], play.threads, more)
        cards = Cards(play.target, play.sizes[0], play.threads, play.timer)
        return ModelPlanner(play, asker, settings, starts, tools, cards)

    return llm


def asker_of(name: str, settings: Settings, chat: Chat, ledger: Ledger, rng: Random) -> Asker:
    """What asks the model of a name, as the settings say. Raises ArgumentError."""
    prices, seed = None if settings.prices is None else Prices(*settings.prices), str(rng.random())
    return Asker(
        lambda: model_named(name, settings, seed), chat, ledger, prices=prices, attempts=settings.attempts,
        timeout=settings.timeout,
    )  # fmt: skip


def model_named(name: str, settings: Settings, seed: str) -> Model:
    """The model of a name. Raises ToolchainError, `missing-package`, ArgumentError, `no-key`, `bad-arguments`."""
    if settings.model is not None:
        own: Model = settings.model(seed)
        return own
    provider, _, model = name.partition("/")
    match provider:
        case "openai":
            from dojoir.llm.models.openai_chat import OpenAIChat

            return OpenAIChat(model, settings.base_url)
        case "anthropic":
            from dojoir.llm.models.anthropic_messages import AnthropicMessages

            return AnthropicMessages(model, settings.base_url)
    return Drawing(seed)
