"""What else a module may be: constants, narrow types, trees of results, arguments that are written, open sizes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dojoir

torch: Any = pytest.importorskip("torch", reason="needs PyTorch")
sys.path.insert(0, str(Path(__file__).parent))

from modules import CASES  # noqa: E402
from modules.agreement import is_near  # noqa: E402
from modules.cases import SMALL  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    yield
    torch._dynamo.reset()


class Constants(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.tensor([0.5, 2.0, 4.0])

    def forward(self, x: Any) -> Any:
        return x * torch.tensor([1.0, 2.0, 3.0]) + self.scale


def test_constants_of_a_module() -> None:
    x = torch.randn(4, 3)
    right = Constants()(x)
    assert is_near(dojoir.torch.from_module(Constants(), (x,))(x), right, 1e-6)
    assert is_near(torch.compile(Constants(), backend=dojoir.torch.backend(whole=True))(x), right, 1e-6)


def test_bf16() -> None:
    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.GELU(), torch.nn.LayerNorm(16)).bfloat16()
    x = torch.randn(4, 16).bfloat16()
    with torch.no_grad():
        imported = dojoir.torch.from_module(layers, (x,))
        assert imported(x).dtype == torch.bfloat16
        assert is_near(imported(x), layers.double()(x.double()), 2e-2)
    assert "tmp addmm: f32" in imported.text  # sums are carried in f32


class Tree(torch.nn.Module):
    def forward(self, x: Any, *, y: Any) -> Any:
        return {"sum": x + y, "pair": (x * y, x.t()), "none": None}


def test_trees_of_results_and_arguments_by_name() -> None:
    x, y = torch.randn(2, 3), torch.randn(2, 3)
    imported = dojoir.torch.from_module(Tree(), (x,), kwargs={"y": y})
    found = imported(x, y=y)
    assert is_near(found["sum"], x + y, 1e-6) and is_near(found["pair"][0], x * y, 1e-6)
    assert found["none"] is None
    assert found["pair"][1].data_ptr() == x.data_ptr()  # a view of what was given
    with pytest.raises(dojoir.ArgumentError, match="not those of the example"):
        imported(x)


class Cache(torch.nn.Module):
    """Rows written to a cache at places that data gives, and the cache read."""

    def forward(self, cache: Any, at: Any, rows: Any) -> Any:
        cache.index_copy_(0, at, rows)
        return cache.sum(1)


def test_an_argument_that_is_written() -> None:
    at, rows = torch.tensor([4, 1]), torch.randn(2, 5)
    mine, right = torch.zeros(6, 5), torch.zeros(6, 5)
    found = dojoir.torch.from_module(Cache(), (mine.clone(), at, rows))(mine, at, rows)
    assert is_near(found, Cache()(right, at, rows), 1e-6)
    assert is_near(mine, right, 0)


def test_what_is_deep_becomes_several_kernels() -> None:
    torch.manual_seed(0)
    layers = [torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8), torch.nn.ReLU()) for _ in range(6)]
    deep, x = torch.nn.Sequential(*layers), torch.randn(4, 8)
    imported = dojoir.torch.from_module(deep, (x,), optimize=False)
    assert len(imported.kernels) > 1
    with torch.no_grad():
        assert is_near(imported(x), deep(x), 1e-5)
    with pytest.raises(dojoir.ArgumentError) as caught:
        _ = imported.kernel
    assert caught.value.diagnostic.code == "several-kernels"


def test_random_numbers_are_left_to_pytorch() -> None:
    backend = dojoir.torch.backend(optimize=False)
    layers = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5), torch.nn.ReLU())
    compiled, x = torch.compile(layers, backend=backend), torch.randn(4, 8)
    torch.manual_seed(1)
    found = compiled(x)
    torch.manual_seed(1)
    assert is_near(found, layers(x), 1e-5)
    found.sum().backward()
    assert layers[0].weight.grad is not None
    assert [one.operator for one in backend.report.left] == ["aten.native_dropout.default"]
    assert str(backend.report).startswith("2 graphs, 3 kernels, 1 operators left to PyTorch")


def test_open_sizes_compile_once() -> None:
    backend = dojoir.torch.backend(whole=True)
    norm = torch.nn.LayerNorm(8)
    compiled = torch.compile(norm, backend=backend, dynamic=True)
    for n in (3, 5, 9):
        x = torch.randn(n, 8, requires_grad=True)
        made = compiled(x)
        assert is_near(made, norm(x), 1e-5)
        (mine,) = torch.autograd.grad(made.sin().sum(), x)
        (right,) = torch.autograd.grad(norm(x).sin().sum(), x)
        assert is_near(mine, right, 1e-4)
    assert backend.report.graphs == 2


def test_a_graph_on_a_gpu_has_grids() -> None:
    """The schedule for a GPU of what is imported, without one."""
    imported = dojoir.torch.from_module(torch.nn.Softmax(-1), (torch.randn(256, 512),))
    (kernel,) = imported.kernels_for("cuda")
    assert any("gx" in getattr(node, "marks", ()) for _, node in kernel.walk())
    assert "__global__" in dojoir.emit(kernel, "cuda")


def test_choices_of_experts_are_planned_for_a_gpu() -> None:
    """A refused move of its plan quotes places of another tree."""
    module, inputs = CASES["experts_top_two"].make(SMALL, 0)
    imported = dojoir.torch.from_module(module, inputs)
    for kernel in imported.kernels_for("cuda"):
        assert "__global__" in dojoir.emit(kernel, "cuda")
