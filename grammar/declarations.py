"""The header of a kernel: its sizes, the facts about them, and its buffers."""

from __future__ import annotations

from dataclasses import replace

from dojoir.errors import Note, Span, did_you_mean
from dojoir.grammar import syntax
from dojoir.grammar.expressions import affine, condition, factors, integer
from dojoir.grammar.names_in_scope import NamesInScope, short
from dojoir.grammar.other_languages import cure_of_storage
from dojoir.ir.buffer_rules import (
    align_error,
    data_fact_error,
    flat_error,
    order_error,
    pad_error,
    storage_error,
    stream_error,
    strided_error,
    swizzle_error,
)
from dojoir.ir.nodes import (
    ATTRIBUTES,
    FP_MODES,
    LARGEST_SIZE,
    STORAGES,
    Buffer,
    Condition,
    DataFact,
    Dim,
    Size,
    holds,
)
from dojoir.ir.words import DATA_FACTS, name_error


def declare_sizes(written: tuple[syntax.Size, ...], names: NamesInScope) -> NamesInScope:
    """The names with the sizes of the kernel line added."""
    for size in written:
        _check_new(size.name, names)
        value = None
        if size.value is not None:
            value = integer(size.value, names)
            if value > LARGEST_SIZE:
                raise names.error("bad-size", f"a size is at most {LARGEST_SIZE}", size.value.span)
        name = size.name.text
        names = replace(names, sizes={**names.sizes, name: Size(name, value, size.name.span)})
    return names


def _check_products(written: syntax.Buffer, names: NamesInScope) -> None:
    """That no dimension is a product of sizes, which is two dimensions."""
    for dim in written.dims:
        product = [word for word in factors(dim.extent) if word in names.sizes and names.sizes[word].value is None]
        if len(product) > 1:
            extents = [word for d in written.dims for word in factors(d.extent) or ["…"]]
            shape = f"{written.name.text}: {written.dtype.text}[{', '.join(extents)}]"
            cure = f"declare {shape}, which is the same memory, with an index for each, or fix one (NAME = INT)"
            message = f"a dimension is a sum of sizes, each times an integer, and this multiplies two: {cure}"
            raise names.error("not-affine", message, dim.extent.span)


def declare_buffer(written: syntax.Buffer, names: NamesInScope) -> NamesInScope:
    """The names with the buffer of one line added."""
    name, role = written.name.text, written.role
    _check_new(written.name, names)
    dtype = names.dtype(written.dtype)
    _check_products(written, names)
    dims = tuple(
        Dim(affine(d.extent, names, f"a dimension of {name}"), d.collapsed, d.extent.span) for d in written.dims
    )
    buffer = Buffer(role, name, dtype, dims, loc=written.name.span)
    error = storage_error(buffer)
    if error is not None:
        raise names.error("bad-attribute", error, next(d.loc for d in dims if d.collapsed) or written.name.span)
    seen: dict[str, Span] = {}
    for attribute in written.attributes:
        word = attribute.name.text
        if word not in ATTRIBUTES:
            meant = cure_of_storage(word)
            hint = f": {meant}" if meant else did_you_mean(word, ATTRIBUTES)
            hint = hint or f": write one of {', '.join(ATTRIBUTES)}"
            raise names.error(
                "unknown-attribute", f"there is no attribute '{short(word)}'{hint}", attribute.name.span
            )
        kind = "storage" if word in STORAGES else word
        if kind in seen:
            message = f"the {kind} of {name} is given twice"
            raise names.error("duplicate-attribute", message, attribute.span, Note("it is given here", seen[kind]))
        seen[kind] = attribute.span
        buffer = _with_attribute(buffer, attribute, names)
    for word, rule in _OF_THE_WHOLE.items():
        error = rule(buffer) if word in seen else None
        if error is not None:
            raise names.error("bad-attribute", error, seen[word])
    return replace(names, buffers={**names.buffers, name: buffer})


_OF_THE_WHOLE = {
    "stream": stream_error,
    "swizzle": swizzle_error,
    "strided": strided_error,
    "flat": flat_error,
    **dict.fromkeys(DATA_FACTS, data_fact_error),
}
"""The rules for an attribute beside the others, by their errors."""


def _with_attribute(buffer: Buffer, attribute: syntax.Attribute, names: NamesInScope) -> Buffer:
    """The buffer with one attribute set."""
    word, span = attribute.name.text, attribute.span
    if word in DATA_FACTS:
        return replace(buffer, facts=(*buffer.facts, _data_fact(attribute, names)))
    numbers = tuple(_number(arg, word, names) for arg in attribute.args)
    match word:
        case "order" if attribute.listed:
            buffer = replace(buffer, order=numbers)
            error = order_error(buffer)
        case "pad" if attribute.listed:
            buffer = replace(buffer, pad=numbers)
            error = pad_error(buffer)
        case "flat" if attribute.listed:
            buffer, error = replace(buffer, flat=numbers), None
        case "order" | "pad" | "flat":
            error = f"{word} takes a number for each dimension, as in {word}(…)"
        case "swizzle" if len(numbers) == 1 and attribute.listed and numbers[0]:
            buffer, error = replace(buffer, swizzle=numbers[0]), None
        case "swizzle":
            error = "swizzle takes the bytes of a row, as in swizzle(128)"
        case "align" if len(numbers) == 1 and not attribute.listed and numbers[0]:
            buffer = replace(buffer, align=numbers[0])
            error = align_error(buffer)
        case "align":
            error = "align takes one number of bytes, as in align 64"
        case "stream" if len(numbers) == 1 and not attribute.listed and numbers[0]:
            buffer, error = replace(buffer, stream=numbers[0]), None
        case "stream" if numbers or attribute.listed:
            error = "stream takes no number, or one of bytes, as in stream 8388608"
        case _ if numbers or attribute.listed:
            error = f"{word} takes no number"
        case "stream":
            buffer, error = replace(buffer, stream=1), None
        case "strided":
            buffer, error = replace(buffer, strided=True), None
        case "packed":
            buffer, error = replace(buffer, packed=True), None
        case _:
            buffer = replace(buffer, storage=word)
            error = storage_error(buffer)
            if buffer.role != "tmp":  # the text does not repeat what is so anyway
                error = error or f"{word} is for a tmp; leave it out"
    if error is not None:
        raise names.error("bad-attribute", error, span)
    return buffer


def _number(arg: syntax.Expr, word: str, names: NamesInScope) -> int:
    if not isinstance(arg, syntax.Number):
        raise names.error("bad-attribute", f"{word} takes numbers, and this is none", arg.span)
    return integer(arg, names)


def _data_fact(attribute: syntax.Attribute, names: NamesInScope) -> DataFact:
    """A fact on data, with its bound."""
    word, args = attribute.name.text, attribute.args
    if not DATA_FACTS[word].bounded:
        if args or attribute.listed:
            raise names.error("bad-attribute", f"{word} takes no number", attribute.span)
        return DataFact(word)
    if len(args) != 1 or not attribute.listed:
        message = f"{word} takes the largest that there may be, in brackets, as in {word}(64) or {word}(M)"
        raise names.error("bad-attribute", message, attribute.span)
    return DataFact(word, affine(args[0], names, f"the bound of {word}"))


def _check_new(name: syntax.Word, names: NamesInScope) -> None:
    error = name_error(name.text)
    if error is not None:
        raise names.error("reserved-word", error, name.span)
    earlier = names.sizes.get(name.text) or names.buffers.get(name.text)
    if earlier is not None:
        kind = "size" if isinstance(earlier, Size) else "buffer"
        note = Note(f"the {kind} {short(name.text)} is declared here", earlier.loc)
        raise names.error("duplicate-name", f"there is already a {kind} '{short(name.text)}'", name.span, note)


def facts(written: tuple[syntax.Expr, ...], names: NamesInScope) -> tuple[Condition, ...]:
    """The facts of a `where` line. One between numbers alone, as fixed sizes may give, is checked and left out."""
    found = []
    for expr in written:
        fact = condition(expr, names)
        if not (fact.left.is_constant and fact.right.is_constant):
            found.append(fact)
        elif not holds(fact, {}, ()):
            raise names.error("broken-fact", "this never holds, so the kernel could never run", expr.span)
    return tuple(found)


def fp_mode(word: syntax.Word, names: NamesInScope) -> str:
    """The floating-point mode: what rewrites may do."""
    if word.text not in FP_MODES:
        hint = did_you_mean(word.text, FP_MODES) or f": write one of {', '.join(FP_MODES)}"
        raise names.error(
            "unknown-fp-mode", f"there is no floating point mode '{short(word.text)}'{hint}", word.span
        )
    return word.text
