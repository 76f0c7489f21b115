"""Random kernels, by one function: `draw("tangled", random)`.

The settings are the free ones of `drawing.settings`, of which each says how often it draws every form of an extent,
an index and so on, and `runnable`, whose kernels are well-formed by construction. What kernels are held to is for
those who draw them: the interpreter, the proof, the targets.
"""

from __future__ import annotations

from random import Random

from dojoir.ir.nodes import Kernel
from drawing.free import drawn
from drawing.runnable import runnable_kernel
from drawing.settings import SETTINGS

RUNNABLE = "runnable"


def draw(setting: str, random: Random, *, small: bool = False, **features: bool) -> Kernel:
    """A kernel of a setting; a `small` one has few statements. Those that are `runnable` have the `features` that
    `runnable_kernel` lists. Equal generators give equal kernels. Raises KeyError where there is no such setting."""
    if setting == RUNNABLE:
        return runnable_kernel(random, small=small, **features)
    return drawn(SETTINGS[f"{setting}, small" if small else setting], random)
