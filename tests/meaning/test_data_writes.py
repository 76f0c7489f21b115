"""Conditions on data, and assignments at indices from data: what they mean, on every target, and to the checker."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import on_harness
import pytest
from able import can_run
from emulated import Trial, build, machine, run

import dojoir
from dojoir.ir.dtypes import DTYPES

HOST = ("llvm", "c", "avx2", "avx512")

CHOSEN = """kernel chosen(N)
in    ok: bool[N]
in    x: f32[N]
inout y: f32[N]

N
| if ok[{0}] or x[{0}] > 1
| | y[{0}] = 2 * x[{0}]
| | y[{0}] += 1 if x[{0}] < 3
"""

CACHE = """kernel cache(T, D, S)
in    at: i32[T]
in    v: f32[T, D]
inout c: f32[S, D]

T
| D
| | c[at[{0}], {1}] = v[{0}, {1}]
"""

COUNT = """kernel count(N)
in    x: f32[N]
in    d: i32[N]
inout n: i32
inout s: i32

N
| n += 1 if x[{0}] > 1
| s += 100 // d[{0}] if d[{0}] != 0
"""

RAGGED = """kernel ragged(N, M)
in  rows: i32[N]
in  x: f32[N, M]
out y: f32[N]

N
| y[{0}] = 0
| min(rows[{0}], M)
| | y[{0}] += x[{0}, {1}]
"""


def arrays(text: str, n: int = 131) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Inputs of a kernel above, and what it gives."""
    random = np.random.default_rng(n)
    x = random.integers(-3, 5, n).astype(np.float32)
    match text:
        case str() if text is CHOSEN:
            ok, y = random.random(n) < 0.3, np.full(n, 9, np.float32)
            holds = ok | (x > 1)
            once = np.where(holds, 2 * x, y)
            return {"ok": ok, "x": x, "y": y}, {"y": np.where(holds & (x < 3), once + 1, once)}
        case str() if text is CACHE:
            at, v, c = (
                random.integers(0, 7, n).astype(np.int32),
                random.random((n, 5), np.float32),
                np.zeros((9, 5)),
            )
            want = c.astype(np.float32)
            for row, place in enumerate(at):
                want[place] = v[row]
            return {"at": at, "v": v, "c": c.astype(np.float32)}, {"c": want}
        case str() if text is COUNT:
            d = random.integers(-2, 3, n).astype(np.int32)
            total = sum(100 // int(one) for one in d if one)
            given = {"x": x, "d": d, "n": np.array(5, np.int32), "s": np.array(-7, np.int32)}
            return given, {"n": np.int32(5 + (x > 1).sum()), "s": np.int32(total - 7)}
        case _:
            rows, grid = (
                random.integers(-2, 30, n).astype(np.int32),
                random.integers(-3, 5, (n, 17)).astype(np.float32),
            )
            want = np.array([row[: max(length, 0)].sum() for row, length in zip(grid, rows, strict=True)])
            return {"rows": rows, "x": grid}, {"y": want.astype(np.float32)}


def same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> bool:
    return all(np.array_equal(found[name], expected[name]) for name in expected)


def marked(text: str, mark: str) -> dojoir.Kernel:
    return dojoir.parse(text.replace("\nN\n", f"\nN : {mark}\n").replace("| D\n", f"| D : {mark}\n"))


TEXTS = [CHOSEN, CACHE, COUNT, RAGGED]


# -- meaning -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("text", TEXTS)
def test_the_interpreter_and_the_targets_of_this_machine(text: str) -> None:
    given, expected = arrays(text)
    kernel = dojoir.parse(text)
    assert dojoir.parse(dojoir.to_text(kernel)) == kernel
    assert same(dojoir.interpret(kernel, given), expected)
    marks = ("u",) if text is RAGGED else ("v", "p") if text is CHOSEN else ("v",)
    for target in filter(can_run, HOST):
        for tried in (
            kernel,
            *(marked(text, mark) for mark in marks if mark != "u"),
            dojoir.optimize(kernel, target).kernel,
        ):
            assert same(dojoir.compile(tried, target).run(given), expected), (target, dojoir.to_text(tried))
        report = dojoir.verify(kernel, target=target)
        assert report.ok, report


@pytest.mark.parametrize(("target", "vlen"), [("neon", 128), ("sve", 256), ("rvv", 256)])
def test_emulated_targets(target: str, vlen: int, tmp_path: Path) -> None:
    try:
        machine(target)
    except dojoir.ToolchainError as error:
        pytest.skip(str(error))
    kernels = [marked(text, "v") if text is not RAGGED else dojoir.parse(text) for text in TEXTS]
    program = build(target, kernels, tmp_path)
    trials = []
    for number, text in enumerate(TEXTS):
        given, expected = arrays(text)
        sizes = {size.name: 0 for size in kernels[number].sizes} | {"N": 131, "M": 17, "T": 131, "D": 5, "S": 9}
        sizes = {size.name: sizes[size.name] for size in kernels[number].sizes}
        trials.append((number, Trial(kernels[number], given, sizes, expected)))
    for (_, trial), found in zip(trials, run(target, program, trials, vlen), strict=True):
        assert same(found, trial.expected), trial.kernel


@pytest.mark.parametrize("target", ["cuda", "hip"])
def test_gpu_text_on_the_harness(target: str) -> None:
    for text, mark in ((CHOSEN, "gx"), (RAGGED, "gx"), (CACHE, "")):
        given, expected = arrays(text, 20)
        kernel = marked(text, mark) if mark else dojoir.parse(text)
        sizes = {size.name: {"N": 20, "M": 17, "T": 20, "D": 5, "S": 9}[size.name] for size in kernel.sizes}
        assert same(on_harness.run(kernel, given, sizes, target), expected), text


def test_where_the_condition_fails_nothing_is_computed() -> None:
    """Neither a division by 0, nor an index out of range; a condition is asked once for a statement."""
    text = """kernel k(N, M)
in    at: i32[N]
in    x: f32[M]
inout y: f32[N]

N
| y[{0}] = x[at[{0}]] if at[{0}] >= 0 and at[{0}] < M
"""
    given = {"at": np.array([0, -1, 2, 99], np.int32), "x": np.arange(3, dtype=np.float32) + 1}
    given["y"] = np.zeros(4, np.float32)
    for mark in ("", " : v", " : p"):
        kernel = dojoir.parse(text.replace("\nN\n", f"\nN{mark}\n"))
        for target in filter(can_run, HOST):
            assert dojoir.compile(kernel, target).run(given)["y"].tolist() == [1, 0, 3, 0]
    wrong = dojoir.parse(text.replace("at[{0}] >= 0", "at[{0}] >= -5"))
    with pytest.raises(dojoir.RunError, match="index"):
        dojoir.compile(wrong).run(given)


def test_an_element_that_no_condition_chooses_is_not_touched() -> None:
    """Not even with its own value: signalling bits stay as they are."""
    kernel = dojoir.parse(
        "kernel k(N)\nin ok: bool[N]\nin x: f32[N]\ninout y: f32[N]\n\nN : v\n| y[{0}] += x[{0}] if ok[{0}]\n"
    )
    bits = np.full(67, 0x7F800001, np.uint32)
    for target in filter(can_run, HOST):
        y = bits.view(np.float32).copy()
        dojoir.compile(kernel, target)(np.arange(67) % 5 == 0, np.ones(67, np.float32), y)
        untouched = y.view(np.uint32)[np.arange(67) % 5 != 0]
        assert (untouched == 0x7F800001).all(), target


# -- text --------------------------------------------------------------------------------------------------
def test_a_block_is_written_on_each_statement() -> None:
    kernel = dojoir.parse(CHOSEN)
    assert dojoir.to_text(kernel).splitlines()[6:] == [
        "| y[{0}] = 2 * x[{0}] if ok[{0}] or x[{0}] > 1",
        "| y[{0}] += 1 if (ok[{0}] or x[{0}] > 1) and x[{0}] < 3",
    ]


def test_affine_conditions_stay_guards() -> None:
    kernel = dojoir.parse(CHOSEN.replace("ok[{0}] or x[{0}] > 1", "ok[{0}] and {0} > 1"))
    assert "| if {0} > 1\n| | y[{0}] = 2 * x[{0}] if ok[{0}]\n" in dojoir.to_text(kernel)


def test_what_only_a_condition_writes_is_not_written() -> None:
    with pytest.raises(dojoir.KernelError) as caught:
        dojoir.prove(dojoir.parse(CHOSEN.replace("inout y", "out   y")))
    assert caught.value.diagnostic.code == "read-before-write"


BLOCKS = """kernel blocks(N, M)
in    rows: i32[N]
in    x: f32[N, M, 16]
inout s: f32[N, M, 16]
tmp   a: f32
tmp   y: f32[16]

N @n
| min(rows[{n}], M) @m
| | a = 0
| | 16 @k
| | | y[{k}] = 2 * x[{n}, {m}, {k}]
| | | a max= abs(y[{k}])
| | 16 @j
| | | s[{n}, {m}, {j}] = a * y[{j}]
"""


def test_a_temporary_may_be_used_in_a_later_scope_of_the_same_iteration() -> None:
    kernel = dojoir.parse(BLOCKS)
    dojoir.prove(kernel)
    given = {"rows": np.array([2, 0, 3]), "x": np.random.default_rng(0).standard_normal((3, 3, 16))}
    given = {"rows": given["rows"].astype(np.int32), "x": given["x"].astype(np.float32)}
    y = 2 * given["x"]
    before = np.full((3, 3, 16), 7, np.float32)
    valid = (np.arange(3) < given["rows"][:, None])[:, :, None]
    want = np.where(valid, np.abs(y).max(axis=2, keepdims=True) * y, before)
    for got in (dojoir.interpret, lambda k, a: dojoir.compile(k).run(a)):
        np.testing.assert_array_equal(got(kernel, {**given, "s": before.copy()})["s"], want)


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("| | 16 @j", "| | 17 @j"),
        ("a * y[{j}]", "a * y[15 - {j}]"),
        ("| | 16 @k", "| | 15 @k"),
        ("| min(rows[{n}], M) @m", "| M @m"),
    ],
)
def test_a_temporary_that_other_iterations_use_keeps_its_condition(line: str, instead: str) -> None:
    """Read where the same iteration has not assigned it; or with conditions that differ in one scope."""
    text = BLOCKS.replace(line, instead)
    if instead == "| M @m":
        text = text.replace("y[{k}] = 2 * x[{n}, {m}, {k}]", "y[{k}] = 2 * x[{n}, {m}, {k}] if {k} < rows[{n}]")
    with pytest.raises(dojoir.KernelError):
        dojoir.prove(dojoir.parse(text))


# -- the checker -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "move", "legal"),
    [
        (CHOSEN, "split(0, 16)", True),
        (CHOSEN, "vectorize(0)", True),
        (CHOSEN, "bind(0, gx)", True),
        (CHOSEN, "swap_siblings(0.0)", False),
        (CHOSEN, "reverse_scope(0)", True),
        (CHOSEN, "extract_subexpression(0.0, 1, t)", True),
        (CHOSEN, "extract_subexpression(0.0, 6, t)", True),
        (CACHE, "swap_scopes(0)", True),
        (CACHE, "vectorize(0.0)", True),
        (CACHE, "vectorize(0)", False),
        (CACHE, "parallelize(0)", False),
        (CACHE, "reverse_scope(0)", False),
        (CACHE, "reverse_scope(0.0)", True),
        (COUNT, "vectorize(0)", True),
        (COUNT, "reverse_scope(0)", True),
        (COUNT, "bind(0, bx)", False),
        (COUNT, "extract_subexpression(0.1, 4, t)", False),
        (RAGGED, "split_reduction(0.1, y, p, 4)", True),
        (RAGGED, "swap_scopes(0)", False),
        (RAGGED, "parallelize(0)", True),
    ],
)
def test_moves(text: str, move: str, legal: bool) -> None:
    kernel = dojoir.parse(text)
    verdict = dojoir.check(kernel, move)
    assert bool(verdict) == legal, verdict
    if legal:
        trace = dojoir.Trace(kernel)
        trace.apply(move)
        assert dojoir.certify(trace)
        given, expected = arrays(text, 29)
        assert same(dojoir.interpret(trace.kernel, given), expected)


def test_a_condition_is_no_part_that_a_move_may_drop() -> None:
    """A certificate that says that one without the condition stands for one with it is refused."""
    kernel = dojoir.parse(CHOSEN)
    bare = dojoir.parse(CHOSEN.replace("ok[{0}] or x[{0}] > 1", "{0} >= 0"))
    from dojoir.proof.certificate import identity
    from dojoir.proof.check import compare

    assert compare(kernel, kernel, identity(kernel)).status == "legal"
    assert compare(kernel, bare.evolve(body=bare.body), identity(kernel)).status == "illegal"


# -- the lowering ------------------------------------------------------------------------------------------
LOOP = """kernel loop(N, M)
in    ok: bool[N]
in    rows: i32[N]
in    x: f32[N, M]
inout y: f32[N, M]

N
| M - 1
"""


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("| | y[{0}, {1}] = x[{0}, {1}] if ok[{0}]\n", "if (ok[i0] != 0) {\n                for"),
        ("| | if {1} > 0\n| | | y[{0}, {1}] = 1 if ok[{0}]\n", "if (i1 > 0) {"),
        ("| | if {0} > 0\n| | | y[{0}, {1}] = 1 if ok[{0} - 1]\n", "if (i0 > 0) {"),
        ("| | y[{0}, {1}] = 1 if {1} < i64(rows[{0}])\n", "min_i64(M - 1, (int64_t)rows[i0])"),
        ("| | y[{0}, {1}] = 1 if {1} < rows[{0}]\n", "if ((int32_t)i1 < rows[i0])"),
        ("| | y[{0}, {1}] = 1 if rows[{0}] // 3 == {0}\n", "for (int64_t i1 = 0; i1 < M - 1; i1++)"),
    ],
)
def test_what_a_loop_asks_once(body: str, text: str) -> None:
    """And only where an iteration would ask: an element need not exist elsewhere."""
    kernel = dojoir.parse(LOOP + body)
    dojoir.prove(kernel)
    assert text in dojoir.emit(kernel, "c")
    random = np.random.default_rng(3)
    for n, m in ((1, 1), (1, 2), (5, 9)):
        given = {"ok": random.random(n) < 0.5, "rows": random.integers(-2, 12, n).astype(np.int32)}
        given |= {"x": random.random((n, m), np.float32), "y": np.zeros((n, m), np.float32)}
        expected = dojoir.interpret(kernel, given)
        for target in filter(can_run, HOST):
            assert same(dojoir.compile(kernel, target).run(given), expected), target


@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32"])
def test_sums_under_a_condition_are_carried_as_others_are(dtype: str) -> None:
    """4,096 ones, in types that have no odd numbers from 256 or 2,048 on; and where nothing is added, not even the
    bits of the element change."""
    one = {"bf16": 0x3F80, "f16": 0x3C00, "f32": 0x3F800000}[dtype]
    quiet = {"bf16": 0x7F81, "f16": 0x7C01, "f32": 0x7F800001}[dtype]
    stored, bits = np.dtype(DTYPES[dtype].stored), np.uint32 if dtype == "f32" else np.uint16
    for mark in ("", " : v"):
        kernel = dojoir.parse(
            f"kernel k(N)\nin ok: bool[N]\nin x: {dtype}[N]\ninout y: {dtype}[1]\n\n"
            f"N{mark}\n| y[0] += x[{{0}}] if ok[{{0}}]\n"
        )
        x = np.full(4096, one, bits).view(stored)
        for target in filter(can_run, HOST):
            y = np.zeros(1, bits).view(stored)
            compiled = dojoir.compile(kernel, target)
            compiled(np.ones(4096, bool), x, y)
            assert np.array_equal(y, dojoir.interpret(kernel, {"ok": np.ones(4096, bool), "x": x, "y": y * 0})["y"])
            y = np.full(1, quiet, bits).view(stored)
            compiled(np.zeros(4096, bool), x, y)
            assert y.view(bits)[0] == quiet, target
