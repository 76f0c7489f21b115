"""Data sets of runs: what stands in a line, nothing twice, no kernel in two splits; what was changed is found."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from bundled import search_bundle
from golden_data import GOLDEN, TESTS, exported

import dojoir
from dojoir.data import (
    Filters,
    RecordedStep,
    chats,
    check,
    export,
    pairs,
    read_about,
    read_episodes,
    read_steps,
    split_of,
)
from dojoir.data.dataset_lines import Dataset, Pair, RecordedEpisode, Timing, TrainingChat
from dojoir.data.splitting import splits_of
from dojoir.data.steps import label
from dojoir.evidence.writing import UNFINISHED
from dojoir.records.plain_data import schema
from dojoir.tasks import own_tasks
from dojoir.verbs import main

pytest.importorskip("sqlalchemy", reason="needs the extra agents")

OF_THE_MACHINE = ("features", "features_after")
"""What a text looks like to the caches of a machine."""


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    exported(folder)
    return folder


@pytest.mark.parametrize("name", ["steps.jsonl", "episodes.jsonl", "chats.jsonl", "pairs.jsonl"])
def test_the_golden_run_gives_the_golden_lines(name: str, made: Path) -> None:
    found, golden = lines(made / name), lines(GOLDEN / "data" / name)
    assert golden
    for one in (*found, *golden):
        for field in OF_THE_MACHINE:
            one[field] = sorted(one.get(field, {}))
        for message in one.get("messages", one.get("prompt", [])):
            message["content"] = message["content"].partition("- flops")[0]
    assert found == golden


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("steps", RecordedStep),
        ("episodes", RecordedEpisode),
        ("chats", TrainingChat),
        ("pairs", Pair),
        ("dataset", Dataset),
    ],
)
def test_each_line_is_of_its_schema(name: str, kind: type, made: Path) -> None:
    path = made / f"{name}.json{'' if name == 'dataset' else 'l'}"
    values = [json.loads(path.read_text())] if name == "dataset" else lines(path)
    for value in values:
        jsonschema.validate(value, schema(kind))
    columns = {tuple(value) for value in values}  # the same fields in the same order in each line
    assert len(columns) == 1


def test_a_data_set_is_proved_again(made: Path) -> None:
    found = check(made)
    assert found.ok and found.proved == found.steps == 8 and found.episodes == 7, str(found)
    assert check(GOLDEN / "data").ok


def test_the_same_runs_give_the_same_bytes(made: Path, tmp_path: Path) -> None:
    assert export([GOLDEN / "runs" / "golden"], tmp_path / "again").files == read_about(made).files


def test_a_step_says_what_was_offered_and_reached(made: Path) -> None:
    steps = {(step.before, step.move): step for step in read_steps(made)}
    assert any(one.verdict == "refused" for step in steps.values() for one in step.offered)
    for step in steps.values():
        assert {one.move: one.verdict for one in step.offered}[step.move] == "legal"
        assert step.best_later is not None and step.timing.seconds is not None
        assert step.best_later.seconds <= step.timing.seconds
        if step.best_later.moves:
            behind = [one for one in steps.values() if one.before == step.after]
            assert min(one.best_later.seconds for one in behind if one.best_later) == step.best_later.seconds
    for episode in read_episodes(made):
        assert len(episode.moves) == len(episode.states) == len(episode.seconds)
    assert sum(episode.is_answer for episode in read_episodes(made)) == 1


def test_nothing_of_the_answer_is_in_the_question(made: Path) -> None:
    """Were the times of what came after others, the answer would be another, and the question the same."""
    steps = [*read_steps(made)]
    asked = {chat.id: chat for chat in chats(steps)}
    assert asked
    slow = max((step.timing.seconds or 0.0) for step in steps)
    root = [step for step in steps if not step.way]
    best = min(root, key=lambda step: step.best_later.seconds if step.best_later else slow)
    other = next(step for step in root if step is not best)
    assert best.best_later is not None
    turned = [
        replace(step, best_later=replace(best.best_later, seconds=1e-9, low=1e-9, high=1e-9))
        if step is other
        else step
        for step in steps
    ]
    changed = next(chat for chat in chats(turned) if chat.id == other.id)
    assert changed.messages[:2] == asked[best.id].messages[:2] and changed.messages[2] != asked[best.id].messages[2]
    for chat in asked.values():
        move = chat.messages[2].content.partition("\n")[0]
        number, _, text = move.partition(": ")
        assert f"\n{number}. {text}" in chat.messages[1].content
        assert "estimated:" not in chat.messages[1].content


def test_filters_say_what_may_be_an_answer_and_leave_the_question(made: Path) -> None:
    steps = [*read_steps(made)]
    asked = {chat.id: chat for chat in chats(steps)}
    family = steps[0].move.partition("(")[0]
    for given in (Filters(families=(family,)), Filters(labels=("faster",)), Filters(families=("nothing",))):
        found = {chat.id: chat for chat in chats(steps, given.takes)}
        assert found == {step.id: asked[step.id] for step in steps if step.id in asked and given.takes(step)}
    assert not [*chats(steps, Filters(families=("nothing",)).takes)]


def test_the_intervals_of_a_pair_do_not_meet(made: Path) -> None:
    steps = {step.id: step for step in read_steps(made)}
    found = [*pairs(steps.values())]
    assert found
    for pair in found:
        fast, slow = (steps[one] for one in pair.id.split("-"))
        assert fast.before == slow.before
        assert fast.timing.high is not None and slow.timing.low is not None and fast.timing.high < slow.timing.low
        assert fast.move in pair.chosen[0].content and slow.move in pair.rejected[0].content


T = Timing("ok", "", 1.0, 0.95, 1.05)
LABELS = [
    (Timing("ok", "", 0.5, 0.4, 0.6), "faster"), (Timing("ok", "", 2.0, 1.9, 2.1), "slower"),
    (Timing("ok", "", 1.01, 0.97, 1.1), "same"), (Timing("ok", "", 1.1, 0.9, 1.3), "unsure"),
    (Timing("wrong", "differs", None, None, None), "failed"), (Timing("cut", "", 9.0, None, None), "slower"),
    (Timing("not-evaluated", "", None, None, None), "not-evaluated"),
]  # fmt: skip


@pytest.mark.parametrize(("after", "word"), LABELS)
def test_a_label_is_that_of_the_intervals(after: Timing, word: str) -> None:
    assert label(T, after) == word
    unknown = Timing("not-evaluated", "", None, None, None)
    assert label(unknown, after) == (word if word in ("failed", "not-evaluated") else "unsure")


# -- splits ------------------------------------------------------------------------------------------------------
def test_what_begins_at_a_kernel_of_a_task_is_in_its_split() -> None:
    for task in own_tasks():
        assert split_of(task.kernel) == task.split, task.name
        assert split_of(task.kernel.with_fp("fast")) == task.split
    renamed = dojoir.to_text(dojoir.kernels.load("bmm")).replace("kernel bmm", "kernel mine").replace("c[", "d[")
    renamed = renamed.replace("out c:", "out d:")
    assert split_of(dojoir.parse(renamed)) == "held-out"


def test_kernels_of_one_name_are_in_one_split() -> None:
    """Whatever their texts are."""
    texts = [
        f"kernel mine(N)\nin  x: f32[N]\nout y: f32[N]\n\nN @i\n| y[{{i}}] = {'+'.join(['x[{i}]'] * n)}\n"
        for n in range(1, 30)
    ]
    kernels = [dojoir.parse(text) for text in texts]
    assert len({split_of(kernel) for kernel in kernels}) == 3  # each alone
    assert len(set(splits_of(kernels).values())) == 1
    assert splits_of(kernels) == splits_of(reversed(kernels))


# -- runs --------------------------------------------------------------------------------------------------------
def test_what_is_there_twice_is_taken_once(tmp_path: Path) -> None:
    """Two runs of one search, a run that was resumed, and the same folder named twice."""
    runs, other = tmp_path / "runs", tmp_path / "other"
    search_bundle(runs, "relu", 6, seed=3)
    first = export([runs], tmp_path / "one")
    search_bundle(other, "relu", 6, seed=3)
    search_bundle(runs, "silu", 5)
    found = export([runs, runs, tmp_path, other], tmp_path / "two")
    steps = [*read_steps(tmp_path / "two")]
    assert len({step.id for step in steps}) == len(steps) == found.counts["steps"]
    assert found.kernels["relu"] == found.duplicates == first.counts["steps"]
    assert found.splits == {split: sum(step.split == split for step in steps) for split in found.splits}
    assert check(tmp_path / "two").ok
    only = export([runs], tmp_path / "three", filters=Filters(kernels=("silu",), protocol="static"))
    assert only.kernels == {"silu": found.kernels["silu"]} and only.counts["filtered"] == first.counts["steps"]
    for wrong in (Filters(kernels=("none",)), Filters(protocol="measured"), Filters(labels=("failed",))):
        with pytest.raises(dojoir.ArgumentError, match="empty-dataset"):
            export([runs], tmp_path / "four", filters=wrong)


def test_a_run_that_was_changed_is_left_out_and_told(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "runs", tmp_path / "runs")
    path = tmp_path / "runs" / "golden" / "states.jsonl"
    path.write_text(path.read_text().replace('"vectorize(0)"', '"vectorize(0.0)"', 1))
    search_bundle(tmp_path / "runs", "relu", 4)
    found = export([tmp_path / "runs"], tmp_path / "data")
    assert set(found.kernels) == {"relu"} and any("states.jsonl: it has changed" in one for one in found.left_out)
    record = json.loads((tmp_path / "runs" / "golden" / "run.json").read_text())
    (tmp_path / "runs" / "golden" / "run.json").write_text(json.dumps({**record, "status": "interrupted"}))
    found = export([tmp_path / "runs"], tmp_path / "data")
    assert any("golden" in one for one in found.left_out)  # its move leads elsewhere


CHANGES = {
    "a move": ('],"move":"swap_scopes(0)"', '],"move":"stream(y)"', "lead to another kernel"),
    "a time": ('"threads":1', '"threads":2', "not the file that is listed"),
    "a split": ('"split":"train"', '"split":"dev"', "in two splits"),
    "a text": ('"text_after":"kernel bias_relu(N, M)', '"text_after":"kernel bias_relu(N,  M)', "text after"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_was_changed_in_a_data_set_is_found(what: str, made: Path, tmp_path: Path) -> None:
    folder = tmp_path / "changed"
    shutil.copytree(made, folder)
    old, new, told = CHANGES[what]
    path = folder / "steps.jsonl"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    found = check(folder)
    assert not found.ok and any(word in str(found) for word in told.split("|")), str(found)


def test_folders_and_files_that_do_not_fit_are_told(tmp_path: Path, made: Path) -> None:
    for call, code in (
        (lambda: export([tmp_path], tmp_path / "x"), "no-run"),
        (lambda: export([GOLDEN / "runs"], TESTS), "not-empty"),
        (lambda: read_about(tmp_path), "no-dataset"),
    ):
        with pytest.raises(dojoir.ArgumentError, match=code):
            call()
    folder = tmp_path / "newer"
    shutil.copytree(made, folder)
    about = json.loads((folder / "dataset.json").read_text())
    (folder / "dataset.json").write_text(json.dumps({**about, "version": 99}))
    with pytest.raises(dojoir.ArgumentError, match="newer-record"):
        check(folder)
    (folder / "dataset.json").write_text(json.dumps(about))
    (folder / "steps.jsonl").write_text('{"id": 3}\n')
    with pytest.raises(dojoir.ArgumentError, match=r"steps\.jsonl:1"):
        check(folder)


def test_what_an_export_that_was_killed_has_left_is_written_anew(tmp_path: Path, made: Path) -> None:
    folder = tmp_path / "killed"
    folder.mkdir()
    (folder / "steps.jsonl").write_text('{"id"')
    (folder / f"{UNFINISHED}0123").write_text("[")
    assert export([GOLDEN / "runs"], folder).counts == read_about(made).counts and check(folder).ok
    with pytest.raises(dojoir.ArgumentError, match="empty-dataset"):
        export([GOLDEN / "runs"], tmp_path / "empty", filters=Filters(kernels=("none",)))
    assert not (tmp_path / "empty").exists()


def test_chats_are_not_written_over_their_data_set(
    tmp_path: Path, made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "data"
    shutil.copytree(made, folder)
    for name in ("steps.jsonl", "episodes.jsonl", "dataset.json"):
        assert main(["dataset", "sft", str(folder), "-o", str(folder / name)]) == 1
        assert "a file of the data set itself" in capsys.readouterr().err
    assert check(folder).ok


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = str(tmp_path / "data")
    assert main(["dataset", "export", "--runs", str(GOLDEN / "runs"), "-o", data]) == 0
    assert "8 steps and 7 episodes of 1 runs" in capsys.readouterr().out
    assert main(["dataset", "check", data, "--sample", "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["check"]["proved"] == 3
    for what in ("sft", "pairs"):
        path = tmp_path / f"{what}.jsonl"
        assert main(["dataset", what, data, "-o", str(path), "--split", "held-out"]) == 1
        assert "empty-dataset" in capsys.readouterr().err and not path.exists()
        assert main(["dataset", what, data, "-o", str(path)]) == 0 and lines(path)
        capsys.readouterr()
    about = json.loads((tmp_path / "data" / "dataset.json").read_text())
    path = tmp_path / "data" / "steps.jsonl"
    path.write_text(path.read_text().replace('"depth":2', '"depth":3').replace('"legal"', '"LEGAL"', 1))
    assert main(["dataset", "check", data]) == 3 and about["files"]["steps.jsonl"]["lines"] == 8
    with pytest.raises(SystemExit, match="2"):
        main(["dataset", "export", "-o", data])
