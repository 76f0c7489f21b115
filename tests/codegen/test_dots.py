"""Sums of four products of bytes: one operation where a scope is just that, exact for all bytes and lengths."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

import emulated
import numpy as np
import pytest
from able import runs

import dojoir
from dojoir.backends.machine import MACHINES
from dojoir.codegen.c.symbols import symbol
from dojoir.codegen.emission import lower
from dojoir.codegen.lir.program import Declare, Dot, Quads, Select
from dojoir.codegen.lir.walk import parts, statements, values
from dojoir.codegen.simd.isas.x86_dots import KINDS, dot_helpers
from dojoir.errors import ToolchainError
from dojoir.ir.nodes import Kernel
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.default_schedule import default_schedule
from dojoir.runtime.build import c_toolchain, emulation, host_targets, llvm_engine
from dojoir.support.cache import Cache

BYTES = ("i8", "u8")
PAIRS = tuple(product(BYTES, BYTES))


FOURS = """kernel f(K)
in    a: i8[4*K]
in    b: u8[K, 16, 4]
inout c: i32[16]
K
| 16 : v
| | 4
| | | c[{1}] += i32(a[4*{0} + {2}]) * i32(b[{0}, {1}, {2}])
"""


def matmul(left: str, right: str, whole: str = "i32", extent: str = "K") -> Kernel:
    """A product of matrices of bytes, as one writes it."""
    return dojoir.parse(f"""kernel product(N, M{", K" if extent == "K" else ""})
in  a: {left}[N, {extent}]
in  b: {right}[{extent}, M]
out c: {whole}[N, M]
N
| M
| | c[{{0}}, {{1}}] = 0
| | {extent}
| | | c[{{0}}, {{1}}] += {whole}(a[{{0}}, {{2}}]) * {whole}(b[{{2}}, {{1}}])
""")


FEATURES = {
    "neon": "generic",
    "neon, dotprod": "generic+dotprod",
    "neon, i8mm": "generic+dotprod+i8mm",
    "sve": "generic+v8_2a+sve",
    "sve, i8mm": "generic+v8_2a+sve+i8mm",
}
"""Processors of Arm with an instruction for it, one that takes both kinds of bytes, or neither."""


def emulates(target: str) -> None:
    """Skips a test where a target is not emulated here."""
    try:
        emulated.machine(target)
    except ToolchainError as error:
        pytest.skip(error.diagnostic.message)


@cache
def scheduled(kernel: Kernel, machine: str) -> Kernel:
    """What the rules make of it on one thread of a typical machine."""
    trace = Trace(kernel)
    default_schedule(trace, replace(MACHINES[machine], cores=1))
    return trace.kernel


def matrices(seed: int, left: str, right: str, sizes: tuple[int, int, int]) -> dict[str, np.ndarray]:
    """Bytes at random, many of them the least or the greatest; every second time nothing else."""
    random, (n, m, k) = np.random.default_rng(seed), sizes
    made = {}
    for name, dtype, shape in (("a", left, (n, k)), ("b", right, (k, m))):
        kind = np.dtype("int8" if dtype == "i8" else "uint8")
        limits = np.iinfo(kind)
        values = random.integers(limits.min, limits.max, shape, endpoint=True)
        extreme = random.choice([limits.min, limits.max], shape)
        made[name] = np.where(random.random(shape) < (0.3, 1.0)[seed % 2], extreme, values).astype(kind)
    return made


def expected(given: dict[str, np.ndarray]) -> np.ndarray:
    return given["a"].astype(np.int64) @ given["b"].astype(np.int64)


SHAPES = ((6, 16, 4), (6, 16, 8), (12, 64, 129), (7, 17, 5), (13, 33, 7), (6, 32, 3), (1, 16, 9), (5, 1, 40),
          (25, 70, 66))  # fmt: skip


@pytest.mark.parametrize("target", ["llvm", "c", "avx2", "avx512"])
@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_products_of_bytes_are_exact(left: str, right: str, target: str) -> None:
    """At their extremes, where the sum is of any length, and where rows and columns end within a tile."""
    runs(target)
    machine = target if target in MACHINES else "avx2"
    run = dojoir.compile(scheduled(matmul(left, right), machine), target, threads=1)
    for seed, sizes in enumerate(SHAPES):
        given = matrices(seed, left, right, sizes)
        assert np.array_equal(run.run(given)["c"], expected(given)), sizes


@pytest.mark.parametrize("processor", FEATURES)
def test_products_of_bytes_are_exact_on_arm(processor: str, tmp_path: Path) -> None:
    """Emulated, by each of the ways that a processor may have."""
    target = processor.partition(",")[0]
    emulates(target)
    kernels = [scheduled(matmul(left, right), target) for left, right in PAIRS]
    kernels.append(scheduled(matmul("u8", "i8", whole="u32"), target))
    assert all(dots(kernel, target) for kernel in kernels)
    program = emulated.build(target, kernels, tmp_path, (f"-mcpu={FEATURES[processor]}",))
    trials = []
    for number, kernel in enumerate(kernels):
        left, right = (buffer.dtype.name for buffer in kernel.arguments[:2])
        for seed, sizes in enumerate(SHAPES):
            given = matrices(seed, left, right, sizes)
            whole = {"i32": np.int32, "u32": np.uint32}[kernel.arguments[2].dtype.name]
            named = dict(zip("NMK", sizes, strict=True))
            trials.append((number, emulated.Trial(kernel, given, named, {"c": expected(given).astype(whole)})))
    for length in emulated.LENGTHS[target]:
        for (_, trial), found in zip(trials, emulated.run(target, program, trials, length), strict=True):
            assert np.array_equal(found["c"], trial.expected["c"]), (trial.kernel, trial.sizes, length)


@pytest.mark.parametrize(
    ("processor", "word"), [("neon, dotprod", "sdot"), ("neon, i8mm", "usdot"), ("sve", "sdot")]
)
def test_arm_has_an_instruction_for_it(processor: str, word: str, tmp_path: Path) -> None:
    target = processor.partition(",")[0]
    emulates(target)
    signed = "u8" if word == "usdot" else "i8"
    source, text = tmp_path / "dots.c", tmp_path / "dots.s"
    source.write_text(dojoir.emit(scheduled(matmul(signed, "i8"), target), target))
    toolchain = emulated.machine(target).toolchain.with_options((f"-mcpu={FEATURES[processor]}", "-S"))
    subprocess.run([*toolchain.command, *toolchain.options, str(source), "-o", str(text)], check=True)
    assert re.search(rf"\t{word}\t", text.read_text())


@pytest.mark.parametrize("cpu", ["neoverse-n1", "cortex-a72"])
def test_llvm_for_arm_has_the_sum(cpu: str, tmp_path: Path) -> None:
    """Emulated, with the instruction and by pairs, beside calls in C."""
    emulates("neon")
    parts, files, trials = [], [], []
    for number, (left, right) in enumerate(PAIRS):
        kernel = dojoir.parse(FOURS.replace("a: i8", f"a: {left}").replace("b: u8", f"b: {right}"))
        named = replace(kernel, name=f"k{number}_f")
        parts.append((lower(named, "neon"), "// in LLVM IR\n\n"))
        text = dojoir.emit(named, "llvm", cpu=cpu)
        assert ("dot.v4i32" in text) == (cpu == "neoverse-n1")
        files.append(tmp_path / f"k{number}.ll")
        files[-1].write_text(text)
        for seed in range(4):
            made = matrices(seed, left, right, (1, 64, 36))
            c = np.arange(16, dtype=np.int32)
            given = {"a": made["a"].reshape(36), "b": made["b"][:9].reshape(9, 16, 4), "c": c}
            trials.append((number, emulated.Trial(kernel, given, {"K": 9}, dojoir.interpret(kernel, given))))
    machine = emulated.machine("neon")
    options = (f"-mcpu={FEATURES['neon, dotprod']}", *map(str, files))
    *_, calls, main = emulation.program_sources(parts)
    replace(machine, toolchain=machine.toolchain.with_options(options)).build([calls, main], tmp_path / "f")
    for (_, trial), found in zip(trials, emulated.run("neon", tmp_path / "f", trials), strict=True):
        assert np.array_equal(found["c"], trial.expected["c"]), trial.kernel


def test_sums_wrap_around() -> None:
    """Of i32 and of u32, as the interpreter says."""
    kernel = dojoir.parse(FOURS.replace("a: i8", "a: u8"))
    given = {"a": np.full(4 * 9000, 255, np.uint8), "b": np.full((9000, 16, 4), 255, np.uint8)}
    given["c"] = np.full(16, 7, np.int32)
    total = (7 + 4 * 9000 * 255**2 + 2**31) % 2**32 - 2**31
    found = dojoir.compile(kernel, "llvm").run({k: v.copy() for k, v in given.items()})["c"]
    assert np.array_equal(found, np.full(16, total))
    kernel = dojoir.parse(FOURS.replace("i32", "u32").replace("b: u8", "b: i8"))
    small = {"a": np.full(36, -128, np.int8), "b": np.full((9, 16, 4), 127, np.int8), "c": np.zeros(16, np.uint32)}
    found = dojoir.compile(kernel, "llvm").run({k: v.copy() for k, v in small.items()})["c"]
    assert np.array_equal(found, dojoir.interpret(kernel, small)["c"])


# -- which scopes are one -----------------------------------------------------------------------------------
def dots(kernel: Kernel, target: str = "avx2") -> int:
    """How many sums of four products a lowered program has."""
    program = lower(kernel, target)
    found = (part for stmt in statements(program.body) for value in values(stmt) for part in parts(value))
    return sum(isinstance(part, Dot) for part in found)


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("4\n| | |", "4\n| | |", 1),
        ("4\n| | |", "4 : u\n| | |", 1),
        ("i32(a[4*{0} + {2}]) * i32(b[{0}, {1}, {2}])", "i32(b[{0}, {1}, {2}]) * i32(a[4*{0} + {2}])", 1),
        ("a[4*{0} + {2}]", "a[4*{0} + 3 - {2}]", 0),
        ("a[4*{0} + {2}]", "a[{0}]", 0),
        ("in    b: u8[K, 16, 4]", "in    b: u8[K, 16, 5]", 0),
        ("in    b: u8[K, 16, 4]", "in    b: i16[K, 16, 4]", 0),
        ("| | 4\n", "| | 3\n", 0),
        ("i32(a[4*{0} + {2}]) *", "i32(a[4*{0} + {2}]) +", 0),
        ("c[{1}] += i32(a", "c[{1}] += 2 * i32(a", 0),
        ("c[{1}] +=", "c[{1}] max=", 0),
    ],
)
def test_a_scope_of_four_is_one_operation(old: str, new: str, count: int) -> None:
    """Where it is just that, and nothing else is taken for one: the result is the interpreter's either way."""
    assert old in FOURS
    kernel = dojoir.parse(FOURS.replace(old, new))
    for target in ("llvm", "avx2"):
        runs(target)
        if target == "avx2" or "avx2" in host_targets.features():
            assert dots(kernel, target) == count
        random = np.random.default_rng(3)
        kinds = {"i8": np.int8, "u8": np.uint8, "i16": np.int16}
        given = {"c": random.integers(-9, 9, 16).astype(np.int32)}
        last = kernel.buffer("b").dims[2].extent.offset
        for name, shape in (("a", (36,)), ("b", (9, 16, last))):
            kind = kinds[kernel.buffer(name).dtype.name]
            given[name] = random.integers(np.iinfo(kind).min, np.iinfo(kind).max, shape, endpoint=True).astype(kind)
        found = dojoir.compile(kernel, target).run({k: v.copy() for k, v in given.items()})["c"]
        assert np.array_equal(found, dojoir.interpret(kernel, given)["c"])


def test_tiles_that_are_cut_have_it_too() -> None:
    """Under their mask, which holds for the bytes that are read as well."""
    program = lower(scheduled(matmul("i8", "i8"), "avx512"), "avx512")
    found = [p for s in statements(program.body) for v in values(s) for p in parts(v)]
    masked = [p for p in found if isinstance(p, Select) and isinstance(p.yes, Dot)]
    assert masked
    assert all(p.yes.b == replace(p.yes.b, mask=p.condition) and p.no == p.yes.c for p in masked)


def test_a_program_reads_no_bytes_but_those() -> None:
    """What four loads read, and no more: a sum over the end of an array would be a fault."""
    kernel = dojoir.parse(FOURS)
    found = [p for s in statements(lower(kernel, "avx2").body) for v in values(s) for p in parts(v)]
    assert sorted(q.type.lanes for q in found if isinstance(q, Quads)) == [1, 16]


# -- where the machine has one instruction for it ------------------------------------------------------------
VNNI = """
define internal <16 x i32> @emulated(<16 x i32> %c, <16 x i32> %a, <16 x i32> %b) {
  %x = bitcast <16 x i32> %a to <64 x i8>
  %y = bitcast <16 x i32> %b to <64 x i8>
  %u = zext <64 x i8> %x to <64 x i32>
  %s = sext <64 x i8> %y to <64 x i32>
  %p = mul <64 x i32> %u, %s
"""
"""What `vpdpbusd` does, in words that any machine has."""


def _emulated() -> str:
    lines, total = [VNNI], "%c"
    for byte in range(4):
        order = ", ".join(f"i32 {4 * lane + byte}" for lane in range(16))
        lines.append(f"  %q{byte} = shufflevector <64 x i32> %p, <64 x i32> poison, <16 x i32> <{order}>")
        lines.append(f"  %t{byte} = add <16 x i32> {total}, %q{byte}")
        total = f"%t{byte}"
    return "\n".join([*lines, f"  ret <16 x i32> {total}", "}", ""])


TILE = """kernel f(K)
in    a: i8[5, 4*K]
in    b: u8[K, 16, 4]
inout c: i32[5, 16]
K
| 5 : u
| | 16 : v
| | | 4
| | | | c[{1}, {2}] += i32(a[{1}, 4*{0} + {3}]) * i32(b[{0}, {2}, {3}])
"""


@pytest.mark.parametrize(("left", "right"), PAIRS)
@pytest.mark.parametrize(("given", "rows"), [(FOURS, 1), (TILE, 5)], ids=["one", "tile"])
def test_the_instruction_of_vnni_gives_the_sum(given: str, rows: int, left: str, right: str) -> None:
    """The code for a processor with VNNI, its instruction replaced by what the manual says that it does."""
    kernel = dojoir.parse(given.replace("a: i8", f"a: {left}").replace("b: u8", f"b: {right}"))
    text = dojoir.emit(kernel, "llvm", cpu="znver4")
    assert "pmadd" not in text
    name = "llvm.x86.avx512.vpdpbusd.512"
    text = re.sub(rf"^declare .*@{re.escape(name)}.*$", lambda _: _emulated(), text, flags=re.MULTILINE)
    assert f"@{name}(" in text
    text = text.replace(f"@{name}(", "@emulated(").replace(' "target-cpu"="znver4"', "")
    word = symbol(kernel.name)
    library = llvm_engine.build(text, [word], {}, Cache.default())
    function = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 3, ctypes.c_int64)(library.addresses[word])
    for seed in range(4):
        made = matrices(seed, left, right, (rows, 64, 36))
        a, b = made["a"], np.ascontiguousarray(made["b"].reshape(36, 16, 4)[:9])
        a, c = (a if rows > 1 else a.reshape(36)), np.arange(16 * rows, dtype=np.int32)
        c = c.reshape(rows, 16) if rows > 1 else c
        before = {"a": a, "b": b, "c": c.copy()}
        assert function(a.ctypes.data, b.ctypes.data, c.ctypes.data, 9) == 0
        assert np.array_equal(c, dojoir.interpret(kernel, before)["c"])


@pytest.mark.parametrize(("left", "right"), PAIRS)
@pytest.mark.parametrize("given", [FOURS, TILE], ids=["one", "tile"])
def test_llvm_comes_to_an_end_for_vnni(given: str, left: str, right: str, tmp_path: Path) -> None:
    """Its selection of instructions did not, where the bytes of a number in all lanes were flipped in all lanes."""
    source = tmp_path / "f.dojo"
    source.write_text(given.replace("a: i8", f"a: {left}").replace("b: u8", f"b: {right}"))
    command = [sys.executable, "-m", "dojoir.cli", str(source), "--emit", "asm", "--cpu", "znver4"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "vpdpbusd" in done.stdout


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("a: i8", "a: u8", 1),
        ("in    b: u8", "in    b: i8", 1),
        ("a: i8", "a: i8", 0),  # one of each kind
    ],
)
def test_rows_of_a_tile_share_what_is_taken_off(old: str, new: str, count: int) -> None:
    """Of bytes of one kind, once for all rows: a sum beside those of the rows."""
    assert old in TILE
    program = lower(dojoir.parse(TILE.replace(old, new)), "avx512")
    assert sum(isinstance(stmt, Declare) for stmt in statements(program.body)) == count
    found = [v for stmt in statements(program.body) for v in values(stmt) if isinstance(v, Dot)]
    assert len(found) == 1 + count
    assert all(dot.signed == (False, True) for dot in found)


C_TEST = """#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
// a number from 0 to 255, the two ends most of all
static int drawn(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 28 < 6 ? 0 : *state >> 28 < 12 ? 255 : (int)(*state >> 16 & 255);
}
#if EMULATE
#define __AVX512VNNI__ 1
#define __AVX512VL__ 1
#define _mm256_dpbusd_epi32 emulated
static __m256i emulated(__m256i c, __m256i a, __m256i b)
{
    uint8_t x[32];
    int8_t y[32];
    int32_t z[8];
    memcpy(x, &a, 32), memcpy(y, &b, 32), memcpy(z, &c, 32);
    for (int i = 0; i < 32; i++)
        z[i / 4] = (int32_t)((uint32_t)z[i / 4] + (uint32_t)(x[i] * y[i]));
    memcpy(&c, z, 32);
    return c;
}
#endif
"""


@pytest.mark.parametrize("emulate", [0, 1])
@pytest.mark.parametrize("kinds", KINDS)
def test_both_ways_of_the_helpers_are_the_sum(kinds: str, emulate: int, tmp_path: Path) -> None:
    """With pairs of i16, and with the instruction of VNNI as the manual says what it does."""
    runs("avx2")
    types = {"i": ("int8_t", -128), "u": ("uint8_t", 0)}
    (left, low), (right, least) = (types[kind] for kind in kinds)
    main = f"""
int main(void)
{{
    int wrong = 0;
    uint32_t state = 1;
    for (int round = 0; round < 2000; round++) {{
        {left} x[32];
        {right} y[32];
        int32_t z[8], found[8];
        for (int i = 0; i < 32; i++) {{
            x[i] = ({left})({low} + drawn(&state));
            y[i] = ({right})({least} + drawn(&state));
        }}
        for (int i = 0; i < 8; i++)
            z[i] = round % 2 ? INT32_MAX - i : (int32_t)(state >> i);
        __m256i a, b, c;
        memcpy(&a, x, 32), memcpy(&b, y, 32), memcpy(&c, z, 32);
        c = dot_{kinds}_256(a, b, c);
        memcpy(found, &c, 32);
        for (int i = 0; i < 32; i++)
            z[i / 4] = (int32_t)((uint32_t)z[i / 4] + (uint32_t)(x[i] * y[i]));
        wrong += memcmp(found, z, 32) != 0;
    }}
    printf("%d", wrong);
    return 0;
}}
"""
    try:
        compiler = c_toolchain.find()
    except ToolchainError as error:
        pytest.skip(error.diagnostic.message)
    source, program = tmp_path / "dots.c", tmp_path / "dots"
    source.write_text(C_TEST + "\n".join(dot_helpers(256).values()) + main)
    options = ["-std=c11", "-O1", "-mavx2", "-mno-avx512f", f"-DEMULATE={emulate}", "-o", str(program)]
    subprocess.run([*compiler.command, *options, str(source)], check=True)
    assert subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout == "0"


# -- by rule ------------------------------------------------------------------------------------------------
def test_the_rules_sum_in_fours_where_the_machine_does() -> None:
    """For products of bytes, the panel laid out for it; not for wider numbers, nor where the machine has none."""
    for machine in ("avx2", "avx512"):
        kernel = scheduled(matmul("u8", "i8"), machine)
        assert re.search(r"b_panel: i8\[\(K \+ 3\) // 4, 4, \d+\] order\(0, 2, 1\)", dojoir.to_text(kernel))
        assert dots(kernel, machine) >= 1
    assert dots(scheduled(matmul("u8", "i8", extent="8"), "avx2")) >= 1
    short = matmul("i8", "i8", extent="3")
    for text, machine in ((matmul("i16", "i8"), "avx2"), (matmul("i8", "i8"), "rvv"), (short, "avx2")):
        assert "k_in" not in str(scheduled(text, machine))
        assert ", 4, " not in str(scheduled(text, machine))


def test_portable_c_has_no_use_for_fours() -> None:
    """It has no word for them, and its products are slower so; the same machine for llvm has."""
    kernel = matmul("i8", "i8")
    for target, found in (("c", False), ("llvm", True)):
        machine = dojoir.machine_for(target, "znver3")
        text = str(dojoir.PASSES["default_schedule"].for_machine(machine).on(kernel).kernel)
        assert ("// 4, 4, " in text) == found, target


def test_the_product_of_the_library_has_them_too() -> None:
    trace = dojoir.PASSES["default_schedule"].given("avx2").on(dojoir.kernels.load("matmul_int8"))
    assert dots(trace.kernel) >= 1
    assert dojoir.certify(trace)
