"""The verbs whose player may be a language model, `llm:…`: what their options come to."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import dojoir
from dojoir.cli.arguments import ARGUMENTS, MODELS
from dojoir.cli.streams import say

LIMITS = ("calls", "tokens", "money")
"""The limits of the budget of a model."""

_ONLY = tuple(name for name, one in ARGUMENTS.items() if one.group == MODELS)
"""The options that say nothing where no model plays."""


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
