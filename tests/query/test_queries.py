"""Queries for places: what they find, what they say when nothing matches, and moves with places written so."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from drawing import draw

import dojoir
from dojoir.cli import main
from dojoir.grammar.query import parse_query
from dojoir.query.conditions import (
    All,
    AnyOf,
    At,
    HasExtent,
    Kind,
    Labelled,
    Marked,
    Not,
    Query,
    Related,
    Spelled,
    Touches,
)

TEXT = """kernel rows(N, M)
in  x: f32[N, M]
out y: f32[N, M]
tmp t: f32[N]
tmp s: f32[N]

N @i
| s[{i}] = 0
| M : v @j
| | s[{i}] += x[{i}, {j}] * 2
| if {i} >= 1
| | s[{i}] += 1
N @k
| t[{k}] = sqrt(s[{k}])
| M @tile_in
| | y[{k}, {tile_in}] = x[{k}, {tile_in}] / t[{k}]
M - 1 @rest
| t[0] = 1
"""


@pytest.fixture
def rows() -> dojoir.Kernel:
    return dojoir.parse(TEXT, "rows.dojo")


def places(kernel: dojoir.Kernel, query: str) -> list[str]:
    return [match.place for match in dojoir.find(kernel, query)]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("@i", ["0"]),
        ("@tile_*", ["1.1"]),
        ("0.1", ["0.1"]),
        ("0.*", ["0.0", "0.1", "0.2"]),
        ("0.**", ["0.0", "0.1", "0.1.0", "0.2", "0.2.0"]),
        ("*", ["0", "1", "2"]),
        ("guard", ["0.2"]),
        ("outermost", ["0", "1", "2"]),
        ("innermost", ["0.1", "1.1", "2"]),
        ("scope unmarked", ["0", "1", "1.1", "2"]),
        ("marked v", ["0.1"]),
        ("extent M", ["0.1", "1.1"]),
        ("extent (M - 1)", ["2"]),
        ("extent (M-1)", ["2"]),
        ("writes y", ["1", "1.1", "1.1.0"]),
        ("scope accumulates s", ["0", "0.1"]),
        ("statement reads s", ["1.0"]),
        ("innermost uses *", ["0.1", "1.1", "2"]),
        ('"s[...] += ..."', ["0.1.0", "0.2.0"]),
        ('"s[{i}]+=1"', ["0.2.0"]),
        ('"... * 2"', ["0.1.0"]),
        ("statement in @i", ["0.0", "0.1.0", "0.2.0"]),
        ("statement under @i", ["0.0"]),
        ("outermost has marked v", ["0"]),
        ("scope after @j before @rest", ["1", "1.1"]),
        ("scope not (in @k or has writes s)", ["1", "2"]),
        ("marked v or extent (M - 1)", ["0.1", "2"]),
        ("first innermost", ["0.1"]),
        ("last innermost", ["2"]),
        ("number 1 innermost", ["1.1"]),
        ("<innermost in (outermost extent N) writes y>", ["1.1"]),
    ],
)
def test_what_a_query_finds(rows: dojoir.Kernel, query: str, found: list[str]) -> None:
    assert places(rows, query) == found


def test_a_match_says_where_it_is(rows: dojoir.Kernel) -> None:
    match = dojoir.one(rows, "marked v")
    assert (match.path, match.place, match.line, match.text) == ((0, 1), "0.1", 9, "M : v @j")
    assert rows.at(match.path) == match.node
    assert str(match) == "0.1: M : v @j"


def test_keywords_are_further_conditions(rows: dojoir.Kernel) -> None:
    assert [m.place for m in dojoir.find(rows, writes="s", kind="scope", inside="@i")] == ["0.1"]
    assert [m.place for m in dojoir.find(rows, "innermost", reads="x", label="@j")] == ["0.1"]
    assert dojoir.one(rows, Kind("guard") & Related("in", Labelled("i"))).place == "0.2"
    either = ~Kind("statement") & (Marked("v") | Kind("guard"))
    assert [m.place for m in dojoir.find(rows, either)] == ["0.1", "0.2"]
    unknown: dict[str, str] = {"lable": "i"}
    with pytest.raises(dojoir.ArgumentError, match="there is no condition 'lable'"):
        dojoir.find(rows, **unknown)
    with pytest.raises(dojoir.ArgumentError, match="say what to find"):
        dojoir.find(rows)


@pytest.mark.parametrize(
    ("query", "reason", "notes"),
    [
        ("@ii", "no scope is labelled @ii; did you mean '@i'?", []),
        ("0.7", "there is no place 0.7: 0 has the children 0.0, 0.1, 0.2", []),
        ("marked q", "there is no mark q; the marks are p, v, u", []),
        ("marked p", "no scope is marked p: the marks here are v", []),
        ("extent (M - 2)", "no scope has the extent (M - 2); there are M - 1", []),
        ("writes yy", "nothing writes yy; did you mean 'y'?", []),
        ("writes x", "nothing writes x; this kernel writes s, t, y", []),
        ('"s[...] -= ..."', "similar: `s[{0}] = 0`", []),
        (
            "innermost writes y in @i",
            "nothing is all of this",
            [
                ("0.1 matches without `writes y`: it writes s", 9),
                ("1.1 matches without `in @i`: it is under `N @k`", 15),
            ],
        ),
        ("guard marked v", "nothing is all of this", [("0.1 matches without `guard`: it is a scope", 9),
                                                       ("0.2 matches without `marked v`: it has no mark", 11)]),
        ("number 9 innermost", "3 places match innermost, numbered from 0", []),
    ],
)  # fmt: skip
def test_an_empty_match_shows_what_is_near(
    rows: dojoir.Kernel, query: str, reason: str, notes: list[tuple[str, int]]
) -> None:
    with pytest.raises(dojoir.QueryError) as caught:
        dojoir.find(rows, query)
    diagnostic = caught.value.diagnostic
    assert diagnostic.code == "no-match"
    assert diagnostic.message.startswith(f"no place matches <{parse_query(query)}>: ")
    assert reason in diagnostic.message
    assert [(n.message, n.span.line) for n in diagnostic.notes if n.span] == notes
    assert all(f"rows.dojo:{line}:" in str(caught.value) for _, line in notes)


def test_several_matches_where_one_is_wanted(rows: dojoir.Kernel) -> None:
    with pytest.raises(dojoir.QueryError, match="matches 3 places, and one is wanted") as caught:
        dojoir.one(rows, "innermost")
    assert caught.value.diagnostic.code == "several-matches"
    assert [note.message for note in caught.value.diagnostic.notes] == ["0.1 matches", "1.1 matches", "2 matches"]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("scope wrtes y", "unexpected 'wrtes'; did you mean 'writes'?"),
        ("(scope", "the query ends here, unfinished"),
        ("marked", "the query ends here, unfinished"),
        ("", "the query ends here, unfinished"),
        ("scope )", r"unexpected '\)'"),
        ('"s[0]', "unexpected"),
    ],
)
def test_a_text_that_is_no_query(rows: dojoir.Kernel, query: str, message: str) -> None:
    with pytest.raises(dojoir.ParseError, match=message) as caught:
        dojoir.find(rows, query)
    assert caught.value.diagnostic.code == "bad-query"


def random_query(random: Random, depth: int) -> Query:
    leaves = [
        Kind("innermost"), Kind("statement"), Labelled("t*"), At("0.**"), Marked("v"), HasExtent("N - 1"),
        HasExtent("min(16, N)"), Touches("uses", "x*"), Spelled("y[...] = ..."),
    ]  # fmt: skip
    if depth == 0:
        return random.choice(leaves)
    inner = [random_query(random, depth - 1) for _ in range(2)]
    ways = [inner[0] & inner[1], inner[0] | inner[1], ~inner[0], Related(random.choice(["in", "has"]), inner[0])]
    return random.choice(ways)


@pytest.mark.parametrize("seed", range(40))
def test_a_query_is_written_as_it_is_read(seed: int) -> None:
    random = Random(seed)
    query = random_query(random, 3)
    read = parse_query(str(query))
    assert str(read) == str(query)
    kernel = draw("runnable", random)
    for either in (query, read):
        try:
            found = dojoir.find(kernel, either)
        except dojoir.QueryError as error:
            assert error.diagnostic.code == "no-match"
        else:
            assert [m.path for m in found] == sorted(m.path for m in found)
    assert isinstance(query, All | AnyOf | Not | Related)


# -- places of moves ---------------------------------------------------------------------------------------
def test_a_place_may_be_a_query(rows: dojoir.Kernel, tmp_path: Path) -> None:
    trace = dojoir.Trace(rows)
    trace.apply("vectorize(<innermost writes y>)")
    trace.apply("split(<scope marked v in @k>, 16)")
    assert [str(move) for move in trace.moves] == ["vectorize(1.1)", "split(1.1, 16)"]
    trace.save(tmp_path / "trace.json")
    assert "<" not in (tmp_path / "trace.json").read_text()
    assert dojoir.Trace.load(tmp_path / "trace.json").kernel == trace.kernel


def test_a_query_in_a_move_is_part_of_its_text() -> None:
    for text in ('inline(<"y[...] = ..." in @k>, t)', "tile(<outermost has writes y>, <innermost>, 4, 8)"):
        assert str(dojoir.parse_move(text)) == text
    with pytest.raises(dojoir.ArgumentError, match="did you mean 'innermost'") as caught:
        dojoir.parse_pipeline("simplify; vectorize(<inermost>)")
    assert caught.value.diagnostic.code == "bad-query"


def test_a_move_whose_query_matches_nothing_is_refused(rows: dojoir.Kernel) -> None:
    verdict = dojoir.check(rows, "vectorize(<innermost writes z>)")
    assert (verdict.status, verdict.code) == ("illegal", "no-match")
    assert dojoir.check(rows, "vectorize(<innermost>)").code == "several-matches"
    with pytest.raises(dojoir.IllegalMove, match="no place matches"):
        dojoir.Trace(rows).apply("vectorize(<innermost writes z>)")


def test_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    lanes = ["-p", "vectorize(<innermost writes y>)"]
    assert main(["library:softmax", *lanes, "--find", 'marked v or "s[...] = 0"']) == 0
    assert capsys.readouterr().out == "1.0  line 13   s[{0}] = 0\n1.2  line 17   M : v @l\n"
    assert main(["library:softmax", "--find", "@i", "--json"]) == 0
    assert capsys.readouterr().out == '{"find": [{"place": "0", "line": 13, "text": "N @i"}]}\n'
    assert main(["library:softmax", "--find", "@q"]) == 1
    assert "error[no-match]" in capsys.readouterr().err
