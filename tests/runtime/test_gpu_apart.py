"""The check of `distinct` arguments on a GPU: right for all elements, and without a copy where it can tell."""

from __future__ import annotations

import numpy as np
import pytest
from fake_gpu import FakeDriver, on_gpu

import dojoir
from dojoir.runtime.gpu import apart, devices
from dojoir.runtime.gpu.apart import kernel_apart
from dojoir.runtime.gpu.compiled import DeviceCompiled

ROWS = """kernel rows(N, S)
in    at: {dtype}[N] distinct
in    x: f32[N]
inout y: f32[S]
N : gx
| 1 : bx
| | y[at[{{0}}]] = x[{{0}}]
"""


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    driver = FakeDriver()
    monkeypatch.setattr(devices, "find", lambda target: driver)
    return driver


def called(driver: FakeDriver, at: np.ndarray, size: int = 70) -> np.ndarray:
    compiled = dojoir.compile(dojoir.parse(ROWS.format(dtype=str(at.dtype).replace("int", "i"))), "cuda")
    assert isinstance(compiled, DeviceCompiled)
    y = on_gpu(driver, np.zeros(size, np.float32))
    compiled(on_gpu(driver, at), on_gpu(driver, np.arange(1, len(at) + 1, dtype=np.float32)), y)
    return y.numpy()


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("count", [1, 2, 70])
def test_distinct_ones_are_not_copied(
    driver: FakeDriver, dtype: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DeviceCompiled, "_contents", None)
    at = np.random.default_rng(1).permutation(70)[:count].astype(dtype)
    expected = np.zeros(70, np.float32)
    expected[at] = np.arange(1, count + 1)
    np.testing.assert_array_equal(called(driver, at), expected)


def test_many_are_asked_by_several_launches(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart, "FEW", 8)
    called(driver, np.arange(40))
    assert sum("apart" in name for name, *_ in driver.launches) > 1
    with pytest.raises(dojoir.ArgumentError, match=r"are both 3"):
        called(driver, np.arange(40) % 39 + 3 * (np.arange(40) == 39))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_equal_ones_are_told_before_anything_is_written(driver: FakeDriver, dtype: str) -> None:
    at = np.arange(40, dtype=dtype)
    at[31] = 7
    with pytest.raises(dojoir.ArgumentError, match=r"at\[7\] and at\[31\] are both 7"):
        called(driver, at)
    names = [name for name, *_ in driver.launches]
    assert any("apart" in name for name in names) and not any("rows" in name for name in names)


def test_ones_that_share_a_place_are_looked_at_on_the_cpu(driver: FakeDriver) -> None:
    """They are distinct, and out of the range of the array."""
    with pytest.raises(dojoir.RunError, match="index read from data"):
        called(driver, np.array([3, 3 + (1 << 16)]))


def test_a_later_call_looks_again(driver: FakeDriver) -> None:
    compiled = dojoir.compile(dojoir.parse(ROWS.format(dtype="i64")), "cuda")
    at, x = on_gpu(driver, np.array([1, 2, 3])), on_gpu(driver, np.ones(3, np.float32))
    y = on_gpu(driver, np.zeros(9, np.float32))
    compiled(at, x, y)
    at.put(np.array([1, 2, 1]))
    with pytest.raises(dojoir.ArgumentError, match="are both 1"):
        compiled(at, x, y)
    at.put(np.array([2, 1, 0]))
    compiled(at, x, y)


@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("dtype", ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"])
def test_the_kernel_is_proved_and_counts(dtype: str, few: bool) -> None:
    kernel = kernel_apart(dtype, 1 << 16, few)
    dojoir.prove(kernel)
    kind = np.dtype(dtype.replace("u", "uint").replace("i", "int").replace("uintnt", "uint"))
    about = np.iinfo(kind)
    for given in ([about.min, about.max, 1, 0], [5, about.max, 5, about.min], [about.max] * 3):
        found = dojoir.compile(kernel, "cuda", emulated=True).run({"x": np.array(given, kind)})["more"]
        remainders = {int(value) % (1 << 16) for value in given}
        assert found == len(given) - len(remainders)
