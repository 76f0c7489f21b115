"""MaskablePPO of sb3-contrib, as it is, on `dojoir/Kernel-v0` with the static timer, beside random play.

    pip install sb3-contrib          # in an environment of its own beside dojoir's
    python benchmarks/ppo.py [--kernel relu] [--steps 2048] [--episodes 20] [--seed 0]

It prints the mean, over episodes that were not trained on, of how many times as fast as the start the best state of
an episode was by the estimate; the agent plays as it learned to, the random player takes any legal action.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable
from typing import Any

LENGTH = 8
CAPACITY = 128


def played(env: Any, choose: Callable[[Any, Any], int], seeds: range) -> float:
    """The mean of the best of some episodes, as a factor."""
    bests = []
    for seed in seeds:
        observation, info = env.reset(seed=seed)
        best, over = 0.0, False
        while not over:
            observation, _, stopped, spent, info = env.step(choose(observation, env.unwrapped.action_masks()))
            best, over = max(best, info["value"]), stopped or spent
        bests.append(math.exp(best))
    return statistics.fmean(bests)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kernel", default="relu")
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--steps", type=int, default=2048)
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--rate", type=float, default=1e-3, help="of learning")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    import gymnasium
    import numpy as np
    from sb3_contrib import MaskablePPO  # of an environment of its own

    import dojoir.game

    sizes = dict.fromkeys(dojoir.kernels.load(given.kernel).runtime_sizes, given.size)

    def made() -> Any:
        return gymnasium.make(
            "dojoir/Kernel-v0", kernel=given.kernel, sizes=sizes, timer="static", reward="each", capacity=CAPACITY,
            budget=dojoir.Budget(moves=LENGTH),
        )  # fmt: skip

    env = made()
    rng = np.random.default_rng(given.seed)
    seeds = range(10_000, 10_000 + given.episodes)
    at_random = played(env, lambda _, mask: int(rng.choice(np.flatnonzero(mask))), seeds)
    agent = MaskablePPO(
        "MlpPolicy",
        made(),
        n_steps=128,
        batch_size=64,
        learning_rate=given.rate,
        seed=given.seed,
        device="cpu",
        ent_coef=0.01,
    )
    agent.learn(given.steps)
    learned = played(env, lambda seen, mask: int(agent.predict(seen, action_masks=mask)[0]), seeds)
    print(
        f"{given.kernel}, {given.steps} steps, {given.episodes} episodes of {LENGTH} moves, seed {given.seed}: "
        f"random {at_random:.3f}x, MaskablePPO {learned:.3f}x of the start (static timer)"
    )


if __name__ == "__main__":
    main()
