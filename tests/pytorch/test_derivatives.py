"""Derivatives of operators that are made of the texts of their kernels: against PyTorch's own, of every order and
by every way there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import dojoir
from dojoir import ArgumentError

torch: Any = pytest.importorskip("torch", reason="needs PyTorch")
from torch_library import LIBRARY, NOT_HERE, F, made, numbers_of, rand, tensors  # noqa: E402


def test_the_list_is_whole() -> None:
    assert {*LIBRARY, *NOT_HERE} == set(dojoir.kernels.names())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LIBRARY)
def test_gradients_of_the_library_are_pytorchs(name: str) -> None:
    """Results and gradients in f64, and those by differences; and what PyTorch checks of an operator."""
    reference, given, sizes = LIBRARY[name]
    op = made(name)
    named = numbers_of(op, sizes)
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
    assert torch.autograd.gradcheck(lambda *a: op(*a, **named), tensors(given), fast_mode=True)
    torch.library.opcheck(op, tuple(tensors(given)), named)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["softmax", "layernorm", "cross_entropy", "saxpy"])
def test_gradcheck_in_both_modes_and_twice(name: str) -> None:
    _, given, sizes = LIBRARY[name]
    op = made(name)
    numbers = numbers_of(op, sizes)
    call = lambda *a: op(*a, **numbers)  # noqa: E731
    assert torch.autograd.gradcheck(call, tensors(given), check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(call, tensors(given))


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


@pytest.mark.filterwarnings("ignore")
def test_results_of_the_call_are_taken_where_that_leaves_statements_out() -> None:
    for name, result in (("reduce_max", "y"), ("batchnorm_training", "mean"), ("softmax", None)):
        _, given, sizes = LIBRARY[name]
        op, own = made(name), tensors(given)
        found = op(*own, **numbers_of(op, sizes))
        (found if isinstance(found, torch.Tensor) else found[-1]).sum().backward()
        takes = {a.name for a in getattr(torch.ops.dojoir_auto, f"{name}_backward").default._schema.arguments}
        assert (result in takes) if result else takes == {"x", "d_y"}
    narrow = dojoir.torch.op(dojoir.kernels.load("reduce_max"), "dojoir_auto::rounded", "auto", dtypes=("bf16",))
    narrow(torch.randn(3, 4).bfloat16().requires_grad_()).sum().backward()
    takes = {a.name for a in torch.ops.dojoir_auto.rounded_backward.default._schema.arguments}
    assert takes == {"x", "d_y"}
