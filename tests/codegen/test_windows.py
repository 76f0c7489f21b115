"""Tiles on matrix units whose operands are windows of an array: copied from the array itself, whatever its layout,
and right on the harness."""

from __future__ import annotations

import random
from collections.abc import Iterable
from math import prod

import numpy as np
import pytest
from gpu_compile import nvrtc_error
from narrow_products import bf16, numbers
from on_harness import run

import dojoir
from dojoir.backends.machine import MACHINES
from dojoir.codegen.emission import gpu_program
from dojoir.ir.nodes import Buffer
from dojoir.passes.schedule.forms.packed import pack_factors
from dojoir.passes.schedule.forms.temporaries import expand_temporaries
from dojoir.passes.schedule.gpu.tiles.matrix_units import small_group_tiles, small_matrix_tiles
from dojoir.passes.schedule.plan.planner import Planner
from dojoir.passes.schedule.steps.spots import spot

CUDA = MACHINES["cuda"]


def text_of(seed: int) -> str:
    """A convolution of one or two dimensions, whole tiles or not, in some layout, order of its sums, and type."""
    draw = random.Random(seed)
    channels, results = draw.choice((64, 64, 64, 40)), draw.choice((64, 72))
    taps, stride = draw.choice((1, 2, 3, 3, 3)), draw.choice((1, 1, 2))
    height, width = draw.choice(((1, 70), (5, 13), (9, 8)))
    dtype = draw.choice(("f16", "bf16"))
    rows, columns = stride * (height - 1) + taps, stride * (width - 1) + taps
    first = draw.random() < 0.5  # channels first
    image = f"2, {channels}, {rows}, {columns}" if first else f"2, {rows}, {columns}, {channels}"
    places = f"{stride}*{{i}} + {{u}}, {stride}*{{j}} + {{v}}"
    at = f"{{n}}, {{c}}, {places}" if first else f"{{n}}, {places}, {{c}}"
    weights, at_w = draw.choice((
        (f"{results}, {channels}, {taps}, {taps}", "{d}, {c}, {u}, {v}"),
        (f"{taps}, {taps}, {channels}, {results}", "{u}, {v}, {c}, {d}"),
    ))  # fmt: skip
    last = draw.random() < 0.5
    result = f"2, {height}, {width}, {results}" if last else f"2, {results}, {height}, {width}"
    to = "{n}, {i}, {j}, {d}" if last else "{n}, {d}, {i}, {j}"
    kept = [(2, "n"), (height, "i"), (width, "j"), (results, "d")]
    if not last:
        kept.insert(1, kept.pop())
    sums = [(channels, "c"), (taps, "u"), (taps, "v")]
    sums = sums if draw.random() < 0.5 else sums[1:] + sums[:1]
    lines = [f"{'| ' * n}{size} @{name}" for n, (size, name) in enumerate(kept)]
    lines.append(f"| | | | t = {draw.choice(('0', 'f32(b[{d}])'))}")
    lines += [f"{'| ' * (n + 4)}{size} @{name}" for n, (size, name) in enumerate(sums)]
    lines.append(f"{'| ' * 7}t += f32(x[{at}]) * f32(w[{at_w}])")
    lines.append(f"| | | | y[{to}] = {dtype}({draw.choice(('t', 'max(t, 0)'))})")
    return (
        f"kernel windows()\nfp reassoc\nin  x: {dtype}[{image}]\nin  w: {dtype}[{weights}]\n"
        f"in  b: {dtype}[{results}]\nout y: {dtype}[{result}]\ntmp t: f32\n\n" + "\n".join(lines) + "\n"
    )


def tiled(kernel: dojoir.Kernel, groups: bool) -> dojoir.Trace:
    """On matrix units, and what is left by the planner."""
    trace = dojoir.Trace(kernel)
    expand_temporaries(trace)
    pack_factors(trace)
    (product,) = (n for n, node in enumerate(trace.kernel.body) if "+=" in str(node))
    nests = [spot(trace, (n,)) for n in range(len(trace.kernel.body)) if n != product]
    structure = small_group_tiles if groups else small_matrix_tiles
    structure(trace, (product,), CUDA)
    planner = Planner(CUDA, {})
    for nest in nests:
        try:
            path = nest.path
        except dojoir.ArgumentError:
            continue  # its array is no more
        planner.nest(trace, path)
    return trace


def largest(buffers: Iterable[Buffer]) -> int:
    return max(prod(dim.extent.offset for dim in b.dims) for b in buffers if b.storage == "heap")


@pytest.mark.parametrize(
    ("seed", "groups"),
    [*((seed, False) for seed in range(1, 16)), *((seed, True) for seed in (1, 3, *range(5, 13), 14, 15))],
)
def test_tiles_are_copied_from_the_windows_of_an_array(seed: int, groups: bool) -> None:
    """No array is larger than the arguments: one of all windows would be."""
    before = dojoir.parse(text_of(seed))
    kernel = tiled(before, groups).kernel
    assert "use(" in dojoir.to_text(kernel) and largest(kernel.buffers) <= largest(before.arguments)
    is_right(before, kernel, seed, groups)


def is_right(before: dojoir.Kernel, kernel: dojoir.Kernel, seed: int, groups: bool) -> None:
    draw = np.random.default_rng(seed)
    given, types = {}, {b.name: b.dtype.name for b in before.arguments}
    for buffer in before.arguments:
        if buffer.role == "in":
            values = draw.standard_normal([dim.extent.offset for dim in buffer.dims])
            given[buffer.name] = bf16(values) if types["x"] == "bf16" else values.astype(np.float16)
    found = run(kernel, given, {})["y"]
    shape = [dim.extent.offset for dim in before.buffer("y").dims]
    wanted = np.zeros(shape, np.float32 if types["y"] == "f32" else given["x"].dtype)
    dojoir.compile(before, "llvm")(**given, y=wanted)
    left, right = (numbers(values, types["y"]) for values in (found.reshape(shape), wanted))
    assert np.abs(left - right).max() <= 2e-2 * max(1.0, np.abs(right).max())
    if groups:
        assert not nvrtc_error(gpu_program(kernel, "cuda").source, "sm_90a")


def padded_of(draw: random.Random) -> tuple[str, float, int]:
    """A convolution of channels that are no whole chunks, or of those of an array with zeros around it, how much
    larger whole chunks are, and how many terms there are then."""
    channels, results = draw.choice((2, 3, 3, 5, 12, 20, 64)), draw.choice((64, 72))
    taps, stride, dtype = draw.choice((3, 4, 5)), draw.choice((1, 1, 2)), draw.choice(("f16", "bf16"))
    height, width = draw.choice(((5, 13), (9, 8), (6, 16)))
    rows, columns = stride * (height - 1) + taps, stride * (width - 1) + taps
    around = draw.randint(0, 1) if channels < 64 else 1
    array, last = "p" if around else "x", draw.random() < 0.2
    shape = [f"{rows - 2 * around}", f"{columns - 2 * around}"]
    shape.insert(2 if last else 0, str(channels))
    image, padded = ", ".join(shape), f"{rows}, {columns}, {channels}" if last else f"{channels}, {rows}, {columns}"
    places = f"{stride}*{{i}} + {{u}}, {stride}*{{j}} + {{v}}"
    at = f"{places}, {{c}}" if last else f"{{c}}, {places}"
    lines = []
    if around:
        to = "{i} + 1, {j} + 1, {c}" if last else "{c}, {i} + 1, {j} + 1"
        here = "{i}, {j}, {c}" if last else "{c}, {i}, {j}"
        names = "ijc" if last else "cij"
        for sizes, line in ((padded, "p[0, IN] = 0"), (image, f"p[0, {to}] = x[{here}]")):
            scopes = enumerate(zip(sizes.split(", "), names, strict=True))
            lines += [f"{'| ' * n}{size} @{name}" for n, (size, name) in scopes]
            lines.append(f"| | | {line.replace('IN', here)}")
    at = f"0, {at}" if around else at
    kept = [(results, "d"), (height, "i"), (width, "j")]
    sums = [(channels, "c"), (taps, "u"), (taps, "v")][:: draw.choice((1, -1))]
    lines += [f"{'| ' * n}{size} @{name}" for n, (size, name) in enumerate(kept)]
    lines.append("| | | t = 0")
    lines += [f"{'| ' * (n + 3)}{size} @{name}" for n, (size, name) in enumerate(sums)]
    lines.append(f"{'| ' * 6}t += f32({array}[{at}]) * f32(w[{{d}}, {{c}}, {{u}}, {{v}}])")
    lines.append("| | | y[{d}, {i}, {j}] = t")
    return (
        f"kernel few()\nin  x: {dtype}[{image}]\nin  w: {dtype}[{results}, {channels}, {taps}, {taps}]\n"
        f"out y: f32[{results}, {height}, {width}]\ntmp t: f32\n"
        + (f"tmp p: {dtype}[1, {padded}]\n" if around else "") + "\n" + "\n".join(lines) + "\n"
    ), -(-channels // 8) * 8 / channels, -(-channels // 8) * 8 * taps * taps  # fmt: skip


@pytest.mark.parametrize("seed", range(24))
def test_few_channels_are_filled_up_with_zeros(seed: int) -> None:
    """An array of all windows would be larger than one whose channels are whole chunks."""
    text, more, terms = padded_of(random.Random(seed))
    before, groups = dojoir.parse(text), terms > 4 * 64 and seed % 2 == 0
    trace = tiled(before, groups)
    assert "use(" in dojoir.to_text(trace.kernel) and trace.is_safe
    assert largest(trace.kernel.buffers) <= more * largest(before.buffers)
    is_right(before, trace.kernel, seed, groups)
