"""Scopes of extent 1, put in and taken away."""

from __future__ import annotations

import pytest

import dojoir

USED = """kernel f(N)
in  x: f32[N, 4]
in  w: i32[N]
out y: f32[N, 4]

N
| 1
| | 4
| | | if {1} <= {2} and {2} < 4 + {1}
| | | | y[{0}, {2} + 3*{1}] = x[w[{0} + {1}], {2}] * f32({1} + 7) + (5 + {1}) + 7
"""


def test_an_iterator_that_is_used_comes_back_with_its_scope() -> None:
    k = dojoir.parse(USED)
    move = dojoir.parse_move("remove_scope(0.0)")
    after = dojoir.apply(k, move)
    assert dojoir.to_text(after).splitlines()[-1].lstrip("| ") == "y[{0}, {1}] = x[w[{0}], {1}] * f32(7) + 5 + 7"
    back = move.inverse(k)
    assert dojoir.parse_move(str(back)) == back
    assert dojoir.apply(after, back) == k
    assert back.inverse(after) == move


@pytest.mark.parametrize(
    ("move", "code"),
    [
        ("remove_scope(0)", "runs-more"),
        ("remove_scope(1)", "marked"),
        ("remove_scope(1.0)", "not-a-scope"),
        ("add_scope(0, 3)", "bad-count"),
        ("add_scope(0, 0)", "bad-count"),
        ("add_scope(0, 2, 99, {0})", "no-slot"),
        ("add_scope(0.0, 1, 1, {0} + {1} + 1)", "another-form"),
        ("add_scope(0.0, 1, 1, {2})", "bad-formula"),
    ],
)
def test_refusals(move: str, code: str) -> None:
    k = dojoir.parse(
        "kernel f(N)\nin x: f32[N]\nout y: f32[N]\nout z: f32\nN\n| y[{0}] = x[{0}]\n1 : v\n| z = x[{0}]\n"
    )
    assert dojoir.check(k, move).code == code


def test_where_a_list_must_not_be_empty_it_may_not_be_left_out() -> None:
    assert dojoir.parse_move("add_scope(0, 1)").arguments() == ("0", 1, (), ())
    with pytest.raises(dojoir.ArgumentError, match="tile is written"):
        dojoir.parse_move("tile()")
