"""The model of a GPU orders pairs of schedules like some that an H200 ran 5 times as fast or more."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

import dojoir
from dojoir.backends.host import machine_named
from dojoir.costs.launches import crosses_launches, floor_seconds, launch_seconds
from dojoir.costs.thread_work import CountedLoop, Work, warps_of
from dojoir.ir.nodes import Condition

SUM = "(x[{r}, {c}] + 2 * x[{r}, {c} + 1] + x[{r}, {c} + 2] + 2 * x[{r} + 1, {c}] + x[{r} + 2, {c} + 1]) / 16"


def _blurred(nest: str, row: str, column: str) -> str:
    value = SUM.replace("{r}", row).replace("{c}", column)
    head = "kernel blurred(N = 8192, M = 4096)\nin  x: f32[8192, 4096]\nout y: f32[8190, 4094]\n\n"
    return f"{head}{nest}y[{row}, {column}] = {value}\n"


NEIGHBOURS = _blurred(
    "1024 : gy\n| 16 : gx\n| | min(256, -256*{1} + 4094) : bx\n"
    "| | | 8 : u\n| | | | if {3} < -8*{0} + 8190\n| | | | | ",
    "8*{0} + {3}",
    "256*{1} + {2}",
)
PARTS = _blurred(
    "8190 : gx\n| 43 : by\n| | 43 : u\n| | | min(23, -23*{1} + 96, -23*{1} - 96*{2} + 4094)\n| | | | ",
    "{0}",
    "23*{1} + 96*{2} + {3}",
)

QUANTISED = """kernel quantised(N = 16384, B = 256)
in  x: f32[16384, 8192]
out q: f8e4m3[16384, 8192]

16384 : gx
| 2
| | 128 : bx
| | | 2 : u
| | | | LANES : v
| | | | | q[{0}, 4096*{1} + 32*{2} + STEP*{3} + {4}] = sat(f8e4m3, x[{0}, 4096*{1} + 32*{2} + STEP*{3} + {4}])
"""

SUMS = """kernel sums(N = 65536, K = 4096)
in  a: f32[65536, 4096]
out c: f32[65536, 16]
tmp t: f32[65536~, 16] reg

256 : gx
| 256 : bx
| | 16 : u
| | | t[256*{0} + {1}, {2}] = 0
| | 256
| | | 16 MARK
| | | | t[256*{0} + {1}, {3}] += a[256*{0} + {1}, 16*{2} + {3}]
| | 16 : u
| | | c[256*{0} + {1}, {2}] = t[256*{0} + {1}, {2}]
"""

SHUFFLED = """kernel shuffled(C = 256)
in  x: f32[256, 2, 2, 224, 224]
out y: f32[256, 224, 2, 224, 2]

256 : gx
| 224 : gy
| | 2 : gz
| | | 28
| | | | 1
| | | | | min(8, -8*{3} + 224) : by
| | | | | | min(32, -32*{4} + 2) : bx
| | | | | | | y[{0}, {1}, {2}, 8*{3} + {5}, {6}] = x[{0}, {2}, {6}, {1}, 8*{3} + {5}]
"""
"""1,547 us: each warp has two threads with something to do."""

WHOLE = """kernel shuffled(C = 256)
in  x: f32[256, 2, 2, 224, 224]
out y: f32[256, 224, 2, 224, 2]

256 : gx
| 224 : gy
| | 14
| | | min(8, 2) : by
| | | | 32 : bx
| | | | | y[{0}, {1}, {3}, 16*{2} + {4} // 2, {4} % 2] = x[{0}, {3}, {4} % 2, {1}, 16*{2} + {4} // 2]
"""
"""109 us."""

PAIRS = {
    "warps of which all threads work, and warps of which two do": (WHOLE, SHUFFLED),
    "threads side by side, and threads of parts of a row": (NEIGHBOURS, PARTS),
    "lanes that are aligned, and lanes that are not": (
        QUANTISED.replace("LANES", "16").replace("STEP", "16"),
        QUANTISED.replace("LANES", "min(24, -24*{3} + 32)").replace("STEP", "24"),
    ),
    "an array of a thread in registers, and one with an index": (
        SUMS.replace("MARK", ": u"),
        SUMS.replace(" MARK", ""),
    ),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_the_faster_one_is_said_to_be(pair: str) -> None:
    machine = dojoir.machine_for("cuda")
    faster, slower = (launch_seconds(dojoir.parse(text), machine, {}) for text in PAIRS[pair])
    assert faster < slower


def test_no_condition_is_looked_at_for_each_of_many_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scope of open extent in lanes took minutes to plan."""
    asked = []
    holds = Work.holds

    def counted(work: Work, condition: Condition, at: Iterable[tuple[int, int]]) -> bool:
        asked.append(1)
        return holds(work, condition, at)

    monkeypatch.setattr(Work, "holds", counted)
    for size in (16, 10**8):
        asked.clear()
        text = (
            f"kernel f(N = {size})\nin x: f32[N]\nout y: f32[N]\n\nN : v\n| if {{0}} < 3\n| | y[{{0}}] = x[{{0}}]\n"
        )
        kernel = dojoir.parse(text + "| if {0} >= 3\n| | y[{0}] = 0\n")
        assert launch_seconds(kernel, dojoir.machine_for("cuda"), {}) > 0
        assert len(asked) == (2 * size if size == 16 else 0)


@pytest.mark.parametrize(
    ("loops", "warps"),
    [
        ([CountedLoop(256, ("bx",), most=256)], 8),
        ([CountedLoop(2, ("bx",), most=32), CountedLoop(8, ("by",), most=8)], 8),  # two threads of each warp
        ([CountedLoop(2, ("bx",), most=2), CountedLoop(8, ("by",), most=8)], 1),
        ([CountedLoop(40, ("bx",), most=256)], 2),  # the other six end at once
        ([CountedLoop(4, ("bx",), most=4), CountedLoop(32, ("lane",), most=32)], 4),
        ([CountedLoop(100, ("bx",)), CountedLoop(3, ("by",))], 12),
        ([], 1),
    ],
)
def test_warps_are_those_with_something_to_do(loops: list[CountedLoop], warps: int) -> None:
    assert warps_of(loops) == warps


def test_the_model_knows_what_is_far_apart() -> None:
    """Host code on one thread, threads that walk along rows, neighbours that read neighbours: each faster."""
    machine = machine_named("cuda")
    texts = [
        "N\n| M\n| | y[{0}, {1}] = 2 * x[{0}, {1}]\n",
        "N // 256 : gx\n| 256 : bx\n| | M\n| | | y[256*{0} + {1}, {2}] = 2 * x[256*{0} + {1}, {2}]\n",
        "N : gx\n| 256 : bx\n| | M // 256\n| | | y[{0}, {1} + 256*{2}] = 2 * x[{0}, {1} + 256*{2}]\n",
    ]
    header = "kernel t(N = 8192, M = 4096)\nin x: f32[N, M]\nout y: f32[N, M]\n\n"
    kernels = [dojoir.parse(header + text) for text in texts]
    seconds = [launch_seconds(kernel, machine, {}) for kernel in kernels]
    assert seconds == sorted(seconds, reverse=True)
    assert seconds[-1] >= floor_seconds(kernels[0], machine, {})


def test_a_register_connects_no_launches() -> None:
    kernel = dojoir.parse("""kernel t(N)
in  x: f32[N]
out y: f32[N]
tmp t: f32[N~] reg

N : gx
| t[{0}] = x[{0}]
| y[{0}] = t[{0}]
""")
    assert not crosses_launches(kernel)
    other = "kernel t(N)\nin x: f32[N]\nout y: f32[N]\ntmp t: f32 reg\n\nt = 1\nN : gx\n| y[{0}] = x[{0}] + t\n"
    assert crosses_launches(dojoir.parse(other))
