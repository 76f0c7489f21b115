"""The forms of a kernel whose nests are scheduled: which of them are fused, and which are made several."""

from __future__ import annotations

from collections.abc import Callable

from dojoir.errors import ArgumentError
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.forms.borders import cut_borders
from dojoir.passes.schedule.forms.packed import pack_factors
from dojoir.passes.schedule.forms.parting import (
    distribute,
    join_around_products,
    join_beside_products,
    part_products,
    part_shared,
    sink_sums,
)
from dojoir.passes.schedule.forms.plain import rows_outside
from dojoir.passes.schedule.forms.residues import gather_scattered, split_residues, write_out_extents
from dojoir.passes.schedule.forms.temporaries import hoist_factors, own_scalars
from dojoir.passes.schedule.steps.simplify import join_all

Form = Callable[[Trace], None]
"""Fuses the nests of a kernel, or makes several of one. Raises DojoError where that changes nothing it is for."""

TILE = 128
"""How many columns the largest tile has: where the middle of rows begins and ends."""


def products(trace: Trace) -> None:
    """All that can be is fused but what is around products."""
    sink_sums(trace)
    part_products(trace)
    join_around_products(trace)
    rows_outside(trace)
    hoist_factors(trace)


def apart(trace: Trace) -> None:
    """A nest for each product, and for what none of them is."""
    own_scalars(trace)
    sink_sums(trace)
    part_products(trace)
    for n in reversed(range(len(trace.kernel.body))):
        distribute(trace, (n,))
    sink_sums(trace)
    hoist_factors(trace)
    join_beside_products(trace)


def joined(trace: Trace) -> None:
    """As many are fused as can be."""
    join_all(trace)


def sunk(trace: Trace) -> None:
    """The same once sums are inside of what they sum up for."""
    join_all(trace)
    sink_sums(trace)
    join_all(trace)


def residues(trace: Trace) -> None:
    """A nest for each residue that a condition asks for, and scattered sums gathered."""
    if not gather_scattered(trace) + split_residues(trace):
        raise ArgumentError("no condition asks for a rest, and no sum is scattered", "bad-arguments")
    write_out_extents(trace)
    products(trace)
    part_shared(trace)


def ends(trace: Trace) -> None:
    """The ends of rows that a condition is on cut off."""
    if not cut_borders(trace, tile=TILE):
        raise ArgumentError("no contraction with a condition on its columns", "bad-arguments")
    products(trace)


def packed(trace: Trace) -> None:
    """Products of convolutions."""
    if not pack_factors(trace):
        raise ArgumentError("all factors are matrices", "bad-arguments")
    sink_sums(trace)
    part_products(trace)


FORMS: tuple[Form, ...] = (joined, products, apart, sunk, residues, ends, packed)
"""Which nests of a kernel are fused: as many as can be, all but those around products, all that have none, or as
many as can be once sums are inside of what they sum up for. The next two make nests of one: of the residues that a
condition asks for, of the ends of rows that a condition is on. The last one makes products of convolutions."""
