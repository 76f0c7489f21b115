"""Tuning on chats: a file of settings is held to what it names, and a tiny model learns the whole way."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from golden_data import GOLDEN

from dojoir.data.training import TEMPLATE, Training, check_training, read_training
from dojoir.verbs import main

CHATS = GOLDEN / "data" / "chats.jsonl"


def settings(folder: Path, **fields: Any) -> Path:
    path = folder / "mine.toml"
    given = {"chats": str(CHATS), "model": str(folder / "model"), "output": str(folder / "tuned"), **fields}
    path.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in given.items()), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("fields", "code", "said"),
    [
        ({"steps": 0}, "bad-record", "mine.toml.steps"),
        ({"rate": 2.0}, "bad-record", "mine.toml.rate"),
        ({"soul": 1}, "bad-record", "unknown field soul"),
        ({"chats": "/nowhere"}, "cannot-read", "/nowhere"),
    ],
)
def test_what_is_wrong_in_a_file_is_told_with_its_place(
    fields: dict[str, Any], code: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["learn", "smoke", str(settings(tmp_path, **fields))]) == 1
    err = capsys.readouterr().err
    assert f"error[{code}]" in err and said in err


def test_nothing_is_trained_on_what_is_held_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = CHATS.read_text(encoding="utf-8").replace('"split":"train"', '"split":"held-out"', 1)
    (tmp_path / "chats.jsonl").write_text(text, encoding="utf-8")
    path = settings(tmp_path, chats=str(tmp_path / "chats.jsonl"))
    for word in ("smoke", "chats", "check"):
        assert main(["learn", word, str(path)]) == 1
        assert "error[not-train]" in capsys.readouterr().err


def test_a_file_of_a_rollout_is_checked_and_played(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sqlalchemy", reason="needs the extra agents")
    path = tmp_path / "night.toml"
    text = 'agent = "random"\ntasks = ["debug-softmax", "debug-matmul"]\ntimer = "static"\nseed = 3\n'
    path.write_text(f"{text}output = {json.dumps(str(tmp_path / 'night'))}\n", encoding="utf-8")
    assert main(["train", "check", str(path)]) == 0
    assert "random plays 2 tasks" in capsys.readouterr().out
    assert main(["rollout", str(path), "debug-softmax", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)["rollout"]
    assert [row["task"] for row in report["rows"]] == ["debug-softmax"], "the command line counts where both say it"
    assert report["seed"] == 3 and report["timer"] == "static"
    path.write_text(text.replace('"static"', '"clock"'), encoding="utf-8")
    assert main(["rollout", str(path)]) == 1
    assert "night.toml.timer: it is one of measure, static" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["rollout", "random"])


def test_a_tiny_model_learns_the_whole_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("trl", reason="needs the extra train")
    path = settings(tmp_path, steps=2)
    assert main(["learn", "smoke", str(path), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["learned"]
    assert said["steps"] == 20 and said["has_learned"] and said["losses"][-1] < said["losses"][0]
    assert main(["learn", "check", str(path)]) == 1
    assert "error[bad-model]" in capsys.readouterr().err
    _tiny(tmp_path / "model", None)
    assert main(["learn", "check", str(path)]) == 1
    assert "no template for chats" in capsys.readouterr().err
    shutil.rmtree(tmp_path / "model")
    _tiny(tmp_path / "model", TEMPLATE)
    found = check_training(read_training(path))
    assert found.chats == len(CHATS.read_text(encoding="utf-8").splitlines()) and found.left_out == 0
    (tmp_path / "tuned").write_text("", encoding="utf-8")
    assert main(["learn", "chats", str(path)]) == 1
    assert "it is a file" in capsys.readouterr().err
    (tmp_path / "tuned").unlink()
    assert main(["learn", "chats", str(path)]) == 0
    assert (tmp_path / "tuned" / "model.safetensors").is_file()
    assert (
        check_training(Training(str(CHATS), str(tmp_path / "tuned"), str(tmp_path / "again"))).chats == found.chats
    )


def _tiny(folder: Path, template: str | None) -> None:
    from dojoir.game.language import tiny_model, tokenizer_of

    words = tokenizer_of(CHATS.read_text(encoding="utf-8").splitlines())
    words.chat_template = template
    tiny_model(len(words), 32, 0).save_pretrained(folder)
    words.save_pretrained(folder)
