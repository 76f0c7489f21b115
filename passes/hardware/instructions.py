"""Moves that say which instruction a scope is."""

from __future__ import annotations

from collections.abc import Iterator

from dojoir.errors import DojoError
from dojoir.grammar.instructions import find_instruction, instruction_names
from dojoir.ir.instruction import Instruction, Use
from dojoir.ir.nodes import Kernel, Scope, format_path
from dojoir.ir.paths import is_inside
from dojoir.passes.base.about import AboutScope, Arguments, Here
from dojoir.passes.base.alternatives import Alternative, whole_blocks
from dojoir.passes.base.move import Move, Rewrite, Word, place_of, scopes
from dojoir.passes.hardware.marks import hint_of, hinted, without_hint
from dojoir.proof.verdict import Verdict
from dojoir.support.frozen import dataclass
from dojoir.types.recognise import InstructionFit, recognise


@dataclass(frozen=True)
class UseInstr(AboutScope, name="use_instr"):
    """Has a scope spelled as an instruction (hint `use`) by targets that have it; `dojoir.instructions.names()`
    lists them. Legal where the scope does just what the text of the instruction does: the same statements on the
    same types, as often, on elements as far apart, and nothing that is written is used twice. The text of the scope
    stays, so that its meaning is in view. The inverse is `unuse_instr`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in    x: f32[N, 16]
    ... in    w: f32[16]
    ... inout y: f32[N, 16]
    ... N
    ... | 16
    ... | | y[{0}, {1}] = fma(x[{0}, {1}], w[{1}], y[{0}, {1}])
    ... ''')
    >>> print(dojoir.apply(k, "use_instr(0.0, avx512_fmadd_ps)"))
    kernel f(N)
    in  x: f32[N, 16]
    in  w: f32[16]
    inout y: f32[N, 16]
    <BLANKLINE>
    N
    | 16 : use(avx512_fmadd_ps)
    | | y[{0}, {1}] = fma(x[{0}, {1}], w[{1}], y[{0}, {1}])
    <BLANKLINE>
    """

    instruction: Word

    def rewritten(self, at: Here[Scope]) -> Rewrite:
        try:
            hint = Use(find_instruction(self.instruction))
        except DojoError as error:
            raise at.refusal(error.diagnostic.code, error.diagnostic.message) from None
        if any(isinstance(other, Use) for other in at.node.hints):
            message = f"{self.scope} is an instruction already"
            raise at.refusal("no-change", message, f"unuse_instr({self.scope})")
        return hinted(at, hint)

    def back(self, at: Here[Scope]) -> Move:
        return UnuseInstr(at.place)

    def alternatives(self, kernel: Kernel, verdict: Verdict) -> Iterator[Alternative]:
        """A scope that runs as often as the instruction: one over blocks of so many, or one inside."""
        try:
            lanes = find_instruction(self.instruction).scope.extent.constant
        except DojoError:
            return
        at = self.found(kernel)
        path, scope, here = at.path, at.node, at.place
        for hint in scope.hints:
            yield Alternative((hint.removal(here),), str(self))
        for mark in scope.marks:
            yield Alternative((f"unmark({here}, {mark})",), str(self))
        if lanes is not None and scope.extent.constant != lanes:
            for blocks in whole_blocks(scope, path, lanes):
                yield Alternative(blocks, f"use_instr({here}.0, {self.instruction})")
        for inner, node in kernel.walk():
            if isinstance(node, Scope) and len(inner) > len(path) and is_inside(inner, path):
                yield Alternative((), f"use_instr({format_path(inner)}, {self.instruction})")
                for blocks in whole_blocks(node, inner, lanes or 1):
                    yield Alternative(blocks, f"use_instr({format_path(inner)}.0, {self.instruction})")

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        closed = [(path, scope) for path, scope in scopes(kernel) if not scope.hints and scope.extent.constant]
        library = list(_library()) if closed else []
        for path, scope in closed:
            for instruction in library:
                if _looks_like(scope, instruction) and isinstance(
                    recognise(kernel, path, instruction), InstructionFit
                ):
                    yield cls(place_of(path), Word(instruction.name))


def _library() -> Iterator[Instruction]:
    """The instructions that are found; a file that is wrong is told of when it is used."""
    for name in instruction_names():
        try:
            yield find_instruction(name)
        except DojoError:
            continue


def _looks_like(scope: Scope, instruction: Instruction) -> bool:
    """Whether a scope runs as often as that of the instruction, and has as many children."""
    other = instruction.scope
    return scope.extent == other.extent and len(scope.body) == len(other.body)


@dataclass(frozen=True)
class UnuseInstr(AboutScope, name="unuse_instr"):
    """Has a scope lowered as any other again. The inverse of `use_instr`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f()
    ... in    x: f32[16]
    ... inout s: f32
    ... 16 : use(avx512_reduce_add_ps)
    ... | s += x[{0}]
    ... ''')
    >>> print(dojoir.apply(k, "unuse_instr(0)"))
    kernel f()
    in  x: f32[16]
    inout s: f32
    <BLANKLINE>
    16
    | s += x[{0}]
    <BLANKLINE>
    """

    def rewritten(self, at: Here[Scope]) -> Rewrite:
        return without_hint(at, self._hint(at))

    def _hint(self, at: Here[Scope]) -> Use:
        return hint_of(at, Use, "use", f"{self.scope} is no instruction")

    def back(self, at: Here[Scope]) -> Move:
        return UseInstr(at.place, Word(self._hint(at).instruction.name))

    @classmethod
    def listed(cls, at: Here[Scope]) -> Arguments:
        return [()] if any(isinstance(hint, Use) for hint in at.node.hints) else []
