"""Instances beyond those of the kernel before: what runs past the end of a sum or a result, and has no effect.

A certificate that says `beyond` lets a statement run where the one that it stands for does not. Such an instance
stands for nothing. That it stays in bounds, reads what was written, cannot fail and touches nothing that was left
alone is asked of it as of a new statement (`dojoir.proof.core.unchanged.standing`), and what it reads is its own
matter. What it writes must reach no instance that was there before and nothing that is returned, which is asked of
the flow (`dojoir.proof.core.compare`).

*Theorem.* Or it adds a product of two zeros to a sum whose order is free. That leaves the sum as it is: 0 times 0
is 0 in every type that has a 0, and partial results begin with 0 in the same way. So is a plain conversion of 0 to
such a type. (No other conversion is one of 0: the bits of -0.0 are none.) Under `fp fast`, algebra of real numbers,
one zero is enough; else it is not, for the other factor may be infinite or no number. An element is surely 0 where
every value that may reach it is one that an assignment of 0 gave: none is from the caller, or of another write.
"""

from __future__ import annotations

import islpy as isl

from dojoir.ir.nodes import Access, Cast, Const, Expr, Op
from dojoir.proof.core.value_graph import Graph
from dojoir.types.identities import beginning


def adding_zero(graph: Graph, beyond: isl.UnionSet) -> isl.UnionSet:
    """Those of some instances that add a product of two elements which are surely 0, in free order."""
    sums, zeros = list[int](), list[int]()
    for k, site in enumerate(graph.sets.kernel.sites):
        dtype = graph.sets.kernel.buffer(site.statement.target.buffer).dtype
        match site.statement.accumulation or "=", graph.values[k]:
            case "+=", Op("mul", factors) if all(map(_is_zero_of_zero, factors)):
                sums.append(k)
            case "=", Const(0) if beginning("+=", dtype) == 0:
                zeros.append(k)
    unsure = graph.sources.subtract_domain(graph.instances(zeros)).range().union(graph.initial.domain())
    read, found = graph.reading(sums), beyond.intersect(graph.accumulations(sums))
    if graph.sets.kernel.fp == "fast":
        return found.intersect(read.subtract_domain(unsure).range())
    return found.subtract(read.intersect_domain(unsure).range())


def _is_zero_of_zero(factor: Expr) -> bool:
    """Whether a factor is 0 where the element that it is made of is, and reads nothing else."""
    if isinstance(factor, Cast) and factor.way == "cast" and beginning("+=", factor.dtype) == 0:
        factor = factor.arg
    return isinstance(factor, Access) and not any(isinstance(index, Access) for index in factor.indices)
