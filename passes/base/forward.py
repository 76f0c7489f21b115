"""Where a rewrite leaves each place: from the instance map that it hands to the checker, so moves need not say it.

A statement is where those are that stand for it. A scope is where its iterator is: in each new statement, an old
iterator is an expression in the new ones; it is the scope of one of them, if it is just that one, else the
outermost of those that it is made of and no other iterator is (the outer of two that a split gives). A guard is
where the statements inside of it have the same conditions, in new iterators. What has no such place is gone.

None of this is proved or trusted: it says where to look, and a move that is made there is checked as any other.
"""

from __future__ import annotations

from collections.abc import Iterator

from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Kernel, Path, Scope, Site, Statement, substitute_condition
from dojoir.ir.paths import is_inside
from dojoir.ir.places import siblings
from dojoir.proof.certificate import InstanceMap, Origin
from dojoir.proof.difference import difference_of


def forward(before: Kernel, after: Kernel, instances: InstanceMap, path: Path) -> tuple[Path, ...]:
    """The paths, in the order of the text, at which the node at `path` of the kernel before is in the one after:
    none where it is gone, several where it was copied or cut."""
    if instances.rule is not None:
        return _beside(before, after, path)
    node = before.at(path)
    found: dict[Path, None] = {}
    for old, new, origin in _images(before, after, instances):
        if not is_inside(old.path, path):
            continue
        if isinstance(node, Statement):
            found[new.path] = None
            continue
        level = len(path) - 1
        if isinstance(node, Scope):
            depth = sum(isinstance(outer, Scope) for outer in old.ancestors[:level])
            place = _scope(old, new, origin, depth, instances.backward)
        else:
            place = _guard(old, new, origin, level, instances.backward)
        if place is not None:
            found[place] = None
    return tuple(sorted(found))


def _images(before: Kernel, after: Kernel, instances: InstanceMap) -> Iterator[tuple[Site, Site, Origin]]:
    """Each statement of the kernel before with one of the kernel after that it is, and the entry that says so."""
    for k, origin in enumerate(instances.origins):
        if origin is not None:
            mine, its = (k, origin.site) if instances.backward else (origin.site, k)
            yield before.sites[mine], after.sites[its], origin


def _scope(old: Site, new: Site, origin: Origin, depth: int, backward: bool) -> Path | None:
    """The scope around a new statement that is the one of a depth around the old one."""
    count = len(old.scopes)
    made_of: list[set[int]] = [set() for _ in range(count)]
    exact: dict[int, int] = {}
    for d, value in enumerate(origin.iterators):
        for other in value.iterators:
            mine, its = (other, d) if backward else (d, other)
            made_of[mine].add(its)
            if value == Affine.iterator(other):
                exact.setdefault(mine, its)
    if depth in exact:
        return _path_of(new, exact[depth])
    taken = set(exact.values())
    own = made_of[depth] - taken or made_of[depth]
    return _path_of(new, min(own)) if own else None


def _path_of(site: Site, depth: int) -> Path:
    """The path of the scope of a depth around a statement."""
    levels = [level for level, node in enumerate(site.ancestors) if isinstance(node, Scope)]
    return site.path[: levels[depth] + 1]


def _guard(old: Site, new: Site, origin: Origin, level: int, backward: bool) -> Path | None:
    """The guard around a new statement that has the conditions of the one at a level around the old one."""
    guard = old.ancestors[level]
    assert not isinstance(guard, Scope)
    for at, node in enumerate(new.ancestors):
        if isinstance(node, Scope):
            continue
        one, other = (node, guard) if backward else (guard, node)
        if tuple(substitute_condition(c, origin.replace) for c in one.conditions) == other.conditions:
            return new.path[: at + 1]
    return None


def _beside(before: Kernel, after: Kernel, path: Path) -> tuple[Path, ...]:
    """The same where all that is known is which part of the text changed: what is around it or beside it stays."""
    change = difference_of(before, after)
    place = change.place
    if not is_inside(path, place) or path == place:
        return (path,)
    number = path[len(place)]
    old, new = (siblings(kernel, (*place, 0)) for kernel in (before, after))
    start = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    if number < start:
        return (path,)
    if number < start + len(change.old):
        return ()
    return ((*place, number + len(change.new) - len(change.old), *path[len(place) + 1 :]),)
