"""Operands that are windows of an array: tiles of them are copied from there, and no matrix of all windows is
stored.

`passes/schedule/forms/packed.py` writes the factors of a convolution into matrices. A thread copies chunks of
16 bytes of such a matrix. Where these lie side by side in its source too, tiles are copied from there: only the
places are computed (implicit matrix products).

Source: S. Chetlur et al., "cuDNN: Efficient Primitives for Deep Learning" (2014).
"""

from __future__ import annotations

from dojoir.backends.machine import ACCESS_BYTES
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Access, Kernel, Scope, Site
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.collapsing import Collapse
from dojoir.passes.loops.deletion import DeleteNode
from dojoir.passes.schedule.facts.strides import sites_in, step_of
from dojoir.passes.schedule.forms.nests import known
from dojoir.passes.schedule.steps.spots import Spot, act, nested, spot
from dojoir.passes.storage.dead import DeleteTemporary
from dojoir.passes.values.indexing import SetIndex
from dojoir.passes.values.recomputing import Recompute
from dojoir.sets.ranges import without_divisions


def copy_windows(trace: Trace, node: Spot, array: str, copy: str) -> None:
    """Copies what a node reads of an array right before it from what the array was copied from, in chunks. Raises
    ArgumentError where it is no copy in chunks, IllegalMove where a move is refused."""
    site = _copied_in_chunks(trace.kernel, array)
    known(site is not None, "a copy in chunks")
    assert site is not None
    nest = spot(trace, site.path[:1])
    for depth in reversed(_joined(site)):
        act(trace, Collapse, nested(nest)[depth])
    statement = nested(nest)[-1].child(0)
    (site,) = sites_in(trace.kernel, nest.path)
    for dim, index in enumerate(site.statement.target.indices):
        for depth in index.iterators if isinstance(index, Affine) else ():  # the one that is left
            if index != Affine.iterator(depth):
                act(trace, SetIndex, statement, dim, Affine.iterator(depth))
    filled = nest.path
    act(trace, Recompute, node, array, copy)
    if not any(array in site.statement.buffers_read for site in trace.kernel.sites):
        act(trace, DeleteNode, spot(trace, filled))
        act(trace, DeleteTemporary, array)


def whole_chunks(trace: Trace, nest: Spot) -> None:
    """Writes the indices of the copies in a nest without the divisions that the sizes of its tiles decide."""
    for site in sites_in(trace.kernel, nest.path):
        statement, accesses = spot(trace, site.path), site.statement.accesses
        for number, index in enumerate(index for access in accesses for index in access.indices):
            if isinstance(index, Affine) and (plain := without_divisions(index, site.scopes)) != index:
                act(trace, SetIndex, statement, number, plain)


def _copied_in_chunks(kernel: Kernel, array: str) -> Site | None:
    """The statement that alone writes an array, where it copies chunks of another one; else None."""
    writers = [site for site in kernel.sites if site.statement.target.buffer == array]
    if kernel.buffer(array).role != "tmp" or len(writers) != 1:
        return None
    (site,) = writers
    target, value = site.statement.target, site.statement.value
    if not isinstance(value, Access) or site.statement.accumulation or not _is_nest_of_one(kernel, site):
        return None
    source, chunk = kernel.buffer(value.buffer), ACCESS_BYTES // kernel.buffer(array).dtype.itemsize
    last = (source.order or range(len(source.dims)))[-1]
    along = [d for d in range(len(site.scopes)) if step_of(kernel, target, d) == 1 == step_of(kernel, value, d)]
    whole = [d for d in along if value.indices[last] == Affine.iterator(d)]
    row = source.dims[last].extent
    fits = row.is_constant and row.offset % chunk == 0 and source.dtype == kernel.buffer(array).dtype
    return site if fits and any((site.scopes[d].extent.constant or 1) % chunk == 0 for d in whole) else None


def _is_nest_of_one(kernel: Kernel, site: Site) -> bool:
    """Whether a statement stands in scopes inside of each other, and nothing else does."""
    node, count = kernel.at(site.path[:1]), 0
    while isinstance(node, Scope) and len(node.body) == 1:
        node, count = node.body[0], count + 1
    return node is site.statement and count == len(site.scopes)


def _joined(site: Site) -> list[int]:
    """The depths of the scopes that go along one dimension of what is written together with the next scope, the
    outermost first. Raises ArgumentError where the scopes of a dimension do not follow one another."""
    indices = site.statement.target.indices
    along = [sorted(index.iterators) for index in indices if isinstance(index, Affine) and index.iterators]
    known(all(depths == [*range(depths[0], depths[-1] + 1)] for depths in along), "rows of a matrix")
    depths = [depth for of_dim in along for depth in of_dim]
    known(len(depths) == len({*depths}), "rows of a matrix")
    return sorted(depth for of_dim in along for depth in of_dim[:-1])
