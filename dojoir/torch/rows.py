"""Kernels that do the same to each row: which size counts rows, so that any leading dimensions may stand for it."""

from __future__ import annotations

from typing import Any

import dojoir


def row_size(kernel: dojoir.Kernel) -> str | None:
    """The size that counts the rows of a kernel. The first dimension of every result and of some inputs, each row
    of which is computed from that row of the inputs alone, whatever its number is. None where there is none."""
    results = [b for b in kernel.arguments if b.role != "in"]
    if not results or not all(b.dims for b in results) or any(b.flat for b in kernel.buffers):
        return None
    size = str(results[0].dims[0].extent)
    if size not in kernel.runtime_sizes:
        return None
    lead = {b.name for b in kernel.buffers if b.dims and str(b.dims[0].extent) == size}
    if not all(b.name in lead for b in results) or not any(
        b.name in lead for b in kernel.arguments if b.role == "in"
    ):
        return None
    for buffer in kernel.buffers:
        if any(size in dim.extent.sizes for dim in buffer.dims[buffer.name in lead :]):
            return None
        if buffer.name in lead and (buffer.order or buffer.pad or buffer.dims[0].collapsed):
            return None
    if any(size in side.sizes for fact in kernel.facts for side in (fact.left, fact.right)):
        return None
    shared = False
    for site in kernel.sites:
        if not _is_of_a_row(site, size, lead):
            return None
        inside = bool(site.scopes) and [str(b) for b in site.scopes[0].extent.bounds] == [size]
        shared = shared or (inside and site.statement.target.buffer not in lead)
    if shared and not all(_is_apart(kernel, n, size) for n in range(len(kernel.body))):
        return None
    return size


def _is_of_a_row(site: Any, size: str, lead: set[str]) -> bool:
    """Whether a statement uses the number of its row for nothing but to find its elements."""
    around = [str(bound) for bound in site.scopes[0].extent.bounds] == [size] if site.scopes else False
    for n, node in enumerate(site.ancestors):
        affine = (
            list(node.extent.bounds)
            if hasattr(node, "extent")
            else [side for c in node.conditions for side in (c.left, c.right)]
        )
        first = n == 0 and around
        if not first and any(size in one.sizes or (around and 0 in one.iterators) for one in affine):
            return False
    statement = site.statement
    own = [access for access in statement.accesses if access.buffer in lead]
    if own and not around:
        return False
    parts = [part for part in statement.affine_parts if 0 in part.iterators] if around else []
    if any(size in part.sizes for part in statement.affine_parts):
        return False
    plain = all(hasattr(a.indices[0], "iterators") and str(a.indices[0]) == "{0}" for a in own)
    return plain and len(parts) == len(own)


def _is_apart(kernel: dojoir.Kernel, number: int, size: str) -> bool:
    """Whether the iterations of an outermost scope over the rows share nothing."""
    node = kernel.body[number]
    if not hasattr(node, "extent") or [str(bound) for bound in node.extent.bounds] != [size]:
        return True
    return bool(getattr(node, "marks", ())) or bool(dojoir.check(kernel, f"parallelize({number})"))
