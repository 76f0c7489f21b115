"""The moves of the first issue: what each gives, what is refused and why."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import dojoir
from dojoir.errors import ArgumentError, KernelError, ParseError
from dojoir.proof.verdict import IllegalMove

SOFTMAX = """kernel softmax(N, M)
in  x: f32[N, M]
out y: f32[N, M]
tmp m: f32[N]
tmp e: f32[N, M]
tmp s: f32[N]

N
| m[{0}] = -inf
| M
| | m[{0}] max= x[{0}, {1}]
N
| s[{0}] = 0
| M
| | e[{0}, {1}] = exp(x[{0}, {1}] - m[{0}])
| | s[{0}] += e[{0}, {1}]
| M
| | y[{0}, {1}] = e[{0}, {1}] / s[{0}]
"""

PAIR = """kernel pair(N)
in  x: f32[N]
out y: f32[N]
tmp t: f32[N]
N
| t[{0}] = 2 * x[{0}]
N
| y[{0}] = t[{0}] + 1
"""


def kernel(text: str) -> dojoir.Kernel:
    k = dojoir.parse(text)
    dojoir.prove(k)
    return k


def refused(k: dojoir.Kernel, move: str) -> dojoir.Verdict:
    verdict = dojoir.check(k, move)
    assert not verdict, f"{move} should not be legal"
    with pytest.raises(IllegalMove) as caught:
        dojoir.apply(k, move)
    assert caught.value.verdict == verdict
    return verdict


def test_reuse_is_refused_before_the_join_and_allowed_after() -> None:
    k = kernel(PAIR)
    verdict = refused(k, "reuse_dims(t, 0)")
    assert verdict.code == "wrong-value"
    assert verdict.reason == (
        "reuse_dims(t, 0): with N=2: `y[{0}] = t[{0}] + 1` at {0}=0 would read `t[{0}]` as written by "
        "`t[{0}] = 2 * x[{0}]` at {0}=1; now it is the one written at {0}=0"
    )
    joined = dojoir.apply(k, "join_scopes(0, 1)")
    assert dojoir.apply(joined, "reuse_dims(t, 0)").buffer("t").dims[0].collapsed


def test_a_refusal_names_the_legal_alternative() -> None:
    verdict = dojoir.passes.suggest(kernel(PAIR), "reuse_dims(t, 0)")
    assert verdict.hint == "reuse_dims(t, 0) is legal after join_scopes(0, 1)"
    assert "help: " in str(verdict)


def test_softmax_reaches_the_fused_row() -> None:
    trace = dojoir.Trace(kernel(SOFTMAX))
    for move in (
        "join_scopes(0, 1)", "reuse_dims(e, 0)", "reuse_dims(m, 0)", "reuse_dims(s, 0)", "place(m, reg)",
        "place(s, reg)", "vectorize(0.1)", "vectorize(0.3)", "vectorize(0.4)", "parallelize(0)",
    ):  # fmt: skip
        trace.apply(move)
    assert (
        dojoir.to_text(trace.kernel)
        == """kernel softmax(N, M)
in  x: f32[N, M]
out y: f32[N, M]
tmp m: f32[N~] reg
tmp e: f32[N~, M]
tmp s: f32[N~] reg

N : p
| m[{0}] = -inf
| M : v
| | m[{0}] max= x[{0}, {1}]
| s[{0}] = 0
| M : v
| | e[{0}, {1}] = exp(x[{0}, {1}] - m[{0}])
| | s[{0}] += e[{0}, {1}]
| M : v
| | y[{0}, {1}] = e[{0}, {1}] / s[{0}]
"""
    )
    assert dojoir.certify(trace)
    assert trace.replay() == trace.kernel


SUM = """kernel f(N, M)
in x: f32[N, M]
out s: f32
s = 0
N
| M
| | s += x[{0}, {1}]
"""
EQUAL = """kernel f(N, M)
where N == M
in x: f32[N]
out y: f32[N]
out w: f32[M]
N
| y[{0}] = x[{0}]
M
| w[{0}] = 1
"""


@pytest.mark.parametrize(
    ("text", "move", "code"),
    [
        pytest.param(
            """kernel f(N)
in x: f32[N, N]
out y: f32[N, N]
N
| N
| | y[{0}, {1}] = 0
N
| {0} + 1
| | y[{0}, {1}] = x[{0}, {1}]
""",
            "swap_scopes(1)",
            {"dependent-extent"},
            id="interchange of a triangle",
        ),
        pytest.param(
            SUM,
            "parallelize(1)",
            {"shared-element"},
            id="a sum into one element on several cores",
        ),
        pytest.param(
            """kernel f(N)
in x: f32[N]
out s: f32
fp strict
s = 0
N
| s += x[{0}]
""",
            "vectorize(1)",
            {"shared-element"},
            id="a strict sum in lanes",
        ),
        pytest.param(
            """kernel f(N, M)
fp strict
in x: f32[N, M]
out s: f32
s = 0
N
| M
| | s += x[{0}, {1}]
""",
            "swap_scopes(1)",
            {"wrong-value", "lost-value"},
            id="a strict sum in another order",
        ),
        pytest.param(
            """kernel f(N)
in x: f32[N]
out y: f32[N]
N
| y[{0}] = x[{0}]
""",
            "unroll(0)",
            {"open-extent"},
            id="unrolling an open extent",
        ),
    ],
)
def test_unsound_moves_are_refused(text: str, move: str, code: set[str]) -> None:
    k = kernel(text)
    verdict = refused(k, move)
    assert verdict.code in code
    assert verdict.status == "illegal"


@pytest.mark.parametrize(
    ("text", "move"),
    [
        pytest.param(
            SUM,
            "swap_scopes(1)",
            id="a sum in any order",
        ),
        pytest.param(
            """kernel f(N, M)
fp strict
in x: i32[N, M]
out s: i32
s = 0
N
| M
| | s += x[{0}, {1}]
""",
            "swap_scopes(1)",
            id="an integer sum, even when strict",
        ),
        pytest.param(
            EQUAL,
            "set_extent(1, N)",
            id="an extent that a fact makes equal",
        ),
    ],
)
def test_sound_moves_are_not_refused(text: str, move: str) -> None:
    verdict = dojoir.check(kernel(text), move)
    assert verdict, str(verdict)


def test_extents_that_a_fact_makes_equal_are_written_alike_before_they_are_joined() -> None:
    k = kernel(EQUAL)
    assert refused(k, "join_scopes(0, 1)").hint == "join_scopes(0, 1) is legal after set_extent(1, N)"
    alike = dojoir.apply(k, "set_extent(1, N)")
    joined = dojoir.apply(alike, "join_scopes(0, 1)")
    assert dojoir.to_text(joined).endswith("N\n| y[{0}] = x[{0}]\n| w[{0}] = 1\n")
    assert refused(k, "set_extent(1, N + 1)").code == "extra-instance"


def test_split_of_an_unknown_extent_has_a_last_part() -> None:
    k = dojoir.apply(kernel(PAIR), "split(0, 8)")
    assert dojoir.to_text(k).splitlines()[5:8] == [
        "(N + 7) // 8",
        "| min(8, N - 8*{0})",
        "| | t[8*{0} + {1}] = 2 * x[8*{0} + {1}]",
    ]


def test_moves_are_legal_and_in_a_stable_order() -> None:
    k = kernel(PAIR)
    listed = dojoir.moves(k)
    assert [str(m) for m in listed] == [str(m) for m in dojoir.moves(k)]
    assert "join_scopes(0, 1)" in map(str, listed)
    assert "reuse_dims(t, 0)" not in map(str, listed)
    assert set(listed) < set(dojoir.candidates(k))
    for move in listed:
        assert dojoir.check(k, str(move))
        assert dojoir.passes.parse_move(str(move)) == move


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("splat(0, 16)", "did you mean 'split'?"),
        ("split(0)", "split is written split(scope, factor), not with 1 argument"),
        ("split(0, x)", "'x' is not an integer"),
        ("split(a b, 3)", "'a b' is not a place"),
    ],
)
def test_bad_texts_of_moves(text: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message.replace("(", r"\(").replace(")", r"\)").replace("?", r"\?")):
        dojoir.check(kernel(PAIR), text)


@pytest.mark.parametrize("text", ["split(0, 16", "split 0", ")", "split(,)"])
def test_texts_that_are_no_calls(text: str) -> None:
    with pytest.raises(ArgumentError) as caught:  # as `check` documents it
        dojoir.check(kernel(PAIR), text)
    assert caught.value.diagnostic.span is not None
    with pytest.raises(ParseError):
        dojoir.parse_pipeline(text)


def test_a_place_that_is_not_there_is_a_refusal() -> None:
    verdict = dojoir.check(kernel(PAIR), "split(0.1, 16)")
    assert verdict.code == "unknown-place"
    assert "0 has 1 child" in verdict.reason


def test_a_trace_says_which_move_removed_a_place() -> None:
    trace = dojoir.Trace(kernel(PAIR))
    trace.apply("join_scopes(0, 1)")
    with pytest.raises(IllegalMove, match=r"it was there before join_scopes\(0, 1\)"):
        trace.apply("vectorize(1)")
    assert len(trace.steps) == 1


def test_unsafe_marks_the_trace() -> None:
    trace = dojoir.Trace(kernel(PAIR))
    trace.apply("reuse_dims(t, 0)", unsafe=True)
    assert not trace.is_safe
    assert not dojoir.certify(trace)
    assert trace.undo() == trace.start
    assert trace.is_safe


def test_what_one_unsafe_move_breaks_and_the_next_mends_is_certified() -> None:
    trace = dojoir.Trace(dojoir.parse("kernel f(N)\ninout y: f32[N]\nN\n| y[{0}] *= 2\nN\n| y[{0}] += 1\n"))
    trace.apply("swap_siblings(0)", unsafe=True)
    refused = dojoir.certify(trace)
    assert refused.status == "illegal" and refused.code == dojoir.check(trace.start, "swap_siblings(0)").code
    trace.apply("swap_siblings(0)", unsafe=True)
    trace.apply("join_scopes(0, 1)")
    assert dojoir.certify(trace)


def test_traces_are_saved_and_loaded(tmp_path: object) -> None:
    from pathlib import Path

    folder = Path(str(tmp_path))
    trace = dojoir.Trace(kernel(SOFTMAX))
    trace.apply("join_scopes(0, 1)")
    trace.apply("split(0.1, 16)")
    trace.save(folder / "a.json")
    again = dojoir.Trace.load(folder / "a.json")
    assert again.kernel == trace.kernel
    assert again.moves == trace.moves
    (folder / "b.json").write_text((folder / "a.json").read_text().replace("split(0.1, 16)", "split(0.1, 8)"))
    with pytest.raises(ArgumentError, match="now give another kernel"):
        dojoir.Trace.load(folder / "b.json")
    (folder / "c.json").write_text("{")
    with pytest.raises(ArgumentError, match="not JSON"):
        dojoir.Trace.load(folder / "c.json")
    with pytest.raises(ArgumentError, match="cannot read"):
        dojoir.Trace.load(folder / "d.json")


def test_ill_formed_kernels_have_no_moves() -> None:
    k = dojoir.parse(PAIR.replace("t[{0}] + 1", "t[{0} + 1]"))
    with pytest.raises(KernelError):
        dojoir.moves(k)


def test_labels_survive() -> None:
    k = kernel(PAIR.replace("N\n| t", "N @a\n| t"))
    k = dojoir.apply(k, "join_scopes(@a, 1)")
    k = dojoir.apply(k, "split(@a, 8)")
    k = dojoir.apply(k, "split(@a, 8)")
    labels = [node.label for _, node in k.walk() if hasattr(node, "label")]
    assert labels == ["a", "a_in2", "a_in"]


def test_partial_results_are_a_number_or_one_for_each_iteration() -> None:
    k = dojoir.parse("kernel f(N)\nin  x: f32[N]\nout s: f32\n\ns = 0\nN @i\n| s += x[{i}]\n")
    own = dojoir.apply(k, "split_reduction(@i, s, p, N)")
    assert dojoir.check(own, "parallelize(2)")
    verdict = dojoir.check(k, "split_reduction(@i, s, p, 2*N - 1)")
    assert verdict.diagnostic is not None and verdict.diagnostic.code == "bad-factor"
    assert "2*N - 1 is neither" in verdict.diagnostic.message


def test_the_collector_is_as_it_was_after_a_list() -> None:
    """Also after a kernel that cannot be listed, and where it was off."""
    kernel = dojoir.kernels.load("relu")
    ill = dojoir.parse("kernel f(N)\nin x: f32[N]\nout y: f32[N]\n\nN\n| y[{0}] = x[{0} + 1]\n")
    try:
        for on in (True, False):
            (gc.enable if on else gc.disable)()
            dojoir.moves(kernel)
            assert gc.isenabled() == on
            with pytest.raises(dojoir.KernelError):
                dojoir.moves(ill)
            assert gc.isenabled() == on
    finally:
        gc.enable()


def test_a_copy_begins_where_the_node_does() -> None:
    """After a cut, the rest of the rows is staged by itself."""
    kernel = dojoir.parse("kernel f(N)\nwhere N >= 8\nin x: f32[N]\nout y: f32[N]\n\nN\n| y[{0}] = 2 * x[{0}]\n")
    kernel = dojoir.apply(kernel, "cut(0, 3)")
    for buffer, direction in (("y", "out"), ("x", "in")):
        move = f"stage(1, {buffer}, t, {direction})"
        staged = dojoir.apply(kernel, move)
        assert "tmp t: f32[N - 3]" in str(staged)
        assert f"{buffer}[{{0}} + 3]" in str(staged)
        x = np.arange(11, dtype=np.float32)
        assert np.array_equal(dojoir.interpret(staged, {"x": x})["y"], 2 * x)
        back = dojoir.parse_move(move).inverse(kernel)
        assert dojoir.to_text(dojoir.apply(staged, back)) == dojoir.to_text(kernel)


def test_a_copy_leaves_out_what_lies_before_the_array() -> None:
    kernel = dojoir.parse("""kernel f(N)
in  x: f32[N]
out y: f32[N]

N
| y[{0}] = 0
N
| 3
| | if {0} + {1} >= 1 and {0} + {1} <= N
| | | y[{0}] += x[{0} + {1} - 1]
""")
    staged = dojoir.apply(kernel, "stage(1.0, x, t, in)")
    assert "| min(3, N - {0} + 1)\n| | if {0} + {1} - 1 >= 0\n| | | t[{1}] = x[{0} + {1} - 1]" in str(staged)
    x = np.arange(1, 6, dtype=np.float32)
    assert np.array_equal(dojoir.interpret(staged, {"x": x})["y"], dojoir.interpret(kernel, {"x": x})["y"])
    back = dojoir.parse_move("stage(1.0, x, t, in)").inverse(kernel)
    assert dojoir.to_text(dojoir.apply(staged, back)) == dojoir.to_text(kernel)
    assert dojoir.check(staged, "remove_guard(1.0.0)").code == "extra-instance"


def test_a_node_that_gives_its_own_values_is_staged_without_a_fill() -> None:
    """What it would be filled with may have no value."""
    kernel = dojoir.kernels.load("softmax")
    staged = [move for move in dojoir.candidates(kernel) if move.name == "stage"]
    assert {"stage(0, m, m_copy, out)", "stage(0.1, m, m_copy, inout)"} <= set(map(str, staged))
    assert [str(move) for move in staged if not dojoir.check(kernel, move)] == []


@pytest.mark.parametrize("role", ["out", "tmp"])
@pytest.mark.parametrize(
    ("body", "back"),
    [
        ("7\n| if {0} < 6\n| | y[{0}] = 1", "min(7, 6)\n| y[{0}] = c[{0}]"),
        ("N + 1\n| if {0} < N\n| | y[{0}] = 1", "min(N + 1, N)\n| y[{0}] = c[{0}]"),
        ("7\n| if {0} >= 1\n| | y[{0} - 1] = 1", "7\n| if {0} - 1 >= 0\n| | y[{0} - 1] = c[{0}]"),
        ("2 // 1\n| 6\n| | if 4*{0} + {1} < 6\n| | | y[4*{0} + {1}] = 1", "min(6, -4*{0} + 6)\n"),
    ],
)
def test_what_a_guard_keeps_from_being_given_is_not_copied_back(body: str, back: str, role: str) -> None:
    """The scopes around it would go beyond the array."""
    size = "N" if "N" in body else "6"
    end = f"\n{size}\n| z[{{0}}] = y[{{0}}]" if role == "tmp" else ""
    kernel = dojoir.parse(f"kernel f(N)\n{role} y: f32[{size}]\nout z: f32[{size}]\n\n{body}{end}\n".replace(
        f"out z: f32[{size}]\n" if role == "out" else "\0", ""
    ))  # fmt: skip
    place = "0.0" if "{1}" in body else "0"
    after = dojoir.apply(kernel, f"stage({place}, y, c, out)")
    assert back in dojoir.to_text(after)
    assert dojoir.check(after, f"unstage({place}, c)")


@pytest.mark.parametrize("mark", ["", " : u", " : v", " : p"])
def test_splits_are_listed_as_they_are_checked(mark: str) -> None:
    """One answer serves splits by several factors: with marks inside and around, dividing or not."""
    kernel = dojoir.parse(f"""kernel f(N)
where N % 4 == 0
in  x: f32[N, 200]
out y: f32[N, 200]

N
| 200{mark}
| | y[{{0}}, {{1}}] = x[{{0}}, {{1}}]
""")
    listed = set(map(str, dojoir.moves(kernel)))
    fresh = dojoir.parse(dojoir.to_text(kernel).replace("kernel f(", "kernel g("))
    splits = [move for move in dojoir.candidates(kernel) if move.name == "split"]
    assert len(splits) > 8
    for move in splits:
        assert bool(dojoir.check(fresh, move)) == (str(move) in listed), str(move)
