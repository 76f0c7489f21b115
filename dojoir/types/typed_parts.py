"""The parts of a typed tree, over leaves of any kind."""

from __future__ import annotations

from collections.abc import Iterator

from dojoir.types.typed import Apply, Convert, Leaf, TypedOver


def typed_operands(value: TypedOver[Leaf]) -> tuple[TypedOver[Leaf], ...]:
    """The expressions that an operation or a conversion is of, in order of evaluation; a leaf has none."""
    match value:
        case Apply(_, _, args):
            return args
        case Convert(_, arg):
            return (arg,)
    return ()


def typed_parts(value: TypedOver[Leaf]) -> Iterator[TypedOver[Leaf]]:
    """An expression and all that it is made of, each before what it is applied to, in order of evaluation."""
    left = [value]
    while left:
        yield (part := left.pop())
        left += typed_operands(part)[::-1]
