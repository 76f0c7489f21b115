"""Kernels run one instance at a time for given sizes, without values: what the proofs and counts are held to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import product

from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Access, Guard, Kernel, Node, Scope, Site, Statement, holds

Element = tuple[str, tuple[int, ...]]
Instance = tuple[int, tuple[int, ...]]


def instances(kernel: Kernel, sizes: Mapping[str, int]) -> Iterator[Instance]:
    """Every statement instance in the order of execution: the number of the statement and its iterators."""
    numbers = {site.path: k for k, site in enumerate(kernel.sites)}

    def run(nodes: tuple[Node, ...], path: tuple[int, ...], at: tuple[int, ...]) -> Iterator[Instance]:
        for i, node in enumerate(nodes):
            here = (*path, i)
            match node:
                case Statement():
                    yield numbers[here], at
                case Guard():
                    if all(holds(condition, sizes, at) for condition in node.conditions):
                        yield from run(node.body, here, at)
                case Scope():
                    for value in range(min(bound.evaluate(sizes, at) for bound in node.extent.bounds)):
                        yield from run(node.body, here, (*at, value))

    yield from run(kernel.body, (), ())


def shape(kernel: Kernel, name: str, sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(dim.extent.evaluate(sizes) for dim in kernel.buffer(name).dims)


def elements(kernel: Kernel, access: Access, sizes: Mapping[str, int], at: tuple[int, ...]) -> Iterator[Element]:
    """What an access touches: all valid values of an index that is gathered."""
    ranges = [
        [index.evaluate(sizes, at)] if isinstance(index, Affine) else range(extent)
        for index, extent in zip(access.indices, shape(kernel, access.buffer, sizes), strict=True)
    ]
    return ((access.buffer, element) for element in product(*ranges))


def reads(site: Site) -> Iterator[Access]:
    """What the value of a statement reads."""
    return site.statement.reads


def findings(kernel: Kernel, sizes: Mapping[str, int]) -> set[str]:
    """The codes of the errors that a run with these sizes meets."""
    found: set[str] = set()
    values: dict[Element, frozenset[Instance]] = {}  # by element, as if every one had its own storage
    stored: dict[Element, frozenset[Instance]] = {}  # by storage

    def storage(element: Element) -> Element:
        dims = kernel.buffer(element[0]).dims
        return element[0], tuple(0 if d.collapsed else i for d, i in zip(dims, element[1], strict=True))

    def given(element: Element) -> bool:
        return kernel.buffer(element[0]).role in {"in", "inout"}

    def inside(element: Element) -> bool:
        return all(0 <= i < n for i, n in zip(element[1], shape(kernel, element[0], sizes), strict=True))

    for number, at in instances(kernel, sizes):
        statement = kernel.sites[number].statement
        for access in reads(kernel.sites[number]):
            for element in elements(kernel, access, sizes, at):
                if not inside(element):
                    found.add("out-of-bounds")
                elif element not in values and not given(element):
                    found.add("read-before-write")
                elif values.get(element) != stored.get(storage(element)):
                    found.add("shared-storage")
        (target,) = elements(kernel, statement.target, sizes, at)
        own = storage(target)
        me = frozenset([(number, at)])
        if not inside(target):
            found.add("out-of-bounds")
        elif statement.op == "=":
            values[target] = stored[own] = me
        else:
            if target not in values and not given(target):
                found.add("read-before-write")
            values[target] = values.get(target, frozenset()) | me
            stored[own] = stored.get(own, frozenset()) | me
    for buffer in kernel.buffers:
        if buffer.role == "out":
            everything = product(*map(range, shape(kernel, buffer.name, sizes)))
            if any((buffer.name, element) not in values for element in everything):
                found.add("unwritten-output")
    return found


def runs(kernel: Kernel, sizes: Mapping[str, int]) -> Counter[int]:
    """How often each statement runs."""
    return Counter(number for number, _ in instances(kernel, sizes))


def all_sizes(kernel: Kernel, largest: int) -> Iterator[dict[str, int]]:
    """Every choice of sizes up to `largest` that the facts of a kernel allow."""
    names = kernel.runtime_sizes
    for values in product(range(1, largest + 1), repeat=len(names)):
        sizes = dict(zip(names, values, strict=True))
        if all(holds(fact, sizes, ()) for fact in kernel.facts):
            yield sizes
