"""Modules in bf16 and f16: arguments in the type, what lies between in f32, against f64."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import dojoir

torch: Any = pytest.importorskip("torch", reason="needs PyTorch")
from modules import CASES  # noqa: E402
from modules.agreement import difference, loss, tensors  # noqa: E402
from modules.cases import SMALL  # noqa: E402

NAMES = ("mlp", "swiglu", "layer_norm", "conv2d", "attention_causal", "gru_cell", "cross_entropy", "squeeze_excite")
TYPES = {"bf16": "bfloat16", "f16": "float16"}


def case(name: str, dtype: Any) -> tuple[Any, tuple[Any, ...]]:
    module, inputs = CASES[name].make(SMALL, 0)
    return module.to(dtype), tuple(_as(x, dtype) for x in inputs)


def _as(x: Any, dtype: Any) -> Any:
    return x.to(dtype) if isinstance(x, torch.Tensor) and x.is_floating_point() else x


def leaves(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(
        x.clone().requires_grad_() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in inputs
    )


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", NAMES)
def test_results_are_as_near_as_those_of_pytorch(name: str, dtype: str) -> None:
    module, inputs = case(name, getattr(torch, TYPES[dtype]))
    with torch.no_grad():
        right = tensors(copy.deepcopy(module).double()(*(_as(x, torch.float64) for x in inputs)))
        eager = tensors(module(*inputs))
        imported = dojoir.torch.from_module(module, inputs, threads=1)
        found = tensors(imported(*inputs))
    assert [one.dtype for one in found] == [one.dtype for one in eager]
    assert f": {dtype}[" in imported.text
    computed = [line for line in imported.text.splitlines() if line.startswith("tmp ") and f": {dtype}" in line]
    assert not computed or name == "lstm_cell", computed
    for one, its, other in zip(found, eager, right, strict=True):
        assert difference(one, other) <= 1.5 * difference(its, other) + 1e-3


@pytest.mark.parametrize("name", ["mlp", "layer_norm", "attention"])
def test_gradients_are_as_near_as_those_of_pytorch(name: str) -> None:
    module, inputs = case(name, torch.bfloat16)
    compiled = torch.compile(copy.deepcopy(module), backend=dojoir.torch.backend(whole=True, threads=1))
    wide = copy.deepcopy(module).double()
    given = [leaves(inputs), leaves(inputs), leaves(tuple(_as(x, torch.float64) for x in inputs))]
    for call, taken in zip((compiled, module, wide), given, strict=True):
        loss(call(*taken)).backward()
    rows = [
        [*(x.grad for x in taken if isinstance(x, torch.Tensor)), *(p.grad for p in own.parameters())]
        for taken, own in zip(given, (compiled, module, wide), strict=True)
    ]
    for one, its, other in zip(*rows, strict=True):
        if other is not None:
            assert one.dtype == torch.bfloat16
            assert difference(one, other) <= 1.5 * difference(its, other) + 4e-3


def test_what_is_compared_for_equality_is_rounded_first() -> None:
    class Largest(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            z = x * y
            return (z == z.amax(1, keepdim=True)).float() * 2

    torch.manual_seed(0)
    x, y = torch.randn(4, 9).bfloat16(), torch.randn(4, 9).bfloat16()
    imported = dojoir.torch.from_module(Largest(), (x, y))
    assert torch.equal(imported(x, y), Largest()(x, y))
