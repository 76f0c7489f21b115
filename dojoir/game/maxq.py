"""Max-Q: what an action is worth is the best state that can still be reached through it.

    Q(s, a) = E max(r, γ max Q(s', a'))

A search keeps the best state that it saw, so a way through a slow state to a fast one is worth the fast one. The
sum of ordinary Q-learning, Q(s, a) = E (r + γ max Q(s', a')), counts the loss on the way, and stops before it.
Double estimates are those of van Hasselt et al. (2016), replay with priorities is that of Schaul et al. (2016).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from random import Random
from typing import Annotated, Any, Literal

import numpy as np

import dojoir
from dojoir.game.arena import Arena, Position
from dojoir.game.encoders import Vector
from dojoir.search.needs import needed
from dojoir.support.files import write_file
from dojoir.support.public import Count, Natural, Seed, Share, Within, public

torch: Any = needed("torch", "learn", "Max-Q")

FORMAT = "dojoir-maxq-1"

ALPHA, BETA = 0.6, 0.4
"""How much the error of a transition decides how often it is replayed, and how much of that is taken back."""


class Network:
    """Vectors of states and rows of actions to a value for each row; `counts` says how many rows, one state after
    the other, are of each state."""

    def __init__(self, state_size: int, action_size: int, width: int) -> None:
        nn = torch.nn
        self.state = nn.Sequential(nn.Linear(state_size, width), nn.LeakyReLU(0.1))
        self.action = nn.Sequential(nn.Linear(action_size, width), nn.LeakyReLU(0.1))
        self.head = nn.Sequential(nn.Linear(3 * width, width), nn.LeakyReLU(0.1), nn.Linear(width, 1))
        self.all = nn.ModuleDict({"state": self.state, "action": self.action, "head": self.head})

    def __call__(self, states: Any, rows: Any, counts: list[int]) -> Any:
        state, action = self.state(states).repeat_interleave(torch.tensor(counts), 0), self.action(rows)
        return self.head(torch.cat([state, action, state * action], -1)).squeeze(-1)


class Replay:
    """The last transitions, drawn by how wrong they were."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.items: list[tuple[Vector, Vector, float, Position | None]] = []
        self.weights = np.zeros(capacity)
        self.next = 0

    def add(self, item: tuple[Vector, Vector, float, Position | None]) -> None:
        weight = self.weights[: len(self.items)].max() if self.items else 1.0
        if len(self.items) < self.capacity:
            self.items.append(item)
        else:
            self.items[self.next] = item
        self.weights[self.next] = max(float(weight), 1e-3)
        self.next = (self.next + 1) % self.capacity

    def draw(self, count: int, rng: np.random.Generator) -> tuple[Any, Any]:
        """Places of transitions, and how much each counts."""
        weights = self.weights[: len(self.items)] ** ALPHA
        shares = weights / weights.sum()
        chosen = rng.choice(len(self.items), size=count, p=shares)
        counts = (len(self.items) * shares[chosen]) ** -BETA
        return chosen, counts / counts.max()


def first_legal(position: Position, values: Vector) -> int:
    """The legal action of the highest value: actions are checked in order, and no more than needed."""
    order = np.argsort(-values, kind="stable")
    return next(int(action) for action in order if position.legal(int(action)))


class MaxQ:
    """An agent that learns what actions are worth. `operator` is `max`, or `sum` for ordinary Q-learning. `gamma`
    is what a step costs: near 1 all actions are worth the same to the max operator, since the best state can be
    reached after any of them. The network makes `updates` steps for each that is played. `epsilon` is how often a
    legal action is taken at random, falling to `least_epsilon` over `fall` steps. All randomness is of `seed`.
    Raises ArgumentError for numbers that do not fit."""

    @public
    def __init__(
        self,
        state_size: Count,
        action_size: Count,
        *,
        operator: Literal["max", "sum"] = "max",
        gamma: Annotated[float, Within(0, 1, above=True)] = 0.8,
        width: Count = 128,
        rate: Annotated[float, Within(above=True)] = 1e-3,
        batch: Count = 32,
        updates: Natural = 4,
        capacity: Count = 5000,
        refresh: Count = 100,
        epsilon: Share = 1.0,
        least_epsilon: Share = 0.1,
        fall: Count = 1000,
        seed: Seed = 0,
        encoder: str = "hash",
    ) -> None:
        self.settings: dict[str, Any] = {name: value for name, value in locals().items() if name != "self"}
        self.operator, self.gamma, self.batch, self.updates, self.refresh = operator, gamma, batch, updates, refresh
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.online, self.target = (Network(state_size, action_size, width) for _ in range(2))
        self.target.all.load_state_dict(self.online.all.state_dict())
        self.optimizer = torch.optim.Adam(self.online.all.parameters(), lr=rate)
        self.replay = Replay(capacity)
        self.rng, self.draws = Random(seed), np.random.default_rng(seed)
        self.steps, self.highest = 0, -np.inf

    # -- acting -------------------------------------------------------------------------------------------------
    def values(self, position: Position) -> Vector:
        """The estimated value of each action, legal or not."""
        return self._values(self.online, position)

    def _values(self, network: Network, position: Position) -> Vector:
        with torch.no_grad():
            states = torch.from_numpy(np.array(position.vector)).unsqueeze(0)
            found: Vector = network(states, torch.from_numpy(position.rows), [len(position.rows)]).numpy()
        return found

    def best(self, position: Position) -> int:
        """The legal action that is worth most."""
        return first_legal(position, self.values(position))

    @property
    def epsilon(self) -> float:
        """How often an action is taken at random now."""
        first, last, fall = (self.settings[name] for name in ("epsilon", "least_epsilon", "fall"))
        return float(max(last, first - (first - last) * self.steps / fall))

    def choose(self, position: Position) -> int:
        """An action to learn from: a random legal one now and then, else the best."""
        if self.rng.random() >= self.epsilon:
            return self.best(position)
        return next(action for action in position.shuffled(self.rng) if position.legal(action))

    # -- learning -----------------------------------------------------------------------------------------------
    def learn(
        self, arena: Arena, steps: int, progress: Callable[[int, float], object] | None = None
    ) -> list[float]:
        """Plays and learns for so many steps; gives the best reward of each episode that came to its end.
        `progress` is called after each episode with the steps so far and that reward."""
        curve: list[float] = []
        position, best = arena.begin(self.rng), -np.inf
        for _ in range(steps):
            action = self.choose(position)
            reward, after = arena.act(position, action)
            self.replay.add((position.vector, position.rows[action], reward, after))
            best, self.highest = max(best, reward), max(self.highest, reward)
            self.steps += 1
            if self.steps % self.refresh == 0:
                self.target.all.load_state_dict(self.online.all.state_dict())
            for _ in range(self.updates):
                self._update()
            if after is None:
                curve.append(float(best))
                if progress is not None:
                    progress(self.steps, float(best))
                position, best = arena.begin(self.rng), -np.inf
            else:
                position = after
        return curve

    def _update(self) -> None:
        """One step of the optimiser on a batch of what was played."""
        if len(self.replay.items) < self.batch:
            return
        chosen, counts = self.replay.draw(self.batch, self.draws)
        items = [self.replay.items[i] for i in chosen]
        goals = torch.tensor(self._goals([(reward, after) for _, _, reward, after in items]), dtype=torch.float32)
        states = torch.from_numpy(np.stack([state for state, _, _, _ in items]))
        rows = torch.from_numpy(np.stack([row for _, row, _, _ in items]))
        errors = self.online(states, rows, [1] * len(items)) - goals
        loss = (torch.from_numpy(counts).float() * errors * errors).mean()
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.online.all.parameters(), 10.0)
        self.optimizer.step()
        self.replay.weights[chosen] = np.abs(errors.detach().numpy()) + 1e-3

    def _goals(self, transitions: list[tuple[float, Position | None]]) -> list[float]:
        """The targets of the values of some transitions. The action after each is chosen by one network and valued
        by the one that holds it to be worth less (Fujimoto et al., 2018). The value is at most that by the max
        operator at most as much as the best reward of any game so far. The largest of many guesses is else too
        high, and nothing is added that would bring it down."""
        positions = [after for _, after in transitions if after is not None]
        if not positions:
            return [reward for reward, _ in transitions]
        counts = [len(after.rows) for after in positions]
        states = torch.from_numpy(np.stack([after.vector for after in positions]))
        rows = torch.from_numpy(np.concatenate([after.rows for after in positions]))
        with torch.no_grad():
            chosen, valued = (network(states, rows, counts).split(counts) for network in (self.online, self.target))
        later = iter(
            self.gamma * float(torch.minimum(order, values)[first_legal(after, order.numpy())])
            for after, order, values in zip(positions, chosen, valued, strict=True)
        )
        found = []
        for reward, after in transitions:
            if after is None:
                found.append(reward)
            else:
                value = next(later)
                found.append(max(reward, min(value, self.highest)) if self.operator == "max" else reward + value)
        return found

    # -- files --------------------------------------------------------------------------------------------------
    def save(self, path: str) -> None:
        """Writes the agent as safetensors, whole or not at all: networks, the state of the optimiser, its settings
        and how many steps it has learned. What it remembers of its games is not in it: it plays anew for that."""
        save = needed("safetensors.torch", "learn", "a file of an agent").save
        tensors = {f"online.{name}": value for name, value in self.online.all.state_dict().items()}
        tensors |= {f"target.{name}": value for name, value in self.target.all.state_dict().items()}
        for place, state in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{place}.{name}": torch.as_tensor(value) for name, value in state.items()}
        about = {"format": FORMAT, "settings": json.dumps(self.settings), "steps": str(self.steps)}
        data: bytes = save({name: value.clone().contiguous() for name, value in tensors.items()}, about)
        write_file(path, data)

    @staticmethod
    def load(path: str | PathLike[str]) -> MaxQ:
        """The agent of a file, which goes on where it was. Raises ArgumentError, `bad-model`, for what is none."""
        safe_open = needed("safetensors", "learn", "a file of an agent").safe_open
        if not isinstance(path, str | PathLike) or not path or not Path(path).is_file():
            raise dojoir.ArgumentError(
                f"there is no file {path!r} with an agent: dojoir learn agent -o FILE writes one", "bad-model"
            )
        try:
            with safe_open(path, framework="pt") as file:
                about = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            if about.get("format") != FORMAT:
                raise ValueError("it says that it is something else")
            agent = MaxQ(**json.loads(about["settings"]))
            for part, network in (("online", agent.online), ("target", agent.target)):
                named = {n.removeprefix(f"{part}."): v for n, v in tensors.items() if n.startswith(f"{part}.")}
                network.all.load_state_dict(named)
            agent.steps = int(about["steps"])
            state: dict[int, dict[str, Any]] = {}
            for name, value in tensors.items():
                if name.startswith("optimizer."):
                    _, place, field = name.split(".", 2)
                    state.setdefault(int(place), {})[field] = value
            agent.optimizer.load_state_dict({**agent.optimizer.state_dict(), "state": state})
        except Exception as error:  # what a file of anything may lead to
            reason = " ".join(str(error).split())
            raise dojoir.ArgumentError(f"{path} is no agent of dojoir: {reason}", "bad-model") from None
        agent.rng, agent.draws = Random(agent.steps), np.random.default_rng(agent.steps)
        return agent
