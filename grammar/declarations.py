"""The header of a kernel: its sizes, the facts about them, and its buffers."""

from __future__ import annotations

from dataclasses import replace

from dojoir.errors import KernelError, Note, Span, did_you_mean
from dojoir.grammar import syntax
from dojoir.grammar.expressions import affine, condition, integer
from dojoir.grammar.names import RESERVED, Names, short
from dojoir.ir import FP_MODES, STORAGES, Buffer, Condition, Dim, Size, holds

LARGEST_SIZE = 2**31 - 1
LARGEST_PAD = 2**20
LARGEST_ALIGNMENT = 4096

_ATTRIBUTES = (*STORAGES, "order", "pad", "align")


def declare_sizes(written: tuple[syntax.Size, ...], names: Names) -> Names:
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


def declare_buffer(written: syntax.Buffer, names: Names) -> Names:
    """The names with the buffer of one line added."""
    name, role = written.name.text, written.role
    _check_new(written.name, names)
    dtype = names.dtype(written.dtype)
    dims = tuple(
        Dim(affine(d.extent, names, f"a dimension of {name}"), d.collapsed, d.extent.span) for d in written.dims
    )
    for dim in dims:
        if dim.collapsed and role != "tmp":
            message = f"'~' is for a tmp; {name} is an argument, and its storage is the caller's"
            raise names.error("argument-storage", message, dim.loc or written.name.span)
    buffer = Buffer(role, name, dtype, dims, loc=written.name.span)
    seen: dict[str, Span] = {}
    for attribute in written.attributes:
        word = attribute.name.text
        if word not in _ATTRIBUTES:
            hint = did_you_mean(word, _ATTRIBUTES) or f": write one of {', '.join(_ATTRIBUTES)}"
            raise names.error(
                "unknown-attribute", f"there is no attribute '{short(word)}'{hint}", attribute.name.span
            )
        kind = "storage" if word in STORAGES else word
        if kind in seen:
            message = f"the {kind} of {name} is given twice"
            raise names.error("duplicate-attribute", message, attribute.span, Note("it is given here", seen[kind]))
        seen[kind] = attribute.span
        buffer = _with_attribute(buffer, attribute, names)
    return replace(names, buffers={**names.buffers, name: buffer})


def _with_attribute(buffer: Buffer, attribute: syntax.Attribute, names: Names) -> Buffer:
    """The buffer with one attribute set."""
    word, span = attribute.name.text, attribute.span
    numbers = tuple(integer(number, names) for number in attribute.numbers)
    rank = len(buffer.dims)

    def wrong(message: str) -> KernelError:
        return names.error("bad-attribute", message, span)

    match word:
        case "order":
            if not attribute.listed or sorted(numbers) != list(range(rank)):
                every = ", ".join(str(dim) for dim in range(rank)) or "none, it is a scalar"
                raise wrong(f"order(…) names each dimension of {buffer.name} once ({every}), outermost first")
            return replace(buffer, order=numbers)
        case "pad":
            if not attribute.listed or len(numbers) != rank:
                raise wrong(f"pad(…) takes one number for each dimension of {buffer.name}, which has {rank}")
            if max(numbers) > LARGEST_PAD:
                raise wrong(f"a dimension is padded by at most {LARGEST_PAD} elements")
            return replace(buffer, pad=numbers)
        case "align":
            if attribute.listed or len(numbers) != 1 or numbers[0] & (numbers[0] - 1) or not numbers[0]:
                raise wrong("align takes a power of two, in bytes, such as align 64")
            if numbers[0] > LARGEST_ALIGNMENT:
                raise wrong(f"alignment is at most {LARGEST_ALIGNMENT} bytes")
            return replace(buffer, align=numbers[0])
        case _:
            if numbers:
                raise wrong(f"{word} takes no number")
            if buffer.role != "tmp":
                message = f"{word} is for a tmp; {buffer.name} is an argument, and its storage is the caller's"
                raise names.error("argument-storage", message, span)
            return replace(buffer, storage=word)


def _check_new(name: syntax.Word, names: Names) -> None:
    if name.text in RESERVED:
        message = f"'{name.text}' is a word of the language, and cannot be a name"
        raise names.error("reserved-word", message, name.span)
    earlier = names.sizes.get(name.text) or names.buffers.get(name.text)
    if earlier is not None:
        kind = "size" if isinstance(earlier, Size) else "buffer"
        note = Note(f"the {kind} {short(name.text)} is declared here", earlier.loc)
        raise names.error("duplicate-name", f"there is already a {kind} '{short(name.text)}'", name.span, note)


def facts(written: tuple[syntax.Expr, ...], names: Names) -> tuple[Condition, ...]:
    """The facts of a `where` line. One between numbers alone, as fixed sizes may give, is checked and left out."""
    found = []
    for expr in written:
        fact = condition(expr, names)
        if not (fact.left.is_constant and fact.right.is_constant):
            found.append(fact)
        elif not holds(fact, {}, ()):
            raise names.error("broken-fact", "this never holds, so the kernel could never run", expr.span)
    return tuple(found)


def fp_mode(word: syntax.Word, names: Names) -> str:
    """What rewrites may do to floating point."""
    if word.text not in FP_MODES:
        hint = did_you_mean(word.text, FP_MODES) or f": write one of {', '.join(FP_MODES)}"
        raise names.error(
            "unknown-fp-mode", f"there is no floating point mode '{short(word.text)}'{hint}", word.span
        )
    return word.text
