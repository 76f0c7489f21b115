"""Warnings about sums in temporaries of narrow float types: at larger sizes they overflow, or stop growing."""

from __future__ import annotations

from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Kernel, Site
from dojoir.types.rounding import FORMATS

FEW = 24
"""The digits of f32, which holds what is summed in narrower types."""


def narrow_sums(kernel: Kernel) -> tuple[str, ...]:
    """Warnings, each with a cure: one for each `tmp` narrower than f32 to which more terms are added than 2 to
    the power of its precision, or a number of terms that a size decides."""
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
