"""Agents of files: each plays in a process of its own, and whatever it does, the rollout goes on and tells."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

import dojoir
from dojoir.tasks import Answer, Rollout, find_tasks, rollout
from dojoir.tasks.agents import answer_of
from dojoir.tasks.isolated_agent import IsolatedAgent

pytest.importorskip("sqlalchemy", reason="needs the extra agents")

FILE = '''
import os, signal, time
from pathlib import Path
import beside

def play(desk):
    print("this is no answer of the command")
    match desk.task.kind:
        case "debug":
            desk.evaluate([desk.trace])
            Path(beside.PID).write_text(str(os.getpid()))
            time.sleep(1000)
        case "diagnose":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "optimise":
            return desk.best
        case _:
            raise SystemExit(3)

class Search:
    """A strategy that never asks."""

    def __init__(self, play):
        pass

    def ask(self, n):
        while True:
            pass

    def tell(self, evaluations):
        pass
'''

NAMES = ("debug-gemv", "diagnose-gemv", "reformulate-row_range", "optimise-dot")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "beside.py").write_text(f"PID = {str(tmp_path / 'pid')!r}\n")
    (tmp_path / "mine.py").write_text(FILE)
    return tmp_path / "mine.py"


def played(agent: IsolatedAgent, *names: str, seconds: float, out: Path) -> Rollout:
    tasks = [task.with_limits(8, seconds) for task in find_tasks(names)]
    return rollout(agent, "mine", tasks, out, timer="static")


def ends(pid: int) -> bool:
    """Whether a process is gone within some seconds."""
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def test_what_hangs_crashes_or_exits_is_a_row_and_stops_nothing(
    file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    agent = IsolatedAgent(str(file), grace=0.5)
    found = played(agent, *NAMES, seconds=4.0, out=tmp_path / "out")
    rows = {row.task: row for row in found.rows}
    assert [rows[name].status for name in NAMES] == ["failed", "failed", "failed", "not-solved"]
    hung, crashed, exited, _ = (rows[name].reason for name in NAMES)
    assert "it was ended" in hung and "its time was over" in hung
    assert "SIGSEGV" in crashed and "SystemExit: 3" in exited
    assert rows["debug-gemv"].cost.states == 1 and rows["debug-gemv"].cost.statuses == {"ok": 1}
    states = (tmp_path / "out" / "runs" / rows["debug-gemv"].run / "states.jsonl").read_text()
    assert sum("result" in json.loads(line) for line in states.splitlines()) == 1
    assert ends(int((tmp_path / "pid").read_text()))
    assert "no answer of the command" not in capfd.readouterr().out
    agent.close()


def test_a_strategy_of_a_file_that_hangs_is_ended(file: Path, tmp_path: Path) -> None:
    agent = IsolatedAgent(str(file), "Search", grace=0.5)
    (row,) = played(agent, "optimise-dot", seconds=3.0, out=tmp_path / "out").rows
    assert row.status == "failed" and "its time was over" in row.reason and row.cost.states == 1
    agent.close()


def test_a_process_ends_with_its_agent(file: Path) -> None:
    agent = IsolatedAgent(str(file))
    assert agent._process is not None
    pid = agent._process.process.pid
    os.kill(pid, 0)
    del agent
    assert ends(pid)


@pytest.mark.parametrize("text", ["raise SystemExit(0)", "import os\nos._exit(7)", "import no_such_module"])
def test_a_file_that_cannot_be_loaded_is_told(text: str, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(text)
    with pytest.raises(dojoir.ArgumentError, match=r"cannot load .*bad\.py") as error:
        IsolatedAgent(str(tmp_path / "bad.py"))
    assert error.value.diagnostic.code == "bad-agent"


WRONG = (3, "split(0, 2)", Answer(moves=None), Answer(moves="split(0, 2)"), Answer(moves=(1,)), Answer(move="3"),
         Answer(move=1.5), Answer(move=True), Answer(text=7), Answer(note=object()), Answer(bound=None),
         Answer(note="x" * (1 << 21)))  # type: ignore[arg-type]  # fmt: skip


@pytest.mark.parametrize("given", WRONG, ids=range(len(WRONG)))
def test_what_is_no_answer_is_told_as_that(given: object) -> None:
    with pytest.raises(dojoir.ArgumentError, match="answer is not valid") as error:
        answer_of(given, dojoir.kernels.load("dot"))
    assert error.value.diagnostic.code == "bad-agent"


def test_an_agent_in_this_process_is_held_to_the_same(tmp_path: Path) -> None:
    class Odd:
        """Answers what is none."""

        def play(self, desk: object) -> Answer:
            return Answer(moves=None)  # type: ignore[arg-type]

    (row,) = rollout(Odd(), "odd", find_tasks(["debug-gemv"]), tmp_path / "out", timer="static").rows
    assert row.status == "failed" and "moves is a list of texts" in row.reason


def test_lists_and_moves_are_answers_too() -> None:
    kernel = dojoir.kernels.load("softmax")
    move = dojoir.moves(kernel)[0]
    given = Answer(moves=[move, "simplify"])  # type: ignore[arg-type]
    assert answer_of(given, kernel).moves == (str(move), "simplify")
    assert answer_of(dojoir.Trace(kernel), kernel) == answer_of(None, kernel) == Answer()


NO_PIPE = {
    "closes": "desk._connection.close()\n    time.sleep(1000)",
    "says half": "os.write(desk._connection.fileno(), b'\\0\\0\\1\\0')\n    time.sleep(1000)",
    "does not read": 'while True:\n        desk._connection.send_bytes(b\'{"ask": "spent"}\')',
}


@pytest.mark.parametrize("text", NO_PIPE.values(), ids=[*NO_PIPE])
def test_an_agent_that_leaves_the_pipe_alone_is_ended(text: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(f"import os, time\ndef play(desk):\n    {text}\n")
    (task,) = (one.with_limits(None, 0.5) for one in find_tasks(["optimise-dot"]))
    agent = IsolatedAgent(str(tmp_path / "mine.py"), grace=1.0)
    (row,) = rollout(agent, "mine", [task], tmp_path / "out", timer="static").rows
    agent.close()
    assert row.status == "failed" and "it was ended" in row.reason, row
