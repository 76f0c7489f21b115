"""Stored schedules: the moves that make a kernel fast on a machine, and `optimize`, which picks them.

What comes with dojoir was measured to be faster than `default_schedule` for the machine, which is what all other
kernels and machines get. A schedule is stored where a rule for all texts does not see what a person sees. What a
file of one says is in `dojoir.schedules.file`.
"""

from dojoir.schedules.by_size import versions
from dojoir.schedules.choice import Choice, choose, is_small, optimize
from dojoir.schedules.file import VARIABLE, Schedule, schedules
from dojoir.schedules.planning import Option, Plan, plan
from dojoir.schedules.store import store, stored

__all__ = [
    "VARIABLE",
    "Choice",
    "Option",
    "Plan",
    "Schedule",
    "choose",
    "is_small",
    "optimize",
    "plan",
    "schedules",
    "store",
    "stored",
    "versions",
]
