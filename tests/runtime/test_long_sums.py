"""Long sums: what loses a few terms of many is found, and what sums in parts, lanes or a wider type is right."""

from __future__ import annotations

import math
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest

import dojoir
from dojoir.runtime.evaluation.pool import Pool, checks
from dojoir.runtime.verification.inputs import DISTRIBUTIONS
from dojoir.runtime.verification.narrow_sums import narrow_sums
from dojoir.runtime.verification.oracle import Oracle
from dojoir.runtime.verification.sample_sizes import sample_sizes
from dojoir.runtime.verification.verify import verify

TOTAL = "kernel total(N)\nin x: f32[N]\nout y: f32\n\ny = 0\nN\n| y += x[{0}]\n"
DOT = "kernel dot(N)\nin a: f32[N]\nin b: f32[N]\nout y: f32\n\ny = 0\nN\n| y += a[{0}] * b[{0}]\n"
EXPONENTIALS = "kernel exponentials(N)\nin x: f32[N]\nout y: f32\n\ny = 0\nN\n| y += exp(x[{0}])\n"

SUMS = {"sum": TOTAL, "dot": DOT, "exp": EXPONENTIALS}
SIZES = (1 << 16, 1 << 20, 1 << 24)


def losing(text: str, first: int, last: int) -> dojoir.Kernel:
    """A sum without its terms from `first` to before `last`."""
    head, _, tail = text.rpartition("N\n| ")
    return dojoir.parse(f"{head}N\n| if {{0}} < {first}\n| | {tail}N\n| if {{0}} >= {last}\n| | {tail}")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("text", SUMS.values(), ids=SUMS.keys())
def test_a_lost_tail_is_found_at_a_timed_size(
    text: str, size: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """By the first of the cases at a timed size; right sums pass it."""
    kernel = dojoir.parse(text)
    pool = Pool(str(tmp_path_factory.mktemp("pool")), kernel, "llvm", ({"N": size},), (3, 4, 5), 60.0)
    case, _, _ = pool.draw_timed(len(pool.small), 3, Random(0))
    pool.prepare(case)
    known = pool.known(case)

    def complaint(kernel: dojoir.Kernel) -> str | None:
        return known.complaint(dojoir.compile(kernel, threads=1).run(dict(known.inputs), N=size), 2.0)

    assert complaint(kernel) is None
    assert complaint(dojoir.Trace(kernel).then("vectorize(1)").kernel) is None
    for first, last in ((size - 1, size), (size - 16, size), (size - 1000, size), (100, size)):
        wrong = complaint(losing(text, first, last))
        assert wrong is not None and "wrong result" in wrong, f"from {first} to {last}"


def test_the_evaluator_finds_a_tail_that_is_lost_at_the_timed_size_alone() -> None:
    size = SIZES[0]
    with dojoir.Evaluator(dojoir.parse(TOTAL), "llvm", sizes={"N": size}, workers=1) as evaluator:
        (found,) = evaluator.evaluate([losing(TOTAL, size - 1, size)])
    assert found.status == "wrong" and "its first call" in found.reason, found


def test_verify_goes_beyond_unrolled_blocks() -> None:
    """Of 64 lanes of bytes, eight by eight, and of fewer lanes: what is lost behind two of them."""
    for first in (64, 128, 512, 1024):
        for text in (TOTAL, DOT):
            report = verify(losing(text, first, first + 32), dojoir.parse(text))
            assert report.status == "failed", (first, str(report))


def test_each_size_of_a_kernel_is_long_once() -> None:
    sizes = sample_sizes(dojoir.kernels.load("matmul"), 20_000)
    assert [max(one[name] for one in sizes) for name in ("N", "M", "K")] == [1031] * 3
    square = dojoir.parse(
        "kernel f(N)\nin x: f32[N, N]\nout y: f32[N]\n\nN\n| y[{0}] = 0\n| N\n| | y[{0}] += x[{0}, {1}]\n"
    )
    assert {"N": 131} in sample_sizes(square, 20_000)


def test_every_small_size_and_distribution_is_checked() -> None:
    for count in range(1, 30):
        pool = SimpleNamespace(small=[{"N": n} for n in range(count)], reference=dojoir.parse(TOTAL))
        for offset in range(40):
            found = checks(pool, offset)
            assert len({*found}) == len(found) or count == 1
            assert {size for size, _ in found} == {*range(count)}
            assert all(sum(kind == name for _, kind in found) >= 2 for name in DISTRIBUTIONS)


# -- bounds ------------------------------------------------------------------------------------------------------
def allowed(text: str, x: np.ndarray) -> tuple[float, float]:
    """The sum of some numbers, and how far it may be off."""
    kernel = dojoir.parse(text)
    expected = Oracle(kernel, "llvm", 60.0).expected({"N": len(x)}, {"x": x})["y"]
    return float(expected.values), float(0 if expected.bounds is None else expected.bounds)


@pytest.mark.parametrize("size", [1 << 10, 1 << 16, 1 << 20])
def test_the_bound_of_a_free_sum_is_that_of_parts(size: int) -> None:
    x = np.random.default_rng(0).random(size, np.float32)
    total, bound = allowed(TOTAL, x)
    assert 0.5 * math.sqrt(size) * 2.0**-24 * total < bound < 2.5 * math.sqrt(size) * 2.0**-24 * total


def test_a_sum_in_order_has_one_right_value() -> None:
    x = np.random.default_rng(0).random(1 << 10, np.float32)
    total, bound = allowed(TOTAL.replace("in x", "fp strict\nin x", 1), x)
    assert bound == 0 and total == float(np.cumsum(x)[-1])


def test_integers_are_exact() -> None:
    x = np.random.default_rng(0).integers(-8, 8, 1 << 16).astype(np.float32)
    assert allowed(TOTAL, x)[1] == 0


def test_a_sum_of_integers_and_next_to_nothing_is_not_exact() -> None:
    """In f64 as well, the sum of magnitudes is an integer."""
    for x in ([1.0, 2.0**-126, -1.0], [2.0**-126, 1.0, -1.0], [1.0, -1.0, 2.0**-126]):
        assert allowed(TOTAL, np.array(x, np.float32))[1] >= 2.0**-126


def test_terms_that_are_nothing_leave_a_sum_as_it_is() -> None:
    """So many of them were allowed to round it each time."""
    x = np.full(1 << 20, 2.0**-60, np.float32)
    x[[5, 70_000, -1]] = 0.3, 0.7, 0.2
    assert allowed(TOTAL, x)[1] < 1e-6


def test_a_term_that_is_the_same_each_time_is_rounded_the_same_way() -> None:
    """Then lanes are off by as much as one accumulator: nothing less is allowed."""
    text = "kernel same(N)\nin c: f32\nout y: f32\n\ny = 0\nN\n| y += c\n"
    report = verify(
        dojoir.Trace(dojoir.parse(text)).then("vectorize(1)").kernel,
        dojoir.parse(text),
        sizes={"N": 1 << 18},
        distributions=("uniform",),
    )
    assert report.ok, str(report)


@pytest.mark.parametrize("target", ["llvm", "c"])
@pytest.mark.parametrize("moves", ["", "vectorize(1)", "split(1, 1024)"])
@pytest.mark.parametrize("text", SUMS.values(), ids=SUMS.keys())
def test_right_sums_are_right(text: str, moves: str, target: str) -> None:
    kernel = dojoir.Trace(dojoir.parse(text)).then(moves).kernel if moves else dojoir.parse(text)
    names = ("uniform", "positive", "normal", "integers", "special")
    report = verify(
        kernel, dojoir.parse(text), target=target, sizes={"N": 1 << 18}, distributions=names, seeds=range(5)
    )
    assert report.ok, str(report)


# -- infinities and NaN ------------------------------------------------------------------------------------------
LARGEST = "kernel largest(N)\nin x: f32[N]\nout y: f32\n\ny = -inf\nN\n| y max= x[{0}]\n"


WRITTEN_OUT = """kernel running(N, M = 41)
in  x: f32[N, M]
out y: f32[N, M]
tmp s: f32[N]

N
| y[{0}, 0] = x[{0}, 0]
| s[{0}] = x[{0}, 0]
| M - 1
| | s[{0}] = s[{0}] + x[{0}, {1} + 1]
| | y[{0}, {1} + 1] = s[{0}]
"""


def test_a_scan_in_blocks_of_a_sum_that_is_written_out_is_right() -> None:
    """In some of 300 rows the first sums of the text are exact, and those of the blocks are not."""
    trace = dojoir.Trace(dojoir.parse(WRITTEN_OUT))
    for move in (
        "use_rule(0.2.0, accumulate)", "split(0.2, 4)", "use_rule(0.1, blocked_scan, block, before, within)",
    ):  # fmt: skip
        trace.apply(move)
    report = verify(trace, sizes={"N": 300}, seeds=(1, 2), distributions=("normal",))
    assert report.ok, str(report)


def test_infinities_and_nan_are_among_the_inputs() -> None:
    """A maximum that loses NaN passed, as no input was one."""
    losing_nan = LARGEST.replace("max= x[{0}]", "max= select(x[{0}] == x[{0}], x[{0}], -inf)")
    assert verify(dojoir.parse(losing_nan), dojoir.parse(LARGEST)).status == "failed"
    assert verify(dojoir.parse(LARGEST)).ok
    fast = dojoir.parse(LARGEST).with_fp("fast")
    assert "nonfinite" not in verify(fast).unchecked, "they may become anything"


@pytest.mark.parametrize("name", ["attention", "batchnorm_inference", "cross_entropy", "gelu", "swiglu"])
def test_so_few_are_drawn_that_results_can_be_compared(name: str) -> None:
    report = verify(dojoir.kernels.load(name), distributions=("nonfinite",))
    assert report.ok, str(report)


def test_the_evaluator_checks_a_candidate_on_them() -> None:
    losing_nan = LARGEST.replace("max= x[{0}]", "max= select(x[{0}] == x[{0}], x[{0}], -inf)")
    with dojoir.Evaluator(dojoir.parse(LARGEST), "llvm", sizes={"N": 100}, workers=1) as evaluator:
        (found,) = evaluator.evaluate([dojoir.parse(losing_nan)])
    assert found.status == "wrong" and "nonfinite" in found.reason, found


# -- narrow temporaries ------------------------------------------------------------------------------------------
NARROW = "kernel narrow({0})\nin x: f16[{1}]\nout y: f32\ntmp s: {2}\n\ns = 0\n{1}\n| s += x[{{0}}]\ny = s\n"


def test_a_long_sum_into_a_narrow_temporary_is_warned_of() -> None:
    """70,000 ones are infinity there, and at the sizes of `verify` all is well."""
    kernel = dojoir.parse(NARROW.format("N", "N", "f16"))
    ones = dojoir.compile(kernel).run({"x": np.ones(70_000, np.float16)})["y"]
    assert ones == math.inf
    report = verify(kernel, distributions=("uniform",))
    assert report.ok and "warning: tmp s is of f16 and sums up as many terms as a size says" in str(report)
    assert "declare it f32" in str(report)


def test_no_other_sum_is_warned_of() -> None:
    for texts in (("N", "N", "f32"), ("", "100", "f16"), ("", "2048", "f16")):
        assert not narrow_sums(dojoir.parse(NARROW.format(*texts))), texts
    assert narrow_sums(dojoir.parse(NARROW.format("", "2049", "f16")))
    assert not any(narrow_sums(dojoir.kernels.load(name)) for name in dojoir.kernels.names())
