"""Answers of tools as plain data, for a table and for a planner alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import dojoir
from dojoir.game.actions import listing
from dojoir.game.choices import choices, outcomes
from dojoir.know import exact


def of_verdict(verdict: dojoir.Verdict) -> dict[str, Any]:
    """A verdict of the checker, with the status of an answer."""
    return {"status": "ok" if verdict else "refused", "verdict": verdict.to_json()}


def explained(kernel: dojoir.Kernel, move: str) -> dict[str, Any]:
    """Why a move is legal or not: the verdict, the same in words, and the meaning of its code. Raises
    ParseError."""
    verdict = dojoir.suggest(kernel, move)
    means = [hit.document.text for hit in exact(verdict.code, kind="code")]
    return {**of_verdict(verdict), "words": str(verdict), "means": means[0] if means else ""}


LOOKED, OF_A_FAMILY = 2, 4
"""How many times as many moves are looked at as are listed, and how many of a family are listed at most, unless
there are no others."""


def moved(
    trace: dojoir.Trace, sizes: Mapping[str, int], target: str, threads: int, most: int
) -> list[tuple[str, float]]:
    """Legal moves at a state, at most `most`, each with how many times as fast the state after it is by
    `dojoir.search.estimate`: of a draw those that gain most, of no family more than OF_A_FAMILY while there are
    others. Then come those that make way for others."""
    now = dojoir.search.estimate(trace.kernel, dict(sizes), target, threads)
    drawn, _ = listing("drawn", target, threads).found(trace.kernel, LOOKED * most, 0)
    found: list[tuple[int, float, str]] = []
    counts = Counter[str]()
    after = [(str(one), one.name, trace.then(one).kernel) for one in drawn if isinstance(one, dojoir.Move)]
    rated = [
        (now / dojoir.search.estimate(one, dict(sizes), target, threads), text, name) for text, name, one in after
    ]
    for ratio, text, name in sorted(rated, key=lambda one: (-one[0], one[1])):
        found.append((counts[name] // OF_A_FAMILY, -ratio, text))
        counts[name] += 1
    return [(text, round(-ratio, 4)) for _, ratio, text in sorted(sorted(found)[:most], key=lambda one: one[1:])]


def planned(
    trace: dojoir.Trace, sizes: Mapping[str, int], target: str, threads: int, most: int, stop: object = False
) -> dict[str, Any]:
    """Passes and structures that can be applied to a state, at most `most`, the best first by
    `dojoir.search.estimate`, until `stop` is true; `left` is how many were not looked at."""
    now = dojoir.search.estimate(trace.kernel, dict(sizes), target, threads)
    found: list[tuple[float, str]] = []
    could = choices(target, threads)
    tried = 0
    for number, choice, longer in outcomes(trace, could, target, stop):
        tried = number + 1
        seconds = dojoir.search.estimate(longer.kernel, dict(sizes), target, threads)
        found.append((now / seconds if seconds else 1.0, str(choice)))
    found.sort(key=lambda one: (-one[0], one[1]))
    chosen = [{"apply": text, "about_times_as_fast": round(ratio, 4)} for ratio, text in found[:most]]
    return {"choices": chosen, "left": len(could) - tried if stop else 0}
