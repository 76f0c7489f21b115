"""Steps a second of CPU of `dojoir/Kernel-v0`, by its way of actions and its timer, and where a step's time goes.

    python benchmarks/game_speed.py [--kernels softmax layernorm matmul] [--actions legal drawn candidates choices]
                                    [--timers static measure] [--steps 200] [--seed 0] [--profile]

A player takes any action but to stop that the mask offers, over episodes of 20 steps; the sizes are 1024x1024,
of matmul 256x256x256, the observation is `features`. CPU time is that of this process and of all that it
started, which evaluators are; the first step, which makes them, is not in it. `--profile` prints the shares of
a step: listing the actions, making one, timing the state, the observation."""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

SIZES = {"matmul": 256}
TICK = os.sysconf("SC_CLK_TCK")


def cpu() -> float:
    """Seconds of CPU of this process, its children that ended, and all below it that run."""
    found: dict[int, tuple[int, float]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            found[int(folder.name)] = int(fields[1]), sum(map(int, fields[11:15])) / TICK
    below, total = {os.getpid()}, 0.0
    for number, (_, seconds) in sorted(found.items()):
        way = [number]
        while way[-1] in found and way[-1] not in below:
            way.append(found[way[-1]][0])
        if way[-1] in below:
            below |= {*way}
            total += seconds
    return total


def timed(env: Any, name: str, spent: Counter[str]) -> None:
    """Counts the time of a part of a step."""
    inner = getattr(env, name)

    def counted(*given: Any) -> Any:
        begin = time.process_time()
        try:
            return inner(*given)
        finally:
            spent[name] += time.process_time() - begin

    setattr(env, name, counted)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kernels", nargs="+", default=["softmax", "layernorm", "matmul"])
    parser.add_argument("--actions", nargs="+", default=["legal", "drawn", "candidates", "choices"])
    parser.add_argument("--timers", nargs="+", default=["static", "measure"])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()
    import numpy as np

    import dojoir
    from dojoir.game import KernelEnv

    print("| kernel | actions | timer | steps a second | refused | candidates at the end |")
    print("|---|---|---|---:|---:|---:|")
    for name in given.kernels:
        sizes = dict.fromkeys(dojoir.kernels.load(name).runtime_sizes, SIZES.get(name, 1024))
        for way in given.actions:
            for timer in given.timers:
                env = KernelEnv(
                    name, sizes=sizes, timer=timer, actions=way, observation="features",
                    budget=dojoir.Budget(moves=20),
                )  # fmt: skip
                spent: Counter[str] = Counter()
                if given.profile:
                    for part in ("_look", "_act", "_evaluate", "_observation"):
                        timed(env, part, spent)
                rng, seed, refused, steps = np.random.default_rng(given.seed), given.seed, 0, 0
                _, info = env.reset(seed=seed)
                begin, over = cpu(), False
                while steps < given.steps:
                    if over or info["action_mask"].sum() < 2:
                        seed += 1
                        _, info = env.reset(seed=seed)
                    action = int(rng.choice(np.flatnonzero(info["action_mask"])[1:]))
                    _, _, stopped, cut, info = env.step(action)
                    over, steps, refused = stopped or cut, steps + 1, refused + ("verdict" in info)
                each = (cpu() - begin) / steps
                assert env.trace is not None
                count = len(dojoir.candidates(env.trace.kernel, "llvm"))
                env.close()
                print(f"| {name} | {way} | {timer} | {1 / each:.1f} | {refused / steps:.0%} | {count} |")
                if given.profile:
                    print("  ".join(f"{part[1:]} {1e3 * spent[part] / steps:.2f} ms" for part in spent))


if __name__ == "__main__":
    main()
