"""An agent of one's own in the environment of Gymnasium, and a database that remembers what it found.

python examples/11_game.py

The agent is simple: it tries each kind of move once, and then mostly takes the kinds that gained most so far. Every
state is right by construction, so it has only speed to find; the static timer makes it quick and always the same.
"""

from __future__ import annotations

import random
import tempfile
from collections import defaultdict
from pathlib import Path

import dojoir


def play(kernel: str, sizes: dict[str, int], episodes: int, length: int, folder: str) -> None:
    """Plays episodes, prints the best, and what the database has of them."""
    from dojoir.game import KernelEnv
    from dojoir.records import Database

    rng = random.Random(0)
    gains: dict[str, list[float]] = defaultdict(list)
    with Database(Path(folder) / "tuned.db") as database:
        env = KernelEnv(kernel, sizes=sizes, timer="static", budget=dojoir.Budget(moves=length), db=database)
        best, text = 0.0, ""
        for episode in range(episodes):
            _, info = env.reset(seed=episode)
            over = False
            while not over:
                actions = [a for a in range(1, env.capacity) if info["action_mask"][a]]
                names = {a: env.meaning(a).partition("(")[0] for a in actions}
                untried = [a for a in actions if names[a] not in gains]
                hopeful = [a for a in actions if max(gains[names[a]], default=0.0) > 0]
                action = rng.choice(untried or (hopeful if hopeful and rng.random() < 0.8 else actions))
                _, reward, stopped, spent, info = env.step(action)
                gains[names[action]].append(float(reward))
                over = stopped or spent
                if info["value"] > best:
                    best, text = info["value"], env.render()
        print(f"{text}\nthe database has {database.stats()['builds']} states of {episodes} episodes")
        env.close()


def main(kernel: str = "relu", size: int = 1 << 20, episodes: int = 3, length: int = 6) -> None:
    sizes = dict.fromkeys(dojoir.kernels.load(kernel).runtime_sizes, size)
    with tempfile.TemporaryDirectory() as folder:
        try:
            play(kernel, sizes, episodes, length, folder)
        except dojoir.ToolchainError as error:  # a package is missing: the error says what brings it
            print(f"skipped: {error}")


if __name__ == "__main__":
    main()
