"""Conditions on data that a loop asks once, before it begins, and not in each iteration.

Every statement in the loop must have them, but for those that give values to temporaries of an iteration, which the
others use. One that says the same in each iteration goes around the loop; one that bounds the iterator by a length,
`{1} < i64(rows[{0}])`, is where it ends. It holds in all iterations before that, and in none behind. What is asked
must neither change while the loop runs nor be able to fail, and one of the statements must surely ask for it in the
first iteration. Nor may a condition on its left be able to fail: that is asked first, also where what is behind it
does not hold. Where nothing asks, an element need not exist. On a GPU the loop is one of a single thread, or one
of a whole block that asks inputs alone: all its threads have the same answer, and meet at its barriers as often.
"""

from __future__ import annotations

from itertools import takewhile

from dojoir.codegen.lower.access.state import LoweringState, LoweringUnit
from dojoir.codegen.lower.access.touched import is_sure
from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import I64
from dojoir.ir.nodes import Path, Scope
from dojoir.ir.paths import is_inside
from dojoir.ir.places import scopes_around
from dojoir.sets.failing import inside, may_fail
from dojoir.support.frozen import dataclass
from dojoir.types.typed import Apply, Convert, IndexValue, Load, Number, Typed
from dojoir.types.typed_parts import typed_parts


@dataclass(frozen=True)
class Once:
    """The checks before the loop of a scope: `around` holds where it runs, each of `lengths` (i64) bounds how
    often. Statements need not ask for `settled`. `statement` is the path of one that asks."""

    around: tuple[Typed, ...]
    lengths: tuple[Typed, ...]
    settled: frozenset[Typed]
    statement: Path


def asked_once(unit: LoweringUnit, path: Path, scope: Scope, state: LoweringState) -> Once | None:
    """The checks before the loop of a scope; None where there are none."""
    device = state.device
    if device is None and unit.target.warp:  # the host has no arrays to ask
        return None
    if state.lanes is not None or (device is not None and (device.level == "warp" or "v" in scope.marks)):
        return None
    of_block = device is not None and device.level == "block"
    all_inside = [own for own in unit.typed if is_inside(own, path)]
    inside = [own for own in all_inside if unit.typed[own].condition is not None or not _is_idle(unit, own, path)]
    sure = next((own for own in inside if is_sure(unit.kernel, own, path, state, runs=True)), None)
    if sure is None:
        return None
    first, *others = (_asked_first(unit, own) for own in inside)
    shared = [part for part in first if part not in state.settled and all(part in other for other in others)]
    shared = [part for part in shared if not of_block or _asks_inputs(unit, part)]
    depth = len(state.iterators)
    written = frozenset(unit.typed[own].target.buffer for own in all_inside)
    around = tuple(part for part in shared if _stays(part, depth, written))
    lengths: dict[Typed, Typed] = {}
    for part in shared:
        match part:
            case Apply(_, "lt", (IndexValue(index), length)) if "u" not in scope.marks and length.dtype == I64:
                if index == Affine.iterator(depth) and _stays(length, depth, written):
                    lengths[part] = length
    if not around and not lengths:
        return None
    return Once(around, tuple(lengths.values()), frozenset((*around, *lengths)), sure)


def conjuncts(condition: Typed | None) -> tuple[Typed, ...]:
    """The operands of `and` in a condition; empty without a condition."""
    match condition:
        case None:
            return ()
        case Apply(_, "and", (left, right)):
            return (*conjuncts(left), *conjuncts(right))
        case _:
            return (condition,)


def _asked_first(unit: LoweringUnit, own: Path) -> tuple[Typed, ...]:
    """The operands of `and` in the condition of a statement that are reached without an error of the run, whatever
    they say: none of those up to them can fail."""
    holds = inside(scopes_around(unit.kernel, own))
    asked = conjuncts(unit.typed[own].condition)
    return tuple(takewhile(lambda part: not may_fail(part, holds), asked))


def _is_idle(unit: LoweringUnit, own: Path, path: Path) -> bool:
    """Whether a statement only gives a value to a temporary of an iteration of the scope at `path`, and cannot
    fail."""
    statement = unit.typed[own]
    home = unit.homes.get(statement.target.buffer)
    private = home is not None and home.is_variable and is_inside(home.owner, path)
    safe = not may_fail(statement.value, inside(scopes_around(unit.kernel, own)))
    return private and statement.op is None and safe


def _asks_inputs(unit: LoweringUnit, typed: Typed) -> bool:
    """Whether all that a value reads are inputs, which nobody writes."""
    return all(
        unit.buffers[part.access.buffer].role == "in" for part in typed_parts(typed) if isinstance(part, Load)
    )


def _stays(typed: Typed, depth: int, written: frozenset[str]) -> bool:
    """Whether a value is the same in all iterations of the scope at `depth`, which writes the buffers `written`."""
    match typed:
        case Number():
            return True
        case IndexValue(affine):
            return all(d < depth for d in affine.iterators)
        case Load(_, access):
            indices = [index for index in access.indices if isinstance(index, Affine)]
            known = len(indices) == len(access.indices) and access.buffer not in written
            return known and all(d < depth for index in indices for d in index.iterators)
        case Convert(_, arg):
            return _stays(arg, depth, written)
        case Apply(_, _, args):
            return all(_stays(arg, depth, written) for arg in args)
