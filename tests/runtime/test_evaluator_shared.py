"""An `Evaluator` that threads share, and one whose temporary files find no room."""

from __future__ import annotations

import errno
import threading
from collections.abc import Generator, Iterator
from typing import Any

import pytest

import dojoir
from dojoir.runtime.evaluation import nursery, pool

RELU = dojoir.kernels.load("relu")
SIZES = {"N": 4096}


@pytest.fixture(scope="module", autouse=True)
def own_lease(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("lease")))
        yield


def states(count: int) -> list[dojoir.Kernel]:
    return [dojoir.apply(RELU, f"split(0, {number})") for number in range(2, 2 + count)]


def in_a_thread(do: Any) -> None:
    one = threading.Thread(target=do)
    one.start()
    one.join(120)
    assert not one.is_alive()


def test_two_threads_get_what_is_theirs() -> None:
    found: dict[int, Any] = {}
    with dojoir.Evaluator(RELU, "llvm", SIZES) as evaluator:

        def go(number: int) -> None:
            mine = states(10)[number::2]
            found[number] = [one.hash for one in evaluator.evaluate(mine) if one.status in ("ok", "cut")]

        threads = [threading.Thread(target=go, args=(number,)) for number in range(2)]
        for one in threads:
            one.start()
        for one in threads:
            one.join(120)
    assert found == {number: [state.hash for state in states(10)[number::2]] for number in range(2)}


def test_one_that_is_at_work_is_told_to_whom_asks_again() -> None:
    with dojoir.Evaluator(RELU, "llvm", SIZES) as evaluator:
        first = evaluator.evaluate(states(2))
        assert isinstance(first, Generator)
        next(first)
        with pytest.raises(dojoir.ArgumentError, match="still at the kernels"):
            next(iter(evaluator.evaluate(states(1))))
        first.close()
        (again,) = evaluator.evaluate(states(1))
        assert again.status in ("ok", "cut")


def test_it_outlives_the_thread_that_has_begun_it() -> None:
    """The system ends a child with the thread that started it, where it is asked to."""
    evaluator = dojoir.Evaluator(RELU, "llvm", SIZES)
    in_a_thread(evaluator.__enter__)
    try:
        (found,) = evaluator.evaluate(states(1))
        assert found.status in ("ok", "cut"), found.reason
    finally:
        evaluator.close()


# -- room for temporary files ------------------------------------------------------------------------------------
def full(*_: Any, **__: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("what", ["gettempdir", "TemporaryDirectory"])
def test_a_full_folder_for_temporary_files_is_told(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool.tempfile, what, full)
    with pytest.raises(dojoir.RunError) as caught, dojoir.Evaluator(RELU, "llvm", SIZES):
        pass
    assert caught.value.diagnostic.code == "no-room" and "set TMPDIR" in caught.value.diagnostic.message


def test_one_that_fills_while_cases_are_worked_out_is_told(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    some = pool.Pool(str(tmp_path), RELU, "llvm", (SIZES,), tuple(range(pool.SEEDS)), 10.0)
    case = pool.Case(0, "uniform", 0)
    monkeypatch.setattr(pool.os, "replace", full)
    told = nursery._prepared(some, [case])
    assert (told["raised"], told["code"]) == ("RunError", "no-room")
    assert "No space left on device" in str(told["message"])
