"""Where a rewrite leaves each place: from the instance map that it hands to the checker, so moves need not say it.

A statement is where those are that stand for it. A scope is where its iterator is: in each new statement, an old
iterator is an expression in the new ones. It is the scope of one of them, if it is just that one, else the
one that keeps its label, or else the outermost, of those that it is made of and no other iterator is (the outer of
two that a split gives, the inner of two that a cyclic split gives to a scope with a label). A guard is
where the statements inside of it have the same conditions, in new iterators. What has no such place is gone.

None of this is proved or trusted: it says where to look, and a move that is made there is checked as any other.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cache

from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Guard, Kernel, Node, Path, Scope, Site, Statement, substitute_condition
from dojoir.ir.paths import is_inside
from dojoir.ir.places import siblings
from dojoir.proof.certificate import InstanceMap, Origin
from dojoir.proof.difference import difference_of
from dojoir.support.derived import once_for_each


def forward(before: Kernel, after: Kernel, instances: InstanceMap, path: Path) -> tuple[Path, ...]:
    """The paths, in the order of the text, at which the node at `path` of the kernel before is in the one after:
    none where it is gone, several where it was copied or cut."""
    if instances.rule is not None:
        return _beside(before, after, path)
    node, images = before.at(path), _images(instances)
    found: dict[Path, None] = {}
    for number in _statements(before, path):
        old = before.sites[number]
        for its, origin in images.get(number, ()):
            place = _image(node, path, old, after.sites[its], origin, instances.backward)
            if place is not None:
                found[place] = None
    return tuple(sorted(found))


def _statements(kernel: Kernel, path: Path) -> range:
    """The numbers of the statements at a path or inside of it: they follow one another."""
    first = bisect_left(kernel.sites, path, key=_path)
    *around, last = path
    return range(first, bisect_left(kernel.sites, (*around, last + 1), key=_path))


def _path(site: Site) -> Path:
    return site.path


def _image(node: Node, path: Path, old: Site, new: Site, origin: Origin, backward: bool) -> Path | None:
    """Where `node`, which holds or is the statement `old`, is around or at one that this one became."""
    level = len(path) - 1
    match node:
        case Statement():
            return new.path
        case Scope():
            depth = sum(isinstance(outer, Scope) for outer in old.ancestors[:level])
            return _scope(old, new, origin, depth, backward)
        case Guard():
            return _guard(old, new, origin, level, backward)


@once_for_each
def _images(instances: InstanceMap) -> dict[int, list[tuple[int, Origin]]]:
    """The number of each statement of the kernel before with those of the kernel after that it is, and the entries
    that say so."""
    found: dict[int, list[tuple[int, Origin]]] = {}
    for k, origin in enumerate(instances.origins):
        if origin is not None:
            mine, its = (k, origin.site) if instances.backward else (origin.site, k)
            found.setdefault(mine, []).append((its, origin))
    return found


def _scope(old: Site, new: Site, origin: Origin, depth: int, backward: bool) -> Path | None:
    """The scope around a new statement that is the one of a depth around the old one."""
    count = len(old.scopes)
    if origin.iterators[: depth + 1] == _outermost(depth + 1):
        return new.scope_paths[depth]
    made_of: list[set[int]] = [set() for _ in range(count)]
    exact: dict[int, int] = {}
    for d, value in enumerate(origin.iterators):
        for other in value.iterators:
            mine, its = (other, d) if backward else (d, other)
            made_of[mine].add(its)
            if value == Affine.iterator(other):
                exact.setdefault(mine, its)
    if depth in exact:
        return new.scope_paths[exact[depth]]
    taken = set(exact.values())
    own = made_of[depth] - taken or made_of[depth]
    label = old.scopes[depth].label
    named = {d for d in own if label is not None and new.scopes[d].label == label}
    return new.scope_paths[min(named or own)] if own else None


@cache
def _outermost(count: int) -> tuple[Affine, ...]:
    return tuple(map(Affine.iterator, range(count)))


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
