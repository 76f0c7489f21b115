"""Which writes each read gets its value from, at given sizes, by running over every instance: what
`dojoir.sets.flow` is held to."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import islpy as isl
from enumeration import Element, elements, instances, shape

from dojoir.ir.nodes import Kernel
from dojoir.sets.flow import flow_of
from dojoir.sets.kernel_sets import sets_of


def has_gathers(kernel: Kernel) -> bool:
    """Whether an index is read from data: its reads have more dimensions than their statements."""
    return any(read.gathers for reads in sets_of(kernel).reads for read in reads)


Pairs = set[tuple[str, str]]


def flow_at(kernel: Kernel, buffer: str, strict: bool, sizes: Mapping[str, int]) -> tuple[Pairs, Pairs]:
    """Pairs of a write and a read that gets a value from it, and of a read that may see what was there at the start
    and the element, as isl writes their tuples. No gathers."""
    sets = sets_of(kernel)
    held: dict[Element, set[str]] = {}
    assigned: set[Element] = set()
    pairs: Pairs = set()
    initial: Pairs = set()

    def storage(element: Element) -> Element:
        dims = kernel.buffer(element[0]).dims
        return element[0], tuple(0 if d.collapsed else i for d, i in zip(dims, element[1], strict=True))

    def read(name: str, at: tuple[int, ...], element: Element) -> None:
        pairs.update((source, f"{name}{list(at)}") for source in held.get(storage(element), ()))
        if storage(element) not in assigned:
            initial.add((f"{name}{list(at)}", f"b_{buffer}{list(storage(element)[1])}"))

    for number, at in instances(kernel, sizes):
        statement = kernel.sites[number].statement
        for ordinal, access in enumerate(statement.term_reads):
            if access.buffer == buffer:
                read(f"s{number}r{ordinal}", at, *elements(kernel, access, sizes, at))
        if statement.target.buffer == buffer:
            (target,) = elements(kernel, statement.target, sizes, at)
            ordered = sets.is_ordered(number, strict)
            if ordered:
                read(f"t{number}", at, target)
            kept = held.get(storage(target), set()) if statement.accumulation is not None and not ordered else set()
            held[storage(target)] = kept | {f"s{number}{list(at)}"}
            if statement.accumulation is None or ordered:
                assigned.add(storage(target))
    if kernel.buffer(buffer).role in {"out", "inout"}:
        for element in product(*map(range, shape(kernel, buffer, sizes))):
            read(f"out_{buffer}", element, (buffer, element))
    return pairs, initial


def wrong_flow(kernel: Kernel, sizes: Mapping[str, int], strict: bool) -> str | None:
    """How the flow of a kernel differs from that of a run, or None."""
    sets = sets_of(kernel)
    fixed = " and ".join(f"n_{name} = {value}" for name, value in sizes.items()) or "true"
    for buffer in kernel.buffers:
        names = ", ".join(f"n_{name}" for name in kernel.runtime_sizes)
        here = isl.Set.read_from_str(sets.workspace.context, f"[{names}] -> {{ : {fixed} }}")
        flow = flow_of(sets, buffer.name, sets.ordered(strict))
        for found, pairs in zip(
            (flow.sources, flow.initial), flow_at(kernel, buffer.name, strict, sizes), strict=True
        ):
            text = "; ".join(f"{left} -> {right}" for left, right in sorted(pairs))
            expected = isl.UnionMap.read_from_str(sets.workspace.context, f"{{ {text} }}")
            actual = found.intersect_params(here)
            if not actual.is_equal(expected.intersect_params(here)):
                return f"the flow through {buffer.name} at {dict(sizes)} is {actual}"
    return None
