"""Sorting by ranks, adaptive pooling of any windows, random numbers, and the names of open sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import dojoir

torch: Any = pytest.importorskip("torch", reason="needs PyTorch")
nn: Any = torch.nn

from reduced_places import REDUCTIONS, TYPES, wrong  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    yield
    torch._dynamo.reset()


class Sort(nn.Module):
    def __init__(self, dim: int = -1, is_descending: bool = False) -> None:
        super().__init__()
        self.dim, self.is_descending = dim, is_descending

    def forward(self, x: Any) -> Any:
        return torch.sort(x, dim=self.dim, descending=self.is_descending, stable=True)


@pytest.mark.parametrize(("dim", "is_descending"), [(1, False), (-1, True)])
def test_rows_are_sorted_with_equal_ones_in_order_and_nan_last(dim: int, is_descending: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 7, 5).round()
    x[0, 1, 2] = float("nan")
    x[1, 1, 1] = float("inf")
    module = Sort(dim, is_descending)
    found, right = dojoir.torch.from_module(module, (x,), optimize=False)(x), module(x)
    assert torch.equal(found[0].nan_to_num(99), right[0].nan_to_num(99))
    assert torch.equal(found[1], right[1])


@pytest.mark.parametrize("dtype", ["bool", "int64", "bfloat16", "float64"])
def test_types_that_are_sorted(dtype: str) -> None:
    torch.manual_seed(0)
    x = (torch.randn(4, 9) * 3).to(getattr(torch, dtype))
    found, right = dojoir.torch.from_module(Sort(), (x,), optimize=False)(x), Sort()(x)
    assert torch.equal(found[0], right[0]) and torch.equal(found[1], right[1])


def test_the_gradient_of_a_sort() -> None:
    class Weighed(nn.Module):
        def forward(self, x: Any) -> Any:
            return (torch.sort(x, -1).values * torch.arange(9.0)).sum()

    x = torch.randn(4, 9).requires_grad_()
    dojoir.torch.from_module(Weighed(), (torch.randn(4, 9),))(x).backward()
    assert torch.equal(x.grad, x.argsort(-1).argsort(-1).float())


ADAPTIVE = {
    "mean": (lambda: nn.AdaptiveAvgPool2d((3, 7)), (2, 3, 7, 10)),
    "mean of more": (lambda: nn.AdaptiveAvgPool2d((9, 3)), (1, 2, 7, 10)),
    "mean of equal windows": (lambda: nn.AdaptiveAvgPool2d((7, 5)), (2, 3, 7, 10)),
    "mean in 3-d": (lambda: nn.AdaptiveAvgPool3d((2, 4, 3)), (1, 2, 5, 6, 7)),
    "largest": (lambda: nn.AdaptiveMaxPool2d((3, 7), return_indices=True), (2, 3, 7, 10)),
}


@pytest.mark.parametrize("name", ADAPTIVE)
def test_adaptive_pooling(name: str) -> None:
    made, shape = ADAPTIVE[name]
    torch.manual_seed(0)
    module, x = made(), torch.randn(*shape)
    imported = dojoir.torch.from_module(module, (x,), threads=1)
    own, its = x.clone().requires_grad_(), x.clone().requires_grad_()
    found, right = (r if isinstance(r, tuple) else (r,) for r in (imported(own), module(its)))
    torch.testing.assert_close(found[0], right[0])
    assert all(torch.equal(a, b) for a, b in zip(found[1:], right[1:], strict=True))
    found[0].sin().sum().backward()
    right[0].sin().sum().backward()
    torch.testing.assert_close(own.grad, its.grad)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_places_at_special_values_and_ties(name: str, kind: str) -> None:
    found = wrong(name, kind, range(3))
    assert found is None, found


def test_places_that_once_were_wrong() -> None:
    x = torch.tensor([[5.0, -float("inf"), -float("inf"), 1.0], [float("nan"), 2.0, 1.0, float("nan")]])
    for largest, right in ((True, [[0, 3, 1], [0, 3, 1]]), (False, [[1, 2, 3], [2, 1, 0]])):

        class Top(nn.Module):
            def forward(self, x: Any, is_largest: bool = largest) -> Any:
                return torch.topk(x, 3, largest=is_largest)

        assert dojoir.torch.from_module(Top(), (x,))(x)[1].tolist() == right


def test_random_numbers_are_refused_with_the_cure() -> None:
    layers = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    with pytest.raises(dojoir.ArgumentError, match=r"module 1 \(Dropout\).*random numbers.*module\.eval\(\)"):
        dojoir.torch.from_module(layers, (torch.randn(3, 4),), whole=True)
    assert dojoir.torch.from_module(layers.eval(), (torch.randn(3, 4),)).kernels


def test_open_sizes_have_the_names_of_the_user() -> None:
    batch, time = torch.export.Dim("batch", min=2, max=64), torch.export.Dim("time", min=2, max=99)
    x = torch.randn(4, 6, 8)
    for dynamic in (({0: batch, 1: time},), {"input": {0: batch, 1: time}}):
        imported = dojoir.torch.from_module(nn.Softmax(-1), (x,), dynamic=dynamic)
        assert imported.text.startswith("kernel softmax(batch, time)\nwhere batch >= 2, time >= 2, batch <= 64")
    unnamed = dojoir.torch.from_module(nn.Softmax(-1), (x,), dynamic=({0: torch.export.Dim.DYNAMIC},))
    assert unnamed.text.startswith("kernel softmax(N0)")
    backend = dojoir.torch.backend(whole=True)
    torch.compile(nn.LayerNorm(8), backend=backend, dynamic=True)(x)
    assert backend.report.text.startswith("kernel graph_0(N0, N1)")
