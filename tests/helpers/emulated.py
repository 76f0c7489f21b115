"""Many kernels on an emulated processor at once: one program holds them all, and one run makes all calls."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

import dojoir
from dojoir import Kernel
from dojoir.codegen.emission import lower
from dojoir.codegen.simd.isas import ISAS
from dojoir.codegen.simd.printer import print_simd
from dojoir.meaning.flat import flattened
from dojoir.meaning.sizes import solve
from dojoir.runtime.build import emulation
from dojoir.runtime.call.layout import allocate, array_shape, dense_steps, place, storage_bytes
from dojoir.runtime.call.scalars import scalar_argument, takes_value

Arrays = Mapping[str, NDArray[Any]]

LENGTHS = {"neon": (128,), "sve": (128, 256, 512), "rvv": (128, 256, 512)}
"""The bits of the vectors that the processors of a target may have."""

STEPS = 4
"""How many moves a random walk makes at most."""


HEADER = re.compile(r"^(?:#if .*\n(?:#include .*\n)+#endif$|#include .*$)", re.MULTILINE)
"""A header as it is printed: alone, or with others under a condition."""


@dataclass(frozen=True)
class Trial:
    """A call of a kernel: inputs and sizes, and what it is to give."""

    kernel: Kernel
    inputs: Arrays
    sizes: Mapping[str, int]
    expected: Arrays


def walked(kernel: Kernel, random: Random) -> Kernel:
    """The kernel after some legal moves."""
    trace = dojoir.Trace(kernel)
    for _ in range(STEPS):
        candidates = list(dojoir.candidates(trace.kernel))
        for move in random.sample(candidates, min(8, len(candidates))):
            if dojoir.check(trace.kernel, move):
                trace.apply(move)
                break
    return trace.kernel


def machine(target: str) -> emulation.CrossMachine:
    """The cross compiler and emulator of a target. Raises ToolchainError where they are missing."""
    return emulation.find(ISAS[target])


def build(target: str, kernels: Sequence[Kernel], folder: Path, options: Sequence[str] = ()) -> Path:
    """One program that holds the kernels; `options` are further ones of the compiler."""
    isa, parts = ISAS[target], []
    for number, kernel in enumerate(kernels):
        named = replace(kernel, name=f"k{number}_{kernel.name}")
        program = lower(named, target)
        parts.append((program, print_simd(program, isa)))
    out = folder / f"{target}.program"
    *sources, calls, main = emulation.program_sources(parts)
    half = len(sources) // 2
    found = machine(target)
    quick = replace(found, toolchain=found.toolchain.with_options(("-O1", *options)))
    quick.build([merged(sources[:half]), merged(sources[half:]), calls, main], out)
    return out


def merged(sources: Sequence[str]) -> str:
    """Several printed kernels as one file: a compiler reads the headers once, and each function that they share.
    Headers of another processor's instructions keep the condition around them."""
    headers: dict[str, None] = {}
    pieces: dict[str, None] = {}
    for source in sources:
        piece = ""
        for part in source.partition("\n\n")[2].strip().split("\n\n"):
            headers |= dict.fromkeys(found[0] for found in HEADER.finditer(part))
            kept = HEADER.sub("", part).strip("\n")
            piece = f"{piece}\n\n{kept}" if piece else kept
            if piece.count("{") == piece.count("}"):
                pieces[piece] = None
                piece = ""
    return "\n\n".join(["\n".join(headers), *pieces]) + "\n"


def run(target: str, program: Path, trials: Sequence[tuple[int, Trial]], vlen: int = 128) -> list[Arrays]:
    """What each trial gives, by the number of its kernel in the program."""
    calls = [emulation.EmulatedCall(number, _packed(trial)) for number, trial in trials]
    with patch.dict(os.environ, {emulation.VLEN: str(vlen)}):
        done = machine(target).run(program, calls, limit=300.0)
    results: list[Arrays] = []
    for (_, trial), finished in zip(trials, done, strict=True):
        assert finished.status == 0, f"{trial.kernel.name}: status {finished.status}"
        results.append(_outputs(trial, finished.arguments))
    return results


def _packed(trial: Trial) -> tuple[bytes, ...]:
    sizes = _sizes(trial)
    packed = []
    for buffer in trial.kernel.arguments:
        if takes_value(buffer):
            value = scalar_argument(buffer, trial.inputs[buffer.name])
            packed.append(emulation.scalar_bytes(buffer.dtype.stored, value))
            continue
        memory = np.full(storage_bytes(buffer, sizes), 0xA5, np.uint8)
        if buffer.role != "out":
            place(memory, buffer, sizes)[...] = np.asarray(trial.inputs[buffer.name]).reshape(
                array_shape(buffer, sizes)
            )
        packed.append(memory.tobytes())
    packed += [np.int64(sizes[name]).tobytes() for name in trial.kernel.runtime_sizes]
    packed += [np.int64(step).tobytes() for step in dense_steps(trial.kernel.arguments, sizes)]
    return tuple(packed)


def _outputs(trial: Trial, arguments: Sequence[bytes]) -> Arrays:
    sizes = _sizes(trial)
    outputs: dict[str, NDArray[Any]] = {}
    for buffer, data in zip(trial.kernel.arguments, arguments, strict=False):
        if buffer.role != "in":
            array = allocate(buffer, sizes)
            array[...] = place(np.frombuffer(data, np.uint8).copy(), buffer, sizes)
            outputs[buffer.name] = flattened(buffer, array)
    return outputs


def _sizes(trial: Trial) -> Mapping[str, int]:
    return solve(trial.kernel, {}, dict(trial.sizes))


__all__ = ["LENGTHS", "Arrays", "Trial", "build", "machine", "merged", "run", "walked"]
