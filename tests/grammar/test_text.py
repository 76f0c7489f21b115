"""The text of kernels: to the tree and back, and what is told about a text that is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import damage, mutated, runnable_kernels, syntactic_kernels

from dojoir import ArgumentError, DojoError, KernelError, ParseError, kernels, load, parse, to_text
from dojoir.errors import Span
from dojoir.grammar import parse_affine
from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import DTYPES
from dojoir.ir.nodes import (
    MARKS,
    Access,
    Buffer,
    Cast,
    Condition,
    Const,
    Dim,
    Extent,
    Guard,
    Index,
    Kernel,
    Op,
    Scope,
    Size,
    Statement,
)
from dojoir.ir.operations import CALLS

F32, I32 = DTYPES["f32"], DTYPES["i32"]
N, M = Affine.size("N"), Affine.size("M")
ROW, COLUMN = Affine.iterator(0), Affine.iterator(1)


# -- there and back ----------------------------------------------------------------------------------------
def assert_round_trip(kernel: Kernel) -> None:
    for names in (False, True):
        text = to_text(kernel, names)
        again = parse(text)
        assert again == kernel, text
        assert again.hash == kernel.hash, text
        assert to_text(again, names) == text


@settings(max_examples=200, deadline=None)
@given(syntactic_kernels())
def test_printed_kernels_parse_back(kernel: Kernel) -> None:
    assert_round_trip(kernel)


@settings(max_examples=50, deadline=None)
@given(runnable_kernels())
def test_printed_runnable_kernels_parse_back(kernel: Kernel) -> None:
    assert_round_trip(kernel)


@pytest.mark.parametrize("name", kernels.names())
def test_library_kernels_parse_back(name: str) -> None:
    assert_round_trip(kernels.load(name))


EVERYTHING = """
# Every construct once.
kernel everything ( N,M , K = 16 )   # sizes
where M % K == 0, N >= 4,N!=7
fp strict
in    x : f32[N, M]
inout y: f32[N + 1, M // 16] align 64
tmp   t: i32[N~, K]   stack order ( 1,0 ) pad(0,8)
tmp   s: bool reg
in    c: bf16

| # a comment with bars
N - 1 : p @i
| min(K, N - {i}) : v, u
| |
| | if {0} < N and {1} % 4 == 0
| | | t[{0}, {1}] = i32(x[{i}, t[0, {1}]] * 2) // 3 + {1}
\t||y[ {0} , 0 ]max=-1.5e-3 * -x[0, 0] / c
| s = not x[0, 0] < 1 or s and N == 2
y[0, 0] = select(s, fma(.5, inf, c), -nan)
"""


def test_every_construct() -> None:
    x00 = Access("x", (Affine.constant(0),) * 2)
    gather = Access("x", (ROW, Access("t", (Affine.constant(0), COLUMN))))
    written = Statement(
        Access("t", (ROW, COLUMN)),
        "=",
        Op("add", (Op("floordiv", (Cast(I32, Op("mul", (gather, Const(2)))), Const(3))), Index(COLUMN))),
    )
    guard = Guard((Condition(ROW, "<", N), Condition(COLUMN % 4, "==", Affine.constant(0))), (written,))
    largest = Statement(
        Access("y", (ROW, Affine.constant(0))),
        "max=",
        Op("div", (Op("mul", (Const(-1.5e-3), Op("neg", (x00,)))), Access("c", ()))),
    )
    flag = Statement(
        Access("s", ()),
        "=",
        Op(
            "or",
            (
                Op("not", (Op("lt", (x00, Const(1))),)),
                Op("and", (Access("s", ()), Op("eq", (Index(N), Const(2))))),
            ),
        ),
    )
    last = Statement(
        Access("y", (Affine.constant(0),) * 2),
        "=",
        Op(
            "select",
            (
                Access("s", ()),
                Op("fma", (Const(0.5), Const(float("inf")), Access("c", ()))),
                Const(float("nan")),
            ),
        ),
    )
    inner = Scope(Extent((Affine.constant(16), N - ROW)), (guard, largest), ("v", "u"))
    kernel = parse(EVERYTHING)
    assert kernel == Kernel(
        "everything",
        (Size("N"), Size("M"), Size("K", 16)),
        (
            Buffer("in", "x", F32, (Dim(N), Dim(M))),
            Buffer("inout", "y", F32, (Dim(N + 1), Dim(M // 16)), align=64),
            Buffer("tmp", "t", I32, (Dim(N, True), Dim(Affine.constant(16))), "stack", (1, 0), (0, 8)),
            Buffer("tmp", "s", DTYPES["bool"], storage="reg"),
            Buffer("in", "c", DTYPES["bf16"]),
        ),
        (Scope(Extent((N - 1,)), (inner, flag), ("p",)), last),
        (
            Condition(M % 16, "==", Affine.constant(0)),
            Condition(N, ">=", Affine.constant(4)),
            Condition(N, "!=", Affine.constant(7)),
        ),
        "strict",
    )
    outer = kernel.body[0]
    assert isinstance(outer, Scope) and outer.label == "i"
    assert_round_trip(kernel)


def test_both_styles_give_one_kernel() -> None:
    depth = parse("kernel k(N)\nout y: f32[N, N]\nN\n| N\n| | y[{0}, {1}] = {0}\n")
    name = parse("kernel k(N)\nout y: f32[N, N]\nN @a\n| N @b\n| | y[{a}, {b}] = {a}\n")
    assert depth == name and depth.hash == name.hash
    assert "| N @i1\n| | y[{i0}, {i1}] = {i0}\n" in to_text(depth, names=True)
    assert "| N @b\n| | y[{a}, {b}] = {a}\n" in to_text(name, names=True)
    assert "| N @b\n| | y[{0}, {1}] = {0}\n" in to_text(name)


def test_default_labels_stay_apart_from_those_below() -> None:
    kernel = parse("kernel k(N)\nout y: f32[N]\nN\n| if N > 2\n| | N @i0\n| | | y[{0}] = {1}\n")
    text = to_text(kernel, names=True)
    assert "N @i0_\n" in text and "y[{i0_}] = {i0}" in text
    assert_round_trip(kernel)


def test_fixed_sizes_fold() -> None:
    kernel = parse(
        "kernel k(N, stride = 2, pad = 0)\nwhere N >= stride, stride < 3\nin x: f32[stride*N]\nout y: f32[N]\n"
        "N // stride\n| y[{0}] = x[stride*{0} + pad] * stride\n"
    )
    assert to_text(kernel) == (
        "kernel k(N, stride = 2, pad = 0)\nwhere N >= 2\nin  x: f32[2*N]\nout y: f32[N]\n\n"
        "N // 2\n| y[{0}] = x[2*{0}] * 2\n"
    )


def test_specialised_kernels_parse_back() -> None:
    for name in ("softmax", "conv2d", "attention", "avgpool2d"):
        kernel = kernels.load(name)
        assert_round_trip(kernel.specialize(**{kernel.runtime_sizes[0]: 3}))


@pytest.mark.parametrize(
    "expression",
    [
        "-(N // 2)",
        "-(N // 2) - M % 3",
        "(2*N - 3) // 4",
        "-5*({0} // 3) + 2*{1} - 1",
        "(N // 2 + M) // 3",
        "(-N) % 4",
        "x[0, 0] - (x[0, 0] - 1)",
        "(x[0, 0] - 1) - x[0, 0]",
        "-(-x[0, 0])",
        "-(x[0, 0] + 1)",
        "2 * (N * x[0, 0])",
        "(N + 1) * x[0, 0]",
        "x[0, 0] * (-N)",
        "x[0, 0] / (x[0, 0] * 3)",
        "x[0, 0] - -1.5",
        "-0.0",
        "1e+16",
        "1e-45",
        "1.7976931348623157e308",
        "select(not (x[0, 0] < 1 and x[0, 0] > 2), 1, 2)",
        "select(not x[0, 0] < 1 and (x[0, 0] > 2 or 1 < 2) == (3 < x[0, 0]), 1, 2)",
    ],
)
def test_expressions_keep_their_shape(expression: str) -> None:
    kernel = parse(f"kernel k(N, M)\ninout x: f32[N, M]\nN\n| M\n| | x[{{0}}, {{1}}] = {expression}\n")
    assert_round_trip(kernel)


Meaning = Callable[[Mapping[str, int], tuple[int, ...]], int]


def made_affine(random: Random, fuel: int) -> tuple[Affine, Meaning]:
    """A quasi-affine expression, and the same as Python arithmetic."""
    if fuel == 0 or random.random() < 0.2:
        number = random.randint(-40, 40)
        leaves: list[tuple[Affine, Meaning]] = [
            (N, lambda sizes, _: sizes["N"]),
            (M, lambda sizes, _: sizes["M"]),
            (ROW, lambda _, iterators: iterators[0]),
            (COLUMN, lambda _, iterators: iterators[1]),
            (Affine.constant(number), lambda *_: number),
        ]
        return random.choice(leaves)
    a, f = made_affine(random, fuel - 1)
    b, g = made_affine(random, fuel - 1)
    factor, divisor = random.randint(-9, 9), random.randint(1, 12)
    made: list[tuple[Affine, Meaning]] = [
        (a + b, lambda *at: f(*at) + g(*at)),
        (a - b, lambda *at: f(*at) - g(*at)),
        (a * factor, lambda *at: f(*at) * factor),
        (a // divisor, lambda *at: f(*at) // divisor),
        (a % divisor, lambda *at: f(*at) % divisor),
    ]
    return random.choice(made)


@settings(max_examples=200, deadline=None)
@given(st.randoms(use_true_random=False))
def test_affine_arithmetic(random: Random) -> None:
    affine, meaning = made_affine(random, 3)
    for _ in range(5):
        sizes = {"N": random.randint(1, 50), "M": random.randint(1, 50)}
        at = (random.randint(0, 30), random.randint(0, 30))
        assert affine.evaluate(sizes, at) == meaning(sizes, at)
    read = parse(f"kernel k(N, M)\ntmp x: f32[N]\nN\n| M\n| | x[{affine}] = 0\n").sites[0].statement.target
    assert read.indices == (affine,), str(affine)


# -- places ------------------------------------------------------------------------------------------------
def located(node: object) -> Iterator[tuple[object, Span]]:
    """Every node of a tree with the place where it was read."""
    if isinstance(node, tuple):
        for part in node:
            yield from located(part)
    elif is_dataclass(node):
        loc = getattr(node, "loc", None)
        if isinstance(loc, Span):
            yield node, loc
        for field in fields(node):
            if field.name != "source":
                yield from located(getattr(node, field.name))


def test_every_node_knows_its_place() -> None:
    kernel = parse(EVERYTHING)
    assert kernel.source is not None and kernel.source.text == EVERYTHING
    found = {}
    for node, span in located(kernel):
        found.setdefault(type(node).__name__, set()).add(
            kernel.source.line(span.line)[span.column - 1 : span.end - 1]
        )
    assert {"N", "M", "K"} == found["Size"]
    assert {"x", "y", "t", "s", "c"} == found["Buffer"]
    assert {"N", "M", "N + 1", "M // 16", "K"} == found["Dim"]
    assert {"M % K == 0", "N >= 4", "N!=7", "{0} < N", "{1} % 4 == 0"} == found["Condition"]
    assert {"N - 1 : p @i", "min(K, N - {i}) : v, u"} == found["Scope"]
    assert {"N - 1", "min(K, N - {i})"} == found["Extent"]
    assert {"if {0} < N and {1} % 4 == 0"} == found["Guard"]
    assert "s = not x[0, 0] < 1 or s and N == 2" in found["Statement"]
    assert {"x[{i}, t[0, {1}]]", "y[ {0} , 0 ]", "s"} < found["Access"]
    assert {"i32(x[{i}, t[0, {1}]] * 2)"} == found["Cast"]
    assert {"-x[0, 0]", "N == 2", "fma(.5, inf, c)"} < found["Op"]


def test_line_ends_and_a_byte_order_mark_do_not_count() -> None:
    text = "kernel k(N)\nout y: f32[N]\n\nN\n| y[{0}] = 1\n"
    for variant in (text.replace("\n", "\r\n"), text.replace("\n", "\r"), "\ufeff" + text, text.rstrip("\n")):
        assert parse(variant) == parse(text)


def test_a_kernel_may_be_empty() -> None:
    assert to_text(parse("kernel nothing()")) == "kernel nothing()\n"


# -- what is wrong -----------------------------------------------------------------------------------------
HEAD = "kernel k(N, M)\nin  x: f32[N, M]\nout y: f32[N, M]\ntmp t: f32[N]\nin  s: f32\n"
"""Five lines that the bodies below stand under."""

SYNTAX = [
    ("", "no-kernel", 1, 1, "it starts with a line 'kernel NAME(SIZE, …)'"),
    ("# a comment\n\n", "no-kernel", 1, 1, "no kernel"),
    ("kernal k(N)\n", "unexpected", 1, 1, "expected 'kernel', not 'kernal'"),
    ("kernel (N)\n", "unexpected", 1, 8, "expected a name, not '('"),
    ("kernel k\n", "unexpected", 1, 9, "expected '(', not the end of the line"),
    ("kernel k(N\n", "unexpected", 1, 11, "a '(' is not closed"),
    ("kernel k(in)\n", "reserved-word", 1, 10, "'in' is a word of the language"),
    ("kernel k(N = x)", "unexpected", 1, 14, "expected a number, not 'x'"),
    ("| kernel k()\n", "unexpected", 1, 1, "bars stand only at the start of a line"),
    ("kernel k()\ntpm x: f32\n", "unexpected", 2, 5, "did you mean 'tmp'?"),
    ("kernel k()\nin x f32\n", "unexpected", 2, 6, "expected ':', not 'f32'"),
    ("kernel k()\nin x: f32[]\n", "unexpected", 2, 11, "a scalar has none"),
    ("kernel k()\nin x: f32 in y: f32\n", "reserved-word", 2, 11, "'in'"),
    (HEAD + "N\n| M\n", "empty-body", 7, 3, "one bar deeper"),
    (HEAD + "N\nt[0] = 1\n", "empty-body", 6, 1, "one bar deeper"),
    (HEAD + "N\n  t[0] = 1\n", "empty-body", 6, 1, "not by spaces"),
    (HEAD + "N\n| if {0} < 1\n", "empty-body", 7, 3, "one bar deeper"),
    (HEAD + "t[0]\n", "empty-body", 6, 1, "no '='"),
    (HEAD + "N\n| | t[0] = 1\n", "skipped-depth", 7, 1, "write 1 or fewer"),
    (HEAD + "t[0] = 1\n| t[0] = 2\n", "not-a-parent", 7, 1, "only scopes and guards"),
    (HEAD + "| t[0] = 2\n", "not-a-parent", 6, 1, "more bars"),
    (HEAD + "t[0] = 1\ntmp z: f32\n", "late-declaration", 7, 1, "before the body"),
    (HEAD + "t[0] = 1\nkernel j()\n", "second-kernel", 7, 1, "one kernel"),
    (HEAD + "t[0] -= 1\n", "unexpected", 6, 7, "write '+= -(…)'"),
    (HEAD + "t[0] /= 2\n", "unexpected", 6, 7, "write '*= 1 / (…)'"),
    (HEAD + "t[0] = select(1 < 2 < 3, 1, 2)\n", "unexpected", 6, 21, "do not chain"),
    (HEAD + "t[0] = 2 ** 3\n", "unexpected", 6, 11, "pow(x, y)"),
    (HEAD + "t[0] = (2 + 3\n", "unexpected", 6, 14, "a '(' is not closed"),
    (HEAD + "t[0 = 3\n", "unexpected", 6, 5, "expected an operator, ']' or ','"),
    (HEAD + "t[0\n", "unexpected", 6, 4, "a '[' is not closed"),
    (HEAD + "t[0] =\n", "unexpected", 6, 7, "expected an expression, not the end of the line"),
    (HEAD + "t[0] = 1 1\n", "unexpected", 6, 10, "expected an operator or the end of the line, not '1'"),
    (HEAD + "t[0] = s > 1 & s > 2\n", "unexpected", 6, 18, "bind more tightly"),
    (HEAD + "t[0] = \x00\n", "unexpected-character", 6, 8, "U+0000"),
    (HEAD + "t[0] = é\n", "unexpected-character", 6, 8, "'é'"),
    (HEAD + "t[0] = {0\n", "unexpected-character", 6, 8, "an iterator is written {0}"),
    (HEAD + "N :\n| t[0] = 1\n", "unexpected", 6, 4, "expected a name"),
    ("kernel k(N)\n" + "".join("| " * d + "N\n" for d in range(80)), "too-deep", 67, 1, "at most 64"),
]

MEANING = [
    ("kernel k(N, N)\n", "duplicate-name", 1, 13, "already a size 'N'"),
    ("kernel k(N)\nin N: f32\n", "duplicate-name", 2, 4, "already a size 'N'"),
    ("kernel k(exp)\n", "reserved-word", 1, 10, "'exp'"),
    ("kernel k(N = 99999999999999999999999)", "number-too-large", 1, 14, "64 bits"),
    ("kernel k(N = 2147483648)", "bad-size", 1, 14, "at most 2147483647"),
    ("kernel k(N = 1.5)", "not-an-integer", 1, 14, "1.5"),
    ("kernel k(N = 3)\nwhere N > 4\n", "broken-fact", 2, 7, "never holds"),
    ("kernel k(N)\nwhere N\n", "not-a-condition", 2, 7, "== != <= >= < >"),
    ("kernel k(N)\nwhere N > 1 and N > 2\n", "not-a-condition", 2, 7, "one fact each"),
    ("kernel k(N)\nwhere N > {0}\n", "unknown-iterator", 2, 11, "only the body has iterators"),
    ("kernel k(N)\nfp fest\n", "unknown-fp-mode", 2, 4, "did you mean 'fast'?"),
    ("kernel k(N)\nfp fast\nfp fast\n", "duplicate-fp", 3, 4, "given twice"),
    ("kernel k()\nin x: f23\n", "unknown-dtype", 2, 7, "did you mean 'f32'?"),
    ("kernel k(N)\nin x: f32[M]\n", "unknown-name", 2, 11, "no size or scalar buffer 'M'"),
    ("kernel k(N)\nin x: f32[N*N]\n", "not-affine", 2, 11, "declare x: f32[N, N]"),
    ("kernel k(N)\nin x: f32[N~]\n", "bad-attribute", 2, 11, "'~' is for a tmp"),
    ("kernel k(N)\nin x: f32[N] heap\n", "bad-attribute", 2, 14, "leave it out"),
    ("kernel k(N)\ntmp x: f32[N] stak\n", "unknown-attribute", 2, 15, "did you mean 'stack'?"),
    ("kernel k(N)\ntmp x: f32[N] stack reg\n", "duplicate-attribute", 2, 21, "given twice"),
    ("kernel k(N)\ntmp x: f32[N, N] order(1, 1)\n", "bad-attribute", 2, 18, "each dimension of x once (0, 1)"),
    ("kernel k(N)\ntmp x: f32[N] order 0\n", "bad-attribute", 2, 15, "each dimension"),
    ("kernel k(N)\ntmp x: f32[N] pad(1, 2)\n", "bad-attribute", 2, 15, "one number for each dimension"),
    ("kernel k(N)\ntmp x: f32 pad(0)\n", "bad-attribute", 2, 12, "which has 0"),
    ("kernel k(N)\ntmp x: f32[N] pad(99999999)\n", "bad-attribute", 2, 15, "by 0 to 1048576"),
    ("kernel k(N)\ntmp x: f32[N] align 3\n", "bad-attribute", 2, 15, "a power of two"),
    ("kernel k(N)\ntmp x: f32[N] align 8192\n", "bad-attribute", 2, 15, "at most 4096"),
    ("kernel k(N)\ntmp x: f32[N] stack 3\n", "bad-attribute", 2, 15, "takes no number"),
    (HEAD + "x[0, 0] = 1\n", "write-to-input", 6, 1, "declare it inout"),
    (HEAD + "3 = 4\n", "not-a-target", 6, 1, "only an element"),
    (HEAD + "y[0] = 1\n", "wrong-rank", 6, 1, "2 dimensions, and is given 1 index"),
    (HEAD + "t[0] = s[1]\n", "wrong-rank", 6, 8, "no dimensions and is written without brackets"),
    (HEAD + "t[0] = t\n", "wrong-rank", 6, 8, "1 dimension, and is given no indices"),
    (HEAD + "t[0] = N[0]\n", "wrong-rank", 6, 8, "N is a size"),
    (HEAD + "z[0] = 1\n", "unknown-buffer", 6, 1, "no buffer 'z'"),
    (HEAD + "t[0] = exp[1]\n", "unknown-buffer", 6, 8, "write exp(…)"),
    (HEAD + "t[0] = exp\n", "unknown-name", 6, 8, "write exp(…)"),
    (HEAD + "t[0] = Q\n", "unknown-name", 6, 8, "no size or scalar buffer 'Q'"),
    (HEAD + "N @i\n| t[i] = 1\n", "unknown-name", 7, 5, "the iterator of @i is written {i}"),
    (HEAD + "N\n| t[{1}] = 1\n", "unknown-iterator", 7, 5, "the scopes around it have {0}"),
    (HEAD + "{0}\n| t[0] = 1\n", "unknown-iterator", 6, 1, "no scope around it"),
    (HEAD + "N\n| t[{00}] = 1\n", "unknown-iterator", 7, 5, "not an iterator"),
    (HEAD + "N @row\n| t[{rwo}] = 1\n", "unknown-iterator", 7, 5, "did you mean 'row'?"),
    (HEAD + "N @i\n| t[0] = 1\nN\n| t[{i}] = 1\n", "unknown-iterator", 9, 5, "labelled @i"),
    (HEAD + "N @i\n| M @i\n| | t[{i}] = 1\n", "duplicate-label", 7, 3, "already labelled @i"),
    (HEAD + "N : w\n| t[0] = 1\n", "unknown-mark", 6, 5, "p, v, u, gx"),
    (HEAD + "N : p, p\n| t[0] = 1\n", "duplicate-mark", 6, 8, "given twice"),
    (HEAD + "t[0] = exo(1)\n", "unknown-function", 6, 8, "did you mean 'exp'?"),
    (HEAD + "t[0] = x(0, 0)\n", "unknown-function", 6, 8, "written x[…]"),
    (HEAD + "t[0] = exp(1, 2)\n", "wrong-arity", 6, 8, "takes 1 argument, not 2"),
    (HEAD + "t[0] = f16(1, 2)\n", "wrong-arity", 6, 8, "takes 1 argument, not 2"),
    (HEAD + "min(N)\n| t[0] = 1\n", "wrong-arity", 6, 1, "two or more"),
    (HEAD + "exp(N)\n| t[0] = 1\n", "not-affine", 6, 1, "exp(…) is not"),
    (HEAD + "N\n| t[min({0}, 1)] = 1\n", "not-affine", 7, 5, "only for a whole extent"),
    (HEAD + "N\n| t[{0}*N] = 1\n", "not-affine", 7, 5, "multiplies two unknowns"),
    (HEAD + "N\n| t[{0} // N] = 1\n", "not-affine", 7, 5, "x[G, C] with [{g}, {c}]"),
    (HEAD + "N*M\n| t[0] = 1\n", "not-affine", 6, 1, "a scope for each factor, N and inside it M"),
    (
        HEAD + "N\n| M\n| | t[M*{0} + {1}] = 1\n",
        "not-affine",
        8,
        7,
        "a dimension for each factor, the last of them M",
    ),
    ("kernel k(N, G, C)\nin  x: f32[N, G*C]\n", "not-affine", 2, 15, "declare x: f32[N, G, C]"),
    (HEAD + "N\n| t[{0} % 0] = 1\n", "not-affine", 7, 5, "a positive integer, not 0"),
    (HEAD + "N\n| t[{0} / 2] = 1\n", "not-affine", 7, 5, "write //"),
    (HEAD + "t[1.5] = 1\n", "not-affine", 6, 3, "made of integers"),
    (HEAD + "t[1 < 2] = 1\n", "not-affine", 6, 3, "a truth value"),
    (HEAD + "t[not 2] = 1\n", "not-affine", 6, 3, "a truth value"),
    (HEAD + "t[x[0, 0] + 1] = 1\n", "not-affine", 6, 3, "an element stands alone"),
    (HEAD + "t[t[0]] = 1\n", "scatter", 6, 3, "a read may gather"),
    (HEAD + "if t[0] > 0\n| t[0] = 1\n", "not-affine", 6, 4, "select(…)"),
    (HEAD + "if s\n| t[0] = 1\n", "not-a-condition", 6, 4, "a condition is a comparison"),
    (HEAD + "if N > 1 or M > 1\n| t[0] = 1\n", "not-a-condition", 6, 4, "by 'and' alone"),
    (HEAD + "if not N > 1\n| t[0] = 1\n", "not-a-condition", 6, 4, "by 'and' alone"),
    (HEAD + "t[0] = 1e999\n", "number-too-large", 6, 8, "write inf"),
    (HEAD + "t[0] = 18446744073709551616\n", "number-too-large", 6, 8, "64 bits"),
    (HEAD + "t[0] = 18446744073709551615 * 2\n", "number-too-large", 6, 8, "64 bits"),
    (HEAD + "t[9223372036854775808] = 1\n", "number-too-large", 6, 3, "64 bits"),
    (HEAD + "t[(N + 9223372036854775808*M) // 5] = 1\n", "number-too-large", 6, 3, "64 bits"),
    (HEAD + "t[0] = " + "-" * 200 + "s\n", "too-deep", 6, 137, "at most 128 deep"),
    (HEAD + "t[" + "N + " * 200 + "1] = s\n", "too-deep", 6, 3, "at most 128 deep"),
]


@pytest.mark.parametrize(("text", "code", "line", "column", "words"), SYNTAX)
def test_syntax_errors(text: str, code: str, line: int, column: int, words: str) -> None:
    check_error(ParseError, text, code, line, column, words)


@pytest.mark.parametrize(("text", "code", "line", "column", "words"), MEANING)
def test_errors_of_meaning(text: str, code: str, line: int, column: int, words: str) -> None:
    check_error(KernelError, text, code, line, column, words)


def check_error(kind: type[DojoError], text: str, code: str, line: int, column: int, words: str) -> None:
    with pytest.raises(kind) as caught:
        parse(text, "file.dojo")
    diagnostic, span = caught.value.diagnostic, caught.value.diagnostic.span
    assert span is not None
    assert (diagnostic.code, span.line, span.column) == (code, line, column), str(caught.value)
    assert words in diagnostic.message
    assert str(caught.value).startswith(f"file.dojo:{line}:{column}: error[{code}]: ")


def test_an_error_shows_the_other_party() -> None:
    with pytest.raises(KernelError) as caught:
        parse(HEAD + "N\n| x[{0}, 0] = 1\n", "k.dojo")
    assert str(caught.value) == (
        "k.dojo:7:3: error[write-to-input]: x is an input: declare it inout, or write to another buffer\n"
        "  | x[{0}, 0] = 1\n"
        "    ^~~~~~~~~\n"
        "k.dojo:2:5: note: x is declared here\n"
        "  in  x: f32[N, M]\n"
        "      ^"
    )


def test_types_are_checked_at_their_place() -> None:
    with pytest.raises(KernelError) as caught:
        parse(HEAD + "N\n| t[{0}] = s < 1\n")
    span = caught.value.diagnostic.span
    assert span is not None and span.line == 7


def test_every_mark_dtype_and_function_has_its_place() -> None:
    for mark in MARKS:
        assert f"N : {mark}\n" in to_text(parse(f"kernel k(N)\ntmp x: f32[N]\nN : {mark}\n| x[{{0}}] = 1\n"))
    for dtype in DTYPES:
        assert_round_trip(parse(f"kernel k(N)\ntmp x: {dtype}[N]\nN\n| x[{{0}}] = {dtype}(x[0])\n"))
    for name in CALLS:
        for name_of_name in ("kernel k({})\n", "kernel k()\ntmp {}: f32\n"):
            with pytest.raises(KernelError, match="reserved-word"):
                parse(name_of_name.format(name))


def test_an_expression_by_itself() -> None:
    kernel = parse("kernel k(N, K = 4)\n")
    assert parse_affine(" N - K*{1} // 2", kernel, 2) == N - 4 * COLUMN // 2
    for text, code, column in (
        ("N +", "unexpected", 4),
        ("", "unexpected", 1),
        ("N = 3", "unexpected", 3),
        ("N\n| N", "not-a-parent", 1),
        ("M", "unknown-name", 1),
        ("N + {2}", "unknown-iterator", 5),
        ("{i}", "unknown-iterator", 1),
        ("N*N", "not-affine", 1),
    ):
        with pytest.raises((ParseError, KernelError)) as caught:
            parse_affine(text, kernel, 2)
        diagnostic = caught.value.diagnostic
        assert diagnostic.span is not None
        assert (diagnostic.code, diagnostic.span.column) == (code, column)


# -- texts that nobody wrote -------------------------------------------------------------------------------
def survives(text: str) -> None:
    try:
        parse(text)
    except (ParseError, KernelError) as error:
        assert str(error)
        assert error.diagnostic.to_json()


@settings(max_examples=300, deadline=None)
@given(mutated(syntactic_kernels().map(to_text)))
def test_damaged_kernels(text: str) -> None:
    survives(text)


@settings(max_examples=100, deadline=None)
@given(st.text())
def test_random_texts(text: str) -> None:
    survives(text)
    survives("kernel k(N)\n" + text)


@settings(max_examples=100, deadline=None)
@given(data=st.binary(), head=st.booleans())
def test_random_bytes(data: bytes, head: bool, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("bytes") / "k.dojo"
    path.write_bytes(b"kernel k(N)\ntmp x: f32\n" * head + data)
    try:
        load(path)
    except (ParseError, KernelError) as error:
        assert str(error).startswith(str(path))


@pytest.mark.parametrize("name", kernels.names()[::4])
def test_truncated_and_damaged_library_kernels(name: str) -> None:
    text = to_text(kernels.load(name))
    for end in range(0, len(text), 7):
        survives(text[:end])
    random = Random(name)
    for _ in range(100):
        survives(damage(text, random))


@pytest.mark.parametrize(
    "text",
    [
        "(" * 20_000,
        "x = " + "(" * 20_000 + "1" + ")" * 20_000,
        "x = " + "-" * 20_000 + "1",
        "x = " + "1 + " * 20_000 + "x",
        "y[0] = " + "y[" * 20_000 + "0" + "]" * 20_000,
        "x" * 1_000_000,
        "x = " + "9" * 1_000_000,
        "x = " + "9" * 100_000 + ".5",
        "x = {" + "9" * 100_000 + "}",
        "| " * 20_000 + "x = 1",
        "if " + "N > 1 and " * 2_000 + "N > 1\n| x = 1",
        "min(" + "N, " * 2_000 + "N)\n| x = 1",
    ],
    ids=lambda text: text[:20],
)
def test_enormous_texts(text: str) -> None:
    survives("kernel k(N)\ntmp x: f32\ntmp y: i32[N]\n" + text)


def test_long_lines_are_shown_around_the_culprit() -> None:
    with pytest.raises(ParseError) as caught:
        parse("kernel k(" + ", ".join(f"N{i}" for i in range(200)) + ", ?" + ", M" * 200 + ")")
    _, shown, caret = str(caught.value).splitlines()
    assert len(shown) < 250
    assert shown[caret.index("^")] == "?"


# -- files -------------------------------------------------------------------------------------------------
def test_load(tmp_path: Path) -> None:
    path = tmp_path / "k.dojo"
    path.write_bytes(b"\xef\xbb\xbfkernel k(N)\r\nout y: f32[N]\r\nN\r\n| y[{0}] = 1\r\n")
    for given_path in (path, str(path)):
        kernel = load(given_path)
        assert kernel.name == "k"
        assert kernel.source is not None and kernel.source.name == str(path)


def test_load_names_the_file_in_errors(tmp_path: Path) -> None:
    path = tmp_path / "k.dojo"
    path.write_text("kernel k(N\n")
    with pytest.raises(ParseError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}:1:11: error[unexpected]: ")


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.dojo", tmp_path, "a\0b", "x" * 5000):
        with pytest.raises(ArgumentError, match="cannot read") as caught:
            load(path)
        assert caught.value.diagnostic.code == "unreadable-file"


def test_a_file_in_another_encoding(tmp_path: Path) -> None:
    path = tmp_path / "k.dojo"
    path.write_bytes("# fine\r\n# é\r\nkernel k()".encode("latin-1"))
    with pytest.raises(ParseError) as caught:
        load(path)
    assert str(caught.value).startswith(f"{path}:2:3: error[not-utf-8]: the byte 0xe9")
    path.write_bytes("kernel k()".encode("utf-16"))
    with pytest.raises(ParseError, match="not-utf-8"):
        load(path)


def test_bytes_are_not_a_text() -> None:
    text: Any = b"kernel k()"
    with pytest.raises(ArgumentError, match="not b'"):
        parse(text)
