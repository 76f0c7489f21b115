"""An `Evaluator` that threads share, and one whose temporary files find no room."""

from __future__ import annotations

import errno
import tempfile
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dojoir
from dojoir.cli import main
from dojoir.cli.error_report import report_bug
from dojoir.runtime.build import c_toolchain
from dojoir.runtime.evaluation import fork_server, pool

RELU = dojoir.kernels.load("relu")
SIZES = {"N": 4096}


pytestmark = pytest.mark.usefixtures("own_lease")


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


def test_one_that_another_thread_closes_is_told() -> None:
    """The thread that was at its candidates got a KeyError."""
    raised: list[BaseException] = []
    at_work, closed = threading.Event(), threading.Event()

    def go() -> None:
        try:
            for _ in evaluator.evaluate(states(3)):
                at_work.set()
                closed.wait(120)
        except dojoir.RunError as error:
            raised.append(error)

    evaluator = dojoir.Evaluator(RELU, "llvm", SIZES)
    with evaluator:
        one = threading.Thread(target=go)
        one.start()
        assert at_work.wait(120)
        evaluator.close()
        closed.set()
        one.join(120)
    assert not one.is_alive() and "closed by another thread" in str(raised[0])
    with pytest.raises(dojoir.ArgumentError, match="inside of `with`"):
        next(iter(evaluator.evaluate(states(1))))


def test_it_outlives_the_thread_that_has_begun_it() -> None:
    """The system ends a child with the thread that started it, where it is asked to."""
    evaluator = dojoir.Evaluator(RELU, "llvm", SIZES)

    def begin() -> None:
        evaluator.__enter__()
        assert [*evaluator.evaluate(states(2)[1:])]

    in_a_thread(begin)
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
    monkeypatch.setattr(tempfile, what, full)
    with pytest.raises(dojoir.RunError) as caught, dojoir.Evaluator(RELU, "llvm", SIZES):
        pass
    assert caught.value.diagnostic.code == "no-room" and "set TMPDIR" in caught.value.diagnostic.message


def test_one_that_fills_while_cases_are_worked_out_is_told(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    some = pool.Pool(str(tmp_path), RELU, "llvm", (SIZES,), tuple(range(pool.SEEDS)), 10.0)
    case = pool.InputCase(0, "uniform", 0)
    monkeypatch.setattr(pool.os, "replace", full)
    told = fork_server._prepared(some, [case])
    assert (told["raised"], told["code"]) == ("RunError", "no-room")
    assert "No space left on device" in str(told["message"])


@pytest.mark.parametrize("what", ["TemporaryDirectory", "TemporaryFile", "gettempdir", "save"])
def test_so_it_is_to_who_verifies_or_measures(
    what: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was a bug of ours, with status 70."""

    def half(*_: Any, **__: Any) -> Any:
        raise OSError("384 requested and 21 written")

    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    if what == "save":
        monkeypatch.setattr(np, "save", half)
    else:
        monkeypatch.setattr(tempfile, what, full)
    flag = {"TemporaryFile": "--time", "gettempdir": "--time"}.get(what, "--check")
    assert main(["library:relu", flag, "-s", "N=64"]) == 1
    told = capsys.readouterr().err
    assert "error[no-room]: temporary files cannot be written to " in told and "bug" not in told


def test_a_compiler_that_finds_no_room_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was taken for none that works."""
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho '/tmp/cc.s: No space left on device' >&2\nexit 1\n")
    compiler.chmod(0o700)
    with pytest.raises(dojoir.RunError) as caught:
        c_toolchain.probe((str(compiler),))
    assert caught.value.diagnostic.code == "no-room"


def test_a_bug_is_told_where_there_is_no_room_for_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "NamedTemporaryFile", full)
    assert report_bug(ValueError("odd")) == 70
    told = capsys.readouterr().err
    assert "please send us the kernel and these lines" in told and "ValueError: odd" in told
