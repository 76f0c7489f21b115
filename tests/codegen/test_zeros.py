"""min and max are the minimum and maximum of IEEE 754-2019 everywhere: a NaN stays one, and -0 is below +0."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pytest
from able import can_run
from emulated import Trial
from everywhere import Subject, differences, runs_here

import dojoir
from dojoir.codegen.simd.isas import ISAS

SPECIAL = (0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-40, -1e-40, 3.0)
PAIRS = [*itertools.product(SPECIAL, SPECIAL)]

KERNEL = """
kernel extremes(N)
fp MODE
in  a: TYPE[N]
in  b: TYPE[N]
out lo: TYPE[N]
out hi: TYPE[N]
out mlo: TYPE[N]
out mhi: TYPE[N]
out relu: TYPE[N]
out top: TYPE[N]
out low: TYPE[N]
out bottom: TYPE[N]
out clip: TYPE[N]
out known: TYPE[4]

N MARK
| lo[{0}] = min(a[{0}], b[{0}])
| hi[{0}] = max(a[{0}], b[{0}])
| mlo[{0}] = a[{0}]
| mlo[{0}] min= b[{0}]
| mhi[{0}] = a[{0}]
| mhi[{0}] max= b[{0}]
| relu[{0}] = max(a[{0}], 0)
| top[{0}] = max(-0.0, a[{0}])
| low[{0}] = min(0.0, a[{0}])
| bottom[{0}] = min(a[{0}], -0.0)
| clip[{0}] = min(max(a[{0}], -1.0), 1.0)
known[0] = max(0.0, -0.0)
known[1] = max(-0.0, 0.0)
known[2] = min(0.0, -0.0)
known[3] = min(-0.0, 0.0)
"""

REDUCED = """
kernel reduced(N, M)
fp MODE
in  a: TYPE[N, M]
out lo: TYPE[N]
out hi: TYPE[N]

N
| lo[{0}] = inf
| hi[{0}] = -inf
| M MARK
| | lo[{0}] min= a[{0}, {1}]
| | hi[{0}] max= a[{0}, {1}]
"""


def minimum(a: float, b: float) -> float:
    """By the words of the standard."""
    if math.isnan(a) or math.isnan(b):
        return math.nan
    if a == b:
        return a if math.copysign(1, a) < 0 else b
    return a if a < b else b


def maximum(a: float, b: float) -> float:
    return -minimum(-a, -b)


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(np.all((np.isnan(a) & np.isnan(b)) | ((a == b) & (np.signbit(a) == np.signbit(b)))))


def kernels(mode: str) -> list[tuple[dojoir.Kernel, dict[str, np.ndarray]]]:
    found = []
    for text, dtype, mark in itertools.product((KERNEL, REDUCED), ("f32", "f64"), ("", ": v")):
        if mode == "strict" and text == REDUCED and mark:
            continue
        kernel = dojoir.parse(text.replace("MODE", mode).replace("TYPE", dtype).replace("MARK", mark))
        stored = {"f32": np.float32, "f64": np.float64}[dtype]
        if text == KERNEL:
            a, b = (np.array(side * 2, stored)[:131] for side in zip(*PAIRS, strict=True))
            found.append((kernel, {"a": a, "b": b}))
        else:
            random = Random(3)
            rows = [[random.choice((0.0, -0.0, *SPECIAL[row % 2 :: 5])) for _ in range(37)] for row in range(24)]
            zeros = [[random.choice((0.0, -0.0)) for _ in range(37)] for _ in range(8)]
            ones = [[sign * 0.0] * 37 for sign in (1, -1)]
            found.append((kernel, {"a": np.array(rows + zeros + ones, stored)}))
    return found


def test_the_interpreter_gives_what_the_standard_says() -> None:
    for kernel, inputs in kernels("reassoc"):
        results = dojoir.interpret(kernel, inputs)
        a = inputs["a"]
        if kernel.name == "reduced":
            for name, step, start in (("lo", minimum, math.inf), ("hi", maximum, -math.inf)):
                wanted = []
                for row in a.tolist():
                    total = start
                    for value in row:
                        total = step(total, value)
                    wanted.append(total)
                assert same(results[name], np.array(wanted)), name
            continue
        pairs = list(zip(a.tolist(), inputs["b"].tolist(), strict=True))
        for name, step in (("lo", minimum), ("mlo", minimum), ("hi", maximum), ("mhi", maximum)):
            assert same(results[name], np.array([step(*pair) for pair in pairs])), name
        assert same(results["relu"], np.array([maximum(x, 0.0) for x in a.tolist()]))
        assert same(results["top"], np.array([maximum(x, -0.0) for x in a.tolist()]))
        assert same(results["low"], np.array([minimum(x, 0.0) for x in a.tolist()]))
        assert same(results["bottom"], np.array([minimum(x, -0.0) for x in a.tolist()]))
        assert same(results["known"], np.array([0.0, 0.0, -0.0, -0.0]))


@pytest.mark.parametrize("target", ["llvm", "c", *ISAS])
@pytest.mark.parametrize("mode", ["strict", "reassoc"])
def test_every_target_gives_the_bits_of_the_interpreter(target: str, mode: str, tmp_path: Path) -> None:
    if not runs_here(target):
        pytest.skip(f"{target} does not run here")
    found = []
    for kernel, inputs in kernels(mode):
        dojoir.prove(kernel)
        sizes = dict(zip(("N", "M"), inputs["a"].shape, strict=False))
        expected = dojoir.interpret(kernel, inputs)
        found.append(Subject("zeros", kernel, (Trial(kernel, inputs, sizes, expected),), exact=True))
    wrong = list(differences(target, found, tmp_path, Counter()))
    assert not wrong, "\n\n".join(wrong)


TWICE = """
kernel twice(N, M)
in  m_top: f32[N, M]
out m: f32[N]
out m_low: f32[N]
out m_next: f32[N]
tmp m_high: f32[N~] reg

N
| m_high[{0}] = -inf
| M : v
| | m_high[{0}] max= m_top[{0}, {1}]
| M : v
| | m_high[{0}] max= m_top[{0}, {1}] * 0.5
| m[{0}] = m_high[{0}]
| m_low[{0}] = inf
| m_next[{0}] = -inf
| M : v
| | m_low[{0}] min= m_top[{0}, {1}]
| | m_next[{0}] max= -m_top[{0}, {1}]
"""


def test_extremes_by_bits_keep_to_themselves() -> None:
    """C accumulates by the bits of floats, in variables of its own, whatever else is called as they are; a NaN of
    either sign stays one."""
    kernel = dojoir.parse(TWICE)
    dojoir.prove(kernel)
    random = np.random.default_rng(5)
    rows = random.choice(np.array([0.0, -0.0, 1.5, -1.5, np.inf, -np.inf], np.float32), (60, 37))
    rows[:20] = -np.abs(rows[:20])
    rows[20:40] = np.abs(rows[20:40])
    rows[40:44, 3] = np.nan
    rows[44:48, 36] = -np.float32(np.nan)
    for row, bits in enumerate((0x7FC00001, 0xFFC00000, 0x7FFFFFFF, 0xFFFFFFFF)):
        rows[row * 3, 5] = np.array(bits, np.uint32).view(np.float32)
    expected = dojoir.interpret(kernel, {"m_top": rows})
    text = dojoir.emit(kernel, "c")
    assert text.count("reduction(max : ") == 3, text
    found = dojoir.compile(kernel, "c").run({"m_top": rows})
    for name, values in expected.items():
        assert same(values, found[name]), name


@pytest.mark.parametrize("mark", ["", " : v"])
@pytest.mark.parametrize("dtype", ["f32", "f64", "f16"])
def test_the_negative_of_a_fused_sum_that_is_0_has_a_sign(dtype: str, mark: str) -> None:
    """GCC takes -fma(a, b, c) for fma(-a, b, -c), of which both products may be 0 with the other sign."""
    operands = "\n".join(f"in {name}: {dtype}[N]" for name in "abc")
    text = f"""kernel negated(N)
{operands}
out y: {dtype}[N]
out z: {dtype}[N]
tmp t: {dtype}[N]

N{mark}
| y[{{0}}] = -fma(a[{{0}}], b[{{0}}], c[{{0}}])
| t[{{0}}] = fma(a[{{0}}], b[{{0}}], c[{{0}}])
| z[{{0}}] = -log1p(t[{{0}}])
"""
    ones = np.ones(37, {"f32": "f4", "f64": "f8", "f16": "f2"}[dtype])
    for target in filter(can_run, ("llvm", "c", "avx512", "avx2")):
        results = dojoir.compile(dojoir.parse(text), target).run({"a": ones, "b": ones, "c": -ones})
        assert all(np.signbit(results[name]).all() for name in "yz"), target
