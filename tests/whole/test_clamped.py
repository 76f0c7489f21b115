"""Indices with a min or a max: form, sets, bounds, every target, and the moves that part the borders."""

from __future__ import annotations

from pathlib import Path
from random import Random

import islpy as isl
import numpy as np
import on_harness
import pytest
from able import can_run
from emulated import Trial, build, machine, run

import dojoir
from dojoir import build as author
from dojoir.ir.affine import Affine, Extremum, Iter
from dojoir.ir.nodes import Extent, Scope
from dojoir.sets.kernel_sets import isl_affine
from dojoir.sets.ranges import is_nonnegative, without_divisions

N, ROW, COLUMN = Affine.size("N"), Affine.iterator(0), Affine.iterator(1)
ZERO = Affine.constant(0)

HOST = ("llvm", "c", "avx2", "avx512")

BORDERS = {
    "edge": "clamp({0} + {1} - 2, 0, N - 1)",
    "reflect": "N - 1 - abs(N - 1 - abs({0} + {1} - 2))",
    "symmetric": "min(max({0} + {1} - 2, 1 - {0} - {1}), 2*N - 1 - max({0} + {1} - 2, 1 - {0} - {1}))",
}
"""The index of the neighbour {1} - 2 places on, by the name that `numpy.pad` has for the border."""


def smoothed(border: str, scope: str = "N", around: str = "where N >= 3") -> dojoir.Kernel:
    return dojoir.parse(
        f"kernel smoothed(N)\n{around}\nin  x: i32[N]\nin  w: i32[5]\nout y: i32[N]\n\n"
        f"{scope} @i\n| y[{{0}}] = 0\n| 5 @k\n| | y[{{0}}] += w[{{1}}] * x[{BORDERS[border]}]\n"
    )


def given(n: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(n)
    return {name: random.integers(-99, 99, size).astype(np.int32) for name, size in (("x", n), ("w", 5))}


def expected(border: str, arrays: dict[str, np.ndarray]) -> np.ndarray:
    padded = np.pad(arrays["x"], 2, mode=border)
    return np.correlate(padded, arrays["w"], "valid").astype(np.int32)


# -- the form ----------------------------------------------------------------------------------------------
def test_one_normal_form() -> None:
    smallest, largest = Affine.smallest, Affine.largest
    assert smallest(ROW) == ROW
    assert smallest(ROW, ROW + 2, ROW - 1) == ROW - 1
    assert smallest(ROW, N, smallest(COLUMN, N + 1)) == smallest(COLUMN, ROW, N)
    assert smallest(smallest(ROW, N) + 1, COLUMN) == smallest(ROW + 1, N + 1, COLUMN)
    assert largest(ZERO, ROW - 1, Affine.constant(-4)) == largest(ROW - 1, ZERO)
    assert str(smallest(largest(ZERO, ROW - 1), N - 1)) == "min(max({0} - 1, 0), N - 1)"
    assert str(3 - 2 * largest(N, ROW) // 4 % 5) == str(3 - (2 * largest(ROW, N) // 4) % 5)
    assert smallest(ROW, COLUMN).substitute(lambda _: N) == N
    assert smallest(ROW, N).iterators == smallest(ROW, N).divided == {0}
    assert smallest(ROW, N).sizes == {"N"}
    assert (smallest(ROW, N) // 2).is_clamped
    assert not (ROW // 2).is_clamped


def test_it_prints_and_parses(random: Random | None = None) -> None:
    for index in (*BORDERS.values(), "min({0}, {1}, N) // 2", "2*max({0}, {1} % 3)", "(max({0}, 3) + 1) % 4"):
        text = f"kernel k(N)\nin  x: f32[9*N]\nout y: f32[N]\n\nN\n| 5\n| | y[{{0}}] = x[{index}]\n"
        kernel = dojoir.parse(text)
        assert dojoir.parse(dojoir.to_text(kernel)) == kernel
        assert dojoir.parse(dojoir.to_text(kernel, names=True)) == kernel


def test_clamp_is_a_spelling_in_values_too() -> None:
    text = "kernel k(N)\nin  x: f32[N]\nout y: f32[N]\n\nN\n| y[{0}] = clamp(x[{0}], 0, 6)\n"
    assert "min(max(x[{0}], 0), 6)" in str(dojoir.parse(text))
    x = np.array([-3, 2, 9, np.nan], np.float32)
    assert np.array_equal(dojoir.interpret(dojoir.parse(text), {"x": x})["y"], np.clip(x, 0, 6), equal_nan=True)


def test_values_are_operations_as_before() -> None:
    """A min of sizes and iterators that is a value is no index: it is typed as others are."""
    text = "kernel k(N)\nout y: i32[N]\n\nN\n| y[{0}] = min({0}, 3)\n"
    assert str(dojoir.parse(text)) == text


def test_the_builder_writes_it() -> None:
    with author.kernel("k", "N") as b:
        x, y = b.input("x", "f32", ["N"]), b.output("y", "f32", ["N"])
        with b.scope("N") as i:
            y[i] = x[author.min(author.max(i - 1, 0), b.sizes[0] - 1)] + x[author.abs(i - 1) // 2]
    text = "kernel k(N)\nin  x: f32[N]\nout y: f32[N]\n\n"
    assert (
        dojoir.to_text(b.kernel)
        == text + "N\n| y[{0}] = x[min(max({0} - 1, 0), N - 1)] + x[max({0} - 1, -{0} + 1) // 2]\n"
    )


def _random(random: Random, fuel: int) -> Affine:
    if not fuel:
        return random.choice((ROW, COLUMN, N, Affine.constant(random.randint(-3, 3))))
    one, other = _random(random, fuel - 1), _random(random, fuel - 1)
    match random.randrange(7):
        case 0:
            return one + other
        case 1:
            return one - other
        case 2:
            return one // random.choice((2, 3))
        case 3:
            return one % random.choice((2, 3, 4))
        case 4:
            return one * random.choice((-2, -1, 2))
        case 5:
            return Affine.smallest(one, other)
    return Affine.largest(one, other)


def test_isl_and_what_is_seen_without_it_agree_with_the_values() -> None:
    random, scopes = Random(7), (Scope(Extent((N,)), ()), Scope(Extent((ROW + 1, Affine.constant(4))), ()))
    seen = 0
    for _ in range(400):
        affine = _random(random, 3)
        points = [(n, i, j) for n in range(1, 5) for i in range(n) for j in range(min(i + 1, 4))]
        values = [affine.evaluate({"N": n}, (i, j)) for n, i, j in points]
        text = f"[n_N] -> {{ [i0, i1] -> [{isl_affine(affine)}] }}"
        made = isl.Map.read_from_str(isl.DEFAULT_CONTEXT, text)
        for (n, i, j), value in list(zip(points, values, strict=True))[::7]:
            point = isl.Map.read_from_str(
                isl.DEFAULT_CONTEXT, f"[n_N] -> {{ [{i}, {j}] -> [{value}] : n_N = {n} }}"
            )
            assert point.is_subset(made), affine
        plain = without_divisions(affine, scopes)
        assert values == [plain.evaluate({"N": n}, (i, j)) for n, i, j in points], (affine, plain)
        if is_nonnegative(affine, scopes):
            seen += affine.is_clamped
            assert min(values) >= 0, affine
    assert seen > 20


def test_where_an_index_may_have_it() -> None:
    head = "kernel k(N)\nin  x: f32[N]\nout y: f32[N]\n\n"
    for text, found in (
        (head + "N\n| if max({0}, 1) == 1\n| | y[{0}] = 1\n", "only in an index"),
        (head + "N + max(N, 2)\n| y[0] = 1\n", "only in an index"),
        (head + "min(N, 2) + 1\n| y[0] = 1\n", "a whole extent or in an index"),
        (head + "N\n| y[{0}] = x[clamp({0}, 1)]\n", "clamp takes 3 arguments, not 2"),
        (head + "N\n| y[{0}] = x[min({0})]\n", "two or more"),
        (head + "N\n| y[{0}] = x[exp({0})]\n", "exp(…) is not"),
    ):
        with pytest.raises(dojoir.KernelError) as caught:
            dojoir.parse(text)
        assert found in str(caught.value)


# -- bounds ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("border", BORDERS)
def test_borders_are_in_bounds(border: str) -> None:
    dojoir.prove(smoothed(border))


@pytest.mark.parametrize(
    ("index", "wrong"),
    [("clamp({0} - 1, 0, N)", "x[1]"), ("max({0} - 1, -1)", "x[-1]"), ("min({0} + 2, N + 1)", "x[2]")],
)
def test_a_clamp_that_leaves_the_array_is_an_error_with_its_place(index: str, wrong: str) -> None:
    text = f"kernel k(N)\nin  x: f32[N]\nout y: f32[N]\n\n2*N\n| y[min({{0}}, N - 1)] = x[{index}]\n"
    with pytest.raises(dojoir.KernelError) as caught:
        dojoir.prove(dojoir.parse(text))
    assert caught.value.diagnostic.code == "out-of-bounds"
    assert "with N=" in str(caught.value)


def test_a_mirrored_border_needs_an_array_that_is_long_enough() -> None:
    with pytest.raises(dojoir.KernelError, match="with N=") as caught:
        dojoir.prove(smoothed("reflect", around="where N >= 1"))
    assert "add `where N >= 3`" in str(caught.value)
    assert "clamp(…, 0, N - 1)" in str(caught.value)


# -- every target ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("border", BORDERS)
def test_the_interpreter_and_the_targets_of_this_machine(border: str) -> None:
    for n in (3, 4, 16, 37):
        arrays = given(n)
        want = expected(border, arrays)
        assert np.array_equal(dojoir.interpret(smoothed(border), arrays)["y"], want)
        for scope in ("N", "N : v", "N : p"):
            for target in HOST:
                if can_run(target):
                    compiled = dojoir.compile(smoothed(border, scope), target)
                    assert np.array_equal(compiled.run(arrays)["y"], want), (target, scope, n)


@pytest.mark.parametrize(("target", "vlen"), [("neon", 128), ("sve", 256), ("rvv", 256)])
def test_emulated_targets(target: str, vlen: int, tmp_path: Path) -> None:
    try:
        machine(target)
    except dojoir.ToolchainError as error:
        pytest.skip(str(error))
    kernels = [smoothed(border, scope) for border in BORDERS for scope in ("N", "N : v")]
    borders = [border for border in BORDERS for _ in range(2)]
    program, trials = build(target, kernels, tmp_path), []
    for number, border in enumerate(borders):
        for n in (3, 37):
            want = {"y": expected(border, given(n))}
            trials.append((number, Trial(kernels[number], given(n), {"N": n}, want)))
    for (_, trial), found in zip(trials, run(target, program, trials, vlen), strict=True):
        assert np.array_equal(found["y"], trial.expected["y"]), trial.kernel


@pytest.mark.parametrize("target", ["cuda", "hip"])
@pytest.mark.parametrize("border", BORDERS)
def test_gpu_text_on_the_harness(border: str, target: str) -> None:
    arrays = given(20)
    found = on_harness.run(smoothed(border, "N : gx"), arrays, {"N": 20}, target)["y"]
    assert np.array_equal(found, expected(border, arrays))


# -- moves -------------------------------------------------------------------------------------------------
BLUR = (
    "kernel blur(N)\nin  x: f32[N]\nout y: f32[N]\n\n"
    "N\n| y[{0}] = x[clamp({0} - 1, 0, N - 1)] + x[{0}] + x[min({0} + 1, N - 1)]\n"
)


def test_borders_are_cut_off_and_the_interior_has_none() -> None:
    trace = dojoir.Trace(dojoir.parse(BLUR))
    for move in (
        "cut(0, N - 1)",
        "cut(0, 1)",
        "set_index(1.0, 1, {0})",
        "set_index(1.0, 3, {0} + 2)",
        "vectorize(1)",
    ):
        trace.apply(move)
    assert "N - 2 : v\n| y[{0} + 1] = x[{0}] + x[{0} + 1] + x[{0} + 2]\n" in dojoir.to_text(trace.kernel)
    assert dojoir.certify(trace)
    for n in (1, 2, 3, 40):
        x = np.random.default_rng(n).random(n).astype(np.float32)
        padded = np.pad(x, 1, mode="edge")
        want = padded[:-2] + padded[1:-1] + padded[2:]
        for target in HOST:
            if can_run(target):
                assert np.array_equal(dojoir.compile(trace.kernel, target).run({"x": x})["y"], want), (target, n)
    while trace.moves:
        trace.undo()
    assert trace.kernel == dojoir.parse(BLUR)


def test_an_index_that_is_another_one_somewhere_is_refused() -> None:
    kernel = dojoir.apply(dojoir.parse(BLUR), "cut(0, N - 1)")
    for move, code in (
        ("set_index(0.0, 1, {0} - 1)", "wrong-value"),
        ("set_index(0.0, 1, {0})", "wrong-value"),
        ("set_index(0.0, 0, 0)", None),
        ("set_index(1.0, 3, N - 2)", None),
        ("set_index(0.0, 9, 0)", "no-index"),
        ("set_index(0.0, 1, min(max({0} - 1, 0), N - 1))", "no-change"),
        ("set_index(0.0, 1, q)", "bad-formula"),
    ):
        verdict = dojoir.check(kernel, move)
        assert not verdict, move
        assert code is None or verdict.code == code, (move, verdict.code)
    assert dojoir.check(kernel, "set_index(0.0, 1, max({0} - 1, 0))")


def test_a_move_puts_no_min_where_the_language_has_none() -> None:
    text = (
        "kernel k(N)\nout y: f32[N]\ntmp t: f32[N]\n\n"
        "N\n| t[{0}] = f32({0})\nN\n| y[{0}] = t[min({0}, N - 1)] + t[max({0} - 1, 0)]\n"
    )
    assert dojoir.check(dojoir.parse(text), "inline(1.0, t)").code in {"clamped-elsewhere", "not-a-statement"}


@pytest.mark.parametrize("border", BORDERS)
def test_random_legal_moves_keep_what_it_is(border: str) -> None:
    random, kernel = Random(border), smoothed(border)
    for _ in range(6):
        trace = dojoir.Trace(kernel)
        for _ in range(5):
            trace.apply(random.choice(list(dojoir.moves(trace.kernel, "llvm"))))
        arrays = given(13)
        want = expected(border, arrays)
        assert np.array_equal(dojoir.interpret(trace.kernel, arrays)["y"], want), trace.kernel
        assert np.array_equal(dojoir.compile(trace.kernel).run(arrays)["y"], want), trace.kernel
        assert dojoir.certify(trace), trace.kernel


def test_extremum_is_one_atom() -> None:
    ((atom, _),) = Affine.largest(ROW, N).terms
    assert isinstance(atom, Extremum)
    assert atom.parts == (Affine.atom(Iter(0)), N)
