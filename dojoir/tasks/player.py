"""The processes in which the agent of a file plays; `isolated_agent` starts `python -m dojoir.tasks.player NUMBER`.

NUMBER is the descriptor of the pipe. The first process keeps house: it is the parent of all that an agent leaves
behind, daemons too, and kills it when the agent, or the rollout, has ended. The second one, which it forks, reads
what to load, then a task at a time (`far`).
"""

from __future__ import annotations

import os
import select
import signal
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn, cast

import dojoir
from dojoir.records.plain_data import to_data
from dojoir.runtime.process.offspring import adopt, end_all
from dojoir.runtime.process.worker import die_with
from dojoir.tasks.agents import Agent, answer_of, in_file
from dojoir.tasks.desk import Desk
from dojoir.tasks.far import FarDesk, send
from dojoir.tasks.serving import FirstMessage

LOOK_SECONDS = 0.05


def main() -> None:
    connection = Connection(int(sys.argv[1]))
    adopt()
    keeper = os.getpid()
    child = os.fork()
    if child:
        connection.close()
        _keep(child)
    die_with(keeper)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # what an agent prints is not the answer of the command
    _play(connection)
    sys.stdout.flush()
    os._exit(0)


def _keep(child: int) -> NoReturn:
    """Waits until the player has ended, or the rollout, and ends with all that they have left."""
    status: int | None = None
    while status is None:
        if select.select([0], [], [], LOOK_SECONDS)[0] and not os.read(0, 1):
            status = signal.SIGKILL
            os.kill(child, status)  # a system that lists no processes tells `end_all` of none
        while (found := _reaped())[0]:
            status = found[1] if found[0] == child else status
    end_all(os.getpid())
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def _reaped() -> tuple[int, int]:
    try:
        return os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return 0, 0


def _play(connection: Connection) -> None:
    file, member, seed = connection.recv()
    sys.path.insert(0, str(Path(file).resolve().parent))  # what stands beside the file can be imported
    try:
        agent = in_file(file, member, seed)
    except dojoir.DojoError as error:
        send(connection, {"failed": error.diagnostic.message})
        return
    send(connection, {"loaded": True})
    while True:
        try:
            begun: FirstMessage = connection.recv()
        except EOFError:
            return
        send(connection, _played(agent, begun, connection))


def _played(agent: Agent, begun: FirstMessage, connection: Connection) -> dict[str, object]:
    """The answer to a task, or why there is none."""
    try:
        desk = FarDesk(begun, connection)
        return {"answer": to_data(answer_of(agent.play(cast(Desk, desk)), desk.kernel))}
    except dojoir.DojoError as error:
        return {"failed": error.diagnostic.message}
    except BaseException as error:  # of a file of the user's, which may exit as well
        return {"failed": f"the agent failed: {type(error).__name__}: {error}"}


if __name__ == "__main__":
    main()
