"""Every move is taken back by its inverse, to the letter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest
from runnable import runnable_kernel
from tangled import tangled_kernel

import dojoir
from dojoir.ir import Kernel
from dojoir.passes.move import Move, Refusal
from dojoir.printer import canonical_text

LIBRARY = ("softmax", "layernorm", "matmul", "maxpool2d", "cross_entropy", "groupnorm", "jacobi2d", "attention")

WITHOUT = frozenset({"delete_temporary", "inline"})
"""The moves that have no inverse among the moves."""


def taken_back(kernel: Kernel, move: Move) -> str:
    """Makes a legal move and its inverse. What became of it: `not legal`, or the name of the move."""
    try:
        done = move.rewrite(kernel)
    except Refusal:
        return "not legal"
    if not dojoir.check(kernel, move):
        return "not legal"
    after = done.kernel
    back = move.inverse(kernel)
    assert dojoir.parse_move(str(back)) == back
    shown = f"{move}; {back}\n{kernel}\n{after}"
    verdict = dojoir.check(after, back)
    assert verdict, f"{shown}\n{verdict}"
    again = dojoir.apply(after, back)
    assert canonical_text(again) == canonical_text(kernel), f"{shown}\n{again}"
    assert again.hash == kernel.hash
    assert again == kernel
    forth = back.inverse(after)
    assert dojoir.apply(again, forth) == after, f"{shown}\nforth again: {forth}"
    return move.name


def walked(kernel: Kernel, random: Random, steps: int, each: int) -> Iterator[str]:
    """Takes back some moves of each family, and goes on with one of them."""
    for _ in range(steps):
        families: dict[str, list[Move]] = {}
        for move in dojoir.candidates(kernel):
            families.setdefault(move.name, []).append(move)
        legal: list[Move] = []
        for name, moves in families.items():
            for move in random.sample(moves, min(each, len(moves))):
                if name in WITHOUT:
                    continue
                made = taken_back(kernel, move)
                yield made
                if made == name:
                    legal.append(move)
        if not legal:
            return
        by_name = sorted({move.name for move in legal})
        name = random.choice(by_name)
        kernel = dojoir.apply(kernel, random.choice([move for move in legal if move.name == name]))


@pytest.mark.parametrize("name", LIBRARY)
def test_on_library_kernels(name: str) -> None:
    made = Counter(walked(dojoir.kernels.load(name), Random(name), steps=3, each=2))
    assert sum(made.values()) - made["not legal"] > 5


@pytest.mark.parametrize("seed", range(20))
def test_on_random_kernels(seed: int) -> None:
    random = Random(seed)
    make = runnable_kernel if seed % 2 else tangled_kernel
    made = Counter(walked(make(random), random, steps=3, each=1))
    assert sum(made.values()) > 0
