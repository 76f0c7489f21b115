"""Iterations that may not run side by side, in words: two of them, and what they touch."""

from __future__ import annotations

from dojoir.errors import Diagnostic, Party
from dojoir.ir.format import format_extent
from dojoir.ir.nodes import Access, Scope, format_path
from dojoir.proof.core.wellformed import Dependent
from dojoir.proof.explain.example import (
    Point,
    accuse,
    describe,
    node_party,
    party,
    read_by,
    statement_text,
    when,
    with_sizes,
    witness,
)
from dojoir.sets.kernel_sets import sets_of


def dependent_iterations(failure: Dependent) -> Diagnostic:
    """Two iterations of a marked scope that are not independent."""
    pair = _Pair(failure)
    *statements, scope = pair.parties()
    code = "carried-value" if failure.conflict.carried else "shared-element"
    if failure.mark is None:
        message = f"iterations of {format_path(failure.conflict.path)} are not independent: {pair.message()}"
        return accuse(code, message, [*statements, scope], pair.example.sizes)
    message = f"this scope is marked `{failure.mark}`, and its iterations are not independent: {pair.message()}"
    return accuse(code, message, [scope, *statements], pair.example.sizes)


class _Pair:
    """Statement instances of two iterations, and the buffer that they meet in."""

    def __init__(self, failure: Dependent) -> None:
        self.kernel, self.conflict = failure.kernel, failure.conflict
        self.example = witness(self.conflict.pairs, self.kernel)
        self.left, self.right = self.example.left, self.example.right
        self.buffer = self.conflict.buffer or self._read_buffer()

    def _read_buffer(self) -> str:
        """The buffer of the read that a carried value reaches."""
        site, ordinal = self.right.site, int(self.right.name.partition("r")[2])
        assert site is not None
        return sets_of(self.kernel).reads[site][ordinal].access.buffer

    def parties(self) -> list[Party]:
        """The two statements in their iterations, and the scope."""
        mine, its = self._accesses()
        reads, writes = ("reads", "writes") if self.conflict.carried else ("touches", "touches")
        return [
            party(self.right, self.kernel, f"{reads} it {when(self.right, self.kernel)}", mine),
            party(self.left, self.kernel, f"{writes} it {when(self.left, self.kernel)}", its),
            node_party(self.kernel, self.conflict.path, "its iterations would run side by side"),
        ]

    def _accesses(self) -> tuple[Access | None, Access | None]:
        """An access of the right statement and one of the left one that touch the same element, at least one of
        them writing it. None where an index is gathered."""
        left, right, kernel = self.left, self.right, self.kernel
        assert left.site is not None
        assert right.site is not None
        wrote, read = kernel.sites[left.site].statement.target, read_by(right, kernel)
        if read is not None:
            return read, wrote
        target = kernel.sites[right.site].statement.target
        for mine in kernel.sites[right.site].statement.accesses:
            for its in kernel.sites[left.site].statement.accesses:
                element = self._element_touched(mine, right)
                if (mine is target or its is wrote) and element and element == self._element_touched(its, left):
                    return mine, its
        return None, None

    def _element_touched(self, access: Access, point: Point) -> tuple[int, ...] | None:
        """The element of the buffer that an access touches, after a 0; None for another buffer or a gather."""
        if access.buffer != self.buffer:
            return None
        sizes, iteration = dict(self.example.sizes), point.iteration(self.kernel)
        found = [0]
        for index, dim in zip(access.indices, self.kernel.buffer(self.buffer).dims, strict=True):
            if isinstance(index, Access):
                return None
            if not dim.collapsed:
                found.append(index.evaluate(sizes, iteration))
        return tuple(found)

    def message(self) -> str:
        """The conflict in words."""
        left, right, kernel = self.left, self.right, self.kernel
        start = with_sizes(self.example.sizes)
        if self.conflict.carried:
            return (
                f"{start}{describe(right, kernel)} reads `{self.buffer}` as written by "
                f"{describe(left, kernel)}, another iteration"
            )
        both = f"touch a byte of the packed `{self.buffer}`"
        touch = both if kernel.buffer(self.buffer).packed else f"touch the same element of `{self.buffer}`"
        if left.site == right.site:
            both = f"{when(left, kernel)} and {when(right, kernel)}"
            return f"{start}{statement_text(left, kernel)} {both} {touch}{self._cure()}"
        return f"{start}{describe(left, kernel)} and {describe(right, kernel)} {touch}"

    def _cure(self) -> str:
        """The move that gives each iteration a partial result, where both accumulate into the element."""
        site, path = self.left.site, self.conflict.path
        assert site is not None
        scope = self.kernel.at(path)
        if self.kernel.sites[site].statement.op == "=" or not isinstance(scope, Scope):
            return ""
        call = f"split_reduction({format_path(path)}, {self.buffer}, partial, {format_extent(scope.extent)})"
        return f"; {call} gives each iteration a partial result (split the scope first: then they are few)"
