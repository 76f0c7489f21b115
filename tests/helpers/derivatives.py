"""Gradients of kernels held against differences of their results, in f64."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dojoir
from dojoir import Kernel

Arrays = dict[str, NDArray[Any]]


def in_f64(kernel: Kernel) -> Kernel:
    """The kernel with f64 in place of f32."""
    return dojoir.parse(dojoir.to_text(kernel).replace("f32", "f64"))


def seeds(kernel: Kernel, inputs: Mapping[str, Any], sizes: Mapping[str, int], rng: np.random.Generator) -> Arrays:
    """A gradient for each floating-point result: the scalar is the sum of results times these."""
    given = {size: sizes[size] for size in kernel.runtime_sizes}
    found: Arrays = {}
    for buffer in kernel.arguments:
        if buffer.role != "in" and buffer.dtype.is_float:
            shape = tuple(dim.extent.evaluate(given) for dim in buffer.dims)
            found[buffer.name] = rng.standard_normal(shape)
    return found


def gradients(
    kernel: Kernel, inputs: Mapping[str, Any], sizes: Mapping[str, int], by: Mapping[str, Any], **options: Any
) -> Arrays:
    """What the gradient of a kernel gives, by the names of its inputs."""
    made = dojoir.gradient(kernel, **options)
    dojoir.prove(made)
    wanted = {f"d_{name}": value for name, value in by.items()} | dict(inputs)
    if options.get("keep"):
        kept = dojoir.parse(dojoir.to_text(kernel))
        wanted |= run(kept, inputs, sizes)
    taken = {b.name: wanted[b.name] for b in made.arguments if b.role != "out"}
    given: Any = {name: value for name, value in sizes.items() if name in made.runtime_sizes}
    result = dojoir.interpret(made, {n: np.array(v) for n, v in taken.items()}, **given)
    return {name.removeprefix("d_"): np.asarray(value) for name, value in result.items()}


def run(kernel: Kernel, inputs: Mapping[str, Any], sizes: Mapping[str, int]) -> Arrays:
    given: Any = {name: value for name, value in sizes.items() if name in kernel.runtime_sizes}
    found = dojoir.interpret(kernel, {n: np.array(v) for n, v in inputs.items()}, **given)
    return {name: np.asarray(value) for name, value in found.items()}


def slope(
    kernel: Kernel, inputs: Mapping[str, Any], sizes: Mapping[str, int], by: Mapping[str, Any],
    direction: Mapping[str, Any], step: float = 1e-6,
) -> float:  # fmt: skip
    """How fast the sum of results times `by` changes along a direction of the inputs."""

    def total(sign: float) -> float:
        moved = {n: np.asarray(v) + sign * step * direction[n] if n in direction else v for n, v in inputs.items()}
        results = run(kernel, moved, sizes)
        return sum(float(np.sum(results[name] * value)) for name, value in by.items())

    return (total(1) - total(-1)) / (2 * step)


def check_slope(kernel: Kernel, inputs: Mapping[str, Any], sizes: Mapping[str, int], seed: int = 0) -> None:
    """Holds the gradient by all floating-point inputs against differences along a direction."""
    rng = np.random.default_rng(seed)
    by = seeds(kernel, inputs, sizes, rng)
    found = gradients(kernel, inputs, sizes, by)
    direction = {name: rng.standard_normal(np.shape(inputs[name])) for name in found}
    mine = sum(float(np.sum(found[name] * direction[name])) for name in found)
    scale = sum(float(np.sum(np.abs(found[name] * direction[name]))) for name in found)
    wanted = slope(kernel, inputs, sizes, by, direction)
    assert abs(mine - wanted) <= 1e-6 * max(1.0, scale), (mine, wanted)
