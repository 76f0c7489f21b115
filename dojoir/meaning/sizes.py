"""The sizes of one call: those that the caller gives, and those that follow from the shapes of the arrays."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import SupportsIndex

from dojoir.errors import ArgumentError, did_you_mean, repr_of
from dojoir.ir.affine import Affine, FloorDiv, SizeVar
from dojoir.ir.format import format_condition
from dojoir.ir.nodes import Buffer, Condition, Kernel, holds
from dojoir.ir.packing import is_even
from dojoir.meaning.bearable import check_bearable


def solve(
    kernel: Kernel, shapes: Mapping[str, tuple[int, ...]], given: Mapping[str, object] | None = None
) -> dict[str, int]:
    """The value of every runtime size of the kernel.

    `shapes` holds the shape of each array that is passed, by buffer, of the rank of the buffer; `given` the sizes
    that are passed by name. A size that is not given is found from a dimension linear in it in which it is the
    only unknown, or that is half of such a one which is even. All dimensions (but collapsed ones, whose extent
    counts for nothing) and all facts of the kernel then hold. Raises ArgumentError where one does not, for a size
    that is unknown, wrong or cannot be found.
    """
    sizes = given_sizes(kernel, given or {})
    origin = {name: f"{name}={value} was given" for name, value in sizes.items()}
    extents = [
        (buffer, d, dim.extent, shapes[buffer.name][d])
        for buffer in kernel.arguments
        if buffer.name in shapes
        for d, dim in enumerate(buffer.dims)
        if not dim.collapsed
    ]
    progress = True
    while progress:
        progress = False
        for buffer, d, extent, actual in extents:
            whole, times = undivided(extent, kernel.facts)
            found = solve_one(whole, actual * times, sizes)
            if found is not None:
                name, value = found
                if value < 1:
                    raise ArgumentError(
                        f"argument {buffer.name} has {actual} along dimension {d}, which would make {name} "
                        f"{value}; a size is at least 1: where there are no elements, leave the call out",
                        "bad-size",
                    )
                sizes[name] = value
                origin[name] = f"{name}={value} comes from dimension {d} of {buffer.name}"
                progress = True
    for buffer, d, extent, actual in extents:
        if extent.sizes <= sizes.keys() and extent.evaluate(sizes) != actual:
            raise _wrong_extent(buffer, d, extent, actual, sizes, origin)
    missing = [name for name in kernel.runtime_sizes if name not in sizes]
    if missing:
        raise ArgumentError(
            f"{'sizes' if len(missing) > 1 else 'size'} {', '.join(missing)} of kernel {kernel.name} cannot be "
            f"known from the shapes: pass {', '.join(f'{name}=…' for name in missing)}",
            "size-missing",
        )
    check_facts(kernel, sizes)
    check_bearable(kernel, sizes)
    return sizes


def given_sizes(kernel: Kernel, given: Mapping[str, object]) -> dict[str, int]:
    """The sizes that a call passes by name. Raises ArgumentError for one that is none, or is no size."""
    return {name: _given(kernel, name, value) for name, value in given.items()}


def given_inputs(inputs: object) -> None:
    """Raises ArgumentError where what a caller gave for the inputs is no mapping of names to values."""
    if not (isinstance(inputs, Mapping) and all(isinstance(name, str) for name in inputs)):
        raise ArgumentError(f'inputs are given by name, as in {{"x": x}}, not {repr_of(inputs)}', "bad-inputs")


def check_facts(kernel: Kernel, sizes: Mapping[str, int]) -> None:
    """Raises ArgumentError for the first `where` fact of the kernel that these sizes break."""
    for fact in kernel.facts:
        if not holds(fact, sizes, ()):
            used = ", ".join(f"{name}={sizes[name]}" for name in sorted(fact.left.sizes | fact.right.sizes))
            raise ArgumentError(
                f"{used} breaks 'where {format_condition(fact)}' of kernel {kernel.name}", "broken-fact"
            )


def _given(kernel: Kernel, name: str, value: object) -> int:
    known = kernel.runtime_sizes
    if name not in known:
        fixed = [size for size in kernel.sizes if size.name == name]
        if fixed:
            message = f"size {name} of kernel {kernel.name} is fixed to {fixed[0].value}: do not pass it"
        else:
            message = (
                f"kernel {kernel.name} has no runtime size '{name}'{did_you_mean(name, known)}; "
                f"its runtime sizes: {', '.join(known) or 'none'}"
            )
        raise ArgumentError(message, "unknown-size")
    number = _integer_of(value)
    if not 1 <= number < 1 << 63:
        raise ArgumentError(f"size {name} must be an integer of at least 1, not {repr_of(value)}", "bad-size")
    return number


def _integer_of(value: object) -> int:
    """The integer that a value is, or 0."""
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        return 0
    try:
        return operator.index(value)
    except Exception:  # the method is the caller's; an array of several elements has it as well
        return 0


def undivided(extent: Affine, facts: tuple[Condition, ...]) -> tuple[Affine, int]:
    """`(E, 2)` for an extent `E // 2` where the facts say that E is even, else `(extent, 1)`."""
    match extent:
        case Affine(((FloorDiv(whole, 2), 1),), 0) if is_even(whole, facts):
            return whole, 2
    return extent, 1


def solve_one(extent: Affine, actual: int, sizes: Mapping[str, int]) -> tuple[str, int] | None:
    """The one size that `extent == actual` determines, if there is exactly one and it is not divided. Where the
    division leaves a rest, the comparison of all extents reports it."""
    unknown = extent.sizes - sizes.keys()
    if len(unknown) != 1:
        return None
    (name,) = unknown
    factor = extent.coefficient(SizeVar(name))
    rest = extent - Affine.size(name) * factor
    if name in rest.sizes or not factor:
        return None
    return name, (actual - rest.evaluate(sizes)) // factor


def _wrong_extent(
    buffer: Buffer, d: int, extent: Affine, actual: int, sizes: Mapping[str, int], origin: Mapping[str, str]
) -> ArgumentError:
    needed = extent.evaluate(sizes)
    because = "; ".join(origin[name] for name in sorted(extent.sizes))
    return ArgumentError(
        f"argument {buffer.name} has {actual} along dimension {d}, and must have "
        + (f"{extent} = {needed} ({because})" if extent.sizes else f"{needed}"),
        "size-conflict" if extent.sizes else "bad-shape",
    )
