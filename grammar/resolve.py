"""From the tree as written to a kernel: every name looked up, every rule of the text checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce

from dojoir.errors import Note, Source, Span, did_you_mean
from dojoir.grammar import syntax
from dojoir.grammar.declarations import declare_buffer, declare_sizes, facts, fp_mode
from dojoir.grammar.expressions import access, conditions, extent, value
from dojoir.grammar.hints import HINTS, resolve_hints
from dojoir.grammar.names_in_scope import NamesInScope, OpenScope, short
from dojoir.grammar.other_languages import cure_of_line, cure_of_mark
from dojoir.grammar.sugar.computed import without_computed
from dojoir.grammar.sugar.keys_of_pairs import written_out
from dojoir.grammar.sugar.pairs import pair_statements, reads_itself, written_in
from dojoir.grammar.sugar.size_products import split_products
from dojoir.grammar.sugar.stated_bounds import with_stated_bounds
from dojoir.grammar.sugar.under_conditions import UNDER
from dojoir.grammar.sugar.wrapped import without_wrapped
from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import I64
from dojoir.ir.format import format_expr
from dojoir.ir.instruction import Instruction
from dojoir.ir.nodes import (
    MARKS,
    Access,
    Cast,
    Condition,
    Expr,
    Guard,
    Index,
    Kernel,
    Node,
    Op,
    Scope,
    Statement,
    expr_accesses,
    make_op,
)
from dojoir.ir.packing import check_packing
from dojoir.types.elaborate import check, is_integer


def resolve(
    written: syntax.Kernel, source: Source, instruction: Callable[[str], Instruction] | None = None
) -> Kernel:
    """The kernel; `instruction` finds those that it names. Raises KernelError at the first thing in it
    that has no meaning."""
    names = declare_sizes(written.sizes, NamesInScope(source, {}, {}, instruction=instruction))
    if not syntax.is_deep(written):
        written = with_stated_bounds(written)
        written = without_wrapped(split_products(without_computed(written, source), source))
    known: list[Condition] = []
    fp: syntax.Word | None = None
    for line in written.header:
        match line:
            case syntax.Where(exprs):
                known += facts(exprs, names)
            case syntax.Fp(mode):
                if fp is not None:
                    note = Note("it is given here", fp.span)
                    raise names.error("duplicate-fp", "the floating point mode is given twice", mode.span, note)
                fp = mode
            case syntax.Buffer():
                names = declare_buffer(line, names)
    kernel = Kernel(
        written.name.text,
        tuple(names.sizes.values()),
        tuple(names.buffers.values()),
        _nodes(written.body, names.body()),
        tuple(known),
        "reassoc" if fp is None else fp_mode(fp, names),
        source,
    )
    kernel = written_out(kernel)
    check(kernel)
    return check_packing(kernel)


def _nodes(nodes: tuple[syntax.Node, ...], names: NamesInScope, when: tuple[Expr, ...] = ()) -> tuple[Node, ...]:
    """The nodes, each statement in them under the conditions on data `when`, which come from around them."""
    return tuple(made for node in nodes for made in _resolved_node(node, names, when))


def _resolved_node(node: syntax.Node, names: NamesInScope, when: tuple[Expr, ...]) -> tuple[Node, ...]:
    match node:
        case syntax.Statement():
            return _statements(node, names, when)
        case syntax.Guard(condition, body, span):
            where, data = conditions(condition, names)
            inner = _nodes(body, names, (*when, *data))
            _check_kept(data, inner, condition.span, names)
            return (Guard(where, inner, span),) if where else inner
        case syntax.Scope(_, marks, label, body, span):
            name = None if label is None else label.text
            inside = names.inside(OpenScope(name, span))
            words = tuple(mark for mark in marks if isinstance(mark, syntax.Word))
            hints = resolve_hints(tuple(mark for mark in marks if isinstance(mark, syntax.Hint)), names)
            around, lengths = extent(node.extent, names)
            for length in lengths:
                if not is_integer(length, names.buffers):
                    message = f"a length is an integer, and {format_expr(length)} is none"
                    raise names.error("not-an-integer", message, node.extent.span)
            iterator = Index(Affine.iterator(len(names.scopes or ())))
            data = tuple(make_op("lt", (iterator, Cast(I64, length)), node.extent.span) for length in lengths)
            inner = _nodes(body, inside, (*when, *data))
            _check_kept(data, inner, node.extent.span, names, several=True)
            return (Scope(around, inner, _marks(words, names), name, span, hints=hints),)


def _check_kept(
    data: tuple[Expr, ...], inner: tuple[Node, ...], span: Span, names: NamesInScope, several: bool = False
) -> None:
    """Raises KernelError where a body writes what its conditions read: each statement of it evaluates them again,
    so the last one may."""
    if not several and inner and isinstance(inner[-1], Statement):
        inner = inner[:-1]
    written = written_in(inner)
    for read in (read for part in data for read in expr_accesses(part)):
        if read.buffer in written:
            cure = "copy it into a tmp before"
            message = (
                f"this reads {read.buffer}, which is written under it, and each statement evaluates it: {cure}"
            )
            raise names.error("condition-written", message, span, names.note(names.buffers[read.buffer]))


def _marks(marks: tuple[syntax.Word, ...], names: NamesInScope) -> tuple[str, ...]:
    seen: dict[str, Span] = {}
    for mark in marks:
        if mark.text not in MARKS:
            meant = cure_of_mark(mark.text)
            hint = f": {meant}" if meant else did_you_mean(mark.text, MARKS)
            hint = hint or f": write one of {', '.join(MARKS)}"
            if mark.text in names.sizes:
                written = cure_of_line(names.source.line(mark.span.line))
                hint = f": {written[0]}" if written else hint
            if mark.text in HINTS:
                hint = f": a hint has arguments, as in {HINTS[mark.text]}"
            raise names.error("unknown-mark", f"there is no mark '{short(mark.text)}'{hint}", mark.span)
        if mark.text in seen:
            note = Note("it is given here", seen[mark.text])
            raise names.error("duplicate-mark", f"the mark {mark.text} is given twice", mark.span, note)
        seen[mark.text] = mark.span
    return tuple(seen)


def _statements(node: syntax.Statement, names: NamesInScope, when: tuple[Expr, ...]) -> tuple[Statement, ...]:
    condition = None if node.condition is None else value(node.condition, names)
    match node.target, node.value:
        case syntax.Call(syntax.Word(syntax.PAIR), targets), syntax.Call(syntax.Word(syntax.PAIR), values):
            first, second = (_target(target, names) for target in targets)
            halves = first, second
            result, place = (value(part, names) for part in values)
            if reads_itself(halves, (result, place)):
                message = "a pair is made of values that read neither of its halves: copy these into a tmp first"
                raise names.error("bad-pair", message, node.value.span)
            made = pair_statements(halves, node.sign, (result, place), condition, node.span)
        case _:
            result = value(node.value, names)
            if condition is not None:
                result = Op("when", (condition, result), node.span)
            made = (Statement(_target(node.target, names), node.sign, result, node.span),)
    if not when:
        return made
    around = reduce(lambda left, right: Op("and", (left, right)), when)
    return tuple(replace(one, value=Op(UNDER, (around, one.value), node.span)) for one in made)


def _target(expr: syntax.Expr, names: NamesInScope) -> Access:
    """The element that a statement writes."""
    if isinstance(expr, syntax.Call) and expr.name.text == syntax.PAIR:
        message = "a pair is assigned a pair: write (m[…], at[…]) max= (value, place)"
        raise names.error("bad-pair", message, expr.span)
    if not isinstance(expr, syntax.Name | syntax.Subscript):
        raise names.error("not-a-target", "only an element of a buffer can be written", expr.span)
    target = access(expr, names)
    buffer = names.buffers[target.buffer]
    if buffer.role == "in":
        cure = "declare it inout, or write to another buffer"
        raise names.error("write-to-input", f"{buffer.name} is an input: {cure}", expr.span, names.note(buffer))
    return target
