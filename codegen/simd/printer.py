"""The targets with intrinsics: a lowered program as C11 for one instruction set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace

from dojoir.codegen.c.precedence import Precedence, Text, comment, indent
from dojoir.codegen.c.printer import CPrinting, printed
from dojoir.codegen.c.spelling import Spelling
from dojoir.codegen.c.statements import BlockContext, CStatements
from dojoir.codegen.lir.passes import left
from dojoir.codegen.lir.program import Assign, Declare, For, Function, Let, Load, Program, Stmt, Store, Type, Var
from dojoir.codegen.lir.ranges import Range
from dojoir.codegen.lir.usage import Usage
from dojoir.codegen.lir.walk import parts_of, statements
from dojoir.codegen.simd.isa_table import Isa
from dojoir.codegen.simd.legaliser import to_instructions
from dojoir.codegen.simd.named_loads import name_loads
from dojoir.codegen.simd.pieces import STRIPS, in_pieces
from dojoir.codegen.simd.registers import in_registers
from dojoir.codegen.simd.simd_values import VectorValues
from dojoir.support.frozen import dataclass


def print_simd(program: Program, isa: Isa) -> str:
    """`program`, lowered for `isa.target`, as one C11 source file with intrinsics; as `print_c` gives it else."""
    for name, run in PASSES.items():
        program = run(program, isa)
        left(name, program)
    return printed(program, SimdDialect(Spelling(isa), isa, _carried(program)))


PASSES: Mapping[str, Callable[[Program, Isa], Program]] = {
    "pieces": in_pieces,
    "small-arrays": lambda program, _: in_registers(program),
    "instructions": to_instructions,
    "named-loads": lambda program, isa: name_loads(program, isa.least_bits),
}
"""The passes to what an instruction set has, in order."""


@dataclass(frozen=True)
class VectorStatements(CStatements):
    """Prints statements with vectors. `live_around` are the vectors that live around open strips: they have as many
    lanes as the registers hold. `kept` are those that a strip with fewer lanes must leave as they are elsewhere."""

    values: VectorValues
    live_around: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()

    def _statement_lines(self, stmt: Stmt, around: BlockContext) -> Iterator[str]:
        if self.live_around and not self.values.vl and not isinstance(stmt, For):
            for var in _vectors(stmt):
                if var.name in self.live_around:
                    vlmax = self.values.operation("vlmax", var.type)
                    yield from replace(self, values=replace(self.values, vl=vlmax.text))._statement_lines(
                        stmt, around
                    )
                    return
        if isinstance(stmt, Assign) and stmt.var.name in self.kept and stmt.var.name in self.values.usage.live:
            yield f"{self.values.names[stmt.var.name]} = {self.values.keeping_tail(stmt.var, stmt.value)};"
            return
        yield from super()._statement_lines(stmt, around)

    def _store(self, store: Store) -> Iterator[str]:
        if store.value.type.lanes == 1:
            yield from super()._store(store)
        else:
            yield self.values.store(store)

    def _for(self, loop: For, around: BlockContext) -> Iterator[str]:
        if loop.kind not in STRIPS:
            yield from super()._for(loop, around)
            return
        own = {stmt.var.name for stmt in statements(loop.body) if isinstance(stmt, Declare)}
        assigned = {
            stmt.var.name for stmt in statements(loop.body) if isinstance(stmt, Assign) and stmt.var.type.lanes > 1
        }
        inside = replace(
            self, values=replace(self.values, vl=self.values.isa.active), kept=frozenset(assigned - own)
        )
        body = list(inside.block(loop.body, around))
        if not body:
            return
        kind = next(kind for stmt in statements(loop.body) for kind in _types(stmt))
        head, first = self._strip(loop, kind)
        yield f"{head}  {comment(loop.comment)}" if loop.comment else head
        yield f"    {first}"
        yield from indent(body)
        yield "}"

    def _strip(self, loop: For, kind: Type) -> tuple[str, str]:
        """The head of a loop over strips, and what says which lanes of vectors like `kind` are at work in one."""
        values = self.values
        name = values.names[loop.var.name]
        start, stop = values.text(loop.start, True), values.text(loop.stop, True)
        wide = loop.kind == "open strips"
        if values.isa.has("below", kind):
            step = f"(int64_t){values.operation('in_register', kind)}" if wide else str(loop.step)
            end = (
                stop
                if wide
                else Text(f"{stop} - {name} < {step} ? {stop} : {name} + {step}", Precedence.CONDITIONAL)
            )
            below = values.operation("below", kind, Text(name), end)
            head = f"for (int64_t {name} = {start}; {name} < {stop}; {name} += {step}) {{"
            return head, f"const {values.isa.active_type} {values.isa.active} = {below};"
        left = f"{stop} - {name}"
        left = left if wide else f"{left} < {loop.step} ? {left} : {loop.step}"
        setvl = values.operation("setvl", kind, Text(f"(size_t)({left})"), names="n")
        return f"for (int64_t {name} = {start}, vl; {name} < {stop}; {name} += vl) {{", f"vl = (int64_t){setvl};"


def _carried(program: Program) -> frozenset[str]:
    """The vectors that open strips use and do not make."""
    found: set[str] = set()
    for loop in statements(program.body):
        if isinstance(loop, For) and loop.kind == "open strips":
            inside = tuple(statements(loop.body))
            made = {stmt.var.name for stmt in inside if isinstance(stmt, Let | Declare)}
            found |= {var.name for stmt in inside for var in _vectors(stmt)} - made
    return frozenset(found)


def _vectors(stmt: Stmt) -> Iterator[Var]:
    """The vector variables in a statement itself."""
    if isinstance(stmt, Let | Declare | Assign) and stmt.var.type.lanes > 1:
        yield stmt.var
    yield from (part for part in parts_of(stmt) if isinstance(part, Var) and part.type.lanes > 1)


def _types(stmt: Stmt) -> Iterator[Type]:
    """The types of the vectors of numbers in a statement itself, those in memory first."""
    found = [part for part in parts_of(stmt) if part.type.lanes > 1]
    found.sort(key=lambda part: not isinstance(part, Load))
    yield from (part.type for part in found if part.type.dtype.kind != "b")


@dataclass(frozen=True)
class SimdDialect(CPrinting):
    """C with the intrinsics of one instruction set. `needed` takes the helpers that the text calls."""

    isa: Isa
    live_around: frozenset[str] = frozenset()
    needed: dict[str, str] = field(default_factory=dict)

    def statements(
        self, names: Mapping[str, str], usage: Usage, ranges: Mapping[str, Range], worst: int = 0
    ) -> VectorStatements:
        vectors = VectorValues(names, usage, ranges, self.spelling, self.isa, self.needed)
        return VectorStatements(vectors, worst, self.live_around)

    def function_statements(self, names: Mapping[str, str], usage: Usage) -> CStatements:
        inside = self.statements(names, usage, {})
        return replace(inside, values=replace(inside.values, vl=self.isa.active))

    def options(self) -> str:
        return " ".join(["-std=c11 -O3", *self.isa.options, "-ffp-contract=off -fno-math-errno -fopenmp"])

    def headers(self) -> Sequence[str]:
        return (self.isa.header,)

    def helpers(self) -> Sequence[str]:
        code = "\n".join(self.needed.values())
        own = [text for name, text in self.isa.helpers.items() if name in code]
        return tuple(dict.fromkeys([*own, *self.needed.values()]))

    def parameters(self, function: Function) -> Sequence[str]:
        vectors = any(var.type.lanes > 1 for var in function.params)
        return (f"{self.isa.active_type} {self.isa.active}",) if self.isa.active and vectors else ()
