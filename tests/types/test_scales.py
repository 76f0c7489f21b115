"""Powers of two as scales of blocks (f8e8m0): quantised, multiplied, and brought to one scale, on every target."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import on_harness
import pytest
from able import can_run
from emulated import Trial, build, machine, run

import dojoir
from dojoir.meaning.bits import to_floats
from dojoir.support.frozen import dataclass

Arrays = dict[str, np.ndarray]
E4M3, SCALE = dojoir.parse("kernel k()\ninout q: f8e4m3\ninout s: f8e8m0\n\nq = q\ns = s\n").buffers

QUANTIZE = """
kernel mx_quantize(N)
in  x: f32[N, 32]
out q: f8e4m3[N, 32]
out s: f8e8m0[N]
tmp m: f32[N]

N
| m[{0}] = 0
| 32
| | m[{0}] max= abs(x[{0}, {1}])
| s[{0}] = round_to_zero(f8e8m0, m[{0}] / 256)
| 32
| | q[{0}, {1}] = sat(f8e4m3, x[{0}, {1}] / s[{0}])
"""

PRODUCT = """
kernel mx_matvec(N, B)
in  q: f8e4m3[N, 32*B]
in  s: f8e8m0[N, B]
in  p: f8e4m3[32*B]
in  t: f8e8m0[B]
out y: f32[N]
tmp d: f32[N, B]

N
| y[{0}] = 0
| B
| | d[{0}, {1}] = 0
| | 32
| | | d[{0}, {1}] += q[{0}, 32*{1} + {2}] * p[32*{1} + {2}]
| | y[{0}] += d[{0}, {1}] * s[{0}, {1}] * t[{1}]
"""

ONE_SCALE = """
kernel one_scale(N, B)
in  s: f8e8m0[N, B]
out t: f8e8m0[N]
out up: u8[N, B]
out near: f8e8m0[N, B]

N
| t[{0}] = bitcast(f8e8m0, u8(0))
| B
| | t[{0}] max= s[{0}, {1}]
| B
| | up[{0}, {1}] = bitcast(u8, t[{0}]) - bitcast(u8, s[{0}, {1}])
| | near[{0}, {1}] = round_away(f8e8m0, s[{0}, {1}] * 1.5 / t[{0}])
"""


def codes(exponents: np.ndarray) -> np.ndarray:
    return np.clip(exponents + 127, 0, 254).astype(np.uint8)


def quantize() -> tuple[Arrays, Arrays, dict[str, int]]:
    random = np.random.default_rng(3)
    x = random.normal(size=(70, 32)) * 2.0 ** random.integers(-140, 120, (70, 1))
    x[3], x[4, ::2], x[6, 8] = 0, 0, 3.4e38
    x = x.astype(np.float32)
    exponent = np.frexp(np.abs(x).max(1))[1] - 1 - 8
    exponent = np.where(np.abs(x).max(1) > 0, np.maximum(exponent, -127), -127)
    scaled = np.clip(x / np.ldexp(np.float32(1), exponent)[:, None], -448, 448)
    q = scaled.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
    return {"x": x}, {"q": q, "s": codes(exponent)}, {"N": 70}


def product() -> tuple[Arrays, Arrays, dict[str, int]]:
    """Of numbers whose sums are exact in any order."""
    random = np.random.default_rng(4)
    few = np.array([0x38, 0xB8, 0x40, 0xC0, 0], np.uint8)  # 1, -1, 2, -2, 0
    q, p = random.choice(few, (9, 96)), random.choice(few, 96)
    s, t = (codes(random.integers(-3, 3, shape)) for shape in ((9, 3), (3,)))
    floats = [to_floats(a, E4M3.dtype) for a in (q, p)] + [to_floats(a, SCALE.dtype) for a in (s, t)]
    y = np.einsum("nbk,bk,nb,b->n", floats[0].reshape(9, 3, 32), floats[1].reshape(3, 32), floats[2], floats[3])
    return {"q": q, "p": p, "s": s, "t": t}, {"y": y.astype(np.float32)}, {"N": 9, "B": 3}


def one_scale() -> tuple[Arrays, Arrays, dict[str, int]]:
    s = np.random.default_rng(5).integers(0, 255, (40, 7), np.uint8)
    t = s.max(1)
    up = (t[:, None] - s).astype(np.uint8)
    return (
        {"s": s},
        {"t": t, "up": up, "near": np.maximum(128 - up.astype(int), 0).astype(np.uint8)},
        {"N": 40, "B": 7},
    )


@dataclass(frozen=True)
class Text:
    text: str
    arrays: Callable[[], tuple[Arrays, Arrays, dict[str, int]]]

    def kernel(self, gpu: bool = False) -> dojoir.Kernel:
        return dojoir.parse(self.text.replace("\nN\n", "\nN : gx\n") if gpu else self.text)


TEXTS = {
    "quantize": Text(QUANTIZE, quantize), "product": Text(PRODUCT, product), "one_scale": Text(ONE_SCALE, one_scale)
}  # fmt: skip


def same(found: Arrays, want: Arrays) -> bool:
    return all(np.array_equal(found[name].view(np.uint8), want[name].view(np.uint8)) for name in want)


@pytest.mark.parametrize("name", TEXTS)
def test_on_this_machine_and_certified(name: str) -> None:
    kernel = TEXTS[name].kernel()
    given, want, _ = TEXTS[name].arrays()
    assert same(dojoir.interpret(kernel, given), want)
    for target in ("llvm", "c", "avx2", "avx512"):
        if not can_run(target):
            continue
        trace = dojoir.optimize(kernel, target)
        assert trace.moves
        assert dojoir.certify(trace).status == "legal"
        for one in (kernel, trace.kernel):
            assert same(dojoir.compile(one, target).run(given), want), (target, str(one))
    assert dojoir.verify(kernel, target="llvm")


@pytest.mark.parametrize("target", ["neon", "sve", "rvv"])
def test_on_emulated_targets(target: str, tmp_path: Path) -> None:
    try:
        machine(target)
    except dojoir.ToolchainError as error:
        pytest.skip(str(error))
    kernels = [dojoir.optimize(text.kernel(), target).kernel for text in TEXTS.values()]
    trials = []
    for number, text in enumerate(TEXTS.values()):
        given, want, sizes = text.arrays()
        trials.append((number, Trial(kernels[number], given, sizes, want)))
    for (_, trial), found in zip(trials, run(target, build(target, kernels, tmp_path), trials, 256), strict=True):
        assert same(found, trial.expected), trial.kernel


@pytest.mark.parametrize("target", ["cuda", "hip"])
@pytest.mark.parametrize("name", TEXTS)
def test_on_the_harness(name: str, target: str) -> None:
    given, want, sizes = TEXTS[name].arrays()
    for one in (TEXTS[name].kernel(gpu=True), dojoir.optimize(TEXTS[name].kernel(), target).kernel):
        assert same(on_harness.run(one, given, sizes, target), want), one


def test_a_sum_of_scales_has_no_beginning() -> None:
    """0 is stored as the smallest number: it is no partial result to begin with."""
    text = "kernel k(N)\nin  x: f8e8m0[N]\nout s: f8e8m0\n\ns = x[0]\nN @i\n| s += x[{0}]\n"
    assert dojoir.check(dojoir.parse(text), "split_reduction(@i, s, p, 4)").code == "no-neutral"
    text = text.replace("s += x", "s min= x")
    assert dojoir.check(dojoir.parse(text), "split_reduction(@i, s, p, 4)").status == "legal"
