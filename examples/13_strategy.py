"""A strategy of one's own: it learns which kinds of moves gain, and draws these. python examples/13_strategy.py"""

from collections.abc import Sequence

import dojoir


class Bandit:
    def __init__(self, play: dojoir.search.Play) -> None:
        self.play, self.weights = play, dict(play.weights)

    def ask(self, n: int) -> Sequence[dojoir.Trace]:
        at = self.play.rng.choice([self.play.best, *self.play.starts])
        moves = dojoir.search.draw(at.kernel, self.play.rng, min(n, 4), self.play.target, self.weights)
        self.play.count(len(moves))  # who makes traces without `play.children` counts them
        return [at.then(move) for move in moves]

    def tell(self, evaluations: Sequence[dojoir.runtime.Evaluation], traces: Sequence[dojoir.Trace]) -> None:
        for trace in traces:
            gained = self.play.speed(trace) > self.play.speed(trace.copy().undo().hash)
            self.weights[trace.moves[-1].name] *= 1.5 if gained else 0.9


def main(states: int = 60, timer: str = "measure") -> None:
    kernel, sizes = dojoir.kernels.load("softmax"), {"N": 256, "M": 256}
    print(dojoir.tune(kernel, sizes=sizes, strategy=Bandit, budget=dojoir.Budget(states=states), timer=timer))


if __name__ == "__main__":
    main()
