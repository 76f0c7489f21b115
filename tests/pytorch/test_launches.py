"""Imported modules on a GPU: one start for all launches of a kernel, with a device that is none."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import pytest
from fake_gpu import FakeDriver

import dojoir
from dojoir.runtime.gpu import devices, streams

torch: Any = pytest.importorskip("torch", reason="needs PyTorch")
from torch import nn  # noqa: E402

from dojoir.torch.importer import program_runner  # noqa: E402

STREAM = 42


class FakePlaces:
    """Memory of the driver that is none, in a stream."""

    def __init__(self, driver: FakeDriver) -> None:
        self.driver, self.made, self.now = driver, list[int](), 0

    def stream(self, device: int) -> int:
        return STREAM

    def current(self) -> int:
        return self.now

    def empty(self, shape: Sequence[int], strides: Sequence[int], dtype: Any) -> Any:
        size = max(1, prod(shape)) * dtype.itemsize
        self.made.append(size)
        memory = self.driver.memory[self.driver.allocate(size)]
        return torch.frombuffer(memory, dtype=torch.uint8, count=size).view(dtype).as_strided(shape, strides)

    def words(self, count: int) -> Any:
        return self.empty((count,), (1,), torch.int32).zero_()

    def on(self, device: int) -> Any:
        places = self

        class On:
            def __enter__(self) -> None:
                places.now = device

            def __exit__(self, *_: object) -> None:
                places.now = 0

        return On()


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> FakePlaces:
    driver = FakeDriver()
    made = FakePlaces(driver)
    monkeypatch.setattr(devices, "find", lambda target: driver)
    monkeypatch.setattr(torch.Tensor, "is_cuda", True, raising=False)
    monkeypatch.setattr(torch.Tensor, "is_cpu", False, raising=False)
    monkeypatch.setattr(torch.Tensor, "get_device", lambda tensor: 0)
    monkeypatch.setattr(streams, "_torch", lambda device: lambda: STREAM)
    monkeypatch.setattr(program_runner, "places", made)
    return made


def there(places: FakePlaces, tensor: Any) -> Any:
    made = places.empty(tuple(tensor.shape), tensor.stride(), tensor.dtype)
    return made.copy_(tensor)


def moved(places: FakePlaces, module: nn.Module) -> nn.Module:
    for parameter in module.parameters():
        parameter.data = there(places, parameter.data)
    return module


class Perceptron(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 5), nn.Linear(5, 4)

    def forward(self, x: Any) -> Any:
        return torch.softmax(self.second(torch.relu(self.first(x))), -1)


class Looked(nn.Module):
    def forward(self, table: Any, at: Any) -> Any:
        return table[at] * 2


@pytest.mark.filterwarnings("ignore")
def test_a_module_is_its_launches_on_new_memory(places: FakePlaces) -> None:
    torch.manual_seed(0)
    module = moved(places, Perceptron())
    with torch.no_grad():
        imported = dojoir.torch.from_module(module, (torch.randn(2, 3, 6),))
        for seed in range(2):
            x = there(places, torch.randn(2, 3, 6, generator=torch.Generator().manual_seed(seed)))
            places.made.clear()
            found = imported(x)
            assert torch.allclose(found, module(x), atol=1e-6) and found.shape == (2, 3, 4)
            assert len(places.made) <= 2, "one allocation for the result, one for temporaries"
    assert {launch[3] for launch in places.driver.launches} == {STREAM}


def test_layers_that_are_one_kernel_are_launched_each_with_its_own(places: FakePlaces) -> None:
    torch.manual_seed(0)
    blocks = (nn.Sequential(nn.Linear(6, 6), nn.LayerNorm(6), nn.Softmax(-1)) for _ in range(8))
    module = moved(places, nn.Sequential(*blocks))
    with torch.no_grad():
        imported = dojoir.torch.from_module(module, (torch.randn(4, 6),))
        kernels = imported.kernels_for("cuda")
        assert len({*kernels}) < len(kernels)
        for _ in range(2):
            x = there(places, torch.randn(4, 6))
            assert torch.allclose(imported(x), module(x), atol=1e-5)


def test_a_layout_that_kernels_do_not_take_is_copied(places: FakePlaces, monkeypatch: pytest.MonkeyPatch) -> None:
    module = nn.Softmax(-1)
    imported = dojoir.torch.from_module(module, (torch.randn(4, 6),))
    x = there(places, torch.randn(6, 4)).t()
    copied = there(places, x.contiguous())
    monkeypatch.setattr(torch.Tensor, "contiguous", lambda tensor: copied)
    assert torch.allclose(imported(x), module(x), atol=1e-6)


def test_open_sizes_have_launches_of_their_own(places: FakePlaces) -> None:
    module = nn.Softmax(-1)
    rows = torch.export.Dim("rows", min=2, max=64)
    imported = dojoir.torch.from_module(module, (torch.randn(4, 6),), dynamic=({0: rows},))
    for count in (3, 5, 3):
        x = there(places, torch.randn(count, 6))
        assert torch.allclose(imported(x), module(x), atol=1e-6)


def test_an_index_out_of_range_is_told_by_a_later_call(places: FakePlaces) -> None:
    table, at = there(places, torch.randn(5, 3)), there(places, torch.tensor([0, 4]))
    imported = dojoir.torch.from_module(Looked(), (table, at))
    assert torch.equal(imported(table, at), table[at] * 2)
    imported(table, there(places, torch.tensor([0, 7])))
    with pytest.raises(dojoir.RunError, match="index"):
        imported(table, at)
    assert torch.equal(imported(table, at), table[at] * 2)


def test_another_device_becomes_the_current_one(places: FakePlaces) -> None:
    places.now = 3
    module = nn.ReLU()
    x = there(places, torch.randn(4, 4))
    assert torch.equal(dojoir.torch.from_module(module, (torch.randn(4, 4),))(x), x.relu())


def test_tensors_of_two_devices_are_refused(places: FakePlaces, monkeypatch: pytest.MonkeyPatch) -> None:
    class Sum(nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return x + y

    x, y = there(places, torch.randn(4)), there(places, torch.randn(4))
    imported = dojoir.torch.from_module(Sum(), (torch.randn(4), torch.randn(4)))
    monkeypatch.setattr(torch.Tensor, "get_device", lambda tensor: 0 if tensor.data_ptr() != y.data_ptr() else 1)
    monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda tensor: tensor.data_ptr() != y.data_ptr()))
    with pytest.raises(dojoir.ArgumentError, match="argument y"):
        imported(x, y)


def test_tensors_that_a_module_holds_now_are_taken() -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).eval()
    x = torch.randn(5, 3)
    with torch.no_grad():
        imported = dojoir.torch.from_module(module, (x,))
        module[1].running_mean = torch.randn(4)
        module[0].weight = nn.Parameter(torch.randn(4, 3))
        assert torch.allclose(imported(x), module(x), atol=1e-6)


# -- operators --------------------------------------------------------------------------------------------------
SCALED = """kernel scaled(N, M)
in x: f32[N, M]
in by: f32
out y: f32[N, M]
out s: f32[N]

N
| s[{0}] = 0
| M
| | y[{0}, {1}] = by * x[{0}, {1}]
| | s[{0}] += x[{0}, {1}]
"""


def test_an_operator_starts_calls_that_it_has_seen(places: FakePlaces, monkeypatch: pytest.MonkeyPatch) -> None:
    from dojoir.torch import operator_calls, quick
    from dojoir.torch.operator_form import OperatorForm
    from dojoir.torch.variants import Variants

    monkeypatch.setattr(quick, "places", places)
    monkeypatch.setattr(
        torch, "empty_strided", lambda shape, strides, dtype, device: places.empty(shape, strides, dtype)
    )
    general: list[int] = []
    kernel = dojoir.parse(SCALED)
    form = OperatorForm("gpu::scaled", kernel, Variants(lambda: kernel, None, None), ())
    whole = form.arranged
    monkeypatch.setattr(form, "arranged", lambda given: general.append(1) or whole(given))
    call = operator_calls.on_device(form)
    seen, rows = (3, 40), (2, 40)
    for shape, by in ((seen, 2.0), (seen, 2.0), (seen, 2.0), (seen, 3.0), (rows, 2.0), (seen, 2.0)):
        x = there(places, torch.randn(*shape))
        y, s = call(x, by)
        assert torch.equal(y, by * x) and torch.allclose(s, x.sum(1), atol=1e-5)
    assert len(general) == 4, "the first and the second call, another number, another shape"
    turned = there(places, torch.randn(40, 3)).t()
    dense = there(places, turned.contiguous())
    monkeypatch.setattr(torch.Tensor, "contiguous", lambda tensor: dense)
    y, s = call(turned, 2.0)
    assert torch.equal(y, 2 * turned) and len(general) == 5


@pytest.mark.filterwarnings("ignore")
def test_what_a_module_writes_is_written_where_it_is(places: FakePlaces) -> None:
    torch.manual_seed(0)
    module = moved(places, nn.BatchNorm1d(4))
    for name, buffer in [*module.named_buffers()]:
        module.register_buffer(name, there(places, buffer))
    own = nn.BatchNorm1d(4)
    with torch.no_grad():
        imported = dojoir.torch.from_module(module, (torch.randn(6, 4),))
        addresses = [buffer.data_ptr() for buffer in module.buffers()]
        for _ in range(2):
            x = torch.randn(6, 4)
            assert torch.allclose(imported(there(places, x)), own(x), atol=1e-6)
            for found, right in zip(module.buffers(), own.buffers(), strict=True):
                assert torch.allclose(found, right, atol=1e-6)
    assert [buffer.data_ptr() for buffer in module.buffers()] == addresses
    assert "inout running_mean" in imported.text


@pytest.mark.filterwarnings("ignore")
def test_an_argument_that_is_written_and_read_by_another_name(
    places: FakePlaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Turned(nn.Module):
        def forward(self, x: Any, cache: Any) -> Any:
            cache.add_(x.flip(0))
            return cache * 2

    with torch.no_grad():
        imported = dojoir.torch.from_module(Turned(), (torch.ones(4), torch.zeros(4)))
        one, other = (there(places, torch.arange(4.0)) for _ in range(2))
        assert torch.equal(imported(one, other), torch.full((4,), 6.0))
        assert torch.equal(other, torch.full((4,), 3.0))
        general: list[Any] = []
        monkeypatch.setattr(
            program_runner.ProgramRunner,
            "_checked",
            lambda self, plan, inputs: general.append(inputs) or [one, other],
        )
        with pytest.raises(dojoir.ArgumentError, match="cache and x share memory, and the module writes cache"):
            imported(one, one)
    assert general == [], "and nothing has run"
