"""`benchmarks/gpu_right.py` on the harness: what is wrong is listed, and a run goes on where one ended."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import dojoir

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import gpu_right

CHILD = """
import json, sys, time
for line in sys.stdin:
    case = line.strip()
    if case == "crashes":
        sys.exit(3)
    if case == "hangs":
        time.sleep(60)
    wrong = ["y: 1 and 2"] * (case == "errs")
    print(json.dumps({"case": case, "calls": 1, "wrong": wrong, "notes": []}), flush=True)
"""


def recorded(results: Path) -> dict[str, list[str]]:
    return {found["case"]: found["wrong"] for found in map(json.loads, results.read_text().splitlines())}


def said(results: Path, every: list[str]) -> tuple[int, str]:
    lines: list[str] = []
    return gpu_right.summary(results, every, lines.append), "\n".join(lines)


def test_what_errs_crashes_or_hangs_is_listed_and_ends_nothing(tmp_path: Path) -> None:
    results, every = tmp_path / "right.jsonl", ["good", "errs", "crashes", "hangs", "last"]
    command = [sys.executable, "-c", CHILD]
    gpu_right.Pool(every, command, results, time.monotonic() + 100, case_seconds=2).run(1)
    found = recorded(results)
    assert [*found] == every
    assert found["good"] == found["last"] == []
    assert found["errs"] == ["y: 1 and 2"]
    assert "crashed" in found["crashes"][0]
    assert "longer than 2 s" in found["hangs"][0]
    status, text = said(results, every)
    assert status == 1
    assert all(f"WRONG {case}: " in text for case in ("errs", "crashes", "hangs"))
    assert "3 wrong, 0 refused of 5 cases, 0 left" in text


def test_a_run_goes_on_behind_the_last_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results, only = tmp_path / "right.jsonl", ["type f16 sum", "type u8 most"]
    results.write_text(json.dumps({"case": only[0], "calls": 7, "wrong": [], "notes": []}) + "\n")
    argv = ["gpu_right.py", "--emulated", "--processes", "1", "--results", str(results), "--only", *only]
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setattr(sys, "argv", argv)
        gpu_right.main()
    assert ended.value.code == 0
    assert recorded(results) == {case: [] for case in only}
    assert json.loads(results.read_text().splitlines()[0])["calls"] == 7
    assert "0 wrong, 0 refused of 2 cases, 0 left" in capsys.readouterr().out


@pytest.mark.parametrize("case", ["type f32 sum", "type i8 matmul", "library softmax open", "practice axpy fixed"])
def test_a_kernel_with_a_planted_mistake_is_wrong(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert gpu_right.run_case(case, "emulated")["wrong"] == []
    called = gpu_right._called

    def mistaken(*given: Any) -> Any:
        found = called(*given)
        for array in found.values():
            array.reshape(-1)[-1:] += 1
        return found

    monkeypatch.setattr(gpu_right, "_called", mistaken)
    wrong = gpu_right.run_case(case, "emulated")["wrong"]
    assert wrong and all(" and " in words or "apart" in words for words in wrong)


def test_where_nothing_can_run_nothing_is_called_wrong(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; sys.exit(3)"]
    assert gpu_right.lacking(command) == "it crashed"
    assert gpu_right.lacking([sys.executable, "-c", CHILD]) == ""


def test_all_are_asked() -> None:
    every = [*gpu_right.cases()]
    assert len(every) == len({*every})
    kinds = {kind: [case for case in every if case.startswith(f"{kind} ")] for kind in ("library", "random")}
    assert len(kinds["library"]) == 2 * len(dojoir.kernels.names())
    assert len(kinds["random"]) == 300
    assert len(gpu_right.TYPES) == 17
