"""The canonical printer: a kernel as text that parses back to an equal kernel.

Depth style writes `{0}` for the outermost iterator: canonical texts, hashes, traces and the database have it. A
person reads the labels of the text, `{i}` where a scope has one; name style writes `{i}` and labels every scope.
"""

from __future__ import annotations

from dojoir.ir.kernel import Kernel, given_kernel
from dojoir.support.public import public


@public
def to_text(kernel: Kernel, names: bool = False, *, labels: bool = False) -> str:
    """The text of a kernel, in depth style; with `labels`, the iterators of labelled scopes by their labels, as
    `print(kernel)` shows it; in name style where `names` is true.

    In name style a scope without a label gets `i0`, `i1`, … by its depth (with underscores added where a scope
    around or below it is labelled so).
    """
    return given_kernel(kernel).text(names, labels)


@public
def canonical_text(kernel: Kernel) -> str:
    """Depth style without labels: the identity of the kernel."""
    return kernel.unlabelled().text()
