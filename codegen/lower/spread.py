"""Arrays in registers that several phases use: each thread has its own elements, and only those take registers.

A dimension that is indexed by the iterators of threads alone says whose an element is; a thread needs no room for
the elements of others.
"""

from __future__ import annotations

from dataclasses import replace

from dojoir.codegen.lower.threads import Launched, Threads
from dojoir.ir.affine import Affine, Iter
from dojoir.ir.nodes import Access, Buffer, Kernel, Site
from dojoir.ir.paths import is_inside


def in_registers(threads: Threads) -> Kernel:
    """The kernel with its arrays in registers as one thread has them: dimensions that only tell threads apart are
    collapsed."""
    kernel = threads.kernel
    for buffer in kernel.buffers:
        if buffer.role == "tmp" and buffer.storage in ("reg", "stack") and buffer.dims:
            kernel = kernel.replace_buffer(_of_one_thread(threads, buffer))
    return kernel


def _of_one_thread(threads: Threads, buffer: Buffer) -> Buffer:
    dims = tuple(
        replace(dim, collapsed=True) if not dim.collapsed and _tells_threads(threads, buffer.name, d) else dim
        for d, dim in enumerate(buffer.dims)
    )
    return replace(buffer, dims=dims)


def _tells_threads(threads: Threads, name: str, dim: int) -> bool:
    """Whether the index of a dimension is the same function of the number of the thread in all uses."""
    forms: set[tuple[object, ...]] = set()
    for site in threads.kernel.sites:
        for access in _accesses(site):
            if access.buffer == name:
                forms.add(_form(threads, site, access.indices[dim]))
    return len(forms) == 1 and () not in forms


def _form(threads: Threads, site: Site, index: Affine | Access) -> tuple[object, ...]:
    """An index as a function of the number of the thread, in a form that is equal for equal ones; () where it is
    none."""
    launched = next((found for found in threads.launches if found.holds(site.path)), None)
    strides = _strides(launched, site) if launched is not None else {}
    if isinstance(index, Access) or not index.iterators or not index.iterators <= strides.keys():
        return ()
    if all(isinstance(atom, Iter) for atom, _ in index.terms):
        parts = [(*strides[atom.depth], c) for atom, c in index.terms if isinstance(atom, Iter)]
        return (index.offset, *sorted(parts))
    return ()


def _strides(launched: Launched, site: Site) -> dict[int, tuple[int, int]]:
    """The iterators of threads around a statement: how many threads apart neighbours are, and how many there
    are."""
    phase = launched.phase_of(site.path)
    if phase is None:
        return {}
    lanes = phase.lanes if phase.groups else 1
    found = {
        depth: (stride * lanes, extent)
        for depth, stride, extent in zip(phase.nest.depths, phase.nest.strides, phase.nest.extents, strict=True)
    }
    for group in phase.groups:
        if is_inside(site.path, group.path):
            found[group.depth] = (1, group.extents[0])
    return found


def _accesses(site: Site) -> list[Access]:
    return [found for access in site.statement.accesses for found in access.accesses()]
