"""Moves that replace a read of a temporary by the expression that gave its value, and back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from dojoir.affine import Affine, Iter
from dojoir.dataflow import InstanceMap, Substitution, identity
from dojoir.graph import definition_value, replace_read
from dojoir.ir import Access, Kernel, Site, Statement, expr_accesses, format_path
from dojoir.passes.move import BufferName, Move, Place, Refusal, Rewrite
from dojoir.passes.storage import temporary


@dataclass(frozen=True)
class Inline(Move):
    """Replaces, in the statement at `statement`, every read of a temporary by the expression that was assigned.

    Legal where each read gets its value from that one assignment, and what the expression reads is unchanged in
    between. The temporary stays; `delete_temporary` removes it when nothing reads it any more.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... tmp t: f32[N]
    ... N
    ... | t[{0}] = 2 * x[{0}]
    ... N
    ... | y[{0}] = t[{0}] + 1
    ... ''')
    >>> print(dojoir.apply(k, "inline(1.0, t)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    tmp t: f32[N]
    <BLANKLINE>
    N
    | t[{0}] = 2 * x[{0}]
    N
    | y[{0}] = 2 * x[{0}] + 1
    <BLANKLINE>
    """

    name: ClassVar[str] = "inline"
    statement: Place
    buffer: BufferName

    def rewrite(self, kernel: Kernel) -> Rewrite:
        path = kernel.path(self.statement)
        number, site = _statement_at(kernel, self.statement)
        buffer = temporary(kernel, self.buffer)
        writers = [(k, s) for k, s in enumerate(kernel.sites) if s.statement.target.buffer == buffer.name]
        if len(writers) != 1 or writers[0][1].statement.op != "=":
            raise Refusal("several-values", f"`{buffer.name}` is not written by one plain assignment alone", path)
        definition, writer = writers[0]
        steps: list[Substitution] = []
        value = site.statement.value
        while True:
            reads = list(expr_accesses(value))
            found = next((n for n, a in enumerate(reads) if a.buffer == buffer.name), None)
            if found is None:
                break
            at = _solve(writer, reads[found])
            if at is None:
                raise Refusal(
                    "no-instance", f"which iteration wrote the element of `{buffer.name}` is not plain", path
                )
            new = definition_value(writer.statement, at, {b.name: b for b in kernel.buffers})
            if new is None or any(a.buffer == buffer.name for a in expr_accesses(new)):
                raise Refusal("weak-value", "the value has no type of its own; cast it first", writer.path)
            replaced = replace_read(value, found, new)
            if replaced == value:
                raise Refusal("index-value", f"`{buffer.name}` is read as an index", path)
            steps.append(Substitution(number, found, definition, at))
            value = replaced
        if not steps:
            raise Refusal("not-read", f"the statement does not read `{buffer.name}`", path)
        after = kernel.replace_node(path, replace(site.statement, value=value))
        return Rewrite(after, InstanceMap(identity(kernel).origins, inlined=tuple(steps)))

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for site in kernel.sites:
            names = dict.fromkeys(a.buffer for a in expr_accesses(site.statement.value))
            for name in names:
                if kernel.buffer(name).role == "tmp":
                    yield cls(Place(format_path(site.path)), BufferName(name))


def _statement_at(kernel: Kernel, place: Place) -> tuple[int, Site]:
    path = kernel.path(place)
    for k, site in enumerate(kernel.sites):
        if site.path == path:
            return k, site
    raise Refusal("not-a-statement", f"{place} is not a statement", path)


def _solve(writer: Site, read: Access) -> tuple[Affine, ...] | None:
    """The iterators of the writer, in terms of those of the reader, at which it writes the element that is read:
    where each of them is alone the index of some dimension, up to a constant."""
    target: Statement = writer.statement
    solution: dict[int, Affine] = {}
    for mine, its in zip(target.target.indices, read.indices, strict=True):
        if isinstance(mine, Access) or isinstance(its, Access):
            return None
        match mine.terms:
            case [(Iter(depth), 1)] if depth not in solution:
                solution[depth] = its - mine.offset
    if len(solution) != len(writer.scopes):
        return None
    return tuple(solution[d] for d in range(len(writer.scopes)))
