"""Places that a module computes in floats: quotients of iterators, in all ways that images are made larger."""

from __future__ import annotations

from typing import Any

import pytest

import dojoir

torch: Any = pytest.importorskip("torch", reason="needs PyTorch")

from dojoir.ir.dtypes import F32, I64  # noqa: E402
from dojoir.torch.importer.element_values import IndexAsValue, Value, cast  # noqa: E402
from dojoir.torch.importer.index import IndexSum, IteratorAtom, as_index, of_atom, render  # noqa: E402
from dojoir.torch.importer.quotients import as_quotient  # noqa: E402
from dojoir.types.typed import Apply, Number  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


class Larger(torch.nn.Module):
    def __init__(self, **how: Any) -> None:
        super().__init__()
        self.how = how

    def forward(self, x: Any) -> Any:
        return torch.nn.functional.interpolate(x, **self.how)


WAYS: list[tuple[dict[str, Any], str]] = [
    ({"scale_factor": 2, "mode": "nearest"}, "x[{i}, {k}]"),
    ({"scale_factor": 1.5, "mode": "nearest"}, "x[{i}, (2*{j}) // 3, (2*{k}) // 3]"),
    ({"size": (17, 13), "mode": "nearest"}, "x[{i}, max(3*{j} - 1, 0) // 5, max({k} - 1, 0)]"),
    ({"size": (5, 7), "mode": "nearest-exact"}, "x["),
    ({"scale_factor": 2, "mode": "bilinear"}, "min(max({j} + 1, 2) // 2, 9)"),
    ({"size": (5, 7), "mode": "bilinear", "align_corners": True}, "x["),
]


@pytest.mark.parametrize(("how", "place"), WAYS)
def test_places_are_quotients(how: dict[str, Any], place: str) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 10, 12)
    module = Larger(**how)
    imported = dojoir.torch.from_module(module, (x,), threads=1)
    assert torch.allclose(imported(x), module(x), atol=2e-6)
    assert place in imported.text
    assert "i64[" not in imported.text  # no place is read from memory


def numbers(index: IndexSum, var: IteratorAtom, extent: int) -> list[int]:
    text = render(index, lambda atom: "i" if atom == var else "?")
    return [int(eval(text, {"i": i, "min": min, "max": max})) for i in range(extent)]


@pytest.mark.parametrize("extent", [2, 7, 12, 112, 1000])
@pytest.mark.parametrize("scale", [0.5, 0.25, 1 / 3, 2 / 3, 0.7, 3.0, 0.4642857])
def test_a_quotient_has_the_numbers_of_floats_or_there_is_none(scale: float, extent: int) -> None:
    var = IteratorAtom(0, as_index(extent))
    at: Value = IndexAsValue(of_atom(var), F32)
    half = Number(F32, 0.5)
    scaled: Value = Apply(F32, "mul", (Apply(F32, "add", (at, half)), Number(F32, scale)))
    value = cast(Apply(F32, "max", (Apply(F32, "sub", (scaled, half)), Number(F32, 0.0))), I64)
    made = as_quotient(value, of_atom(var), extent)
    right = torch.clamp((torch.arange(extent) + 0.5) * torch.tensor(scale) - 0.5, min=0).long().tolist()
    if made is not None:
        assert numbers(made(of_atom(var)), var, extent) == right
    else:
        assert scale in (0.7, 0.4642857) and extent >= 12


def test_many_modules_of_one_class_are_trained() -> None:
    for count in range(1, 11):
        torch.manual_seed(0)
        x = torch.randn(2, count, requires_grad=True)
        dojoir.torch.from_module(torch.nn.Softmax(1), (x.detach(),), threads=1)(x).square().sum().backward()
        wide = x.detach().double().requires_grad_()
        wide.softmax(1).square().sum().backward()
        assert torch.allclose(x.grad.double(), wide.grad, atol=1e-6)
    torch._dynamo.reset()
