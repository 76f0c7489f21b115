"""The tasks that come with dojoir, and what a file of one may say."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from folders import ROOT
from written_answers import TEXTS

import dojoir
from dojoir.ir.text import canonical_text
from dojoir.records.likeness import lines
from dojoir.tasks import Goal, TaskLimits, find_tasks, own_tasks, question, read_task, readiness, task_of
from dojoir.tasks.judging import speeds_without
from dojoir.tasks.task import KINDS, SPLITS, replayed, without

pytest.importorskip("sqlalchemy", reason="needs the extra agents")

TASKS = {task.name: task for task in own_tasks()}


def test_there_are_enough_of_each_kind_in_each_split() -> None:
    counts = Counter((task.kind, task.split) for task in TASKS.values())
    assert len(TASKS) >= 40
    assert all(counts[kind, split] for kind in KINDS for split in SPLITS)


def test_no_kernel_is_in_two_splits() -> None:
    """Neither by its name, nor by the text without names: a copy under another name would be one."""
    homes: dict[str, set[str]] = {}
    for task in TASKS.values():
        shape = repr(sorted(lines(dojoir.to_text(task.kernel)).items()))
        for key in (task.family, task.kernel.name, task.kernel.hash, shape):
            homes.setdefault(key, set()).add(task.split)
    assert not {key: split for key, split in homes.items() if len(split) > 1}


@pytest.mark.parametrize("folder", ["polybench", "practice", "unseen"])
def test_no_text_of_a_task_is_one_that_is_only_reported_on(folder: str) -> None:
    public = {
        canonical_text(dojoir.load(path)): path.name
        for path in sorted((ROOT / "benchmarks" / folder).glob("*.dojo"))
    }
    assert len(public) > 20
    own = [task for task in TASKS.values() if task.source == "own"]
    assert not {task.name: found for task in own if (found := public.get(canonical_text(task.kernel)))}


@pytest.mark.parametrize("name", [name for name, task in TASKS.items() if task.kind in ("diagnose", "debug")])
def test_one_move_of_a_trace_is_the_one(name: str) -> None:
    """Of a pipeline that is refused, it is legal without the move that is; else a model of the costs, which runs
    nothing, holds one of the moves to be worth leaving out, by far for a diagnosis."""
    task = TASKS[name]
    _, refused = replayed(task.kernel, task.given.moves)
    if refused is not None:
        assert task.kind == "debug"
        assert replayed(task.kernel, without(task.given.moves, refused[0]))[1] is None
        return
    found = speeds_without(task, "static")
    ranked = sorted((one.median for one in found.values()), reverse=True)
    assert ranked[0] > (1.15 if task.kind == "diagnose" else 0.99) and ranked[0] > 1.1 * ranked[1]


def test_each_text_that_hinders_has_one_that_does_not() -> None:
    assert set(TEXTS) == {name for name, task in TASKS.items() if task.kind == "reformulate"}


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_that_was_written_for_a_task_computes_the_same(name: str) -> None:
    """With inputs of every distribution; an order of sums that only algebra allows would be told at once."""
    kernel = dojoir.parse(TEXTS[name])
    assert kernel.fp == TASKS[name].kernel.fp and kernel != TASKS[name].kernel
    report = dojoir.verify(kernel, TASKS[name].kernel, seeds=[1, 2])
    assert report.ok, str(report)


def test_what_a_task_is_ready_for_is_computed() -> None:
    task = next(one for one in own_tasks() if one.name == "optimise-softmax")
    assert readiness(task) == {"benchmark-ready": (), "rl-ready": (), "sft-ready": ()}
    open_one = replace(task, given=replace(task.given, sizes={"N": 4}), budget=TaskLimits(), split="held-out")
    assert readiness(replace(open_one, goal=Goal(("proved",))))["benchmark-ready"] == (
        "every size is given", "states or seconds are limited", "a measurement decides",
    )  # fmt: skip
    found = [readiness(one) for one in own_tasks()]
    assert [sum(not one[use] for one in found) for use in found[0]] == [37, 29, 23]


def test_a_name_stands_for_tasks() -> None:
    assert {task.split for task in find_tasks(["held-out"])} == {"held-out"}
    assert [task.name for task in find_tasks(["debug-softmax", "debug-softmax"])] == ["debug-softmax"]
    assert {task.kind for task in find_tasks(["all"], "reformulate")} == {"reformulate"}
    folder = Path(dojoir.__file__).parent / "tasks"
    assert {task.name for task in find_tasks([str(folder)])} == set(TASKS)
    for names, kind in ((["heldout"], None), (["debug-softmax"], "optimise"), ([str(ROOT / "docs")], None)):
        with pytest.raises(dojoir.ArgumentError) as error:
            find_tasks(names, kind)
        assert error.value.diagnostic.code == "unknown-task"
    with pytest.raises(dojoir.ArgumentError, match="held-out"):
        find_tasks(["heldout"])


GOOD = """
name = "mine"
kind = "diagnose"
split = "dev"
family = "relu"
about = "A trace."
source = "library"
given = { kernel = "library:relu", sizes = { N = 64 }, moves = '''
split(0, 8)   # a comment
vectorize(0.0)
''' }
goal = { gates = ["named", "bound"] }
budget = { states = 4 }
"""

WRONG = {
    'kind = "diagnose"': ('kind = "win"', r"\.kind: it is one of optimise, diagnose, debug, reformulate"),
    'split = "dev"': ("", r"it has no field split"),
    'family = "relu"': ('family = ""', r"\.family"),
    'name = "mine"': ('name = "../mine"', r"\.name"),
    "states = 4": ("states = 0", r"\.budget\.states"),
    "budget = { states = 4 }": ("", r"\.budget: it has states"),
    '"named", "bound"': ('"bound", "named"', r"in this order: named, bound"),
    '["named", "bound"]': ('["fast"]', r"'fast' is no gate of diagnose"),
    "N = 64": ("M = 64", r"\.given\.sizes: relu has the runtime sizes N"),
    "{ N = 64 }": ("{ N = 0 }", r"N"),
    "library:relu": ("library:rleu", r"relu"),
    "split(0, 8)": ("split(7, 8)", r"\.given\.moves: move 0 is illegal"),
    'about = "A trace."': ('about = "A trace."\nprice = 3', r"unknown field price"),
    'source = "library"': ('source = "own"', r"\.source"),
    'kernel = "library:relu"': ('kernel = "relu.dojo"', r"\.given\.kernel"),
    "given = {": ("given = [", r"is not TOML"),
}


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_told_with_its_place(text: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GOOD)
    assert read_task(path).given.moves == ("split(0, 8)", "vectorize(0.0)")
    instead, told = WRONG[text]
    assert text in GOOD
    path.write_text(GOOD.replace(text, instead))
    with pytest.raises(dojoir.ArgumentError, match=told) as error:
        read_task(path)
    assert error.value.diagnostic.code == "bad-task" and "mine.toml" in str(error.value)


def test_a_text_that_is_no_kernel_is_told() -> None:
    text = re.sub(r"kernel = \S+,", "text = 'kernel nothing',", GOOD).replace('"library"', '"own"')
    with pytest.raises(dojoir.ArgumentError, match="bad-task"):
        task_of(text)


def test_files_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    with pytest.raises(dojoir.ArgumentError, match="cannot-read"):
        read_task(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(dojoir.ArgumentError, match="not-text"):
        read_task(tmp_path / "bytes.toml")


def test_a_question_is_plain_data_with_the_text() -> None:
    asked = question(TASKS["optimise-softmax"])
    assert asked["given"]["text"].startswith("kernel softmax(N, M)") and asked["asked"]


LIMITS = ((0, None), (1.5, None), (True, None), (None, 0), (None, float("nan")), ("3", 2))


@pytest.mark.parametrize("limits", LIMITS)
def test_a_budget_that_is_none_is_told(limits: tuple[Any, Any]) -> None:
    (task,) = find_tasks(["debug-gemv"])
    with pytest.raises(dojoir.ArgumentError, match="bad-arguments"):
        task.with_limits(*limits)
    assert task.with_limits(None, None) is task and task.with_limits(2, 0.5).budget.states == 2
