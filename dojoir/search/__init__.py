"""Search for a fast schedule: `tune`, its strategies, and what a strategy of one's own is given.

A kernel is a state, a legal move an action, the time that was measured the score. Every state is right, so what is
left to find is speed. A strategy is a class with `ask(n)`, which gives up to `n` traces to try, and
`tell(evaluations)`, which takes what became of them; it is made with a `Play`.
"""

from dojoir.costs.cycles import estimate, floor
from dojoir.costs.features import features
from dojoir.passes.engine.drawing import draw
from dojoir.search.budget import Budget
from dojoir.search.play import WEIGHTS, Play
from dojoir.search.registry import STRATEGIES, Strategy
from dojoir.search.static import Static
from dojoir.search.tuned import Gain, Tuned
from dojoir.search.tuning import tune

__all__ = [
    "STRATEGIES", "WEIGHTS", "Budget", "Gain", "Play", "Static", "Strategy", "Tuned", "draw", "estimate",
    "features", "floor", "tune",
]  # fmt: skip
