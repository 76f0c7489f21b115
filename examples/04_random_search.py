"""A random search over legal moves: every kernel it visits is correct, so only the time is left to find.

python examples/04_random_search.py [KERNEL]
"""

import random
import sys

import dojoir


def walk(kernel: dojoir.Kernel, length: int, rng: random.Random) -> dojoir.Trace:
    """A random chain of legal moves."""
    trace = dojoir.Trace(kernel)
    for _ in range(length):
        moves = dojoir.candidates(trace.kernel, "llvm")
        rng.shuffle(moves)
        for move in moves:
            if dojoir.check(trace.kernel, move):
                trace.apply(move)
                break
    return trace


def search(name: str, size: int, walks: int, length: int, seed: int = 0) -> dojoir.Trace:
    """The fastest kernel that `walks` random chains of at most `length` moves lead to."""
    kernel = dojoir.kernels.load(name)
    sizes = dict.fromkeys(kernel.runtime_sizes, size)
    rng = random.Random(seed)
    best = dojoir.Trace(kernel)
    fastest = start = dojoir.measure(kernel, **sizes).seconds
    seen = {kernel.hash}
    for number in range(walks):
        trace = walk(kernel, rng.randint(1, length), rng)
        if trace.kernel.hash in seen:
            continue
        seen.add(trace.kernel.hash)
        try:
            seconds = dojoir.measure(trace.kernel, **sizes).seconds
        except dojoir.DojoError as error:  # a run that crashed or took too long is a result like any other
            print(f"{number:4}  {error}")
            continue
        if seconds < fastest:
            best, fastest = trace, seconds
            print(f"{number:4}  {start / seconds:6.2f} times  " + "; ".join(map(str, trace.moves)))
    return best


def main(name: str = "softmax", size: int = 512, walks: int = 100, length: int = 10) -> None:
    best = search(name, size, walks, length)
    print(best.kernel)
    print(dojoir.verify(best.kernel, against=best.start))


if __name__ == "__main__":
    main(*sys.argv[1:])
