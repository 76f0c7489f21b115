"""Grids of any size: where there may be more blocks along an axis than a launch has, several launches, one after
the other, each told the number of its first block."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from dojoir.codegen.lir.arith import integer, smaller, sub
from dojoir.codegen.lir.program import AXES, INDEX, For, Launch, Let, Stmt, Var
from dojoir.ir.nodes import Scope


def has_room(scope: Scope, most: int) -> bool:
    """Whether a scope is known to have at most `most` iterations."""
    return scope.constant_bound is not None and scope.constant_bound <= most


def in_launches(launch: Launch, first: Mapping[int, Var], most: Sequence[int], fresh: Callable[[str], str]) -> Stmt:
    """A launch with at most `most` blocks at a time along each axis of which `first` has the variable for the
    number of the first block. Other axes are known to have room."""
    blocks = {axis: Var(INDEX, fresh(f"blocks_{AXES[axis]}")) for axis in first}
    grid = tuple(blocks.get(axis, extent) for axis, extent in enumerate(launch.grid))
    found: Stmt = replace(launch, grid=grid)
    for axis, var in reversed(list(first.items())):
        number = smaller(sub(launch.grid[axis], var), integer(most[axis]))
        found = For(var, integer(0), launch.grid[axis], most[axis], (Let(blocks[axis], number), found))
    return found
