"""Full tiles and cut ones: what is lowered twice, and what stays in registers at the edge."""

from __future__ import annotations

from itertools import islice
from random import Random

import numpy as np
import pytest
from drawing import draw

import dojoir
from dojoir.codegen.lir.arith import along
from dojoir.codegen.lir.program import For, If, Load, Program, Select, Stmt, Store
from dojoir.codegen.lir.walk import parts, statements, values
from dojoir.codegen.lower.pipeline import lower
from dojoir.codegen.target import C, Target
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Kernel

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
    """Branches are where rows are cut. What is left of the columns runs at least once: it is not asked whether."""
    loops = loops_over_k(program(target))
    assert len(loops) == 4
    assert [any(isinstance(s, If) for s in statements(loop.body)) for loop in loops] == [False, False, True, True]


def test_the_full_tile_has_no_masks() -> None:
    full, *others = loops_over_k(program(WIDE))
    assert not masks(full.body)
    assert [bool(masks(loop.body)) for loop in others].count(True) == 2


def test_masked_elements_on_the_stack_are_chosen_not_masked() -> None:
    prog = program(WIDE)
    tile = [s for s in statements(prog.body) if isinstance(s, Store) and s.buffer[0] == "t"]
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


CANCELLING = """
kernel cancelling(N, M)
in    x: f32[N]
inout z: f32[N, 1]
inout w: f32[N, M]
inout d: f64[N, 4]

N : v
| if {0} < 1
| | z[N - 1 - {0}, {0}] = x[{0}] - z[N - 1 - {0}, {0}]
| | z[N - 1 - {0}, {0}] OP x[{0}]
| | w[N - 1 - {0}, {0}] OP x[{0}]
| if {0} >= 2 and {0} < 3
| | d[N - 1 - {0}, 4*{0} - 8] OP x[{0}]
"""


@pytest.mark.parametrize("op", ["=", "+=", "max="])
@pytest.mark.parametrize("target", ["llvm", "c", "avx2", "avx512", "neon", "rvv"])
def test_strides_of_lanes_that_cancel(op: str, target: str) -> None:
    """All lanes mean one element, and one of them writes it."""
    kernel = dojoir.parse(CANCELLING.replace("OP", op))
    dojoir.prove(kernel)
    try:
        compiled = dojoir.compile(kernel, target)
    except dojoir.ToolchainError as error:
        assert dojoir.emit(kernel, target)
        pytest.skip(error.diagnostic.message)
    rng = np.random.default_rng(0)
    for n, m in ((1, 1), (2, 1), (3, 5), (8, 1), (16, 2), (17, 1), (37, 3), (64, 1), (133, 1)):
        shapes = {"x": (n,), "z": (n, 1), "w": (n, m)}
        inputs = {name: rng.integers(-9, 9, shape).astype(np.float32) for name, shape in shapes.items()}
        inputs["d"] = rng.integers(-9, 9, (n, 4)).astype(np.float64)
        expected = dojoir.interpret(kernel, inputs)
        got = compiled.run(inputs)
        for name, array in expected.items():
            np.testing.assert_array_equal(got[name], array, str((name, n, m)))


def test_random_kernels_have_strides_that_cancel() -> None:
    """The generator behind the tests of the targets draws what was missing from it."""

    def cancels(kernel: Kernel) -> bool:
        for site in kernel.sites:
            depths = [depth for depth, scope in enumerate(site.scopes) if "v" in scope.marks]
            indices = [index for index in site.statement.target.indices if isinstance(index, Affine)]
            steps = [along(index, depth)[0] for depth in depths for index in indices]
            if min(steps, default=0) < 0 < max(steps, default=0):
                return True
        return False

    found = (seed for seed in range(2000) if cancels(draw("runnable", Random(seed))))
    assert len([*islice(found, 10)]) == 10


def test_conditions_inside_of_each_other_are_not_all_asked_outside() -> None:
    """Each that is asked outside of a scope doubles what is in it: of twelve, that was 4,096 copies."""
    lines = ["kernel f(N, M)", "out y: f32[N, 4]", "", "N", "| 4", "| | y[{0}, {1}] = 0"]
    for n in range(12):
        lines += ["| " * (n + 2) + f"if {{0}} + {n} >= M", "| " * (n + 3) + "y[{0}, {1}] += 1"]
    kernel = dojoir.parse("\n".join(lines) + "\n")
    for target in ("c", "llvm"):
        assert len(dojoir.emit(kernel, target=target).splitlines()) < 20_000
    found = dojoir.compile(kernel).run({}, N=15, M=7)["y"]
    np.testing.assert_array_equal(found, dojoir.interpret(kernel, {}, N=15, M=7)["y"])
