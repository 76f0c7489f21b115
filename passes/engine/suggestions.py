"""The nearest legal move: what would make a refused one legal, or could be made instead of it.

What may be is for each move to say (`Move.alternatives`). Few are tried, each under a small step limit, in an
order that depends on the text alone: the answer is the same on every machine, and comes in about a tenth of a
second. What is suggested does something with what was pointed at: the same buffer, or a statement of the same node.
"""

from __future__ import annotations

from dataclasses import replace

from dojoir.errors import DojoError
from dojoir.ir.nodes import Kernel, Path
from dojoir.ir.paths import is_inside, next_sibling
from dojoir.passes.base.alternatives import Alternative
from dojoir.passes.base.move import Move
from dojoir.passes.engine.catalogue import parse_move
from dojoir.passes.engine.engine import check, rewrite
from dojoir.passes.engine.located import located
from dojoir.passes.loops.siblings import SwapSiblings
from dojoir.proof.verdict import Verdict
from dojoir.support.public import public

STEP_LIMIT = 100_000
"""How many isl operations a check of one alternative may take."""

MOST_TRIED = 24
"""How many alternatives are tried; one that begins with a move that was refused before is not."""


@public
def suggest(kernel: Kernel, move: Move | str) -> Verdict:
    """As `check`; the `hint` of a refusal also names, where one is found, the nearest legal alternative: moves
    after which this one is legal, or another move in its place.

    >>> import dojoir
    >>> print(dojoir.suggest(dojoir.kernels.load("softmax"), "reuse_dims(e, 0)").hint)
    None
    >>> print(dojoir.suggest(dojoir.kernels.load("softmax"), "reuse_dims(m, 0)").hint)
    reuse_dims(m, 0) is legal after join_scopes(0, 1)
    """
    verdict = check(kernel, move)
    if verdict:
        return verdict
    try:
        wanted = located(parse_move(move) if isinstance(move, str) else move, kernel)
    except DojoError:
        return verdict
    try:
        found = _first(kernel, wanted, verdict)
    except DojoError:
        return verdict
    return verdict if found is None else replace(verdict, hint=_words(found))


def _first(kernel: Kernel, wanted: Move, verdict: Verdict) -> Alternative | None:
    """The first alternative that is legal and about what was pointed at, of those that are tried."""
    refused: set[tuple[str, ...]] = set()
    tried = 0
    for alternative in wanted.alternatives(kernel, verdict):
        if any(alternative.first[:n] in refused for n in range(1, len(alternative.first) + 1)):
            continue
        tried += 1
        if tried > MOST_TRIED:
            return None
        if _works(kernel, wanted, alternative, refused):
            return alternative
    return None


def _works(kernel: Kernel, wanted: Move, alternative: Alternative, refused: set[tuple[str, ...]]) -> bool:
    """Whether an alternative is legal, and does something with what was pointed at. `refused` gains the beginning
    of it that is not legal."""
    at = _pointed_at(kernel, wanted)
    for n, text in enumerate(alternative.first, 1):
        try:
            done = rewrite(kernel, text, step_limit=STEP_LIMIT)
        except DojoError:
            refused.add(alternative.first[:n])
            return False
        at = {k for k, origin in enumerate(done.instances.origins) if origin is not None and origin.site in at}
        kernel = done.kernel
    try:
        instead = parse_move(alternative.then)
        about_it = not at or not at.isdisjoint(_pointed_at(kernel, instead))
        return about_it and bool(check(kernel, instead, STEP_LIMIT))
    except DojoError:
        return False


def _pointed_at(kernel: Kernel, move: Move) -> set[int]:
    """The statements, by number, in the nodes that a move names: those of its last place, which of a nest is the
    innermost; none where it names no node."""
    places: list[Path] = [kernel.path(place) for place in move.places()]
    if isinstance(move, SwapSiblings):
        places += list(map(next_sibling, places))
    elif move.name != "join_scopes":
        places = places[-1:]
    return {k for k, site in enumerate(kernel.sites) if any(is_inside(site.path, p) for p in places)}


def _words(alternative: Alternative) -> str:
    if not alternative.first:
        return f"{alternative.then} is legal"
    return f"{alternative.then} is legal after {', then '.join(alternative.first)}"
