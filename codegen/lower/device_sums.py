"""A loop on a GPU that carries sums in variables: declared before it, they go into their elements behind it.

An element goes untouched where nothing was added: the loop may not run, and what is inside of it may not. Where
statements are not sure to run, `touched` asks; for an atomic, a flag says whether one did.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.arith import compare, integer
from dojoir.codegen.lir.device import Atomic
from dojoir.codegen.lir.program import Value, Var
from dojoir.codegen.lower.access import Accesses
from dojoir.codegen.lower.conversions import convert
from dojoir.codegen.lower.plan import Accumulator
from dojoir.codegen.lower.reductions import finish, keep
from dojoir.codegen.lower.state import Block, Kept, Memory, State
from dojoir.codegen.lower.thread_sums import is_sure
from dojoir.ir.nodes import Path, Scope

if TYPE_CHECKING:
    from dojoir.codegen.lower.device import DeviceScopes

Run = Callable[[Path, Scope, State, Block], None]


def carry(scopes: DeviceScopes, path: Path, scope: Scope, state: State, block: Block, run: Run) -> None:
    """Lowers the scope at `path` by `run`, with the sums that it carries around it."""
    unit = scopes.unit
    spelled = {inner.path for accumulator in unit.carried[path] for inner in accumulator.along}
    inside, made = keep(unit, unit.carried[path], 1, state, block)
    flags: dict[int, Var] = {}
    for number, (accumulator, _) in enumerate(made):
        if _is_atomic(scopes, accumulator, state) and not is_sure(unit.kernel, path, accumulator):
            flags[number] = Var(lir.FLAG, unit.names.fresh(f"{accumulator.target.buffer}_touched"))
            block.emit(lir.Declare(flags[number], lir.Const(lir.FLAG, False)))
            scopes.touched.update(dict.fromkeys(accumulator.paths, flags[number]))
    run(path, scope, replace(inside, spelled=inside.spelled | spelled), block)
    for number, (accumulator, kept) in enumerate(made):
        stored = Block(pending=block.pending)
        _store(scopes, accumulator, kept, path, state, stored)
        some: Value | None = flags.get(number)
        if some is None and _is_atomic(scopes, accumulator, state) and (scope.extent.constant or 0) < 1:
            some = compare("gt", scopes.extent(scope.extent, state.iterators), integer(0))
        once = Block()
        once.statements.extend((lir.If(some, stored.body),) if some is not None else stored.body)
        scopes.by_one(accumulator.target.buffer, state, once, block)


def _is_atomic(scopes: DeviceScopes, accumulator: Accumulator, state: State) -> bool:
    """Whether other blocks add to the element too."""
    assert state.device is not None
    return scopes.is_atomic(accumulator.paths[0], state.device)


def _store(
    scopes: DeviceScopes, accumulator: Accumulator, kept: Kept, scope: Path, state: State, block: Block
) -> None:
    """What a sum has goes into its element: by an atomic, where other blocks add to it too. Else `finish` asks
    whether anything was added in the scope at `scope`."""
    unit, path = scopes.unit, accumulator.paths[0]
    if not _is_atomic(scopes, accumulator, state):
        finish(unit, [(accumulator, kept)], scope, state, block)
        return
    (var,) = kept.variables.values()
    where = state.places[accumulator.target.buffer]
    assert isinstance(where, Memory)
    address = Accesses(unit, state, block, path).address(accumulator.target, where)
    total = convert(unit, accumulator.dtype, unit.typed[path].dtype, var)
    block.emit(Atomic(accumulator.op, where.array, address.offset, total))
