"""The cache key for moves that depend only on some children of the kernel.

Such a move rewrites what it finds in the *pane*: the children from the first to the last one that hold one of its
places or a use of one of its buffers. It looks at nothing else but the declarations of what is used there. If its
answer comes from a slice (`dojoir.proof.slice`), that is one of the pane: of the rest, it tells what is used before
and after, and with which operators there is accumulated.

A kernel in which only other children changed has the same panes. What is known of them lists a move without making
it; when it is made, it is held against the slice all the same.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

from dojoir.errors import ArgumentError
from dojoir.ir.nodes import (
    Buffer,
    Commuting,
    Condition,
    Kernel,
    Node,
    Scope,
    Size,
    Statement,
    any_marked,
    format_path,
    parse_path,
)
from dojoir.passes.base.move import BufferName, Move, Place
from dojoir.passes.base.reach import Reach
from dojoir.passes.storage.sharing import ShareBuffer
from dojoir.proof.patterns.sharing import are_apart
from dojoir.support.frozen import dataclass, hash_once
from dojoir.support.kept import once_for_each
from dojoir.support.memo import Memo, ObjectMemo


@hash_once
@dataclass(frozen=True)
class ChildrenKey:
    """The part of a cache key that stands for some children of a kernel: the children, with what is used there.
    Equal ones may have other labels in other places."""

    held_bytes: ClassVar[int] = 6000
    """About what one holds."""

    header: tuple[tuple[Size, ...], tuple[Condition, ...], str]
    nodes: tuple[Node, ...]
    labels: tuple[str | None, ...]
    buffers: tuple[tuple[Buffer, bool, bool, frozenset[Commuting | None]], ...]
    """Those used, in declared order; whether they are used before and after, and with which operators other
    children accumulate there."""


Question = tuple[str, tuple[Hashable, ...], ChildrenKey]
"""A move: its name, its arguments as if there were nothing before the pane, and the pane."""


@dataclass(frozen=True)
class _Child:
    """A child of a kernel: the buffers that it uses, the operators with which it accumulates into each, its labels,
    and whether it has marks or hints."""

    used: frozenset[str]
    operators: frozenset[tuple[str, Commuting | None]]
    labels: tuple[str | None, ...]
    marked: bool


def question(kernel: Kernel, move: Move) -> Question | None:
    """The question that decides the answer about a move, or None where it may need the whole kernel."""
    reach = move.reach_in(kernel)
    if Reach.CHILDREN not in reach:
        return None
    children = _children_of(kernel)
    buffers, places = _named(move)
    try:
        paths = [kernel.path(place) for place in places]
    except ArgumentError:
        return None
    tops = [path[0] for path in paths]
    tops += [path[0] + move.followers() for path in paths if len(path) == 1]
    if Reach.USERS in reach:
        tops += [n for name in buffers for n in children.users.get(name, ())]
    if not tops:
        return None
    first, last = min(tops), max(tops) + 1
    if any(not first <= n < last for n in children.marked):
        return None
    taken = tuple(name in kernel.declared for name in buffers)
    arguments = tuple(_shifted(argument, places, first) for argument in move.arguments())
    return move.name, (taken, *arguments), _pane(kernel, first, last)


def shared_apart(kernel: Kernel, move: Move) -> Hashable | None:
    """The question that all pairs of temporaries of one form share that are used one after the other, in children
    of the kernel without marks and hints (`dojoir.proof.patterns.sharing`); None for another move or pair.

    This lists such a pair without making the move; when it is made, it is proved.
    """
    if not isinstance(move, ShareBuffer) or move.buffer == move.other:
        return None
    if not {move.buffer, move.other} <= kernel.declared or not are_apart(kernel, move.buffer, move.other):
        return None
    children = _children_of(kernel)
    if any(n in children.marked for name in (move.buffer, move.other) for n in children.users.get(name, ())):
        return None
    return move.name, kernel.fp, kernel.buffer(move.buffer).form


def _named(move: Move) -> tuple[list[str], list[Place]]:
    """The buffers and the places among the arguments of a move."""
    buffers = [str(getattr(move, name)) for name, kind in move.parameters().items() if kind is BufferName]
    return buffers, move.places()


def _shifted(argument: Hashable, places: list[Place], by: int) -> Hashable:
    """An argument, with a place written as if there were so many children less before it."""
    if isinstance(argument, tuple):
        return tuple(_shifted(part, places, by) for part in argument)
    if isinstance(argument, str) and argument in places and not argument.startswith("@"):
        top, *rest = parse_path(argument)
        return format_path((top - by, *rest))
    return argument


_known: Memo[ChildrenKey, ChildrenKey] = Memo(2048)
"""One object for all that are equal, so that they are compared once."""


def _pane(kernel: Kernel, first: int, last: int) -> ChildrenKey:
    children = _children_of(kernel)
    found = children.panes.get((first, last))
    if found is None:
        made = _made(kernel, children.each, first, last)
        known = _known.get(made)
        found = children.panes[first, last] = known if known is not None else _known.put(made, made)
    return found


def _made(kernel: Kernel, children: tuple[_Child, ...], first: int, last: int) -> ChildrenKey:
    inside, others = children[first:last], (*children[:first], *children[last:])
    used = {name for child in inside for name in child.used}
    before = {name for child in children[:first] for name in child.used}
    after = {name for child in children[last:] for name in child.used}
    operators = {pair for child in others for pair in child.operators}
    return ChildrenKey(
        (kernel.sizes, kernel.facts, kernel.fp),
        kernel.body[first:last],
        tuple(label for child in inside for label in child.labels),
        tuple(
            (b, b.name in before, b.name in after, frozenset(op for name, op in operators if name == b.name))
            for b in kernel.buffers
            if b.name in used
        ),
    )


class _Children:
    """The children of a kernel; which of them use each buffer, and which have marks or hints, by number; and the
    panes that are known, by their first child and the one behind their last."""

    def __init__(self, kernel: Kernel) -> None:
        self.each = tuple(map(_child, kernel.body))
        self.users: dict[str, list[int]] = {}
        for n, child in enumerate(self.each):
            for name in child.used:
                self.users.setdefault(name, []).append(n)
        self.marked = frozenset(n for n, child in enumerate(self.each) if child.marked)
        self.panes: dict[tuple[int, int], ChildrenKey] = {}


_children: ObjectMemo[_Children] = ObjectMemo(64)


def _children_of(kernel: Kernel) -> _Children:
    """The children of this very kernel object: an equal one may have other labels."""
    found = _children.get(kernel)
    return found if found is not None else _children.put(_Children(kernel), kernel)


@once_for_each
def _child(node: Node) -> _Child:
    operators: set[tuple[str, Commuting | None]] = set()
    labels: list[str | None] = []

    def visit(inner: Node) -> None:
        if isinstance(inner, Statement):
            if inner.accumulation is not None:
                operators.add((inner.target.buffer, inner.commuting))
            return
        if isinstance(inner, Scope):
            labels.append(inner.label)
        for child in inner.body:
            visit(child)

    visit(node)
    return _Child(node.buffers, frozenset(operators), tuple(labels), any_marked((node,)))
