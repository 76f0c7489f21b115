"""Arrays of a call that have one dimension where a kernel has several: `in x: f32[N, C] flat(2)` is given an array
of `N*C` elements. One with all dimensions is taken as well: it is the same memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

import numpy as np

from dojoir.errors import ArgumentError
from dojoir.ir.nodes import Buffer, Dim, Kernel
from dojoir.meaning.sizes import given_sizes, solve_one

Shape = tuple[int, ...]


def has_flat(kernel: Kernel) -> bool:
    """Whether an argument of the kernel is flat."""
    return any(buffer.flat is not None for buffer in kernel.arguments)


def split_shapes(kernel: Kernel, shapes: Mapping[str, Shape], given: Mapping[str, object]) -> dict[str, Shape]:
    """The shapes of arrays, by buffer, with all dimensions of the kernel. Raises ArgumentError for one that cannot
    be split so, and where the sizes that it is to be split by are not known."""
    found = dict(shapes)
    joined = {
        buffer.name: buffer
        for buffer in kernel.arguments
        if buffer.flat is not None and len(shapes.get(buffer.name, ())) == len(buffer.flat) < len(buffer.dims)
    }
    if not joined:
        return found
    sizes = _sizes(kernel, shapes, given, joined)
    for name, buffer in joined.items():
        missing = [size for dim in buffer.dims for size in sorted(dim.extent.sizes) if size not in sizes]
        if missing:
            text = f"{name} is given as {list(shapes[name])} for [{', '.join(str(d.extent) for d in buffer.dims)}]"
            raise ArgumentError(f"{text}: pass {missing[0]}=…, or an array with all dimensions", "size-missing")
        for dims, count in _groups(buffer, shapes[name]):
            wanted = prod(dim.extent.evaluate(sizes) for dim in dims)
            if wanted != count:
                product = "*".join(_factor(dim) for dim in dims)
                known = ", ".join(f"{n}={sizes[n]}" for n in sorted({s for d in dims for s in d.extent.sizes}))
                message = (
                    f"argument {name} has {count} elements along a dimension of {product} = {wanted} ({known})"
                )
                raise ArgumentError(message, "size-conflict")
        found[name] = tuple(dim.extent.evaluate(sizes) for dim in buffer.dims)
    return found


def flattened(buffer: Buffer, array: np.ndarray) -> np.ndarray:
    """An array of all dimensions as a call knows it: the same memory."""
    if buffer.flat is None:
        return array
    left = iter(array.shape)
    return array.reshape([prod(next(left) for _ in range(count)) for count in buffer.flat])


def _sizes(
    kernel: Kernel, shapes: Mapping[str, Shape], given: Mapping[str, object], joined: Mapping[str, Buffer]
) -> dict[str, int]:
    """The sizes that follow from those given, from dimensions, and from products with one unknown."""
    sizes = given_sizes(kernel, given)
    while True:
        before = len(sizes)
        for buffer in kernel.arguments:
            shape = shapes.get(buffer.name, ())
            if buffer.name in joined:
                for dims, count in _groups(buffer, shape):
                    _solve_product(dims, count, sizes)
            elif len(shape) == len(buffer.dims):
                for dim, actual in zip(buffer.dims, shape, strict=True):
                    _solve_product((dim,), actual, sizes)
        if len(sizes) == before:
            return sizes


def _solve_product(dims: tuple[Dim, ...], count: int, sizes: dict[str, int]) -> None:
    """The size that a dimension gives, where all but one of its factors are known."""
    unknown = [dim for dim in dims if not dim.extent.sizes <= sizes.keys()]
    if len(unknown) == 1 and not unknown[0].collapsed:
        rest = prod(dim.extent.evaluate(sizes) for dim in dims if dim is not unknown[0])
        found = solve_one(unknown[0].extent, count // rest, sizes) if rest > 0 else None
        if found is not None and found[1] > 0:
            sizes[found[0]] = found[1]


def _groups(buffer: Buffer, shape: Shape) -> Iterator[tuple[tuple[Dim, ...], int]]:
    """The dimensions that each dimension of a flat array stands for, with how long it is."""
    start = 0
    for count, actual in zip(buffer.flat or (), shape, strict=True):
        yield buffer.dims[start : start + count], actual
        start += count


def _factor(dim: Dim) -> str:
    return str(dim.extent) if len(dim.extent.terms) + bool(dim.extent.offset) < 2 else f"({dim.extent})"
