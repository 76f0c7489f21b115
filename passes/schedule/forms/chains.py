"""Chains of products become one nest: two products with rows between them, as the scores, the softmax and the
weighted values of an attention. Then the scores need not be an array in memory."""

from __future__ import annotations

from functools import partial
from math import inf, prod

from dojoir.ir.nodes import Extent, Kernel, Node, Scope, Site
from dojoir.passes.base.move import BufferName, place_of
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.joining import JoinScopes
from dojoir.passes.loops.siblings import SwapSiblings
from dojoir.passes.loops.splitting import Split
from dojoir.passes.schedule.facts.strides import depends, kept_by
from dojoir.passes.schedule.forms.parting import is_contraction
from dojoir.passes.schedule.steps.combinators import make, tried
from dojoir.passes.storage.dims import SplitDim
from dojoir.support.frozen import dataclass


def chain_products(trace: Trace, most: int) -> set[str]:
    """Joins the nests of each chain whose first product has `most` terms at most, and whose last so many columns.
    Returns the arrays that these write."""
    written = set[str]()
    for n in reversed(range(len(trace.kernel.body))):
        chain = _chain(trace.kernel, n, most) if n < len(trace.kernel.body) else None
        if chain is not None:
            names = {site.statement.target.buffer for site in trace.kernel.sites if site.path[0] in chain.nests}
            written |= names if tried(trace, partial(_join, chain=chain)) else set()
    return written


@dataclass(frozen=True)
class _Chain:
    """The nests of a chain, in their order. `around` are the extents of the scopes over batches and rows that the
    nests between the products have; a product may have one scope for all batches."""

    nests: tuple[int, ...]
    around: tuple[Extent, ...]


def _chain(kernel: Kernel, last: int, most: int) -> _Chain | None:
    """The chain that ends with the product at `last`. It begins with the one product that the rows of the last
    follow from, and has all nests between them that follow from that one. All go over the same rows."""
    product = _product(kernel, last)
    if product is None or _columns(product) > most or not _row_extents(product):
        return None
    seen, left, products = {last}, [last], list[int]()
    while left:
        for before in _writers(kernel, left.pop(), product) - seen:
            seen.add(before)
            if _scopes(kernel.body[before], product):
                (left if _product(kernel, before) is None else products).append(before)
    first = _product(kernel, products[0]) if len(products) == 1 else None
    if first is None or _terms(first) > most:
        return None
    found = [products[0]]
    for n in range(products[0] + 1, last + 1):
        if not _writers(kernel, n, product).isdisjoint(found):
            found.append(n)
    between = [_scopes(kernel.body[n], product) for n in found[1:-1]]
    return _Chain((*found,), max(between, key=len)) if between and found[-1] == last else None


def _product(kernel: Kernel, nest: int) -> Site | None:
    """The one product of a nest, whose outer scopes its result goes along."""
    sites = [site for site in kernel.sites if site.path[0] == nest and is_contraction(site)]
    if len(sites) != 1 or (kept := [*kept_by(sites[0])]) != [*range(len(kept))] or len(kept) < 2:
        return None
    return sites[0]


def _row_extents(product: Site) -> tuple[Extent, ...]:
    """The extents of the scopes that its result goes along, but for the columns."""
    return tuple(scope.extent for scope in product.scopes[: len(kept_by(product)) - 1])


def _columns(product: Site) -> float:
    bound = product.scopes[len(kept_by(product)) - 1].constant_bound
    return inf if bound is None else bound


def _terms(product: Site) -> float:
    bounds = [scope.constant_bound for scope in product.scopes[len(kept_by(product)) :]]
    return max((inf if bound is None else bound for bound in bounds), default=inf)


def _scopes(nest: Node, product: Site) -> tuple[Extent, ...]:
    """The extents of the scopes of a nest over the batches and rows of a product: those of the product, or several
    in place of its one scope over batches. Empty where the nest has no such scopes."""
    rows = _row_extents(product)
    extents, nodes = list[Extent](), [nest]
    while len(nodes) == 1 and isinstance(nodes[0], Scope) and not nodes[0].marks:
        extents.append(nodes[0].extent)
        if (*extents,) == rows or (len(rows) == 2 and extents[-1] == rows[-1] and _makes(extents[:-1], rows[0])):
            return (*extents,)
        nodes = [*nodes[0].body]
    return ()


def _makes(extents: list[Extent], one: Extent) -> bool:
    """Whether scopes of constant extents run as often as one does."""
    numbers = [extent.constant for extent in extents]
    return one.constant is not None and None not in numbers and prod(n or 0 for n in numbers) == one.constant


def _writers(kernel: Kernel, nest: int, product: Site) -> set[int]:
    """The nests before one that write a temporary of which it reads another element for each row of a product, and
    that no other nest writes. So the values of an attention, of which each row reads all, are none of its chain."""
    row = len(_scopes(kernel.body[nest], product)) - 1
    reads = [access for site in kernel.sites if site.path[0] == nest for access in site.statement.reads]
    read = {access.buffer for access in reads if row >= 0 and depends(access, row)}
    written: dict[str, set[int]] = {}
    for site in kernel.sites:
        written.setdefault(site.statement.target.buffer, set()).add(site.path[0])
    alone = [by for name, by in written.items() if name in read and kernel.buffer(name).role == "tmp"]
    return {n for by in alone if len(by) == 1 for n in by if n < nest}


def _join(trace: Trace, chain: _Chain) -> None:
    """Brings the nests of a chain together, all others between them before the first, and joins their rows. Raises
    IllegalMove where it cannot be done."""
    first, last = chain.nests[0], chain.nests[-1]
    for other in (n for n in range(first, last) if n not in chain.nests):
        for n in reversed(range(first, other)):
            make(trace, SwapSiblings(place_of((n,))))
        first += 1
    for n in range(first, last + 1):
        _split_rows(trace, n, chain.around)
    for _ in chain.nests[1:]:
        make(trace, JoinScopes(place_of((first,)), place_of((first + 1,))))
        for level in range(1, len(chain.around)):
            around = (first, *(0,) * (level - 1))
            make(trace, JoinScopes(place_of((*around, 0)), place_of((*around, 1))))


def _split_rows(trace: Trace, nest: int, around: tuple[Extent, ...]) -> None:
    """Splits the scope of a product over batches as `around` has it, and the dimensions of temporaries along it."""
    outer = trace.kernel.body[nest]
    if not isinstance(outer, Scope) or outer.extent == around[0]:
        return
    factors = [extent.constant or 0 for extent in reversed(around[1:-1])]
    for factor in factors:
        make(trace, Split(place_of((nest,)), factor))
    for buffer in trace.kernel.buffers:
        extents = tuple(dim.extent for dim in buffer.dims[:1])
        if buffer.role == "tmp" and buffer.name in outer.buffers and extents == outer.extent.bounds:
            for factor in factors:
                _ = tried(trace, SplitDim(BufferName(buffer.name), 0, factor))
