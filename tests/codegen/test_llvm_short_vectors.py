"""Lanes that are off in vectors shorter than a register: LLVM makes such vectors longer, not their work."""

from __future__ import annotations

import numpy as np
import pytest

import dojoir
from dojoir.runtime.build.llvm_masks import with_single_lanes_apart

WIDE, NARROW = ("i64", "f64", "i32"), ("i8", "u8", "i16", "f16", "bool")


@pytest.mark.parametrize("wide", WIDE)
@pytest.mark.parametrize("narrow", NARROW)
def test_nothing_is_written_behind_the_last_lane(narrow: str, wide: str) -> None:
    """A vector has as many lanes as the widest type of its scope allows: of narrow elements less than 16 bytes."""
    one = "0 == 0" if narrow == "bool" else "1"
    other = "0 == 1" if narrow == "bool" else "5"
    text = f"""kernel rows(M)
out a: {narrow}[6, 3, M]
out b: {wide}[6, 3, M]

6
| M
| | a[5 - {{0}}, 0, {{1}}] = {other}
| | b[5 - {{0}}, 0, {{1}}] = 5
| 2
| | a[5 - {{0}}, {{1}} + 1, 0] = {one}
| | b[5 - {{0}}, {{1}} + 1, 0] = 1
| | M - 1 : v
| | | a[5 - {{0}}, {{1}} + 1, {{2}} + 1] = {one}
| | | b[5 - {{0}}, {{1}} + 1, {{2}} + 1] = 1
"""
    kernel = dojoir.parse(text)
    compiled = dojoir.compile(kernel, "llvm", threads=1)
    for size in range(2, 40):
        expected, found = dojoir.interpret(kernel, {}, M=size), compiled.run({}, M=size)
        for name in ("a", "b"):
            assert np.array_equal(expected[name], found[name]), f"{name} of {size} columns"


@pytest.mark.parametrize("narrow", ("i8", "i16", "f16"))
def test_nothing_is_read_behind_the_last_lane(narrow: str) -> None:
    text = f"""kernel total(M)
in a: {narrow}[M]
in b: f64[M]
out s: f64[M]

M : v
| s[{{0}}] = b[{{0}}] + f64(a[{{0}}])
"""
    kernel = dojoir.parse(text)
    for size in (1, 2, 3, 5, 7, 9, 13, 31):
        assert dojoir.verify(kernel, target="llvm", sizes={"M": size}), size


def test_a_single_lane_that_is_narrowed_writes_no_more_than_itself() -> None:
    """LLVM wrote the wide integer where the mask of a narrowing store is a constant with one lane."""
    text = """kernel three(M)
in  x: i64[3]
out y: u32[3]
out z: u16[3]
tmp t: i64[3]

3 : v
| y[{0}] = 0
| z[{0}] = 0
| if {0} + 2 < 3
| | t[{0}] = x[{0}]
| M
| | if {0} + 2 < 3
| | | t[{0}] min= {1} - 9
| if {0} + 2 < 3
| | y[{0}] = u32(t[{0}])
| | z[{0}] = u16(t[{0}])
"""
    kernel, given = dojoir.parse(text), {"x": np.array([1 << 40, -1, -1])}
    expected, found = dojoir.interpret(kernel, given, M=5), dojoir.compile(kernel, "llvm").run(given, M=5)
    assert all(np.array_equal(expected[name], found[name]) for name in "yz"), found


def test_masked_stores_of_a_single_lane_are_scalar_ones() -> None:
    store = (
        "  tail call void @llvm.masked.store.v4i32.p0(<4 x i32> %v.2, ptr nonnull align 4 %.a2, <4 x i1> <i1 {}>)\n"
    )
    one, two = (store.format(f"false, i1 true, i1 {third}, i1 false") for third in ("false", "true"))
    assert with_single_lanes_apart(one) == (
        "  %single.lane.1 = extractelement <4 x i32> %v.2, i64 1\n"
        "  %single.lane.1.at = getelementptr i32, ptr %.a2, i64 1\n"
        "  store i32 %single.lane.1, ptr %single.lane.1.at, align 4\n"
    )
    assert with_single_lanes_apart(two) is not one and with_single_lanes_apart(two) == two
