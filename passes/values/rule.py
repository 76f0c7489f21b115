"""Moves that use a rule of algebra (`dojoir.rules`), and that take one back. A rule says what mode of floating
point a kernel must be in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from dojoir import rules
from dojoir.ir.dtypes import I64
from dojoir.ir.nodes import Kernel, Node, Path, Statement, affine_parts
from dojoir.ir.places import siblings
from dojoir.passes.base.about import AboutNode, Here
from dojoir.passes.base.move import (
    BufferName,
    Move,
    Rewrite,
    Undoing,
    Word,
    check_new_name,
    fresh_name,
    place_of,
    reversible,
)
from dojoir.proof.certificate import InstanceMap
from dojoir.proof.core.rule_use import rewritten
from dojoir.rules.rule import Rule, RuleUse, find
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class UseRule(AboutNode, name="use_rule"):
    """Replaces the nodes from `node` on, as many as a rule of algebra has on its left side, by its right side.

    The results are the same over the real numbers, and rounded otherwise. A rule of algebra is legal under
    `fp fast` only; one that says `fp reassoc`, as `blocked_scan` does, keeps each result the sum of the same
    elements. `temporaries` are names for the new temporaries of the rule, in its order. Scopes of the right side
    keep the labels of those of the left side that have the same label in the rule. The rules are in
    `dojoir/rules`; the inverse is `undo_rule`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N, M)
    ... fp fast
    ... in  x: f32[N, M]
    ... in  d: f32[N]
    ... out y: f32[N, M]
    ... N @i
    ... | M @j
    ... | | y[{i}, {j}] = 2 * x[{i}, {j}] / d[{i}]
    ... ''')
    >>> print(dojoir.apply(k, "use_rule(0.0, reciprocal, r)"))
    kernel f(N, M)
    fp fast
    in  x: f32[N, M]
    in  d: f32[N]
    out y: f32[N, M]
    tmp r: f32
    <BLANKLINE>
    N @i
    | r = 1 / d[{i}]
    | M @j
    | | y[{i}, {j}] = 2 * x[{i}, {j}] * r
    <BLANKLINE>
    """

    rule: Word
    temporaries: tuple[BufferName, ...] = ()

    def rewritten(self, at: Here[Node]) -> Rewrite:
        kernel, rule = at.kernel, rules.load(self.rule)
        if len(self.temporaries) != len(rule.fresh) or len(set(self.temporaries)) != len(self.temporaries):
            needs = ", ".join(rule.fresh) or "none"
            raise at.refusal("bad-names", f"{rule.name} takes a name for each of its temporaries: {needs}")
        for name in self.temporaries:
            check_new_name(kernel, name)
        found = find(rule, rule.left, kernel, at.path)
        if found is None:
            raise at.refusal("no-match", f"what begins at {self.node} is not the left side of {rule.name}")
        match, labels = found
        names = zip(rule.fresh, self.temporaries, strict=True)
        new = tuple((name, rule.new_element(name, given, at.depth)) for name, given in names)
        use = RuleUse(rule.name, at.path, replace(match, elements=tuple(sorted((*match.elements, *new)))))
        done = Rewrite(rewritten(kernel, rule, use, labels), InstanceMap((), rule=use))
        return reversible(self, kernel, done)

    def back(self, at: Here[Node]) -> Move:
        return UndoRule(at.place, self.rule)

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for path, rule in _beginning(kernel, "left"):
            if find(rule, rule.left, kernel, path) is not None:
                new = tuple(BufferName(fresh_name(kernel, wanted)) for wanted in rule.fresh)
                yield cls(place_of(path), Word(rule.name), new)


@dataclass(frozen=True)
class UndoRule(Undoing, AboutNode, name="undo_rule"):
    """Replaces the nodes from `node` on, as many as a rule of algebra has on its right side, by its left side, and
    removes the temporaries of the rule. The inverse of `use_rule`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... fp fast
    ... in  x: f32[N]
    ... in  c: f32
    ... out s: f32
    ... s = 0
    ... N @i
    ... | s += x[{i}]
    ... s = c * s
    ... ''')
    >>> print(dojoir.apply(k, "undo_rule(0, factor)"))
    kernel f(N)
    fp fast
    in  x: f32[N]
    in  c: f32
    out s: f32
    <BLANKLINE>
    s = 0
    N @i
    | s += c * x[{i}]
    <BLANKLINE>
    """

    rule: Word

    def undone(self, kernel: Kernel) -> tuple[Kernel, Move]:
        at, rule = self.found(kernel), rules.load(self.rule)
        found = find(rule, rule.right, kernel, at.path)
        if found is None:
            raise at.refusal("no-match", f"what begins at {self.node} is not the right side of {rule.name}")
        match, labels = found
        names = tuple(match.element[name].buffer for name in rule.fresh)
        earlier = at.replaced(*match.nodes(rule.left, labels), count=len(rule.right.body)).without_buffers(*names)
        return earlier, UseRule(at.place, self.rule, tuple(map(BufferName, names)))

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for path, rule in _beginning(kernel, "right"):
            if find(rule, rule.right, kernel, path) is not None:
                yield cls(place_of(path), Word(rule.name))


@lru_cache(maxsize=8)
def _usable(fp: str, side: str) -> dict[tuple[str, ...], list[Rule]]:
    """The rules that a mode of floating point allows, whatever the types are, by how a side of them begins."""
    found: dict[tuple[str, ...], list[Rule]] = {}
    for rule in map(rules.load, rules.names()):
        if rule.fits(fp, I64):
            body = rule.left.body if side == "left" else rule.right.body
            found.setdefault(tuple(map(_kind, body[:2])), []).append(rule)
    return found


def _kind(node: Node) -> str:
    """The kind of a node: the operator of a statement, or another kind with the nodes right inside of it."""
    if isinstance(node, Statement):
        return node.op
    inside = (child.op if isinstance(child, Statement) else type(child).__name__ for child in node.body)
    return f"{type(node).__name__} {' '.join(inside)}"


def _beginning(kernel: Kernel, side: str) -> Iterator[tuple[Path, Rule]]:
    """The places where a side of a rule may begin, with that rule."""
    usable = _usable(kernel.fp, side)
    for path, node in kernel.walk() if usable else ():
        first = _kind(node)
        goes_on = None
        for rule in usable.get((first,), ()):
            if rule.is_step and goes_on is None:
                goes_on = side == "left" and _goes_on(kernel, path, node)
            if goes_on or not rule.is_step:
                yield path, rule
        following = siblings(kernel, path)[path[-1] + 1 : path[-1] + 2]
        for rule in usable.get((first, _kind(following[0])), ()) if following else ():
            yield path, rule


def _goes_on(kernel: Kernel, path: Path, node: Node) -> bool:
    """Whether a node is a step that the scope around it takes on: rules of steps are offered there alone."""
    depth = kernel.depth_of(path) - 1
    return (
        depth >= 0
        and isinstance(node, Statement)
        and node.target in node.reads
        and not any(depth in affine.iterators for affine in affine_parts(node.target))
    )
