"""The portable C target: a lowered program as C11 that any compiler takes and a person can read.

Lanes are left to the compiler (`#pragma omp simd`), cores to OpenMP (`#pragma omp parallel`); a compiler that
knows neither ignores both and computes the same. Nothing in the text is undefined. The only thing to ask of a
compiler is not to contract `a * b + c` on its own (`-ffp-contract=off`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from textwrap import wrap

from dojoir.codegen.c.c_values import CValues
from dojoir.codegen.c.extremes import with_extremes_by_bits
from dojoir.codegen.c.horner import in_steps
from dojoir.codegen.c.identifiers import identifiers
from dojoir.codegen.c.negation import with_negation_by_bits
from dojoir.codegen.c.precedence import WIDTH, broken, comment, indent
from dojoir.codegen.c.prelude import headers, prelude, words
from dojoir.codegen.c.spelling import Spelling
from dojoir.codegen.c.statements import BlockContext, CStatements, is_heap, worst_status
from dojoir.codegen.c.symbols import symbol
from dojoir.codegen.lir.outcome import FIRST_CHECK, OK, OUT_OF_MEMORY
from dojoir.codegen.lir.program import Binary, Declare, Function, Instruct, Program, ProgramArray
from dojoir.codegen.lir.ranges import Range, loop_ranges
from dojoir.codegen.lir.usage import Usage, usage_of, usage_of_function
from dojoir.codegen.lir.walk import all_values, parts, statements
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class CPrinting:
    """A way to print C: this one is portable. A target with intrinsics derives from it."""

    spelling: Spelling

    def statements(
        self, names: Mapping[str, str], usage: Usage, ranges: Mapping[str, Range], worst: int = 0
    ) -> CStatements:
        """The printer of a block."""
        return CStatements(CValues(names, usage, ranges, self.spelling), worst)

    def function_statements(self, names: Mapping[str, str], usage: Usage) -> CStatements:
        """The printer of the body of a function on values."""
        return self.statements(names, usage, {})

    def options(self) -> str:
        """The options for a compiler."""
        return "-std=c11 -O3 -march=native -ffp-contract=off -fno-math-errno -fopenmp"

    def headers(self) -> Sequence[str]:
        """The headers of the compiler that the text needs."""
        return ()

    def helpers(self) -> Sequence[str]:
        """The helper functions that what was printed so far calls, beside those of the prelude."""
        return ()

    def parameters(self, function: Function) -> Sequence[str]:
        """The parameters that a function on values has beside its own."""
        return ()


def print_c(program: Program) -> str:
    """`program` as one C11 source file. Its function is called `c_names.symbol(program.name)`, takes the arguments
    and sizes of the program in order, and returns its status."""
    return printed(with_extremes_by_bits(program), CPrinting(Spelling()))


def printed(program: Program, dialect: CPrinting) -> str:
    """`program` in a dialect of C."""
    program = with_negation_by_bits(program)
    names = identifiers(program)
    kernel = _kernel(program, names, dialect)
    functions = {names[function.name]: function_text(function, names, dialect) for function in program.functions}
    code = "\n".join([*called(kernel, functions), kernel])
    code = "\n".join([*dialect.helpers(), code])
    code = "\n".join(filter(None, [prelude(code), code]))
    includes = [f"#include <{header}>" for header in (*dialect.headers(), *headers(code))]
    top = [*_title(program, dialect), "", *includes, *_included(program), ""]
    if _multiplies(program):
        top += ["#if !defined(__GNUC__) || defined(__clang__)", "#pragma STDC FP_CONTRACT OFF", "#endif", ""]
    return "\n".join(piece for line in [*top, *code.splitlines()] for piece in broken(line)) + "\n"


def _multiplies(program: Program) -> bool:
    """Whether there is a product of floats that a compiler could contract into an fma."""
    return any(
        isinstance(part, Binary) and part.op == "mul" and part.type.dtype.is_float
        for value in all_values(program)
        for part in parts(value)
    )


def _included(program: Program) -> Iterator[str]:
    """The headers that the instructions of a program include, where the compiler has them."""
    found: dict[tuple[str, tuple[str, ...]], None] = {}
    for stmt in statements(program.body):
        if isinstance(stmt, Instruct):
            found[stmt.instruction.when, stmt.instruction.headers] = None
    for when, names in found:
        yield f"#if {when}"
        yield from (f"#include <{header}>" for header in names)
        yield "#endif"


def _title(program: Program, dialect: CPrinting) -> Iterator[str]:
    """The comment at the top: the kernel's declarations, what comes back, how to compile it."""
    sizes = ", ".join(size.name for size in program.sizes)
    head = program.text.partition("\n\n")[0].strip().splitlines() or [f"kernel {program.name}({sizes})"]
    yield from map(comment, head)
    yield "//"
    statuses = [f"{OK} when done"]
    if any(map(is_heap, statements(program.body))):
        statuses.append(f"{OUT_OF_MEMORY} when memory ran out")
    for n, check in enumerate(program.checks):
        statuses.append(f"{FIRST_CHECK + n} when {check}")
    yield from map(comment, wrap(f"Returns {', '.join(statuses)}.", WIDTH - 3))
    yield comment(f"Compile with: cc {dialect.options()}")


def called(code: str, functions: Mapping[str, str]) -> Iterator[str]:
    """The texts of those of the `functions` that `code` calls, each after those that it calls itself."""
    done: dict[str, str] = {}

    def visit(caller: str, text: str) -> None:
        for word in words(text):
            if word in functions and word != caller and word not in done:
                visit(word, functions[word])
                done[word] = functions[word]

    visit("", code)
    return iter(done.values())


def function_text(function: Function, names: Mapping[str, str], dialect: CPrinting) -> str:
    spelling = dialect.spelling
    usage = usage_of_function(function)
    lets = tuple(let for let in function.body if let.var.name in usage.live)
    body, result = in_steps(replace(function, body=lets))
    added = {stmt.var.name for stmt in body if isinstance(stmt, Declare)}
    usage = replace(usage, live=usage.live | added)
    printer = dialect.function_statements({**names, **{name: name for name in added}}, usage)
    given = (f"{spelling.type(var.type)} {names[var.name]}" for var in function.params)
    params = ", ".join([*given, *dialect.parameters(function)])
    lines = [
        *([comment(function.comment)] if function.comment else []),
        f"static inline {spelling.type(function.result.type)} {names[function.name]}({params or 'void'})",
        "{",
        *indent(f"(void){names[var.name]};" for var in function.params if var.name not in usage.live),
        *indent(printer.block(body, BlockContext())),
        f"    return {printer.values.text(result)};",
        "}",
        "",
    ]
    return "\n".join(lines)


def _kernel(program: Program, names: Mapping[str, str], dialect: CPrinting) -> str:
    spelling = dialect.spelling
    usage = usage_of(program)
    worst = worst_status(program.body)
    printer = dialect.statements(names, usage, loop_ranges(program), worst)
    main = list(printer.block(program.body, BlockContext(), spaced=True))
    mentioned = frozenset(words("\n".join(main)))
    given = [array.name for array in program.arguments] + [size.name for size in program.sizes]
    start = [f"(void){names[name]};" for name in given if names[name] not in mentioned]
    start += [f"int32_t status = {OK};"] if worst else []
    body = [*start, *([""] if start and main else []), *main]
    body += [*([""] if main and main[-1] == "}" else []), f"return {'status' if worst else OK};"]
    return "\n".join([_head(program, names, spelling, "restrict "), "{", *indent(body), "}"])


def declaration(program: Program) -> str:
    """The declaration of the function of a program, in words that C and C++ share."""
    return _head(program, identifiers(program), Spelling(), "") + ";"


def _head(program: Program, names: Mapping[str, str], spelling: Spelling, qualifier: str) -> str:
    return f"int32_t {symbol(program.name)}({', '.join(parameters(program, names, spelling, qualifier)) or 'void'})"


def parameters(program: Program, names: Mapping[str, str], spelling: Spelling, qualifier: str) -> list[str]:
    """The declarations of the arguments and sizes of a program."""
    by_value = {var.name: f"{spelling.type(var.type)} " for var in program.by_value}
    params = [
        f"{by_value.get(array.name) or _pointer(array, spelling, qualifier)}{names[array.name]}"
        for array in program.arguments
    ]
    return params + [f"{spelling.type(size.type)} {names[size.name]}" for size in program.sizes]


def _pointer(array: ProgramArray, spelling: Spelling, qualifier: str) -> str:
    return f"{'const ' if array.constant else ''}{spelling.element(array.dtype)} *{qualifier}"
