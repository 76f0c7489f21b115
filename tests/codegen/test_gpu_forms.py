"""Forms of code for GPUs that the library has not: grid-stride loops, several gathers, atomics of types."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import agree
from on_harness import run

import dojoir

ROW = "kernel scaled(N = 1024)\nin x: f32[N]\nout y: f32[N]\n\nN @i\n| y[{i}] = 3 * x[{i}]\n"


@pytest.mark.parametrize("target", ["cuda", "hip"])
def test_a_grid_stride_loop_is_split_and_swapped(target: str) -> None:
    """Four blocks, each of which takes every fourth piece of 64 elements."""
    trace = dojoir.Trace(dojoir.parse(ROW))
    for move in ("split(0, 64)", "split(0, 4)", "swap_scopes(0)", "bind(0, gx)", "bind(0.0.0, bx)"):
        trace.apply(move)
    assert dojoir.certify(trace)
    text = dojoir.emit(trace.kernel, target)
    assert "for (int i = 0; i < 4; i++)" in text and "dim3(4), 64" in text
    x = np.arange(1024, dtype=np.float32)
    np.testing.assert_array_equal(run(trace.kernel, {"x": x}, {}, target, "backward")["y"], 3 * x)


GATHERS = """kernel two(N)
in  a: i32[N]
in  b: i32[N]
in  x: f32[8]
in  z: f32[16]
out y: f32[N]

N // 32 + 1 : gx
| min(32, N - 32*{0}) : bx
| | y[32*{0} + {1}] = x[a[32*{0} + {1}]] + z[b[32*{0} + {1}]]
"""


@pytest.mark.parametrize("target", ["cuda", "hip"])
@pytest.mark.parametrize(
    ("wrong", "told"), [({"a": 8}, "x["), ({"b": -1}, "z["), ({"a": 8, "b": 16}, "z[")], ids=["x", "z", "both"]
)
def test_the_status_of_a_launch_is_the_highest(target: str, wrong: dict[str, int], told: str) -> None:
    """Each gather has a status of its own; what many threads find comes together by an atomic maximum."""
    kernel = dojoir.parse(GATHERS)
    given = {"a": np.arange(70) % 8, "b": np.arange(70) % 16}
    for n, (name, index) in enumerate(wrong.items()):
        given[name][40 + n] = index
    arrays = {name: array.astype(np.int32) for name, array in given.items()}
    arrays |= {"x": np.ones(8, np.float32), "z": np.ones(16, np.float32)}
    assert dojoir.emit(kernel, target).count("(status, ") == 2
    with pytest.raises(dojoir.RunError) as error:
        dojoir.compile(kernel, target, emulated=True).run(arrays)
    assert told in str(error.value)


@pytest.mark.parametrize("target", ["cuda", "hip"])
@pytest.mark.parametrize(
    ("dtype", "op"),
    [("i32", "+="), ("i64", "+="), ("f32", "+="), ("f64", "+="), ("i32", "max="), ("i32", "min="), ("i64", "max=")],
)
def test_blocks_accumulate_by_atomics_of_each_type(target: str, dtype: str, op: str) -> None:
    mode = "fp reassoc\n" if dtype[0] == "f" and op == "+=" else ""
    text = f"kernel total(N)\n{mode}in x: {dtype}[N]\ninout s: {dtype}\n\nN : gx\n| s {op} x[{{0}}]\n"
    kernel = dojoir.parse(text)
    x = np.random.default_rng(2).integers(-50, 50, 37).astype(f"{dtype[0]}{int(dtype[1:]) // 8}")
    expected = dojoir.interpret(kernel, {"x": x, "s": np.full((), 3, x.dtype)}, N=37)["s"]
    found = run(kernel, {"x": x, "s": np.full((), 3, x.dtype)}, {"N": 37}, target, "backward")["s"]
    np.testing.assert_array_equal(found, expected)


FLOATS = ("f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2", "f4e2m1", "f8e8m0")
INTEGERS = ("i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8")
OPERATORS = ("+=", "*=", "max=", "min=")


def total(dtype: str, op: str) -> dojoir.Kernel:
    """A total by rule: blocks leave partial results, which one block puts together."""
    first = {"+=": "0", "*=": "1"}.get(op, "x[0]")
    text = f"kernel total(N)\nin x: {dtype}[N]\nout s: {dtype}\n\ns = {first}\nN\n| s {op} x[{{0}}]\n"
    return dojoir.optimize(dojoir.parse(text), "cuda").kernel


@pytest.mark.parametrize("op", OPERATORS)
def test_one_block_needs_no_atomic_of_any_type(op: str) -> None:
    for dtype in (*FLOATS, *INTEGERS):
        source = dojoir.emit(total(dtype, op), "cuda")
        assert "<<<dim3(1)," in source
        assert "atomic" not in source


@pytest.mark.parametrize(
    ("dtype", "op"),
    [("f16", "+="), ("bf16", "max="), ("i8", "+="), ("u16", "*="), ("f32", "max="), ("f64", "min=")],
)
def test_totals_of_types_without_atomics_are_right(dtype: str, op: str) -> None:
    kernel = total(dtype, op)
    given = dojoir.testing.random_inputs(kernel, {}, seed=3, N=9000)
    expected = dojoir.interpret(kernel, given, N=9000)["s"]
    found = run(kernel, given, {"N": 9000}, "cuda", "backward")["s"]
    assert agree(kernel, {"s": expected}, {"s": found}, exact=False) is None


def test_one_block_of_many_that_accumulates_needs_no_atomic() -> None:
    text = "kernel one(N)\nin x: f16[N]\ninout s: f16[8]\n\nN : gx\n| if {0} == 3\n| | s[5] max= x[{0}]\n"
    kernel = dojoir.parse(text)
    dojoir.prove(kernel)
    assert "atomic" not in dojoir.emit(kernel, "cuda")


def test_what_is_a_blocks_own_needs_no_atomic_beside_what_blocks_share() -> None:
    body = "N : gx\n| s[0] += x[{0}]\n| s[{0} + 1] max= x[{0}]\n"
    kernel = dojoir.parse(f"kernel two(N)\nin x: f32[N]\ninout s: f32[N + 1]\n\n{body}")
    dojoir.prove(kernel)
    assert dojoir.emit(kernel, "cuda").count("atomicAdd(") == 1
    given = {"x": np.arange(37, dtype=np.float32) - 5, "s": np.full(38, 3, np.float32)}
    found = run(kernel, given, {"N": 37}, "cuda", "backward")["s"]
    np.testing.assert_array_equal(found, dojoir.interpret(kernel, given, N=37)["s"])


@pytest.mark.parametrize("target", ["cuda", "hip"])
@pytest.mark.parametrize(("dtype", "op"), [("f32", "max="), ("f16", "+="), ("i32", "*="), ("u8", "+=")])
def test_blocks_accumulate_what_there_is_no_instruction_for(target: str, dtype: str, op: str) -> None:
    kernel = dojoir.parse(f"kernel total(N)\nin x: {dtype}[N]\ninout s: {dtype}\n\nN : gx\n| s {op} x[{{0}}]\n")
    dojoir.prove(kernel)
    given = dojoir.testing.random_inputs(kernel, {}, seed=3, N=37)
    expected = dojoir.interpret(kernel, given, N=37)
    assert agree(kernel, expected, run(kernel, given, {"N": 37}, target, "backward"), exact=False) is None


def test_blocks_may_accumulate_by_every_operator_in_every_type() -> None:
    for dtype in (*FLOATS, *INTEGERS):
        for op in OPERATORS:
            text = f"kernel total(N)\nin x: {dtype}[N]\ninout s: {dtype}\n\nN\n| s {op} x[{{0}}]\n"
            assert dojoir.check(dojoir.parse(text), "bind(0, gx)"), (dtype, op)
