"""Moves that let two temporaries share one storage, and part them again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations

from dojoir.backends.machine import Machine
from dojoir.ir.nodes import Access, Node
from dojoir.ir.rewriting.rewrite import map_accesses
from dojoir.passes.base.about import AboutTemporary, Arguments, Declared
from dojoir.passes.base.move import BufferName, Move, Refusal, Rewrite, check_new_name, fresh_name
from dojoir.passes.base.reach import Reach
from dojoir.passes.storage.boxes import accesses_of
from dojoir.passes.storage.temporaries import temporary
from dojoir.proof.check import identity
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class ShareBuffer(AboutTemporary, name="share_buffer", reach=Reach.PANE):
    """Lets a temporary use the storage of another of the same type, dimensions and layout: every access of `other`
    is made to `buffer`, and `other` is no more.

    Legal where no value of either is overwritten before its last read. The inverse is `unshare_buffer`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... tmp t: f32[N]
    ... tmp u: f32[N]
    ... N
    ... | t[{0}] = 2 * x[{0}]
    ... N
    ... | u[{0}] = t[{0}] + 1
    ... N
    ... | y[{0}] = u[{0}] * u[{0}]
    ... ''')
    >>> print(dojoir.apply(k, "share_buffer(t, u)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    tmp t: f32[N]
    <BLANKLINE>
    N
    | t[{0}] = 2 * x[{0}]
    N
    | t[{0}] = t[{0}] + 1
    N
    | y[{0}] = t[{0}] * t[{0}]
    <BLANKLINE>
    """

    other: BufferName

    def rewritten(self, at: Declared) -> Rewrite:
        (kernel, buffer), other = at, temporary(at.kernel, self.other)
        if buffer == other:
            raise Refusal("no-change", f"`{buffer.name}` has one storage already")
        if buffer.form != other.form:
            message = f"`{buffer.name}` and `{other.name}` differ in type, dimensions or layout"
            raise Refusal("different-buffers", message)
        body, _ = _renamed(kernel.body, lambda name, _: buffer.name if name == other.name else name)
        return Rewrite(kernel.without_buffers(other.name).evolve(body=body), identity(kernel))

    def back(self, at: Declared) -> Move:
        position = [b.name for b in at.kernel.buffers].index(self.other)
        names = [name for name in _names(at.kernel.body) if name in {self.buffer, self.other}]
        numbers = tuple(n for n, name in enumerate(names) if name == self.other)
        return UnshareBuffer(self.buffer, self.other, position, numbers)

    @classmethod
    def listed(cls, at: Declared) -> Arguments:
        later = at.kernel.buffers[at.kernel.buffers.index(at.buffer) + 1 :]
        return ((BufferName(b.name),) for b in later if b.role == "tmp" and b.form == at.buffer.form)


@dataclass(frozen=True)
class UnshareBuffer(AboutTemporary, name="unshare_buffer"):
    """Gives some accesses of a temporary a storage of their own: a new temporary `other`, declared as number
    `position` of the buffers. `accesses` are their numbers among the accesses of `buffer` in the order of the text,
    from 0; in a statement the target comes before what it reads.

    Legal where no value is written by one and read by another of the two. Listed are the ways in which a plain
    assignment and all that follows it get the new temporary. The inverse is `share_buffer`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... tmp t: f32[N]
    ... N
    ... | t[{0}] = 2 * x[{0}]
    ... N
    ... | t[{0}] = t[{0}] + 1
    ... N
    ... | y[{0}] = t[{0}] * t[{0}]
    ... ''')
    >>> print(dojoir.apply(k, "unshare_buffer(t, u, 3, 1, 3, 4)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    tmp t: f32[N]
    tmp u: f32[N]
    <BLANKLINE>
    N
    | t[{0}] = 2 * x[{0}]
    N
    | u[{0}] = t[{0}] + 1
    N
    | y[{0}] = u[{0}] * u[{0}]
    <BLANKLINE>
    """

    other: BufferName
    position: int
    accesses: tuple[int, ...]

    def rewritten(self, at: Declared) -> Rewrite:
        kernel, buffer = at
        check_new_name(kernel, self.other)
        if not 0 <= self.position <= len(kernel.buffers):
            raise Refusal("bad-position", f"the kernel declares {len(kernel.buffers)} buffers, not {self.position}")
        chosen = set(self.accesses)
        body, count = _renamed(kernel.body, lambda name, n: self.other if n in chosen else name, only=buffer.name)
        if not all(0 <= n < count for n in chosen):
            raise Refusal("no-access", f"`{buffer.name}` has accesses 0 to {count - 1}")
        buffers = list(kernel.buffers)
        buffers.insert(self.position, replace(buffer, name=self.other))
        return Rewrite(kernel.evolve(buffers=tuple(buffers), body=body), identity(kernel))

    def back(self, at: Declared) -> Move:
        return ShareBuffer(self.buffer, self.other)

    @classmethod
    def listed(cls, at: Declared) -> Arguments:
        uses = list(_accesses_by_statement(at))
        number = sum(own for _, _, own in uses)
        starts = [(first, own) for first, is_start, own in uses if first and is_start]
        name = BufferName(fresh_name(at.kernel, f"{at.place}_own")) if starts else ""
        count = len(at.kernel.buffers)
        return ((name, count, (first, *range(first + own, number))) for first, own in starts)

    @classmethod
    def more(cls, at: Declared, machine: Machine) -> Arguments:
        """Any of the stretches between two assignments, and several one after another; declared anywhere."""
        parts: list[list[int]] = [[]]
        for first, starts, own in _accesses_by_statement(at):
            if starts:  # what the statement reads is of the stretch before
                parts[-1] += range(first + 1, first + own)
                parts.append([first])
            else:
                parts[-1] += range(first, first + own)
        parts = [part for part in parts if part]
        name = BufferName(fresh_name(at.kernel, f"{at.place}_own"))
        for begin, end in combinations(range(len(parts) + 1), 2):
            chosen = tuple(sorted(n for part in parts[begin:end] for n in part))
            if end - begin < len(parts):
                for position in range(len(at.kernel.buffers) + 1):
                    yield name, position, chosen


def _accesses_by_statement(at: Declared) -> Iterator[tuple[int, bool, int]]:
    """For each statement, the number of its first access of a buffer, whether it assigns the buffer, and how many
    accesses of it there are."""
    number = 0
    for site in at.kernel.sites:
        own = [a.buffer for a in site.statement.accesses].count(at.place)
        yield number, site.statement.target.buffer == at.place and not site.statement.accumulation, own
        number += own


Renaming = Callable[[str, int], str]
"""The new name of a buffer, given its present name and the number of the access."""


def _renamed(nodes: tuple[Node, ...], new: Renaming, only: str | None = None) -> tuple[tuple[Node, ...], int]:
    """A tree with its accesses renamed, those of one buffer if `only` is given, and how many these were."""
    count = 0

    def rename(access: Access) -> Access:
        nonlocal count
        if only is not None and access.buffer != only:
            return access
        count += 1
        name = new(access.buffer, count - 1)
        return access if name == access.buffer else replace(access, buffer=name, loc=None)

    return tuple(map_accesses(node, rename) for node in nodes), count


def _names(nodes: tuple[Node, ...]) -> list[str]:
    """The buffer of each access, in the order in which `_renamed` numbers them."""
    return [access.buffer for node in nodes for access in accesses_of(node)]
