"""Temporaries in registers of a GPU, once it is known which thread does what: each where its threads find it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine, Iter
from dojoir.ir.nodes import Access, Buffer, Kernel, Path, Site
from dojoir.ir.words import BLOCK
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Unroll
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.spots import act, move, spot
from dojoir.passes.storage.layout import MaterializeDims, PlaceBuffer

THREADS = frozenset({*BLOCK, "lane"})

MOST_UNROLLED = 16
"""How many iterations of a thread are written out, so that the numbers of its registers are known."""


def settle(trace: Trace, name: str) -> None:
    """Finds a place for a temporary in registers. What one thread has of another is shared by the block, or in
    memory; what a thread finds by a number that is not known beforehand is in its own memory. Raises DojoError
    where there is no place for it."""
    buffer = next((buffer for buffer in trace.kernel.buffers if buffer.name == name), None)
    if buffer is None or buffer.storage != "reg" or all(dim.collapsed for dim in buffer.dims):
        return
    if _crosses(trace.kernel, buffer):
        if not tried(trace, move(PlaceBuffer, name, "shared")):
            act(trace, PlaceBuffer, name, "heap")
            for d in [d for d, dim in enumerate(buffer.dims) if dim.collapsed]:
                act(trace, MaterializeDims, name, d)
    elif not tried(trace, partial(_unrolled, name=name)):
        act(trace, PlaceBuffer, name, "stack")


def _crosses(kernel: Kernel, buffer: Buffer) -> bool:
    """Whether a thread may use an element of a temporary that another one has: it is used in several nests of
    threads, and not seen to be by the same ones in each."""
    nests: set[tuple[Path, ...]] = set()
    seen: set[tuple[object, ...]] = set()
    for site, access in _uses(kernel, buffer.name):
        threads = _threads_around(site)
        nests.add(tuple(threads.values()))
        sizes = tuple(site.scopes[depth].constant_bound for depth in threads)
        forms = [
            _by_threads(access.indices[d], list(threads)) for d, dim in enumerate(buffer.dims) if not dim.collapsed
        ]
        seen.add((sizes, *forms) if any(forms) else ())
    return len(nests) > 1 and (len(seen) > 1 or () in seen)


def _by_threads(index: Affine | Access, depths: list[int]) -> tuple[tuple[int, int], ...]:
    """An index as a function of the number of a thread, equal for equal ones: the coefficients of the scopes over
    threads, counted from the outermost, and what is added. Empty where it depends on other things, or on none."""
    if not isinstance(index, Affine) or not index.terms:
        return ()
    found = [
        (depths.index(atom.depth), c) for atom, c in index.terms if isinstance(atom, Iter) and atom.depth in depths
    ]
    return (*sorted(found), (-1, index.offset)) if len(found) == len(index.terms) else ()


def _uses(kernel: Kernel, name: str) -> Iterator[tuple[Site, Access]]:
    for site in kernel.sites:
        for whole in site.statement.accesses:
            for access in whole.accesses():
                if access.buffer == name:
                    yield site, access


def _threads_around(site: Site) -> dict[int, Path]:
    """The scopes over threads around a statement by depth, the outermost first."""
    scopes = enumerate(zip(site.scope_paths, site.scopes, strict=True))
    return {d: path for d, (path, scope) in scopes if THREADS.intersection(scope.marks)}


def _unrolled(trace: Trace, name: str) -> None:
    """Makes the numbers of all elements of a temporary in registers known: what finds them is written out."""
    while (path := next(_open_loops(trace.kernel, trace.kernel.buffer(name)), None)) is not None:
        loop = spot(trace, path)
        if not 0 < (loop.scope.extent.constant or 0) <= MOST_UNROLLED:
            raise ArgumentError(f"{name} is found by what is not known", "bad-arguments")
        act(trace, Unroll, loop)


def _open_loops(kernel: Kernel, buffer: Buffer) -> Iterator[Path]:
    """The loops of a thread that an element of a temporary depends on, and that are not written out."""
    for site, access in _uses(kernel, buffer.name):
        threads = _threads_around(site)
        for index, dim in zip(access.indices, buffer.dims, strict=True):
            if dim.collapsed or _by_threads(index, list(threads)):
                continue
            depths = index.iterators if isinstance(index, Affine) else ()
            for depth in depths:
                path, scope = site.scope_paths[depth], site.scopes[depth]
                if not {"u", "v"}.intersection(scope.marks) and scope.extent.constant != 1:
                    yield path
