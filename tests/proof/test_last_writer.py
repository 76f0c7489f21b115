"""The last writer of an element: the rewrite that finds it, and that what compares with it is independent."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

import dojoir
from dojoir.errors import Diagnostic
from dojoir.ir.nodes import Apart, Kernel
from dojoir.proof.certificate import InstanceMap, LastWriter
from dojoir.proof.claim import Claim
from dojoir.proof.core.check import find_failure
from dojoir.sets.distinct_writes import distinct_writes

ROWS = """kernel rows(N, S, D)
in    at: i64[N]
in    x: f32[N, D]
inout y: f32[S, D]

N @i
| D @d
| | y[at[{i}], {d}] = x[{i}, {d}]
"""
KEPT = """kernel kept(N, S)
in    at: i32[N]
in    keep: bool[N]
in    x: f32[N]
inout y: f32[S]

N @i
| if keep[{i}]
| | y[at[{i}]] = x[{i}]
"""
PLANES = """kernel planes(M, N, S, D)
in    at: i64[M, N]
in    to: i64[N]
in    x: f32[M, N, D]
inout y: f32[M, S, D, S]

M @m
| N @i
| | D @d
| | | y[{m}, at[{m}, {i}], {d}, to[{i}]] = x[{m}, {i}, {d}]
"""
COLUMNS = """kernel columns(N, S, D)
in    at: i64[N, D]
in    x: f32[N, D]
inout y: f32[S, D]

N @i
| D @d
| | y[at[{i}, {d}], {d}] = x[{i}, {d}]
"""
TRIANGLE = ROWS.replace("D @d", "{i} + 1 @d").replace("(N, S, D)", "(N, S, D)\nwhere N <= D")
TWO = """kernel two(N, S, D)
in    at: i64[N]
in    from: f32[S]
inout y: f32[S, D]
out   z: f32[N]

N @i
| D @d
| | y[at[{i}], {d}] = from[at[{i}]]
| z[{i}] = 2
"""
BEGUN = ROWS.replace("inout y", "out y").replace("N @i", "S\n| D\n| | y[{0}, {1}] = 0\nN @i")
CHOSEN = """kernel chosen(N, S, D)
in    at: i32[N]
in    keep: bool[D]
in    x: f32[N]
inout y: f32[S]

N @i
| D @d
| | y[at[{i}]] = x[{i}] if keep[{d}]
"""
AT = "keep_last_writer(@i, 0.0.0, last)"

LEGAL = [
    (ROWS, AT),
    (ROWS, "keep_last_writer(0.0, 0.0.0, last)"),
    (KEPT, "keep_last_writer(@i, 0.0, last, place)"),
    (PLANES, "keep_last_writer(@i, 0.0.0.0, last)"),
    (PLANES, "keep_last_writer(@m, 0.0.0.0, last)"),
    (COLUMNS, AT),
    (COLUMNS, "keep_last_writer(0.0, 0.0.0, last)"),
    (ROWS.replace("at[{i}], {d}", "at[{i}], {d} + {i} - {i}"), AT),
    (TWO, AT),
    (TRIANGLE, AT),
    (BEGUN, "keep_last_writer(@i, 1.0.0, last)"),
    (CHOSEN, "keep_last_writer(@i, 0.0.0, last, place)"),
]


def inputs(kernel: Kernel, sizes: dict[str, int], seed: int = 0) -> dict[str, np.ndarray]:
    """Arguments whose indices meet often; where nothing is kept, an index is out of range."""
    random = np.random.default_rng(seed)
    given = {}
    for buffer in kernel.arguments:
        shape = tuple(dim.extent.evaluate(sizes) for dim in buffer.dims)
        if buffer.dtype.is_integer:
            given[buffer.name] = random.integers(0, sizes["S"], shape).astype(str(buffer.dtype).replace("i", "int"))
        elif buffer.role != "out":
            given[buffer.name] = random.random(shape) < 0.5 if buffer.name == "keep" else random.random(shape, "f")
    if kernel.name == "kept":
        given["at"][~given["keep"]] = 1 << 20
    return given


SIZES = {"M": 3, "N": 9, "S": 4, "D": 10}


@pytest.mark.parametrize(("text", "move"), LEGAL)
def test_the_core_proves_it_and_the_values_stay(text: str, move: str) -> None:
    kernel = dojoir.parse(text)
    trace = dojoir.Trace(kernel)
    trace.apply(move)
    assert dojoir.certify(trace)
    sizes = {size.name: SIZES[size.name] for size in kernel.sizes}
    for seed in range(5):
        given = inputs(kernel, sizes, seed)
        old, new = (dojoir.interpret(k, given, **sizes) for k in (kernel, trace.kernel))
        for name in old:
            assert np.array_equal(old[name], new[name]), name
    made = trace.steps[-1].move
    back = made.inverse(kernel)
    again = dojoir.Trace(trace.kernel)
    again.apply(back)
    assert again.kernel == kernel
    assert dojoir.certify(again)


@pytest.mark.parametrize(
    ("text", "move", "marks"),
    [
        (ROWS, AT, ["parallelize(@i)"]),
        (ROWS, AT, ["swap_scopes(@i)", "bind(@d, gx)"]),
        (ROWS, AT, ["split(@i, 4)", "bind(@i, gx)", "bind(2.0, bx)", "vectorize(@d)"]),
        (ROWS, AT, ["reverse_scope(@i)", "vectorize(@d)"]),
        (ROWS, AT, ["split(@i, 3)", "swap_scopes(2.0)", "parallelize(2.0)"]),
        (ROWS, AT, ["cut(@i, N // 2)", "parallelize(2)", "parallelize(3)"]),
        (KEPT, "keep_last_writer(@i, 0.0, last, place)", ["parallelize(@i)"]),
        (KEPT, "keep_last_writer(@i, 0.0, last, place)", ["split(@i, 64)", "bind(@i, gx)", "bind(3.0, bx)"]),
        (PLANES, "keep_last_writer(@m, 0.0.0.0, last)", ["parallelize(@i)", "parallelize(@m)"][1:]),
        (PLANES, "keep_last_writer(@i, 0.0.0.0, last)", ["parallelize(@i)"]),
        (PLANES, "keep_last_writer(@i, 0.0.0.0, last)", ["parallelize(@m)"]),
        (COLUMNS, AT, ["bind(@i, gx)", "bind(@d, bx)"][:1]),
    ],
)
def test_iterations_are_independent_and_stay_so(text: str, move: str, marks: list[str]) -> None:
    trace = dojoir.Trace(dojoir.parse(text))
    trace.apply(move)
    for mark in marks:
        trace.apply(mark)
    assert dojoir.certify(trace)
    dojoir.prove(dojoir.parse(dojoir.to_text(trace.kernel)))


def test_maxima_are_taken_by_threads() -> None:
    trace = dojoir.Trace(dojoir.parse(ROWS))
    trace.apply(AT)
    trace.apply("bind(1, gx)")
    assert dojoir.certify(trace)


# -- what must be refused ------------------------------------------------------------------------------------
ITSELF = """kernel itself(N)
inout y: i32[N]

N @i
| y[y[{i}]] = {i}
"""
KNOWN = ROWS.replace("in    at", "inout at")
REFUSED = [
    ("the value reads it", ROWS.replace("= x[{i}, {d}]", "= x[{i}, {d}] + y[0, {d}]"), "written-inside"),
    ("an index reads it", ITSELF, "written-inside"),
    ("another statement writes it", ROWS + "| y[0, 0] = 1\n", "used-outside"),
    ("another statement reads it", TWO.replace("= 2", "= y[0, 0]"), "used-outside"),
    ("the indices are written inside", KNOWN + "| at[{i}] = 0\n", "written-inside"),
    ("another iteration writes them", KNOWN + "| at[(N - 1) - {i}] = 0\n", "written-inside"),
    (
        "the condition is written",
        KEPT.replace("in    keep", "inout keep") + "| keep[0] = 0 == 0\n",
        "written-inside",
    ),
    ("a guard is between", ROWS.replace("| D @d\n| |", "| if {i} < 5\n| | D @d\n| | |"), "another-form"),
    ("it accumulates", ROWS.replace(" = x", " += x"), "another-form"),
]


@pytest.mark.parametrize(("text", "code"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_what_is_not_so_is_refused(text: str, code: str) -> None:
    kernel = dojoir.parse(text)
    number = next(k for k, site in enumerate(kernel.sites) if site.statement.scatters)
    with pytest.raises(dojoir.DojoError):
        dojoir.apply(kernel, f"keep_last_writer(@i, {'.'.join(map(str, kernel.sites[number].path))}, last)")
    places = ("place",) if kernel.sites[number].statement.condition is not None else ()
    failure = find_failure(Claim(kernel, kernel, InstanceMap((), rule=LastWriter(number, 0, (), "last", places))))
    assert isinstance(failure, Diagnostic)
    assert failure.code == code


def claim(text: str, move: str) -> Claim:
    kernel = dojoir.parse(text)
    done = dojoir.parse_move(move).rewrite(kernel)
    return Claim(kernel, done.kernel, done.instances)


WRONG_TEXTS = [
    (ROWS, AT, "= -1", "= 0"),  # right, and not what the rule says
    (ROWS, AT, "= -1", "= 3"),
    (ROWS, AT, "= -1", "= N"),
    (ROWS, AT, "max=", "min="),
    (ROWS, AT, "max= {0}", "max= N - 1 - {0}"),
    (ROWS, AT, "max=", "="),
    (ROWS, AT, "== {i}", "== {d}"),
    (ROWS, AT, "== {i}", "== {i} + 1"),
    (ROWS, AT, "== {i}", "!= {i}"),
    (ROWS, AT, "== {i}", ">= {i}"),
    (ROWS, AT, "last[at[{0}]] max", "last[0] max"),
    (ROWS, AT, "if last[at[{i}]]", "if last[0]"),
    (ROWS, AT, "N\n|", "N - 1\n|"),
    (ROWS, AT, "x[{i}, {d}]", "x[{i}, 0]"),
    (ROWS, AT, "last: i64[S]", "last: i32[S]"),
    (ROWS, AT, "last: i64[S]", "last: i64[S + 1]"),
    (KEPT, "keep_last_writer(@i, 0.0, last, place)", "max= {0} if keep[{0}]", "max= {0}"),
    (KEPT, "keep_last_writer(@i, 0.0, last, place)", "if keep[{i}] and last", "if last"),
    (KEPT, "keep_last_writer(@i, 0.0, last, place)", " and ", " or "),
    (KEPT, "keep_last_writer(@i, 0.0, last, place)", "select(keep[{0}], at[{0}], 0)", "at[{0}]"),
    (PLANES, "keep_last_writer(@m, 0.0.0.0, last)", "max= {0}", "max= {1}"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "move", "old", "new"), WRONG_TEXTS)
def test_another_kernel_is_not_what_the_rule_gives(text: str, move: str, old: str, new: str) -> None:
    right = claim(text, move)
    written = str(right.after)
    assert old in written
    wrong = dojoir.parse(written.replace(old, new))
    assert find_failure(right) is None
    for there, back in ((right.before, wrong), (wrong, right.before)):
        certificate = replace(right.certificate, backward=there is wrong)
        assert find_failure(Claim(there, back, certificate)) is not None


@pytest.mark.parametrize(
    "change",
    [
        {"site": 1},
        {"site": -1},
        {"depth": 1},
        {"depth": -1},
        {"depth": 2},
        {"free": ()},
        {"free": (0,)},
        {"free": (1, 2)},
        {"free": (-1,)},
        {"last": "y"},
        {"last": "N"},
        {"last": "other"},
        {"places": ("place",)},
    ],
)
def test_another_certificate_is_refused(change: dict[str, object]) -> None:
    right = claim(ROWS, AT)
    assert isinstance(right.certificate.rule, LastWriter)
    use = replace(right.certificate.rule, **change)  # type: ignore[arg-type]
    assert find_failure(Claim(right.before, right.after, replace(right.certificate, rule=use))) is not None


@pytest.mark.parametrize(
    "text",
    [
        COLUMNS,  # an index from data names `d`
        TRIANGLE,
        ROWS.replace("D @d", "D - 1 @d"),  # it may not run at all, and then no index must be looked at
        ROWS.replace(", {d}]", ", ({d} + {i}) % 2]").replace("(N, S, D)", "(N, S, D)\nwhere D >= 2"),
        CHOSEN,
    ],
)
def test_a_scope_is_not_free_that_decides(text: str) -> None:
    """With `last` of the rows alone, an iteration would win where it writes nothing."""
    kernel = dojoir.parse(text)
    move = next(m for m in dojoir.moves(kernel) if str(m).startswith("keep_last_writer(0, "))
    done = move.rewrite(kernel)
    use = done.instances.rule
    assert isinstance(use, LastWriter)
    assert use.free == ()
    wrong = replace(done.instances, rule=replace(use, free=(1,)))
    failure = find_failure(Claim(kernel, done.kernel, wrong))
    assert isinstance(failure, Diagnostic)
    assert failure.code in ("another-form", "dependent-extent", "may-not-run")


# -- the fact by itself --------------------------------------------------------------------------------------
FACT = """kernel fact(N, S)
in    at: i64[N]
in    b: i64[N]
in    x: f32[N]
in    last: i64[S]
inout y: f32[S]

N : p @i
| y[at[{i}]] = x[{i}] if last[at[{i}]] == {i}
"""
NO_FACT = [
    ("another element is compared", "if last[at", "if last[b"),
    ("with a number that iterations share", "== {i}", "== {i} // 2"),
    ("the number wraps around", "== {i}", "== 4611686018427387904*{i}"),
    ("the number may wrap around", "== {i}", "== 2*{i}"),
    ("with one of them", "== {i}", "== 3"),
    ("it may differ", "== {i}", "<= {i}"),
    ("one of two conditions is enough", "== {i}", "== {i} or x[{i}] > 0"),
    ("it does not hold", "if last[at[{i}]] == {i}", "if not (last[at[{i}]] == {i})"),
    ("the comparison wraps around", "last: i64", "last: i8"),
    ("it is rounded", "last: i64", "last: f32"),
    ("it is written inside", "N : p @i\n", "N : p @i\n| last[at[{i}]] = {i}\n"),
    ("it is written after", "== {i}\n", "== {i}\n| last[{i} % 2] = 7\n"),
    ("another statement compares the same", "== {i}\n", "== {i}\n| y[at[{i}]] = 2 if last[at[{i}]] == {i}\n"),
    ("another array is compared", "== {i}\n", "== {i}\n| y[at[{i}]] = 2 if b[at[{i}]] == {i}\n"),
    ("another statement reads what is written", "== {i}\n", "== {i}\n| z[{i}] = y[0]\n"),
    ("it compares what it writes", "if last[at[{i}]]", "if i64(y[at[{i}]])"),
    ("it is written and compared", "y[at[{i}]] = x[{i}]", "last[at[{i}]] = {i} + 1"),
]  # fmt: skip


def fact(old: str = "", new: str = "") -> Kernel:
    text = FACT.replace(old, new)
    if "| last[" in text:
        text = text.replace("in    last", "inout last")
    if " z[" in text:
        text = text.replace("inout y", "out z: f32[N]\ninout y")
    return dojoir.parse(text.replace("(N, S)", "(N, S)\nwhere S >= 2, N <= S"))


def test_whoever_wrote_it_before_the_iterations_are_independent() -> None:
    dojoir.prove(fact())
    assert distinct_writes(fact()) == {0: Apart("compared", "last", (0,), "=")}
    dojoir.prove(fact("x[{i}] if ", "x[{i}] if x[{i}] > 0 and "))
    dojoir.prove(fact("y[at[{i}]] = x", "y[at[{i}]] += x"))
    dojoir.prove(dojoir.parse(str(fact("== {i}", "== 3*{i} + 1")).replace("N, S", "N = 1000, S")))


@pytest.mark.parametrize(("old", "new"), [case[1:] for case in NO_FACT], ids=[case[0] for case in NO_FACT])
def test_what_does_not_tell_the_writer_is_refused(old: str, new: str) -> None:
    assert old in FACT
    kernel = fact(old, new)
    with pytest.raises(dojoir.KernelError) as caught:
        dojoir.prove(kernel)
    assert caught.value.diagnostic.code == "shared-element"


AROUND = """kernel around(M, N, S)
in    at: i64[M, N]
in    x: f32[M, N]
inout y: f32[M, S]
tmp   last: i64[S]

M @m
| S
| | last[{1}] = -1
| N
| | last[at[{m}, {1}]] max= {1}
| N @i
| | y[{m}, at[{m}, {i}]] = x[{m}, {i}] if last[at[{m}, {i}]] == {i}
"""


def test_what_compares_may_be_computed_anew_in_a_scope_around() -> None:
    kernel = dojoir.parse(AROUND)
    assert list(distinct_writes(kernel)) == [2]
    dojoir.prove(dojoir.apply(kernel, "parallelize(@i)"))
    dojoir.prove(dojoir.apply(kernel, "parallelize(@m)"))
    together = AROUND.replace("y[{m}, at", "y[0, at")  # several iterations of the scope around write one element
    assert not distinct_writes(dojoir.parse(together))
    for scope in ("@i", "@m"):
        with pytest.raises(dojoir.DojoError):
            dojoir.apply(dojoir.parse(together), f"parallelize({scope})")


@pytest.mark.parametrize(
    "text",
    [
        AROUND.replace("| N @i", "| last[0] = 5\n| N @i") + "| | last[{i} % 2] = 4\n",
        AROUND + "| | last[0] = 4\n",
    ],
)
def test_a_writer_between_the_instances_is_seen(text: str) -> None:
    kernel = dojoir.parse(text.replace("(M, N, S)", "(M, N, S)\nwhere S >= 2"))
    assert not distinct_writes(kernel)
    with pytest.raises(dojoir.DojoError):
        dojoir.apply(kernel, "parallelize(@i)")


def test_two_nests_share_what_compares() -> None:
    text = AROUND + AROUND[AROUND.index("M @m") :].replace("@m", "@n").replace("{m}", "{n}").replace(
        "@i", "@j"
    ).replace("{i}", "{j}")
    assert not distinct_writes(dojoir.parse(text))  # each by itself would be, but they are asked together


def test_moves_that_break_the_order_are_refused() -> None:
    trace = dojoir.Trace(dojoir.parse(ROWS))
    trace.apply(AT)
    for move in ("swap_siblings(0)", "swap_siblings(1)", "parallelize(1)", "join_scopes(1, 2)"):
        with pytest.raises(dojoir.DojoError):
            dojoir.apply(trace.kernel, move)


FAMILIES = dict.fromkeys(
    ("split", "swap_scopes", "parallelize", "reverse_scope", "cut", "split_dim", "vectorize"), 1
)


@pytest.mark.parametrize("seed", range(6))
def test_random_uses_keep_every_bit(seed: int) -> None:
    """What the move offers on texts of many shapes, each against the interpreter."""
    random = Random(seed)
    texts = [text for text, _ in LEGAL]
    kernel = dojoir.parse(random.choice(texts))
    sizes = {size.name: SIZES[size.name] for size in kernel.sizes}
    trace = dojoir.Trace(kernel)
    offered = [m for m in dojoir.moves(kernel) if str(m).startswith("keep_last_writer")]
    trace.apply(random.choice(offered))
    for _ in range(4):
        for move in dojoir.search.draw(trace.kernel, random, 1, weights=FAMILIES, listed=True):
            trace.apply(move)
    given = inputs(kernel, sizes, seed)
    for name, array in dojoir.interpret(kernel, given, **sizes).items():
        assert np.array_equal(array, dojoir.interpret(trace.kernel, given, **sizes)[name])
