"""Scopes that are an instruction: their operands, for targets that can spell it."""

from __future__ import annotations

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.arith import add, affine_value, integer
from dojoir.codegen.lower.access.conversions import number
from dojoir.codegen.lower.access.elements import ElementAccess
from dojoir.codegen.lower.access.state import Block, LoweringState, LoweringUnit, Memory, Variable
from dojoir.ir.affine import Affine, Iter
from dojoir.ir.instruction import Instruction, Use
from dojoir.ir.nodes import Path, Scope
from dojoir.ir.places import ancestors
from dojoir.types.recognise import InstructionFit, InstructionOperand, recognise


def instruction_of(
    unit: LoweringUnit, path: Path, scope: Scope, state: LoweringState
) -> tuple[Instruction, InstructionFit] | None:
    """The instruction that the scope at `path` is to be, if the target has it and all operands have a place."""
    for hint in scope.hints:
        if not (isinstance(hint, Use) and unit.target.spells(hint.instruction) and state.lanes is None):
            continue
        fit = recognise(unit.kernel, path, hint.instruction)
        if isinstance(fit, InstructionFit) and all(_has_place(state, o) for o in fit.operands.values()):
            return hint.instruction, fit
    return None


def _has_place(state: LoweringState, operand: InstructionOperand) -> bool:
    place = state.places.get(operand.access.buffer)
    return isinstance(place, Variable) or (isinstance(place, Memory) and place.copies == 1)


def instruct(
    unit: LoweringUnit,
    path: Path,
    state: LoweringState,
    instruction: Instruction,
    fit: InstructionFit,
    otherwise: tuple[lir.Stmt, ...],
    block: Block,
) -> None:
    """Emits the instruction on its operands; `otherwise` is the scope as it is lowered without."""
    operands: list[tuple[str, lir.Element | lir.Value]] = []
    for name, buffer in instruction.operands.items():
        operand = fit.operands[name]
        place = state.places[operand.access.buffer]
        match place:
            case Variable(var) if buffer.role == "in":
                operands.append((name, var))
            case Variable(var):
                if var.name in block.pending:
                    block.pending.remove(var.name)
                    block.emit(lir.Declare(var, number(var.type.dtype, 0)))
                operands.append((name, var))
            case Memory():
                element = _element(unit, path, place, operand, state)
                if buffer.dims or buffer.role != "in":
                    operands.append((name, element))
                else:
                    operands.append((name, ElementAccess(unit, state, block, path).load(operand.access)))
            case _:
                raise AssertionError("operands have a place")
    strides = tuple((name, operand.stride) for name, operand in fit.operands.items() if operand.stride is not None)
    block.emit(lir.Instruct(instruction, tuple(operands), otherwise, strides))


def _element(
    unit: LoweringUnit, path: Path, place: Memory, operand: InstructionOperand, state: LoweringState
) -> lir.Element:
    """The element with which an operand begins. Of one in shared memory, what goes along unrolled scopes is apart:
    the hardware adds numbers to an address."""
    scopes = [node for node in ancestors(unit.kernel, path) if isinstance(node, Scope)]
    spelled = {depth for depth, scope in enumerate(scopes) if "u" in scope.marks}
    apart = spelled if unit.kernel.buffer(operand.access.buffer).storage == "shared" else set[int]()
    rest: list[Affine] = []
    near: list[Affine] = []
    for index in operand.access.indices:
        part = Affine.constant(0)
        if isinstance(index, Affine):
            for depth in apart & index.iterators:
                part = part + Affine.iterator(depth) * index.coefficient(Iter(depth))
        near.append(part)
        rest.append(index - part if isinstance(index, Affine) else part)
    offset, behind = (
        place.layout.offset([affine_value(index, state.iterators) for index in indices]) for indices in (rest, near)
    )
    moved = any(part.terms for part in near)
    return lir.Element(place.array, add(offset, integer(-operand.ahead)), behind if moved else None)
