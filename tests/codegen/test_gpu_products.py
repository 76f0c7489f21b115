"""Products of matrices on a GPU: tiles in shared memory and registers, right at all shapes of them."""

from __future__ import annotations

import pytest
from agreement import agree
from on_harness import run
from references import inputs

import dojoir
from dojoir.codegen.emission import gpu_program
from dojoir.passes.schedule.gpu.tiles.product_tiles import DEEP


def tiled(kernel: dojoir.Kernel, *words: int) -> dojoir.Kernel:
    return dojoir.PASSES["tile_product"].given("0", *map(str, words)).on(kernel).kernel


def runs_right(kernel: dojoir.Kernel, scheduled: dojoir.Kernel, sizes: dict[str, int], target: str) -> None:
    given = inputs(kernel, sizes)
    expected = dojoir.interpret(kernel, given, **sizes)
    assert agree(kernel, expected, run(scheduled, given, sizes, target), exact=False) is None


@pytest.mark.parametrize("target", ["cuda", "hip"])
@pytest.mark.parametrize("tile", [(64, 64, 8, 4, 8), (32, 64, 16, 8, 8), (32, 32, 8, 4, 4)])
@pytest.mark.parametrize("name", ["matmul", "matmul_nt", "matmul_tn"])
def test_tiles_of_all_forms(name: str, tile: tuple[int, ...], target: str) -> None:
    kernel = dojoir.kernels.load(name).specialize(N=64, M=128, K=32)
    runs_right(kernel, tiled(kernel, *tile), {}, target)


def test_a_large_tile() -> None:
    kernel = dojoir.kernels.load("matmul").specialize(N=128, M=128, K=16)
    scheduled = tiled(kernel, 128, 128, 8, 8, 16)
    runs_right(kernel, scheduled, {}, "cuda")
    program = gpu_program(scheduled, "cuda")
    (launch,) = program.launches
    assert launch.threads == 128
    assert program.source.count("__syncthreads()") == 1, "of two buffers, one is read while the other is filled"
    assert program.wide == {"a": 16, "b": 16, "c": 16}


def test_a_small_product_has_a_deep_tile() -> None:
    kernel = dojoir.kernels.load("matmul").specialize(N=1024, M=1024, K=1024)
    scheduled = dojoir.PASSES["default_schedule"].given("cuda").on(kernel).kernel
    assert scheduled == tiled(kernel, *DEEP)
    small = dojoir.kernels.load("matmul").specialize(N=64, M=64, K=32)
    runs_right(small, tiled(small, *DEEP), {}, "cuda")


def test_a_tile_that_is_the_whole_sum() -> None:
    kernel = dojoir.kernels.load("matmul").specialize(N=64, M=64, K=8)
    runs_right(kernel, tiled(kernel, 64, 64, 8, 4, 8), {}, "cuda")


def test_a_chain_of_moves_to_two_buffers_is_certified() -> None:
    kernel = dojoir.kernels.load("matmul").specialize(N=64, M=64, K=32)
    trace = dojoir.PASSES["tile_product"].given("0", "64", "64", "8", "4", "8").on(kernel)
    assert "% 2" in dojoir.to_text(trace.kernel) and dojoir.certify(trace)


def test_products_of_a_batch_by_rule() -> None:
    kernel = dojoir.kernels.load("bmm").specialize(N=64, M=64, K=16)
    scheduled = dojoir.PASSES["default_schedule"].given("cuda").on(kernel).kernel
    assert [buffer.storage for buffer in scheduled.buffers].count("shared") == 2
    runs_right(kernel, scheduled, {"B": 2}, "cuda")


@pytest.mark.parametrize(
    ("name", "fixed", "tile", "words"),
    [
        ("matmul", {}, (64, 64, 8, 4, 8), "is no constant"),
        ("matmul", {"N": 96, "M": 64, "K": 8}, (64, 64, 8, 4, 8), "do not divide 96"),
        ("matmul", {"N": 64, "M": 64, "K": 8}, (64, 64, 8, 3, 8), "parts of 3"),
        ("matmul", {"N": 64, "M": 64, "K": 8}, (64, 64, 0, 4, 8), "tiles of 0"),
        ("softmax", {"M": 64}, (64, 64, 8, 4, 8), "no scope over the rows of a product"),
    ],
)
def test_what_has_no_tiles(name: str, fixed: dict[str, int], tile: tuple[int, ...], words: str) -> None:
    with pytest.raises(dojoir.ArgumentError, match=words):
        tiled(dojoir.kernels.load(name).specialize(**fixed), *tile)
