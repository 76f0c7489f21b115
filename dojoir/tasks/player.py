"""The process that the agent of a file plays in: `python -m dojoir.tasks.player NUMBER`, as `apart` starts it.

NUMBER is the descriptor of the pipe. It reads what to load, then a job for each task. It says what was used up of
the budget after each evaluation, and at last the answer, or as a text why there is none.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from multiprocessing.connection import Connection
from pathlib import Path

import dojoir
from dojoir.records import Database
from dojoir.tasks.agents import Agent, answer_of, in_file
from dojoir.tasks.desk import Desk, Job
from dojoir.tasks.task import Answer


def main() -> None:
    connection = Connection(int(sys.argv[1]))
    os.dup2(2, 1)  # what an agent prints is not the answer of the command
    threading.Thread(target=_end_with_the_rollout, daemon=True).start()
    file, member, seed = connection.recv()
    sys.path.insert(0, str(Path(file).resolve().parent))  # what stands beside the file can be imported
    try:
        agent = in_file(file, member, seed)
    except dojoir.DojoError as error:
        connection.send(error.diagnostic.message)
        return
    connection.send(None)
    while True:
        try:
            job: Job = connection.recv()
        except EOFError:
            return
        connection.send(_played(agent, job, connection))


def _played(agent: Agent, job: Job, connection: Connection) -> Answer | str:
    """The answer to a task, or why there is none."""
    database = Database(job.url)
    desk = Desk(
        job.task, database=database, run=job.run, timer=job.timer, seed=job.seed, list_moves=job.list_moves,
        folder=Path(job.folder) if job.folder else None, models=job.models,
        note=lambda: connection.send(desk.used()),
    )  # fmt: skip
    try:
        return answer_of(agent.play(desk), desk.kernel)
    except dojoir.DojoError as error:
        return error.diagnostic.message
    except BaseException as error:  # of a file of the user's, which may exit as well
        return f"the agent failed: {type(error).__name__}: {error}"
    finally:
        desk.close()
        database.close()
        connection.send(desk.used())


def _end_with_the_rollout() -> None:
    """Ends this process and what it has started when the process that started it is gone."""
    sys.stdin.buffer.read()
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
