"""Results of a tile, kept in registers while they are summed up."""

from __future__ import annotations

from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.facts.strides import sites_in
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.spots import Spot, act, move
from dojoir.passes.storage.layout import PlaceBuffer
from dojoir.passes.storage.staging import Stage


def keep_results(trace: Trace, around: Spot, buffer: str) -> str:
    """Keeps what a scope sums up in `buffer` in registers, and stores it behind the scope; where it adds to what
    another nest gave, it loads that first. Returns the name of the copy. Raises IllegalMove where a move is
    refused."""
    name = fresh_name(trace.kernel, f"{buffer}_tile")
    statements = [site.statement for site in sites_in(trace.kernel, around.path)]
    given = any(one.target.buffer == buffer and one.accumulation is None for one in statements)
    if not given or not tried(trace, move(Stage, around, buffer, name, "out")):
        act(trace, Stage, around, buffer, name, "inout")
    act(trace, PlaceBuffer, name, "reg")
    return name
