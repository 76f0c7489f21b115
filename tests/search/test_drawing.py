"""Moves drawn at random, and what a text looks like as numbers."""

from __future__ import annotations

from random import Random

import islpy as isl
import pytest

import dojoir
from dojoir.proof.explain.example import _values
from dojoir.support.memo import clear_caches

KERNELS = ("softmax", "matmul", "relu")


@pytest.mark.parametrize("name", KERNELS)
def test_what_is_drawn_is_legal_and_distinct(name: str) -> None:
    kernel, random = dojoir.kernels.load(name), Random(name)
    for _ in range(4):
        drawn = dojoir.search.draw(kernel, random, 6, "llvm")
        assert len(drawn) == len(set(drawn)) == 6
        assert all(dojoir.check(kernel, str(move)) for move in drawn)
        kernel = dojoir.apply(kernel, drawn[0])


def test_the_same_rng_draws_the_same() -> None:
    kernel = dojoir.kernels.load("softmax")
    first = dojoir.search.draw(kernel, Random(3), 8, "llvm")
    clear_caches()
    assert dojoir.search.draw(kernel, Random(3), 8, "llvm") == first
    assert dojoir.search.draw(kernel, Random(4), 8, "llvm") != first


def test_weights_choose_the_family_and_targets_leave_out() -> None:
    kernel = dojoir.kernels.load("relu")
    drawn = dojoir.search.draw(kernel, Random(0), 5, "llvm", {"split": 1, "vectorize": 3})
    assert {move.name for move in drawn} <= {"split", "vectorize"}
    assert dojoir.search.draw(kernel, Random(0), 5, "llvm", {}) == []
    assert dojoir.search.draw(kernel, Random(0), 0) == []


def test_all_of_a_family_is_drawn_where_so_many_are_asked_for() -> None:
    kernel = dojoir.kernels.load("relu")
    machine = dojoir.machine_for("llvm")
    (split,) = (kind for kind in dojoir.MOVES if kind.name == "vectorize")
    legal = {m for p in ("0",) for m in split.space(kernel, p, machine) if dojoir.check(kernel, m)}
    assert set(dojoir.search.draw(kernel, Random(0), 100, "llvm", {"vectorize": 1})) == legal


@pytest.mark.parametrize("weights", [{"nonsense": 1.0}, {"split": -1.0}, {"split": float("nan")}])
def test_wrong_weights_are_told(weights: dict[str, float]) -> None:
    with pytest.raises(dojoir.ArgumentError, match="weights"):
        dojoir.search.draw(dojoir.kernels.load("relu"), Random(0), 1, "llvm", weights)


def test_features_have_the_same_names_and_count_right() -> None:
    names = None
    for name in dojoir.kernels.names()[:12]:
        kernel = dojoir.kernels.load(name)
        found = (
            dojoir.search.features(kernel, dict.fromkeys(kernel.runtime_sizes, 8)) if kernel.runtime_sizes else None
        )
        if found is None:
            continue
        names = names or list(found)
        assert list(found) == names and all(type(value) is float for value in found.values())
    matmul = dojoir.kernels.load("matmul")
    sizes = dict.fromkeys(matmul.runtime_sizes, 64)
    found = dojoir.search.features(matmul, sizes)
    assert found["instances"] == dojoir.cost(matmul).at(**sizes).instances
    assert found["flops"] == dojoir.cost(matmul).at(**sizes).flops
    assert found["bytes"] == 3 * 64 * 64 * 4


def test_features_see_what_a_move_does() -> None:
    kernel, sizes = dojoir.kernels.load("matmul"), {}
    sizes = dict.fromkeys(kernel.runtime_sizes, 512)
    plain = dojoir.search.features(kernel, sizes)
    tuned = dojoir.search.features(dojoir.optimize(kernel, sizes=sizes, threads=1).kernel, sizes)
    assert tuned["share in lanes"] > plain["share in lanes"] and tuned["register tile"] > 0
    assert tuned["traffic L1"] < plain["traffic L1"]


def test_a_value_that_isl_has_no_steps_for_is_the_end_of_the_steps() -> None:
    """A draw with few steps ended in a TypeError: isl gave a value without a text."""

    class Spent:
        def dim(self, kind: object) -> int:
            return 1

        def plain_get_val_if_fixed(self, kind: object, number: int) -> object:
            return self

        def is_int(self) -> bool:
            return True

        def to_str(self) -> None:
            return None

    with pytest.raises(isl.Error, match="steps may be spent"):
        _values(Spent(), None)


def test_the_estimate_orders_schedules_and_stays_the_same() -> None:
    for name in KERNELS:
        kernel = dojoir.kernels.load(name)
        sizes = dict.fromkeys(kernel.runtime_sizes, 512)
        known = dojoir.optimize(kernel, sizes=sizes, threads=1).kernel
        slow, fast = (dojoir.search.estimate(k, sizes, threads=1) for k in (kernel, known))
        assert fast < 1.01 * slow and dojoir.search.estimate(kernel, sizes, threads=1) == slow
