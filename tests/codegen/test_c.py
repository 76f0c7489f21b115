"""The portable C target: every statement of the lowered program compiled and run, and how the text reads."""

from __future__ import annotations

import math
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from agreement import agree, random_arguments, small_sizes
from c_cases import compiler, dtype_of, limits, run_both, wrapped
from c_machine import Machine
from drawing import draw
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lir_programs import AT, F32, N, array, index, numpy_type, over_n, program
from numpy.typing import NDArray

import dojoir
from dojoir.codegen.c.printer import print_c
from dojoir.codegen.lir.outcome import FIRST_CHECK, OK, OUT_OF_MEMORY, Check
from dojoir.codegen.lir.program import (
    FLAG,
    INDEX,
    Allocate,
    Assign,
    Binary,
    Call,
    Comment,
    Compare,
    Const,
    Convert,
    Declare,
    Fail,
    For,
    Function,
    If,
    Iota,
    Let,
    Load,
    Parallel,
    ProgramArray,
    Reduce,
    Select,
    Splat,
    Stmt,
    Store,
    Type,
    Value,
    Var,
)
from dojoir.codegen.lower.pipeline import lower
from dojoir.codegen.target import C
from dojoir.ir.dtypes import DTYPES
from dojoir.meaning.interpreter import interpret


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A compiler at work."""
    return Machine(compiler(), tmp_path)


def rows(*body: Stmt, prologue: tuple[Stmt, ...] = ()) -> Parallel:
    return Parallel(AT, N, prologue, body, comment="N : p")


# -- statements ----------------------------------------------------------------------------------------------
def heap(name: str, elements: Value = N, dtype: str = "f32") -> Allocate:
    return Allocate(ProgramArray(name, DTYPES[dtype], elements, "heap", 64))


def test_variables_loops_and_conditions(machine: Machine) -> None:
    total, j, odd = Var(INDEX, "total"), Var(INDEX, "j"), Var(FLAG, "odd")
    body = (
        Declare(total, index(0)),
        For(
            j,
            index(3),
            N,
            4,
            (
                Let(odd, Compare("ne", Binary(INDEX, "mod", j, index(2)), index(0))),
                If(
                    odd,
                    (Assign(total, Binary(INDEX, "add", total, j)),),
                    (Assign(total, Binary(INDEX, "sub", total, index(-1))),),
                    comment="if {0} % 2 == 1",
                ),
            ),
            comment="N @j",
        ),
        Comment("the result"),
        Store("y", index(0), total),
    )
    prog = program(body, (array("y", "i64", index(1)),))
    _, results = run_both(machine, prog, {"y": np.zeros(1, np.int64)}, N=20)
    assert results["y"].tolist() == [3 + 7 + 11 + 15 + 19]


def test_masked_scalar_load_and_store(machine: Machine) -> None:
    inside, outside = Compare("lt", AT, index(2)), Compare("gt", AT, index(1))
    copied = Load(F32, "x", Binary(INDEX, "add", AT, index(5)), mask=inside)
    body = over_n(
        Store("y", AT, copied), Store("y", Binary(INDEX, "sub", AT, index(2)), Const(F32, 7), mask=outside)
    )
    prog = program((body,), (array("x", "f32", index(7), constant=True), array("y", "f32")))
    x = np.arange(7, dtype=np.float32)
    _, results = run_both(machine, prog, {"x": x, "y": np.ones(4, np.float32)}, N=4)
    assert results["y"].tolist() == [7, 7, 0, 0]


def test_scalars_by_value_and_names_that_c_has(machine: Machine) -> None:
    alpha, flag = Var(F32, "double"), Var(FLAG, "free")
    add = Function("int", (Var(F32, "a"), Var(F32, "unused")), (), Binary(F32, "add", Var(F32, "a"), Const(F32, 1)))
    value = Select(flag, Binary(F32, "mul", alpha, Load(F32, "static", AT)), Const(F32, 0))
    prog = program(
        (
            over_n(
                Let(Var(F32, "max_f32"), value), Store("status", AT, Call(F32, "int", (Var(F32, "max_f32"), alpha)))
            ),
        ),
        (
            array("double", "f32"),
            array("free", "bool"),
            array("static", "f32", constant=True),
            array("status", "f32"),
        ),
        (add,),
        (alpha, flag),
        name="exp",
    )
    arrays = {
        "double": np.array(2.5, np.float32),
        "free": np.array(True),
        "static": np.array([1, 2], np.float32),
        "status": np.zeros(2, np.float32),
    }
    status, results = run_both(machine, prog, arrays, N=2)
    assert status == OK
    assert results["status"].tolist() == [3.5, 6]


def test_functions_call_functions(machine: Machine) -> None:
    a = Var(F32, "a")
    inner = Function(
        "inner", (a,), (Let(Var(F32, "unused"), a),), Binary(F32, "max", a, Const(F32, 0)), "max(a, 0)"
    )
    square = Let(Var(F32, "t"), Call(F32, "inner", (Binary(F32, "mul", a, a),)))
    outer = Function("outer", (a,), (square,), Binary(F32, "sub", Var(F32, "t"), a))
    idle = Function("idle", (a,), (), a)
    prog = program(
        (over_n(Store("y", AT, Call(F32, "outer", (Load(F32, "y", AT),)))),),
        (array("y", "f32"),),
        (outer, idle, inner),
    )
    assert "idle" not in print_c(prog)
    _, results = run_both(machine, prog, {"y": np.array([3, -2], np.float32)}, N=2)
    assert results["y"].tolist() == [6, 6]


def test_arrays_are_freed_and_their_absence_is_reported(machine: Machine) -> None:
    j, huge = Var(INDEX, "j"), Binary(INDEX, "mul", N, Binary(INDEX, "mul", N, N))
    body = (
        heap("a"),
        heap("b"),
        over_n(Store("a", AT, Const(F32, 2)), Store("b", AT, Load(F32, "a", AT))),
        Allocate(ProgramArray("small", DTYPES["f32"], index(3), "stack", 32)),
        Allocate(ProgramArray("one", DTYPES["f64"], index(1), "reg")),
        For(
            j,
            index(0),
            index(3),
            1,
            (
                Store("small", j, Load(F32, "b", index(0))),
                heap("c", huge),
                over_n(Store("c", AT, Const(F32, 1)), Store("y", AT, Load(F32, "c", AT))),
            ),
            "unroll",
        ),
        Store("y", index(0), Load(F32, "small", index(2))),
    )
    prog = program(body, (array("y", "f32"),))
    status, results = run_both(machine, prog, {"y": np.zeros(4, np.float32)}, N=4)
    assert (status, results["y"].tolist()) == (OK, [2, 1, 1, 1])


def test_too_large_an_array_returns_at_once(machine: Machine) -> None:
    # The number of elements does not fit an i64; what is held is freed, and nothing after it runs.
    cube = Binary(INDEX, "mul", N, Binary(INDEX, "mul", N, N))
    j = Var(INDEX, "j")
    nested = For(j, index(0), index(2), 1, (heap("huge", cube), Store("huge", j, Load(F32, "kept", j))))
    body = (heap("kept"), over_n(Store("kept", AT, Const(F32, 0))), nested, Store("y", index(0), Const(F32, 1)))
    prog = program(body, (array("y", "f32", index(1)),))
    status, results = run_both(machine, prog, {"y": np.zeros(1, np.float32)}, N=2**22)
    assert (status, results["y"].tolist()) == (OUT_OF_MEMORY, [0])


def simd_sum(op: str, kind: Type, start: float) -> tuple[Stmt, ...]:
    total = Var(kind, f"total_{op}")
    return (
        Declare(total, Const(kind, start)),
        over_n(Assign(total, Binary(kind, op, total, Load(kind, "x", AT))), kind="simd", reductions=((op, total),)),
        Store(f"y_{op}", index(0), total),
    )


REDUCTIONS = {"add": (0, sum), "mul": (1, math.prod), "max": (-math.inf, max), "min": (math.inf, min)}


def reduce_all(machine: Machine, x: NDArray[Any], operations: list[str]) -> dict[str, float]:
    """Each reduction of `x` with an operation, its order left open."""
    kind = Type(DTYPES[dtype_of(x)])
    low, high = (-math.inf, math.inf) if kind.dtype.is_float else limits(kind.dtype)
    body: list[Stmt] = []
    for op in operations:
        body += simd_sum(op, kind, min(max(REDUCTIONS[op.removesuffix("_fast")][0], low), high))
    outputs = [array(f"y_{op}", str(kind), index(1)) for op in operations]
    prog = program(tuple(body), (array("x", str(kind), constant=True), *outputs))
    arrays = {"x": x} | {output.name: np.zeros(1, x.dtype) for output in outputs}
    _, results = run_both(machine, prog, arrays, N=len(x))
    return {op: results[f"y_{op}"].item() for op in operations}


@pytest.mark.parametrize("name", ["f32", "i32", "i8", "u32", "u8"])
def test_simd_reductions(machine: Machine, name: str) -> None:
    dtype = DTYPES[name]
    x = np.array([3, 1, 2, 5] * 5 + [7], numpy_type(dtype))
    for op, result in reduce_all(machine, x, ["add", "mul", "max", "min", "max_fast", "min_fast"]).items():
        exact = REDUCTIONS[op.removesuffix("_fast")][1](map(int, x))
        assert result == pytest.approx(float(exact) if dtype.is_float else wrapped(dtype, exact), rel=1e-6), op


def test_simd_reductions_propagate_nan(machine: Machine) -> None:
    x = np.arange(40, dtype=np.float32)
    for at in (0, 17, 39):
        results = reduce_all(machine, np.where(np.arange(40) == at, np.float32(np.nan), x), list(REDUCTIONS))
        assert all(map(math.isnan, results.values()))


def test_parallel_rows_with_private_arrays(machine: Machine) -> None:
    j = Var(INDEX, "j")
    offset = Binary(INDEX, "add", Binary(INDEX, "mul", AT, index(8)), j)
    fill = For(j, index(0), index(8), 1, (Store("row", j, Load(F32, "x", offset)),))
    back = For(
        j, index(0), index(8), 1, (Store("x", offset, Load(F32, "row", Binary(INDEX, "sub", index(7), j))),), "simd"
    )
    prog = program((rows(fill, back, prologue=(heap("row", index(8)),)),), (array("x", "f32"),))
    x = np.arange(80, dtype=np.float32).reshape(10, 8)
    status, results = run_both(machine, prog, {"x": x}, N=10)
    assert status == OK
    np.testing.assert_array_equal(results["x"], x[:, ::-1])
    row = Allocate(ProgramArray("row", DTYPES["f32"], index(8), "stack"))
    plain = program((rows(fill, back, prologue=(row,)),), (array("x", "f32"),))
    _, results = run_both(machine, plain, {"x": x}, N=10)
    np.testing.assert_array_equal(results["x"], x[:, ::-1])


def test_a_worker_without_memory_ends_the_program(machine: Machine) -> None:
    cube = Binary(INDEX, "mul", N, Binary(INDEX, "mul", N, N))
    j = Var(INDEX, "j")
    use = Store("row", index(0), Const(F32, 1))
    show = Store("x", index(0), Load(F32, "row", index(0)))
    after = Store("x", index(1), Const(F32, 1))
    outside = (heap("kept", index(4)), Store("kept", index(0), Const(F32, 3)))
    share = Parallel(j, index(3), (heap("row", cube), use), (use, show))
    inside = Parallel(j, index(3), (), (heap("row", cube), use, show))
    for loop in (share, inside):
        prog = program((*outside, loop, after, Store("x", index(0), Load(F32, "kept", index(0)))),
                       (array("x", "f32", index(2)),))  # fmt: skip
        status, results = run_both(machine, prog, {"x": np.zeros(2, np.float32)}, N=2**22)
        assert (status, results["x"].tolist()) == (OUT_OF_MEMORY, [0, 0])
        status, results = run_both(machine, prog, {"x": np.zeros(2, np.float32)}, N=2)
        assert (status, results["x"].tolist()) == (OK, [3, 1])


@pytest.mark.parametrize("kind", ["seq", "simd", "parallel"])
def test_checks_report_the_highest_status_and_go_on(machine: Machine, kind: str) -> None:
    ids = Load(INDEX, "ids", AT)
    below, above = Compare("lt", ids, index(0)), Compare("ge", ids, N)
    inner = (
        Fail(below, FIRST_CHECK),
        Fail(Binary(FLAG, "or", above, Compare("eq", ids, index(77))), FIRST_CHECK + 1),
        Store("y", AT, Convert(F32, ids)),
    )
    loop = rows(*inner) if kind == "parallel" else over_n(*inner, kind=kind)
    checks = (Check("w[ids[{0}]]", (0, 0)), Check("v[ids[{0}]]", (0, 0)))
    prog = program((loop,), (array("ids", "i64", constant=True), array("y", "f32")), checks=checks)
    for ids_given, wanted in (([0, 3], 0), ([-1, 0], 2), ([0, 77], 3), ([77, -1], 3), ([-1, 77], 3)):
        given = np.array(ids_given * 2, np.int64)
        status, results = run_both(machine, prog, {"ids": given, "y": np.zeros(4, np.float32)}, N=4)
        assert status == wanted
        np.testing.assert_array_equal(results["y"], given.astype(np.float32))


@pytest.mark.parametrize(
    "value",
    [
        Splat(4, Const(F32, 1)),
        Iota(Type(DTYPES["i64"], 4)),
        Reduce("add", Const(Type(DTYPES["f32"], 4), 0)),
        Const(Type(DTYPES["f32"], 8), 0),
        Const(Type(DTYPES["f16"]), 0),
    ],
)
def test_what_the_lowering_must_not_leave_to_c(value: Value) -> None:
    with pytest.raises(AssertionError, match="portable C"):
        print_c(program((Store("y", index(0), value),), (array("y", "f32"),)))


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False))
def test_random_kernels_under_the_sanitizers(tmp_path_factory: pytest.TempPathFactory, random: Random) -> None:
    machine = Machine(compiler(), tmp_path_factory.mktemp("random"))
    kernel = draw("runnable", random)
    sizes = small_sizes(kernel, random)
    inputs = random_arguments(kernel, sizes, random)
    expected = interpret(kernel, inputs, **sizes)
    prog = lower(kernel, C)
    # GCC says of the dead copies of an unrolled loop that they would leave an array of its own making.
    machine.check_warnings(print_c(prog), "-Wno-aggressive-loop-optimizations", "-Wno-array-bounds")
    arrays = {b.name: np.ascontiguousarray(inputs.get(b.name, expected.get(b.name))) for b in kernel.arguments}
    for buffer in kernel.arguments:
        if buffer.role == "out":
            arrays[buffer.name] = np.full_like(arrays[buffer.name], 85)
    status, results = machine.run_checked(prog, arrays, **sizes)
    assert status == OK
    found = {name: results[name].reshape(array.shape) for name, array in expected.items()}  # one number: an element
    wrong = agree(kernel, expected, found, exact=False)
    assert wrong is None, f"{wrong} at {sizes}\n{kernel}"


def test_a_kernel_may_have_the_name_of_a_library_function() -> None:
    compiler()
    kernel = dojoir.parse("kernel sqrt(N)\nin x: f32[N]\nout y: f32[N]\n\nN\n| y[{0}] = sqrt(x[{0}])\n")
    results = dojoir.compile(kernel, target="c").run({"x": np.array([4, 9], np.float32)})
    assert results["y"].tolist() == [2, 3]


@pytest.mark.parametrize("hint", ["prefetch(x, 8)", "prefetch(y, 8)"])
def test_a_hint_alone_needs_no_other_header(hint: str) -> None:
    compiler()
    kernel = dojoir.parse(f"kernel f(N)\nin x: f32[N]\nout y: f32[N]\n\nN : {hint}\n| y[{{0}}] = x[{{0}}]\n")
    results = dojoir.compile(kernel, target="c").run({"x": np.array([4, 9], np.float32)})
    assert results["y"].tolist() == [4, 9]
