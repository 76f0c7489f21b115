"""Accumulations at an index from data: meaning, proof, moves and every target on this machine."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from random import Random

import numpy as np
import pytest
from emulated import Trial, build, machine, run

import dojoir
from dojoir.ir.nodes import Kernel
from dojoir.proof.check import InstanceMap, compare, identity, is_legal, prove_by_core
from dojoir.proof.checker_mode import check_with
from dojoir.sets.data_writes import without_data_writes

HISTOGRAM = """kernel histogram(N, B)
in  x: i32[N]
in  w: i32[N]
out h: i32[B]

B
| h[{0}] = 0
N @i
| h[x[{0}]] += w[{0}]
"""
TWO = """kernel two(N, A, B)
in  x: i32[N]
in  y: u8[N]
in  v: f32[N]
inout m: f32[A, B]

N
| m[x[{0}], y[{0}]] max= v[{0}]
"""
ROWS = """kernel rows(M, N, B)
in  x: i32[M, N]
in  w: i32[M, N]
out h: i32[M, B]

M : p
| B
| | h[{0}, {1}] = 0
| N
| | h[{0}, x[{0}, {1}]] += w[{0}, {1}]
"""
UNROLLED = HISTOGRAM.replace("(N, B)", "(N = 101, B)").replace("N @i", "N : u")
PARTS = (
    HISTOGRAM.replace("N @i\n| h[x[{0}]]", "4\n| B\n| | p[{0}, {1}] = 0\nN @i\n| p[{0} % 4, x[{0}]]").replace(
        "out h: i32[B]\n", "out h: i32[B]\ntmp p: i32[4, B]\n"
    )
    + "4\n| B\n| | h[{1}] += p[{0}, {1}]\n"
)


def inputs(seed: int, n: int = 101, b: int = 7) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {"x": random.integers(0, b, n).astype(np.int32), "w": random.integers(-99, 99, n).astype(np.int32)}


def in_numpy(given: dict[str, np.ndarray], b: int = 7) -> np.ndarray:
    found = np.zeros(b, np.int32)
    np.add.at(found, given["x"], given["w"])
    return found


def test_the_interpreter_gives_what_numpy_gives() -> None:
    given = inputs(1)
    assert np.array_equal(dojoir.interpret(dojoir.parse(HISTOGRAM), given, B=7)["h"], in_numpy(given))


@pytest.mark.parametrize("target", ["llvm", "c", "avx2", "avx512"])
@pytest.mark.parametrize(
    "text", [HISTOGRAM, PARTS, HISTOGRAM.replace("(N, B)", "(N = 101, B)").replace("N @i", "N : u")]
)
def test_targets_of_this_machine(target: str, text: str) -> None:
    kernel = dojoir.parse(text)
    dojoir.prove(kernel)
    try:
        compiled = dojoir.compile(kernel, target)
    except dojoir.ToolchainError as error:
        pytest.skip(str(error))
    given = inputs(2)
    assert np.array_equal(compiled.run(given, B=7)["h"], in_numpy(given))


@pytest.mark.parametrize("target", ["neon", "sve", "rvv"])
def test_emulated_targets(target: str, tmp_path: Path) -> None:
    try:
        machine(target)
    except dojoir.ToolchainError as error:
        pytest.skip(str(error))
    kernels = [dojoir.parse(HISTOGRAM), dojoir.parse(PARTS)]
    given = inputs(3)
    trials = [
        (k, Trial(kernel, given, {"N": 101, "B": 7}, {"h": in_numpy(given)})) for k, kernel in enumerate(kernels)
    ]
    for found in run(target, build(target, kernels, tmp_path), trials):
        assert np.array_equal(found["h"], in_numpy(given))


@pytest.mark.parametrize("wrong", [-1, 7, 2**30])
def test_an_index_out_of_range_is_an_error_and_writes_nothing_else(wrong: int) -> None:
    kernel = dojoir.parse(HISTOGRAM)
    given = inputs(4)
    given["x"][50] = wrong
    for call in (lambda: dojoir.interpret(kernel, given, B=7), *(
        lambda target=target: dojoir.compile(kernel, target).run(given, B=7) for target in ("llvm", "c")
    )):  # fmt: skip
        with pytest.raises(dojoir.RunError) as caught:
            call()
        assert caught.value.diagnostic.code == "index-out-of-range"


def test_two_dimensions_by_data() -> None:
    kernel = dojoir.parse(TWO)
    assert dojoir.parse(dojoir.to_text(kernel)) == kernel
    dojoir.prove(kernel)
    random = np.random.default_rng(5)
    given = {"x": random.integers(0, 4, 60).astype(np.int32), "y": random.integers(0, 3, 60).astype(np.uint8),
             "v": random.random(60, np.float32), "m": np.zeros((4, 3), np.float32)}  # fmt: skip
    want = given["m"].copy()
    np.maximum.at(want, (given["x"], given["y"]), given["v"])
    for found in (dojoir.interpret(kernel, given), dojoir.compile(kernel).run(given)):
        assert np.array_equal(found["m"], want)


def code(text: str) -> str:
    with pytest.raises(dojoir.KernelError) as caught:
        dojoir.prove(dojoir.parse(text))
    return caught.value.diagnostic.code


def test_what_is_refused() -> None:
    assert code(HISTOGRAM.replace("h[x[{0}]] += w", "h[x[{0}]] = w").replace("N @i", "N : v")) == "shared-element"
    assert code(HISTOGRAM.replace("B\n| h[{0}] = 0\n", "B - 1\n| h[{0}] = 0\n")) == "read-before-write"
    assert code(HISTOGRAM.replace("N @i", "N : p")) == "shared-element"
    assert code(HISTOGRAM.replace("h[x[{0}]] += w", "h[x[{0}]] = w").replace("N @i", "N : gx")) == "shared-element"
    assert code(HISTOGRAM.replace("in  x: i32", "in  x: f32")) == "type-operand"
    assert dojoir.check(dojoir.parse(HISTOGRAM), "parallelize(@i)").code == "shared-element"
    assert dojoir.check(dojoir.parse(HISTOGRAM), "join_scopes(0, 1)").status == "illegal"


def test_rows_of_their_own_may_run_side_by_side() -> None:
    kernel = dojoir.parse(ROWS)
    dojoir.prove(kernel)
    given = {name: np.stack([inputs(seed)[name] for seed in range(5)]) for name in "xw"}
    want = np.stack([in_numpy(inputs(seed)) for seed in range(5)])
    assert np.array_equal(dojoir.compile(kernel, threads=2).run(given, B=7)["h"], want)


# -- private copies ----------------------------------------------------------------------------------------
def test_private_copies_on_cores() -> None:
    trace = dojoir.Trace(dojoir.parse(HISTOGRAM))
    for move in ("split(@i, 16)", "split_reduction(1, h, p, (N + 15) // 16)", "parallelize(2)"):
        trace.apply(move)
    given = inputs(6)
    for target in ("llvm", "c"):
        found = dojoir.compile(trace.kernel, target, threads=2).run(given, B=7)["h"]
        assert np.array_equal(found, in_numpy(given))
    assert dojoir.certify(trace)


def test_partial_results_and_back() -> None:
    start = dojoir.parse(HISTOGRAM)
    trace = dojoir.Trace(start)
    trace.apply("split_reduction(@i, h, p, 4)")
    assert trace.kernel == dojoir.parse(PARTS)
    trace.apply("merge_reduction(@i, p)")
    assert trace.kernel == start
    assert dojoir.certify(trace)


MISTAKES = [
    ("h[{1}] += p[{0}, {1}]", "h[B - 1 - {1}] += p[{0}, {1}]"),
    ("h[{1}] += p[{0}, {1}]", "h[{1}] += p[0, {1}]"),
    ("h[{1}] += p[{0}, {1}]", "h[{1}] += p[3 - {0}, B - 1 - {1}]"),
    ("p[{0} % 4, x[{0}]] += w", "p[{0} % 4, w[{0}]] += w"),
    ("p[{0} % 4, x[{0}]] += w", "p[{0} % 4, x[0]] += w"),
    ("p[{0} % 4, x[{0}]] += w", "p[{0} % 4, x[{0}]] *= w"),
    ("p[{0}, {1}] = 0", "p[{0}, {1}] = 1"),
    ("N @i", "N - 1 @i"),
]


@pytest.mark.parametrize(("was", "now"), [("", ""), *MISTAKES])
def test_private_copies_that_are_wrong_are_refused(was: str, now: str) -> None:
    """The rewrite of split_reduction with one thing changed in what it makes: right as it is, and never
    otherwise."""
    before = dojoir.parse(HISTOGRAM)
    after = dojoir.parse(PARTS.replace(was, now) if was else PARTS)
    kept = identity(before).origins
    for decide in (compare, prove_by_core):
        verdict = decide(before, after, InstanceMap((kept[0], None, kept[1], None)))
        assert bool(verdict) is (not was), str(verdict)


# -- any move ----------------------------------------------------------------------------------------------
SMALL = [
    HISTOGRAM,
    PARTS,
    HISTOGRAM.replace("N @i\n| h", "N @i\n| t[{0}] = w[{0}] * 3\nN\n| h")
    .replace("+= w", "+= t")
    .replace("out h", "tmp t: i32[N]\nout h"),
    HISTOGRAM + "N\n| h[{0} % 2] += w[{0}]\nN\n| h[x[N - 1 - {0}]] += x[{0}]\n",
]


@pytest.mark.parametrize("text", SMALL)
def test_legal_moves_keep_the_meaning(text: str) -> None:
    random = Random(len(text))
    start = dojoir.parse(text.replace("(N, B)", "(N, B)\nwhere B >= 2"))
    given = inputs(8, n=13, b=3)
    want = dojoir.interpret(start, given, B=3)["h"]
    for _ in range(2):
        trace = dojoir.Trace(start)
        found = list(dojoir.candidates(start))
        for move in random.sample(found, min(20, len(found))):
            with suppress(dojoir.IllegalMove, dojoir.QueryError):
                trace.apply(move)
                assert np.array_equal(dojoir.interpret(trace.kernel, given, B=3)["h"], want), trace.kernel
        assert len(trace.moves) > 1
        assert np.array_equal(dojoir.compile(trace.kernel, threads=2).run(given, B=3)["h"], want), trace.kernel


def test_refusals_of_moves_are_right_or_careful() -> None:
    """What is refused, done all the same, gives something else somewhere, or the core alone refuses it as well."""
    start = dojoir.parse(HISTOGRAM)
    random = Random(3)
    for move in random.sample(found := list(dojoir.candidates(start)), min(12, len(found))):
        quick = dojoir.check(start, move).status == "legal"
        with check_with("core"):
            assert quick == (dojoir.check(start, move).status == "legal"), move


def test_the_form_that_the_checker_sees() -> None:
    kernel: Kernel = dojoir.parse(HISTOGRAM)
    plain = without_data_writes(kernel)
    assert dojoir.to_text(plain).splitlines()[-1] == "| | h[{1}] += select(i64(x[{0}]) == {1}, w[{0}], 0)"
    given = inputs(9)
    assert np.array_equal(dojoir.interpret(plain, given, B=7)["h"], in_numpy(given))
    assert without_data_writes(plain) is plain


def test_verify_and_cost() -> None:
    kernel = dojoir.parse(HISTOGRAM)
    assert dojoir.verify(kernel, target="llvm")
    counted = dojoir.cost(kernel).at(N=100, B=8)
    assert (counted.integer, counted.written, counted.read) == (100, 32, 800)


def test_what_is_apart_is_no_element_that_iterations_share() -> None:
    kernel = dojoir.parse(
        "kernel k(N)\nin at: i32[N] distinct\nin x: f32[N]\ninout y: f32[N]\n\nN : p\n| y[at[{0}]] = x[{0}]\n"
    )
    done = dojoir.parse_move("reverse_scope(0)").rewrite(kernel)
    assert compare(kernel, done.kernel, done.instances)
    assert is_legal(kernel, done.kernel, done.instances)


@pytest.mark.parametrize(
    "statement", ["y[at[{0}]] = x[{0}]", "y[0] = x[{0}] if x[{0}] > 2"], ids=["at an index", "under a condition"]
)
def test_an_assignment_that_data_decide_is_no_sum(statement: str) -> None:
    """It leaves an element as it was where it does not assign it, and was listed as an accumulation."""
    kernel = dojoir.parse(f"kernel f(N)\nin x: i32[N]\nin at: i64[N]\ninout y: i32[N]\nN\n| {statement}\n")
    verdict = dojoir.check(kernel, "split_reduction(0, y, part, 4)")
    assert verdict.code == "assigned-inside"
    assert "split_reduction" not in {move.name for move in dojoir.candidates(kernel)}
