"""Instructions: a subtree of this language, and how targets spell it. Each is a file (`dojoir.instructions`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field

from dojoir.errors import Span
from dojoir.ir.hints import Hint
from dojoir.ir.nodes import Buffer, Kernel, Scope
from dojoir.support.derived import cached_property
from dojoir.support.frozen import dataclass

_OPERAND = re.compile(r"\{(\w+)(\.stride|\.swizzle)?\}")


@dataclass(frozen=True)
class LlvmCall:
    """How LLVM spells an instruction: `result = kind @function(arguments)`. An argument is a type with the name of
    an operand, or (second) with a constant. The operands are loaded and the result is stored as those types."""

    result: str
    kind: str
    flags: str
    function: str
    arguments: tuple[tuple[str, str, bool], ...]
    """Type, operand or constant, and whether it is an operand."""


@dataclass(frozen=True)
class Instruction:
    """`body` is a kernel that consists of one scope and has the operands as its arguments: arrays are passed by
    their address, scalars by value, a scalar that is written as a place. Its `fp` mode is the freedom that the
    instruction takes: it may stand for the body in kernels that allow as much.

    `needs` are the features of the machine by LLVM's names, `when` the condition of the C preprocessor under which
    a compiler has it, `headers` what it includes. `c` is C with `{operand}` for the operands, `llvm` an LLVM call.

    Where `group` is more than 1, so many threads of a GPU do it together. Of each operand in `spread`, a thread has
    in registers what its first indices say (`digits`); those in `shared` lie in the memory of the block. `cuda` is
    what a thread does: there `{operand}` is the address of its first element, and `{operand.stride}` how many
    elements apart the rows of a strided one are. `needs` is then the architecture from which on GPUs have it, as
    `sm_80`. Operands in `proxied` are read by the asynchronous proxy of the memory: it sees what a thread has
    written there behind a fence of that thread. Of those in `swizzled`, chunks are exchanged in rows of 128 bytes;
    where `cuda` has `{operand.swizzle}`, they may be: it is a mask of the numbers of chunks, 0 if none are.
    """

    body: Kernel
    needs: frozenset[str]
    when: str
    headers: tuple[str, ...]
    c: str | None
    llvm: LlvmCall | None
    group: int = 1
    spread: frozenset[str] = frozenset()
    shared: frozenset[str] = frozenset()
    cuda: str | None = None
    proxied: frozenset[str] = frozenset()
    swizzled: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        return self.body.name

    @property
    def scope(self) -> Scope:
        """The scope that the body consists of."""
        (scope,) = self.body.body
        assert isinstance(scope, Scope)
        return scope

    @cached_property
    def operands(self) -> Mapping[str, Buffer]:
        """The operands by name, in declared order."""
        return {buffer.name: buffer for buffer in self.body.buffers}

    def digits(self, operand: Buffer) -> int:
        """How many of the first dimensions of an operand say which thread of the group has an element: so many as
        there are threads, the last of them counting by one. 0 of one that is not spread."""
        threads, count = 1, 0
        while operand.name in self.spread and threads < self.group and count < len(operand.dims):
            threads *= operand.dims[count].extent.offset
            count += 1
        return count if threads == self.group else 0

    @cached_property
    def may_swizzle(self) -> tuple[str, ...]:
        """The operands that may be swizzled or not: its text asks."""
        return tuple(name for name in self.operands if self.cuda and f"{name}.swizzle" in operands_in(self.cuda))

    def in_c(self, spelled: Mapping[str, str]) -> str:
        """The C statement, given the text of each operand."""
        assert self.c is not None
        text = _filled(self.c, spelled)
        return text if text.endswith((";", "}")) else f"{text};"

    def in_cuda(self, spelled: Mapping[str, str]) -> str:
        """What a thread of the group does, given the text of each operand, and as `NAME.stride` how many elements
        apart the rows of a strided one are."""
        assert self.cuda is not None
        return _filled(self.cuda, spelled)


def _filled(template: str, spelled: Mapping[str, str]) -> str:
    return _OPERAND.sub(lambda found: spelled["".join(filter(None, found.groups()))], template)


def operands_in(template: str) -> set[str]:
    """The names in braces in a template, with `.stride` where that is asked for."""
    return {"".join(found) for found in _OPERAND.findall(template)}


@dataclass(frozen=True)
class Use(Hint):
    """This scope is an instruction: a target that has it spells it so, any other lowers the scope as usual."""

    instruction: Instruction
    loc: Span | None = field(default=None, compare=False, repr=False)

    @property
    def about(self) -> str:
        """The subject of the hint: a scope has no two hints on one subject."""
        return "use"

    def removal(self, place: str) -> str:
        """The move that takes the hint off the scope at a place."""
        return f"unuse_instr({place})"

    def renamed(self, names: Mapping[str, str]) -> Use:
        """The hint with buffers renamed: it names none."""
        return self

    def __str__(self) -> str:
        return f"use({self.instruction.name})"
