"""Instances beyond those of the kernel before: what runs past the end of a sum or a result, and has no effect.

A certificate that says `beyond` lets a statement run where the one that it stands for does not. Such an instance
cannot fail and touches nothing but temporaries: it copies, assigns a number or multiplies two elements. What it
writes reaches no instance that was there before and nothing that is returned, which is asked of the flow; or it is
a product of two zeros that is added to a sum whose order is free. That leaves the sum as it is: 0 times 0 is 0 in
every type that has a 0, and partial results begin with 0 in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator

import islpy as isl

from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Access, Const, Kernel, Op, Site
from dojoir.proof.core.value_graph import Graph
from dojoir.types.identities import beginning


def may_run(graph: Graph, beyond: isl.UnionSet) -> bool:
    """Whether instances of a kernel can neither fail nor touch anything but temporaries."""
    sites, kernel = graph.sets.kernel.sites, graph.sets.kernel
    return all(k not in graph.ordered and _is_plain(kernel, sites[k]) for k, _ in _of_statements(graph, beyond))


def _is_plain(kernel: Kernel, site: Site) -> bool:
    plain = isinstance(site.statement.value, Access | Const) or _is_product(site.statement.value)
    return plain and all(
        kernel.buffer(a.buffer).role == "tmp" and all(isinstance(i, Affine) for i in a.indices)
        for a in site.statement.accesses
    )


def _is_product(value: object) -> bool:
    return isinstance(value, Op) and value.name == "mul" and all(isinstance(arg, Access) for arg in value.args)


def reads_of(graph: Graph, beyond: isl.UnionSet) -> isl.UnionSet:
    """The reads of some instances."""
    found = isl.UnionSet.empty(beyond.get_space())
    for k, instances in _of_statements(graph, beyond):
        for slot in graph.slots[k]:
            found = found.union(_reading(graph, k, graph.tuple_text(k, slot)).intersect_range(instances).domain())
    return found


def adding_zero(graph: Graph, beyond: isl.UnionSet) -> isl.UnionSet:
    """Those of some instances that add a product of elements, both of which an assignment of 0 gave their value."""
    others, begun = graph.sources.subtract_domain(_assigning_zero(graph)).range(), graph.initial.domain()
    found = isl.UnionSet.empty(beyond.get_space())
    for k, instances in _of_statements(graph, beyond):
        statement = graph.sets.kernel.sites[k].statement
        if statement.accumulation == "+=" and _is_product(graph.values[k]):
            for slot in graph.slots[k]:
                reading = _reading(graph, k, graph.tuple_text(k, slot))
                instances = instances.subtract(reading.intersect_domain(others.union(begun)).range())
            found = found.union(instances)
    return found


def _assigning_zero(graph: Graph) -> isl.UnionSet:
    """The assignments of 0 to elements of types that have it."""
    found = graph.sources.domain().subtract(graph.sources.domain())
    for k, site in enumerate(graph.sets.kernel.sites):
        match site.statement.op, graph.values[k]:
            case "=", Const(0) if (
                beginning("+=", graph.sets.kernel.buffer(site.statement.target.buffer).dtype) == 0
            ):
                found = found.union(_reading(graph, k, graph.tuple_text(k)).domain())
    return found


def _of_statements(graph: Graph, instances: isl.UnionSet) -> Iterator[tuple[int, isl.UnionSet]]:
    """The statements that have some of the instances, each with those of it."""
    for k in graph.sets.numbers:
        own = _reading(graph, k, graph.tuple_text(k)).domain().intersect(instances)
        if not own.is_empty():
            yield k, own


def _reading(graph: Graph, k: int, read: str) -> isl.UnionMap:
    """A read of a statement, or the statement, to its instances."""
    return graph.sets.map(f"{read} -> {graph.tuple_text(k)}")
