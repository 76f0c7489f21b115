"""Recurrent layers of PyTorch are loops over time, whose import does not grow with the steps."""

from __future__ import annotations

from typing import Any

import pytest

import dojoir

torch: Any = pytest.importorskip("torch", reason="needs PyTorch")
nn: Any = torch.nn


def leaves(found: Any) -> list[Any]:
    return [found] if isinstance(found, torch.Tensor) else [leaf for one in found for leaf in leaves(one)]


def held(module: Any, *args: Any, dynamic: Any = None, more: Any = ()) -> Any:
    """The module as kernels, whose results are the module's, for these arguments and for more."""
    with torch.no_grad():
        imported = dojoir.torch.from_module(module.eval(), args, dynamic=dynamic, whole=True)
        for given in (args, *more):
            ours, its = leaves(imported(*given)), leaves(module(*given))
            assert [one.shape for one in ours] == [one.shape for one in its]
            for one, other in zip(ours, its, strict=True):
                torch.testing.assert_close(one, other, rtol=1e-2 if one.dtype == torch.bfloat16 else 1e-5, atol=1e-2
                                           if one.dtype == torch.bfloat16 else 1e-5)  # fmt: skip
    return imported


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", ["lstm", "gru", "tanh", "relu", "projected"])
def test_it_is_the_module(kind: str, bias: bool, batch_first: bool, layers: int, bidirectional: bool) -> None:
    torch.manual_seed(0)
    options = {"num_layers": layers, "bias": bias, "batch_first": batch_first, "bidirectional": bidirectional}
    module = {
        "lstm": lambda: nn.LSTM(3, 4, **options), "gru": lambda: nn.GRU(3, 4, **options),
        "tanh": lambda: nn.RNN(3, 4, **options), "relu": lambda: nn.RNN(3, 4, nonlinearity="relu", **options),
        "projected": lambda: nn.LSTM(3, 4, proj_size=2, **options),
    }[kind]()  # fmt: skip
    held(module, torch.randn(2, 5, 3))


@pytest.mark.parametrize("shape", [(5, 3), (1, 1, 3), (1, 4, 3), (6, 1, 3)])
def test_of_one_sequence_and_of_one_step(shape: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    held(nn.LSTM(3, 4), torch.randn(shape))
    held(nn.GRU(3, 1), torch.randn(shape))


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_of_other_types(dtype: str) -> None:
    torch.manual_seed(2)
    held(nn.GRU(3, 4).to(getattr(torch, dtype)), torch.randn(5, 2, 3, dtype=getattr(torch, dtype)))


def test_from_states_that_are_given() -> None:
    torch.manual_seed(3)
    held(nn.LSTM(3, 4), torch.randn(5, 2, 3), (torch.randn(1, 2, 4), torch.randn(1, 2, 4)))
    held(nn.GRU(3, 4, 2), torch.randn(5, 2, 3), torch.randn(2, 2, 4))


def test_steps_and_batch_may_be_open() -> None:
    torch.manual_seed(4)
    sizes = ({0: torch.export.Dim("B", min=2, max=64), 1: torch.export.Dim("T", min=2, max=600)},)
    more = [(torch.randn(shape),) for shape in ((3, 7, 8), (5, 101, 8), (2, 2, 8))]
    held(nn.LSTM(8, 4, batch_first=True), torch.randn(2, 50, 8), dynamic=sizes, more=more)


def test_the_text_does_not_grow_with_the_steps() -> None:
    short, long = (held(nn.LSTM(3, 4), torch.randn(steps, 2, 3)).text for steps in (10, 512))
    assert short.count("\n") == long.count("\n") < 60


def test_pytorch_is_left_as_it_was() -> None:
    from torch._decomp import decomposition_table

    operators = [torch.ops.aten.lstm.input, torch.ops.aten.gru.input]
    before = [(dict(one.py_kernels), decomposition_table[one]) for one in operators]
    held(nn.LSTM(3, 4), torch.randn(5, 2, 3))
    with pytest.raises(dojoir.ArgumentError):
        dojoir.torch.from_module(nn.LSTM(3, 4), (torch.randn(5, 2, 9),), whole=True)
    assert [(dict(one.py_kernels), decomposition_table[one]) for one in operators] == before


def test_gradients_are_the_module_s() -> None:
    torch.manual_seed(5)
    module, x = nn.LSTM(3, 4), torch.randn(3, 2, 3)
    imported = dojoir.torch.from_module(module, (x,))
    imported(x)[0].square().sum().backward()
    ours = [p.grad.clone() for p in module.parameters()]
    module.zero_grad()
    module(x)[0].square().sum().backward()
    for one, parameter in zip(ours, module.parameters(), strict=True):
        torch.testing.assert_close(one, parameter.grad, rtol=1e-4, atol=1e-5)


def test_dropout_that_draws_is_told() -> None:
    with pytest.raises(dojoir.ArgumentError, match=r"module\.eval\(\) ends that"):
        dojoir.torch.from_module(nn.LSTM(3, 4, 2, dropout=0.5).train(), (torch.randn(5, 2, 3),), whole=True)
