"""How high and wide register tiles are, where rows and columns are known."""

from __future__ import annotations

import pytest

import dojoir
from dojoir.backends.host import machine_named
from dojoir.passes.schedule.cpu.tiles.tile_shape import default_shape, shape_for, sums_in_lanes, window_shape

MACHINES = {"avx512": 16, "znver4": 16, "avx2": 8, "znver3": 8, "neon": 4}
"""Machines, and how many f32 a vector has."""


@pytest.mark.parametrize("name", MACHINES)
def test_every_shape_fits_into_the_registers(name: str) -> None:
    machine, lanes = machine_named(name), MACHINES[name]
    for rows in (None, 1, 2, 3, 5, 7, 12, 13, 14, 25, 31, 64, 999):
        for columns in (None, 1, 3, lanes, lanes + 1, 28, 46, 63, 65, 100, 1000):
            high, wide = shape_for(machine, lanes, rows, columns)
            vectors = wide // lanes
            assert wide % lanes == 0 and 1 <= wide <= 64 and high >= 1
            assert high * vectors + vectors + 1 <= machine.registers or (high, wide) == default_shape(
                machine, lanes
            )
            assert rows is None or high <= rows
            assert columns is None or wide < columns + lanes


def test_where_nothing_is_known_or_all_is_large_the_tile_is_the_usual_one() -> None:
    for name, lanes in MACHINES.items():
        machine = machine_named(name)
        usual = default_shape(machine, lanes)
        assert shape_for(machine, lanes, None, None) == usual
        assert shape_for(machine, lanes, 1024, 1024) == usual


def test_no_rows_are_left_of_a_few() -> None:
    """What is left of the rows costs two tiles: 7 rows are one tile of 7, not one of 6 and a rest."""
    machine = machine_named("avx512")
    for rows in (7, 13, 14):
        assert shape_for(machine, 16, rows, 1000)[0] == rows
    assert 16 % shape_for(machine, 16, 16, 28)[0] == 0


def test_lanes_that_work_in_vain_are_counted() -> None:
    machine = machine_named("avx512")
    assert shape_for(machine, 16, 65, 65)[1] == 16, "80 lanes for 65 columns, where tiles of 64 run 128"
    assert shape_for(machine, 16, 1000, 28)[1] == 32


def test_a_few_columns_are_summed_in_lanes_only_where_the_sum_is_long() -> None:
    assert sums_in_lanes(16, 1, 1000) and sums_in_lanes(16, 3, 914) and sums_in_lanes(8, 3, None)
    assert not sums_in_lanes(16, 8, 1000), "a half of the lanes of a tile is more"
    assert not sums_in_lanes(16, 3, 16) and not sums_in_lanes(16, 8, 4), "adding lanes up costs more than the sum"


@pytest.mark.parametrize("name", ["matmul", "matmul_nt", "matmul_tn"])
@pytest.mark.parametrize("sizes", [(40, 8, 4), (7, 40, 9), (13, 33, 5), (65, 65, 7), (5, 3, 2), (31, 17, 40)])
def test_tiles_of_every_shape_are_right(name: str, sizes: tuple[int, int, int]) -> None:
    kernel = dojoir.kernels.load(name)
    for machine in ("avx512", "avx2"):
        known = dict(zip(("N", "M", "K"), sizes, strict=True))
        scheduled = (
            dojoir.PASSES["default_schedule"].for_sizes(known).for_machine(machine_named(machine)).on(kernel)
        )
        report = dojoir.verify(scheduled.kernel, against=kernel, seeds=(1,), sizes=known, distributions=("normal",))
        assert report, (machine, dojoir.to_text(scheduled.kernel), str(report))


def test_lanes_of_a_convolution_are_columns_where_sums_are_short_or_channels_few() -> None:
    """Results whose lanes are channels are stored one by one: that is as much as a short sum."""
    machine = machine_named("avx512")
    assert window_shape(machine, 16, 128, 28, 64, strided=False) == (False, 8, 32)
    assert window_shape(machine, 16, 8, 26, 72, strided=False) == (False, 8, 32)
    assert window_shape(machine, 16, 64, 56, 576, strided=False)[0]
    assert window_shape(machine, 16, 128, 28, 64, strided=True) == (True, 32, 14), (
        "no columns are left of two tiles"
    )


@pytest.mark.parametrize("name", MACHINES)
def test_the_tile_of_a_convolution_fits_into_the_registers(name: str) -> None:
    machine, lanes = machine_named(name), MACHINES[name]
    for channels in (None, 2, 7, 16, 32, 64, 100):
        for columns in (None, 1, 5, 28, 56, 61):
            for strided in (False, True):
                across, high, wide = window_shape(machine, lanes, channels, columns, 64, strided)
                vectors, rows = (high // lanes, wide) if across else (wide // lanes, high)
                assert rows * vectors + vectors + 1 <= machine.registers
                assert across or not strided


SHORT = """kernel short(N, M, K)
in  a: f32[N, K]
in  b: f32[{b}]
out c: f32[N, M]

N @i
| M @j
| | c[{{i}}, {{j}}] = 0
| | K @k
| | | c[{{i}}, {{j}}] += a[{{i}}, {{k}}] * b[{read}]
"""


def first_scope(kernel: dojoir.Kernel, **sizes: int) -> str:
    """The outermost scope around the tiles of a product, by the schedule for one core."""
    found = dojoir.PASSES["default_schedule"].for_machine(machine_named("znver4")).for_sizes(sizes).on(kernel)
    return next(line for line in str(found.kernel).splitlines() if line.endswith(("@i", "@j")))


@pytest.mark.parametrize(("b", "read"), [("K, M", "{k}, {j}"), ("M, K", "{j}, {k}")])
def test_a_large_result_of_short_sums_is_written_row_by_row(b: str, read: str) -> None:
    kernel = dojoir.parse(SHORT.format(b=b, read=read))
    assert "@i" in first_scope(kernel, N=2000, M=1900, K=9)
    for sizes in ({"N": 2000, "M": 1900, "K": 300}, {"N": 300, "M": 300, "K": 9}, {"N": 2000, "M": 1900}):
        assert "@j" in first_scope(kernel, **sizes)
    made = dojoir.optimize(kernel, sizes={"N": 2000, "M": 1900, "K": 9}, threads=1).kernel
    report = dojoir.verify(made, kernel, sizes=[{"N": 1, "M": 1, "K": 1}, {"N": 13, "M": 130, "K": 9}])
    assert report.ok, str(report)
