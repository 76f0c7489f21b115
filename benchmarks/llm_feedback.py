"""A scripted player that reads what became of its plans, beside one that does not, at equal measurements; llvm, one
thread. Both are asked the questions of `llm:…` (`tests/helpers/scripted_players.py`).

`python benchmarks/llm_feedback.py [STATES [SEEDS]]` prints, for each kernel, how many times as fast as its text
each player made it: the geometric mean over the seeds, and the ratio of both.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import dojoir

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))

from scripted_players import Deaf, Reader

SIZES = {
    "softmax": {"N": 512, "M": 512},
    "layernorm": {"N": 512, "M": 512},
    "rmsnorm": {"N": 512, "M": 512},
    "log_softmax": {"N": 512, "M": 512},
    "gemv": {"N": 1024, "M": 1024},
    "residual_rmsnorm": {"N": 512, "M": 512},
    "reduce_mean_1": {"N": 1024, "M": 1024},
    "argmax": {"N": 1024, "M": 1024},
    "groupnorm": {"N": 4, "G": 8, "C": 8, "L": 512},
    "cross_entropy": {"N": 512, "C": 512},
}


def gained(name: str, player: type, states: int, seed: int) -> float:
    """How many times as fast as its text a player makes a kernel."""
    kernel = dojoir.kernels.load(name)
    sizes = {size: SIZES[name].get(size, 512) for size in kernel.runtime_sizes}
    found = dojoir.tune(
        kernel, sizes=sizes, strategy="llm:random", start=dojoir.Trace(kernel), seed=seed,
        budget=dojoir.Budget(states=states),
        options={"model": player, "choices": 0, "patience": 1000, "listed": 60},
    )  # fmt: skip
    return 1.0 if found.ratio is None else found.ratio.median


def main(states: int = 24, seeds: int = 1) -> None:
    """Prints a line for each kernel."""
    for name in SIZES:
        each = [
            math.exp(sum(math.log(gained(name, player, states, seed)) for seed in range(seeds)) / seeds)
            for player in (Deaf, Reader)
        ]
        print(f"{name}: deaf {each[0]:.2f}x, reader {each[1]:.2f}x: {each[1] / each[0]:.2f}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
