"""Hints and the marks of a GPU: their text, what they ask of the tree, and what moves do to them."""

from __future__ import annotations

import numpy as np
import pytest

import dojoir
from dojoir import build
from dojoir.errors import KernelError
from dojoir.ir.hints import Prefetch
from dojoir.ir.nodes import Scope

HEAD = "kernel f(N)\nin  x: f32[N, 64]\nout y: f32[N, 64]\n\n"
COPY = "y[{0}, {1}] = x[{0}, {1}]\n"


def kernel(outer: str, inner: str = "64") -> dojoir.Kernel:
    return dojoir.parse(f"{HEAD}N{outer}\n| {inner}\n| | {COPY}")


def error(text: str) -> KernelError:
    with pytest.raises(KernelError) as caught:
        dojoir.prove(dojoir.parse(text))
    return caught.value


# -- the text ----------------------------------------------------------------------------------------------
def test_hints_stand_behind_the_marks_in_one_order() -> None:
    written = kernel(" : prefetch(y, 2), p, prefetch(x, 8) @i")
    assert str(written).splitlines()[4] == "N : p, prefetch(x, 8), prefetch(y, 2) @i"
    assert dojoir.parse(str(written)) == written
    assert dojoir.parse(dojoir.to_text(written, names=True)) == written
    assert written == kernel(" : p, prefetch(x, 8), prefetch(y, 2)")
    assert written.hash != kernel(" : p, prefetch(x, 8)").hash
    assert written.hash != kernel(" : p, prefetch(x, 8), prefetch(y, 3)").hash


def test_a_hint_never_changes_the_meaning() -> None:
    x = np.random.default_rng(0).standard_normal((3, 64)).astype(np.float32)
    plain, hinted = (dojoir.interpret(kernel(marks), {"x": x})["y"] for marks in ("", " : prefetch(x, 2)"))
    assert np.array_equal(plain, hinted)


def test_the_builder_says_hints_and_streams() -> None:
    with build.kernel("f", "N") as b:
        x = b.input("x", "f32", ["N", 64])
        y = b.output("y", "f32", ["N", 64], stream=True)
        with b.scope("N", "p", hints=[Prefetch("x", 8)]) as i, b.scope(64) as j:
            y[i, j] = x[i, j]
    written = dojoir.parse(
        f"{HEAD}N : p, prefetch(x, 8)\n| 64\n| | {COPY}".replace("out y: f32[N, 64]", "out y: f32[N, 64] stream")
    )
    assert b.kernel == written


@pytest.mark.parametrize(
    ("marks", "code", "culprit", "cure"),
    [
        (" : prefetch", "unknown-mark", "prefetch", "as in prefetch(x, 8)"),
        (" : prefetch(x)", "bad-hint", "prefetch(x)", "prefetch(x, 8)"),
        (" : prefetch(x, 0)", "bad-hint", "0", "1 to 1048576 iterations ahead"),
        (" : prefetch(x, 1048577)", "bad-hint", "1048577", "1 to 1048576 iterations ahead"),
        (" : prefetch(z, 1)", "unknown-buffer", "z", "no buffer 'z'"),
        (" : prefech(x, 1)", "unknown-hint", "prefech", "did you mean 'prefetch'?"),
        (" : prefetch(x, 1), prefetch(x, 2)", "duplicate-hint", "prefetch(x, 2)", "twice"),
        (" : fetch_all(x, 2)", "unknown-hint", "fetch_all", "write one of prefetch(x, 8)"),
    ],
)
def test_a_hint_that_is_written_wrong(marks: str, code: str, culprit: str, cure: str) -> None:
    with pytest.raises(KernelError) as caught:
        kernel(marks)
    diagnostic = caught.value.diagnostic
    assert diagnostic.code == code
    assert cure in diagnostic.message
    span = diagnostic.span
    assert span is not None
    assert diagnostic.source is not None
    assert diagnostic.source.line(span.line)[span.column - 1 : span.end - 1] == culprit


def test_a_prefetch_needs_accesses_to_fetch() -> None:
    text = HEAD + "N : prefetch(x, 2)\n| 64\n| | y[{0}, {1}] = 1\n"
    diagnostic = error(text).diagnostic
    assert diagnostic.code == "unused-hint"
    assert "unprefetch(0, x)" in diagnostic.message
    assert diagnostic.span is not None
    assert (diagnostic.span.column, diagnostic.span.end) == (5, 19)


@pytest.mark.parametrize("hints", [(Prefetch("x", 0),), (Prefetch("x", -3),), (Prefetch("x", 1), Prefetch("x", 2))])
def test_a_program_cannot_build_a_wrong_hint(hints: tuple[Prefetch, ...]) -> None:
    plain = kernel("")
    scope = plain.at("0")
    assert isinstance(scope, Scope)
    built = plain.evolve(body=(Scope(scope.extent, scope.body, hints=hints),))
    with pytest.raises(KernelError) as caught:
        dojoir.prove(built)
    assert caught.value.diagnostic.code in {"bad-hint", "duplicate-hint"}


# -- what moves do -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("move", "code"),
    [
        ("split(0, 4)", "hinted-scope"),
        ("collapse(0)", "hinted-scope"),
        ("tile(0, 0.0, 4, 4)", "hinted-scope"),
        ("stage(0, x, t, in)", "unused-hint"),
    ],
)
def test_moves_that_would_make_a_hint_say_something_else_are_refused(move: str, code: str) -> None:
    verdict = dojoir.check(kernel(" : prefetch(x, 8)"), move)
    assert verdict.code == code
    assert "unprefetch(" in str(verdict)


@pytest.mark.parametrize("move", ["unsplit(0, N)", "untile(0, 0.0, N, 64)"])
def test_inverses_do_not_lose_a_hint(move: str) -> None:
    plain = dojoir.apply(kernel(""), "split(0, 4)" if move.startswith("unsplit") else "tile(0, 0.0, 4, 4)")
    text = str(plain).replace("\n| ", "\n| ", 1).replace("(N + 3) // 4", "(N + 3) // 4 : prefetch(x, 1)", 1)
    assert dojoir.check(plain, move)
    assert not dojoir.check(dojoir.parse(text), move)


def test_scopes_with_different_hints_do_not_fuse() -> None:
    text = HEAD + "tmp t: f32[N, 64]\nN : prefetch(x, 2)\n| 64\n| | t[{0}, {1}] = x[{0}, {1}]\n"
    text += "N\n| 64\n| | y[{0}, {1}] = t[{0}, {1}]\n"
    assert dojoir.check(dojoir.parse(text), "join_scopes(0, 1)").code == "different-hints"


@pytest.mark.parametrize("move", ["swap_scopes(0)", "cut(0, 1)", "shift(0, 1)", "peel(0)"])
def test_moves_that_keep_a_hint_give_it_back(move: str) -> None:
    before = kernel(" : prefetch(x, 8)")
    after = dojoir.apply(before, move)
    assert "prefetch(x, 8)" in dojoir.to_text(after)
    assert dojoir.apply(after, dojoir.parse_move(move).inverse(before)) == before


# -- the marks of a GPU ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("outer", "inner"),
    [(" : gx", "64 : bx"), (" : gx", "64 : lane"), (" : gx", "64 : gy"), (" : gz", "64 : v"), ("", "64 : gx")],
)
def test_marks_of_a_gpu_that_fit(outer: str, inner: str) -> None:
    marked = kernel(outer, inner)
    dojoir.prove(marked)
    assert dojoir.parse(str(marked)) == marked
    x = np.random.default_rng(0).standard_normal((3, 64)).astype(np.float32)
    assert np.array_equal(dojoir.interpret(marked, {"x": x})["y"], x)


@pytest.mark.parametrize(
    ("outer", "inner", "code"),
    [
        (" : gx", "64 : gx", "nested-mark"),
        (" : bx", "64", "open-extent"),
        (" : lane", "64", "open-extent"),
        (" : gx, p", "64", "mark-clash"),
        (" : p", "64 : gx", "nested-mark"),
        (" : gx", "64 : p", "nested-mark"),
    ],
)
def test_marks_of_a_gpu_that_do_not_fit(outer: str, inner: str, code: str) -> None:
    assert error(f"{HEAD}N{outer}\n| {inner}\n| | {COPY}").diagnostic.code == code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("64 : bx\n| 64 : gx\n| | y[{0}, {1}] = x[{0}, {1}]\n", "nested-mark"),
        ("64 : lane\n| 64 : by\n| | y[{0}, {1}] = x[{0}, {1}]\n", "nested-mark"),
        ("64 : bx\n| 64 : by\n| | y[{0}, {1}] = x[{0}, {1}]\n", "large-extent"),
        ("2048 : bx\n| y[0, {0} % 64] = x[0, 0]\n", "large-extent"),
        ("64 : gx\n| {0} + 1 : bx\n| | y[{0}, {1}] = x[{0}, {1}]\n", "dependent-extent"),
        ("64\n| 65 : lane\n| | y[{0}, {1} % 64] = x[{0}, 0]\n", "large-extent"),
        ("64 : gx\n| y[0, 0] = x[{0}, 0]\n", "shared-element"),
        ("64\n| 64 : lane\n| | y[{0}, 0] = x[{0}, {1}]\n", "shared-element"),
    ],
)
def test_a_launch_is_a_box_of_independent_threads(text: str, code: str) -> None:
    sized = "kernel f()\nin  x: f32[64, 64]\ninout y: f32[64, 64]\n\n" + text
    assert error(sized).diagnostic.code == code


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_a_cpu_runs_the_scopes_of_a_gpu_one_iteration_after_the_other(target: str) -> None:
    plain, marked = (
        [line for line in dojoir.emit(k, target).splitlines() if not line.lstrip().startswith((";", "//", "for"))]
        for k in (kernel("", "64"), kernel(" : gx", "64 : bx"))
    )
    assert [line.partition("  //")[0] for line in plain] == [line.partition("  //")[0] for line in marked]


HINTED = [
    """kernel f(N)
in    x: f32[N, 32]
in    w: f32[N, 32]
inout y: f32[N, 32] stream
tmp   t: f32[N, 32]

N : prefetch(x, 2)
| 32
| | t[{0}, {1}] = x[{0}, {1}] + w[{0}, {1}]
N
| 2
| | 16 : use(avx512_fmadd_ps)
| | | y[{0}, 16*{1} + {2}] = fma(t[{0}, 16*{1} + {2}], w[{0}, 16*{1} + {2}], y[{0}, 16*{1} + {2}])
""",
    """kernel g(N, K)
where N % 4 == 0
in    a: i8[N, K, 2]
in    b: i8[K, 16, 2]
inout c: i32[N, 16]

N : p
| K : prefetch(b, 4)
| | 16 : v, use(avx512_dpwssd1_i8)
| | | 2
| | | | c[{0}, {2}] += i32(a[{0}, {1}, {3}]) * i32(b[{1}, {2}, {3}])
""",
]


@pytest.mark.parametrize("text", HINTED, ids=["fma", "int8"])
def test_every_legal_move_leaves_hints_that_fit_and_is_taken_back(text: str) -> None:
    before = dojoir.parse(text)
    dojoir.prove(before)
    listed = set(map(str, dojoir.moves(before)))
    kinds: set[str] = set()
    for move in dojoir.candidates(before):
        verdict = dojoir.check(before, move)
        assert bool(verdict) == (str(move) in listed), str(verdict)
        if not verdict:
            continue
        after = dojoir.apply(before, move)
        dojoir.prove(dojoir.parse(dojoir.to_text(after)))
        assert dojoir.apply(after, move.inverse(before)) == before, str(move)
        kinds.add(move.name)
    assert len(kinds) >= 8
