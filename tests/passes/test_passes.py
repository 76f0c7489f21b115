"""Passes: what they did stands in the trace as moves, which hold; and `default_schedule` takes any kernel."""

from __future__ import annotations

from functools import cache
from random import Random

import pytest
from agreement import agree, random_arguments, small_sizes
from drawing import draw
from references import CASES, Case, inputs

import dojoir
from dojoir.backends.machine import Machine
from dojoir.passes import Pass, attempt, every, first, moves_named, repeat, sequence
from dojoir.passes.schedule.default_schedule import default_schedule

SMALLEST = list({case.kernel: case for case in reversed(CASES)}.values())

CHAIN = """kernel chain(N)
in  x: f32[N]
out y: f32[N]
tmp t: f32[N]
tmp u: f32[N]
tmp dead: f32[N]
tmp deader: f32[N]
N
| t[{0}] = 2 * x[{0}]
N
| dead[{0}] = t[{0}]
| deader[{0}] = dead[{0}]
N
| u[{0}] = t[{0}] + 1
N
| y[{0}] = t[{0}] * u[{0}]
"""


def texts(trace: dojoir.Trace) -> list[str]:
    return [str(move) for move in trace.moves]


@cache
def scheduled(kernel: dojoir.Kernel) -> dojoir.Trace:
    return dojoir.PASSES["default_schedule"].given("avx512").on(kernel)


def test_simplify_deletes_what_only_dead_statements_read() -> None:
    trace = dojoir.PASSES["simplify"].on(dojoir.parse(CHAIN))
    assert texts(trace) == ["delete_temporary(deader)", "delete_temporary(dead)"]
    assert len(trace.kernel.body) == 3


def test_a_pipeline_mixes_passes_and_moves() -> None:
    trace = dojoir.Trace(dojoir.parse(CHAIN))
    for element in dojoir.parse_pipeline("simplify; join_all, simplify\nvectorize(0)"):
        if isinstance(element, Pass):
            element(trace)
        else:
            trace.apply(element)
    assert texts(trace)[-3:] == ["reuse_dims(t, 0)", "reuse_dims(u, 0)", "vectorize(0)"]
    assert len(trace.kernel.body) == 1
    assert dojoir.certify(trace)


def test_errors_of_a_pipeline() -> None:
    with pytest.raises(dojoir.ArgumentError, match=r"there is no move or pass 'simplfy'.*'simplify'"):
        dojoir.parse_pipeline("simplfy")
    with pytest.raises(dojoir.ArgumentError, match="the pass join_all takes no arguments"):
        dojoir.parse_pipeline("join_all(0, 1)")


def test_an_attempt_is_whole_or_nothing() -> None:
    k = dojoir.kernels.load("relu")
    bold = sequence("split(0, 16)", "parallelize(0)", "parallelize(0)")
    assert texts(Pass("bold", attempt(bold)).on(k)) == []
    with pytest.raises(dojoir.IllegalMove):
        Pass("bold", bold).on(k)


@pytest.mark.parametrize("text", ["repeat(split(0, 2))", "try(repeat(split(0, 2)))", "repeat(try(split(0, 2)))"])
def test_repeat_of_what_never_ends_is_refused(text: str) -> None:
    trace = dojoir.Trace(dojoir.kernels.load("relu"))
    (step,) = dojoir.parse_pipeline(text)
    assert isinstance(step, Pass)
    if text.startswith("try"):
        step(trace)
    else:
        with pytest.raises(dojoir.ArgumentError, match=r"did not come to an end in \d+ rounds"):
            step(trace)
    assert trace.moves == ()


def test_repeat_ends_where_moves_go_round_in_circles() -> None:
    trace = Pass("round", repeat("swap_scopes(0)")).on(dojoir.kernels.load("transpose"))
    assert texts(trace) == ["swap_scopes(0)"] * 2
    assert trace.kernel == trace.start


def test_first_and_every() -> None:
    k = dojoir.parse(CHAIN)
    assert texts(Pass("one", first(moves_named("join_scopes"))).on(k)) == ["join_scopes(0, 1)"]
    assert len(Pass("all", every(moves_named("vectorize"))).on(k).moves) == 4


def test_a_pass_may_be_a_step_of_another() -> None:
    k = dojoir.parse(CHAIN)
    both = Pass("both", sequence(dojoir.PASSES["simplify"], dojoir.PASSES["join_all"], attempt("vectorize(7)")))
    assert texts(both.on(k)) == [
        "delete_temporary(deader)", "delete_temporary(dead)", "join_scopes(0, 1)", "join_scopes(0, 1)",
    ]  # fmt: skip


@pytest.mark.parametrize("case", SMALLEST, ids=str)
def test_default_schedule_of_the_library(case: Case) -> None:
    k = case.load()
    trace = scheduled(k)
    assert trace.moves
    assert dojoir.certify(trace)
    given = inputs(k, case.sizes)
    expected = dojoir.interpret(k, given, **case.sizes)
    assert agree(k, expected, dojoir.interpret(trace.kernel, given, **case.sizes), exact=False) is None


@pytest.mark.parametrize("name", ["matmul", "matmul_nt", "bmm"])
def test_register_tiles_with_edges(name: str) -> None:
    k = dojoir.kernels.load(name)
    trace = scheduled(k)
    assert any(str(move).startswith("tile(") for move in trace.moves)
    sizes = {"B": 2, "N": 19, "M": 70, "K": 5}
    sizes = {size: sizes[size] for size in k.runtime_sizes}
    given = inputs(k, sizes)
    expected = dojoir.interpret(k, given, **sizes)
    assert agree(k, expected, dojoir.compile(trace.kernel).run(given, **sizes), exact=False) is None


def test_default_schedule_gives_the_same_moves_again() -> None:
    for name in ("softmax", "attention"):
        first_time, again = (dojoir.PASSES["default_schedule"].on(dojoir.kernels.load(name)) for _ in range(2))
        assert texts(first_time) == texts(again)


@pytest.mark.parametrize("seed", range(12))
def test_default_schedule_of_random_kernels(seed: int) -> None:
    random = Random(seed)
    k = dojoir.parse(dojoir.to_text(draw("runnable", random)))
    trace = dojoir.PASSES["default_schedule"].on(k)
    assert dojoir.certify(trace)
    sizes = small_sizes(k, random)
    given = random_arguments(k, sizes, random, special=False)
    expected = dojoir.interpret(k, given, **sizes)
    assert agree(k, expected, dojoir.compile(trace.kernel).run(given, **sizes), exact=False) is None


# -- what it makes of typical kernels ------------------------------------------------------------------------
def runs_right(kernel: dojoir.Kernel, trace: dojoir.Trace, sizes: dict[str, int]) -> bool:
    given = inputs(kernel, sizes)
    expected = dojoir.interpret(kernel, given, **sizes)
    actual = dojoir.compile(trace.kernel).run(given, **sizes)
    return bool(dojoir.certify(trace)) and agree(kernel, expected, actual, exact=False) is None


@pytest.mark.parametrize("target", ["avx512", "avx2", "neon"])
def test_a_machine_gives_the_sizes_of_tiles(target: str) -> None:
    k = dojoir.kernels.load("matmul")
    pipeline = dojoir.parse_pipeline(f"default_schedule({target})")
    (element,) = pipeline
    assert isinstance(element, Pass)
    trace = element.on(k)
    rows, columns = {"avx512": (6, 64), "avx2": (6, 16), "neon": (6, 16)}[target]
    assert f"tile(0, 0.0, {rows}, {columns})" in texts(trace)
    assert runs_right(k, trace, {"N": 9, "M": 35, "K": 3})


def test_an_unknown_machine() -> None:
    with pytest.raises(dojoir.ArgumentError, match="did you mean 'avx512'"):
        dojoir.PASSES["default_schedule"].given("avx521").on(dojoir.kernels.load("relu"))


@pytest.mark.parametrize("name", ["conv2d", "grouped_conv2d"])
def test_convolutions_get_a_tile(name: str) -> None:
    k = dojoir.kernels.load(name, pad=1)
    trace = scheduled(k)
    assert dojoir.find(trace.kernel, '"y_tile[...] = fma(..., y_tile[...])" in (marked v in (marked u in @q))')
    assert trace.kernel.buffer("f_packed").order is not None
    sizes = {"N": 1, "G": 2, "C": 2, "O": 18, "H": 4, "W": 21, "KH": 3, "KW": 2}
    assert runs_right(k, trace, {size: sizes[size] for size in k.runtime_sizes})


def test_windows_of_a_pooling_are_read_from_lanes() -> None:
    k = dojoir.kernels.load("maxpool2d")
    trace = scheduled(k)
    assert dojoir.one(trace.kernel, '"y_tile[...] max= ..." in (marked v in @q)')
    assert runs_right(k, trace, {"N": 1, "C": 2, "H": 5, "W": 71, "KH": 2, "KW": 3})


@pytest.mark.parametrize(("name", "sizes"), [
    ("avgpool2d", {"N": 1, "C": 2, "H": 6, "W": 41, "KH": 3, "KW": 2}),
    ("depthwise_conv2d", {"N": 1, "C": 2, "H": 6, "W": 21, "KH": 2, "KW": 3}),
])  # fmt: skip
def test_windows_get_a_vector_of_results(name: str, sizes: dict[str, int]) -> None:
    k = dojoir.kernels.load(name)
    trace = scheduled(k)
    assert any(b.storage == "reg" and b.name.endswith("_tile") for b in trace.kernel.buffers)
    assert runs_right(k, trace, sizes)


def test_transposes_go_through_squares() -> None:
    k = dojoir.kernels.load("transpose")
    trace = scheduled(k)
    assert trace.kernel.buffer("x_tile").storage == "stack"
    assert len(dojoir.find(trace.kernel, "innermost marked v")) == 2
    assert runs_right(k, trace, {"N": 19, "M": 37})


@pytest.mark.parametrize("value", ["x[{j}, {i}] * 2", "x[{j}, {i}] + z[{i}, {j}]"])
def test_so_do_those_in_the_order_of_their_results(value: str) -> None:
    k = dojoir.parse(
        "kernel t(N, M)\nin  x: f32[N, M]\nin  z: f32[M, N]\nout y: f32[M, N]\n\n"
        f"M @i\n| N @j\n| | y[{{i}}, {{j}}] = {value}\n"
    )
    trace = scheduled(k)
    assert trace.kernel.buffer("x_tile").storage == "stack"
    assert len(dojoir.find(trace.kernel, "innermost marked v")) == 2
    assert runs_right(k, trace, {"N": 19, "M": 37})


def test_what_goes_down_columns_is_not_joined_with_what_goes_along_rows() -> None:
    k = dojoir.parse(
        "kernel e(N)\nin  x: f32[N, N]\nout a: f32[N]\nout b: f32[N]\n\n"
        "N @i\n| a[{i}] = -inf\n| N @j\n| | a[{i}] max= x[{i}, {j}]\n"
        "N @k\n| b[{k}] = inf\n| N @l\n| | b[{k}] min= x[{l}, {k}]\n"
    )
    trace = scheduled(k)
    assert not any(move.name == "join_scopes" for move in trace.moves)
    assert len(dojoir.find(trace.kernel, "marked v")) == 3  # along a row, and across columns twice
    assert runs_right(k, trace, {"N": 37})


def test_sums_of_rows_go_through_the_rows() -> None:
    k = dojoir.kernels.load("reduce_mean_0")
    trace = scheduled(k)
    assert dojoir.one(trace.kernel, "marked v in @i").text.startswith("min(4096")
    assert runs_right(k, trace, {"N": 5, "M": 4100})


def test_a_scope_that_runs_too_seldom_is_not_shared_out() -> None:
    k = dojoir.kernels.load("conv2d").specialize(N=1)
    assert dojoir.one(scheduled(k).kernel, "marked p has marked u").text.startswith("(O + 31) // 32")
    one_core = Machine("small", vector_bytes=16, registers=16, cores=1)
    trace = dojoir.Trace(dojoir.kernels.load("softmax"))
    default_schedule(trace, one_core)
    assert not any(move.name == "parallelize" for move in trace.moves)
