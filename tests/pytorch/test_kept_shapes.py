"""Buffers of imported graphs keep the dimensions that their writer needs; a refused text costs one operator."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import dojoir
from dojoir.errors import ArgumentError

torch: Any = pytest.importorskip("torch", reason="needs PyTorch")
CompileBackend: Any = importlib.import_module("dojoir.torch.compiler").CompileBackend
builder: Any = importlib.import_module("dojoir.torch.importer.builder")
merging: Any = importlib.import_module("dojoir.torch.importer.merging")
table: Any = importlib.import_module("dojoir.torch.importer.operator_table")
ProgramStatement: Any = importlib.import_module("dojoir.torch.importer.nests").ProgramStatement


class Calls(torch.nn.Module):
    """A module that is a function."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


@pytest.mark.parametrize(
    "norm", [torch.nn.GroupNorm(4, 16), torch.nn.InstanceNorm2d(16), torch.nn.GroupNorm(1, 16)]
)
def test_a_norm_leaves_a_convolution_its_dimensions(norm: Any) -> None:
    """Loops over rows and columns are what a convolution is tiled by; 900 elements in a row are not."""
    torch.manual_seed(0)
    module, x = torch.nn.Sequential(torch.nn.Conv2d(8, 16, 3), norm), torch.randn(4, 8, 32, 32)
    imported = dojoir.torch.from_module(module, (x,))
    assert "tmp convolution: f32[4, 16, 30, 30]" in imported.text
    torch.testing.assert_close(imported(x), module(x), atol=1e-5, rtol=1e-5)


def test_of_open_sizes_too() -> None:
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Conv2d(8, 16, 3, padding=1), torch.nn.GroupNorm(4, 16))
    backend = CompileBackend(whole=True)
    compiled = torch.compile(module, backend=backend, dynamic=True)
    for shape in ((2, 8, 10, 12), (3, 8, 14, 9)):
        x = torch.randn(shape)
        torch.testing.assert_close(compiled(x), module(x), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("keepdim", [True, False])
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("rank", [2, 3, 4])
@pytest.mark.parametrize("half", [0, 1, None])
def test_both_halves_of_a_pair_have_one_shape(half: int | None, rank: int, dim: int, keepdim: bool) -> None:
    def least(x: Any) -> Any:
        found = torch.min(x, dim=dim, keepdim=keepdim)
        return (found[0] + 1, found[1] + 1) if half is None else found[half] * 2

    x = torch.arange(5 * 6 * 7 * 4 if rank == 4 else [0, 0, 30, 210][rank]).float() * 7 % 13
    x = x.reshape([5, 6, 7, 4][:rank])
    torch.testing.assert_close(dojoir.torch.from_module(Calls(least), (x,))(x), least(x))


def _behind_the_end(b: Any, x: Any) -> Any:
    """An operator with a fault: its text writes one row too far down."""
    made = b.declare(x.shape, x.dtype)
    variables, index = b.iterate(x.shape)
    b.emit(variables, ProgramStatement(builder.element(made, (index[0] + 1, *index[1:])), "=", x.at(index)))
    return b.tensor(made, x.shape)


def test_a_text_that_is_refused_costs_its_operator_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(table.operators(), torch.ops.aten.erf.default, _behind_the_end)

    def function(x: Any) -> Any:
        return torch.softmax(torch.erf(x.exp()).sin() @ x.T, -1)

    x, backend = torch.linspace(-1, 1, 64).reshape(8, 8), CompileBackend()
    torch.testing.assert_close(torch.compile(function, backend=backend)(x), function(x))
    assert [one.operator for one in backend.report.left] == ["aten.erf.default"]
    assert len(backend.report.runners) == 2
    with pytest.raises(ArgumentError, match=r"erf\.default .*index \{i\} \+ 1 = 8 of erf_ is outside") as told:
        dojoir.torch.from_module(Calls(function), (x,), whole=True)
    assert told.value.diagnostic.code == "no-operator"


def test_an_option_that_there_is_not_is_told() -> None:
    with pytest.raises(Exception, match="no option 'thread'; it has: whole, threads, optimize"):
        torch.compile(torch.nn.ReLU(), backend="dojoir", options={"thread": 1})(torch.ones(3))


def test_a_kernel_of_a_module_is_changed_and_put_back() -> None:
    module, x = torch.nn.Sequential(torch.nn.GELU(), torch.nn.Softmax(-1)), torch.randn(16, 32)
    imported = dojoir.torch.from_module(module, (x,), threads=1)
    torch.testing.assert_close(imported(x), module(x))
    trace, before = imported.traces()[0], imported.kernels
    trace.apply("place(_softmax_exp, stack)")
    assert imported.kernels == before, "a copy counts once it is put back"
    imported.replace(trace)
    assert imported.kernels == [trace.kernel]
    torch.testing.assert_close(imported(x), module(x))
    for wrong in (dojoir.Trace(dojoir.kernels.load("softmax")), imported.traces()[0]):
        wrong.apply("split(0, 4)", unsafe=True)
        with pytest.raises(ArgumentError, match=r"begins with no kernel of this module|were not proved"):
            imported.replace(wrong)
    assert imported.kernels == [trace.kernel]


def test_what_residual_layers_ask_of_one_another_grows_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each layer has two ways around it. To follow all ways through 3 layers is to ask 100,000 times or more."""
    asked = 0
    real = merging._is_one_loop

    def counted(*given: Any) -> bool:
        nonlocal asked
        asked += 1
        return bool(real(*given))

    monkeypatch.setattr(merging, "_is_one_loop", counted)
    layers = (torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True) for _ in range(3))
    dojoir.torch.from_module(torch.nn.Sequential(*layers), (torch.randn(2, 6, 8),), optimize=False)
    assert 0 < asked < 2000


def test_sizes_stay_open_where_the_order_in_memory_is_asked() -> None:
    """PyTorch fixes a size that it compares with a number, and all graphs that are read after that have it."""
    torch.manual_seed(0)
    module = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True).eval()
    batch = torch.export.Dim("batch", min=2, max=64)
    imported = dojoir.torch.from_module(module, (torch.randn(3, 6, 8),), dynamic=({0: batch},), optimize=False)
    with torch.no_grad():
        for count in (3, 5):
            x = torch.randn(count, 6, 8)
            torch.testing.assert_close(imported(x), module(x), atol=1e-5, rtol=1e-5)


def test_a_turned_result_of_open_sizes_is_one_graph() -> None:
    module, backend = Calls(lambda x: (x * 2).transpose(0, 1)), CompileBackend(optimize=False)
    compiled = torch.compile(module, backend=backend, dynamic=True)
    for count in (3, 5, 7):
        x = torch.randn(count, 6)
        assert torch.equal(compiled(x), module(x))
        assert compiled(x).stride() == module(x).stride()
    assert backend.report.graphs == 1
