"""What an answer about a move follows from, for moves that look at some children of the kernel alone.

Such a move rewrites what it finds in the *pane*: the children from the first to the last one that hold one of its
places or a use of one of its buffers. It looks at nothing else but the declarations of what is used there. If its
answer comes from a slice (`dojoir.slices`), that is one of the pane: of the rest, it tells what is used before and
after, and with which operators there is accumulated.

A kernel in which only other children changed has the same panes. What is known of them lists a move without making
it; when it is made, it is held against the slice all the same.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from dojoir.errors import ArgumentError
from dojoir.hashing import hash_once
from dojoir.ir import Buffer, Condition, Kernel, Node, Scope, Size, Statement, format_path, parse_path
from dojoir.memo import Memo, ObjectMemo
from dojoir.passes.move import BufferName, Move, Place
from dojoir.passes.order import SwapSiblings
from dojoir.passes.trivial import AddScope

PANED = frozenset(
    {
        "join_scopes", "split_scopes", "swap_siblings", "sink_scope", "lift_scope", "set_extent", "remove_scope",
        "add_scope", "split_reduction", "inline", "recompute", "reuse_dims", "share_buffer", "to_fma", "split_dim",
        "join_dims", "unsplit", "untile", "uncollapse", "split", "cut", "peel", "shift", "skew",
        "collapse", "tile", "swap_scopes", "stage",
    }
)  # fmt: skip
"""The moves that look at their pane alone."""


@hash_once
@dataclass(frozen=True)
class Pane:
    """Some children of a kernel, with what is used there. Equal ones may have other labels in other places."""

    header: tuple[tuple[Size, ...], tuple[Condition, ...], str]
    nodes: tuple[Node, ...]
    labels: tuple[str | None, ...]
    buffers: tuple[tuple[Buffer, bool, bool, frozenset[str]], ...]
    """Those used, in declared order; whether they are used before and after, and with which operators other
    children accumulate there."""


Question = tuple[str, tuple[Hashable, ...], Pane]
"""A move: its name, its arguments as if there were nothing before the pane, and the pane."""


@dataclass(frozen=True)
class _Child:
    """A child of a kernel: the buffers that it uses, the operators with which it accumulates into each, its labels,
    and whether it has marks or hints."""

    used: frozenset[str]
    operators: frozenset[tuple[str, str]]
    labels: tuple[str | None, ...]
    marked: bool


def question(kernel: Kernel, move: Move) -> Question | None:
    """What the answer about a move follows from, or None where that may be all of the kernel."""
    if move.name not in PANED:
        return None
    children = _children_of(kernel)
    buffers, places = _named(move)
    try:
        paths = [kernel.path(place) for place in places]
    except ArgumentError:
        return None
    tops = [path[0] for path in paths]
    if isinstance(move, SwapSiblings | AddScope):  # these look at what comes after their place
        further = 1 if isinstance(move, SwapSiblings) else move.count - 1
        tops += [path[0] + further for path in paths if len(path) == 1]
    if move.name != "stage":
        tops += [n for n, child in enumerate(children) if not child.used.isdisjoint(buffers)]
    if not tops:
        return None
    first, last = min(tops), max(tops) + 1
    if any(child.marked for n, child in enumerate(children) if not first <= n < last):
        return None
    taken = tuple(name in kernel.declared for name in buffers)
    arguments = tuple(_shifted(argument, places, first) for argument in move.arguments())
    return move.name, (taken, *arguments), _pane(kernel, first, last)


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


_panes: Memo[tuple[Kernel, tuple[str | None, ...], int, int], Pane] = Memo(512)

_known: Memo[Pane, Pane] = Memo(2048)
"""One object for all that are equal, so that they are compared once."""


def _pane(kernel: Kernel, first: int, last: int) -> Pane:
    children = _children_of(kernel)
    labels = tuple(label for child in children for label in child.labels)
    found = _panes.get((kernel, labels, first, last))
    if found is None:
        found = _made(kernel, children, first, last)
        known = _known.get(found)
        found = _panes.put((kernel, labels, first, last), known if known is not None else _known.put(found, found))
    return found


def _made(kernel: Kernel, children: tuple[_Child, ...], first: int, last: int) -> Pane:
    inside, others = children[first:last], (*children[:first], *children[last:])
    used = {name for child in inside for name in child.used}
    before = {name for child in children[:first] for name in child.used}
    after = {name for child in children[last:] for name in child.used}
    operators = {pair for child in others for pair in child.operators}
    return Pane(
        (kernel.sizes, kernel.facts, kernel.fp),
        kernel.body[first:last],
        tuple(label for child in inside for label in child.labels),
        tuple(
            (b, b.name in before, b.name in after, frozenset(op for name, op in operators if name == b.name))
            for b in kernel.buffers
            if b.name in used
        ),
    )


_children: ObjectMemo[tuple[_Child, ...]] = ObjectMemo(64)


def _children_of(kernel: Kernel) -> tuple[_Child, ...]:
    """The children of this very kernel object: an equal one may have other labels."""
    found = _children.get(kernel)
    return found if found is not None else _children.put(tuple(map(_child, kernel.body)), kernel)


def _child(node: Node) -> _Child:
    used: set[str] = set()
    operators: set[tuple[str, str]] = set()
    labels: list[str | None] = []
    marked = False

    def visit(inner: Node) -> None:
        nonlocal marked
        if isinstance(inner, Statement):
            used.update((inner.target.buffer, *inner.buffers_read))
            if inner.accumulation is not None:
                operators.add((inner.target.buffer, inner.accumulation))
            return
        if isinstance(inner, Scope):
            labels.append(inner.label)
            marked = marked or bool(inner.marks or inner.hints)
        for child in inner.body:
            visit(child)

    visit(node)
    return _Child(frozenset(used), frozenset(operators), tuple(labels), marked)
