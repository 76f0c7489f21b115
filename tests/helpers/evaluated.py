"""States of random walks through the evaluator, none of which may be `wrong`: `fuzz.py --states 200`.

A case is a kernel, of the library or (GENERATED of them) a random one that is well-formed by construction, and
states of random walks from its text and from its default schedule, raced as a search races them. States whose code
was that of another state, and so not run again, are counted apart.
"""

from __future__ import annotations

from collections import Counter
from random import Random

from agreement import small_sizes
from drawing import draw

import dojoir

PER_ROUND = 60
GENERATED, LONGEST = 0.3, 1e-3
"""The share of random kernels, and how many seconds a text is estimated to take at most."""

SMALLEST = 6
"""Sizes are halved until the text takes as long as it may, or all of them are so small."""

SAME = "same code"

LIMIT = 6
"""How many moves a walk goes from its start."""


def chosen(random: Random) -> tuple[dojoir.Kernel, dict[str, int]]:
    """A kernel and the sizes that it is timed at."""
    if random.random() < GENERATED:
        kernel = draw("runnable", random, small=True)
        return kernel, {name: int(size) for name, size in small_sizes(kernel, random).items()}
    kernel = dojoir.kernels.load(random.choice(dojoir.kernels.names()))
    while True:
        sizes = {name: random.choice((32, 48, 64, 100, 128)) for name in kernel.runtime_sizes}
        try:
            while dojoir.search.estimate(kernel, sizes, "llvm", 1) > LONGEST and max(sizes.values()) > SMALLEST:
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


def examine(random: Random, counts: Counter[str]) -> list[tuple[str, str]]:
    """The states of one kernel: what was wrong with some, and their texts."""
    kernel, sizes = chosen(random)
    try:
        kernels = walked(kernel, random)
        best = kernels[1] if len(kernels) > 1 else None
        with dojoir.Evaluator(kernel, "llvm", sizes, seed=random.randrange(1 << 16), time_limit=20.0) as evaluator:
            found = [*evaluator.evaluate(kernels, best)]
    except dojoir.DojoError as error:
        counts[f"ended: {error.diagnostic.code}"] += 1
        return []
    counts.update(SAME if one.ok and not one.cases else one.status for one in found)
    texts = {one.hash: dojoir.to_text(one) for one in kernels}
    return [(one.reason, texts[one.hash]) for one in found if one.status == "wrong"]
