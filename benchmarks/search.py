"""How many states a minute a search evaluates, and how its strategies compare at equal budgets.

    python benchmarks/search.py --throughput [--states 40] [--kernels softmax gelu]
    python benchmarks/search.py --compare FILE [--states 100] [--seeds 3] [--kernels …] [--timer measure]

`--throughput` counts seconds of the processor, of the driver and of its worker, so that what else runs on the
machine counts less; timing itself is waited for. `--compare` writes a line to FILE for each search as it ends, and
goes on where it was stopped; with all there, it prints the table.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from random import Random

import dojoir

SIZES: dict[str, dict[str, int]] = {
    "softmax": {"N": 1024, "M": 512},
    "layernorm": {"N": 1024, "M": 512},
    "rmsnorm": {"N": 1024, "M": 512},
    "gelu": {"N": 1 << 20},
    "matmul": {"N": 256, "M": 256, "K": 256},
    "transpose": {"N": 1024, "M": 1024},
    "jacobi2d": {"N": 512, "M": 512, "T": 1},
    "batchnorm_training": {"N": 8, "C": 16, "H": 56, "W": 56},
}
STAGES = ("draw", "driver", "build", "verify", "time")


def sizes_of(kernel: dojoir.Kernel) -> dict[str, int]:
    """The sizes that a kernel of the library is searched at."""
    given = SIZES[kernel.name]
    return {name: given.get(name, 256) for name in kernel.runtime_sizes}


def throughput(name: str, states: int, seed: int) -> dict[str, float]:
    """The milliseconds of each stage for a state, and states a minute of the processor, on the states of random
    walks of up to six moves from the default schedule."""
    kernel = dojoir.kernels.load(name)
    machine = dojoir.machine_for("llvm")
    start = dojoir.PASSES["default_schedule"].for_machine(machine).on(kernel)
    sizes = sizes_of(kernel)
    random, walks = Random(seed), [start]
    begin = time.process_time()
    weights = dict(dojoir.search.WEIGHTS)
    while len(walks) <= states:
        trace = random.choice([start, *walks[-5:]])
        trace = start if len(trace.moves) > len(start.moves) + 6 else trace
        walks += [trace.then(move) for move in dojoir.draw(trace.kernel, random, 1, "llvm", weights)]
    spent = {"draw": time.process_time() - begin}
    with dojoir.Evaluator(kernel, "llvm", sizes, seed=seed) as evaluator:
        (first,) = evaluator.evaluate([start.kernel])
        begin = time.process_time()
        found = list(evaluator.evaluate([trace.kernel for trace in walks[1:]], start.kernel))
        spent["driver"] = time.process_time() - begin
    assert first.ok, first.reason
    for stage in ("build", "verify", "time"):
        spent[stage] = sum(one.stages.get(stage, 0.0) for one in found)
    wrong = [one for one in found if one.status == "wrong"]
    assert not wrong, wrong[0].reason
    each = {stage: 1e3 * seconds / len(found) for stage, seconds in spent.items()}
    middle = statistics.median(sum(one.stages.get(s, 0.0) for s in ("build", "verify", "time")) for one in found)
    ahead = each["draw"] + each["driver"]
    return {
        **each,
        "a minute": 60e3 / sum(each.values()),
        "a minute, median state": 60e3 / (ahead + 1e3 * middle),
        "ok": sum(one.ok for one in found),
        "cut": sum(one.status == "cut" for one in found),
    }


def show_throughput(names: list[str], states: int, seed: int) -> None:
    """A row a kernel."""
    print(f"milliseconds of the processor for each of {states} states, and states a minute of it (seed {seed})")
    head = [*STAGES, "a minute", "a minute, median state", "ok", "cut"]
    print(f"{'kernel':18}", *(f"{word:>9}" for word in head))
    rows = []
    for name in names:
        row = throughput(name, states, seed)
        rows.append(row)
        print(f"{name:18}", *(f"{row[word]:{max(9, len(word))}.1f}" for word in head), flush=True)
    whole = sum(sum(row[stage] for stage in STAGES) for row in rows)
    shares = ", ".join(f"{stage} {sum(row[stage] for row in rows) / whole:.0%}" for stage in STAGES)
    minutes = sorted(row["a minute"] for row in rows)
    print(f"a minute: median {statistics.median(minutes):.0f}, worst {minutes[0]:.0f}; of the time {shares}")


def compare(file: Path, names: list[str], states: int, seeds: int, timer: str) -> None:
    """Every strategy on every kernel with every seed, as far as the file does not have it yet; then the table."""
    done = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    there = {(row["kernel"], row["strategy"], row["seed"], row["states"], row["timer"]) for row in done}
    for name in names:
        kernel = dojoir.kernels.load(name)
        for seed in range(seeds):
            for strategy in dojoir.search.STRATEGIES:
                if (name, strategy, seed, states, timer) in there:
                    continue
                bests: list[float] = []
                dojoir.tune(
                    kernel,
                    sizes=sizes_of(kernel),
                    strategy=strategy,
                    budget=dojoir.Budget(states=states),
                    seed=seed,
                    timer=timer,
                    progress=lambda evaluation, trace, best, bests=bests: bests.append(best),
                )
                row = {"kernel": name, "strategy": strategy, "seed": seed, "states": states, "timer": timer}
                done.append({**row, "bests": [bests[min(n, len(bests)) - 1] for n in (30, 100, 300)]})
                with file.open("a") as lines:
                    lines.write(json.dumps(done[-1]) + "\n")
    own = [row for row in done if row["states"] == states and row["timer"] == timer and row["kernel"] in names]
    print(f"times as fast as the text, after 30, 100, 300 states (of {states}): geometric mean over "
          f"{', '.join(names)} and {seeds} seeds, timer {timer}")  # fmt: skip
    for strategy in dojoir.search.STRATEGIES:
        rows = [row["bests"] for row in own if row["strategy"] == strategy]
        means = [statistics.geometric_mean([max(row[n], 1e-9) for row in rows]) for n in range(3)]
        print(f"{strategy:10}", *(f"{mean:8.2f}" for mean in means))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--throughput", action="store_true")
    parser.add_argument("--compare", type=Path, metavar="FILE")
    parser.add_argument("--kernels", nargs="+", default=[*SIZES], choices=[*SIZES])
    parser.add_argument("--states", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timer", choices=("measure", "static"), default="measure")
    given = parser.parse_args()
    if given.throughput:
        show_throughput(given.kernels, given.states, given.seed)
    if given.compare is not None:
        compare(given.compare, given.kernels, given.states, given.seeds, given.timer)


if __name__ == "__main__":
    main()
