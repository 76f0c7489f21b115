"""The arrays through which threads of a launch exchange values, and the elements into which several blocks
accumulate.

An array that no thread writes while another uses the same element may be said to be `__restrict__`: what a thread
sees through its pointer, nobody else changes. Of any other array that would be untrue, and a compiler may then take
an element as it was before a barrier for what it is behind it. And an element that one block alone accumulates into
needs no atomic, whatever scopes of the grid stand around. Both are asked of isl, from the accesses of the launch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property

from dojoir.codegen.lower.gpu.launches import Launched
from dojoir.codegen.lower.gpu.thread_plan import Threads
from dojoir.codegen.lower.waits.meetings import (
    ThreadAccess,
    one_element,
    other_thread,
    pairs,
    same,
    some,
    touches_of,
)
from dojoir.ir.affine import Affine, Iter
from dojoir.ir.nodes import Path
from dojoir.sets.kernel_sets import sets_of
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class Exchanges:
    """The accesses of one launch's threads to elements that others use."""

    threads: Threads
    launched: Launched

    @cached_property
    def _touches(self) -> dict[str, list[ThreadAccess]]:
        """The accesses to each array in global memory that the launch writes."""
        found: dict[str, list[ThreadAccess]] = {}
        for touch in touches_of(self.threads, self.launched):
            if self.threads.kernel.buffer(touch.access.buffer).storage != "shared":
                found.setdefault(touch.access.buffer, []).append(touch)
        return found

    @cached_property
    def _host(self) -> int:
        """How many iterators are those of host code."""
        launched, kernel = self.launched, self.threads.kernel
        return kernel.depth_of(launched.grid[0] if launched.grid else (*launched.parent, 0))

    @cached_property
    def exchanged(self) -> frozenset[str]:
        """The arrays of which a thread uses an element that another thread of the launch writes."""
        return frozenset(name for name, touches in self._touches.items() if self._any(touches, self._other_thread))

    @cached_property
    def met_by_blocks(self) -> frozenset[int]:
        """The statements, by their numbers, that write an element which other blocks write too."""
        every = range(len(self.threads.kernel.sites))
        return self._met(self._touches, self._other_block, every) if self.launched.grid else frozenset()

    @cached_property
    def met_at_data(self) -> frozenset[int]:
        """The statements that write an element which another thread, of the same block or not, may write too, one
        of the two at an index from data. What is not at such an index is a thread's own, or put together by
        threads: the checker lets nothing else be marked."""
        sites = self.threads.kernel.sites
        everywhere: dict[str, list[ThreadAccess]] = {}
        for touch in touches_of(self.threads, self.launched):
            everywhere.setdefault(touch.access.buffer, []).append(touch)
        scattered = {n for n, site in enumerate(sites) if site.statement.scatters}
        return self._met(everywhere, self._other_thread, scattered) if scattered else frozenset()

    @cached_property
    def met(self) -> frozenset[int]:
        """The statements that write an element which other threads write as well, but for what the threads of a
        block put together."""
        return self.met_by_blocks | self.met_at_data

    def _met(
        self,
        touches: Mapping[str, Sequence[ThreadAccess]],
        different: Callable[[ThreadAccess, ThreadAccess], str],
        among: Collection[int],
    ) -> frozenset[int]:
        """The statements that write an element which others do too that are `different` in who makes them; at least
        one of each two is `among` those."""
        found: set[int] = set()
        for own in touches.values():
            writes = [touch for touch in own if touch.writes]
            for n, one in enumerate(writes):
                for other in writes[n:]:
                    pair = {one.number, other.number}
                    if not pair <= found and not pair.isdisjoint(among) and self._is_met(one, other, different):
                        found |= pair
        return frozenset(found)

    def _other_block(self, one: ThreadAccess, other: ThreadAccess) -> str:
        grid = range(self._host, self._host + len(self.launched.grid))
        return " or ".join(f"i{depth} != j{depth}" for depth in grid) or "false"

    def _other_thread(self, one: ThreadAccess, other: ThreadAccess) -> str:
        return f"{self._other_block(one, other)} or {other_thread(one, other) or 'true'}"

    def _any(self, touches: Sequence[ThreadAccess], different: Callable[[ThreadAccess, ThreadAccess], str]) -> bool:
        return any(
            (one.writes or other.writes) and self._is_met(one, other, different)
            for n, one in enumerate(touches)
            for other in touches[n:]
        )

    def _is_met(
        self, one: ThreadAccess, other: ThreadAccess, different: Callable[[ThreadAccess, ThreadAccess], str]
    ) -> bool:
        """Whether two accesses are to one element where they are `different` in who makes them."""
        return not self._is_plainly_own(one, other) and self._meet(one, other, different(one, other))

    def _is_plainly_own(self, one: ThreadAccess, other: ThreadAccess) -> bool:
        """Whether it is seen from the text that each element is one thread's: both accesses are the same
        function of the iterators, and an element tells all of the grid and of the threads."""
        if one.access != other.access or one.first != other.first or not one.span == other.span == 1:
            return False
        sites = [self.threads.kernel.sites[touch.number] for touch in (one, other)]
        bounds = [[scope.constant_bound for scope in site.scopes] for site in sites]
        told: set[int] = set(range(self._host))
        dims = self.threads.kernel.buffer(one.access.buffer).dims
        for index, dim in zip(one.access.indices, dims, strict=True):
            if isinstance(index, Affine) and not dim.collapsed:
                told |= _told(index, told, bounds)
        grid = range(self._host, self._host + len(self.launched.grid))
        return told.issuperset(grid) and told.issuperset(int(d) for d in re.findall(r"i(\d+)", one.first))

    def _meet(self, one: ThreadAccess, other: ThreadAccess, different: str) -> bool:
        sets = sets_of(self.threads.kernel)
        element = one_element(sets, one.access, other.access, distinct=True)
        left, right = sets.kernel.sites[one.number], sets.kernel.sites[other.number]
        return some(sets, pairs(sets, left, right, [*same(range(self._host)), *element, f"({different})"]))


def _told(index: Affine, told: set[int], bounds: Sequence[Sequence[int | None]]) -> set[int]:
    """The iterators that the value of an index determines, given those of `told`. It determines all of its own if
    it is a mixed-radix number: each takes larger steps than all smaller ones reach together."""
    steps: list[tuple[int, int]] = []
    for atom, coefficient in index.terms:
        if isinstance(atom, Iter):
            steps.append((abs(coefficient), atom.depth))
        elif Affine.atom(atom).iterators:
            return set()
    reach = 0
    steps = sorted(step for step in steps if step[1] not in told)
    for n, (step, depth) in enumerate(steps):
        extents = [own[depth] for own in bounds]
        if step <= reach or (None in extents and n < len(steps) - 1):
            return set()
        reach += step * (max(extent or 1 for extent in extents) - 1)
    return {depth for _, depth in steps}


def met(threads: Threads) -> frozenset[Path]:
    """The statements of all launches of a kernel that write an element as other threads do at the same time."""
    sites = threads.kernel.sites
    return frozenset(sites[n].path for one in threads.launches for n in Exchanges(threads, one).met)
