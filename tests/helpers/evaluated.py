"""Many states through the evaluator, none of which may be `wrong`: a script that goes on where it was stopped.

    python tests/helpers/evaluated.py FILE [--states 30000] [--first 0] [--seconds S] [--longest 1e-3]

A round is a kernel, of the library or (`--generated` of the rounds) a random one that is well-formed by
construction, and states of random walks from its text and from its default schedule, raced as a search races them.
What a round found is a line of FILE; the next run begins with the round after the last. States whose code was that
of another state of the round, and so not run again, are counted apart, and not among `--states`. `--longest` is how
many seconds a text is estimated to take at most. At the end the sums are printed; status 1 where a state was wrong,
with its text in the line.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random

from agreement import small_sizes
from runnable import runnable_kernel

import dojoir

PER_ROUND = 60
SMALLEST = 6
"""Sizes are halved until the text takes as long as it may, or all of them are so small."""

SAME = "same code"

LIMIT = 6
"""How many moves a walk goes from its start."""


def chosen(random: Random, generated: float, longest: float) -> tuple[dojoir.Kernel, dict[str, int]]:
    """A kernel and the sizes that it is timed at."""
    if random.random() < generated:
        kernel = runnable_kernel(random, small=True)
        return kernel, {name: int(size) for name, size in small_sizes(kernel, random).items()}
    kernel = dojoir.kernels.load(random.choice(dojoir.kernels.names()))
    while True:
        sizes = {name: random.choice((32, 48, 64, 100, 128)) for name in kernel.runtime_sizes}
        try:
            while dojoir.search.estimate(kernel, sizes, "llvm", 1) > longest and max(sizes.values()) > SMALLEST:
                sizes = {name: max(SMALLEST, size // 2) for name, size in sizes.items()}
        except dojoir.ArgumentError as error:
            if error.diagnostic.code != "broken-fact":
                raise
            continue  # a filter that is larger than its image, say
        break
    return kernel, sizes


def walked(kernel: dojoir.Kernel, random: Random) -> list[dojoir.Kernel]:
    """States of random walks from the text and from the default schedule, each once."""
    default = dojoir.PASSES["default_schedule"].for_machine(dojoir.machine_for("llvm")).on(kernel)
    starts = [dojoir.Trace(kernel), default]
    walks, tries = [*starts], 0
    while len(walks) < PER_ROUND and tries < 3 * PER_ROUND:
        tries += 1
        trace = random.choice([*starts, *walks[-5:]])
        if len(trace.moves) > len(default.moves) + LIMIT:
            continue
        walks += [
            trace.then(move)
            for move in dojoir.search.draw(
                trace.kernel, random, 1, "llvm", dojoir.search.WEIGHTS if random.random() < 0.5 else None
            )
        ]
    return [*{trace.kernel.hash: trace.kernel for trace in walks}.values()]


def one_round(number: int, generated: float, longest: float) -> dict[str, object]:
    """What became of the states of a round."""
    random = Random(f"evaluated {number}")
    kernel, sizes = chosen(random, generated, longest)
    counts: Counter[str] = Counter()
    wrong: list[dict[str, str]] = []
    try:
        kernels = walked(kernel, random)
        best = kernels[1] if len(kernels) > 1 else None
        with dojoir.Evaluator(kernel, "llvm", sizes, seed=number, time_limit=20.0) as evaluator:
            for found in evaluator.evaluate(kernels, best):
                counts[SAME if found.ok and not found.cases else found.status] += 1
                if found.status == "wrong":
                    text = next(dojoir.to_text(one) for one in kernels if one.hash == found.hash)
                    wrong.append({"reason": found.reason, "text": text})
    except dojoir.DojoError as error:
        counts[f"round ended: {error.diagnostic.code}"] += 1
    return {"round": number, "kernel": kernel.name, "counts": dict(counts), "wrong": wrong}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--states", type=int, default=30_000)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--first", type=int, default=0, help="the number of the first round")
    parser.add_argument("--generated", type=float, default=0.3)
    parser.add_argument("--longest", type=float, default=1e-3)
    given = parser.parse_args()
    rows = [json.loads(line) for line in given.file.read_text().splitlines()] if given.file.exists() else []
    end = time.monotonic() + given.seconds

    def states() -> Counter[str]:
        return sum((Counter(row["counts"]) for row in rows), Counter())

    def evaluated() -> int:
        return sum(count for status, count in states().items() if status != SAME)

    while evaluated() < given.states and time.monotonic() < end:
        rows.append(one_round(given.first + len(rows), given.generated, given.longest))
        with given.file.open("a") as lines:
            lines.write(json.dumps(rows[-1]) + "\n")
    wrong = [one for row in rows for one in row["wrong"]]
    kernels = {row["kernel"] for row in rows}
    print(f"{evaluated()} states, {len(rows)} rounds on {len(kernels)} kernels: {dict(states())}")
    for one in wrong:
        print(f"WRONG: {one['reason']}\n{one['text']}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
