"""Refusals that one iteration at small sizes shows: no isl.

Sizes are tried that are all equal, and the first iteration of the scopes around. What is said to go wrong there
does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Access, Buffer, Extent, Guard, Kernel, Node, Path, Scope, Site, holds
from dojoir.ir.paths import is_inside
from dojoir.ir.places import is_uniform
from dojoir.proof.certificate import InstanceMap, identity
from dojoir.proof.core.independence import private_buffers
from dojoir.proof.core.written import comes_and_goes
from dojoir.proof.difference import Change, change_of
from dojoir.sets.kernel_sets import sets_of

Sizes = Mapping[str, int]

MOST_TRIED = 256
"""The number of iterations that are tried in search of the last one that gives an element."""


def runs_otherwise(before: Kernel, after: Kernel, instances: InstanceMap, change: Change) -> bool:
    """Whether a scope that got another extent, and nothing else, runs another number of iterations somewhere."""
    match change.old, change.new:
        case (Scope() as old,), (Scope() as new,) if old.body == new.body and instances == identity(before):
            sites = [before.sites[k] for k in change.were]
            return any(_differs(old, new, change, sites, sizes) for sizes in sets_of(before).some_sizes)
    return False


def _differs(old: Scope, new: Scope, change: Change, sites: Sequence[Site], sizes: Sizes) -> bool:
    at = (0,) * change.depth
    if not _scopes_run(change.around, sizes, at):
        return False
    counts = _count(old.extent, sizes, at), _count(new.extent, sizes, at)
    inside = len(change.around) + 1
    return counts[0] != counts[1] and any(
        _scopes_run(site.ancestors, sizes, (*at, min(counts)), inside) for site in sites
    )


def leaves_its_domain(before: Kernel, after: Kernel, instances: InstanceMap, change: Change) -> bool:
    """Whether the first or the last iteration of a statement surely stands for one that did not run. Or, where it
    has the iterators that it had and no other stands for it, it no longer runs in the one in which it did."""
    same = identity(before).origins
    counts = Counter(origin.site for origin in instances.origins if origin is not None)
    for sizes in sets_of(before).some_sizes[-2:]:
        for number in change.are:
            origin, new = instances.origins[number], after.sites[number]
            if origin is None:
                continue
            old = before.sites[origin.site]
            for at in (_corner(new, sizes, last) for last in (False, True)):
                if at is not None and not runs_at(old, sizes, _evaluated(origin.iterators, sizes, at)):
                    return True
            alone = counts[origin.site] == 1 and len(new.scopes) == len(old.scopes)
            if alone and origin == same[origin.site]:
                for at in (_corner(old, sizes, last) for last in (False, True)):
                    if at is not None and not runs_at(new, sizes, at):
                        return True
    return False


def _evaluated(values: Sequence[Affine], sizes: Sizes, at: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(value.evaluate(sizes, at) for value in values)


def _corner(site: Site, sizes: Sizes, last: bool) -> tuple[int, ...] | None:
    """The first iteration of a statement, or the last one in each scope; None where that does not run."""
    at: tuple[int, ...] = ()
    for node in site.ancestors:
        if isinstance(node, Guard):
            if not all(holds(condition, sizes, at) for condition in node.conditions):
                return None
        else:
            count = _count(node.extent, sizes, at)
            if count == 0:
                return None
            at = (*at, count - 1 if last else 0)
    return at


def runs_at(site: Site, sizes: Sizes, at: tuple[int, ...]) -> bool:
    """Whether a statement runs in an iteration."""
    depth = 0
    for node in site.ancestors:
        if isinstance(node, Guard):
            if not all(holds(condition, sizes, at) for condition in node.conditions):
                return False
        else:
            if not 0 <= at[depth] < _count(node.extent, sizes, at):
                return False
            depth += 1
    return True


def loses_its_value(before: Kernel, instances: InstanceMap, change: Change) -> bool:
    """Whether a scope was distributed, and the first of its iterations would read what the second one wrote: an
    element of a buffer without the iterator of the scope, written in the first part alone."""
    match change.old, change.new:
        case (Scope() as old,), (Scope() as first, Scope() as second):
            if first.body + second.body != old.body or {first.extent, second.extent} != {old.extent}:
                return False
        case _:
            return False
    if instances != identity(before):
        return False
    level = len(change.around)
    early = [k for k in change.were if before.sites[k].path[level + 1] < len(first.body)]
    late = [k for k in change.were if k not in early]
    return any(
        _is_overwritten(before, change, before.sites[w], before.sites[r], read.access)
        for w in early
        for r in late
        for read in sets_of(before).reads[r]
        if read.access.buffer == before.sites[w].statement.target.buffer
    )


def _is_overwritten(kernel: Kernel, change: Change, writer: Site, reader: Site, read: Access) -> bool:
    """Whether the first iteration reads what the writer, the only one, wrote in it; which the second one's
    overwrites."""
    name, depth, level = read.buffer, change.depth, len(change.around) + 1
    writers = [k for k, site in enumerate(kernel.sites) if site.statement.target.buffer == name]
    extents = [node.extent for node in writer.ancestors[level:] if isinstance(node, Scope)]
    varies = any(depth in _iterators_in(a) for a in (read, writer.statement.target)) or any(
        depth in bound.iterators for extent in extents for bound in extent.bounds
    )
    plain = writer.statement.accumulation is None and len(writers) == 1
    if varies or not plain or any(isinstance(node, Guard) for node in writer.ancestors[level:]):
        return False
    return comes_and_goes(kernel, kernel.buffer(name)) and any(
        _scopes_run(reader.ancestors, sizes, (0,) * len(reader.scopes))
        and _count(reader.scopes[depth].extent, sizes, (0,) * depth) > 1
        for sizes in sets_of(kernel).some_sizes
    )


def reads_first(after: Kernel, instances: InstanceMap, change: Change) -> bool:
    """Whether something that the change writes, or reads by a statement that is new, is surely read, or added to,
    before anything assigns it. The first statement that touches it in the text does, and its first iteration
    runs."""
    new = (after.sites[k].statement for k in change.are if instances.origins[k] is None)
    names = {after.sites[k].statement.target.buffer for k in change.are}.union(*(s.buffers_read for s in new))
    for name in names:
        if after.buffer(name).role in {"tmp", "out"}:
            first = after.sites[after.users[name][0]]
            assigns = first.statement.accumulation is None and name not in first.statement.buffers_read
            at = (0,) * len(first.scopes)
            if not assigns and any(runs_at(first, sizes, at) for sizes in sets_of(after).some_sizes):
                return True
    return False


def shares_too_much(before: Kernel, after: Kernel) -> bool:
    """Whether a dimension that got collapsed is written from end to end before its first element is read: by the
    only writer, in scopes of its own."""
    for old, new in zip(before.buffers, after.buffers, strict=True):
        writers = [before.sites[k] for k in before.users.get(old.name, ())]
        writers = [site for site in writers if site.statement.target.buffer == old.name]
        same = (old.name, len(old.dims)) == (new.name, len(new.dims))
        if not same or old.dims == new.dims or len(writers) != 1:
            continue
        here = comes_and_goes(before, old)
        for dim in range(len(old.dims)):
            if new.dims[dim].collapsed and not old.dims[dim].collapsed:
                reads = ((before.sites[k], r.access) for k, own in enumerate(sets_of(before).reads) for r in own)
                mine = [(site, access) for site, access in reads if access.buffer == old.name]
                if any(_reads_too_late(before, new, dim, writers[0], *read, here=here) for read in mine):
                    return True
    return False


def _reads_too_late(
    kernel: Kernel, buffer: Buffer, dim: int, writer: Site, reader: Site, read: Access, *, here: bool
) -> bool:
    """Whether the first iteration reads index 0 of a dimension after the writer, last of all, wrote another one.

    It covers what is read, in scopes of its own. `here` says that it does so in the same iteration of those that
    both share; where they share none, the value of a temporary is from nowhere else. Of the iterations that write
    the elements with the other indices that are read, the last one is that in which each iterator is the largest
    for which these are those."""
    if writer.path == reader.path:
        return False
    level = next(n for n, pair in enumerate(zip(writer.path, reader.path, strict=False)) if len(set(pair)) > 1)
    mine = writer.ancestors[level:]
    depth = sum(isinstance(node, Scope) for node in writer.ancestors[:level])
    index, wanted = writer.statement.target.indices[dim], read.indices[dim]
    assert isinstance(index, Affine)
    own = bool(index.iterators) and min(index.iterators) >= depth
    square = not any(
        d >= depth for scope in writer.scopes[depth:] for b in scope.extent.bounds for d in b.iterators
    )
    if not own or not square or any(isinstance(node, Guard) for node in mine) or isinstance(wanted, Access):
        return False
    if not here and not (level == 0 and buffer.role == "tmp" and writer.path < reader.path):
        return False
    others = [
        (given, asked)
        for n, (given, asked) in enumerate(zip(writer.statement.target.indices, read.indices, strict=True))
        if n != dim and not buffer.dims[n].collapsed and isinstance(given, Affine)
    ]
    others = [pair for pair in others if not index.iterators.isdisjoint(pair[0].iterators)]
    along = index.iterators.union(*(given.iterators for given, _ in others)) if others else frozenset()
    asked = [index for _, index in others if isinstance(index, Affine)]
    if len(along) > 1 or len(asked) < len(others):
        return False

    def last(sizes: Sizes) -> tuple[int, ...] | None:
        """The last iteration of the writer that gives the element, whatever its index in the dimension."""
        first = (0,) * depth
        at = [*first, *(_count(scope.extent, sizes, first) - 1 for scope in writer.scopes[depth:])]
        start = (0,) * len(reader.scopes)
        for d in along:
            tried = range(at[d], max(at[d] - MOST_TRIED, -1), -1)
            its = [index.evaluate(sizes, start) for index in asked]
            at[d] = next((v for v in tried if [g.evaluate(sizes, (*at[:d], v)) for g, _ in others] == its), -1)
        return None if min(at) < 0 else tuple(at)

    return any(
        _scopes_run(reader.ancestors, sizes, (0,) * len(reader.scopes))
        and wanted.evaluate(sizes, (0,) * len(reader.scopes)) == 0
        and (at := last(sizes)) is not None
        and index.evaluate(sizes, at) > 0
        for sizes in sets_of(kernel).some_sizes
    )


def _iterators_in(access: Access) -> set[int]:
    found: set[int] = set()
    for index in access.indices:
        found |= _iterators_in(index) if isinstance(index, Access) else index.iterators
    return found


def _count(extent: Extent, sizes: Sizes, at: tuple[int, ...]) -> int:
    return max(0, min(bound.evaluate(sizes, at) for bound in extent.bounds))


def _scopes_run(around: Sequence[Node], sizes: Sizes, at: tuple[int, ...], start: int = 0) -> bool:
    """Whether the iteration `at` of some scopes runs, the rest of its iterators being 0; those before `start` are
    known to."""
    depth = sum(isinstance(node, Scope) for node in around[:start])
    iteration = at + (0,) * sum(isinstance(node, Scope) for node in around)
    for node in around[start:]:
        if isinstance(node, Guard):
            if not all(holds(condition, sizes, iteration) for condition in node.conditions):
                return False
        elif isinstance(node, Scope):
            if _count(node.extent, sizes, iteration) <= iteration[depth]:
                return False
            depth += 1
    return True


def write_one_element(kernel: Kernel, path: Path, mark: str) -> bool:
    """Whether a statement surely runs in the first two iterations of the scope at `path` and writes one element in
    both, of a buffer that is not each iteration's own."""
    depth, private = kernel.depth_of(path), private_buffers(kernel, path, mark)
    for site in kernel.sites:
        target = site.statement.target
        if site.statement.apart is not None:
            continue  # no two instances change one element
        if is_inside(site.path, path) and target.buffer not in private and is_uniform(kernel, target, depth):
            first = (0,) * len(site.scopes)
            second = (*first[:depth], 1, *first[depth + 1 :])
            if any(all(runs_at(site, sizes, at) for at in (first, second)) for sizes in sets_of(kernel).some_sizes):
                return True
    return False


def differs_somewhere(before: Kernel, after: Kernel, instances: InstanceMap) -> bool:
    """Whether one iteration surely shows that the kernel after does not mean what the one before means: no isl."""
    if instances.inlined:
        return False
    change = change_of(before, after, instances)
    if change is None:
        return False
    if instances.extracted or before.buffers != after.buffers:
        return reads_first(after, instances, change)
    return (
        runs_otherwise(before, after, instances, change)
        or loses_its_value(before, instances, change)
        or leaves_its_domain(before, after, instances, change)
        or reads_first(after, instances, change)
    )
