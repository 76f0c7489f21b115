"""Players that are scripts, in the place of a language model: one reads what became of its plans, the other does
not. Both see the same questions, plan with the same moves, and are tried as often."""

from __future__ import annotations

import json
import re
from random import Random

from dojoir.llm.models.exchange import Question, Reply, ToolCall

_TRY = re.compile(
    r"^#(\d+) from #(\d+): (.*): (?:([\d.e+]+)x \(([\d.e+-]+) to ([\d.e+-]+)\) as fast as #\d+, .*|.*)$", re.M
)
_CARD = re.compile(r"^legal moves that address it: (.*)$", re.M)
_MOVE = re.compile(r"^(\d+) (\w+)\((.*)\): about ", re.M)

SURE = 1.02
"""A gain that is more than noise."""


def _family(move: str) -> str:
    return move.partition("(")[0]


class Player:
    """A script that draws its plans by a seed."""

    name = "script"

    def __init__(self, seed: str) -> None:
        self.rng = Random(seed)

    def ask(self, question: Question, seconds: float) -> Reply:
        """The plans."""
        text, facts = question.messages[0].text, question.facts
        moves = [(number, f"{name}({rest})") for number, name, rest in _MOVE.findall(text)]
        plans = self.plans(text, moves, facts["state"], facts["plans"])
        arguments = json.dumps({"plans": plans, "reflection": self.reflection(text)})
        return Reply("", (ToolCall("c", "answer", arguments),), "tools", 10, 10)

    def plans(self, text: str, moves: list[tuple[str, str]], state: int, count: int) -> list[dict[str, object]]:
        """One listed move each, from the state of the question, whatever is told of the tries."""
        chosen = self.rng.sample(moves, min(count, len(moves)))
        return [{"from": state, "steps": [number], "expect": 1.05, "why": "drawn"} for number, _ in chosen]

    def reflection(self, text: str) -> str:
        """Nothing."""
        return ""


class Deaf(Player):
    """Goes on from the last state that it made, whatever it was worth."""

    def plans(self, text: str, moves: list[tuple[str, str]], state: int, count: int) -> list[dict[str, object]]:
        made = [int(number) for number, *_ in _TRY.findall(text)]
        last = max(made, default=0)
        found = super().plans(text, moves, state, count)
        names = dict(moves)
        return [{**one, "from": last, "steps": [names[one["steps"][0]]]} for one in found]  # type: ignore[index]


class Reader(Player):
    """Goes on from the fastest state of the tries: first with the moves that its card says address what bounds it,
    then with families that have gained for sure, and never with one that gained nothing twice."""

    def plans(self, text: str, moves: list[tuple[str, str]], state: int, count: int) -> list[dict[str, object]]:
        gains: dict[str, list[tuple[float, float]]] = {}
        tried = set()
        for _, of, steps, _, low, high in _TRY.findall(text):
            gains.setdefault(_family(steps), []).append((float(low or 0), float(high or 0)))
            if int(of) == state:
                tried.add(steps)
        shown = text.partition("## Tries so far")[0].partition(", the best so far")[0]
        by_card = [move for found in _CARD.findall(shown) for move in found.split("; ")]
        fresh = [*dict.fromkeys([*by_card, *(move for _, move in moves)])]

        def worth(move: str) -> tuple[bool, bool, float]:
            known = gains.get(_family(move), [])
            hopeless = len(known) >= 2 and max(high for _, high in known) <= SURE
            return not hopeless, move in by_card, max((low for low, _ in known), default=SURE)

        chosen: list[str] = []
        for move in sorted((one for one in fresh if one not in tried), key=worth, reverse=True):
            if sum(_family(one) == _family(move) for one in chosen) < 2:
                chosen.append(move)
        return [{"from": state, "steps": [move], "expect": SURE, "why": "it gained"} for move in chosen[:count]]

    def reflection(self, text: str) -> str:
        return f"{text.count(': confirmed')} confirmed, {text.count(': falsified')} falsified"


class Follower(Player):
    """Takes what the question says is fastest by the estimates, from whatever state it is about, and reads nothing
    else. With `stop` where nothing is said to gain."""

    def ask(self, question: Question, seconds: float) -> Reply:
        facts = question.facts
        best = sorted(facts["estimates"].items(), key=lambda one: -one[1])[: facts["plans"]]
        plans = [
            {"from": facts["state"], "steps": [number], "expect": min(ratio, 1.05), "why": "it is estimated"}
            for number, ratio in best
        ]
        said = json.dumps({"plans": plans, "reflection": "", "stop": not plans})
        return Reply("", (ToolCall("c", "answer", said),), "tools", 10, 10)
