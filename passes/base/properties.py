"""The cases for which a GPU has code of its own: properties of sizes, and the last accesses of threads. Made from
the sizes, extents and machine; nothing here knows a schedule.

A launch asks for its sizes at the call: that a tile divides them, that a row fits into the registers of a block,
that there is a tile for each multiprocessor. Threads are a fixed number: the last of them may have nothing to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, combinations, product
from math import isqrt

from dojoir.backends.machine import Machine
from dojoir.ir.affine import Affine, Iter
from dojoir.ir.nodes import Kernel, Path, Scope
from dojoir.ir.paths import is_inside
from dojoir.ir.places import ancestors

WHOLE = (4, 8, 16, 32, 64, 128, 256)
"""The possible divisors of a size: the elements of an access, the sides of a tile."""

LONGEST = tuple(1 << n for n in range(8, 17))
"""The lengths up to which a row may stay in the registers of a block."""

MOST_FORMULAS = 6
"""How many sizes and extents of a kernel are asked for."""

Property = tuple[str, str]
"""A formula that is 0 where the property holds, else more; and the condition that says so."""


def is_host_code(kernel: Kernel, path: Path) -> bool:
    """Whether a node is around launches: inside no scope with a mark."""
    return not any(isinstance(node, Scope) and node.marks for node in ancestors(kernel, path))


def versions(kernel: Kernel, machine: Machine) -> Iterator[tuple[Property, ...]]:
    """The sets of properties that are worth a version: one, what divides up to three sizes, and with what divides
    one, a length. None for a processor, whose loops take any size."""
    if machine.kind != "gpu":
        return
    forms = _formulas(kernel)
    whole = {form: [(f"({form}) % {n}", f"({form}) % {n} == 0") for n in WHOLE] for form in forms}
    short = _short(forms)
    both = [f"{a} + {b}" for a, b in combinations(forms, 2)]
    few = [(f"({form} - 1) // {n}", f"{form} <= {n}") for form in both for n in _idle(machine)]
    yield from ((one,) for one in chain(*whole.values(), short, few, _short(_counts(kernel))))
    for count in (2, 3):
        for chosen in combinations(whole.values(), count):
            yield from product(*chosen)
    yield from product(chain(*whole.values()), short)


def excess(properties: tuple[Property, ...]) -> str:
    """A formula that is 0 where all of them hold, else more."""
    return " + ".join(formula for formula, _ in properties)


def guards(kernel: Kernel, path: Path, machine: Machine) -> Iterator[str]:
    """The conditions that a node may be put under: that an index of an access inside, as far as it is known there,
    is within its dimension. In host code also that sizes have properties, or lack one."""
    if machine.kind != "gpu":
        return
    yield from dict.fromkeys(_conditions_of_extents(kernel, path))
    if is_host_code(kernel, path):
        for properties in versions(kernel, machine):
            yield " and ".join(condition for _, condition in properties)
            yield f"{excess(properties)} >= 1"
            if len(properties) == 1 and " <= " in properties[0][1]:
                yield properties[0][1].replace(" <= ", " > ")


def _conditions_of_extents(kernel: Kernel, path: Path) -> Iterator[str]:
    """That iterations of scopes around are those that their extents leave, or not the last. That an access which
    begins at an index is within its dimension, by the iterators around and by all but the last of them."""
    depth = kernel.depth_of(path)
    around = [node for node in ancestors(kernel, path) if isinstance(node, Scope)]
    for level, scope in enumerate(around):
        yield from (f"{{{level}}} < {bound}" for bound in scope.extent.bounds if bound.iterators)
        yield from (f"{{{level}}} < {bound - 1}" for bound in scope.extent.bounds)
    for site in kernel.sites:
        if not is_inside(site.path, path):
            continue
        for access in site.statement.accesses:
            for index, dim in zip(access.indices, kernel.buffer(access.buffer).dims, strict=True):
                if isinstance(index, Affine) and not dim.collapsed:
                    begins = (_first(index, known) for known in (depth, depth - 1))
                    yield from (f"{begin} < {dim.extent}" for begin in begins if begin.iterators)


def _first(index: Affine, depth: int) -> Affine:
    """The index where the iterators from `depth` on are 0."""
    return index.substitute(
        lambda atom: Affine.constant(0) if isinstance(atom, Iter) and atom.depth >= depth else Affine.atom(atom)
    )


def _short(forms: Iterable[str]) -> list[Property]:
    return [(f"({form} - 1) // {n}", f"{form} <= {n}") for form in forms for n in LONGEST]


def _formulas(kernel: Kernel) -> list[str]:
    """The sizes that are open, and the extents in them that are no quotients."""
    plain = (bound for bound in _open(kernel) if "//" not in bound)
    return [*dict.fromkeys([*kernel.runtime_sizes, *plain])][:MOST_FORMULAS]


def _counts(kernel: Kernel) -> list[str]:
    """The extents that are quotients, as those of tiles and chunks: how many there are."""
    return [*dict.fromkeys(bound for bound in _open(kernel) if "//" in bound)][:MOST_FORMULAS]


def _open(kernel: Kernel) -> Iterator[str]:
    bounds = (bound for _, node in kernel.walk() if isinstance(node, Scope) for bound in node.extent.bounds)
    return (str(b) for b in bounds if not b.is_constant and not b.iterators)


def _idle(machine: Machine) -> Iterator[int]:
    """The most rows and columns together for which there may be fewer square tiles than multiprocessors."""
    for side in WHOLE:
        yield 2 * isqrt(machine.multiprocessors * side * side) - 1
