"""Save what was done to a kernel, and do it again elsewhere: a trace is the first text and the moves.

python examples/05_save_and_replay.py
"""

import tempfile
from pathlib import Path

import dojoir


def main() -> None:
    trace = dojoir.Trace(dojoir.kernels.load("matmul"))
    trace.apply("tile(@i, @j, 8, 32)")
    trace.apply("parallelize(@i)")
    trace.undo()  # second thoughts
    trace.apply("vectorize(@j_in)")
    print(trace.kernel)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "matmul.trace.json"
        trace.save(path)
        print(path.read_text())

        again = dojoir.Trace.load(path)  # checks every move again, and that the end is the same

    assert again.kernel == trace.kernel
    assert again.replay() == trace.kernel
    verdict = dojoir.certify(again)  # proves the two ends equal, trusting no move
    print(verdict)

    # Moves are text: the same chain makes sense on other kernels, or is refused with a reason.
    other = dojoir.Trace(dojoir.kernels.load("matmul_nt"))
    for move in trace.moves:
        other.apply(str(move))
    print(other.kernel)


if __name__ == "__main__":
    main()
