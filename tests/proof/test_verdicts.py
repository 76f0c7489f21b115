"""Verdicts: who is to blame, where, in which iteration and at which sizes, as text with carets and as data."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from drawing import draw

import dojoir
from dojoir.ir.nodes import Const, Statement
from dojoir.proof.check import compare, identity

SOFTMAX = dojoir.kernels.load("softmax")

BUFFERS = """kernel f(N)
in  x: f32[N]
inout z: f32[N]
out y: f32[N]
tmp t: f32[N]
"""


def f(body: str) -> dojoir.Kernel:
    return dojoir.parse(BUFFERS + body, "f.dojo")


def test_a_verdict_shows_both_parties() -> None:
    assert str(dojoir.check(SOFTMAX, "reuse_dims(m, 0)")) == (
        "softmax.dojo:20:37: error[wrong-value]: reuse_dims(m, 0): with N=2, M=1: "
        "`e[{r}, {k}] = exp(x[{r}, {k}] - m[{r}])` at {r}=0, {k}=0 would read `m[{r}]` as written by "
        "`m[{i}] = -inf` at {i}=1; now it is the one written at {i}=0\n"
        "  | | e[{r}, {k}] = exp(x[{r}, {k}] - m[{r}])\n"
        "                                      ^~~~~~\n"
        "softmax.dojo:14:3: note: would write what is read, at {i}=1\n"
        "  | m[{i}] = -inf\n"
        "    ^~~~~~"
    )


def test_a_verdict_as_data() -> None:
    data = dojoir.check(SOFTMAX, "reuse_dims(m, 0)").to_json()
    assert (data["status"], data["code"], data["sizes"]) == ("illegal", "wrong-value", {"N": 2, "M": 1})
    reader, writer, now = data["sites"]
    assert reader == {
        "does": "reads it",
        "path": "1.1.0",
        "text": "e[{r}, {k}] = exp(x[{r}, {k}] - m[{r}])",
        "access": "m[{r}]",
        "iteration": [0, 0],
        "file": "softmax.dojo",
        "line": 20,
        "column": 37,
        "end": 43,
    }
    assert [(s["path"], s["access"], s["iteration"]) for s in (writer, now)] == [
        ("0.0", "m[{i}]", [1]),
        ("0.0", "m[{i}]", [0]),
    ]


def test_a_legal_verdict_has_no_parties() -> None:
    data = dojoir.check(SOFTMAX, "join_scopes(0, 1)").to_json()
    assert (data["status"], data["code"], data["sites"], data["sizes"]) == ("legal", "legal", [], {})


def test_iterators_are_written_as_the_user_wrote_them() -> None:
    without_text = dojoir.parse(dojoir.to_text(SOFTMAX, names=True)).evolve()
    for kernel, spelled in ((SOFTMAX, "`m[{i}] = -inf` at {i}=1"), (without_text, "`m[{0}] = -inf` at {0}=1")):
        assert spelled in dojoir.check(kernel, "reuse_dims(m, 0)").reason


@pytest.mark.parametrize(
    ("kernel", "move", "code", "sites", "notes"),
    [
        pytest.param(
            SOFTMAX, "join_scopes(1.1, 1.2)", "lost-value",
            [("1.2.0", "s[{r}]", [0, 0]), ("1.1.1", "s[{r}]", [0, 1])],
            ["would write to it too late or not at all, at {r}=0, {k}=1"],
            id="a reader before its writer",
        ),
        pytest.param(
            f("N @i\n| y[{i}] = x[{i}]\nN - 1 @j\n| z[{j}] = y[{j} + 1]\n"), "join_scopes(0, 1)", "extra-instance",
            [("1.0", None, [0])], [], id="an iteration too much",
        ),
        pytest.param(
            f("N - 1 @j\n| z[{j}] = x[{j} + 1]\nN @i\n| y[{i}] = x[{i}]\n"), "join_scopes(0, 1)", "lost-instance",
            [("1.0", None, [0])], [], id="an iteration that would not run",
        ),
        pytest.param(
            f("N - 1 @i\n| z[{i}] = x[{i}]\nN @j\n| y[{j}] = x[{j}]\n").specialize(N=4), "join_scopes(1, 0)",
            "not-adjacent", [("0", None, []), ("1", None, [])], ["the first scope is here"],
            id="scopes the wrong way round",
        ),
        pytest.param(
            f("N @i\n| y[{i}] = x[{i}]\n| z[0] = y[{i}]\n"), "parallelize(@i)", "shared-element",
            [("0.1", "z[0]", [1]), ("0.1", "z[0]", [0]), ("0", None, [])],
            ["its iterations would run side by side"], id="two writes to one element",
        ),
        pytest.param(
            f("N - 1 @i\n| z[{i} + 1] = 2\n| y[{i}] = z[{i}]\ny[N - 1] = 0\n"), "parallelize(@i)", "shared-element",
            [("0.1", "z[{i}]", [1]), ("0.0", "z[{i} + 1]", [0]), ("0", None, [])],
            ["touches it at {i}=0", "its iterations would run side by side"], id="a write and a read",
        ),
        pytest.param(
            dojoir.parse("kernel f(N)\nin x: f32[N]\nout y: f32[N]\ntmp t: f32[N~]\ntmp u: f32[N + 1]\n"
                         "3 @k\n| u[0] = 0\n| N @i\n| | u[{i} + 1] = x[{i}] + u[{i}]\n| N\n| | y[{1}] = u[{1}]\n"),
            "vectorize(0.1)", "shared-element", [("0.1.0", "u[{i}]", None), ("0.1.0", "u[{i} + 1]", None)], None,
            id="a recurrence",
        ),
        pytest.param(
            SOFTMAX, "delete_temporary(m)", "still-read", [("1.1.0", None, [])], [], id="a temporary that is read",
        ),
        pytest.param(SOFTMAX, "peel(0.1.0)", "not-a-scope", [("0.1.0", None, [])], [], id="a statement"),
    ],
)  # fmt: skip
def test_parties(
    kernel: dojoir.Kernel,
    move: str,
    code: str,
    sites: list[tuple[str, str | None, list[int] | None]],
    notes: list[str] | None,
) -> None:
    verdict = dojoir.check(kernel, move)
    assert (verdict.status, verdict.code) == ("illegal", code), str(verdict)
    data = verdict.to_json()
    for path, access, iteration in sites:
        assert any(
            (s["path"], s["access"]) == (path, access) and iteration in (None, s["iteration"])
            for s in data["sites"]
        ), data["sites"]
    assert notes is None or [note.message for note in verdict.diagnostic.notes] == notes
    for site in data["sites"]:
        assert kernel.at(site["path"]) is not None


@pytest.mark.parametrize(
    ("move", "line"),
    [
        ("place(m, reg)", "tmp m: f32[N]"),
        ("stage(0, x, x, in)", "N @i"),
        ("reorder_dims(e, 1)", "tmp e: f32[N, M]"),
    ],
)
def test_every_refusal_has_a_place(move: str, line: str) -> None:
    verdict = dojoir.check(SOFTMAX, move)
    assert not verdict
    span, source = verdict.diagnostic.span, verdict.diagnostic.source
    assert span is not None
    assert source is not None
    assert source.line(span.line).strip("| ") == line


def test_a_kernel_after_a_move_is_called_that() -> None:
    kernel = dojoir.apply(f("N @i\n| N @j\n| | z[{j}] = 1\nN\n| y[{0}] = 1\n"), "parallelize(@j)")
    verdict = dojoir.check(kernel, "vectorize(@i)")
    assert verdict.code == "nested-mark"
    assert verdict.diagnostic.source is not None
    assert verdict.diagnostic.source.name == "f after vectorize(@i)"


def test_an_ill_formed_kernel_has_parties_too() -> None:
    kernel = f("N @i\n| y[{i}] = x[{i} + 1]\n")
    with pytest.raises(dojoir.KernelError) as caught:
        dojoir.prove(kernel)
    data = caught.value.diagnostic.to_json()
    assert (data["code"], data["sizes"]) == ("out-of-bounds", {"N": 1})
    assert [(s["path"], s["access"], s["iteration"]) for s in data["sites"]] == [("0.0", "x[{i} + 1]", [0])]


def test_a_changed_operation_names_the_statement() -> None:
    before = f("N @i\n| y[{i}] = 2 * x[{i}]\n")
    node = before.at("0.0")
    assert isinstance(node, Statement)
    after = before.replace_node((0, 0), replace(node, value=Const(2.0)))
    verdict = compare(before, after, identity(before))
    assert (verdict.code, verdict.diagnostic.span) == ("changed-operation", node.loc)


# -- alternatives ------------------------------------------------------------------------------------------
SHIFTED = f("N @i\n| y[{i}] = x[{i}]\nN - 1 @j\n| z[{j}] = y[{j} + 1]\n")


@pytest.mark.parametrize(
    ("kernel", "move", "hint"),
    [
        (SOFTMAX, "reuse_dims(m, 0)", "reuse_dims(m, 0) is legal after join_scopes(0, 1)"),
        (SOFTMAX, "place(m, reg)", "place(m, reg) is legal after join_scopes(0, 1), then reuse_dims(m, 0)"),
        (SOFTMAX, "parallelize(0.1)", "parallelize(0) is legal"),
        (SOFTMAX, "parallelize(1.1)", "parallelize(1.1) is legal after split_scopes(1.1, 1)"),
        (SOFTMAX, "unroll(0.1)", "unroll(0.1.0) is legal after split(0.1, 4)"),
        (SOFTMAX, "swap_scopes(0)", "swap_scopes(1) is legal after split_scopes(0, 1)"),
        (SOFTMAX, "tile(0, 0.1, 8, 8)", "tile(1, 1.0, 8, 8) is legal after split_scopes(0, 1)"),
        (SOFTMAX, "join_scopes(1, 0)", "join_scopes(0, 1) is legal"),
        (SOFTMAX, "join_scopes(0.1, 1.1)", "join_scopes(0, 1) is legal"),
        (SHIFTED, "join_scopes(0, 1)", "join_scopes(0, 1) is legal after shift(1, 1)"),
        (dojoir.kernels.load("attention"), "stage(0.0.1, k, t, in)", "stage(0.0.1.1, k, t, in) is legal"),
        (dojoir.apply(SOFTMAX, "vectorize(0.1)"), "parallelize(0.1)", "parallelize(0) is legal"),
        (SOFTMAX, "join_scopes(1.1, 1.2)", None),
    ],
)
def test_the_nearest_alternative(kernel: dojoir.Kernel, move: str, hint: str | None) -> None:
    verdict = dojoir.suggest(kernel, move)
    assert not verdict
    assert verdict.hint == hint
    if hint is not None:
        then, _, first = hint.partition(" is legal")
        for step in filter(None, first.removeprefix(" after ").split(", then ")):
            kernel = dojoir.apply(kernel, step)
        assert dojoir.check(kernel, then)


ROWS = "in  x: f32[N, M]\nout y: f32[N, M]\n"
COPY = ROWS + "N\n| M\n| | y[{0}, {1}] = x[{0}, {1}]\n"
SUM = "in  x: f32[N]\nout s: f32\ns = 0\nN\n| s += x[{0}]\n"
TRIANGLE = "in  x: f32[N, N]\nout y: f32[N]\nN\n| y[{0}] = 0\nN\n| %s\n| | y[{0}] += x[{0}, {1}]\n"
HALO = "in  x: f32[N]\nout y: f32[N]\ntmp t: f32[N + 3]\nN + 3\n| t[{0}] = 2\nN\n| t[{0}] = 2 * x[{0}]\n"
HALO += "N\n| y[{0}] = t[{0}] + t[{0} + 3]\n"
FMA = "in    x: f32[N]\nin    w: f32[N]\ninout y: f32[N]\nN\n| y[{0}] = fma(x[{0}], w[{0}], y[{0}])\n"
BLOCKED = "collapse(0) is legal after {}split(0.0, 8), then swap_scopes(0.0)"
BY_BLOCKS = "parallelize(2) is legal after cut(1, 4096*(N // 4096)), then split(1, 4096), then "
BOXED = 'swap_scopes(1) is legal after add_guard(1.0.0, 1, "{}"), then set_extent(1.0, N)'
FITTED = "use_instr(0.0, avx512_fmadd_ps) is legal after "


@pytest.mark.parametrize(
    ("header", "body", "move", "hint"),
    [
        ("N, M", COPY, "collapse(0)", BLOCKED.format("cut(0.0, 8*(M // 8)), then split_scopes(0, 1), then ")),
        ("N, M", "where M % 8 == 0\n" + COPY, "collapse(0)", BLOCKED.format("")),
        ("N = 8, M", COPY, "collapse(0)", "collapse(0) is legal after swap_scopes(0)"),
        ("N", SUM, "parallelize(1)", BY_BLOCKS + "split_reduction(1, s, s_part, N // 4096 + 1)"),
        ("N = 64", SUM, "parallelize(1)", "parallelize(2) is legal after split_reduction(1, s, s_part, 64)"),
        ("N", SUM, "split_reduction(1, s, p, N - 3)", "split_reduction(1, s, p, 8) is legal"),
        ("N", TRIANGLE % "{0} + 1", "swap_scopes(1)", BOXED.format("{1} < {0} + 1")),
        ("N", TRIANGLE % "N - {0}", "swap_scopes(1)", BOXED.format("{1} < N - {0}")),
        ("N", HALO, "join_scopes(1, 2)", "join_scopes(1, 2) is legal after shift(2, 3), then "
         "add_guard(1.0, 1, \"{0} < N\"), then set_extent(1, N + 3)"),
        ("N", FMA, "use_instr(0, avx512_fmadd_ps)", FITTED + "cut(0, 16*(N // 16)), then split(0, 16)"),
        ("N = 64", FMA, "use_instr(0, avx512_fmadd_ps)", FITTED + "split(0, 16)"),
        ("N", "in  x: f32[N]\nout y: f32[N]\nN\n| y[{0}] = x[{0}]\nif N < 1\n| y[0] = 1\n", "remove_guard(1)",
         "delete_node(1) is legal"),
    ],
)  # fmt: skip
def test_hints_for_what_takes_several_moves(header: str, body: str, move: str, hint: str) -> None:
    kernel = dojoir.parse(f"kernel f({header})\n{body}")
    dojoir.prove(kernel)
    assert dojoir.suggest(kernel, move).hint == hint
    follow(kernel, hint)


def follow(kernel: dojoir.Kernel, hint: str) -> None:
    """Makes the moves that a hint names: each is legal."""
    then, _, first = hint.partition(" is legal")
    for step in filter(None, first.removeprefix(" after ").split(", then ")):
        kernel = dojoir.apply(kernel, step)
    assert dojoir.check(kernel, then)


def test_a_suggestion_moves_what_was_pointed_at() -> None:
    """The second of three nodes cannot be exchanged with the third. The first two, which could be with others, are
    no answer."""
    lines = "y[0] = x[0]\nz[0] = x[0]\nz[1] = x[1]\nz[1] = z[1] + 1\nz[1] = 2 * z[1]\n"
    kernel = dojoir.parse(BUFFERS.replace("(N)", "(N = 2)") + lines + "y[1] = 0\n")
    assert dojoir.check(kernel, "swap_siblings(0)")
    assert not dojoir.check(kernel, "swap_siblings(2)")
    assert dojoir.suggest(kernel, "swap_siblings(3)").hint is None
    assert dojoir.suggest(kernel, "swap_siblings(2)").hint == "swap_siblings(1) is legal"


@pytest.mark.parametrize("seed", range(6))
def test_every_hint_on_random_kernels_can_be_followed(seed: int) -> None:
    random = Random(seed)
    kernel = draw("runnable" if seed % 2 else "tangled", random, small=True)
    moves = dojoir.candidates(kernel)
    for move in random.sample(moves, min(25, len(moves))):
        if dojoir.check(kernel, move).status != "illegal":
            continue
        verdict = dojoir.suggest(kernel, move)
        if verdict.hint is not None and " is legal" in verdict.hint:
            follow(kernel, verdict.hint)


NO_FIRST = """kernel tangled(N = 6, M = 4)
inout a: i32[4, 12]
inout b: i32[4]
inout q: i32
tmp t: i32[6, 6]
out y: i32[7]
36
| t[{0} // 6, {0} % 6] = max(q, a[3, 2*({0} // 6)])
7
| y[{0}] = q * {0}
4
| t[{0} + 2, -{0} + 5] = y[-{0} + 4]
4
| 6
| | q = b[-{0} + 3]
| | t[{1}, {1}] = q + {0}
| | q = q + a[{0}, {0} + 2]
| | q max= a[{0}, -{0} + 11] + q
| | if {1} + 1 >= 0 and {1} + 1 < 4
| | | y[{0} + 2] = b[{1} + 1]
| | a[{0}, {0} + 2] = t[({0} + 2*{1}) % 6, {1}] + q
6
| 4
| | a[{1}, -{1} + 11] = {0}
| | t[{0}, {1}] = t[{1}, {0}]
| | if {0} < 1
| | | y[{1}] = {1} - {0}
"""
"""In the witness of a refusal here, isl 0.27 finds no first point: it ends with an error of its own."""


def test_a_witness_is_found_where_isl_finds_no_first_one() -> None:
    verdict = dojoir.check(dojoir.parse(NO_FIRST), "unshare_buffer(t, t_own, 5, 1, 2, 3, 4, 5)")
    assert verdict.status == "illegal"
    assert verdict.diagnostic is not None and verdict.diagnostic.code in {"lost-value", "wrong-value"}


NONE_FIRST = """kernel tangled(N = 4)
fp strict
in  a: f32[5, 5]
in  b: i32[4]
tmp t: i32[4, 4]
inout y: i32[8, 4]
4
| 4
| | t[{0}, -{1} + 3] = b[-{0} + 3] + {1}
4
| 4
| | if {0} >= 2
| | | if {1} + 1 >= 0 and {1} + 1 < 4
| | | | y[{0} + 2, -{0} + 3] = t[{0}, {1} + 1]
| | | if 2*{1} >= 0 and 2*{1} < 4
| | | | t[2*{1}, ({0} + {1} + 3) % 4] = y[{1} + 2, {1}]
"""
"""In the witness of a refusal after these moves, isl 0.27 finds a set to be empty that is not."""


def test_a_witness_is_found_where_isl_finds_none() -> None:
    kernel = dojoir.parse(NONE_FIRST)
    for move in ("split(0.0, 3)", "collapse(0)", "skew(1, 2)", "skew(1, 1)", "split(1, 6)", "swap_scopes(1.0)"):
        kernel = dojoir.apply(kernel, move)
    verdict = dojoir.check(kernel, "swap_siblings(0)")
    assert verdict.status == "illegal"
    assert "{1}" in str(verdict), "it names the iteration"
