"""The effect of the order of a kernel's accesses on its gradient, asked of its integer sets.

Every answer errs on the side of what is right for any kernel. An index from data may be any within bounds, and
what isl cannot decide within its limit counts as if there were a conflict."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce

import islpy as isl

from dojoir.ir.nodes import Access, Kernel
from dojoir.sets.kernel_sets import isl_affine, iterators, sets_of
from dojoir.sets.limits import StepLimitReached, limited

STEPS = 4_000_000
"""The steps of isl that one question may take."""

COMMUTING = ("+=", "max=", "min=")
"""The accumulations of which two into one element are taken backwards in any order."""


class Order:
    """The accesses of a kernel, and when they are made. An access is one of the statement of that number."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel, self._sets = kernel, sets_of(kernel)
        self._dims = max((2 * len(site.ancestors) + 2 for site in kernel.sites), default=1)

    def is_stale(self, number: int, read: Access) -> bool:
        """Whether what a statement reads may be written again after it is read: by the statement itself too."""
        return self._any(read, number, self._writes(read.buffer), ">=")

    def is_written_again(self, number: int) -> bool:
        """Whether the element that a statement writes may be written later."""
        target = self._kernel.sites[number].statement.target
        return self._any(target, number, self._writes(target.buffer), ">")

    def is_touched_before(self, number: int) -> bool:
        """Whether the element that a statement writes is written or read by another, or in another iteration,
        before."""
        target = self._kernel.sites[number].statement.target
        others = [*self._writes(target.buffer), *self._reads(target.buffer)]
        return self._any(target, number, others, "<")

    def is_first(self, number: int, whole: bool) -> bool:
        """Whether a statement writes each element once, and before all other accesses to it; each that is accessed
        at all, or, if that is meant, each of its buffer that there is."""
        site = self._kernel.sites[number]
        target = site.statement.target
        if site.statement.condition is not None or _from_data(target):
            return False
        if target.buffer in site.statement.buffers_read:
            return False
        others = [*self._writes(target.buffer), *self._reads(target.buffer)]
        others = [pair for pair in others if pair[0] != number]

        def question() -> bool:
            writes = self._map(number, target)
            if not writes.is_injective():
                return False
            covered = writes.range()
            used = reduce(isl.UnionSet.union, (self._map(k, a).range() for k, a in others), covered)
            if whole:
                box = self._sets.map(self._sets.box_text(self._kernel.buffer(target.buffer), "box", storage=False))
                used = used.union(box.range())
            return bool(used.is_subset(covered)) and not self._any(target, number, others, "<=")

        return _answer(question, False)

    def is_carried(self, buffer: str, depth: int) -> bool:
        """Whether a value may come from one iteration of the scope at `depth`, around all uses of the buffer, to
        another: whether a read may come before every sure write of the same iteration."""
        kernel = self._kernel
        reads = self._reads(buffer)
        adds = [
            (k, a) for k, a in self._writes(buffer) if kernel.sites[k].statement.accumulation is not None
        ]  # of which each needs a value as well
        sure = [(k, a) for k, a in self._writes(buffer) if kernel.sites[k].statement.accumulation is None]

        def question() -> bool:
            if not sure:
                return True
            for k, read in [*reads, *adds]:
                here = self._map(k, read)
                found = isl.UnionSet.empty(here.domain().get_space())
                for w, write in sure:
                    same = here.apply_range(self._map(w, write).reverse())
                    same = same.intersect(self._before(w, k).reverse())
                    same = same.intersect(self._equal(k, w, depth + 1))
                    found = found.union(same.domain())
                if not here.domain().is_subset(found):
                    return True
            return False

        return _answer(question, True)

    def is_free(self, depth: int, numbers: Iterable[int], active: frozenset[str]) -> bool:
        """Whether no two iterations of the scope at `depth` around some statements, of the same iterations of the
        scopes around it, touch an element of the buffers `active` in an order that counts."""
        inside = set(numbers)

        def question() -> bool:
            for buffer in active:
                writes = [pair for pair in self._writes(buffer) if pair[0] in inside]
                reads = [pair for pair in self._reads(buffer) if pair[0] in inside]
                for k, write in writes:
                    own = self._kernel.sites[k].statement.accumulation
                    for j, other in [*writes, *reads]:
                        if (j, other) in writes and own in COMMUTING and own == self._accumulation(j):
                            continue
                        pairs = self._map(k, write).apply_range(self._map(j, other).reverse())
                        pairs = pairs.intersect(self._equal(k, j, depth))
                        if not pairs.is_subset(self._equal(k, j, depth + 1)):
                            return False
            return True

        return _answer(question, False)

    # -- accesses ----------------------------------------------------------------------------------------
    def _accumulation(self, number: int) -> str | None:
        return self._kernel.sites[number].statement.accumulation

    def _writes(self, buffer: str) -> list[tuple[int, Access]]:
        sites = enumerate(self._kernel.sites)
        return [(k, s.statement.target) for k, s in sites if s.statement.target.buffer == buffer]

    def _reads(self, buffer: str) -> list[tuple[int, Access]]:
        sites = enumerate(self._kernel.sites)
        return [(k, a) for k, s in sites for a in dict.fromkeys(s.statement.term_reads) if a.buffer == buffer]

    def _map(self, number: int, access: Access) -> isl.UnionMap:
        """From the instances of a statement to the elements that an access of it may touch."""
        site = self._kernel.sites[number]
        buffer = self._kernel.buffer(access.buffer)
        where = [self._sets.constraints(site.ancestors)]
        indices = []
        for d, index in enumerate(access.indices):
            if isinstance(index, Access):
                indices.append(f"g{d}")
                where.append(f"0 <= g{d} < {isl_affine(buffer.dims[d].extent)}")
            else:
                indices.append(isl_affine(index))
        domain = f"s{number}[{iterators(len(site.scopes))}]"
        return self._sets.map(f"{domain} -> b_{buffer.name}[{', '.join(indices)}] : {' and '.join(where)}")

    def _equal(self, one: int, other: int, count: int) -> isl.UnionMap:
        """The pairs of instances of two statements with equal iterators of the outermost `count` scopes."""
        first = [f"i{d}" for d in range(len(self._kernel.sites[one].scopes))]
        second = [f"i{d}" if d < count else f"j{d}" for d in range(len(self._kernel.sites[other].scopes))]
        return self._sets.map(f"s{one}[{', '.join(first)}] -> s{other}[{', '.join(second)}] : true")

    def _time(self, number: int) -> isl.UnionMap:
        site = self._kernel.sites[number]
        time = ", ".join(self._sets.time(site, None, self._dims))
        return self._sets.map(f"s{number}[{iterators(len(site.scopes))}] -> [{time}] : true")

    def _before(self, one: int, other: int) -> isl.UnionMap:
        """The pairs of instances of which the first runs before the second."""
        return self._time(one).lex_lt_union_map(self._time(other))

    def _any(self, access: Access, number: int, others: list[tuple[int, Access]], relation: str) -> bool:
        """Whether one of other accesses touches an element of this one at a time in that relation to it."""

        def question() -> bool:
            here = self._map(number, access)
            for k, other in others:
                same = here.apply_range(self._map(k, other).reverse())
                own, its = self._time(number), self._time(k)
                order = {
                    ">=": own.lex_le_union_map(its),
                    ">": own.lex_lt_union_map(its),
                    "<=": own.lex_ge_union_map(its),
                    "<": own.lex_gt_union_map(its),
                }[relation]
                if not same.intersect(order).is_empty():
                    return True
            return False

        return _answer(question, True)


def _from_data(access: Access) -> bool:
    return any(isinstance(index, Access) for index in access.indices)


def _answer(question: Callable[[], bool], otherwise: bool) -> bool:
    try:
        with limited(STEPS):
            return question()
    except (StepLimitReached, isl.Error):
        return otherwise
