"""Which thread of a GPU runs an iteration, and which of several threads that run the same code stores the
result."""

from __future__ import annotations

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.arith import both, compare, divide, extent_value, integer
from dojoir.codegen.lir.program import INDEX, Value
from dojoir.codegen.lower.access.state import Block, LaunchPlace, LoweringState, LoweringUnit, Memory, Place
from dojoir.codegen.lower.gpu.launches import ThreadNest, ThreadPhase
from dojoir.codegen.lower.texts.words_beside import WORD
from dojoir.errors import Diagnostic, KernelError
from dojoir.ir.nodes import Extent, Path, Scope
from dojoir.ir.where import place as place_in_text
from dojoir.types.typed import TypedStatement

THREAD = lir.ThreadNumber(INDEX)


def thread_iterators(
    unit: LoweringUnit, nest: ThreadNest, phase: ThreadPhase, state: LoweringState, block: Block
) -> tuple[tuple[Value, ...], Value | None]:
    """The iterators of a nest, which `block` gets lets for, and where this thread has an iteration (None:
    everywhere)."""
    iterators = list(state.iterators)
    of_group = phase.is_warp_code and nest is not phase.nest
    within: Value | None = None
    total, digits = phase.lanes if of_group else phase.threads, phase.digits(nest.path)
    for path, depth in zip(nest.paths, nest.depths, strict=True):
        apart, extent = digits[depth]
        scope = unit.kernel.at(path)
        assert isinstance(scope, Scope)
        number: Value = THREAD
        if apart > 1:
            number = divide("div", number, apart)
        if apart * extent < total or of_group:
            number = divide("rem", number, extent) if extent > 1 else integer(0)
        var = unit.loop_var(scope, iterators)
        block.emit(lir.Let(var, number))
        rest = tuple(bound for bound in scope.extent.bounds if not bound.is_constant)
        if rest:
            within = both(within, compare("lt", var, extent_value(Extent(rest), iterators)))
        if min(b.offset for b in scope.extent.bounds if b.is_constant) < 1:
            within = lir.Const(lir.FLAG, False)
        iterators.append(var)
    return tuple(iterators), within


def by_one(unit: LoweringUnit, buffer: str, state: LoweringState, code: Block, block: Block) -> None:
    """Emits code that writes to a buffer. Where all threads run the same code and the buffer is in memory that
    they share, only the first of them does."""
    device = state.device
    assert device is not None
    alone = device.level != "thread" and is_memory(unit, state.places[buffer])
    if alone and device.launched.threads > 1:
        block.emit(lir.If(compare("eq", own_number(device), integer(0)), code.body))
    else:
        block.statements.extend(code.statements)


def own_number(device: LaunchPlace) -> Value:
    """The number of the thread among those that run this code alike."""
    if device.level == "warp" and device.phase is not None:
        return divide("rem", THREAD, device.phase.lanes)
    return THREAD


def is_memory(unit: LoweringUnit, place: Place) -> bool:
    """Whether a buffer is in memory that other threads see."""
    return isinstance(place, Memory) and unit.arrays[place.array].lives != "stack"


def is_atomic(unit: LoweringUnit, path: Path) -> bool:
    """Whether the statement at `path` accumulates into an element that other blocks accumulate into as well, or
    other threads at an index from data."""
    statement = unit.typed[path]
    if statement.op is None or path not in unit.met:
        return False
    if statement.dtype.bits < WORD:
        raise _not_atomic(unit, path, statement)
    return True


def _not_atomic(unit: LoweringUnit, path: Path, statement: TypedStatement) -> KernelError:
    name = statement.target.buffer
    source, span = place_in_text(unit.kernel, path)
    message = (
        f"several blocks or threads accumulate into one element of {name}, of {statement.dtype.name}, and "
        f"use {name} in other ways as well: accumulate into a tmp of 4 bytes an element, and store that behind"
    )
    return KernelError(Diagnostic("no-atomic", message, span, source))
