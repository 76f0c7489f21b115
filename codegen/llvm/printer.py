"""The LLVM target: a lowered program as LLVM IR text, for the pass pipeline and code generator of LLVM."""

from __future__ import annotations

from dojoir.codegen.c.symbols import symbol
from dojoir.codegen.lir.outcome import OK
from dojoir.codegen.lir.program import Fence, Function, Parallel, Program, ProgramArray
from dojoir.codegen.lir.walk import statements
from dojoir.codegen.llvm import words as text
from dojoir.codegen.llvm.code import FunctionLines, Module
from dojoir.codegen.llvm.llvm_values import LlvmValues
from dojoir.codegen.llvm.statements import LlvmStatements
from dojoir.codegen.target import Target, has_vnni

X86 = ("x86_64", "i686", "i386")
"""The architectures with an instruction of their own to order stores past the caches."""


def print_llvm(program: Program, target: Target) -> str:
    """`program` as one LLVM module, with a function called `c_names.symbol(program.name)`: it takes the arguments
    (pointers, scalars by value), then the sizes as i64, and returns its status as i32. Scopes on the cores call
    `void @dojo_parallel_for(ptr body, ptr context, i64 n)`, which calls `body(context, from, to)` for chunks
    that make up [0, n)."""
    return _Printer(program, target).module_text()


class _Printer:
    """Prints the functions of one program."""

    def __init__(self, program: Program, target: Target) -> None:
        self.program, self.target = program, target
        self.x86 = target.architecture in X86
        self.module = Module()
        if target.architecture in X86 and any(isinstance(stmt, Fence) for stmt in statements(program.body)):
            self.module.fence = "call void @llvm.x86.sse.sfence()"
            self.module.declare("llvm.x86.sse.sfence", "void", "")
        self.functions = {
            function.name: quoted(f"{program.name}.{function.name}") for function in program.functions
        }
        self.outlined: list[str] = []

    def module_text(self) -> str:
        main = self._main()
        functions = [self._function(function) for function in self.program.functions]
        notes = "".join(f"; {line}\n" for line in self.program.text.rstrip().splitlines())
        attributes = "attributes #0 = { nounwind"
        if self.target.vector_bits >= 512:
            attributes += f' "prefer-vector-width"="{self.target.vector_bits}"'
        if self.target.cpu:
            attributes += f' "target-cpu"="{self.target.cpu}"'
        tail = [
            *sorted(self.module.declarations.values()),
            attributes + " }",
            "!0 = !{i32 1}",
            '!1 = !{!"branch_weights", i32 1, i32 100000}',
            "!2 = distinct !{!2, !3}",
            '!3 = !{!"llvm.loop.unroll.disable"}',
        ]
        return "\n".join([notes, *functions, *reversed(self.outlined), main, *tail]) + "\n"

    def _values(self, code: FunctionLines, fast: bool) -> LlvmValues:
        target = self.target
        vnni = has_vnni(target.features, target.vector_bits)
        vnni |= target.architecture == "aarch64" and "dotprod" in target.features
        lanes = target.vector_bits // 32 if target.dots else 0
        return LlvmValues(
            code,
            fast,
            self.x86,
            target.scales,
            lanes,
            vnni,
            target.vector_bits,
            target.registers,
            functions=self.functions,
        )

    # -- functions -------------------------------------------------------------------------------------------
    def _function(self, function: Function) -> str:
        """A function on values. Its roundings are part of it: algebra stays outside. LLVM would take a last
        operation of the function for one of the algebra around it, whose flags are on its user alone. Eight times
        what is multiplied by 2**126 became a product with 2**129, which is infinite."""
        code = FunctionLines(self.module)
        values = self._values(code, False)
        parameters = []
        for n, param in enumerate(function.params):
            values.names[param.name] = f"%.p{n}"
            parameters.append(f"{text.spelled(param.type)} %.p{n}")
        for let in function.body:
            values.names[let.var.name] = values.operand(let.value)
        result = values.operand(function.result)
        kind = text.spelled(function.result.type)
        if self.program.fast and function.result.type.dtype.is_float:
            mangled = text.mangled(function.result.type)
            result = code.call(f"llvm.arithmetic.fence.{mangled}", kind, [(kind, result)])
        code.do(f"ret {kind} {result}")
        name = self.functions[function.name]
        head = f"define internal {kind} @{name}({', '.join(parameters)}) alwaysinline #0 {{"
        return "\n".join([head, ".entry:", *code.lines, "}", ""])

    def _main(self) -> str:
        code = FunctionLines(self.module)
        values = self._values(code, self.program.fast)
        parameters = []
        by_value = {var.name: var for var in self.program.by_value}
        for n, array in enumerate(self.program.arguments):
            if array.name in by_value:
                var = by_value[array.name]
                values.names[var.name] = f"%.a{n}"
                zeroed = " zeroext" if var.type.dtype.kind == "b" else ""
                parameters.append(f"{text.spelled(var.type)}{zeroed} %.a{n}")
            else:
                parameters.append(_pointer(array, f"%.a{n}", values))
        for n, size in enumerate(self.program.sizes):
            values.names[size.name] = f"%.s{n}"
            parameters.append(f"i64 %.s{n}")
        status = code.at_entry("alloca i32", "status")
        code.entry.append(f"  store i32 {OK}, ptr {status}")
        printer = LlvmStatements(values, status, self.parallel)
        printer.whole(self.program.body)
        result = code.value(f"load i32, ptr {status}")
        code.do(f"ret i32 {result}")
        head = f"define i32 @{quoted(symbol(self.program.name))}({', '.join(parameters)}) #0 {{"
        return _definition(head, code)

    # -- scopes on the cores ---------------------------------------------------------------------------------
    def parallel(self, outer: LlvmStatements, statement: Parallel) -> None:
        """The call that runs the iterations, and the two functions that it needs: one that takes what it
        captures from a context in memory, and the body, whose pointers are parameters without aliases."""
        name = f"{self.program.name}.parallel{len(self.outlined)}"
        self.outlined.append("")
        place = len(self.outlined) - 1
        values = outer.values
        fields = [("ptr", values.arrays[array.name][0]) for array in statement.captured_arrays]
        fields += [(text.spelled(var.type), values.operand(var)) for var in statement.captures]
        fields.append(("ptr", outer.status))
        count = values.operand(statement.stop)
        context = outer.context(fields)
        values.code.module.declare("dojo_parallel_for", "void", "ptr, ptr, i64")
        values.code.do(f"call void @dojo_parallel_for(ptr @{quoted(name)}, ptr {context}, i64 {count})")
        body = self._parallel_body(f"{name}.body", statement)
        self.outlined[place] = f"{body}\n{self._parallel_entry(name, statement, fields)}"

    def _parallel_entry(self, name: str, statement: Parallel, fields: list[tuple[str, str]]) -> str:
        code = FunctionLines(self.module)
        layout = "{ " + ", ".join(kind for kind, _ in fields) + " }"
        given = []
        for n, (kind, _) in enumerate(fields):
            where = code.value(f"getelementptr inbounds {layout}, ptr %.context, i32 0, i32 {n}")
            given.append(f"{kind} {code.value(f'load {kind}, ptr {where}')}")
        body = quoted(f"{name}.body")
        code.do(f"call void @{body}({', '.join([*given, 'i64 %.from', 'i64 %.to'])})")
        code.do("ret void")
        head = f"define internal void @{quoted(name)}(ptr %.context, i64 %.from, i64 %.to) #0 {{"
        return "\n".join([head, ".entry:", *code.lines, "}", ""])

    def _parallel_body(self, name: str, statement: Parallel) -> str:
        code = FunctionLines(self.module)
        values = self._values(code, self.program.fast)
        parameters = [_pointer(array, f"%.a{n}", values) for n, array in enumerate(statement.captured_arrays)]
        for n, var in enumerate(statement.captures):
            values.names[var.name] = f"%.c{n}"
            parameters.append(f"{text.spelled(var.type)} %.c{n}")
        parameters += ["ptr %.status", "i64 %.from", "i64 %.to"]
        printer = LlvmStatements(values, "%.status", self.parallel, shared=True)
        printer.chunk(statement, "%.from", "%.to")
        code.do("ret void")
        return _definition(f"define internal void @{quoted(name)}({', '.join(parameters)}) #0 {{", code)


def _definition(head: str, code: FunctionLines) -> str:
    return "\n".join([head, ".entry:", *code.entry, "  br label %.start", ".start:", *code.lines, "}", ""])


def _pointer(array: ProgramArray, operand: str, values: LlvmValues) -> str:
    """The parameter for an array: nothing else points into it."""
    values.arrays[array.name] = (operand, array.dtype)
    align = max(array.align, array.dtype.itemsize)
    readonly = " readonly" if array.constant else ""
    return f"ptr noalias{readonly} nocapture nofree align {align} {operand}"


def quoted(name: str) -> str:
    return f'"{name}"'
