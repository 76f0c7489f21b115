"""Partial results of integers: where `split_reduction` is legal, every call gives what it gave, to the last bit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import dojoir
from dojoir.passes.base.move import Rewrite
from dojoir.proof.claim import Claim
from dojoir.proof.explain.verdicts import check

TYPES = ("i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8")
OPERATORS = ("+=", "*=", "max=", "min=")

TEXTS = {
    "a scalar that the caller begins": "kernel f(N)\nin x: {t}[N]\ninout s: {t}\nN\n| s {op} x[{{0}}]\n",
    "a scalar that begins with an element": (
        "kernel f(N)\nin x: {t}[N]\nout s: {t}\ns = x[0]\nN\n| s {op} x[{{0}}]\n"
    ),
    "a row each": "kernel f(N)\nin x: {t}[3, N]\ninout s: {t}[3]\n3\n| N\n| | s[{{0}}] {op} x[{{0}}, {{1}}]\n",
    "columns, outside": (
        "kernel f(N)\nin x: {t}[N, 3]\ninout s: {t}[3]\nN\n| 3\n| | s[{{1}}] {op} x[{{0}}, {{1}}]\n"
    ),
    "another operand": "kernel f(N)\nin x: {t}[N]\ninout s: {t}\nN\n| s {op} x[{{0}}] - x[N - 1 - {{0}}]\n",
}


def inputs(shape: tuple[int, ...], dtype: np.dtype) -> Iterator[np.ndarray]:
    """The extremes of a type, all alike and in turns, and numbers of its whole range."""
    bounds = np.iinfo(dtype)
    random = np.random.default_rng(19)
    for value in (bounds.min, bounds.max):
        yield np.full(shape, value, dtype)
    yield random.choice(np.array([bounds.min, bounds.max, 0, 1], dtype), shape)
    yield random.integers(bounds.min, bounds.max, shape, dtype, endpoint=True)


def rewritten(kernel: dojoir.Kernel, text: str) -> Rewrite | None:
    """What a move makes of a kernel, if it may: the core alone and the checker with its shortcuts agree."""
    move = dojoir.parse_move(text)
    verdict = dojoir.check(kernel, move)
    if not verdict:
        assert verdict.status == "illegal", verdict
        return None
    done = move.rewrite(kernel)
    assert check(Claim(kernel, done.kernel, done.instances))
    return done


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("dtype", TYPES)
def test_partial_results_of_integers_change_no_bit(dtype: str, op: str) -> None:
    legal = 0
    for what, text in TEXTS.items():
        kernel = dojoir.parse(text.format(t=dtype, op=op))
        place = "1" if "begins with" in what else "0.0" if "a row" in what else "0"
        for factor in ("4", "N"):
            done = rewritten(kernel, f"split_reduction({place}, s, p, {factor})")
            if done is None:
                continue
            legal += 1
            numpy = np.dtype({"i": "int", "u": "uint"}[dtype[0]] + dtype[1:])
            for size in (1, 9):
                shape = {"a row each": (3, size), "columns, outside": (size, 3)}.get(what, (size,))
                for x in inputs(shape, numpy):
                    begin = () if "scalar" in what or "operand" in what else (3,)
                    for start in list(inputs(begin, numpy))[1:2]:
                        given = {"x": x} if "begins with" in what else {"x": x, "s": np.asarray(start)}
                        was, now = (dojoir.interpret(k, given, N=size)["s"] for k in (kernel, done.kernel))
                        assert np.array_equal(was, now), f"{what}, {factor}: {x} from {start}\n{done.kernel}"
    assert legal >= 8
