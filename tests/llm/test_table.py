"""The tools of a language model, without the protocol: answers are data, refusals have verdicts, limits hold."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import dojoir
import dojoir.know
from dojoir.llm import Limits, Table, mcp_server
from dojoir.llm.limits import Stop

SIZES = {"N": 256, "M": 256}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    folder = tmp_path / "served"
    folder.mkdir()
    made = Table(folder, timer="static")
    assert made.new_game("library:softmax", SIZES)["game"] == "g1"
    return made


def test_a_game_is_played_measured_and_saved(table: Table) -> None:
    start = table.games["g1"].trace.start
    plain = table.measure("g1")
    assert plain["status"] == "ok" and plain["times_as_fast_as_the_start"] == 1.0
    answer = table.apply("g1", "join_scopes(0, 1); default_schedule")
    assert answer["status"] == "ok" and answer["made"] == 2 and len(answer["moves"]) > 2
    faster = table.measure("g1")["times_as_fast_as_the_start"]
    assert faster > 1
    table.undo("g1", 1)
    best = table.best("g1")
    assert best["moves"] == answer["moves"] and best["times_as_fast_as_the_start"] == faster
    assert table.save("g1", "mine")["files"] == ["mine.dojo", "mine.json"]
    trace = dojoir.Trace.load(table.folder.path / "mine.json")
    assert trace.start == start and dojoir.certify(trace)
    assert table.new_game("mine.dojo", SIZES)["hash"] == best["hash"]


def test_a_refusal_is_an_answer_with_its_verdict_and_changes_nothing(table: Table) -> None:
    before = table.games["g1"].trace.kernel
    for answer in (table.check("g1", "reuse_dims(m, 0)"), table.explain("g1", "reuse_dims(m, 0)")):
        assert answer["status"] == "refused" and answer["verdict"]["obligation"] == "flow"
    assert table.suggest("g1", "reuse_dims(m, 0)")["verdict"]["hint"].endswith("after join_scopes(0, 1)")
    assert "cure:" in table.explain("g1", "reuse_dims(m, 0)")["means"]
    answer = table.apply("g1", "reuse_dims(m, 0); join_scopes(0, 1)")
    assert (answer["status"], answer["made"]) == ("refused", 0)
    assert answer["verdict"]["hint"].endswith("after join_scopes(0, 1)")
    assert table.games["g1"].trace.kernel == before
    answer = table.apply("g1", "join_scopes(0, 1); reuse_dims(e, 7)")
    assert (answer["status"], answer["made"], answer["moves"]) == ("refused", 1, ["join_scopes(0, 1)"])


def test_moves_are_legal_and_choices_can_be_applied(table: Table) -> None:
    kernel = table.games["g1"].trace.kernel
    listed = table.moves("g1", "split_scopes", most=3)
    assert len(listed["moves"]) == 3 and all(dojoir.check(kernel, move) for move in listed["moves"])
    assert table.moves("g1", most=0)["left"] > 50
    plan = table.plan("g1", most=2)["choices"]
    assert plan[0]["about_times_as_fast"] >= plan[1]["about_times_as_fast"] > 1
    assert table.apply("g1", plan[0]["apply"])["status"] == "ok"
    assert table.verify("g1")["verified"] == "ok"


def test_what_is_known_and_sources(table: Table) -> None:
    assert table.know("lost-statement")["know"][0]["kind"] == "code"
    assert table.know(game="g1", count=1)["like"][0]["kernel"] == "log_softmax"
    assert "softmax" in table.emit("g1", "c")["source"]
    small = Table(table.folder.path, Limits(characters=400), timer="static")
    small.new_game("library:relu")
    cut = small.emit("g1", "c")
    assert cut["cut"] and len(cut["source"]) == 400


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("check", ("g9", "split(0, 4)"), "no-game"),
        ("undo", ("g1", 5), "empty-trace"),
        ("undo", ("g1", -1), "empty-trace"),
        ("apply", ("g1", "split(("), "syntax"),
        ("apply", ("g1", "x" * 200_001), "bad-arguments"),
        ("check", ("g1", "x" * 200_001), "bad-arguments"),
        ("emit", ("g1", "brainfuck"), "unknown-target"),
        ("know", ("",), "bad-arguments"),
        ("know", ("rows", None, "poem"), "bad-arguments"),
        ("new_game", ("library:../../secret",), "unknown-kernel"),
        ("new_game", ("library:relu", {"N": -4}), "bad-arguments"),
        ("new_game", ("library:relu", {"Q": 4}), "size-missing"),
        ("new_game", ("library:relu", None, "z80"), "unknown-target"),
        ("new_game", ("kernel relu(N)\nnonsense\n",), "empty-body"),
    ],
)
def test_bad_arguments_are_answers(table: Table, tool: str, arguments: tuple[object, ...], code: str) -> None:
    answer = getattr(table, tool)(*arguments)
    assert (answer["status"], answer["code"]) == ("error", code), answer
    json.dumps(answer)


@pytest.mark.parametrize("name", ["/etc/passwd", "../up.dojo", "a/b", ".hidden", "", "link.dojo", "x\0y", "deep"])
def test_no_file_outside_the_folder(table: Table, name: str, tmp_path: Path) -> None:
    secret = tmp_path / "up.dojo"
    secret.write_text(str(dojoir.kernels.load("relu")))
    (table.folder.path / "link.dojo").symlink_to(secret)
    (table.folder.path / "deep").mkdir()
    answer = table.new_game(name)
    assert (answer["status"], answer["code"]) == ("error", "outside-folder")
    (table.folder.path / "saved.json").symlink_to(secret)
    assert table.save("g1", "saved")["code"] == "outside-folder"
    assert not (table.folder.path / "saved.dojo").exists() and secret.read_text().startswith("kernel relu")


def test_limits_hold(tmp_path: Path) -> None:
    table = Table(tmp_path, Limits(games=1, calls=6, measurements=1), timer="static")
    assert table.new_game("library:relu", {"N": 64})["left_of_limits"]["calls"] == 5
    assert table.new_game("library:relu")["status"] == "limit"
    assert table.measure("g1")["status"] == "ok"
    for tool in (table.measure, table.verify, table.profile):
        assert tool("g1")["code"] == "limit-reached"
    assert table.best("g1")["status"] == "limit"
    done = Table(tmp_path, Limits(seconds=1e-9), timer="static")
    assert done.new_game("library:relu")["status"] == "ok" and done.best("g1")["status"] == "limit"
    with pytest.raises(dojoir.ArgumentError):
        Limits(games=0)
    with pytest.raises(dojoir.ArgumentError):
        Table(tmp_path / "none")


def test_a_call_that_is_stopped_says_how_far_it_came(table: Table) -> None:
    stop = Stop(1e9)
    assert not stop
    stop.cancelled.set()
    assert table.apply("g1", "join_scopes(0, 1)", stop)["status"] == "limit"
    assert table.moves("g1", stop=stop)["moves"] == [] and table.plan("g1", stop=stop)["choices"] == []
    assert Stop(-1.0)


class Later(Stop):
    """One that comes while the call is at work: it is asked for the third time."""

    asked = 0

    def __bool__(self) -> bool:
        self.asked += 1
        return self.asked > 2


def test_a_call_that_is_cancelled_at_work_ends(table: Table) -> None:
    moves = "; ".join(["split(0, 16)"] + ["label(0, rows)", "unlabel(0)"] * 3)
    assert table.moves("g1", stop=Later(1e9))["left"] and table.plan("g1", stop=Later(1e9))["left"]
    done = table.apply("g1", moves, Later(1e9))
    assert (done["status"], done["made"]) == ("limit", 2)


def test_without_the_sdk_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(dojoir.ToolchainError) as error:
        mcp_server(tmp_path)
    assert error.value.diagnostic.code == "missing-package" and "dojoir[llm]" in str(error.value)


def test_know_also_searches_what_the_server_is_given(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "zebra.md").write_text("# Zebra rows\n\nStriped zebra rows want a tile of 48.\n")
    more = dojoir.know.notes_in(tmp_path / "notes")
    plain, told = (Table(tmp_path, timer="static", more=given) for given in ((), more))
    assert told.know("striped zebra rows")["know"][0]["kind"] == "note"
    assert all(hit["kind"] != "note" for hit in plain.know("striped zebra rows").get("know", []))
