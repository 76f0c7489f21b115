"""The tolerance as a multiple of the bound of the rounding error."""

from __future__ import annotations

from dojoir.ir.nodes import Kernel

SLACK, FAST_SLACK = 2.0, 8.0
"""The bounds are of first order, so twice what they say is allowed; more for kernels that allow algebra."""


def slack_of(kernel: Kernel) -> float:
    """How many times the bound on rounding errors an element may be off."""
    return FAST_SLACK if kernel.fp == "fast" else SLACK
