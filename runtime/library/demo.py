"""The C program that comes with a library: it calls every kernel on small inputs and compares what it gives."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.lib.stride_tricks import as_strided

from dojoir.codegen.c.prelude import C_TYPES
from dojoir.codegen.c.symbols import symbol
from dojoir.ir.dtypes import DType
from dojoir.ir.nodes import Buffer
from dojoir.runtime.call.layout import ALIGNMENT, dense_steps, storage_shape, strides_of
from dojoir.runtime.call.scalars import scalar_argument, takes_value
from dojoir.runtime.library.text import LibraryPart
from dojoir.runtime.verification.compare import Expected
from dojoir.runtime.verification.inputs import make_inputs
from dojoir.runtime.verification.oracle import Oracle
from dojoir.runtime.verification.sample_sizes import count_instances, sample_sizes
from dojoir.runtime.verification.slack import slack_of
from dojoir.support.frozen import dataclass
from dojoir.types.rounding import FORMATS

GAP = 3
"""How many elements lie between the rows of a strided array."""

INSTANCES = 300
"""How many statements a kernel may run here."""

REFERENCE_LIMIT = 60.0
"""Seconds for one reference."""

_OFF = """\
static int is_off(double got, double want, double allowed)
{
    return allowed < INFINITY && !(fabs(got - want) <= allowed);
}
"""


def demo(name: str, parts: Sequence[LibraryPart], device: DemoDevice | None = None) -> str:
    """The program. Its inputs are drawn as `verify` draws them, its expected results and how far off each may be
    come from the reference."""
    blocks = [_kernel_part(part, device) for part in parts]
    narrow = {
        b.dtype.name: b.dtype for p in parts for b in p.kernel.arguments if b.role != "in" and _is_bits(b.dtype)
    }
    calls = " + ".join(f"check_{symbol(part.kernel.name)}()" for part in parts)
    return "\n".join(
        [
            f"// Calls every kernel of the library {name} on small inputs and compares what it gives with what the",
            "// reference gave. Exits with 0 if all is well.",
            "#include <math.h>",
            "#include <stdbool.h>",
            "#include <stdint.h>",
            "#include <stdio.h>",
            "",
            f'#include "{name}.h"',
            "",
            _OFF,
            *map(_decoder, narrow.values()),
            *blocks,
            f"int main(void)\n{{\n    return {calls} != 0;\n}}",
            "",
        ]
    )


@dataclass(frozen=True)
class DemoDevice:
    """How a demo in C++ reaches a GPU: what the words of its runtime begin with, and which kernels take a
    status."""

    runtime: str
    failing: frozenset[str]

    def memory(self, name: str, kind: str, copied: bool) -> list[str]:
        """Lines that give an array of the host one of the device."""
        made = f"wrong += {self.runtime}Malloc((void **)&gpu_{name}, sizeof arg_{name}) != {self.runtime}Success;"
        to = f"{self.runtime}Memcpy(gpu_{name}, arg_{name}, sizeof arg_{name}, {self.runtime}MemcpyHostToDevice)"
        lines = [f"{kind} *gpu_{name} = 0;", made]
        return [*lines, f"wrong += {to} != {self.runtime}Success;"] if copied else lines

    def back(self, name: str) -> str:
        """The line that copies an array back."""
        kind = f"{self.runtime}MemcpyDeviceToHost"
        copy = f"{self.runtime}Memcpy(arg_{name}, gpu_{name}, sizeof arg_{name}, {kind})"
        return f"wrong += {copy} != {self.runtime}Success;"


def device_demo(name: str, parts: Sequence[LibraryPart], device: DemoDevice, header: str, build: str) -> str:
    """The same program for kernels of a GPU, in C++: `header` is that of its runtime, `build` the line to make
    it."""
    text = demo(name, parts, device).replace("// reference gave. Exits", "// reference gave, on a GPU. Exits")
    first, _, rest = text.partition("#include <math.h>")
    rest = re.sub(r"static _Alignas\((\d+)\)", r"alignas(\1) static", rest).replace("int main(void)", "int main()")
    rest = re.sub(r"\bint64_t\b", "long long", re.sub(r"\buint64_t\b", "unsigned long long", rest))
    rest = rest.replace("<stdio.h>", f"<stdio.h>\n\n#include <{header}>", 1)
    return f"{first}// Build it: {build}\n#include <math.h>{rest}"


def _kernel_part(part: LibraryPart, device: DemoDevice | None) -> str:
    kernel = part.kernel
    sizes = max(sample_sizes(kernel, INSTANCES), key=lambda sizes: count_instances(kernel, sizes, 1 << 40))
    inputs = make_inputs(kernel, sizes, 0, "uniform")
    expected = Oracle(kernel, "c", REFERENCE_LIMIT).expected(sizes, inputs)
    slack = slack_of(kernel)
    arrays: list[str] = []
    checks: list[str] = []
    arguments: list[str] = []
    before: list[str] = []
    after: list[str] = []
    for buffer in kernel.arguments:
        if takes_value(buffer):
            number = scalar_argument(buffer, inputs[buffer.name][()])
            arguments.append(_literal(number, buffer.dtype))
            continue
        arguments.append(f"arg_{buffer.name}" if device is None else f"gpu_{buffer.name}")
        count = max(1, math.prod(storage_shape(buffer, sizes, GAP)))
        given = inputs.get(buffer.name)
        start = "" if given is None else f" = {_list(_flat(given, buffer, sizes, 0), buffer.dtype)}"
        arrays.append(
            f"static _Alignas({max(ALIGNMENT, buffer.align)}) {_c_type(buffer.dtype)} "
            f"arg_{buffer.name}[{count}]{start};"
        )
        if device is not None:
            before += device.memory(buffer.name, _c_type(buffer.dtype), given is not None)
            if buffer.role != "in":
                after.append(device.back(buffer.name))
            after.append(f"{device.runtime}Free(gpu_{buffer.name});")
        if buffer.role != "in":
            want, allowed = _asked(buffer, expected[buffer.name], slack)
            arrays.append(_doubles(f"want_{buffer.name}", _flat(want, buffer, sizes, 0), ".17g"))
            arrays.append(_doubles(f"allowed_{buffer.name}", _flat(1.01 * allowed, buffer, sizes, math.inf), ".3g"))
            got = f"arg_{buffer.name}[i]"
            got = f"number_{buffer.dtype}({got})" if _is_bits(buffer.dtype) else f"(double){got}"
            checks.append(f"for (int i = 0; i < {count}; i++)")
            checks.append(f"    wrong += is_off({got}, want_{buffer.name}[i], allowed_{buffer.name}[i]);")
    arguments += [str(sizes[name]) for name in kernel.runtime_sizes]
    arguments += map(str, dense_steps(kernel.arguments, sizes, GAP))
    mine = symbol(kernel.name)
    at = ", ".join(f"{name} = {value}" for name, value in sizes.items())
    calls = [f"int wrong = {mine}({', '.join(arguments)}) != 0;"]
    if device is not None:
        if mine in device.failing:
            arrays.append("static int arg_status[1] = {0};")
            before += device.memory("status", "int", True)
            after += [device.back("status"), "wrong += arg_status[0] != 0;", f"{device.runtime}Free(gpu_status);"]
            arguments.append("gpu_status")
        calls = ["int wrong = 0;", *before, f"wrong += run_{mine}({', '.join([*arguments, '0'])}) != 0;", *after]
    lines = [
        *([f"// {at}"] if at else []),
        *arrays,
        *calls,
        *checks,
        f'printf("{mine}: %s\\n", wrong ? "WRONG" : "ok");',
        "return wrong;",
    ]
    return "\n".join([f"static int check_{mine}(void)", "{", *(f"    {line}" for line in lines), "}", ""])


def _asked(buffer: Buffer, expected: Expected, slack: float) -> tuple[np.ndarray, np.ndarray]:
    """The expected value of each element and its tolerance, infinite where any value will do."""
    want = expected.values.astype(np.float64)
    allowed = expected.allowed(buffer.dtype, slack)
    unknown = ~np.isfinite(want) | ~np.isfinite(allowed)
    if expected.declared is not None:
        unknown |= ~np.isfinite(expected.declared)
    return np.where(unknown, 0.0, want), np.where(unknown, math.inf, allowed)


def _flat(values: np.ndarray, buffer: Buffer, sizes: Mapping[str, int], fill: float) -> np.ndarray:
    """The memory of a buffer that holds these values: its elements in the order in which they lie."""
    memory = np.full(max(1, math.prod(storage_shape(buffer, sizes, GAP))), fill, values.dtype)
    strides = tuple(step * values.itemsize for step in strides_of(buffer, sizes, GAP))
    if values.size:
        as_strided(memory, values.shape, strides)[...] = values
    return memory


def _is_bits(dtype: DType) -> bool:
    return dtype.is_float and dtype.bits < 32


def _c_type(dtype: DType) -> str:
    if _is_bits(dtype):
        return f"uint{8 * dtype.itemsize}_t"
    return "uint8_t" if dtype.kind == "b" else C_TYPES[dtype.name]


def _literal(value: float | int, dtype: DType) -> str:
    if dtype.is_float and not _is_bits(dtype):
        return str(np.float32(value)) + "f" if dtype.bits == 32 else repr(float(value))
    if dtype.name == "u64":
        return f"UINT64_C({int(value)})"
    return str(int(value)) if int(value) > -(1 << 63) else "INT64_MIN"


def _list(values: np.ndarray, dtype: DType) -> str:
    if values.dtype == np.float16:
        values = values.view(np.uint16)
    return _braces([_literal(value, dtype) for value in values.tolist()])


def _doubles(name: str, values: np.ndarray, form: str) -> str:
    words = ["INFINITY" if math.isinf(value) else format(value, form) for value in values.tolist()]
    return f"static const double {name}[{len(words)}] = {_braces(words)};"


def _braces(words: list[str]) -> str:
    lines: list[str] = []
    for word in words:
        if lines and len(lines[-1]) + len(word) < 100:
            lines[-1] += f" {word},"
        else:
            lines.append(f"        {word},")
    return "{\n" + "\n".join(lines) + "\n    }"


def _decoder(dtype: DType) -> str:
    """The number that the bits of a narrow float stand for."""
    form = FORMATS[dtype.name]
    if form.is_scale:
        return f"""\
static double number_{dtype}({_c_type(dtype)} bits)
{{
    return bits > {form.largest_bits} ? NAN : ldexp(1, bits - {-form.lowest});
}}
"""
    bits = form.precision - 1
    return f"""\
static double number_{dtype}({_c_type(dtype)} bits)
{{
    int magnitude = bits & {form.sign_bit - 1}, exponent = magnitude >> {bits};
    int significand = (magnitude & {(1 << bits) - 1}) + (exponent > 0 ? {1 << bits} : 0);
    double number = ldexp(significand, (exponent > 1 ? exponent - 1 : 0) + {form.quantum});
    return magnitude > {form.largest_bits} ? NAN : bits & {form.sign_bit} ? -number : number;
}}
"""
