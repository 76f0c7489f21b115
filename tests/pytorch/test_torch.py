"""Kernels as operators of PyTorch: results, gradients, compiled graphs, refusals."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dojoir
from dojoir import ArgumentError, ToolchainError

torch: Any = pytest.importorskip("torch", reason="needs PyTorch")

SILU = """
kernel silu(N, M)
in  x: f32[N, M]
out y: f32[N, M]

N
| M
| | y[{0}, {1}] = x[{0}, {1}] * sigmoid(x[{0}, {1}])
"""

SILU_BACKWARD = """
kernel silu_backward(N, M)
in  x: f32[N, M]
in  grad_y: f32[N, M]
out grad_x: f32[N, M]
tmp s: f32[N, M]

N
| M
| | s[{0}, {1}] = sigmoid(x[{0}, {1}])
| | grad_x[{0}, {1}] = grad_y[{0}, {1}] * s[{0}, {1}] * (1 + x[{0}, {1}] * (1 - s[{0}, {1}]))
"""


def silu(name: str = "dojoir_test::silu") -> Any:
    return dojoir.torch.op(dojoir.parse(SILU), name, dojoir.Trace(dojoir.parse(SILU_BACKWARD)))


def layernorm_gradients(x: Any, g: Any, eps: float, grad_y: Any) -> Any:
    mean = x.mean(1, keepdim=True)
    scale = (x.var(1, unbiased=False, keepdim=True) + eps).rsqrt()
    h = (x - mean) * scale
    u = grad_y * g
    grad_x = scale * (u - u.mean(1, keepdim=True) - h * (u * h).mean(1, keepdim=True))
    return {"grad_x": grad_x, "grad_g": (grad_y * h).sum(0), "grad_b": grad_y.sum(0)}


def layernorm(name: str = "dojoir_test::layernorm") -> Any:
    return dojoir.torch.op(dojoir.optimize(dojoir.kernels.load("layernorm")), name, layernorm_gradients)


def refused(code: str, call: Callable[[], object], *words: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        call()
    diagnostic = caught.value.diagnostic
    assert diagnostic.code == code, diagnostic.message
    for word in words:
        assert word in diagnostic.message


@pytest.mark.filterwarnings("ignore")
def test_an_operator_passes_the_checks_of_pytorch() -> None:
    x = torch.randn(5, 7, requires_grad=True)
    torch.library.opcheck(silu(), (x,))
    norm = layernorm()
    torch.library.opcheck(norm, (x, torch.ones(7, requires_grad=True), torch.zeros(7), 1e-5))
    assert torch.autograd.gradcheck(
        lambda a: norm(a, torch.ones(7), torch.zeros(7), 1e-5), x, eps=1e-2, atol=3e-2, rtol=3e-2
    )


def test_results_by_order_by_name_and_by_pytorchs_name() -> None:
    norm = layernorm()
    x, g, b = torch.randn(4, 9), torch.randn(9), torch.randn(9)
    expected = torch.nn.functional.layer_norm(x, (9,), g, b)
    for y in (norm(x, g, b, 1e-5), norm(x=x, eps=1e-5, g=g, b=b), torch.ops.dojoir_test.layernorm(x, g, b, 1e-5)):
        torch.testing.assert_close(y, expected)


class Net(torch.nn.Module):
    """Two layers with a norm and an activation between, which are PyTorch's or operators made of kernels."""

    def __init__(self, own: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = torch.nn.Linear(6, 16), torch.nn.Linear(16, 1)
        self.g, self.b = torch.nn.Parameter(torch.ones(16)), torch.nn.Parameter(torch.zeros(16))
        self.own = own

    def forward(self, x: Any) -> Any:
        h = self.first(x)
        if self.own:
            ops = torch.ops.dojoir_test
            return self.last(ops.silu.default(ops.layernorm.default(h, self.g, self.b, 1e-5)))
        h = torch.nn.functional.layer_norm(h, (16,), self.g, self.b)
        return self.last(torch.nn.functional.silu(h))


def trained(own: bool, compiled: bool) -> tuple[list[float], list[Any]]:
    """The losses and the last weights of a training."""
    net = Net(own)
    run = torch.compile(net, fullgraph=True) if compiled else net
    optimiser = torch.optim.Adam(net.parameters(), 1e-2)
    torch.manual_seed(1)
    x = torch.randn(64, 6)
    target = (x[:, :1] * x[:, 1:2]).tanh()
    losses = []
    for _ in range(40):
        optimiser.zero_grad()
        loss = torch.nn.functional.mse_loss(run(x), target)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses, [parameter.detach().clone() for parameter in net.parameters()]


@pytest.mark.filterwarnings("ignore")  # PyTorch's compiler has some of its own
def test_a_model_learns_as_with_pytorchs_own_operators() -> None:
    silu(), layernorm()
    losses, weights = trained(own=False, compiled=False)
    assert losses[-1] < 0.5 * losses[0]
    for compiled in (False, True):
        its, own = trained(own=True, compiled=compiled)
        np.testing.assert_allclose(its, losses, rtol=1e-3, atol=1e-5)
        for a, b in zip(own, weights, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-2, atol=1e-3)


@pytest.mark.filterwarnings("ignore")
def test_one_compiled_function_takes_several_shapes() -> None:
    op = silu()
    function = torch.compile(lambda x: op(x + 1) * 2, fullgraph=True, dynamic=True)
    for n in (3, 5, 8):
        x = torch.randn(n, n + 1)
        torch.testing.assert_close(function(x), 2 * torch.nn.functional.silu(x + 1))


def test_sizes_inout_and_several_results() -> None:
    text = """
kernel step(N, T)
inout x: f32[N]
in    on: bool
in    k: i32
out   y: f64[N]

T
| N
| | x[{1}] += 1
N
| y[{0}] = f64(select(on, k, 0))
"""
    op = dojoir.torch.op(dojoir.parse(text), "dojoir_test::step")
    x = torch.zeros(6)[::2]
    changed, y = op(x, True, 7, T=3)
    assert (changed.tolist(), y.tolist(), y.dtype) == ([3.0] * 3, [7.0] * 3, torch.float64)
    assert x.tolist() == [0, 0, 0]
    torch.library.opcheck(op, (torch.zeros(3), True, 7), {"T": 2})


def test_layouts_other_than_plain() -> None:
    text = """
kernel turn(N, M)
in  x: f16[N, M]
out y: f16[M + 1, N] order(1, 0) pad(3, 0)

M + 1
| N
| | y[{0}, {1}] = f16(select({0} >= M, 1, 2)) + x[{1}, 0]
"""
    op = dojoir.torch.op(dojoir.parse(text), "dojoir_test::turn")
    y = op(torch.zeros(4, 2, dtype=torch.float16))
    assert (y.shape, y.stride()) == ((3, 4), (1, 6))
    assert y[:, 0].tolist() == [2, 2, 1]
    torch.library.opcheck(op, (torch.zeros(4, 2, dtype=torch.float16),))


def test_empty_batches_return_at_once() -> None:
    x = torch.zeros(0, 7, requires_grad=True)
    y = silu()(x)
    assert y.shape == (0, 7)
    y.sum().backward()
    assert x.grad.shape == (0, 7)


def test_no_gradients_without_a_backward() -> None:
    op = dojoir.torch.op(dojoir.parse(SILU), "dojoir_test::forward_only")
    x = torch.nn.Parameter(torch.randn(2, 3))
    with torch.no_grad():
        assert torch.equal(op(x), op(x.detach()))
    y = op(x)  # PyTorch asks for the gradient only later
    refused("no-backward", lambda: y.sum().backward(), "dojoir_test::forward_only", "backward=")


def test_a_text_is_scheduled_and_what_has_a_schedule_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []
    compile = dojoir.compile

    def seen(kernel: Any, *given: Any, **options: Any) -> dojoir.Compiled:
        compiled.append(kernel)
        return compile(kernel, *given, **options)

    monkeypatch.setattr(dojoir, "compile", seen)
    kernel = dojoir.parse(SILU)
    marked = dojoir.apply(kernel, "vectorize(0.0)")
    fast = dojoir.optimize(kernel).kernel
    assert fast != kernel
    for given, schedule, runs in (
        (kernel, "auto", fast),
        (kernel, None, kernel),
        (marked, "auto", marked),
        (dojoir.Trace(kernel), "auto", kernel),
    ):
        dojoir.torch.op(given, "dojoir_test::scheduled", schedule=schedule)
        assert compiled.pop() == runs


def test_calls_have_the_threads_of_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is given, or the environment, goes before it."""
    asked = []
    compile = dojoir.compile

    def seen(*given: Any, threads: int | None = None, **options: Any) -> dojoir.Compiled:
        asked.append(threads)
        return compile(*given, threads=threads, **options)

    monkeypatch.setattr(dojoir, "compile", seen)
    monkeypatch.delenv("DOJOIR_THREADS", raising=False)
    x, before = torch.randn(3, 4), torch.get_num_threads()
    kernel = dojoir.parse(SILU)

    def threads_of(call: Callable[[Any], Any]) -> list[int | None]:
        asked.clear()
        for count in (1, 2, 1):
            torch.set_num_threads(count)
            assert torch.allclose(call(x), torch.nn.functional.silu(x), atol=1e-6)
        return asked.copy()

    try:
        torch.set_num_threads(2)
        assert threads_of(dojoir.torch.op(kernel, "dojoir_test::threads")) == [1]  # 2: when it was made
        assert threads_of(dojoir.torch.from_module(torch.nn.SiLU(), (x,))) == [1, 2]
        assert threads_of(dojoir.torch.op(kernel, "dojoir_test::threads", threads=1)) == []
        monkeypatch.setenv("DOJOIR_THREADS", "1")
        assert threads_of(dojoir.torch.from_module(torch.nn.SiLU(), (x,))) == [None]
    finally:
        torch.set_num_threads(before)


def test_wrong_operators_are_refused() -> None:
    kernel = dojoir.parse(SILU)
    refused("bad-operator", lambda: dojoir.torch.op(kernel, "a::b", schedule=True), "True", "None")  # type: ignore[arg-type]
    for name in ("silu", "a::b::c", "a:b", "", 3):
        refused("bad-operator-name", lambda n=name: dojoir.torch.op(kernel, n), "namespace::name")
    refused("not-a-kernel", lambda: dojoir.torch.op(SILU, "dojoir_test::x"), "dojoir.parse")
    refused("bad-backward", lambda: dojoir.torch.op(kernel, "dojoir_test::x", 3), "int")
    refused("bad-backward", lambda: dojoir.torch.op(kernel, "dojoir_test::x", lambda gy: gy), "'gy'", "grad_y")
    refused("bad-backward", lambda: dojoir.torch.op(kernel, "dojoir_test::x", lambda *a: a[0]), "*a")
    refused("bad-backward", lambda: dojoir.torch.op(kernel, "dojoir_test::x", kernel), "returns 'y'", "grad_x")
    other = dojoir.torch.op(kernel, "dojoir_test::wrong", lambda grad_y: (grad_y, grad_y))
    x = torch.ones(2, 2, requires_grad=True)
    refused("bad-backward", lambda: other(x).sum().backward(), "grad_x")
    none = dojoir.torch.op(kernel, "dojoir_test::none", lambda grad_y: None)
    refused("no-gradient", lambda: none(x).sum().backward(), "x", "detach")


def test_hints_are_in_the_callers_words() -> None:
    op = silu()
    refused("bad-dtype", lambda: op(torch.zeros(4, 3, dtype=torch.float64)), "x.to(torch.float32)")
    refused("bad-rank", lambda: op(torch.zeros(())), "argument x")
    plain = dojoir.compile(dojoir.parse(SILU))
    refused("bad-stride", lambda: plain(torch.zeros(4, 3).t(), torch.zeros(3, 4)), "x.contiguous()")
    compiled = dojoir.compile(dojoir.parse(SILU))
    x = torch.zeros(4, 3, requires_grad=True)
    refused("no-dlpack", lambda: compiled(x, torch.zeros(4, 3)), "x.detach()", "torch.no_grad()")


def test_the_same_name_again_replaces_the_operator() -> None:
    first = dojoir.torch.op(dojoir.parse(SILU), "dojoir_test::again")
    second = dojoir.torch.op(dojoir.parse(SILU.replace("* sigmoid(x[{0}, {1}])", "+ 1")), "dojoir_test::again")
    x = torch.ones(1, 1)
    assert second(x).item() == 2
    assert first is not second


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16", "f8e4m3", "i64", "i8", "u16", "u8", "bool"])
def test_run_gives_tensors_back_for_tensors(dtype: str) -> None:
    text = f"kernel copy(N)\nin x: {dtype}[N, 2]\nout y: {dtype}[N, 2]\n"
    text += "\nN\n| 2\n| | y[{0}, {1}] = x[{0}, {1}]\n"
    compiled = dojoir.compile(dojoir.parse(text))
    names = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "f8e4m3": "float8_e4m3fn"}
    names |= {"i64": "int64", "i8": "int8", "u16": "uint16", "u8": "uint8", "bool": "bool"}
    x = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]).to(getattr(torch, names[dtype]))
    y = compiled.run({"x": x})["y"]
    assert (y.dtype, y.shape) == (x.dtype, x.shape)
    assert torch.equal(y.float(), x.float())


def test_arguments_by_name() -> None:
    compiled = dojoir.compile(dojoir.parse(SILU))
    x, y = np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)
    for _ in range(6):
        compiled(x, y=y)
        compiled(y=y, x=x, N=2)
    assert (y > 0.7).all()
    refused("argument-count", lambda: compiled(x, x=x), "twice")
    refused("missing-argument", lambda: compiled(x=x), "argument y")
    refused("unknown-size", lambda: compiled(x, y=y, K=2), "K")


def test_without_pytorch_it_says_what_to_install() -> None:
    code = """
import importlib.util, dojoir
importlib.util.find_spec = lambda name: None
try:
    dojoir.torch.op(dojoir.kernels.load("relu"), "a::b")
except dojoir.ToolchainError as error:
    print(error.diagnostic.code, error.diagnostic.message)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.startswith("no-torch"), out
    assert "pip install 'dojoir[torch]'" in out
    assert issubclass(ToolchainError, dojoir.DojoError)


def test_data_that_break_what_is_declared_are_refused() -> None:
    """By the first call and by later ones, and by the backward kernel's."""
    text = """kernel ragged(N, M)
in  len: i32[N] lengths(M)
in  x: f32[N, M]
out y: f32[N]

N
| y[{0}] = 0
| len[{0}]
| | y[{0}] += x[{0}, {1}]
"""
    operator = dojoir.torch.op(dojoir.parse(text), "dojoir_tests::stated", backward="auto")
    length, x = torch.tensor([1, 4], dtype=torch.int32), torch.ones(2, 4, requires_grad=True)
    for _ in range(4):
        y = operator(length, x)
        assert y.tolist() == [1, 4]
        with pytest.raises(ArgumentError, match=r"len\[1\] is 5"):
            operator(length + 1, x)
    y.sum().backward()
    assert x.grad.tolist() == [[1, 0, 0, 0], [1, 1, 1, 1]]
