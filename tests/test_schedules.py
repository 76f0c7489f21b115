"""Stored schedules: each applies, is proved and gives right results; `optimize` picks the one that fits."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest

import dojoir
from dojoir import schedules

OWN = sorted(entry.name for entry in files("dojoir.schedules").iterdir() if entry.name.endswith(".moves"))


def kernel_of(name: str) -> dojoir.Kernel:
    return dojoir.kernels.load(name.split(".")[0])


@pytest.mark.parametrize("name", OWN)
def test_a_schedule_that_comes_with_dojoir_applies_and_is_right(name: str) -> None:
    kernel = kernel_of(name)
    schedule = next(s for s in schedules.schedules(kernel.name) if s.path == name)
    kernel = kernel.with_fp(schedule.fp) if schedule.fp else kernel
    assert schedule.fits(kernel, schedule.targets[0], {})
    assert set(schedule.targets) <= set(dojoir.TARGETS)
    trace = schedule.on(kernel)
    assert trace.moves and trace.is_safe
    assert dojoir.certify(trace)
    report = dojoir.verify(trace.kernel, against=kernel, seeds=1)
    assert report.ok, report


def test_the_stored_schedule_is_for_its_kernel_only() -> None:
    softmax = dojoir.kernels.load("softmax")
    assert dojoir.optimize(softmax).moves == schedules.schedules("softmax")[0].on(softmax).moves
    fixed = dojoir.kernels.load("softmax", N=64)
    assert dojoir.optimize(fixed).start == fixed
    other = dojoir.parse("kernel softmax(N)\nin x: f32[N]\nout y: f32[N]\nN\n| y[{0}] = x[{0}]\n")
    default = dojoir.PASSES["default_schedule"].on(other)
    assert dojoir.optimize(other).moves == default.moves


def test_what_is_stored_is_found_where_it_fits(tmp_path: Path) -> None:
    kernel = dojoir.kernels.load("relu")
    long, short = dojoir.Trace(kernel), dojoir.Trace(kernel)
    long.apply("split(0, 64)")
    short.apply("vectorize(0)")
    schedules.store(short, "llvm", tmp_path)
    path = schedules.store(long, "llvm", tmp_path, when=["N >= 64", "N % 8 == 0"], note="blocks")
    assert path.read_text().startswith("# blocks\n# kernel: ")
    assert schedules.store(long, "llvm", tmp_path, when=["N >= 64", "N % 8 == 0"]) == path
    assert len(list(tmp_path.iterdir())) == 2

    def found(target: str = "llvm", **sizes: int) -> tuple[dojoir.Move, ...]:
        return dojoir.optimize(kernel, target, sizes=sizes, folders=[tmp_path]).moves

    assert found() == found(N=128) == long.moves
    assert found(N=63) == found(N=65) == short.moves
    assert found("c") == dojoir.optimize(kernel, "c").moves


def test_folders_of_the_environment_are_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = dojoir.kernels.load("relu")
    trace = dojoir.Trace(kernel)
    trace.apply("split(0, 2)")
    schedules.store(trace, "llvm", tmp_path)
    monkeypatch.setenv(schedules.VARIABLE, str(tmp_path))
    assert dojoir.optimize(kernel).moves == trace.moves
    monkeypatch.setenv(schedules.VARIABLE, str(tmp_path / "none"))
    with pytest.raises(dojoir.ArgumentError, match="no folder"):
        dojoir.optimize(kernel)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("split(0, 2)\n", "no line '# kernel: …'"),
        ("# kernel: relu\nsplit(0, 2)\n", "no line '# targets: …'"),
        ("# kernel: relu\n# targets: llvm\n# when: N is large\nsplit(0, 2)\n", "'N is large' is not a condition"),
    ],
)
def test_a_file_that_is_no_schedule_is_an_error(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "relu.moves").write_text(text)
    with pytest.raises(dojoir.ArgumentError, match=complaint):
        dojoir.optimize(dojoir.kernels.load("relu"), folders=[tmp_path])


def test_a_schedule_whose_moves_do_not_fit_says_so(tmp_path: Path) -> None:
    (tmp_path / "relu.moves").write_text("# kernel: relu\n# targets: llvm\njoin_scopes(0, 1)\n")
    with pytest.raises(dojoir.IllegalMove, match="join_scopes"):
        dojoir.optimize(dojoir.kernels.load("relu"), folders=[tmp_path])


def test_a_bad_condition_is_not_stored(tmp_path: Path) -> None:
    with pytest.raises(dojoir.ArgumentError, match="not a condition"):
        schedules.store(dojoir.Trace(dojoir.kernels.load("relu")), "llvm", tmp_path, when=["large"])
    assert not list(tmp_path.iterdir())
