"""Instructions that a group of threads executes, as helper functions of the text.

Each has a twin for the harness that runs a kernel on a CPU: when all threads of the group have come, one of them
runs the text of the instruction's body on what all of them have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import prod

from dojoir.codegen.c.precedence import indent
from dojoir.codegen.gpu.dialects import TYPES
from dojoir.codegen.lir.program import Instruct, Launch, Program, Stmt
from dojoir.codegen.lir.walk import statements
from dojoir.codegen.lower.access.conversions import as_stored
from dojoir.codegen.lower.pipeline import lower
from dojoir.codegen.target import CUDA
from dojoir.ir.instruction import Instruction
from dojoir.ir.nodes import Buffer
from dojoir.support.memo import Memo

Printed = Callable[[Program, Launch, Mapping[str, str]], Iterator[str]]
"""The lines of the code of one thread, its arrays under other names."""

WORD = """\
template <class T> static __device__ inline unsigned &word(const T *a, int n)  // 4 bytes of registers
{
    return ((unsigned *)a)[n];
}
#define ptx_i8 "s8"
#define ptx_u8 "u8"
#define ptx_f8e4m3 "e4m3"
#define ptx_f8e5m2 "e5m2"
"""


def used_in(body: tuple[Stmt, ...]) -> dict[str, Instruction]:
    """The instructions of groups in some code, by name."""
    found = (stmt.instruction for stmt in statements(body) if isinstance(stmt, Instruct))
    return {one.name: one for one in found if one.group > 1}


def body_of(instruction: Instruction) -> Program:
    """The body of an instruction as a program in which one thread does it all, on dense arrays."""
    known = _bodies.get(instruction)
    if known is None:
        dense = tuple(replace(operand, strided=False) for operand in instruction.body.buffers)
        known = _bodies.put(instruction, lower(instruction.body.evolve(buffers=dense), CUDA))
    return known


_bodies: Memo[Instruction, Program] = Memo(64, of_key=True)


def helper(instruction: Instruction, printed: Printed) -> str:
    """The function that is an instruction: it takes the addresses of its operands, then how many elements apart the
    rows of those are that are strided."""
    operands = [*instruction.operands.values()]
    strided = [operand for operand in operands if operand.strided]
    params = [f"{_pointed(operand)}{operand.name}" for operand in operands]
    params += [f"int {operand.name}_stride" for operand in strided]
    params += [f"unsigned {name}_swizzle" for name in instruction.may_swizzle]
    spelled = {operand.name: operand.name for operand in operands}
    spelled |= {f"{operand.name}.stride": f"{operand.name}_stride" for operand in strided}
    spelled |= {f"{name}.swizzle": f"{name}_swizzle" for name in instruction.may_swizzle}
    numbers = [10 * int(name[3:].rstrip("af")) for name in instruction.needs]
    older = f"__CUDA_ARCH__ < {max(numbers, default=0)}"
    if any(name.endswith("a") for name in instruction.needs):
        older = f"!defined(__CUDA_ARCH_FEAT_SM{max(numbers) // 10}_ALL)"
    lines = [
        f"static __device__ inline void {instruction.name}({', '.join(params)})",
        "{",
        "#ifdef DOJOIR_HARNESS",
        *indent(_twin(instruction, printed)),
        f"#elif defined(__CUDA_ARCH__) && {older}",
        f"#error this text is for GPUs that have {', '.join(sorted(instruction.needs))}",
        "#else",
        *indent(part.strip() for part in instruction.in_cuda(spelled).split("\n")),
        "#endif",
        "}",
        "",
    ]
    return "\n".join(lines)


def _pointed(operand: Buffer) -> str:
    return f"{'const ' if operand.role == 'in' else ''}{_element(operand)} *"


def _element(operand: Buffer) -> str:
    return TYPES[as_stored(operand.dtype, CUDA).name]


def _twin(instruction: Instruction, printed: Printed) -> Iterator[str]:
    """The body on arrays of the operands, each whole: what is spread is put together, and of the result each thread
    takes what it has. What lies in shared memory is read by all."""
    site, group = f'SIMT_SITE("{instruction.name}")', instruction.group
    operands = instruction.operands.values()
    for operand in operands:
        name, count = operand.name, prod(dim.extent.offset for dim in operand.dims)
        yield f"{_element(operand)} every_{name}[{count}];"
        if name in instruction.spread:
            yield f"simt_gather<{group}>({site}, every_{name}, {name}, sizeof every_{name} / {group});"
        else:
            row = count // operand.dims[0].extent.offset
            apart = f"{name}_stride" if operand.strided else str(row)
            yield f"for (int n = 0; n < {count}; n++)"
            place = f"{name}[n / {row} * {apart} + n % {row}]"
            if name in (*instruction.swizzled, *instruction.may_swizzle):
                place = f"simt_swizzled(&{place}, {f'{name}_swizzle' if name in instruction.may_swizzle else '7'})"
            yield f"    every_{name}[n] = {f'SIMT_PROXIED({place})' if name in instruction.proxied else place};"
    program = body_of(instruction)
    (launch,) = (stmt for stmt in statements(program.body) if isinstance(stmt, Launch))
    yield f"if (simt_is_first<{group}>()) {{"
    yield from indent(printed(program, launch, {name: f"every_{name}" for name in instruction.operands}))
    yield "}"
    for operand in operands:
        if operand.role != "in":
            name = operand.name
            yield f"simt_scatter<{group}>({site}, {name}, every_{name}, sizeof every_{name} / {group});"
