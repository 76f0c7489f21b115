"""Lengths from data whose bound their declaration states, written out where a text is read.

Where `in len: i32[N] lengths(M)` is declared, a scope of `len[{0}]` is one of `min(len[{0}], M)`; where
`in rows: i32[N + 1] offsets(M)` is, so is one of `rows[{0} + 1] - rows[{0}]`. Every call checks that no such length
is above the bound, so the minimum takes nothing away.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from dojoir.grammar import syntax
from dojoir.grammar.syntax import Binary, Call, Expr, Name, Number, Subscript, Word, every, wording
from dojoir.ir.dtypes import DTYPES

Stated = Mapping[tuple[str, str], Expr]
"""The bound of each fact on data that has one, by the argument and the word of the fact."""


def with_stated_bounds(written: syntax.Kernel) -> syntax.Kernel:
    """The text with a bound from sizes beside each length from data; the very text where no declaration has one."""
    buffers = [line for line in written.header if isinstance(line, syntax.Buffer)]
    stated = {
        (buffer.name.text, attribute.name.text): attribute.args[0]
        for buffer in buffers
        for attribute in buffer.attributes
        if attribute.name.text in ("lengths", "offsets") and len(attribute.args) == 1
    }
    if not stated:
        return written
    data = {buffer.name.text for buffer in buffers}

    def bounded(node: syntax.Node) -> tuple[syntax.Node, ...]:
        if isinstance(node, syntax.Scope):
            return (replace(node, extent=_extent(node.extent, data, stated)),)
        return (node,)

    return replace(written, body=syntax.with_nodes(written.body, bounded))


def _extent(extent: Expr, data: set[str], stated: Stated) -> Expr:
    """An extent with the bounds of its lengths, where none beside them comes from sizes."""
    lengths = extent.args if isinstance(extent, Call) and extent.name.text == "min" else (extent,)
    if not all(any(_is_data(part, data) for part in every(length)) for length in lengths):
        return extent
    bounds = {wording(bound): bound for length in lengths for bound in _bounds(length, stated)}
    return Call(Word("min", extent.span), (*lengths, *bounds.values()), extent.span) if bounds else extent


def _is_data(expr: Expr, data: set[str]) -> bool:
    return isinstance(expr, Subscript) or (isinstance(expr, Name) and expr.text in data)


def _bounds(length: Expr, stated: Stated) -> Iterator[Expr]:
    """The bound that is stated of a length, if there is one."""
    match _plain(length):
        case Name(name) | Subscript(Word(name)) if (name, "lengths") in stated:
            yield stated[name, "lengths"]
        case Binary(end, "-", begin):
            match _plain(end), _plain(begin):
                case Subscript(Word(name), (*outer, last)), Subscript(Word(other), (*same, first)):
                    alike = name == other and [*map(wording, outer)] == [*map(wording, same)]
                    (after, end_at), (before, begin_at) = _from_base(last), _from_base(first)
                    is_step = alike and after == before and end_at == begin_at + 1
                    if is_step and (name, "offsets") in stated:
                        yield stated[name, "offsets"]


def _plain(expr: Expr) -> Expr:
    """The value in a cast to an integer type: of a number from 0 on, that gives none that is larger."""
    match expr:
        case Call(Word(name), (arg,)) if name in DTYPES and DTYPES[name].is_integer:
            return _plain(arg)
    return expr


def _from_base(index: Expr) -> tuple[str, int]:
    """An index as what it begins with, as it is written, and the number added to that."""
    match index:
        case Number(text) if text.isdecimal():
            return "", int(text)
        case Binary(base, "+", Number(text)) | Binary(Number(text), "+", base) if text.isdecimal():
            words, more = _from_base(base)
            return words, more + int(text)
        case Binary(base, "-", Number(text)) if text.isdecimal():
            words, more = _from_base(base)
            return words, more - int(text)
    return wording(index), 0
