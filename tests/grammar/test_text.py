"""The text of kernels: to the tree and back, and in files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import drawn_kernels
from text_round_trip import COLUMN, ROW, M, N, assert_round_trip

from dojoir import ArgumentError, ParseError, kernels, load, parse, to_text
from dojoir.errors import Span
from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import DTYPES
from dojoir.ir.nodes import (
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

F32, I32 = DTYPES["f32"], DTYPES["i32"]


@settings(max_examples=200, deadline=None)
@given(drawn_kernels("any"))
def test_printed_kernels_parse_back(kernel: Kernel) -> None:
    assert_round_trip(kernel)


@settings(max_examples=50, deadline=None)
@given(drawn_kernels("runnable"))
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
