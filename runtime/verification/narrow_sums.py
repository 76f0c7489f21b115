"""Sums into temporaries of a narrow float type, which a larger size brings out of its range or to a stand."""

from __future__ import annotations

from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Kernel, Site
from dojoir.types.rounding import FORMATS

FEW = 24
"""The digits of f32, which holds what is summed in narrower types."""


def narrow_sums(kernel: Kernel) -> tuple[str, ...]:
    """For each `tmp` narrower than f32 into which more terms are added than it has steps up to one, or as many as
    a size says: why that is not wanted, and what to do."""
    found: dict[str, str] = {}
    for site in kernel.sites:
        statement = site.statement
        buffer = kernel.buffer(statement.target.buffer)
        if buffer.role != "tmp" or statement.accumulation != "+=" or not buffer.dtype.is_float:
            continue
        format_ = FORMATS[buffer.dtype.name]
        terms = _terms(site)
        if format_.precision >= FEW or (terms is not None and terms <= 2**format_.precision):
            continue
        many = terms or "as many terms as a size says"
        found[buffer.name] = (
            f"tmp {buffer.name} is of {buffer.dtype.name} and sums up {many}: it has {format_.precision} bits and "
            f"ends at {format_.largest:g}; declare it f32, and round what is stored"
        )
    return tuple(found.values())


def _terms(site: Site) -> int | None:
    """How many terms are added to one element at most, if no size decides it."""
    own = {d for index in site.statement.target.indices if isinstance(index, Affine) for d in index.iterators}
    terms = 1
    for depth, scope in enumerate(site.scopes):
        if depth in own:
            continue
        if scope.constant_bound is None:
            return None
        terms *= max(1, scope.constant_bound)
    return terms
