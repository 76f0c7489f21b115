"""Operators of PyTorch on a GPU: what is called, where results are, what runs, with a device that is none."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import pytest
from fake_gpu import FakeDriver
from gpu_kernels import COUNTS, RELU, ROW_SUMS

import dojoir
from dojoir.runtime.gpu import devices, streams

torch: Any = pytest.importorskip("torch", reason="needs PyTorch")
from dojoir.torch.operator_calls import on_device  # noqa: E402
from dojoir.torch.operator_form import OperatorForm  # noqa: E402
from dojoir.torch.variants import Variants  # noqa: E402

PLAIN = """kernel plain(N, M)
in  x: f32[N, M]
out y: f32[N, M]

N
| M
| | y[{0}, {1}] = 2 * x[{0}, {1}]
"""
STREAM = 42


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """A GPU whose memory tensors of the CPU lie in: PyTorch believes them to be there."""
    fake = FakeDriver()
    monkeypatch.setattr(devices, "find", lambda target: fake)
    monkeypatch.setattr(torch.Tensor, "is_cuda", True, raising=False)
    monkeypatch.setattr(streams, "_torch", lambda device: lambda: STREAM)

    def empty_strided(shape: Sequence[int], strides: Sequence[int], dtype: Any, device: Any) -> Any:
        size = max(1, prod(shape)) * dtype.itemsize
        memory = fake.memory[fake.allocate(size)]
        made = torch.frombuffer(memory, dtype=torch.uint8, count=size).view(dtype)
        return made.as_strided(tuple(shape), tuple(strides))

    monkeypatch.setattr(torch, "empty_strided", empty_strided)
    return fake


def on_gpu(driver: FakeDriver, tensor: Any, offset: int = 0) -> Any:
    """The same values in memory of the device, which begin so many bytes behind an allocation."""
    size = tensor.numel() * tensor.element_size()
    address = driver.allocate(offset + size)
    memory = driver.memory[address]
    if offset:
        driver.memory[address + offset] = (ctypes.c_char * (-(-size // 4) * 4)).from_buffer(memory, offset)
    made = torch.frombuffer(memory, dtype=torch.uint8, offset=offset, count=size).view(tensor.dtype)
    return made.reshape(tensor.shape).copy_(tensor)


def operator(text: str, **own: Any) -> Callable[..., Any]:
    kernel = dojoir.parse(text)
    return made_of(kernel, own.get("cuda"))


def made_of(kernel: dojoir.Kernel, own: Any = None) -> Callable[..., Any]:
    variants = Variants(lambda: kernel, own, None)
    variants.on_device(None)
    return on_device(OperatorForm("gpu::op", kernel, variants, ()))


def test_a_kernel_for_grids_runs_as_it_is_in_the_current_stream(driver: FakeDriver) -> None:
    x = torch.randn(3, 300)
    y = operator(RELU)(on_gpu(driver, x))
    assert torch.equal(y, x.relu())
    assert driver.launches == [("relu_kernel", (2, 3, 1), 256, STREAM)]


def test_any_other_text_is_scheduled_for_the_gpu(driver: FakeDriver) -> None:
    x = torch.randn(5, 9)
    plain = operator(PLAIN)
    assert torch.equal(plain(on_gpu(driver, x)), 2 * x)
    (launched,) = driver.launches
    assert launched[2] > 1, "one thread"
    assert len([line for line in driver.log if line.startswith("compile")]) == 1
    plain(on_gpu(driver, x))
    assert len([line for line in driver.log if line.startswith("compile")]) == 1, "it is kept"


def test_ones_own_kernel_for_the_gpu(driver: FakeDriver) -> None:
    own = dojoir.parse(RELU.replace("kernel relu", "kernel mine"))
    x = torch.randn(2, 10)
    text = "kernel relu(N, M)\nin x: f32[N, M]\nout y: f32[N, M]\n\nN\n| M\n| | y[{0}, {1}] = max(x[{0}, {1}], 0)\n"
    assert torch.equal(operator(text, cuda=own)(on_gpu(driver, x)), x.relu())
    assert driver.launches[0][0] == "mine_kernel"
    with pytest.raises(dojoir.ArgumentError, match="same arguments") as refused:
        dojoir.torch.op(dojoir.parse(text), "dojoir_test::other", cuda=dojoir.parse(ROW_SUMS))
    assert refused.value.diagnostic.code == "other-arguments"
    with pytest.raises(dojoir.ArgumentError, match="cuda= takes a kernel"):
        dojoir.torch.op(dojoir.parse(text), "dojoir_test::other", cuda="relu")  # type: ignore[arg-type]


def test_an_inout_is_copied_and_several_results_are_a_tuple(driver: FakeDriver) -> None:
    x, n, m = torch.arange(10, dtype=torch.int32), torch.tensor(5, dtype=torch.int32), torch.tensor(7).int()
    n, m = on_gpu(driver, n), on_gpu(driver, m)
    total, most = operator(COUNTS)(on_gpu(driver, x), n, m)
    assert (int(total), int(most), int(n), int(m)) == (50, 9, 5, 7)


def test_what_does_not_fit_is_told_in_the_callers_words(driver: FakeDriver) -> None:
    rows = operator(ROW_SUMS)
    with pytest.raises(dojoir.ArgumentError, match=r"x\.to\(torch\.float32\)") as refused:
        rows(on_gpu(driver, torch.zeros(4, 3, dtype=torch.float64)))
    assert refused.value.diagnostic.code == "bad-dtype"


def test_other_layouts_are_copied(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(4, 3)
    turned = on_gpu(driver, x).t()
    dense = torch.Tensor.contiguous
    monkeypatch.setattr(torch.Tensor, "contiguous", lambda given: on_gpu(driver, dense(given)))
    assert torch.equal(operator(PLAIN)(turned), 2 * x.t())


def test_a_tensor_that_begins_elsewhere_gets_the_kernel_without_wide_accesses(driver: FakeDriver) -> None:
    kernel = dojoir.parse(PLAIN.replace("kernel plain(N, M)", "kernel plain(N, M = 512)"))
    plain = made_of(kernel)
    x = torch.randn(4, 512)
    assert torch.equal(plain(on_gpu(driver, x)), 2 * x)
    assert torch.equal(plain(on_gpu(driver, x, offset=4)), 2 * x)
    wide, narrow = (harness.text for harness, _ in driver.functions)
    assert "float4" in wide.partition('extern "C"')[2]
    assert "float4" not in narrow.partition('extern "C"')[2]


def test_shapes_of_tensors_on_a_gpu_are_known_without_one() -> None:
    """What `torch.compile` asks for: the results of an operator on tensors without contents."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    op = dojoir.torch.op(dojoir.parse(RELU), "dojoir_test::gpu_relu")
    with FakeTensorMode():
        y = op(torch.empty(3, 4, device="cuda"))
    assert (y.device.type, tuple(y.shape)) == ("cuda", (3, 4))
