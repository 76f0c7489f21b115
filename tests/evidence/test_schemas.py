"""The schemas of the files of bundles, tasks and data sets: those of the classes that read and write them.

`python tests/evidence/test_schemas.py` writes them anew, where a class was changed; a change of `Run` raises its
version.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import dojoir
from dojoir.cli import main
from dojoir.data.dataset_lines import Dataset, Pair, RecordedEpisode, RecordedStep, TrainingChat
from dojoir.data.training import Training
from dojoir.evidence.bundle import Run
from dojoir.evidence.figures import Bench
from dojoir.evidence.gates import Gates
from dojoir.records.plain_data import schema
from dojoir.runtime import Card
from dojoir.tasks.rollout_report import Rollout
from dojoir.tasks.settings import Playing
from dojoir.tasks.task import Task

FOLDER = Path(dojoir.__file__).parent / "cli"
KINDS = {
    "run": Run, "bench": Bench, "gates": Gates, "profile": Card, "task": Task, "rollout": Rollout,
    "dataset": Dataset, "step": RecordedStep, "episode": RecordedEpisode, "chat": TrainingChat, "pair": Pair,
    "training": Training, "playing": Playing,
}  # fmt: skip


def text(name: str) -> str:
    return json.dumps(schema(KINDS[name]), indent=1) + "\n"


@pytest.mark.parametrize("name", KINDS)
def test_a_schema_is_that_of_its_class_and_is_printed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert (FOLDER / f"{name}.schema.json").read_text(encoding="utf-8") == text(name)
    assert main(["--schema", name]) == 0
    assert json.loads(capsys.readouterr().out) == schema(KINDS[name])


def test_without_a_name_it_is_that_of_the_answers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--schema"]) == 0
    assert "$defs" in json.loads(capsys.readouterr().out)
    with pytest.raises(SystemExit):
        main(["--schema", "soul"])


if __name__ == "__main__":
    for each in KINDS:
        (FOLDER / f"{each}.schema.json").write_text(text(each), encoding="utf-8")
    sys.exit(0)
