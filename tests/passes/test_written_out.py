"""Sums that are written out, `s = s + x`: accumulations where their order is free, else as they are."""

import pytest

import dojoir

SUMS = """kernel sums(N, M)
in  x: f32[N, M]
out m: f32[N]
out s: f32[N]

N @i
| m[{i}] = -inf
| M @j
| | m[{i}] = max(m[{i}], x[{i}, {j}])
| s[{i}] = 0
| M @k
| | s[{i}] = exp(x[{i}, {k}]) + s[{i}]
"""


def test_the_default_schedule_runs_them_in_lanes() -> None:
    trace = dojoir.PASSES["default_schedule"].given("avx512").on(dojoir.parse(SUMS))
    moves = [str(move) for move in trace.moves]
    assert "use_rule(0.1.0, accumulate_max)" in moves and "use_rule(0.3.0, accumulate_turned)" in moves
    assert str(trace.kernel).count(": v") == 2 and dojoir.certify(trace)


@pytest.mark.parametrize(
    "text",
    [
        SUMS.replace("N, M)\n", "N, M)\nfp strict\n").replace("max(m[{i}], x[{i}, {j}])", "m[{i}] + x[{i}, {j}]"),
        SUMS.replace("max(m[{i}],", "max(m[{i}] * 2,").replace("+ s[{i}]", "* x[{i}, {k}] - s[{i}]"),
    ],
    ids=["strict", "other steps"],
)
def test_others_stay_as_they_are(text: str) -> None:
    trace = dojoir.PASSES["default_schedule"].given("avx512").on(dojoir.parse(text))
    assert not any(move.name == "use_rule" for move in trace.moves)


def test_a_running_sum_is_no_whole_sum() -> None:
    text = "kernel r(N, M)\nin x: f32[N, M]\nout y: f32[N, M]\ntmp s: f32[N]\nN\n| s[{0}] = 0\n| M\n"
    text += "| | s[{0}] = s[{0}] + x[{0}, {1}]\n| | y[{0}, {1}] = s[{0}]\n"
    trace = dojoir.Trace(dojoir.parse(text))
    from dojoir.passes.schedule.forms.plain import accumulate

    accumulate(trace)
    assert trace.moves == ()


def test_a_refused_mark_names_the_rule() -> None:
    hint = dojoir.suggest(dojoir.parse(SUMS), "vectorize(@k)").hint
    assert hint == "vectorize(@k) is legal after use_rule(0.3.0, accumulate_turned)"
