"""Pipelines: combinators in their text, passes with arguments, and passes of users from files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import dojoir
from dojoir.cli import main
from dojoir.errors import Span
from dojoir.grammar.pipeline import parse_calls
from dojoir.passes import Pass, attempt, each, load_passes, repeat, sequence

SOFTMAX = dojoir.kernels.load("softmax")


def made(pipeline: str, kernel: dojoir.Kernel = SOFTMAX) -> list[str]:
    trace = dojoir.Trace(kernel)
    for element in dojoir.parse_pipeline(pipeline):
        if isinstance(element, dojoir.Pass):
            element(trace)
        else:
            trace.apply(element)
    assert dojoir.certify(trace)
    return [str(move) for move in trace.moves]


@pytest.mark.parametrize(
    ("pipeline", "moves"),
    [
        ("try(vectorize(0.1))", ["vectorize(0.1)"]),
        ("try(split(0, 8), parallelize(0.0), parallelize(0.0.1))", []),
        ("try(join_scopes(1, 2))", []),
        ("repeat(try(join_scopes(0, 1)))", ["join_scopes(0, 1)"]),
        (
            "repeat(simplify, join_all)",
            ["reuse_dims(e, 0)", "reuse_dims(s, 0)", "join_scopes(0, 1)", "reuse_dims(m, 0)"],
        ),
        ("each(<innermost writes e or innermost writes y>, vectorize(it))", ["vectorize(1.2)", "vectorize(1.1)"]),
        ("each(<first extent M>, split(it, 8), parallelize(0))", ["split(0.1, 8)", "parallelize(0)"]),
        ("try(each(<marked v>, split(it, 8)))", []),
        ("each(<scope extent M>, try(parallelize(it)), try(vectorize(it)))", None),
    ],
)
def test_combinators_in_a_pipeline(pipeline: str, moves: list[str] | None) -> None:
    found = made(pipeline)
    assert moves is None or sorted(found) == sorted(moves)


def test_what_stands_for_a_place_is_not_touched_in_queries_and_quotes() -> None:
    kernel = dojoir.parse("kernel f(N)\nin it: f32[N]\nout y: f32[N]\nN @i\n| y[{i}] = it[{i}]\n")
    assert made("each(<scope reads it>, vectorize(<scope reads it>))", kernel) == ["vectorize(0)"]


@pytest.mark.parametrize(
    ("pipeline", "message"),
    [
        ("try()", "try needs a move or pass"),
        ("each(vectorize(it))", "each begins with a query in <>"),
        ("each(<innermost>)", "each needs a move or pass"),
        ("each(<inermost>, vectorize(it))", "did you mean 'innermost'"),
        ("repeat(vectorise(0))", r"in repeat: there is no move or pass 'vectorise'; did you mean vectorize\(@j\)"),
        ("try(each(<innermost>, split(it)))", "in try: in each: split is written"),
        ("tru(vectorize(0))", "did you mean 'try'"),
        ("simplify(3)", "the pass simplify takes no arguments, not with 1 argument"),
    ],
)
def test_errors_in_combinators(pipeline: str, message: str) -> None:
    with pytest.raises((dojoir.ArgumentError, dojoir.ParseError), match=message) as caught:
        made(pipeline)
    assert caught.value.diagnostic.code


def test_an_element_is_written_as_it_was_read() -> None:
    for text in ("try(split(0, 8), vectorize(0.0))", "each(<scope writes y>, try(vectorize(it)))", "simplify"):
        assert [str(element) for element in dojoir.parse_pipeline(text)] == [text]


# -- passes of users ---------------------------------------------------------------------------------------
MINE = '''
import dojoir
from dojoir.passes import attempt, each


@dojoir.passes.named_pass
def blocks(trace: dojoir.Trace, size: int, direction: str = "inner") -> None:
    """Splits the outermost scope.

    And more.
    """
    trace.apply(f"split(0, {size})")
    trace.apply("vectorize(0.0)" if direction == "inner" else "parallelize(0)")


lanes = dojoir.Pass("lanes", attempt(each("innermost unmarked", lambda place: attempt(f"vectorize({place})"))))
'''


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


def test_passes_from_a_file(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert set(load_passes(mine)) == {"blocks", "lanes"}
    assert main(["library:relu", "--load", str(mine), "-p", "blocks(8, outer); lanes"]) == 0
    out = capsys.readouterr().out
    assert "(N + 7) // 8 : p" in out
    assert "min(8, N - 8*{i}) : v" in out
    assert main(["--load", str(mine), "--help-pass", "blocks"]) == 0
    assert capsys.readouterr().out == "blocks(size, direction=inner)\n\nSplits the outermost scope.\n\nAnd more.\n"
    assert main(["--load", str(mine), "--list-passes"]) == 0
    listed = capsys.readouterr().out
    passes, combinators, *_ = listed.split("\n\n")
    assert passes.startswith("passes") and "  blocks(size, direction=inner)  " in passes
    assert any(line.endswith("  Splits the outermost scope") for line in passes.splitlines())
    assert "\n  try(STEP, ...)" in combinators


@pytest.mark.parametrize(
    ("pipeline", "message"),
    [
        ("blocks", r"the pass blocks is written blocks\(size, direction=inner\), not with 0 arguments"),
        ("blocks(1, a, b)", "not with 3 arguments"),
        ("blocks(many)", "'many' is not an integer"),
    ],
)
def test_arguments_of_passes(mine: Path, pipeline: str, message: str) -> None:
    with pytest.raises(dojoir.ArgumentError, match=message) as caught:
        dojoir.parse_pipeline(pipeline, passes=load_passes(mine))
    assert caught.value.diagnostic.span is not None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = (", "mine.py:1: "),
        ("1 / 0", "mine.py failed: ZeroDivisionError: division by zero"),
        ("x = 1", "mine.py defines no pass"),
        (
            "import dojoir\ns = dojoir.Pass('simplify', lambda trace: None)",
            "the pass simplify, which there is already",
        ),
    ],
)
def test_files_that_are_no_passes(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(dojoir.ArgumentError, match=message):
        load_passes(tmp_path / "mine.py")
    with pytest.raises(dojoir.ArgumentError, match="cannot read"):
        load_passes(tmp_path / "other.py")


def test_each_in_python() -> None:
    lanes = Pass("lanes", each("innermost", lambda place: attempt(f"vectorize({place})")))
    assert [str(move) for move in lanes.on(SOFTMAX).moves] == ["vectorize(1.2)", "vectorize(1.1)", "vectorize(0.1)"]
    with pytest.raises(dojoir.QueryError, match="no place matches"):
        Pass("none", each("marked p", lambda place: f"split({place}, 4)")).on(SOFTMAX)
    again = Pass("again", sequence(lanes, repeat(attempt("join_scopes(0, 1)"))))
    assert [str(move) for move in again.on(SOFTMAX).moves][-1] == "join_scopes(0, 1)"


def test_brackets_nest_sixty_deep_and_no_stack_overflows() -> None:
    text = "unsplit(0.0.0, min(6, -6*{1} - 6*(((2*{0} - 11*({0} // 6)) // 4) % 3) + 16))"
    (move,) = dojoir.parse_pipeline(text)
    assert str(move) == text
    (call,) = parse_calls(f'f({"(" * 60}a; "((", <x in @i>{")" * 60} b , c)')
    assert call.arguments == (f'{"(" * 60}a; "((", <x in @i>{")" * 60} b', "c")
    with pytest.raises(dojoir.ParseError, match="brackets nest more than"):
        parse_calls(f"f({'(' * 300}a{')' * 300})")


@pytest.mark.parametrize("text", ["split(@j, 16", "split(@j, (16)", "split("])
def test_a_pipeline_that_is_cut_off_says_so_where_it_ends(text: str) -> None:
    with pytest.raises(dojoir.ParseError, match="the pipeline ends here") as caught:
        dojoir.parse_pipeline(text)
    assert caught.value.diagnostic.span == Span(1, len(text) + 1, len(text) + 2)


def test_moves_of_one_text_are_made_one_after_another() -> None:
    softmax = dojoir.kernels.load("softmax")
    trace = dojoir.Trace(softmax)
    made = trace.apply("join_scopes(0, 1); split(0, 4)")
    assert made == dojoir.apply(softmax, "join_scopes(0, 1)\nsplit(0, 4)") == trace.kernel
    assert [str(move) for move in trace.moves] == ["join_scopes(0, 1)", "split(0, 4)"]


def test_of_moves_of_one_text_all_are_made_or_none() -> None:
    trace = dojoir.Trace(dojoir.kernels.load("softmax"))
    for wrong in ("split(0, 4); split(9, 4)", "split(0, 4); nothing(1)"):
        with pytest.raises((dojoir.IllegalMove, dojoir.ArgumentError)):
            trace.apply(wrong)
        assert trace.moves == () and trace.kernel == trace.start


def test_a_race_of_accumulations_names_its_cure() -> None:
    kernel = dojoir.parse("kernel s(N)\nin x: f32[N]\nout y: f32\n\ny = 0\nN\n| y += x[{0}]\n")
    with pytest.raises(dojoir.IllegalMove) as told:
        dojoir.apply(kernel, "parallelize(1)")
    cure = re.search(r"split_reduction\(.*?\) gives", str(told.value))
    assert cure is not None
    dojoir.apply(kernel, f"{cure[0].removesuffix(' gives')}; parallelize(2)")
    in_blocks = dojoir.apply(kernel, "split(1, 1024); split_reduction(1, y, partial, (N + 1023) // 1024)")
    assert dojoir.check(in_blocks, "parallelize(2)")
