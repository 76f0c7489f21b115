"""The check of the facts on data that arguments declare, made at each call before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dojoir.errors import ArgumentError
from dojoir.ir.format import format_buffer
from dojoir.ir.nodes import Buffer, DataFact

Array = npt.NDArray[Any]


def check_data(
    facts: Iterable[tuple[Buffer, DataFact]], contents: Callable[[str], Array], sizes: Mapping[str, int]
) -> None:
    """Raises ArgumentError where the data of a call break one of the facts that arguments declare, naming
    elements, what they are and what to do. `contents` gives those of an argument by its name, a number without
    dimensions. Takes a sort for `distinct`, about 3 ms for 1,000,000 elements of i32, and a pass for others."""
    for buffer, fact in facts:
        wrong = _broken(buffer, fact, np.asarray(contents(buffer.name)), sizes)
        if wrong is not None:
            raise wrong


def _broken(buffer: Buffer, fact: DataFact, given: Array, sizes: Mapping[str, int]) -> ArgumentError | None:
    match fact.word:
        case "distinct":
            return _equal_ones(buffer, given)
        case "lengths":
            return _beyond(buffer, fact, given, sizes)
        case "offsets":
            return _step_error(buffer, fact, given, sizes)
    raise AssertionError(fact.word)


def _equal_ones(buffer: Buffer, given: Array) -> ArgumentError | None:
    flat = given.ravel()
    ordered = np.sort(flat)
    if not (ordered[1:] == ordered[:-1]).any():
        return None
    order = np.argsort(flat, kind="stable")
    first = int(np.argmax(flat[order][1:] == flat[order][:-1]))
    one, other = (_element(buffer, given, int(order[at])) for at in (first, first + 1))
    return ArgumentError(
        f"{one} and {other} are both {flat[order[first]]}, and the kernel declares '{format_buffer(buffer)}': "
        f"pass numbers of which no two are equal, or take `distinct` away, so that writes stay in order",
        "not-distinct",
    )


def _beyond(buffer: Buffer, fact: DataFact, given: Array, sizes: Mapping[str, int]) -> ArgumentError | None:
    most, says = _bound(fact, sizes)
    flat = given.ravel()
    wrong = _outside(flat, most)
    if not wrong.any():
        return None
    at = int(np.argmax(wrong))
    length = f"{buffer.name}[…]" if buffer.dims else buffer.name
    return ArgumentError(
        f"{_element(buffer, given, at)} is {flat[at]}, and the kernel declares '{format_buffer(buffer)}'{says}: "
        f"pass lengths from 0 to {most}, or take `{fact}` away, so that min({length}, {fact.most}) cuts them off",
        "length-out-of-range",
    )


def _step_error(buffer: Buffer, fact: DataFact, given: Array, sizes: Mapping[str, int]) -> ArgumentError | None:
    most, says = _bound(fact, sizes)
    begin, end = given[..., :-1].ravel(), given[..., 1:].ravel()
    steps = (end - begin).view(f"u{given.dtype.itemsize}")  # what wraps is right without a sign, if it is from 0 on
    wrong = (end < begin) | _outside(steps, most)
    if not wrong.any():
        return None
    at = int(np.argmax(wrong))
    row, column = divmod(at, given.shape[-1] - 1)
    first, second = (_element(buffer, given, row * given.shape[-1] + column + d) for d in (0, 1))
    return ArgumentError(
        f"{first} is {begin[at]} and {second} is {end[at]}, a step of {int(end[at]) - int(begin[at])}, and the "
        f"kernel declares '{format_buffer(buffer)}'{says}: pass offsets of which each is 0 to {most} above the one "
        f"before, or take `{fact}` away, so that min(…, {fact.most}) cuts rows off",
        "length-out-of-range",
    )


def _bound(fact: DataFact, sizes: Mapping[str, int]) -> tuple[int, str]:
    """The bound of a fact at a call, and what to say of it."""
    assert fact.most is not None
    most = fact.most.evaluate(sizes)
    return most, "" if fact.most.is_constant else f" ({fact.most} is {most})"


def _outside(values: Array, most: int) -> npt.NDArray[np.bool_]:
    """Which integers are below 0 or above a bound, which their type need not hold."""
    largest = np.iinfo(values.dtype).max
    above = values > min(most, largest) if most >= 0 else np.ones(values.shape, np.bool_)
    return np.asarray(above | (values < 0))


def _element(buffer: Buffer, given: Array, at: int) -> str:
    """An element, by its number in the order of the dimensions."""
    index = ", ".join(str(int(i)) for i in np.unravel_index(at, given.shape)) if given.shape else ""
    return f"{buffer.name}[{index}]" if given.shape else buffer.name
