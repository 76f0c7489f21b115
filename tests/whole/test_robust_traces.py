"""What attackers and newcomers tripped on with traces: none switches the checker off, and copies are their own."""

from __future__ import annotations

import copy
import json
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hostile_values import PAIR
from robust import shell

import dojoir

ILLEGAL = "reuse_dims(t, 0)"


SKEWED = """\
kernel skewed(N, M)
inout a: f32[N, M]

N - 1
| M - 1
| | a[{0} + 1, {1}] = a[{0}, {1} + 1] + 1
"""


def unsafe_trace() -> dojoir.Trace:
    """A trace whose second move is illegal, and whose last kernel is well-formed all the same."""
    trace = dojoir.Trace(dojoir.parse(SKEWED))
    trace.apply("label(0, i)")
    trace.apply("swap_scopes(@i)", unsafe=True)
    return trace


# -- 1: a trace cannot switch the checker off ----------------------------------------------------------------
def test_1_an_unsafe_trace_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    unsafe_trace().save(path)
    with pytest.raises(dojoir.ArgumentError, match=r"without the checker \(move 2\).*unsafe=True") as error:
        dojoir.Trace.load(path)
    assert error.value.diagnostic.code == "unsafe-trace"
    again = dojoir.Trace.load(path, unsafe=True)
    assert not again.is_safe and again.steps[1].unsafe and "unsafe" in repr(again)
    assert again.unchecked is not None and "move 2" in again.unchecked
    assert dojoir.Trace(dojoir.parse(PAIR)).unchecked is None
    assert not dojoir.certify(again)


def test_1_a_forged_mark_does_not_let_an_illegal_move_in(tmp_path: Path) -> None:
    data = unsafe_trace().to_json()
    for forged in ([], [0], [True], [1.0], ["1"], [-1], [7], [[1]], None, {"1": 1}, [0, 0, 1]):
        with pytest.raises(dojoir.DojoError):
            dojoir.Trace.from_json({**data, "unsafe": forged})


@pytest.mark.parametrize("question", [("--emit", "c"), ("--run", "-s", "N=8", "-s", "M=8"), ("--cost",), ()])
def test_1_the_shell_refuses_it_and_says_so_wherever_it_is_used(tmp_path: Path, question: tuple[str, ...]) -> None:
    path = tmp_path / "t.json"
    unsafe_trace().save(path)
    refused = shell("--replay", str(path), *question)
    assert refused.returncode == 1 and "error[unsafe-trace]" in refused.stderr and not refused.stdout
    taken = shell("--replay", str(path), "--unsafe", *question)
    assert (
        taken.returncode == 0
        and "warning[unsafe-trace]: skewed was made without the checker by move 2" in taken.stderr
    )


def test_1_moves_made_unsafe_in_the_shell_are_told(tmp_path: Path) -> None:
    made = shell("-", "-p", ILLEGAL, "--unsafe", "--json", "--emit", "c", stdin=PAIR)
    assert made.returncode == 0 and json.loads(made.stderr)["warning"]["code"] == "unsafe-trace"


def test_1_the_start_is_compared() -> None:
    trace = dojoir.Trace(dojoir.parse(PAIR))
    data = trace.to_json()
    other = dojoir.parse(PAIR.replace("* 2", "* 3"))
    for key, value in (("start", other.hash), ("start", ""), ("kernel", dojoir.to_text(other).splitlines())):
        with pytest.raises(dojoir.ArgumentError) as error:
            dojoir.Trace.from_json({**data, key: value})
        assert error.value.diagnostic.code == "stale-trace"
    with pytest.raises(dojoir.ArgumentError, match="not a dojoir trace"):
        dojoir.Trace.from_json({key: value for key, value in data.items() if key != "start"})


def test_1_an_unsafe_trace_is_no_schedule(tmp_path: Path) -> None:
    with pytest.raises(dojoir.ArgumentError, match="made without the checker by move 2"):
        dojoir.schedules.store(unsafe_trace(), "c", tmp_path)
    assert not list(tmp_path.iterdir())


def hostile_json(data: Any, rng: random.Random) -> Any:
    """Plain data like a trace, one piece of it replaced by something else."""
    junk: Any = rng.choice(
        [
            None,
            True,
            -1,
            1 << 70,
            1e400,
            "",
            "\0",
            "x" * 999,
            [],
            [[]],
            {},
            {"unsafe": [0]},
            "split(0, 4)",
            "reuse_dims(t, 0)",
            ["kernel"],
            "try(" * 300 + ")" * 300,
        ]
    )
    if isinstance(data, dict) and data and rng.random() < 0.8:
        key = rng.choice(sorted(data))
        return {**data, key: hostile_json(data[key], rng)}
    if isinstance(data, list) and data and rng.random() < 0.8:
        i = rng.randrange(len(data))
        return [*data[:i], hostile_json(data[i], rng), *data[i + 1 :]]
    return junk


def test_1_no_damaged_trace_is_taken_for_another_kernel() -> None:
    """Whatever a file says, it is refused with a clear error or gives the kernel that was saved, by legal moves."""
    rng = random.Random(18)
    trace = dojoir.Trace(dojoir.parse(PAIR))
    for move in ("join_scopes(0, 1)", ILLEGAL, "split(0, 16)"):
        trace.apply(move)
    taken = 0
    for _ in range(400):
        data = hostile_json(trace.to_json(), rng)
        try:
            again = dojoir.Trace.from_json(data)
        except dojoir.DojoError:
            continue
        taken += 1
        assert again.is_safe and again.start == trace.start and again.kernel == trace.kernel
    assert taken < 40


# -- 10: traces that share steps -----------------------------------------------------------------------------
COPIES: dict[str, Callable[[dojoir.Trace], dojoir.Trace]] = {
    "Trace.copy": dojoir.Trace.copy,
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "pickle": lambda trace: pickle.loads(pickle.dumps(trace)),
}


@pytest.mark.parametrize("how", COPIES)
def test_10_a_copy_is_a_trace_of_its_own(how: str) -> None:
    trace = dojoir.Trace(dojoir.parse(PAIR))
    trace.apply("split(@i, 4)")
    other = COPIES[how](trace)
    assert type(other) is dojoir.Trace and other.moves == trace.moves and other.kernel == trace.kernel
    other.apply("split(@j, 8)")
    assert len(trace.moves) == 1 and len(other.moves) == 2
    trace.undo()
    trace.undo() if trace.moves else None
    assert len(trace.moves) == 0 and len(other.moves) == 2 and other.replay() == other.kernel


def test_10_then_gives_a_new_trace() -> None:
    trace = dojoir.Trace(dojoir.parse(PAIR))
    one = trace.then("split(@i, 4)")
    two = one.then("split(@j, 8)")
    assert [len(t.moves) for t in (trace, one, two)] == [0, 1, 2]
    assert two.steps[0] is one.steps[0]
    with pytest.raises(dojoir.IllegalMove):
        trace.then(ILLEGAL)
    assert not trace.moves and not trace.then(ILLEGAL, unsafe=True).is_safe


def test_10_steps_are_immutable() -> None:
    trace = dojoir.Trace(dojoir.parse(PAIR)).then("split(@i, 4)")
    with pytest.raises(AttributeError):
        setattr(trace.steps[0], "unsafe", True)  # noqa: B010
    assert isinstance(trace.steps, tuple)
