"""The meaning of a kernel, against NumPy: accumulation, scopes, storage, what a run finds, arguments."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from typed_values import COMPUTE, Array, assert_same_floats, floats, integers

from dojoir.errors import ArgumentError, DojoError, KernelError, RunError
from dojoir.grammar import parse
from dojoir.ir.dtypes import DTYPES
from dojoir.meaning.bits import from_floats, to_floats
from dojoir.meaning.interpreter import interpret

# -- accumulation ------------------------------------------------------------------------------------------
ACCUMULATE: dict[str, tuple[str, Callable[..., np.generic]]] = {
    "+=": ("0", np.add), "*=": ("1", np.multiply), "max=": ("-inf", np.maximum), "min=": ("inf", np.minimum),
}  # fmt: skip


@pytest.mark.parametrize("name", ["f64", "f32", "f16", "bf16"])
@pytest.mark.parametrize("operator", ACCUMULATE)
@pytest.mark.parametrize("mode", ["strict", "reassoc"])
def test_accumulation_runs_in_order_and_rounds_each_time(name: str, operator: str, mode: str) -> None:
    """Sums of narrow floats in a free order are carried in f32, and rounded once."""
    start, function = ACCUMULATE[operator]
    carried = mode == "reassoc" and operator == "+=" and name in ("f16", "bf16")
    rng = np.random.default_rng(40)
    values = from_floats(1 + rng.normal(size=300) / 8, DTYPES[name])
    head = f"kernel k(N)\nfp {mode}\nin x: {name}[N]\nout s: {name}"
    kernel = parse(f"{head}\n\ns = {start}\nN\n| s {operator} x[{{0}}]\n")
    total = np.array(float(start))
    for value in to_floats(values, DTYPES[name]):
        step = np.asarray(function(total.astype(COMPUTE[name]), COMPUTE[name](value)))
        total = step if carried else to_floats(from_floats(step, DTYPES[name]), DTYPES[name])
    if carried:
        total = to_floats(from_floats(total, DTYPES[name]), DTYPES[name])
    got = interpret(kernel, {"x": values})["s"]
    assert got.shape == ()
    assert to_floats(got, DTYPES[name]) == total


def test_the_order_of_accumulation_shows() -> None:
    text = "kernel k(N)\nin x: f32[N]\nout s: f32\n\ns = 0\nN\n| s += x[{index}]\n"
    x = np.array([1, 1e8, -1e8], np.float32)
    assert interpret(parse(text.replace("{index}", "{0}")), {"x": x})["s"] == 0
    assert interpret(parse(text.replace("{index}", "N - 1 - {0}")), {"x": x})["s"] == 1


@pytest.mark.parametrize("operator", ACCUMULATE)
def test_integer_accumulation_wraps(operator: str) -> None:
    x = integers("i8", 41, 20)
    start = {"+=": "0", "*=": "1", "max=": "-128", "min=": "127"}[operator]
    kernel = parse(f"kernel k(N)\nin x: i8[N]\nout s: i8\n\ns = {start}\nN\n| s {operator} x[{{0}}]\n")
    with np.errstate(over="ignore"):
        total = np.int8(int(start))
        for value in x:
            total = ACCUMULATE[operator][1](total, value)
    assert interpret(kernel, {"x": x})["s"] == total


def test_nan_propagates_through_max_and_min() -> None:
    for operator in ("max=", "min="):
        kernel = parse(f"kernel k(N)\nin x: f32[N]\nout s: f32\n\ns = 0\nN\n| s {operator} x[{{0}}]\n")
        for position in range(3):
            x = np.ones(3, np.float32)
            x[position] = np.nan
            assert np.isnan(interpret(kernel, {"x": x})["s"])


def test_accumulation_in_a_wider_type_than_the_element() -> None:
    kernel = parse("kernel k(N)\nin x: f64[N]\ninout s: f32\n\nN\n| s += x[{0}]\n")
    assert interpret(kernel, {"x": np.array([2.0**-24, 2.0**-24]), "s": 1.0})["s"] == 1
    assert interpret(kernel, {"x": np.array([2.0**-24 + 2.0**-50]), "s": 1.0})["s"] == 1 + 2.0**-23


# -- scopes, guards, marks ---------------------------------------------------------------------------------
def test_softmax() -> None:
    kernel = parse(
        "kernel softmax(N, M)\nin x: f32[N, M]\nout y: f32[N, M]\n"
        "tmp m: f32[N]\ntmp e: f32[N, M]\ntmp s: f32[N]\n\n"
        "N\n| m[{0}] = -inf\n| M\n| | m[{0}] max= x[{0}, {1}]\n"
        "N\n| s[{0}] = 0\n| M\n| | e[{0}, {1}] = exp(x[{0}, {1}] - m[{0}])\n| | s[{0}] += e[{0}, {1}]\n"
        "| M\n| | y[{0}, {1}] = e[{0}, {1}] / s[{0}]\n"
    )
    x = np.random.default_rng(0).normal(size=(7, 13)).astype(np.float32)
    before = x.copy()
    e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    want = e / e.sum(axis=1, keepdims=True)
    assert abs(interpret(kernel, {"x": x})["y"] - want).max() < 1e-7
    assert abs(interpret(kernel, {"x": x}, precision="f64")["y"] - want).max() < 1e-16
    assert (x == before).all()


def test_triangles_and_min_extents() -> None:
    kernel = parse(
        "kernel k(N, M)\nout y: i32[N, M]\n\nN\n| M\n| | y[{0}, {1}] = 0\n"
        "N\n| min({0} + 1, M, 4)\n| | y[{0}, {1}] = 10 * {0} + {1}\n"
    )
    i, j = np.mgrid[:6, :5]
    got = interpret(kernel, {}, N=6, M=5)["y"]
    assert (got == np.where((j <= i) & (j < 4), 10 * i + j, 0)).all()


def test_scopes_that_do_not_run() -> None:
    kernel = parse("kernel k(N)\ninout y: f32[4]\n\nN - 5\n| y[{0}] = 1\nN\n| {0} - 2\n| | y[{1}] += 1\n")
    start = np.zeros(4, np.float32)
    assert interpret(kernel, {"y": start}, N=1)["y"].tolist() == [0, 0, 0, 0]
    assert interpret(kernel, {"y": start}, N=4)["y"].tolist() == [1, 0, 0, 0]
    assert start.tolist() == [0, 0, 0, 0]


def test_guards() -> None:
    kernel = parse(
        "kernel k(N)\nin x: f32[N]\nout y: f32[N]\n\n"
        "N\n| y[{0}] = 0\n| if {0} >= 1 and {0} + 1 < N\n| | y[{0}] = x[{0} - 1] + x[{0} + 1]\n"
        "| if {0} % 3 == 0\n| | 2\n| | | y[{0}] += {1} + 1\n| if N != 6\n| | y[{0}] = -1\n"
    )
    x = np.arange(6, dtype=np.float32)
    want = np.array([3, 2, 4, 9, 8, 0], np.float32)
    assert interpret(kernel, {"x": x})["y"].tolist() == want.tolist()


def test_marks_do_not_change_the_meaning() -> None:
    text = (
        "kernel k(N, M)\nin x: f32[N, M]\nout y: f32[N]\n\nN{p}\n| y[{0}] = 0\n| M{v}\n| | y[{0}] += x[{0}, {1}]\n"
    )
    x = np.random.default_rng(1).normal(size=(5, 9)).astype(np.float32)
    plain = text.replace("{p}", "").replace("{v}", "")
    for p, v in ((" : p", " : v"), (" : u", " : u"), (" : gx", " : lane")):
        marked = text.replace("{p}", p).replace("{v}", v)
        assert (interpret(parse(marked), {"x": x})["y"] == interpret(parse(plain), {"x": x})["y"]).all()


def test_nests_deeper_than_python_allows() -> None:
    depth = 45
    lines = ["| " * level + ("2" if level % 15 == 0 else "1") for level in range(depth)]
    kernel = parse(
        "kernel k()\nout s: i32\n\ns = 0\n" + "\n".join(lines) + "\n" + "| " * depth + f"s += 1 + {{{depth - 1}}}"
    )
    assert interpret(kernel, {})["s"] == 8


def test_order_padding_and_places_do_not_change_the_meaning() -> None:
    kernel = parse(
        "kernel k(N, M)\nin x: f32[N, M] order(1, 0) pad(0, 8) align 64\nout y: f32[M] align 128\n"
        "tmp t: f32[N, M] stack order(1, 0) pad(1, 1)\n\n"
        "N\n| M\n| | t[{0}, {1}] = 2 * x[{0}, {1}]\nM\n| y[{0}] = 0\n| N\n| | y[{0}] += t[{1}, {0}]\n"
    )
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert (interpret(kernel, {"x": x})["y"] == 2 * x.sum(axis=0)).all()


# -- gathers and storage -----------------------------------------------------------------------------------
GATHER = parse(
    "kernel k(N, V, D)\nin w: f32[V, D]\nin ids: u8[N]\nin hop: i32[V]\nout y: f32[N, D]\n\n"
    "N\n| D\n| | y[{0}, {1}] = w[ids[{0}], {1}] + w[hop[ids[{0}]], {1}]\n"
)


def test_gathers() -> None:
    w = np.random.default_rng(2).normal(size=(6, 4)).astype(np.float32)
    ids, hop = np.array([5, 0, 3], np.uint8), np.array([2, 2, 0, 1, 5, 4], np.int32)
    assert (interpret(GATHER, {"w": w, "ids": ids, "hop": hop})["y"] == w[ids] + w[hop[ids]]).all()


@pytest.mark.parametrize(
    ("ids", "hop", "words"),
    [
        (6, 0, "at N=2, V=6, D=1, {0}=1, {1}=0: index ids[{0}] = 6 of w is outside 0..5"),
        (255, 0, "index ids[{0}] = 255 of w is outside 0..5"),
        (0, 6, "{0}=0, {1}=0: index hop[ids[{0}]] = 6 of w is outside 0..5"),
        (0, -1, "index hop[ids[{0}]] = -1 of w is outside 0..5"),
    ],
)
def test_gathered_indices_out_of_range(ids: int, hop: int, words: str) -> None:
    inputs = {"w": np.zeros((6, 1), np.float32), "ids": np.array([0, ids], np.uint8)}
    with pytest.raises(RunError) as caught:
        interpret(GATHER, inputs | {"hop": np.full(6, hop, np.int32)})
    diagnostic = caught.value.diagnostic
    assert diagnostic.code == "index-out-of-range"
    assert words in diagnostic.message
    assert diagnostic.span is not None
    assert diagnostic.span.line == 9


def test_collapsed_dimensions_share_an_element() -> None:
    kernel = parse(
        "kernel k(N, M)\nin x: f32[N, M]\nout y: f32[N, M]\ntmp t: f32[N~, M]\ntmp u: f32[N~, M~]\n\n"
        "N\n| M\n| | t[{0}, {1}] = x[{0}, {1}] + 1\n| M\n| | u[{0}, {1}] = t[{0}, {1}] * 2\n"
        "| | y[{0}, {1}] = u[{0}, {1}]\n"
    )
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert (interpret(kernel, {"x": x})["y"] == (x + 1) * 2).all()


def test_a_collapsed_element_is_written_once_any_index_is() -> None:
    text = "kernel k(N)\nout y: f32[N]\ntmp t: f32[N{~}]\n\nt[0] = 7\nN\n| y[{0}] = t[{0}]\n"
    assert interpret(parse(text.replace("{~}", "~")), {}, N=3)["y"].tolist() == [7, 7, 7]
    with pytest.raises(KernelError, match=r"at N=3, \{0\}=1: t\[1\] is read before it is written"):
        interpret(parse(text.replace("{~}", "")), {}, N=3)


# -- what a run finds --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("body", "code", "words", "line"),
    [
        ("N\n| y[{0}] = x[{0} + 1]", "out-of-bounds", "at N=4, {0}=3: index {0} + 1 = 4 of x is outside 0..3", 6),
        ("N\n| y[{0}] = x[{0} - 1]", "out-of-bounds", "at N=4, {0}=0: index {0} - 1 = -1 of x is outside 0..3", 6),
        ("N\n| y[2*{0}] = 0", "out-of-bounds", "{0}=2: index 2*{0} = 4 of y is outside 0..3", 6),
        ("N\n| y[{0}] = x[7]", "out-of-bounds", "index 7 of x is outside 0..3", 6),
        ("N\n| y[{0}] = 0\n| 2\n| | t[{0}] += 1", "read-before-write", "{0}=0, {1}=0: t[0] is read before", 8),
        ("N\n| t[{0}] = 0\nN\n| y[{0}] = t[N - 1 - {0}] + y[{0}]", "read-before-write", "{0}=0: y[0] is read", 8),
        ("N - 1\n| y[{0}] = 0", "unwritten-output", "y[3] is an output, and nothing writes it", 3),
    ],
)
def test_faults_name_line_iteration_and_index(body: str, code: str, words: str, line: int) -> None:
    kernel = parse(f"kernel k(N)\nin x: f32[N]\nout y: f32[N]\ntmp t: f32[N]\n{body}\n")
    with pytest.raises(KernelError) as caught:
        interpret(kernel, {"x": np.zeros(4, np.float32)})
    diagnostic = caught.value.diagnostic
    assert (diagnostic.code, words in diagnostic.message) == (code, True), diagnostic.message
    assert diagnostic.span is not None
    assert diagnostic.span.line == line
    assert f":{line}:" in str(caught.value)


def test_an_input_is_never_unwritten_and_a_guarded_access_never_runs() -> None:
    kernel = parse("kernel k(N)\ninout x: f32[N]\n\nN\n| x[{0}] += 1\n| if {0} >= N\n| | x[{0} + 9] = 0\n")
    assert interpret(kernel, {"x": np.zeros(2, np.float32)})["x"].tolist() == [1, 1]


def test_types_are_checked() -> None:
    kernel = parse("kernel k(N)\nout y: f32[N]\n\nN\n| y[{0}] = 1\n")
    wrong = kernel.evolve(body=parse("kernel k(N)\nout y: bool[N]\n\nN\n| y[{0}] = 1 < 2\n").body)
    with pytest.raises(KernelError, match="type-mismatch"):
        interpret(wrong, {}, N=2)


def test_too_much_memory() -> None:
    kernel = parse("kernel k(N)\nout y: f32\ntmp t: f32[N, N, N]\n\ny = 0\n")
    with pytest.raises(RunError, match="out-of-memory"):
        interpret(kernel, {}, N=2**40)


# -- arguments ---------------------------------------------------------------------------------------------
ARGUMENTS = parse(
    "kernel k(N, M, K = 3)\nwhere M % 2 == 0\nin x: f32[N, 2*M + 1]\nin a: f32\nin b: bf16[K]\ninout n: i8\n"
    "out y: f32[N]\n\nN\n| y[{0}] = a * x[{0}, 2*M] + b[K - 1]\nn += 1\n"
)


GOOD: dict[str, object] = {
    "x": np.ones((5, 9), np.float32),
    "a": 2,
    "b": np.array([0, 0, 0x3F80], np.uint16),
    "n": np.int8(127),
}


def test_arguments_that_fit() -> None:
    got = interpret(ARGUMENTS, GOOD)
    assert got["y"].tolist() == [3] * 5
    assert (got["n"], got["n"].dtype, got["n"].shape) == (-128, np.int8, ())
    assert list(got) == ["n", "y"]
    assert interpret(ARGUMENTS, GOOD, N=5, M=4)["y"].shape == (5,)


@pytest.mark.parametrize(
    "other",
    [
        {"a": np.float32(2)},
        {"a": np.array(2.0)},
        {"a": np.float64(2)},
        {"b": np.ones(3, ml_dtypes.bfloat16)},
        {"b": np.full(6, 0x3F80, np.uint16)[::-2]},
        {"b": np.full(3, 0x3F80, ">u2")},
        {"x": np.ones((9, 5), np.float32).T},
        {"x": np.ones((5, 9), ">f4")},
        {"x": np.asfortranarray(np.ones((5, 9), np.float32))},
        {"n": np.array(5, np.int8)},
    ],
)
def test_other_ways_to_pass_them(other: dict[str, object]) -> None:
    assert interpret(ARGUMENTS, GOOD | other)["y"].tolist() == [3] * 5


@pytest.mark.parametrize(
    ("change", "sizes", "code", "words"),
    [
        ({"z": 1}, {}, "unknown-argument", "no argument 'z'"),
        ({"y": np.ones(5, np.float32)}, {}, "unknown-argument", "y is an output"),
        ({"x": np.ones((5, 9))}, {}, "bad-dtype", "float64, and the kernel declares f32: pass float32"),
        ({"b": np.ones(3, np.float32)}, {}, "bad-dtype", "pass bfloat16 or uint16, which holds the bits of bf16"),
        ({"x": np.ones(5, np.float32)}, {}, "bad-rank", "has 1 dimensions (shape [5]), and the kernel declares 2"),
        ({"x": [[1.0]]}, {}, "not-an-array", "of type list, not an array: pass np.asarray(…, np.float32)"),
        ({"b": np.ones(4, np.uint16)}, {}, "bad-shape", "b has 4 along dimension 0, and must have 3"),
        ({"x": np.ones((5, 8), np.float32)}, {}, "size-conflict", "2*M + 1 = 7 (M=3 comes from dimension 1 of x)"),
        ({}, {"N": 6}, "size-conflict", "x has 5 along dimension 0, and must have N = 6 (N=6 was given)"),
        ({}, {"Q": 6}, "unknown-size", "no runtime size 'Q'"),
        ({}, {"K": 3}, "unknown-size", "size K of kernel k is fixed to 3"),
        ({}, {"N": 0}, "bad-size", "at least 1, not 0"),
        ({}, {"N": 5.0}, "bad-size", "at least 1, not 5.0"),
        ({"x": np.ones((5, 11), np.float32)}, {}, "broken-fact", "M=5 breaks 'where M % 2 == 0'"),
        ({"x": np.ones((0, 9), np.float32)}, {}, "bad-size", "would make N 0"),
        ({"a": "2"}, {}, "bad-scalar", "takes a number, not str '2'"),
        ({"a": 1e39}, {}, "bad-scalar", "outside the range of f32"),
        ({"n": 128}, {}, "bad-scalar", "outside the range of i8: -128 to 127"),
        ({"n": 1.0}, {}, "bad-scalar", "takes an integer, not float 1.0"),
        ({"n": True}, {}, "bad-scalar", "takes an integer, not bool True"),
        ({"n": np.array(5, np.int16)}, {}, "bad-dtype", "int16, and the kernel declares i8"),
    ],
)
def test_arguments_that_do_not_fit(change: dict[str, object], sizes: dict[str, int], code: str, words: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        interpret(ARGUMENTS, GOOD | change, **sizes)
    assert caught.value.diagnostic.code == code
    assert words in caught.value.diagnostic.message


def test_what_is_missing() -> None:
    with pytest.raises(ArgumentError, match="argument a is missing: kernel k declares it in"):
        interpret(ARGUMENTS, {name: value for name, value in GOOD.items() if name != "a"})
    kernel = parse("kernel k(N, M)\nout y: f32[N, M]\n\nN\n| M\n| | y[{0}, {1}] = 0\n")
    with pytest.raises(
        ArgumentError, match=r"sizes N, M of kernel k cannot be known from the shapes: pass N=…, M=…"
    ):
        interpret(kernel, {})


def test_sizes_from_other_sizes() -> None:
    kernel = parse("kernel k(N, M)\nin x: f32[N + M]\nin y: f32[N]\nout s: i64\n\ns = 100 * N + M\n")
    got = interpret(kernel, {"x": np.zeros(7, np.float32), "y": np.zeros(4, np.float32)})
    assert got["s"] == 403
    halves = parse("kernel k(N)\nin x: f32[N // 2]\nout s: i64\n\ns = N\n")
    assert interpret(halves, {"x": np.zeros(3, np.float32)}, N=7)["s"] == 7
    with pytest.raises(ArgumentError, match="size-missing"):
        interpret(halves, {"x": np.zeros(3, np.float32)})


@pytest.mark.parametrize("name", DTYPES)
def test_every_type_in_and_out(name: str) -> None:
    dtype = DTYPES[name]
    shape = (2, 3)
    values: Array
    if dtype.is_float:
        values = floats(name, 50, 3).reshape(shape)
    elif dtype.is_integer:
        values = integers(name, 51, 2).reshape(shape)
    else:
        values = np.array([[True, False, True], [False, True, True]])
    declared = f"in x: {name}[N, M]\nout y: {name}[N, M]"
    kernel = parse(f"kernel k(N, M)\n{declared}\n\nN\n| M\n| | y[{{0}}, {{1}}] = x[{{0}}, {{1}}]\n")
    got = interpret(kernel, {"x": values})["y"]
    assert (got.shape, got.dtype.name) == (shape, dtype.stored)
    if dtype.is_float:
        assert_same_floats(got, to_floats(values, dtype), name)
    else:
        assert (got == values).all()
    assert not np.shares_memory(got, values)


def test_unknown_precision() -> None:
    with pytest.raises(DojoError, match="precision is 'declared' or 'f64', not 'f128'"):
        interpret(GATHER, {}, precision="f128")
