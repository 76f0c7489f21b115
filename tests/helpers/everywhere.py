"""Every kernel of the library on every target that runs here, scheduled and after random legal walks, in volume.

    python tests/helpers/fuzz.py --library 40 --seed 0 [--targets rvv,sve]
    python tests/helpers/fuzz.py --practice 30 --targets neon,sve,rvv      # the texts of practice

What a target gives is held against the interpreter; SVE and RVV run with vectors of three lengths.
"""

from __future__ import annotations

import ctypes
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import emulated
import numpy as np
from agreement import agree, small_sizes
from differential import is_bitwise
from emulated import LENGTHS, Arrays, Trial, merged
from folders import TESTS
from practice_texts import arguments_of
from scheduled import by_default

import dojoir
from dojoir import Kernel, kernels, schedules
from dojoir.backends.machine import MACHINES
from dojoir.codegen.c.printer import print_c
from dojoir.codegen.c.symbols import symbol
from dojoir.codegen.emission import lower
from dojoir.codegen.simd.isas import ISAS
from dojoir.codegen.simd.printer import print_simd
from dojoir.ir.nodes import holds
from dojoir.runtime.build import c_toolchain, host_targets
from dojoir.runtime.build.compiler import check_target
from dojoir.runtime.call.compiled import Compiled
from dojoir.types.in_bytes import in_bytes

LARGE = (8, 9, 16, 17, 31, 32, 33, 40)
"""Sizes around those of tiles and vectors."""

CPUS = sorted(name for name, machine in MACHINES.items() if machine.kind == "cpu")
"""The machines that walks start from; schedules for GPUs run on the harness."""

WORK = 30_000
"""How many statements the interpreter may run in a call at such sizes."""


@dataclass(frozen=True)
class Subject:
    """A kernel and its calls, and how it came about. `target`: it is for this one alone. `exact`: all targets must
    give the same bits, whatever the text says. `rounded`: its sums are not of small whole numbers alone."""

    about: str
    kernel: Kernel
    trials: tuple[Trial, ...]
    target: str = ""
    exact: bool = False
    rounded: bool = False


TEXTS = TESTS.parent / "benchmarks" / "practice"
"""The texts of practice, as newcomers would write them."""

FEW = 8
"""How many texts are one case: a program for each target."""


# -- subjects ----------------------------------------------------------------------------------------------
def loaded(name: str) -> Kernel:
    """A kernel of the library, or a text of practice by the name of its file."""
    return (
        dojoir.parse((TEXTS / name).read_text(encoding="utf-8")) if name.endswith(".dojo") else kernels.load(name)
    )


def scheduled(name: str, target: str) -> Kernel:
    """A kernel with the default schedule for the typical machine of a target."""
    return by_default(loaded(name), target).kernel


def subjects(names: Sequence[str], random: Random, targets: Sequence[str]) -> Iterator[Subject]:
    """Each kernel as scheduled by rule for each target and by what is stored for it, and walked from its text or
    from a schedule."""
    for name in names:
        kernel = loaded(name)
        trials, rounded = calls(kernel, random), name.endswith(".dojo")
        for target in targets:
            yield Subject(f"{name}, scheduled", scheduled(name, target), trials, target, rounded=rounded)
            for schedule in schedules.schedules(name):
                if target in schedule.targets:
                    begin = kernel.with_fp(schedule.fp) if schedule.fp else kernel
                    yield Subject(f"{name}, {schedule.path}", schedule.on(begin).kernel, trials, target)
        start = kernel if random.random() < 2 / 3 else scheduled(name, random.choice(CPUS))
        yield Subject(f"{name}, walked", emulated.walked(start, random), trials, rounded=rounded)


def calls(kernel: Kernel, random: Random, count: int = 2) -> tuple[Trial, ...]:
    """Calls at small sizes, and one at sizes that fill tiles."""
    chosen = [small_sizes(kernel, random) for _ in range(count - 1)]
    chosen += [large_sizes(kernel, random) or small_sizes(kernel, random)]
    return tuple(trial(kernel, sizes, random) for sizes in chosen)


def trial(kernel: Kernel, sizes: Mapping[str, int], random: Random) -> Trial:
    inputs = arguments_of(kernel, sizes, random)
    return Trial(kernel, inputs, sizes, dojoir.interpret(kernel, inputs, **sizes))


def large_sizes(kernel: Kernel, random: Random) -> dict[str, int] | None:
    instances = dojoir.cost(kernel).instances
    for _ in range(200 if kernel.runtime_sizes else 0):
        sizes = {name: random.choice(LARGE) for name in kernel.runtime_sizes}
        if all(holds(fact, sizes, ()) for fact in kernel.facts) and instances(sizes) < WORK:
            return sizes
    return None


# -- a program for a target --------------------------------------------------------------------------------
def results(target: str, found: Sequence[Subject], folder: Path) -> Iterator[tuple[Subject, Trial, str, Arrays]]:
    """What a target gives for every call of every subject, and where it did."""
    if target in LENGTHS:
        program = emulated.build(target, [subject.kernel for subject in found], folder)
        trials = [(n, trial) for n, subject in enumerate(found) for trial in subject.trials]
        for length in LENGTHS[target]:
            given = emulated.run(target, program, trials, length)
            for (n, trial), arrays in zip(trials, given, strict=True):
                yield found[n], trial, f"{target}, {length} bits", arrays
        return
    compiled = native(target, [subject.kernel for subject in found], folder)
    for subject, callable_ in zip(found, compiled, strict=True):
        for trial in subject.trials:
            yield subject, trial, target, callable_.run(trial.inputs, **trial.sizes)


def native(target: str, found: Sequence[Kernel], folder: Path) -> list[Compiled]:
    """The kernels as code of this processor, those in C in one library."""
    if target == "llvm":
        return [dojoir.compile(kernel, threads=2) for kernel in found]
    toolchain = c_toolchain.find().with_options(("-O1",))
    named = [replace(kernel, name=f"k{n}_{kernel.name}") for n, kernel in enumerate(found)]
    if target == "c":
        programs = [lower(kernel, "c") for kernel in named]
        sources = [print_c(program) for program in programs]
    else:
        isa = ISAS[target]
        toolchain = toolchain.with_options(isa.options)
        programs = [lower(kernel, target) for kernel in named]
        sources = [print_simd(program, isa) for program in programs]
    out = folder / f"{target}.so"
    c_toolchain.build_shared(merged(sources), out, toolchain=toolchain, limit=600)
    library = ctypes.CDLL(str(out))
    made = []
    for kernel, program, source in zip(found, programs, sources, strict=True):
        address = ctypes.cast(getattr(library, symbol(program.name)), ctypes.c_void_p).value
        assert address is not None
        made.append(Compiled(in_bytes(kernel), target, 2, source, address, library, program.checks))
    return made


def differences(target: str, found: Sequence[Subject], folder: Path, counts: Counter[str]) -> Iterator[str]:
    """How a target differs from the interpreter."""
    mine = [subject for subject in found if subject.target in ("", target)]
    for subject, trial, where, arrays in results(target, mine, folder):
        counts[where] += 1
        exact = subject.exact or (is_bitwise(subject.kernel) and not subject.rounded)
        wrong = agree(subject.kernel, trial.expected, arrays, exact)
        if wrong is not None and subject.rounded and _is_sensitive(trial, arrays):
            continue
        if wrong is not None:
            yield f"{subject.about}: {where} at {dict(trial.sizes)}: {wrong}\n{subject.kernel}"


def _is_sensitive(trial: Trial, arrays: Arrays) -> bool:
    """Whether results are as far apart as those of inputs that are moved by some units in the last place, as after
    many steps of a recurrence."""
    moved = {
        name: (array * np.float32(1 + 2**-22)).astype(array.dtype) if array.dtype == np.float32 else array
        for name, array in trial.inputs.items()
    }
    others = dojoir.interpret(trial.kernel, moved, **trial.sizes)
    apart = max((np.abs(others[n] - a).max(initial=0) for n, a in trial.expected.items() if a.dtype.kind == "f"))
    found = max((np.abs(arrays[n] - a).max(initial=0) for n, a in trial.expected.items() if a.dtype.kind == "f"))
    return bool(found <= 32 * apart)


def runs_here(target: str) -> bool:
    """Whether this machine builds and runs code of a target."""
    try:
        check_target(target)
        if target in ISAS and ISAS[target].architecture != host_targets.architecture():
            emulated.machine(target)
        elif target == "c" or target in ISAS:
            c_toolchain.find()
            if target in ISAS:
                host_targets.check_features(ISAS[target])
    except dojoir.ToolchainError:
        return False
    return True


# -- cases of `fuzz.py` ------------------------------------------------------------------------------------
def examine(texts: bool, number: int, random: Random, targets: Sequence[str], counts: Counter[str]) -> list[str]:
    """What differs for a dozen kernels of the library, or some texts of practice, those that have the number: one
    program for a target."""
    names = sorted(path.name for path in TEXTS.glob("*.dojo")) if texts else kernels.names()
    size = FEW if texts else 13
    first = number * size % (len(names) + -len(names) % size)
    found, able = list(subjects(names[first : first + size], random, targets)), filter(runs_here, targets)
    wrong = list[str]()
    for target in able:
        with tempfile.TemporaryDirectory() as folder:
            wrong += differences(target, found, Path(folder), counts)
    return wrong
