"""A loop on a GPU that carries sums in variables: declared before it, they go into their elements behind it, by an
atomic where other blocks add to them too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dojoir.codegen.lir.program import Value
from dojoir.codegen.lower.access.elements import Accesses
from dojoir.codegen.lower.access.state import Block, State
from dojoir.codegen.lower.plans.plan import Accumulator
from dojoir.codegen.lower.sums.collectives import in_one_step
from dojoir.codegen.lower.sums.device_protocol import DeviceLowering
from dojoir.codegen.lower.sums.reductions import finish, keep
from dojoir.ir.nodes import Path, Scope

Run = Callable[[Path, Scope, State, Block], None]


def carry(scopes: DeviceLowering, path: Path, scope: Scope, state: State, block: Block, run: Run) -> None:
    """Lowers the scope at `path` by `run`, with the sums that it carries around it."""
    unit = scopes.unit
    assert state.device is not None
    spelled = {inner.path for accumulator in unit.carried[path] for inner in accumulator.along}
    inside, made = keep(unit, unit.carried[path], 1, state, block)
    run(path, scope, replace(inside, spelled=inside.spelled | spelled), block)
    for accumulator, kept in made:
        into = _by_atomic if scopes.is_atomic(accumulator.paths[0]) else None
        once = Block(pending=block.pending)
        finish(unit, [(accumulator, kept)], path, state, once, into=into)
        scopes.by_one(accumulator.target.buffer, state, once, block)


def _by_atomic(accumulator: Accumulator, total: Value, accesses: Accesses) -> None:
    """A total goes into an element that other blocks add to as well."""
    in_one_step(accesses, accesses.unit.typed[accumulator.paths[0]], total)
