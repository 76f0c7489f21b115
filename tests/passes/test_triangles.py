"""Triangles of products, by the rule that gives them blocks of rows."""

from __future__ import annotations

import pytest

import dojoir
from dojoir.passes.schedule.cpu.structures import use

LOWER = """kernel lower(N, M)
inout c: f64[N, N]
in  a: f64[N, M]
N @i
| {i} + 1 @j
| | M @k
| | | c[{i}, {j}] += a[{i}, {k}] * a[{j}, {k}]
"""
"""Half of a symmetric product, whose columns end at the row and lie one below the other in the array."""

UPPER = """kernel upper(N, M)
inout c: f64[N, N]
in  a: f64[M, N]
N @i
| N - {i} @j
| | c[{i}, {i} + {j}] = 0
| | M @k
| | | c[{i}, {i} + {j}] += a[{k}, {i}] * a[{k}, {i} + {j}]
| | c[{i}, {i} + {j}] = c[{i}, {i} + {j}] / M
| | c[{i} + {j}, {i}] = c[{i}, {i} + {j}]
"""
"""The other half, with first values, and with work behind the sum that copies it."""

STRICTLY = UPPER.replace("N - {i} @j", "N - {i} - 1 @j").replace("{i} + {j}", "{i} + {j} + 1")
STRICTLY = STRICTLY.replace("kernel upper", "kernel strictly")
"""Without the diagonal."""

OTHER = LOWER.replace("a[{j}, {k}]", "b[{j}, {k}]").replace(
    "in  a: f64[N, M]", "in  a: f64[N, M]\nin  b: f64[N, M]"
)

SCALED = OTHER.replace("inout c", "in  s: f64\ninout c").replace("| | M @k", "| | c[{i}, {j}] *= s\n| | M @k")
"""As `syrk` has it: what is there is scaled first."""

TWO = OTHER.replace("a[{i}, {k}] * b[{j}, {k}]", "a[{i}, {k}] * b[{j}, {k}] + b[{i}, {k}] * a[{j}, {k}]")
"""As `syr2k` has it: two products in one sum."""

SIZES = [{"N": n, "M": m} for n, m in ((1, 1), (5, 3), (48, 7), (49, 2), (97, 33), (101, 5), (150, 12))]


def by_rule(text: str, machine: str = "avx512") -> dojoir.Trace:
    return dojoir.PASSES["default_schedule"].given(machine).on(dojoir.parse(text))


TEXTS = {
    "lower": LOWER, "upper": UPPER, "strictly": STRICTLY, "other": OTHER, "scaled": SCALED, "two": TWO,
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize(("machine", "wide"), [("avx512", 32), ("avx2", 8)])
def test_what_the_rows_of_a_block_share_has_a_tile(name: str, machine: str, wide: int) -> None:
    trace = by_rule(TEXTS[name], machine)
    assert dojoir.to_text(trace.kernel).count(f"f64[6, {wide}] reg") == 2
    report = dojoir.verify(
        trace.kernel,
        against=dojoir.parse(TEXTS[name]),
        sizes=SIZES,
        seeds=1,
        distributions=("normal", "integers", "wide"),
    )
    assert report.ok, str(report)


@pytest.mark.parametrize("name", TEXTS)
def test_it_is_certified(name: str) -> None:
    assert dojoir.certify(by_rule(TEXTS[name]))


def test_what_is_read_down_columns_is_turned_once() -> None:
    lower, other = by_rule(LOWER).kernel, by_rule(OTHER).kernel
    assert "tmp a_turned: f64[N, M] order(1, 0)" in str(lower)
    assert [b.name for b in other.buffers if b.name.endswith("_turned")] == ["b_turned"]
    assert not [b.name for b in by_rule(UPPER).kernel.buffers if b.name.endswith("_turned")]
    assert sorted(b.name for b in by_rule(TWO).kernel.buffers if b.name.endswith("_turned")) == [
        "a_turned",
        "b_turned",
    ]


@pytest.mark.parametrize(
    "text",
    [
        LOWER.replace("M @k", "{j} + 1 @k").replace("in  a: f64[N, M]", "in  a: f64[N, N]"),  # no box to sum over
        LOWER.replace("a[{j}, {k}]", "c[{j}, {j}]"),  # a sum that needs what it gives
        LOWER.replace("{i} + 1 @j", "min({i} + 1, 7) @j"),
        LOWER.replace(" * a[{j}, {k}]", ""),  # no product
        LOWER.replace("{i} + 1 @j", "N @j"),  # no triangle
    ],
)
def test_what_is_no_such_triangle_stays(text: str) -> None:
    trace = dojoir.Trace(dojoir.parse(text))
    use(trace, "triangles", dojoir.machine_for("avx512"), {})
    assert trace.moves == ()


def test_few_rows_have_no_blocks() -> None:
    trace = dojoir.Trace(dojoir.parse(LOWER))
    use(trace, "triangles", dojoir.machine_for("avx512"), {"N": 11, "M": 500})
    assert trace.moves == ()


def test_what_is_scaled_has_a_nest_of_its_own() -> None:
    trace = dojoir.Trace(dojoir.parse(SCALED))
    use(trace, "triangles", dojoir.machine_for("avx512"), {})
    assert "N @i\n| {0} + 1 @j\n| | c[{0}, {1}] *= s\n" in dojoir.to_text(trace.kernel)


def test_products_in_one_sum_have_a_tile_and_a_panel_each() -> None:
    text = """kernel two(N, M, K)
in  a: f32[N, K]
in  b: f32[K, M]
in  d: f32[N, K]
in  e: f32[M, K]
out c: f32[N, M]
N @i
| M @j
| | c[{i}, {j}] = 0
| | K @k
| | | c[{i}, {j}] += a[{i}, {k}] * b[{k}, {j}] - d[{i}, {k}] * e[{j}, {k}]
"""
    trace = by_rule(text)
    written = dojoir.to_text(trace.kernel)
    assert "c_tile: f32[6, 64] reg" in written
    assert "b_panel: f32[K, 64]" in written and "e_panel: f32[64, K] order(1, 0)" in written
    sizes = [{"N": n, "M": m, "K": k} for n, m, k in ((1, 1, 1), (7, 65, 3), (13, 130, 9))]
    assert dojoir.verify(trace.kernel, against=dojoir.parse(text), sizes=sizes, seeds=1).ok
    assert dojoir.certify(trace)
