"""Elementary functions, remainders and `isnan` on processors that are not this one: emulated NEON, SVE and RVV, and
the text for GPUs on the harness, beside the interpreter."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import on_harness
import pytest
from emulated import Trial, build, machine, run

import dojoir

FUNCTIONS = (
    "tan", "atan", "expm1", "log1p", "log10", "erfc", "sinh", "cosh", "asin", "acos", "asinh", "acosh", "atanh",
)  # fmt: skip
OF_TWO = ("atan2", "hypot", "copysign", "fmod", "floor_mod", "floor_div")
ULPS = 4
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38, 88.9, -104.0, 0.5, -0.75,
                    1.5707964, 1e6], np.float32)  # fmt: skip


def kernel(scope: str) -> dojoir.Kernel:
    outs = "".join(f"out y_{name}: f32[N]\n" for name in (*FUNCTIONS, *OF_TWO))
    body = "".join(f"| y_{name}[{{0}}] = {name}(x[{{0}}])\n" for name in FUNCTIONS)
    body += "".join(f"| y_{name}[{{0}}] = {name}(x[{{0}}], z[{{0}}])\n" for name in OF_TWO)
    head = f"kernel functions(N)\nin  x: f32[N]\nin  z: f32[N]\n{outs}out n: i32[N]\n\n{scope}\n"
    return dojoir.parse(f"{head}{body}| n[{{0}}] = i32(isnan(x[{{0}}]))\n")


def numbers() -> np.ndarray:
    random = np.random.default_rng(7)
    spread = np.exp2(random.uniform(-30, 7, 120)).astype(np.float32) * random.choice(np.float32([1, -1]), 120)
    return np.concatenate([SPECIAL, spread])


def inputs() -> dict[str, np.ndarray]:
    x = numbers()
    return {"x": x, "z": np.random.default_rng(8).permutation(x)}


def check(found: dict[str, np.ndarray]) -> None:
    x = numbers()
    want = dojoir.interpret(kernel("N"), inputs())
    assert np.array_equal(found["n"], np.isnan(x))
    for name in (*FUNCTIONS, *OF_TWO):
        got, exact = found[f"y_{name}"], want[f"y_{name}"]
        assert np.array_equal(np.isnan(got), np.isnan(exact)), name
        finite = np.isfinite(exact)
        assert np.array_equal(got[~finite & ~np.isnan(exact)], exact[~finite & ~np.isnan(exact)]), name
        off = np.abs(got[finite].astype(np.float64) - exact[finite]) / np.spacing(np.abs(exact[finite]))
        assert off.max() <= ULPS, (name, x[finite][off.argmax()], off.max())


@pytest.mark.parametrize(
    ("target", "vlen"), [("neon", 128), ("sve", 128), ("sve", 512), ("rvv", 128), ("rvv", 512)]
)
def test_emulated(target: str, vlen: int, tmp_path: Path) -> None:
    try:
        machine(target)
    except dojoir.ToolchainError as error:
        pytest.skip(str(error))
    made = kernel("N : v")
    trial = Trial(made, inputs(), {"N": len(numbers())}, dojoir.interpret(made, inputs()))
    (found,) = run(target, build(target, [made], tmp_path), [(0, trial)], vlen)
    check(dict(found))


@pytest.mark.parametrize("target", ["cuda", "hip"])
def test_on_the_harness(target: str) -> None:
    check(on_harness.run(kernel("N : gx"), inputs(), {"N": len(numbers())}, target))
