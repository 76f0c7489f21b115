"""Proves that every element is written before it is read, that outputs are written completely, and that no
collapsed dimension changes the value of a read.

A read is covered if some plain assignment to its element runs before it: an accumulation needs a value to begin
with. Arguments that a call passes in (`in`, `inout`) have theirs.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence

import islpy as isl

from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Access, Buffer, Guard, Kernel, Path, Scope, Site
from dojoir.ir.paths import is_inside
from dojoir.proof.facts.spanning import Bounds, counts_to, digits_of, unblocked
from dojoir.sets.flow import Users, flow_of
from dojoir.sets.kernel_sets import KernelSets, Read, sets_of
from dojoir.sets.ranges import is_nonnegative
from dojoir.support.frozen import dataclass
from dojoir.support.memo import Memo


@dataclass(frozen=True)
class ElementRead:
    """A read of an element: the value of statement `number` reads it, or, where `read` is None, that statement
    accumulates into it."""

    sets: KernelSets
    number: int
    access: Access
    site: Site
    read: Read | None

    @property
    def own(self) -> bool:
        """Whether this is the read of its own target by an accumulation."""
        return self.read is None

    @property
    def name(self) -> str:
        """Its tuple in isl."""
        return f"t{self.number}" if self.read is None else self.read.name

    @property
    def text(self) -> str:
        """Its access as a map to logical elements."""
        if self.read is None:
            return self.sets.write_text(self.number, storage=False, name="t")
        return self.sets.read_text(self.read, storage=False)

    @property
    def time(self) -> str:
        """Its schedule (see `dojoir.sets`)."""
        if self.read is None:
            return self.sets.schedule_text(self.number, name="t")
        return self.sets.schedule_text(self.number, self.read)


@dataclass(frozen=True)
class ReadBeforeWrite:
    """A use of a buffer reads, in the iterations of `wrong`, elements that nothing has assigned before."""

    kernel: Kernel
    buffer: Buffer
    use: ElementRead
    wrong: isl.UnionMap


@dataclass(frozen=True)
class UnwrittenOutput:
    """The elements of an output that nothing assigns, as the range of `missing`."""

    kernel: Kernel
    buffer: Buffer
    missing: isl.UnionMap


@dataclass(frozen=True)
class SharedStorage:
    """Writes to the reads, by the names of `uses`, that would get their values though they are of other elements,
    with which theirs share storage."""

    kernel: Kernel
    buffer: Buffer
    uses: Mapping[str, ElementRead]
    wrong: isl.UnionMap


Unwritten = ReadBeforeWrite | UnwrittenOutput | SharedStorage


def prove_written(
    kernel: Kernel, outputs: bool = True, known: Container[str] = ()
) -> ReadBeforeWrite | UnwrittenOutput | None:
    """The first read of an element that nothing has assigned yet, or an output that is not wholly assigned, if
    that is asked of `outputs`. Of the buffers `known` it is known that neither happens.

    Every index must be in bounds. Raises isl.Error past the limit of `dojoir.sets.limits.limited`.
    """
    for buffer in kernel.buffers:
        if buffer.role in {"in", "inout"} or buffer.name in known:
            continue
        wrong = find_unwritten(kernel, buffer)
        if wrong is not None:
            return ReadBeforeWrite(kernel, buffer, *wrong)
        writers = assigning(kernel, buffer)
        if outputs and buffer.role == "out" and not any(_covers(buffer, kernel.sites[w], None) for w in writers):
            found = _unwritten_output(kernel, buffer, writers)
            if found is not None:
                return found
    return None


def find_unwritten(kernel: Kernel, buffer: Buffer) -> tuple[ElementRead, isl.UnionMap] | None:
    """The first use of an element that nothing has assigned yet, and when it happens."""
    writers, sets = assigning(kernel, buffer), sets_of(kernel)
    written: tuple[isl.UnionMap, isl.UnionMap] | None = None
    for use in _unseen(kernel, buffer, writers):
        question = _question(kernel, use, writers)
        if _assigned_before.get(question):
            continue
        if written is None:
            written = (
                sets.map(*(sets.write_text(k, storage=False) for k in writers)),
                sets.map(*map(sets.schedule_text, writers)),
            )
        writes, written_at = written
        # Each use by itself: what is kept of it is then charged what it alone took. Nothing is said here of
        # iterators out of range, nor of sizes that no call has: what is read does not.
        times = (time.gist_params(sets.parameters) for time in (sets.map(use.time), written_at))
        before = isl.UnionMap.lex_gt_union_map(*times)
        reads = sets.map(use.text)
        wrong = reads.subtract_domain(reads.apply_range(writes.reverse()).intersect(before).domain())
        if not wrong.is_empty():
            return use, wrong
        _assigned_before.put(question, True)
    return None


def is_seen_written(kernel: Kernel, buffer: Buffer) -> bool:
    """Whether the text or what is known says of every use that what it reads was assigned before."""
    writers = assigning(kernel, buffer)
    return all(_assigned_before.get(_question(kernel, use, writers)) for use in _unseen(kernel, buffer, writers))


def _unseen(kernel: Kernel, buffer: Buffer, writers: Sequence[int]) -> Iterator[ElementRead]:
    """The uses of which the text alone does not say that what they read was assigned before."""
    plain = [kernel.sites[k] for k in writers]
    return (use for use in _reads_of(kernel, buffer) if not any(_covers(buffer, w, use) for w in plain))


_Question = tuple[str, ...]

_assigned_before: Memo[_Question, bool] = Memo(2048)
"""The uses whose reads are known to be assigned before."""


def _question(kernel: Kernel, use: ElementRead, writers: Sequence[int]) -> _Question:
    """The facts that decide whether the elements that a use reads were assigned before, the names of statements
    being those of `dojoir.sets.flow.Users`: what it reads and when, and the same of the writers."""
    sets = sets_of(kernel)
    users = Users.among(sets, tuple(sorted({use.number, *writers})))
    times = (users.timed(k, sets.schedule_text(k)) for k in writers)
    writes = (users.named(sets.write_text(k, storage=False)) for k in writers)
    return (sets.sizes, users.named(use.text), users.timed(use.number, use.time), *writes, *times)


def assigning(kernel: Kernel, buffer: Buffer) -> list[int]:
    """The numbers of the statements that assign an element of a buffer, whatever it was."""
    return [k for k in _writes(kernel, buffer) if kernel.sites[k].statement.accumulation is None]


def prove_collapsed(kernel: Kernel, known: Container[str] = ()) -> SharedStorage | None:
    """A read that would get the value of another element because a dimension is collapsed, of a buffer that is not
    `known` to give none.

    Every read must be of a written element. Raises isl.Error past the limit of `dojoir.sets.limits.limited`.
    """
    for buffer in kernel.buffers:
        if buffer.name not in known and not keeps_elements_apart(kernel, buffer):
            found = _mixed_up(kernel, buffer, [use for use in _reads_of(kernel, buffer) if not use.own])
            if found is not None:
                return found
    return None


def keeps_elements_apart(kernel: Kernel, buffer: Buffer) -> bool:
    """Whether it is seen that collapsed dimensions of a buffer change nothing: every read gets what was written to
    that very element, though elements share storage. Every read must be of a written element."""
    if not any(dim.collapsed for dim in buffer.dims):
        return True
    return _one_at_a_time(kernel, buffer, [use for use in _reads_of(kernel, buffer) if not use.own])


def comes_and_goes(kernel: Kernel, buffer: Buffer) -> bool:
    """Whether no value of a buffer outlives the iteration in which it is used: each that is read was surely written
    in the same iteration of the scopes that its writer and its reader share. Seen without isl; no means only that
    it is not seen."""
    plain = [kernel.sites[k] for k in _writes(kernel, buffer) if kernel.sites[k].statement.accumulation is None]
    return all(any(_covers(buffer, writer, use) for writer in plain) for use in _reads_of(kernel, buffer))


def gives_itself(kernel: Kernel, buffer: Buffer, path: Path) -> bool:
    """Whether the node at `path` needs nothing of a buffer that was there before it: all that it reads of it was
    surely assigned in the same run of the node. Seen without isl; no means only that it is not seen."""

    def inside(site: Site) -> bool:
        return is_inside(site.path, path)

    plain = [kernel.sites[k] for k in assigning(kernel, buffer) if inside(kernel.sites[k])]
    uses = (use for use in _reads_of(kernel, buffer) if inside(use.site))
    return all(any(_covers(buffer, writer, use) for writer in plain) for use in uses)


def _writes(kernel: Kernel, buffer: Buffer) -> list[int]:
    """The numbers of the statements that write a buffer."""
    return [k for k, site in enumerate(kernel.sites) if site.statement.target.buffer == buffer.name]


def _reads_of(kernel: Kernel, buffer: Buffer) -> Iterator[ElementRead]:
    """The reads of a buffer, in the order of the text."""
    sets = sets_of(
        kernel
    )  # it may be that of an equal kernel with another source: accesses are taken from this one
    for number, site in enumerate(kernel.sites):
        for ordinal, access in enumerate(site.statement.term_reads):
            if access.buffer == buffer.name:
                yield ElementRead(sets, number, access, site, Read(number, ordinal, access))
        target = site.statement.target
        if site.statement.accumulation is not None and target.buffer == buffer.name:
            yield ElementRead(sets, number, target, site, None)


# -- what needs no isl ---------------------------------------------------------------------------------------
def _covers(buffer: Buffer, writer: Site, use: ElementRead | None) -> bool:
    """Whether a plain assignment surely assigns all that `use` reads (every element, for None), before it does
    and in the same iteration of the scopes they share.

    It does if it comes earlier in the text and, of the scopes that only it is in, each runs over the whole of one
    dimension, or runs at least once, or some run over whole dimensions together (`dojoir.proof.facts.spanning`). In
    the other dimensions its index is that of the read, or the only one.
    """
    shared = 0
    if use is not None:
        if writer.path >= use.site.path:
            return False
        shared = writer.shared_ancestors(use.site.path)
    if any(isinstance(node, Guard) for node in writer.ancestors[shared:]):
        return False
    outer = sum(isinstance(node, Scope) for node in writer.ancestors[:shared])
    around = writer.scopes[:outer]
    own = {depth: scope.extent.bounds for depth, scope in enumerate(writer.scopes[outer:], outer)}
    free, indices = unblocked(own, [i for i in writer.statement.target.indices if isinstance(i, Affine)])
    if any(depth >= outer for bounds in free.values() for b in bounds for depth in b.iterators):
        return False
    digits: list[tuple[Affine, Affine]] = []
    for dim, index in enumerate(indices):
        wanted = use.access.indices[dim] if use is not None else None
        if index == wanted and all(depth < outer for depth in index.iterators):
            continue
        extent = buffer.dims[dim].extent
        if extent == Affine.constant(1):
            continue  # there is one index that is in bounds
        spanning = next((depth for depth in free if index == Affine.iterator(depth)), None)
        if spanning is None:
            reach = counts_to(index, _single(free), around)
            if reach is None or not is_nonnegative(reach - extent, around):
                digits.append((index, extent))
                continue
            for depth in index.iterators:
                del free[depth]
            continue
        for bound in free.pop(spanning):
            reached = isinstance(wanted, Affine) and use and is_nonnegative(bound - 1 - wanted, use.site.scopes)
            if bound != extent and not reached:
                return False
    split = digits_of(digits, _single(free))
    if split is None:
        return False
    runs = (bound for depth, bounds in free.items() if depth not in split for bound in bounds)
    return all(is_nonnegative(bound - 1, around) for bound in runs)


def _single(free: Bounds) -> dict[int, Affine]:
    """The extents of those scopes that have one bound, by depth."""
    return {depth: bounds[0] for depth, bounds in free.items() if len(bounds) == 1}


def _one_at_a_time(kernel: Kernel, buffer: Buffer, uses: Sequence[ElementRead]) -> bool:
    """Whether each element that shares storage surely comes and goes within one iteration of the scopes that all
    its users share. They index the collapsed dimensions alike, with iterators of these scopes only, and each
    read is covered there."""
    writes = [kernel.sites[k] for k in _writes(kernel, buffer)]
    sites = [*writes, *(use.site for use in uses)]
    accesses = [*(site.statement.target for site in writes), *(use.access for use in uses)]
    others = [site for site in sites if site.path != sites[0].path]
    outer = min((sites[0].shared_scopes(site.path) for site in others), default=None)
    if outer is None:
        return False
    for dim, declared in enumerate(buffer.dims):
        if declared.collapsed:
            index = accesses[0].indices[dim]
            if not isinstance(index, Affine) or any(depth >= outer for depth in index.iterators):
                return False
            if any(access.indices[dim] != index for access in accesses):
                return False
    plain = [site for site in writes if site.statement.accumulation is None]
    return all(any(_covers(buffer, writer, use) for writer in plain) for use in uses)


# -- exactly -------------------------------------------------------------------------------------------------
def _unwritten_output(kernel: Kernel, buffer: Buffer, writers: Sequence[int]) -> UnwrittenOutput | None:
    sets = sets_of(kernel)
    written = sets.map(*(sets.write_text(k, storage=False) for k in writers)).range()
    missing = sets.map(sets.box_text(buffer, f"out_{buffer.name}")).subtract_range(written)
    return None if missing.is_empty() else UnwrittenOutput(kernel, buffer, missing)


def _mixed_up(kernel: Kernel, buffer: Buffer, uses: Sequence[ElementRead]) -> SharedStorage | None:
    """By the flow through storage: every source of a read must be a write to the very element it reads."""
    sets = sets_of(kernel)
    writes = _writes(kernel, buffer)
    sources = flow_of(sets, buffer.name).sources
    written = sets.map(*(sets.write_text(k, storage=False) for k in writes))
    same = written.apply_range(sets.map(*(use.text for use in uses)).reverse())
    wrong = sources.subtract(same)
    return None if wrong.is_empty() else SharedStorage(kernel, buffer, {use.name: use for use in uses}, wrong)
