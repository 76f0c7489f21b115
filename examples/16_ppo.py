"""PPO with a network that scores moves, trained on some kernels and held beside random on others.

python examples/16_ppo.py --steps 3000 --measure        # an hour on two cores; without --measure, by the estimate

The numbers of actions mean something else in each state, so the network has no output for a number: it scores the
row of each action (the observation `moves`) beside the features of the state, and the policy is their softmax.
PPO is that of Schulman et al. (2017), with the clipped objective and advantages by GAE.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import dojoir

TRAIN = ("softmax", "gemv", "matmul", "bias_relu", "reduce_mean_1", "swiglu", "cross_entropy", "depthwise_conv2d")
HELD_OUT = ("layernorm", "rmsnorm", "log_softmax", "reduce_max", "bmm", "gelu")
LENGTH, CAPACITY = 8, 192  # moves of an episode, and actions of a state
GAMMA, LAMBDA, CLIP, ENTROPY = 1.0, 0.95, 0.2, 0.01
BATCH, EPOCHS, RATE = 256, 6, 2e-3


def environment(names: Sequence[str], timer: str, statements: int) -> Any:
    from dojoir.game import KernelEnv, library

    suite = library(names, [statements])
    return KernelEnv(suite=suite, actions="candidates", capacity=CAPACITY, observation=("features", "moves"),
                     reward="max", timer=timer, budget=dojoir.Budget(moves=LENGTH))  # fmt: skip


class Policy:
    """Scores of the actions of a state, and the value of the state."""

    def __init__(self, features: int, row: int, seed: int) -> None:
        import torch

        self.torch = torch
        torch.manual_seed(seed)
        nn = torch.nn
        self.score = nn.Sequential(nn.Linear(features + row + 1, 64), nn.Tanh(), nn.Linear(64, 1))
        self.worth = nn.Sequential(nn.Linear(features, 64), nn.Tanh(), nn.Linear(64, 1))
        self.adam = torch.optim.Adam([*self.score.parameters(), *self.worth.parameters()], RATE)

    def __call__(self, seen: Any) -> tuple[Any, Any]:
        """The policy and the value for some observations: features, rows of all actions, their chances."""
        state, rows, chances = (self.torch.as_tensor(np.stack(part)) for part in zip(*seen, strict=True))
        each = self.torch.cat([state[:, None].expand(-1, rows.shape[1], -1), rows, chances[..., None]], -1)
        scores = self.score(each).squeeze(-1).masked_fill(chances == 0, -1e9)
        return self.torch.distributions.Categorical(logits=scores), self.worth(state).squeeze(-1)

    def act(self, seen: Any) -> int:
        with self.torch.no_grad():
            return int(self([seen])[0].sample()[0])

    def learn(self, seen: list[Any], actions: list[int], rewards: list[float], ends: list[bool]) -> None:
        """One update by what was played."""
        torch = self.torch
        with torch.no_grad():
            policy, worth = self(seen)
            old, values = policy.log_prob(torch.tensor(actions)), worth.numpy()
        gains, later, following = np.zeros(len(seen), np.float32), 0.0, 0.0
        for n in reversed(range(len(seen))):
            later, following = (0.0, 0.0) if ends[n] else (later, following)
            later = rewards[n] + GAMMA * following - values[n] + GAMMA * LAMBDA * later
            gains[n], following = later, values[n]
        aims = torch.as_tensor(gains + values)
        better = torch.as_tensor((gains - gains.mean()) / (gains.std() + 1e-6))
        for _ in range(EPOCHS):
            policy, worth = self(seen)
            ratio = (policy.log_prob(torch.tensor(actions)) - old).exp()
            gained = torch.minimum(ratio * better, ratio.clamp(1 - CLIP, 1 + CLIP) * better).mean()
            loss = -gained + 0.5 * (worth - aims).square().mean() - ENTROPY * policy.entropy().mean()
            self.adam.zero_grad()
            loss.backward()
            self.adam.step()


def looked(observation: Any, info: Any) -> tuple[Any, Any, Any]:
    """An observation scaled for a network. To stop is not offered: a state that is slower costs nothing."""
    chances = info["action_chance"].copy()
    chances[0] = not chances[1:].any()
    return observation["features"] / 16, observation["moves"], chances


def played(env: Any, choose: Callable[[Any], int], seed: int, noted: list[Any] | None = None) -> float:
    """An episode: how many times as fast as the start the best state was. `noted` takes what was seen and done."""
    observation, info = env.reset(seed=seed)
    best, over = 0.0, False
    while not over:
        seen = looked(observation, info)
        action = choose(seen)
        observation, reward, stopped, cut, info = env.step(action)
        best, over = max(best, float(info["value"])), stopped or cut
        if noted is not None:
            noted.append((seen, action, float(reward), over))
    return math.exp(best)


def at_random(seed: int) -> Callable[[Any], int]:
    rng = np.random.default_rng(seed)
    return lambda seen: int(rng.choice(np.flatnonzero(seen[2])))


def main(steps: int = 600, measure: bool = False, seeds: int = 1, episodes: int = 4, statements: int = 1 << 18,
         train: Sequence[str] = TRAIN, held_out: Sequence[str] = HELD_OUT) -> None:  # fmt: skip
    try:
        training = environment(train, "static", statements)
        size, row = (training.observation_space[name].shape[-1] for name in ("features", "moves"))
        policies = [Policy(size, row, seed) for seed in range(seeds)]
    except (dojoir.ToolchainError, ImportError) as error:  # a package is missing: the error says what brings it
        print(f"skipped: {error}")
        return
    for seed, policy in enumerate(policies):
        count = episode = 0
        while count < steps:
            noted: list[Any] = []
            recent = []
            while len(noted) < BATCH:
                recent.append(played(training, policy.act, 10_000 * seed + episode, noted))
                episode += 1
            policy.learn(*map(list, zip(*noted, strict=True)))
            count += len(noted)
            print(f"seed {seed}, {count} steps: {np.exp(np.mean(np.log(recent))):.2f}x as fast as the start")
    ratios = []
    for name in held_out:
        env = environment([name], "measure" if measure else "static", statements)
        drawn = [played(env, at_random(n), n) for n in range(2 * episodes)]
        learned = [played(env, policy.act, n) for policy in policies for n in range(episodes)]
        random, ppo = (float(np.exp(np.mean(np.log(found)))) for found in (drawn, learned))
        ratios.append(ppo / random)
        print(f"{name}: random {random:.2f}x, PPO {ppo:.2f}x as fast as the start")
        env.close()
    print(f"on kernels that it never saw PPO is at {np.exp(np.mean(np.log(ratios))):.2f} of random")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="PPO beside random on held-out kernels")
    parser.add_argument("--steps", type=int, default=600, choices=range(1, 1 << 31), metavar="N")
    parser.add_argument("--seeds", type=int, default=1, choices=range(1, 1 << 31), metavar="N")
    parser.add_argument("--episodes", type=int, default=4, choices=range(1, 1 << 31), metavar="N")
    parser.add_argument("--measure", action="store_true", help="time what is played on held-out kernels")
    main(**vars(parser.parse_args()))
