"""The targets against the interpreter on random kernels and damaged texts; `tests/helpers/fuzz.py` runs more."""

from __future__ import annotations

from random import Random

import pytest
from differential import differ, examine, generated, is_bitwise, mutation, targets
from walks import LIBRARY

import dojoir


@pytest.mark.parametrize("block", range(7))
def test_generated_kernels_agree_on_llvm(block: int) -> None:
    for number in range(30):
        kernel, wrong = generated(Random(f"differential {block} {number}"), targets()[:1])
        assert wrong is None, f"{wrong}\n{kernel}"


@pytest.mark.parametrize("block", range(2))
def test_generated_kernels_agree_on_every_target(block: int) -> None:
    for number in range(8):
        kernel, wrong = generated(Random(f"every target {block} {number}"), targets())
        assert wrong is None, f"{wrong}\n{kernel}"


@pytest.mark.parametrize("block", range(10))
def test_damaged_texts_are_refused_or_run(block: int) -> None:
    for number in range(50):
        text, wrong = mutation(Random(f"damage {block} {number}"), targets()[:1])
        assert wrong is None, f"{wrong}\n{text}"


@pytest.mark.parametrize("name", LIBRARY)
def test_library_kernels_agree(name: str) -> None:
    kernel = dojoir.kernels.load(name)
    assert examine(kernel, Random(name), is_bitwise(kernel), targets()[:1]) is None


def test_a_wrong_result_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = dojoir.kernels.load("add")
    wrong = dojoir.compile(dojoir.kernels.load("mul"))
    monkeypatch.setattr(dojoir, "compile", lambda kernel, **options: wrong)
    assert differ(kernel, Random(1), True, ("llvm",)) is not None
