"""Register arrays that several phases of a block share: each thread keeps its own elements only, so that only those
take registers.

A dimension that is indexed by the iterators of threads alone says whose an element is; a thread needs no room for
the elements of others.
"""

from __future__ import annotations

from dataclasses import replace

from dojoir.backends.machine import ACCESS_BYTES
from dojoir.codegen.lower.gpu.groups import inside
from dojoir.codegen.lower.gpu.thread_plan import Threads
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Access, Buffer, Kernel, Site


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
    grouped = any(group.digits(buffer.name) for group in threads.groups.values())
    return replace(buffer, dims=dims, align=max(buffer.align, ACCESS_BYTES) if grouped else buffer.align)


def _tells_threads(threads: Threads, name: str, dim: int) -> bool:
    """Whether the index of a dimension is the same function of the number of the thread in all uses."""
    forms: set[tuple[int, ...]] = set()
    for site in threads.kernel.sites:
        for access in _accesses(site):
            if access.buffer == name:
                forms.add(_index_by_thread(threads, site, access, dim))
    return len(forms) == 1 and () not in forms


def _index_by_thread(threads: Threads, site: Site, access: Access, dim: int) -> tuple[int, ...]:
    """The index in a dimension for each thread of a block that runs a statement. () where it depends on more
    than the number of the thread. For an instruction of a group, the indices that a lane holds."""
    launched = next((found for found in threads.launches if found.holds(site.path)), None)
    phase = launched.phase_of(site.path) if launched is not None else None
    index, group = access.indices[dim], inside(threads.groups, site.path)
    if phase is None or not isinstance(index, Affine):
        return ()
    digits = group.digits(access.buffer) if group is not None else {}
    if dim in digits:
        extent = threads.kernel.buffer(access.buffer).dims[dim].extent.offset
        return tuple(number % phase.lanes // digits[dim] % extent for number in range(phase.threads))
    strides = phase.digits(site.path)
    if index.sizes or not index.iterators or not index.iterators <= strides.keys():
        return ()
    depths = range(max(strides) + 1)
    return tuple(
        index.evaluate({}, tuple(number // strides[d][0] % strides[d][1] if d in strides else 0 for d in depths))
        for number in range(phase.threads)
    )


def _accesses(site: Site) -> list[Access]:
    return [found for access in site.statement.accesses for found in access.accesses()]
