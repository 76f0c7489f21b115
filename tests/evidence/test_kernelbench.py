"""Problems of KernelBench as they are, against a clock of the tests: no figure is of a real one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from folders import ROOT
from synthetic import Clock

import dojoir
from dojoir.evidence import Bench, fast_p
from dojoir.evidence.kernelbench import bench_problem, load_problem, problems, result_line
from dojoir.evidence.told import problem_table
from dojoir.verbs import main

torch: Any = pytest.importorskip("torch", reason="needs PyTorch")

pytestmark = pytest.mark.filterwarnings("ignore")

FOLDER = ROOT / "tests" / "pytorch" / "kernelbench"
TIMES = {"dojoir": 1e-3, "itself": 1e-3, "torch": 3e-3, "compile": 0.5e-3}


def clock() -> Clock:
    return Clock(lambda one: 1e-6 if isinstance(one, dojoir.Kernel) else TIMES[getattr(one, "name", "")], 0.0)


@pytest.fixture(scope="module")
def found() -> list[Bench]:
    return [bench_problem(path, measure=clock()) for path in problems(FOLDER)]


def test_ten_problems_are_right(found: list[Bench]) -> None:
    assert [one.kernel.split("_")[0] for one in found] == [str(n) for n in range(1, 11)]
    assert [one.kernel for one in found if one.correct != "pass"] == [], [one.reason for one in found]


def test_the_share_that_is_right_and_faster(found: list[Bench]) -> None:
    assert fast_p(found, "torch", 1.0) == 1.0 and fast_p(found, "torch", 3.5) == 0.0
    assert fast_p(found, "compile", 1.0) == 0.0
    table = problem_table(found)
    assert "beside torch: fast_0 100%, fast_1 100%, fast_2 100%; geometric mean 3x" in table
    assert "beside compile: fast_0 100%, fast_1 0%, fast_2 0%; geometric mean 0.5x" in table


def test_a_result_has_the_form_of_the_benchmark(found: list[Bench]) -> None:
    line = json.loads(json.dumps(result_line(found[0])))
    assert line["problem_name"] == "1_square_matmul" and line["compiled"] and line["correctness"]
    assert line["runtime"] == pytest.approx(1.0, rel=0.1) and line["speedup"]["torch"] == pytest.approx(3.0)
    assert set(line["runtime_stats"]) == {"mean", "std", "min", "max", "num_trials"}


WRONG = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return torch.linalg.inv(x)

def get_inputs():
    return [torch.randn(4, 4)]

def get_init_inputs():
    return []
"""


def test_what_cannot_be_expressed_is_said_and_not_timed(tmp_path: Path) -> None:
    (tmp_path / "sorted.py").write_text(WRONG)
    one = bench_problem(tmp_path / "sorted.py", measure=clock())
    assert one.correct == "fail" and "inv" in one.reason and one.shapes[0].own is None
    line = result_line(one)
    assert line["compiled"] is False and line["runtime"] == -1.0


def test_what_is_no_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "other.py").write_text("x = 1\n")
    with pytest.raises(dojoir.ArgumentError) as caught:
        load_problem(tmp_path / "other.py")
    assert caught.value.diagnostic.code == "not-a-problem" and "get_inputs" in caught.value.diagnostic.message
    assert main(["bench", "--kernelbench", str(tmp_path / "missing.py")]) == 1
    assert main(["bench", "library:relu", "--kernelbench", str(FOLDER)]) == 1
    assert "inputs of its own" in capsys.readouterr().err


def test_the_command_times_one(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(FOLDER / "2_softmax.py")
    status = main(
        ["bench", "--kernelbench", path, "--beside", "torch", "--samples", "3", "--seconds", "0.2", "--json"]
    )
    line = json.loads(capsys.readouterr().out)
    assert status == 0 and line["correctness"] and line["runtime"] > 0 and line["speedup"]["torch"] > 0
