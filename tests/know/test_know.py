"""`dojoir know`: words, names, notes and likeness find what they should, and bad input is told."""

from __future__ import annotations

import json
from math import comb
from pathlib import Path

import pytest
from commands import run

import dojoir
from dojoir.know import KINDS, ask, documents, exact, how_alike, known, like, notes_in, race, recorded
from dojoir.know.bm25 import BM25
from dojoir.know.document import MEASURED_HERE, WEIGHTS, sections
from dojoir.know.racing import Raced
from dojoir.know.recorded import helped, told
from dojoir.runtime import Evaluation

pytest.importorskip("sqlalchemy", reason="needs the extra agents")

from dojoir.records import Database


# -- BM25 ----------------------------------------------------------------------------------------------------
def test_bm25_agrees_with_its_formula_by_hand() -> None:
    index = BM25(["cat cat dog", "dog"])
    scores = index.scores("cat")
    # N = 2, n = 1: idf = ln 2; tf = 2 of 3 words where the mean is 2: 2 * 2.5 / (2 + 1.5 * (0.25 + 0.75 * 1.5))
    assert scores == {0: pytest.approx(0.6931471805599453 * 5 / (2 + 1.5 * 1.375))}


def test_a_rare_word_counts_more_and_words_of_no_weight_are_left_out() -> None:
    index = BM25(["the scope", "the scope", "the lane", "the the the"])
    assert index.scores("the lane").keys() == {2}
    assert index.scores("the").keys() == {0, 1, 2, 3}
    assert index.scores("lane scope")[2] > index.scores("lane scope")[0]


def test_fences_are_no_headings_and_sections_are_numbered() -> None:
    text = "intro\n# One\na\n```\n# no heading\n```\n## Two\nb\n"
    found = [(one.name, one.title) for one in sections(text, "page", "note", "page.md")]
    assert found == [("page", "intro"), ("page#1", "One"), ("page#2", "Two")]


# -- documents -----------------------------------------------------------------------------------------------
def test_every_move_rule_pass_and_code_is_a_document() -> None:
    from dojoir.codes import CODES

    of = {kind: {one.name for one in documents() if one.kind == kind} for kind in KINDS}
    assert of["move"] == {move.name for move in dojoir.MOVES}
    assert of["rule"] == set(dojoir.rules.names())
    assert of["pass"] == set(dojoir.PASSES)
    assert len({one.title for one in documents() if one.kind == "pass"}) == len(dojoir.PASSES)
    assert of["code"] == set(CODES)
    assert {"gx", "p", "lane"} <= of["mark"] and {"rows_in_warps", "lanes"} <= of["structure"]
    assert "language" in of["doc"] and len(of["schedule"]) > 40
    assert all(one.text.strip() and one.title for one in documents())
    assert {one.weight for one in documents() if one.kind == "schedule"} <= {MEASURED_HERE, WEIGHTS["schedule"]}


@pytest.mark.parametrize(
    ("question", "kind", "name"),
    [
        ("interchange a scope with its only child", "move", "swap_scopes"),
        ("online normalizer softmax maximum and sum in one pass", "rule", "online_softmax"),
        ("an element is read that was never written", "code", "read-before-write"),
        ("a warp's lanes", "mark", "lane"),
    ],
)
def test_words_find_what_they_are_about(question: str, kind: str, name: str) -> None:
    assert name in [hit.document.name for hit in ask(question, kind=kind, count=3)]


def test_a_name_finds_itself_alone_and_scores_fall() -> None:
    for one in [*documents()][::25]:
        if one.kind not in ("doc", "note"):
            assert one in [hit.document for hit in exact(one.name)]
    assert [hit.document.name for hit in known("split(@i, 16)")] == ["split"]
    scores = [hit.score for hit in ask("rows bound by memory")]
    assert scores == sorted(scores, reverse=True) and len(scores) == 8


@pytest.mark.parametrize("wrong", [{"kind": "poem"}, {"count": 0}])
def test_a_wrong_question_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(dojoir.ArgumentError) as error:
        ask("rows", **wrong)  # type: ignore[arg-type]
    assert error.value.diagnostic.code == "bad-arguments"


# -- likeness ------------------------------------------------------------------------------------------------
def test_likeness_does_not_see_names_and_sees_structure() -> None:
    softmax = dojoir.kernels.load("softmax")
    renamed = dojoir.parse(str(softmax).replace("x", "zz").replace("ezzp", "exp").replace("mazz", "max"))
    assert how_alike(softmax, renamed) == pytest.approx(1.0)
    others = ("log_softmax", "matmul", "transpose")
    found = {name: how_alike(softmax, dojoir.kernels.load(name)) for name in others}
    assert found["log_softmax"] > 0.6 > found["matmul"]
    assert found["log_softmax"] > found["transpose"]


def test_schedules_of_others_are_made_through_the_checker() -> None:
    kernel = dojoir.kernels.load("log_softmax")
    found = like(kernel, count=2, tried=2, sizes={"N": 256, "M": 256})
    assert found[0].kernel == "softmax" and kernel.name not in [one.kernel for one in found]
    tried = [one for each in found for one in each.schedules]
    assert tried and all(one.made <= one.moves for one in tried)
    assert all((one.refused is None) == (one.made == one.moves) for one in tried)
    best = max(tried, key=lambda one: one.made)
    trace = dojoir.Trace(kernel)
    for move in dojoir.parse_pipeline(best.text):
        assert isinstance(move, dojoir.Move)
        trace.apply(move)
    assert dojoir.certify(trace)
    (_,) = like(kernel, count=1, tried=0)


# -- the command ---------------------------------------------------------------------------------------------
def test_the_command_answers_in_words_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "know", "lost-statement")
    assert status == 0 and out.startswith("code lost-statement") and "cure:" in out
    status, out, _ = run(capsys, "know", "rows", "bound", "by", "memory", "--count", "3", "--json")
    hits = json.loads(out)["know"]
    assert status == 0 and len(hits) == 3
    assert set(hits[0]) == {"score", "kind", "name", "title", "where", "weight", "text"}
    status, out, _ = run(capsys, "know", "--like", "library:matmul", "--count", "1", "--json")
    assert status == 0 and json.loads(out)["like"][0]["kernel"] in ("bmm", "matmul_nt", "matmul_tn")


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ([], 2, "usage"),
        (["rows", "--like", "library:relu"], 2, "usage"),
        (["rows", "-s", "N=4"], 2, "usage"),
        (["rows", "--kind", "poem"], 2, "usage"),
        (["zzzzq"], 1, "nothing-known"),
        (["rows", "--notes", "/no/such/folder"], 1, "cannot-read"),
        (["--like", "library:reluu"], 1, "unknown-kernel"),
        (["--like", "library:relu", "-s", "Q=4"], 1, "missing"),
    ],
)
def test_bad_input_is_told(
    capsys: pytest.CaptureFixture[str], arguments: list[str], status: int, said: str
) -> None:
    got, out, err = run(capsys, "know", *arguments)
    assert got == status and said in err and not out


# -- notes ---------------------------------------------------------------------------------------------------
def test_notes_are_searched_and_none_outside_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "a.md").write_text("# Gizmo\nthe gizmo likes lanes\n", encoding="utf-8")
    (folder / "b.json").write_text("gizmo", encoding="utf-8")
    (tmp_path / "secret.md").write_text("gizmo secret", encoding="utf-8")
    (folder / "link.md").symlink_to(tmp_path / "secret.md")
    found = notes_in(folder)
    assert [(one.name, one.title) for one in found] == [("deep/a", "Gizmo")]
    assert [hit.document.kind for hit in ask("gizmo", more=found)] == ["note"]


@pytest.mark.parametrize(("data", "code"), [(b"\xff\xfe", "not-text"), (b"x" * ((1 << 20) + 1), "cannot-read")])
def test_notes_that_cannot_be_read_are_told(tmp_path: Path, data: bytes, code: str) -> None:
    (tmp_path / "a.txt").write_bytes(data)
    with pytest.raises(dojoir.ArgumentError) as error:
        notes_in(tmp_path)
    assert error.value.diagnostic.code == code


def test_a_schedule_of_another_kernel_is_finished_by_the_default() -> None:
    kernel = dojoir.kernels.load("argmax")
    found = [one for each in like(kernel, count=3, tried=8, sizes={"N": 64, "M": 64}) for one in each.schedules]
    assert any(one.finished for one in found) and any(not one.finished for one in found)
    default = dojoir.PASSES["default_schedule"].on(kernel).kernel
    for one in found:
        if one.ratio:
            trace = dojoir.Trace(kernel)
            for move in dojoir.parse_pipeline(one.text):
                assert isinstance(move, dojoir.Move)
                trace.apply(move)
            assert trace.kernel != default or not one.finished
        assert one.shown.endswith(", then default_schedule") == one.finished


def test_what_is_found_is_timed_where_that_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    command = ("know", "--like", "library:add", "-s", "N=4096", "--count", "1", "--tried", "2", "--measure")
    status, out, err = run(capsys, *command, "--json")
    assert status == 0, err
    found = json.loads(out)["measured"]
    assert 0 < found["low"] <= found["ratio"] <= found["high"] and found["timed"] >= 1
    raced = Raced(**{"median" if name == "ratio" else name: value for name, value in found.items()})
    assert (": " in str(raced)) and str(raced).endswith("default_schedule")
    trace = dojoir.Trace(dojoir.kernels.load("add"))
    for move in dojoir.parse_pipeline(found["text"]):
        assert isinstance(move, dojoir.Move)
        trace.apply(move)
    assert trace.is_safe and trace.moves
    assert race(dojoir.kernels.load("add"), [], {"N": 64}) is None
    assert run(capsys, "know", "--like", "library:add", "--measure")[0] == 2
    assert run(capsys, "know", "words", "--measure")[0] == 2


# -- runs ----------------------------------------------------------------------------------------------------
def tried(database: Database, moves: list[str], seconds: float, protocol: str = "measure") -> None:
    """Records a state of softmax with a time."""
    trace = dojoir.Trace(dojoir.kernels.load("softmax"))
    for move in moves:
        trace.apply(move)
    found = Evaluation(trace.kernel.hash, "ok", seconds, (seconds, seconds), (seconds,), 12, trace.kernel.hash)
    database.record(trace, found, sizes={"N": 64, "M": 64}, threads=1, protocol=protocol)


def test_what_helped_in_a_database_is_told_with_its_median_and_interval(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Database(tmp_path / "a.db") as database:
        tried(database, [], 8.0)
        for number, size in enumerate((2, 4, 8, 16, 32, 64), 1):
            tried(database, [f"split(0, {size})"], 8.0 / number)
        tried(database, ["join_scopes(0, 1)"], 16.0)
        tried(database, ["join_scopes(0, 1)", "split(0, 4)"], 1.0, protocol="static")  # an estimate is no time
        found = {one.name: one for one in recorded(databases=[database])}
    assert set(found) == {"split", "split on softmax", "join_scopes", "join_scopes on softmax"}
    one = found["split"]
    assert one.title == "split: 3.5x in the median (1x to 6x, n = 6); faster in 5 of 6 tries here"
    assert one.text.splitlines()[1] == "6x: split(0, 64) on softmax" and one.weight == MEASURED_HERE
    assert "0.5x in the median (all from 0.5x to 0.5x, n = 1); faster in 0 of 1" in found["join_scopes"].title
    url = str(tmp_path / "a.db")
    status, out, _ = run(capsys, "know", "split", "--db", url, "--json")
    assert status == 0 and {hit["kind"] for hit in json.loads(out)["know"]} == {"move", "run"}
    status, out, _ = run(capsys, "know", "what helped on softmax", "--db", url, "--kind", "run", "--count", "1")
    assert status == 0 and out.startswith("run ") and "on softmax: " in out
    for wrong in (["--db", str(tmp_path / "none.db")], ["--runs", str(tmp_path / "none")]):
        assert run(capsys, "know", "split", *wrong)[0] == 1
    assert run(capsys, "know", "--like", "library:relu", "--db", url)[0] == 2


def test_runs_of_a_folder_are_searched_and_lines_that_are_none_left_out(tmp_path: Path) -> None:
    assert recorded([tmp_path]) == []
    given = {
        "of": "k",
        "status": "ok",
        "samples": [],
        "cases": 1,
        "digest": "",
        "stages": {},
        "reason": "",
        "made": 1,
    }
    about = {"machine": "m", "facts": "", "sizes": {}, "threads": 1, "protocol": "p", "versions": ""}
    lines: list[dict[str, object]] = [
        {"kernel": "k", "text": "kernel f(N)\n"}, {"state": "k", "of": "k", "parent": None, "move": None},
        {"state": "a", "of": "k", "parent": "k", "move": "split(0, 2)"},
        {"state": "b", "of": "k", "parent": "k", "move": "<script>"}, {"state": 3}, {"result": "a", "of": "k"},
        *({"result": hash, "seconds": time, "context": {**about, "target": target}, **given}
          for hash, time in (("k", 3.0), ("a", 2.0), ("b", 1.0)) for target in ("llvm", "nothing")),
        {"result": "a", "of": "k", "seconds": -1.0, "context": {}},
    ]  # fmt: skip
    assert [(one.name, one.gain, one.here) for _, one in helped(lines)] == [("split", 1.5, False)] * 2


@pytest.mark.parametrize(("n", "low", "high"), [(6, 0, 5), (20, 4, 15), (100, 39, 60)])
def test_the_interval_of_a_median_covers_it(n: int, low: int, high: int) -> None:
    """The chance that the median is outside, by the binomial distribution, is at most about 5%."""
    said = told([float(value) for value in range(n)])
    assert f"({low:g}x to {high:g}x, n = {n})" in said
    outside = sum(comb(n, k) for k in range(low + 1)) + sum(comb(n, k) for k in range(high + 1, n + 1))
    assert outside / 2**n <= 0.05
