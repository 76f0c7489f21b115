"""Imported modules in the hands of their users: copied, saved, called by other parameters, transformed, traced."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="needs the extra torch")
nn, func, forward_ad = torch.nn, torch.func, torch.autograd.forward_ad

import dojoir  # noqa: E402


class Net(nn.Module):  # type: ignore[misc,name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(6))
        self.inner = nn.Linear(6, 3)

    def forward(self, x: Any) -> Any:
        return torch.tanh(self.inner(x * self.scale))


def net() -> Any:
    torch.manual_seed(0)
    return Net()


def imported(dynamic: Any = None) -> tuple[Any, Any, Any]:
    """A module, what is imported of it, and an input."""
    module, x = net(), torch.randn(5, 6)
    return module, dojoir.torch.from_module(module, (x,), dynamic=dynamic), x


def same(one: Any, other: Any) -> None:
    torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


def saved(module: Any) -> Any:
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


COPIES = {"pickle": lambda m: pickle.loads(pickle.dumps(m)), "save": saved, "deepcopy": copy.deepcopy}


@pytest.mark.parametrize("way", COPIES)
def test_a_copy_has_parameters_of_its_own_and_the_moves(way: str) -> None:
    module, given, x = imported()
    trace = given.traces()[0]
    trace.apply("label(0, rows)")
    given.replace(trace)
    with torch.no_grad():
        right = given(x)
        other = COPIES[way](given)
        assert other.kernels == given.kernels == [trace.kernel] and other.text == given.text
        same(other(x), right)
        for parameter in other.parameters():
            parameter.zero_()
        same(other(x), torch.zeros(5, 3))
        same(given(x), right)
    other(x).sum().backward()
    assert all(p.grad is not None for p in other.parameters()) and all(p.grad is None for p in module.parameters())


def test_names_are_those_of_the_module() -> None:
    module, given, x = imported()
    assert list(given.state_dict()) == list(module.state_dict()) == ["scale", "inner.weight", "inner.bias"]
    assert dict(given.named_parameters()) == dict(module.named_parameters())
    given.load_state_dict({name: tensor * 0 for name, tensor in module.state_dict().items()})
    assert not module.scale.any()
    given.eval()
    assert not module.training and not module.inner.training
    others = dict(net().named_parameters())
    with torch.no_grad():
        same(func.functional_call(given, others, (x,)), net()(x))
    func.functional_call(given, others, (x,)).sum().backward()
    assert all(p.grad is not None for p in others.values()) and module.scale.grad is None


@pytest.mark.filterwarnings("ignore:.torch.jit:FutureWarning")  # forward mode asks for it
def test_transforms_are_right() -> None:
    """They run the module itself: PyTorch transforms its own operators."""
    module, given, x = imported()
    parameters, several = {n: p.detach() for n, p in module.named_parameters()}, torch.randn(2, 5, 6)

    def loss(f: Any) -> Any:
        return lambda p: func.functional_call(f, p, (x,)).square().sum()

    asked = [
        func.vmap,
        lambda f: lambda xs: func.vmap(func.grad(lambda x: f(x).sum()))(xs),
        lambda f: lambda xs: func.jvp(f, (xs,), (xs,)),
        lambda f: lambda xs: func.grad(loss(f))(parameters),
        lambda f: lambda xs: func.hessian(lambda x: f(x).sum())(xs[0, :1]),
    ]
    for transform in asked:
        same(transform(given)(several), transform(module)(several))
        with torch.no_grad():
            same(transform(given)(several), transform(module)(several))
    with forward_ad.dual_level():
        duals = [forward_ad.unpack_dual(f(forward_ad.make_dual(x, x))).tangent for f in (given, module)]
        same(*duals)
    compiled = torch.compile(lambda xs: func.vmap(given)(xs), backend="dojoir", fullgraph=True)
    same(compiled(several), module(several))


def test_a_second_backward_pass_is_refused_and_the_compiled_transform_is_right() -> None:
    module, given, x = imported()
    x.requires_grad_()
    (first,) = torch.autograd.grad(given(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        first.sum().backward()
    (own,) = torch.autograd.grad(module(x).square().sum(), x, create_graph=True)
    own.square().sum().backward()
    right, x.grad = x.grad, None
    twice = func.grad(lambda x: func.grad(lambda x: given(x).square().sum())(x).square().sum())
    same(twice(x.detach()), right)


def test_it_is_traced_as_the_module_is() -> None:
    module, given, x = imported()
    with torch.no_grad():
        same(torch.export.export(given, (x,)).module()(x), module(x))
        same(torch.compile(given, backend="eager", fullgraph=True)(x), module(x))
        same(given(x), module(x))
        again = dojoir.torch.from_module(torch.export.export(module, (x,)), (x,))
        same(again(x), module(x))


def test_an_empty_batch() -> None:
    module, given, x = imported(({0: torch.export.Dim("batch", min=0, max=64)},))
    none = x[:0].clone().requires_grad_()
    given(none).sum().backward()
    assert none.grad.shape == (0, 6) and not module.inner.weight.grad.any()
    with torch.no_grad():
        assert given(x[:0]).shape == (0, 3)
        same(given(x[:2]), module(x[:2]))


class Cut(nn.Module):  # type: ignore[misc,name-defined]
    """Two kernels, or more, around what has no text; it writes a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 1000)
        self.register_buffer("seen", torch.zeros(1000))

    def forward(self, x: Any) -> Any:
        y = torch.relu(self.inner(x))
        self.seen.add_(y.detach().sum(0))
        return torch.sort(y).values.sum(-1) * 2


@pytest.mark.parametrize("dynamic", [None, ({0: torch.export.Dim("batch")},)], ids=["fixed", "open"])
def test_what_has_no_text_is_left_and_the_rest_are_kernels(dynamic: Any, caplog: pytest.LogCaptureFixture) -> None:
    torch.manual_seed(0)
    module, x = Cut(), torch.randn(5, 6)
    other = copy.deepcopy(module)
    with caplog.at_level("INFO", "dojoir.torch"):
        given = dojoir.torch.from_module(module, (x,), dynamic=dynamic)
    told = [record.getMessage() for record in caplog.records if record.name == "dojoir.torch"]
    assert len(told) == 2 and "cut: " in told[1] and "aten.sort.default, the first at" in told[1]
    assert [one.operator for one in given.left] == ["aten.sort.default"] and "test_habits.py" in given.left[0].line
    assert len(given.kernels) >= 2 and all(name in given.text for name in ("inner_weight", "seen", "sum"))
    trace = next(one for one in given.traces() if "seen" in str(one.kernel))
    trace.apply("label(0, rows)")
    given.replace(trace)
    assert trace.kernel in given.kernels
    with torch.no_grad():
        same(given(x), other(x))
        same(saved(given)(x), other(x))
    same(given(x), other(x))
    same(module.seen, other.seen * 2 / 3)
    given(x).square().sum().backward()
    other(x).square().sum().backward()
    same(module.inner.weight.grad, other.inner.weight.grad)
    with pytest.raises(dojoir.ArgumentError, match=r"aten\.sort"):
        dojoir.torch.from_module(module, (x,), whole=True)


class OfData(nn.Module):  # type: ignore[misc,name-defined]
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


@pytest.mark.parametrize(
    "function", [lambda x: torch.nonzero(x > 0) * 2 - 7, lambda x: torch.relu(x) * x.sum().item()]
)
def test_numbers_and_sizes_that_depend_on_data_are_left(function: Any) -> None:
    module, x = OfData(function), torch.randn(5, 6)
    given = dojoir.torch.from_module(module, (x,))
    with torch.no_grad():
        for one in (x, x + 1, x - 1, torch.ones(5, 6)):
            same(given(one), module(one))
    assert given.left and given.kernels


def test_one_line_of_the_log_for_each_graph(caplog: pytest.LogCaptureFixture) -> None:
    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(Cut(), backend="dojoir")(torch.randn(3, 6))
        torch.compile(net(), backend="dojoir")(torch.randn(3, 6))
    (line,) = [record.getMessage() for record in caplog.records if record.name == "dojoir.torch"]
    assert line.startswith("graph 1: ") and "left to PyTorch: aten.sort.default, the first at" in line


@pytest.mark.parametrize("budget", [0, 1e-9])
def test_past_the_budget_kernels_run_as_they_were_written(budget: float) -> None:
    torch._dynamo.reset()
    module, x = net(), torch.randn(5, 6)
    given = dojoir.torch.from_module(module, (x,), budget=budget)
    with torch.no_grad():
        same(given(x), module(x))
        same(torch.compile(module, backend="dojoir", options={"budget": budget})(x), module(x))
    assert budget or [one.moves for one in given.traces()] == [()]
    same(given(x), module(x))
    for wrong in (-1, "1", True):
        with pytest.raises(dojoir.ArgumentError, match="budget is seconds"):
            dojoir.torch.from_module(module, (x,), budget=wrong)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_how_far_it_is_and_nothing_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    for screen, shown in ((Terminal(), "scheduling 1 of 1"), (io.StringIO(), "")):
        monkeypatch.setattr("sys.stderr", screen)
        dojoir.torch.from_module(net(), (torch.randn(5, 6),)).traces()
        assert screen.getvalue() == (f"\r\x1b[K{shown}\r\x1b[K" if shown else "")


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_packed_sequences_are_refused_with_the_way_that_takes_them(kind: str) -> None:
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

    class Packed(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = getattr(nn, kind)(4, 6)

        def forward(self, x: Any, lengths: Any) -> Any:
            return pad_packed_sequence(self.layer(pack_padded_sequence(x, lengths))[0])[0]

    module, x, lengths = Packed(), torch.randn(7, 3, 4), torch.tensor([7, 5, 3])
    with pytest.raises(dojoir.ArgumentError, match=r"packed sequences .* torch\.compile"):
        dojoir.torch.from_module(module, (x, lengths))
    same(torch.compile(module, backend="dojoir")(x, lengths), module(x, lengths))


LAID_OUT = {
    "convolution": lambda: nn.Conv2d(3, 4, 3, padding=1),
    "block": lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)),
    "elementwise": nn.GELU,
    "norm": lambda: nn.GroupNorm(1, 3),
}


@pytest.mark.parametrize("name", LAID_OUT)
def test_results_lie_as_those_of_eager(name: str) -> None:
    torch.manual_seed(0)
    module = LAID_OUT[name]().to(memory_format=torch.channels_last).eval()
    x = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    right = module(x)
    with torch.no_grad():
        found = dojoir.torch.from_module(module, (x,))(x)
    leaf = x.clone().requires_grad_()
    compiled = torch.compile(module, backend="dojoir", fullgraph=True)(leaf)
    for one in (found, compiled):
        same(one, right)
        assert one.stride() == right.stride()
    compiled.square().sum().backward()
    (gradient,) = torch.autograd.grad(module(own := x.clone().requires_grad_()).square().sum(), own)
    same(leaf.grad, gradient)
    assert leaf.grad.stride() == gradient.stride()
