"""`//` and `%` of integers by sizes, by data and of negatives: floor, as Python; what divides by 0."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import on_harness
import pytest
from able import can_run
from emulated import Trial, build, machine, run

import dojoir
from dojoir.ir.dtypes import DTYPES

INTEGERS = [name for name, dtype in DTYPES.items() if dtype.is_integer and not dtype.is_nibble]
HOST = ("llvm", "c", "avx2", "avx512")


def kernel(dtype: str, scope: str = "N") -> dojoir.Kernel:
    buffers = "".join(f"{role} {name}: {dtype}[N]\n" for role, name in (("in ", "a"), ("in ", "b"), ("out", "q")))
    body = "| q[{0}] = a[{0}] // b[{0}]\n| r[{0}] = a[{0}] % b[{0}]\n"
    return dojoir.parse(f"kernel divided(N)\n{buffers}out r: {dtype}[N]\n\n{scope}\n{body}")


def operands(dtype: str, n: int = 131) -> dict[str, np.ndarray]:
    """Every kind of pair: of any size, small divisors of both signs, multiples, and the ends of the range."""
    info, random = np.iinfo(DTYPES[dtype].stored), np.random.default_rng(n)
    a = random.integers(info.min, info.max, n, info.dtype, endpoint=True)
    b = random.integers(info.min, info.max, n, info.dtype, endpoint=True)
    b[::2] = random.integers(max(info.min, -4), 5, b[::2].shape)
    b[b == 0] = 1
    a[::5] = a[::5] // b[::5] * b[::5]
    a[:16] = np.repeat(np.array([info.min, info.max, 0, 1], info.dtype), 4)
    b[:16] = np.tile(np.array([info.min or 2, info.max, 1, -1 if info.min else 3], info.dtype), 4)
    return {"a": a, "b": b}


def in_python(dtype: str, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    stored = np.dtype(DTYPES[dtype].stored)
    pairs = [(int(x), int(y)) for x, y in zip(given["a"], given["b"], strict=True)]
    mask = (1 << 8 * stored.itemsize) - 1
    unsigned = f"u{stored.name.removeprefix('u')}"
    return {
        "q": np.array([x // y & mask for x, y in pairs], unsigned).astype(stored),
        "r": np.array([x % y & mask for x, y in pairs], unsigned).astype(stored),
    }


def same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> bool:
    return all(np.array_equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_the_interpreter_and_the_targets_of_this_machine(dtype: str) -> None:
    given = operands(dtype)
    expected = in_python(dtype, given)
    assert same(dojoir.interpret(kernel(dtype), given), expected)
    for scope in ("N", "N : v"):
        for target in HOST:
            if not can_run(target):
                continue
            compiled = dojoir.compile(kernel(dtype, scope), target)
            assert same(compiled.run(given), expected), (target, scope)


@pytest.mark.parametrize(("target", "vlen"), [("neon", 128), ("sve", 256), ("rvv", 256)])
def test_emulated_targets(target: str, vlen: int, tmp_path: Path) -> None:
    try:
        machine(target)
    except dojoir.ToolchainError as error:
        pytest.skip(str(error))
    kernels = [kernel(dtype, "N : v") for dtype in INTEGERS]
    program = build(target, kernels, tmp_path)
    given = [operands(dtype) for dtype in INTEGERS]
    trials = [
        (number, Trial(kernels[number], given[number], {"N": 131}, in_python(dtype, given[number])))
        for number, dtype in enumerate(INTEGERS)
    ]
    for (_, trial), found in zip(trials, run(target, program, trials, vlen), strict=True):
        assert same(found, trial.expected), trial.kernel


@pytest.mark.parametrize("target", ["cuda", "hip"])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_gpu_text_on_the_harness(dtype: str, target: str) -> None:
    given = operands(dtype, 20)
    assert same(on_harness.run(kernel(dtype, "N : gx"), given, {"N": 20}, target), in_python(dtype, given))


@pytest.mark.parametrize("scope", ["N", "N : v", "N : p"])
@pytest.mark.parametrize("dtype", ["i32", "u8", "i64"])
def test_a_divisor_that_is_0_is_an_error_with_its_place(dtype: str, scope: str) -> None:
    """Never a trap of the processor: the process lives, and nothing out of bounds is written."""
    given, divided = operands(dtype), kernel(dtype, scope)
    given["b"][77] = 0
    with pytest.raises(dojoir.RunError) as caught:
        dojoir.interpret(divided, given)
    assert caught.value.diagnostic.code == "division-by-zero"
    assert "N=131, {0}=77" in str(caught.value)
    assert ":8:3" in str(caught.value)
    for target in HOST:
        if not can_run(target):
            continue
        compiled = dojoir.compile(divided, target)
        with pytest.raises(dojoir.RunError, match="a divisor is 0") as caught:
            compiled.run(given)
        assert caught.value.diagnostic.code == "division-by-zero"
        given["b"][77] = 5
        assert same(compiled.run(given), in_python(dtype, given))
        given["b"][77] = 0


@pytest.mark.parametrize("gpu", ["cuda", "hip"])
def test_a_divisor_that_is_0_is_an_error_of_a_launch(gpu: str) -> None:
    given = operands("i32", 40)
    compiled = dojoir.compile(kernel("i32", "N : gx"), gpu, emulated=True)
    assert same(compiled.run(given), in_python("i32", given))
    given["b"][33] = 0
    with pytest.raises(dojoir.RunError, match="a divisor is 0") as caught:
        compiled.run(given)
    assert caught.value.diagnostic.code == "division-by-zero"


def test_a_zero_beyond_the_last_lane_is_no_error() -> None:
    """Lanes that are not at work divide as well."""
    guarded = dojoir.parse(
        "kernel k(N)\nin  a: i32[N]\nin  b: i32[N]\nout q: i32[N]\n\n"
        "N : v\n| q[{0}] = 7\n| if {0} % 2 == 0\n| | q[{0}] = a[{0}] // b[{0}]\n"
    )
    a = np.arange(-20, 21, dtype=np.int32)
    b = np.where(np.arange(41) % 2, 0, 3).astype(np.int32)
    want = np.where(np.arange(41) % 2, 7, a // 3).astype(np.int32)
    for target in HOST:
        if not can_run(target):
            continue
        compiled = dojoir.compile(guarded, target)
        assert np.array_equal(compiled.run({"a": a, "b": b})["q"], want), target


@pytest.mark.parametrize(
    ("value", "python"),
    [
        ("({0} - 5) // N", lambda i, n, x: (i - 5) // n),
        ("x[{0}] % N", lambda i, n, x: x % n),
        ("x[{0}] // (-{0} - 1)", lambda i, n, x: x // (-i - 1)),
        ("x[{0}] % -3", lambda i, n, x: x % -3),
        ("x[{0}] // -4", lambda i, n, x: x // -4),
        ("x[{0}] * {0} % (2*N + 1) // ({0} + 2)", lambda i, n, x: x * i % (2 * n + 1) // (i + 2)),
        ("{0} * {0} % ({0} + 1)", lambda i, n, x: i * i % (i + 1)),
    ],
)
def test_sizes_iterators_and_negative_numbers(value: str, python: object) -> None:
    text = "kernel k(N)\nin  x: i64[N]\nout y: i64[N]\n\nN : v\n| y[{0}] = " + value + "\n"
    made = dojoir.parse(text)
    assert dojoir.parse(str(made)) == made
    dojoir.prove(made)
    x = np.arange(-17, 20, dtype=np.int64)
    assert callable(python)
    want = np.array([python(i, 37, int(v)) for i, v in enumerate(x)])
    assert np.array_equal(dojoir.interpret(made, {"x": x})["y"], want)
    assert np.array_equal(dojoir.compile(made, "llvm").run({"x": x})["y"], want)
    assert "division" not in dojoir.emit(made, "c").split("Returns")[1].splitlines()[0]


def test_an_iterator_that_is_0_is_found_before_anything_runs() -> None:
    head = "kernel k(N)\nin  x: i32[N]\nout y: i32[N]\n\n"
    with pytest.raises(dojoir.KernelError) as caught:
        dojoir.prove(dojoir.parse(head + "N\n| y[{0}] = x[{0}] // (N - {0} - 3)\n"))
    assert caught.value.diagnostic.code == "zero-divisor"
    assert "with N=3 at {0}=0" in str(caught.value)
    dojoir.prove(dojoir.parse(head + "N\n| y[{0}] = 0\nN\n| if {0} >= 1\n| | y[{0}] = x[{0}] // {0}\n"))


@pytest.mark.parametrize("op", ["//", "%"])
def test_what_is_refused(op: str) -> None:
    head = "kernel k(N)\nin  x: f32[N]\nin  i: u8[N]\nout y: f32[N]\nout z: u8[N]\n\nN\n"
    cases = [
        (f"y[{{0}}] = x[{{0}}] {op} 2", "type-operand", "floor(x[{0}] / 2)"),
        (f"z[{{0}}] = i[{{0}}] {op} 0", "zero-divisor", "divides by 0"),
        (f"z[{{0}}] = i[{{0}}] {op} u8(256)", "zero-divisor", "divides by 0"),
        (f"z[{{0}}] = i[{{0}}] {op} i32(i[{{0}}])", "type-mismatch", "do not mix"),
        (f"z[{{0}}] = u8(N {op} 0)", "zero-divisor", "divides by 0"),
    ]
    for line, code, word in cases:
        with pytest.raises(dojoir.KernelError) as caught:
            dojoir.parse(head + "| " + line + "\n")
        assert caught.value.diagnostic.code == code, line
        assert word in str(caught.value), line


def test_the_cure_of_a_float_remainder_is_one() -> None:
    made = dojoir.parse(
        "kernel k(N)\nin  x: f32[N]\nout y: f32[N]\n\nN\n| y[{0}] = x[{0}] - 2 * floor(x[{0}] / 2)\n"
    )
    x = np.linspace(-5, 5, 41, dtype=np.float32)
    assert np.array_equal(dojoir.interpret(made, {"x": x})["y"], x % 2)


def test_no_move_divides_where_the_text_does_not() -> None:
    """Out of a scope that may be empty, and out of a guard: an error of the run where there was none."""
    head = "kernel k(N)\nin  x: i32[N]\nin  d: i32[N]\nout y: i32[N]\n\n"
    empty = dojoir.parse(head + "N\n| y[{0}] = 0\n| {0}\n| | y[{0}] += x[{1}] // d[{0}]\n")
    guarded = dojoir.parse(head + "N\n| y[{0}] = 0\n| N\n| | if {0} + {1} >= N\n| | | y[{0}] += x[{1}] // d[{0}]\n")
    full = dojoir.parse(head + "N\n| y[{0}] = 0\n| N\n| | y[{0}] += x[{1}] // d[{0}]\n")
    whole = dojoir.parse(head + "N\n| y[{0}] = 0\n| N\n| | y[{0}] += {1} * (x[{0}] // d[{0}])\n")
    once = dojoir.parse(head + "N\n| y[{0}] = 0\n| {0}\n| | y[{0}] += {1} * (x[{0}] // d[{0}])\n")
    assert dojoir.check(once, "hoist(0.1, 0.1.0, 2, t)").code == "may-fail"
    assert dojoir.check(empty, "hoist(0.1, 0.1.0, 0, t)"), "it is computed in a scope of the same extent"
    assert dojoir.check(guarded, "hoist(0.1, 0.1.0.0, 0, t)").code == "may-fail"
    assert dojoir.check(full, "hoist(0.1, 0.1.0, 0, t)")
    assert dojoir.check(whole, "hoist(0.1, 0.1.0, 2, t)")


def test_peeling_leaves_no_division_by_0() -> None:
    text = "kernel k(N)\nin  x: i32[N]\ninout y: i32[N]\n\nN\n| if {0} >= 1\n| | y[{0}] = x[{0}] // {0}\n"
    assert dojoir.check(dojoir.parse(text), "peel(0)").code == "zero-divisor"
    assert dojoir.check(dojoir.parse(text), "cut(0, 1)")


@pytest.mark.parametrize("dtype", INTEGERS)
def test_verify_draws_divisors_that_are_not_0(dtype: str) -> None:
    assert dojoir.verify(kernel(dtype), target="llvm")


def test_a_size_needs_no_check() -> None:
    made = dojoir.parse("kernel k(N, M)\nout y: i64[N]\n\nN\n| y[{0}] = {0} // M + {0} % M\n")
    text = dojoir.emit(made, "c")
    assert "return 2" not in text
    assert "floor_" not in text


def test_a_divisor_with_a_bit_that_is_set_needs_no_check() -> None:
    buffers = "in  a: i32[N]\nin  b: i32[N]\nout q: i32[N]\n"
    text = f"kernel odd(N)\n{buffers}\nN\n| q[{{0}}] = a[{{0}}] // (b[{{0}}] | 1)\n"
    assert "divides_by_0" not in dojoir.emit(dojoir.parse(text), "c")
    assert "divides_by_0" in dojoir.emit(dojoir.parse(text.replace("| 1)", "| 0)")), "c")
