"""Write a kernel as text, run its meaning, compile it, and check one against the other.

python examples/01_write_and_run.py
"""

import numpy as np

import dojoir

TEXT = """
kernel distances(N, M, K)                  # sizes are given when it runs
in  x: f32[N, K]
in  y: f32[M, K]
out d: f32[N, M]
tmp sq: f32[N, M]

N @i                                       # a scope: {i} runs from 0 to N - 1
| M @j                                     # the bars are the depth
| | sq[{i}, {j}] = 0
| | K @k
| | | sq[{i}, {j}] += (x[{i}, {k}] - y[{j}, {k}]) * (x[{i}, {k}] - y[{j}, {k}])
| | d[{i}, {j}] = sqrt(sq[{i}, {j}])
"""


def main(n: int = 300) -> None:
    kernel = dojoir.parse(TEXT)
    dojoir.prove(kernel)  # in bounds, nothing read before it is written: for all sizes, not for some
    print(kernel)

    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, 8), dtype=np.float32)
    y = rng.standard_normal((n + 5, 8), dtype=np.float32)
    want = np.linalg.norm(x[:, None] - y, axis=2)

    # What the kernel means: slow, and obvious.
    few = dojoir.interpret(kernel, {"x": x[:3], "y": y[:4]})["d"]
    np.testing.assert_allclose(few, want[:3, :4], rtol=1e-5)

    # What it runs as: machine code, made in this process; no compiler is needed.
    fast = dojoir.compile(kernel)
    d = np.empty((n, n + 5), np.float32)
    fast(x, y, d)  # the arguments in declared order, outputs are written in place
    np.testing.assert_allclose(d, want, rtol=1e-5)
    also = fast.run({"x": x, "y": y})["d"]  # or by name, outputs are allocated
    np.testing.assert_array_equal(also, d)

    # One held against the other: several sizes, seeds and kinds of values, guard pages around every array.
    print(dojoir.verify(kernel))

    # A wrong kernel is told what is wrong, and where, before anything runs.
    try:
        dojoir.prove(dojoir.parse(TEXT.replace("x[{i}, {k}] - y", "x[{i}, {k} + 1] - y")))
    except dojoir.KernelError as error:
        print(error)


if __name__ == "__main__":
    main()
