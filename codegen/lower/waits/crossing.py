"""Refuses arrays in registers whose elements cross threads: one thread sets an element, and another one uses it.

What all threads set alike is in each of them, and so is what they put together. An element that one thread sets,
another has not; that is an error here, with the two threads and the element.
"""

from __future__ import annotations

from collections.abc import Iterator

import islpy as isl

from dojoir.codegen.lower.gpu.groups import inside
from dojoir.codegen.lower.gpu.launches import Collective, Launched
from dojoir.codegen.lower.gpu.thread_plan import Threads
from dojoir.codegen.lower.waits.meetings import STEP_LIMIT, one_element, pairs, runs_by, same, second, thread_at
from dojoir.errors import KernelError
from dojoir.ir.affine import Affine
from dojoir.ir.format import format_access
from dojoir.ir.nodes import Access, Kernel, Site
from dojoir.ir.paths import is_inside
from dojoir.proof.explain.example import Example, accuse, describe, example, node_party
from dojoir.sets.kernel_sets import isl_affine, sets_of
from dojoir.sets.limits import StepLimitReached, limited_in_part
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class _Use:
    """A use of an element by the threads from number `first` on, of which there are `span`, or by those that put it
    together."""

    number: int
    access: Access
    writes: bool
    first: str
    span: int
    collective: Collective | None
    whole: bool = False  # whether all of a group or block use it alike


def refuse_crossing(threads: Threads) -> None:
    """Raises KernelError where an element in registers is used by a thread that is not the one that sets it."""
    for launched in threads.launches:
        if launched.threads > 1:
            for buffer in threads.kernel.buffers:
                if buffer.role == "tmp" and buffer.storage in ("reg", "stack"):
                    _check(threads, launched, buffer.name)


def _check(threads: Threads, launched: Launched, name: str) -> None:
    uses = [use for use in _uses(threads, launched) if use.access.buffer == name]
    inside = {phase.inner for phase in launched.phases if not phase.is_warp_code}
    if any(all(is_inside(threads.kernel.sites[u.number].path, path) for u in uses) for path in inside):
        return  # one phase: its iterations are independent
    own = _own_depths(threads, launched, uses)
    for one in uses:
        if one.writes and (not one.whole or one.collective is not None):
            for other in uses:
                if other is not one and not (other.whole and other.writes and other.collective is None):
                    _refuse_pair(threads, launched, one, other, own)
        elif one.writes:
            for other in uses:
                if other.writes and not other.whole and other.collective is None:
                    _refuse_pair(threads, launched, other, one, own)
                elif not other.writes:
                    _refuse_pair(threads, launched, one, other, own)


def _own_depths(threads: Threads, launched: Launched, uses: list[_Use]) -> tuple[int, ...]:
    """The block scopes around all uses, with warp code inside: each of their iterations has storage of its own."""
    for phase in launched.phases:
        if phase.is_warp_code:
            paths = (threads.kernel.sites[use.number].path for use in uses)
            if all(path[: len(phase.inner)] == phase.inner for path in paths):
                return tuple(phase.nest.depths)
    return ()


def _uses(threads: Threads, launched: Launched) -> Iterator[_Use]:
    sets = sets_of(threads.kernel)
    for number, site in enumerate(threads.kernel.sites):
        if not launched.holds(site.path):
            continue
        phase = launched.phase_of(site.path)
        first, span = runs_by(launched, phase, site)
        whole = phase is None or (phase.is_warp_code and span == phase.lanes)
        group = inside(threads.groups, site.path)

        reads = [(access, False) for read in sets.reads[number] for access in read.access.accesses()]
        for access, writes in (*reads, (site.statement.target, True)):
            lane = group.lane(access) if group is not None else None
            collective = threads.collectives.get(site.path) if writes else None
            if lane is not None:
                yield _Use(number, access, writes, f"{first} + {isl_affine(lane)}", 1, None)
            else:
                yield _Use(number, access, writes, first, span, collective, whole)


def _refuse_pair(threads: Threads, launched: Launched, one: _Use, other: _Use, own: tuple[int, ...]) -> None:
    different = _different(threads, launched, one, other)
    if different is None or (one.access == other.access and one.number == other.number and one.collective):
        return
    kernel = threads.kernel
    sets = sets_of(kernel)
    left, right = kernel.sites[one.number], kernel.sites[other.number]
    alike = same((*range(kernel.depth_of((*launched.body, 0))), *own))
    conditions = [*alike, different, *one_element(sets, one.access, other.access)]
    text = pairs(sets, left, right, conditions, (f"s{one.number}", f"s{other.number}"))
    try:
        with limited_in_part(STEP_LIMIT):
            found = example(sets.map(text), kernel)
    except (StepLimitReached, isl.Error):
        raise _undecided(threads, one, left) from None
    if found is None:
        return
    name = one.access.buffer
    setter = thread_at(launched, left, found.left.iteration(kernel))
    user = thread_at(launched, right, found.right.iteration(kernel))
    verb = "sets" if setter.startswith("thread ") else "set"
    message = (
        f"`{name}` is in registers, which are a thread's own: {setter} {verb} `{_element(kernel, one, found)}`, "
        f"{describe(found.left, kernel)}, and it is used by {user} of the same block, "
        f"{describe(found.right, kernel)}: place({name}, shared), or have one thread do both"
    )
    parties = [node_party(kernel, right.path, "uses it"), node_party(kernel, left.path, "sets it")]
    raise KernelError(accuse("crosses-threads", message, parties, found.sizes))


def _element(kernel: Kernel, use: _Use, found: Example) -> str:
    """The element that a use sets in the iteration of an example; `~` where all values of an index share one."""
    sizes, iteration = dict(found.sizes), found.left.iteration(kernel)
    indices = [
        "~" if dim.collapsed else str(index.evaluate(sizes, iteration)) if isinstance(index, Affine) else "?"
        for index, dim in zip(use.access.indices, kernel.buffer(use.access.buffer).dims, strict=True)
    ]
    return f"{use.access.buffer}[{', '.join(indices)}]" if indices else use.access.buffer


def _undecided(threads: Threads, use: _Use, site: Site) -> KernelError:
    message = (
        f"no proof was found that each thread uses only its own elements of `{use.access.buffer}`, which is in "
        f"registers: {format_access(use.access)}"
    )
    return KernelError(accuse("crosses-threads", message, [node_party(threads.kernel, site.path, "sets it")], ()))


def _different(threads: Threads, launched: Launched, one: _Use, other: _Use) -> str | None:
    """That the threads of the second use are none of those that have what the first sets; None where that cannot
    be."""
    if one.collective is None:
        first, its = f"({one.first})", f"({second(other.first)})"
        return f"({its} < {first} or {its} + {other.span} > {first} + {one.span})"
    nest = one.collective.nest
    phase = launched.phase_of(nest.path)
    assert phase is not None
    kept = [
        (depth, extent, apart)
        for depth, (apart, extent) in phase.digits(nest.path).items()
        if depth in nest.depths and depth not in one.collective.depths and extent > 1
    ]
    its, of_group = second(other.first), phase.is_warp_code and nest is not phase.nest
    if not (kept or of_group):
        return None
    if other.span > (phase.lanes if of_group else 1) or any(other.span > stride for _, _, stride in kept):
        return "true"
    parts = [f"i{depth} != (floor(({its})/{stride}) mod {extent})" for depth, extent, stride in kept]
    if of_group:
        parts.append(f"floor(({one.first})/{phase.lanes}) != floor(({its})/{phase.lanes})")
    return f"({' or '.join(parts)})"
