"""Lists after a move, which take over what the move did not touch, beside lists that nothing was kept for."""

from __future__ import annotations

from random import Random
from threading import Thread

import pytest

import dojoir

TEXT = """kernel rows(N, M)
in  x: f32[N, M]
in  b: f32[M]
out y: f32[N, M]
tmp p: f32[N, M]
tmp r: f32[N, M]
tmp s: f32[N]

N
| M
| | p[{0}, {1}] = max(2 * x[{0}, {1}] + b[{1}], 0)
N
| s[{0}] = 0
| M
| | s[{0}] += p[{0}, {1}] * p[{0}, {1}]
N
| M
| | r[{0}, {1}] = p[{0}, {1}] * rsqrt(s[{0}] / M + 1)
N
| M
| | y[{0}, {1}] = r[{0}, {1}] + 2 * x[{0}, {1}]
"""

FAMILIES = (
    ("reorder_dims", "pad_dims", "extract_subexpression", "reverse_scope", "stage", "parallelize", "place"),
    ("vectorize", "parallelize", "prefetch", "cut", "split", "shift", "split_reduction"),
)
"""Of three of these, one is made on every walk, as far as it is legal."""


def fresh(kernel: dojoir.Kernel) -> list[str]:
    """The legal moves by a thread of its own."""
    found: list[str] = []
    thread = Thread(target=lambda: found.extend(map(str, dojoir.moves(dojoir.parse(dojoir.to_text(kernel))))))
    thread.start()
    thread.join()
    return found


@pytest.mark.parametrize("families", range(2))
@pytest.mark.parametrize("seed", range(2))
def test_a_list_after_a_move_is_a_fresh_one(seed: int, families: int) -> None:
    random = Random(f"kept lists {seed}")
    kernel, seen = dojoir.parse(TEXT), 0
    legal = dojoir.moves(kernel)
    for family in random.sample(FAMILIES[families], 3):
        chosen = [move for move in legal if move.name == family]
        kernel = dojoir.apply(kernel, random.choice(chosen or legal))
        legal = dojoir.moves(kernel)
        assert list(map(str, legal)) == fresh(kernel), dojoir.to_text(kernel)
        seen += len(legal)
    assert seen > 200


@pytest.mark.parametrize(
    ("before", "after", "move"),
    [
        ("tmp t: f32[N, M]", "tmp t: f32[N, M] order(1, 0)", "reorder_dims(t, 1, 0)"),
        ("tmp t: f32[N, M]", "inout t: f32[N, M]", "reorder_dims(t, 1, 0)"),
        ("tmp t: f32[N, M]", "tmp t: f32[N, M] pad(0, 16)", "pad_dims(t, 1, 16)"),
        ("tmp t: f32[N, M]", "inout t: f32[N, M]", "pad_dims(t, 1, 16)"),
        ("tmp z: f32", "tmp part: f32", "extract_subexpression(1.0.0, 1, part)"),
    ],
)
def test_what_a_move_looks_at_tells_two_kernels_apart(before: str, after: str, move: str) -> None:
    """What is legal on the one is not on the other, though the nodes at its place are the same."""
    text = "kernel f(N, M)\nin x: f32[N, M]\nout y: f32[N, M]\ntmp t: f32[N, M]\ntmp z: f32\n\n"
    text += "N\n| M\n| | t[{0}, {1}] = x[{0}, {1}]\nN\n| M\n| | y[{0}, {1}] = 2 * t[{0}, {1}] + 1\n"
    text += "z = 0\n"
    one, other = (
        dojoir.parse(text),
        dojoir.parse(text.replace(before, after).replace("z =", f"{'z' if 'z' not in before else 'part'} =")),
    )
    asked = dojoir.parse_move(move)
    assert asked in dojoir.moves(one, values=(16,)) or dojoir.check(one, asked)
    assert not dojoir.check(other, asked)
    assert asked not in dojoir.moves(other)
