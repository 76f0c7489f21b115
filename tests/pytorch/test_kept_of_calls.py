"""Temporaries that a call keeps for its gradients: which operators run, and that all gradients are right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import dojoir

torch: Any = pytest.importorskip("torch", reason="needs PyTorch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from dojoir.torch.kept_temporaries import worth_keeping  # noqa: E402

F = torch.nn.functional


class Seen(TorchDispatchMode):  # type: ignore[misc]
    """The operators that run, without their namespace."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function.namespace == "kept":
            self.names.append(function._schema.name.partition("::")[2])
        return function(*args, **(kwargs or {}))


CASES: dict[str, tuple[tuple[str, ...], Callable[[], tuple[Any, ...]], Callable[..., Any]]] = {
    "softmax": (("m", "s"), lambda: (torch.randn(5, 9),), lambda x: F.softmax(x, -1)),
    "swiglu": (
        ("g", "u"),
        lambda: (torch.randn(4, 6), torch.randn(6, 7), torch.randn(6, 7)),
        lambda x, w, v: F.silu(x @ w) * (x @ v),
    ),
    "layernorm": (
        ("mean", "inv"),
        lambda: (torch.randn(5, 9), torch.randn(9), torch.randn(9), 1e-5),
        lambda x, g, b, eps: F.layer_norm(x, (9,), g, b, eps),
    ),
    "attention": (
        ("m", "l", "acc"),
        lambda: (torch.randn(2, 5, 4), torch.randn(2, 5, 4), torch.randn(2, 5, 4), 0.5),
        lambda q, k, v, scale: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale),
    ),
}


def leaves(arguments: tuple[Any, ...], dtype: Any = torch.float32) -> list[Any]:
    return [a.detach().to(dtype).requires_grad_() if isinstance(a, torch.Tensor) else a for a in arguments]


def gradients(call: Callable[..., Any], taken: list[Any], **how: Any) -> list[Any]:
    made = call(*taken)
    seed = torch.linspace(-1, 1, made.numel(), dtype=made.dtype).view(made.shape)
    found = torch.autograd.grad(made, [t for t in taken if isinstance(t, torch.Tensor)], seed, **how)
    return list(found)


@pytest.mark.parametrize("name", CASES)
def test_the_gradients_take_what_is_kept(name: str) -> None:
    names, make, eager = CASES[name]
    torch.manual_seed(0)
    op = dojoir.torch.op(dojoir.kernels.load(name), f"kept::{name}", "auto", dtypes=("f64", "bf16"), threads=1)
    arguments = make()
    with Seen() as seen:
        found = gradients(op, leaves(arguments))
    assert seen.names == [f"{name}_kept", f"{name}_kept_backward"]
    taken = [one.name for one in getattr(torch.ops.kept, f"{name}_kept_backward").default._schema.arguments]
    assert set(names) <= set(taken)
    right = gradients(eager, leaves(arguments, torch.float64))
    for a, b in zip(found, right, strict=True):
        assert torch.allclose(a.double(), b, rtol=1e-5, atol=1e-6)
    if name in ("softmax", "layernorm"):  # kernels of second order take long to compile
        assert torch.autograd.gradgradcheck(op, leaves(arguments, torch.float64), fast_mode=True)
    with Seen() as seen:
        gradients(op, leaves(arguments), create_graph=True)
    assert seen.names == [f"{name}_kept", f"{name}_backward"]  # computed again: they depend on the arguments
    if name == "softmax":
        x, d_y = arguments[0], torch.randn(5, 9)
        of_call, of_gradients = (getattr(torch.ops.kept, f"softmax_kept{end}").default for end in ("", "_backward"))
        torch.library.opcheck(of_call, (x,))
        values = dict(zip(("y", *names), of_call(x), strict=True)) | {"x": x, "d_y": d_y}
        torch.library.opcheck(of_gradients, tuple(values[one] for one in taken))
        with Seen() as seen:
            gradients(op, leaves(arguments, torch.bfloat16))
        assert seen.names == [name, f"{name}_backward"]  # would round what is kept


def test_compiled_first_in_a_batch_and_without_gradients() -> None:
    _, make, eager = CASES["softmax"]
    op = dojoir.torch.op(dojoir.kernels.load("softmax"), "kept::first", "auto", threads=1)
    torch.manual_seed(0)
    arguments = make()
    right = gradients(eager, leaves(arguments, torch.float64))
    compiled = torch.compile(lambda x: op(x), backend="aot_eager", fullgraph=True)
    assert torch.allclose(gradients(compiled, leaves(arguments))[0].double(), right[0], atol=1e-6)
    x = arguments[0]
    seed = torch.linspace(-1, 1, x.numel()).view(x.shape)
    assert torch.allclose(torch.func.grad(lambda x: (op(x) * seed).sum())(x).double(), right[0], atol=1e-6)
    each = torch.func.vmap(torch.func.grad(lambda row, s: (op(row) * s).sum()))(x, seed)
    assert torch.allclose(each.double(), right[0], atol=1e-6)
    with Seen() as seen:
        op(x)
    assert seen.names == ["first"]
    torch._dynamo.reset()


def test_what_is_larger_than_the_arguments_is_not_kept() -> None:
    known = {name: worth_keeping(dojoir.kernels.load(name)) for name in dojoir.kernels.names()}
    assert "s" not in known["attention"]  # all by all
    assert "e" not in known["softmax"]  # an exponential of what is read anyway
    assert known["gelu"] == ()
