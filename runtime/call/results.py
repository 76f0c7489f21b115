"""The shapes and strides of what a kernel returns, from the shapes of what it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import cast

from dojoir.ir.affine import Affine, SizeVar
from dojoir.ir.nodes import Buffer, Kernel
from dojoir.meaning.sizes import undivided
from dojoir.runtime.call.arguments import wrong_rank
from dojoir.runtime.call.fitting import python_of
from dojoir.runtime.call.scalars import takes_value

Layout = tuple[tuple[int, ...], tuple[int, ...]]
"""A shape, and strides in elements."""

Results = Callable[[Sequence[Sequence[int]], Mapping[str, int]], tuple[Layout, ...]]


@lru_cache(256)
def results_of(kernel: Kernel) -> tuple[Results, tuple[str, ...]]:
    """A function from the shapes of all arrays that are given (`in` and `inout`, in declared order), and the sizes
    that they leave open by name, to the layout of every `out` and `inout`; and the names of those sizes.

    It only computes, on anything that has the arithmetic of integers: whether the shapes fit is for the call."""
    number = {name: i for i, name in enumerate(kernel.runtime_sizes)}
    arrays = [buffer for buffer in kernel.arguments if not takes_value(buffer)]
    given = [buffer for buffer in arrays if buffer.role != "out"]
    lines: list[str] = []
    known: set[str] = set()
    extents = [
        (*undivided(dim.extent, kernel.facts), f"shapes[{v}][{d}]")
        for v, buffer in enumerate(given)
        for d, dim in enumerate(buffer.dims)
        if not dim.collapsed
    ]
    open_sizes = tuple(name for name in number if name not in _solved(extents, number, known, []))
    known.clear()
    known.update(open_sizes)
    _solved(extents, number, known, lines)
    texts = [_layout(buffer, number, lines) for buffer in arrays if buffer.role != "in"]
    lines[:0] = [f"if len(shapes[{v}]) != {len(b.dims)}: wrong({v}, shapes[{v}])" for v, b in enumerate(given)]
    lines[:0] = [f"n{number[name]} = sizes[{name!r}]" for name in open_sizes]
    body = "".join(f"    {line}\n" for line in [*lines, f"return ({''.join(text + ', ' for text in texts)})"])

    def wrong(v: int, shape: Sequence[int]) -> None:
        raise wrong_rank(given[v], tuple(shape))

    space: dict[str, object] = {"wrong": wrong}
    exec(f"def results(shapes, sizes):\n{body}", space)
    return cast("Results", space["results"]), open_sizes


def _solved(
    extents: Sequence[tuple[Affine, int, str]], number: dict[str, int], known: set[str], lines: list[str]
) -> set[str]:
    """Adds to `known` the sizes that the extents give, as `dojoir.meaning.sizes.solve` finds them."""
    progress = True
    while progress:
        progress = False
        for extent, times, found in extents:
            actual = found if times == 1 else f"{times} * {found}"
            unknown = extent.sizes - known
            if len(unknown) != 1:
                continue
            (name,) = unknown
            factor = extent.coefficient(SizeVar(name))
            rest = extent - Affine.size(name) * factor
            if factor and name not in rest.sizes:
                plain = factor == 1 and not rest.terms and not rest.offset
                value = actual if plain else f"({actual} - ({python_of(rest, number)})) // {factor}"
                lines.append(f"n{number[name]} = {value}")
                known.add(name)
                progress = True
    return known


def _layout(buffer: Buffer, number: dict[str, int], lines: list[str]) -> str:
    """The shape and strides of one array, as Python."""
    dims = range(len(buffer.dims))
    pad = buffer.pad or (0,) * len(buffer.dims)
    shape = ["1" if dim.collapsed else python_of(dim.extent, number) for dim in buffer.dims]
    strides = [""] * len(shape)
    step = "1"
    for d in reversed(buffer.order or tuple(dims)):
        strides[d] = step
        factor = f"({shape[d]} + {pad[d]})" if pad[d] else f"({shape[d]})"
        step = factor if step == "1" else f"{step} * {factor}"
    return f"(({''.join(s + ', ' for s in shape)}), ({''.join(s + ', ' for s in strides)}))"
