"""Kernels that accumulate at indices from data, in every type and by every operator, as threads of a GPU run them
or in plain loops; and data for them."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from random import Random

import numpy as np
import numpy.typing as npt
from agreement import random_arguments, random_factors

from dojoir.ir.dtypes import DTYPES
from dojoir.ir.nodes import Kernel

FLOATS = ("f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2", "f4e2m1", "f8e8m0")
TYPES = (*FLOATS, "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8", "bool")
NARROW = tuple(name for name in TYPES if DTYPES[name].bits < 32)
BITS = ("|=", "&=", "^=")
ROWS = 5
"""The elements of a drawn result along the dimension that data index; no datum is the last of them."""

SCOPES = (
    ("5 : gx", "37 : bx"), ("5 : gx", "4 : by", "16 : bx"), ("3 : gx", "2", "32 : bx"), ("40 : bx",),
    ("3 : gx", "4 : bx", "32 : lane"), ("6 : gx",), ("2 : gx", "8 : bx", "3"), ("2", "2 : gx", "9 : bx"), ("30",),
)  # fmt: skip


def operators(dtype: str) -> tuple[str, ...]:
    """The operators that accumulate in a type."""
    if dtype == "bool":
        return BITS
    return ("+=", "*=", "max=", "min=", *(() if dtype in FLOATS else BITS))


def every_operator(dtype: str, threads: bool) -> str:
    """A kernel with a nest for each operator of a type, by blocks and threads or in plain loops, of any size."""
    results = range(len(operators(dtype)))
    nests = []
    for n, op in zip(results, operators(dtype), strict=True):
        at, inner = ("32*{0} + {1}", "{2}") if threads else ("{0}", "{1}")
        condition = f" if at[{at}] != 2" if n % 3 == 1 else ""
        line = f"h{n}[at[{at}], {inner}] {op} x[{at}, {inner}]{condition}\n"
        outer = ("(N + 31) // 32 : gx", "min(32, N - 32*{0}) : bx") if threads else ("N",)
        nests += ["| " * depth + scope + "\n" for depth, scope in enumerate((*outer, "3"))]
        nests.append("| " * (len(outer) + 1) + line)
    declared = "".join(f"inout h{n}: {dtype}[B, 3]\n" for n in results)
    return f"kernel every(N, B)\nin at: i32[N]\nin x: {dtype}[N, 3]\n{declared}\n{''.join(nests)}"


def scattered_text(random: Random, types: tuple[str, ...] = TYPES) -> str:
    """A nest under marks of a GPU, or none, with a few accumulations by one operator at data and beside it."""
    dtype = random.choice(types)
    op = random.choice(operators(dtype))
    scopes = random.choice(SCOPES)
    extents = [int(scope.split()[0]) for scope in scopes]
    at = "0"
    for depth, extent in enumerate(extents):
        at = f"{extent}*({at}) + {{{depth}}}" if at != "0" else f"{{{depth}}}"
    total = prod(extents)
    wide = random.random() < 0.3
    more = f", {{{len(scopes)}}}" if wide else ""
    rows = ["at[K]", f"(at[K] + 3) % {ROWS}", *(() if wide else ("2", "at[0]"))]
    targets = [*(f"h[{row}{more}]" for row in rows), "s[0]", "s[1]"]
    bars = "| " * (len(scopes) + wide)
    body = f"{'| ' * len(scopes)}4{random.choice(['', ' : v', ' : u'])}\n" if wide else ""
    for n in range(random.randint(1, 3)):
        first = n == 0 and random.random() < 0.5
        target = (targets[0] if first else random.choice(targets)).replace("K", at)
        condition = random.choice(["", "", f" if ok[{at}]", f" if at[{at}] != 2"])
        constant = "0 == 0" if dtype == "bool" else "2"
        value = f"v[{at}]" if random.random() < 0.7 else constant
        body += f"{bars}{target} {op} {value}{condition}\n"
    nest = "".join("| " * depth + scope + "\n" for depth, scope in enumerate(scopes))
    head = [f"in at: i32[{total}]", f"in ok: bool[{total}]", f"in v: {dtype}[{total}]"]
    head += [f"inout h: {dtype}[{ROWS}{', 4' if wide else ''}]", f"inout s: {dtype}[2]"]
    return "\n".join(["kernel drawn()", *head, "", f"{nest}{body}"])


def arguments(kernel: Kernel, sizes: Mapping[str, int], random: Random) -> dict[str, npt.NDArray[np.generic]]:
    """Data that no order of the accumulations rounds or lets overflow, but for sums. The last row of each result is
    at no index, and has bits of its own."""
    given = random_arguments(kernel, sizes, random)
    rows = min(kernel.buffer("h" if sizes == {} else "h0").dims[0].extent.evaluate(sizes), 1 << 20)
    given["at"] = np.array([random.randrange(max(rows - 1, 1)) for _ in range(given["at"].size)], np.int32)
    for site in (site for site in kernel.sites if site.statement.op == "*="):
        for name in (site.statement.target.buffer, "x" if "x" in given else "v"):
            buffer, shape = kernel.buffer(name), given[name].shape
            if buffer.dtype.is_float:
                given[name] = random_factors(buffer.dtype, given[name].size, random).reshape(shape)
    for name, array in given.items():
        if kernel.buffer(name).role == "inout" and name != "s" and array.dtype.kind != "b":
            bits = np.ascontiguousarray(array).view(np.uint8).reshape(rows, -1)
            bits[-1] = 0x80  # a negative number that is nearly 0, or -0.0
            given[name] = bits.reshape(-1).view(array.dtype).reshape(array.shape)
    return given


def keep_their_bits(
    given: Mapping[str, npt.NDArray[np.generic]], found: Mapping[str, npt.NDArray[np.generic]]
) -> bool:
    """Whether the last row of each result has the bits that it had."""
    return all(given[name][-1].tobytes() == array[-1].tobytes() for name, array in found.items())
