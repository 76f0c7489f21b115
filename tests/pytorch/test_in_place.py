"""What a module writes to its buffers and arguments: in place where that gives the same, else by a copy."""

from __future__ import annotations

import copy
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


def test_an_argument_that_is_given_twice() -> None:
    class Turned(torch.nn.Module):
        def forward(self, x: Any, cache: Any) -> Any:
            cache.add_(x.flip(0))
            return cache * 2

    with torch.no_grad():
        imported = dojoir.torch.from_module(Turned(), (torch.ones(4), torch.zeros(4)), threads=1)
        assert "inout cache" in imported.text
        same = torch.arange(4.0)
        found = imported(same, same)
    assert torch.equal(same, torch.full((4,), 3.0))
    assert torch.equal(found, torch.full((4,), 6.0))
