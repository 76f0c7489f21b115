"""Conditions that a thread need not ask are left out, and no others; sums of threads that are no power of two."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from on_harness import run

import dojoir
from dojoir.backends.host import machine_named
from dojoir.codegen.gpu.printer import print_gpu
from dojoir.codegen.gpu.program import GpuProgram
from dojoir.codegen.lower.nests import device_code
from dojoir.codegen.lower.pipeline import lower
from dojoir.codegen.target import CUDA
from dojoir.passes.schedule.gpu.tiles.contractions import large_tiles, small_tiles

PRODUCT = """kernel product(N, M, K)
in  a: f32[N, K]
in  b: f32[K, M]
out c: f32[N, M]

N
| M
| | c[{0}, {1}] = 0
| | K
| | | c[{0}, {1}] += a[{0}, {2}] * b[{2}, {1}]
"""


def runs_right(kernel: dojoir.Kernel, text: dojoir.Kernel, target: str, **sizes: int) -> None:
    given = dojoir.testing.random_inputs(text, {}, seed=1, **sizes)
    expected = dojoir.interpret(text, given, **sizes)
    found = dojoir.compile(kernel, target, emulated=True).run(given, **sizes)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("target", ["cuda", "hip"])
@pytest.mark.parametrize("tiles", [large_tiles, small_tiles])
def test_sums_of_a_tile_past_the_end_are_not_asked_about(tiles: Any, target: str) -> None:
    text = dojoir.parse(PRODUCT).specialize(N=67, M=70, K=19)
    trace = dojoir.Trace(text)
    tiles(trace, (0,), machine_named(target))
    lines = dojoir.to_text(trace.kernel).splitlines()
    first = next(number for number, line in enumerate(lines) if "fma(" in line)
    assert lines[first - 1].lstrip("| ").startswith("if ")
    code = dojoir.emit(trace.kernel, target)
    before = code[: code.index("fmaf(")]
    assert before.rindex("for (") > before.rindex("if ("), "the sums of a thread have no condition around them"
    assert "cleared" in code, "shared memory that is read past the end has values"
    runs_right(trace.kernel, text, target)


@pytest.mark.parametrize("target", ["cuda", "hip"])
@pytest.mark.parametrize(("left", "right"), [("u8", "i8"), ("i16", "u16")])
def test_nor_are_those_of_narrow_integers(left: str, right: str, target: str) -> None:
    written = PRODUCT.replace("a: f32", f"a: {left}").replace("b: f32", f"b: {right}").replace("c: f32", "c: i32")
    written = written.replace("a[{0}, {2}] * b[{2}, {1}]", "i32(a[{0}, {2}]) * i32(b[{2}, {1}])")
    text = dojoir.parse(written).specialize(N=67, M=70, K=19)
    trace = dojoir.Trace(text)
    large_tiles(trace, (0,), machine_named(target))
    code = dojoir.emit(trace.kernel, target)
    before = code[: code.index("*", code.index("(int)a_tile["))]
    assert before.rindex("for (") > before.rindex("if ("), "the sums of a thread have no condition around them"
    runs_right(trace.kernel, text, target)


TOGETHER = """kernel rows(N)
in  x: f32[N, 200]
out y: f32[N, 200]
tmp s: f32[N~] reg
tmp r: f32[N~, 256] reg

N : gx
| 256 : bx
| | if {1} < 200
| | | r[{0}, {1}] = x[{0}, {1}] - 100
| s[{0}] = -1000
| 256 : bx
| | if {1} < 200
| | | s[{0}] max= r[{0}, {1}]
| 256 : bx
| | if {1} < 200
| | | y[{0}, {1}] = r[{0}, {1}] - s[{0}]
"""


@pytest.mark.parametrize("target", ["cuda", "hip"])
def test_what_others_get_keeps_its_condition(target: str) -> None:
    """A thread that has no element of a row must not take part in the maximum of it."""
    kernel = dojoir.parse(TOGETHER)
    runs_right(kernel, kernel, target, N=3)


KEPT = """kernel kept(N)
in  x: f32[N, 64]
out y: f32[N, 64]
tmp t: f32[64] shared
tmp r: f32[4, 64] reg

N : gx
| 64 : bx
| | t[{1}] = x[{0}, {1}]
| 64 : bx
| | 4 : u
| | | r[{2}, {1}] = 0
| 64 : bx
| | 4 : u
| | | if {1} + {2} < 62
| | | | r[{2}, {1}] += t[{1}]
| 64 : bx
| | y[{0}, {1}] = r[0, {1}] + r[1, {1}] + r[2, {1}] + r[3, {1}]
"""


@pytest.mark.parametrize("target", ["cuda", "hip"])
def test_what_is_read_keeps_its_condition(target: str) -> None:
    kernel = dojoir.parse(KEPT)
    assert "< 62" in dojoir.emit(kernel, target).partition("__launch_bounds__")[2]
    runs_right(kernel, kernel, target, N=2)


@pytest.mark.parametrize("target", ["cuda", "hip"])
@pytest.mark.parametrize("threads", [7, 33, 200, 250, 784, 1000])
def test_sums_of_any_number_of_threads(threads: int, target: str) -> None:
    text = f"""kernel sums(N)
in  x: f32[N, {threads}, 2]
out y: f32[N]
out z: f32[N]

N : gx
| y[{{0}}] = 0
| z[{{0}}] = -inf
| {threads} : bx
| | 2
| | | y[{{0}}] += x[{{0}}, {{1}}, {{2}}]
| | | z[{{0}}] max= x[{{0}}, {{1}}, {{2}}] - 100
"""
    kernel = dojoir.parse(text)
    assert threads < 32 or "shfl" in dojoir.emit(kernel, target)
    runs_right(kernel, kernel, target, N=3)


@pytest.mark.parametrize("target", ["cuda", "hip"])
def test_sums_of_rows_of_threads(target: str) -> None:
    """What the threads of a column share is not what those of a row do."""
    kernel = dojoir.parse("""kernel columns(N)
in  x: f32[N, 64, 32]
out y: f32[N, 32]

N : gx
| 32 : bx
| | y[{0}, {1}] = 0
| 16 : by
| | 32 : bx
| | | 4
| | | | y[{0}, {2}] += x[{0}, {1} + 16*{3}, {2}]
""")
    runs_right(kernel, kernel, target, N=2)


def test_warps_that_accumulate_into_one_element_are_refused() -> None:
    kernel = dojoir.parse("""kernel warps(N)
in  x: f32[N, 8, 32]
out y: f32[N]
tmp t: f32[N~, 8~] reg

N : gx
| y[{0}] = 0
| 8 : bx
| | t[{0}, {1}] = 0
| | 32 : lane
| | | t[{0}, {1}] += x[{0}, {1}, {2}]
| | y[{0}] += t[{0}, {1}]
""")
    with pytest.raises(dojoir.KernelError, match="several warps accumulate into y") as error:
        dojoir.emit(kernel, "cuda")
    assert error.value.diagnostic.code == "warps-accumulate"


WINDOW = """kernel window(N)
in  x: f32[N, 64]
in  f: f32[3]
out y: f32[N, 64]
tmp t: f32[66] shared
tmp s: f32[2, 32] reg

N : gx
| 32 : bx
| | 2 : u
| | | s[{2}, {1}] = 0
| | 2 : u
| | | t[1 + {1} + 32*{2}] = x[{0}, {1} + 32*{2}]
| 32 : bx
| | 3 : u
| | | 2 : u
| | | | if {1} + {2} + 32*{3} >= 1
| | | | | if {1} + {2} + 32*{3} < 65
| | | | | | s[{3}, {1}] += t[{1} + {2} + 32*{3}] * f[{2}]
| 32 : bx
| | 2 : u
| | | y[{0}, {1} + 32*{2}] = s[{2}, {1}]
"""


@pytest.mark.parametrize("target", ["cuda", "hip"])
def test_shared_memory_is_read_before_a_condition_is_asked(target: str) -> None:
    """Where an element is there whatever the condition says, compilers may read several neighbours at once. One
    past the end is read behind the condition alone, and so is global memory."""
    kernel = dojoir.parse(WINDOW)
    runs_right(kernel, kernel, target, N=3)
    code = dojoir.emit(kernel, target)
    sums = code[code.index("i3 = 0") :]
    assert 0 < sums.index("loaded_f32(t[") < sums.index("if (") < sums.index(" * f[")
    short = dojoir.parse(WINDOW.replace("f32[66]", "f32[65]"))
    runs_right(short, short, target, N=3)
    assert "loaded_" not in dojoir.emit(short, target)


NEIGHBOURS = """kernel neighbours(N)
in  x: f32[N, 128]
out y: f32[N, 128]
tmp t: f32[128] shared

N : gx
| 32 : bx
| | 4 : v
| | | t[4*{1} + {2}] = x[{0}, 4*{1} + {2}]
| 32 : bx
| | 4 : v
| | | if 32*{1} < 31*32
| | | | y[{0}, 4*{1} + {2}] = t[4*{1} + {2}]
| 32 : bx
| | 4 : u
| | | if {1} >= 31
| | | | y[{0}, 4*{1} + {2}] = t[4*{1} + {2}]
"""


@pytest.mark.parametrize("target", ["cuda", "hip"])
def test_neighbours_under_a_condition_are_moved_at_once(target: str) -> None:
    kernel = dojoir.parse(NEIGHBOURS)
    runs_right(kernel, kernel, target, N=2)
    wide = "(float4 *)&y[" if target == "cuda" else "(f32x4 *)&y["
    assert dojoir.emit(kernel, target).count(wide) == 1


AT_DATA = """kernel at_data(N)
in  x: f32[N, 32]
in  at: i64[32]
out y: f32[N, 32]
tmp t: f32[32] shared

N : gx
| 32 : bx
| | t[{1}] = x[{0}, {1}]
| | y[{0}, {1}] = 0
| 32 : bx
| | if {1} < 7
| | | y[{0}, {1}] = t[{1}] + t[at[{1}]]
"""


@pytest.mark.parametrize("target", ["cuda", "hip"])
def test_elements_at_data_are_read_behind_their_condition(target: str) -> None:
    """Their index may be anything where it does not hold."""
    kernel = dojoir.parse(AT_DATA)
    given = {"x": np.arange(64, dtype=np.float32).reshape(2, 32), "at": np.full(32, 10**9)}
    given["at"][:7] = [6, 5, 4, 3, 2, 1, 0]
    found = dojoir.compile(kernel, target, emulated=True).run(given)["y"]
    np.testing.assert_array_equal(found, dojoir.interpret(kernel, given)["y"])


VERSIONS = """kernel windows(N, G, C, O, H, W)
where H >= 3, W >= 3
in  x: f32[N, G, C, H, W]
in  f: f32[G, O, C, 3, 3]
out y: f32[N, G, O, H - 2, W - 2]
tmp y_tile: f32[1, 1, 1, 2, 4, 1, 1, 16, 4] reg
tmp x_tile: f32[1, 1, 8, 1, 64] shared
tmp f_tile: f32[1, 8, 8, 1, 1] shared order(0, 1, 3, 4, 2) pad(0, 0, 4, 0, 0)

if C == 8 and G == 32 and H == 56 and N == 32 and O == 8 and W == 56
| 32 : gz @n
| | 32 : gy @g
| | | 54 : gx @h
| | | | 2 : by @o_in_in
| | | | | 16 : bx @w_in_in
| | | | | | 1 : u @o_in
| | | | | | | 4 : u @o_in_in_in
| | | | | | | | 1 : u @w_in
| | | | | | | | | 4 : u @w_in_in_in
| | | | | | | | | | if 4*{4} + 64*{7} + {8} < 54
| | | | | | | | | | | y_tile[0, 0, {5}, {3}, {6}, 0, {7}, {4}, {8}] = 0
| | | | 3 @p
| | | | | 3 @q
| | | | | | 1 @c
| | | | | | | 32 : bx
| | | | | | | | 16 : u
| | | | | | | | | if ({6} + 32*{7}) % 64 < -{4} + 56
| | | | | | | | | | x_tile[0, 0, ({6} + 32*{7}) // 64, 0, ({6} + 32*{7}) % 64] = x[{0}, {1}, 8*{5} + ({6} + 32*{7}) // 64, {2} + {3}, {4} + ({6} + 32*{7}) % 64]
| | | | | | | 32 : bx
| | | | | | | | 2 : u
| | | | | | | | | f_tile[0, 4*{7} + {6} // 8, {6} % 8, 0, 0] = f[{1}, 4*{7} + {6} // 8, 8*{5} + {6} % 8, {3}, {4}]
| | | | | | | 2 : by @o_in_rest_in
| | | | | | | | 16 : bx @w_in_rest_in
| | | | | | | | | 8 : u @c_in
| | | | | | | | | | 1 : u @o_in_rest
| | | | | | | | | | | 4 : u @o_in_rest_in_in
| | | | | | | | | | | | 1 : u @w_in_rest
| | | | | | | | | | | | | 4 : u @w_in_rest_in_in
| | | | | | | | | | | | | | if 4*{7} + 64*{11} + {12} < 54
| | | | | | | | | | | | | | | y_tile[0, 0, {9}, {6}, {10}, 0, {11}, {7}, {12}] = fma(x_tile[0, 0, {8}, 0, 4*{7} + 64*{11} + {12}], f_tile[0, 4*{6} + 8*{9} + {10}, {8}, 0, 0], y_tile[0, 0, {9}, {6}, {10}, 0, {11}, {7}, {12}])
| | | | 2 : by
| | | | | 16 : bx
| | | | | | 1 : u
| | | | | | | 4 : u
| | | | | | | | 1 : u
| | | | | | | | | 4 : u
| | | | | | | | | | if 4*{4} + 64*{7} + {8} < 54
| | | | | | | | | | | y[{0}, {1}, 4*{3} + 8*{5} + {6}, {2}, 4*{4} + 64*{7} + {8}] = y_tile[0, 0, {5}, {3}, {6}, 0, {7}, {4}, {8}]
if 9*((C - 1) // 8) + 33*((G - 1) // 32) + 57*((H - 1) // 56) + 33*((N - 1) // 32) + 9*((O - 1) // 8) + 57*((W - 1) // 56) - C - G - H - N - O - W + 192 >= 1
| N : gx @n
| | G : gy @g
| | | O : gz @o
| | | | (H + 5) // 8 @h
| | | | | (W + 29) // 32 @w
| | | | | | min(8, H - 8*{3} - 2) : by @h_in
| | | | | | | min(32, W - 32*{4} - 2) : bx @w_in2
| | | | | | | | y[{0}, {1}, {2}, 8*{3} + {5}, 32*{4} + {6}] = 0
| | | | | | | | C @c
| | | | | | | | | 3 @p
| | | | | | | | | | 3 @q
| | | | | | | | | | | y[{0}, {1}, {2}, 8*{3} + {5}, 32*{4} + {6}] += x[{0}, {1}, {7}, 8*{3} + {5} + {8}, 32*{4} + {6} + {9}] * f[{1}, {2}, {7}, {8}, {9}]
"""  # noqa: E501


def test_a_sum_of_a_version_for_some_sizes_is_not_asked_about() -> None:
    code = dojoir.emit(dojoir.parse(VERSIONS), "cuda")
    before = code[: code.index("fmaf(")]
    assert before.rindex("for (") > before.rindex("if ("), "the sums of a thread have no condition around them"


MEETING = """kernel meeting()
in x: f32[64]
out y: f32[64]
tmp t: f32[64] shared
tmp r: f32[64] reg

1 : gx
| 64 : bx
| | if {1} < 32
| | | t[{1}] = x[{1}]
| | r[{1}] = 0
| 64 : bx
| | 4
| | | if {1} < 32
| | | | LINE
| 64 : bx
| | if {1} >= 32
| | | t[95 - {1}] = 7
| 64 : bx
| | if {1} >= 32
| | | y[{1}] = t[{1}]
| | if {1} < 32
| | | y[{1}] = r[{1}]
"""


@pytest.mark.parametrize("line", ["r[{1}] += t[{1}]", "r[{1}] = sqrt(t[{1}])"])
def test_what_another_thread_writes_meanwhile_is_read_behind_its_condition(
    line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the condition a thread reads what another one writes at that time, which no barrier separates: the
    harness finds the race where the proof does not keep the compiler from it."""
    kernel = dojoir.parse(MEETING.replace("LINE", line))
    dojoir.prove(kernel)
    for order in ("forward", "backward"):
        given = {"x": np.arange(64, dtype=np.float32)}
        found = run(kernel, given, {}, "cuda", order)["y"]
        np.testing.assert_array_equal(found, dojoir.interpret(kernel, given)["y"])
    monkeypatch.setattr(device_code, "are_separated_unasked", lambda *_: True)
    program = lower(kernel, CUDA)
    with pytest.raises(dojoir.RunError, match="race"):
        run(kernel, given, {}, program=GpuProgram("cuda", print_gpu(program, "cuda"), program))
