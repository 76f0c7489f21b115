"""From the tree as written to a kernel: every name looked up, every rule of the text checked."""

from __future__ import annotations

from dojoir.errors import KernelError, Note, Source, Span, did_you_mean
from dojoir.grammar import syntax
from dojoir.grammar.declarations import declare_buffer, declare_sizes, facts, fp_mode
from dojoir.grammar.expressions import access, conditions, extent, value
from dojoir.grammar.hints import HINTS, resolve_hints
from dojoir.grammar.names import Around, Names, short
from dojoir.ir.nodes import MARKS, Access, Condition, Guard, Kernel, Node, Scope, Statement
from dojoir.ir.packing import packing_error
from dojoir.types.elaborate import check


def resolve(written: syntax.Kernel, source: Source) -> Kernel:
    """The kernel. Raises KernelError at the first thing in it that has no meaning."""
    names = declare_sizes(written.sizes, Names(source, {}, {}))
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
    check(kernel)
    error = packing_error(kernel)
    if error is not None:
        raise KernelError(error)
    return kernel


def _nodes(nodes: tuple[syntax.Node, ...], names: Names) -> tuple[Node, ...]:
    return tuple(_node(node, names) for node in nodes)


def _node(node: syntax.Node, names: Names) -> Node:
    match node:
        case syntax.Statement():
            return _statement(node, names)
        case syntax.Guard(condition, body, span):
            return Guard(conditions(condition, names), _nodes(body, names), span)
        case syntax.Scope(_, marks, label, body, span):
            name = None if label is None else label.text
            inside = names.inside(Around(name, span))
            words = tuple(mark for mark in marks if isinstance(mark, syntax.Word))
            hints = resolve_hints(tuple(mark for mark in marks if isinstance(mark, syntax.Hint)), names)
            around = extent(node.extent, names)
            return Scope(around, _nodes(body, inside), _marks(words, names), name, span, hints=hints)


def _marks(marks: tuple[syntax.Word, ...], names: Names) -> tuple[str, ...]:
    seen: dict[str, Span] = {}
    for mark in marks:
        if mark.text not in MARKS:
            hint = did_you_mean(mark.text, MARKS) or f": write one of {', '.join(MARKS)}"
            if mark.text in HINTS:
                hint = f": a hint has arguments, as in {HINTS[mark.text]}"
            raise names.error("unknown-mark", f"there is no mark '{short(mark.text)}'{hint}", mark.span)
        if mark.text in seen:
            note = Note("it is given here", seen[mark.text])
            raise names.error("duplicate-mark", f"the mark {mark.text} is given twice", mark.span, note)
        seen[mark.text] = mark.span
    return tuple(seen)


def _statement(node: syntax.Statement, names: Names) -> Statement:
    target = _target(node.target, node.sign, names)
    return Statement(target, node.sign, value(node.value, names), node.span)


def _target(expr: syntax.Expr, sign: str, names: Names) -> Access:
    """The element that a statement writes."""
    if not isinstance(expr, syntax.Name | syntax.Subscript):
        raise names.error("not-a-target", "only an element of a buffer can be written", expr.span)
    target = access(expr, names)
    buffer = names.buffers[target.buffer]
    if buffer.role == "in":
        cure = "declare it inout, or write to another buffer"
        raise names.error("write-to-input", f"{buffer.name} is an input: {cure}", expr.span, names.note(buffer))
    for index in target.indices:
        if isinstance(index, Access) and sign == "=":
            message = "what is assigned has quasi-affine indices: a read may gather, and an accumulation scatter"
            raise names.error("scatter", message, index.loc or expr.span)
    return target
