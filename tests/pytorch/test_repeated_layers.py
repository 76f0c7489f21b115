"""Layers that are alike are one kernel: planned and compiled once, run as often as the model has it."""

from __future__ import annotations

import importlib
import random
from typing import Any

import pytest

import dojoir

torch: Any = pytest.importorskip("torch", reason="needs PyTorch")
CompileBackend: Any = importlib.import_module("dojoir.torch.compiler").CompileBackend
sharing: Any = importlib.import_module("dojoir.torch.kernel_sharing")


def layers(count: int) -> Any:
    torch.manual_seed(0)
    made = (torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True) for _ in range(count))
    return torch.nn.Sequential(torch.nn.Linear(8, 8), *made, torch.nn.Linear(8, 3))


def test_a_deeper_model_has_no_more_kernels() -> None:
    found = []
    for count in (3, 6):
        module, x = layers(count).eval(), torch.randn(2, 6, 8)
        imported = dojoir.torch.from_module(module, (x,), optimize=False)
        torch.testing.assert_close(imported(x), module(x), atol=1e-5, rtol=1e-5)
        kernels = imported.kernels
        found.append(len(set(kernels)))
        assert len(kernels) > count
        assert imported.text.count("kernel ") == found[-1]
    assert found[0] == found[1]


def test_gradients_of_repeated_layers() -> None:
    module, x = layers(3), torch.randn(2, 6, 8)
    backend = CompileBackend(whole=True, optimize=False)
    compiled = torch.compile(module, backend=backend)
    compiled(x).square().sum().backward()
    ours = [p.grad.clone() for p in module.parameters()]
    module.zero_grad()
    module(x).square().sum().backward()
    for own, parameter in zip(ours, module.parameters(), strict=True):
        torch.testing.assert_close(own, parameter.grad, atol=1e-4, rtol=1e-4)
    for runner in backend.report.runners:
        assert len({part.text for part in runner.parts}) < len(runner.parts)


def test_a_kernel_that_repeats_is_replaced_in_all_layers() -> None:
    module, x = layers(4).eval(), torch.randn(2, 6, 8)
    imported = dojoir.torch.from_module(module, (x,), optimize=False)
    starts = [trace.start for trace in imported.traces()]
    repeated = next(trace for trace in imported.traces() if starts.count(trace.start) > 1)
    changed = repeated.copy()
    changed.apply(dojoir.moves(changed.kernel)[0])
    imported.replace(changed)
    kernels = imported.kernels
    assert kernels.count(changed.kernel) > 1
    assert repeated.kernel not in kernels
    torch.testing.assert_close(imported(x), module(x), atol=1e-5, rtol=1e-5)


def test_a_size_has_the_name_that_a_buffer_would_get() -> None:
    module, x = layers(3).eval(), torch.randn(2, 6, 8)
    names = {b.name for k in dojoir.torch.from_module(module, (x,), optimize=False).kernels for b in k.buffers}
    size = next(name for name in sorted(names) if name.startswith("add_"))
    chain = torch.nn.Sequential(
        *(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Softmax(-1)) for _ in range(8))
    )
    batch = torch.export.Dim(size, min=2, max=64)
    imported = dojoir.torch.from_module(chain, (torch.randn(4, 8),), dynamic=({0: batch},), optimize=False)
    assert not imported.left
    y = torch.randn(7, 8)
    torch.testing.assert_close(imported(y), chain(y), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("seed", [*range(40), 94, 155])
def test_all_nests_are_in_one_kernel_each(seed: int) -> None:
    """Kernels are cut where no buffer is written on both sides, and have no more nests than they may."""
    draw = random.Random(seed)
    layer = [draw.randrange(9) for _ in range(draw.choice([1, 3, 13, 28, 60]))]
    kinds = [draw.randrange(9) for _ in range(draw.randrange(30))]
    kinds += layer * draw.choice([1, 2, 5]) + [draw.randrange(9) for _ in range(draw.randrange(30))]
    held = draw.choice([0.0, 0.2, 0.7])
    may = [draw.random() >= held for _ in range(len(kinds) + 1)]
    may[0] = may[-1] = True
    cuts = sharing._Cuts(tuple(kinds), tuple(draw.randrange(100) for _ in may), tuple(may))
    groups = [*sharing._shared(cuts, 0, len(kinds))]
    assert [n for group in groups for n in range(group.start, group.stop)] == [*range(len(kinds))]
    for group in groups:
        assert may[group.start]
        assert may[group.stop]
        own = range(group.start + 1, min(group.start + sharing.MOST_NESTS, len(kinds)) + 1)
        assert group.stop - group.start <= sharing.MOST_NESTS or not any(may[n] for n in own)
    if held == 0.0 and len(layer) > 12 and kinds.count(layer[0]) > 1 and len(kinds) >= 2 * len(layer) and (
        any(kinds[n : n + 2 * len(layer)] == layer * 2 for n in range(len(kinds)))
    ):  # fmt: skip
        assert any(group.repeats for group in groups)


def test_a_run_ends_where_least_passes_to_the_next_kernel() -> None:
    """Not at the last place that is allowed, which may be within an attention; and early rather than too long."""
    crossing = [9] * 31
    crossing[3], crossing[17], crossing[20] = 0, 2, 4
    runs = sharing._longest(sharing._Cuts(tuple(range(30)), tuple(crossing), (True,) * 31), 0, 30)
    assert [(run.start, run.stop) for run in runs] == [(0, 17), (17, 30)]
    may = tuple(n in (0, 5, 30) for n in range(31))
    runs = sharing._longest(sharing._Cuts(tuple(range(30)), tuple(crossing), may), 0, 30)
    assert [(run.start, run.stop) for run in runs] == [(0, 5), (5, 30)]
