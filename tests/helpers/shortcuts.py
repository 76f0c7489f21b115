"""What each shortcut of the checker saves: the same questions with one of them switched off after the other.

    python tests/helpers/shortcuts.py [--after N] [KERNEL …]

The questions are all candidates of each kernel, and those after N of its legal moves, asked in fresh tables. A row
has the shortcut that is off, how much longer in CPU time that took than with all of them on (each before and behind
the other, the shorter of two runs), how many steps more, and how many answers it changed: none may become legal.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from random import Random
from time import process_time
from typing import Any
from unittest.mock import patch

import dojoir
from dojoir.passes.base.move import Refusal
from dojoir.passes.engine.engine import candidates
from dojoir.proof import check
from dojoir.proof.patterns import table
from dojoir.support.memo import Memo, fresh_tables

KERNELS = ("softmax", "layernorm", "matmul", "jacobi2d", "maxpool2d")


def switches() -> Iterator[tuple[str, Callable[[], Any]]]:
    """What can be switched off, and the patch that does it."""
    yield "nothing", lambda: patch.object(check, "STEP_LIMIT", check.STEP_LIMIT)
    for pattern in table.TEXTUAL:
        rest = tuple(other for other in table.TEXTUAL if other is not pattern)
        yield f"pattern {pattern.name}", lambda rest=rest: patch.object(table, "TEXTUAL", rest)
    yield "all patterns of the text", lambda: patch.object(table, "TEXTUAL", ())
    yield "pattern order", lambda: patch.object(check, "keeps_order", lambda _: False)
    for name in ("goes_wrong", "differs_somewhere", "is_refuted", "shares_too_much"):
        yield f"refuter {name}", lambda name=name: patch.object(check, name, lambda *_: False)
    yield "slices", lambda: patch.object(check, "slice_of", lambda *_: None)
    yield "answers kept by slice", lambda: patch.object(check._meanings, "get", lambda _: None)
    yield "all tables", lambda: patch.object(Memo, "get", lambda *_: None)


def asked(kernels: list[dojoir.Kernel]) -> tuple[float, int, list[bool]]:
    """The seconds, the steps and the answers of all questions about some kernels."""
    started, steps, found = process_time(), 0, []
    for kernel in kernels:
        with fresh_tables():
            for move in candidates(kernel):
                try:
                    done = move.rewrite(kernel)
                except Refusal:
                    continue
                answer = check.answer(kernel, done.kernel, done.instances)
                steps += answer.steps
                found.append(answer.legal)
    return process_time() - started, steps, found


def states(names: list[str], after: int) -> list[dojoir.Kernel]:
    """The kernels that are asked about."""
    found = []
    for name in names:
        kernel = dojoir.kernels.load(name)
        found.append(kernel)
        legal = list(dojoir.moves(kernel))
        found += [dojoir.apply(kernel, move) for move in Random(name).sample(legal, after)]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="*", default=list(KERNELS))
    parser.add_argument("--after", type=int, default=1, metavar="N")
    given = parser.parse_args()
    kernels = states(given.kernels, given.after)
    asked(kernels)
    print("| off | time | steps | now legal | no longer |\n|---|---:|---:|---:|---:|", flush=True)
    for name, off in switches():
        with off():
            time, steps, found = asked(kernels)
        usual, usual_steps, was = asked(kernels)
        with off():
            time = min(time, asked(kernels)[0])
        usual = min(usual, asked(kernels)[0])
        gained = sum(now and not then for now, then in zip(found, was, strict=True))
        lost = sum(then and not now for now, then in zip(found, was, strict=True))
        print(f"| {name} | {time / usual:.2f} | {steps / usual_steps:.2f} | {gained} | {lost} |", flush=True)


if __name__ == "__main__":
    main()
