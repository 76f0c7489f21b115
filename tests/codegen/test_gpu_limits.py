"""What a GPU has no room for, and what its threads may not share: errors that name it, and a cure."""

from __future__ import annotations

import re

import pytest
from fake_gpu import FakeDriver
from gpu_kernels import MATMUL, REVERSE, SOFTMAX, WARP_ROWS

import dojoir
from dojoir.codegen.emission import gpu_program
from dojoir.runtime.gpu import devices
from dojoir.runtime.gpu.plan import HostCode


def refused(text: str, target: str = "cuda") -> str:
    """What `emit` says of a kernel that is well-formed."""
    kernel = dojoir.parse(text)
    dojoir.prove(kernel)
    with pytest.raises(dojoir.KernelError) as error:
        dojoir.emit(kernel, target)
    return str(error.value)


# -- one element of two threads ------------------------------------------------------------------------------
OWN = """kernel f(N)
in  x: f32[N, 64]
out y: f32[N, 64]
tmp t: {type}

N : gx
| 64 : bx
| | t{at} = x[{{0}}, {{1}}]
| | y[{{0}}, {{1}}] = t{at} * t{at}
"""

SHARED = [
    pytest.param("f32", "", "blocks ({0}=0) and ({0}=1) both touch `t`", ["place(t, reg)"], id="blocks"),
    pytest.param(
        "f32 shared", "", "threads ({1}=0) and ({1}=63) of block ({0}=0) both touch `t`", ["place(t, reg)"],
        id="threads",
    ),
    pytest.param(
        "f32[N]", "[{0}]", "threads ({1}=0) and ({1}=1) of block ({0}=0) both touch `t[0]`",
        ["reuse_dims(t, 0)", "place(t, reg)"], id="open dimension",
    ),
    pytest.param(
        "f32[N, 64~]", "[{0}, {1}]", "threads ({1}=0) and ({1}=1) of block ({0}=0) both touch `t[0, ~]`",
        ["materialize_dims(t, 1)"], id="collapsed",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "at", "words", "cure"), SHARED)
def test_two_threads_with_one_element_are_named_with_it_and_a_cure(
    kind: str, at: str, words: str, cure: list[str]
) -> None:
    kernel = dojoir.parse(OWN.format(type=kind, at=at))
    with pytest.raises(dojoir.KernelError) as error:
        dojoir.prove(kernel)
    assert error.value.diagnostic.code == "shared-element"
    assert words in str(error.value)
    plain = dojoir.parse(re.sub(" : (gx|bx)", "", OWN.format(type=kind, at=at)))
    for move in cure:
        assert move in str(error.value)
        plain = dojoir.apply(plain, move)
    dojoir.emit(dojoir.apply(dojoir.apply(plain, "bind(0.0, bx)"), "bind(0, gx)"), "cuda")


def test_what_blocks_share_in_block_code_may_be_shared_memory() -> None:
    text = OWN.format(type="f32[64]", at="[{1}]").replace("| | y", "| 64 : bx\n| | y")
    with pytest.raises(dojoir.KernelError) as error:
        dojoir.prove(dojoir.parse(text))
    assert "blocks ({0}=0) and ({0}=1) both touch `t[0]`: place(t, shared), which is a block's own" in str(
        error.value
    )
    kernel = dojoir.apply(dojoir.parse(text.replace(" : gx", "")), "place(t, shared)")
    dojoir.emit(dojoir.apply(kernel, "bind(0, gx)"), "cuda")


def test_a_move_that_makes_threads_share_is_refused_in_these_words() -> None:
    kernel = dojoir.parse(OWN.format(type="f32", at="").replace(" : bx", "").replace(" : gx", ""))
    verdict = dojoir.check(kernel, "bind(0.0, bx)")
    assert verdict.code == "shared-element"
    assert "threads ({1}=0) and ({1}=63) both touch `t`: place(t, reg)" in verdict.diagnostic.render()


def test_a_move_that_makes_another_tree_is_refused_without_these_words() -> None:
    """What is quoted is the kernel after the move, whose places the one before may not have."""
    trace = dojoir.Trace(dojoir.kernels.load("argmax"))
    for move in ("split_scopes(0, 1)", "split_reduction(1.0, m, m_part, 4)", "bind(1, gy)"):
        if dojoir.check(trace.kernel, move):
            trace.apply(move)
    for move in dojoir.candidates(trace.kernel):
        dojoir.check(trace.kernel, move, 50_000)


def test_what_a_caller_has_is_not_placed() -> None:
    with pytest.raises(dojoir.KernelError) as error:
        dojoir.prove(dojoir.parse("kernel f()\nin x: f32[64]\nout y: f32[1]\n\n64 : bx\n| y[0] = x[{0}]\n"))
    assert (
        "threads ({0}=0) and ({0}=1) both touch `y[0]`: each must have an element of its own, or unmark(0)"
        in str(error.value)
    )


# -- registers -----------------------------------------------------------------------------------------------
def test_an_element_that_crosses_threads_is_named_with_both() -> None:
    error = refused(REVERSE.replace("shared", "reg"))
    assert "thread 0 sets `t[0]`, `t[{2}] = x[{0}, {2}] + {1}` at {0}=0, {1}=0, {2}=0" in error
    assert "used by thread 95 of the same block, `y[{0}, {2}] = t[-{2} + 95]` at {0}=0, {1}=1, {2}=95" in error
    assert "place(t, shared), or have one thread do both" in error
    lanes = WARP_ROWS.replace("m max= e[{1}, {3}, {2}, {4}]", "m max= e[{1}, {3}, 31 - {2}, {4}]")
    assert re.search(r"thread 48 sets `e\[1, 0, 16, 0\]`.* used by thread 47 of the same block", refused(lanes))
    alike = REVERSE.replace("shared", "reg").replace("| | 96 : bx\n| | | y", "| | 96\n| | | y")
    assert "used by all threads of the same block" in refused(alike)


def test_registers_that_are_indexed_by_a_loop_name_the_loop() -> None:
    text = MATMUL.replace("4 : u\n| | | | | 4 : u\n| | | | | | t", "4\n| | | | | 4 : u\n| | | | | | t")
    error = refused(text)
    assert (
        "depends on the scope at 0.0.0.0.0, which is not unrolled: unroll(0.0.0.0.0), or place(t, stack)" in error
    )
    dojoir.emit(dojoir.apply(dojoir.parse(text), "unroll(0.0.0.0.0)"), "cuda")
    stack = dojoir.emit(dojoir.apply(dojoir.parse(text), "place(t, stack)"), "cuda")
    assert "float t[16];" in stack


def test_more_registers_than_a_thread_has() -> None:
    error = refused(SOFTMAX.replace("2, 128, 4", "200, 128, 4"))
    assert "e takes 800 registers of each thread, and 255 is what one has: spread it over more threads" in error


# -- blocks and shared memory --------------------------------------------------------------------------------
TILE = """kernel f(N)
in  x: f32[N, {n}]
out y: f32[N, {n}]
tmp t: f32[{n}] shared

N : gx
| {n} // 8
| | 8 : bx
| | | t[8*{{1}} + {{2}}] = x[{{0}}, 8*{{1}} + {{2}}]
| {n} // 8
| | 8 : bx
| | | y[{{0}}, 8*{{1}} + {{2}}] = t[{n} - 1 - 8*{{1}} - {{2}}]
"""


@pytest.mark.parametrize(("target", "most"), [("cuda", 227 << 10), ("hip", 64 << 10)])
def test_shared_memory_has_an_end(target: str, most: int) -> None:
    dojoir.emit(dojoir.parse(TILE.format(n=most // 4)), target)
    error = refused(TILE.format(n=most // 4 + 8), target)
    assert f"t takes {most + 32} bytes of shared memory, and a block has {most} on {target}" in error
    assert f"{most // 4} elements would fit" in error


def test_a_device_with_less_shared_memory_says_what_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a target may have, one of its devices may lack: the one here has 100 KiB."""
    monkeypatch.setattr(devices, "find", lambda target: FakeDriver(target))
    dojoir.compile(dojoir.parse(TILE.format(n=(100 << 10) // 4)), "cuda")
    with pytest.raises(dojoir.ToolchainError) as error:
        dojoir.compile(dojoir.parse(TILE.format(n=(100 << 10) // 4 + 8)), "cuda")
    words = (
        "f_kernel takes 102432 bytes of shared memory for a block (t 102432), and none has 102400: stage smaller"
    )
    assert words in str(error.value)


def test_an_open_extent_in_shared_memory() -> None:
    error = refused(TILE.format(n="N").replace("kernel f(N)", "kernel f(N)\nwhere N % 8 == 0"))
    assert "t is in `shared`, which needs constant extents, and N elements are not" in error


def test_a_block_of_too_many_threads_says_how_many_fit() -> None:
    body = "64 : bx\n| 2\n| | 32 : lane\n| | | y[{0}, 32*{1} + {2}] = 1\n"
    text = f"kernel f()\nout y: f32[64, 64]\n\n{body}"
    error = refused(text)
    assert "the scope at 0 makes 2048 threads with the scopes inside, and 1024 fit" in error
    assert "at most 32 iterations" in error


def test_lanes_that_are_no_part_of_a_warp() -> None:
    text = "kernel f()\nin x: f32[64]\nout y: f32[64]\n\n64 : lane\n| y[{0}] = x[{0}]\n"
    error = refused(text)
    assert "the scope at 0 is marked `lane` and has 64 iterations; a warp of 32" in error and "split it" in error
    dojoir.emit(dojoir.parse(text), "hip")


# -- grids ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("axis", "limit"), [*zip("xyz", dojoir.machine_for("cuda").grid, strict=True)])
def test_a_launch_has_an_end_along_each_axis(axis: str, limit: int) -> None:
    """Along y and z more blocks are several launches; along x there are more than any array has rows."""
    text = f"kernel f(N)\nin x: i8[N]\nout y: i8[N]\n\nN : g{axis}\n| y[{{0}}] = x[{{0}}]\n"
    host = HostCode(gpu_program(dojoir.parse(text), "cuda"))
    at = "xyz".index(axis)
    assert [step.grid[at] for step in host.plan({"N": limit}).steps] == [limit]
    if axis != "x":
        assert [step.grid[at] for step in host.plan({"N": limit + 1}).steps] == [limit, 1]
        return
    with pytest.raises(dojoir.ArgumentError) as error:
        host.plan({"N": limit + 1})
    words = f"kernel f asks for {limit + 1} blocks along g{axis} (N : g{axis} @i0), and a grid has at most {limit}"
    assert words in str(error.value)
    assert error.value.diagnostic.code == "grid-too-large"
