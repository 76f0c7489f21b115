"""Derivatives of operators that are made of the texts of their kernels: against PyTorch's own, of every order and
by every way there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import dojoir
from dojoir import ArgumentError

torch: Any = pytest.importorskip("torch", reason="needs PyTorch")

F: Any = torch.nn.functional
Reference = Callable[..., Any]


def rand(*shape: int) -> Any:
    return torch.randn(*shape, dtype=torch.float64)


def attention(q: Any, k: Any, v: Any, scale: float) -> Any:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)


def batchnorm_inference(x: Any, mean: Any, var: Any, g: Any, b: Any, eps: float) -> Any:
    mean, var, g, b = (v[:, None, None] for v in (mean, var, g, b))
    return (x - mean) / (var + eps).sqrt() * g + b


def batchnorm(x: Any, g: Any, b: Any, eps: float) -> Any:
    var, mean = torch.var_mean(x, (0, 2, 3), correction=0)
    return mean, var, batchnorm_inference(x, mean, var, g, b, eps)


def groupnorm(x: Any, w: Any, b: Any, eps: float) -> Any:
    n, g, c, length = x.shape
    return F.group_norm(x.reshape(n, g * c, length), g, w.reshape(-1), b.reshape(-1), eps).reshape(x.shape)


def grouped(x: Any, f: Any) -> Any:
    n, g, c, h, w = x.shape
    y = F.conv2d(x.reshape(n, g * c, h, w), f.reshape(-1, *f.shape[2:]), groups=g)
    return y.reshape(n, g, -1, *y.shape[2:])


def rms(x: Any, g: Any, eps: float) -> Any:
    return F.rms_norm(x, (x.shape[1],), g, eps)


def steps(a: Any, b: Any, T: int) -> Any:
    for _ in range(T):
        b = torch.cat([b[:1], torch.cat([b[1:-1, :1], inner(a), b[1:-1, -1:]], 1), b[-1:]])
        a = torch.cat([a[:1], torch.cat([a[1:-1, :1], inner(b), a[1:-1, -1:]], 1), a[-1:]])
    return a, b


def inner(a: Any) -> Any:
    return 0.2 * (a[1:-1, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] + a[2:, 1:-1] + a[:-2, 1:-1])


IDS = torch.tensor([1, 0, 1, 2])

LIBRARY: dict[str, tuple[Reference, tuple[Any, ...], dict[str, int]]] = {
    "add": (torch.add, (rand(5), rand(5)), {}),
    "attention": (attention, (rand(2, 5, 3), rand(2, 5, 3), rand(2, 5, 3), 0.5), {}),
    "avgpool2d": (lambda x, **_: F.avg_pool2d(x, 2), (rand(1, 2, 5, 6),), {"KH": 2, "KW": 2}),
    "batchnorm_inference": (
        batchnorm_inference, (rand(2, 3, 2, 4), rand(3), rand(3).exp(), rand(3), rand(3), 1e-3), {},
    ),
    "batchnorm_training": (batchnorm, (rand(2, 3, 2, 4), rand(3), rand(3), 1e-3), {}),
    "bias_relu": (lambda x, b: F.relu(x + b), (rand(3, 4), rand(4)), {}),
    "bmm": (torch.bmm, (rand(2, 3, 4), rand(2, 4, 5)), {}),
    "conv2d": (F.conv2d, (rand(1, 2, 5, 6), rand(3, 2, 2, 3)), {}),
    "cross_entropy": (
        lambda x, t: (F.cross_entropy(x, t, reduction="none"), F.cross_entropy(x, t)), (rand(4, 3), IDS), {},
    ),
    "cumsum": (lambda x: x.cumsum(1), (rand(3, 5),), {}),
    "depthwise_conv2d": (
        lambda x, f: F.conv2d(x, f[:, None], groups=f.shape[0]), (rand(1, 2, 5, 6), rand(2, 2, 3)), {},
    ),
    "dot": (torch.dot, (rand(7), rand(7)), {}),
    "embedding": (F.embedding, (IDS, rand(3, 4)), {}),
    "gelu": (F.gelu, (rand(9),), {}),
    "gemv": (torch.mv, (rand(3, 4), rand(4)), {}),
    "grouped_conv2d": (grouped, (rand(1, 2, 2, 4, 5), rand(2, 3, 2, 2, 3)), {}),
    "groupnorm": (groupnorm, (rand(2, 2, 3, 4), rand(2, 3), rand(2, 3), 1e-3), {}),
    "jacobi2d": (steps, (rand(5, 5), rand(5, 5)), {"T": 2}),
    "layernorm": (lambda x, g, b, eps: F.layer_norm(x, (4,), g, b, eps), (rand(3, 4), rand(4), rand(4), 1e-3), {}),
    "log_softmax": (lambda x: F.log_softmax(x, 1), (rand(3, 4),), {}),
    "matmul": (torch.matmul, (rand(3, 4), rand(4, 5)), {}),
    "matmul_int8": (
        lambda a, b, sa, sb: sa[:, None] * sb * (a.double() @ b.double()),
        (torch.ones(3, 4, dtype=torch.int8), torch.ones(4, 2, dtype=torch.int8), rand(3), rand(2)), {},
    ),
    "matmul_nt": (lambda a, b: a @ b.T, (rand(3, 4), rand(5, 4)), {}),
    "matmul_tn": (lambda a, b: a.T @ b, (rand(4, 3), rand(4, 5)), {}),
    "maxpool2d": (lambda x, **_: F.max_pool2d(x, 2), (rand(1, 2, 5, 6),), {"KH": 2, "KW": 2}),
    "mul": (torch.mul, (rand(5), rand(5)), {}),
    "reduce_max": (lambda x: x.amax(1), (rand(3, 4),), {}),
    "reduce_mean_0": (lambda x: x.mean(0), (rand(3, 4),), {}),
    "reduce_mean_1": (lambda x: x.mean(1), (rand(3, 4),), {}),
    "relu": (F.relu, (rand(9),), {}),
    "residual_rmsnorm": (
        lambda x, r, g, eps: (x + r, rms(x + r, g, eps)), (rand(3, 4), rand(3, 4), rand(4), 1e-3), {},
    ),
    "rmsnorm": (rms, (rand(3, 4), rand(4), 1e-3), {}),
    "saxpy": (lambda alpha, x, y: y + alpha * x, (2.0, rand(5), rand(5)), {}),
    "silu": (F.silu, (rand(9),), {}),
    "softmax": (lambda x: F.softmax(x, 1), (rand(3, 4),), {}),
    "swiglu": (lambda x, w, v: F.silu(x @ w) * (x @ v), (rand(3, 4), rand(4, 5), rand(4, 5)), {}),
    "transpose": (lambda x: x.T.contiguous(), (rand(3, 4),), {}),
}  # fmt: skip

NOT_HERE = {"argmax": "its result is an integer", "heat3d": "PyTorch has no form of it: checked by differences"}
"""The kernels of the library whose gradient is not held against PyTorch's, and why."""


def made(name: str) -> Any:
    kernel = dojoir.kernels.load(name, dtype="f64")
    return dojoir.torch.op(kernel, f"dojoir_auto::{name}", "auto")


def tensors(given: tuple[Any, ...]) -> list[Any]:
    return [
        a.detach().clone().requires_grad_() if isinstance(a, torch.Tensor) and a.is_floating_point() else a
        for a in given
    ]


def test_the_list_is_whole() -> None:
    assert {*LIBRARY, *NOT_HERE} == set(dojoir.kernels.names())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LIBRARY)
def test_gradients_of_the_library_are_pytorchs(name: str) -> None:
    """Results and gradients in f64, and what PyTorch checks of an operator."""
    reference, given, sizes = LIBRARY[name]
    op = made(name)
    named = {n: value for n, value in sizes.items() if n in {a.name for a in op._schema.arguments}}
    own, its = tensors(given), tensors(given)
    results, wanted = op(*own, **named), reference(*its, **sizes)
    results, wanted = ((r if isinstance(r, tuple | list) else (r,)) for r in (results, wanted))
    seeds = [torch.randn_like(r) for r in wanted]
    for result, other in zip(results, wanted, strict=True):
        torch.testing.assert_close(result, other, rtol=1e-9, atol=1e-10)
    for x in (own, its):
        of = results if x is own else wanted
        torch.autograd.backward(of, seeds)
    for a, b in zip(own, its, strict=True):
        if isinstance(a, torch.Tensor) and a.is_floating_point():
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-8, atol=1e-9)
    checks = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(op, tuple(tensors(given)), named, test_utils=checks)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["softmax", "layernorm", "cross_entropy", "saxpy"])
def test_gradcheck_in_both_modes_and_twice(name: str) -> None:
    _, given, sizes = LIBRARY[name]
    op = made(name)
    numbers = {n: value for n, value in sizes.items() if n in {a.name for a in op._schema.arguments}}
    call = lambda *a: op(*a, **numbers)  # noqa: E731
    assert torch.autograd.gradcheck(call, tensors(given), check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(call, tensors(given))
    if name == "layernorm":
        torch.library.opcheck(op, tuple(tensors(given)), numbers)


@pytest.mark.filterwarnings("ignore")
def test_transforms_of_functions() -> None:
    op, own, x, v = made("silu"), F.silu, rand(5), rand(5)
    f = torch.func
    ways: list[Callable[[Any], Any]] = [
        lambda g: f.grad(lambda a: g(a).square().sum())(x),
        lambda g: f.jvp(g, (x,), (v,))[1],
        lambda g: f.jacrev(g)(x),
        lambda g: f.jacfwd(g)(x),
        lambda g: f.hessian(lambda a: g(a).square().sum())(x),
        lambda g: f.grad(lambda a: f.grad(lambda b: g(b).square().sum())(a).square().sum())(x),
        lambda g: f.grad(lambda a: f.jvp(g, (a,), (v,))[1].square().sum())(x),
        lambda g: torch.vmap(g)(torch.stack([x, v])),
        lambda g: torch.vmap(f.grad(lambda a: g(a).square().sum()), in_dims=1)(torch.stack([x, v], 1)),
    ]
    for way in ways:
        torch.testing.assert_close(way(op), way(own))


def test_a_batch_of_a_kernel_that_is_not_over_rows() -> None:
    op, a, b = made("bmm"), rand(2, 3, 4, 5), rand(2, 3, 5, 2)
    torch.testing.assert_close(torch.vmap(op)(a, b), a @ b)
    torch.testing.assert_close(torch.vmap(op, in_dims=(0, None))(a, b[0]), a @ b[0])


@pytest.mark.filterwarnings("ignore")
def test_what_is_not_known_is_refused() -> None:
    op = dojoir.torch.op(
        dojoir.kernels.load("relu", dtype="f64"), "dojoir_auto::given", lambda x, grad_y: grad_y * (x > 0)
    )
    with pytest.raises(ArgumentError, match="no-jvp"):
        torch.func.jvp(op, (rand(3),), (rand(3),))
    with pytest.raises(ArgumentError, match="no-such-input"):
        dojoir.torch.op(dojoir.kernels.load("argmax"), "dojoir_auto::argmax", "auto")
    again = dojoir.torch.op(
        dojoir.kernels.load("silu", dtype="f64"), "dojoir_auto::once",
        dojoir.parse(
            "kernel b(N)\nin x: f64[N]\nin grad_y: f64[N]\nout grad_x: f64[N]\n\n"
            "N\n| grad_x[{0}] = grad_y[{0}] * x[{0}]\n"
        ),
    )  # fmt: skip
    x = rand(3).requires_grad_()
    (slope,) = torch.autograd.grad(again(x).sum(), x, create_graph=True)
    with pytest.raises(ArgumentError, match="once_backward has no gradient"):
        slope.sum().backward()
