"""Networks as people write them: eleven small models, problems of the kinds of KernelBench's levels 2 and 3, and
parts of models at the widths that a GPU is for.

`ALL` has them by name: a function that gives a module and its inputs, drawn from PyTorch's generator. `WIDE` are
those for GPUs. They are never edited for what dojoir can do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from networks import chains, models, parts, wide

Make = Callable[[], tuple[nn.Module, tuple[Any, ...]]]

MODELS: dict[str, Make] = models.MODELS
PROBLEMS: dict[str, Make] = chains.PROBLEMS | parts.PROBLEMS
WIDE: dict[str, Make] = wide.WIDE
ALL: dict[str, Make] = MODELS | PROBLEMS | WIDE
