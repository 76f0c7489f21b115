"""What neighbours of a thread compute alike is computed once, and rows at indices from data are moved widely."""

from __future__ import annotations

import numpy as np
import pytest

import dojoir

ROWS = """kernel rows(N, S)
in    at: i64[N] distinct
in    k: f32[N, 64]
inout y: f32[S, 64]
N : gx
| 16 : bx
| | 4 : v
| | | y[at[{0}], 4*{1} + {2}] = k[{0}, 4*{1} + {2}] + 1
"""


@pytest.mark.parametrize("target", ["cuda", "hip"])
def test_rows_at_data_are_moved_by_wide_accesses(target: str) -> None:
    kernel = dojoir.parse(ROWS)
    text = dojoir.emit(kernel, target)
    assert text.count("= at[") == 1
    assert "*(float4 *)&y[" in text or "*(f32x4 *)&y[" in text
    given = dojoir.testing.random_inputs(kernel, N=5, S=9, seed=1)
    found = dojoir.compile(kernel, target, emulated=True).run(given)
    np.testing.assert_array_equal(found["y"], dojoir.interpret(kernel, given)["y"])


def test_an_index_that_is_out_of_range_is_found() -> None:
    kernel = dojoir.parse(ROWS)
    given = dojoir.testing.random_inputs(kernel, N=5, S=9, seed=1)
    given["at"][3] = 9
    with pytest.raises(dojoir.DojoError, match="y"):
        dojoir.compile(kernel, "cuda", emulated=True).run(given)


def test_an_index_that_the_neighbours_change_is_read_again() -> None:
    """Each neighbour stores to the array that the index is read from."""
    kernel = dojoir.parse("""kernel moved(N)
in    x: f32[64]
inout at: i64[N, 8]
out   y: f32[N, 4]
N : gx
| 1 : bx
| | 4 : v
| | | y[{0}, {2}] = x[at[{0}, 4]]
| | | at[{0}, {2}] = 3
""")
    given = dojoir.testing.random_inputs(kernel, N=5, seed=1)
    found = dojoir.compile(kernel, "cuda", emulated=True).run(given)
    expected = dojoir.interpret(kernel, given)
    np.testing.assert_array_equal(found["y"], expected["y"])
    np.testing.assert_array_equal(found["at"], expected["at"])


def test_zeros_of_both_signs_are_two_values() -> None:
    kernel = dojoir.parse("""kernel signs(N)
in  x: f32[N]
out y: f32[N, 4]
out z: f32[N, 4]
N : gx
| 1 : bx
| | 4 : v
| | | y[{0}, {2}] = x[{0}] * 0.0
| | | z[{0}, {2}] = x[{0}] * -0.0
""")
    given = {"x": np.array([1.0, -1.0, 2.0], np.float32)}
    found = dojoir.compile(kernel, "cuda", emulated=True).run(given)
    expected = dojoir.interpret(kernel, given)
    for name in ("y", "z"):
        np.testing.assert_array_equal(np.signbit(found[name]), np.signbit(expected[name]))
