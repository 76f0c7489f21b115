"""Indices that are computed from data, taken apart where a text is read.

`w[rows[{i}] + {j}]` is no sum of iterators, and no element alone. It is read as

    w_at = i64(rows[{i}]) + {j}
    … w[w_at] …

with a temporary of its own, before the statement and under the conditions around it: an integer like others, whose
values are indices from data, checked where they are used. It stands before the scopes around the statement that
run at least once and do not change it. A condition of the statement becomes a guard around both.
Where computing the value may be an error of the run, the temporary is 0 first, for where the conditions fail.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace

from dojoir.errors import Source, Span
from dojoir.grammar import syntax
from dojoir.grammar.names_in_scope import NamesInScope, short
from dojoir.grammar.syntax import (
    Binary,
    Call,
    Expr,
    Name,
    Number,
    Subscript,
    Word,
    every,
    expressions,
    with_inner,
    wording,
)  # fmt: skip
from dojoir.ir.dtypes import DTYPES, I64
from dojoir.support.frozen import dataclass

CONVERSIONS = frozenset({"bitcast", "sat", "round_away", "round_to_zero"})
"""The functions that convert to a type which is their first argument."""


def without_computed(written: syntax.Kernel, source: Source) -> syntax.Kernel:
    """The text with a temporary in the place of each index that is computed from data; the very text where there
    is none. Raises KernelError where it is computed from what is no integer."""
    types = {line.name.text: line.dtype.text for line in written.header if isinstance(line, syntax.Buffer)}
    taken = {*types, *(size.name.text for size in written.sizes)}
    found = _Computed(source, types, taken)
    if not any(found.is_computed(part) for expr in expressions(written) for part in _indices(expr)):
        return written
    body = found.nodes(written.body, False, 0)
    return replace(written, header=(*written.header, *found.made), body=body)


def _indices(expr: Expr) -> Iterator[Expr]:
    return (index for part in every(expr) if isinstance(part, Subscript) for index in part.args)


@dataclass
class _Computed:
    """One text: the types of its buffers, the names that are taken, and the declarations that are made for it."""

    source: Source
    types: Mapping[str, str]
    taken: set[str]
    made: list[syntax.Buffer] = field(default_factory=list)

    def is_computed(self, index: Expr) -> bool:
        """Whether an index is made of data, and of more than one element."""
        match index:
            case Subscript():
                return False
            case Name(text) if text in self.types:
                return False
        return any(self._buffer(part) is not None for part in every(index))

    def _buffer(self, expr: Expr) -> str | None:
        """The buffer of which an expression is an element."""
        match expr:
            case Name(text) | Subscript(Word(text)) if text in self.types:
                return text
        return None

    # -- nodes -------------------------------------------------------------------------------------------
    def nodes(self, nodes: tuple[syntax.Node, ...], chosen: bool, depth: int) -> tuple[syntax.Node, ...]:
        """The nodes, in so many scopes, with temporaries before them; `chosen` says that there are conditions
        around."""
        return tuple(made for node in nodes for made in self._node(node, chosen, depth))

    def _node(self, node: syntax.Node, chosen: bool, depth: int) -> tuple[syntax.Node, ...]:
        steps: dict[str, tuple[syntax.Node, ...]] = {}
        names: dict[str, str] = {}
        match node:
            case syntax.Scope():
                extent = self._expr(node.extent, steps, names, chosen)
                inside = chosen or any(map(self._buffer, every(node.extent)))
                body = self.nodes(node.body, inside, depth + 1)
                same, body = self._invariant(replace(node, body=body), depth)
                return (*_flat(steps), *same, replace(node, extent=extent, body=body))
            case syntax.Guard():
                condition = self._expr(node.condition, steps, names, chosen)
                return (*_flat(steps), replace(node, condition=condition, body=self.nodes(node.body, True, depth)))
            case syntax.Statement(condition=None):
                target, value = (self._expr(expr, steps, names, chosen) for expr in (node.target, node.value))
                return (*_flat(steps), replace(node, target=target, value=value))
            case syntax.Statement(condition=condition):
                assert condition is not None
                inner = replace(node, condition=None)
                if any(map(self.is_computed, (*_indices(node.target), *_indices(node.value)))):
                    return self._node(syntax.Guard(condition, (inner,), node.span), chosen, depth)
                condition = self._expr(condition, steps, names, chosen)
                return (*_flat(steps), replace(node, condition=condition))

    def _invariant(
        self, scope: syntax.Scope, depth: int
    ) -> tuple[tuple[syntax.Node, ...], tuple[syntax.Node, ...]]:
        """The temporaries of the body of a scope that runs at least once which are the same in all its iterations,
        and cannot fail; and the rest of the body."""
        match scope.extent:
            case Name():
                pass
            case Number(text) if text.isdecimal() and int(text) >= 1:
                pass
            case _:
                return (), scope.body
        own = {str(depth), scope.label.text if scope.label is not None else str(depth)}
        changed = {name for statement in _statements(scope.body) for name in _targets(statement)}
        same: list[syntax.Node] = []
        rest: list[syntax.Node] = []
        for node in scope.body:
            if isinstance(node, syntax.Statement) and self._is_same(node, own, changed):
                same.append(node)
                changed -= _targets(node)
            else:
                rest.append(node)
        return tuple(same), tuple(rest)

    def _is_same(self, node: syntax.Statement, own: set[str], changed: set[str]) -> bool:
        """Whether a statement gives a temporary of this text what is the same in each iteration of a scope whose
        iterator has the names `own`, and in which buffers are `changed`, and cannot fail."""
        if isinstance(node.value, Number) or not _targets(node) <= {buffer.name.text for buffer in self.made}:
            return False
        for part in every(node.value):
            match part:
                case syntax.Iterator(text) if text in own:
                    return False
                case Name(text) | Subscript(Word(text)) if text in changed:
                    return False
        return not self._may_fail(node.value)

    # -- expressions -------------------------------------------------------------------------------------
    def _expr(
        self, expr: Expr, steps: dict[str, tuple[syntax.Node, ...]], names: dict[str, str], chosen: bool
    ) -> Expr:
        """An expression whose indices that are computed are temporaries; `steps` compute them, each once."""
        if isinstance(expr, Subscript):
            return with_inner(expr, lambda arg: self._index(expr.name.text, arg, steps, names, chosen))
        return with_inner(expr, lambda part: self._expr(part, steps, names, chosen))

    def _index(
        self,
        of: str,
        index: Expr,
        steps: dict[str, tuple[syntax.Node, ...]],
        names: dict[str, str],
        chosen: bool,
    ) -> Expr:
        if not self.is_computed(index):
            return self._expr(index, steps, names, chosen)
        text, span = wording(index), index.span
        if text not in names:
            names[text] = self._declare(of, span)
            value = self._wide(self._expr(index, steps, names, chosen))
            lines: tuple[syntax.Node, ...] = (_assign(names[text], value, span),)
            if chosen and self._may_fail(index):
                lines = (_assign(names[text], Number("0", span), span), *lines)
            steps[text] = lines
        return Name(names[text], span)

    def _may_fail(self, index: Expr) -> bool:
        """Whether computing an index may be an error of the run."""
        elements = [part for part in every(index) if self._buffer(part) is not None]
        inner = (i for part in elements if isinstance(part, Subscript) for i in part.args)
        divides = any(isinstance(part, Binary) and part.sign in ("//", "%", "<<", ">>") for part in every(index))
        return divides or any(self._buffer(part) is not None for i in inner for part in every(i))

    def _wide(self, expr: Expr) -> Expr:
        """An expression of integers in which elements, and what is converted to another type, are i64."""
        name = self._buffer(expr)
        if name is not None:
            dtype = self.types[name]
            if dtype in DTYPES and not DTYPES[dtype].is_integer:
                message = f"an index is made of integers, and {short(name)} is {dtype}: cast it, as in i64({name}…)"
                raise NamesInScope(self.source, {}, {}).error("type-operand", message, expr.span)
            return expr if dtype == I64.name else Call(Word(I64.name, expr.span), (expr,), expr.span)
        match expr:
            case Call(Word(text)) if text in DTYPES:
                return self._cast(expr, text)
            case Call(Word(text), (Name(dtype), *_)) if dtype in DTYPES and text in CONVERSIONS:
                return self._cast(expr, dtype)
            case _:
                return with_inner(expr, self._wide)

    @staticmethod
    def _cast(expr: Expr, dtype: str) -> Expr:
        """A conversion to a type, as an i64 where that is another integer type."""
        if dtype == I64.name or not DTYPES[dtype].is_integer:
            return expr
        return Call(Word(I64.name, expr.span), (expr,), expr.span)

    def _declare(self, of: str, span: Span) -> str:
        """A new temporary for an index of a buffer."""
        name, number = f"{of}_at", 2
        while name in self.taken:
            name, number = f"{of}_at{number}", number + 1
        self.taken.add(name)
        registers = syntax.Attribute(Word("reg", span), (), False, span)
        self.made.append(syntax.Buffer("tmp", Word(name, span), Word(I64.name, span), (), (registers,)))
        return name


def _flat(steps: Mapping[str, tuple[syntax.Node, ...]]) -> tuple[syntax.Node, ...]:
    return tuple(node for nodes in steps.values() for node in nodes)


def _statements(nodes: tuple[syntax.Node, ...]) -> Iterator[syntax.Statement]:
    for node in nodes:
        if isinstance(node, syntax.Statement):
            yield node
        else:
            yield from _statements(node.body)


def _targets(statement: syntax.Statement) -> set[str]:
    """The names in the target of a statement, of which what it writes is one, or two are."""
    parts = every(statement.target)
    return {p.text if isinstance(p, Name) else p.name.text for p in parts if isinstance(p, Name | Subscript)}


def _assign(name: str, value: Expr, span: Span) -> syntax.Statement:
    return syntax.Statement(Name(name, span), "=", value, None, span)
