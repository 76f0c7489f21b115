"""The proof of barriers knows nothing of how they were derived: an error there is seen, and results stay right."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from gpu_barriers import with_barriers
from gpu_kernels import ALL
from on_harness import run
from test_gpu_barriers import MEETING, SIZES, inputs
from test_gpu_runs import BESIDE
from test_gpu_runs import SIZES as RUN_SIZES

import dojoir
from dojoir.codegen.gpu.printer import print_gpu
from dojoir.codegen.gpu.program import GpuProgram
from dojoir.codegen.lower import pipeline as lower
from dojoir.codegen.lower.gpu.launches import Launched, ThreadNest
from dojoir.codegen.lower.gpu.thread_plan import Threads
from dojoir.codegen.lower.nests import work
from dojoir.codegen.lower.waits import acts, barrier_proof, places_to_wait
from dojoir.codegen.lower.waits.acts import Reading, launches_of
from dojoir.codegen.lower.waits.barrier_proof import unseparated
from dojoir.codegen.lower.waits.barriers import barriers_of
from dojoir.codegen.target import CUDA, HIP, Target

TEXTS = {**MEETING, **ALL, "beside": BESIDE}
AT = {"beside": {"N": 3}, **RUN_SIZES, **SIZES}


@pytest.mark.parametrize("module", [acts, barrier_proof, places_to_wait], ids=lambda m: m.__name__)
def test_the_proof_shares_nothing_with_the_derivation(module: ModuleType) -> None:
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not imported & {
        f"dojoir.codegen.lower.{name}"
        for name in ("waits.barriers", "waits.meetings", "gpu.threads", "gpu.launches")
    }


Change = Callable[[Launched], Launched]


def with_nests(change: Callable[[ThreadNest], ThreadNest]) -> Change:
    return lambda launched: replace(
        launched, phases=tuple(replace(phase, nest=change(phase.nest)) for phase in launched.phases)
    )


ERRORS: dict[str, Change] = {
    "counts from the scope outside": with_nests(lambda nest: replace(nest, depth=max(nest.depth - 1, 0))),
    "counts from the scope inside": with_nests(lambda nest: replace(nest, depth=nest.depth + 1)),
    "a launch has one thread": lambda launched: replace(launched, threads=1),
    "a launch ends early": lambda launched: launched if launched.grid else replace(launched, last=launched.first),
    "phases have no threads": lambda launched: replace(launched, phases=()),
    "there is no warp code": lambda launched: replace(
        launched, phases=tuple(replace(phase, groups=()) for phase in launched.phases)
    ),
}
"""Errors that `Threads` could have: the first is one that it had."""


def mistaken(kernel: dojoir.Kernel, change: Change) -> Threads:
    threads = Threads(kernel, CUDA.warp)
    threads.launches = tuple(map(change, threads.launches))
    return threads


@pytest.mark.parametrize("error", ERRORS)
def test_an_error_of_the_derivation_is_refused(error: str) -> None:
    """Each of them loses barriers of some kernel, which the proof sees. Where others than those of a right
    derivation are enough by the proof, the harness says so too."""
    refused = 0
    for name, text in TEXTS.items():
        kernel = dojoir.parse(text)
        try:
            derived = barriers_of(mistaken(kernel, ERRORS[error]))
        except (KeyError, IndexError, AssertionError, dojoir.DojoError):
            continue  # seen without a proof
        if {*derived} == {*barriers_of(Threads(kernel, CUDA.warp))}:
            continue
        if unseparated(kernel, CUDA.warp, derived):
            refused += 1
        else:
            run(kernel, inputs(kernel, AT.get(name, {})), AT.get(name, {}), program=with_barriers(kernel, derived))
    assert refused


@pytest.mark.parametrize("name", ["turns", "reverse", "scan", "guarded", "warps", "beside"])
@pytest.mark.parametrize("target", [CUDA, HIP], ids=lambda target: target.name)
def test_without_a_proof_threads_wait_everywhere(
    name: str, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A derivation that finds nothing is right all the same, and says so in the text."""
    monkeypatch.setattr(work, "barriers_of", lambda threads: {})
    kernel, sizes = dojoir.parse(TEXTS[name]), AT.get(name, {})
    program = lower.lower(kernel, target)
    text = print_gpu(program, target.name)
    assert "// barrier: anything, as fewer are not proved to be enough" in text
    given = inputs(kernel, sizes)
    expected = dojoir.interpret(kernel, given, **sizes)
    found = run(kernel, given, sizes, program=GpuProgram(target.name, text, program), order="backward")
    for array, values in found.items():
        np.testing.assert_array_equal(values, expected[array])


def test_one_thread_does_not_wait() -> None:
    head = "kernel f(N)\nin x: f32[N]\nout y: f32[N]\ntmp t: f32[N]\n\n"
    text = head + "N : gx\n| t[{0}] = x[{0}]\n| y[{0}] = t[{0}]\n"
    kernel = dojoir.parse(text)
    assert unseparated(kernel, CUDA.warp, ()) == [] and "__syncthreads" not in dojoir.emit(kernel, "cuda")


@pytest.mark.parametrize("name", TEXTS)
def test_who_runs_what_is_counted_alike(name: str) -> None:
    """The two ways to count agree where both are right: how many launches, of how many threads."""
    kernel = dojoir.parse(TEXTS[name])
    threads = Threads(kernel, CUDA.warp)
    reading = Reading(kernel, CUDA.warp)
    launches = launches_of(kernel)
    assert {launch.root for launch in launches} == {launched.body for launched in threads.launches}
    for site in kernel.sites:
        together = reading.together(site)
        assert (together is not None) == (site.path in threads.collectives)
