"""The function that runs the kernels of a source, for a host compiler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dojoir.codegen.c.precedence import comment, indent
from dojoir.codegen.c.printer import parameters
from dojoir.codegen.gpu.dialects import GUARD, Language
from dojoir.codegen.gpu.prelude import for_host
from dojoir.codegen.gpu.shared import dynamic_bytes
from dojoir.codegen.gpu.statements import DeviceStatements
from dojoir.codegen.lir.program import Allocate, Compare, Const, Fail, For, If, Launch, Let, Program, Stmt
from dojoir.codegen.lir.walk import statements


def signature(program: Program, names: Mapping[str, str], printer: DeviceStatements, language: Language) -> str:
    """The declaration of `run_NAME`, in the words of C: its arguments, sizes, a status where an index may be out of
    bounds, and a stream."""
    params = parameters(program, names, printer.values.spelling, "")
    params += [*(["int *status"] if is_failing(program) else []), f"{language.runtime}Stream_t stream"]
    return f"int run_{names.get(program.name, program.name)}({', '.join(params)})"


def is_failing(program: Program) -> bool:
    """Whether an index that is read from data may be out of bounds."""
    return any(isinstance(stmt, Fail) for stmt in statements(program.body))


def host_function(
    program: Program, names: Mapping[str, str], printer: DeviceStatements, language: Language
) -> Iterator[str]:
    """The lines of `run_NAME`: it takes the arguments and sizes of the program and a stream, and gives the error of
    the runtime, 0 where there is none."""
    yield GUARD
    yield from for_host("\n".join(_function(program, names, printer, language))).splitlines()
    yield "#endif"


def _function(
    program: Program, names: Mapping[str, str], printer: DeviceStatements, language: Language
) -> Iterator[str]:
    """The function itself, in the words of C."""
    run, failing = language.runtime, is_failing(program)
    yield comment(
        f"Runs {program.name} on device arrays, as part of a stream; gives the error of the runtime, or 0."
    )
    if failing:
        yield comment("`status` is an int on the device, 0 before; it says which index was out of bounds.")
    yield f'extern "C" {signature(program, names, printer, language)}'
    yield "{"
    yield from indent(_Host(names, printer, run, failing).block(program.body))
    arrays = [stmt.array.name for stmt in statements(program.body) if isinstance(stmt, Allocate) and _on_host(stmt)]
    yield from (f"    {run}FreeAsync({names[name]}, stream);" for name in arrays)
    yield f"    return (int){run}GetLastError();"
    yield "}"


def _on_host(stmt: Allocate) -> bool:
    return stmt.array.lives == "heap"


class _Host:
    def __init__(self, names: Mapping[str, str], printer: DeviceStatements, run: str, failing: bool) -> None:
        self.names, self.printer, self.run, self.failing = names, printer, run, failing

    def block(self, body: tuple[Stmt, ...]) -> Iterator[str]:
        for stmt in body:
            yield from self._statement_lines(stmt)

    def _statement_lines(self, stmt: Stmt) -> Iterator[str]:
        values = self.printer.values
        match stmt:
            case Allocate(array):
                name = self.names[array.name]
                element = values.spelling.element(array.dtype)
                size = f"({values.text(array.elements, True)}) * sizeof({element})"
                yield f"{element} *{name};"
                yield f"if ({self.run}MallocAsync((void **)&{name}, {size}, stream)) return 2;"
            case For(var, start, stop, step, body):
                name = self.names[var.name]
                first, last = values.text(start, True), values.text(stop, True)
                head = f"for (i64 {name} = {first}; {name} < {last}; {name} += {step}) {{"
                yield f"{head}  {comment(stmt.comment)}" if stmt.comment else head
                yield from indent(self.block(body))
                yield "}"
            case If(condition, then, otherwise):
                yield f"if ({values.text(condition, True)}) {{"
                yield from indent(self.block(then))
                if otherwise:
                    yield "} else {"
                    yield from indent(self.block(otherwise))
                yield "}"
            case Let(var, value):
                yield f"const {values.spelling.type(var.type)} {self.names[var.name]} = {values.text(value, True)};"
            case Launch():
                yield from self._launch(stmt)

    def _launch(self, launch: Launch) -> Iterator[str]:
        values = self.printer.values
        given = [self.names[array.name] for array in launch.captured_arrays]
        given += [self.names[var.name] for var in launch.captures]
        if any(isinstance(stmt, Fail) for stmt in statements(launch.body)):
            given.append("status")
        extents = [str(values.text(extent, True)) for extent in launch.grid]
        tests = [
            str(values.text(Compare("gt", extent, Const(extent.type, 0)), True))
            for extent, text in zip(launch.grid, extents, strict=True)
            if not text.isdigit()
        ]
        casts = ", ".join(extent if extent.isdigit() else f"(unsigned)({extent})" for extent in extents)
        dynamic = dynamic_bytes(launch, values.language)
        if dynamic:
            yield (
                f"if ({self.run}FuncSetAttribute((const void *){self.names[launch.name]}, "
                f"{self.run}FuncAttributeMaxDynamicSharedMemorySize, {dynamic})) return 1;"
            )
        call = (
            f"{self.names[launch.name]}<<<dim3({casts}), {launch.threads}, {dynamic}, stream{'>' * 3}"
            f"({', '.join(given)});"
        )
        if tests:
            yield f"if ({' && '.join(tests)})"
            yield f"    {call}"
        else:
            yield call
