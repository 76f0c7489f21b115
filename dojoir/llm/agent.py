"""The agent of `dojoir rollout llm:…`: plans where a kernel is asked for, and answers in one conversation where a
move is to be named."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dojoir
from dojoir.evidence.bundle import CHAT
from dojoir.ir.text import canonical_text
from dojoir.llm.models.asking import Asker
from dojoir.llm.models.chat import VERSION, Chat, ChatSubject
from dojoir.llm.models.exchange import Message, ModelError, Question, Tool, object_in
from dojoir.llm.planner.providers import asker_of, check_name
from dojoir.llm.planner.question import fenced
from dojoir.llm.planner.settings import Settings
from dojoir.llm.planner.system import SYSTEM
from dojoir.llm.planner.tools import TOOLS, Tools
from dojoir.llm.planner.tries import Try
from dojoir.tasks import Answer, Desk
from dojoir.tasks.agents import BOUNDS
from dojoir.tasks.task import without

ASKED = {
    "diagnose": "The trace below is slow. Name the number of the move without which it is fastest, and what bounds "
    "the trace as it is.",
    "debug": "One of the moves below is refused by the checker, or gains nothing. Name its number.",
}


def agent_of(name: str, options: Mapping[str, object]) -> Player:
    """The agent of `llm:NAME`. Raises ArgumentError, `unknown-strategy`, `bad-arguments`."""
    check_name(name)
    return Player(name, Settings.of(options))


@dataclass(frozen=True)
class Player:
    """An agent; its `digest` is that of what a model is told of the game."""

    name: str
    settings: Settings
    digest: str = field(default=hashlib.sha256(SYSTEM.encode()).hexdigest()[:16])

    def play(self, desk: Desk) -> Answer:
        """The answer to the task of a desk, whose chat is written to its folder. Raises ArgumentError."""
        chat = self.settings.chat or (None if desk.folder is None else desk.folder / CHAT)
        match desk.task.kind:
            case "optimise" | "reformulate":
                options = {**self.settings.given, "chat": None if chat is None else str(chat)}
                tuned = desk.tune(f"llm:{self.name}", **options)
                return desk.answer(note=tuned.stopped)
            case "diagnose" | "debug":
                return self._named(desk, None if chat is None else Path(chat))

    def _named(self, desk: Desk, path: Path | None) -> Answer:
        """The answer that names a move; without any where the model has none, with the reason as its note."""
        given = desk.task.given
        system = f"{SYSTEM}\nThis time no plans are asked for.\n"
        begun = ChatSubject(
            VERSION, canonical_text(desk.kernel), given.target, (given.sizes,), given.threads, self.name,
            system, (given.moves,),
        )  # fmt: skip
        chat = Chat(begun, path, self.settings.replay_chat)
        asker = asker_of(self.name, self.settings, chat, desk.ledger, desk.rng)
        try:
            return self._conversed(desk, asker, system)
        except ModelError as error:
            return Answer(note=error.reason)

    def _conversed(self, desk: Desk, asker: Asker, system: str) -> Answer:
        moves, given = desk.task.given.moves, desk.task.given
        answer = _answer_tool(desk.task.kind, len(moves))
        tools = Tools(given.target, given.sizes, given.threads)
        states = {n: Try(n, one) for n, one in enumerate(_states(desk))}
        facts = {"numbers": len(moves), "bounds": BOUNDS if desk.task.kind == "diagnose" else ()}
        messages: tuple[Message, ...] = ()
        new: tuple[Message, ...] = (Message("user", _question(desk)),)
        for turn in range(self.settings.turns + self.settings.repairs + 1):
            known = asker.chat.peek()
            new = new if known is None else known.asked
            messages = (*messages, *new)
            must = answer.name if turn >= self.settings.turns else ""
            asked = Question(system, messages, (*TOOLS[:-1], answer), must, self.settings.most_tokens, facts)
            reply = asker.ask(asked, 0, moves, new)
            results = []
            for call in reply.calls:
                if call.name == answer.name:
                    found = _answer_in(call.arguments, desk)
                    if isinstance(found, Answer):
                        return found
                    results.append(Message("tool", found, answers=call.id))
                else:
                    said = tools.answer(call, states[max(states)], states)
                    results.append(Message("tool", said, answers=call.id))
            new = tuple(results) or (Message("user", "Call the tool `answer`."),)
            messages = (*messages, Message("assistant", reply.text, reply.calls))
        return Answer(note="the model gave no answer that fits")


def _answer_tool(kind: str, moves: int) -> Tool:
    properties: dict[str, Any] = {"move": {"type": "integer", "minimum": 0, "maximum": moves - 1}}
    if kind == "diagnose":
        properties["bound"] = {"enum": [*BOUNDS]}
    return Tool("answer", "Gives your answer to the task.",
                {"type": "object", "properties": properties, "required": [*properties]})  # fmt: skip


def _answer_in(arguments: str, desk: Desk) -> Answer | str:
    """The answer in the arguments of a call; or what is wrong with it."""
    data, moves = object_in(arguments) or {}, desk.task.given.moves
    number = data.get("move")
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < len(moves):
        return f"move is the number of a move, from 0 to {len(moves) - 1}"
    if desk.task.kind == "debug":
        return Answer(without(moves, number), move=number)
    if data.get("bound") not in BOUNDS:
        return f"bound is one of {', '.join(BOUNDS)}"
    return Answer(move=number, bound=data["bound"])


def _states(desk: Desk) -> list[dojoir.Trace]:
    """The state after each number of the moves that are legal: tools are asked by that number."""
    whole, found = desk.trace, [dojoir.Trace(desk.kernel)]
    for move in whole.moves:
        found.append(found[-1].then(move))
    return found


def _question(desk: Desk) -> str:
    task = desk.task
    sizes = ", ".join(f"{name}={value}" for name, value in task.given.sizes.items())
    moves = "\n".join(f"{number} {move}" for number, move in enumerate(task.given.moves))
    parts = [
        f"{ASKED[task.kind]} Target {task.given.target}, {task.given.threads} threads, sizes {sizes}.",
        f"## The kernel as given\n{fenced(desk.kernel)}",
        f"## The moves\n{moves}",
        f"## State #{len(desk.trace.moves)}, after the moves that are legal; tools take the number of a state, "
        f"which is how many moves were made\n{fenced(desk.trace.kernel)}",
    ]
    if task.kind == "diagnose":
        card = desk.profile(desk.trace)
        parts += [] if card is None else [f"## What was measured of it\n{card}"]
    return "\n\n".join(parts)
