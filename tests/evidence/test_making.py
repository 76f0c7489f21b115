"""A library in one command: it is written as it goes, and goes on where it was stopped."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import dojoir
from dojoir.evidence import library_run
from dojoir.evidence.bundle import Gate, Verdict
from dojoir.evidence.bundle_reading import read
from dojoir.evidence.figures import ComparisonReport
from dojoir.evidence.gates import GateFindings, Gates
from dojoir.evidence.library_run import Gated, Shelf, Wish, make
from dojoir.evidence.replay import replay

SIZES = {"N": 4096}


def wishes(*names: str, targets: tuple[str, ...] = ("llvm",)) -> list[Wish]:
    kernels = [dojoir.kernels.load(name) for name in names]
    return [Wish(kernel, target, SIZES) for kernel in kernels for target in targets]


def made(folder: Path, wanted: list[Wish], **more: Any) -> Shelf:
    pytest.importorskip("sqlalchemy", reason="needs the extra agents")
    given = {"states": 6, "seconds": 1e6, "timer": "static", "strategy": "random", **more}
    return make(wanted, folder, **given)


def says(**statuses: Verdict) -> Gated:
    """Gates that say what they are told."""

    def gate(trace: dojoir.Trace, target: str, sizes: Mapping[str, int], threads: int) -> Gates:
        found = tuple(Gate(name, status, "as told") for name, status in statuses.items())
        seen = GateFindings((), correct=(ComparisonReport({}, "ok", 3), ComparisonReport(dict(sizes), "ok", 3)))
        shapes = (dict(sizes),)
        return Gates(trace.start.name, trace.kernel.hash, target, threads, shapes, 0, found, seen=seen)

    return gate


def test_it_writes_what_it_says(tmp_path: Path) -> None:
    shelf = made(tmp_path, wishes("relu", "add"), gate=says(proved="pass", correct="pass"))
    assert shelf.passed and [one.kernel for one in shelf.made] == ["relu", "add"]
    data = json.loads((tmp_path / "library.json").read_text())
    assert data["version"] == 1 and set(data["files"]) == {name for one in shelf.made for name in one.files}
    for one in shelf.made:
        trace = dojoir.Trace.load(tmp_path / one.files[0])
        assert trace.kernel.hash == one.result and [str(move) for move in trace.moves] == list(one.moves)
        assert (tmp_path / one.files[1]).read_text() == dojoir.emit(trace.kernel, "llvm")
        if one.moves:
            chosen = dojoir.optimize(trace.start, sizes=SIZES, threads=1, folders=[tmp_path / "schedules"])
            assert chosen.kernel == trace.kernel
        found = read(tmp_path / "runs" / one.name)
        assert found.run.result == one.result and replay(found).ok
    table = (tmp_path / "library.md").read_text()
    assert table.count("all pass") == 2 and "| relu | llvm | N=4096 |" in table
    if shutil.which("cc"):
        assert (tmp_path / "c" / "kernels.h").exists() and "relu" in (tmp_path / "c" / "kernels.h").read_text()
        assert data["libraries"]["llvm"].startswith("c/: ")


def test_it_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    asked: list[str] = []

    def tune(kernel: dojoir.Kernel, target: str, **more: Any) -> dojoir.search.Tuned:
        asked.append(kernel.name)
        if asked == ["relu", "add"]:
            raise KeyboardInterrupt
        return dojoir.tune(kernel, target, **more)

    with pytest.raises(KeyboardInterrupt):
        made(tmp_path, wishes("relu", "add", "mul"), tune=tune)
    begun = json.loads((tmp_path / "library.json").read_text())
    assert [one["name"].split("-")[0] for one in begun["made"]] == ["relu"]
    shelf = made(tmp_path, wishes("relu", "add", "mul"), tune=tune)
    assert asked == ["relu", "add", "add", "mul"] and shelf.passed
    assert made(tmp_path, wishes("relu", "add", "mul"), tune=tune) == shelf and asked[4:] == []


def test_what_was_damaged_is_made_again(tmp_path: Path) -> None:
    shelf = made(tmp_path, wishes("relu"))
    path = tmp_path / shelf.made[0].files[0]
    path.write_text(path.read_text().replace("relu", "rely"))
    again = made(tmp_path, wishes("relu"))
    assert again.made[0].result == shelf.made[0].result
    assert dojoir.Trace.load(path).kernel.hash == shelf.made[0].result


def test_what_fails_does_not_stop_the_others_and_is_in_no_library(tmp_path: Path) -> None:
    def tune(kernel: dojoir.Kernel, target: str, **more: Any) -> dojoir.search.Tuned:
        if target == "cuda":
            raise dojoir.ToolchainError("no GPU is here", "no-device")
        if kernel.name == "add":
            raise dojoir.RunError("the start could not be timed", "no-start")
        return dojoir.tune(kernel, target, **more)

    shelf = made(tmp_path, wishes("relu", "add", targets=("llvm", "cuda")), tune=tune)
    assert [one.status for one in shelf.made] == ["done", "unavailable", "failed", "unavailable"]
    assert not shelf.passed and "no GPU is here" in str(shelf)
    assert shelf.libraries["cuda"] == "no kernel passed"


def test_what_a_gate_refuses_is_written_but_not_offered(tmp_path: Path) -> None:
    shelf = made(tmp_path, wishes("relu"), gate=says(proved="pass", correct="fail"))
    assert not shelf.passed and shelf.made[0].status == "done" and "correct fail" in str(shelf)
    assert not list((tmp_path / "schedules").iterdir()) and shelf.libraries["llvm"] == "no kernel passed"


def test_several_sizes_make_one_function(tmp_path: Path) -> None:
    kernel = dojoir.kernels.load("relu")
    shelf = made(tmp_path, [Wish(kernel, "llvm", {"N": size}) for size in (4096, 1000)])
    assert shelf.passed and len({one.name for one in shelf.made}) == 2
    versions = library_run._versions([Wish(kernel, "llvm", {"N": size}) for size in (4096, 1000)], tmp_path)
    assert versions.start == kernel and len(versions.versions) == 2


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", "bad-record"),
        ('{"format": "dojoir-made", "version": 2}', "bad-record"),
        ('{"format": "dojoir-made", "version": 1, "settings": {}, "made": []}', "another-library"),
    ],
)
def test_a_folder_of_something_else_is_left_alone(tmp_path: Path, text: str, code: str) -> None:
    (tmp_path / "library.json").write_text(text)
    with pytest.raises(dojoir.ArgumentError) as caught:
        made(tmp_path, wishes("relu"))
    assert caught.value.diagnostic.code == code and [p.name for p in tmp_path.iterdir()] == ["library.json"]


def test_bad_wishes_are_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for wanted, folder, code in (
        ([], tmp_path / "a", "empty-library"),
        (wishes("relu", "relu"), tmp_path / "a", "bad-arguments"),
        (wishes("relu"), tmp_path, "not-empty"),
        (wishes("relu"), tmp_path / "file" / "below", "cannot-write"),
    ):
        with pytest.raises(dojoir.ArgumentError) as caught:
            made(folder, wanted)
        assert caught.value.diagnostic.code == code
    assert not (tmp_path / "a").exists()


def test_the_name_of_a_wish_is_short_and_its_own() -> None:
    kernel = dojoir.kernels.load("grouped_conv2d")
    names = {Wish(kernel, "llvm", dict.fromkeys(kernel.runtime_sizes, n)).name for n in (100000, 200000)}
    assert len(names) == 2 and max(map(len, names)) <= library_run.LONGEST
