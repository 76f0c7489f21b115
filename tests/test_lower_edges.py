"""Full tiles and cut ones: what is lowered twice, and what stays in registers at the edge."""

from __future__ import annotations

import numpy as np
import pytest

import dojoir
from dojoir.codegen.lir import For, If, Load, Program, Select, Stmt, Store
from dojoir.codegen.lir_walk import parts, statements, values
from dojoir.codegen.lower import lower
from dojoir.codegen.target import C, Target

WIDE = Target("llvm", 512, "mask", frozenset({"f16"}), 32)
NARROW = Target("llvm", 256, "scalar", frozenset(), 16)

TILES = """
kernel tiles(N, M, K)
in  x: f32[N, K]
in  w: f32[K, M]
out y: f32[N, M]
tmp t: f32[4, 16] reg

(N + 3) // 4
| (M + 15) // 16
| | min(4, N - 4*{0}) : u
| | | min(16, M - 16*{1}) : v
| | | | t[{2}, {3}] = 0
| | K @k
| | | min(4, N - 4*{0}) : u
| | | | min(16, M - 16*{1}) : v
| | | | | t[{3}, {4}] += x[4*{0} + {3}, {2}] * w[{2}, 16*{1} + {4}]
| | min(4, N - 4*{0}) : u
| | | min(16, M - 16*{1}) : v
| | | | y[4*{0} + {2}, 16*{1} + {3}] = t[{2}, {3}]
"""


def program(target: Target) -> Program:
    kernel = dojoir.parse(TILES)
    dojoir.prove(kernel)
    return lower(kernel, target)


def loops_over_k(prog: Program) -> list[For]:
    return [s for s in statements(prog.body) if isinstance(s, For) and s.var.name.startswith("k")]


@pytest.mark.parametrize("target", [C, WIDE, NARROW], ids=["c", "mask", "scalar"])
def test_a_nest_is_there_for_each_way_a_tile_may_be_cut(target: Target) -> None:
    loops = loops_over_k(program(target))
    assert len(loops) == 4
    assert [any(isinstance(s, If) for s in statements(loop.body)) for loop in loops] == [False, True, True, True]


def test_the_full_tile_has_no_masks() -> None:
    full, *others = loops_over_k(program(WIDE))
    assert not masks(full.body)
    assert [bool(masks(loop.body)) for loop in others].count(True) == 2


def test_masked_elements_on_the_stack_are_chosen_not_masked() -> None:
    prog = program(WIDE)
    tile = [s for s in statements(prog.body) if isinstance(s, Store) and s.buffer == "t"]
    assert tile and all(s.mask is None for s in tile)
    assert any(isinstance(s.value, Select) for s in tile)
    outside = [s for s in statements(prog.body) if isinstance(s, Store) and s.buffer == "y"]
    assert any(s.mask is not None for s in outside)


def masks(body: tuple[Stmt, ...]) -> list[Load | Store]:
    """Every load and store under a mask."""
    stores: list[Load | Store] = [s for s in statements(body) if isinstance(s, Store) and s.mask is not None]
    loads = [part for s in statements(body) for value in values(s) for part in parts(value)]
    return stores + [part for part in loads if isinstance(part, Load) and part.mask is not None]


@pytest.mark.parametrize("sizes", [(1, 1, 1), (4, 16, 3), (8, 32, 2), (5, 16, 2), (4, 17, 2), (7, 31, 5)])
def test_all_edges_run(sizes: tuple[int, int, int]) -> None:
    n, m, k = sizes
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-9, 9, shape).astype(np.float32) for shape in ((n, k), (k, m)))
    got = dojoir.compile(dojoir.parse(TILES)).run({"x": x, "w": w})["y"]
    np.testing.assert_array_equal(got, x @ w)


def test_large_nests_are_lowered_once() -> None:
    first = "| | | | t[{2}, {3}] = 0"
    text = TILES.replace(first, "\n".join([first, *[first.replace("=", "+=")] * 300]))
    assert len(loops_over_k(lower(dojoir.parse(text), WIDE))) == 1


@pytest.mark.parametrize(("lanes", "vectors"), [(32, 1), (48, 3), (24, 1), (16, 1)])
def test_a_number_of_lanes_that_no_registers_have_is_in_parts(lanes: int, vectors: int) -> None:
    """A vector of 48 lanes of f32 would take as many registers as one of 64."""
    text = TILES.replace("16", str(lanes)).replace("15", str(lanes - 1))
    stores = [
        s for s in statements(lower(dojoir.parse(text), WIDE).body) if isinstance(s, Store) and s.buffer == "y"
    ]
    full = [s for s in stores if s.mask is None]
    assert len(full) == 2 * vectors
    assert {s.value.type.lanes for s in full} == {lanes // vectors}
    tile = [s for s in statements(lower(dojoir.parse(text), WIDE).body) if isinstance(s, Store) and s.buffer == "t"]
    assert all(s.mask is None for s in tile)


@pytest.mark.parametrize("sizes", [(1, 1, 1), (4, 48, 3), (5, 47, 2), (4, 49, 2), (7, 17, 5), (3, 33, 1)])
def test_edges_in_parts_run(sizes: tuple[int, int, int]) -> None:
    n, m, k = sizes
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-9, 9, shape).astype(np.float32) for shape in ((n, k), (k, m)))
    kernel = dojoir.parse(TILES.replace("16", "48").replace("15", "47"))
    np.testing.assert_array_equal(dojoir.compile(kernel).run({"x": x, "w": w})["y"], x @ w)


def test_what_each_lane_has_of_its_own_is_chosen_not_masked() -> None:
    kernel = dojoir.parse(
        "kernel k(N, M)\nin x: f32[N, M]\nout y: f32[M]\ntmp p: f32[2] reg\n"
        "(M + 31) // 32\n| min(32, M - 32*{0}) : v\n| | 2 : u\n| | | p[{2}] = 0\n"
        "| | N\n| | | p[{2} % 2] += x[{2}, 32*{0} + {1}]\n| | y[32*{0} + {1}] = p[0] + p[1]\n"
    )
    own = [s for s in statements(lower(kernel, WIDE).body) if isinstance(s, Store) and s.buffer == "p"]
    assert own and all(s.mask is None for s in own)
    rng = np.random.default_rng(0)
    for n, m in ((1, 1), (3, 31), (4, 32), (5, 45)):
        x = rng.integers(-9, 9, (n, m)).astype(np.float32)
        np.testing.assert_array_equal(dojoir.compile(kernel).run({"x": x})["y"], x.sum(0))
