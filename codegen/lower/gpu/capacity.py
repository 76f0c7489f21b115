"""The capacity of a GPU: shared memory of a block, and registers that are named when a kernel is compiled."""

from __future__ import annotations

from dojoir.codegen.lower.gpu.groups import inside
from dojoir.codegen.lower.gpu.thread_plan import Threads, mark_of
from dojoir.codegen.lower.plans.layout import Layout
from dojoir.codegen.target import Target
from dojoir.errors import Diagnostic, KernelError
from dojoir.ir.affine import Affine
from dojoir.ir.format import format_access
from dojoir.ir.nodes import Access, Buffer, Kernel, Path, Scope, format_path
from dojoir.ir.places import ancestors
from dojoir.ir.where import place


def refuse_misfits(threads: Threads, spread: Kernel, target: Target) -> None:
    """Raises KernelError where a buffer of a launch has no room: `spread` is the kernel with its arrays in
    registers as one thread has them."""
    for launched in threads.launches:
        used = {a.buffer for s in spread.sites if launched.holds(s.path) for a in s.statement.accesses}
        _check_shared([b for b in spread.buffers if b.name in used and b.storage == "shared"], spread, target)
    for buffer in spread.buffers:
        if buffer.storage == "reg" and not Layout(buffer).is_single:
            _check_registers(buffer, threads, spread, target)


def _check_shared(buffers: list[Buffer], kernel: Kernel, target: Target) -> None:
    total = 0
    for buffer in buffers:
        elements = Layout(buffer).elements
        if elements.factors:
            message = (
                f"{buffer.name} is in `shared`, which needs constant extents, and {elements.text} elements are "
                f"not: stage a tile of it, or place({buffer.name}, heap)"
            )
            raise _error("open-extent", kernel, buffer, message)
        size = elements.constant * buffer.dtype.itemsize
        total += size
        if total > target.shared_bytes:
            others = f" beside {total - size} of others" if total > size else ""
            message = (
                f"{buffer.name} takes {size} bytes of shared memory{others}, and a block has "
                f"{target.shared_bytes} on {target.name}: "
                f"{(target.shared_bytes - total + size) // buffer.dtype.itemsize} elements would fit"
            )
            raise _error("shared-size", kernel, buffer, message)


def _check_registers(buffer: Buffer, threads: Threads, kernel: Kernel, target: Target) -> None:
    elements = Layout(buffer).elements
    size = elements.constant * max(buffer.dtype.itemsize, 4)
    if size > target.thread_bytes:
        message = (
            f"{buffer.name} takes {size // 4} registers of each thread, and {target.thread_bytes // 4} is "
            f"what one has: spread it over more threads, or place({buffer.name}, stack), which is in memory"
        )
        raise _error("register-size", kernel, buffer, message)
    for site in kernel.sites:
        for access in site.statement.accesses:
            if access.buffer == buffer.name:
                for index, dim in zip(access.indices, buffer.dims, strict=True):
                    if not dim.collapsed:
                        _check_index(buffer, threads, kernel, site.path, access, index)


def _check_index(
    buffer: Buffer, threads: Threads, kernel: Kernel, path: Path, access: Access, index: Affine | Access
) -> None:
    """An index in registers is a number once what is unrolled is."""
    depths = sorted(index.iterators) if isinstance(index, Affine) else []
    at = 0
    for length, node in enumerate(ancestors(kernel, path), 1):
        if not isinstance(node, Scope):
            continue
        if inside(threads.groups, path[:length]) is not None:
            return
        if at in depths and not (mark_of(node, ("u", "v")) or node.extent.constant == 1):
            own = format_path(path[:length])
            message = (
                f"{format_access(access)} is in registers, which have no addresses, and its index depends on "
                f"the scope at {own}, which is not unrolled: unroll({own}), or place({buffer.name}, stack), "
                f"which is in memory"
            )
            raise _error("indexed-register", kernel, buffer, message)
        at += 1


def _error(code: str, kernel: Kernel, buffer: Buffer, message: str) -> KernelError:
    source, span = place(kernel, (), buffer)
    return KernelError(Diagnostic(code, message, span, source))
