"""Running a kernel on given inputs where every wrong access shows: in the child process of `verify`.

Every array lies between guard pages, outputs hold a pattern first, and what the kernel must not change is
compared afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from dojoir.backends.backend import code
from dojoir.backends.host import split_target
from dojoir.backends.registry import backend_or_none
from dojoir.errors import RunError
from dojoir.ir.nodes import Buffer
from dojoir.runtime.call.compiled import Compiled
from dojoir.runtime.call.layout import place, storage_bytes
from dojoir.runtime.call.scalars import takes_value
from dojoir.runtime.process.float_mode import float_mode, was_changed
from dojoir.runtime.process.subject import KernelSubject, subject_from_json
from dojoir.runtime.process.worker import Report
from dojoir.runtime.verification.guard import Guarded, guarded

GAP = 3
"""How many elements lie between the rows of an array that may have such: none is then where a dense one has it."""

LEFT_MODE = "left another rounding mode"

POISONS = (0xFF, 0xA5)
"""The values of every byte of an output before a run: NaN for each float type of 8 bits or more, then small
numbers."""


def run_trial(job: Mapping[str, Any], report: Report) -> None:
    """Loads the subject, then does the runs. Reports the start and the end of each."""
    subject = subject_from_json(job["subject"])
    assert isinstance(subject, KernelSubject)
    compiled = subject.load()
    backend = backend_or_none(split_target(compiled.target)[0])
    if backend is not None and backend.is_device:
        compiled = code(backend.on_host)(compiled)
    report({"loaded": True})
    for number, run in enumerate(job["runs"]):
        report({"start": number})
        inputs = load_arrays(run["inputs"])
        try:
            outputs, faults = attempt(compiled, inputs, run["sizes"], run["at_end"], run["poison"])
        except RunError as error:
            report({"done": number, "error": error.diagnostic.render()})
            continue
        save_arrays(run["outputs"], outputs)
        report({"done": number, "faults": faults})


def save_arrays(path: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Arrays by name as one file."""
    with open(path, "wb") as file:
        file.write(json.dumps([*arrays]).encode() + b"\n")
        for array in arrays.values():
            np.save(file, array, allow_pickle=False)


def load_arrays(path: str) -> dict[str, np.ndarray]:
    """Reads the output of `save_arrays`."""
    with open(path, "rb") as file:
        names: list[str] = json.loads(file.readline())
        return {name: np.load(file, allow_pickle=False) for name in names}


def attempt(
    compiled: Compiled, inputs: Mapping[str, np.ndarray], sizes: Mapping[str, int], at_end: bool, poison: int
) -> tuple[dict[str, np.ndarray], list[str]]:
    """One call: every output, and what the kernel did that it must not do. Arrays lie against the guard page
    behind them or in front of them. Raises RunError as the call does."""
    arguments: dict[str, np.ndarray] = {}
    blocks: dict[str, Guarded] = {}
    for buffer in compiled.kernel.arguments:
        if takes_value(buffer):
            arguments[buffer.name] = inputs[buffer.name]
            continue
        block = guarded(storage_bytes(buffer, sizes, GAP), _alignment(buffer), at_end)
        block.memory[:] = poison
        array = place(block.memory, buffer, sizes, GAP)
        if buffer.role != "out":
            array[...] = inputs[buffer.name]
        blocks[buffer.name] = block
        arguments[buffer.name] = array
    mode = float_mode()
    compiled(*arguments.values(), **sizes)
    faults = [LEFT_MODE] if was_changed(mode) else []
    faults += [f"wrote outside of {name}" for name, block in blocks.items() if not block.is_intact]
    faults += [
        f"wrote between the rows of {buffer.name}"
        for buffer in compiled.kernel.arguments
        if (buffer.pad or buffer.strided) and not _gaps_are(poison, blocks[buffer.name].memory, buffer, sizes)
    ]
    outputs: dict[str, np.ndarray] = {}
    for buffer in compiled.kernel.arguments:
        array = arguments[buffer.name]
        if buffer.role != "in":
            outputs[buffer.name] = array.view(np.uint8) if buffer.dtype.kind == "b" else array
        elif not takes_value(buffer) and array.tobytes() != inputs[buffer.name].tobytes():
            faults.append(f"changed its input {buffer.name}")
    return outputs, faults


def _gaps_are(poison: int, memory: np.ndarray, buffer: Buffer, sizes: Mapping[str, int]) -> bool:
    """Whether all bytes that belong to no element are as they were."""
    left = memory.copy()
    item = np.full(buffer.dtype.itemsize, poison, np.uint8)
    place(left, buffer, sizes, GAP)[...] = item.view(buffer.dtype.stored)[0]
    return bool((left == poison).all())


def _alignment(buffer: Buffer) -> int:
    """Just what the kernel was promised."""
    return buffer.align or buffer.dtype.itemsize
