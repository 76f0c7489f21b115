"""The table of codes: none that is raised is missing, and every refusal names the obligation that failed."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import numpy as np
import pytest
from drawing import draw
from listed import public_values
from raised import texts, words

import dojoir
from dojoir.codes import CODES, OBLIGATIONS


def test_an_entry_says_what_it_means_and_what_to_do() -> None:
    for code, entry in CODES.items():
        assert entry.of in OBLIGATIONS, code
        for sentence in (entry.meaning, entry.cure):
            assert len(sentence) >= 8, code
        assert entry.example, code
        assert entry.meaning.endswith("."), code


def test_every_entry_is_raised_or_says_that_it_was() -> None:
    """Nobody looks up a code in vain, and none that programs may know goes without a word: it stays, as `kept`."""
    raised = {*words(), *texts(), "legal"}
    silent = {code for code in CODES if code not in raised}
    assert silent == {code for code, entry in CODES.items() if entry.kept}


RELU = "kernel relu(N)\nin  x: f32[N]\nout y: f32[N]\nN\n| y[{0}] = max(x[{0}], 0)\n"
CALLS = re.compile(r"(check|Trace|find|write_library|kernel|kernels|emit|Machine|PythonCode|measure|interpret"
                   r"|compile|chain|run|verify|compiled)[.(].*\)")  # fmt: skip


@pytest.mark.parametrize("code", sorted(code for code in CODES if CALLS.fullmatch(CODES[code].example)))
def test_an_example_that_is_a_call_gives_its_code(code: str, tmp_path: Path) -> None:
    notes = tmp_path / "notes.json"
    notes.write_text("{}")
    kernel, x, y = dojoir.parse(RELU), np.ones(8, np.float32), np.zeros(8, np.float32)
    compiled = dojoir.compile(kernel)
    names = public_values() | {
        "kernel": kernel, "softmax": dojoir.kernels.load("softmax"), "x": x, "y": y, "z": y, "compiled": compiled,
        "run": compiled.run, "traces": [dojoir.Trace(kernel)],
    }  # fmt: skip
    example = CODES[code].example.replace("notes.json", str(notes))
    try:
        found = eval(example, names).code
    except dojoir.DojoError as error:
        found = error.diagnostic.code
    assert found == code


MOVES_ON_SOFTMAX = {
    "reuse_dims(m, 0)": "flow", "parallelize(0.1)": "marks", "set_extent(0, N + 1)": "instances",
    "split(0.0, 4)": "tree", "split(0, 0)": "parameters", "split(7, 4)": "place", "place(m, reg)": "marks",
    "join_scopes(0, 1)": "none",
}  # fmt: skip


@pytest.mark.parametrize(("move", "obligation"), MOVES_ON_SOFTMAX.items())
def test_a_refusal_names_the_obligation_that_failed(move: str, obligation: str) -> None:
    verdict = dojoir.check(dojoir.kernels.load("softmax"), move)
    assert verdict.obligation == obligation, str(verdict)
    assert verdict.to_json()["obligation"] == obligation


def test_every_refusal_on_random_kernels_names_one() -> None:
    for seed in range(4):
        random = Random(seed)
        kernel = draw("tangled", random, small=True)
        moves = dojoir.candidates(kernel)
        for move in random.sample(moves, min(25, len(moves))):
            verdict = dojoir.check(kernel, move)
            assert verdict.code in CODES
            assert (verdict.obligation == "none") == bool(verdict)
