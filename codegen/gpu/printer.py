"""A lowered program as one source of CUDA or HIP: its kernels, and behind a condition the function that runs
them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import partial

from dojoir.codegen.c.identifiers import identifiers
from dojoir.codegen.c.precedence import broken, comment, indent
from dojoir.codegen.c.prelude import prelude
from dojoir.codegen.c.printer import CPrinting, called, function_text
from dojoir.codegen.c.statements import BlockContext, CStatements
from dojoir.codegen.gpu.dialects import CUDA, HIP, Language, spelling
from dojoir.codegen.gpu.group_instructions import WORD, body_of, helper, used_in
from dojoir.codegen.gpu.host_code import host_function, signature
from dojoir.codegen.gpu.prelude import reworded, support, with_hardware
from dojoir.codegen.gpu.shared import alignment, bounds_of, dynamic_bytes, shared_offsets, swizzled
from dojoir.codegen.gpu.statements import DeviceStatements, DeviceValues
from dojoir.codegen.lir.program import Fail, Launch, Program
from dojoir.codegen.lir.ranges import Range, loop_ranges
from dojoir.codegen.lir.usage import Usage, usage_of
from dojoir.codegen.lir.walk import statements
from dojoir.support.frozen import dataclass

LANGUAGES: Mapping[str, Language] = {"cuda": CUDA, "hip": HIP}

_TAKEN = """
and and_eq asm bitand bitor catch class compl const_cast constexpr delete dynamic_cast explicit export friend
mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public reinterpret_cast
static_assert static_cast template this throw try typeid typename using virtual wchar_t xor xor_eq threadIdx
blockIdx blockDim gridDim warpSize dim3 float2 float4 double2 int2 int4 uint2 uint4 stream i64 u64
warp_barrier shuffle shuffle_xor shuffle_up lane_x atomic_add atomic_max
atomic_min atomic_and atomic_or atomic_xor atomic_cas swapped block_memory approx_exp2 approx_rsqrt fmaxf fminf
dot4_i8_i8 dot4_u8_u8 dot4_u8_i8 word swizzled32 swizzled64 swizzled128
"""
_WORDS = frozenset(_TAKEN.split())


@dataclass(frozen=True)
class DeviceDialect(CPrinting):
    """C++ for a GPU."""

    language: Language = CUDA
    swizzled: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def statements(
        self, names: Mapping[str, str], usage: Usage, ranges: Mapping[str, Range], worst: int = 0
    ) -> CStatements:
        return self.device_statements(names, usage, ranges, worst)

    def device_statements(
        self, names: Mapping[str, str], usage: Usage, ranges: Mapping[str, Range], worst: int = 0
    ) -> DeviceStatements:
        """The printer of a block."""
        return DeviceStatements(
            DeviceValues(names, usage, ranges, self.spelling, self.language, self.swizzled), worst
        )


def names_of(program: Program) -> Mapping[str, str]:
    """The names of the variables, arrays, functions and kernels of a program in its source."""
    taken = _WORDS | used_in(program.body).keys()
    return {own: f"{word}_" if word in taken else word for own, word in identifiers(program).items()}


def print_gpu(program: Program, name: str) -> str:
    """`program`, lowered for a GPU, as one source in the language of that name. Each launch is an `extern "C"`
    kernel; what runs them all is a function `run_NAME` for a host compiler."""
    language = LANGUAGES[name]
    launches = [stmt for stmt in statements(program.body) if isinstance(stmt, Launch)]
    exchanged = swizzled(launches)
    dialect = DeviceDialect(spelling(language), language, exchanged)
    names = names_of(program)
    usage, ranges = usage_of(program), loop_ranges(program)
    printer = dialect.device_statements(names, usage, ranges)
    short = DeviceDialect(spelling(language, short=True), language, exchanged).device_statements(
        names, usage, ranges
    )
    printers = {64: printer, 32: short}
    kernels = "\n\n".join("\n".join(_kernel(launch, names, printers[launch.index_bits])) for launch in launches)
    functions = {names[f.name]: function_text(f, names, dialect) for f in program.functions}
    used = used_in(program.body)
    plain = DeviceDialect(spelling(language), language)  # the arrays of a body have names of their own
    helpers = [helper(instruction, partial(_body_lines, plain)) for instruction in used.values()]
    for instruction in used.values():
        own = body_of(instruction)
        inner = names_of(own)
        functions |= {inner[f.name]: function_text(f, inner, plain) for f in own.functions}
    if any(re.search(r"\bword\(|\bptx_", text) for text in helpers):
        helpers = [WORD, *helpers]
    kernels = "\n".join([*helpers, kernels])
    code = "\n".join([*called(kernels, functions), kernels])
    code = "\n".join(filter(None, [prelude(code), code]))
    code = with_hardware(reworded(code), language)
    host = "\n".join(host_function(program, names, printer, language))
    top = [*_title(program, language), "", *support(code, language)]
    lines = [*top, *code.splitlines(), "", *host.splitlines()]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(piece for line in lines for piece in broken(line))) + "\n"


def _body_lines(
    dialect: DeviceDialect, program: Program, launch: Launch, arrays: Mapping[str, str]
) -> Iterator[str]:
    """The code of a launch of one thread, with other names for its arrays."""
    names = {**names_of(program), **arrays}
    printer = dialect.device_statements(names, usage_of(program), loop_ranges(program))
    yield from printer.block(launch.body, BlockContext())


def declaration(program: Program, name: str) -> str:
    """The declaration in a header of the function that runs a program lowered for a GPU, without a semicolon."""
    language = LANGUAGES[name]
    dialect = DeviceDialect(spelling(language), language)
    printer = dialect.device_statements(names_of(program), usage_of(program), loop_ranges(program))
    found = reworded(signature(program, names_of(program), printer, language))
    return re.sub(r"\bi64\b", "long long", re.sub(r"\bu64\b", "unsigned long long", found))


def _title(program: Program, language: Language) -> Iterator[str]:
    head = program.text.partition("\n\n")[0].strip().splitlines()
    yield from map(comment, head)
    yield "//"
    for n, check in enumerate(program.checks):
        yield comment(f"Status {n + 2}: {check}.")
    yield comment(f"{language.about}. Compile with: {language.compiler}")


def _kernel(launch: Launch, names: Mapping[str, str], printer: DeviceStatements) -> Iterator[str]:
    words = printer.values.spelling
    params = []
    for array in launch.captured_arrays:
        const = "const " if array.constant else ""
        restrict = "__restrict__ " if array.name in launch.alone else ""
        params.append(f"{const}{words.element(array.dtype)} *{restrict}{names[array.name]}")
    params += [f"{words.type(var.type)} {names[var.name]}" for var in launch.captures]
    if fails(launch):
        params.append("int *status")
    if launch.comment:
        yield comment(launch.comment)
    yield f'extern "C" __global__ void __launch_bounds__({bounds_of(launch)})'
    yield f"{names[launch.name]}({', '.join(params)})"
    yield "{"
    yield from indent(_shared(launch, names, printer))
    yield from indent(printer.block(launch.body, BlockContext(), spaced=True))
    yield "}"


def _shared(launch: Launch, names: Mapping[str, str], printer: DeviceStatements) -> Iterator[str]:
    """The shared arrays: declared, or parts of the memory that the launch asks for."""
    if not dynamic_bytes(launch, printer.values.language):
        yield from map(printer.array, launch.shared)
        return
    yield f"extern __shared__ __align__({alignment(launch)}) unsigned char block_memory[];"
    for array, offset in zip(launch.shared, shared_offsets(launch), strict=False):
        element = printer.values.spelling.element(array.dtype)
        yield f"{element} *const {names[array.name]} = ({element} *)(block_memory + {offset});"


def fails(launch: Launch) -> bool:
    """Whether a launch may record that the program failed."""
    return any(isinstance(stmt, Fail) for stmt in statements(launch.body))
