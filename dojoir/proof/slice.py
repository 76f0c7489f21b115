"""The part of two kernels that decides whether they mean the same.

Where a change is all that tells two kernels apart (`dojoir.proof.difference`), most statements have nothing to do
with it. A slice keeps those of the change and those that share with it what it may make differ, within the
*window*. The children of the two kernels that hold the change, and the definitions that were inlined or extracted.
What an answer about the slice says of the kernels follows from these steps.

- Of the window, both kernels have the same statements around the change. Each stands for itself and is in order to
  the change, in one iteration of the scopes around it, as it was.
- A buffer that the change writes has all its users of the window in the slice: through it, values go there as they
  do in the kernels. What it has when the window begins, no part of the slice gave: it is given (`inout`), or has no
  value (`out`) where nothing before the window touches it. Two of its
  elements were never given by the same write, so that reads get the same value if and only if they read the same
  element. What it has in the end, it returns; if each element is what it was, nothing after the window differs.
- A buffer that the change only reads has the same values at the same times. If each statement there stands for one
  that was there, and none was lost, then each read must get what it got, which is to read the same element: the
  buffer is given. Otherwise copies may carry values from one time to another. Then the writers of the buffer in the
  window are in the slice; if it has none, it does not vary while the window runs.
- A buffer that the change does not touch has the same users at the same times: it is given.
- A temporary all users of which are in the slice stays one. So does, there alone, a dimension that has no storage.

So a slice whose kernels mean the same makes the kernels mean the same, and what its new kernel reads there has been
written, except for what statements read that stand for nothing, of buffers that are given there and were not to the
kernel. `filled` names these, and of them it must be asked. Where the kernels of the slice differ, the kernels do,
unless only the last values of a buffer in `held` tell them apart: nothing may come to read these.

Kernels that differ elsewhere have the same slice. Marks, labels and hints are not in it, and all names but those of
buffers and sizes are the same.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import lru_cache
from typing import ClassVar

from dojoir.ir.nodes import Buffer, Commuting, Dim, Guard, Kernel, Node, Scope, Statement
from dojoir.proof.certificate import InstanceMap, Origin, Substitution
from dojoir.proof.difference import Change
from dojoir.support.frozen import dataclass, hash_once
from dojoir.support.memo import charge

STEPS = 4
"""The steps charged for a statement in the search for a slice."""


@hash_once
@dataclass(frozen=True)
class Slice:
    """A question about two small kernels whose answer is that about two large ones.

    `before`, `after` and `instances` are a claim of their own: the statements that a change may make differ, with
    the buffers that other statements fill made arguments. Three things the small claim does not show:

    - `filled`: buffers of the large kernel of which must be asked there whether all that is read was written;
    - `held`: buffers that the small kernels return, though the large one may never read their last values; a claim
      that fails because of these alone says nothing (see `loose`);
    - `begun`: buffers that the change writes and that are arguments in the small kernels only: a read whose value
      is not used might see an element there that was never written.
    """

    held_bytes: ClassVar[int] = 20_000
    """Approximate size of one: two kernels."""

    before: Kernel
    after: Kernel
    instances: InstanceMap
    filled: tuple[str, ...]
    held: frozenset[str]
    begun: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[Kernel, Kernel, InstanceMap]:
        """The kernels and the certificate."""
        return self.before, self.after, self.instances

    def loose(self) -> Slice:
        """The same question without the last values of the buffers in `held`, to tell whether a claim fails because
        of these alone. A buffer that was `inout` is `in` then, and written all the same: only what does not ask for
        that may be asked of it."""
        return replace(
            self,
            before=_loose(self.before, self.held),
            after=_loose(self.after, self.held),
            held=frozenset(),
        )


def slice_of(before: Kernel, after: Kernel, instances: InstanceMap, change: Change) -> Slice | None:
    """The slice of a change, or None where there is none but the whole."""
    window = _Window(before, after, instances, change)
    return window.slice()


def users_slice(before: Kernel, after: Kernel, names: Collection[str]) -> tuple[Kernel, Kernel]:
    """The part of two kernels that is to be compared where they differ in some buffers alone: in their storage, or
    in which of them an access names. It has the users of these buffers, and what they share with other statements
    as `inout` arguments.

    Where only the storage of these buffers differs, or which of them an access names, the kernels mean the same if
    and only if these do. Every access of a buffer in `names` is here, in the same order, so that each read gets
    what it gets in the whole. Every other access is the same in both."""
    numbers = sorted({k for kernel in (before, after) for name in names for k in kernel.users.get(name, ())})
    used = _used(kernel.sites[k].statement for kernel in (before, after) for k in numbers)

    def part(kernel: Kernel) -> Kernel:
        declared = (b for b in kernel.buffers if b.name in used or b.name in names)
        return _kernel(
            kernel, tuple(b if b.name in names else _without_storage(b, "inout") for b in declared), numbers
        )

    return part(before), part(after)


class _Window:
    """Finds the slice of a change: which statements around it are to be kept, and as what their buffers are to be
    declared. Statements behind the change have a number in the new kernel that is larger by `shift`."""

    def __init__(self, before: Kernel, after: Kernel, instances: InstanceMap, change: Change) -> None:
        self.before, self.after, self.instances, self.change = before, after, instances, change
        self.shift = len(change.are) - len(change.were)
        self.defined = {n for step in instances.inlined for n in (step.site, step.definition)}
        self.defining = {n for step in instances.extracted for n in (step.site, step.definition)}
        self.named = self.defined | {self._earlier(n) for n in self.defining if n not in change.are}
        old = [before.sites[k].statement for k in {*change.were, *self.defined}]
        new = [after.sites[k].statement for k in {*change.are, *self.defining}]
        self.written = {before.sites[k].statement.target.buffer for k in change.were}
        self.written |= {after.sites[k].statement.target.buffer for k in change.are}
        self.read = {name for statement in (*old, *new) for name in statement.buffers_read}
        self.touched = self.read | {statement.target.buffer for statement in (*old, *new)}

    def _earlier(self, number: int) -> int:
        """The number in the old kernel of a statement outside of the change."""
        return number if number < self.change.are.start else number - self.shift

    def _later(self, number: int) -> int:
        return number if number < self.change.were.start else number + self.shift

    def _reach(self) -> range:
        """The old numbers of the statements in the window."""
        sites, change = self.before.sites, self.change
        numbers = [*self.named, *change.were]
        if change.place:
            tops = {change.place[0], *(sites[k].path[0] for k in numbers)}
            first, last = min(tops), max(tops)
            return range(sum(site.path[0] < first for site in sites), sum(site.path[0] <= last for site in sites))
        tops = {sites[k].path[0] for k in self.named}
        first = sum(site.path[0] < min(tops, default=len(sites)) for site in sites)
        last = sum(site.path[0] <= max(tops, default=-1) for site in sites)
        return range(min(first, change.were.start), max(last, change.were.stop))

    def _stands(self) -> bool:
        """Whether each statement of the change stands for one that was there, and none is lost."""
        change, instances = self.change, self.instances
        origins = instances.origins[change.are.start : change.are.stop]
        kept = {origin.site for origin in origins if origin is not None}
        return not (instances.inlined or instances.extracted) and None not in origins and kept == set(change.were)

    def slice(self) -> Slice | None:
        sites, change = self.before.sites, self.change
        charge(STEPS * len(sites))
        reach = self._reach()
        rest = [k for k in reach if k not in change.were]
        given = set() if self._stands() else self.read - self.written

        def stays(number: int) -> bool:
            statement = sites[number].statement
            shares = statement.target.buffer in self.written or not statement.buffers_read.isdisjoint(self.written)
            return shares or statement.target.buffer in given or number in self.named

        outside = [k for k in rest if stays(k)]
        old = sorted({*change.were, *outside})
        new = sorted({*change.are, *map(self._later, outside)})
        kept = set(old)
        mine = [sites[k].statement for k in old], [self.after.sites[k].statement for k in new]
        others = [site.statement for k, site in enumerate(sites) if k not in kept]
        if any(self._mixes(statements, others) for statements in mine) or not self._declared(*mine, others):
            return None
        earlier = _used(site.statement for k, site in enumerate(sites[: reach.start]) if k not in kept)
        buffers = self._buffers(*mine, _used(others), earlier)
        if buffers is None:
            return None
        befores, afters, held = buffers
        roles = {buffer.name: buffer.role for buffer in afters}
        kernels = _kernel(self.before, befores, old), _kernel(self.after, afters, new)
        begun = (b.name for b in self.after.buffers if b.name in self.written and b.role in {"tmp", "out"})
        given_there = tuple(name for name in begun if roles.get(name) in {"in", "inout"})
        return Slice(*kernels, self._renumbered(old, new), self._filled(roles), held, given_there)

    def _mixes(self, mine: list[Statement], others: list[Statement]) -> bool:
        """Whether several operators accumulate into a buffer that the change touches, but not in the slice."""
        for name in self.touched:
            here = _operators(mine, name)
            if len(here) < 2 <= len(here | _operators(others, name)):
                return True
        return False

    def _declared(self, old: list[Statement], new: list[Statement], others: list[Statement]) -> bool:
        """Whether the kernels declare alike what the slice leaves out."""
        if self.before.buffers == self.after.buffers:
            return True
        elsewhere, used = _used(others), _used(old) | _used(new)
        were = {buffer.name: _without_storage(buffer, "tmp") for buffer in self.before.buffers}
        are = {buffer.name: _without_storage(buffer, "tmp") for buffer in self.after.buffers}
        return all(
            (name in used and name not in elsewhere) or were.get(name) == are.get(name) for name in {*were, *are}
        )

    def _buffers(
        self, old: list[Statement], new: list[Statement], elsewhere: set[str], earlier: set[str]
    ) -> tuple[tuple[Buffer, ...], tuple[Buffer, ...], frozenset[str]] | None:
        """The buffers of both kernels of the slice, with these statements, and those whose last values may never be
        read. None where a buffer cannot be given."""
        written = {statement.target.buffer for statement in (*old, *new)}
        held: set[str] = set()
        found: list[tuple[Buffer, ...]] = []
        used = _used(old) | _used(new)  # what is no longer written is returned all the same
        for kernel in (self.before, self.after):
            mine: list[Buffer] = []
            for buffer in kernel.buffers:
                if buffer.name not in used:
                    continue
                if buffer.role == "tmp" and buffer.name not in elsewhere:
                    mine.append(_without_storage(buffer, "tmp"))
                    continue
                if buffer.name in self.touched and any(dim.collapsed for dim in buffer.dims):
                    return None
                begins = (
                    buffer.name in self.written and buffer.name not in earlier and buffer.role in {"tmp", "out"}
                )
                mine.append(
                    _without_storage(buffer, "out" if begins else "inout" if buffer.name in written else "in")
                )
                if buffer.name in self.written and buffer.name in elsewhere:
                    held.add(buffer.name)
            found.append(tuple(mine))
        both = {buffer.name: buffer for buffer in found[0]}
        if any(both.get(b.name, b) != b and (b.role, both[b.name].role) != ("tmp", "tmp") for b in found[1]):
            return None
        return found[0], found[1], frozenset(held)

    def _filled(self, roles: dict[str, str]) -> tuple[str, ...]:
        """The buffers that are given in the slice, and were not to the kernel, which statements read that stand for
        nothing."""
        names: set[str] = set()
        for k in self.change.are:
            statement = self.after.sites[k].statement
            if self.instances.origins[k] is None:
                names |= statement.buffers_read
                names |= {statement.target.buffer} if statement.accumulation is not None else set()
        return tuple(
            buffer.name
            for buffer in self.after.buffers
            if buffer.name in names and buffer.role in {"tmp", "out"} and roles[buffer.name] in {"in", "inout"}
        )

    def _renumbered(self, old: list[int], new: list[int]) -> InstanceMap:
        were, are = {k: n for n, k in enumerate(old)}, {k: n for n, k in enumerate(new)}
        origins = (self.instances.origins[k] for k in new)

        def steps(given: tuple[Substitution, ...], numbers: dict[int, int]) -> tuple[Substitution, ...]:
            return tuple(
                Substitution(numbers[s.site], s.ordinal, numbers[s.definition], s.iterators) for s in given
            )

        return InstanceMap(
            tuple(o if o is None else Origin(were[o.site], o.iterators) for o in origins),
            steps(self.instances.inlined, were),
            steps(self.instances.extracted, are),
        )


def _used(statements: Iterable[Statement]) -> set[str]:
    """The buffers that some statements touch."""
    return {name for statement in statements for name in (statement.target.buffer, *statement.buffers_read)}


def _operators(statements: Iterable[Statement], buffer: str) -> set[Commuting | None]:
    """How some statements accumulate into a buffer."""
    return {s.commuting for s in statements if s.accumulation is not None and s.target.buffer == buffer}


@lru_cache(maxsize=1024)
def _without_storage(buffer: Buffer, role: str) -> Buffer:
    """A buffer with nothing that says where it is stored, in another role."""
    dims = buffer.dims if role == "tmp" else tuple(Dim(dim.extent) for dim in buffer.dims)
    return Buffer(role, buffer.name, buffer.dtype, dims)


def _loose(kernel: Kernel, names: Collection[str]) -> Kernel:
    roles = {"inout": "in", "out": "tmp"}
    return kernel.evolve(
        buffers=tuple(_without_storage(b, roles[b.role]) if b.name in names else b for b in kernel.buffers)
    )


def _kernel(kernel: Kernel, buffers: tuple[Buffer, ...], numbers: list[int]) -> Kernel:
    """A kernel with some buffers and statements of another one."""
    body, _ = _kept(kernel.body, 0, sorted(set(numbers)))
    return Kernel("slice", kernel.sizes, buffers, body, kernel.facts, kernel.fp)


def _kept(nodes: tuple[Node, ...], first: int, numbers: list[int]) -> tuple[tuple[Node, ...], int]:
    """The rest of some nodes with only the statements of these numbers, which ascend, and without marks and hints.
    The first of them has the number `first`; the number after their last one is given back."""
    kept: list[Node] = []
    for node in nodes:
        end = first + (1 if isinstance(node, Statement) else len(node.inner))
        asked = bisect_left(numbers, end) - bisect_left(numbers, first)
        if not asked or (asked == end - first and (isinstance(node, Statement) or not node.marked)):
            kept += [node] * bool(asked)
            first = end
            continue
        assert not isinstance(node, Statement)
        body, first = _kept(node.body, first, numbers)
        if not body:
            continue
        if isinstance(node, Guard):
            kept.append(node if body is node.body else Guard(node.conditions, body))
        else:
            plain = body is node.body and not node.marks and not node.hints
            kept.append(node if plain else Scope(node.extent, body))
    same = len(kept) == len(nodes) and all(a is b for a, b in zip(kept, nodes, strict=True))
    return (nodes if same else tuple(kept)), first
