"""Build a kernel from Python: for kernels that programs write, here a filter with its taps written out.

python examples/02_builder.py
"""

import numpy as np

import dojoir
from dojoir import build


def fir(taps: int) -> dojoir.Kernel:
    """y[i] = sum over k of w[k] x[i + k], each product written out, and the sum clipped to [-limit, limit]."""
    with build.kernel("fir", "N") as b:
        (n,) = b.sizes
        b.where(n >= taps)
        x = b.input("x", "f32", ["N"])
        w = b.input("w", "f32", [taps])
        limit = b.input("limit", "f32")
        y = b.output("y", "f32", [n - (taps - 1)])
        with b.scope(n - (taps - 1), label="i") as i:
            total = w[0] * x[i]
            for k in range(1, taps):  # a loop of Python's: it writes the expression, and is gone when it runs
                total = total + w[k] * x[i + k]
            y[i] = build.max(-limit, build.min(total, limit))
    return b.kernel


def main(taps: int = 4) -> None:
    kernel = fir(taps)
    print(kernel)
    assert dojoir.parse(str(kernel)) == kernel  # the text and the tree are the same thing

    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(size, dtype=np.float32) for size in (1000, taps))
    got = dojoir.compile(dojoir.apply(kernel, "vectorize(@i)")).run({"x": x, "w": w, "limit": 2.5})["y"]
    want = np.clip(np.correlate(x, w), -2.5, 2.5)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    print(f"{len(got)} samples, the largest difference to NumPy is {np.abs(got - want).max():.1e}")


if __name__ == "__main__":
    main()
