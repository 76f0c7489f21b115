"""How long the list of legal moves takes, from cold and after a move, and a check and an apply of one of them.

    python benchmarks/moves.py [--after N] [--peers PYTHON] [KERNEL …]
    python benchmarks/moves.py --walks N          how long answers take at N random states (`walks.py`)
    python benchmarks/moves.py --growth 1 2 4 8   how cost grows with a chain of layers
    python benchmarks/moves.py --along N [--steps FILE] [KERNEL …]      the list at each state of N random walks

All times are milliseconds of CPU time. Cold is a kernel that was never seen, in a process that has listed the moves
of another one; after a move is the list for the kernel that it leads to (the median over N legal moves, the first
of each kind before a second of any). Along a walk every state is listed, of 1 to 10 legal moves behind a kernel
that was listed as well, each walk in a thread of its own that has kept no answers; `--steps` keeps the moves of
the walks in a file, so that another checkout can go the same way (a move that it does not have ends a walk).
`peers.py` gives the figures of Exo and TVM, run by another Python where `--peers` names one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import median, quantiles
from threading import Thread
from time import process_time
from typing import TypeVar

from walks import report, walks

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


# -- growth --------------------------------------------------------------------------------------------------
LAYER = """N
| M
| | p{n}[{{0}}, {{1}}] = b{n}[{{1}}]
| | M
| | | p{n}[{{0}}, {{1}}] += {x}[{{0}}, {{2}}] * w{n}[{{2}}, {{1}}]
N
| M
| | r{n}[{{0}}, {{1}}] = max(p{n}[{{0}}, {{1}}], 0)
N
| s{n}[{{0}}] = 0
| M
| | s{n}[{{0}}] += r{n}[{{0}}, {{1}}] * r{n}[{{0}}, {{1}}]
N
| M
| | v{n}[{{0}}, {{1}}] = r{n}[{{0}}, {{1}}] * rsqrt(s{n}[{{0}}] / M + 1e-05)
N
| M
| | {y}[{{0}}, {{1}}] = v{n}[{{0}}, {{1}}] + {x}[{{0}}, {{1}}]
"""
"""A product with bias, relu, the sum of squares, the scale by it, and what came in added: 7 statements."""

MOVED = 6
"""How many moves of a chain are followed by a list."""


def chain(layers: int) -> str:
    """The text of a kernel of so many layers, each on what the one before gives."""
    lines = [f"kernel chain_{layers}(N, M)", "in  x0: f32[N, M]"]
    body = ""
    for n in range(layers):
        last = n + 1 == layers
        lines += [f"in  w{n}: f32[M, M]", f"in  b{n}: f32[M]"]
        lines += [f"tmp {name}{n}: f32[N, M]" for name in "prv"] + [f"tmp s{n}: f32[N]"]
        lines += ["out y: f32[N, M]" if last else f"tmp x{n + 1}: f32[N, M]"]
        body += LAYER.format(n=n, x=f"x{n}", y="y" if last else f"x{n + 1}")
    return "\n".join(lines) + "\n\n" + body


def growth(layers: int) -> list[str]:
    """Seconds of CPU time for a chain: all of its moves, those after one of them (the median), `optimize`, and
    `certify` of what that did."""
    text = chain(layers)

    def listed() -> tuple[int, float, float]:
        kernel = dojoir.parse(text)
        legal, taken = timed(lambda: dojoir.moves(kernel))
        after = []
        for move in Random(layers).sample(list(legal), MOVED):
            following = dojoir.apply(kernel, move)
            after.append(timed(lambda k=following: dojoir.moves(k))[1])
        return len(legal), taken, median(after)

    def optimized() -> tuple[int, float, float]:
        trace, taken = timed(lambda: dojoir.optimize(dojoir.parse(text)))
        return len(trace.moves), taken, timed(lambda: dojoir.certify(trace))[1]

    count, every, after = cold(listed)
    steps, optimize, certify = cold(optimized)
    times = (f"{figure / 1e3:.2f}" for figure in (every, after, optimize, certify))
    return [str(layers), str(7 * layers), str(count), str(steps), *times]


def print_growth(sizes: list[int]) -> None:
    """The table, a line for each number of layers."""
    head = ["layers", "statements", "legal", "steps", "all moves", "after a move", "optimize", "certify"]
    print(" | ".join(f"{word:>12}" for word in head))
    for layers in sizes:
        print(" | ".join(f"{cell:>12}" for cell in growth(layers)), flush=True)


# -- along walks ---------------------------------------------------------------------------------------------
STEPS_OF_A_WALK = 10

LONG = 3000
"""A text of more characters is not walked on from."""


def along(name: str, number: int, seed: int, steps: list[str] | None) -> tuple[list[str], list[float]]:
    """The moves of a walk, those given or random legal ones, and the milliseconds of the list after each."""
    random = Random(f"{seed}, {name}, {number}")
    kernel = dojoir.kernels.load(name)
    legal = dojoir.moves(kernel)
    gone: list[str] = []
    taken: list[float] = []
    for n in range(random.randint(1, STEPS_OF_A_WALK) if steps is None else len(steps)):
        if not legal or len(dojoir.to_text(kernel)) > LONG:
            break
        step = str(random.choice(legal)) if steps is None else steps[n]
        try:
            kernel = dojoir.apply(kernel, step)
        except dojoir.DojoError:
            break
        gone.append(step)
        legal, milliseconds = timed(lambda k=kernel: dojoir.moves(k))
        taken.append(milliseconds)
    return gone, taken


def print_along(kernels: list[str], walks_each: int, seed: int, path: Path | None) -> None:
    """A line for each kernel: how many states were listed, the median, the 90th percentile, and the longest."""
    known: dict[str, list[str]] = json.loads(path.read_text()) if path is not None and path.exists() else {}
    print(" | ".join(f"{word:>18}" for word in ("kernel", "states", "median", "90 %", "longest")))
    for name in kernels:
        taken: list[float] = []
        for number in range(walks_each):
            key = f"{seed}, {name}, {number}"
            steps = known.get(key)
            known[key], found = cold(lambda k=name, n=number, g=steps: along(k, n, seed, g))
            taken += found
        cells = [median(taken), quantiles(taken, n=10)[-1], max(taken)]
        print(" | ".join(f"{c:>18}" for c in (name, len(taken), *(f"{c:.1f}" for c in cells))), flush=True)
    if path is not None:
        path.write_text(json.dumps(known, indent=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="*")
    parser.add_argument("--after", type=int, default=12, metavar="N")
    parser.add_argument("--peers", default=sys.executable, metavar="PYTHON")
    parser.add_argument("--walks", type=int, metavar="N", help="only: how long answers take at N random states")
    parser.add_argument("--growth", type=int, nargs="+", metavar="N", help="only: the cost of chains of N layers")
    parser.add_argument("--along", type=int, metavar="N", help="only: the list after each move of N walks a kernel")
    parser.add_argument("--steps", type=Path, metavar="FILE", help="the moves of those walks, kept or to go again")
    parser.add_argument("--seed", type=int, default=0, help="of the walks")
    parser.add_argument("--each", type=int, default=60, metavar="N", help="candidates asked at a state of a walk")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes for the walks")
    parser.add_argument("--kept", type=Path, metavar="FILE", help="what the walks found, to go on from")
    options = parser.parse_args()
    if options.walks:
        print(report(walks(options.walks, options.seed, options.each, options.jobs, options.kept)))
        return
    if options.growth:
        print_growth(options.growth)
        return
    if options.along:
        print_along(options.kernels or dojoir.kernels.names(), options.along, options.seed, options.steps)
        return
    head = ["kernel", "candidates", "legal", "cold", "after a move", "check", "check p90", "apply"]
    print(" | ".join(f"{word:>12}" for word in head))
    for name in options.kernels or KERNELS:
        print(" | ".join(f"{cell:>12}" for cell in row(name, options.after)), flush=True)
    script = Path(__file__).with_name("peers.py")
    found = subprocess.run([options.peers, script, "--json"], capture_output=True, text=True, check=False)
    last = found.stdout.strip().splitlines()[-1:]
    for peer, steps in (json.loads(last[0]) if last else {"peers": found.stderr.strip()}).items():
        listed = steps if isinstance(steps, str) else ", ".join(f"{s} {t:.2f}" for s, t in steps.items())
        print(f"{peer}: {listed}")


if __name__ == "__main__":
    main()
