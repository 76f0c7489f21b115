"""Max-Q trained on some kernels and played on others, beside random play: a table that goes on where it stopped.

    python benchmarks/maxq.py FOLDER [--steps 400] [--timer measure] [--operators max sum] [--encoder hash]
                                     [--train relu bias_relu …] [--play softmax …] [--states 50] [--seeds 1]
                                     [--others beam …]

An agent is trained for each operator, from the plain texts, and kept in FOLDER (as by `dojoir learn agent`);
it goes on where it was stopped. It plays the kernels that it has not seen, as `tune` with `maxq:FILE`, beside
`random`, both from the plain text, for `--states` states. A line of FOLDER/rows.jsonl is one such search, with the
best after each state, or how fast `optimize` is beside the text. The table has how many times as fast as the text
the best of each was, and after how many states `random` had 95% of what `optimize` gives; below it are the ratios
to `random` in the median over the kernels, after as many states.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import dojoir
from dojoir.game import MaxQ, encoder, library
from dojoir.game.arena import KernelArena
from dojoir.game.scoring import Scorer

TRAIN = ("add", "bias_relu", "dot", "gelu", "gemv", "reduce_mean_1", "rmsnorm", "transpose")
PLAY = ("layernorm", "matmul", "mul", "reduce_max", "relu", "silu", "softmax")
PART = 100
"""After how many steps an agent is written."""


def trained(path: Path, operator: str, given: argparse.Namespace) -> dict[str, Any]:
    """Trains the agent of a file up to a number of steps; gives the curve of this call."""
    scorer = Scorer(timer=given.timer, seed=given.seed)
    arena = KernelArena(library(given.train, (given.statements,)), scorer, encoding=encoder(given.encoder))
    if path.exists():
        agent = MaxQ.load(str(path))
    else:
        fall = max(1, given.steps // 2)
        sizes = (arena.state_size, arena.action_size)
        agent = MaxQ(*sizes, operator=operator, seed=given.seed, encoder=given.encoder, fall=fall)
    curve: list[float] = []
    begin = time.perf_counter(), time.process_time()
    try:
        while agent.steps < given.steps:
            curve += agent.learn(arena, min(PART, given.steps - agent.steps))
            agent.save(str(path))
    finally:
        scorer.close()
    spent = [time.perf_counter() - begin[0], time.process_time() - begin[1]]
    return {"trained": operator, "steps": agent.steps, "seconds": spent, "curve": curve}


def optimized(name: str, given: argparse.Namespace) -> float:
    """How many times as fast as the text what `optimize` gives is, by the timer of the searches."""
    kernel, sizes = next(iter(library([name], (given.statements,))))
    trace = dojoir.optimize(kernel, sizes=sizes, threads=1)
    if given.timer == "static":
        return dojoir.estimate(kernel, sizes, threads=1) / dojoir.estimate(trace.kernel, sizes, threads=1)
    together = dojoir.measure_together([kernel, trace.kernel], threads=1, with_ceilings=False, sizes=sizes)
    return together.measurements[0].seconds / together.measurements[1].seconds


def played(name: str, strategy: str, seed: int, given: argparse.Namespace) -> list[float]:
    """How many times as fast as the text the best state of a search is, after each of its states."""
    kernel, sizes = next(iter(library([name], (given.statements,))))
    bests = [1.0]
    dojoir.tune(
        kernel, sizes=sizes, strategy=strategy, seed=seed, timer=given.timer, start=dojoir.Trace(kernel),
        budget=dojoir.Budget(states=given.states), progress=lambda evaluation, trace, best: bests.append(best),
    )  # fmt: skip
    return bests


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--statements", type=int, default=1 << 20)
    parser.add_argument("--timer", choices=("measure", "static"), default="measure")
    parser.add_argument("--operators", nargs="+", default=["max", "sum"], choices=("max", "sum"))
    parser.add_argument("--encoder", default="hash")
    parser.add_argument("--train", nargs="+", default=[*TRAIN])
    parser.add_argument("--play", nargs="+", default=[*PLAY])
    parser.add_argument("--states", type=int, default=50)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--others", nargs="*", default=[], help="strategies that play as well")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    file = given.folder / "rows.jsonl"
    done = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def add(row: dict[str, Any]) -> None:
        done.append(row)
        with file.open("a") as lines:
            lines.write(json.dumps(row) + "\n")

    strategies = ["random", *given.others]
    for operator in given.operators:
        path = given.folder / f"{operator}-{given.encoder.partition(':')[0]}-{given.timer}.safetensors"
        about = trained(path, operator, given)
        if about["curve"]:
            add(about)
        strategies.append(f"maxq:{path}")
    seeds = range(given.seed, given.seed + given.seeds)
    wanted = [(k, s, seed) for k in given.play for seed in seeds for s in strategies]
    keys = ("kernel", "strategy", "seed", "states")
    found = {tuple(row[key] for key in keys): row["bests"] for row in done if "bests" in row}
    best = {row["kernel"]: row["optimize"] for row in done if "optimize" in row}
    for kernel in given.play:
        if kernel not in best:
            best[kernel] = optimized(kernel, given)
            add({"kernel": kernel, "optimize": best[kernel]})
    for kernel, strategy, seed in wanted:
        if (kernel, strategy, seed, given.states) not in found:
            bests = played(kernel, strategy, seed, given)
            found[kernel, strategy, seed, given.states] = bests
            add(dict(zip(keys, (kernel, strategy, seed, given.states), strict=True)) | {"bests": bests})
    show(found, best, given, strategies)
    for row in done:
        if row.get("curve"):
            half = len(row["curve"]) // 2 or 1
            first, last = (statistics.fmean(part) for part in (row["curve"][:half], row["curve"][-half:]))
            print(f"{row['trained']}: {row['steps']} steps, {row['seconds'][0]:.0f} s, best of an episode as a "
                  f"logarithm {first:.2f} in the first half, {last:.2f} in the second")  # fmt: skip


def show(
    found: dict[tuple[Any, ...], list[float]],
    best: dict[str, float],
    given: argparse.Namespace,
    strategies: list[str],
) -> None:
    """A line for each kernel and seed, and the ratios to `random` in the median."""
    print(f"times as fast as the text after {given.states} states, timer {given.timer}")
    names = [Path(strategy).name for strategy in strategies]
    print(f"| kernel | seed | optimize | {' | '.join(names)} | random at 95% of optimize after |")
    print(f"|---|{'---:|' * (len(names) + 3)}")
    counts = [count for count in (5, 10, 20) if count < given.states] + [given.states]
    ratios: dict[str, list[list[float]]] = {name: [] for name in names[1:]}
    for kernel in given.play:
        for seed in range(given.seed, given.seed + given.seeds):
            curves = [found[kernel, strategy, seed, given.states] for strategy in strategies]
            for name, curve in zip(names[1:], curves[1:], strict=True):
                ratios[name].append([after(curve, count) / after(curves[0], count) for count in counts])
            enough = next((i for i, one in enumerate(curves[0]) if one >= 0.95 * best[kernel]), None)
            when = "never" if enough is None else f"{enough} states"
            cells = " | ".join(f"{curve[-1]:.2f}" for curve in curves)
            print(f"| {kernel} | {seed} | {best[kernel]:.2f} | {cells} | {when} |")
    for name, each in ratios.items():
        medians = [f"{statistics.median(column):.2f} after {count}"
                   for count, column in zip(counts, zip(*each, strict=True), strict=True)]  # fmt: skip
        print(f"{name}: {', '.join(medians)} states, as a ratio to random in the median")


def after(curve: list[float], count: int) -> float:
    """The best after so many states, or after all, where a search had nothing more to try."""
    return curve[min(count, len(curve) - 1)]


if __name__ == "__main__":
    main()
