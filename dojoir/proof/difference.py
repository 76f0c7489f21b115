"""Where two kernels differ: the smallest part of the tree outside of which both are the same text."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from itertools import repeat

from dojoir.ir.affine import Affine
from dojoir.ir.nodes import (
    Access,
    Buffer,
    Cast,
    Const,
    Expr,
    Guard,
    Index,
    Kernel,
    Node,
    Op,
    Path,
    Scope,
    Site,
    Statement,
)
from dojoir.proof.certificate import InstanceMap, identity
from dojoir.support.frozen import dataclass
from dojoir.support.memo import ObjectMemo


@dataclass(frozen=True)
class Change:
    """Where a rewrite did something: some adjacent children of one node, `old`, became `new`, and all else stayed.

    `place` is the path of that node in both kernels (empty for the body of the kernel), `around` that node and
    those above it, outermost first. `were` and `are` are the numbers of the statements in `old` and in `new`.
    """

    place: Path
    around: tuple[Scope | Guard, ...]
    old: tuple[Node, ...]
    new: tuple[Node, ...]
    were: range
    are: range

    @property
    def depth(self) -> int:
        """How many scopes are around."""
        return sum(isinstance(node, Scope) for node in self.around)


def change_of(before: Kernel, after: Kernel, instances: InstanceMap) -> Change | None:
    """The place of the change that a rewrite made, or None where there are several.

    It is the smallest change outside of which every statement stands for itself; inside, each stands for nothing,
    or for a statement inside, in the same iteration of the scopes around. So whatever is outside runs before or
    after the change, and before or after itself, as it did. The last ones are kept: several questions about a
    rewrite begin with it.
    """
    rewrite = before, after, instances
    kept = _changes.get(*rewrite)
    return (kept if kept is not None else _changes.put((_change_of(*rewrite),), *rewrite))[0]


def put_in(before: Kernel, after: Kernel, instances: InstanceMap) -> InstanceMap | None:
    """The certificate from the kernel before to the one after that says the same as a backward one: statements were
    put in, which stand for nothing, and the others stayed. None where that one fits these kernels but says more."""
    all_of_it, stayed = identity(after).origins, instances.origins
    plain = replace(instances, origins=(), backward=False) == InstanceMap(())
    if not (instances.backward and plain and set(stayed) <= set(all_of_it)):
        return None
    mine = dict(zip(stayed, identity(before).origins, strict=True))
    return InstanceMap(tuple(map(mine.get, all_of_it)))


_changes: ObjectMemo[tuple[Change | None]] = ObjectMemo(16)


def _change_of(before: Kernel, after: Kernel, instances: InstanceMap) -> Change | None:
    found = difference_of(before, after)
    same, origins = identity(before).origins, instances.origins
    behind = len(origins) - (len(same) - found.were.stop)
    if origins[: found.are.start] != same[: found.were.start] or behind != found.are.stop:
        return None
    if origins[behind:] != same[found.were.stop :]:
        return None
    while found.place and not _stays(found, instances):
        *above, start = found.place
        found = _change(before, after, tuple(above), start, start + 1, start + 1)
    if not _stays(found, instances):
        found = _with_origins(before, after, instances, found)
    return found if _stays(found, instances) else None


def _with_origins(before: Kernel, after: Kernel, instances: InstanceMap, change: Change) -> Change:
    """The smallest change of children of the kernel itself that has a part of them, and all that it stands for. A
    node that is new beside one that it stands for, which stayed the same, is a change of both."""
    named = {origin.site for origin in instances.origins[change.are.start : change.are.stop] if origin is not None}
    if not named or not named <= set(range(len(before.sites))):
        return change
    tops = [before.sites[k].path[0] for k in (*change.were, *named)]
    start = after.sites[change.are.start].path[0]
    first, end = min(*tops, start), max(*(top + 1 for top in tops), start)
    return _change(before, after, (), first, end, end + len(after.body) - len(before.body))


def difference_of(before: Kernel, after: Kernel) -> Change:
    """The smallest part in which the trees of two kernels differ, whatever its statements stand for."""
    return _change(before, after, *_difference(before.body, after.body))


def _stays(change: Change, instances: InstanceMap) -> bool:
    """Whether each statement of a change stands for none, or for one of it in the same iteration around it."""
    outer = tuple(map(Affine.iterator, range(change.depth)))
    return all(
        origin is None or (origin.site in change.were and origin.iterators[: change.depth] == outer)
        for origin in instances.origins[change.are.start : change.are.stop]
    )


def _change(before: Kernel, after: Kernel, place: Path, start: int, old_end: int, new_end: int) -> Change:
    """A change in which some children of a node that both kernels have were replaced."""
    around: list[Scope | Guard] = []
    old, new = before.body, after.body
    for child in place:
        node, other = old[child], new[child]
        assert isinstance(node, Scope | Guard)
        assert isinstance(other, Scope | Guard)
        around.append(node)
        old, new = node.body, other.body
    were, are = _span(before, place, start, old_end), _span(after, place, start, new_end)
    return Change(place, tuple(around), old[start:old_end], new[start:new_end], were, are)


def _span(kernel: Kernel, prefix: Path, start: int, end: int) -> range:
    """The numbers of the statements in some children of a node."""
    first = bisect_left(kernel.sites, (*prefix, start), key=_path)
    return range(first, bisect_left(kernel.sites, (*prefix, end), key=_path))


def _path(site: Site) -> Path:
    return site.path


def _difference(old: tuple[Node, ...], new: tuple[Node, ...]) -> tuple[Path, int, int, int]:
    """Where two trees differ: the path of a node that both have, the number of its first child that differs, and
    where the differing children end in either."""
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    tail = 0
    while tail < min(len(old), len(new)) - start and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    old_end, new_end = len(old) - tail, len(new) - tail
    if old_end - start == 1 and new_end - start == 1:
        match old[start], new[start]:
            case Scope() as a, Scope() as b if (a.extent, a.marks, a.hints) == (b.extent, b.marks, b.hints):
                prefix, *rest = _difference(a.body, b.body)
                return (start, *prefix), rest[0], rest[1], rest[2]
            case Guard() as a, Guard() as b if a.conditions == b.conditions:
                prefix, *rest = _difference(a.body, b.body)
                return (start, *prefix), rest[0], rest[1], rest[2]
    return (), start, old_end, new_end


# -- names alone ---------------------------------------------------------------------------------------------
def told_apart(before: Kernel, after: Kernel, instances: InstanceMap) -> frozenset[str] | None:
    """The temporaries that accesses name otherwise, or that are declared otherwise or not at all, where nothing
    else tells two kernels apart. One tree of scopes, guards and statements, each of which stands for itself, on the
    same indices. None where more differs, or an argument does."""
    if instances != identity(before):
        return None
    declared: set[Buffer] = {*before.buffers} ^ {*after.buffers}
    names = {buffer.name for buffer in declared}
    if not _names_in(before.body, after.body, names):
        return None
    mine = [buffer for kernel in (before, after) for buffer in kernel.buffers if buffer.name in names]
    return frozenset(names) if all(buffer.role == "tmp" for buffer in mine) else None


def _names_in(old: tuple[Node, ...], new: tuple[Node, ...], names: set[str]) -> bool:
    """Whether two lists of nodes are the same but for the names of buffers, which are added to `names`."""
    if old is new:
        return True
    return len(old) == len(new) and all(_names_of(a, b, names) for a, b in zip(old, new, strict=True))


def _names_of(old: Node, new: Node, names: set[str]) -> bool:
    if old is new:
        return True
    match old, new:
        case Statement(), Statement():
            same = old.way == new.way and _accesses_in(old.target, new.target, names)
            return same and _accesses_in(old.value, new.value, names)
        case Scope(), Scope():
            same = (old.extent, old.marks, old.hints) == (new.extent, new.marks, new.hints)
            return same and _names_in(old.body, new.body, names)
        case Guard(), Guard():
            return old.conditions == new.conditions and _names_in(old.body, new.body, names)
    return False


def _accesses_in(old: Expr | Affine, new: Expr | Affine, names: set[str]) -> bool:
    if old is new:
        return True
    match old, new:
        case Access(), Access():
            if old.buffer != new.buffer:
                names |= {old.buffer, new.buffer}
            same = len(old.indices) == len(new.indices)
            return same and all(map(_accesses_in, old.indices, new.indices, repeat(names)))
        case Op(name, args), Op(other, others):
            same = name == other and len(args) == len(others)
            return same and all(map(_accesses_in, args, others, repeat(names)))
        case Cast(dtype, arg, way=way), Cast(also, given, way=other):
            return (dtype, way) == (also, other) and _accesses_in(arg, given, names)
        case ((Const() | Index() | Affine()), (Const() | Index() | Affine())):
            return old == new
    return False


def same_but_marks(some: tuple[Node, ...], others: tuple[Node, ...]) -> bool:
    """Whether two trees are the same without their marks and hints."""

    def same(one: Node, other: Node) -> bool:
        match one, other:
            case Scope(), Scope():
                return one.extent == other.extent and same_but_marks(one.body, other.body)
            case Guard(), Guard():
                return one.conditions == other.conditions and same_but_marks(one.body, other.body)
        return one == other

    return some is others or (len(some) == len(others) and all(map(same, some, others)))
