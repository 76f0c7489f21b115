"""Calls on a GPU that are prepared: what machine code starts, with a device that is none."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from fake_gpu import FakeDriver, on_gpu
from gpu_kernels import RELU, SOFTMAX

import dojoir
from dojoir.runtime.gpu.array import bytes_on
from dojoir.runtime.gpu.compiled import DeviceCompiled

TWICE = """kernel twice(N)
in  x: f32[N]
in  scale: f32
out y: f32[N]
tmp t: f32[N]

(N + 31) // 32 : gx
| min(32, N - 32*{0}) : bx
| | t[32*{0} + {1}] = x[32*{0} + {1}] * scale
(N + 31) // 32 : gx
| min(32, N - 32*{0}) : bx
| | y[32*{0} + {1}] = t[N - 1 - (32*{0} + {1})]
"""

GATHER = """kernel gather(N, M)
in  x: f32[M]
in  n: i32[N]
out y: f32[N]

N // 32 + 1 : gx
| min(32, N - 32*{0}) : bx
| | y[32*{0} + {1}] = x[n[32*{0} + {1}]]
"""


def compiled(text: str) -> Any:
    made = dojoir.compile(dojoir.parse(text), "cuda")
    assert isinstance(made, DeviceCompiled)
    return made


def test_only_addresses_change_from_call_to_call(driver: FakeDriver) -> None:
    prepared = compiled(RELU).prepared({"N": 3, "M": 300})
    assert prepared is not None and prepared.arrays == ("x", "y") and not prepared.workspace
    for seed in range(3):
        x = np.random.default_rng(seed).standard_normal((3, 300)).astype(np.float32)
        given, made = on_gpu(driver, x), on_gpu(driver, np.zeros_like(x))
        assert prepared([given.address, made.address], 42)
        np.testing.assert_array_equal(made.numpy(), np.maximum(x, 0))
    assert driver.launches == [("relu_kernel", (2, 3, 1), 256, 42)] * 3


def test_launches_share_temporaries_that_the_caller_gives(driver: FakeDriver) -> None:
    prepared = compiled(TWICE).prepared({"N": 100, "scale": 2.5})
    assert prepared.arrays == ("x", "y", "t") and prepared.workspace == (400,)
    x = np.arange(100, dtype=np.float32)
    given, made, room = on_gpu(driver, x), on_gpu(driver, np.zeros_like(x)), bytes_on(driver, 400)
    assert prepared([given.address, made.address, room.address], 0)
    np.testing.assert_array_equal(made.numpy(), x[::-1] * np.float32(2.5))
    assert len(driver.launches) == 2


def test_an_index_out_of_bounds_is_left_in_the_word_of_the_caller(driver: FakeDriver) -> None:
    prepared = compiled(GATHER).prepared({"N": 3, "M": 4})
    assert prepared.reports
    x, n = on_gpu(driver, np.arange(4, dtype=np.float32)), on_gpu(driver, np.array([0, 3, 4], np.int32))
    y, word = on_gpu(driver, np.zeros(3, np.float32)), on_gpu(driver, np.zeros(1, np.int32))
    assert prepared([x.address, n.address, y.address, word.address], 0)
    error = prepared.failure(int(word.numpy()[0]))
    assert isinstance(error, dojoir.RunError) and "index read from data" in str(error)


def test_an_address_that_wide_accesses_cannot_take_starts_nothing(driver: FakeDriver) -> None:
    prepared = compiled(SOFTMAX).prepared({"N": 2})
    x, y = on_gpu(driver, np.ones((3, 1024), np.float32)), on_gpu(driver, np.zeros((2, 1024), np.float32))
    room = [bytes_on(driver, size).address for size in prepared.workspace]
    for launcher in (True, False):
        assert not prepared([x.address + 4, y.address, *room], 0)
        assert not driver.launches
        if not launcher:
            break
        driver.launcher = 0
        prepared = compiled(SOFTMAX).prepared({"N": 2})
    assert prepared([x.address, y.address, *room], 0)
    np.testing.assert_allclose(y.numpy(), 1 / 1024)


def test_a_thread_without_a_context_gets_one(driver: FakeDriver) -> None:
    prepared = compiled(RELU).prepared({"N": 3, "M": 300})
    x, y = on_gpu(driver, np.ones((3, 300), np.float32)), on_gpu(driver, np.zeros((3, 300), np.float32))
    driver.refused = 1
    assert prepared([x.address, y.address], 7)
    np.testing.assert_array_equal(y.numpy(), 1)


def test_an_error_of_a_later_launch_is_told_and_nothing_runs_twice(driver: FakeDriver) -> None:
    prepared = compiled(TWICE).prepared({"N": 100, "scale": 1.0})
    arrays = [bytes_on(driver, 400) for _ in range(3)]
    done = driver.launch

    def first_alone(*given: Any) -> None:
        done(*given)
        driver.refused = 1

    driver.launch = first_alone  # type: ignore[method-assign]
    with pytest.raises(dojoir.RunError, match="201"):
        prepared([one.address for one in arrays], 0)
    assert len(driver.launches) == 1


def test_without_a_launcher_launches_are_asked_for_one_by_one(driver: FakeDriver) -> None:
    driver.launcher = 0
    prepared = compiled(TWICE).prepared({"N": 100, "scale": -1.0})
    x = np.arange(100, dtype=np.float32)
    given, made, room = on_gpu(driver, x), on_gpu(driver, np.zeros_like(x)), bytes_on(driver, 400)
    assert prepared([given.address, made.address, room.address], 0)
    np.testing.assert_array_equal(made.numpy(), -x[::-1])


def test_threads_do_not_mix_their_addresses(driver: FakeDriver) -> None:
    prepared = compiled(RELU).prepared({"N": 2, "M": 16})
    found: dict[int, bool] = {}

    def work(seed: int) -> None:
        x = np.random.default_rng(seed).standard_normal((2, 16)).astype(np.float32)
        given, made = on_gpu(driver, x), on_gpu(driver, np.zeros_like(x))
        prepared([given.address, made.address], 0)
        found[seed] = bool((made.numpy() == np.maximum(x, 0)).all())

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == dict.fromkeys(range(4), True)
