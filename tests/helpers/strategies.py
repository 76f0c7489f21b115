"""Hypothesis strategies for kernels and texts.

`syntactic_kernels` gives any tree that the grammar and the types permit, whatever it would do; `mutated` damages a
text; `runnable_kernels` gives kernels that pass the proof, which every target must run (`runnable.py`).
"""

from __future__ import annotations

from hypothesis import strategies as st
from runnable import runnable_kernel
from syntactic import damage, syntactic_kernel

from dojoir.ir.nodes import Kernel


def syntactic_kernels() -> st.SearchStrategy[Kernel]:
    """Any kernel that parses: its indices may be out of bounds and its reads before its writes."""
    return st.randoms(use_true_random=False).map(syntactic_kernel)


def runnable_kernels(exact: bool = False, marks: bool = True) -> st.SearchStrategy[Kernel]:
    """Kernels that pass the proof, as `runnable_kernel` makes them."""
    return st.randoms(use_true_random=False).map(lambda random: runnable_kernel(random, exact, marks))


@st.composite
def mutated(draw: st.DrawFn, texts: st.SearchStrategy[str]) -> str:
    """A text with a few damages: pieces put in, taken out or doubled, lines swapped, the end cut off."""
    return damage(draw(texts), draw(st.randoms(use_true_random=False)))
