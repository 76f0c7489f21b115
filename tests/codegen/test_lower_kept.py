"""Reductions in lanes that go into several elements: each iteration of an unrolled scope inside keeps a sum of its
own in registers until the lanes end."""

from __future__ import annotations

import pytest
from able import runs

import dojoir
from dojoir.codegen.lir.program import Declare, For, Reduce
from dojoir.codegen.lir.walk import parts, statements, values
from dojoir.codegen.lower.pipeline import lower
from dojoir.codegen.target import Target

WIDE = Target("llvm", 512, "mask", frozenset({"f16"}), 32)
NARROW = Target("llvm", 256, "scalar", frozenset(), 16)
STRIPS = Target("rvv", 128, "vl", frozenset({"f16"}), 32)

ROWS = """
kernel rows(N, M)
in  x: f32[N, M]
out y: f32[N]
N : v
| y[{0}] = 0
N // 4
| M : v @j
| | 4 : u
| | | y[4*{0} + {2}] += x[4*{0} + {2}, {1}]
N - 4*(N // 4)
| M : v
| | y[{0} + 4*(N // 4)] += x[{0} + 4*(N // 4), {1}]
"""

BLOCK = """
kernel block(M)
in    x: f32[2, M]
in    w: f32[3, M]
inout y: f32[2, 3]
inout z: f32[2]
M : v @j
| 2 : u
| | 3 : u
| | | y[{1}, {2}] max= x[{1}, {0}] * w[{2}, {0}]
| | if {0} % 2 == 0
| | | z[{1}] += x[{1}, {0}]
"""

TWICE = """
kernel twice(M)
in    x: f32[4, M]
inout y: f32[4]
M : v @j
| 4 : u
| | y[{1}] += x[{1}, {0}]
| | y[{1}] += 2
"""

NO_SUMS = """
kernel apart(M)
in    x: f32[4, M]
inout y: f32[4]
M : v @j
| 4 : u
| | y[{1}] += x[{1}, {0}]
| 3 : u
| | y[{1}] += 1
"""

MANY = """
kernel many(M)
in    x: f32[32, M]
inout y: f32[32]
M : v @j
| 32 : u
| | y[{1}] += x[{1}, {0}]
"""


def sums(text: str, target: Target) -> int:
    """How many variables of several lanes a kernel adds up in."""
    found = statements(lower(dojoir.parse(text), target).body)
    return sum(isinstance(s, Declare) and s.var.type.lanes > 1 for s in found)


@pytest.mark.parametrize(
    ("text", "count"),
    [(ROWS, 4 + 1), (BLOCK, 6 + 2), (TWICE, 4), (NO_SUMS, 0), (MANY, 0)],
    ids=["rows", "block", "twice", "apart", "many"],
)
@pytest.mark.parametrize("target", [WIDE, NARROW, STRIPS], ids=["mask", "scalar", "vl"])
def test_each_iteration_of_the_unrolled_scopes_has_a_variable(text: str, count: int, target: Target) -> None:
    """And one more for what is left of a row, a register at a time, where the loop has several of them."""
    more = {WIDE: count, NARROW: text == ROWS, STRIPS: 0}[target]
    assert sums(text, target) == count + more


def test_lanes_are_added_up_once_after_the_loop() -> None:
    for loop in (s for s in statements(lower(dojoir.parse(ROWS), WIDE).body) if isinstance(s, For)):
        if loop.var.name == "j":
            inside = [part for s in statements(loop.body) for value in values(s) for part in parts(value)]
            assert not any(isinstance(part, Reduce) for part in inside)


@pytest.mark.parametrize(
    "text", [ROWS, BLOCK, TWICE, NO_SUMS, MANY], ids=lambda text: text.split("(")[0].split()[-1]
)
@pytest.mark.parametrize("target", ["llvm", "c", "avx512", "avx2"])
def test_the_results_are_right(text: str, target: str) -> None:
    runs(target)
    kernel = dojoir.parse(text)
    sizes = [
        {"M": m} if len(kernel.sizes) == 1 else {"N": n, "M": m} for n, m in ((1, 1), (4, 64), (9, 33), (7, 95))
    ]
    report = dojoir.verify(kernel, target=target, sizes=sizes, seeds=1)
    assert report.ok, report


IMAGE = """
kernel image(C, N, H, W)
in  x: f32[N, C, H, W]
out y: f32[C]
out z: f32[C]
tmp s: f32[C~] reg
C : p @c
| s[{0}] = 0
| y[{0}] = -1
| N @n
| | H
| | | W : v
| | | | s[{0}] += x[{1}, {0}, {2}, {3}]
| | if {1} < 2
| | | H @h
| | | | W : v
| | | | | y[{0}] max= x[{1}, {0}, {2}, {3}]
| z[{0}] = s[{0}]
"""

SEEN = """
kernel seen(H, W)
in    x: f32[H, W]
inout y: f32[1]
out   z: f32[H]
H @n
| W : v
| | y[0] += x[{0}, {1}]
| z[{0}] = y[0]
"""


@pytest.mark.parametrize(("text", "names"), [(IMAGE, ["y_max"]), (SEEN, ["y_sum"])], ids=["image", "seen"])
def test_a_sum_is_kept_until_something_else_is_done_with_its_element(text: str, names: list[str]) -> None:
    program = lower(dojoir.parse(text.replace(" : p", "")), WIDE)
    (loop,) = (s for s in statements(program.body) if isinstance(s, For) and s.var.name == "n")
    declared = [s.var for s in statements(loop.body) if isinstance(s, Declare)]
    assert [var.name for var in declared if var.type.lanes > 16] == names
    assert [var.name for var in declared if var.type.lanes == 16] == [f"{name}2" for name in names]


@pytest.mark.parametrize("text", [IMAGE, SEEN], ids=["image", "seen"])
@pytest.mark.parametrize("target", ["llvm", "c", "avx512", "avx2"])
def test_results_of_several_loops_are_right(text: str, target: str) -> None:
    runs(target)
    kernel = dojoir.parse(text)
    names = [size.name for size in kernel.sizes]
    sizes = [dict(zip(names, (3, 4, 2, w)[-len(names) :], strict=True)) for w in (1, 16, 67, 130)]
    report = dojoir.verify(kernel, target=target, sizes=sizes, seeds=1)
    assert report.ok, report
