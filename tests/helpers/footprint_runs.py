"""Random kernels and texts, by marks and by rule, held to their footprints: lowered, and as machine code.

    python tests/helpers/fuzz.py --footprints 100 --seed 0 [--targets llvm,avx2,cuda] [--minutes 60]
    python tests/helpers/fuzz.py --foot-texts 20 --targets neon,sve,rvv      # the library and practice, emulated

A case is twelve kernels with the marks that they were drawn with, and the same as `optimize` schedules them for
each target. Each is called at small sizes: the lowered program is run by `lir_run`, the machine code, where it
runs here, with canaries between guard pages, and what both leave is held against the interpreter. It runs where
llvmlite is missing, on all targets but llvm: with lark, islpy, numpy and a C compiler.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any
from unittest.mock import patch

import emulated
import everywhere
import numpy as np
from agreement import agree
from differential import bearable_sizes
from drawing import draw
from everywhere import native, runs_here
from footprints import (
    GPUS,
    Arrays,
    NotKnown,
    Text,
    beyond,
    changed,
    results_of,
    run_lowered,
    stored_arrays,
    tells_apart,
    with_canaries,
)
from lir_run import OutOfBounds, TooLong
from practice_texts import arguments_of

import dojoir
from dojoir import Kernel
from dojoir.codegen.emission import lower
from dojoir.runtime.build import emulation
from dojoir.runtime.call.layout import dense_steps, place
from dojoir.runtime.call.scalars import scalar_argument, takes_value
from dojoir.runtime.verification.guard import guarded

EMULATED = ("neon", "sve", "rvv")
BATCH = 12
"""Kernels of one case: they are one library for each target."""

MOST = 40_000
"""How many values one run of a lowered program may compute."""


@dataclass(frozen=True)
class Case:
    """A kernel for a target, and its calls."""

    about: str
    kernel: Kernel
    target: str
    calls: tuple[Text, ...]


def drawn(random: Random) -> Kernel:
    """A random kernel: mostly one that any target must run."""
    if random.random() < 0.75:
        return draw("runnable", random, exact=random.random() < 0.5, small=random.random() < 0.5)
    return draw("tangled", random, small=random.random() < 0.5)


def cases_of(
    kernel: Kernel, about: str, targets: Sequence[str], random: Random, marks: bool = True
) -> Iterator[Case]:
    """The kernel as it is and as it is scheduled by rule, for each target."""
    calls = []
    for _ in range(3):
        sizes = bearable_sizes(kernel, random)
        calls.append((sizes, arguments_of(kernel, sizes, random)))
    for target in targets:
        found = {"marks": kernel} if marks and target not in GPUS else {}
        found["optimize"] = dojoir.optimize(kernel, target).kernel
        for how, scheduled in found.items():
            outside = (0, 0, 0) if target in GPUS else ()
            texts = tuple(Text(scheduled, sizes, inputs, outside) for sizes, inputs in calls)
            yield Case(f"{about} {target} by {how}", scheduled, target, texts)


def wrong_lowered(case: Case, expected: Sequence[Arrays], counts: Counter[str]) -> Iterator[str]:
    """How the program of a case strays from its text."""
    program = lower(case.kernel, case.target)
    for text, right in zip(case.calls, expected, strict=True):
        try:
            _ = text.footprint  # may not be known
            found, memory = run_lowered(program, case.kernel, text.sizes, text.inputs, MOST)
        except (NotKnown, TooLong) as error:
            counts["not known" if isinstance(error, NotKnown) else "too long"] += 1
            continue
        except OutOfBounds as error:
            yield f"lowered, at {dict(text.sizes)}: {error}"
            continue
        counts[f"{case.target}, lowered"] += 1
        for wrong in beyond(text, found, tells_apart(case.kernel)):
            yield f"lowered, at {dict(text.sizes)}: {wrong}"
        wrong_result = agree(case.kernel, right, results_of(case.kernel, text.sizes, memory), False)
        if wrong_result is not None:
            yield f"lowered, at {dict(text.sizes)}: {wrong_result}"


def wrong_machine(
    cases: Sequence[Case], expected: Sequence[Sequence[Arrays]], random: Random, counts: Counter[str]
) -> Iterator[str]:
    """How machine code strays: all cases are of one target."""
    target = cases[0].target
    with tempfile.TemporaryDirectory() as folder:
        if target in EMULATED:
            yield from _emulated(target, cases, expected, random, counts, Path(folder))
            return
        made = native(target, [case.kernel for case in cases], Path(folder))
        for case, compiled, rights in zip(cases, made, expected, strict=True):
            for text, right in zip(case.calls, rights, strict=True):
                for at_end in (True, False):
                    try:
                        before = with_canaries(case.kernel, text, random)
                    except NotKnown:
                        continue
                    counts[f"{target}, machine code"] += 1
                    print(json.dumps({"at": f"{case.about} at {dict(text.sizes)}\n{case.kernel}"}), flush=True)
                    after = _called(compiled, case.kernel, text, before, at_end)
                    yield from _judged(case, text, before, after, right)


def _called(compiled: Any, kernel: Kernel, text: Text, before: Arrays, at_end: bool) -> Arrays:
    """What a call leaves in its arguments, which lie against a guard page."""
    held, arguments = [], []
    for buffer in kernel.arguments:
        if takes_value(buffer):
            arguments.append(text.inputs[buffer.name])
            continue
        memory = guarded(len(before[buffer.name]), max(buffer.align, buffer.dtype.itemsize), at_end)
        memory.memory[...] = before[buffer.name]
        held.append((buffer.name, memory))
        arguments.append(place(memory.memory, buffer, text.sizes))
    compiled.trust()  # elements that nothing reads are canaries, which are all one number
    compiled(*arguments, **text.sizes)
    assert all(memory.is_intact for _, memory in held), "what lies beside an array was written to"
    return {name: memory.memory.copy() for name, memory in held}


def _judged(case: Case, text: Text, before: Arrays, after: Arrays, right: Arrays) -> Iterator[str]:
    for wrong in changed(case.kernel, text, before, after):
        yield f"{case.about}: machine code at {dict(text.sizes)}: {wrong}\n{case.kernel}"
    memory = {name: bytes_.copy() for name, bytes_ in after.items()}
    own = text.footprint.writes
    written = {name: sorted(set().union(*(e for (n, _), e in own.items() if n == name))) for name, _ in own}
    given = results_of(case.kernel, text.sizes, _merged(case.kernel, text, memory, written))
    wrong_result = agree(case.kernel, right, given, False)
    if wrong_result is not None:
        yield f"{case.about}: machine code at {dict(text.sizes)}: {wrong_result}\n{case.kernel}"


def _merged(kernel: Kernel, text: Text, memory: Arrays, written: Mapping[str, Sequence[int]]) -> Arrays:
    """What was written, over the inputs: canaries are not among what is compared."""
    found = stored_arrays(kernel, text.sizes, text.inputs)
    for name, elements in written.items():
        size = kernel.buffer(name).dtype.itemsize
        found[name].reshape(-1, size)[list(elements)] = memory[name].reshape(-1, size)[list(elements)]
    return found


def _emulated(
    target: str,
    cases: Sequence[Case],
    expected: Sequence[Sequence[Arrays]],
    random: Random,
    counts: Counter[str],
    folder: Path,
) -> Iterator[str]:
    program = emulated.build(target, [case.kernel for case in cases], folder)
    plan, calls = [], []
    for number, (case, rights) in enumerate(zip(cases, expected, strict=True)):
        for text, right in zip(case.calls, rights, strict=True):
            try:
                before = with_canaries(case.kernel, text, random)
            except NotKnown:
                continue
            plan.append((case, text, before, right))
            calls.append(emulation.EmulatedCall(number, _packed(case.kernel, text, before)))
    length = random.choice(emulated.LENGTHS[target])
    with patch.dict(os.environ, {emulation.VLEN: str(length)}):
        done = emulated.machine(target).run(program, calls, limit=300.0)
    for (case, text, before, right), finished in zip(plan, done, strict=True):
        counts[f"{target}, emulated"] += 1
        after = {
            buffer.name: np.frombuffer(data, np.uint8)
            for buffer, data in zip(case.kernel.arguments, finished.arguments, strict=False)
            if not takes_value(buffer)
        }
        yield from _judged(case, text, before, after, right)


def _packed(kernel: Kernel, text: Text, before: Arrays) -> tuple[bytes, ...]:
    found = []
    for buffer in kernel.arguments:
        if takes_value(buffer):
            value = scalar_argument(buffer, text.inputs[buffer.name])
            found.append(emulation.scalar_bytes(buffer.dtype.stored, value))
        else:
            found.append(before[buffer.name].tobytes())
    found += [np.int64(text.sizes[name]).tobytes() for name in kernel.runtime_sizes]
    found += [np.int64(step).tobytes() for step in dense_steps(kernel.arguments, text.sizes)]
    return tuple(found)


def failures(
    kernels: Sequence[tuple[str, Kernel]],
    targets: Sequence[str],
    random: Random,
    counts: Counter[str],
    machine: bool = True,
    marks: bool = True,
) -> Iterator[str]:
    """How some kernels stray, on some targets."""
    by_target: dict[str, list[tuple[Case, list[Arrays]]]] = {}
    for about, kernel in kernels:
        for case in cases_of(kernel, about, targets, random, marks):
            right = [dojoir.interpret(kernel, text.inputs, **text.sizes) for text in case.calls]
            for wrong in wrong_lowered(case, right, counts):
                yield f"{case.about}: {wrong}\n{case.kernel}"
            by_target.setdefault(case.target, []).append((case, right))
    for target, found in by_target.items():
        if machine and target not in GPUS and runs_here(target):
            yield from wrong_machine([c for c, _ in found], [r for _, r in found], random, counts)


# -- cases of `fuzz.py` ------------------------------------------------------------------------------------
HAS_LLVM = find_spec("llvmlite") is not None


def without_llvmlite() -> None:
    """Puts a module in the place of a missing llvmlite that says what this processor, of an x86, has: other targets
    ask nothing else of it."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    flags = next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), [])
    features = {re.sub("^avx512_", "avx512", flag).replace("sse4_", "sse4."): True for flag in flags}
    module: Any = ModuleType("llvmlite.binding")
    module.get_host_cpu_features = lambda: features
    module.get_host_cpu_name = lambda: "x86-64"
    sys.modules["llvmlite.binding"] = module


def examine(
    texts: bool, number: int, random: Random, targets: Sequence[str], counts: Counter[str], *, machine: bool = True
) -> list[str]:
    """How BATCH kernels stray: random ones, or the ones of a number of the library and the texts of practice."""
    if not HAS_LLVM:
        without_llvmlite()
    kernels = [(f"{number}+{n}", drawn(random)) for n in range(0 if texts else BATCH)]
    if texts:
        names = [*dojoir.kernels.names(), *sorted(path.name for path in everywhere.TEXTS.glob("*.dojo"))]
        kernels = [(name, everywhere.loaded(name)) for name in names[number * BATCH : (number + 1) * BATCH]]
    able = [target for target in targets if target in GPUS or (HAS_LLVM or target != "llvm")]
    return list(failures(kernels, able, random, counts, machine))
