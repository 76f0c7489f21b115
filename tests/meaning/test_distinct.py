"""Arguments of which no two elements are equal: what follows from it, and that a call checks it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import on_harness
import pytest
from able import can_run
from emulated import Trial, build, machine, run

import dojoir
from dojoir.proof.certificate import identity
from dojoir.proof.check import compare

HOST = ("llvm", "c", "avx2", "avx512")

CACHE = """kernel cache(T, D, S)
in    at: i32[T] distinct
in    v: f32[T, D]
inout c: f32[S, D]

T
| D
| | c[at[{0}], {1}] = v[{0}, {1}]
"""
ADDED = CACHE.replace("] = v", "] += v")
SOME = CACHE.replace("{1}]\n", "{1}] if v[{0}, {1}] > 0.5\n").replace("c: f32[S, D]", "c: f32[S, D]")
PAGES = """kernel pages(B, P, D, S)
in    page: i64[B, P] distinct
in    x: f32[B, P, D]
inout c: f32[S, D]

B
| P
| | D
| | | c[page[{0}, {1}], {2}] = x[{0}, {1}, {2}]
"""
OTHER = CACHE.replace("D]\n\n", "D]\nin    to: i32[T] distinct\n\n") + "| | c[to[{0}], {1}] = 1\n"


def arrays(text: str, rows: int = 33) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    random = np.random.default_rng(rows)
    c = random.random((rows + 7, 5), np.float32)
    at = random.permutation(rows + 7)[:rows].astype(np.int32)
    v = random.random((rows, 5), np.float32)
    if text is PAGES:
        v, pages = v.reshape(-1, 3, 5), at.reshape(-1, 3).astype(np.int64)
        given = {"page": pages, "x": v, "c": c}
    else:
        given = {"at": at, "v": v, "c": c}
    return given, dojoir.interpret(dojoir.parse(text), given)


def marked(text: str, *marks: str) -> dojoir.Kernel:
    """The text with its scopes marked, from outside in."""
    lines = iter(marks)
    head, _, body = text.partition("\n\n")
    made = [
        f"{line} : {mark}" if line.lstrip("| ").isalpha() and (mark := next(lines, "")) else line
        for line in body.splitlines()
    ]
    return dojoir.parse("\n".join([head, "", *made, ""]))


TEXTS = [CACHE, ADDED, SOME, PAGES]


# -- meaning -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("text", TEXTS)
def test_iterations_run_in_parallel_and_in_lanes(text: str) -> None:
    given, expected = arrays(text)
    if text is CACHE:
        want = given["c"].copy()
        want[given["at"]] = given["v"]
        assert np.array_equal(expected["c"], want)
    for marks in ((), ("p",), ("v",), ("", "p"), ("", "v"), ("p", "v")):
        kernel = marked(text, *marks)
        assert dojoir.parse(dojoir.to_text(kernel)) == kernel
        for target in filter(can_run, HOST):
            assert np.array_equal(dojoir.compile(kernel, target).run(given)["c"], expected["c"]), (marks, target)
    assert dojoir.verify(marked(text, "p")).ok


@pytest.mark.parametrize(("target", "vlen"), [("neon", 128), ("sve", 256), ("rvv", 256)])
def test_emulated_targets(target: str, vlen: int, tmp_path: Path) -> None:
    try:
        machine(target)
    except dojoir.ToolchainError as error:
        pytest.skip(str(error))
    kernels = [marked(text, "v") for text in TEXTS[:3]]
    program = build(target, kernels, tmp_path)
    trials = []
    for number, text in enumerate(TEXTS[:3]):
        given, expected = arrays(text)
        trials.append((number, Trial(kernels[number], given, {"T": 33, "D": 5, "S": 40}, expected)))
    for (_, trial), found in zip(trials, run(target, program, trials, vlen), strict=True):
        assert np.array_equal(found["c"], trial.expected["c"]), trial.kernel


@pytest.mark.parametrize("target", ["cuda", "hip"])
def test_a_gpu_stores_plainly(target: str) -> None:
    """In a type that has no atomic too; without `distinct` what threads share is added by atomics, and an
    assignment to it is refused."""
    for text in TEXTS[:3]:
        given, expected = arrays(text)
        for marks in (("gx",), ("", "gx"), ("gx", "gy")):
            kernel = marked(text, *marks)
            got = on_harness.run(kernel, given, {"T": 33, "D": 5, "S": 40}, target)
            assert np.array_equal(got["c"], expected["c"]), marks
            assert "c[" not in [
                line.partition("(&")[2][:2] for line in dojoir.emit(kernel, target).splitlines() if "atomic" in line
            ]
            shared = dojoir.parse(dojoir.to_text(kernel).replace(" distinct", ""))
            if marks[0] and text != ADDED:
                with pytest.raises(dojoir.KernelError, match="are not independent"):
                    dojoir.prove(shared)
                continue
            dojoir.prove(shared)
            atomic = any(f"{word}(&c[" in dojoir.emit(shared, target) for word in ("atomicAdd", "atomic_add"))
            assert atomic is (text == ADDED and bool(marks[0]))
            got = on_harness.run(shared, given, {"T": 33, "D": 5, "S": 40}, target)
            assert np.array_equal(got["c"], expected["c"]), marks
    half = dojoir.parse(dojoir.to_text(marked(ADDED, "gx", "gy")).replace("f32", "bf16"))
    assert "c[" in dojoir.emit(half, target)


# -- attacks on data -----------------------------------------------------------------------------------------
def test_duplicates_are_an_error_and_nothing_is_written() -> None:
    given, _ = arrays(CACHE)
    at, v, c = given["at"].copy(), given["v"], np.zeros((40, 5), np.float32)
    at[29] = at[4]
    says = rf"at\[4\] and at\[29\] are both {at[4]}.*take `distinct` away"
    kernel = marked(CACHE, "p")
    with pytest.raises(dojoir.ArgumentError, match=says) as caught:
        dojoir.interpret(kernel, {"at": at, "v": v, "c": c})
    assert caught.value.diagnostic.code == "not-distinct"
    compiled = [dojoir.compile(kernel, target) for target in filter(can_run, HOST)]
    gpu = marked(CACHE, "gx")
    compiled += [dojoir.compile(gpu, target, emulated=True) for target in ("cuda", "hip")]
    for one in compiled:
        with pytest.raises(dojoir.ArgumentError, match=says):
            one(at, v, c)
        with pytest.raises(dojoir.ArgumentError, match=says):
            one.run({"at": at, "v": v, "c": c})
        assert not c.any()
    good = given["at"].copy()
    bound = compiled[0].bind(good, v, c)
    for _ in range(5):
        bound()
        compiled[0](good, v, c)  # the quick calls too
    good[29] = good[4]
    for call in (bound, lambda: compiled[0](good, v, c)):
        with pytest.raises(dojoir.ArgumentError, match=says):
            call()
    pages = np.arange(12).reshape(4, 3)
    pages[2, 1] = 0
    with pytest.raises(dojoir.ArgumentError, match=r"page\[0, 0\] and page\[2, 1\] are both 0"):
        dojoir.interpret(dojoir.parse(PAGES), {"page": pages, "x": np.zeros((4, 3, 5), np.float32), "c": c})


def test_who_knows_it_leaves_the_check_out_and_that_is_said() -> None:
    given, expected = arrays(CACHE)
    compiled = dojoir.compile(marked(CACHE, "p"), checked=False)
    assert compiled.unproved == ("at distinct",)
    assert "unproved: at distinct" in repr(compiled)
    assert np.array_equal(compiled.run(given)["c"], expected["c"])
    twice = {**given, "at": np.zeros_like(given["at"])}
    assert compiled.run(twice)["c"].shape == (40, 5)
    assert dojoir.compile(marked(CACHE, "p")).unproved == ()


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        ("in    at: f32[T] distinct", "arrays of integers"),
        ("inout at: i32[T] distinct", "an input as a call gives it"),
        ("tmp   at: i32[T] distinct", "an input as a call gives it"),
        ("in    at: i32 distinct", "one number"),
        ("in    at: i32[T] distinct(2)", "takes no number"),
    ],
)
def test_of_what_it_may_be_said(declared: str, says: str) -> None:
    with pytest.raises(dojoir.KernelError, match=says):
        dojoir.parse(CACHE.replace("in    at: i32[T] distinct", declared))


def test_where_there_is_no_room_for_the_sample() -> None:
    with pytest.raises(dojoir.ArgumentError, match="8 distinct elements"):
        dojoir.testing.random_inputs(dojoir.parse(CACHE), T=8, D=1, S=7)


def test_the_header_of_a_library_says_what_nobody_checks(tmp_path: Path) -> None:
    if not can_run("c"):
        pytest.skip("no C compiler")
    dojoir.write_library([dojoir.Trace(dojoir.parse(CACHE))], tmp_path / "lib", target="c", check=False)
    header = next((tmp_path / "lib").glob("*.h")).read_text()
    assert "// no function here checks what is declared of data: at distinct" in header


# -- the checker -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "move", "legal"),
    [
        (CACHE, "parallelize(0)", True),
        (CACHE, "vectorize(0)", True),
        (CACHE, "reverse_scope(0)", True),
        (CACHE, "swap_scopes(0)", True),
        (CACHE, "cut(0, T - 1)", True),
        (CACHE, "split(0, 4)", True),
        (CACHE, "bind(0, gx)", True),
        (ADDED, "parallelize(0)", True),
        (ADDED.replace("\nin    at", "\nfp strict\nin    at"), "parallelize(0)", True),
        (SOME, "parallelize(0)", True),
        (PAGES, "parallelize(0.0)", True),
        (PAGES, "swap_scopes(0)", True),
        # two iterations read one element of `at`
        (CACHE.replace("at[{0}]", "at[{0} // 2]"), "parallelize(0)", False),
        (CACHE.replace("at[{0}]", "at[0]"), "reverse_scope(0)", False),
        (CACHE.replace("at[{0}]", "at[{0} // 2]"), "reverse_scope(0)", False),
        # another element of `c` at the same time
        (CACHE.replace("= v[{0}, {1}]", "= c[at[{0}], {1}] + 1"), "reverse_scope(0)", False),
        (CACHE + "| | c[{0}, {1}] = 0\n", "reverse_scope(0)", False),
        (CACHE + "| | c[at[{0}], {1}] = 0\n", "parallelize(0)", False),
        (CACHE + "| | c[at[{0}], {1}] += 1\n", "parallelize(0)", False),
        (OTHER, "parallelize(0)", False),
    ],
)  # fmt: skip
def test_moves(text: str, move: str, legal: bool) -> None:
    if "where" not in text and " c[{0}, {1}] = 0" in text:
        text = text.replace("in    at", "where T <= S\nin    at", 1)
    kernel = dojoir.parse(text)
    try:
        dojoir.prove(kernel)
    except dojoir.KernelError:
        assert not legal
        return
    verdict = dojoir.check(kernel, move)
    assert bool(verdict) == legal, verdict
    if legal:
        trace = dojoir.Trace(kernel)
        trace.apply(move)
        assert dojoir.certify(trace)
        given, expected = arrays(PAGES if text is PAGES else text)
        assert np.array_equal(dojoir.interpret(trace.kernel, given)["c"], expected["c"])


def test_writes_of_two_statements_may_not_change_places() -> None:
    """By one argument at the same elements, or by two of which each is distinct by itself."""
    both = CACHE + "T\n| D\n| | c[at[{0}], {1}] = 2\n"
    assert not dojoir.check(dojoir.parse(both), "swap_siblings(0)")
    assert not dojoir.check(dojoir.parse(both), "reverse_scope(0)")
    two = both.replace("in    v", "in    to: i32[T] distinct\nin    v").replace(
        "at[{0}], {1}] = 2", "to[{0}], {1}] = 2"
    )
    assert not dojoir.check(dojoir.parse(two), "swap_siblings(0)")
    apart = CACHE.replace("\nT\n", "\nT // 2\n") + "T - T // 2\n| D\n| | c[at[{0} + T // 2], {1}] = 2\n"
    assert dojoir.check(dojoir.parse(apart), "swap_siblings(0)")
    meet = apart.replace("{0} + T // 2]", "{0} + T // 4]")
    assert not dojoir.check(dojoir.parse(meet), "swap_siblings(0)")
    plain = dojoir.parse(CACHE.replace(" distinct", ""))
    assert not dojoir.check(plain, "reverse_scope(0)")
    assert compare(plain, dojoir.parse(CACHE), identity(plain)).status == "illegal"
