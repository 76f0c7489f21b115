"""What programs may rely on: the schema of JSON answers, and the files of shell completion."""

from __future__ import annotations

import json
import runpy
import subprocess
from pathlib import Path

import pytest
from folders import ROOT
from test_cli import GATHER, Shell

jsonschema = pytest.importorskip("jsonschema")
SCHEMA = json.loads((ROOT / "dojoir" / "cli" / "answers.schema.json").read_text(encoding="utf-8"))


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def kind(data: object, name: str) -> None:
    """Holds an answer against its part of the schema, and against the whole."""
    jsonschema.validate(data, {**SCHEMA, "anyOf": [{"$ref": f"#/$defs/{name}"}]})
    jsonschema.validate(data, SCHEMA)


def test_the_schema_is_one_and_is_printed(shell: Shell) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert json.loads(shell("--schema")[0]) == SCHEMA
    named = {each["$ref"].rpartition("/")[2] for each in SCHEMA["anyOf"]}
    assert named <= set(SCHEMA["$defs"])


@pytest.mark.parametrize(
    ("name", "arguments", "status"),
    [
        ("moves", ["--moves"], 0),
        ("explain", ["--explain", "join_scopes(0, 1)"], 0),
        ("explain", ["--explain", "reuse_dims(t, 0)"], 1),
        ("find", ["--find", "statement"], 0),
        ("cost", ["--cost"], 0),
        ("cost", ["--cost", "-s", "N=4"], 0),
        ("run", ["--run", "-s", "N=3"], 0),
        ("check", ["--check", "-s", "N=9"], 0),
        ("time", ["-p", "join_scopes(0, 1)", "--time", "-s", "N=99", "--threads", "1"], 0),
        ("list", ["--list-passes"], 0),
        ("list", ["--list-kernels"], 0),
        ("list", ["--list-targets"], 0),
    ],
)
def test_answers(shell: Shell, name: str, arguments: list[str], status: int) -> None:
    file = [] if arguments[0].startswith("--list") else ["pair.dojo"]
    out, _ = shell(*file, *arguments, "--json", status=status)
    kind(json.loads(out), name)


def test_errors_and_warnings(shell: Shell) -> None:
    for arguments in (["-p", "reuse_dims(t, 0)"], ["-p", "fuse(0)"], ["--run"]):
        _, err = shell("pair.dojo", *arguments, "--json", status=1)
        for line in err.splitlines():
            kind(json.loads(line), "error")
    _, err = shell("--json", stdin=GATHER.replace("ids[{0}]", "ids[{0} + 1]"), status=1)
    kind(json.loads(err.splitlines()[0]), "error")
    _, err = shell("pair.dojo", "-p", "reuse_dims(t, 0)", "--unsafe", "--json")
    kind(json.loads(err), "warning")


def test_an_answer_of_another_form_is_refused() -> None:
    for wrong in ({"moves": [1]}, {"error": {"code": "x"}}, {"check": {"ok": True}}, []):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, SCHEMA)


def test_shells_complete_options(tmp_path: Path) -> None:
    pytest.importorskip("shtab")
    made = runpy.run_path(str(ROOT / "setup.py"), run_name="setup")["completions"](tmp_path)
    assert set(made) == {
        (program, shell) for program in ("dojoir-opt", "dojoir") for shell in ("bash", "zsh", "tcsh")
    }
    for (program, _), path in made.items():
        assert {"dojoir-opt": "print-ir-after-change", "dojoir": "cost-model"}[program] in path.read_text()
    for words, want in (
        (("dojoir-opt", "--list-k"), "--list-kernels"),
        (("dojoir", "tune", "--strat"), "--strategy"),
    ):
        script = made[words[0], "bash"]
        ask = (
            f"source {script}; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; "
            f'f=$(complete -p {words[0]} | sed "s/.*-F \\([^ ]*\\) .*/\\1/"); '
            f"$f {words[0]} {words[-1]} {words[-2]}; "
            'echo "${COMPREPLY[@]}"'
        )
        done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, timeout=60)
        assert done.stdout.split() == [want], done
