"""More than one error of a text: all that are wrong by themselves, and none that follows from another."""

from __future__ import annotations

import random

import pytest

import dojoir
from dojoir.grammar import problems

TEXT = """\
kernel k(N, M)
in  x: f32[N, M]
tmp t: f32[N]
out y: f32[N, M]

N @i
| t[{i}] = 0 ** 2
| MM @j
| | t[{i}] += xx[{i}, {j}]
| | t[{i}] += x[{i}]
N $ 3 @k
| if {k} = 3
| | M
| | | y[{k}, {1}] = x[{k}, {1}] * t[{q}] +
"""


def test_all_errors_of_a_text() -> None:
    found = problems(TEXT, "k.dojo")
    assert [(d.span.line, d.code) for d in found if d.span] == [
        (7, "unexpected"), (11, "unexpected-character"), (12, "unexpected"), (14, "unexpected"),
        (8, "unknown-name"), (9, "unknown-buffer"), (10, "wrong-rank"),
    ]  # fmt: skip
    with pytest.raises(dojoir.ParseError) as first:
        dojoir.parse(TEXT, "k.dojo")
    assert found[0] == first.value.diagnostic
    for error in found:  # each points into the text as it was written
        assert error.source is not None and error.source.text == TEXT


def test_a_right_text_has_none() -> None:
    for name in dojoir.kernels.names():
        assert problems(dojoir.kernels.source(name)) == ()


def test_what_a_wrong_declaration_leaves_unknown_is_not_told() -> None:
    text = TEXT.replace("x: f32", "x: f33")
    assert [error.code for error in problems(text)][-1] == "unknown-dtype"


@pytest.mark.parametrize("name", ["softmax", "layernorm", "attention", "cross_entropy"])
def test_two_broken_statements_are_two_errors(name: str) -> None:
    """Whatever two statements are broken, both are told, and nothing else."""
    draw = random.Random(name)
    lines = dojoir.kernels.source(name).split("\n")
    statements = [n for n, line in enumerate(lines) if "= " in line and line.startswith("|")]
    for _ in range(10):
        two = draw.sample(statements, 2)
        broken = [line + (" +" if n in two else "") for n, line in enumerate(lines)]
        found = problems("\n".join(broken))
        assert sorted(error.span.line - 1 for error in found if error.span) == sorted(two)
