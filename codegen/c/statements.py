"""Statements of a lowered program as lines of C."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import TypeGuard

from dojoir.codegen.c.c_values import CValues
from dojoir.codegen.c.precedence import Precedence, Text, comment, indent
from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.outcome import OUT_OF_MEMORY
from dojoir.codegen.lir.program import (
    Allocate,
    Comment,
    Const,
    Declare,
    Fail,
    For,
    If,
    Let,
    Parallel,
    ProgramArray,
    Stmt,
)
from dojoir.codegen.lir.walk import statements
from dojoir.support.frozen import dataclass

CACHE_LINE = 64
"""Bytes to which a heap array is aligned that asks for nothing."""

_MOST_UNROLLED = 65534  # what GCC takes in its pragma

STACK_ALIGN = 64
"""The alignment of an array on the stack, in bytes. gcc 12 takes such arrays to be aligned for its vectors without
seeing to it, unless it is told: it stores with vmovaps to a frame that is aligned to 16."""


@dataclass(frozen=True)
class BlockContext:
    """The context of a block: the heap arrays to free before the function may return early, and whether its
    iterations run at the same time (`shared`), so that nothing may leave it."""

    held: tuple[str, ...] = ()
    shared: bool = False


@dataclass(frozen=True)
class CStatements:
    """Prints statements; those without any effect, such as a loop that computes what nothing reads, are left
    out. `worst` is the highest status that the variable `status` can get; 0: there is none."""

    values: CValues
    worst: int = 0

    def block(self, body: Sequence[Stmt], around: BlockContext, spaced: bool = False) -> Iterator[str]:
        """The lines of a block, without its braces. `spaced` is for that of the function: it sets loops
        off with empty lines, and returns the status at its end."""
        before: Stmt | None = None
        for at, stmt in enumerate(body):
            if is_heap(stmt):
                yield from self._with_arrays(body[at:], around, spaced)
                return
            lines = list(self._statement_lines(stmt, around))
            if spaced and lines and before is not None and _has_empty_line(before, stmt):
                yield ""
            yield from lines
            if isinstance(stmt, Parallel) and not around.shared and (not spaced or body[at + 1 :]):
                yield from self._stop_without_memory(stmt, around)
            before = stmt if lines else before

    def _statement_lines(self, stmt: Stmt, around: BlockContext) -> Iterator[str]:
        live = self.values.usage.live
        match stmt:
            case Let(var, value) if var.name in live:
                yield f"const {self._declared(var)} = {self._assigned(var, value)};"
            case Declare(var, value) if var.name in live:
                yield f"{self._declared(var)} = {self._assigned(var, value)};"
            case lir.Assign(var, value) if var.name in live:
                target = self.values.text(var)
                positional = var.name in self.values.usage.positions
                update = self.values.update(target, var, value, positional)
                yield f"{update or f'{target} = {self._assigned(var, value)}'};"
            case Let() | Declare() | lir.Assign():
                return
            case lir.Store():
                yield from self._store(stmt)
            case lir.Stream():
                yield from self._stream(stmt)
            case lir.Fence():
                yield "stream_fence();"
            case lir.Prefetch():
                yield self._prefetch(stmt)
            case lir.Instruct():
                yield from self._instruct(stmt, around)
            case Allocate(array):
                yield from self._local(array)
            case For():
                yield from self._for(stmt, around)
            case Parallel():
                yield from self._parallel(stmt)
            case If():
                yield from self._if(stmt, around)
            case Fail(condition, status):
                yield self._record(self.values.text(condition, True), status)
            case Comment(text):
                yield comment(text)

    # -- variables and elements ---------------------------------------------------------------------------
    def _declared(self, var: lir.Var) -> str:
        return f"{self.values.spelling.type(var.type)} {self.values.names[var.name]}"

    def _assigned(self, var: lir.Var, value: lir.Value) -> Text:
        return self.values.text(value, var.name in self.values.usage.positions)

    def _store(self, store: lir.Store) -> Iterator[str]:
        target = self.values.place(store.buffer, store.offset)
        old = lir.Load(store.value.type, store.buffer, store.offset)
        line = self.values.update(target, old, store.value, False) or f"{target} = {self.values.text(store.value)}"
        guard = "" if store.mask is None else f"if ({self.values.text(store.mask)}) "
        yield f"{guard}{line};"

    def _stream(self, stream: lir.Stream) -> Iterator[str]:
        target, source = self.values.place(stream.buffer, stream.offset), self.values.names[stream.source]
        count = self.values.text(stream.elements, True)
        yield f"stream(&{target}, {source}, (size_t)({count}) * sizeof *{source});"

    def _prefetch(self, prefetch: lir.Prefetch) -> str:
        """The address may be outside of the array, which a pointer of C may not be."""
        name = self.values.names[prefetch.buffer]
        offset = self.values.text(prefetch.offset, True)
        return f"prefetch_{'write' if prefetch.write else 'read'}({name}, sizeof *{name}, {offset});"

    def _instruct(self, stmt: lir.Instruct, around: BlockContext) -> Iterator[str]:
        """As the instruction, where the compiler has it."""
        spelled: dict[str, str] = {}
        for name, operand in stmt.operands:
            if isinstance(operand, lir.Element):
                place = self.values.place(operand.buffer, operand.offset)
                spelled[name] = f"&{place}" if stmt.instruction.operands[name].dims else str(place)
            elif stmt.instruction.operands[name].dims:
                spelled[name] = f"&{self.values.text(operand)}"
            else:
                spelled[name] = self.values.text(operand).within(Precedence.PRIMARY)
        yield f"#if {stmt.instruction.when}"
        yield stmt.instruction.in_c(spelled)
        yield "#else"
        yield from self.block(stmt.otherwise, around)
        yield "#endif"

    def _record(self, condition: Text, status: int) -> str:
        """Keeps the highest status of all failures, whatever order they come in."""
        if status == self.worst:
            return f"if ({condition}) status = {status};"
        return f"if ({condition.within(Precedence.AND)} && status < {status}) status = {status};"

    def _record_always(self, status: int) -> str:
        return f"status = {status};" if status == self.worst else f"if (status < {status}) status = {status};"

    # -- arrays -------------------------------------------------------------------------------------------
    def _local(self, array: ProgramArray) -> Iterator[str]:
        assert isinstance(array.elements, Const), f"array {array.name} outside the heap has an open size"
        name = self.values.names[array.name]
        align = max(array.align, STACK_ALIGN)
        aligned = f"_Alignas({align}) " if align > array.dtype.itemsize else ""
        yield f"{aligned}{self.values.spelling.element(array.dtype)} {name}[{max(1, int(array.elements.value))}];"
        if array.name not in self.values.usage.live:
            yield f"(void){name};"

    def _on_heap(self, array: ProgramArray) -> str:
        element = self.values.spelling.element(array.dtype)
        elements = self.values.count(array.elements)
        memory = f"allocate({elements}, sizeof({element}), {max(array.align, CACHE_LINE)})"
        return f"{element} *restrict {self.values.names[array.name]} = {memory};"

    def _with_arrays(self, body: Sequence[Stmt], around: BlockContext, spaced: bool) -> Iterator[str]:
        """A block that begins with heap arrays: what follows runs with them, and they are freed at its end."""
        arrays = _leading_arrays(body)
        rest = body[len(arrays) :]
        names = [self.values.names[array.name] for array in arrays]
        yield from map(self._on_heap, arrays)
        yield f"if ({_any_missing(names)}) {{"
        if around.shared:
            yield f"    {self._record_always(OUT_OF_MEMORY)}"
            yield "} else {"
            yield from indent(self.block(rest, around))
            yield "}"
        else:
            held = (*around.held, *names)
            yield from indent(_leave(held if names[1:] else around.held))
            yield "}"
            yield from [""] if spaced else []
            yield from self.block(rest, BlockContext(held), spaced)
            yield from [""] if spaced else []
        yield from _free(names)

    # -- loops --------------------------------------------------------------------------------------------
    def _for(self, loop: For, around: BlockContext) -> Iterator[str]:
        if loop.kind == "simd":
            around = replace(around, shared=True)
        body = list(self.block(loop.body, around))
        if not body:
            return
        if loop.kind == "simd":
            yield f"#pragma omp simd{self._reductions(loop)}"
        elif loop.kind == "unroll" and (trips := _trips(loop)) is not None and 1 < trips <= _MOST_UNROLLED:
            yield f"#pragma GCC unroll {trips}"
        yield self._head(loop.var, loop.start, loop.stop, loop.step, loop.comment)
        yield from indent(body)
        yield "}"

    def _head(self, var: lir.Var, start: lir.Value, stop: lir.Value, step: int, remark: str) -> str:
        name = self.values.names[var.name]
        first = self.values.text(start, True)
        last = self.values.text(stop, True).within(Precedence.ADD)
        advance = f"{name}++" if step == 1 else f"{name} += {step}"
        head = f"for ({self._declared(var)} = {first}; {name} < {last}; {advance}) {{"
        return f"{head}  {comment(remark)}" if remark else head

    def _reductions(self, loop: For) -> str:
        clauses: dict[str, list[str]] = {}
        for op, var in loop.reductions:
            clauses.setdefault(self.values.accumulation(op, var.type), []).append(self.values.names[var.name])
        if _fails(loop.body):
            clauses.setdefault("max", []).append("status")
        return "".join(f" reduction({op} : {', '.join(names)})" for op, names in clauses.items())

    def _parallel(self, loop: Parallel) -> Iterator[str]:
        inside = BlockContext(shared=True)
        body = list(self.block(loop.body, inside))
        if not body:
            return
        status = " reduction(max : status)" if _fails((loop,)) else ""
        head = self._head(loop.var, Const(loop.var.type, 0), loop.stop, 1, loop.comment)
        if not (loop.prologue or loop.epilogue):
            yield f"#pragma omp parallel for schedule(static){status}"
            yield head
            yield from indent(body)
            yield "}"
        else:
            yield f"#pragma omp parallel{status}"
            yield "{"
            yield from indent(self._team(loop.prologue, head, body, inside))
            for stmt in loop.epilogue:
                yield from indent(self._statement_lines(stmt, inside))
            yield "}"

    def _stop_without_memory(self, loop: Parallel, around: BlockContext) -> Iterator[str]:
        """Returns after a loop in which a worker had no memory."""
        if any(map(is_heap, statements((loop,)))):
            yield f"if (status == {OUT_OF_MEMORY}) {{"
            yield from indent(_leave(around.held))
            yield "}"

    def _team(self, prologue: Sequence[Stmt], head: str, body: list[str], around: BlockContext) -> Iterator[str]:
        """The code of each worker: its own arrays, its share of the iterations. All of them must reach the loop,
        so one that has no memory passes over its share."""
        names: list[str] = []
        for stmt in prologue:
            if is_heap(stmt):
                names.append(self.values.names[stmt.array.name])
                yield self._on_heap(stmt.array)
            elif names and not isinstance(stmt, Let | Declare | Allocate | Comment):
                yield f"if (!({_any_missing(names)})) {{"
                yield from indent(self._statement_lines(stmt, around))
                yield "}"
            else:
                yield from self._statement_lines(stmt, around)
        missing = _any_missing(names)
        if names:
            yield self._record(Text(missing, Precedence.OR if names[1:] else Precedence.EQUALITY), OUT_OF_MEMORY)
        yield "#pragma omp for schedule(static)"
        yield head
        yield from [f"    if ({missing}) continue;"] if names else []
        yield from indent(body)
        yield "}"
        yield from _free(names)

    def _if(self, stmt: If, around: BlockContext) -> Iterator[str]:
        then, otherwise = list(self.block(stmt.then, around)), list(self.block(stmt.otherwise, around))
        if not (then or otherwise):
            return
        head = f"if ({self.values.text(stmt.condition, True)}) {{"
        yield f"{head}  {comment(stmt.comment)}" if stmt.comment else head
        yield from indent(then)
        if otherwise:
            yield "} else {"
            yield from indent(otherwise)
        yield "}"


def is_heap(stmt: Stmt) -> TypeGuard[Allocate]:
    """Whether a statement takes memory from the heap."""
    return isinstance(stmt, Allocate) and stmt.array.lives == "heap"


def worst_status(body: Sequence[Stmt]) -> int:
    """The highest status that a block records in `status`, instead of returning it at once; 0 if none."""
    inside = tuple(statements(tuple(body)))
    recorded = [stmt.status for stmt in inside if isinstance(stmt, Fail)]
    shared = (
        stmt for stmt in inside if isinstance(stmt, Parallel) or (isinstance(stmt, For) and stmt.kind == "simd")
    )
    if any(is_heap(inner) for stmt in shared for inner in statements((stmt,))):
        recorded.append(OUT_OF_MEMORY)
    return max(recorded, default=0)


def _fails(body: Sequence[Stmt]) -> bool:
    return any(isinstance(stmt, Fail) or is_heap(stmt) for stmt in statements(tuple(body)))


def _leading_arrays(body: Sequence[Stmt]) -> list[ProgramArray]:
    return [stmt.array for stmt in takewhile(is_heap, body) if isinstance(stmt, Allocate)]


def _any_missing(names: Sequence[str]) -> str:
    return " || ".join(f"{name} == NULL" for name in names)


def _leave(held: Sequence[str]) -> Iterator[str]:
    yield from _free(held)
    yield f"return {OUT_OF_MEMORY};"


def _free(names: Sequence[str]) -> Iterator[str]:
    return (f"free({name});" for name in reversed(names))


def _trips(loop: For) -> int | None:
    if isinstance(loop.start, Const) and isinstance(loop.stop, Const):
        return len(range(int(loop.start.value), int(loop.stop.value), loop.step))
    return None


def _has_empty_line(before: Stmt, stmt: Stmt) -> bool:
    """Whether a reader wants an empty line between two statements: around whatever has a block of its own."""
    if isinstance(before, Comment):
        return False
    return (
        isinstance(stmt, Comment)
        or isinstance(before, For | Parallel | If)
        or isinstance(stmt, For | Parallel | If)
    )
