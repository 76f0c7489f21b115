"""Agents by name, as a command line has them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import dojoir
from dojoir.search import STRATEGIES
from dojoir.search.named_objects import named
from dojoir.search.registry import strategy_named
from dojoir.support.public import public
from dojoir.tasks.agents import Agent, Searching, digest_of_file
from dojoir.tasks.isolated_agent import IsolatedAgent

NO_OPTIONS: Mapping[str, object] = MappingProxyType({})


@public
def agent_named(name: str, seed: int = 0, options: Mapping[str, object] = NO_OPTIONS) -> Agent:
    """The agent of a name: a strategy (`random`, `beam`, …), `maxq:PATH`, a language model (`llm:…`, which takes
    the `options` of that strategy), or `FILE.py`, `FILE.py:NAME`. In a file it is `Agent`, `agent` or `play` where
    no name is given: a class of agents, made with no argument or with `seed`; a function of a desk; or a class of
    strategies. A file runs in a process of its own, which is begun now and ends with the agent. Raises
    ArgumentError, `bad-agent`, `unknown-strategy`, `bad-model`, and ToolchainError where a package is missing."""
    path, _, member = name.partition(".py")
    if not (name.endswith(".py") or member.startswith(":")):
        if name in STRATEGIES:
            return Searching(name)
        kind, _, of = name.partition(":")
        if kind == "llm":
            player: Agent = named("dojoir.llm.agent:agent_of", "agent", "bad-agent")(of, options)
            return player
        if kind != "maxq":
            known = ", ".join((*STRATEGIES, "maxq:PATH", "llm:openai/MODEL", "llm:random", "FILE.py"))
            raise dojoir.ArgumentError(f"there is no agent {name}: they are {known}", "bad-agent")
        return Searching(strategy_named(name), digest_of_file(name.partition(":")[2]))
    file = Path(f"{path}.py")
    if not file.is_file():
        raise dojoir.ArgumentError(f"there is no file {file}: write the path of a Python file", "bad-agent")
    return IsolatedAgent(str(file), member.removeprefix(":"), seed)
