"""Lengths and offsets whose largest is declared: what that says, and that every call checks it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from able import can_run
from emulated import Trial, build, machine, run

import dojoir
from dojoir import build as builder
from dojoir.proof.certificate import identity
from dojoir.proof.check import compare
from dojoir.runtime.verification.inputs import make_inputs

HOST = ("llvm", "c", "avx2", "avx512")

RAGGED = """kernel ragged(N, M)
in  len: i32[N] lengths(M)
in  x: f32[N, M]
out y: f32[N]

N
| y[{0}] = 0
| len[{0}]
| | y[{0}] += x[{0}, {1}]
"""
CSR = """kernel csr(N, M, Z, K)
in  rows: i32[N + 1] offsets(M)
in  cols: i32[Z]
in  v: f32[Z]
in  x: f32[K]
out y: f32[N]

N
| y[{0}] = 0
| rows[{0} + 1] - rows[{0}]
| | y[{0}] += v[rows[{0}] + {1}] * x[cols[rows[{0}] + {1}]]
"""
SCALAR = """kernel first(N, M)
in    n: i64 lengths(M)
in    x: f32[M]
inout y: f32[N]

N
| n
| | y[{0}] += x[{1}]
"""
TEXTS = (RAGGED, CSR, SCALAR)


def bounded(text: str) -> str:
    """The text with the bound beside the length."""
    for length in ("len[{0}]", "rows[{0} + 1] - rows[{0}]", "n"):
        text = text.replace(f"| {length}\n", f"| min({length}, M)\n")
    return text


def without(text: str) -> str:
    """The text as it was written before there were such facts."""
    return bounded(text).replace(" lengths(M)", "").replace(" offsets(M)", "")


def ragged(*lengths: int, dtype: str = "int32") -> dict[str, np.ndarray]:
    return {"len": np.array(lengths, dtype), "x": np.ones((len(lengths), 4), np.float32)}


def csr(*rows: int, dtype: str = "int32") -> dict[str, np.ndarray]:
    return {
        "rows": np.array(rows, dtype),
        "cols": np.arange(12, dtype=np.int32) % 3,
        "v": np.arange(12, dtype=np.float32),
        "x": np.ones(3, np.float32),
    }


# -- the text ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("text", TEXTS)
def test_a_length_needs_no_other_bound(text: str) -> None:
    kernel = dojoir.parse(text)
    assert dojoir.parse(bounded(text)) == kernel != dojoir.parse(without(text))
    assert dojoir.parse(dojoir.to_text(kernel)) == kernel
    assert dojoir.parse(bounded(text)).hash == kernel.hash != dojoir.parse(without(text)).hash
    dojoir.prove(kernel)
    fixed = kernel.specialize(M=4)
    assert "(4)" in dojoir.to_text(fixed) and dojoir.parse(dojoir.to_text(fixed)) == fixed


@pytest.mark.parametrize(
    ("declared", "length", "same"),
    [
        ("len: i32[N] lengths(2*M - 1)", "len[{0}]", "min(len[{0}], 2*M - 1)"),
        ("len: i8[N] lengths(200)", "i64(len[{0}])", "min(i64(len[{0}]), 200)"),
        ("len: i32[N] lengths(M)", "min(len[{0}], 3)", "min(3, len[{0}])"),
        ("len: i32[N] lengths(M) distinct", "len[{0}]", "min(len[{0}], M)"),
        ("len: i32[N + 1] offsets(M)", "len[1 + {0}] - len[{0}]", "min(len[{0} + 1] - len[{0}], M)"),
        ("len: u8[N] offsets(M)", "len[{0}] - len[{0} - 1]", "min(len[{0}] - len[{0} - 1], M)"),
        ("len: i32[2, N + 1] offsets(M)", "len[1, {0} + 1] - len[1, {0}]", "min(len[1, {0} + 1] - len[1, {0}], M)"),
        ("len: i32[3] offsets(M)", "len[2] - len[1]", "min(len[2] - len[1], M)"),
        ("len: i32[N + 1] offsets(M)", "i64(len[{0} + 1]) - i64(len[{0}])",
         "min(i64(len[{0} + 1]) - i64(len[{0}]), M)"),
        ("len: i32[N + 2] offsets(M)", "len[2 + {0}] - len[{0} + 1]", "min(len[2 + {0}] - len[{0} + 1], M)"),
        # a step of two, another row, another argument, a sum: no bound is stated of these
        ("len: i32[N + 2] offsets(M)", "len[{0} + 2] - len[{0}]", None),
        ("len: i32[N + 1, N] offsets(M)", "len[{0} + 1, {0}] - len[{0}, {0}]", None),
        ("len: i32[N + 1] lengths(M)", "len[{0} + 1] - len[{0}]", None),
        ("len: i32[N] lengths(M)", "len[{0}] + 1", None),
        ("len: i32[N] distinct", "len[{0}]", None),
        ("len: i32[N]", "len[{0}]", None),
    ],
)  # fmt: skip
def test_what_states_a_bound(declared: str, length: str, same: str | None) -> None:
    text = RAGGED.replace("len: i32[N] lengths(M)", declared).replace("| len[{0}]", f"| {length}")
    if same is None:
        with pytest.raises(dojoir.KernelError, match=r"its bound is declared, `in len: … lengths\(N\)`"):
            dojoir.parse(text)
    else:
        assert dojoir.parse(text) == dojoir.parse(text.replace(f"| {length}", f"| {same}"))


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        ("in  len: f32[N] lengths(M)", "integers that are lengths, and len is of f32"),
        ("in  len: u4[N] lengths(M)", "and len is of u4"),
        ("inout len: i32[N] lengths(M)", "lengths is a fact of an input as a call gives it, and len is inout"),
        ("out len: i32[N] offsets(M)", "offsets is a fact of an input as a call gives it, and len is out"),
        ("tmp len: i32[N] offsets(M)", "an input as a call gives it, and len is tmp"),
        ("in  len: i32 offsets(M)", "one number"),
        ("in  len: i32[N] lengths", r"as in lengths\(64\) or lengths\(M\)"),
        ("in  len: i32[N] lengths 8", r"as in lengths\(64\)"),
        ("in  len: i32[N] lengths(M, N)", r"as in lengths\(64\)"),
        ("in  len: i32[N] lengths(M*N)", "multiplies two unknowns"),
        ("in  len: i32[N] lengths(Q)", "no size or scalar buffer 'Q'"),
        ("in  len: i32[N] lengths({0})", "only the body has iterators"),
        ("in  len: i32[N] lengths(M) lengths(N)", "given twice"),
        ("in  len: i32[N] length(M)", "did you mean 'lengths'"),
        ("in  len: i32[N] order(M)", "order takes numbers"),
        ("in  len: i32[N*M] offsets(M)", "one of len is a product"),
    ],
)
def test_of_what_it_may_be_said(declared: str, says: str) -> None:
    with pytest.raises(dojoir.KernelError, match=says):
        dojoir.parse(RAGGED.replace("in  len: i32[N] lengths(M)", declared))


def test_a_program_says_it_too() -> None:
    with builder.kernel("ragged", "N", "M") as b:
        length = b.input("len", "i32", ["N"], lengths="M")
        rows = b.input("rows", "i32", ["N"], offsets=2 * b.sizes[1] + 1, distinct=True)
        y = b.output("y", "f32", ["N"])
        with b.scope("N") as i:
            y[i] = builder.cast("f32", length[i] + rows[i])
    text = dojoir.to_text(b.kernel)
    assert "in  len: i32[N] lengths(M)\nin  rows: i32[N] distinct offsets(2*M + 1)\n" in text
    assert dojoir.parse(text) == b.kernel


# -- calls ---------------------------------------------------------------------------------------------------
BROKEN = [
    (RAGGED, ragged(1, 5, 4), {}, r"len\[1\] is 5, .*'in  len: i32\[N\] lengths\(M\)' \(M is 4\): pass lengths"),
    (RAGGED, ragged(1, 4, -1), {}, r"len\[2\] is -1"),
    (RAGGED.replace("i32", "u64"), ragged(1, 2**63 + 9, dtype="uint64"), {}, r"len\[1\] is 9223372036854775817"),
    (RAGGED.replace("i32", "i8"), ragged(4, 127, dtype="int8"), {}, r"len\[1\] is 127"),
    (CSR, csr(0, 2, 8), {"M": 5}, r"rows\[1\] is 2 and rows\[2\] is 8, a step of 6, .*\(M is 5\)"),
    (CSR, csr(3, 2, 4), {"M": 5}, r"rows\[0\] is 3 and rows\[1\] is 2, a step of -1"),
    (CSR.replace("rows: i32", "rows: u32"), csr(3, 2, 4, dtype="uint32"), {"M": 5}, "a step of -1"),
    (CSR.replace("rows: i32", "rows: i8"), csr(-100, 100, dtype="int8"), {"M": 7}, "a step of 200"),
    (CSR.replace("rows: i32", "rows: i64"), csr(-(2**63), 2**63 - 1, dtype="int64"), {"M": 7},
     "a step of 18446744073709551615"),
    (SCALAR, {"n": 9, "x": np.ones(4, np.float32), "y": np.ones(3, np.float32)}, {}, r"n is 9, .* min\(n, M\)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "given", "sizes", "says"), BROKEN)
def test_what_breaks_it_is_refused_and_nothing_is_written(
    text: str, given: dict[str, np.ndarray], sizes: dict[str, int], says: str
) -> None:
    kernel = dojoir.parse(text)
    with pytest.raises(dojoir.ArgumentError, match=says) as caught:
        dojoir.interpret(kernel, given, **sizes)
    assert caught.value.diagnostic.code == "length-out-of-range"
    compiled = [dojoir.compile(kernel, target) for target in filter(can_run, HOST)]
    gpu = dojoir.parse(dojoir.to_text(kernel).replace("\nN\n", "\nN : gx\n"))
    compiled += [dojoir.compile(gpu, target, emulated=True) for target in ("cuda", "hip")]
    rows = sizes.get("N", len(given["rows"]) - 1 if "rows" in given else 3 if "n" in given else len(given["len"]))
    y = np.full(rows, 7, np.float32)
    before = y.copy()
    arguments = [*(array for name, array in given.items() if name != "y"), y]
    for one in compiled:
        with pytest.raises(dojoir.ArgumentError, match=says):
            one.run(given, **sizes)
        for call in (lambda: one(*arguments, **sizes), one.bind(*arguments, **sizes)):  # noqa: B023
            with pytest.raises(dojoir.ArgumentError, match=says):
                call()
        assert np.array_equal(y, before)


@pytest.mark.parametrize(
    ("text", "given", "sizes", "expected"),
    [
        (RAGGED, ragged(0, 4, 1), {}, [0, 4, 1]),
        (CSR, csr(0, 2, 2, 5), {"M": 3}, [1, 0, 9]),
        (CSR.replace("rows: i32", "rows: i8"), csr(0, 7, 12, dtype="int8"), {"M": 200}, [21, 45]),
        (SCALAR, {"n": 4, "x": np.ones(4, np.float32), "y": np.zeros(3, np.float32)}, {}, [4, 4, 4]),
    ],
)
def test_what_keeps_it_runs_to_the_bound(
    text: str, given: dict[str, np.ndarray], sizes: dict[str, int], expected: list[float]
) -> None:
    for kernel in (dojoir.parse(text), dojoir.parse(without(text))):
        results = [dojoir.interpret(kernel, given, **sizes)]
        results += [dojoir.compile(kernel, target).run(given, **sizes) for target in filter(can_run, HOST)]
        gpu = dojoir.parse(dojoir.to_text(kernel).replace("\nN\n", "\nN : gx\n"))
        results += [dojoir.compile(gpu, name, emulated=True).run(given, **sizes) for name in ("cuda", "hip")]
        assert all(result["y"].tolist() == expected for result in results)


def test_each_call_looks_again() -> None:
    """The quick calls, and those that are bound, too."""
    compiled = dojoir.compile(dojoir.parse(RAGGED))
    given, y = ragged(4, 0), np.zeros(2, np.float32)
    bound = compiled.bind(given["len"], given["x"], y)
    for _ in range(5):
        bound()
        compiled(given["len"], given["x"], y)
    assert y.tolist() == [4, 0]
    given["len"][1] = 5
    for call in (bound, lambda: compiled(given["len"], given["x"], y)):
        with pytest.raises(dojoir.ArgumentError, match=r"len\[1\] is 5"):
            call()


def test_no_step_is_none() -> None:
    for array in (np.zeros((3, 1), np.int32), np.array([[9]], np.int32)):
        text = (
            "kernel k(N, M)\nin a: i32[N, M] offsets(2)\nout y: i32[N, M]\nN\n| M\n| | y[{0}, {1}] = a[{0}, {1}]\n"
        )
        assert np.array_equal(dojoir.interpret(dojoir.parse(text), {"a": array})["y"], array)
        assert np.array_equal(dojoir.compile(dojoir.parse(text)).run({"a": array})["y"], array)
    rows = np.array([[0, 2, 4], [1, 1, 9]], np.int32)  # from one row to the next there is no step
    with pytest.raises(dojoir.ArgumentError, match=r"a\[1, 1\] is 1 and a\[1, 2\] is 9, a step of 8"):
        dojoir.interpret(dojoir.parse(text), {"a": rows})
    rows[1, 2] = 3
    assert np.array_equal(dojoir.interpret(dojoir.parse(text), {"a": rows})["y"], rows)


def test_who_knows_it_leaves_the_check_out_and_that_is_said() -> None:
    compiled = dojoir.compile(dojoir.parse(RAGGED), checked=False)
    assert compiled.unproved == ("len lengths(M)",)
    assert "unproved: len lengths(M)" in repr(compiled)
    assert compiled.run(ragged(9, 2))["y"].tolist() == [4, 2]
    assert dojoir.compile(dojoir.parse(RAGGED)).unproved == ()


def test_without_it_a_length_is_cut_off() -> None:
    for target in filter(can_run, HOST):
        assert dojoir.compile(dojoir.parse(without(RAGGED)), target).run(ragged(9, -2))["y"].tolist() == [4, 0]


@pytest.mark.parametrize(("target", "vlen"), [("neon", 128), ("sve", 256), ("rvv", 256)])
def test_emulated_targets(target: str, vlen: int, tmp_path: Path) -> None:
    try:
        machine(target)
    except dojoir.ToolchainError as error:
        pytest.skip(str(error))
    kernels = [dojoir.parse(text) for text in (RAGGED, CSR)]
    given, sizes = [ragged(0, 4, 1), csr(0, 2, 2, 5)], [{"N": 3, "M": 4}, {"N": 3, "M": 3, "Z": 12, "K": 3}]
    trials = [
        (
            number,
            Trial(kernel, given[number], sizes[number], dojoir.interpret(kernel, given[number], **sizes[number])),
        )
        for number, kernel in enumerate(kernels)
    ]
    for (_, trial), found in zip(trials, run(target, build(target, kernels, tmp_path), trials, vlen), strict=True):
        assert np.array_equal(found["y"], trial.expected["y"])


# -- what is made of a kernel --------------------------------------------------------------------------------
def test_no_move_takes_it_or_gives_it() -> None:
    kernel, plain = dojoir.parse(RAGGED), dojoir.parse(without(RAGGED))
    for one, other in ((kernel, plain), (plain, kernel)):
        assert compare(one, other, identity(one)).status == "illegal"
    for trace in (dojoir.optimize(kernel, threads=2), dojoir.optimize(kernel, "cuda")):
        assert trace.kernel.buffer("len").facts == kernel.buffer("len").facts
        assert dojoir.certify(trace)
    staged = dojoir.apply(kernel, "stage(0, len, near, in)")
    assert staged.buffer("near").facts == () and dojoir.parse(dojoir.to_text(staged)) == staged


def test_versions_and_gradients_check_it() -> None:
    kernel = dojoir.parse(CSR)
    versions = dojoir.compile(dojoir.schedules.versions(kernel, threads=2))
    gradient = dojoir.gradient(kernel)
    assert gradient.buffer("rows").facts == kernel.buffer("rows").facts
    given = csr(0, 2, 9)
    for call in (
        lambda: versions.run(given, M=5),
        lambda: dojoir.compile(gradient).run({**given, "d_y": np.ones(2, np.float32)}, M=5),
    ):
        with pytest.raises(dojoir.ArgumentError, match="a step of 7"):
            call()
    assert versions.run(given, M=7)["y"].tolist() == [1, 35]


def test_a_chain_has_what_its_kernels_say_of_one_argument() -> None:
    kernel = dojoir.parse(RAGGED)
    other = dojoir.parse(RAGGED.replace("ragged", "other").replace("i32[N] lengths(M)", "i32[N] distinct").replace(
        "| len[{0}]\n", "| min(len[{0}], M)\n"))  # fmt: skip
    both = dojoir.chain(kernel, other, rename={"y": "z"})
    assert "in  len: i32[N] distinct lengths(M)" in dojoir.to_text(both)
    made = dojoir.parse("kernel made(N)\nout len: i32[N]\nN\n| len[{0}] = 1\n")
    assert "tmp len: i32[N]\n" in dojoir.to_text(dojoir.chain(made, kernel))
    written = dojoir.parse("kernel w(N)\ninout len: i32[N]\nN\n| len[{0}] = 1\n")
    assert "inout len: i32[N]\n" in dojoir.to_text(dojoir.chain(kernel, written))
    for one in (dojoir.chain(made, kernel), dojoir.chain(kernel, written), both):
        assert dojoir.parse(dojoir.to_text(one)) == one
    with pytest.raises(dojoir.ArgumentError, match=r"lengths\(N\) is not lengths\(M\)"):
        dojoir.chain(kernel, dojoir.parse(RAGGED.replace("lengths(M)", "lengths(N)")), rename={"y": "z"})


def test_the_header_of_a_library_says_what_nobody_checks(tmp_path: Path) -> None:
    if not can_run("c"):
        pytest.skip("no C compiler")
    dojoir.write_library([dojoir.Trace(dojoir.parse(CSR))], tmp_path / "lib", target="c", check=False)
    header = next((tmp_path / "lib").glob("*.h")).read_text()
    assert "// no function here checks what is declared of data: rows offsets(M)" in header


# -- inputs that are drawn -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("said", "shape"),
    [
        ("lengths(M)", "N"), ("offsets(M)", "N"), ("distinct lengths(N + M)", "N"), ("distinct offsets(M)", "2, N"),
        ("lengths(40) offsets(M)", "2, N"), ("distinct lengths(99) offsets(3)", "N"), ("lengths(M)", ""),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["i8", "u8", "i32", "u64"])
def test_they_are_as_is_declared(said: str, shape: str, dtype: str) -> None:
    if not shape and "offsets" in said:
        return
    dims = f"[{shape}]" if shape else ""
    text = (
        f"kernel k(N, M)\nin a: {dtype}{dims} {said}\nin x: f32[N, M]\nout y: f32[N]\nN\n| y[{{0}}] = x[{{0}}, 0]\n"
    )
    kernel = dojoir.parse(text)
    for seed in range(4):
        for distribution in ("uniform", "wide", "integers"):
            given = make_inputs(kernel, {"N": 7, "M": 5}, seed, distribution)
            dojoir.interpret(kernel, given)
    assert dojoir.verify(kernel).ok


def test_where_there_are_none() -> None:
    kernel = dojoir.parse(RAGGED.replace("lengths(M)", "lengths(M - 9)"))
    with pytest.raises(
        dojoir.ArgumentError, match=r"len has 3 elements, which are lengths\(M - 9\), and there are 0"
    ):
        dojoir.testing.random_inputs(kernel, N=3, M=8)
    assert dojoir.verify(kernel).ok
