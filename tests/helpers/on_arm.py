"""What `on_arm.sh` runs on an emulated Arm processor. It needs no pytest."""

from __future__ import annotations

import platform
import runpy
import time

import numpy as np
from folders import ROOT

import dojoir

KERNELS = ("relu", "softmax", "layernorm", "matmul", "conv2d", "dot", "transpose", "cumsum", "gelu", "gemv",
           "reduce_mean_0", "batchnorm_inference")  # fmt: skip
VERIFIED = ("softmax", "matmul")

started = time.perf_counter()
assert platform.machine() == "aarch64", platform.machine()
machine = dojoir.machine_for("llvm")
assert (machine.vector_bytes, machine.registers) == (16, 32), machine
print(f"on {machine}")
for name in KERNELS:
    kernel = dojoir.kernels.load(name)
    fast = dojoir.optimize(kernel).kernel
    sizes = dict.fromkeys(kernel.runtime_sizes, 9)
    given = dojoir.testing.random_inputs(kernel, **sizes)
    expected = dojoir.interpret(kernel, given, **sizes)
    found = dojoir.compile(fast).run(given, **sizes)
    for output, values in expected.items():
        # Inputs are of both signs: the root of a negative variance is NaN, here as there.
        assert np.isfinite(values).mean() > 0.25, (name, output)
        assert np.allclose(found[output], values, rtol=1e-4, atol=1e-5, equal_nan=True), (name, output)
    if name in VERIFIED:
        report = dojoir.verify(fast, against=kernel, seeds=1, time_limit=300.0)
        assert report.ok, report
    print(f"{time.perf_counter() - started:6.1f} s  {name}{', verified' if name in VERIFIED else ''}", flush=True)
example = sorted(ROOT.glob("examples/0*.py"))[0]
runpy.run_path(str(example), run_name="__main__")
print(f"{time.perf_counter() - started:6.1f} s  {example.name}: all ran on Arm")
