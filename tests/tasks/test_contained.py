"""Agents of files that cheat: what they use up is counted by the rollout, nothing of theirs outlives it, and their
honest twins solve as before."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from test_rollout import ONE_PASS, judged, small, status

import dojoir
from dojoir.tasks import Answer, Row, Task, find_tasks, rollout
from dojoir.tasks.isolated_agent import IsolatedAgent

pytest.importorskip("sqlalchemy", reason="needs the extra agents")

HONEST = """
def play(desk):
    trace = desk.trace.copy()
    for move in ("join_scopes(@i, @r)", "vectorize(@j)", "vectorize(@k)", "vectorize(@l)"):
        if desk.check(move, trace):
            trace.apply(move)
            desk.evaluate([trace.copy()])
    return desk.best
"""

UNCOUNTED = """
def play(desk):
    import dojoir
    for number in range(6):
        trace = dojoir.Trace(desk.kernel).then(f"split(@j, {8 + number})")
        desk.evaluate([trace])
        desk.ledger.states = 0
        desk.statuses.clear()
    return desk.best
"""

OPTIMIZES = """
def play(desk):
    import dojoir
    return dojoir.optimize(desk.kernel, sizes=dict(desk.task.given.sizes), threads=1)
"""

JUDGES = """
def play(desk):
    from dojoir.tasks import Answer
    from dojoir.tasks.judging import Case, judge
    for move in ("vectorize(@j)", "vectorize(@l)"):
        judge(Case(desk.task, Answer((move,)), "static", 1))
    return Answer((move,))
"""

DAEMON = """
def play(desk):
    import os, time
    if not os.fork():
        os.setsid()
        if not os.fork():
            open(FILE, "w").write(str(os.getpid()))
            while True:
                time.sleep(0.1)
        os._exit(0)
    while not os.path.exists(FILE) or not open(FILE).read():
        time.sleep(0.01)
    return desk.best
"""

KEYS = """
def play(desk):
    import os
    from dojoir.tasks import Answer
    return Answer(note=" ".join(sorted(os.environ)))
"""

RUNS_CODE = """
class Bad:
    def __reduce__(self):
        import os
        return os.system, ("touch " + FILE,)

def play(desk):
    desk._connection.send(Bad())
    return desk.best
"""

SPENT_BEYOND = """
def play(desk):
    import dojoir
    traces = [dojoir.Trace(desk.kernel).then(f"split(@j, {8 + n})") for n in range(9)]
    found = desk.evaluate(traces)
    desk._asked("evaluate", traces=[[str(m) for m in t.moves] for t in traces])
    assert desk.spent() == "states (4)", desk.spent()
    return dojoir.tasks.Answer(note=str(len(found)))
"""

OWN_SEARCH = """
class Search:
    def __init__(self, play):
        self.play = play

    def ask(self, n):
        return self.play.children(self.play.best, 1)

    def tell(self, evaluations, traces):
        for one, trace in zip(evaluations, traces):
            assert one.hash == trace.kernel.hash and self.play.speed(trace) >= 0
"""


def softmax(states: int = 4, **given: object) -> Task:
    (task,) = find_tasks(["optimise-softmax"])
    sizes, goal = {"N": 24, "M": 40}, replace(task.goal, least=1.5)
    return replace(task.with_limits(states, None), given=replace(task.given, sizes=sizes, **given), goal=goal)


def played(text: str, tmp_path: Path, task: Task | None = None, member: str = "") -> Row:
    """The row of an agent of a file; `FILE` in its text is one in a folder of the test."""
    file = tmp_path / "mine.py"
    file.write_text(f"FILE = {str(tmp_path / 'left')!r}\n{text}")
    agent = IsolatedAgent(str(file), member)
    try:
        (row,) = rollout(agent, "mine", [task or softmax()], tmp_path / "out", timer="static").rows
    finally:
        agent.close()
    return row


def test_what_is_honest_is_counted_and_solves(tmp_path: Path) -> None:
    row = played(HONEST, tmp_path)
    assert row.status == "solved", row
    assert row.cost.states == 4 and row.cost.statuses == {"ok": 4} and row.cost.outside > 0


def test_states_are_counted_in_the_rollout(tmp_path: Path) -> None:
    row = played(UNCOUNTED, tmp_path)
    assert row.cost.states == 4 and sum(row.cost.statuses.values()) == 4, row


def test_no_more_states_are_evaluated_than_there_are(tmp_path: Path) -> None:
    row = played(SPENT_BEYOND, tmp_path)
    assert row.cost.states == 4 and row.answer["note"] == "4", row


@pytest.mark.parametrize("text", [OPTIMIZES, JUDGES], ids=["optimizes", "judges"])
def test_what_is_spent_outside_is_seen_and_said(text: str, tmp_path: Path) -> None:
    row = played(text, tmp_path)
    assert row.cost.states == 0 and row.cost.outside > 0.02, row
    table = (tmp_path / "out" / "rollout.md").read_text()
    assert "CPU s outside" in table and f"| {row.cost.outside:.1f} |" in table


@pytest.mark.parametrize("stored", [True, False])
def test_a_stored_schedule_is_no_answer_where_the_task_says_so(stored: bool) -> None:
    task = softmax(stored=stored)
    schedule = next(one for one in dojoir.schedules.schedules("softmax") if one.path == "softmax.wide.moves")
    answer = Answer(tuple(str(move) for move in schedule.on(task.kernel).moves))
    gates = judged(task, answer).gates
    assert ("takes none" in gates[0].reason) is not stored, gates
    assert "takes none" not in judged(task, Answer(("join_scopes(@i, @r)",))).gates[0].reason


def test_a_daemon_does_not_outlive_the_rollout(tmp_path: Path) -> None:
    row = played(DAEMON, tmp_path)
    assert row.status != "failed", row.reason
    has_ended(int((tmp_path / "left").read_text()))


def has_ended(pid: int) -> None:
    """Fails if a process goes on."""
    until = time.monotonic() + 5
    while os.path.exists(f"/proc/{pid}") and time.monotonic() < until:
        time.sleep(0.02)
    assert not os.path.exists(f"/proc/{pid}")


NO_LIST = """
import sys
import dojoir.runtime.process.offspring as offspring
import dojoir.tasks.player as player
offspring.descendants = lambda of: []
player.die_with = lambda of: None
player.main()
"""


def test_an_agent_that_hangs_ends_with_the_rollout_where_no_processes_are_listed(tmp_path: Path) -> None:
    """As on macOS, where the keeper finds nothing that the agent has left but the player itself."""
    note, agent = tmp_path / "pid", tmp_path / "agent.py"
    agent.write_text(f"import os, time\nopen({str(note)!r}, 'w').write(str(os.getpid()) + '.')\ntime.sleep(60)\n")
    mine, other = socket.socketpair()
    with (
        mine,
        subprocess.Popen(
            [sys.executable, "-c", NO_LIST, str(other.fileno())], stdin=subprocess.PIPE, pass_fds=(other.fileno(),)
        ) as keeper,
    ):
        other.close()
        Connection(os.dup(mine.fileno())).send((str(agent), "", 0))
        until = time.monotonic() + 30
        while not (note.exists() and note.read_text().endswith(".")) and time.monotonic() < until:
            time.sleep(0.02)
        assert keeper.stdin is not None
        keeper.stdin.close()
        assert keeper.wait(30) == 128 + signal.SIGKILL
    has_ended(int(note.read_text().rstrip(".")))


def test_an_agent_gets_no_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "MY_TOKEN", "DOJOIR_SCHEDULES"):
        monkeypatch.setenv(name, "x")
    names = played(KEYS, tmp_path).answer["note"].split()
    assert "PATH" in names and not {"OPENAI_API_KEY", "MY_TOKEN", "DOJOIR_SCHEDULES"} & {*names}


def test_what_an_agent_sends_is_not_run(tmp_path: Path) -> None:
    row = played(RUNS_CODE, tmp_path)
    assert row.status == "failed" and "no JSON" in row.reason
    assert not (tmp_path / "left").exists()


SENDS_KEYS = """
def play(desk):
    desk.tune("llm:openai/x", base_url="http://127.0.0.1:9")
"""


def test_a_model_is_asked_where_the_rollout_says(tmp_path: Path) -> None:
    row = played(SENDS_KEYS, tmp_path)
    assert row.status == "failed" and "base_url is for who starts the rollout" in row.reason


def test_a_strategy_of_a_file_is_asked_by_the_pipe(tmp_path: Path) -> None:
    row = played(OWN_SEARCH, tmp_path, member="Search")
    assert row.status != "failed" and row.cost.states == 4 and row.cost.moves > 0, row
    states = (tmp_path / "out" / "runs" / row.run / "states.jsonl").read_text()
    assert sum("result" in json.loads(line) for line in states.splitlines()) == 4


# -- texts that are right where it is looked ------------------------------------------------------------------
@pytest.mark.parametrize("fact", ["where N == 32 and M == 48", "where N % 32 == 0", "where M >= 48"])
def test_a_text_that_is_for_the_given_size_alone_is_not_equal(fact: str) -> None:
    task = small("reformulate-row_range", N=32, M=48)
    wheres = "\n".join(f"where {one}" for one in fact.removeprefix("where ").split(" and "))
    text = ONE_PASS.replace("kernel row_range(N, M)", f"kernel row_range(N, M)\n{wheres}")
    found = judged(task, Answer(text=text))
    assert status(found)["equal"] == "fail" and not found.solved


def test_one_that_leaves_out_what_is_beyond_the_given_size_is_not_equal() -> None:
    task = small("reformulate-row_range", N=32, M=48)
    lines = ONE_PASS.replace("| | low[{i}]", "| | if {j} < 48\n| | | low[{i}]")
    found = judged(task, Answer(text=lines))
    assert status(found)["equal"] == "fail", found


# -- reports that were edited ----------------------------------------------------------------------------------
def test_an_edited_row_is_not_kept_as_solved(tmp_path: Path) -> None:
    (task,) = (replace(one, budget=replace(one.budget, states=2)) for one in find_tasks(["debug-gemv"]))
    agent = IsolatedAgent(str(_file(tmp_path, "def play(desk):\n    return None\n")))
    (row,) = rollout(agent, "mine", [task], tmp_path / "out", timer="static").rows
    assert row.status == "not-solved"
    said: list[str] = []
    (again,) = rollout(agent, "mine", [task], tmp_path / "out", timer="static", say=said.append).rows
    assert again == row and said == ["1 of 1 debug-gemv: not-solved before"]
    path = tmp_path / "out" / "rollout.json"
    data = json.loads(path.read_text())
    data["rows"][0]["status"] = "solved"
    for gate in data["rows"][0]["gates"]:
        gate.update(status="pass", reason="")
    path.write_text(json.dumps(data))
    (again,) = rollout(agent, "mine", [task], tmp_path / "out", timer="static", say=said.append).rows
    agent.close()
    assert again.status == "not-solved" and "its bundle says not-solved" in said[1], said


@pytest.mark.parametrize("run", ["", ".", "../../beside", "../stores"])
def test_an_edited_name_of_a_run_takes_nothing_away(run: str, tmp_path: Path) -> None:
    agent = IsolatedAgent(str(_file(tmp_path, "def play(desk):\n    return None\n")))
    given: list[Task] = [*find_tasks(["debug-gemv", "diagnose-gemv"])]
    rows = rollout(agent, "mine", given, tmp_path / "out", timer="static").rows
    assert [row.status for row in rows] == ["not-solved"] * 2, rows
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "kept").write_text("mine")
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    path = tmp_path / "out" / "rollout.json"
    data = json.loads(path.read_text())
    data["rows"][0]["run"] = run
    path.write_text(json.dumps(data))
    again = rollout(agent, "mine", given, tmp_path / "out", timer="static").rows
    agent.close()
    assert [row.run for row in again] == [row.run for row in rows]
    assert before <= {path for path in tmp_path.rglob("*") if path.is_file()}


def _file(tmp_path: Path, text: str) -> Path:
    (tmp_path / "mine.py").write_text(text)
    return tmp_path / "mine.py"
