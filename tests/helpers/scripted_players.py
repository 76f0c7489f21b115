"""Players that are scripts, in the place of a language model: one reads what became of its plans, the other does
not. Both see the same questions, plan with the same moves, and are tried as often."""

from __future__ import annotations

import json
import re
from random import Random

from dojoir.llm.models.exchange import Call, Question, Reply

_TRY = re.compile(r"^#(\d+) from #(\d+): (.*): (?:([\d.]+)x \(.*\) as fast as #\d+, ([\d.e+]+)x as fast|.*)", re.M)
_MOVE = re.compile(r"^(\d+) (\w+)\((.*)\)$", re.M)


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
        return Reply("", (Call("c", "answer", arguments),), "tools", 10, 10)

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
    """Goes on from the fastest state of the tries, with the moves of families that have gained before, and never
    with one of a family that was refused or gained nothing twice."""

    def plans(self, text: str, moves: list[tuple[str, str]], state: int, count: int) -> list[dict[str, object]]:
        gains: dict[str, list[float]] = {}
        for _, _, steps, ratio, _ in _TRY.findall(text):
            gains.setdefault(_family(steps), []).append(float(ratio or 0))
        tried = {steps for _, of, steps, *_ in _TRY.findall(text) if int(of) == state}

        def worth(move: str) -> tuple[bool, float]:
            known = gains.get(_family(move), [])
            hopeless = len(known) >= 2 and max(known) <= 1.001
            return not hopeless, max(known, default=1.5)

        fresh = [(number, move) for number, move in moves if move not in tried]
        self.rng.shuffle(fresh)
        fresh.sort(key=lambda one: worth(one[1]), reverse=True)
        families: dict[str, int] = {}
        chosen = []
        for number, move in fresh:
            families[_family(move)] = families.get(_family(move), 0) + 1
            if families[_family(move)] <= 2:
                chosen.append(number)
        return [
            {"from": state, "steps": [number], "expect": 1.05, "why": "its family gained"}
            for number in chosen[:count]
        ]

    def reflection(self, text: str) -> str:
        return f"{text.count(': confirmed')} confirmed, {text.count(': falsified')} falsified"
