"""Gradients of kernels, as kernels: reverse mode on the loop nest.

Source of the method: A. Griewank and A. Walther, "Evaluating Derivatives" (2008), chapter 6: the statements in
reverse order, each adding to the adjoints of what it read."""

from __future__ import annotations

from dojoir.gradient.made import gradient

__all__ = ["gradient"]
