"""Queries: which nodes of a kernel are meant, said by what they are and do.

A query is a condition on one node; conditions combine with `&`, `|` and `~`, and nest: `Inside(Labelled("i"))`
holds of what is below the scope @i. `dojoir.grammar.query` reads them from text, and `str` writes them back. A
query that matches nothing says what comes nearest.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher, get_close_matches
from functools import cached_property

from dojoir.errors import did_you_mean
from dojoir.ir.format import format_extent
from dojoir.ir.nodes import MARKS, Guard, Kernel, Node, Path, Scope, Statement, format_path
from dojoir.support.frozen import dataclass

MOST_SHOWN = 4
"""How many near misses, or matches too many, an error shows."""

KINDS = ("scope", "guard", "statement", "innermost", "outermost", "unmarked")
VERBS = ("writes", "accumulates", "reads", "uses")
RELATIONS = ("in", "under", "has", "after", "before")


@dataclass(frozen=True, eq=False)
class NodeContext:
    """A node with what is around it, the outermost first, and how its line reads in depth and in name style."""

    path: Path
    node: Node
    around: tuple[NodeContext, ...]
    texts: tuple[str, str]

    @cached_property
    def statements(self) -> tuple[Statement, ...]:
        """The statements of the node, itself if it is one, in the order of the text."""
        if isinstance(self.node, Statement):
            return (self.node,)

        def below(nodes: tuple[Node, ...]) -> Iterator[Statement]:
            for node in nodes:
                if isinstance(node, Statement):
                    yield node
                else:
                    yield from below(node.body)

        return tuple(below(self.node.body))

    @property
    def extents(self) -> set[str]:
        """How the extent of a scope may be written: iterators by depth or by label, without spaces."""
        if not isinstance(self.node, Scope):
            return set()
        labels = [h.node.label for h in self.around if isinstance(h.node, Scope)]
        extent = self.node.extent
        by_name = format_extent(extent, lambda depth: labels[depth] or str(depth))
        return {_squeezed(format_extent(extent)), _squeezed(by_name)}

    def touched(self, verb: str) -> dict[str, None]:
        """The buffers that the statements of the node write, accumulate into, read or use, in order."""
        found: dict[str, None] = {}
        for statement in self.statements:
            target, *reads = (access.buffer for access in statement.accesses)
            if verb in {"writes", "uses"} or (verb == "accumulates" and statement.accumulation is not None):
                found[target] = None
            if verb in {"reads", "uses"}:
                found.update(dict.fromkeys(reads))
        return found


def nodes_of(kernel: Kernel) -> tuple[NodeContext, ...]:
    """Every node of a kernel, in the order of the text."""
    depth_style = {path: line for path, line in kernel.lines() if path}
    name_style = {path: line for path, line in kernel.lines(names=True) if path}
    found: dict[Path, NodeContext] = {}
    for path, node in kernel.walk():
        around = tuple(found[path[:n]] for n in range(1, len(path)))
        texts = depth_style[path].lstrip("| "), name_style[path].lstrip("| ")
        found[path] = NodeContext(path, node, around, texts)
    return tuple(found.values())


# -- conditions --------------------------------------------------------------------------------------------
class Query(ABC):
    """A condition on one node."""

    @abstractmethod
    def holds(self, here: NodeContext, nodes: Sequence[NodeContext]) -> bool:
        """Whether it holds of a node, one of all `nodes` of the kernel."""

    def instead(self, here: NodeContext) -> str:
        """The property of a node for which the condition fails, or nothing."""
        return ""

    def nearest(self, nodes: Sequence[NodeContext]) -> str:
        """The nearest match in a kernel where the condition holds for no node, or nothing."""
        return ""

    def terms(self) -> tuple[Query, ...]:
        """The conditions that must all hold."""
        return (self,)

    def __and__(self, other: Query) -> Query:
        return All((*self.terms(), *other.terms()))

    def __or__(self, other: Query) -> Query:
        mine = self.conditions if isinstance(self, AnyOf) else (self,)
        return AnyOf((*mine, *(other.conditions if isinstance(other, AnyOf) else (other,))))

    def __invert__(self) -> Query:
        return Not(self)


@dataclass(frozen=True)
class Kind(Query):
    """A node of a kind: `scope`, `guard`, `statement`; a scope that is `innermost` (no scope inside), `outermost`
    (no scope around) or `unmarked`."""

    word: str

    def holds(self, here: NodeContext, nodes: Sequence[NodeContext]) -> bool:
        match self.word, here.node:
            case ("scope", Scope()) | ("guard", Guard()) | ("statement", Statement()):
                return True
            case "innermost", Scope():
                return not any(isinstance(h.node, Scope) and here in h.around for h in nodes)
            case "outermost", Scope():
                return not any(isinstance(h.node, Scope) for h in here.around)
            case "unmarked", Scope(marks=marks):
                return not marks
        return False

    def instead(self, here: NodeContext) -> str:
        if self.word == "unmarked" and isinstance(here.node, Scope):
            return f"it is marked {', '.join(here.node.marks)}"
        wanted = self.word in {"scope", "innermost", "outermost", "unmarked"}
        return "" if wanted and isinstance(here.node, Scope) else f"it is a {type(here.node).__name__.lower()}"

    def __str__(self) -> str:
        return self.word


@dataclass(frozen=True)
class Labelled(Query):
    """A scope with a label, in which `*` stands for any letters: `@i`, `@tile_*`."""

    pattern: str

    def holds(self, here: NodeContext, nodes: Sequence[NodeContext]) -> bool:
        label = here.node.label if isinstance(here.node, Scope) else None
        return label is not None and _fits(self.pattern, label)

    def instead(self, here: NodeContext) -> str:
        label = here.node.label if isinstance(here.node, Scope) else None
        return f"its label is @{label}" if label else "it has no label"

    def nearest(self, nodes: Sequence[NodeContext]) -> str:
        found = (h.node.label for h in nodes if isinstance(h.node, Scope))
        labels = [f"@{label}" for label in dict.fromkeys(found) if label]
        known = f"labels here: {_listed(labels)}" if labels else "this kernel has no labels"
        return f"no scope is labelled {self}{did_you_mean(str(self), labels)}; {known}"

    def __str__(self) -> str:
        return f"@{self.pattern}"


@dataclass(frozen=True)
class At(Query):
    """The node at a path, in which `*` stands for one child index and `**` for some: `0.1`, `0.*`, `0.**`."""

    pattern: str

    def holds(self, here: NodeContext, nodes: Sequence[NodeContext]) -> bool:
        parts = {"*": r"\d+", "**": r"\d+(\.\d+)*"}
        wanted = r"\.".join(parts.get(part, part) for part in self.pattern.split("."))
        return re.fullmatch(wanted, format_path(here.path)) is not None

    def nearest(self, nodes: Sequence[NodeContext]) -> str:
        paths = [format_path(h.path) for h in nodes]
        prefix = self.pattern
        while "." in prefix and prefix not in paths:
            prefix = prefix.rpartition(".")[0]
        below = [p for p in paths if p.rpartition(".")[0] == (prefix if prefix in paths else "")]
        there = prefix if prefix in paths else "the kernel"
        has = f"{there} has the children {_listed(below)}" if below else f"{there} has no children"
        return f"there is no place {self.pattern}: {has}"

    def __str__(self) -> str:
        return self.pattern


@dataclass(frozen=True)
class Marked(Query):
    """A scope with a mark: `marked v`."""

    mark: str

    def holds(self, here: NodeContext, nodes: Sequence[NodeContext]) -> bool:
        return isinstance(here.node, Scope) and self.mark in here.node.marks

    def instead(self, here: NodeContext) -> str:
        marks = here.node.marks if isinstance(here.node, Scope) else ()
        return f"it is marked {', '.join(marks)}" if marks else "it has no mark"

    def nearest(self, nodes: Sequence[NodeContext]) -> str:
        if self.mark not in MARKS:
            return f"there is no mark {self.mark}{did_you_mean(self.mark, MARKS)}; the marks are {_listed(MARKS)}"
        used = dict.fromkeys(mark for h in nodes if isinstance(h.node, Scope) for mark in h.node.marks)
        here = f"the marks here are {_listed(used)}" if used else "no scope here has a mark"
        return f"no scope is marked {self.mark}: {here}"

    def __str__(self) -> str:
        return f"marked {self.mark}"


@dataclass(frozen=True)
class HasExtent(Query):
    """A scope of an extent, written as the kernel prints it, with iterators by depth or by label: `extent M`,
    `extent (N - 1)`, `extent min(16, N - 16*{0})`. Spaces do not count."""

    text: str

    def holds(self, here: NodeContext, nodes: Sequence[NodeContext]) -> bool:
        return self._wanted in here.extents

    @property
    def _wanted(self) -> str:
        squeezed = _squeezed(self.text)
        return squeezed[1:-1] if squeezed.startswith("(") and _closes_last(squeezed) else squeezed

    def instead(self, here: NodeContext) -> str:
        return f"its extent is {format_extent(here.node.extent)}" if isinstance(here.node, Scope) else ""

    def nearest(self, nodes: Sequence[NodeContext]) -> str:
        known = list(dict.fromkeys(format_extent(h.node.extent) for h in nodes if isinstance(h.node, Scope)))
        close = get_close_matches(self.text, known, MOST_SHOWN, 0.4) or known[:MOST_SHOWN]
        return f"no scope has the extent {self.text}; " + (
            f"there are {_listed(close)}" if close else "none is here"
        )

    def __str__(self) -> str:
        plain = re.fullmatch(r"\w+|min\(.*\)|\(.*\)", self.text)
        return f"extent {self.text if plain else f'({self.text})'}"


@dataclass(frozen=True)
class Touches(Query):
    """A node whose statements do something to a buffer, in whose name `*` stands for any letters: `writes y`,
    `accumulates s`, `reads x`, `uses t*`."""

    verb: str
    buffer: str

    def holds(self, here: NodeContext, nodes: Sequence[NodeContext]) -> bool:
        return any(_fits(self.buffer, name) for name in here.touched(self.verb))

    def instead(self, here: NodeContext) -> str:
        names = here.touched(self.verb)
        verb = "accumulates into" if self.verb == "accumulates" else self.verb
        return f"it {verb} {_listed(names)}" if names else f"it {verb} nothing"

    def nearest(self, nodes: Sequence[NodeContext]) -> str:
        names = dict.fromkeys(name for h in nodes for name in h.touched(self.verb))
        others = dict.fromkeys(name for h in nodes for name in h.touched("uses"))
        close = did_you_mean(self.buffer, names) or (
            "" if self.buffer in others else did_you_mean(self.buffer, others)
        )
        return f"nothing {self}" + (close or f"; this kernel {self.verb} {_listed(names) or 'nothing'}")

    def __str__(self) -> str:
        return f"{self.verb} {self.buffer}"


@dataclass(frozen=True)
class Spelled(Query):
    """A node whose line reads so, spaces aside, `...` standing for anything: `"s[...] += ..."`. Iterators are
    written by depth or by label."""

    pattern: str

    def holds(self, here: NodeContext, nodes: Sequence[NodeContext]) -> bool:
        pieces = (re.escape(_squeezed(piece)) for piece in self.pattern.split("..."))
        wanted = re.compile(".*".join(pieces))
        return any(wanted.fullmatch(_squeezed(text)) for text in here.texts)

    def nearest(self, nodes: Sequence[NodeContext]) -> str:
        wanted = _squeezed(self.pattern.replace("...", ""))
        known = dict.fromkeys(h.texts[0] for h in nodes)
        close = sorted(
            (text for text in known if _likeness(wanted, text) >= 0.6), key=lambda t: -_likeness(wanted, t)
        )
        similar = f"; similar: {_listed(f'`{text}`' for text in close[:2])}" if close else ""
        return f'no line reads {self}{similar}; "..." stands for anything'

    def __str__(self) -> str:
        return f'"{self.pattern}"'


@dataclass(frozen=True)
class Related(Query):
    """A node that is `in` one that matches (below it at any depth), `under` one (a child of it), that `has` one
    below it, or that stands `after` or `before` one in the text (and not inside of it or around it)."""

    relation: str
    query: Query

    def holds(self, here: NodeContext, nodes: Sequence[NodeContext]) -> bool:
        match self.relation:
            case "in":
                return any(self.query.holds(outer, nodes) for outer in here.around)
            case "under":
                return bool(here.around) and self.query.holds(here.around[-1], nodes)
            case "has":
                others = [h for h in nodes if here in h.around]
            case "after":
                others = [h for h in nodes if h.path < here.path and h not in here.around]
            case _:
                others = [h for h in nodes if here.path < h.path and here not in h.around]
        return any(self.query.holds(other, nodes) for other in others)

    def instead(self, here: NodeContext) -> str:
        if self.relation not in {"in", "under"}:
            return ""
        around = here.around[-1].texts[0] if here.around else ""
        return f"it is under `{around}`" if around else "nothing is around it"

    def nearest(self, nodes: Sequence[NodeContext]) -> str:
        return "; ".join(missing(self.query, nodes))

    def __str__(self) -> str:
        inner = str(self.query)
        single = not isinstance(self.query, All | AnyOf | Not | Related)
        return f"{self.relation} {inner if single else f'({inner})'}"


@dataclass(frozen=True)
class All(Query):
    """A node of which every condition holds."""

    conditions: tuple[Query, ...]

    def holds(self, here: NodeContext, nodes: Sequence[NodeContext]) -> bool:
        return all(condition.holds(here, nodes) for condition in self.conditions)

    def terms(self) -> tuple[Query, ...]:
        return self.conditions

    def nearest(self, nodes: Sequence[NodeContext]) -> str:
        return "; ".join(missing(self, nodes))

    def __str__(self) -> str:
        return " ".join(f"({c})" if isinstance(c, AnyOf) else str(c) for c in self.conditions)


@dataclass(frozen=True)
class AnyOf(Query):
    """A node of which one of several conditions holds."""

    conditions: tuple[Query, ...]

    def holds(self, here: NodeContext, nodes: Sequence[NodeContext]) -> bool:
        return any(condition.holds(here, nodes) for condition in self.conditions)

    def nearest(self, nodes: Sequence[NodeContext]) -> str:
        return "; ".join(filter(None, (condition.nearest(nodes) for condition in self.conditions)))

    def __str__(self) -> str:
        return " or ".join(map(str, self.conditions))


@dataclass(frozen=True)
class Not(Query):
    """A node of which a condition does not hold."""

    condition: Query

    def holds(self, here: NodeContext, nodes: Sequence[NodeContext]) -> bool:
        return not self.condition.holds(here, nodes)

    def __str__(self) -> str:
        inner = str(self.condition)
        return f"not ({inner})" if isinstance(self.condition, All | AnyOf) else f"not {inner}"


@dataclass(frozen=True)
class Pick(Query):
    """One of the nodes that match, by its number in the order of the text: from 0, or from -1 for the last."""

    query: Query
    number: int

    def holds(self, here: NodeContext, nodes: Sequence[NodeContext]) -> bool:
        found = [h for h in nodes if self.query.holds(h, nodes)]
        return -len(found) <= self.number < len(found) and found[self.number] is here

    def terms(self) -> tuple[Query, ...]:
        return self.query.terms()

    def nearest(self, nodes: Sequence[NodeContext]) -> str:
        count = sum(self.query.holds(h, nodes) for h in nodes)
        if not count:
            return self.query.nearest(nodes)
        return f"{count} place{' matches' if count == 1 else 's match'} {self.query}, numbered from 0"

    def __str__(self) -> str:
        word = {0: "first", -1: "last"}.get(self.number, f"number {self.number}")
        return f"{word} {self.query}"


def missing(query: Query, nodes: Sequence[NodeContext]) -> list[str]:
    """For each condition of a query that holds of no node by itself, what comes nearest to it."""
    alone = query.terms() if len(query.terms()) > 1 else (query,)
    lacking = [t for t in alone if not any(t.holds(here, nodes) for here in nodes)]
    return [reason for reason in (t.nearest(nodes) for t in lacking) if reason]


def _fits(pattern: str, name: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name) is not None


def _likeness(wanted: str, text: str) -> float:
    """How much of `wanted` stands in a text, in its order, between 0 and 1."""
    blocks = SequenceMatcher(None, wanted, _squeezed(text), autojunk=False).get_matching_blocks()
    return sum(block.size for block in blocks) / max(len(wanted), 1)


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _closes_last(text: str) -> bool:
    """Whether the bracket that opens a text is closed by its last character."""
    depth = 0
    for n, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return n == len(text) - 1
    return False


def _listed(words: Iterable[object]) -> str:
    return ", ".join(map(str, words))
