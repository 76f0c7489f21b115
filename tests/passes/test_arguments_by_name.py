"""Arguments of moves and passes by name, and what is told where a pass or several moves stand for one move."""

from __future__ import annotations

import pytest

import dojoir
from dojoir.passes.engine.other_names import PASS_NAMES

COPY = "kernel k(N, M)\nin x: f32[N, M]\nout y: f32[N, M]\nN @i\n| M @j\n| | y[{i}, {j}] = x[{i}, {j}]\n"


def test_a_move_by_names_is_the_move() -> None:
    assert dojoir.parse_move("split(@i, factor=8)") == dojoir.parse_move("split(@i, 8)")
    assert dojoir.parse_move("split(factor=8, scope=@i)") == dojoir.parse_move("split(@i, 8)")


def test_a_pass_by_names_is_the_pass() -> None:
    (named,), (plain,) = (
        dojoir.parse_pipeline(text) for text in ("split_with_tail(@i, factor=8)", "split_with_tail(@i, 8)")
    )
    kernel = dojoir.parse(COPY)
    assert isinstance(named, dojoir.Pass) and isinstance(plain, dojoir.Pass)
    assert named.on(kernel).kernel == plain.on(kernel).kernel


def test_the_names_of_passes_are_those_that_there_are() -> None:
    assert set(PASS_NAMES) == set(dojoir.PASSES)


@pytest.mark.parametrize("name", PASS_NAMES)
def test_a_pass_is_no_move(name: str) -> None:
    for call in (dojoir.parse_move, dojoir.Trace(dojoir.parse(COPY)).apply):
        with pytest.raises(dojoir.ArgumentError, match=rf"{name} is a pass.*dojoir\.PASSES\['{name}'\]\(trace\)"):
            call(name)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("optimize", "dojoir.optimize(kernel)"),
        ("try(simplify)", "dojoir.parse_pipeline reads it"),
        ("", "there is no move in this text"),
    ],
)
def test_what_takes_it_is_named(text: str, words: str) -> None:
    with pytest.raises(dojoir.ArgumentError) as caught:
        dojoir.apply(dojoir.parse(COPY), text)
    assert words in str(caught.value)


def test_the_cure_for_several_moves_works() -> None:
    several = "split(@i, 8); split(@j, 8)"
    with pytest.raises(dojoir.ArgumentError, match=r"is 2 moves, not one: dojoir\.apply and Trace\.apply"):
        dojoir.check(dojoir.parse(COPY), several)
    trace = dojoir.Trace(dojoir.parse(COPY))
    trace.apply(several)
    assert len(trace.moves) == 2


def test_after_a_split_with_a_tail_a_swap_names_the_cut() -> None:
    trace = dojoir.Trace(dojoir.parse(COPY))
    trace.apply("split(@i, 16)")
    said = str(dojoir.check(trace.kernel, "swap_scopes(0)"))
    assert "cut(…, 16*(N // 16)) before the split" in said and "split_with_tail(…, 16, cut)" in said
    cut = dojoir.PASSES["split_with_tail"].given("@i", "16", "cut").on(dojoir.parse(COPY))
    assert [move.name for move in cut.moves] == ["cut", "split"]
    assert dojoir.check(cut.kernel, "swap_scopes(0)")


@pytest.mark.parametrize(
    ("extent", "moves"), [("N", ["cut", "split"]), ("32", ["split"]), ("33", ["cut", "split"])]
)
def test_only_a_tail_that_there_is_is_cut(extent: str, moves: list[str]) -> None:
    kernel = dojoir.parse(
        f"kernel k(N)\nin x: f32[{extent}]\nout y: f32[{extent}]\n{extent} @i\n| y[{{i}}] = x[{{i}}]\n"
    )
    found = dojoir.PASSES["split_with_tail"].given("@i", "16").on(kernel)
    assert [move.name for move in found.moves] == moves
    shorter = dojoir.PASSES["split_with_tail"].given("@i", "16", "min").on(kernel)
    assert [move.name for move in shorter.moves] == ["split"]
