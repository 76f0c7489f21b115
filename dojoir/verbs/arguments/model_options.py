"""The options of verbs whose player may be a language model, `llm:…`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import dojoir
from dojoir.cli.streams import say
from dojoir.cli.values import positive, seconds
from dojoir.verbs.arguments.values import price

LIMITS = ("calls", "tokens", "money")
"""The limits of the budget of a model."""

_ONLY = (
    "base_url",
    "chat",
    "replay_chat",
    "prices",
    "plans",
    "rounds",
    "model_timeout",
    "model_notes",
    "model_runs",
    *LIMITS,
)
"""The options that say nothing where no model plays."""


def add(made: argparse.ArgumentParser, *, with_chat: bool) -> None:
    """Adds the options; those of a chat where one search has one."""
    group = made.add_argument_group("language models (llm:openai/MODEL, llm:anthropic/MODEL, llm:random)")
    add = group.add_argument
    add("--base-url", metavar="URL", help="a compatible server; keys are OPENAI_API_KEY and ANTHROPIC_API_KEY")
    if with_chat:
        add("--chat", metavar="FILE", help="write every exchange there, or go on with it (chat.jsonl of the run)")
        add("--replay-chat", metavar="FILE", help="play a chat again, without a model")
    add("--calls", type=positive, metavar="INT", help="ask the model at most so often")
    add("--tokens", type=positive, metavar="INT", help="read and write at most so many tokens")
    add("--money", type=price, metavar="X", help="spend at most so much; needs --prices")
    add("--prices", type=price, nargs=2, metavar=("READ", "WRITTEN"), help="of a million tokens")
    add("--plans", type=positive, metavar="INT", help="plans of an answer (4)")
    add("--rounds", type=positive, metavar="INT", help="ask for plans at most so often (1000)")
    add("--model-timeout", type=seconds, metavar="S", help="of one answer (120)")
    add("--model-notes", metavar="DIR", help="a folder of notes that the tool know searches as well")
    add("--model-runs", metavar="DIR", help="a folder of runs: the tool know tells what helped in them")
    made.set_defaults(refuse=made.error)


def options_of(options: argparse.Namespace, player: str, folder: Path | None = None) -> dict[str, Any]:
    """The options of the strategy, whose chat is by default in the folder of a run. Ends the process with status 2
    where there are some and no model plays."""
    given = [name for name in _ONLY if getattr(options, name, None) is not None]
    if not player.startswith("llm:"):
        if given:
            options.refuse(f"--{given[0].replace('_', '-')} is for a player llm:…, not {player}")
        return {}
    names = {"base_url": "base_url", "prices": "prices", "plans": "plans", "rounds": "rounds",
             "model_timeout": "timeout", "model_notes": "notes", "model_runs": "runs",
             "replay_chat": "replay_chat"}  # fmt: skip
    found = {key: getattr(options, name) for name, key in names.items() if getattr(options, name, None) is not None}
    if "prices" in found:
        found["prices"] = tuple(found["prices"])
    if "chat" in options:
        chat = options.chat or (None if folder is None else str(folder / "chat.jsonl"))
        if chat is None and player != "llm:random" and not options.replay_chat:
            say("the exchanges with the model are not kept: --chat FILE or --runs DIR keeps them")
        found |= {} if chat is None else {"chat": chat}
    return found


def budget_of(options: argparse.Namespace) -> dojoir.Budget:
    """The budget of a model. Raises ArgumentError."""
    return dojoir.Budget(**{name: getattr(options, name) for name in LIMITS})
