"""Every index inside its dimension, whatever the sizes and the data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dojoir.errors import Diagnostic
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Access, Condition, Dim, Kernel, Site
from dojoir.ir.text import format_condition
from dojoir.proof.explain.cures import divisibility, least, mending_fact, nonnegative, with_cure
from dojoir.proof.explain.example import accuse, occasion, party, spelling, witness
from dojoir.sets.kernel_sets import KernelSets, isl_affine, iterators, sets_of
from dojoir.sets.ranges import is_nonnegative
from dojoir.support.memo import charge, spent


def prove_bounds(kernel: Kernel, sites: Iterable[int]) -> Diagnostic | None:
    """What is wrong with an index in the statements of the given numbers, or None if all stay in bounds.

    Gathered indices are checked at run time. Raises isl.Error past the limit of `dojoir.sets.limits.limited`.
    """
    sets = sets_of(kernel)
    for number in sites:
        if number in sets.inside:
            charge(sets.inside[number])
            continue
        start = spent()
        site = kernel.sites[number]
        for access in (*site.statement.reads, site.statement.target):
            dims = [d for d in _affine_dims(access) if not _is_inside(kernel, site, access, d)]
            if dims and not sets.map(_outside(sets, number, access, dims)).is_empty():
                return _refuse(kernel, number, access, dims)
        sets.inside[number] = spent() - start
    return None


def _affine_dims(access: Access) -> Iterator[int]:
    return (d for d, index in enumerate(access.indices) if isinstance(index, Affine))


def _parts(kernel: Kernel, access: Access, dim: int) -> tuple[Affine, Dim]:
    """An index and the dimension it must stay in."""
    index = access.indices[dim]
    assert isinstance(index, Affine)
    return index, kernel.buffer(access.buffer).dims[dim]


def _is_inside(kernel: Kernel, site: Site, access: Access, dim: int) -> bool:
    """Whether an index is in bounds for a reason that needs no isl."""
    index, declared = _parts(kernel, access, dim)
    return is_nonnegative(index, site.scopes) and is_nonnegative(declared.extent - 1 - index, site.scopes)


def _outside(sets: KernelSets, number: int, access: Access, dims: Iterable[int]) -> str:
    """The iterations at which an index is out of bounds in one of `dims`, as a map to nothing."""
    site = sets.kernel.sites[number]
    wrong = []
    for dim in dims:
        index, declared = _parts(sets.kernel, access, dim)
        wrong += [f"{isl_affine(index)} < 0", f"{isl_affine(index)} >= {isl_affine(declared.extent)}"]
    inside = f"{sets.constraints(site.ancestors)} and ({' or '.join(wrong)})"
    return f"s{number}[{iterators(len(site.scopes))}] -> [] : {inside}"


def _refuse(kernel: Kernel, number: int, access: Access, dims: list[int]) -> Diagnostic:
    sets, site = sets_of(kernel), kernel.sites[number]
    for dim in dims:
        wrong = sets.map(_outside(sets, number, access, [dim]))
        if wrong.is_empty():
            continue
        found = witness(wrong, kernel)
        index, declared = _parts(kernel, access, dim)
        sizes, iteration = dict(found.sizes), found.left.iteration(kernel)
        value = index.evaluate(sizes, iteration)
        equals = "" if index.is_constant else f" = {value}"
        name = spelling(kernel, site.scopes)
        start = f"{occasion(found.sizes, iteration, name)}index {index.format(name)}{equals} of {access.buffer}"
        message = f"{start} is outside 0..{declared.extent.evaluate(sizes) - 1}"
        slack = index if value < 0 else declared.extent - 1 - index
        facts = [*divisibility(site, index, declared.extent), *map(nonnegative, least(slack, site.scopes))]
        cures = [mending_fact(sets, wrong, facts)]
        if index.iterators:
            distinct = len(slack.terms) == len(index.terms) + len(declared.extent.terms)
            guard = Condition(index, "<", declared.extent) if value >= 0 and distinct else nonnegative(slack)
            cures.append(f"a guard `if {format_condition(guard, name)}`")
        accused = party(found.left, kernel, "is out of bounds", access)
        return accuse("out-of-bounds", with_cure(message, cures), [accused], found.sizes)
    raise AssertionError("no dimension is out of bounds")
