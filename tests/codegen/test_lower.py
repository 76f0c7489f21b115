"""The lowering: how scopes run, what stays in registers, lanes, gathers, and the shape of the result."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pytest
from lowered import NARROW, WIDE, evaluated, found, program, rows

import dojoir
from dojoir.codegen.lir.program import Binary, Declare, Fail, For, If, Load, Parallel, Program, Reduce, Store, Value
from dojoir.codegen.lir.walk import parts, statements, values
from dojoir.codegen.llvm.printer import print_llvm
from dojoir.codegen.lower.pipeline import lower
from dojoir.codegen.target import C, Target
from dojoir.ir.dtypes import DTYPES
from dojoir.runtime.build.compiler import load_llvm

Part = TypeVar("Part", bound=Value)


def found_values(prog: Program, kind: type[Part]) -> list[Part]:
    def every() -> Iterator[Part]:
        for statement in statements(prog.body):
            for value in values(statement):
                yield from (part for part in parts(value) if isinstance(part, kind))

    return list(every())


# -- scopes ------------------------------------------------------------------------------------------------
SUM = "kernel k(N)\n{fp}in x: {t}[N]\nout s: {t}\ns = 0\nN : v\n| s {op} x[{{0}}]\n"


def total(t: str = "f32", op: str = "+=", fp: str = "") -> str:
    return SUM.format(t=t, op=op, fp=fp)


def loops(prog: Program) -> list[tuple[str, int]]:
    return [(loop.kind, loop.step) for loop in found(prog, For)]


@pytest.mark.parametrize(("dtype", "step"), [("f32", 64), ("f64", 32), ("i8", 64), ("i64", 32)])
def test_reductions_take_several_registers(dtype: str, step: int) -> None:
    prog = program(total(dtype), WIDE)
    register = 512 // DTYPES[dtype].bits if dtype != "i8" else 64
    assert loops(prog) == [("seq", lanes) for lanes in dict.fromkeys((step, register))]
    assert [kept.var.type.lanes for kept in found(prog, Declare)] == [lanes for _, lanes in loops(prog)]
    assert len(found_values(prog, Reduce)) == len(loops(prog))
    assert program(total(dtype), NARROW).body != prog.body


def masks_of(prog: Program) -> list[bool]:
    return [load.mask is not None for load in found_values(prog, Load) if load.buffer == "x"]


def test_the_rest_is_masked_or_one_register_at_a_time_and_then_one_by_one() -> None:
    masked = program(total(), WIDE)
    assert loops(masked) == [("seq", 64), ("seq", 16)]
    assert masks_of(masked) == [False, False, True]
    scalar = program(total(), NARROW)
    assert loops(scalar) == [("seq", 32), ("seq", 8), ("seq", 1)]
    assert masks_of(scalar) == [False, False, False]


@pytest.mark.parametrize(("dtype", "is_masked"), [("f32", True), ("i64", True), ("f16", False), ("i8", False)])
def test_masks_for_some_types_only(dtype: str, is_masked: bool) -> None:
    prog = program(total(dtype), replace(NARROW, masked=frozenset({32, 64})))
    assert [step for _, step in loops(prog)][2:] == ([] if is_masked else [1])
    assert masks_of(prog) == [False, False, is_masked]


@pytest.mark.parametrize("index", ["2*{0}", "N - 1 - {0}", "i[{0}]"])
def test_what_lies_apart_is_not_masked(index: str) -> None:
    text = f"kernel apart(N)\nin x: f32[2*N]\nin i: i32[N]\nout y: f32[N]\nN : v\n| y[{{0}}] = x[{index}]\n"
    prog = program(text, replace(NARROW, masked=frozenset({32, 64})))
    assert loops(prog) == [("seq", 8), ("seq", 1)]
    assert True not in masks_of(prog)


@pytest.mark.parametrize("target", [WIDE, NARROW])
def test_a_multiple_of_the_lanes_has_no_rest(target: Target) -> None:
    prog = program(total().replace("in x", "where N % 64 == 0\nin x"), target)
    assert len(loops(prog)) == 1
    assert not found(prog, If)


def test_a_reduction_in_order_is_a_loop() -> None:
    assert loops(lower(dojoir.parse(total(fp="fp strict\n")), WIDE)) == [("seq", 1)]
    assert loops(lower(dojoir.parse(total("i32", fp="fp strict\n")), WIDE)) == [("seq", 64), ("seq", 16)]


@pytest.mark.parametrize(("dtype", "op", "is_vector"), [
    ("f16", "+=", True), ("f16", "max=", True), ("f4e2m1", "min=", False), ("bf16", "*=", False),
])  # fmt: skip
def test_rounding_at_each_step_keeps_the_order(dtype: str, op: str, is_vector: bool) -> None:
    assert (loops(program(total(dtype, op), WIDE)) != [("seq", 1)]) == is_vector


def test_the_c_target_leaves_lanes_to_the_compiler() -> None:
    (loop,) = found(program(total()), For)
    assert (loop.kind, [op for op, _ in loop.reductions]) == ("simd", ["add"])
    direct = total().replace("out s: f32", "out y: f32\ntmp s: f32") + "y = s\n"
    (loop,) = found(program(direct), For)
    assert [var.name for _, var in loop.reductions] == ["s"]


def test_only_fast_math_forgets_nan() -> None:
    text = total(op="max=").replace("s = 0", "s = -inf")
    assert [reduce.op for reduce in found_values(program(text, WIDE), Reduce)] == ["max", "max"]
    fast = program(text.replace("in x", "fp fast\nin x"), WIDE)
    assert [reduce.op for reduce in found_values(fast, Reduce)] == ["max_fast", "max_fast"]
    assert fast.fast


FIXED = "kernel k(N)\nin x: f32[{w}]\nout y: f32[{w}]\n{extent} : v\n| y[{{0}}] = x[{{0}}] + 1\n"


@pytest.mark.parametrize("lanes", [2, 3, 16, 64])
def test_a_constant_extent_is_one_vector(lanes: int) -> None:
    prog = program(FIXED.format(w=lanes, extent=lanes), WIDE)
    assert not loops(prog)
    (store,) = found(prog, Store)
    assert store.value.type.lanes == lanes
    assert store.mask is None


def test_one_lane_is_a_scalar_and_many_are_chunks() -> None:
    (store,) = found(program(FIXED.format(w=1, extent=1), WIDE), Store)
    assert store.value.type.lanes == 1
    assert loops(program(FIXED.format(w=65, extent=65), WIDE)) == [("seq", 32), ("seq", 16)]


@pytest.mark.parametrize("target", [WIDE, NARROW])
def test_a_last_tile_is_whole_or_partial(target: Target) -> None:
    text = "kernel k(N)\nin x: f32[N]\nout y: f32[N]\n(N + 15) // 16\n"
    prog = program(text + "| min(16, N - 16*{0}) : v\n| | y[16*{0} + {1}] = x[16*{0} + {1}]\n", target)
    branch = found(prog, If)[-1]
    (whole,) = branch.then
    assert isinstance(whole, Store)
    assert whole.mask is None
    assert whole.value.type.lanes == 16
    rest = list(statements(branch.otherwise))
    masks = [s.mask for s in rest if isinstance(s, Store)]
    assert (masks == [None]) == (target is NARROW)


UNROLLED = (
    "kernel k(N)\nin x: f32[8, N]\nout y: f32[8, N]\n{extent} : u\n| N\n| | y[{{0}}, {{1}}] = x[{{0}}, {{1}}]\n"
)


def test_unrolled_scopes() -> None:
    prog = program(UNROLLED.format(extent="8"))
    assert loops(prog) == [("unroll", 1), ("seq", 1)]
    partial = program(UNROLLED.format(extent="min(8, N)").replace("out y", "inout y"))
    assert loops(partial) == [("unroll", 1), ("seq", 1)]
    assert len(found(partial, If)) == 1


SQUARE = "kernel k()\nin x: f32[64, 64]\nout y: f32[64, 64]\n64 : u\n| 64 : u\n| | y[{{0}}, {{1}}] = {value}\n"


def test_unrolled_scopes_that_no_compiler_ends_with_stay_loops() -> None:
    """4096 exponentials in a row take LLVM minutes: the outer scope is rolled, and the text says why."""
    few, much = (program(SQUARE.format(value=value)) for value in ("2 * x[{0}, {1}]", "exp(x[{0}, {1}])"))
    assert loops(few) == [("unroll", 1), ("unroll", 1)]
    assert loops(much) == [("seq", 1), ("unroll", 1)]
    (outer,) = (loop for loop in found(much, For) if loop.kind == "seq")
    assert "not unrolled: 64 times 2048 operations are more than 4096" in outer.comment


def test_a_scope_on_the_cores_inside_another_is_a_loop() -> None:
    nested = rows().replace("\n| M\n| | e", "\n| M : p\n| | e").replace("N\n| m", "N : p\n| m")
    prog = lower(dojoir.parse(nested), C)
    assert len(found(prog, Parallel)) == 1
    assert "seq" in {kind for kind, _ in loops(prog)}


def test_loops_are_named_by_their_labels_and_beside_each_other_alike() -> None:
    text = (
        "kernel k(N, i1)\nin x: f32[N]\nout y: f32[N]\nout z: f32[N]\n"
        "N @y\n| y[{0}] = x[{0}]\nN\n| z[{0}] = x[{0}]\n"
    )
    names = [loop.var.name for loop in found(program(text + "N\n| z[{0}] = i1\n"), For)]
    assert names[0] not in ("y", "x", "N")
    assert names[1] == names[2] == "i0"
    comments = [loop.comment for loop in found(program(text), For)]
    assert comments[0].startswith("N @")


# -- lanes -------------------------------------------------------------------------------------------------
def lane_loads(text: str, target: Target = WIDE) -> list[Load]:
    return [load for load in found_values(program(text, target), Load) if load.mask is None]


def access(index: str, shape: str = "N, N", facts: str = "where N % 64 == 0\n") -> str:
    return f"kernel k(N)\n{facts}in x: f32[{shape}]\nout y: f32[N]\nN : v\n| y[{{0}}] = x[{index}]\n"


@pytest.mark.parametrize(
    ("index", "lanes", "stride"),
    [
        ("3, {0}", 32, None),
        ("{0}, 3", 32, "N"),
        ("{0}, {0}", 32, "N + 1"),
        ("3, N - {0} - 1", 32, "-1"),
        ("3, 4", 1, None),
        ("{0} // 2, {0} % 4", 32, "gather"),
    ],
)
def test_how_lanes_reach_memory(index: str, lanes: int, stride: str | None) -> None:
    (load,) = lane_loads(access(index))
    assert load.type.lanes == lanes
    match stride:
        case None:
            assert load.stride is None
        case "gather":
            assert load.offset.type.lanes == 32
            assert load.stride is None
        case _:
            assert load.stride is not None
            size = {"N": 64, "i0": 0}
            expected = {"N": 64, "N + 1": 65, "-1": -1}[stride]
            assert evaluated(load.stride, size) == expected


@pytest.mark.parametrize(("index", "width"), [
    ("{0} // 3", 32), ("(2*{0} + 3) // 5", 32), ("2*({0} // 4) + {0} % 4", 32), ("(N - {0}) // 3 + 1", 32),
    ("(N - {0}) % 6", 0), ("({0} // 3 + {0}) % 5", 32), ("({0} % 5) // 2", 64), ("{0} // 3000000000", 64),
])  # fmt: skip
def test_quotients_in_lanes_are_narrow(index: str, width: int) -> None:
    text = f"kernel k(N)\nin x: f32[2*N + 9]\nout y: i32[N]\nout z: f32[N]\nN : v\n| y[{{0}}] = {index}\n"
    kernel = dojoir.parse(text + f"| z[{{0}}] = x[{index}]\n")
    prog = lower(kernel, WIDE)
    compiled = load_llvm(kernel, print_llvm(prog, WIDE), 1, prog.checks)
    for size in (1, 32, 50, 333):
        x = np.arange(2 * size + 9, dtype=np.float32)
        expected = dojoir.interpret(kernel, {"x": x})
        results = compiled.run({"x": x})
        np.testing.assert_array_equal(results["y"], expected["y"])
        np.testing.assert_array_equal(results["z"], expected["z"])
    divided = [v for v in found_values(prog, Binary) if v.op in ("div", "floordiv") and v.type.lanes > 1]
    assert {v.type.dtype.bits for v in divided} == ({width} if width else set())


def test_guards_that_differ_between_lanes_are_masks() -> None:
    text = "kernel k(N)\nin x: f32[N]\ninout y: f32[N]\nN : v\n| if {0} % 3 == 0 and N >= 3\n| | y[{0}] = x[{0}]\n"
    prog = program(text, WIDE)
    assert all(store.mask is not None for store in found(prog, Store))
    assert all(load.mask is not None for load in found_values(prog, Load))
    assert any(isinstance(branch.condition, Reduce) for branch in found(prog, If))


@pytest.mark.parametrize("relation", ["==", "!=", "<", "<=", ">", ">="])
@pytest.mark.parametrize("left", ["{0}", "{0} + 2", "3*{0} - 7", "N - 2*{0}", "-{0} - 40", "{0} + 200", "{0} % 5"])
def test_conditions_on_lanes_hold_where_they_do_in_order(left: str, relation: str) -> None:
    text = f"kernel k(N)\ninout y: i32[N]\nN : v\n| if {left} {relation} 5\n| | y[{{0}}] += {{0}} + 1\n"
    kernel = dojoir.parse(text)
    prog = lower(kernel, WIDE)
    masked = load_llvm(kernel, print_llvm(prog, WIDE), 1, prog.checks)
    for size in (1, 31, 32, 77, 400):
        y = np.full(size, 7, np.int32)
        expected = dojoir.interpret(kernel, {"y": y})["y"]
        np.testing.assert_array_equal(masked.run({"y": y})["y"], expected)


def test_a_reduction_under_a_guard_reads_its_element_only_where_it_runs() -> None:
    text = "kernel k(N, M)\nin x: f32[M]\ninout s: f32[N]\nN + 1\n| M : v\n| | if {0} < N\n| | | s[{0}] += x[{1}]\n"
    kernel = dojoir.parse(text)
    compiled = dojoir.compile(kernel)
    x, s = np.ones(5, np.float32), np.zeros(3, np.float32)
    assert compiled.run({"x": x, "s": s})["s"].tolist() == [5, 5, 5]
    (reduce, *_) = found_values(lower(kernel, WIDE), Reduce)
    assert reduce.op == "add"
    asked = [
        stmt for stmt in found(lower(kernel, WIDE), If) if any(isinstance(s, Store) for s in statements(stmt.then))
    ]
    assert asked and len(asked) >= len(found(lower(kernel, WIDE), Store))


def test_conflicting_writes_of_lanes_stay_in_order() -> None:
    text = (
        "kernel k(N)\nin x: f32[N]\nout y: f32[2*N]\n2*N : v\n| y[{0}] = 0\n2*N : v\n| y[{0} // 2] += x[{0} // 2]\n"
    )
    assert loops(lower(dojoir.parse(text), WIDE)) == [("seq", 32), ("seq", 16), ("seq", 1)]


# -- gathers -----------------------------------------------------------------------------------------------
GATHER = "kernel k(N, V)\nin w: f32[{v}]\nin ids: i32[N]\nout y: f32[N]\nN{mark}\n| y[{{0}}] = w[ids[{{0}}]]\n"


@pytest.mark.parametrize("target", [WIDE, NARROW, C])
@pytest.mark.parametrize("mark", ["", " : v", " : p"])
def test_gathers_are_checked(mark: str, target: Target) -> None:
    prog = program(GATHER.format(mark=mark, v="V"), target)
    (check,) = prog.checks
    assert check.text == "w[ids[{0}]]"
    assert check.path == (0, 0)
    assert {fail.status for fail in found(prog, Fail)} == {2}


@pytest.mark.parametrize("mark", ["", " : v", " : p"])
@pytest.mark.parametrize("bad", [-1, 9, 2**31 - 1, -(2**31)])
def test_an_index_out_of_bounds_is_an_error_and_touches_nothing(mark: str, bad: int) -> None:
    compiled = dojoir.compile(dojoir.parse(GATHER.format(mark=mark, v="V")))
    w, ids = np.arange(9, dtype=np.float32), np.arange(100, dtype=np.int32) % 9
    np.testing.assert_array_equal(compiled.run({"w": w, "ids": ids})["y"], w[ids])
    ids[77] = bad
    with pytest.raises(dojoir.RunError) as error:
        compiled.run({"w": w, "ids": ids})
    assert "w[ids[" in str(error.value)


# -- every target ------------------------------------------------------------------------------------------
def test_unknown_targets() -> None:
    with pytest.raises(dojoir.ArgumentError) as error:
        dojoir.emit(dojoir.parse(total()), "lvm")
    assert error.value.diagnostic.code == "unknown-target"
    assert "did you mean 'llvm'" in str(error.value)


@pytest.mark.parametrize("name", dojoir.kernels.names())
def test_offsets_in_c_read_like_indices(name: str) -> None:
    text = dojoir.emit(dojoir.kernels.load(name), "c")
    inside = re.findall(r"\[(.*?)\]", text)
    assert inside
    assert not [offset for offset in inside if re.search(r"\* 1\b|\+ 0\b|\b0 [+*]|\+ -", offset)]
