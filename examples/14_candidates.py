"""The game at playing speed: which candidates are legal, and gain, is learned. python examples/14_candidates.py"""

from collections import defaultdict
from random import Random

import dojoir


def main(kernel: str = "library:softmax", size: int = 1024, episodes: int = 20) -> None:
    from dojoir.game import KernelEnv  # needs the extra agents

    sizes, budget = {"N": size, "M": size}, dojoir.Budget(moves=20)
    env = KernelEnv(kernel, sizes=sizes, actions="candidates", timer="static", budget=budget)
    rng, worth, best = Random(0), defaultdict[str, float](float), 0.0
    for episode in range(episodes):
        (_, info), over = env.reset(seed=episode), False
        while not over:
            offered = rng.sample([action for action in range(1, 512) if info["action_mask"][action]], 8)
            kinds = {action: env.meaning(action).partition("(")[0] for action in offered}
            action = max(offered, key=lambda one: worth[kinds[one]])
            _, reward, stopped, cut, info = env.step(action)
            gain = -0.1 if "verdict" in info else float(reward)
            worth[kinds[action]] += 0.2 * (gain - worth[kinds[action]])
            over, best = stopped or cut, max(best, info["value"])
    print(f"the best of {episodes} episodes is e^{best:.2f} times as fast as the start, by the estimate")


if __name__ == "__main__":
    main()
