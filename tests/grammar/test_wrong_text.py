"""What is told about a text that is wrong, and texts that nobody wrote."""

from __future__ import annotations

from random import Random

import pytest
from drawing.damage import damage
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import drawn_kernels, mutated
from text_round_trip import COLUMN, N, assert_round_trip

from dojoir import DojoError, KernelError, ParseError, kernels, load, parse, to_text
from dojoir.grammar import parse_affine
from dojoir.ir.dtypes import DTYPES
from dojoir.ir.nodes import MARKS
from dojoir.ir.operations import CALLS

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
    ("kernel k()\nin x f32\n", "unexpected", 2, 4, "write `in x: f32`"),
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
    (HEAD + "t[0] = 1 1\n", "unexpected", 6, 10, "expected an operator, 'if' or the end of the line, not '1'"),
    (HEAD + "t[0] = s > 1 & s > 2\n", "unexpected", 6, 18, "bind more tightly"),
    (HEAD + "t[0] = \x00\n", "unexpected-character", 6, 8, "U+0000"),
    (HEAD + "t[0] = é\n", "unexpected-character", 6, 8, "'é'"),
    (HEAD + "t[0] = {0\n", "unexpected-character", 6, 8, "an iterator is written {0}"),
    (HEAD + "N :\n| t[0] = 1\n", "unexpected", 6, 3, "`N : p` has a mark"),
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
    ("kernel k(N)\ntmp x: f32[N*N~]\n", "not-affine", 2, 12, "declare x: f32[N, N]"),
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
    (HEAD + "N\n| t[exp({0})] = 1\n", "not-affine", 7, 5, "exp(…) is not"),
    (HEAD + "N\n| if min({0}, 1) == 0\n| | t[0] = 1\n", "not-affine", 7, 6, "a whole extent or in an index"),
    (HEAD + "N\n| t[clamp({0}, 1)] = 1\n", "wrong-arity", 7, 5, "takes 3 arguments, not 2"),
    (HEAD + "N\n| t[{0}*N] = 1\n", "not-affine", 7, 5, "multiplies two unknowns"),
    (HEAD + "N\n| t[({0} // 2) % N] = 1\n", "not-affine", 7, 5, "compute it into a tmp of i64"),
    (HEAD + "N\n| t[{0} // N] = 1\n", "not-affine", 7, 5, "x[G, C] with [{g}, {c}]"),
    (HEAD + "N*M : v\n| t[0] = 1\n", "not-affine", 6, 1, "a scope for each factor, N and inside it M"),
    (
        HEAD + "N\n| M\n| | t[M*{0} + {1}] = 1\n",
        "not-affine",
        8,
        7,
        "a dimension for each factor, the last of them M",
    ),
    ("kernel k(N, G, C)\ntmp x: f32[N, G*C~]\n", "not-affine", 2, 15, "declare x: f32[N, G, C]"),
    (HEAD + "N\n| t[{0} % 0] = 1\n", "not-affine", 7, 5, "a positive integer, not 0"),
    (HEAD + "N\n| t[{0} / 2] = 1\n", "not-affine", 7, 5, "write //"),
    (HEAD + "t[1.5] = 1\n", "not-affine", 6, 3, "made of integers"),
    (HEAD + "t[1 < 2] = 1\n", "not-affine", 6, 3, "a truth value"),
    (HEAD + "t[not 2] = 1\n", "not-affine", 6, 3, "a truth value"),
    (HEAD + "t[x[0, 0] + 1] = 1\n", "type-operand", 6, 3, "made of integers"),
    (HEAD + "if t[0] > 0\n| t[0] = 1\n| t[1] = 2\n", "condition-written", 6, 4, "copy it into a tmp"),
    (HEAD + "N\n| min(x[0, 0], 4)\n| | t[0] = 1\n", "not-an-integer", 7, 3, "a length is an integer"),
    (HEAD + "if s\n| t[0] = 1\n", "type-operand", 6, 4, "write s != 0"),
    (HEAD + "if N\n| t[0] = 1\n", "not-a-condition", 6, 4, "a condition is a comparison"),
    (HEAD + "t[0] = 1 if s\n", "type-operand", 6, 13, "write s != 0"),
    ("kernel k(N, M)\nwhere N > 1 or M > 1\n", "not-a-condition", 2, 7, "one fact each"),
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
@given(mutated(drawn_kernels("any").map(to_text)))
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
