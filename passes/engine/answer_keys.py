"""The keys under which the answer about a move is kept, so that it is found again where the same is asked.

Whether a move is legal follows from a part of the kernel. A list of moves asks about every place of a kernel,
and again after each move, when most of these parts are what they were. So an answer is kept under the part that
it follows from, and the same question about the same part is not asked twice: the move need not even be made.
(When it is made, it is proved, or held against its slice.) That needs two promises. The family says by its
`reach` at which part its rewrite looks, and the checker says with each answer (`CheckerAnswer.kept`) from what it
follows. An answer is kept under a key where both hold. The keys of a move, the smallest part first:

- `counted`: a range. All scopes with one range have one answer to the moves that only count its iterations in
  another way (`dojoir.passes.engine.counting`), where these are legal as the same instances run in the same
  order.
- `node`: a node, and of the rest the extents and conditions around it, the declarations of what it uses, and
  whether that is used elsewhere (`dojoir.proof.node_in_context`). For the families that rewrite the node at
  their place.
- `apart`: the form of two temporaries that are to share storage and are used one after the other.
- `pane`: the children of the kernel from the first to the last that hold one of the places or, as the family
  says, a use of one of the buffers. Of the rest, it tells what is used before and after, and with which
  operators there is accumulated: as much as a slice of the kernel needs (`dojoir.proof.slice`). For the families
  that look there.
- `like`: the pane of another move that is legal if this one is (`Move.like`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import ClassVar, NamedTuple

from dojoir.errors import ArgumentError
from dojoir.ir.nodes import (
    Buffer,
    Commuting,
    Condition,
    Kernel,
    Node,
    Path,
    Scope,
    Size,
    Statement,
    any_marked,
    format_path,
    parse_path,
)  # fmt: skip
from dojoir.ir.places import scopes_around
from dojoir.passes.base.move import BufferName, Move, Place
from dojoir.passes.base.reach import Reach
from dojoir.passes.engine.counting import counted
from dojoir.passes.storage.sharing import ShareBuffer
from dojoir.proof.check import AnswerReach, CheckerAnswer
from dojoir.proof.node_in_context import NodeInContext, node_in_context
from dojoir.proof.patterns.sharing import are_apart
from dojoir.support.derived import once_for_each
from dojoir.support.frozen import dataclass, hash_once
from dojoir.support.memo import Memo, ObjectMemo

_NEEDED = {
    "counted": (AnswerReach.ORDER, True),
    "node": (AnswerReach.NODE, False),
    "apart": (AnswerReach.PANE, True),
    "pane": (AnswerReach.PANE, False),
    "like": (AnswerReach.NODE, True),
}
"""By the kind of a key, from what an answer under it must follow, and whether it must be that a move is legal."""


class AnswerKey(NamedTuple):
    """A key of the table of answers (`dojoir.passes.engine.engine`): its kind, and the part of the kernel with what
    is asked of it."""

    kind: str
    asked: Hashable

    def carries(self, answer: CheckerAnswer) -> bool:
        """Whether an answer may be kept under this key."""
        needed, only_legal = _NEEDED[self.kind]
        return needed in answer.kept and (answer.legal or not only_legal)


def answer_keys(kernel: Kernel, move: Move) -> Iterator[AnswerKey]:
    """The keys of the answer about a move, that of the smallest part first; each is made when it is asked for."""
    for kind, made in (("counted", counted), ("node", node_key), ("apart", shared_apart), ("pane", question)):
        asked = made(kernel, move)
        if asked is not None:
            yield AnswerKey(kind, asked)
    if asked is not None and type(move).like is not Move.like:
        alike = question(kernel, move.like(kernel))
        if alike is not None:
            yield AnswerKey("like", alike)


# -- a node and what is around it ----------------------------------------------------------------------------
NodeKey = tuple[str, int, tuple[Hashable, ...], NodeInContext]
"""The cache key of a local move: its name, the number of its places, its other arguments, and the node at the first
place in its context."""


def node_key(kernel: Kernel, move: Move) -> NodeKey | None:
    """The key of the answer about a move that depends on its node alone; None where it may depend on more."""
    places = move.places() if Reach.NODE in move.reach_in(kernel) else []
    if not places:
        return None
    try:
        path = kernel.path(places[0])
    except ArgumentError:
        return None
    here = _places.get((kernel, path))
    if here is None:
        here = _places.put((kernel, path), (_surroundings(kernel, path),))
    return (move.name, len(places), tuple(_others(move)), here[0]) if here[0] is not None else None


_places: Memo[tuple[Kernel, Path], tuple[NodeInContext | None]] = Memo(1024)


def _surroundings(kernel: Kernel, path: Path) -> NodeInContext | None:
    if any(outer.marks or outer.hints for outer in scopes_around(kernel, path)):
        return None  # its mark or hint is about all that it runs
    return node_in_context(kernel, path)


def _others(move: Move) -> list[Hashable]:
    """The arguments that are no places. (Several places of a local move are a nest, below the first.)"""
    places: list[object] = list(move.places())
    return [value for value in move.arguments() if value not in places and not _are(value, places)]


def _are(value: object, places: list[object]) -> bool:
    return isinstance(value, tuple) and bool(value) and all(part in places for part in value)


# -- some children of the kernel -----------------------------------------------------------------------------
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
