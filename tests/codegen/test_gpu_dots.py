"""Sums of four products of bytes on GPUs: one instruction of a thread, exact for all bytes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import dojoir

KINDS = {"i8": np.int8, "u8": np.uint8}


def fours(left: str, right: str, whole: str = "i32") -> dojoir.Kernel:
    """A block with a tile of each operand in shared memory, in fours, a result a thread."""
    return dojoir.parse(f"""kernel t(B = 2)
in  a: {left}[B, 32, 8]
in  b: {right}[B, 8]
inout c: {whole}[B, 32]
tmp s: {left}[32, 8] shared
tmp q: {right}[8] shared
B : gx
| 32 : bx
| | 8
| | | s[{{1}}, {{2}}] = a[{{0}}, {{1}}, {{2}}]
| 8 : bx
| | q[{{1}}] = b[{{0}}, {{1}}]
| 32 : bx
| | 2 : u
| | | 4 : u
| | | | c[{{0}}, {{1}}] += {whole}(s[{{1}}, 4*{{2}} + {{3}}]) * {whole}(q[4*{{2}} + {{3}}])
""")


def expected(given: dict[str, np.ndarray]) -> np.ndarray:
    terms = np.einsum("bik,bk->bi", given["a"].astype(np.int64), given["b"].astype(np.int64))
    return (given["c"].astype(np.int64) + terms).astype(given["c"].dtype)


@pytest.mark.parametrize("target", ["cuda", "hip"])
@pytest.mark.parametrize(
    ("left", "right", "whole"), [(*pair, "i32") for pair in product(KINDS, KINDS)] + [("u8", "u8", "u32")]
)
def test_the_sum_is_exact(left: str, right: str, whole: str, target: str) -> None:
    """For the least and the greatest bytes too, and where the sum wraps around."""
    kernel = fours(left, right, whole)
    assert "dot4_" in dojoir.emit(kernel, target)
    draw = np.random.default_rng(1)

    def bytes_(kind: str, shape: tuple[int, ...]) -> np.ndarray:
        about = np.iinfo(KINDS[kind])
        drawn = draw.integers(about.min, about.max + 1, shape).astype(KINDS[kind])
        return np.where(draw.random(shape) < 0.4, draw.choice([about.min, about.max], shape), drawn).astype(
            KINDS[kind]
        )

    high = np.iinfo(whole.replace("u32", "uint32").replace("i32", "int32"))
    given = {"a": bytes_(left, (2, 32, 8)), "b": bytes_(right, (2, 8)),
             "c": draw.choice([high.min, high.max, 5], (2, 32)).astype(high.dtype)}  # fmt: skip
    found = dojoir.compile(kernel, target, emulated=True).run(given)["c"]
    np.testing.assert_array_equal(found, expected(given))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("4*{2} + {3}]) * i32(q", "{2} + {3}]) * i32(q"),  # from bytes that begin anywhere
        ("4*{2} + {3}]) * i32(q", "2*{3} + {2}]) * i32(q"),  # every other byte
        ("* i32(q[4*{2} + {3}])", "* i32(q[4*{2} + 3 - {3}])"),  # the one backwards
        ("* i32(q[4*{2} + {3}])", "+ i32(q[4*{2} + {3}])"),
        ("i32(q[4*{2} + {3}])", "i32(b[{0}, 4*{2} + {3}])"),  # of an argument it is not known where it begins
        ("| | | 4 : u\n", "| | | 3 : u\n"),
    ],
)
def test_other_sums_are_none(old: str, new: str) -> None:
    text = str(fours("i8", "i8"))
    assert old in text
    kernel = dojoir.parse(text.replace(old, new))
    assert "dot4_" not in dojoir.emit(kernel, "cuda")
    given = dojoir.testing.random_inputs(kernel, {}, seed=1)
    found = dojoir.compile(kernel, "cuda", emulated=True).run(given)
    np.testing.assert_array_equal(found["c"], dojoir.interpret(kernel, given)["c"])
