"""A beam search that starts from the best schedule known, improves on it, and stores what it found.

python examples/07_beam_search.py KERNEL NAME=SIZE … [--width 3] [--depth 4] [--tries 24] [--store FOLDER]

Every state is a kernel that is proved right, so the search only measures. In each round every kernel of the beam
is left by some of its legal moves; the new ones are timed in turn with the best so far. What is stored is found
again by `dojoir.optimize`, with the folder in the variable DOJOIR_SCHEDULES.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterable

import dojoir
from dojoir.runtime import ratio_of

SPEED = {
    "prefetch", "stream", "unstream", "vectorize", "parallelize", "unmark", "unroll", "split", "tile",
    "swap_scopes", "join_scopes", "split_scopes", "split_reduction", "stage", "place", "to_fma", "inline",
    "reuse_dims",
}  # fmt: skip
"""The families of moves that are tried: those that can make a kernel faster by themselves."""


def extended(trace: dojoir.Trace, move: dojoir.Move) -> dojoir.Trace:
    """The trace with one more move."""
    longer = dojoir.Trace(trace.start)
    for made in (*trace.moves, move):
        longer.apply(made)
    return longer


def neighbours(trace: dojoir.Trace, target: str, tries: int, rng: random.Random) -> Iterable[dojoir.Trace]:
    """The trace with one more move, for some of the moves that are legal."""
    legal = [move for move in dojoir.moves(trace.kernel, target) if move.name in SPEED]
    for move in rng.sample(legal, min(tries, len(legal))):
        yield extended(trace, move)


def search(
    kernel: dojoir.Kernel, sizes: dict[str, int], target: str, width: int, depth: int, tries: int
) -> dojoir.Trace:
    """The fastest trace that was found, at worst that of `dojoir.optimize`."""
    rng = random.Random(0)
    best = dojoir.optimize(kernel, target, sizes=sizes)
    beam, seen = [best], {best.kernel.hash}
    for _ in range(depth):
        found: list[tuple[float, dojoir.Trace]] = []
        for trace in (longer for state in beam for longer in neighbours(state, target, tries, rng)):
            if trace.kernel.hash in seen:
                continue
            seen.add(trace.kernel.hash)
            try:
                ratio = faster(trace.kernel, best.kernel, sizes, target, 0.5)
            except dojoir.DojoError:  # it crashed, hung or needed too much memory: a result like any other
                continue
            found.append((ratio, trace))
            print(f"{ratio:6.2f}  {'; '.join(map(str, trace.moves[-depth:]))}", flush=True)
        beam = [trace for _, trace in sorted(found, key=lambda pair: -pair[0])[:width]]
        if beam and faster(beam[0].kernel, best.kernel, sizes, target, 2.0) > 1.02:
            best = beam[0]
            print(f"best so far: {'; '.join(map(str, best.moves))}")
    return best


def faster(kernel: dojoir.Kernel, than: dojoir.Kernel, sizes: dict[str, int], target: str, budget: float) -> float:
    """How many times as fast as another kernel one is, both timed in turn."""
    together = dojoir.measure_together([kernel, than], target, sizes=sizes, budget=budget, with_ceilings=False)
    return ratio_of(together.measurements[1], together.measurements[0]).median


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kernel", choices=dojoir.kernels.names(), metavar="KERNEL")
    parser.add_argument("sizes", nargs="+", metavar="NAME=SIZE")
    parser.add_argument("--target", default="llvm")
    parser.add_argument("--store", metavar="FOLDER")
    for name, value in (("width", 3), ("depth", 4), ("tries", 24)):
        parser.add_argument(f"--{name}", type=int, default=value)
    given = parser.parse_args(arguments)
    sizes = {name: int(value) for name, _, value in (text.partition("=") for text in given.sizes)}
    kernel = dojoir.kernels.load(given.kernel)
    best = search(kernel, sizes, given.target, given.width, given.depth, given.tries)
    print(best.kernel)
    print(dojoir.verify(best.kernel, against=kernel, target=given.target))
    if given.store:
        print("stored:", dojoir.schedules.store(best, given.target, given.store, note=f"found at {sizes}"))


if __name__ == "__main__":
    main()
