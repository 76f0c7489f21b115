"""Pair reductions, argmax and argmin in one pass: what they mean, on every target, and to the checker."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import on_harness
import pytest
from able import can_run
from emulated import Trial, build, machine, run
from numpy.typing import NDArray
from paired_texts import BOTH, LEAST, MIDDLE, RAGGED, ROWS, held, same, to_the_sign

import dojoir
from dojoir.ir.dtypes import DTYPES, DType
from dojoir.meaning.bits import from_floats, to_floats

HOST = ("llvm", "c", "avx2", "avx512")
Array = NDArray[Any]

TEXTS = (ROWS, LEAST, MIDDLE, BOTH, RAGGED)


def of_rows(text: str, m: int, n: int, seed: int = 0) -> tuple[dict[str, Array], dict[str, Array]]:
    """Inputs of a text above, with ties, infinities, NaN and zeros of both signs, and what it gives by NumPy."""
    random = np.random.default_rng(seed)
    choices = np.array([-3, -1, -0.0, 0.0, 1, 2, 2], np.float32)
    x = random.choice(choices, (m, n))
    rare = random.random((m, n))
    x[rare < 0.02], x[rare > 0.98], x[0] = np.inf, -np.inf, -np.inf
    x[1 % m, rare[1 % m] < 0.2] = np.nan
    match text:
        case str() if text is MIDDLE:
            deep = np.stack([x, x[:, ::-1], -x], -1)
            at = deep.argmax(1)
            return {"x": deep}, {"m": np.take_along_axis(deep, at[:, None], 1)[:, 0], "at": at}
        case str() if text is BOTH:
            ok = random.random((m, n)) < 0.4
            x[np.isnan(x)] = 5
            high, low = np.where(ok, x, -np.inf), np.where(ok, x, np.inf)
            any_, tops, bottoms = ok.any(1), high.max(1), low.min(1)
            with np.errstate(invalid="ignore"):
                span = tops - bottoms
            expected = {
                "high": np.where(any_ & (tops > -np.inf), high.argmax(1), -1).astype(np.int32),
                "low": np.where(any_ & (bottoms < np.inf), low.argmin(1), -1).astype(np.int32),
                "span": span.astype(np.float32),
            }
            return {"ok": ok, "x": x}, expected
        case str() if text is RAGGED:
            rows, ids = random.integers(-1, n + 1, m).astype(np.int32), np.arange(n, dtype=np.int32)[::-1] - 3
            expected = {"m": np.full(m, -np.inf, np.float32), "at": np.full(m, 2147483647, np.int32)}
            for row, length in enumerate(rows):
                if length > 0:
                    part = x[row, :length]
                    best = np.nan if np.isnan(part).any() else part.max()
                    ties = np.isnan(part) if np.isnan(best) else part == best
                    expected["m"][row], expected["at"][row] = best + 0.0, ids[:length][ties].min()
            return {"rows": rows, "ids": ids, "x": x}, expected
    at = (x.argmax(1) if text is ROWS else x.argmin(1)).astype(np.int32)
    return {"x": x}, {"m": np.take_along_axis(x, at[:, None], 1)[:, 0], "at": at}


def sizes_of(kernel: dojoir.Kernel, given: dict[str, Array]) -> dict[str, int]:
    shape = dict(zip("MNK", given["x"].shape, strict=False))
    return {size.name: shape[size.name] for size in kernel.sizes}


def with_move(text: str, *moves: str) -> dojoir.Kernel:
    kernel = dojoir.parse(text)
    for move in moves:
        kernel = dojoir.apply(kernel, move)
    return kernel


# -- meaning -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("fp", ["strict", "reassoc", "fast"])
@pytest.mark.parametrize("text", TEXTS)
def test_the_interpreter_and_the_targets_of_this_machine(text: str, fp: str) -> None:
    kernel = dojoir.parse(text).with_fp(fp)
    for m, n in ((3, 1), (5, 67)):
        given, expected = of_rows(text, m, n)
        assert same(dojoir.interpret(kernel, given), expected)
        for target in filter(can_run, HOST):
            for tried in (kernel, dojoir.optimize(kernel, target).kernel):
                found = dojoir.compile(tried, target, threads=2).run(given)
                assert same(found, expected), (target, dojoir.to_text(tried), found, expected)
    assert dojoir.verify(kernel).ok


@pytest.mark.parametrize(
    ("values", "most", "least"),
    [
        ([1, 3, 3, 1], 1, 0),
        ([np.nan, 3, np.nan], 0, 0),
        ([3, np.nan, np.inf], 1, 1),
        ([3, 2, -np.nan], 2, 2),
        ([np.nan, -np.nan], 0, 0),
        ([-np.inf, -np.inf], 0, 0),
        ([np.inf, np.inf], 0, 0),
        ([-0.0, 0.0], 0, 0),
        ([0.0, -0.0], 0, 0),
        ([-1, -0.0, 0.0], 1, 0),
        ([1e-45, -1e-45, 0], 0, 1),
        ([-3.4e38, -np.inf, 3.4e38], 2, 1),
    ],
)
def test_ties_keep_the_first_and_nan_wins(values: list[float], most: int, least: int) -> None:
    x = np.array([values], np.float32)
    for text, at in ((ROWS, most), (LEAST, least)):
        kernel = dojoir.parse(text)
        found = [dojoir.interpret(kernel, {"x": x})]
        found += [dojoir.compile(kernel, target).run({"x": x}) for target in filter(can_run, HOST)]
        for one in found:
            assert one["at"].tolist() == [at]
            assert np.array_equal(one["m"], x[:, at], equal_nan=True)
            if one["m"][0] == 0:
                assert not np.signbit(one["m"][0]), "a zero is +0"


EXTREME: dict[str, list[int]] = {
    "i32": [-(2**31), 2**31 - 1, 0, -1, 1],
    "u32": [0, 2**32 - 1, 2**31, 2**31 - 1],
    "i8": [-128, 127, 0],
    "u8": [0, 255, 127, 128],
    "i16": [-(2**15), 2**15 - 1, 0],
    "u16": [0, 2**16 - 1],
}


def numbers(dtype: DType, random: np.random.Generator, shape: tuple[int, int]) -> Array:
    """Elements of a type, as they are stored."""
    if dtype.is_float:
        floats = random.choice([-2, -0.5, -0.0, 0.0, 1, 1, 3, np.inf, -np.inf, np.nan], shape)
        return from_floats(floats, dtype)
    return random.choice(EXTREME[dtype.name], shape).astype(dtype.stored)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        *((name, "i32") for name in (*EXTREME, "f16", "bf16", "f8e4m3", "f8e5m2", "f4e2m1")),
        *(("f16", "u8"), ("u32", "i64"), ("i8", "u64"), ("bf16", "i16")),
    ],
)
def test_types(name: str, place: str) -> None:
    dtype = DTYPES[name]
    x = numbers(dtype, np.random.default_rng(4), (9, 23))
    values = np.asarray(to_floats(x, dtype) if dtype.is_float else x)
    for text, choose in ((ROWS, np.argmax), (LEAST, np.argmin)):
        worst = "-inf" if text is ROWS else "inf"
        start = worst if name in ("f16", "bf16", "f8e5m2") else "x[{i}, 0]"  # others have no infinity
        typed = text.replace("f32", name).replace("at: i32", f"at: {place}").replace(worst, start)
        kernel = dojoir.parse(typed)
        at = choose(values, 1)
        expected = {"at": at.astype(DTYPES[place].stored)}
        assert same(dojoir.interpret(kernel, {"x": x}), expected)
        for target in filter(can_run, HOST):
            for tried in (kernel, dojoir.optimize(kernel, target).kernel):
                found = dojoir.compile(tried, target).run({"x": x})
                assert same(found, expected), (target, found, expected)
                read = np.asarray(to_floats(found["m"], dtype) if dtype.is_float else found["m"])
                assert np.array_equal(read, np.take_along_axis(values, at[:, None], 1)[:, 0], equal_nan=True)


def test_an_empty_row_keeps_what_it_began_with() -> None:
    text = ROWS.replace("| N @j", "| N - 1 @j").replace("(-inf, 0)", "(-2, 7)")
    for target in filter(can_run, HOST):
        for n, at in ((1, 7), (2, 0)):
            x = np.ones((3, n), np.float32)
            found = dojoir.compile(dojoir.optimize(dojoir.parse(text), target).kernel, target).run({"x": x})
            assert found["at"].tolist() == [at] * 3
            assert found["m"].tolist() == [-2 if n == 1 else 1] * 3


def test_places_of_the_whole_range() -> None:
    """And the least value beside them."""
    text = """kernel k(N)
in  x: i32[N]
in  p: i32[N]
out m: i32
out at: i32

(m, at) = (x[0], p[0])
N
| (m, at) max= (x[{0}], p[{0}])
"""
    values = [-(2**31), -(2**31) + 1, -1, 0, 1, 2**31 - 1]
    for one, other, first, second in product(values, values, values, values):
        x, p = np.array([one, other], np.int32), np.array([first, second], np.int32)
        best = min(zip(-x.astype(np.int64), p, strict=True))
        for kernel, sign in ((dojoir.parse(text), 1), (dojoir.parse(text.replace("max=", "min=")), -1)):
            if sign < 0:
                best = min(zip(x.astype(np.int64), p, strict=True))
            found = dojoir.interpret(kernel, {"x": x, "p": p})
            assert (-sign * int(found["m"]), int(found["at"])) == best


@pytest.mark.parametrize("seed", range(12))
def test_what_halves_hold_stays_where_nothing_is_better(seed: int) -> None:
    """Held to Python's own numbers: rows of no iterations, zeros of both signs, places of 64 bits."""
    random = Random(f"halves that are held {seed}")
    for number in range(40):
        drawn = held(random)
        kernel = dojoir.parse(drawn.text)
        found = dojoir.interpret(kernel, drawn.given)
        assert to_the_sign(found, drawn.right), (drawn, found)
        if number == 0:
            dojoir.prove(kernel)
            for target in filter(can_run, HOST):
                for tried in (kernel, dojoir.optimize(kernel, target, threads=2).kernel):
                    found = dojoir.compile(tried, target, threads=2).run(drawn.given)
                    assert to_the_sign(found, drawn.right), (target, dojoir.to_text(tried), drawn, found)
            tried = dojoir.optimize(kernel, "cuda").kernel
            found = on_harness.run(tried, drawn.given, sizes_of(kernel, drawn.given), "cuda")
            assert to_the_sign(found, drawn.right), (dojoir.to_text(tried), drawn, found)


# -- targets -------------------------------------------------------------------------------------------------
LANES = {ROWS: ("0.1",), LEAST: ("0.1",), MIDDLE: ("0.0", "0.1.0", "0.2"), BOTH: ("0.2",), RAGGED: ()}


@pytest.mark.parametrize(("target", "vlen"), [("neon", 128), ("sve", 256), ("rvv", 256)])
def test_emulated_targets(target: str, vlen: int, tmp_path: Path) -> None:
    try:
        machine(target)
    except dojoir.ToolchainError as error:
        pytest.skip(str(error))
    kernels = [with_move(text, *(f"vectorize({path})" for path in LANES[text])) for text in TEXTS]
    kernels += [dojoir.optimize(dojoir.parse(text), target).kernel for text in TEXTS]
    program = build(target, kernels, tmp_path)
    trials = []
    for number, kernel in enumerate(kernels):
        given, expected = of_rows(TEXTS[number % len(TEXTS)], 5, 67)
        trials.append((number, Trial(kernel, given, sizes_of(kernel, given), expected)))
    for (_, trial), found in zip(trials, run(target, program, trials, vlen), strict=True):
        assert same(found, trial.expected), trial.kernel


@pytest.mark.parametrize("target", ["cuda", "hip"])
@pytest.mark.parametrize("text", TEXTS)
def test_gpu_text_on_the_harness(text: str, target: str) -> None:
    given, expected = of_rows(text, 4, 41)
    kernel = dojoir.optimize(dojoir.parse(text), target).kernel
    assert same(on_harness.run(kernel, given, sizes_of(kernel, given), target), expected), dojoir.to_text(kernel)


@pytest.mark.parametrize("mark", ["lane", "bx"])
def test_threads_of_a_row(mark: str) -> None:
    """A warp's or a block's threads have a part of a row each; the keys meet by shuffles."""
    text = ROWS.replace("M @i", "M : gx").replace("{i}", "{0}").replace("{j}", "32*{1} + {2}")
    text = text.replace("| N @j\n", f"| (N + 31) // 32\n| | 32 : {mark}\n| | | if 32*{{1}} + {{2}} < N\n")
    text = text.replace("| | (m[{0}], at[{0}]) max=", "| | | | (m[{0}], at[{0}]) max=")
    kernel = dojoir.parse(text)
    given, expected = of_rows(ROWS, 4, 70)
    for target in ("cuda", "hip"):
        assert "shfl" in dojoir.emit(kernel, target)
        assert same(on_harness.run(kernel, given, sizes_of(kernel, given), target), expected)


def test_lanes_and_parts_of_one_row() -> None:
    """By rule a row is cut into parts, each in vectors; keys are accumulated in registers."""
    text = ROWS.replace("M, N", "N").replace("[M]", "").replace("M @i\n", "").replace("[{i}]", "")
    text = text.replace("\n| | ", "\n| ").replace("| N @j", "N @j").replace("| (m, at) = ", "(m, at) = ")
    kernel = dojoir.parse(text.replace("{i}, ", ""))
    scheduled = dojoir.optimize(kernel, "avx512").kernel
    assert {mark for _, node in scheduled.walk() for mark in getattr(node, "marks", ())} == {"p", "v"}
    assert "_mm512_max_epi64" in dojoir.emit(scheduled, "avx512")
    x = np.random.default_rng(2).integers(-90, 90, 5000).astype(np.float32)
    for target in filter(can_run, HOST):
        found = dojoir.compile(dojoir.optimize(kernel, target).kernel, target, threads=2).run({"x": x})
        assert (found["at"], found["m"]) == (x.argmax(), x.max())


# -- the checker -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "move", "legal"),
    [
        (ROWS, "split(0.1, 16)", True),
        (ROWS, "vectorize(0.1)", True),
        (ROWS, "vectorize(0)", True),
        (ROWS, "parallelize(0)", True),
        (ROWS, "parallelize(0.1)", False),
        (ROWS, "reverse_scope(0.1)", True),
        (ROWS, "split_reduction(0.1, m_at, p, 8)", True),
        (ROWS, "reuse_dims(m_at, 0)", True),
        (ROWS, "swap_siblings(0.1)", False),
        (ROWS, "swap_siblings(0.2)", True),
        (ROWS, "bind(0, gx)", True),
        (ROWS, "bind(0.1, bx)", False),  # no grid around
        (BOTH, "split_scopes(0.2, 1)", True),
        (MIDDLE, "swap_scopes(0.1)", True),
        (MIDDLE, "join_scopes(0.0, 1)", False),
        (RAGGED, "parallelize(0)", True),
        (RAGGED, "reverse_scope(0.1)", True),
    ],
)
@pytest.mark.parametrize("fp", ["strict", "reassoc"])
def test_moves(text: str, move: str, legal: bool, fp: str) -> None:
    kernel = dojoir.parse(text).with_fp(fp)
    try:
        verdict = dojoir.check(kernel, move)
    except dojoir.DojoError:
        assert not legal
        return
    assert bool(verdict) == legal, verdict
    if legal:
        trace = dojoir.Trace(kernel)
        trace.apply(move)
        assert dojoir.certify(trace)
        given, expected = of_rows(text, 6, 29)
        assert same(dojoir.interpret(trace.kernel, given), expected)


def test_schedules_are_certified() -> None:
    for text in TEXTS:
        for target in ("llvm", "cuda"):
            trace = dojoir.optimize(dojoir.parse(text), target)
            assert trace.moves or text is BOTH
            assert dojoir.certify(trace), (text, target)


def test_what_a_half_holds_is_stored_in_its_type() -> None:
    """Where it is read between accumulations, a value of f16 is one, and a place of u8 has wrapped."""
    text = """kernel k(N)
in  x: f32[N]
out y: f16[N]
out p: u8[N]
tmp m: f16
tmp at: u8

(m, at) = (0, 0)
N
| (m, at) max= (x[{0}], 300 + {0})
| y[{0}] = m
| p[{0}] = at
"""
    x = np.array([1.0001, 1.0002, 3, 2], np.float32)
    kernel = dojoir.parse(text)
    found: list[Callable[[dict[str, Array]], dict[str, Array]]] = [lambda given: dojoir.interpret(kernel, given)]
    found += [dojoir.compile(kernel, target).run for target in filter(can_run, HOST)]
    for way in found:
        got = way({"x": x})
        assert got["y"].tolist() == [1, 1, 3, 3]
        assert got["p"].tolist() == [44, 45, 46, 46]


@pytest.mark.parametrize("packed", ["", " packed"])
@pytest.mark.parametrize("name", ["i4", "u4"])
def test_halves_of_four_bits(name: str, packed: str) -> None:
    """They are only stored: the value and the place wrap to them."""
    text = f"""kernel k(N)
in  x: {name}[2*N]{packed}
out m: {name}[2*N]{packed}
out at: {name}[2*N]{packed}
tmp v: {name}
tmp p: {name}

2*N
| (v, p) = (x[0], 0)
| {{0}} + 1
| | (v, p) max= (x[{{1}}], {{1}} - 9)
| m[{{0}}] = v
| at[{{0}}] = p
"""
    kernel = dojoir.parse(text)
    stored = np.random.default_rng(5).integers(0, 256, 12 if packed else 24).astype(np.uint8)
    if not packed:
        stored = (stored % 16).astype(DTYPES[name].stored)
        stored = np.where(stored > 7, stored - 16, stored).astype(np.int8) if name == "i4" else stored
    expected = dojoir.interpret(kernel, {"x": stored}, N=12)
    for target in filter(can_run, HOST):
        assert same(dojoir.compile(kernel, target).run({"x": stored}), expected), target
