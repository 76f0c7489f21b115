"""A kernel on a GPU: scheduled by rule, then a row a block by a pass, and a product in tiles.

    python examples/09_gpu.py

Runs on a GPU where there is one (`pip install 'dojoir[cuda]'`). Where there is none, the same CUDA text runs on the
CPU, each access checked: a race between threads would be an error.
"""

from __future__ import annotations

import numpy as np

import dojoir


def compiled(kernel: dojoir.Kernel) -> dojoir.Compiled:
    """The kernel on the GPU, or on the CPU in its place."""
    try:
        return dojoir.compile(kernel, "cuda")
    except dojoir.ToolchainError as missing:
        print(f"no GPU ({missing.diagnostic.code}): its threads run on the CPU")
        return dojoir.compile(kernel, "cuda", emulated=True)


def main() -> None:
    random = np.random.default_rng(0)
    softmax = dojoir.kernels.load("softmax")

    print("Any text becomes grids by rule, also with open sizes:\n")
    by_rule = dojoir.optimize(softmax, "cuda")
    print(by_rule.kernel)

    print("With a fixed length the row stays in registers, and one access moves 16 bytes:\n")
    fixed = softmax.specialize(M=1024)
    trace = dojoir.Trace(fixed)
    for step in dojoir.parse_pipeline("join_all; block_rows(0, 128)"):
        if isinstance(step, dojoir.Pass):
            step(trace)
        else:
            trace.apply(step)
    print(trace.kernel)
    x = random.standard_normal((3, 1024), dtype="f4")
    for kernel in (by_rule.kernel, trace.kernel):
        (y,) = compiled(kernel).run({"x": x}, N=3, **{s: 1024 for s in kernel.runtime_sizes if s == "M"}).values()
        np.testing.assert_allclose(y.sum(axis=1), 1, rtol=1e-5)

    print("A product in tiles: operands in shared memory, 4×8 results a thread in registers:\n")
    matmul = dojoir.kernels.load("matmul").specialize(N=64, M=64, K=32)
    tiled = dojoir.PASSES["tile_product"].given("0", "64", "64", "8", "4", "8").on(matmul)
    text = dojoir.emit(tiled.kernel, "cuda")
    print("\n".join(line for line in text.splitlines() if "__shared__" in line or "barrier" in line))
    a, b = (random.standard_normal(shape, dtype="f4") for shape in ((64, 32), (32, 64)))
    (c,) = compiled(tiled.kernel).run({"a": a, "b": b}).values()
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)
    print("\nall results are right")


if __name__ == "__main__":
    main()
