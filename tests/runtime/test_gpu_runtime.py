"""The runtime of GPUs with no GPU: on the harness, and with a driver that is none."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_gpu import FakeDriver, on_gpu
from gpu_kernels import ALL, COUNTS, MATMUL, RELU, REVERSE, ROW_SUMS, SOFTMAX, STEPS

import dojoir
from dojoir.cli import main
from dojoir.codegen.lower.nests import work
from dojoir.runtime.gpu import devices, nvrtc
from dojoir.runtime.gpu.array import DeviceArray
from dojoir.runtime.gpu.calls import Packed
from dojoir.runtime.gpu.compiled import BuildVersion, DeviceCompiled
from dojoir.runtime.gpu.streams import handle_of
from dojoir.runtime.measurement import gpu_timing
from dojoir.runtime.process.subject import KernelSubject, PythonCode

SIZES = {"relu": {"N": 3, "M": 300}, "steps": {"T": 3, "N": 70}, "counts": {"N": 100}}

GATHER = """kernel gather(N, M)
in  x: f32[M]
in  n: i32[N]
out y: f32[N]

N // 32 + 1 : gx
| min(32, N - 32*{0}) : bx
| | y[32*{0} + {1}] = x[n[32*{0} + {1}]]
"""


def sizes_of(name: str, kernel: dojoir.Kernel) -> dict[str, int]:
    return SIZES.get(name, dict.fromkeys(kernel.runtime_sizes, 5))


@pytest.mark.parametrize("target", ["cuda", "hip"])
@pytest.mark.parametrize("name", ALL)
def test_the_harness_gives_what_the_kernel_means(name: str, target: str) -> None:
    kernel = dojoir.parse(ALL[name])
    sizes = sizes_of(name, kernel)
    inputs = dojoir.testing.random_inputs(kernel, {}, seed=1, **sizes)
    found = dojoir.compile(kernel, target, emulated=True).run(inputs, **sizes)
    for output, expected in dojoir.interpret(kernel, inputs, **sizes).items():
        np.testing.assert_allclose(found[output], expected, rtol=1e-4, atol=1e-5)


def test_verify_runs_on_the_harness() -> None:
    report = dojoir.verify(dojoir.parse(ROW_SUMS), target="cuda", emulated=True, seeds=(0,))
    assert report.ok, report
    assert report.target == "cuda, emulated"


def test_without_a_gpu_the_error_names_the_emulation(monkeypatch: pytest.MonkeyPatch) -> None:
    devices.find.cache_clear()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    for target in ("cuda", "hip"):
        with pytest.raises(dojoir.ToolchainError, match="emulated=True"):
            dojoir.compile(dojoir.parse(RELU), target)
        with pytest.raises(dojoir.ToolchainError, match="emulated=True"):
            dojoir.verify(dojoir.parse(RELU), target=target)


def test_processors_are_not_emulated() -> None:
    with pytest.raises(dojoir.ArgumentError, match="is no GPU"):
        dojoir.compile(dojoir.parse(RELU), "llvm", emulated=True)
    with pytest.raises(dojoir.ArgumentError, match="is a processor"):
        dojoir.compile(dojoir.parse(RELU), "cuda", cpu="haswell", emulated=True)


def test_an_index_out_of_range_is_told() -> None:
    compiled = dojoir.compile(dojoir.parse(GATHER), "cuda", emulated=True)
    x, n = np.arange(4, dtype=np.float32), np.array([0, 3, 4], np.int32)
    with pytest.raises(dojoir.RunError, match="index read from data"):
        compiled.run({"x": x, "n": n})
    assert compiled.run({"x": x, "n": n[:2]})["y"].tolist() == [0, 3]


# -- with a driver -------------------------------------------------------------------------------------------
class Shared:
    """An array that another library hands over by DLPack, on a device of some type."""

    def __init__(self, array: Any, device: int) -> None:
        self.array, self.device, self.streams = array, device, list[object]()

    def __dlpack__(self, *, stream: object = None, max_version: object = None) -> object:
        self.streams.append(stream)
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0


@pytest.mark.parametrize("name", ALL)
def test_run_copies_arrays_of_the_cpu(driver: FakeDriver, name: str) -> None:
    kernel = dojoir.parse(ALL[name])
    sizes = sizes_of(name, kernel)
    inputs = dojoir.testing.random_inputs(kernel, {}, seed=2, **sizes)
    found = dojoir.compile(kernel, "cuda").run(inputs, **sizes)
    for output, expected in dojoir.interpret(kernel, inputs, **sizes).items():
        np.testing.assert_allclose(found[output], expected, rtol=1e-4, atol=1e-5)


def test_a_call_launches_in_the_stream_that_is_named(driver: FakeDriver) -> None:
    compiled = dojoir.compile(dojoir.parse(RELU), "cuda")
    assert isinstance(compiled, DeviceCompiled)
    x = np.random.default_rng(0).standard_normal((2, 300)).astype(np.float32)
    given, result = on_gpu(driver, x), on_gpu(driver, np.zeros_like(x))
    compiled(given, result, stream=5)
    np.testing.assert_array_equal(result.numpy(), np.maximum(x, 0))
    assert driver.launches == [("relu_kernel", (2, 2, 1), 256, 5)]
    assert not any(line.startswith("wait for 5") for line in driver.log), "a call waits for nothing"


def test_a_bound_call_checks_nothing_again(driver: FakeDriver) -> None:
    compiled = dojoir.compile(dojoir.parse(REVERSE), "cuda")
    x = np.arange(2 * 96, dtype=np.int32).reshape(2, 96)
    given, result = on_gpu(driver, x), on_gpu(driver, np.zeros_like(x))
    call = compiled.bind(given, result)
    call()
    first = result.numpy()
    result.fill(0)
    call()
    np.testing.assert_array_equal(result.numpy(), first)
    np.testing.assert_array_equal(first, x[:, ::-1] + 1)


def test_results_are_where_the_inputs_are(driver: FakeDriver) -> None:
    x = np.ones((2, 96), np.int32)
    compiled = dojoir.compile(dojoir.parse(REVERSE), "cuda")
    assert isinstance(compiled.run({"x": x})["y"], np.ndarray)
    found = compiled.run({"x": on_gpu(driver, x)})["y"]
    assert isinstance(found, DeviceArray)
    np.testing.assert_array_equal(found.numpy(), x + 1)
    interface = found.__cuda_array_interface__
    assert interface["shape"] == (2, 96)
    assert interface["typestr"] == "<i4"


def test_an_inout_on_the_gpu_is_copied(driver: FakeDriver) -> None:
    x = np.arange(10, dtype=np.int32)
    n, m = on_gpu(driver, np.array(5, np.int32)), on_gpu(driver, np.array(7, np.int32))
    found = dojoir.compile(dojoir.parse(COUNTS), "cuda").run({"x": on_gpu(driver, x), "n": n, "m": m})
    assert int(found["n"].numpy()) == 50
    assert int(found["m"].numpy()) == 9
    assert int(n.numpy()) == 5


def test_arrays_of_other_libraries(driver: FakeDriver) -> None:
    compiled = dojoir.compile(dojoir.parse(ROW_SUMS), "cuda")
    x = np.ones((3, 40), np.float32)
    device_x, y = on_gpu(driver, x), on_gpu(driver, np.zeros(3, np.float32))
    for kind in (2, 13):
        shared = Shared(np.frombuffer(driver.memory[device_x.address], np.float32).reshape(3, 40), kind)
        compiled(shared, y)
        assert shared.streams == [-1], "the producer is not to wait: the launch comes behind its work"
    assert y.numpy().tolist() == [40, 40, 40]
    for device, name in ((1, "CPU"), (10, "ROCm"), (8, "Metal")):
        with pytest.raises(dojoir.ArgumentError, match=f"x is in {name} memory; this kernel runs on target cuda"):
            compiled(Shared(x, device), y)
    with pytest.raises(dojoir.ArgumentError, match="in the memory of the CPU"):
        compiled(x, y)
    with pytest.raises(dojoir.ArgumentError, match="must be an array on the GPU"):
        compiled([1], y)
    with pytest.raises(dojoir.ArgumentError, match="float64"):
        compiled(on_gpu(driver, np.ones((3, 40))), y)


def test_hip_takes_memory_of_rocm(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeDriver("hip")
    monkeypatch.setattr(devices, "find", lambda target: fake)
    compiled = dojoir.compile(dojoir.parse(ROW_SUMS), "hip")
    x, y = on_gpu(fake, np.ones((3, 40), np.float32)), on_gpu(fake, np.zeros(3, np.float32))
    compiled(Shared(np.frombuffer(fake.memory[x.address], np.float32).reshape(3, 40), 10), y)
    assert y.numpy().tolist() == [40, 40, 40]
    with pytest.raises(dojoir.ArgumentError, match="CUDA memory"):
        compiled(Shared(np.ones((3, 40), np.float32), 2), y)


def test_a_graph_does_what_the_call_does(driver: FakeDriver) -> None:
    compiled = dojoir.compile(dojoir.parse(STEPS), "cuda")
    assert isinstance(compiled, DeviceCompiled)
    x = np.random.default_rng(1).standard_normal(70).astype(np.float32)
    given, result = on_gpu(driver, x), on_gpu(driver, np.zeros_like(x))
    graph = compiled.graph(given, result, T=2)
    assert not driver.launches
    graph()
    expected = dojoir.interpret(compiled.kernel, {"x": x}, T=2)["y"]
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-4, atol=1e-5)
    assert len(driver.launches) == 1 + 2 * 3 + 1


def test_a_workspace_is_kept_for_calls_of_a_size(driver: FakeDriver) -> None:
    compiled = dojoir.compile(dojoir.parse(STEPS), "cuda")
    x = np.ones(70, np.float32)
    given, result = on_gpu(driver, x), on_gpu(driver, np.zeros_like(x))
    compiled(given, result, T=1)
    before = len(driver.memory)
    compiled(given, result, T=1)
    compiled(given, result, T=2)
    assert len(driver.memory) == before


def test_a_status_is_read_where_work_is_not_recorded(driver: FakeDriver) -> None:
    compiled = dojoir.compile(dojoir.parse(GATHER), "cuda")
    x, n = on_gpu(driver, np.arange(4, dtype=np.float32)), on_gpu(driver, np.array([1, 9], np.int32))
    y = on_gpu(driver, np.zeros(2, np.float32))
    with pytest.raises(dojoir.RunError, match="index read from data"):
        compiled(x, n, y)
    assert isinstance(compiled, DeviceCompiled)
    compiled.graph(x, n, y)()


def test_a_grid_that_no_device_takes_is_refused(driver: FakeDriver) -> None:
    compiled = dojoir.compile(dojoir.parse(RELU), "cuda")
    assert isinstance(compiled, DeviceCompiled)
    loaded = compiled._load_on(0, BuildVersion(narrow=False, short=False))
    with pytest.raises(dojoir.ArgumentError, match="at most 2147483647"):
        loaded.host.plan({"N": 70000, "M": 256 << 31})
    assert [step.grid[1] for step in loaded.host.plan({"N": 70000, "M": 256}).steps] == [65535, 4465]


def test_wide_accesses_need_alignment(driver: FakeDriver) -> None:
    """A kernel whose wide accesses an array does not allow is built again without them."""
    from dojoir.runtime.gpu.targets import source_of

    kernel = dojoir.parse(SOFTMAX)
    assert " : v" not in dojoir.to_text(source_of(kernel, "cuda", narrow=True).kernel)


def test_streams_of_libraries() -> None:
    class Numba:
        handle = 9

    class Core:
        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, 11

    class Wrong:
        cuda_stream = "left"

    assert [handle_of(s) for s in (3, Numba(), Core())] == [3, 9, 11]
    for given in ("main", True, -5, 2**64, None, 1.5, Wrong()):  # a handle is an address
        with pytest.raises(dojoir.ArgumentError, match="stream must be"):
            handle_of(given)


def test_launch_arguments_lie_as_drivers_read_them() -> None:
    import ctypes

    from dojoir.ir.dtypes import DTYPES

    packed = Packed([7], [(DTYPES["f32"], 1.5), (DTYPES["i64"], -2)])
    at = ctypes.cast(packed.address, ctypes.POINTER(ctypes.c_uint64))[:3]
    assert ctypes.c_uint64.from_address(at[0]).value == 7
    assert ctypes.c_float.from_address(at[1]).value == 1.5
    assert ctypes.c_int64.from_address(at[2]).value == -2


def test_the_product_of_tiles(driver: FakeDriver) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((128, 64)), rng.standard_normal((64, 128))
    a, b = a.astype(np.float32), b.astype(np.float32)
    found = dojoir.compile(dojoir.parse(MATMUL), "cuda").run({"a": a, "b": b})["c"]
    np.testing.assert_allclose(found, a @ b, rtol=1e-4, atol=1e-4)


def test_the_shell_runs_and_checks_without_a_gpu(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    devices.find.cache_clear()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    path = tmp_path / "reverse.dojo"
    path.write_text(REVERSE, encoding="utf-8")
    given = [str(path), "--target", "cuda"]
    assert main([*given, "--run", "-s", "N=2", "--emulated"]) == 0
    assert "y: int32 2x96" in capsys.readouterr().out
    assert main([*given, "--check", "--emulated"]) == 0
    assert "reverse on cuda, emulated: ok" in capsys.readouterr().out
    assert main([*given, "--check"]) == 4
    assert "--emulated" in capsys.readouterr().err


def test_the_shell_shows_a_race(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a GPU would let pass, where the code that dojoir makes is wrong: here, a barrier is left out."""
    monkeypatch.setattr(work, "proved", lambda kernel, warp, barriers: dict([*barriers.items()][:1]))
    path = tmp_path / "reverse.dojo"
    path.write_text(REVERSE, encoding="utf-8")
    assert main([str(path), "--run", "--target", "cuda", "--emulated", "-s", "N=2"]) != 0
    told = capsys.readouterr().err
    assert "error[race]" in told
    assert "of block 0" in told


def test_calls_are_timed_by_events(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cold, something else is written before each call; hot, a call is a graph; what it changes in place is put
    back."""
    monkeypatch.setattr(gpu_timing, "COPIED", 1 << 20)
    monkeypatch.setitem(sys.modules, "torch", None)  # a real one would ask a real GPU for these arrays
    kernel = dojoir.parse(COUNTS)
    subject = KernelSubject(kernel, "cuda")
    code = PythonCode("seen.append(n)", setup="seen = []")  # given what lies on the GPU
    sizes = {"N": 40}
    inputs = dojoir.testing.random_inputs(kernel, {}, seed=0, **sizes)
    for hot in (False, True):
        told: dict[str, Any] = {}
        job = {"sizes": sizes, "hot": hot, "fewest": 9, "precision": 0.5, "confidence": 0.95, "budget": 0.1}
        driver.log.clear()
        gpu_timing.time_on_gpu([subject, subject, code], kernel, inputs, {}, job, told.update)
        assert told["differences"][:2] == [0, 0]
        assert told["differences"][2] > 0
        assert len(told["samples"]) == 3
        assert len(told["samples"][0]) == told["rounds"]
        assert told["ceilings"][0] > 0
        assert driver.log.count("event") >= 2 * 2 * told["rounds"]
        assert bool(driver.graphs) == hot


def test_machine_code_comes_from_nvrtc_and_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cuda.core")
    monkeypatch.setenv("DOJOIR_CACHE", str(tmp_path))
    text = dojoir.emit(dojoir.parse(SOFTMAX), "cuda")
    try:
        first = nvrtc.cubin(text, "sm_90a")
    except dojoir.ToolchainError as error:
        pytest.skip(str(error))
    assert first[:4] == b"\x7fELF"
    monkeypatch.setattr(nvrtc, "_core", lambda: None)
    assert nvrtc.cubin(text, "sm_90a") == first
    monkeypatch.undo()
    with pytest.raises(dojoir.ToolchainError, match="NVRTC failed"):
        nvrtc.cubin(text.replace("float m", "flaot m"), "sm_80")
