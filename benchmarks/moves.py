"""How long the list of legal moves takes, from cold and after a move, and a check and an apply of one of them.

    python benchmarks/moves.py [--after N] [--peers PYTHON] [KERNEL …]

All times are milliseconds of CPU time. Cold is a kernel that was never seen, in a process that has listed the moves
of another one; after a move is the list for the kernel that it leads to (the median over N legal moves, the first
of each kind before a second of any). `peers.py` gives the figures of Exo and TVM, run by another Python where
`--peers` names one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from threading import Thread
from time import process_time
from typing import TypeVar

import dojoir

T = TypeVar("T")

TILED = """kernel tiled_matmul(N, M, K)
where N % 64 == 0, M % 256 == 0, K % 64 == 0
in  a: f32[N, K]
in  b: f32[K, M]
out c: f32[N, M]

N
| M
| | c[{0}, {1}] = 0
M
| K
| | N
| | | c[{2}, {0}] += a[{2}, {1}] * b[{1}, {0}]
"""

STEPS = (
    "tile(1, 1.0, 1.0.0, 256, 64, 64)",
    "swap_scopes(1.0.0.0.0)",
    "tile(1.0.0.0, 1.0.0.0.0, 16, 8)",
    "swap_scopes(1.0.0.0.0.0.0)",
    "swap_scopes(1.0.0.0.0.0)",
    "swap_scopes(1.0.0.0.0.0.0)",
    "stage(1.0.0, b, b_panel, in)",
    "stage(1.0.1.0, a, a_panel, in)",
)
"""Three levels of blocks with both panels packed, as K. Goto and R. van de Geijn have it (2008)."""

KERNELS = ("softmax", "tiled_matmul", "matmul", "layernorm", "attention", "conv2d", "jacobi2d")


def load(name: str) -> dojoir.Kernel:
    """A kernel of the library, or the tiled product."""
    if name != "tiled_matmul":
        return dojoir.kernels.load(name)
    kernel = dojoir.parse(TILED)
    for step in STEPS:
        kernel = dojoir.apply(kernel, step)
    return kernel


def timed(run: Callable[[], T]) -> tuple[T, float]:
    """What `run` gives, and the milliseconds of CPU time that it took."""
    start = process_time()
    result = run()
    return result, (process_time() - start) * 1e3


def cold(run: Callable[[], T]) -> T:
    """What `run` gives in a thread that has kept no answers, but for those about another kernel."""
    found: list[T] = []

    def go() -> None:
        dojoir.moves(dojoir.kernels.load("rmsnorm"))
        found.append(run())

    thread = Thread(target=go)
    thread.start()
    thread.join()
    return found[0]


def unseen(text: str, number: int) -> dojoir.Kernel:
    """The kernel of a text under a name of its own, so that nothing is known of it."""
    name = text.split("(")[0].removeprefix("kernel ")
    return dojoir.parse(text.replace(f"kernel {name}", f"kernel {name}_{number}", 1))


def sample(legal: list[dojoir.Move], count: int) -> list[dojoir.Move]:
    """Some of the moves, the first of each kind before a second of any."""
    seen: dict[str, int] = {}
    order = []
    for move in legal:
        seen[move.name] = seen.get(move.name, 0) + 1
        order.append((seen[move.name], len(order), move))
    return [move for *_, move in sorted(order, key=lambda entry: entry[:2])[:count]]


def row(name: str, after: int) -> list[str]:
    """The figures of one kernel as text."""
    text = dojoir.to_text(load(name))
    count = len(dojoir.candidates(dojoir.parse(text)))
    runs = [cold(lambda n=n: timed(lambda: dojoir.moves(unseen(text, n)))) for n in range(3)]
    legal = runs[0][0]

    def next_list(move: dojoir.Move, number: int) -> tuple[float, float]:
        kernel = unseen(text, number)
        dojoir.moves(kernel)
        following, applied = timed(lambda: dojoir.apply(kernel, move))
        return timed(lambda: dojoir.moves(following))[1], applied

    steps = [cold(lambda m=m, n=n: next_list(m, n)) for n, m in enumerate(sample(legal, after), 10)]

    def checks() -> list[float]:
        kernel = unseen(text, 9)
        return [timed(lambda m=m: dojoir.check(kernel, m))[1] for m in dojoir.candidates(kernel)]

    taken = cold(checks)
    figures = [
        median(t for _, t in runs),
        median(t for t, _ in steps),
        median(taken),
        quantiles(taken, n=10)[-1],
        median(t for _, t in steps),
    ]
    return [name, str(count), str(len(legal)), *(f"{figure:.2f}" for figure in figures)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="*", default=list(KERNELS))
    parser.add_argument("--after", type=int, default=12, metavar="N")
    parser.add_argument("--peers", default=sys.executable, metavar="PYTHON")
    options = parser.parse_args()
    head = ["kernel", "candidates", "legal", "cold", "after a move", "check", "check p90", "apply"]
    print(" | ".join(f"{word:>12}" for word in head))
    for name in options.kernels:
        print(" | ".join(f"{cell:>12}" for cell in row(name, options.after)), flush=True)
    script = Path(__file__).with_name("peers.py")
    found = subprocess.run([options.peers, script, "--json"], capture_output=True, text=True, check=False)
    last = found.stdout.strip().splitlines()[-1:]
    for peer, steps in (json.loads(last[0]) if last else {"peers": found.stderr.strip()}).items():
        listed = steps if isinstance(steps, str) else ", ".join(f"{s} {t:.2f}" for s, t in steps.items())
        print(f"{peer}: {listed}")


if __name__ == "__main__":
    main()
