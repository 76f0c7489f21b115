"""The LLVM target: whole kernels and statements, compiled and run, and what machines have."""

from __future__ import annotations

import re
from random import Random

import numpy as np
import pytest
from agreement import agree, random_arguments, small_sizes
from drawing import draw
from lir_programs import AT, F32, N, array, index, over_n, program
from llvm_runs import HOST, lanes, run

import dojoir
from dojoir.codegen.lir.outcome import FIRST_CHECK, OK, OUT_OF_MEMORY, Check
from dojoir.codegen.lir.program import (
    FLAG,
    INDEX,
    Allocate,
    Assign,
    Binary,
    Compare,
    Const,
    Convert,
    Declare,
    Fail,
    For,
    If,
    Let,
    Load,
    Parallel,
    ProgramArray,
    Reduce,
    Splat,
    Stmt,
    Store,
    Type,
    Unary,
    Value,
    Var,
)
from dojoir.codegen.llvm.printer import print_llvm
from dojoir.codegen.lower.pipeline import lower
from dojoir.codegen.target import Target, llvm_target
from dojoir.ir.dtypes import BOOL, DTYPES
from dojoir.meaning.bits import to_floats
from dojoir.runtime.build.compiler import load_llvm

TARGETS = {
    "host": HOST,
    "512-bit, masked": Target("llvm", 512, "mask", frozenset(), 32),
    "256-bit, scalar rest": Target("llvm", 256, "scalar", HOST.native, 16),
    "256-bit, some masks": Target("llvm", 256, "scalar", HOST.native, 16, masked=frozenset({32, 64})),
    "128-bit, scalar rest": Target("llvm", 128, "scalar", frozenset(), 32),
}
"""Any width runs anywhere: LLVM splits what the machine does not have."""


# -- whole kernels -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("seed", range(20))
def test_generated_kernels_mean_what_the_interpreter_says(name: str, seed: int) -> None:
    random = Random(seed)
    exact = random.random() < 0.6
    kernel = draw("runnable", random, exact=exact, strided=True)
    prog = lower(kernel, TARGETS[name])
    compiled = load_llvm(kernel, print_llvm(prog, TARGETS[name]), 2, prog.checks)
    for _ in range(2):
        sizes = small_sizes(kernel, random)
        given = random_arguments(kernel, sizes, random, special=exact and random.random() < 0.3)
        assert agree(kernel, dojoir.interpret(kernel, given, **sizes), compiled.run(given, **sizes), exact) is None


ROWS = """
kernel rows(N, M)
in  x: f32[N, M]
out y: f32[N, M]
out s: f64[N]
tmp e: f32[N~, M]
tmp m: f32[N~]
N : p
| m[{0}] = -inf
| M : v
| | m[{0}] max= x[{0}, {1}]
| s[{0}] = 1
| M : v
| | e[{0}, {1}] = exp(x[{0}, {1}] - m[{0}])
| | s[{0}] += f64(e[{0}, {1}])
| M : v
| | y[{0}, {1}] = e[{0}, M - {1} - 1]
"""


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("size", [1, 2, 7, 15, 16, 17, 63, 64, 65, 130, 1000])
def test_rows_of_every_length(name: str, size: int) -> None:
    kernel = dojoir.parse(ROWS)
    prog = lower(kernel, TARGETS[name])
    compiled = load_llvm(kernel, print_llvm(prog, TARGETS[name]), 2, prog.checks)
    x = np.random.default_rng(size).standard_normal((5, size)).astype(np.float32)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    results = compiled.run({"x": x})
    np.testing.assert_allclose(results["y"], e[:, ::-1], rtol=3e-6)
    np.testing.assert_allclose(results["s"], 1 + e.sum(1), rtol=3e-6)


@pytest.mark.parametrize("op", ["max=", "min="])
@pytest.mark.parametrize("where", [0, 3, 64, 99])
def test_a_nan_is_never_lost_in_lanes(op: str, where: int) -> None:
    start = "-inf" if op == "max=" else "inf"
    kernel = dojoir.parse(f"kernel k(N)\nin x: f32[N]\nout y: f32\ny = {start}\nN : v\n| y {op} x[{{0}}]\n")
    compiled = dojoir.compile(kernel)
    x = np.arange(100, dtype=np.float32)
    assert compiled.run({"x": x})["y"] == (99 if op == "max=" else 0)
    x[where] = np.nan
    assert np.isnan(compiled.run({"x": x})["y"])


def test_names_of_the_user_do_not_meet_those_of_the_printer() -> None:
    text = """
kernel main(entry, start, from)
in  status: f32[entry, start]
in  context: f32
out v: f32[entry, start]
tmp loop: f32[entry~] reg
entry : p @to
| loop[{to}] = context
| start @done
| | loop[{to}] += status[{to}, {done}]
| start @body
| | v[{to}, {body}] = exp(loop[{to}] - loop[{to}]) * loop[{to}] + from
"""
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    results = dojoir.compile(dojoir.parse(text)).run({"status": x, "context": 5}, **{"from": 2})
    np.testing.assert_array_equal(results["v"], np.repeat(x.sum(1, keepdims=True) + 7, 4, axis=1))


@pytest.mark.parametrize(
    "dtype", ["f64", "f32", "f16", "bf16", "f8e4m3", "f4e2m1", "i64", "i8", "u16", "u8", "bool"]
)
@pytest.mark.parametrize("name", TARGETS)
def test_scalars_by_value(name: str, dtype: str) -> None:
    kernel = dojoir.parse(
        f"kernel k(N)\nin c: {dtype}\nin x: {dtype}[N]\nout y: {dtype}[N, 2]\n"
        "N : v\n| y[{0}, 0] = c\n| y[{0}, 1] = x[{0}]\n"
    )
    prog = lower(kernel, TARGETS[name])
    compiled = load_llvm(kernel, print_llvm(prog, TARGETS[name]), 1, prog.checks)
    given = random_arguments(kernel, {"N": 21}, Random(3))
    bits = given["c"]
    given["c"] = to_floats(bits, DTYPES[dtype]) if DTYPES[dtype].is_float else bits
    results = compiled.run(given)["y"]
    np.testing.assert_array_equal(results[:, 1], given["x"])
    np.testing.assert_array_equal(results[:, 0], np.repeat(bits, 21))


def test_text_is_the_same_every_time() -> None:
    kernel = dojoir.parse(ROWS)
    assert dojoir.emit(kernel, "llvm") == dojoir.emit(dojoir.parse(ROWS), "llvm")


def test_pointers_alias_nothing_and_fast_math_is_only_where_it_is_asked_for() -> None:
    text = dojoir.emit(dojoir.parse(ROWS), "llvm")
    heads = re.findall(r'^define .*@"rows(?:\.parallel0\.body)?"\((.*)\)', text, re.MULTILINE)
    assert len(heads) == 2
    for head in heads:
        pointers = [p for p in head.split(", ") if p.startswith("ptr") and not p.endswith(".status")]
        assert len(pointers) == 3
        assert all(" noalias " in pointer for pointer in pointers)
    assert "reassoc" not in text
    assert "contract" not in text
    fast = dojoir.emit(dojoir.parse(ROWS.replace("in  x", "fp fast\nin  x")), "llvm")
    function, _, rest = fast.partition("\n}\n")
    assert "exp_fast" in function
    assert "reassoc" not in function
    assert re.search(r"fadd reassoc nsz arcp contract afn <\d+ x double>", rest)
    assert " nnan " not in fast
    assert " ninf " not in fast


# -- statements --------------------------------------------------------------------------------------------
def test_loops_variables_and_branches() -> None:
    total, j = Var(F32, "total"), Var(INDEX, "j")
    inner = For(j, index(0), index(3), 1, (Assign(total, Binary(F32, "add", total, Load(F32, "x", AT))),), "unroll")
    halved = Compare("eq", Binary(INDEX, "mod", AT, index(2)), index(0))
    body = (
        Declare(total, Const(F32, 1)),
        inner,
        If(halved, (Store("y", AT, total),), (Store("y", AT, Const(F32, -1)),)),
        If(Compare("gt", AT, index(3)), (Store("y", AT, Const(F32, 9)),)),
    )
    x = np.arange(6, dtype=np.float32)
    prog = program((over_n(*body),), (array("x", "f32"), array("y", "f32")))
    _, results = run(prog, {"x": x, "y": x * 0}, N=6)
    np.testing.assert_array_equal(results["y"], [1, -1, 7, -1, 9, 9])


@pytest.mark.parametrize("start", [-3, 0, 2])
@pytest.mark.parametrize("stop", [-5, 0, 2, 9])
@pytest.mark.parametrize("step", [1, 4])
def test_trip_counts(start: int, stop: int, step: int) -> None:
    count = Var(INDEX, "count")
    loop = For(AT, index(start), N, step, (Assign(count, Binary(INDEX, "add", count, index(1))),))
    body = (Declare(count, index(0)), loop, Store("y", index(0), count))
    _, results = run(program(body, (array("y", "i64"),)), {"y": np.zeros(1, np.int64)}, N=stop)
    assert results["y"][0] == len(range(start, stop, step))


def test_masked_scalars() -> None:
    even = Compare("eq", Binary(INDEX, "mod", AT, index(2)), index(0))
    read = Load(F32, "x", AT, None, even)
    body = (Store("y", AT, Binary(F32, "add", read, Const(F32, 1)), None, Compare("gt", AT, index(0))),)
    x = np.arange(4, dtype=np.float32) + 5
    _, results = run(program((over_n(*body),), (array("x", "f32"), array("y", "f32"))), {"x": x, "y": x * 0}, N=4)
    np.testing.assert_array_equal(results["y"], [0, 1, 8, 1])


def test_stack_arrays_live_in_loops() -> None:
    row = ProgramArray("row", DTYPES["f32"], index(4), "stack")
    j = Var(INDEX, "j")
    fill = For(j, index(0), index(4), 1, (Store("row", j, Convert(F32, Binary(INDEX, "mul", AT, j))),))
    body = (Allocate(row), fill, Store("y", AT, Load(F32, "row", index(3))))
    _, results = run(program((over_n(*body),), (array("y", "f32"),)), {"y": np.zeros(100000, np.float32)}, N=100000)
    np.testing.assert_array_equal(results["y"], 3.0 * np.arange(100000, dtype=np.float32))


def heap(name: str, elements: Value, align: int = 64) -> Allocate:
    return Allocate(ProgramArray(name, DTYPES["f32"], elements, "heap", align))


@pytest.mark.parametrize("align", [64, 4096])
def test_heap_arrays_are_aligned(align: int) -> None:
    j = Var(INDEX, "j")
    body = (heap("a", N, align), For(j, index(0), N, 1, (Store("a", j, Load(F32, "x", j)),)),
            For(j, index(0), N, 1, (Store("x", j, Unary(F32, "neg", Load(F32, "a", j))),)))  # fmt: skip
    x = np.arange(1000, dtype=np.float32)
    status, results = run(program(body, (array("x", "f32"),)), {"x": x}, N=1000)
    assert status == OK
    np.testing.assert_array_equal(results["x"], -x)
    assert f"i64 {-align})" in print_llvm(program(body, (array("x", "f32"),)), HOST)


@pytest.mark.parametrize("elements", [
    Binary(INDEX, "mul", N, Binary(INDEX, "mul", N, N)),
    Binary(INDEX, "mul", Binary(INDEX, "mul", N, N), Binary(INDEX, "mul", N, N)),
])  # fmt: skip
@pytest.mark.parametrize("parallel", [False, True])
def test_no_memory_ends_the_program(elements: Value, parallel: bool) -> None:
    first, second = Load(INDEX, "at", index(0)), Load(INDEX, "at", index(1))
    again = For(AT, index(0), second, 1, (Store("row", AT, Const(F32, 2)),))  # LLVM cannot do without the array
    use = If(Compare("eq", first, index(0)), (Store("row", first, Const(F32, 1)), again))
    after = Store("x", index(1), Load(F32, "row", first))
    touch = Store("x", index(1), Const(F32, 1))
    arguments = (array("x", "f32", index(2)), array("at", "i64", index(2), constant=True))
    inside: tuple[Stmt, ...] = (heap("row", elements), use, after, touch)
    if parallel:
        loop = Parallel(Var(INDEX, "j"), index(3), (heap("row", elements),), (use, after), (N,), arguments)
        inside = (loop, touch)
    prog = program((heap("kept", index(4)), *inside), arguments)
    for size, status, left in ((2**22, OUT_OF_MEMORY, 0), (1, OK, 1)):
        given = {"x": np.zeros(2, np.float32), "at": np.zeros(2, np.int64)}
        got, results = run(prog, given, N=size)
        assert (got, results["x"][1]) == (status, left)


@pytest.mark.parametrize("kind", ["seq", "parallel", "lanes"])
def test_the_highest_failed_check_is_reported(kind: str) -> None:
    kept = Type(INDEX.dtype, 4) if kind == "lanes" else INDEX
    ids = Load(kept, "ids", index(0) if kind == "lanes" else AT)
    limit: Value = Splat(4, N) if kind == "lanes" else N
    below = Compare("lt", ids, Const(kept, 0))
    above = Compare("ge", ids, limit)
    checks: tuple[Stmt, ...] = (Fail(below, FIRST_CHECK), Fail(above, FIRST_CHECK + 1))
    if kind == "seq":
        checks = (over_n(*checks),)
    elif kind == "parallel":
        checks = (Parallel(AT, N, (), checks, (N,), (array("ids", "i64", constant=True),)),)
    found = (Check("w[ids[{0}]]", (0, 0)), Check("v[ids[{0}]]", (0, 0)))
    prog = program(checks, (array("ids", "i64", constant=True),), checks=found)
    for given, wanted in (([0, 3], OK), ([-1, 0], 2), ([0, 77], 3), ([77, -1], 3), ([-1, 77], 3)):
        assert run(prog, {"ids": np.array(given * 2)}, N=4)[0] == wanted


def test_parallel_captures_values_and_arrays() -> None:
    scale, wide = Var(F32, "scale"), Var(lanes("f32", 4), "wide")
    total = Binary(F32, "mul", Reduce("add", wide), Binary(F32, "mul", scale, Load(F32, "x", AT)))
    loop = Parallel(AT, N, (), (Store("y", AT, total),), (wide, scale),
                    (array("x", "f32", constant=True), array("y", "f32")))  # fmt: skip
    body = (Let(scale, Const(F32, 2)), Declare(wide, Const(lanes("f32", 4), 1)), loop)
    x = np.arange(100, dtype=np.float32)
    for threads in (1, 2, 3):
        prog = program(body, (array("x", "f32", constant=True), array("y", "f32")))
        _, results = run(prog, {"x": x, "y": x * 0}, threads=threads, N=100)
        np.testing.assert_array_equal(results["y"], 8 * x)


# -- machines ----------------------------------------------------------------------------------------------
def test_what_machines_have() -> None:
    avx512 = {"avx2", "avx512f", "avx512vl", "avx512bw", "avx512dq", "f16c"}
    assert llvm_target("x86_64", frozenset(avx512)) == Target(
        "llvm", 512, "mask", frozenset({"f16"}), 32, True, "x86_64", frozenset(avx512), True, dots=8, reshapes=True
    )
    assert llvm_target("x86_64", frozenset({"avx2", "f16c"})).vector_bits == 256
    assert llvm_target("x86_64", frozenset({"avx2", "avx512f"})).tail == "scalar"
    assert llvm_target("x86_64", frozenset({"avx2"})).masked == {32, 64}
    assert not llvm_target("x86_64", frozenset(avx512)).masked
    assert llvm_target("x86_64", frozenset({"sse2"})) == Target(
        "llvm", 128, "scalar", frozenset(), 16, True, "x86_64", frozenset({"sse2"}), reshapes=True
    )
    assert llvm_target("aarch64", frozenset({"neon"})).registers == 32


assert FLAG.dtype == BOOL


@pytest.mark.parametrize("apart", [2, 3, 4])
def test_elements_apart_are_read_with_what_lies_between_and_nothing_beyond(apart: int) -> None:
    """By vectors and a shuffle, not a gather of each; the last is the last of an array with nothing behind it."""
    kernel = dojoir.parse(
        f"kernel k(N)\nin x: f32[{apart}*N - {apart - 1}]\nout y: f32[N]\n\n"
        "(N + 15) // 16\n| min(16, N - 16*{0}) : v\n"
        f"| | y[16*{{0}} + {{1}}] = x[{16 * apart}*{{0}} + {apart}*{{1}}]\n"
    )
    assert "gather" not in dojoir.emit(kernel, "llvm")
    sizes = [{"N": size} for size in (1, 15, 16, 17, 1024)]
    assert dojoir.verify(kernel, target="llvm", sizes=sizes).ok


def test_algebra_under_fast_stays_outside_of_a_conversion() -> None:
    """LLVM made one product of 2**126, by which a conversion multiplies, and 8: it is infinite."""
    kernel = dojoir.parse(
        "kernel f(N)\nfp fast\nin  n: i16[N]\nout y: f32[N]\n\nN\n| y[{0}] = 1.0\n| 8 : v\n"
        "| | y[{0}] += f4e2m1({0}) if {1} < i64(n[{0}])\n"
    )
    given = {"n": np.array([0, -1, 3, 8, 9, 100], np.int16)}
    found = dojoir.compile(kernel, "llvm").run(given)["y"]
    assert np.array_equal(found, dojoir.interpret(kernel, given)["y"])
