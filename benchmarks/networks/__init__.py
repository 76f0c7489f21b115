"""Networks as people write them: eleven small models, and problems of the kinds of KernelBench's levels 2 and 3.

`ALL` has them by name: a function that gives a module and its inputs, drawn from PyTorch's generator. They are
never edited for what dojoir can do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from networks import chains, models, parts

Make = Callable[[], tuple[nn.Module, tuple[Any, ...]]]

MODELS: dict[str, Make] = models.MODELS
PROBLEMS: dict[str, Make] = chains.PROBLEMS | parts.PROBLEMS
ALL: dict[str, Make] = MODELS | PROBLEMS
