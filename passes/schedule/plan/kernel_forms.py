"""The forms of a kernel whose nests are scheduled: which of them are fused, and which are made several."""

from __future__ import annotations

from collections.abc import Callable, Collection

from dojoir.errors import ArgumentError
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.forms.borders import cut_borders
from dojoir.passes.schedule.forms.chains import chain_products
from dojoir.passes.schedule.forms.fusing import join_around_products, join_beside_products
from dojoir.passes.schedule.forms.packed import pack_factors
from dojoir.passes.schedule.forms.parting import (
    distribute,
    part_products,
    part_shared,
    sink_sums,
    take_units_away,
)
from dojoir.passes.schedule.forms.plain import rows_outside
from dojoir.passes.schedule.forms.residues import gather_scattered, split_residues, write_out_extents
from dojoir.passes.schedule.forms.temporaries import hoist_factors, own_scalars
from dojoir.passes.schedule.steps.simplify import join_all

Form = Callable[[Trace], None]
"""Fuses the nests of a kernel, or makes several of one. Raises DojoError where that changes nothing it is for."""

TILE = 128
"""How many columns the largest tile has: where the middle of rows begins and ends."""


CHAINED = 256
"""The most terms of the first product of a chain, and columns of the last."""


def products(trace: Trace) -> None:
    """Fuses all that can be, but what would take a product its tile."""
    sink_sums(trace)
    part_products(trace)
    _fuse_others(trace)


def chained(trace: Trace) -> None:
    """The same, with products that have rows between them in one nest, as those of an attention."""
    take_units_away(trace)
    sink_sums(trace)
    part_products(trace)
    alone = chain_products(trace, CHAINED)
    if not alone:
        raise ArgumentError("no two products with rows between them", "bad-arguments")
    _fuse_others(trace, alone)


def _fuse_others(trace: Trace, alone: Collection[str] = ()) -> None:
    join_around_products(trace, alone)
    rows_outside(trace)
    hoist_factors(trace)


def apart(trace: Trace) -> None:
    """Gives each product a nest of its own, and fuses what stands between them, as the rows of a softmax."""
    own_scalars(trace)
    sink_sums(trace)
    part_products(trace)
    for n in reversed(range(len(trace.kernel.body))):
        distribute(trace, (n,))
    sink_sums(trace)
    hoist_factors(trace)
    join_beside_products(trace)


def joined(trace: Trace) -> None:
    """Fuses as many nests as can be."""
    join_all(trace)


def sunk(trace: Trace) -> None:
    """Fuses as many as can be, brings sums inside of the scopes of their results, and fuses again."""
    join_all(trace)
    sink_sums(trace)
    join_all(trace)


def residues(trace: Trace) -> None:
    """Gathers scattered sums, and gives each residue that a condition asks for a nest."""
    if not gather_scattered(trace) + split_residues(trace):
        raise ArgumentError("no condition asks for a rest, and no sum is scattered", "bad-arguments")
    write_out_extents(trace)
    products(trace)
    part_shared(trace)


def ends(trace: Trace) -> None:
    """Cuts off the ends of rows at which a condition differs."""
    if not cut_borders(trace, tile=TILE):
        raise ArgumentError("no contraction with a condition on its columns", "bad-arguments")
    products(trace)


def packed(trace: Trace) -> None:
    """Makes contractions of windows, or of several indices, products of matrices."""
    if not pack_factors(trace):
        raise ArgumentError("all factors are matrices", "bad-arguments")
    sink_sums(trace)
    part_products(trace)


FORMS: tuple[Form, ...] = (joined, products, chained, apart, sunk, residues, ends, packed)
"""The forms, in the order in which they are tried; in a kernel of contractions `products` is the first."""
