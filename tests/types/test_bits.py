"""Bit operations and shifts of integers: text, types, meaning, every target, and shifts that go too far."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import on_harness
import pytest
from emulated import Trial, build, machine, run

import dojoir
from dojoir.ir.dtypes import DTYPES

INTEGERS = [name for name, dtype in DTYPES.items() if dtype.is_integer and not dtype.is_nibble]
MIXED = "~(a[{0}] ^ b[{0}]) & (a[{0}] >> s[{0}] | b[{0}] << 3) ^ b[{0}] >> 2"


def kernel(dtype: str, value: str = MIXED, scope: str = "N") -> dojoir.Kernel:
    head = f"kernel bits(N)\nin  a: {dtype}[N]\nin  b: {dtype}[N]\nin  s: {dtype}[N]\nout y: {dtype}[N]\n\n"
    return dojoir.parse(f"{head}{scope}\n| y[{{0}}] = {value}\n")


def inputs(dtype: str, n: int = 67) -> dict[str, np.ndarray]:
    random = np.random.default_rng(n)
    info = np.iinfo(dtype_of(dtype))
    drawn = {name: random.integers(info.min, info.max, n, info.dtype, endpoint=True) for name in "ab"}
    return drawn | {"s": random.integers(0, info.bits, n).astype(info.dtype)}


def dtype_of(name: str) -> np.dtype[np.generic]:
    return np.dtype(DTYPES[name].stored)


def in_numpy(given: dict[str, np.ndarray]) -> np.ndarray:
    a, b, s = given["a"], given["b"], given["s"]
    return (~(a ^ b) & (a >> s | b << 3)) ^ b >> 2


def codes(text: str) -> tuple[str, str]:
    with pytest.raises(dojoir.DojoError) as caught:
        kernel("i32", text)
    return caught.value.diagnostic.code, caught.value.diagnostic.message


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("a[{0}] | (b[{0}] ^ (s[{0}] & a[{0}]))", "a[{0}] | b[{0}] ^ s[{0}] & a[{0}]"),
        ("((a[{0}] | b[{0}]) ^ s[{0}]) & 7", "((a[{0}] | b[{0}]) ^ s[{0}]) & 7"),
        ("a[{0}] & (b[{0}] << (1 + 2))", "a[{0}] & b[{0}] << 3"),
        ("(a[{0}] + b[{0}]) << 2 >> 1", "a[{0}] + b[{0}] << 2 >> 1"),
        ("~(-a[{0}])", "~-a[{0}]"),
        ("~(a[{0}] + 1) * 2", "~(a[{0}] + 1) * 2"),
        ("i32((a[{0}] & 1) == 1)", "i32(a[{0}] & 1 == 1)"),
        ("a[{0}] - (b[{0}] - (s[{0}] << 1))", "a[{0}] - (b[{0}] - (s[{0}] << 1))"),
    ],
)
def test_the_precedence_is_that_of_python(written: str, canonical: str) -> None:
    parsed = kernel("i32", written)
    assert str(parsed).splitlines()[-1] == f"| y[{{0}}] = {canonical}"
    assert dojoir.parse(str(parsed)) == parsed
    names = dict.fromkeys("abs", 0)
    plain = [text.replace("[{0}]", "").replace("i32", "int") for text in (written, canonical)]
    for a, b, s in ((12, -5, 3), (-7, 9, 1), (2**20, 77, 5)):
        names = {"a": a, "b": b, "s": s, "int": int}
        assert eval(plain[0], names) == eval(plain[1], names)


@pytest.mark.parametrize(
    ("text", "code", "word"),
    [
        ("a[{0}] << 32", "bad-shift", "0 to 31"),
        ("a[{0}] >> -1", "bad-shift", "0 to 31"),
        ("a[{0}] >> i8(40)", "bad-shift", "0 to 31"),
        ("i32({0} << 64)", "bad-shift", "0 to 63"),
        ("i32(f32(a[{0}]) & 1.5)", "type-operand", "needs an integer"),
        ("i32(bool(a[{0}]) & bool(b[{0}]))", "type-operand", "'and'"),
        ("a[{0}] & u32(b[{0}])", "type-mismatch", "do not mix"),
        ("i32(a[{0}] > 1 & b[{0}] > 2)", "unexpected", "bind more tightly"),
    ],
)
def test_what_is_refused(text: str, code: str, word: str) -> None:
    found, message = codes(text)
    assert found == code
    assert word in message


@pytest.mark.parametrize("dtype", INTEGERS)
def test_the_interpreter_gives_what_numpy_gives(dtype: str) -> None:
    given = inputs(dtype)
    assert np.array_equal(dojoir.interpret(kernel(dtype), given)["y"], in_numpy(given))


@pytest.mark.parametrize("target", ["llvm", "c", "avx2", "avx512"])
@pytest.mark.parametrize("scope", ["N", "N : v"])
def test_targets_of_this_machine(target: str, scope: str) -> None:
    for dtype in INTEGERS:
        try:
            compiled = dojoir.compile(kernel(dtype, scope=scope), target)
        except dojoir.ToolchainError as error:
            pytest.skip(str(error))
        given = inputs(dtype)
        assert np.array_equal(compiled.run(given)["y"], in_numpy(given)), dtype


@pytest.mark.parametrize(("target", "vlen"), [("neon", 128), ("sve", 256), ("rvv", 256)])
def test_emulated_targets(target: str, vlen: int, tmp_path: Path) -> None:
    try:
        machine(target)
    except dojoir.ToolchainError as error:
        pytest.skip(str(error))
    kernels = [kernel(dtype, scope="N : v") for dtype in INTEGERS]
    program = build(target, kernels, tmp_path)
    trials = []
    for number, (made, dtype) in enumerate(zip(kernels, INTEGERS, strict=True)):
        given = inputs(dtype)
        trials.append((number, Trial(made, given, {"N": 67}, {"y": in_numpy(given)})))
    for (_, trial), found in zip(trials, run(target, program, trials, vlen), strict=True):
        assert np.array_equal(found["y"], trial.expected["y"]), trial.kernel


@pytest.mark.parametrize("dtype", ["i32", "u32", "i64", "u8"])
def test_gpu_text_on_the_harness(dtype: str) -> None:
    scheduled = dojoir.parse(str(kernel(dtype)).replace("\nN\n", "\nN : gx\n"))
    given = inputs(dtype, 20)
    found = on_harness.run(scheduled, given, {"N": 20})
    assert np.array_equal(found["y"], in_numpy(given))


@pytest.mark.parametrize("count", [-1, 32, 127])
@pytest.mark.parametrize("scope", ["N", "N : v"])
def test_a_shift_that_goes_too_far_is_an_error(count: int, scope: str) -> None:
    shifted = kernel("i32", "a[{0}] << s[{0}]", scope)
    given = inputs("i32")
    given["s"][41] = count
    for call in (dojoir.interpret, *(dojoir.compile(shifted, target).run for target in ("llvm", "c"))):
        with pytest.raises(dojoir.RunError) as caught:
            call(shifted, given) if call is dojoir.interpret else call(given)
        assert caught.value.diagnostic.code == "shift-out-of-range"


def test_a_count_that_is_seen_to_be_in_range_is_not_checked() -> None:
    bounded = dojoir.parse("kernel one(N)\nout y: u32[N, 32]\n\nN\n| 32\n| | y[{0}, {1}] = u32(1) << {1}\n")
    assert "return 2" not in (text := dojoir.emit(bounded, "c"))
    assert "outside" not in text
    assert np.array_equal(
        dojoir.compile(bounded).run({}, N=2)["y"][1], np.uint32(1) << np.arange(32, dtype=np.uint32)
    )


def test_verify_draws_counts_that_are_in_range() -> None:
    assert dojoir.verify(kernel("i16"), target="llvm")


def test_the_builder_writes_them() -> None:
    from dojoir import build

    with build.kernel("bits", "N") as b:
        x, y = b.input("x", "u32", ["N"]), b.output("y", "u32", ["N"])
        with b.scope("N") as i:
            y[i] = build.bitor(build.bitand(x[i], 255) << 8, build.bitnot(x[i]) ^ x[i] >> 1)
    assert "x[{0}] & 255) << 8 | ~x[{0}] ^ x[{0}] >> 1" in dojoir.to_text(b.kernel)


def test_they_are_counted() -> None:
    counted = dojoir.cost(kernel("i32", "a[{0}] & b[{0}] << 3"))
    assert counted.at(N=10).integer == 20


def test_operations_on_integers_are_told_in_gops() -> None:
    taken = dojoir.measure(kernel("i32", "a[{0}] & b[{0}] << 3"), N=1 << 12, budget=0.1, with_ceilings=False)
    assert taken.integer == 2 << 12
    assert taken.flops == 0
    assert f", {taken.gops:.1f} GOP/s" in str(taken)
    assert "FLOP" not in str(taken)
