"""Texts that are read by pieces: what comes of it is what the grammar reads in the whole text."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

import dojoir
from dojoir.errors import Source
from dojoir.grammar.instructions import find_instruction
from dojoir.grammar.parser import written_kernel
from dojoir.grammar.pieces import Pieces
from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import DTYPES
from dojoir.ir.nodes import Buffer, Dim, Kernel

GUARDED = """kernel guarded(N)
where N % 4 == 0
fp strict
in  x: f32[N]
tmp t: f32[N]
out y: f32[N]

N // 4 : p @outer
| 4 @inner
| | t[4 * {outer} + {1}] = x[4 * {0} + {inner}] * 1e-05
| | if {inner} >= 1
| | | t[4 * {0} + {1}] += N
N : prefetch(t, 8)
| y[{0}] = max(t[{0}], 0)
"""


def whole(kernel: Kernel) -> Kernel:
    return written_kernel(Source("<whole>", dojoir.to_text(kernel)), find_instruction)


def held(pieces: Pieces, kernel: Kernel) -> Kernel:
    """What pieces make of a kernel, once it is seen to be what its text says, labels counted in."""
    found = pieces.read(kernel)
    expected = whole(kernel)
    assert found == expected
    assert (dojoir.to_text(found), found.facts, found.fp) == (dojoir.to_text(expected), expected.facts, expected.fp)
    return found


@pytest.mark.parametrize("name", ["softmax", "matmul", "batchnorm_training", "maxpool2d"])
def test_along_a_walk_pieces_are_what_the_whole_text_is(name: str) -> None:
    pieces, random = Pieces(), Random(name)
    kernel = held(pieces, dojoir.kernels.load(name))
    for _ in range(8):
        legal = dojoir.moves(kernel)
        if not legal:
            break
        kernel = held(pieces, dojoir.apply(kernel, random.choice(legal)))


def test_labels_guards_and_facts_count_in_a_piece() -> None:
    pieces = Pieces()
    kernel = held(pieces, dojoir.parse(GUARDED))
    for old, new in (
        ("outer", "other"),
        ("inner} >= 1", "inner} >= 2"),
        ("N // 4 : p @", "N // 4 @"),
        ("+= N", "+= 1"),
        ("tmp t: f32[N]", "tmp t: f64[N]"),
        ("N % 4", "N % 8"),
        ("fp strict\n", "fp fast\n"),
        ("prefetch(t, 8)", "prefetch(t, 9)"),
    ):
        text = dojoir.to_text(kernel, names=True)
        assert old in text, old
        held(pieces, dojoir.parse(text.replace(old, new)))


def test_what_did_not_change_is_the_very_same_node() -> None:
    pieces = Pieces()
    kernel = pieces.read(dojoir.kernels.load("softmax"))
    after = pieces.read(dojoir.apply(kernel, "split(0, 8)"))
    assert after.body[0] is not kernel.body[0]
    assert all(new is old for new, old in zip(after.body[1:], kernel.body[1:], strict=True))


INTEGER = Buffer("tmp", "t", DTYPES["i32"], (Dim(Affine.size("N")),))


@pytest.mark.parametrize(
    ("buffers", "code"),
    [
        (lambda given: (given[0], INTEGER, given[2]), "type-mismatch"),
        (lambda given: (given[0], given[2]), "unknown-buffer"),
        (lambda given: (*given, given[0]), "duplicate-name"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_text_that_means_nothing_is_refused_after_one_that_did(
    buffers: Callable[[tuple[Buffer, ...]], tuple[Buffer, ...]], code: str
) -> None:
    """The declarations of what a piece names are part of it: what was read under others is not found again."""
    pieces = Pieces()
    good = pieces.read(dojoir.parse(GUARDED))
    with pytest.raises(dojoir.KernelError) as raised:
        pieces.read(good.evolve(buffers=buffers(good.buffers)))
    assert raised.value.diagnostic.code == code
