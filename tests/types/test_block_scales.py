"""Blocks of 32 numbers with a power of two as their scale, by its bits (MX), as in the page of the language."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import on_harness
import pytest
from emulated import Trial, build, machine, run

import dojoir

TO = {"f8e4m3": (448, 8, ml_dtypes.float8_e4m3fn), "f4e2m1": (6, 2, ml_dtypes.float4_e2m1fn)}
"""The largest number, its exponent, and the type of ml_dtypes."""


def kernel(to: str, gpu: bool = False) -> dojoir.Kernel:
    emax = TO[to][1]
    head = f"kernel mx_quantize(N)\nin  x: f32[N, 32]\nout q: {to}[N, 32]\nout s: u8[N]\ntmp m: f32[N]\n\n"
    return dojoir.parse(
        f"{head}N{' : gx' * gpu}\n| m[{{0}}] = 0\n| 32\n| | m[{{0}}] max= abs(x[{{0}}, {{1}}])\n"
        f"| s[{{0}}] = u8(max(bitcast(u32, m[{{0}}]) >> 23, {emax + 1}) - {emax})\n"
        f"| 32\n| | q[{{0}}, {{1}}] = sat({to}, x[{{0}}, {{1}}] * bitcast(f32, 254 - u32(s[{{0}}]) << 23))\n"
    )


def blocks() -> np.ndarray:
    """Rows of every magnitude, of zeros, and with subnormal numbers, infinities and the largest."""
    random = np.random.default_rng(3)
    x = random.normal(size=(70, 32)) * 2.0 ** random.integers(-140, 120, (70, 1))
    x[3], x[4, ::2], x[5, 7], x[6, 8] = 0, 0, np.inf, 3.4e38
    return x.astype(np.float32)


def expected(to: str, x: np.ndarray) -> dict[str, np.ndarray]:
    largest, emax, dtype = TO[to]
    biased = np.abs(x).max(1).view(np.uint32) >> 23
    s = (np.maximum(biased, emax + 1) - emax).astype(np.uint8)
    scaled = np.clip(x * np.ldexp(np.float32(1), 127 - s.astype(np.int32))[:, None], -largest, largest)
    return {"q": scaled.astype(dtype).view(np.uint8), "s": s}


def same(found: dict[str, np.ndarray], want: dict[str, np.ndarray]) -> bool:
    return all(np.array_equal(found[name].view(np.uint8), want[name]) for name in want)


@pytest.mark.parametrize("to", TO)
def test_on_this_machine_and_certified(to: str) -> None:
    x = blocks()
    want = expected(to, x)
    assert same(dojoir.interpret(kernel(to), {"x": x}), want)
    for target in ("llvm", "c", "avx2", "avx512"):
        try:
            trace = dojoir.optimize(kernel(to), target)
            compiled = dojoir.compile(trace.kernel, target)
        except dojoir.ToolchainError:
            continue
        assert trace.moves
        assert dojoir.certify(trace).status == "legal"
        assert same(compiled.run({"x": x}), want), target
    assert dojoir.verify(kernel(to), target="llvm")


@pytest.mark.parametrize("target", ["neon", "sve", "rvv"])
def test_on_emulated_targets(target: str, tmp_path: Path) -> None:
    try:
        machine(target)
    except dojoir.ToolchainError as error:
        pytest.skip(str(error))
    x = blocks()
    kernels = [dojoir.optimize(kernel(to), target).kernel for to in TO]
    trials = [(n, Trial(kernels[n], {"x": x}, {"N": 70}, expected(to, x))) for n, to in enumerate(TO)]
    for (_, trial), found in zip(trials, run(target, build(target, kernels, tmp_path), trials, 256), strict=True):
        assert same(found, trial.expected), trial.kernel


@pytest.mark.parametrize("target", ["cuda", "hip"])
@pytest.mark.parametrize("to", TO)
def test_on_the_harness(to: str, target: str) -> None:
    x = blocks()
    for one in (kernel(to, gpu=True), dojoir.optimize(kernel(to), target).kernel):
        assert same(on_harness.run(one, {"x": x}, {"N": 70}, target), expected(to, x)), one
