"""Which nodes of a kernel a query means: all of them, or the one; and what comes nearest where there are none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from dojoir.errors import Diagnostic, Note, QueryError
from dojoir.ir.nodes import Kernel, Node, Path, format_path
from dojoir.ir.where import place
from dojoir.query.conditions import MOST_SHOWN, NodeContext, Query, missing, nodes_of
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class Match:
    """A node that a query found: its path, the node, its line in the text (from 1), and that line without its
    bars and in depth style."""

    path: Path
    node: Node = field(repr=False)
    line: int
    text: str

    @property
    def place(self) -> str:
        """The path as moves take it, `0.1`."""
        return format_path(self.path)

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


def search(kernel: Kernel, query: Query) -> tuple[Match, ...]:
    """The nodes that match, in the order of the text. Raises QueryError `no-match`, which shows what comes
    nearest, where there are none."""
    nodes = nodes_of(kernel)
    found = [here for here in nodes if query.holds(here, nodes)]
    if not found:
        raise QueryError(_no_match(kernel, query, nodes))
    return tuple(_match(kernel, here) for here in found)


def search_one(kernel: Kernel, query: Query) -> Match:
    """The one node that matches. Raises QueryError, `no-match` or `several-matches`."""
    found = search(kernel, query)
    if len(found) > 1:
        notes = tuple(_note(kernel, m.path, f"{m.place} matches") for m in found[:MOST_SHOWN])
        more = f", of which {MOST_SHOWN} are shown" if len(found) > MOST_SHOWN else ""
        message = (
            f"<{query}> matches {len(found)} places, and one is wanted{more}: add a condition, or begin with "
            "`first`, `last` or `number 1`"
        )
        source = place(kernel, found[0].path)[0]
        raise QueryError(Diagnostic("several-matches", message, None, source, notes))
    return found[0]


def _match(kernel: Kernel, here: NodeContext) -> Match:
    return Match(here.path, here.node, place(kernel, here.path)[1].line, here.texts[0])


def _note(kernel: Kernel, path: Path, message: str) -> Note:
    return Note(message, place(kernel, path)[1])


def _no_match(kernel: Kernel, query: Query, nodes: Sequence[NodeContext]) -> Diagnostic:
    reasons = missing(query, nodes)
    notes = []
    terms = query.terms()
    if len(terms) > 1:
        failing = [(here, [t for t in terms if not t.holds(here, nodes)]) for here in nodes]
        fewest = min((len(failed) for _, failed in failing), default=0)
        if fewest < len(terms):
            near = [(here, failed) for here, failed in failing if len(failed) == fewest]
            for here, failed in near[:MOST_SHOWN]:
                without = ", ".join(f"`{t}`" for t in failed)
                instead = ", ".join(filter(None, (t.instead(here) for t in failed)))
                message = f"{format_path(here.path)} matches without {without}" + (
                    f": {instead}" if instead else ""
                )
                notes.append(_note(kernel, here.path, message))
    why = "; ".join(reasons) or ("nothing is all of this; the nearest are below" if notes else "nothing does")
    source = place(kernel, nodes[0].path)[0] if nodes else None
    return Diagnostic("no-match", f"no place matches <{query}>: {why}", None, source, tuple(notes))
