"""What lives where on a GPU: whose a temporary is, what a block and a thread have room for."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_kernels import MATMUL, REVERSE, SOFTMAX, WARP_ROWS
from on_harness import run

import dojoir

OWN = """kernel f(N)
in  x: f32[N]
out y: f32[N]
tmp t: f32 {storage}

N // 64 : gx
| 64 : bx
| | t = x[64*{{0}} + {{1}}]
| | y[64*{{0}} + {{1}}] = t * t
if N % 64 > 0
| N % 64
| | y[N - 1 - {{0}}] = x[N - 1 - {{0}}] * x[N - 1 - {{0}}]
"""


@pytest.mark.parametrize(("storage", "mine"), [("heap", False), ("shared", False), ("stack", True), ("reg", True)])
def test_threads_have_registers_of_their_own_and_no_other_memory(storage: str, mine: bool) -> None:
    kernel = dojoir.parse(OWN.format(storage=storage))
    if mine:
        dojoir.prove(kernel)
        return
    with pytest.raises(dojoir.KernelError) as refused:
        dojoir.prove(kernel)
    assert refused.value.diagnostic.code == "shared-element"


@pytest.mark.parametrize(("storage", "mine"), [("heap", False), ("shared", True), ("stack", True), ("reg", True)])
def test_blocks_have_shared_memory_and_registers_of_their_own(storage: str, mine: bool) -> None:
    text = OWN.format(storage=storage).replace("| 64 : bx", "| 64")
    if mine:
        dojoir.prove(dojoir.parse(text))
    else:
        with pytest.raises(dojoir.KernelError):
            dojoir.prove(dojoir.parse(text))


@pytest.mark.parametrize("mark", ["p", "v"])
def test_cores_and_lanes_have_all_of_their_own(mark: str) -> None:
    dojoir.prove(dojoir.parse(OWN.format(storage="heap").replace(" : gx", "").replace("64 : bx", f"64 : {mark}")))


def refused(text: str, target: str = "cuda") -> dojoir.KernelError:
    kernel = dojoir.parse(text)
    dojoir.prove(kernel)
    with pytest.raises(dojoir.KernelError) as error:
        dojoir.emit(kernel, target)
    return error.value


def test_registers_do_not_cross_threads() -> None:
    error = refused(REVERSE.replace("shared", "reg"))
    assert error.diagnostic.code == "crosses-threads"
    assert "t[95 - {2}]" in str(error)
    assert "place(t, shared)" in str(error)


def test_block_code_does_not_read_what_one_thread_sets() -> None:
    text = """kernel f(N)
in  x: f32[N, 32]
out y: f32[N, 32]
tmp t: f32[32] reg

N : gx
| 32 : bx
| | t[{1}] = x[{0}, {1}]
| 32
| | y[{0}, {1}] = t[{1}]
"""
    assert refused(text).diagnostic.code == "crosses-threads"


def test_what_threads_put_together_all_of_them_have() -> None:
    dojoir.emit(dojoir.parse(SOFTMAX), "cuda")


def test_the_lanes_of_a_warp_have_registers_of_their_own() -> None:
    dojoir.emit(dojoir.parse(WARP_ROWS), "cuda")
    crossed = WARP_ROWS.replace("m max= e[{1}, {3}, {2}, {4}]", "m max= e[{1}, {3}, 31 - {2}, {4}]")
    assert crossed != WARP_ROWS and refused(crossed).diagnostic.code == "crosses-threads"
    crossed = WARP_ROWS.replace("m max= e[{1}, ", "m max= e[0, ")
    with pytest.raises(dojoir.DojoError):
        dojoir.emit(dojoir.parse(crossed), "cuda")


BLOCKS = """kernel f(N)
in  x: f32[N, 16384]
out y: f32[N, 16384]
tmp t: f32[16384] shared

N : gx
| 1024 : bx
| | 16
| | | t[16*{1} + {2}] = x[{0}, 16*{1} + {2}]
| 1024 : bx
| | 16
| | | y[{0}, 16*{1} + {2}] = t[1024*{2} + {1}]
"""


def test_shared_memory_is_limited() -> None:
    error = refused(BLOCKS.replace("16384", "65536").replace("| 16\n", "| 64\n").replace("16*", "64*"))
    assert error.diagnostic.code == "shared-size"
    assert "262144 bytes" in str(error)
    assert "58112 elements would fit" in str(error)
    dojoir.emit(dojoir.parse(BLOCKS), "hip")


def test_more_than_a_kernel_may_declare_is_asked_for() -> None:
    kernel = dojoir.parse(BLOCKS)
    text = dojoir.emit(kernel, "cuda")
    assert "extern __shared__" in text
    assert "cudaFuncAttributeMaxDynamicSharedMemorySize, 65536" in " ".join(text.split())
    assert "extern __shared__" not in dojoir.emit(kernel, "hip")
    x = np.arange(2 * 16384, dtype=np.float32).reshape(2, 16384)
    found = run(kernel, {"x": x}, {"N": 2})["y"]
    np.testing.assert_array_equal(found.reshape(2, 1024, 16), x.reshape(2, 16, 1024).swapaxes(1, 2))


def test_registers_have_no_addresses() -> None:
    error = refused(MATMUL.replace("4 : u\n| | | | | 4 : u\n| | | | | | t", "4\n| | | | | 4 : u\n| | | | | | t"))
    assert error.diagnostic.code == "indexed-register"
    assert "unroll(0.0.0.0.0)" in str(error)


def test_registers_are_limited() -> None:
    assert refused(SOFTMAX.replace("2, 128, 4", "200, 128, 4")).diagnostic.code == "register-size"


def test_a_value_in_shared_memory_ends_with_its_launch() -> None:
    text = """kernel f()
in  x: f32[32]
out y: f32[32]
tmp t: f32[32] shared

32 : bx
| t[{0}] = x[{0}]
1 : gx
| 32 : bx
| | y[{1}] = t[31 - {1}]
"""
    assert refused(text).diagnostic.code == "crosses-launches"


@pytest.mark.parametrize(("columns", "threads"), [(4096, 256), (16384, 1024)])
def test_a_long_row_is_spread_over_the_registers_of_many_threads(columns: int, threads: int) -> None:
    kernel = dojoir.apply(dojoir.kernels.load("softmax").specialize(M=columns), "join_scopes(0, 1)")
    trace = dojoir.PASSES["block_rows"].given("0", str(threads)).on(kernel)
    text = dojoir.emit(trace.kernel, "cuda")
    assert "float x_row[16];" in text
    assert f"__launch_bounds__({threads})" in text
    assert text.count("float4 *)&") == 2


def test_what_no_threads_can_share_is_too_large_for_registers() -> None:
    kernel = dojoir.apply(dojoir.kernels.load("softmax").specialize(M=4096), "join_scopes(0, 1)")
    verdict = dojoir.check(dojoir.apply(kernel, "reuse_dims(e, 0)"), "place(e, reg)")
    assert verdict.code == "too-large"


@pytest.mark.parametrize("storage", ["reg", "stack", "shared"])
@pytest.mark.parametrize("around", ["", "N @i\n"])
def test_what_stays_from_one_launch_to_the_next_is_in_global_memory(storage: str, around: str) -> None:
    """Whether host code is around them or not."""
    bar = "| " if around else ""
    text = f"""kernel f(N)
in  p: f32[N]
out y: f32[N]
tmp s: f32[1] {storage}

{around}{bar}1 : gx
{bar}| s[0] = p[0]
{bar}N : gx
{bar}| y[{{0}}] = s[0]
"""
    if around:
        text = (
            text.replace("y[{0}]", "y[{1}]").replace("p[0]", "p[{0}]").replace("out y: f32[N]", "inout y: f32[N]")
        )
    error = refused(text)
    assert error.diagnostic.code == "crosses-launches"
    assert "place(s, heap)" in str(error)
    dojoir.emit(dojoir.parse(text.replace(storage, "")), "cuda")
