"""MaskablePPO of sb3-contrib, as it is, on `dojoir/Kernel-v0` with the static timer, beside random play.

    pip install sb3-contrib          # in an environment of its own beside dojoir's
    python benchmarks/ppo.py [--kernels dot gemv softmax rmsnorm] [--actions candidates] [--steps 4096] [--seeds 3]
                             [--episodes 50]

It prints a row for each kernel and seed: the mean, over episodes that were not trained on, of how many times as
fast as the start the best state of an episode was by the estimate, with the interval of 95% confidence of that
mean. The agent plays as it learned to, drawing from its policy; the random player takes any action of the mask.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable
from typing import Any

LENGTH = 8
CAPACITY = 256
GAMMA = 0.95


def played(env: Any, choose: Callable[[Any, Any], int], seeds: range) -> tuple[float, float]:
    """The mean of the best of some episodes, as a factor, and half of the interval of that mean."""
    bests = []
    for seed in seeds:
        observation, info = env.reset(seed=seed)
        best, over = 0.0, False
        while not over:
            observation, _, stopped, spent, info = env.step(choose(observation, env.unwrapped.action_masks()))
            best, over = max(best, info["value"]), stopped or spent
        bests.append(math.exp(best))
    return statistics.fmean(bests), 1.96 * statistics.stdev(bests) / math.sqrt(len(bests))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kernels", nargs="+", default=["dot", "gemv", "softmax", "rmsnorm"])
    parser.add_argument("--actions", default="candidates")
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--steps", type=int, default=4096)
    parser.add_argument("--episodes", type=int, default=50)
    parser.add_argument("--rate", type=float, default=1e-3, help="of learning")
    parser.add_argument("--reward", default="max")
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    import gymnasium
    import numpy as np
    import torch
    from sb3_contrib import MaskablePPO  # of an environment of its own
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    import dojoir

    torch.set_num_threads(1)

    def made(name: str) -> Any:
        return gymnasium.make(
            "dojoir.game:dojoir/Kernel-v0", kernel=f"library:{name}", timer="static", reward=given.reward,
            sizes=dict.fromkeys(dojoir.kernels.load(name).runtime_sizes, given.size), actions=given.actions,
            capacity=CAPACITY, budget=dojoir.Budget(moves=LENGTH),
        )  # fmt: skip

    print("| kernel | seed | random | MaskablePPO | ratio | seconds |\n|---|---:|---:|---:|---:|---:|")
    for name in given.kernels:
        env = made(name)
        for seed in range(given.seeds):
            rng, begin = np.random.default_rng(seed), time.perf_counter()
            seeds = range(10_000, 10_000 + given.episodes)
            at_random, wide = played(env, lambda _, mask, rng=rng: int(rng.choice(np.flatnonzero(mask))), seeds)
            vector = VecNormalize(DummyVecEnv([lambda name=name: made(name)]), gamma=GAMMA)
            agent = MaskablePPO(
                "MlpPolicy", vector, n_steps=256, batch_size=64, learning_rate=given.rate, seed=seed, device="cpu",
                ent_coef=0.01, gamma=GAMMA,
            )  # fmt: skip
            agent.learn(given.steps)

            def choose(seen: Any, mask: Any, agent: Any = agent, vector: Any = vector) -> int:
                return int(agent.predict(vector.normalize_obs(seen), action_masks=mask)[0])

            learned, wider = played(env, choose, seeds)
            print(
                f"| {name} | {seed} | {at_random:.3f} ± {wide:.3f} | {learned:.3f} ± {wider:.3f} "
                f"| {learned / at_random:.2f} | {time.perf_counter() - begin:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
