"""Factors of contractions as matrices: what matrix units multiply is an array of their type, one dimension of it
along a result and one along the sum.

    y[n, d, i, j] += f32(x[n, c, i + u, j + v]) * f32(w[d, c, u, v])

A factor that is read at sums of iterators, or computed from narrower values, is written into an array of its own
before the nest. The scopes of the sum become one, and so do those of a result along which the same factors go; the
dimensions follow. A convolution is a product then. Where chunks of memory divide the channels, these are laid
out side by side, and its tiles are copied from the image itself (`gpu/tiles/operands.py`). Few channels, as the
three of a picture, are filled up to a chunk with zeros, in both factors: products of zeros change no sum. Else the
array has an element as often as windows have it.

Source: K. Chellapilla, S. Puri, P. Simard, "High performance convolutional neural networks for document processing"
(2006).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from dojoir.backends.machine import ACCESS_BYTES
from dojoir.costs.launches import temporary_share
from dojoir.ir.affine import Affine
from dojoir.ir.expressions import parts
from dojoir.ir.nodes import Access, Cast, Condition, Const, Expr, Kernel, Op, Site
from dojoir.ir.paths import is_inside
from dojoir.passes.base.move import Formula, fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.facts.product_facts import BYTES, FP8, HALVES
from dojoir.passes.schedule.facts.strides import (
    depends,
    dims_along,
    given,
    is_nest_of_one,
    kept_by,
    require,
    sites_in,
    step_of,
)
from dojoir.passes.schedule.forms.parting import is_contraction, take_units_away
from dojoir.passes.schedule.forms.temporaries import MOST_MEMORY
from dojoir.passes.schedule.steps.combinators import each_once
from dojoir.passes.schedule.steps.padding import computed_whole, zeros_beside
from dojoir.passes.schedule.steps.spots import Array, Spot, act, nested, spot
from dojoir.passes.storage.dims import AddDim, JoinDims
from dojoir.passes.values.hoisting import Hoist

WIDE = ("f32", "f64")
"""The types of contractions without matrix units, of which a block multiplies tiles as well. Its matrices are all
stored, and may take MOST_MEMORY times what the arguments do."""

MOST_ZEROS = 4
"""How many times the channels there may be of them once they are whole chunks."""


def pack_factors(trace: Trace) -> bool:
    """Copies the factors of contractions that are no matrices into arrays that are, of the types that matrix units
    have or floats. A contraction for which a move is refused stays as it was. Returns whether a factor was
    copied."""
    take_units_away(trace)
    return each_once(trace, lambda kernel: (site for site in kernel.sites if _to_pack(kernel, site)), _packed)


def _to_pack(kernel: Kernel, site: Site) -> list[tuple[int, Expr]]:
    """The factors of a contraction that are no matrices, each with its number in the value."""
    if not is_contraction(site):
        return []
    match site.statement.value:
        case Op("mul", (left, right)):
            factors = [one.arg if isinstance(one, Cast) else one for one in (left, right)]
        case _:
            return []
    types = [_type_of(kernel, factor) for factor in factors]
    if not all(name in (*WIDE, *HALVES, *BYTES, *FP8) for name in types):
        return []
    batches = _batches(site, factors)
    others = [
        one
        for one, name in zip(factors, types, strict=True)
        if not _is_matrix(site, one, name in (*BYTES, *FP8)) or _is_strewn(kernel, one, batches)
    ]
    numbers = list(parts(site.statement.value))
    return [(numbers.index(factor), factor) for factor in others]


def _type_of(kernel: Kernel, factor: Expr) -> str:
    match factor:
        case Access():
            return kernel.buffer(factor.buffer).dtype.name
        case Cast(dtype=dtype):
            return dtype.name
    return ""


def _is_matrix(site: Site, factor: Expr, terms_last: bool) -> bool:
    """Whether a factor is an element: in one dimension at the number that the iterators of the sum are together, in
    each other one at an iterator of a result, or a number. With `terms_last` the sum must be along the last one, as
    matrix units want elements of eight bits."""
    if not isinstance(factor, Access):
        return False
    summed = [d for d in range(len(site.scopes)) if not depends(site.statement.target, d)]
    number = Affine.constant(0)
    for d in summed:
        inner = site.scopes[d].extent.constant
        number = number * (inner or 0) + Affine.iterator(d)
    found: list[int] = []
    for index in factor.indices:
        if index == number:
            found.append(-1)
        elif isinstance(index, Affine) and index.iterators:
            (d, *others) = index.iterators
            if others or d in summed or not (index - Affine.iterator(d)).is_constant:
                return False
            found.append(d)
        elif not isinstance(index, Affine):
            return False
    return len({*found}) == len(found) and (not terms_last or factor.indices[-1] == number)


def _batches(site: Site, factors: Sequence[Expr]) -> set[int]:
    """The depths of results that all factors go along: there is a product for each iteration of these scopes."""
    kept = (d for d in range(len(site.scopes)) if depends(site.statement.target, d))
    return {d for d in kept if all(_along(factor, d) for factor in factors)}


def _is_strewn(kernel: Kernel, factor: Expr, batches: set[int]) -> bool:
    """Whether what lies side by side in a factor belongs to several products of a batch."""
    return isinstance(factor, Access) and any(step_of(kernel, factor, d) == 1 for d in batches)


def _products_apart(trace: Trace, target: Access, batches: set[int]) -> None:
    """Lays out a temporary of results one product after the other, where several lie side by side."""
    beside = [n for n, index in enumerate(target.indices) if isinstance(index, Affine)
              and any(step_of(trace.kernel, target, d) == 1 for d in index.iterators & batches)]  # fmt: skip
    if beside and trace.kernel.buffer(target.buffer).role == "tmp":
        others = [n for n in range(len(target.indices)) if n not in beside]
        Array(trace, target.buffer).order((*beside, *others))


def _packed(trace: Trace, site: Site) -> None:
    """Raises IllegalMove where a move is refused, ArgumentError where the scopes are in no order."""
    nest, statement = spot(trace, site.path[:1]), spot(trace, site.path)
    _channels_last(trace, nest, statement, site)
    site = next(site for site in trace.kernel.sites if site.path == statement.path)
    chosen = _to_pack(trace.kernel, site)
    kept = kept_by(site)
    require(kept == [*range(len(kept))], "a sum inside of its results")
    factors = [part for part in parts(site.statement.value) if isinstance(part, Access)]
    batches = _batches(site, factors)
    runs, result = _runs(kept, factors), site.statement.target.buffer
    if any(len(run) > 1 for run in runs) and trace.kernel.buffer(result).role != "tmp":
        begun = any(one.statement.op == "=" for one in sites_in(trace.kernel, nest.path))
        nest.stage(result, "", "out" if begun else "inout", name=fresh_name(trace.kernel, result))
        site = next(site for site in trace.kernel.sites if site.path == statement.path)
    _products_apart(trace, site.statement.target, batches)
    packed = []
    for number, factor in sorted(chosen, reverse=True, key=lambda one: one[0]):
        own = fresh_name(trace.kernel, "factor")
        last = [d for d in kept if isinstance(factor, Access) and step_of(trace.kernel, factor, d) == 1]
        last = last if _type_of(trace.kernel, factor) not in (*BYTES, *FP8) and batches.isdisjoint(last) else []
        needed = [d for d in range(len(site.scopes)) if _along(factor, d)]
        act(trace, Hoist, nest, statement, number, own)
        if last:
            first = next(run[0] for run in runs if last[0] in run)
            _summed_first(trace, own, nest.beside(-1), needed.index(first), sum(d in kept for d in needed))
        packed.append(own)
    for _ in range(len(site.scopes) - len(kept) - 1):
        _in_one(trace, statement, len(kept), packed)
    targets = [one.statement.target for one in sites_in(trace.kernel, nest.path)]
    runs = [run for run in runs if len(run) > 1 and all(_lie_together(target, run) for target in targets)]
    written = {site.statement.target.buffer for site in sites_in(trace.kernel, nest.path)} if runs else set()
    packed += sorted(name for name in written if trace.kernel.buffer(name).role == "tmp")
    for run in reversed(runs):
        for _ in run[1:]:
            _in_one(trace, statement, run[0], packed)
    stored = any(_type_of(trace.kernel, factor) in WIDE for _, factor in chosen)
    require(not stored or temporary_share(trace.kernel, {}) <= MOST_MEMORY, "matrices for which there is memory")


def _channels_last(trace: Trace, nest: Spot, statement: Spot, site: Site) -> None:
    """Lays out an array of windows with its channels side by side, which are summed up as well, and sums along them
    innermost. Windows can be copied from there then. Channels that are no whole chunks are filled up with zeros, in
    both factors."""
    kernel = trace.kernel
    for _, factor in _to_pack(kernel, site):
        dim = _channels(kernel, site, factor)
        if dim is None or not isinstance(factor, Access):
            continue
        buffer, chunk = kernel.buffer(factor.buffer), _chunk(kernel, factor)
        short, last = buffer.dims[dim].extent.offset % chunk > 0, len(buffer.dims) - 1
        (depth,) = (d for d in range(len(site.scopes)) if factor.indices[dim] == Affine.iterator(d))
        scope = spot(trace, site.scope_paths[depth])
        if (buffer.order or (last,))[-1] != dim or short:
            _filled_channels(trace, nest, factor.buffer, dim, chunk)
        if depth < len(site.scopes) - 1:
            scope.sink(len(site.scopes) - 1 - depth)
        if short:
            others = (a for a in site.statement.reads if depends(a, depth) and a.buffer != factor.buffer)
            other = given(next(others, None), "a product of two arrays")
            _filled_channels(trace, nest, other.buffer, dims_along(other, depth)[0], chunk)
            computed_whole(_filled_up(scope, chunk))
        return


def _filled_channels(trace: Trace, nest: Spot, buffer: str, dim: int, chunk: int) -> None:
    """Lays out an array that a nest reads with a dimension side by side, in whole chunks, zeros behind what it has:
    itself, where it is for this nest alone and filled with zeros if it needs them, or a copy."""
    kernel, own = trace.kernel, trace.kernel.buffer(buffer)
    extent, last = own.dims[dim].extent, len(own.dims) - 1
    short = extent.offset % chunk > 0
    users = [
        kernel.sites[k] for k in kernel.users.get(buffer, ()) if not is_inside(kernel.sites[k].path, nest.path)
    ]
    zeros = [site for site in users if site.statement.value == Const(0)]
    in_place = own.role == "tmp" and not own.order and bool(users) and (bool(zeros) or not short)
    in_place &= all(_fills(kernel, site, buffer, dim) for site in users)
    if in_place:
        filled = [(spot(trace, site.path[:1]), site in zeros) for site in users]
    else:
        buffer = nest.stage(buffer, "", "in", name=fresh_name(kernel, buffer))
        filled = [(nest.beside(-1), False)]
    _moved_dim(trace, buffer, dim, last, Affine.constant(-(-extent.offset // chunk) * chunk))
    for first, is_zero in filled:
        scopes = nested(first)
        (depth,) = _depths_of(sites_in(trace.kernel, first.path)[0], last)
        scope, inside = scopes[depth], len(scopes) - 1 - depth
        if inside > 1 or (inside and is_zero):  # what lies side by side on one side is next to that on the other
            scope.sink(inside - 1 + is_zero)
        if short and (is_zero or not in_place):
            guard = _filled_up(scope, chunk)
            (computed_whole if is_zero else zeros_beside)(guard)


def _fills(kernel: Kernel, site: Site, buffer: str, dim: int) -> bool:
    """Whether a nest only fills an array, a dimension of it along a scope."""
    written = site.statement.target.buffer == buffer and buffer not in site.statement.buffers_read
    return written and is_nest_of_one(kernel, site) and len(_depths_of(site, dim)) == 1


def _depths_of(site: Site, dim: int) -> list[int]:
    """The depth of the scope that a dimension of what is written goes along by itself, if there is one."""
    index = site.statement.target.indices[dim]
    return [d for d in range(len(site.scopes)) if index == Affine.iterator(d)]


def _filled_up(scope: Spot, chunk: int) -> Spot:
    """Lets a scope run to the end of a chunk, under a guard beyond its own, which is returned."""
    count = scope.count
    inner = nested(scope)[-1]
    guard = inner.guard([Condition(scope.iterator, "<", Affine.constant(count))])
    scope.constant(-(-count // chunk) * chunk)
    return guard


def _chunk(kernel: Kernel, access: Access) -> int:
    return ACCESS_BYTES // kernel.buffer(access.buffer).dtype.itemsize


def _channels(kernel: Kernel, site: Site, factor: Expr) -> int | None:
    """The dimension of a factor that a sum goes along by itself, in whole chunks, where others have windows. If
    there is none, one that matrix units may have filled up with zeros."""
    if not isinstance(factor, Access):
        return None
    buffer, windows, whole, short = kernel.buffer(factor.buffer), False, list[int](), list[int]()
    for dim, index in enumerate(factor.indices):
        depths = index.iterators if isinstance(index, Affine) else frozenset()
        summed = [d for d in depths if not depends(site.statement.target, d)]
        if len(summed) == 1 and index == Affine.iterator(summed[0]):
            extents = {buffer.dims[dim].extent, *site.scopes[summed[0]].extent.bounds}
            if all(e.is_constant and e.offset % _chunk(kernel, factor) == 0 for e in extents):
                whole.append(dim)
            elif len(extents) == 1 and _may_be_filled_up(kernel, site, factor, dim):
                short.append(dim)
        elif summed:
            windows = True
    found = whole or sorted(short, key=lambda dim: buffer.dims[dim].extent.offset)
    return found[-1] if windows and found else None


def _may_be_filled_up(kernel: Kernel, site: Site, factor: Access, dim: int) -> bool:
    """Whether an array with whole chunks along a dimension is not larger than the matrix of all windows."""
    extents = [dim.extent for dim in kernel.buffer(factor.buffer).dims]
    if _type_of(kernel, factor) in WIDE or kernel.fp == "strict" or not extents[dim].is_constant:
        return False
    count, chunk = extents[dim].offset, _chunk(kernel, factor)
    matrix = prod(scope.extent.constant or 1 for d, scope in enumerate(site.scopes) if depends(factor, d))
    array = prod(extent.offset if extent.is_constant else 1 for extent in extents) // count
    return count * MOST_ZEROS >= chunk and array * -(-count // chunk) * chunk <= matrix


def _along(factor: Expr, depth: int) -> bool:
    return any(depends(part, depth) for part in parts(factor) if isinstance(part, Access))


def _runs(kept: Sequence[int], factors: Sequence[Expr]) -> list[list[int]]:
    """The depths of results one after another that the same factors go along."""
    found: list[list[int]] = []
    for d in kept:
        alike = found and all(_along(factor, d) == _along(factor, found[-1][0]) for factor in factors)
        found = [*found[:-1], [*found[-1], d]] if alike else [*found, [d]]
    return found


def _lie_together(target: Access, run: Sequence[int]) -> bool:
    """Whether the dimensions of a result along a run of scopes follow one another."""
    along = [dims_along(target, depth) for depth in run]
    return all(len(dims) == 1 and dims[0] == along[0][0] + k for k, dims in enumerate(along))


def _summed_first(trace: Trace, buffer: str, filled: Spot, first: int, kept: int) -> None:
    """Moves the dimensions of an array along the sum, and the scopes of the nest that fills it, before dimension
    `first`; they stand behind the `kept` ones of the result. It is then filled as its source lies in memory."""
    outermost = filled.path
    for n in range(kept, len(trace.kernel.buffer(buffer).dims)):
        to = first + n - kept
        _moved_dim(trace, buffer, n, to, trace.kernel.buffer(buffer).dims[n].extent)
        nested(spot(trace, outermost))[n].lift(n - to)


def _moved_dim(trace: Trace, buffer: str, dim: int, to: int, extent: Affine) -> None:
    """Moves a dimension of an array to another place, where it has an `extent`."""
    uses = [access for site in trace.kernel.sites for each in site.statement.accesses
            for access in each.accesses() if access.buffer == buffer]  # fmt: skip
    at, old = (to, dim + 1) if to < dim else (to + 1, dim)
    act(trace, AddDim, buffer, at, extent, tuple(Formula(str(access.indices[dim])) for access in uses))
    Array(trace, buffer).store(at).reuse(old).drop(old)


def _in_one(trace: Trace, statement: Spot, depth: int, buffers: Sequence[str]) -> None:
    """Makes one scope of the one at a depth around a statement and the one inside of it, and one of the dimensions
    of the buffers that go along both."""
    site = next(site for site in trace.kernel.sites if site.path == statement.path)
    scope = spot(trace, site.scope_paths[depth])
    scope.collapse()
    accesses = {a.buffer: a for site in sites_in(trace.kernel, scope.path) for a in site.statement.accesses}
    for access in accesses.values():
        along = dims_along(access, depth)
        if access.buffer in buffers and len(along) == 2:
            dims = trace.kernel.buffer(access.buffer).dims
            act(trace, JoinDims, access.buffer, along[0], dims[along[0]].extent * dims[along[1]].extent.offset)
