"""Every index inside its dimension, whatever the sizes and the data."""

from __future__ import annotations

from collections.abc import Iterable

import islpy as isl

from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Access, Dim, Kernel, Site
from dojoir.sets.kernel_sets import KernelSets, isl_affine, iterators, sets_of
from dojoir.sets.ranges import is_nonnegative
from dojoir.support.frozen import dataclass
from dojoir.support.memo import charge, spent


@dataclass(frozen=True)
class OutOfBounds:
    """Statement `number` of `kernel` makes an access that may leave its buffer, in one of `dims`."""

    kernel: Kernel
    number: int
    access: Access
    dims: tuple[int, ...]

    def outside(self, dim: int) -> isl.UnionMap:
        """The iterations at which the index of `dim` is out of bounds, as a map to nothing."""
        sets = sets_of(self.kernel)
        return sets.map(_outside(sets, self.number, self.access, [dim]))


def prove_bounds(kernel: Kernel, sites: Iterable[int]) -> OutOfBounds | None:
    """The error of an index in the statements of the given numbers, or None if all stay in bounds.

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
            affine = (d for d, index in enumerate(access.indices) if isinstance(index, Affine))
            dims = [d for d in affine if not _is_inside(kernel, site, access, d)]
            if dims and not sets.map(_outside(sets, number, access, dims)).is_empty():
                return OutOfBounds(kernel, number, access, tuple(dims))
        sets.inside[number] = spent() - start
    return None


def index_and_dim(kernel: Kernel, access: Access, dim: int) -> tuple[Affine, Dim]:
    """An index and the dimension it must stay in."""
    index = access.indices[dim]
    assert isinstance(index, Affine)
    return index, kernel.buffer(access.buffer).dims[dim]


def _is_inside(kernel: Kernel, site: Site, access: Access, dim: int) -> bool:
    """Whether an index is in bounds for a reason that needs no isl."""
    index, declared = index_and_dim(kernel, access, dim)
    return is_nonnegative(index, site.scopes) and is_nonnegative(declared.extent - 1 - index, site.scopes)


def _outside(sets: KernelSets, number: int, access: Access, dims: Iterable[int]) -> str:
    """The iterations at which an index is out of bounds in one of `dims`, as a map to nothing."""
    site = sets.kernel.sites[number]
    wrong = []
    for dim in dims:
        index, declared = index_and_dim(sets.kernel, access, dim)
        wrong += [f"{isl_affine(index)} < 0", f"{isl_affine(index)} >= {isl_affine(declared.extent)}"]
    inside = f"{sets.constraints(site.ancestors)} and ({' or '.join(wrong)})"
    return f"s{number}[{iterators(len(site.scopes))}] -> [] : {inside}"
