"""Instructions that a group of threads executes together: where they are, and whose each element is.

A scope that is one (`use`) is warp code: all lanes of a group come to it, and each has its share of the operands
that the instruction spreads, in registers. What it reads of shared memory, all of them read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from dojoir.codegen.target import Target
from dojoir.ir.affine import Affine
from dojoir.ir.instruction import Instruction, Use
from dojoir.ir.nodes import Access, Kernel, Node, Path, Scope
from dojoir.ir.places import ancestors
from dojoir.ir.words import BLOCK
from dojoir.support.frozen import dataclass
from dojoir.types.recognise import InstructionFit, recognise


@dataclass(frozen=True)
class GroupInstruction:
    """An instruction that the lanes of a group execute, and its operands."""

    instruction: Instruction
    fit: InstructionFit

    def digits(self, buffer: str) -> Mapping[int, int]:
        """The dimensions of a buffer that say which lane has an element, each with how much it counts."""
        found: dict[int, int] = {}
        for name, operand in self.fit.operands.items():
            if operand.access.buffer == buffer and operand.group:
                counts = 1
                extents = [dim.extent.offset for dim in self.instruction.operands[name].dims]
                for dim, extent in reversed([*zip(operand.group, extents, strict=False)]):
                    found[dim] = counts
                    counts *= extent
        return found

    def lane(self, access: Access) -> Affine | None:
        """The number of the lane that has an element, in the iterators around; None for one that all read."""
        digits = self.digits(access.buffer)
        number = Affine.constant(0)
        for dim, counts in digits.items():
            index = access.indices[dim]
            assert isinstance(index, Affine)
            number = number + index * counts
        return number if digits else None


def groups_of(kernel: Kernel, warp: int) -> dict[Path, GroupInstruction]:
    """The scopes that are instructions of a group of `warp` threads, or of four warps: in block scopes, with no
    lanes around."""
    return {
        path: GroupInstruction(*found)
        for path, scope in kernel.walk()
        if (found := _used(kernel, path, scope, warp))
    }


def has_proxy(groups: Mapping[Path, GroupInstruction], inside: Callable[[Path], bool]) -> bool:
    """Whether an instruction somewhere inside reads shared memory by the asynchronous proxy."""
    return any(group.instruction.proxied and inside(path) for path, group in groups.items())


def _used(kernel: Kernel, path: Path, node: Node, warp: int) -> tuple[Instruction, InstructionFit] | None:
    instruction = group_instruction(node)
    if instruction is None or instruction.group not in (warp, 4 * warp):
        return None
    marks = {mark for around in ancestors(kernel, path) if isinstance(around, Scope) for mark in around.marks}
    fit = recognise(kernel, path, instruction)
    return (
        (instruction, fit)
        if isinstance(fit, InstructionFit) and marks.intersection(BLOCK) and "lane" not in marks
        else None
    )


def group_instruction(node: Node) -> Instruction | None:
    """The instruction of a group of threads that a scope is to be, if one."""
    hints = node.hints if isinstance(node, Scope) else ()
    used = (hint.instruction for hint in hints if isinstance(hint, Use))
    return next((instruction for instruction in used if instruction.group > 1), None)


def as_spelled(kernel: Kernel, target: Target) -> Kernel:
    """The kernel without the hints for instructions of groups that a target has no words for, or that no group of
    threads comes to: those scopes run as any other."""
    groups = groups_of(kernel, target.warp)
    for path, node in kernel.walk():
        instruction = group_instruction(node)
        if instruction is not None and not (path in groups and target.spells(instruction)):
            assert isinstance(node, Scope)
            kernel = kernel.replace_node(path, replace(node, hints=()))
    return kernel


def inside(groups: Mapping[Path, GroupInstruction], path: Path) -> GroupInstruction | None:
    """The instruction that a node is part of, if one."""
    return next((group for at, group in groups.items() if path[: len(at)] == at), None)


def paths_in(groups: Mapping[Path, GroupInstruction], path: Path) -> Iterator[Path]:
    """The instructions inside of a node."""
    return (at for at in groups if at[: len(path)] == path)
