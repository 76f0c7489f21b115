"""Nests that products share, by the rule that gives each product a nest of its own."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

import dojoir
from dojoir import rules
from dojoir.backends.machine import MACHINES
from dojoir.ir.text import to_text
from dojoir.passes.schedule.default_schedule import default_schedule
from dojoir.passes.schedule.forms.parting import part_products
from dojoir.passes.schedule.forms.temporaries import expand_sums
from dojoir.proof.core.same_sums import adds_the_same
from dojoir.runtime.verification.random_inputs import random_inputs

SHARED = """kernel shared(N, M, K)
in  x: f32[N, K]
in  a: f32[K, M]
in  b: f32[K, M]
out y: f32[N, M]
out z: f32[N, M]

N @i
| M @j
| | y[{i}, {j}] = 0
| | z[{i}, {j}] = 1
| | K @k
| | | y[{i}, {j}] += x[{i}, {k}] * a[{k}, {j}]
| | y[{i}, {j}] = max(y[{i}, {j}], 0)
| | K @l
| | | z[{i}, {j}] += x[{i}, {l}] * b[{l}, {j}]
"""

PARTED = """N @i
| M @j
| | y[{0}, {1}] = 0
| | K @k
| | | y[{0}, {1}] += x[{0}, {2}] * a[{2}, {1}]
| | y[{0}, {1}] = max(y[{0}, {1}], 0)
N @i_rest
| M @j_rest
| | z[{0}, {1}] = 1
| | K @l
| | | z[{0}, {1}] += x[{0}, {2}] * b[{2}, {1}]
"""


def parted(text: str) -> dojoir.Trace:
    trace = dojoir.Trace(dojoir.parse(text))
    part_products(trace)
    return trace


def test_each_product_has_its_first_values_and_what_follows_it() -> None:
    trace = parted(SHARED)
    assert dojoir.to_text(trace.kernel).endswith(PARTED)
    assert dojoir.certify(trace)


TOGETHER = """kernel together(N, M, K)
in  x: f32[N, K]
in  a: f32[K, M]
in  b: f32[K, M]
out y: f32[N, M]
tmp u: f32[N, M]

N @i
| M @j
| | y[{i}, {j}] = 0
| | u[{i}, {j}] = 1
| | K @k
| | | y[{i}, {j}] += x[{i}, {k}] * a[{k}, {j}]
| | | u[{i}, {j}] += x[{i}, {k}] * b[{k}, {j}]
| | y[{i}, {j}] = y[{i}, {j}] * u[{i}, {j}]
"""


def test_products_in_one_sum_are_parted_and_what_joins_them_follows_the_last() -> None:
    trace = parted(TOGETHER)
    assert dojoir.to_text(trace.kernel).endswith(
        "N @i\n| M @j\n| | y[{0}, {1}] = 0\n| | K @k\n| | | y[{0}, {1}] += x[{0}, {2}] * a[{2}, {1}]\n"
        "N @i_rest\n| M @j_rest\n| | u[{0}, {1}] = 1\n| | K @k_rest\n"
        "| | | u[{0}, {1}] += x[{0}, {2}] * b[{2}, {1}]\n"
        "| | y[{0}, {1}] = y[{0}, {1}] * u[{0}, {1}]\n"
    )
    assert dojoir.certify(trace)


def test_each_product_has_a_tile() -> None:
    trace = dojoir.PASSES["default_schedule"].given("avx2").on(dojoir.parse(SHARED))
    written = dojoir.to_text(trace.kernel)
    assert "y_tile: f32[6, 16] reg" in written and "z_tile: f32[6, 16] reg" in written
    assert dojoir.verify(trace.kernel, against=dojoir.parse(SHARED), seeds=1).ok


@pytest.mark.parametrize(
    "text",
    [
        SHARED.replace("z[{i}, {j}] = 1", "z[{i}, {j}] = y[{i}, {j}]"),  # needs y as it was before
        SHARED.replace("x[{i}, {l}] * b[{l}, {j}]", "y[{i}, {j}] * y[{i}, {j}]"),  # no product: one factor
        SHARED.replace("x[{i}, {l}] * b[{l}, {j}]", "b[{l}, {j}]"),
    ],
)
def test_what_cannot_be_or_is_no_product_stays(text: str) -> None:
    assert parted(text).moves == ()


def test_rows_that_two_products_share_are_parted() -> None:
    text = """kernel rows(N, M, K)
in  x: f32[N, K]
in  a: f32[K, M]
in  b: f32[M, K]
out y: f32[N, K]
tmp t: f32[N, M]

N @i
| M @j
| | t[{i}, {j}] = 0
| | K @k
| | | t[{i}, {j}] += x[{i}, {k}] * a[{k}, {j}]
| K @l
| | y[{i}, {l}] = 0
| | M @m
| | | y[{i}, {l}] += t[{i}, {m}] * b[{m}, {l}]
"""
    assert [str(move) for move in parted(text).moves] == ["split_scopes(0, 1)"]
    whole = dojoir.PASSES["default_schedule"].given("avx2").on(dojoir.parse(text))
    assert dojoir.to_text(whole.kernel).count("_tile: f32[6, 16] reg") == 2, "and fusing leaves them so"


ADDED = """kernel added(N, M, K, R)
in  x: f32[N, K]
in  t: f32[N, R]
in  a: f32[K, M]
in  b: f32[R, M]
out y: f32[N, M]

N @i
| M @j
| | y[{i}, {j}] = 0
| | K @k
| | | y[{i}, {j}] += x[{i}, {k}] * a[{k}, {j}]
| | R @r
| | | y[{i}, {j}] += t[{i}, {r}] * b[{r}, {j}]
"""


def test_what_begins_a_result_stays_with_the_first_product_that_adds_to_it() -> None:
    """It was to go before the second one as well, which no order allows, and neither had a tile."""
    trace = parted(ADDED)
    assert [len(nest.body[0].body) for nest in trace.kernel.body] == [2, 1]  # type: ignore[union-attr]
    assert dojoir.certify(trace)
    report = dojoir.verify(dojoir.optimize(trace.kernel).kernel, dojoir.parse(ADDED))
    assert report.ok, str(report)


SOFTMAX = """kernel softmax_of_product(N, M, K)
in  x: f32[N, K]
in  a: f32[K, M]
out y: f32[N, M]
tmp m: f32
tmp s: f32

N @i
| m = -inf
| M @j
| | y[{i}, {j}] = 0
| | K @k
| | | y[{i}, {j}] += x[{i}, {k}] * a[{k}, {j}]
| | m max= y[{i}, {j}]
| s = 0
| M @l
| | y[{i}, {l}] = exp(y[{i}, {l}] - m)
| | s += y[{i}, {l}]
| M @o
| | y[{i}, {o}] = y[{i}, {o}] / s
"""


def test_a_product_is_parted_from_what_its_rows_do_else() -> None:
    """It has a tile then; the scalars that its rows and the rest share become arrays."""
    trace = dojoir.PASSES["default_schedule"].given("avx2").on(dojoir.parse(SOFTMAX))
    assert "y_tile: f32[6, 16] reg" in dojoir.to_text(trace.kernel)
    report = dojoir.verify(trace.kernel, dojoir.parse(SOFTMAX), seeds=[1])
    assert report.ok, str(report)


COLUMNS = """kernel columns(N, M, K)
in  q: f32[N, K]
in  k: f32[K, M]
in  s: f32[M, N]
out y: f32[N, N]
tmp r: f32[M]

N @i
| N @z
| | y[{i}, {z}] = 0
| M @j
| | r[{j}] = 0
| | K @l
| | | r[{j}] += q[{i}, {l}] * k[{l}, {j}]
| | r[{j}] = max(r[{j}], 0)
| | N @w
| | | y[{i}, {w}] += r[{j}] * s[{j}, {w}]
"""


def test_a_product_of_what_another_gives_in_the_same_scope_is_parted() -> None:
    trace = dojoir.PASSES["default_schedule"].given("avx2").on(dojoir.parse(COLUMNS))
    assert "y_tile: f32[6, 16] reg" in dojoir.to_text(trace.kernel)
    report = dojoir.verify(trace.kernel, dojoir.parse(COLUMNS), seeds=[1])
    assert report.ok, str(report)


@pytest.mark.parametrize("seed", range(12))
def test_terms_that_are_added_at_once_are_products_of_their_own(seed: int) -> None:
    draw = random.Random(seed)
    count, mode = draw.randint(2, 4), draw.choice(("reassoc", "reassoc", "fast", "strict"))
    names = [draw.choice("abc") for _ in range(count)]
    terms = " + ".join(f"x{n}[{{i}}, {{k}}] * {name}[{{k}}, {{j}}]" for n, name in enumerate(names))
    arrays = "".join(f"in  x{n}: f64[5, 6]\n" for n in range(count)) + "".join(
        f"in  {n}: f64[6, 7]\n" for n in "abc"
    )
    text = (
        f"kernel terms()\nfp {mode}\n{arrays}out y: f64[5, 7]\n\n5 @i\n| 7 @j\n| | y[{{i}}, {{j}}] = 0\n| | 6 @k\n"
        f"| | | y[{{i}}, {{j}}] += {terms}\n| | y[{{i}}, {{j}}] = max(y[{{i}}, {{j}}], 1)\n"
    )
    trace = parted(text)
    products = [site.statement for site in trace.kernel.sites if site.statement.accumulation]
    assert len(products) == (1 if mode == "strict" else count) and dojoir.certify(trace)
    values = np.random.default_rng(seed)
    given = {b.name: values.standard_normal([d.extent.offset for d in b.dims]) for b in trace.kernel.arguments[:-1]}
    found = [np.zeros((5, 7)), np.zeros((5, 7))]
    for kernel, y in zip((dojoir.parse(text), trace.kernel), found, strict=True):
        dojoir.compile(kernel, "llvm")(**given, y=y)
    assert np.allclose(*found, rtol=1e-12, atol=1e-12)


ROWS_OF_SCORES = """kernel rows_of_scores(B, T, D)
in  q: f32[B, T, D]
in  k: f32[B, T, D]
in  v: f32[B, T, D]
out y: f32[B, T, D]
tmp s: f32[T]
tmp o: f32

B @b
| T @i
| | T @j
| | | s[{j}] = 0
| | | D @d
| | | | s[{j}] += q[{b}, {i}, {d}] * k[{b}, {j}, {d}]
| | | s[{j}] = max(s[{j}], 0)
| | D @e
| | | o = 0
| | | T @r
| | | | o += s[{r}] * v[{b}, {r}, {e}]
| | | y[{b}, {i}, {e}] = o
"""


@pytest.mark.parametrize(
    ("sizes", "dims"),
    [({}, 1), ({"B": 64, "T": 4096, "D": 64}, 1), ({"B": 4, "T": 256, "D": 64}, 3)],
)
def test_a_row_becomes_an_array_of_all_rows_where_that_is_no_larger_than_the_arguments_allow(
    sizes: dict[str, int], dims: int
) -> None:
    trace = dojoir.Trace(dojoir.parse(ROWS_OF_SCORES))
    expand_sums(trace, sizes)
    assert len(trace.kernel.buffer("s").dims) == dims


def test_a_sum_that_cannot_be_parted_keeps_no_other_together() -> None:
    text = SHARED.replace(
        "y[{i}, {j}] += x[{i}, {k}] * a[{k}, {j}]",
        "y[{i}, {j}] += x[{i}, {k}] * a[{k}, {j}] + y[{i}, {j}] * a[{k}, {j}]",
    )
    text = text.replace(
        "z[{i}, {j}] += x[{i}, {l}] * b[{l}, {j}]",
        "z[{i}, {j}] += x[{i}, {l}] * b[{l}, {j}] + x[{i}, {l}] * a[{l}, {j}]",
    )
    trace = parted(text)
    assert (
        len([s for s in trace.kernel.sites if s.statement.target.buffer == "z" and s.statement.accumulation]) == 2
    )


COMPLEX = """kernel complex(M, N, K)
in  a: f32[M, K, 2]
in  b: f32[K, N, 2]
out c: f32[M, N, 2]

M @i
| N @j
| | c[{i}, {j}, 0] = 0
| | c[{i}, {j}, 1] = 0
| | K @k
| | | c[{i}, {j}, 0] += a[{i}, {k}, 0] * b[{k}, {j}, 0] - a[{i}, {k}, 1] * b[{k}, {j}, 1]
| | | c[{i}, {j}, 1] += a[{i}, {k}, 0] * b[{k}, {j}, 1] + a[{i}, {k}, 1] * b[{k}, {j}, 0]
"""


def right(trace: dojoir.Trace, *sizes: dict[str, int]) -> None:
    """Fails where a schedule computes something else at some sizes."""
    compiled = dojoir.compile(trace.kernel, threads=1)
    for at in sizes:
        inputs = random_inputs(trace.start, sizes=at)
        expected = dojoir.interpret(trace.start, inputs)
        for name, value in compiled.run(inputs).items():
            assert np.allclose(value, expected[name], rtol=1e-4, atol=1e-4), at


def test_each_part_of_groups_has_its_products() -> None:
    """Whose results, the real and the imaginary parts, do not lie side by side."""
    trace = dojoir.Trace(dojoir.parse(COMPLEX))
    default_schedule(trace, MACHINES["avx2"])
    kept = [buffer for buffer in trace.kernel.buffers if buffer.storage == "reg"]
    assert len(kept) == 4
    assert all(buffer.order == (0, 2, 1) for buffer in kept)
    assert dojoir.certify(trace)
    right(trace, {"M": 1, "N": 1, "K": 1}, {"M": 6, "N": 16, "K": 3}, {"M": 13, "N": 35, "K": 9})


SCALED = """kernel scaled(M, N, K)
in  s: f32
in  a: f32[M, K]
in  b: bf16[K, N]
out c: f32[M, N]

M @i
| N @j
| | c[{i}, {j}] = 0
| | K @k
| | | c[{i}, {j}] += s * a[{i}, {k}] * f32(b[{k}, {j}])
"""


def test_factors_are_computed_before_a_tile() -> None:
    """Once, where they serve many results; a product of few rows reads its matrix once."""
    trace = dojoir.Trace(dojoir.parse(SCALED))
    default_schedule(trace, MACHINES["avx2"])
    assert [str(move).partition("(")[0] for move in trace.moves].count("hoist") == 2
    assert dojoir.certify(trace)
    right(trace, {"M": 13, "N": 35, "K": 9})
    few = dojoir.Trace(dojoir.parse(SCALED).specialize(M=8))
    default_schedule(few, MACHINES["avx2"])
    assert [str(move).partition("(")[0] for move in few.moves].count("hoist") == 1


@pytest.mark.parametrize(
    "parts",
    [
        "s += x\ns += c",
        "s += x",
        "s += -x\ns += c",
        "s += -x\ns += -c",
        "s += x\ns += -c\ns += -c",
        "s += x\ns += c - c - c",
    ],
)
def test_what_is_taken_away_is_no_term_that_is_added(parts: str) -> None:
    rule = rules.load("part_difference")
    kernel = dojoir.parse("kernel f()\nin a: f32\nin b: f32\ninout y: f32\ny += a - b\n")
    use = dojoir.parse_move("use_rule(0, part_difference)").rewrite(kernel).instances.rule
    assert use is not None
    assert adds_the_same(kernel, rule, use)
    text = to_text(rule.right, names=False)
    assert "s += x\ns += -c" in text
    assert not adds_the_same(kernel, replace(rule, right=dojoir.parse(text.replace("s += x\ns += -c", parts))), use)
    again = replace(rule, right=dojoir.parse(text.replace("s += x\ns += -c", "s += -c\ns += x")))
    assert adds_the_same(kernel, again, use)
