"""`benchmarks/emulated_targets.py`: its calls are allowed and reach tiles, and what is wrong is told apart."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from folders import ROOT
from practice_texts import TEXTS

import dojoir

sys.path.append(str(ROOT / "benchmarks"))

import emulated_targets
from emulated_targets import STATEMENTS, calls_of, examined


@pytest.mark.parametrize("name", Random(3).sample(sorted(TEXTS), 12))
def test_calls_are_allowed_differ_and_are_small_and_large(name: str) -> None:
    text = TEXTS[name]
    calls = calls_of(text)
    counts = [dojoir.cost(text.kernel).instances(sizes) for sizes in calls]
    for sizes in calls:
        text.kernel.specialize(**sizes)
    assert len({tuple(sizes.values()) for sizes in calls}) == len(calls) > 1
    assert max(counts) <= 2 * STATEMENTS and max(counts) > 4 * min(counts)


def test_a_product_fills_tiles_in_two_dimensions() -> None:
    calls = calls_of(TEXTS["product"])
    assert any(sizes["N"] > 128 and sizes["M"] > 128 for sizes in calls)
    assert any(sizes["K"] > 300 for sizes in calls)


@pytest.mark.parametrize("target", ["c", "cuda"])
def test_a_mistake_is_wrong_and_a_refusal_is_refused(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = TEXTS["axpy"]
    try:
        found = examined(text, "practice", target, "fixed")
    except dojoir.ToolchainError as error:
        pytest.skip(str(error))
    if found.status == "uncompiled":
        pytest.skip(found.why)
    assert (found.status, found.why) == ("equal", "") and found.elements > 1000

    (output,) = [buffer.name for buffer in text.kernel.arguments if buffer.role != "in"]
    written = dojoir.to_text(text.kernel)
    other = dojoir.parse(written.replace(f"{output}[{{0}}] = ", f"{output}[{{0}}] = 1 + ", 1))
    assert other != text.kernel
    optimize = dojoir.optimize

    def mistaken(kernel: dojoir.Kernel, *given: Any, **more: Any) -> dojoir.Trace:
        fixed = {size.name: size.value for size in kernel.sizes if size.value is not None}
        return optimize(other.specialize(**fixed), *given, **more)

    monkeypatch.setattr(dojoir, "optimize", mistaken)
    wrong = examined(text, "practice", target, "fixed")
    assert wrong.status == "wrong" and "wrong result" in wrong.why

    def refusing(*given: Any, **more: Any) -> dojoir.Trace:
        raise dojoir.KernelError("there is no room", "too-large")

    monkeypatch.setattr(dojoir, "optimize", refusing)
    refused = examined(text, "practice", target, "fixed")
    assert refused.status == "refused" and "there is no room" in refused.why
    lines = emulated_targets.report([found, wrong, refused]).splitlines()
    assert lines[0].startswith(f"WRONG axpy for {target}, fixed: ") and lines[1].startswith("REFUSED axpy")
    assert lines[-1].startswith(f"| {target} | fixed | 3 | 1 | 1 | 0 | 0 | 1 |")


def test_what_was_found_is_printed_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "found.jsonl"
    row = {"text": "axpy", "folder": "practice", "target": "sve 512", "mode": "open", "status": "equal"}
    file.write_text(json.dumps(row) + "\n", encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["emulated_targets.py", "--from", str(file)])
    assert emulated_targets.main() == 0
    assert "| sve 512 | open | 1 | 1 | 0 |" in capsys.readouterr().out
