"""Gradients of kernels: against differences, for random kernels too; what they look like, and what is refused."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import numpy as np
import pytest
from derivatives import check_slope, gradients, in_f64, run, seeds, slope
from drawing import draw
from gradient_texts import TEXTS
from references import CASES, Case, inputs

import dojoir
from dojoir import ArgumentError, Kernel, KernelError

LAST = {case.kernel: case for case in CASES}
"""A case of each kernel of the library."""

REFUSED = {"argmax"}
"""The kernels of the library that have no gradient: their results are integers."""


def given(case: Case) -> dict[str, Any]:
    found = inputs(case.load(), case.sizes)
    return {name: value.astype(np.float64) if value.dtype.kind == "f" else value for name, value in found.items()}


@pytest.mark.parametrize("name", sorted({*LAST} - REFUSED))
def test_gradients_of_the_library_are_slopes(name: str) -> None:
    for case in [case for case in CASES if case.kernel == name][-2:]:
        check_slope(in_f64(case.load()), given(case), case.sizes)


def drawn(kernel: Kernel, sizes: dict[str, int], seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    made: dict[str, Any] = {}
    for buffer in kernel.arguments:
        shape = tuple(dim.extent.evaluate(sizes) for dim in buffer.dims)
        if buffer.role != "out":
            match buffer.dtype.name:
                case "bool":
                    made[buffer.name] = rng.integers(0, 2, shape).astype(bool)
                case "i64" | "i32" as name:
                    made[buffer.name] = rng.integers(0, 3, shape).astype(f"int{name[1:]}")
                case _:
                    made[buffer.name] = rng.standard_normal(shape)
    return made


@pytest.mark.parametrize("what", TEXTS)
def test_gradients_out_of_the_ordinary_are_slopes(what: str) -> None:
    text, sizes = TEXTS[what]
    kernel = dojoir.parse(text)
    for seed in range(3):
        check_slope(kernel, drawn(kernel, sizes, seed), sizes, seed)


NARROW = re.compile(r"\b(f32|f16|bf16|f8e4m3|f8e5m2|f8e8m0)\b")


def test_gradients_of_random_kernels_are_slopes() -> None:
    compared = 0
    for seed in range(250):
        text = dojoir.to_text(draw("runnable", Random(seed), small=True))
        if "f4e2m1" in text or not NARROW.search(text):
            continue
        try:
            kernel = dojoir.parse(NARROW.sub("f64", text))
            dojoir.prove(kernel)
            made = dojoir.gradient(kernel)
            sizes = dict.fromkeys(kernel.runtime_sizes, 4)
            inputs = dict(dojoir.testing.random_inputs(kernel, seed=seed, **sizes))
        except (ArgumentError, KernelError) as error:
            assert error.diagnostic.code in {
                "type-mismatch", "type-operand", "no-such-input", "no-derivative", "broken-fact", "number-range",
            }, error  # fmt: skip
            continue
        dojoir.prove(made)
        rng = np.random.default_rng(seed)
        for name, value in inputs.items():
            if kernel.buffer(name).dtype.name == "f64":
                inputs[name] = rng.uniform(-1, 1, np.shape(value))
        compared += agrees(kernel, inputs, sizes, rng)
    assert compared > 30


def agrees(kernel: Kernel, inputs: dict[str, Any], sizes: dict[str, int], rng: np.random.Generator) -> bool:
    """Holds a gradient to the slope. Whether there is one: two differences agree, which they do not at a kink."""
    with np.errstate(all="ignore"):
        by = seeds(kernel, inputs, sizes, rng)
        found = gradients(kernel, inputs, sizes, by)
        along = {name: rng.standard_normal(np.shape(inputs[name])) for name in found}
        mine = sum(float(np.sum(found[name] * along[name])) for name in found)
        scale = max(1.0, sum(float(np.sum(np.abs(found[name] * along[name]))) for name in found))
        one, other = (slope(kernel, inputs, sizes, by, along, step) for step in (1e-6, 3e-7))
    if not (np.isfinite([one, other]).all() and abs(one - other) < 1e-5 * scale):
        return False
    assert abs(mine - one) <= 1e-5 * scale, (str(kernel), mine, one)
    return True


FORMS = (
    "{} + {}", "{} - {}", "{} * {}", "{} / {}", "max({}, {})", "min({}, {})", "pow({}, {})", "fma({}, {}, {})",
    "select({} > {}, {}, {})", "-{}", "abs({})", *(f"{word}({{}})" for word in (
        "exp", "exp2", "expm1", "log", "log2", "log1p", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "sin", "cos",
        "tan", "atan", "floor", "round")),
)  # fmt: skip


def expression(random: Random, depth: int) -> str:
    """An expression, of which parts often are numbers, or become one where they are simplified."""
    if depth == 0:
        return random.choice(("x[{0}]", "x[{0}]", "z[{0}]", "0", "1", "2.5", "(x[{0}] - x[{0}])", "0 * x[{0}]"))
    form = random.choice(FORMS)
    return f"({form.format(*(expression(random, depth - 1) for _ in range(form.count('{}'))))})"


def test_gradients_of_random_expressions_are_slopes() -> None:
    """Also of those that sympy makes a number of."""
    head = "kernel f(N)\nin x: f64[N]\nin z: f64[N]\nout y: f64[N]\n\nN\n| y[{0}] = "
    special = ("x[{0}] * max(x[{0}] - x[{0}], 1)", "abs(x[{0}] - x[{0}])", "x[{0}] * rsqrt(1 + 0*x[{0}])",
               "x[{0}] * abs(0*x[{0}] - 1)", "pow(x[{0}] - x[{0}] + 2, z[{0}])")  # fmt: skip
    drawn = (expression(Random(seed), 1 + seed % 3) for seed in range(300))
    compared = 0
    for seed, value in enumerate((*special, *drawn)):
        rng = np.random.default_rng(seed)
        inputs = {name: rng.uniform(0.3, 1, 2) for name in "xz"}
        try:
            kernel = dojoir.parse(f"{head}{value} + x[{{0}}]\n")
            text = dojoir.to_text(dojoir.gradient(kernel))
            dojoir.prove(dojoir.parse(text))
            if "nan" not in text:  # what is divided by 0 whatever x is has no slope
                compared += agrees(kernel, inputs, {"N": 2}, rng)
        except KernelError as error:
            assert error.diagnostic.code in {"type-operand", "type-mismatch"}, f"{value}: {error}"
    assert compared > 100


def test_what_is_kept_is_taken_and_not_computed_again() -> None:
    kernel = in_f64(dojoir.kernels.load("softmax"))
    whole, kept = dojoir.gradient(kernel), dojoir.gradient(kernel, keep=("s", "e", "m"))
    assert {b.name for b in kept.arguments} == {"s", "e", "d_y", "d_x"}
    assert len(kept.sites) < len(whole.sites)
    silu = dojoir.parse("kernel t(N)\nin x: f64[N]\nout y: f64[N]\n\nN\n| y[{0}] = tanh(x[{0}])\n")
    assert {b.name for b in dojoir.gradient(silu, keep=("y",)).arguments} == {"y", "d_y", "d_x"}
    x = np.random.default_rng(0).standard_normal(5)
    one = gradients(silu, {"x": x}, {"N": 5}, {"y": np.ones(5)})
    other = gradients(silu, {"x": x}, {"N": 5}, {"y": np.ones(5)}, keep=("y",))
    np.testing.assert_allclose(one["x"], other["x"], rtol=1e-12)
    np.testing.assert_allclose(one["x"], 1 - np.tanh(x) ** 2, rtol=1e-12)


def test_what_is_written_over_cannot_be_kept() -> None:
    text, _ = TEXTS["a recurrent network, of which each step writes over the state"]
    refused("bad-keep", "h of kernel recurrent is written over", text=text, keep=("h",))
    text, _ = TEXTS["the largest so far, read in each step"]
    refused("bad-keep", "m of kernel cummax", text=text, keep=("m",))


def test_a_gradient_is_a_plain_text() -> None:
    """Each sum in a nest of its own, by the element outside; what is written once is not set to 0 first."""
    kernel = dojoir.gradient(dojoir.kernels.load("matmul"), of=("b",))
    assert dojoir.to_text(kernel).split("\n\n", 1)[1] == (
        "K\n| M\n| | d_b[{0}, {1}] = 0\n| | N\n| | | d_b[{0}, {1}] += d_c[{2}, {1}] * a[{2}, {0}]\n"
    )
    assert str(dojoir.gradient(dojoir.kernels.load("relu"))).splitlines()[-1].strip() == (
        "| d_x[{0}] = select(x[{0}] > 0, d_y[{0}], 0)"
    )


def test_the_first_that_reached_it_has_the_gradient() -> None:
    kernel = in_f64(dojoir.kernels.load("reduce_max"))
    x = np.array([[1.0, 3, 3, 0], [2, 2, 2, 2]])
    found = gradients(kernel, {"x": x}, {"N": 2, "M": 4}, {"y": np.array([5.0, 7])})
    np.testing.assert_array_equal(found["x"], [[0, 5, 0, 0], [7, 0, 0, 0]])
    relu = in_f64(dojoir.kernels.load("relu"))
    assert gradients(relu, {"x": np.array([0.0, 1])}, {"N": 2}, {"y": np.ones(2)})["x"].tolist() == [0, 1]


@pytest.mark.parametrize("name", ["softmax", "matmul", "layernorm", "cross_entropy"])
def test_gradients_can_be_scheduled(name: str) -> None:
    made = dojoir.gradient(LAST[name].load())
    trace = dojoir.optimize(made)
    assert len(trace.moves) > 0
    sizes = {size: LAST[name].sizes[size] for size in made.runtime_sizes}
    report = dojoir.verify(trace.kernel, against=made, sizes=sizes, seeds=1)
    assert report.ok, report


def test_values_in_bf16_are_added_up_in_f32() -> None:
    text = dojoir.to_text(dojoir.kernels.load("layernorm")).replace("f32", "bf16")
    made = dojoir.gradient(dojoir.parse(text))
    dojoir.prove(made)
    assert {b.dtype.name for b in made.buffers if b.role == "tmp" and b.name.startswith("d_")} == {"f32"}
    assert made.buffer("d_x").dtype.name == "bf16"


def refused(code: str, *words: str, text: str, **options: Any) -> None:
    with pytest.raises((ArgumentError, KernelError)) as caught:
        dojoir.gradient(dojoir.parse(text, name="mine.dojo"), **options)
    assert caught.value.diagnostic.code == code
    for word in words:
        assert word in str(caught.value)


def test_wrong_questions_are_refused_with_their_place() -> None:
    text = "kernel k(N)\nin x: f32[N]\nin i: i32[N]\nout y: f32[N]\n\nN\n| y[{0}] = f32(sat(f8e4m3, x[{0}]))\n"
    refused("no-derivative", "mine.dojo:7:", "`sat`", text=text)
    refused("no-such-input", "'i'", "it has: x", text=text, of=("i",))
    refused("no-such-input", "'z'", text=text, of=("z",))
    refused("unknown-buffer", "'t'", text=text, keep=("t",))
    refused("name-clash", "d_y", text=text.replace("i: i32", "d_y: i32"))
    refused("no-such-input", "no floating-point result", text=str(dojoir.kernels.load("argmax")))
    pair = "kernel p(N)\nin x: f32[N]\nout m: f32\nout at: i32\n\n"
    pair += "(m, at) = (-inf, 0)\nN\n| (m, at) max= (x[{0}], {0})\n"
    refused("no-derivative", "pair", text=pair)


def test_what_does_not_depend_on_an_input_has_the_gradient_0() -> None:
    kernel = dojoir.parse("kernel k(N)\nin x: f64[N]\nin w: f64[N]\nout y: f64[N]\n\nN\n| y[{0}] = w[{0}]\n")
    found = gradients(kernel, {"x": np.ones(3), "w": np.ones(3)}, {"N": 3}, {"y": np.ones(3)})
    assert found["x"].tolist() == [0, 0, 0]
    assert found["w"].tolist() == [1, 1, 1]
    assert run(kernel, {"x": np.ones(3), "w": np.zeros(3)}, {"N": 3})["y"].tolist() == [0, 0, 0]


@pytest.mark.parametrize("prefix", ["\udcff", "", "3", "a b"])
def test_a_prefix_that_makes_no_name_is_told(prefix: str) -> None:
    kernel = dojoir.parse("kernel s(N)\nin x: f32[N]\nout y: f32\n\ny = 0\nN\n| y += x[{0}]\n")
    if prefix == "":
        with pytest.raises(dojoir.ArgumentError, match="another prefix="):
            dojoir.gradient(kernel, prefix=prefix)
    else:
        with pytest.raises(dojoir.ArgumentError, match="is not a name"):
            dojoir.gradient(kernel, prefix=prefix)
