"""The harness that runs GPU text without a GPU: right kernels run right, planted bugs are each reported."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from simt import FINE, KERNELS, PLANTED

from dojoir.errors import ArgumentError, RunError, ToolchainError
from dojoir.runtime.gpu import nvrtc
from dojoir.runtime.simt import toolchain
from dojoir.runtime.simt.harness import Harness, HarnessProcess, Order

COMPILERS = toolchain.compilers()
ORDERS: tuple[Order, ...] = ("forward", "backward")
RNG = np.random.default_rng(7)


@cache
def harness(text: str, warp: int) -> Harness:
    return Harness(text, warp)


@pytest.fixture(params=[(warp, order) for warp in (32, 64) for order in ORDERS], ids=lambda p: f"{p[0]}-{p[1]}")
def machine(request: pytest.FixtureRequest) -> tuple[int, Order]:
    found: tuple[int, Order] = request.param
    return found


def random(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def cases() -> Iterator[Any]:
    x = random(3, 1024)
    e = np.exp(x - x.max(1, keepdims=True))
    yield pytest.param("softmax", (3,), (128,), 0, [x, None, 1024], e / e.sum(1, keepdims=True), id="softmax")
    x, g, b = random(3, 1000), random(1000), random(1000)
    normal = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
    yield pytest.param("layernorm", (3,), (256,), 0, [x, g, b, None, 1000], normal * g + b, id="layernorm")
    yield pytest.param("cumsum", (3,), (128,), 0, [x, None, 1000], np.cumsum(x, 1), id="cumsum")
    x = random(70, 45)
    yield pytest.param("transpose", (2, 3), (32, 8), 0, [x, None, 70, 45], x.T, id="transpose")
    x, y = random(64, 48), random(48, 96)
    shared = 4 * (16 * 33 + 512)
    yield pytest.param("matmul", (3, 2), (256,), shared, [x, y, None, 48, 96], x @ y, id="matmul")


@pytest.mark.parametrize("name, grid, block, shared, given, expected", list(cases()))
def test_right_kernels_run_right(
    machine: tuple[int, Order],
    name: str,
    grid: tuple[int, ...],
    block: tuple[int, ...],
    shared: int,
    given: list[Any],
    expected: np.ndarray,
) -> None:
    warp, order = machine
    result = np.full(expected.shape, np.nan, np.float32)
    arguments = [result if value is None else value for value in given]
    counts = harness(KERNELS, warp).launch(name, grid, block, arguments, shared_bytes=shared, order=order)
    np.testing.assert_allclose(result, expected, rtol=2e-4, atol=2e-5)
    assert counts.accesses > result.size


PLANTS = [
    ("no_barrier", "xy", 1, 128, "race", "part"),
    ("tree", "xy", 1, 128, "race", "part"),
    ("shuffle_as_barrier", "xy", 1, 32, "race", "no __syncwarp"),
    ("barrier_in_branch", "y", 1, 128, "divergent-barrier", "ended without it"),
    ("two_barriers", "y", 1, 128, "divergent-barrier", "at another place"),
    ("half_warp", "y", 1, 64, "divergent-barrier", "__shfl_xor_sync"),
    ("two_shuffles", "y", 1, 64, "divergent-barrier", "at another place"),
    ("other_mask", "y", 1, 64, "bad-shuffle", "mask"),
    ("absent_lane", "y", 1, 64, "bad-shuffle", "lane 20"),
    ("hip_absent_lane", "y", 1, 64, "bad-shuffle", "__shfl_xor"),
    ("never_written", "y", 1, 32, "uninitialised-shared", "part"),
    ("added_to_nothing", "y", 1, 32, "uninitialised-shared", "part"),
    ("from_last_block", "y", 2, 32, "uninitialised-shared", "block"),
    ("two_blocks", "y", 2, 32, "race", "blocks of one launch have no order"),
    ("read_other_block", "y", 2, 32, "race", "block 1"),
    ("atomic_and_plain", "y", 1, 32, "race", "y[0]"),
    ("restricted_before", "y", 1, 64, "broken-restrict", "y[0]"),
    ("restricted_behind", "y", 1, 64, "broken-restrict", "y[0]"),
    ("restricted_read_by_both", "y", 1, 32, "broken-restrict", "y[0]"),
    ("restricted_written_twice", "y", 1, 32, "broken-restrict", "y[0]"),
    ("restricted_atomic", "y", 2, 32, "broken-restrict", "adds atomically to y[0]"),
    ("beyond", "yn", 1, 32, "out-of-bounds", "byte 512 of y, which has 512"),
    ("across_the_end", "yn", 1, 32, "out-of-bounds", "of y, which has 512"),
    ("before", "xy", 1, 32, "out-of-bounds", "byte -4 of x, which has 512"),
    ("far_out", "xy", 1, 32, "out-of-bounds", "thread"),
    ("null_pointer", "xy", 1, 32, "out-of-bounds", "where there is no array"),
    ("beyond_shared", "y1", 1, 32, "out-of-bounds", "of shared"),
    ("beyond_dynamic", "y", 1, 32, "out-of-bounds", "dynamic shared memory"),
    ("beyond_register", "y5", 1, 1, "out-of-bounds", "index 4"),
    ("misaligned", "y", 1, 32, "misaligned", "16"),
    ("offset_overflow", "y!", 1, 32, "overflow", "sum"),
    ("stack_overflow", "y1", 1, 32, "crash", "stack"),
]


@pytest.mark.parametrize("name, takes, blocks, threads, code, said", PLANTS, ids=[plant[0] for plant in PLANTS])
def test_planted_bugs_are_reported(
    machine: tuple[int, Order], name: str, takes: str, blocks: int, threads: int, code: str, said: str
) -> None:
    warp, order = machine
    if name == "no_barrier" and order == "backward":  # what is not written in time was never written
        code = "uninitialised-shared"
    x, y = random(128), np.zeros(128, np.float32)
    values = {"x": x, "y": y, "n": 128, "1": 1, "5": 5, "!": 2**31 - 1}
    arguments = [values[letter] for letter in takes]
    names = [letter for letter in takes if letter in "xy"]
    with pytest.raises(RunError) as caught:
        harness(PLANTED, warp).launch(
            name, (blocks,), (threads,), arguments, shared_bytes=128, order=order, names=names
        )
    diagnostic = caught.value.diagnostic
    assert diagnostic.code == code, str(caught.value)
    assert said in str(caught.value)
    assert "thread " in diagnostic.message and f"kernel {name}" in str(caught.value)
    if code != "crash":  # the line is one of this kernel
        assert diagnostic.span is not None, str(caught.value)
        at = PLANTED[: PLANTED.index(f"void {name}(")].count("\n") + 1
        assert at <= diagnostic.span.line <= at + 12, str(caught.value)


@pytest.mark.parametrize("compiler", COMPILERS, ids=[c.version.split()[0] for c in COMPILERS])
@pytest.mark.parametrize("name, takes, blocks, threads, code, said", PLANTS, ids=[plant[0] for plant in PLANTS])
def test_with_every_compiler(
    compiler: toolchain.CppCompiler, name: str, takes: str, blocks: int, threads: int, code: str, said: str
) -> None:
    x, y = random(128), np.zeros(128, np.float32)
    values = {"x": x, "y": y, "n": 128, "1": 1, "5": 5, "!": 2**31 - 1}
    arguments = [values[letter] for letter in takes]
    names = [letter for letter in takes if letter in "xy"]
    with pytest.raises(RunError, match=code) as caught:
        Harness(PLANTED, 32, compiler=compiler).launch(
            name, (blocks,), (threads,), arguments, shared_bytes=128, names=names
        )
    assert said in str(caught.value)


@pytest.mark.parametrize("compiler", COMPILERS, ids=[c.version.split()[0] for c in COMPILERS])
def test_without_shared_memory(compiler: toolchain.CppCompiler) -> None:
    y = np.zeros(8, np.float32)
    text = 'extern "C" __global__ void fill(float *y, float by) { y[threadIdx.x] = by; }'
    Harness(text, 32, compiler=compiler).launch("fill", (1,), (8,), [y, 2.5])
    assert (y == 2.5).all()


WRAPPED = """
extern "C" __global__ void wrapped(int *up, int *down) {
  atomicAdd(up, 1 << 30);
  atomicSub(down, 1 << 30);
}
"""


def test_atomic_sums_of_integers_wrap_as_in_the_hardware(machine: tuple[int, Order]) -> None:
    warp, order = machine
    up, down = np.array([3], np.int32), np.array([-3], np.int32)
    harness(WRAPPED, warp).launch("wrapped", (1,), (3,), [up, down], order=order)
    assert up[0] == 3 + 3 * (1 << 30) - (1 << 32)
    assert down[0] == -3 - 3 * (1 << 30) + (1 << 32)


WORDS = ("int", "unsigned", "unsigned long long")
ATOMICS = {
    "atomicAdd": (*WORDS, "float", "double"),
    "atomicSub": ("int", "unsigned"),
    "atomicMax": (*WORDS, "long long"),
    "atomicMin": (*WORDS, "long long"),
    "atomicAnd": WORDS,
    "atomicOr": WORDS,
    "atomicXor": WORDS,
    "atomicExch": (*WORDS, "float"),
}
"""The overloads that CUDA has without an include."""


def nvrtc_takes(text: str) -> bool | None:
    """Whether NVRTC takes a text; None where it is not here."""
    try:
        nvrtc.cubin(text, "sm_90")
    except ToolchainError as error:
        return None if error.diagnostic.code != "compiler-failed" else False
    return True


def harness_takes(text: str) -> bool:
    try:
        harness(text, 32)
    except ToolchainError:
        return False
    return True


@pytest.mark.parametrize("name", ["atomicAdd", "atomicMax", "atomicExch"])
@pytest.mark.parametrize("kind", ["i64", "float", "short", "unsigned char", "unsigned long long"])
def test_the_harness_takes_the_atomics_that_cuda_has(name: str, kind: str) -> None:
    word = "long long" if kind == "i64" else kind
    text = f'extern "C" __global__ void k({word} *y, {word} by) {{ {name}(y, by); }}'
    assert harness_takes(text) == (word in ATOMICS[name])


def test_cuda_has_the_atomics_that_the_harness_knows() -> None:
    for name, kinds in ATOMICS.items():
        lines = [f'extern "C" __global__ void k{n}({kind} *y, {kind} by) {{ {name}(y, by); }}'
                 for n, kind in enumerate(kinds)]  # fmt: skip
        taken = nvrtc_takes("\n".join(lines))
        if taken is None:
            pytest.skip("NVRTC is not here")
        assert taken, name
    for name, kind in (("atomicAdd", "long long"), ("atomicMax", "float"), ("atomicAdd", "short")):
        assert not nvrtc_takes(f'extern "C" __global__ void k({kind} *y, {kind} by) {{ {name}(y, by); }}')


@pytest.mark.parametrize("kind", ["bool", "short", "long long", "double", "float2"])
def test_the_harness_takes_the_shuffles_that_cuda_has(kind: str) -> None:
    text = f'extern "C" __global__ void k({kind} *y) {{ y[0] = __shfl_xor_sync(~0u, y[0], 1); }}'
    taken = nvrtc_takes(text)
    assert harness_takes(text) == (kind != "float2")
    assert taken is None or taken == (kind != "float2")


MASKS = """
extern "C" __global__ void wide(float *y) { y[threadIdx.x] = __shfl_xor_sync(0x1ffffffffull, y[threadIdx.x], 1); }
extern "C" __global__ void groups(float *y, int n) { y[threadIdx.x] = __shfl_sync(~0u, y[threadIdx.x], 0, n); }
"""


def test_a_mask_is_of_the_lanes_of_a_warp() -> None:
    with pytest.raises(RunError, match="mask of more lanes than the 32") as error:
        harness(MASKS, 32).launch("wide", (1,), (32,), [np.zeros(32, np.float32)])
    assert error.value.diagnostic.code == "bad-shuffle"


@pytest.mark.parametrize("width", [0, 12, 64])
def test_lanes_are_shuffled_in_groups_of_a_power_of_two(width: int) -> None:
    with pytest.raises(RunError, match=f"groups of {width} lanes") as error:
        harness(MASKS, 32).launch("groups", (1,), (32,), [np.zeros(32, np.float32), width])
    assert error.value.diagnostic.code == "bad-shuffle"


def test_atomics_raise_nothing(machine: tuple[int, Order]) -> None:
    warp, order = machine
    y, most, count = np.zeros(1, np.float32), np.zeros(1, np.uint32), np.zeros(1, np.uint64)
    harness(FINE, warp).launch("add_all", (3,), (96,), [y, most, count], order=order)
    assert (y[0], most[0], count[0]) == (288, 287, 576)


def test_groups_of_lanes(machine: tuple[int, Order]) -> None:
    warp, order = machine
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    harness(FINE, warp).launch("groups", (1,), (64,), [x, y], order=order)
    assert (y == np.repeat(x.reshape(4, 16).sum(1), 16)).all()


def test_narrow_elements_side_by_side(machine: tuple[int, Order]) -> None:
    warp, order = machine
    x, y = np.arange(64, dtype=np.uint8), np.zeros(64, np.uint8)
    harness(FINE, warp).launch("bytes", (1,), (64,), [x, y], order=order)
    assert (y == x[::-1]).all()


def test_votes(machine: tuple[int, Order]) -> None:
    warp, order = machine
    x, y = np.arange(warp, dtype=np.int32) % 3, np.zeros(3, np.uint64)
    harness(FINE, warp).launch("votes", (1,), (warp,), [x, y], order=order)
    assert y.tolist() == [sum(1 << k for k in range(warp) if k % 3), 0, 1]


def test_lanes_that_diverged_meet_again(machine: tuple[int, Order]) -> None:
    warp, order = machine
    x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
    harness(FINE, warp).launch("lockstep", (1,), (64,), [x, y], order=order)
    one = [3.0] * 32 + [2.0] * 32
    assert y.tolist() == ([*([3.0] * 32), *([2.0] * 32)] if warp == 32 else one)


def test_indices_and_scalars(machine: tuple[int, Order]) -> None:
    warp, order = machine
    y = np.zeros((2 * 3 * 2, 4 * 3 * 2), np.int32)
    harness(FINE, warp).launch("indices", (2, 3, 2), (4, 3, 2), [y], order=order)
    assert (y == np.arange(12)[:, None] * 1000 + np.arange(24)).all()
    z = np.ones(8)
    harness(FINE, warp).launch("scale", (1,), (8,), [z, 0.1, -1, 5], order=order)
    assert z.tolist() == [0.1] * 5 + [1.0] * 3


def test_arrays_stay_between_launches() -> None:
    with harness(FINE, 32).device() as device:
        y = device.array(np.ones(8), "y")
        for _ in range(3):
            device.launch("scale", (1,), (8,), [y, 2.0, -1, 4])
        y.array[7] = 5
        device.launch("scale", (1,), (8,), [y, 2.0, 0, 8])
        assert y.array.tolist() == [16.0] * 4 + [2.0] * 3 + [10.0]


def test_a_device_lives_on_after_an_error() -> None:
    with harness(PLANTED, 32).device(time_limit=1.0) as device:
        y = device.array(np.zeros(64, np.float32), "y")
        for name, code in (("hang", "time-limit"), ("two_blocks", "race"), ("barrier_in_branch", "divergent")):
            with pytest.raises(RunError, match=code):
                device.launch(name, (2,), (32,), [y])
        device.launch("two_blocks", (1,), (32,), [y])


def test_wrong_launches() -> None:
    y = np.zeros(8)
    wrong: list[tuple[str, str, tuple[int, ...], tuple[int, ...], list[Any]]] = [
        ("did you mean 'scale'", "scal", (1,), (8,), [y, 1.0, 0, 0]),
        ("takes 4 arguments, not 1", "scale", (1,), (8,), [y]),
        ("is a pointer of 8 bytes, not float", "scale", (1,), (8,), [1.0, 1.0, 0, 0]),
        ("is an integer of 1 bytes, not float", "scale", (1,), (8,), [y, 1.0, 0.5, 0]),
        ("which 2 bytes do not hold", "scale", (1,), (8,), [y, 1.0, 0, 70000]),
        ("at most 1024", "scale", (1,), (64, 32), [y, 1.0, 0, 0]),
        ("it takes 1 to 65535", "scale", (1, 70000), (8,), [y, 1.0, 0, 0]),
    ]
    for message, name, grid, block, arguments in wrong:
        with pytest.raises(ArgumentError, match=message):
            harness(FINE, 32).launch(name, grid, block, arguments)
    with pytest.raises(ArgumentError, match="a warp of 16 lanes"):
        Harness(FINE, 16)


def test_wrong_text() -> None:
    with pytest.raises(ToolchainError, match="no kernel"):
        Harness("// __global__ void f() {}", 32)
    with pytest.raises(ToolchainError, match="nonsense"):
        Harness('extern "C" __global__ void f(float *y) { y[0] = nonsense; }', 32)


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(ToolchainError, match="CXX names, 'no-such-compiler', is not there"):
        Harness(FINE, 32)


def test_a_device_is_closed_twice() -> None:
    device: HarnessProcess = harness(FINE, 32).device()
    device.close()
    device.close()
