"""From text to a kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from dojoir.errors import ParseError, Source, Span
from dojoir.grammar import syntax
from dojoir.grammar.bars import Bars
from dojoir.grammar.errors import LayoutError, explain
from dojoir.grammar.expressions import INDEX, affine, affine_conditions, extent
from dojoir.grammar.names_in_scope import NamesInScope, OpenScope
from dojoir.grammar.resolve import resolve
from dojoir.grammar.tables import parser
from dojoir.grammar.version import check_version
from dojoir.ir.affine import Affine
from dojoir.ir.instruction import Instruction
from dojoir.ir.nodes import Condition, Extent, Kernel, Size


def parse_affine(text: str, kernel: Kernel, depth: int) -> Affine:
    """The affine expression that a text writes, in the sizes of a kernel and the iterators of `depth` scopes.

    Raises ParseError or KernelError, which show their place in `text`.
    """
    return _affine(text, kernel.sizes, depth, "this")


def parse_index(text: str, kernel: Kernel, depth: int) -> Affine:
    """As `parse_affine`, of an index: there may be a min or a max in it."""
    return _affine(text, kernel.sizes, depth, INDEX)


@lru_cache(maxsize=1024)
def _affine(text: str, sizes: tuple[Size, ...], depth: int, role: str) -> Affine:
    source = Source("<expression>", text)
    written = _expression(source)
    around = tuple(OpenScope(None, written.span) for _ in range(depth))
    return affine(written, NamesInScope(source, {size.name: size for size in sizes}, {}, around), role)


def parse_extent(text: str, kernel: Kernel, depth: int) -> Extent:
    """As `parse_affine`, of an extent: an affine expression, or a `min` of several."""
    source = Source("<extent>", text)
    written = _expression(source)
    around = tuple(OpenScope(None, written.span) for _ in range(depth))
    return extent(written, NamesInScope(source, {size.name: size for size in kernel.sizes}, {}, around))[0]


def parse_conditions(text: str, kernel: Kernel, depth: int) -> tuple[Condition, ...]:
    """As `parse_affine`, of the conditions of a guard: comparisons, joined by `and`."""
    source = Source("<conditions>", text)
    written = _expression(source)
    around = tuple(OpenScope(None, written.span) for _ in range(depth))
    return affine_conditions(written, NamesInScope(source, {size.name: size for size in kernel.sizes}, {}, around))


def parse_declaration(text: str, place: Span, source: Source) -> syntax.Buffer:
    """A declaration without its name, as it stands at a place of a source; without a role it has an empty one.

    Raises ParseError, at that place.
    """
    there = Source(source.name, "\n" * (place.line - 1) + " " * (place.column - 1) + text)
    try:
        written = _parsed(there, "declared")
    except ParseError as error:
        raise ParseError(replace(error.diagnostic, source=source)) from None
    assert isinstance(written, syntax.Buffer)
    return written


def written_kernel(source: Source, instruction: Callable[[str], Instruction] | None = None) -> Kernel:
    """The kernel that a text holds; `instruction` finds those that it names, None where it may name none. Raises
    ParseError and KernelError."""
    return resolve(read(source), source, instruction)


def read(source: Source) -> syntax.Kernel:
    """The tree as it is written, its names unknown. Raises ParseError."""
    check_version(source)
    written = _parsed(source, "kernel")
    assert isinstance(written, syntax.Kernel)
    return written


@lru_cache(maxsize=1024)
def _expression(source: Source) -> syntax.Expr:
    written = _parsed(source, "affine")
    assert not isinstance(written, syntax.Kernel | syntax.Buffer)
    return written


def _parsed(source: Source, start: str) -> syntax.Kernel | syntax.Buffer | syntax.Expr:
    try:
        # What Lark gives is typed as a tree; here it is what the rule `start` of _KernelTree returns.
        written: object = _grammar().parse(source.text, start=start)
    except (LayoutError, UnexpectedCharacters, UnexpectedToken) as error:
        raise explain(error, source) from None
    assert isinstance(written, syntax.Kernel | syntax.Buffer | syntax.Expr)
    return written


@cache
def _grammar() -> Lark:
    starts = ["kernel", "affine", "declared"]
    return parser("dojo", start=starts, lexer="basic", postlex=Bars(), transformer=_KernelTree())


def _span(token: Token) -> Span:
    return Span(token.line or 1, token.column or 1, token.end_column or 1)


def _word(token: Token) -> syntax.Word:
    return syntax.Word(str(token), _span(token))


def _from(first: Span, last: Span) -> Span:
    return Span(first.line, first.column, last.end)


@v_args(inline=True)
class _KernelTree(Transformer[Token, syntax.Kernel]):
    """The result of each rule of the grammar."""

    # -- the header --------------------------------------------------------------------------------------
    def kernel(
        self,
        name: Token,
        sizes: tuple[syntax.Size, ...] | None,
        *lines: syntax.Where | syntax.Fp | syntax.Buffer | syntax.Node,
    ) -> syntax.Kernel:
        header = tuple(n for n in lines if isinstance(n, syntax.Where | syntax.Fp | syntax.Buffer))
        body = tuple(n for n in lines if isinstance(n, syntax.Statement | syntax.Scope | syntax.Guard))
        return syntax.Kernel(_word(name), sizes or (), header, body)

    def sizes(self, *sizes: syntax.Size) -> tuple[syntax.Size, ...]:
        return sizes

    def size(self, name: Token, _: Token | None, value: Token | None) -> syntax.Size:
        return syntax.Size(_word(name), _word(value) if value is not None else None)

    def where(self, *facts: syntax.Expr) -> syntax.Where:
        return syntax.Where(facts)

    def fp(self, mode: Token) -> syntax.Fp:
        return syntax.Fp(_word(mode))

    def buffer(
        self,
        role: Token,
        name: Token,
        dtype: Token,
        dims: tuple[syntax.Dim, ...],
        attributes: tuple[syntax.Attribute, ...],
    ) -> syntax.Buffer:
        return syntax.Buffer(str(role), _word(name), _word(dtype), dims, attributes)

    def declared(
        self,
        role: Token | None,
        dtype: Token,
        dims: tuple[syntax.Dim, ...],
        attributes: tuple[syntax.Attribute, ...],
    ) -> syntax.Buffer:
        return syntax.Buffer(str(role or ""), syntax.Word("", _span(dtype)), _word(dtype), dims, attributes)

    def dims(self, *dims: syntax.Dim | None) -> tuple[syntax.Dim, ...]:
        return tuple(dim for dim in dims if dim is not None)

    def dim(self, extent: syntax.Expr, tilde: Token | None) -> syntax.Dim:
        return syntax.Dim(extent, tilde is not None)

    def attributes(self, *attributes: syntax.Attribute) -> tuple[syntax.Attribute, ...]:
        return attributes

    def attribute(self, name: Token, number: Token | None) -> syntax.Attribute:
        args = () if number is None else (syntax.Number(str(number), _span(number)),)
        return syntax.Attribute(_word(name), args, False, _from(_span(name), _span(number or name)))

    def attribute_list(self, name: Token, *given: Any) -> syntax.Attribute:
        *args, close = given
        return syntax.Attribute(_word(name), tuple(args), True, _from(_span(name), _span(close)))

    def affine(self, expr: syntax.Expr) -> syntax.Expr:
        return expr

    # -- the body ----------------------------------------------------------------------------------------
    def statement(
        self, target: syntax.Expr, sign: Token, value: syntax.Expr, _: Token | None, condition: syntax.Expr | None
    ) -> syntax.Statement:
        last = value if condition is None else condition
        return syntax.Statement(target, str(sign), value, condition, _from(target.span, last.span))

    def pair(self, opening: Token, left: syntax.Expr, right: syntax.Expr, closing: Token) -> syntax.Call:
        span = _from(_span(opening), _span(closing))
        return syntax.Call(syntax.Word(syntax.PAIR, span), (left, right), span)

    def scope(
        self,
        extent: syntax.Expr,
        marks: tuple[syntax.Word | syntax.Hint, ...],
        label: Token | None,
        body: tuple[syntax.Node, ...],
    ) -> syntax.Scope:
        last = _span(label) if label is not None else marks[-1].span if marks else extent.span
        name = None if label is None else syntax.Word(str(label)[1:], _span(label))
        return syntax.Scope(extent, marks, name, body, _from(extent.span, last))

    def marks(self, *marks: Token | syntax.Hint | None) -> tuple[syntax.Word | syntax.Hint, ...]:
        return tuple(_word(mark) if isinstance(mark, Token) else mark for mark in marks if mark is not None)

    def hint(self, word: Token, name: Token, number: Token | None, close: Token) -> syntax.Hint:
        span = _from(_span(word), _span(close))
        return syntax.Hint(_word(word), _word(name), None if number is None else _word(number), span)

    def guard(self, first: Token, condition: syntax.Expr, body: tuple[syntax.Node, ...]) -> syntax.Guard:
        return syntax.Guard(condition, body, _from(_span(first), condition.span))

    def body(self, *nodes: syntax.Node) -> tuple[syntax.Node, ...]:
        return nodes

    # -- expressions -------------------------------------------------------------------------------------
    def number(self, token: Token) -> syntax.Number:
        return syntax.Number(str(token), _span(token))

    def name(self, token: Token) -> syntax.Name:
        return syntax.Name(str(token), _span(token))

    def iterator(self, token: Token) -> syntax.Iterator:
        return syntax.Iterator(token[1:-1].strip(), _span(token))

    def subscript(self, name: Token, *rest: syntax.Expr | Token) -> syntax.Subscript:
        args, span = _bracketed(name, rest)
        return syntax.Subscript(_word(name), args, span)

    def call(self, name: Token, *rest: syntax.Expr | Token) -> syntax.Call:
        args, span = _bracketed(name, rest)
        return syntax.Call(_word(name), args, span)

    def bracketed(self, opening: Token, inner: syntax.Expr, closing: Token) -> syntax.Expr:
        return syntax.with_span(inner, _from(_span(opening), _span(closing)))

    def unary(self, sign: Token, arg: syntax.Expr) -> syntax.Unary:
        return syntax.Unary(str(sign), arg, _from(_span(sign), arg.span))

    def binary(self, left: syntax.Expr, sign: Token, right: syntax.Expr) -> syntax.Binary:
        return syntax.Binary(left, str(sign), right, _from(left.span, right.span))


def _bracketed(name: Token, rest: tuple[syntax.Expr | Token, ...]) -> tuple[tuple[syntax.Expr, ...], Span]:
    """The arguments in brackets after a name, and the place of the whole; `rest` ends with the closing bracket."""
    *args, closing = rest
    assert isinstance(closing, Token)
    return tuple(arg for arg in args if not isinstance(arg, Token)), _from(_span(name), _span(closing))
