"""Verification: right kernels pass and wrong ones do not, and how large a difference rounding explains."""

from __future__ import annotations

import math

import numpy as np
import pytest
from to_verify import MATMUL, SOFTMAX

import dojoir
from dojoir import ArgumentError, RunError
from dojoir.ir.dtypes import DTYPES
from dojoir.runtime.verification import oracle
from dojoir.runtime.verification.compare import Expected, compare
from dojoir.runtime.verification.inputs import DISTRIBUTIONS, NONFINITE, make_inputs
from dojoir.runtime.verification.sample_sizes import count_instances, sample_sizes
from dojoir.runtime.verification.tolerance import bounded
from dojoir.runtime.verification.verify import verify


# -- results -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["softmax", "matmul_int8", "argmax", "cross_entropy", "maxpool2d"])
def test_library_kernels_are_right(name: str) -> None:
    report = verify(dojoir.kernels.load(name))
    assert report.ok, str(report)
    assert report.reference == "the interpreter in f64"
    assert len(report.cases) >= 12
    assert {case.distribution for case in report.cases} == set(DISTRIBUTIONS)


WRONG = {
    "a product rounded to f16": ("a[{0}, {2}] * b[{2}, {1}]", "f32(f16(a[{0}, {2}] * b[{2}, {1}]))"),
    "the last term left out": ("| | K\n", "| | K - 1\n"),
    "another column": ("b[{2}, {1}]", "b[{2}, 0]"),
    "no start": ("c[{0}, {1}] = 0", "c[{0}, {1}] = 0.0001"),
    "a sum in bf16": ("a[{0}, {2}] * b[{2}, {1}]", "f32(bf16(a[{0}, {2}])) * b[{2}, {1}]"),
}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG.keys())
def test_wrong_kernels_fail(change: tuple[str, str]) -> None:
    old, new = change
    assert old in MATMUL
    report = verify(dojoir.parse(MATMUL.replace(old, new)), dojoir.parse(MATMUL))
    assert not report.ok
    assert report.reason is not None
    assert report.reason.startswith("wrong result: c[")


def test_another_order_of_summation_passes_and_an_exact_input_stays_exact() -> None:
    backwards = MATMUL.replace("a[{0}, {2}] * b[{2}, {1}]", "a[{0}, K - 1 - {2}] * b[K - 1 - {2}, {1}]")
    report = verify(dojoir.parse(backwards), dojoir.parse(MATMUL), sizes={"N": 3, "M": 2, "K": 200})
    assert report.ok, str(report)
    for case in report.cases:
        if case.distribution == "integers":
            assert case.worst is not None
            assert case.worst.allowed == 0
            assert case.worst.value == case.worst.expected


def test_a_sum_that_happens_to_be_exact_in_one_order_may_round_in_another() -> None:
    """Both sums of each prefix are f32 numbers, and so nothing was allowed to the sum in lanes: right results of
    one search in sixteen were called wrong."""
    plain = dojoir.kernels.load("reduce_mean_1")
    lanes = dojoir.Trace(plain).then("vectorize(0.1)").kernel
    x = np.array([[-0.6606858372688293, 0.9887656569480896, -0.6557059288024902]], np.float32)
    for kernel in (plain, lanes):
        report = verify(kernel, plain, sizes={"N": 1, "M": 3}, inputs={"x": x})
        assert report.ok, str(report)
        (case,) = report.cases
        assert case.worst is not None and 0 < case.worst.allowed < 1e-6


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f8e4m3"])
def test_what_is_compared_in_a_wider_type_is_rounded_when_it_is_stored(dtype: str) -> None:
    """Nothing was allowed for that rounding: right results were called wrong."""
    text = f"""kernel most(N)
in  x: f32[N]
inout y: {dtype}[N]
inout z: {dtype}[N]

N
| y[{{0}}] max= exp2(x[{{0}}]) * 0.3
| z[{{0}}] min= x[{{0}}] * 0.7
"""
    report = verify(dojoir.parse(text), distributions=("uniform", "normal"))
    assert report.ok, str(report)


def test_the_product_of_an_fma_may_be_rounded() -> None:
    """A move may part an fma where the order of rounding is free, and what cancels then is off by more."""
    declared = "kernel one(N)\nin x: f32[N]\nin c: f32\nin z: f32[N]\nout y: f32[N]\n\n"
    text = declared + "N\n| y[{0}] = fma(x[{0}], c, z[{0}])\n"
    x, c = np.float32(0.7712311), np.float32(-0.8611235)
    given = {"x": np.array([x]), "c": c, "z": np.array([-np.float32(x * c)])}
    fused = dojoir.parse(text)
    apart = dojoir.parse(text.replace("fma(x[{0}], c, z[{0}])", "x[{0}] * c + z[{0}]"))
    assert verify(apart, fused, sizes={"N": 1}, inputs=given).ok
    strict = fused.with_fp("strict")
    assert not verify(apart.with_fp("strict"), strict, sizes={"N": 1}, inputs=given).ok


def test_a_sum_with_one_term_wrong_by_one_part_in_a_million_fails() -> None:
    """Where the inputs are small integers nothing rounds, so nothing may differ."""
    text = "kernel total(N)\nin x: f32[N]\nout y: f32\n\ny = 0\nN\n| y += x[{0}]\n"
    off = text.replace("y += x[{0}]", "y += select({0} == N - 1, x[{0}] * 1.000001, x[{0}])")
    report = verify(dojoir.parse(off), dojoir.parse(text), sizes={"N": 1000}, distributions=("integers",))
    assert not report.ok


def test_every_element_type_is_right() -> None:
    lines = []
    for i, name in enumerate(DTYPES):
        value = f"not x{i}[{{0}}]" if name == "bool" else f"x{i}[{{0}}] * x{i}[{{0}}] + x{i}[{{0}}]"
        lines.append((f"in x{i}: {name}[N]\nout y{i}: {name}[N]\n", f"| y{i}[{{0}}] = {value}\n"))
    text = "kernel f(N)\n" + "".join(line for line, _ in lines) + "\nN\n" + "".join(line for _, line in lines)
    report = verify(dojoir.parse(text), sizes=[{"N": 1}, {"N": 19}])
    assert report.ok, str(report)
    assert sum(case.elements for case in report.cases) == len(report.cases) * len(DTYPES) * 2 * 10


@pytest.mark.parametrize("dtype", ["f64", "f16", "bf16", "f8e4m3", "f8e5m2"])
def test_narrow_scalars_are_numbers(dtype: str) -> None:
    text = f"kernel f(N)\nin a: {dtype}\nin x: f32[N]\nout y: f32[N]\n\nN\n| y[{{0}}] = a * x[{{0}}]\n"
    report = verify(dojoir.parse(text))
    assert report.ok, str(report)
    assert report.worst is not None
    assert abs(report.worst.expected) < 2**50
    assert not verify(dojoir.parse(text.replace("a * x", "a * 1.0001 * x")), dojoir.parse(text)).ok


def test_nothing_compared_is_nothing_verified() -> None:
    text = "kernel f(N)\nin x: f32[N]\nout y: f32[N]\n\nN\n| y[{0}] = 1 / (x[{0}] * 3 - x[{0}] * 2 - x[{0}])\n"
    report = verify(dojoir.parse(text), distributions=("uniform",))
    assert not report.ok
    assert "nothing could be compared" in str(report)


def test_inouts_are_given_and_compared() -> None:
    text = "kernel f(N)\nin x: f32[N]\ninout y: f32[N]\ninout n: i32\n\nN\n| y[{0}] += 3 * x[{0}]\n| n += 1\n"
    assert verify(dojoir.parse(text)).ok
    wrong = text.replace("3 * x", "3.00001 * x")
    assert not verify(dojoir.parse(wrong), dojoir.parse(text)).ok


def test_layouts_are_kept() -> None:
    text = """
kernel f(N, M)
in  x: f32[N, M] order(1, 0) pad(3, 0) align 64
out y: f32[N, M] pad(0, 5)

N
| M
| | y[{0}, {1}] = x[{0}, {1}] + 1
"""
    report = verify(dojoir.parse(text))
    assert report.ok, str(report)


def test_infinities_and_nan_where_asked_for() -> None:
    text = """
kernel f(N)
in  x: f32[N]
out y: f32[N]
out m: f32

m = -inf
N
| y[{0}] = 1 / x[{0}]
| m max= x[{0}]
"""
    report = verify(dojoir.parse(text), distributions=(NONFINITE,))
    assert report.ok, str(report)
    assert all(case.unchecked == 0 for case in report.cases)
    wrong = text.replace("max= x[{0}]", "max= select(x[{0}] == x[{0}], x[{0}], 0)")
    report = verify(dojoir.parse(wrong), dojoir.parse(text), distributions=(NONFINITE,))
    assert not report.ok, "a maximum that loses NaN"


def test_what_rounding_alone_decides_is_not_compared() -> None:
    text = (
        "kernel f(N)\nin x: f32[N]\nout y: f32[N]\n\nN\n| y[{0}] = select(x[{0}] * 3 - x[{0}] * 2 < x[{0}], 1, 2)\n"
    )
    report = verify(dojoir.parse(text), distributions=("uniform", "normal"))
    assert report.ok, str(report)
    assert report.worst is not None


@pytest.mark.parametrize("target", ["llvm"])
def test_a_size_beyond_the_interpreter_is_compared_with_compiled_code(target: str) -> None:
    report = verify(SOFTMAX, sizes={"N": 700, "M": 1100}, target=target, seeds=3, threads=2)
    assert report.ok, str(report)
    assert "compiled in f64" in report.reference
    assert len(report.cases) == 1
    assert report.worst is not None
    assert report.worst.allowed < 1e-4


@pytest.mark.parametrize("name", ["matmul", "softmax", "argmax", "cumsum"])
def test_a_long_reference_is_scheduled_and_gives_what_the_text_does(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oracle, "INTERPRETED_INSTANCES", 100)
    kernel = dojoir.kernels.load(name)
    sizes = dict.fromkeys(kernel.runtime_sizes, 67)
    found = {}
    for most in (10**9, 100):
        monkeypatch.setattr(oracle, "AS_WRITTEN_INSTANCES", most)
        asked = oracle.Oracle(kernel, "c", 60.0)
        inputs = make_inputs(kernel, sizes, 3, "normal")
        found[most] = asked.expected(sizes, inputs)
        assert ("scheduled" in " ".join(asked.used)) is (most == 100)
    for output, expected in found[100].items():
        written = found[10**9][output]
        np.testing.assert_allclose(expected.values, written.values, rtol=1e-13, atol=1e-13)
        if written.bounds is not None and expected.bounds is not None:
            np.testing.assert_allclose(expected.bounds, written.bounds, rtol=1e-6)


def test_the_report_is_told_in_words() -> None:
    text = str(verify(SOFTMAX, sizes={"N": 2, "M": 3}, seeds=7))
    assert "softmax on llvm: ok, 7 cases" in text
    assert "against the interpreter in f64" in text
    assert "worst: y[" in text
    report = verify(SOFTMAX, sizes={"N": 2, "M": 3})
    report.raise_if_failed()
    assert report.worst_ulps < 10


CHOLESKY = """
kernel cholesky(N)
in  a: f32[N, N]
out l: f32[N, N]

N
| N
| | l[{0}, {1}] = a[{0}, {1}]
N
| {0}
| | {1}
| | | l[{0}, {1}] += -l[{0}, {2}] * l[{1}, {2}]
| | l[{0}, {1}] = l[{0}, {1}] / l[{1}, {1}]
| {0}
| | l[{0}, {0}] += -l[{0}, {1}] * l[{0}, {1}]
| l[{0}, {0}] = sqrt(l[{0}, {0}])
"""


def test_wide_inputs_leave_results_that_can_be_compared() -> None:
    kernel = dojoir.kernels.load("attention")
    short = [sizes for sizes in sample_sizes(kernel, 20_000) if max(sizes.values()) < 100]
    report = verify(kernel, sizes=short, distributions=[name for name in DISTRIBUTIONS if name != NONFINITE])
    assert report.ok, str(report)
    assert max(report.unchecked.values()) == 0
    assert {case.distribution for case in report.cases if case.reach is not None} == {"wide"}
    assert "wide inputs within 2**±" in str(next(case for case in report.cases if case.reach is not None))
    assert all(case.reach is None for case in verify(SOFTMAX, sizes={"N": 2, "M": 3}).cases)


def test_too_few_elements_compared_are_undecided() -> None:
    kernel = dojoir.parse(CHOLESKY)
    report = verify(kernel)
    assert report.reason is None
    assert (report.status, report.ok) == ("undecided", False)
    assert report.unchecked["uniform"] > 0.1
    assert "UNDECIDED" in str(report) and "% of uniform" in str(report) and "inputs=" in str(report)
    with pytest.raises(RunError) as caught:
        report.raise_if_failed()
    assert caught.value.diagnostic.code == "undecided"


def test_inputs_that_are_given() -> None:
    kernel = dojoir.parse(CHOLESKY)
    numbers = np.random.default_rng(0).standard_normal((9, 9))
    definite = (numbers @ numbers.T + 9 * np.eye(9)).astype(np.float32)
    report = verify(kernel, inputs={"a": definite})
    assert report.ok, str(report)
    assert [(case.distribution, dict(case.sizes)) for case in report.cases] == [("given", {"N": 9})]
    wrong = dojoir.parse(CHOLESKY.replace("= sqrt(l", "= 1.001 * sqrt(l"))
    assert verify(wrong, kernel, inputs={"a": definite.T}).status == "failed"
    add = dojoir.kernels.load("add")
    some = verify(add, inputs={add.arguments[0].name: np.ones((4, 4), np.float32)[0]})
    assert some.ok and len(some.cases) == len({*some.unchecked}) == 7, str(some)

    def refused(code: str, **inputs: object) -> None:
        with pytest.raises(ArgumentError) as caught:
            verify(kernel, inputs=inputs)
        assert caught.value.diagnostic.code == code

    refused("unknown-argument", l=definite)
    refused("bad-dtype", a=definite.astype(np.float64))
    refused("bad-rank", a=definite[0])
    refused("size-conflict", a=definite[:3])


# -- its parts ---------------------------------------------------------------------------------------------
def test_inputs_are_reproducible_and_within_range() -> None:
    kernel = dojoir.kernels.load("embedding")
    sizes = {"N": 50, "V": 3, "D": 2}
    for distribution in (*DISTRIBUTIONS, NONFINITE):
        first, again = (make_inputs(kernel, sizes, 5, distribution) for _ in range(2))
        other = make_inputs(kernel, sizes, 6, distribution)
        assert all(first[name].tobytes() == again[name].tobytes() for name in first)
        assert any(first[name].tobytes() != other[name].tobytes() for name in first)
        assert first["ids"].min() >= 0
        assert first["ids"].max() < 3
        assert np.isfinite(first["w"]).all() == (distribution != NONFINITE)
        assert first["w"].shape == (3, 2)


def test_sample_sizes_keep_the_facts() -> None:
    text = (
        "kernel f(N, M)\nwhere N % 8 == 0, M >= N + 3\nin x: f32[N, M]\nout y: f32[N]\n\nN\n| y[{0}] = x[{0}, 0]\n"
    )
    found = sample_sizes(dojoir.parse(text), 10**6)
    assert found
    assert all(sizes["N"] % 8 == 0 and sizes["M"] >= sizes["N"] + 3 for sizes in found)
    impossible = dojoir.parse(text.replace("N % 8 == 0", "N >= 4000"))
    with pytest.raises(ArgumentError, match="pass sizes="):
        sample_sizes(impossible, 10**6)
    assert len(sample_sizes(SOFTMAX, 1)) == 1


def test_instances_are_counted() -> None:
    assert count_instances(SOFTMAX, {"N": 3, "M": 5}, 10**9) == 3 * (1 + 5) + 3 * (1 + 10 + 5)
    triangle = "kernel f(N)\nin x: f32[N]\nout y: f32[N]\n\nN\n| y[{0}] = 0\n| {0} + 1\n| | y[{0}] += x[{1}]\n"
    assert count_instances(dojoir.parse(triangle), {"N": 10}, 10**9) == 10 + 55
    assert count_instances(dojoir.parse(triangle), {"N": 10**6}, 1000) > 1000


def bound_of(expression: str, x: float, dtype: str = "f32") -> tuple[float, float]:
    """The value of an expression in x, in f64, and the bound of its error, by the kernel with bounds."""
    text = f"kernel f()\nin x: {dtype}\nout y: {dtype}\n\ny = {expression}\n"
    result = bounded(dojoir.parse(text))
    values = dojoir.interpret(result.kernel, {"x": x})
    error = values[result.errors["y"]] if "y" in result.errors else 0.0
    return float(values["y"]), float(error)


U = 2.0**-24


@pytest.mark.parametrize(
    ("expression", "x", "low", "high"),
    [
        ("x", 0.1, 0, 0),
        ("-x", 0.1, 0, 0),
        ("max(x, 2)", 0.1, 0, 0),
        ("x * 2", 0.75, 0, 0),
        ("x * x", 0.7, 0.9 * U * 0.49, 1.1 * U * 0.49),
        ("x * x + 1", 0.7, 1.4 * U, 2.1 * U),
        ("(x * x) * 3", 0.7, 2.9 * U * 0.98, 3.1 * U * 0.98),
        ("1 / (x * x)", 0.7, 1.9 * U / 0.49, 2.2 * U / 0.49),
        ("exp(x * x)", 7.9, 60 * U * math.exp(62.4), 70 * U * math.exp(62.42)),
        ("log(x * x)", 0.7, U, 5 * U),
        ("sqrt(x * x)", 0.7, 1.4 * U * 0.7, 2.2 * U * 0.7),
        ("rsqrt(x * x)", 0.7, 4 * U / 0.7, 6 * U / 0.7),
        ("floor(x * x)", 0.7, 0, 0),
        ("floor(x * 3)", 1 / 3, 1, 1),
        ("select(x * x > 0.1, 1, 5)", 0.7, 0, 0),
        ("select(x * 3 > 1, 1, 5)", 1 / 3, 4, 4.1),
        ("1 / (x * x - x * x)", 0.7, math.inf, math.inf),
        ("f32(f16(x))", 0.7, 0, 0),
        ("f32(f16(x * x))", 0.7, 0, 0),
        ("f32(f16(x / 3 * 3.00146484375))", 1.0, 2.0**-11, 2.0**-9),
        ("f32(i32(x * 3))", 1.4, 0, 0),
        ("tanh(x * 2) * 0", 0.7, 0, 1e-40),
        ("pow(x, 2.5)", 0.7, 3 * U * 0.4, 5 * U * 0.42),
        ("1 / exp(x)", 100.0, math.inf, math.inf),
        ("exp(x)", -100.0, 2.0**-149, 2.0**-147),
        ("x * x", 1e20, math.inf, math.inf),
        ("1 / x", 0.0, 0, 0),
    ],
)
def test_bounds_of_expressions(expression: str, x: float, low: float, high: float) -> None:
    _, bound = bound_of(expression, float(np.float32(x)))
    assert low <= bound <= high, bound


def test_the_bound_of_a_sum_grows_with_its_length_and_holds() -> None:
    kernel = dojoir.kernels.load("dot")
    result = bounded(kernel)
    random = np.random.default_rng(0)
    for n in (1, 10, 1000):
        x, y = (random.standard_normal(n).astype(np.float32) for _ in range(2))
        values = dojoir.interpret(result.kernel, {"a": x.astype(np.float64), "b": y.astype(np.float64)})
        bound = float(values[result.errors["y"]])
        magnitude = float(np.abs(x.astype(np.float64) * y).sum())
        assert bound <= 1.01 * (n + 1) * U * magnitude
        backwards = np.float32(0)
        for a, b in zip(x[::-1], y[::-1], strict=True):
            backwards += a * b
        assert abs(float(backwards) - float(values["y"])) <= bound


def test_compare_says_which_element() -> None:
    wanted = np.array([[1.0, 2.0], [3.0, 4.0]])
    expected = Expected(wanted, np.full((2, 2), 1e-6), None)
    found = compare("y", DTYPES["f32"], np.add(wanted, [[0, 0], [0, 1e-3]]).astype(np.float32), expected, 2.0)
    assert not found.ok
    assert found.worst is not None
    assert found.worst.index == (1, 1)
    assert found.worst.ulps == pytest.approx(1e-3 / 2.0**-21, rel=1e-2)
    assert compare("y", DTYPES["f32"], wanted.astype(np.float32), expected, 2.0).ok


def test_nan_is_wrong_where_a_number_is_expected_and_the_other_way_round() -> None:
    one, nan = np.array([1.0], np.float32), np.array([np.nan], np.float32)
    assert not compare("y", DTYPES["f32"], nan, Expected(np.array([1.0]), np.array([0.1]), None), 2.0).ok
    assert not compare("y", DTYPES["f32"], one, Expected(np.array([np.nan]), np.array([0.1]), None), 2.0).ok
    assert compare("y", DTYPES["f32"], nan, Expected(np.array([np.nan]), None, None), 2.0).ok
    free = compare("y", DTYPES["f32"], nan, Expected(np.array([1.0]), np.array([np.inf]), None), 2.0)
    assert free.ok
    assert free.unchecked == 1


def test_where_the_declared_type_overflows_nothing_is_asked() -> None:
    huge = Expected(np.array([1e60]), np.array([1e52]), np.array([np.inf]))
    assert compare("y", DTYPES["f32"], np.array([np.inf], np.float32), huge, 2.0).unchecked == 1


def test_offsets_of_rows_are_drawn_within_what_they_index() -> None:
    kernel = dojoir.parse(
        "kernel rows(N, M, Z)\nin  rows: i32[N + 1]\nin  v: f32[Z]\nout y: f32[N]\n\nN\n| y[{0}] = 0\n"
        "| min(rows[{0} + 1] - rows[{0}], M)\n| | y[{0}] += v[rows[{0}] + {1}]\n"
    )
    assert dojoir.verify(kernel, sizes={"N": 9, "M": 4, "Z": 17}).ok
    rows = dojoir.testing.random_inputs(kernel, N=9, M=4, Z=17)["rows"]
    assert (np.diff(rows) >= 0).all()
    assert 0 <= rows[0] <= rows[-1] <= 17
    assert rows[-1] > 0


def test_what_is_computed_under_a_condition_is_bounded() -> None:
    kernel = dojoir.parse(
        "kernel chosen(N, M)\nin  m: u8[N, M]\nin  x: f32[N, M]\nout y: f32[N]\n\nN\n| y[{0}] = 0\n"
        "| M\n| | y[{0}] += exp(x[{0}, {1}]) * x[{0}, {1}] if m[{0}, {1}] != 0\n"
    )
    assert dojoir.verify(kernel, sizes={"N": 640, "M": 640}, distributions=["uniform"]).ok
