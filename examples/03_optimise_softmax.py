"""Optimise softmax by hand: one move at a time, each proved, the tree and the time after each.

python examples/03_optimise_softmax.py
"""

import dojoir

MOVES = """
join_scopes(0, 1)   one loop over the rows instead of two
reuse_dims(m, 0)    now one maximum is alive at a time: one element is enough
reuse_dims(s, 0)    the same for the sum
reuse_dims(e, 0)    and for the exponentials: one row instead of a matrix
place(m, reg)
place(s, reg)
vectorize(0.1)      the three passes over a row, in lanes
vectorize(0.3)
vectorize(0.4)
"""


def main(n: int = 1024) -> None:
    trace = dojoir.Trace(dojoir.kernels.load("softmax"))
    print(trace.kernel)

    # Too early: while all rows of `m` are written before the first is read, they cannot share one element.
    print(dojoir.check(trace.kernel, "reuse_dims(m, 0)"))

    first = dojoir.measure(trace.kernel, N=n, M=n)
    print(f"\n{first}\n")
    for line in MOVES.strip().splitlines():
        move = line.split("  ")[0]
        trace.apply(move)
        now = dojoir.measure(trace.kernel, N=n, M=n)
        print(f"-- {line}\n{trace.kernel}\n{now}\n{first.seconds / now.seconds:.2f} times as fast as at first\n")

    # The whole chain, proved again from the first text to the last; and the result, held against the meaning.
    assert dojoir.certify(trace)
    print(dojoir.verify(trace.kernel, against=trace.start))


if __name__ == "__main__":
    main()
