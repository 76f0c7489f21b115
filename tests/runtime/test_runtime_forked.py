"""A job in a fork: what becomes of it is what becomes of it in a fresh process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from to_verify import SOFTMAX

import dojoir
from dojoir.runtime.process.child import run_child
from dojoir.runtime.process.forked import run_forked
from dojoir.runtime.process.subject import KernelSubject
from dojoir.runtime.verification.inputs import make_inputs
from dojoir.runtime.verification.trial import load_arrays, save_arrays

FORKED = """
import json, sys
import numpy
from dojoir.runtime.process.forked import run_forked
job = json.load(sys.stdin)
outcomes = [run_forked(job, 5.0) for _ in range(2)]
print(json.dumps([[outcome.messages, outcome.ended] for outcome in outcomes]))
"""
"""In a process of its own: one that has no threads."""

BODIES = {
    "right": None,
    "crash": "store volatile i32 1, ptr null\nret i32 0",
    "hang": 'br label %l\nl:\ncall void asm sideeffect "", ""()\nbr label %l',
    "killed": "%i = call i32 @getpid()\n%k = call i32 @kill(i32 %i, i32 9)\nret i32 0",
    "left": "call void @exit(i32 0)\nret i32 0",
    "refused": "this is no code",
    "grandchild": "%p = call i32 @fork()\n%c = icmp eq i32 %p, 0\nbr i1 %c, label %stay, label %leave\n"
    "stay:\n%t = call i32 @sleep(i32 600)\nbr label %stay\nleave:\nret i32 1",
}

DECLARED = ("i32 @getpid()", "i32 @kill(i32, i32)", "void @exit(i32)", "i32 @fork()", "i32 @sleep(i32)")


@pytest.mark.parametrize("name", BODIES)
def test_a_fork_ends_as_a_child_does(name: str, tmp_path: Path) -> None:
    body, sizes = BODIES[name], {"N": 3, "M": 5}
    text = None
    if body is not None:
        text = f"define i32 @softmax(ptr %x, ptr %y, i64 %n, i64 %m) {{\n{body}\n}}\n"
        text += "".join(f"declare {one}\n" for one in DECLARED)
    x = make_inputs(SOFTMAX, sizes, 1, "uniform")
    save_arrays(str(tmp_path / "x"), x)
    run = {"inputs": str(tmp_path / "x"), "sizes": sizes, "at_end": True, "poison": 255}

    def job(out: str) -> dict[str, Any]:
        subject = KernelSubject(SOFTMAX, "llvm", 1, text).to_json()
        return {"kind": "trial", "subject": subject, "runs": [{**run, "outputs": str(tmp_path / out)}]}

    child = run_child(job("child"), 5.0)
    given = json.dumps(job("fork"))
    done = subprocess.run([sys.executable, "-c", FORKED], input=given, capture_output=True, text=True, check=True)
    for messages, ended in json.loads(done.stdout):
        assert messages == [*child.messages]
        assert ended == child.ended
    if name == "right":
        ours, its = (load_arrays(str(tmp_path / out)) for out in ("fork", "child"))
        assert (ours["y"] == its["y"]).all()
    elif name == "hang":
        assert child.ended == "hung (stopped after 5 s)"


def test_an_evaluation_forks_its_reference() -> None:
    kernel = dojoir.kernels.load("matmul")
    with dojoir.Evaluator(kernel, "llvm", dict.fromkeys(kernel.runtime_sizes, 80)) as evaluator:
        assert evaluator._pool.run is run_forked
        (found,) = evaluator.evaluate([kernel])
    assert found.ok, found.reason
