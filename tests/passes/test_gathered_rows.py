"""Sums of rows that lie where data say, in registers on a CPU."""

from __future__ import annotations

import numpy as np
import pytest
from agreement import agree

import dojoir
from dojoir.backends.host import machine_named
from dojoir.passes.schedule.cpu.structures import use

BAGS = """kernel bags(N, M, Z, V, D)
in  at: i64[N + 1]
in  ids: i64[Z]
in  w: f32[V, D]
out y: f32[N, D]

N @i
| D @d
| | y[{i}, {d}] = 0
| min(at[{i} + 1] - at[{i}], M) @j
| | D @d
| | | y[{i}, {d}] += w[ids[at[{i}] + {j}], {d}]
"""

MEANS = """kernel means(N, L, V, D)
in  ids: i64[N, L]
in  w: f32[V, D]
out y: f32[N, D]

N @i
| D @z
| | y[{i}, {z}] = 0
| L @l
| | D @d
| | | y[{i}, {d}] += w[ids[{i}, {l}], {d}]
| D @e
| | y[{i}, {e}] = y[{i}, {e}] / L
"""


def in_registers(text: str, sizes: dict[str, int], machine: str = "avx512") -> dojoir.Trace:
    trace = dojoir.Trace(dojoir.parse(text))
    use(trace, "gathered_rows", machine_named(machine), sizes)
    return trace


@pytest.mark.parametrize(("columns", "width"), [(None, 32), (10, 16), (40, 48), (64, 64), (500, 64)])
def test_a_tile_is_as_wide_as_the_rows_or_some_vectors(columns: int | None, width: int) -> None:
    trace = in_registers(BAGS, {} if columns is None else {"D": columns})
    assert f"tmp y_tile: f32[1, {width}] reg" in dojoir.to_text(trace.kernel)
    assert dojoir.certify(trace)


def test_rows_that_lie_side_by_side_and_other_sums_stay_as_they_are() -> None:
    for text in (
        MEANS.replace("w[ids[{i}, {l}], {d}]", "w[{l}, {d}]").replace("w: f32[V, D]", "w: f32[L, D]"),
        MEANS.replace("w[ids[{i}, {l}], {d}]", "w[{d}, ids[{i}, {l}]]").replace("w: f32[V, D]", "w: f32[D, V]"),
        MEANS.replace("y[{i}, {z}] = 0", "y[{i}, {z}] += 0").replace("out y", "inout y"),
    ):
        assert not in_registers(text, {}).moves


@pytest.mark.parametrize("columns", [1, 31, 32, 33, 100])
@pytest.mark.parametrize("target", ["llvm", "c"])
def test_bags_of_every_length_are_summed(target: str, columns: int) -> None:
    """Empty bags too, and in the masked part of a row each ends where its data say."""
    kernel = dojoir.parse(BAGS)
    random = np.random.default_rng(columns)
    at = np.sort(np.append(random.integers(0, 41, 8), [0, 40])).astype(np.int64)
    inputs = {
        "at": at,
        "ids": random.integers(0, 7, 40),
        "w": random.integers(-9, 9, (7, columns)).astype(np.float32),
    }
    sizes = {"N": 9, "M": 30, "Z": 40, "V": 7, "D": columns}
    made = dojoir.optimize(kernel, target, threads=1).kernel
    assert "y_tile" in str(made)
    expected = dojoir.interpret(kernel, inputs, **sizes)
    found = dojoir.compile(made, target).run(inputs, **sizes)
    assert agree(kernel, expected, found, exact=False) is None


def test_what_is_done_with_a_row_afterwards_reads_it_from_memory() -> None:
    kernel = dojoir.optimize(dojoir.parse(MEANS), "llvm", threads=1).kernel
    random = np.random.default_rng(0)
    inputs = {"ids": random.integers(0, 5, (4, 6)), "w": random.integers(-9, 9, (5, 70)).astype(np.float32)}
    found = dojoir.compile(kernel, "llvm").run(inputs, N=4, L=6, V=5, D=70)["y"]
    assert "y_tile" in str(kernel)
    assert np.allclose(found, inputs["w"][inputs["ids"]].mean(axis=1))


def test_the_masked_part_of_a_row_ends_where_its_data_say() -> None:
    """What is left of a row runs at least once wherever its tile does, so its bag is asked once for its length."""
    made = in_registers(BAGS, {}).kernel
    for place in ("0.0.0", "0.0.1.1", "0.0.2"):
        made = dojoir.apply(made, f"vectorize({place})")
    code = dojoir.emit(made, target="avx512")
    loops = [line for line in code.splitlines() if "for (int64_t j" in line]
    assert len(loops) == 2 and all("at[i + 1]" in line for line in loops)
