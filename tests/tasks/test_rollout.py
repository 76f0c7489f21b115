"""Rollouts: gates judge what agents answer; what was stopped goes on; what fails is kept and stops nothing."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from written_answers import TEXTS

import dojoir
from dojoir.tasks import Answer, Desk, Goal, Task, TaskLimits, agent_named, find_tasks, own_tasks, rollout
from dojoir.tasks.judging import JudgedAnswer, Judgement, judge

pytest.importorskip("sqlalchemy", reason="needs the extra agents")

from dojoir.evidence.bundle_reading import read
from dojoir.evidence.writing import UNFINISHED
from dojoir.support import files
from dojoir.tasks.playing import digest_of
from dojoir.verbs import main

TASKS = {task.name: task for task in own_tasks()}

ONE_PASS = TEXTS["reformulate-row_range"]


def small(name: str, **sizes: int) -> Task:
    """A task at small sizes, whose text answer is to be at least no slower."""
    task = TASKS[name]
    gates = tuple(gate for gate in task.goal.gates if gate != "correct")
    return replace(task, given=replace(task.given, sizes=sizes), goal=Goal(gates, 0.5), budget=TaskLimits(4))


def judged(task: Task, answer: Answer) -> Judgement:
    return judge(JudgedAnswer(task, answer, "static", 1))


def status(found: Judgement) -> dict[str, str]:
    return {one.name: one.status for one in found.gates}


def test_a_text_that_computes_the_same_solves_a_reformulation() -> None:
    task = small("reformulate-row_range", N=32, M=48)
    found = judged(task, Answer(text=ONE_PASS))
    assert found.solved and status(found) == {"built": "pass", "equal": "pass", "gain": "pass"}


@pytest.mark.parametrize(
    ("line", "instead", "gate"),
    [
        ("y[{i}] = high[{i}] - low[{i}]", "y[{i}] = high[{i}] - low[{i}] + 0.001", "equal"),
        ("in  x: f32[N, M]", "in  z: f32[N, M]", "equal"),
        ("kernel row_range(N, M)", "kernel row_range(N, M)\nfp fast", "equal"),
        ("| | high", "| | low", "equal"),
    ],
)
def test_one_that_does_not_solves_nothing(line: str, instead: str, gate: str) -> None:
    task = small("reformulate-row_range", N=32, M=48)
    text = ONE_PASS.replace(line, instead).replace("x[", "z[" if "z:" in instead else "x[")
    found = judged(task, Answer(text=text))
    assert not found.solved and status(found)[gate] == "fail"
    assert "gain" not in status(found) or status(found)["gain"] == "not-run"


@pytest.mark.parametrize(
    ("line", "instead", "told"),
    [
        ("tmp low: f32[N]", "tmp low: f32[N]\ntmp z: f32[N, M, 1000000]", "bytes"),
        ("(N, M)", "(N, M, K)", "different sizes"),
        ("(N, M)", "(N, M = 4)", "M"),
        ("kernel row_range(N, M)", "kernel row_range(N, M)\nwhere M <= 1", "where M <= 1"),
        ("kernel row_range", "\ud800", ""),
        ("x: f32", "x: f16384", ""),
    ],
)
def test_a_text_that_does_not_fit_is_told(line: str, instead: str, told: str) -> None:
    found = judged(small("reformulate-row_range", N=32, M=48), Answer(text=ONE_PASS.replace(line, instead, 1)))
    reason = next(gate.reason for gate in found.gates if gate.status != "pass")
    assert not found.solved and told in reason


def test_moves_are_judged_as_they_are() -> None:
    task = TASKS["optimise-softmax"]
    task = replace(task, goal=replace(task.goal, gates=("proved", "built", "honest", "faster", "gain")))
    found = judged(task, Answer(("join_scopes(0, 1)", "parallelize(0.1)")))
    assert [one.status for one in found.gates] == ["fail", *["not-run"] * (len(found.gates) - 1)]
    assert "move 1" in found.gates[0].reason
    assert not judged(task, Answer()).solved
    assert set(found.left_out) == {"honest", "faster"} and "faster" not in status(found)


DEBUG = "debug-matmul"


def test_a_pipeline_is_mended_by_the_right_move_alone() -> None:
    task = TASKS[DEBUG]
    moves = task.given.moves
    right = moves.index("parallelize(@k)")
    assert judged(task, Answer((*moves[:right], *moves[right + 1 :]), move=right)).solved
    others = [Answer(moves, move=right), Answer(moves[:right], move=right), Answer((), move=None),
              Answer(moves[1:], move=0), Answer(moves, move=99)]  # fmt: skip
    assert not any(judged(task, answer).solved for answer in others)


def test_a_diagnosis_names_the_move() -> None:
    task = TASKS["diagnose-softmax"]
    number = task.given.moves.index("split(@k, 2)")
    found = judged(task, Answer(move=number))
    assert found.solved and found.left_out == ("bound",) and found.gained[0].beside == "given"
    assert not judged(task, Answer(move=0)).solved and not judged(task, Answer(move=1)).solved


AGENT = '''
from dojoir.tasks import Answer

def play(desk):
    """Blocks and lanes, if they are legal."""
    if desk.task.kind == "diagnose":
        raise RuntimeError("I do not know")
    if desk.task.kind == "debug":
        return 3
    trace = desk.trace.copy()
    for move in ("vectorize(@j)", "vectorize(@k)", "parallelize(@k)"):
        if desk.check(move, trace):
            trace.apply(move)
    desk.evaluate([trace])
    return desk.best

class Silent:
    def __init__(self, seed):
        self.seed = seed

    def play(self, desk):
        return None
'''


def test_an_agent_of_a_file_plays_and_what_fails_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(AGENT)
    first = TASKS["optimise-rmsnorm"]
    first = replace(first, goal=replace(first.goal, gates=("proved", "built", "gain")))
    tasks = (first, *find_tasks(["diagnose-softmax", "debug-softmax"]))
    agent = agent_named(str(tmp_path / "mine.py"))
    found = rollout(agent, "mine.py", tasks, tmp_path / "out", timer="static")
    rows = {row.task: row for row in found.rows}
    assert {name: row.status for name, row in rows.items()} == {
        "optimise-rmsnorm": "not-solved", "diagnose-softmax": "failed", "debug-softmax": "failed",
    }  # fmt: skip
    assert "I do not know" in rows["diagnose-softmax"].reason and "int" in rows["debug-softmax"].reason
    assert rows["optimise-rmsnorm"].cost.states == 1 and rows["optimise-rmsnorm"].answer["moves"]
    bundle = read(tmp_path / "out" / "runs" / rows["optimise-rmsnorm"].run)
    assert bundle.run.status == "done" and bundle.wrong_files() == [] and bundle.trace.moves
    drawn = [line for line in bundle.lines("states.jsonl") if "drawn" in line]
    verdicts = {move: verdict for line in drawn for move, verdict in line["moves"]}
    assert verdicts["vectorize(0.1)"] == "legal" and verdicts["parallelize(0.3)"] != "legal"
    assert read(tmp_path / "out" / "runs" / rows["diagnose-softmax"].run).run.status == "failed"
    silent = agent_named(f"{tmp_path / 'mine.py'}:Silent")
    assert rollout(silent, "silent", tasks, tmp_path / "two", timer="static").solved == 0


def test_a_rollout_goes_on_and_plays_nothing_twice(tmp_path: Path) -> None:
    tasks = find_tasks(["debug-gemv", "optimise-dot", "diagnose-gemv"])
    said: list[str] = []

    class Stops:
        """The agent of a search, until it is stopped."""

        def __init__(self, after: int) -> None:
            self.left, self.agent = after, agent_named("random")

        def play(self, desk: Desk) -> Answer:
            self.left -= 1
            answer = self.agent.play(desk)
            if self.left < 0:
                raise KeyboardInterrupt
            return answer

    limited = [task.with_limits(4, None) for task in tasks]
    with pytest.raises(KeyboardInterrupt):
        rollout(Stops(1), "random", limited, tmp_path / "out", timer="static", say=said.append)
    states = {p.parent.name: p.read_text() for p in (tmp_path / "out" / "runs").glob("*/states.jsonl")}
    found = rollout(agent_named("random"), "random", limited, tmp_path / "out", timer="static", say=said.append)
    assert [row.task for row in found.rows] == [task.name for task in tasks]
    assert any("before" in line for line in said)
    for name, before in states.items():  # what was evaluated before it was stopped was not evaluated again
        after = (tmp_path / "out" / "runs" / name / "states.jsonl").read_text()
        results = [line for line in after.splitlines() if '"result"' in line]
        assert len(results) == len(set(results)) and len(results) >= before.count('"result"')
    again = rollout(agent_named("random"), "random", limited, tmp_path / "out", timer="static")
    assert again == found
    with pytest.raises(dojoir.ArgumentError, match="another-rollout"):
        rollout(agent_named("beam"), "beam", limited, tmp_path / "out", timer="static")
    with pytest.raises(dojoir.ArgumentError, match="not-empty"):
        rollout(agent_named("beam"), "beam", limited, tmp_path, timer="static")


def test_a_bundle_that_was_hardly_begun_is_gone_on_with(tmp_path: Path) -> None:
    """Killed before the record of a bundle was written, and within the writing of a file."""
    assert UNFINISHED == files.UNFINISHED
    tasks = [task.with_limits(4, None) for task in find_tasks(["debug-gemv"])]
    runs = tmp_path / "out" / "runs" / f"debug-gemv-{digest_of(tasks[0])}"
    runs.mkdir(parents=True)
    (runs / "start.dojo").write_text("kernel")
    (runs / f"{UNFINISHED}12").write_text("ker")
    rows = rollout(agent_named("beam"), "beam", tasks, tmp_path / "one", timer="static").rows
    shutil.move(tmp_path / "one" / "rollout.json", tmp_path / "out" / "rollout.json")
    report = json.loads((tmp_path / "out" / "rollout.json").read_text())
    (tmp_path / "out" / "rollout.json").write_text(json.dumps({**report, "rows": []}))
    again = rollout(agent_named("beam"), "beam", tasks, tmp_path / "out", timer="static").rows
    assert [row.status for row in again] == [row.status for row in rows] == ["solved"]
    assert read(runs).wrong_files() == [] and not [*runs.glob(f"{UNFINISHED}*")]
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / f"{UNFINISHED}12").write_text("{")
    assert rollout(agent_named("beam"), "beam", tasks, tmp_path / "new", timer="static").solved == 1


def test_an_agent_whose_file_was_changed_is_another(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    tasks = find_tasks(["debug-gemv"])
    file.write_text("def play(desk):\n    return None\n")
    for _ in range(2):
        rollout(agent_named(str(file)), "mine", tasks, tmp_path / "out", timer="static")
    file.write_text("def play(desk):\n    return desk.answer(move=0)\n")
    with pytest.raises(dojoir.ArgumentError, match="another-rollout"):
        rollout(agent_named(str(file)), "mine", tasks, tmp_path / "out", timer="static")


def test_agents_that_are_none_are_told(tmp_path: Path) -> None:
    (tmp_path / "none.py").write_text("x = 3\n")
    (tmp_path / "broken.py").write_text("x = (\n")
    (tmp_path / "picky.py").write_text("class Agent:\n    def __init__(self, a):\n        pass\n")
    for name in ("quantum", "none.py", "broken.py", "picky.py", "none.py:x", "none.py:y", "missing.py"):
        with pytest.raises(dojoir.ArgumentError) as error:
            agent_named(name if name == "quantum" else str(tmp_path / name))
        assert error.value.diagnostic.code == "bad-agent", name


def test_the_command_plays_and_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    given = ["rollout", "beam", "debug", "--kind", "debug", "--timer", "static", "-o", str(out)]
    assert main(given) == 0
    shown = capsys.readouterr()
    assert "beam: 10 of 10 tasks solved" in shown.out and "10 of 10" in shown.err
    assert main([*given, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)["rollout"]
    assert data["summary"]["debug"]["solved"] == 10 and json.loads((out / "rollout.json").read_text())["rows"]
    assert main(["tasks", "--kind", "debug"]) == 0 and "debug-softmax" in capsys.readouterr().out
    assert main(["tasks", "debug-softmax"]) == 0 and "reuse_dims(m, 0)" in capsys.readouterr().out
    assert main(["tasks", "heldout"]) == 1 and "unknown-task" in capsys.readouterr().err
    assert main(["tasks", ""]) == 1 and "there is no task ''" in capsys.readouterr().err
    assert main(["rollout", "quantum", "dev", "-o", str(out)]) == 1
    with pytest.raises(SystemExit, match="2"):
        main(["rollout", "beam"])
