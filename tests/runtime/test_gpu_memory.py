"""What calls on a GPU share: memory for temporaries, a word for the status, streams that are recorded."""

from __future__ import annotations

import ctypes
import gc
import threading
from random import Random
from typing import Any

import numpy as np
import pytest
from fake_gpu import FakeDriver, on_gpu
from gpu_kernels import STEPS

import dojoir
from dojoir.runtime.gpu import devices
from dojoir.runtime.gpu.array import DeviceArray
from dojoir.runtime.gpu.calls import MOST_STREAMS
from dojoir.runtime.gpu.compiled import DeviceCompiled
from dojoir.runtime.gpu.cuda import Cuda

GATHER = """kernel gather(N, M)
in  x: f32[M]
in  n: i32[N]
out y: f32[N]

N // 32 + 1 : gx
| min(32, N - 32*{0}) : bx
| | y[32*{0} + {1}] = x[n[32*{0} + {1}]]
"""

WIDE = """kernel scale(N)
where N % 64 == 0
in  x: f32[N]
out y: f32[N]

N // 64 : gx
| 16 : bx
| | 4 : v
| | | y[64*{0} + 4*{1} + {2}] = 2 * x[64*{0} + 4*{1} + {2}]
"""


def compiled(text: str) -> DeviceCompiled:
    made = dojoir.compile(dojoir.parse(text), "cuda")
    assert isinstance(made, DeviceCompiled)
    return made


@pytest.mark.parametrize("order", ["rising", "falling"])
def test_memory_of_many_sizes_does_not_grow_with_their_number(driver: FakeDriver, order: str) -> None:
    steps = compiled(STEPS)
    before = len(driver.memory)
    sizes = range(1, 301, 3) if order == "rising" else range(300, 0, -3)
    for n in sizes:
        x = on_gpu(driver, np.ones(n, np.float32))
        y = on_gpu(driver, np.zeros(n, np.float32))
        steps(x, y, T=1)
        del x, y
    assert len(driver.memory) - before <= 2


def test_memory_of_many_streams_is_bounded(driver: FakeDriver) -> None:
    steps = compiled(STEPS)
    x, y = on_gpu(driver, np.ones(9, np.float32)), on_gpu(driver, np.zeros(9, np.float32))
    before = len(driver.memory)
    for stream in range(10, 200):
        steps(x, y, T=1, stream=stream)
    assert len(driver.memory) - before <= 2 * MOST_STREAMS


def test_a_bound_call_keeps_its_memory_whatever_others_need(driver: FakeDriver) -> None:
    steps = compiled(STEPS)
    x, y = np.ones(5, np.float32), np.zeros(5, np.float32)
    given, result = on_gpu(driver, x), on_gpu(driver, y)
    call = steps.bind(given, result, T=2)
    graph = steps.graph(given, result, T=2)
    for n in (50, 70):
        steps(on_gpu(driver, np.ones(n, np.float32)), on_gpu(driver, np.ones(n, np.float32)), T=1)
    expected = dojoir.interpret(steps.kernel, {"x": x}, T=2)["y"]
    for again in (call, graph):
        result.fill(0)
        again()
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-5)


def test_each_stream_has_a_status_of_its_own(driver: FakeDriver) -> None:
    gather = compiled(GATHER)
    x, y = on_gpu(driver, np.arange(4, dtype=np.float32)), on_gpu(driver, np.zeros(2, np.float32))
    n = on_gpu(driver, np.array([1, 2], np.int32))
    gather(x, n, y, stream=5)
    gather(x, n, y, stream=6)
    loaded = next(iter(gather._loaded.values()))
    words = {memory[name].address for memory in loaded._memory.values() for name in memory}
    assert len(words) == 2


def test_threads_of_the_host_do_not_take_each_others_status(driver: FakeDriver, monkeypatch: Any) -> None:
    """One call is wrong and the others are right: only it says so, though all are in one stream."""
    gather = compiled(GATHER)
    x = on_gpu(driver, np.arange(4, dtype=np.float32))
    good, bad = on_gpu(driver, np.array([1, 2], np.int32)), on_gpu(driver, np.array([1, 9], np.int32))
    plain, inside = driver.launch, threading.Event()

    def slow(*arguments: Any) -> None:
        plain(*arguments)
        inside.set()
        threading.Event().wait(0.05)  # so that another thread has time to come between

    gather(x, good, on_gpu(driver, np.zeros(2, np.float32)))
    monkeypatch.setattr(driver, "launch", slow)
    errors: dict[str, Exception | None] = {}

    def call(name: str, n: DeviceArray, wait: bool) -> None:
        if wait:
            inside.wait(5)
        try:
            gather(x, n, on_gpu(driver, np.zeros(2, np.float32)))
            errors[name] = None
        except dojoir.RunError as error:
            errors[name] = error

    threads = [
        threading.Thread(target=call, args=("bad", bad, False)),
        threading.Thread(target=call, args=("good", good, True)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert isinstance(errors["bad"], dojoir.RunError)
    assert errors["good"] is None


def test_the_stream_of_each_thread_is_another(driver: FakeDriver) -> None:
    from dojoir.runtime.gpu.calls import PER_THREAD, lane_of

    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(lane_of(PER_THREAD)))
    thread.start()
    thread.join()
    assert found[0] != lane_of(PER_THREAD)
    assert lane_of(5) == 5


# -- recorded streams ----------------------------------------------------------------------------------------
def test_what_is_recorded_has_memory_of_its_own_that_stays(driver: FakeDriver) -> None:
    steps = compiled(STEPS)
    x = np.ones(5, np.float32)
    given, result = on_gpu(driver, x), on_gpu(driver, np.zeros(5, np.float32))
    steps(given, result, T=2, stream=9)
    driver.capture(9)
    steps(given, result, T=2, stream=9)
    graph = driver.captured(9)
    for n in (50, 70):
        steps(on_gpu(driver, np.ones(n, np.float32)), on_gpu(driver, np.ones(n, np.float32)), T=1, stream=9)
    result.fill(0)
    driver.replay(graph, 9)
    np.testing.assert_allclose(result.numpy(), dojoir.interpret(steps.kernel, {"x": x}, T=2)["y"], rtol=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_a_graph_of_others_outlives_the_kernels_that_it_calls(driver: FakeDriver, seed: int) -> None:
    """Drawn calls of drawn kernels, with temporaries or a word for the status, of which nothing is held but the
    graph and the arguments. What is called beside the graph takes memory that was freed."""
    random = Random(f"graphs of others {seed}")
    held: list[DeviceArray] = []

    def call(kernel: DeviceCompiled, stream: int) -> tuple[DeviceArray, np.ndarray]:
        n = random.randrange(1, 70)
        values = np.arange(n, dtype=np.float32)
        x, y = on_gpu(driver, values), on_gpu(driver, np.zeros(n, np.float32))
        if kernel.kernel.name == "gather":
            order = np.array(random.sample(range(n), n), np.int32)
            at = on_gpu(driver, order)
            kernel(x, at, y, stream=stream)
            held.append(at)
            right = values[order]
        else:
            kernel(x, y, T=2, stream=stream)
            right = dojoir.interpret(kernel.kernel, {"x": values}, T=2)["y"]
        held.extend((x, y))
        return y, right

    driver.capture(9)
    results = [call(compiled(random.choice((STEPS, GATHER))), 9) for _ in range(random.randint(1, 4))]
    graph = driver.captured(9)
    gc.collect()
    for _ in range(3):
        call(compiled(random.choice((STEPS, GATHER))), 0)
    for result, _ in results:
        result.fill(0)
    driver.replay(graph, 9)
    for result, right in results:
        np.testing.assert_allclose(result.numpy(), right, rtol=1e-5)


def test_hip_has_no_memory_for_what_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeDriver("hip")
    monkeypatch.setattr(devices, "find", lambda target: fake)
    steps = dojoir.compile(dojoir.parse(STEPS), "hip")
    given, result = on_gpu(fake, np.ones(5, np.float32)), on_gpu(fake, np.zeros(5, np.float32))
    fake.capture(9)
    with pytest.raises(dojoir.ArgumentError, match=r"take compiled\.graph") as error:
        steps(given, result, T=2, stream=9)
    assert error.value.diagnostic.code == "memory-recorded"


@pytest.mark.parametrize("target", ["cuda", "hip"])
def test_code_that_is_not_loaded_when_a_stream_is_recorded(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays that begin where no wide access may are for another version, which the first such call loads."""
    fake = FakeDriver(target)
    monkeypatch.setattr(devices, "find", lambda target: fake)
    scale = dojoir.compile(dojoir.parse(WIDE), target)
    assert isinstance(scale, DeviceCompiled)
    whole, result = on_gpu(fake, np.arange(65, dtype=np.float32)), on_gpu(fake, np.zeros(64, np.float32))
    given = Inside(fake, whole, 4, 64)
    fake.capture(9)
    if target == "cuda":
        scale(given, result, stream=9)
        fake.replay(fake.captured(9), 0)
    else:
        with pytest.raises(dojoir.ArgumentError, match=r"call it once before, or take compiled\.graph") as error:
            scale(given, result, stream=9)
        assert error.value.diagnostic.code == "first-call-recorded"
        fake.captured(9)
        scale(given, result, stream=9)
        fake.capture(9)
        scale(given, result, stream=9)
    assert result.numpy().tolist() == [2.0 * n for n in range(1, 65)]


class Inside:
    """Some f32 inside an array, which begin where the array does not."""

    def __init__(self, driver: FakeDriver, whole: DeviceArray, offset: int, count: int) -> None:
        self.whole = whole
        address = whole.address + offset
        memory = (ctypes.c_char * (4 * count)).from_buffer(driver.memory[whole.address], offset)
        driver.memory[address] = memory
        data = {"data": (address, False), "shape": (count,), "typestr": "<f4", "version": 3}
        self.__cuda_array_interface__ = data


class Words:
    """A driver of NVIDIA as its Python module gives it, that writes down what it is asked."""

    class CUstreamCaptureMode:
        CU_STREAM_CAPTURE_MODE_RELAXED = 2

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: object) -> tuple[object, ...]:
            self.calls.append((name, *arguments))
            answers: dict[str, object] = {
                "cuDeviceGetCount": 1, "cuCtxGetCurrent": 1, "cuThreadExchangeStreamCaptureMode": 0,
                "cuStreamIsCapturing": 1,
            }  # fmt: skip
            return (0, 1, 41) if name == "cuStreamGetCaptureInfo" else (0, answers.get(name, 7))

        return call


def test_kernels_are_loaded_and_memory_freed_while_a_stream_is_recorded() -> None:
    words = Words()
    cuda = Cuda(words)
    words.calls.clear()
    cuda.load(b"code", [])
    cuda.free(3)
    names = [call[0] for call in words.calls]
    change = "cuThreadExchangeStreamCaptureMode"
    assert names == [change, "cuModuleLoadData", change, change, "cuMemFree", change]
    assert [call[1] for call in words.calls if call[0] == change] == [2, 0, 2, 0]
    assert cuda.recording(5) == 42
