"""All operators that there is a text for, and the decompositions of the others."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from dojoir.torch.importer import (
    adaptive,
    convolution,
    elementwise,
    gathers,
    matrix_products,
    pooling,
    recurrent,
    reductions,
    sorting,
    views,
)

FAMILIES = (elementwise, views, reductions, matrix_products, convolution, pooling, adaptive, gathers, sorting,
            recurrent)  # fmt: skip

aten: Any = torch.ops.aten


@cache
def operators() -> dict[Any, Callable[..., Any]]:
    """The functions that lower each operator, by PyTorch's overload."""
    return {target: lower for family in FAMILIES for target, lower in family.TABLE.items()}


@cache
def decompositions() -> dict[Any, Callable[..., Any]]:
    """PyTorch's own definitions by simpler operators, of those that there is no text for."""
    from torch._decomp import core_aten_decompositions, decomposition_table

    known = operators()
    made = dict(core_aten_decompositions())
    made |= {op: f for op, f in decomposition_table.items() if str(op).startswith("aten.") and op not in made}
    return {op: f for op, f in made.items() if op not in known and op not in _KEPT}


_KEPT = frozenset({
    aten.lift_fresh.default, aten.rand.default, aten.randn.default, aten.bernoulli.default,
    aten.native_dropout.default,
})  # fmt: skip
"""The operators whose definition is not taken: random numbers would be others, a constant no fake tensor."""
