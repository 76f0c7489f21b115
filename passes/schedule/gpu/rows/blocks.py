"""Rows of blocks on a GPU: a thread has a block, as of numbers that share a scale.

A block is gone through several times, for its largest number and again for its codes. A thread does that alone, in
its registers: threads wait for none, and neighbours share no byte. Where a row is only blocks, every so many of
them are a block of threads. Where more is done in a row, as a sum over all of it, a block of threads has the row.
"""

from __future__ import annotations

from dojoir.backends.machine import Machine
from dojoir.ir.nodes import Kernel, Node, Path, Scope, Site, Statement
from dojoir.ir.paths import is_inside
from dojoir.ir.words import GRID
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.facts.strides import depends, is_plain, require, sites_in
from dojoir.passes.schedule.gpu.sharing.threads import a_thread_each, grid, shared_among
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.spots import Array, Spot, move, nested, spot
from dojoir.passes.storage.layout import ReuseDims

LARGEST = 64
"""The most elements of a block that one thread has."""

ALONE = 128
"""How many threads a block of threads has, where a thread waits for no other."""

TOGETHER = 512
"""How many threads a row has that more is done in than its blocks. Such rows are long; a few idle threads cost
less than a second turn of all of them."""

WIDEST = 16
"""The most iterations that are spelled side by side, so that neighbours in memory are one access."""


def blocks_in_threads(trace: Trace, path: Path, machine: Machine) -> None:
    """Gives each thread a block, of a nest of rows of such. Raises DojoError where the nest is not one."""
    chain = _chain(trace, path)
    last = chain[-1]
    only_blocks = _is_blocks(last.scope)
    children = [last.child(n) for n, node in enumerate(last.body) if isinstance(node, Scope)]
    require(only_blocks or any(_is_blocks(child.scope) for child in children), "blocks")
    few = len(chain) < len(GRID) + only_blocks
    require(few and not any(scope.scope.marks for scope in chain), "blocks in few scopes")
    shared = any(_is_shared(trace.kernel, site) for site in sites_in(trace.kernel, path))
    require(shared, "blocks whose elements share something")
    alone = only_blocks or all(_is_blocks(child.scope) or is_plain(child.scope) for child in children)
    require(alone, "blocks without other nests beside them")
    for scope in [last] if only_blocks else [child for child in children if _is_blocks(child.scope)]:
        results = [s.statement.target for s in sites_in(trace.kernel, scope.path)]
        results = [target for target in results if trace.kernel.buffer(target.buffer).role != "tmp"]
        require(all(depends(target, scope.depth) for target in results), "blocks with results of their own")
    _registers(trace, path)
    if only_blocks:
        a_thread_each(last, ALONE)
    else:
        for child in children:
            shared_among(child, TOGETHER).mark("bx")
    grid(chain)


def _is_shared(kernel: Kernel, site: Site) -> bool:
    """Whether a statement makes what several elements of a block use, or reads or writes a byte that several
    share."""
    made = kernel.buffer(site.statement.target.buffer)
    packed = any(kernel.buffer(access.buffer).packed for access in site.statement.accesses)
    return site.statement.accumulation is not None or made.role == "tmp" or packed


def _chain(trace: Trace, path: Path) -> list[Spot]:
    """The scopes around the blocks, those over them included where nothing else is beside them."""
    found = nested(spot(trace, path))
    return found[: next((n for n, scope in enumerate(found, 1) if _is_blocks(scope.scope)), len(found))]


def _is_blocks(node: Node) -> bool:
    """Whether a scope is one over blocks: the scopes in it go through one."""
    if not isinstance(node, Scope) or len(node.extent.bounds) != 1:
        return False
    inner = [child for child in node.body if not isinstance(child, Statement)]
    return bool(inner) and all(is_plain(child) and _is_short(child) for child in inner)


def _is_short(node: Node) -> bool:
    return isinstance(node, Scope) and (node.extent.constant or LARGEST + 1) <= LARGEST


def _registers(trace: Trace, path: Path) -> None:
    """Puts the temporaries of a nest into registers, and writes the scopes out that go through such. Raises
    DojoError where one is refused."""
    kernel = trace.kernel
    arrays = set()
    for buffer in kernel.buffers:
        inside = [is_inside(site.path, path) for site in kernel.sites if buffer.name in site.statement.buffers]
        if buffer.role != "tmp" or buffer.storage != "heap" or not inside or not all(inside):
            continue
        for n, dim in enumerate(buffer.dims):
            _ = dim.collapsed or tried(trace, move(ReuseDims, buffer.name, n))
        elements = 1
        for dim in trace.kernel.buffer(buffer.name).dims:
            elements *= 1 if dim.collapsed else dim.extent.offset if dim.extent.is_constant else LARGEST + 1
        if elements <= LARGEST:
            Array(trace, buffer.name).place("reg")
            arrays |= {buffer.name} if elements > 1 else set()
    for place, _ in reversed(_leaves(kernel, path)):
        used = {name for site in sites_in(kernel, place) for name in site.statement.buffers}
        _side_by_side(trace, spot(trace, place), not used.isdisjoint(arrays))


def _side_by_side(trace: Trace, scope: Spot, must: bool) -> None:
    """Spells the iterations of a short scope side by side, so that neighbours in memory are one access; two where
    they share a byte. Where that is refused, and they index an array in registers (`must`), one after another."""
    packed = {buffer.name for buffer in trace.kernel.buffers if buffer.packed}
    extent = scope.scope.extent.constant or 0
    shares = any(isinstance(node, Statement) and node.target.buffer in packed for node in scope.body)

    def spelled() -> None:
        each = scope
        if extent // (2 if shares else 1) > WIDEST:
            inner = each.split(WIDEST * (2 if shares else 1))
            each.mark("u")
            each = inner
        if shares:
            each.split(2).mark("u")
        each.mark("v")

    if not tried(trace, lambda _: spelled()) and must:
        scope.mark("u")


def _leaves(kernel: Kernel, path: Path) -> list[tuple[Path, Scope]]:
    return [
        (place, node)
        for place, node in kernel.walk()
        if isinstance(node, Scope) and is_inside(place, path) and is_plain(node) and _is_short(node)
    ]
