"""Accumulations of bits, `^=`, `&=` and `|=`: integers and bools; lanes, parts and threads; every target."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import on_harness
import pytest
from able import can_run
from emulated import Trial, build, machine, run

import dojoir
from dojoir.ir.dtypes import DTYPES

TYPES = [name for name, dtype in DTYPES.items() if not dtype.is_float and not dtype.is_nibble]
UFUNCS = {"^=": np.bitwise_xor, "&=": np.bitwise_and, "|=": np.bitwise_or}


def rows(dtype: str, op: str, scope: str = "M", around: str = "N") -> dojoir.Kernel:
    head = f"kernel rows(N, M)\nin  x: {dtype}[N, M]\nout y: {dtype}[N]\n\n"
    return dojoir.parse(f"{head}{around}\n| y[{{0}}] = x[{{0}}, 0]\n| {scope}\n| | y[{{0}}] {op} x[{{0}}, {{1}}]\n")


def given(dtype: str, m: int = 77) -> np.ndarray:
    """Rows in which most bits are set, and some never change."""
    random, stored = np.random.default_rng(m), np.dtype(DTYPES[dtype].stored)
    if dtype == "bool":
        return random.random((5, m)) < 0.98
    info = np.iinfo(stored)
    drawn = random.integers(info.min, info.max, (3, 5, m), stored, endpoint=True)
    return (drawn[0] | drawn[1] | drawn[2] | 5) & ~np.array(64, stored)


def expected(op: str, x: np.ndarray) -> np.ndarray:
    return UFUNCS[op](x[:, 0], UFUNCS[op].reduce(x, axis=1))


def test_the_text_reads_back() -> None:
    text = "kernel k(N)\nin  x: u8[N]\nout y: u8\nout b: bool\n\ny = 0\nb = bool(0)\nN\n| y ^= x[{0}] | 1\n"
    text += "| y &= x[{0}] ^ 3\n| y |= x[{0}] & 7\n| b |= x[{0}] == 3\n"
    parsed = dojoir.parse(text)
    assert str(parsed) == text
    assert dojoir.parse(str(parsed)) == parsed


@pytest.mark.parametrize(
    ("dtype", "line", "word"),
    [
        ("f32", "y ^= x[{0}]", "needs an integer or a bool"),
        ("bool", "y += x[{0}]", "&=, |= or ^="),
        ("i32", "y |= x[{0}] > 1", "write i32"),
        ("bool", "y |= 1", "do not mix"),
    ],
)
def test_what_is_refused(dtype: str, line: str, word: str) -> None:
    with pytest.raises(dojoir.KernelError, match="type-") as caught:
        dojoir.parse(f"kernel k(N)\nin  x: {dtype}[N]\ninout y: {dtype}\n\nN\n| {line}\n")
    assert word in str(caught.value)


@pytest.mark.parametrize("op", UFUNCS)
@pytest.mark.parametrize("dtype", TYPES)
def test_the_interpreter_and_the_targets_of_this_machine(dtype: str, op: str) -> None:
    x = given(dtype)
    want = expected(op, x)
    assert np.array_equal(dojoir.interpret(rows(dtype, op), {"x": x})["y"], want)
    for scope in ("M", "M : v"):
        for target in ("llvm", "c", "avx2", "avx512"):
            if not can_run(target):
                continue
            compiled = dojoir.compile(rows(dtype, op, scope), target)
            assert np.array_equal(compiled.run({"x": x})["y"], want), (target, scope)
    best = dojoir.optimize(rows(dtype, op)).kernel
    assert np.array_equal(dojoir.compile(best).run({"x": x})["y"], want)


@pytest.mark.parametrize(("target", "vlen"), [("neon", 128), ("sve", 256), ("rvv", 256)])
def test_emulated_targets(target: str, vlen: int, tmp_path: Path) -> None:
    try:
        machine(target)
    except dojoir.ToolchainError as error:
        pytest.skip(str(error))
    cases = [(dtype, op) for dtype in TYPES for op in UFUNCS]
    kernels = [rows(dtype, op, "M : v") for dtype, op in cases]
    program = build(target, kernels, tmp_path)
    trials = []
    for number, (made, (dtype, op)) in enumerate(zip(kernels, cases, strict=True)):
        x = given(dtype)
        trials.append((number, Trial(made, {"x": x}, {"N": 5, "M": 77}, {"y": expected(op, x)})))
    for (_, trial), found in zip(trials, run(target, program, trials, vlen), strict=True):
        assert np.array_equal(found["y"], trial.expected["y"]), trial.kernel


@pytest.mark.parametrize("target", ["cuda", "hip"])
@pytest.mark.parametrize("op", UFUNCS)
@pytest.mark.parametrize("mark", ["bx", "lane", "gy"])
def test_threads_and_blocks_on_the_harness(mark: str, op: str, target: str) -> None:
    for dtype in TYPES if mark != "gy" else ("i32", "u32", "i64", "u64"):
        if mark == "gy":
            head = f"kernel rows(N)\nin  x: {dtype}[N, 32]\nout y: {dtype}[N]\n\n"
            first = "N : gx\n| 1 : bx\n| | y[{0}] = x[{0}, 0]\n"
            made = dojoir.parse(f"{head}{first}N : gx\n| 32 : gy\n| | y[{{0}}] {op} x[{{0}}, {{1}}]\n")
        else:
            made = rows(dtype, op, f"32 : {mark}", "N : gx").specialize(M=32)
        x = given(dtype, 32)
        assert np.array_equal(on_harness.run(made, {"x": x}, {"N": 5}, target)["y"], expected(op, x)), dtype


@pytest.mark.parametrize("op", UFUNCS)
@pytest.mark.parametrize("dtype", ["i32", "u8"])
def test_partial_results(dtype: str, op: str) -> None:
    trace = dojoir.Trace(rows(dtype, op).with_fp("strict"))
    trace.apply("split_reduction(0.1, y, p, 8)")
    assert dojoir.certify(trace)
    x = given(dtype)
    assert np.array_equal(dojoir.interpret(trace.kernel, {"x": x})["y"], expected(op, x))


def test_a_bool_has_no_number_to_begin_with() -> None:
    assert dojoir.check(rows("bool", "|="), "split_reduction(0.1, y, p, 8)").code == "no-neutral"
    assert dojoir.check(rows("bool", "|="), "vectorize(0.1)")


@pytest.mark.parametrize("dtype", ["u32", "bool"])
def test_scatters(dtype: str) -> None:
    """A histogram of bits: which were seen."""
    cast = "u32(1) << {0}" if dtype == "u32" else "{0} >= 0"
    text = f"kernel seen(N, B)\nin  x: i32[N]\nout h: {dtype}[B]\n\n"
    text += f"B\n| h[{{0}}] = {dtype}(0)\nN\n| h[x[{{0}}]] |= {cast}\n"
    kernel = dojoir.parse(text).specialize(N=31)
    x = np.random.default_rng(3).integers(0, 40, 31).astype(np.int32)
    want = np.zeros(50, DTYPES[dtype].stored)
    for i, at in enumerate(x):
        want[at] |= np.uint32(1 << i) if dtype == "u32" else np.True_
    for call in (dojoir.interpret, *(dojoir.compile(kernel, name).run for name in ("llvm", "c"))):
        got = call(kernel, {"x": x}, B=50) if call is dojoir.interpret else call({"x": x}, B=50)
        assert np.array_equal(got["h"], want)


def test_mixed_operators_keep_their_order() -> None:
    text = "kernel k(N)\nin  x: u32[N]\nout y: u32\n\ny = 0\nN\n| y |= x[{0}]\n| y ^= x[{0}] >> 1\n"
    kernel = dojoir.parse(text)
    assert not dojoir.check(kernel, "vectorize(1)")
    assert not dojoir.check(kernel, "reverse_scope(1)")
    assert dojoir.verify(kernel)


def test_the_builder_writes_them() -> None:
    from dojoir import build

    with build.kernel("bits", "N") as b:
        x, y, z = b.input("x", "u32", ["N"]), b.inout("y", "u32", ["N"]), b.inout("z", "bool", [])
        with b.scope("N") as i:
            y[i] ^= x[i]
            y[i] &= x[i] >> 1
            y[i] |= 3
            z[()] |= x[i] < 7
    assert dojoir.to_text(b.kernel).splitlines()[-4:] == [
        "| y[{0}] ^= x[{0}]",
        "| y[{0}] &= x[{0}] >> 1",
        "| y[{0}] |= 3",
        "| z |= x[{0}] < 7",
    ]
