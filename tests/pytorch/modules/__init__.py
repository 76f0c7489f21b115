"""Modules of common operators, written out: each at small sizes for the tests, and at sizes of practice.

A case is a function of sizes that gives a module and its inputs, drawn from PyTorch's generator. `CASES` has all of
them by name.
"""

from __future__ import annotations

from modules import blocks, convolutions, elements, gathers, losses, norms, products, reductions, shapes
from modules.cases import Case

FAMILIES = (elements, shapes, reductions, norms, products, convolutions, gathers, losses, blocks)

CASES: dict[str, Case] = {case.name: case for family in FAMILIES for case in family.CASES}
BLOCKS = tuple(case.name for case in (*losses.CASES, *blocks.CASES))
"""Those that are whole blocks of models, and losses."""
