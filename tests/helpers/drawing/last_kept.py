"""Random kernels in which an assignment at indices from data compares which of its iterations is the last."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from dojoir.ir.nodes import Kernel, Scope
from dojoir.ir.paths import next_sibling
from dojoir.passes.engine.engine import is_legal
from dojoir.passes.values.last_writers import KeepLastWriter


def last_kept(kernel: Kernel, random: Random, mark: str | None) -> Kernel:
    """The kernel after a random use of `keep_last_writer`, if there is one, with a mark on its scope. Iterations
    may be dependent all the same, where other statements are in it."""
    uses = [*KeepLastWriter.candidates(kernel)]
    random.shuffle(uses)
    for use in uses:
        assert isinstance(use, KeepLastWriter)
        if not is_legal(kernel, use):
            continue
        made, path = use.rewrite(kernel).kernel, kernel.path(use.scope)
        for _ in range(2 + len(use.indices)):
            path = next_sibling(path)
        scope = made.at(path)
        if mark is None or not isinstance(scope, Scope) or scope.marked:
            return made
        return made.replace_node(path, replace(scope, marks=(mark,)))
    return kernel
