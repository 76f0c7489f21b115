"""Scopes on the cores: what each chunk of iterations has of its own, and what it takes from outside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.arith import extent_value
from dojoir.codegen.lir.program import Var
from dojoir.codegen.lir.walk import buffers, parts_of, statements
from dojoir.codegen.lower.access.state import Block, LoweringState, LoweringUnit, Place
from dojoir.codegen.lower.nests.lanes import LaneScopes
from dojoir.ir.nodes import Path, Scope
from dojoir.ir.paths import is_inside


class CoreScopes(LaneScopes):
    """Lowers scopes, those in lanes and on the cores among them."""

    def on_cores(self, path: Path, scope: Scope, state: LoweringState, block: Block) -> None:
        unit, depth, prologue = self.unit, len(state.iterators), Block()
        places: dict[str, Place] = {}
        for name, home in unit.homes.items():
            inside = depth < len(home.around) and is_inside(home.owner, path)
            if name not in state.places and home.lives == "heap" and not home.is_variable and inside:
                places[name] = self.allocate(home, self.lane_copies(home), prologue)
        inner = replace(state, in_parallel=True, places={**state.places, **places})
        var = unit.loop_var(scope, state.iterators)
        body = self.body(path, scope.body, replace(inner, iterators=(*state.iterators, var)))
        stop = extent_value(scope.extent, state.iterators)
        captures, arrays = captured((*prologue.statements, *body), {var.name}, unit)
        block.emit(lir.Parallel(var, stop, prologue.body, body, captures, arrays, unit.lines[path]))


def captured(
    body: tuple[lir.Stmt, ...], own: set[str], unit: LoweringUnit
) -> tuple[tuple[Var, ...], tuple[lir.ProgramArray, ...]]:
    """The variables and arrays that `body` uses and does not make."""
    read: dict[str, Var] = {}
    touched: dict[str, None] = {}
    made = set(own)
    for stmt in statements(body):
        made.update(_makes(stmt))
        touched.update(dict.fromkeys(buffers(stmt)))
        read.update({part.name: part for part in parts_of(stmt) if isinstance(part, Var)})
    variables = tuple(var for name, var in read.items() if name not in made)
    return variables, tuple(unit.arrays[name] for name in touched if name not in made)


def _makes(stmt: lir.Stmt) -> Iterator[str]:
    match stmt:
        case lir.Let(var) | lir.Declare(var) | lir.For(var=var) | lir.Parallel(var=var):
            yield var.name
        case lir.Allocate(array):
            yield array.name
