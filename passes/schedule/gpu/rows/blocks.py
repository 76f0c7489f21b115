"""Rows of blocks on a GPU: a thread has a block, as of numbers that share a scale.

A block is gone through several times, for its largest number and again for its codes. A thread does that alone, in
its registers: threads wait for none, and neighbours share no byte. Where a row is only blocks, every so many of
them are a block of threads. Where more is done in a row, as a sum over all of it, a block of threads has the row.
"""

from __future__ import annotations

from dojoir.backends.machine import Machine
from dojoir.errors import ArgumentError
from dojoir.ir.nodes import Kernel, Node, Path, Scope, Site, Statement
from dojoir.ir.paths import is_inside
from dojoir.ir.words import GRID
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Bind, Unroll, Vectorize
from dojoir.passes.loops.splitting import Split
from dojoir.passes.schedule.facts.strides import depends, sites_in
from dojoir.passes.schedule.forms.nests import known
from dojoir.passes.schedule.gpu.sharing.threads import grid, shared_among
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.spots import Spot, act, move, spot
from dojoir.passes.storage.layout import PlaceBuffer, ReuseDims

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
    if not only_blocks and not any(_is_blocks(child.scope) for child in children):
        raise ArgumentError("no blocks", "bad-arguments")
    if len(chain) > len(GRID) + only_blocks - 1 or any(spot.scope.marks for spot in chain):
        raise ArgumentError("too many scopes around the blocks", "bad-arguments")
    if not any(_is_shared(trace.kernel, site) for site in sites_in(trace.kernel, path)):
        raise ArgumentError("nothing that the elements of a block share", "bad-arguments")
    if not only_blocks and not all(_is_blocks(child.scope) or _is_leaf(child.scope) for child in children):
        raise ArgumentError("other nests beside the blocks", "bad-arguments")
    for scope in [last] if only_blocks else [child for child in children if _is_blocks(child.scope)]:
        results = [s.statement.target for s in sites_in(trace.kernel, scope.path)]
        results = [target for target in results if trace.kernel.buffer(target.buffer).role != "tmp"]
        known(all(depends(target, scope.depth) for target in results), "blocks with results of their own")
    _registers(trace, path)
    if only_blocks:
        act(trace, Split, last, ALONE)
        act(trace, Bind, last.child(0), "bx")
    else:
        for child in children:
            act(trace, Bind, shared_among(trace, child, TOGETHER), "bx")
    grid(trace, chain)


def _is_shared(kernel: Kernel, site: Site) -> bool:
    """Whether a statement makes what several elements of a block use, or writes a byte that several share."""
    made = kernel.buffer(site.statement.target.buffer)
    return site.statement.accumulation is not None or made.role == "tmp" or made.packed


def _chain(trace: Trace, path: Path) -> list[Spot]:
    """The scopes around the blocks, those over them included where nothing else is beside them."""
    found = [spot(trace, path)]
    while not _is_blocks(found[-1].scope):
        body = found[-1].body
        if len(body) != 1 or not isinstance(body[0], Scope):
            break
        found.append(found[-1].child(0))
    return found


def _is_blocks(node: Node) -> bool:
    """Whether a scope is one over blocks: the scopes in it go through one."""
    if not isinstance(node, Scope) or len(node.extent.bounds) != 1:
        return False
    inner = [child for child in node.body if not isinstance(child, Statement)]
    return bool(inner) and all(_is_leaf(child) and _is_short(child) for child in inner)


def _is_short(node: Node) -> bool:
    return isinstance(node, Scope) and (node.extent.constant or LARGEST + 1) <= LARGEST


def _is_leaf(node: Node) -> bool:
    return isinstance(node, Scope) and all(isinstance(child, Statement) for child in node.body)


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
            act(trace, PlaceBuffer, buffer.name, "reg")
            arrays |= {buffer.name} if elements > 1 else set()
    for place, node in reversed(_leaves(kernel, path)):
        _side_by_side(trace, spot(trace, place), _uses(node, arrays))


def _side_by_side(trace: Trace, scope: Spot, must: bool) -> None:
    """Spells the iterations of a short scope side by side, so that neighbours in memory are one access; two where
    they share a byte. Where that is refused, and they index an array in registers (`must`), one after another."""
    packed = {buffer.name for buffer in trace.kernel.buffers if buffer.packed}
    extent = scope.scope.extent.constant or 0
    shares = any(isinstance(node, Statement) and node.target.buffer in packed for node in scope.body)

    def spelled() -> None:
        each = scope
        if extent // (2 if shares else 1) > WIDEST:
            act(trace, Split, each, WIDEST * (2 if shares else 1))
            act(trace, Unroll, each)
            each = each.child(0)
        if shares:
            act(trace, Split, each, 2)
            act(trace, Unroll, each.child(0))
        act(trace, Vectorize, each)

    if not tried(trace, lambda _: spelled()) and must:
        act(trace, Unroll, scope)


def _leaves(kernel: Kernel, path: Path) -> list[tuple[Path, Scope]]:
    return [
        (place, node)
        for place, node in kernel.walk()
        if isinstance(node, Scope) and is_inside(place, path) and _is_leaf(node) and _is_short(node)
    ]


def _uses(scope: Scope, names: set[str]) -> bool:
    return any(isinstance(child, Statement) and not names.isdisjoint(child.buffers) for child in scope.body)
