"""What a module writes to its buffers and arguments: in place where that gives the same, else by a copy."""

from __future__ import annotations

import copy
from random import Random
from typing import Any

import pytest

import dojoir

torch: Any = pytest.importorskip("torch", reason="needs PyTorch")

pytestmark = pytest.mark.filterwarnings("ignore")


class Held(torch.nn.Module):
    def __init__(self, shape: tuple[int, ...] = (2, 8, 4)) -> None:
        super().__init__()
        self.register_buffer("held", torch.arange(0.0, torch.Size(shape).numel()).view(shape))


class Row(Held):
    """A cache that takes a row."""

    def forward(self, x: Any) -> Any:
        self.held[:, 3:4] = x
        return self.held.sum(1)


class RowAt(Held):
    """The same at a place from data."""

    def forward(self, x: Any) -> Any:
        self.held.index_copy_(1, torch.tensor([5]), x)
        return self.held * 2


class Twice(Held):
    def forward(self, x: Any) -> Any:
        self.held.mul_(0.5).add_(x)
        self.held.clamp_(max=3.0)
        return self.held.exp()


class Before(Held):
    """What it was is wanted afterwards."""

    def forward(self, x: Any) -> Any:
        was = self.held.sum(1, keepdim=True)
        self.held.add_(x)
        return self.held - was


class Turned(Held):
    """Each element is made of another one."""

    def forward(self, x: Any) -> Any:
        self.held.copy_(self.held.flip(1) + x)
        return self.held + 1


class Shown(Held):
    """The result is no other name of the buffer."""

    def forward(self, x: Any) -> Any:
        self.held.add_(x)
        return self.held.clone()


@pytest.mark.parametrize(
    ("kind", "is_in_place"),
    [(Row, True), (RowAt, True), (Twice, True), (Before, True), (Turned, False), (Shown, True)],
)
@pytest.mark.parametrize("turned", [False, True])
def test_buffers_are_as_in_the_module(kind: type[Held], is_in_place: bool, turned: bool) -> None:
    torch.manual_seed(0)
    module = kind()
    x = torch.randn(2, 1, 4)
    with torch.no_grad():
        imported = dojoir.torch.from_module(copy.deepcopy(module), (x,), threads=1)
        if turned:  # not as the kernel takes it: written by way of a copy
            own = imported.module.held.transpose(0, 2).contiguous().transpose(0, 2)
            imported.module.held = own
        buffer, version = imported.module.held, imported.module.held._version
        for n in range(3):
            x = torch.randn(2, 1, 4)
            found, right = imported(x), module(x)
            assert torch.allclose(found, right, atol=1e-6)
            assert torch.allclose(buffer, module.held, atol=1e-6)
            assert buffer._version > version + n
        found += 1
        assert torch.allclose(buffer, module.held, atol=1e-6)
    assert ("inout held" in imported.text) == is_in_place
    assert imported.module.held is buffer


def test_an_argument_is_written_in_place() -> None:
    class Added(torch.nn.Module):
        def forward(self, x: Any, cache: Any) -> Any:
            cache[1:3] += x
            return cache.sum(0)

    cache = torch.zeros(4, 3)
    with torch.no_grad():
        imported = dojoir.torch.from_module(Added(), (torch.ones(2, 3), cache), threads=1)
        cache.zero_()
        found = imported(torch.ones(2, 3), cache)
    assert "inout cache" in imported.text
    assert torch.equal(cache, torch.tensor([[0.0] * 3, [1.0] * 3, [1.0] * 3, [0.0] * 3]))
    assert torch.equal(found, torch.full((3,), 2.0))


class Added(torch.nn.Module):
    """What is read after the write is another number where both are one tensor."""

    def forward(self, x: Any, cache: Any) -> Any:
        cache.add_(1)
        return cache + x


VIEWS: list[Any] = [
    lambda t: t,
    lambda t: t[:4],
    lambda t: t[1:5],
    lambda t: t[4:],
    lambda t: t[::2],
    lambda t: t[1::2],
    lambda t: t.view(2, 4)[0],
    lambda t: t.flip(0)[:4],
    lambda t: t[3:4].expand(4),
    lambda t: t.view(4, 2)[:, 1],
    lambda t: t[1:8:2],
]
"""Views of eight numbers: some have an element in common, some have not, where their hulls overlap too."""


@pytest.mark.parametrize("seed", range(3))
def test_arguments_that_share_elements_are_refused_where_one_is_written(seed: int) -> None:
    """Otherwise it is as in the module, whatever views of one tensor they are."""
    random = Random(f"views {seed}")
    with torch.no_grad():
        imported = dojoir.torch.from_module(Added(), (torch.ones(4), torch.zeros(4)), threads=1)
        refused = 0
        for _ in range(40):
            one, other = random.sample(VIEWS[1:], 2) if random.random() < 0.9 else [random.choice(VIEWS[1:])] * 2
            own, its = torch.arange(8.0), torch.arange(8.0)
            given, right = (one(own), other(own)), (one(its), other(its))
            if 0 in given[1].stride():  # PyTorch refuses to write it
                continue
            numbers = [view(torch.arange(8)).unique().tolist() for view in (one, other)]
            if given[0].data_ptr() and {*numbers[0]} & {*numbers[1]} and _is_view(given, own):
                refused += 1
                with pytest.raises(dojoir.ArgumentError, match=r"cache and x share memory.*writes cache") as caught:
                    imported(*given)
                assert caught.value.diagnostic.code == "overlap"
                assert torch.equal(own, torch.arange(8.0))
            else:
                assert torch.equal(imported(*given), Added()(*right))
                assert torch.equal(own, its)
        assert refused


def _is_view(given: Any, of: Any) -> bool:
    """Whether both lie in the memory of a tensor: `flip` makes a copy."""
    return all(one.untyped_storage().data_ptr() == of.untyped_storage().data_ptr() for one in given)


def test_a_buffer_of_the_module_as_its_argument_is_refused() -> None:
    module = Shown()
    with torch.no_grad():
        imported = dojoir.torch.from_module(module, (torch.ones(2, 8, 4),))
        with pytest.raises(dojoir.ArgumentError, match="share memory"):
            imported(module.held)
