"""The verbs that read runs and prove them again, as a person and as a stranger use them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bundled import MOVES, bench_bundle, search_bundle, traced
from commands import run

import dojoir
from dojoir.evidence.bundle_reading import read
from dojoir.evidence.comparing import compare, diff

pytest.importorskip("sqlalchemy", reason="needs the extra agents")


RELU = ["library:relu", "-s", "N=4096"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_path_of_a_stranger(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    """Tuned here, exported, checked elsewhere."""
    tune = ["tune", *RELU, "--timer", "static", "--strategy", "random", "--states", "6", "--runs"]
    status, _, err = run(capsys, *tune)
    assert status == 0 and "run 2" in err
    status, out, _ = run(capsys, "runs")
    name = out.split()[0]
    assert status == 0 and "done" in out and name in err
    status, out, _ = run(capsys, "replay", name)
    assert status == 0 and "nothing differs" in out
    assert run(capsys, "export", name[-6:], "-o", "x.zip")[0] == 0
    (here / "elsewhere").mkdir()
    (here / "x.zip").rename(here / "elsewhere" / "x.zip")
    status, out, _ = run(capsys, "check", "elsewhere/x.zip")
    assert status == 0 and "proved" in out
    data = bytearray((here / "elsewhere" / "x.zip").read_bytes())
    data[len(data) // 3] ^= 1
    (here / "elsewhere" / "x.zip").write_bytes(bytes(data))
    status, out, _ = run(capsys, "check", "elsewhere/x.zip")
    assert status == 3 and "the first difference: archive" in out
    status, out, _ = run(capsys, "check", "elsewhere/x.zip", "--json")
    assert status == 3 and json.loads(out)["check"]["ok"] is False
    status, out, _ = run(capsys, "view", "last", "-o", "page.html")
    assert status == 0 and (here / "page.html").read_text().startswith("<!DOCTYPE html>")
    status, out, _ = run(capsys, "runs", "--json", "--kernel", "relu", "--status", "done", "--target", "llvm")
    assert [one["name"] for one in json.loads(out)["runs"]] == [name]
    for other in (("--kernel", "add"), ("--status", "failed"), ("--target", "c")):
        status, out, err = run(capsys, "runs", *other)
        assert (status, out) == (0, "") and "no such run" in err


def test_gates_leave_what_shows_them(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    traced().save(here / "trace.json")
    given = ["gate", "trace.json", "-s", "N=4096", "--beside", "text", "--seconds", "0.2", "--runs"]
    status, out, err = run(capsys, *given)
    assert status in (0, 3, 4) and "proved" in out, err
    found = read(here / "runs" / err.split("run ")[1].split()[0])
    said = {one.name: one.status for one in found.verdicts}
    assert [said[name] for name in ("proved", "built", "correct", "deterministic")] == ["pass"] * 4
    names = {one.name for one in found.run.files}
    assert {one.file for one in found.verdicts if one.status == "pass" and one.file != "source"} <= names
    assert "gates.json" in names and found.wrong_files() == [] and found.run.sizes == ({"N": 4096},)
    assert run(capsys, "show", "last", "--section", "gates")[0] == 0
    path = found.folder / "source.ll"
    path.write_text(path.read_text().replace("fcmp", "fcmp fast", 1))
    status, out, _ = run(capsys, "gate", found.run.name, "--seconds", "0.2", "--json")
    said = {one["name"]: one["status"] for one in json.loads(out)["gates"]["gates"]}
    assert status == 3 and said["built"] == "fail" and said["correct"] == "not-run"


def test_a_run_is_resumed_by_its_name(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    tune = [
        "tune",
        *RELU,
        "--timer",
        "static",
        "--strategy",
        "random",
        "--runs",
        "r",
        "--resume",
        "mine",
        "--states",
    ]
    assert run(capsys, *tune, "4")[0] == 0
    assert run(capsys, *tune, "7")[0] == 0
    found = read(here / "r" / "mine")
    assert found.run.states == 7 and found.wrong_files() == []
    status, _, err = run(capsys, *[word.replace("relu", "silu") for word in tune], "4")
    assert status == 1 and "error[another-run]" in err
    assert read(here / "r" / "mine").run.start == found.run.start


def test_each_section_of_a_run_is_shown(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    given = bench_bundle(here / "runs", traced())
    for section in ("text", "moves", "diff", "source", "asm", "bench", "gates", "states", "lineage"):
        status, out, err = run(capsys, "show", "last", "--section", section)
        assert status == 0 and out, err
        status, data, _ = run(capsys, "show", "last", "--section", section, "--json")
        assert json.loads(data)["text"].strip() == out.strip()
    status, out, _ = run(capsys, "show", given.run.name)
    assert status == 0 and "gate      correct: pass" in out and "files" in out
    assert run(capsys, "show", "last", "--section", "moves")[1].split("\n")[:2] == list(MOVES)
    assert json.loads(run(capsys, "show", "last", "--json")[1])["run"]["name"] == given.run.name


def test_a_source_has_the_lines_of_the_text_beside_it(here: Path) -> None:
    from dojoir.evidence.showing import section

    given = bench_bundle(here / "runs", traced())
    (given.folder / "source.ll").rename(given.folder / "source.c")
    (given.folder / "source.c").write_text(dojoir.emit(given.trace.kernel, "c"))
    rows = section(read(given.folder), "source").splitlines()
    beside = [row.split(" | ")[0].strip() for row in rows if "for (" in row]
    assert any(row for row in beside)


def test_lineage_tells_what_each_move_gained_and_where_it_fails(here: Path) -> None:
    from dojoir.evidence.showing import section

    found = section(search_bundle(here / "runs", "softmax", 8), "lineage").splitlines()
    assert found[0].startswith(("*", " ")) and "the start" in found[0]
    assert any("x" in line.split(",")[-1] for line in found[1:])
    told = section(bench_bundle(here / "right", traced(), fails=True), "lineage")
    assert "gate correct fails" in told and "all of its moves verify here" in told
    trace = traced("softmax", ("join_scopes(0, 1)", "swap_siblings(0.1)"))
    trace.apply("join_scopes(0.2, 0.3)", unsafe=True)  # sums with a maximum that is not there yet
    trace.apply("split(0, 4)")
    told = section(bench_bundle(here / "wrong", trace, fails=True), "lineage")
    assert "the shortest prefix that fails ends with move 3, join_scopes(0.2, 0.3): wrong result" in told


def test_two_runs_are_compared_in_few_fields(capsys: pytest.CaptureFixture[str], here: Path) -> None:
    first = bench_bundle(here / "runs", traced(moves=MOVES[:1]), 2e-5, fails=True)
    second = bench_bundle(here / "runs", traced(), 1e-5, parent=first.run.name)
    found = compare(first, second)
    assert (found.relation, found.correctness) == ("child", "recovered") and not found.incomparable
    assert found.times[0].low > 1.8 and found.times[0].high < 2.2
    assert found.moves == ("  split(0, 16)", "+ vectorize(0.0)") and found.gates == {"correct": "fail to pass"}
    assert len(vars(found)) < 20
    back = compare(second, first)
    assert (back.relation, back.correctness) == ("parent", "regressed") and back.times[0].high < 0.6
    status, out, _ = run(capsys, "compare", first.run.name, second.run.name)
    assert status == 0 and "recovered" in out and "+ vectorize(0.0)" in out
    data = json.loads(run(capsys, "compare", first.run.name, second.run.name, "--json")[1])["compared"]
    assert data["relation"] == "child"


def test_times_that_may_not_be_compared_are_not(here: Path) -> None:
    first, second = (bench_bundle(here / "runs", traced()) for _ in range(2))
    assert compare(first, second).relation == "the same result"
    path = second.folder / "bench.json"
    for name in ("protocol", "machine", "versions"):
        text = path.read_text()
        path.write_text(json.dumps(json.loads(text) | {name: "another"}))
        found = compare(first, read(second.folder))
        assert found.times == () and name in found.incomparable
        path.write_text(text)
    searched = search_bundle(here / "runs", "add", 4)
    found = compare(first, searched)
    assert found.relation == "another kernel" and "not benched" in found.incomparable


def test_a_diff_of_moves() -> None:
    assert diff(["a", "b"], ["a", "c"]) == ["  a", "- b", "+ c"]


def test_a_run_of_a_thousand_states_is_shown_at_once(here: Path) -> None:
    """Both are only a reading of its file: 1,000 states are 1,000 lines of it."""
    given = search_bundle(here / "runs", "relu", 4)
    lines = (given.folder / "states.jsonl").read_text().splitlines()
    head = [line for line in lines if not line.startswith(('{"state"', '{"result"'))]
    state = json.loads(next(line for line in lines if line.startswith('{"state"') and '"move": null' not in line))
    result = json.loads(next(line for line in lines if line.startswith('{"result"')))
    root = next(line for line in lines if line.startswith('{"state"') and '"move": null' in line)
    many = [root]
    for n in range(1000):
        many.append(json.dumps(state | {"state": f"{n:064x}", "parent": json.loads(root)["state"]}))
        many.append(json.dumps(result | {"result": f"{n:064x}", "seconds": 1e-5}))
    (given.folder / "states.jsonl").write_text("".join(f"{line}\n" for line in [*head, *many]))
    from dojoir.evidence.page.html import page
    from dojoir.evidence.page.of_run import view_of_run
    from dojoir.evidence.showing import section

    found = read(given.folder)
    begun = time.process_time()
    assert (
        len(section(found, "states").splitlines()) == 1001 and len(section(found, "lineage").splitlines()) == 1001
    )
    text = page(view_of_run(found))
    print(f"{time.process_time() - begun:.3f} s, {len(text)} characters")
    assert len(text.encode()) < 5_000_000


WRONG: list[tuple[tuple[str, ...], int, str]] = [
    (("runs", "--runs", "nowhere"), 1, "no-run"),
    (("runs", "--status", "splendid"), 2, "usage"),
    (("show",), 2, "usage"),
    (("show", "nothing"), 1, "no-run"),
    (("show", "last", "--section", "soul"), 2, "usage"),
    (("show", "searched", "--section", "bench"), 1, "no-answer"),
    (("show", "searched", "--section", "gates"), 1, "no-answer"),
    (("show", "broken"), 1, "bad-record"),
    (("show", "newer"), 1, "newer-record"),
    (("compare", "searched"), 2, "usage"),
    (("compare", "searched", "nothing"), 1, "no-run"),
    (("view", "nothing", "-o", "x.html"), 1, "no-run"),
    (("view", "searched"), 2, "usage"),
    (("view", "searched", "-o", "no/folder/x.html"), 1, "cannot-write"),
    (("view", "broken", "-o", "x.html"), 1, "bad-record"),
    (("view", "library:rel", "-o", "x.html"), 1, "unknown-kernel"),
    (("replay", "nothing"), 1, "no-run"),
    (("replay", "searched", "--seconds", "0"), 2, "usage"),
    (("export", "nothing", "-o", "x.zip"), 1, "no-run"),
    (("export", "stopped", "-o", "x.zip"), 1, "no-answer"),
    (("export", "searched", "-o", "no/x.zip"), 1, "cannot-write"),
    (("check", "no.zip"), 1, "cannot-read"),
    (("check", "text.zip"), 3, ""),
    (("profile", "library:rel", "-s", "N=8"), 1, "unknown-kernel"),
    (("profile", "library:relu"), 1, "size-missing"),
    (("profile", *RELU, "--ncu", "no.csv"), 1, "cannot-read"),
    (("profile", *RELU, "--target", "abacus"), 1, "unknown-target"),
    (("library", "library:rel", "-o", "made"), 1, "unknown-kernel"),
    (("library", *RELU), 2, "usage"),
    (("library", "library:relu", "-o", "made"), 1, "size-missing"),
    (("library", *RELU, "--seconds", "-1", "-o", "made"), 2, "usage"),
    (("library", *RELU, "-o", "runs"), 1, "not-empty"),
    (("tune", *RELU, "--timer", "static", "--states", "3", "--runs", "text.zip"), 1, "cannot-write"),
    (("tune", *RELU, "--timer", "static", "--runs", "runs", "--resume", "../out"), 1, "bad-arguments"),
    (("tune", *RELU, "--timer", "static", "--runs", "runs", "--resume", "broken"), 1, "bad-record"),
]


def words(value: object) -> str:
    return " ".join(value) if isinstance(value, tuple) else str(value)


@pytest.mark.parametrize(("arguments", "status", "code"), WRONG, ids=words)
def test_bad_input_is_told_and_leaves_nothing_half_written(
    capsys: pytest.CaptureFixture[str], here: Path, arguments: tuple[str, ...], status: int, code: str
) -> None:
    runs = here / "runs"
    given = bench_bundle(runs, traced())
    left_out = ("bench.json", "gates.json")
    for name in left_out:
        (given.folder / name).unlink()
    data = json.loads((given.folder / "run.json").read_text())
    for name, more in (("searched", {}), ("stopped", {"status": "running"}), ("newer", {"version": 99})):
        folder = runs / name
        folder.mkdir()
        for path in given.folder.iterdir():
            (folder / path.name).write_bytes(path.read_bytes())
        listed = [one for one in data["files"] if one["name"] not in left_out]
        (folder / "run.json").write_text(json.dumps(data | {"files": listed} | more))
    (runs / "broken").mkdir()
    (runs / "broken" / "run.json").write_text('{"version": 1}')
    (here / "text.zip").write_text("this is no archive")
    before = sorted(str(path.relative_to(here)) for path in here.rglob("*"))
    found, out, err = run(capsys, *arguments)
    assert found == status and (f"error[{code}]" in err if code else "the first difference" in out), (out, err)
    assert sorted(str(path.relative_to(here)) for path in here.rglob("*")) == before
    if status == 1:
        error = json.loads(run(capsys, *arguments, "--json")[2].splitlines()[-1])["error"]
        assert error["code"] == code


def test_showing_a_run_loads_nothing_that_measures(here: Path) -> None:
    given = search_bundle(here / "runs", "relu", 4)
    code = (
        "import sys\nfrom dojoir.verbs import main\n"
        f"assert main(['show', {str(given.folder)!r}, '--section', 'states']) == 0\n"
        "assert not {'numpy', 'islpy', 'llvmlite', 'sqlalchemy'} & set(sys.modules), sorted(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
