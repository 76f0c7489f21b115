"""Hypothesis strategies for kernels and texts: it shrinks what the generators of `drawing` draw."""

from __future__ import annotations

from typing import Any

from drawing import draw
from drawing.damage import damage
from hypothesis import strategies as st

from dojoir.ir.nodes import Kernel


def drawn_kernels(setting: str, **features: Any) -> st.SearchStrategy[Kernel]:
    """The kernels of a setting of `drawing`."""
    return st.randoms(use_true_random=False).map(lambda random: draw(setting, random, **features))


@st.composite
def mutated(draw: st.DrawFn, texts: st.SearchStrategy[str]) -> str:
    """A text with a few damages: pieces put in, taken out or doubled, lines swapped, the end cut off."""
    return damage(draw(texts), draw(st.randoms(use_true_random=False)))
