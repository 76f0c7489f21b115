"""Which stands outside in a convolution, its rows or its blocks of channels: by what a core's cache keeps."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

import dojoir
from dojoir.passes.schedule.facts.strides import footprint

POINTS = """kernel points(N, C, O, H, W)
in  x: f32[N, C, H, W]
in  f: f32[O, C]
out y: f32[N, O, H, W]

N @n
| O @o
| | H @h
| | | W @w
| | | | y[{n}, {o}, {h}, {w}] = 0
| | | | C @c
| | | | | y[{n}, {o}, {h}, {w}] += x[{n}, {c}, {h}, {w}] * f[{o}, {c}]
"""
VOLUMES = """kernel volumes(C, O, D, H, W)
where D >= 3, H >= 3, W >= 3
in  x: f32[C, D, H, W]
in  f: f32[O, C, 3, 3, 3]
out y: f32[O, D - 2, H - 2, W - 2]

O @o
| D - 2 @d
| | H - 2 @h
| | | W - 2 @w
| | | | y[{o}, {d}, {h}, {w}] = 0
| | | | C @c
| | | | | 3 @r
| | | | | | 3 @p
| | | | | | | 3 @q
| | | | | | | | y[{o}, {d}, {h}, {w}] += x[{c}, {d} + {r}, {h} + {p}, {w} + {q}] * f[{o}, {c}, {r}, {p}, {q}]
"""
ROWS = """kernel rows(C, O, L)
where L >= 3
in  x: f32[C, L]
in  f: f32[O, C, 3]
out y: f32[O, L - 2]

O @o
| L - 2 @l
| | y[{o}, {l}] = 0
| | C @c
| | | 3 @k
| | | | y[{o}, {l}] += x[{c}, {l} + {k}] * f[{o}, {c}, {k}]
"""
LARGE = {"N": 1, "C": 256, "O": 64, "H": 56, "W": 56}


def scheduled(text: str, sizes: dict[str, int], second: int = 2 << 20) -> dojoir.Trace:
    """The schedule for one core with a second cache of so many bytes."""
    machine = replace(dojoir.machine_for("avx512"), cores=1, caches=(48 << 10, second))
    return dojoir.PASSES["default_schedule"].for_machine(machine).for_sizes(sizes).on(dojoir.parse(text))


def order(trace: dojoir.Trace) -> str:
    """The scopes around the sum by their names, as far as its columns."""
    names = "".join(re.findall(r"@(\w)\n", str(trace.kernel)))
    return re.sub("(?<=[wl]).*", "", names)


@pytest.mark.parametrize(
    ("sizes", "second", "expected"),
    [
        (LARGE, 2 << 20, "nhow"),  # an image of 3.2 MB, and 64 KB of filters
        (LARGE, 4 << 20, "nohw"),  # the cache keeps the image
        (LARGE, 64 << 10, "nohw"),  # it does not keep the filters either
        (LARGE | {"C": 64}, 2 << 20, "nohw"),  # an image of 0.8 MB
        (LARGE | {"N": 8, "C": 64}, 2 << 20, "nohw"),  # each image is of 0.8 MB
        (LARGE | {"O": 8}, 2 << 20, "nohw"),  # one block
        (LARGE | {"O": 4096}, 2 << 20, "nohw"),  # 4 MB of filters
        ({name: LARGE[name] for name in "COW"}, 2 << 20, "nhow"),  # however many rows
        ({name: LARGE[name] for name in "COH"}, 2 << 20, "nohw"),  # a row may be long
        ({}, 2 << 20, "nohw"),
    ],
)
def test_rows_stand_outside_where_the_image_is_too_large_and_a_row_is_not(
    sizes: dict[str, int], second: int, expected: str
) -> None:
    assert order(scheduled(POINTS, sizes, second)) == expected


def test_as_few_scopes_stand_outside_as_leave_room() -> None:
    sizes = {"C": 8, "O": 64, "D": 34, "H": 34, "W": 34}
    filters, plane, line = 64 * 8 * 27 * 4, (8 * 3 * 34 + 64 * 32) * 34 * 4, (8 * 9 + 64) * 34 * 4
    assert order(scheduled(VOLUMES, sizes, 2 << 20)) == "odhw"
    assert order(scheduled(VOLUMES, sizes, filters + plane)) == "dohw"
    assert order(scheduled(VOLUMES, sizes, filters + line)) == "dhow"
    assert order(scheduled(VOLUMES, sizes, filters)) == "odhw"


def test_tiles_of_one_row_are_never_outside() -> None:
    assert order(scheduled(ROWS, {"C": 32, "O": 64, "L": 65536}, 1 << 20)) == "ol"


@pytest.mark.parametrize(
    ("text", "sizes", "second", "expected"),
    [
        (POINTS, {"N": 2, "C": 9, "O": 70, "H": 21, "W": 19}, 10 << 10, "nhow"),
        (VOLUMES, {"C": 5, "O": 70, "D": 40, "H": 5, "W": 17}, 64 << 10, "dohw"),
        (VOLUMES, {"C": 5, "O": 70, "D": 6, "H": 40, "W": 17}, 56 << 10, "dhow"),
    ],
)
def test_the_order_changes_no_result(text: str, sizes: dict[str, int], second: int, expected: str) -> None:
    trace = scheduled(text, sizes, second)
    assert order(trace) == expected
    assert dojoir.verify(trace, sizes=sizes).ok


def test_a_footprint_is_what_is_reached_but_no_more_than_the_array() -> None:
    kernel = dojoir.parse(VOLUMES)
    image = next(a for a in kernel.sites[-1].statement.reads if a.buffer == "x")
    sizes = {"C": 4, "D": 10, "H": 10, "W": 10}
    line = {3: 8, 4: 4, 5: 3, 6: 3, 7: 3}
    assert footprint(kernel, [image], line, sizes) == 4 * 4 * 3 * 3 * 10
    assert footprint(kernel, [image], line | {3: 1000}, sizes) == 4 * 4 * 3 * 3 * 10
    assert footprint(kernel, [image], line | {3: None}, sizes) == 4 * 4 * 3 * 3 * 10
    assert footprint(kernel, [image], line | {3: None}, {}) is None
    assert footprint(kernel, [image], line, {}) == 4 * 4 * 3 * 3 * 10


PADDED = """kernel padded(N, C, O, H, W)
in  x: f32[N, C, H, W]
in  f: f32[O, C, 3, 3]
out y: f32[N, O, H, W]

N @n
| O @o
| | H @h
| | | W @w
| | | | y[{n}, {o}, {h}, {w}] = 0
| | | | C @c
| | | | | 3 @p
| | | | | | if {h} + {p} >= 1 and {h} + {p} < H + 1
| | | | | | | 3 @q
| | | | | | | | if {w} + {q} >= 1 and {w} + {q} < W + 1
| | | | | | | | | y[{n}, {o}, {h}, {w}] += x[{n}, {c}, {h} + {p} - 1, {w} + {q} - 1] * f[{o}, {c}, {p}, {q}]
"""


@pytest.mark.parametrize("machine", ["avx512", "avx2"])
def test_what_blocks_of_channels_share_of_an_image_is_copied_once_for_a_row(machine: str) -> None:
    kernel, sizes = dojoir.parse(PADDED), {"N": 1, "C": 32, "O": 64, "H": 256, "W": 256}
    room = replace(dojoir.machine_for(machine), cores=1, caches=(32 << 10, 512 << 10))
    trace = dojoir.PASSES["default_schedule"].for_machine(room).for_sizes(sizes).on(kernel)
    assert "x_rows" in [buffer.name for buffer in trace.kernel.buffers]
    for few in ({"N": 2, "C": 3, "O": 35, "H": 5, "W": 13}, {"N": 1, "C": 1, "O": 1, "H": 1, "W": 1}):
        assert dojoir.verify(trace.kernel, kernel, sizes=few, seeds=(1,))
