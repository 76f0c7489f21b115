"""Modules of PyTorch as kernels: each case beside the module in f64, forward, backward, and by `torch.compile`."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dojoir

torch: Any = pytest.importorskip("torch", reason="needs PyTorch")
sys.path.insert(0, str(Path(__file__).parent))

from modules import BLOCKS, CASES  # noqa: E402
from modules.agreement import is_near, right_backward, right_forward  # noqa: E402
from modules.cases import SMALL  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")

TRAINED = tuple(name for n, name in enumerate(n for n in CASES if CASES[n].has_gradients) if n % 8 == 3)
"""The cases whose gradients are asked for here; benchmarks/modules.py asks for those of all."""


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
    torch._dynamo.reset()


def test_there_are_enough() -> None:
    assert len(CASES) >= 120
    assert len(BLOCKS) >= 30


@pytest.mark.parametrize("name", sorted(CASES))
def test_forward(name: str) -> None:
    right_forward(CASES[name], seeds=(0,), optimize=name in BLOCKS)


@pytest.mark.parametrize("name", TRAINED)
def test_forward_and_backward(name: str) -> None:
    right_backward(CASES[name], seeds=(0,))


def test_gradients_of_what_is_imported() -> None:
    module, inputs = CASES["mlp"].make(SMALL, 0)
    imported = dojoir.torch.from_module(module, inputs, threads=1)
    imported(*inputs).square().sum().backward()
    found = [p.grad.clone() for p in module.parameters()]
    module.zero_grad()
    module(*inputs).square().sum().backward()
    assert all(is_near(a, p.grad, 1e-5) for a, p in zip(found, module.parameters(), strict=True))


def test_the_text_is_read_by_people() -> None:
    module, inputs = CASES["linear_gelu"].make(SMALL, 0)
    imported = dojoir.torch.from_module(module, inputs)
    assert imported.text == TEXT
    assert dojoir.to_text(imported.kernel).count("erf(") == 1


HALF_ROOT = "0.7071067811865476"
TEXT = f"""\
kernel sequential()
in  input: f32[12, 16]
in  p_0_weight: f32[64, 16]
in  p_0_bias: f32[64]
out gelu: f32[12, 64]
tmp addmm: f32[12, 64]

12 @i
| 64 @j
| | addmm[{{i}}, {{j}}] = 0
| | 16 @k
| | | addmm[{{i}}, {{j}}] += input[{{i}}, {{k}}] * p_0_weight[{{j}}, {{k}}]
12 @i
| 64 @j
| | gelu[{{i}}, {{j}}] = (addmm[{{i}}, {{j}}] + p_0_bias[{{j}}]) * 0.5 * \
(1 + erf((addmm[{{i}}, {{j}}] + p_0_bias[{{j}}]) * {HALF_ROOT}))
"""


def test_open_sizes() -> None:
    module, inputs = CASES["transformer"].make(SMALL, 0)
    batch, time = torch.export.Dim("batch", min=2, max=16), torch.export.Dim("time", min=2, max=64)
    imported = dojoir.torch.from_module(module, inputs, dynamic=({0: batch, 1: time},), threads=1)
    assert len(imported.kernels[0].runtime_sizes) == 2
    for shape in ((2, 6), (3, 11)):
        x = torch.randn(*shape, SMALL.d)
        with torch.no_grad():
            assert is_near(imported(x), module(x), 1e-5)


def test_buffers_change_as_in_the_module() -> None:
    module, (x,) = CASES["batch_norm_training"].make(SMALL, 0)
    other = copy.deepcopy(module)
    imported = dojoir.torch.from_module(module, (x,), threads=1)
    with torch.no_grad():
        assert is_near(imported(x), other(x), 1e-5)
    assert is_near(module.running_mean, other.running_mean, 1e-5)
    assert is_near(module.running_var, other.running_var, 1e-5)
    assert int(module.num_batches_tracked) == 1


class Sorted(torch.nn.Module):
    """Of rows that are longer than those that are sorted here."""

    def forward(self, x: Any) -> Any:
        return torch.sort(x * 2, 1).values + 1


def test_a_missing_operator_is_named_with_its_line() -> None:
    with pytest.raises(dojoir.ArgumentError) as caught:
        dojoir.torch.from_module(Sorted(), (torch.randn(3, 600),), whole=True)
    message = caught.value.diagnostic.message
    assert caught.value.diagnostic.code == "no-operator"
    assert "aten.sort" in message and "test_modules.py" in message and "torch.sort(x * 2, 1)" in message


def test_what_is_no_module_and_what_does_not_fit() -> None:
    with pytest.raises(dojoir.ArgumentError, match=r"takes a torch\.nn\.Module"):
        dojoir.torch.from_module(torch.relu, (torch.randn(3),))
    with pytest.raises(dojoir.ArgumentError, match="tuple"):
        dojoir.torch.from_module(torch.nn.ReLU(), torch.randn(3))
    imported = dojoir.torch.from_module(torch.nn.ReLU(), (torch.randn(3, 4),))
    for wrong, code in ((torch.randn(3, 5), "bad-shape"), (torch.randn(3, 4).double(), "bad-dtype")):
        with pytest.raises(dojoir.ArgumentError) as caught:
            imported(wrong)
        assert caught.value.diagnostic.code == code


def test_transposed_and_strided_arguments() -> None:
    module, (x, y) = CASES["matmul"].make(SMALL, 0)
    imported = dojoir.torch.from_module(module, (x, y), threads=1)
    with torch.no_grad():
        for one in (x.t().contiguous().t(), torch.cat([x, x], 1)[:, : x.shape[1]]):
            assert is_near(imported(one, y), x @ y, 1e-5)


def test_compile_leaves_to_pytorch_what_has_no_text() -> None:
    backend = dojoir.torch.backend(threads=1)
    compiled = torch.compile(Sorted(), backend=backend, fullgraph=True, dynamic=False)
    x = torch.randn(5, 700, requires_grad=True)
    made = compiled(x)
    assert is_near(made, Sorted()(x), 1e-6)
    made.sum().backward()
    assert is_near(x.grad, torch.full((5, 700), 2.0), 1e-6)
    assert "aten.sort" in str(backend.report) and backend.report.left[0].line
    assert "kernel graph_0" in backend.report.text


def test_whole_refuses_what_would_be_left() -> None:
    compiled = torch.compile(Sorted(), backend=dojoir.torch.backend(whole=True), fullgraph=True)
    with pytest.raises(Exception, match=r"aten\.sort"):
        compiled(torch.randn(5, 700))


def test_the_backend_has_a_name() -> None:
    import tomllib

    from torch._dynamo.backends.registry import list_backends, register_backend

    project = tomllib.loads((Path(dojoir.__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    module, _, function = project["project"]["entry-points"]["torch_dynamo_backends"]["dojoir"].partition(":")
    __import__(module)
    found = getattr(sys.modules[module], function)
    if "dojoir" not in list_backends():  # an installation from before
        register_backend(found, name="dojoir")
    compiled = torch.compile(torch.nn.Softmax(-1), backend="dojoir", dynamic=False)
    x = torch.randn(4, 9)
    assert is_near(compiled(x), x.softmax(-1), 1e-6)


@pytest.mark.parametrize("name", ["mlp", "gru_cell", "squeeze_excite"])
def test_a_small_model_is_trained_to_the_same_loss(name: str) -> None:
    module, inputs = CASES[name].make(SMALL, 0)
    losses = []
    for compiled in (False, True):
        own = copy.deepcopy(module)
        call = torch.compile(own, backend=dojoir.torch.backend(whole=True), dynamic=False) if compiled else own
        optimizer = torch.optim.SGD(own.parameters(), lr=0.02)
        target = torch.ones_like(module(*inputs))
        for _ in range(8):
            optimizer.zero_grad()
            loss = (call(*inputs) - target).square().mean()
            loss.backward()
            optimizer.step()
        losses.append(float(loss))
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
