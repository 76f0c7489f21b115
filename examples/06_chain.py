"""Two kernels made one: joined by the names of their arguments, then fused by moves until nothing lies between.

python examples/06_chain.py
"""

from pathlib import Path

import dojoir

SCALE = """
kernel scaled(N, M)
in  q: f32[N, M]
in  t: f32
out x: f32[N, M]

N @i
| M @j
| | x[{i}, {j}] = q[{i}, {j}] * t
"""


def main(n: int = 1024) -> None:
    # `x` is what the first returns and the second takes: now it is a temporary. A temporary or a label of the
    # second whose name is taken gets a number.
    chained = dojoir.chain(dojoir.parse(SCALE), dojoir.kernels.load("softmax"))
    print(chained)

    # Other names are given to sizes and buffers of the second kernel, where its own do not say what is meant.
    product = dojoir.chain(
        dojoir.kernels.load("matmul"), dojoir.kernels.load("bias_relu"), rename={"x": "c", "b": "bias"}
    )
    print(product)

    # What does not fit is an error that names both declarations.
    try:
        dojoir.chain(dojoir.kernels.load("matmul"), dojoir.kernels.load("softmax"), rename={"x": "c", "M": "K"})
    except dojoir.ArgumentError as error:
        print(error)

    # From here on it is a kernel like any other: the moves make one pass of what was two.
    trace = dojoir.Trace(chained)
    for move in dojoir.parse_pipeline((Path(__file__).parent / "scaled_softmax.moves").read_text()):
        assert isinstance(move, dojoir.Move)
        trace.apply(move)
    print(trace.kernel)
    print(dojoir.verify(trace.kernel, against=chained))
    before, after = (dojoir.measure(k, threads=1, N=n, M=n) for k in (chained, trace.kernel))
    print(f"{before.seconds / after.seconds:.1f} times as fast as one after the other")


if __name__ == "__main__":
    main()
