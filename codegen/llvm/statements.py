"""Statements of the lowered program as LLVM basic blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.arith import constant_value
from dojoir.codegen.lir.outcome import OUT_OF_MEMORY
from dojoir.codegen.lir.program import (
    Allocate,
    Assign,
    Binary,
    For,
    If,
    Parallel,
    ProgramArray,
    Stmt,
    Store,
    Value,
    Var,
)
from dojoir.codegen.lir.walk import statements
from dojoir.codegen.llvm import words as text
from dojoir.codegen.llvm.llvm_values import LlvmValues
from dojoir.codegen.llvm.memory import instruct, prefetch, store
from dojoir.support.frozen import dataclass

ALIGN = 64
"""Of the heap: a cache line, and the widest register."""

ON_STACK = ("stack", "reg")

MOST_ELEMENTS = 1 << 56
"""As many or more are in no memory, and the bytes of fewer can be counted."""


@dataclass
class LlvmStatements:
    """Prints statements into one function. `status` is the address of the status of the program, which other
    threads write too where it is `shared`. `heap` are the blocks of memory to free on the way out, `kept` the bits
    of each array of its own."""

    values: LlvmValues
    status: str
    parallel: Callable[[LlvmStatements, Parallel], None]
    shared: bool = False
    heap: list[str] = field(default_factory=list)
    kept: dict[str, int] = field(default_factory=dict)
    stack: dict[ProgramArray, str] = field(default_factory=dict)
    leave: str | None = None

    def whole(self, body: tuple[Stmt, ...]) -> None:
        """All statements of the function, and the label to which one that gives up goes."""
        self.block(body)
        self._end()

    def chunk(self, statement: Parallel, first: str, end: str) -> None:
        """The iterations from operand `first` below operand `end` of a scope on the cores."""
        start, stop = Var(statement.var.type, ".from"), Var(statement.var.type, ".to")
        self.values.names |= {start.name: first, stop.name: end}
        loop = For(statement.var, start, stop, 1, statement.body, comment=statement.comment)
        self.block((*statement.prologue, loop, *statement.epilogue))
        self._end()

    def _end(self) -> None:
        if self.leave is not None:
            self.values.code.do(f"br label %{self.leave}")
            self.values.code.start(self.leave)

    def block(self, body: tuple[Stmt, ...]) -> None:
        """Statements, and the end of what lives in their block."""
        mine = len(self.heap)
        for statement in body:
            self.statement(statement)
        self._free(self.heap[mine:])
        del self.heap[mine:]

    def statement(self, statement: Stmt) -> None:
        values, code = self.values, self.values.code
        match statement:
            case lir.Let(var, value):
                values.names[var.name] = values.operand(value)
            case lir.Declare(var, value):
                cell = code.at_entry(f"alloca {text.spelled(var.type)}", var.name)
                values.cells[var.name] = cell
                self._set(var, value)
            case Assign(var, value):
                self._set(var, value)
            case Store():
                store(values, statement)
            case lir.Stream():
                raise AssertionError("with vectors, what is streamed is stored from them")
            case lir.Fence():
                code.do(code.module.fence)
            case lir.Prefetch():
                prefetch(values, statement)
            case lir.Instruct():
                instruct(values, statement)
            case Allocate(array):
                values.arrays[array.name] = (self._allocate(array), array.dtype)
                if array.lives != "heap":
                    values.on_stack.add(array.name)
                    self.kept[array.name] = 8 * array.dtype.itemsize * (constant_value(array.elements) or 0)
            case For(kind="unroll"):
                self._unrolled(statement)
            case For():
                self._loop(statement)
            case Parallel():
                self.parallel(self, statement)
                self._stop_without_memory(statement)
            case If():
                self._branch(statement)
            case lir.Fail(condition, status):
                self._fail(condition, status)
            case lir.Comment(comment):
                self._note(comment)

    def context(self, fields: list[tuple[str, str]]) -> str:
        """The address of a record with these values, by type and operand."""
        code = self.values.code
        layout = "{ " + ", ".join(kind for kind, _ in fields) + " }"
        record = code.at_entry(f"alloca {layout}", "context")
        for n, (kind, operand) in enumerate(fields):
            where = code.value(f"getelementptr inbounds {layout}, ptr {record}, i32 0, i32 {n}")
            code.do(f"store {kind} {operand}, ptr {where}")
        return record

    def _note(self, comment: str) -> None:
        if comment:
            self.values.code.lines.append(f"  ; {comment}")

    def _set(self, var: Var, value: Value) -> None:
        operand = self.values.operand(value)
        self.values.code.do(f"store {text.spelled(var.type)} {operand}, ptr {self.values.cells[var.name]}")

    # -- memory ----------------------------------------------------------------------------------------------
    def _allocate(self, array: ProgramArray) -> str:
        code = self.values.code
        if array.lives in ON_STACK:
            if array not in self.stack:
                kind = f"[{constant_value(array.elements)} x {text.stored(array.dtype)}]"
                align = max(array.align, ALIGN)
                self.stack[array] = code.at_entry(f"alloca {kind}, align {align}", array.name)
            return self.stack[array]
        align = max(array.align, ALIGN)
        elements = self._elements(array.elements)
        size = code.value(f"mul i64 {elements}, {array.dtype.itemsize}")
        with_room = code.value(f"add i64 {size}, {align}")
        fits = code.value(f"icmp ult i64 {elements}, {MOST_ELEMENTS}")
        asked = code.value(f"select i1 {fits}, i64 {with_room}, i64 -1")
        code.module.declare("malloc", "noalias ptr", "i64", " nounwind")
        block = code.value(f"call noalias ptr @malloc(i64 {asked})")
        failed = code.value(f"icmp eq ptr {block}, null")
        none, some = code.new_label("no.memory"), code.new_label("memory")
        code.do(f"br i1 {failed}, label %{none}, label %{some}, !prof !1")
        code.start(none)
        self._set_status(OUT_OF_MEMORY)
        self._give_up()
        code.start(some)
        self.heap.append(block)
        last = code.value(f"getelementptr i8, ptr {block}, i64 {align - 1}")
        return code.call("llvm.ptrmask.p0.i64", "ptr", [("ptr", last), ("i64", str(-align))])

    def _give_up(self) -> None:
        """Ends the function."""
        self._free(self.heap)
        self.leave = self.leave or self.values.code.new_label("leave")
        self.values.code.do(f"br label %{self.leave}")

    def _elements(self, count: Value) -> str:
        """A number of elements: a product of sizes, and MOST_ELEMENTS where that does not fit."""
        code = self.values.code
        match count:
            case Binary(_, "mul", left, right):
                pair = "{ i64, i1 }"
                factors = [("i64", self._elements(factor)) for factor in (left, right)]
                both = code.call("llvm.smul.with.overflow.i64", pair, factors)
                product = code.value(f"extractvalue {pair} {both}, 0")
                overflow = code.value(f"extractvalue {pair} {both}, 1")
                return code.value(f"select i1 {overflow}, i64 {MOST_ELEMENTS}, i64 {product}")
        return self.values.operand(count)

    def _free(self, blocks: list[str]) -> None:
        code = self.values.code
        for block in reversed(blocks):
            code.module.declare("free", "void", "ptr nocapture", " nounwind")
            code.do(f"call void @free(ptr {block})")

    # -- control ---------------------------------------------------------------------------------------------
    def _loop(self, loop: For) -> None:
        code, values = self.values.code, self.values
        start, stop = values.operand(loop.start), values.operand(loop.stop)
        head, body, done = (code.new_label(part) for part in ("loop", "body", "done"))
        before = code.label
        self._note(loop.comment)
        code.do(f"br label %{head}")
        code.start(head)
        name = f'%"{code.fresh(loop.var.name)}"'
        after = f'%"{code.fresh(f"{loop.var.name}.next")}"'
        phi = len(code.lines)
        code.lines.append("")
        more = code.value(f"icmp slt i64 {name}, {stop}")
        code.do(f"br i1 {more}, label %{body}, label %{done}")
        code.start(body)
        values.names[loop.var.name] = name
        self.block(loop.body)
        code.do(f"{after} = add nsw i64 {name}, {loop.step}")
        code.lines[phi] = f"  {name} = phi i64 [ {start}, %{before} ], [ {after}, %{code.label} ]"
        rolled = ", !llvm.loop !2" if self._fills_registers(loop) else ""
        code.do(f"br label %{head}{rolled}")
        code.start(done)

    def _fills_registers(self, loop: For) -> bool:
        """Whether a loop stores to arrays that fit in the vector registers and take more than half of them, as the
        tile of a convolution does. Written out, its iterations would share what they read, and each value that is
        kept for the next iteration takes a register from the tile, which is then spilled."""
        stored = {stmt.buffer for stmt in statements(loop.body) if isinstance(stmt, Store)}
        bits = sum(self.kept.get(name, 0) for name in stored)
        room = self.values.register * self.values.registers
        return room // 2 < bits <= room

    def _stop_without_memory(self, parallel: Parallel) -> None:
        """Ends the program where a scope on the cores had no memory."""
        inside = (*parallel.prologue, *parallel.body)
        if not any(isinstance(s, Allocate) and s.array.lives not in ON_STACK for s in statements(inside)):
            return
        code = self.values.code
        status = code.value(f"load i32, ptr {self.status}")
        failed = code.value(f"icmp eq i32 {status}, {OUT_OF_MEMORY}")
        stop, on = code.new_label("stop"), code.new_label("on")
        code.do(f"br i1 {failed}, label %{stop}, label %{on}, !prof !1")
        code.start(stop)
        self._give_up()
        code.start(on)

    def _unrolled(self, loop: For) -> None:
        start, stop = constant_value(loop.start), constant_value(loop.stop)
        assert start is not None and stop is not None, "an unrolled loop has a constant trip count"
        self._note(loop.comment)
        for n in range(start, stop, loop.step):
            self.values.names[loop.var.name] = str(n)
            self.block(loop.body)

    def _branch(self, branch: If) -> None:
        code = self.values.code
        self._note(branch.comment)
        condition = self.values.operand(branch.condition)
        yes, done = code.new_label("then"), code.new_label("done")
        no = code.new_label("else") if branch.otherwise else done
        code.do(f"br i1 {condition}, label %{yes}, label %{no}")
        for label, body in ((yes, branch.then), (no, branch.otherwise)):
            if body or label == yes:
                code.start(label)
                self.block(body)
                code.do(f"br label %{done}")
        code.start(done)

    def _fail(self, condition: Value, status: int) -> None:
        code = self.values.code
        if condition.type.lanes > 1:
            condition = lir.Reduce("or", condition)
        wrong, on = code.new_label("fail"), code.new_label("on")
        code.do(f"br i1 {self.values.operand(condition)}, label %{wrong}, label %{on}, !prof !1")
        code.start(wrong)
        self._set_status(status)
        code.do(f"br label %{on}")
        code.start(on)

    def _set_status(self, status: int) -> None:
        """The highest of all statuses is returned, so it does not depend on which thread came first."""
        code = self.values.code
        if self.shared:
            code.do(f"atomicrmw umax ptr {self.status}, i32 {status} monotonic, align 4")
            return
        before = code.value(f"load i32, ptr {self.status}")
        highest = code.call("llvm.umax.i32", "i32", [("i32", before), ("i32", str(status))])
        code.do(f"store i32 {highest}, ptr {self.status}")
