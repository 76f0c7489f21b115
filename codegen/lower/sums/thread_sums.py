"""Sums that a thread of a GPU carries in a variable of f32, so that narrower elements are rounded once, and that
`partial_sums` can put in parts.

A sum whose element is in global or shared memory, or of a narrower float, is added to in a variable, which goes
into its element behind the loop, if anything has been added. What threads accumulate together has such a variable
already (`collectives`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from dojoir.codegen.lower.gpu.threads import Threads, has_mark
from dojoir.codegen.lower.plans.plan import Accumulator, Analysis
from dojoir.codegen.lower.sums.carry import FEWEST, wider
from dojoir.ir.dtypes import F32, DType
from dojoir.ir.instruction import Use
from dojoir.ir.nodes import Kernel, Node, Path, Scope
from dojoir.ir.words import BLOCK, GRID

BESIDE = frozenset({*GRID, *BLOCK, "lane", "p"})
"""The marks of scopes whose iterations are not one thread's."""


def carried_by_threads(analysis: Analysis, threads: Threads) -> dict[Path, tuple[Accumulator, ...]]:
    """The sums that scopes of launches carry, by the outermost scope that does nothing else with the element."""
    if analysis.kernel.fp == "strict":
        return {}
    found: dict[Path, tuple[Accumulator, ...]] = {}
    done: set[Path] = set(threads.collectives)
    for path, node in analysis.kernel.walk():
        if not isinstance(node, Scope) or has_mark(node, BESIDE):
            continue
        if not any(launched.holds(path) for launched in threads.launches):
            continue
        own = [a for a in analysis.reductions(path, node) if done.isdisjoint(a.paths)]
        own = [a for a in own if _is_carried(analysis, path, a)]
        done.update(at for accumulator in own for at in accumulator.paths)
        if own:
            found[path] = tuple(replace(a, dtype=_carrier(a), until=path) for a in own)
    return found


def _carrier(accumulator: Accumulator) -> DType:
    return max(F32, accumulator.dtype, key=lambda dtype: dtype.bits)


def _is_carried(analysis: Analysis, path: Path, accumulator: Accumulator) -> bool:
    dtype = analysis.typed[accumulator.paths[0]].dtype
    if accumulator.op != "add" or wider(dtype) is None:
        return False
    inner = [_inner(analysis.kernel, path, at) for at in accumulator.paths]
    if any(isinstance(hint, Use) for nodes in inner for n in nodes if isinstance(n, Scope) for hint in n.hints):
        return False
    return dtype.bits < 32 or not (accumulator.along or all(map(_is_short, inner)))


def _inner(kernel: Kernel, path: Path, statement: Path) -> Sequence[Node]:
    """The scopes and guards around a statement from the one at `path` on."""
    return [kernel.at(statement[:end]) for end in range(len(path), len(statement))]


def _is_short(nodes: Sequence[Node]) -> bool:
    bounds = [node.constant_bound for node in nodes if isinstance(node, Scope)]
    return all(bound is not None for bound in bounds) and prod(bound or 0 for bound in bounds) < FEWEST
