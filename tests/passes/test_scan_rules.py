"""The rules of running sums, products, maxima, minima and linear recurrences: where they may be used, and that what
they leave is the same, or as near as rounding allows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from inverses import taken_back

import dojoir
from dojoir import rules
from dojoir.proof.check import compare

OPERATORS = {"sum": "+=", "product": "*=", "max": "max=", "min": "min="}
SUFFIX = {"sum": "", "product": "_product", "max": "_max", "min": "_min"}
every_operator = pytest.mark.parametrize("operator", OPERATORS)

HEAD = """kernel scan(M)
fp {fp}
in  x: {dtype}[M]
in  z: {dtype}
in  ok: bool[M]
out y: {dtype}[M]
tmp s: {dtype}

s = {begin}
"""
BLOCKS = """(M + 3) // 4
| min(4, M - 4*{0})
"""
TERMS = {
    "plain": "x[4*{0} + {1}]",
    "backwards": "x[M - 1 - 4*{0} - {1}]",
    "masked": "select(ok[4*{0} + {1}], x[4*{0} + {1}], z)",
    "conditional": "x[4*{0} + {1}] if ok[4*{0} + {1}]",
}


def scan(operator: str, term: str = "plain", *, before: bool = False, dtype: str = "f32", fp: str = "reassoc",
         begin: str = "z") -> dojoir.Kernel:  # fmt: skip
    """A running value in blocks of 4, any length; what comes `before` each element, or what comes with it."""
    place = "M - 1 - 4*{0} - {1}" if term == "backwards" else "4*{0} + {1}"
    lines = [f"| | s {OPERATORS[operator]} {TERMS[term]}\n", f"| | y[{place}] = s\n"]
    text = HEAD.format(fp=fp, dtype=dtype, begin=begin) + BLOCKS + "".join(reversed(lines) if before else lines)
    return dojoir.parse(text)


def use(operator: str, before: bool = False) -> str:
    return f"use_rule(0, blocked_scan{'_before' if before else ''}{SUFFIX[operator]}, t, p, r)"


def values(dtype: str, size: int, seed: int) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    held = {"f32": np.float32, "f64": np.float64}.get(dtype) or np.dtype(dojoir.parse(
        f"kernel f()\nin x: {dtype}\nout y: {dtype}\ny = x\n").buffer("x").dtype.stored)  # fmt: skip
    if np.issubdtype(held, np.integer):
        info = np.iinfo(held)
        x = random.integers(info.min, info.max, size, dtype=held, endpoint=True)
        z = held(7) if not isinstance(held, np.dtype) else held.type(7)
    else:
        x, z = random.choice([-1.0, 0.5, 2.0, 1.25, -0.75], size).astype(held), held(0.5)
    return {"x": x, "z": z, "ok": random.random(size) < 0.6}


SIZES = (1, 2, 3, 4, 5, 7, 8, 13)


@every_operator
@pytest.mark.parametrize("before", [False, True], ids=["with it", "before it"])
@pytest.mark.parametrize("term", TERMS)
def test_a_use_is_proved_and_taken_back(operator: str, before: bool, term: str) -> None:
    kernel = scan(operator, term, before=before)
    dojoir.prove(kernel)
    assert use(operator, before) in map(str, dojoir.moves(kernel))
    trace = dojoir.Trace(kernel)
    trace.apply(use(operator, before))
    assert taken_back(kernel, trace.moves[-1]) == "use_rule"
    assert dojoir.certify(trace)
    for size in SIZES:
        given = values("f32", size, size)
        old, new = (dojoir.interpret(k, given)["y"] for k in (kernel, trace.kernel))
        assert np.allclose(old, new, rtol=1e-5, atol=1e-6), (size, given)


@every_operator
@pytest.mark.parametrize("dtype", ["i8", "u8", "i32", "u32", "i64"])
@pytest.mark.parametrize("fp", ["strict", "reassoc"])
def test_integers_are_the_same_to_the_bit(operator: str, dtype: str, fp: str) -> None:
    for term in ("plain", "masked", "conditional"):
        kernel = scan(operator, term, dtype=dtype, fp=fp)
        after = dojoir.apply(kernel, use(operator))
        assert after.buffer("t").dtype.name == dtype
        for size in SIZES:
            given = values(dtype, size, size)
            old, new = (dojoir.interpret(k, given)["y"] for k in (kernel, after))
            assert np.array_equal(old, new), (term, size, given)


SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 1e-45], np.float32)


@pytest.mark.parametrize("operator", ["max", "min"])
def test_maxima_are_the_same_to_the_bit(operator: str) -> None:
    """NaN goes on, and -0 is below +0, in any order: also where rounding may not change."""
    kernel = scan(operator, fp="strict")
    after = dojoir.apply(kernel, use(operator))
    for seed in range(60):
        random = np.random.default_rng(seed)
        few = SPECIAL[random.permutation(8)[: random.integers(1, 5)]]
        given = {"x": random.choice(few, 9), "z": random.choice(few), "ok": np.ones(9, bool)}
        old, new = (dojoir.interpret(k, given)["y"] for k in (kernel, after))
        assert np.array_equal(np.isnan(old), np.isnan(new)), given
        real = ~np.isnan(old)
        assert np.array_equal(old[real].view("u4"), new[real].view("u4")), given


@pytest.mark.parametrize("operator", ["sum", "product"])
def test_what_is_not_finite_stays_so(operator: str) -> None:
    kernel = scan(operator)
    after = dojoir.apply(kernel, use(operator))
    for value in (np.nan, np.inf, -np.inf):
        for at in range(9):
            x = np.full(9, 1.5, np.float32)
            x[at] = value
            given = {"x": x, "z": np.float32(1), "ok": np.ones(9, bool)}
            old, new = (dojoir.interpret(k, given)["y"] for k in (kernel, after))
            assert np.array_equal(old[:at], new[:at])
            assert np.array_equal(old[at:], new[at:], equal_nan=True)


@pytest.mark.parametrize("operator", ["sum", "product"])
def test_rounding_is_bounded(operator: str) -> None:
    """By the roundings that there are: n - 1 operations one after another, each off by half a unit."""
    kernel = scan(operator)
    after = dojoir.apply(kernel, use(operator))
    for seed in range(20):
        random = np.random.default_rng(seed)
        size = int(random.integers(1, 200))
        x = random.uniform(0.9, 1.1, size).astype(np.float32) * random.choice([-1, 1], size).astype(np.float32)
        given = {"x": x, "z": np.float32(1), "ok": np.ones(size, bool)}
        terms = np.concatenate([[1.0], x.astype(np.float64)])
        exact = (np.cumsum if operator == "sum" else np.cumprod)(terms)[1:]
        large = (np.cumsum if operator == "sum" else np.cumprod)(np.abs(terms))[1:]
        new = dojoir.interpret(after, given)["y"]
        assert np.all(np.abs(new - exact) <= (np.arange(size) + 3) * 2.0**-24 * large * 1.01), (seed, size)


@every_operator
def test_floats_that_round_stay_in_order_under_strict(operator: str) -> None:
    verdict = dojoir.check(scan(operator, fp="strict"), use(operator))
    assert verdict.code == ("legal" if operator in {"max", "min"} else "needs-reassoc"), str(verdict)


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        pytest.param("s += x[4*{0} + {1}]", "s += y[4*{0} + {1}]", "written-inside", id="what it writes"),
        pytest.param("s = z", "s = 0\ns = z if ok[0]", "no-match", id="a beginning under a condition"),
        pytest.param("] = s", "] = s if ok[0]", "no-match", id="a result under a condition"),
        pytest.param("y[4*{0} + {1}] = s", "y[at[4*{0} + {1}]] = s", "no-match", id="a result where data say"),
        pytest.param("y[4*{0} + {1}] = s", "y[{1}] = s", "shared-element", id="results over each other"),
    ],
)
def test_what_a_use_needs(old: str, new: str, code: str) -> None:
    text = str(scan("sum", dtype="i32")).replace("out y", "in  at: i64[M]\ninout y")
    assert old in text
    kernel = dojoir.parse(text.replace(old, new))
    move = use("sum").replace("(0", "(1") if "s = z if" in new else use("sum")
    verdict = dojoir.check(kernel, move)
    assert verdict.code == code, str(verdict)


@every_operator
@pytest.mark.parametrize("before", [False, True], ids=["with it", "before it"])
def test_the_checker_holds_each_operator_to_its_own(operator: str, before: bool) -> None:
    """A claim that a rule of another operator, or of another order of the two statements, was used."""
    kernel = scan(operator, before=before)
    done = dojoir.parse_move(use(operator, before)).rewrite(kernel)
    right = done.instances.rule
    assert right is not None and compare(kernel, done.kernel, done.instances)
    for other in (name for name in rules.names() if name != right.rule):
        wrong = replace(done.instances, rule=replace(right, rule=other))
        assert compare(kernel, done.kernel, wrong).status == "illegal", other
    text = dojoir.to_text(done.kernel)
    for wrong_text in (
        text.replace("min(4, M - 4*{0})", "min(3, M - 4*{0})", 1),
        text.replace("t[{0}] = ", "t[{0}] = 3 + ", 1),
        text.replace("p[{0}] = s", "p[{0}] = z", 1),
    ):
        assert wrong_text != text
        assert compare(kernel, dojoir.parse(wrong_text), done.instances).status == "illegal", wrong_text


def test_a_condition_of_one_scan_is_not_that_of_another() -> None:
    kernel = scan("sum", "conditional")
    done = dojoir.parse_move(use("sum")).rewrite(kernel)
    text = dojoir.to_text(done.kernel)
    for place in range(text.count("if ok[4*{0} + {1}]")):
        parts = text.split("if ok[4*{0} + {1}]")
        wrong = "if ok[4*{0} + {1}]".join(parts[: place + 1]) + "if not ok[4*{0} + {1}]"
        wrong += "if ok[4*{0} + {1}]".join(parts[place + 1 :])
        assert compare(kernel, dojoir.parse(wrong), done.instances).status == "illegal"
    assert place == 1


# -- linear recurrences --------------------------------------------------------------------------------------
RECURRENCE = """kernel recurrence(M)
in  a: f64[M]
in  x: f64[M]
in  z: f64
out y: f64[M]
tmp s: f64

s = z
(M + 3) // 4
| min(4, M - 4*{0})
| | s = a[4*{0} + {1}] * s + x[4*{0} + {1}]
| | y[4*{0} + {1}] = s
"""
BEFORE = RECURRENCE.replace(
    "| | s = a[4*{0} + {1}] * s + x[4*{0} + {1}]\n| | y[4*{0} + {1}] = s\n",
    "| | y[4*{0} + {1}] = s\n| | s = a[4*{0} + {1}] * s + x[4*{0} + {1}]\n",
)


FORMS = [(RECURRENCE, "blocked_recurrence"), (BEFORE, "blocked_recurrence_before")]


@pytest.mark.parametrize(("text", "rule"), FORMS)
def test_a_recurrence_in_blocks(text: str, rule: str) -> None:
    kernel, move = dojoir.parse(text), f"use_rule(0, {rule}, c, t, p, r)"
    trace = dojoir.Trace(kernel)
    trace.apply(move)
    assert taken_back(kernel, trace.moves[-1]) == "use_rule"
    assert dojoir.certify(trace)
    assert dojoir.check(kernel.with_fp("strict"), move).code == "needs-reassoc"
    for size in SIZES:
        random = np.random.default_rng(size)
        given = {"a": random.uniform(-1, 1, size), "x": random.standard_normal(size), "z": np.float64(2)}
        old, new = (dojoir.interpret(k, given)["y"] for k in (kernel, trace.kernel))
        assert np.allclose(old, new, rtol=1e-12, atol=1e-13)
    integers = dojoir.parse(text.replace("f64", "i32")).with_fp("strict")
    after = dojoir.apply(integers, move)
    for size in SIZES:
        random = np.random.default_rng(size)
        given = {n: random.integers(-(2**31), 2**31, size, dtype=np.int32) for n in "ax"} | {"z": np.int32(5)}
        old, new = (dojoir.interpret(k, given)["y"] for k in (integers, after))
        assert np.array_equal(old, new)


@pytest.mark.parametrize(("text", "rule"), FORMS)
def test_a_factor_of_a_block_may_overflow_where_no_result_does(text: str, rule: str) -> None:
    """As the reference says of it: four factors of 1e100 are infinite, and that times a state of 0 is NaN."""
    kernel = dojoir.parse(text)
    blocked = dojoir.apply(kernel, f"use_rule(0, {rule}, c, t, p, r)")
    given = {"a": np.full(8, 1e100), "x": np.zeros(8), "z": np.float64(0)}
    with np.errstate(all="ignore"):
        assert np.array_equal(dojoir.interpret(kernel, given)["y"], np.zeros(8))
        found = dojoir.interpret(blocked, given)["y"]
    assert np.isfinite(found[:4]).all() and np.isnan(found[4:]).all()
    plain = dojoir.parse(
        "kernel f(M)\nin  a: f64[M]\nin  x: f64[M]\nout y: f64[M]\ntmp s: f64\ns = 0\nM\n"
        "| s = a[{0}] * s + x[{0}]\n| y[{0}] = s\n"
    )
    for fp in ("reassoc", "strict"):  # where it matters
        moves = map(str, dojoir.optimize(plain.with_fp(fp), "avx512", threads=8).moves)
        assert any("blocked_recurrence" in move for move in moves) == (fp == "reassoc")


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize(("written", "rule"), [("s + x[{0}]", "accumulate"), ("x[{0}] + s", "accumulate_turned")])
def test_a_step_in_a_narrow_type_is_taken_back(dtype: str, written: str, rule: str) -> None:
    kernel = dojoir.parse(f"kernel f(M)\nin  x: {dtype}[M]\nout s: {dtype}\ns = 1\nM\n| s = {written}\n")
    assert taken_back(kernel, dojoir.parse_move(f"use_rule(1.0, {rule})")) == "use_rule"


@pytest.mark.parametrize(
    ("written", "rule", "becomes"),
    [
        ("x[{0}] + a[{0}]*s", "recurrence_turned", "s = a[{0}] * s + x[{0}]"),
        ("x[{0}] - a[{0}]*s", "recurrence_difference", "s = -a[{0}] * s + x[{0}]"),
        ("s*a[{0}] + x[{0}]", "recurrence_state_first", "s = a[{0}] * s + x[{0}]"),
        ("x[{0}] - 0.5*s", "recurrence_difference", "s = -0.5 * s + x[{0}]"),
        ("s + x[{0}]", "accumulate", "s += x[{0}]"),
        ("x[{0}] + s", "accumulate_turned", "s += x[{0}]"),
        ("max(s, x[{0}])", "accumulate_max", "s max= x[{0}]"),
        ("min(x[{0}], s)", "accumulate_turned_min", "s min= x[{0}]"),
    ],
)
def test_the_forms_of_a_step_are_the_same_to_the_bit(written: str, rule: str, becomes: str) -> None:
    text = f"kernel f(M)\nin  a: f64[M]\nin  x: f64[M]\nout s: f64\ns = 1\nM\n| s = {written}\n"
    kernel = dojoir.parse(text)
    move = f"use_rule(1.0, {rule})"
    assert move in map(str, dojoir.moves(kernel))
    after = dojoir.apply(kernel, move)
    assert becomes in dojoir.to_text(after)
    assert dojoir.parse(dojoir.to_text(after)) == after
    assert taken_back(kernel, dojoir.parse_move(move)) == "use_rule"
    for seed in range(20):
        random = np.random.default_rng(seed)
        given = {n: random.choice([-0.0, 0.0, 1.5, -2.25, np.inf, np.nan, 1e-310], 6) for n in "ax"}
        old, new = (dojoir.interpret(k, given)["s"] for k in (kernel, after))
        assert np.array_equal(old, new, equal_nan=True), given
        assert np.isnan(old) or np.signbit(old) == np.signbit(new), given


def test_a_step_is_offered_only_where_it_goes_on() -> None:
    kernel = dojoir.parse("kernel f(M)\nin  x: f32[M]\ninout y: f32[M]\nM\n| y[{0}] = y[{0}] + x[{0}]\n")
    assert not any("rule" in move.name for move in dojoir.moves(kernel))
    assert dojoir.check(kernel, "use_rule(0.0, accumulate)")


@every_operator
def test_the_text_of_a_rule_is_that_of_its_operator(operator: str) -> None:
    text = rules.source(f"blocked_scan{SUFFIX[operator]}")
    assert f"s {OPERATORS[operator]} x[" in text
    assert "over " not in text
    left, _, right = text.partition("\nbecomes\n")
    rule = rules.load(f"blocked_scan{SUFFIX[operator]}")
    assert (dojoir.parse(left), dojoir.parse(right)) == (rule.left, rule.right)


@pytest.mark.parametrize("dtype", ["u8", "u32", "u64", "i8"])
@pytest.mark.parametrize("factor", ["2", "a[{0}]"])
def test_a_step_that_takes_away_in_integers_is_scheduled_to_a_text(dtype: str, factor: str) -> None:
    """-2 is no number of an unsigned type."""
    kernel = dojoir.parse(
        f"kernel f(M)\nin  a: {dtype}[M]\nin  x: {dtype}[M]\nout y: {dtype}[M]\ntmp s: {dtype}\ns = 1\nM\n"
        f"| s = x[{{0}}] - {factor} * s\n| y[{{0}}] = s\n"
    )
    verdict = dojoir.check(kernel, "use_rule(1.0, recurrence_difference)")
    refused = dtype != "i8" and factor == "2"
    assert verdict.code == ("number-range" if refused else "legal")
    after = dojoir.optimize(kernel, "avx512", sizes={"M": 10**6}, threads=2).kernel
    assert dojoir.parse(dojoir.to_text(after)) == after
    given = {n: np.random.default_rng(0).integers(0, 100, 5000).astype(after.buffer(n).dtype.stored) for n in "ax"}
    assert np.array_equal(dojoir.interpret(kernel, given)["y"], dojoir.interpret(after, given)["y"])
