"""Random kernels and texts, by marks and by rule, held to their footprints: lowered, and as machine code.

    python tests/helpers/footprint_runs.py --cases 1000 --seed 0 [--targets llvm,avx2,cuda] [--minutes 60]
    python tests/helpers/footprint_runs.py --cases 500 --targets neon,sve,rvv      # on emulated processors
    python tests/helpers/footprint_runs.py --texts                # the library and the texts of practice, by rule
    python tests/helpers/footprint_runs.py --jobs 16 --minutes 60 --targets c,avx2,avx512 --results feet.jsonl

A case is a kernel with the marks that it was drawn with, and the same as `optimize` schedules it for each target.
Each is called at small sizes: the lowered program is run by `lir_run`, the machine code with canaries between guard
pages, and what both leave is held against the interpreter. What runs may crash, so a child process runs a few cases
at a time. Prints each failure with its kernel, and how many calls were made; exits 1 if any failed.
With `--results` each child is a line of JSON added to a file, and the next run with that seed and these targets
leaves out what the file has. It runs where llvmlite is missing, on all targets but llvm: with lark, islpy, numpy
and a C compiler.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
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
from runnable import runnable_kernel
from tangled import tangled_kernel

import dojoir
from dojoir import Kernel
from dojoir.codegen.emission import lower
from dojoir.runtime.build import emulation
from dojoir.runtime.call.layout import dense_steps, place
from dojoir.runtime.call.scalars import scalar_argument, takes_value
from dojoir.runtime.verification.guard import guarded

EMULATED = ("neon", "sve", "rvv")
BATCH = 12
"""Cases of one child, whose kernels are one library for each target."""

LIMIT = 1800.0
"""How many seconds a child may take."""

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
        return runnable_kernel(random, random.random() < 0.5, small=random.random() < 0.5)
    return tangled_kernel(random, small=random.random() < 0.5)


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
            calls.append(emulation.Call(number, _packed(case.kernel, text, before)))
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
        if machine and target not in GPUS:
            yield from wrong_machine([c for c, _ in found], [r for _, r in found], random, counts)


# -- in the child ------------------------------------------------------------------------------------------
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


def batch(first: int, options: argparse.Namespace) -> None:
    """One child's cases."""
    random = Random(f"{options.seed}:{first}")
    if options.kernel:
        kernels = [(options.kernel, dojoir.parse(Path(options.kernel).read_text(encoding="utf-8")))]
    elif options.texts:
        kernels = [(name, everywhere.loaded(name)) for name in texts()[first : first + BATCH]]
    else:
        kernels = [(f"{options.seed}:{first}+{n}", drawn(random)) for n in range(BATCH)]
    counts: Counter[str] = Counter()
    for text in failures(kernels, options.targets.split(","), random, counts, not options.lowered):
        print(json.dumps({"failure": text}), flush=True)
    print(json.dumps({"counts": counts}), flush=True)


def texts() -> list[str]:
    return [*dojoir.kernels.names(), *sorted(path.name for path in everywhere.TEXTS.glob("*.dojo"))]


# -- in the parent -----------------------------------------------------------------------------------------
Record = dict[str, Any]


def what(options: argparse.Namespace) -> Record:
    """What makes the cases of a batch those that they are, beside its number."""
    return {name: getattr(options, name) for name in ("seed", "targets", "texts", "lowered", "kernel")}


def known(options: argparse.Namespace) -> dict[int, Record]:
    """The batches that the file of results has. A last line that was cut off is not one."""
    found: dict[int, Record] = {}
    if options.results and Path(options.results).exists():
        for line in Path(options.results).read_text(encoding="utf-8").splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if {name: record.get(name) for name in what(options)} == what(options):
                found[record["batch"]] = record
    return found


def run_batch(first: int, options: argparse.Namespace) -> Record:
    """A batch in a child, which may crash or hang."""
    command = [sys.executable, __file__, "--child", str(first), "--seed", options.seed]
    command += ["--targets", options.targets, *["--texts"] * options.texts, *["--lowered"] * options.lowered]
    command += ["--kernel", options.kernel] if options.kernel else []
    began = time.monotonic()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as child:
        try:
            said, complaint = child.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            said, complaint = child.communicate()
            complaint += f"\nit took longer than {LIMIT} s"
    at, wrong, counts = "", [], Counter[str]()
    for line in said.splitlines():
        message = json.loads(line) if line.startswith("{") and line.endswith("}") else {}
        at = message.get("at", at)
        counts.update(message.get("counts", {}))
        wrong += [message["failure"]] if "failure" in message else []
    if child.returncode:
        wrong.append(f"the batch ended with status {child.returncode} at {at}\n{complaint[-1500:]}")
    seconds = round(time.monotonic() - began, 1)
    return {"batch": first, **what(options), "counts": counts, "failures": wrong, "seconds": seconds}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=0, help="100, or as many as fit into the minutes")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--targets", default="")
    parser.add_argument("--texts", action="store_true", help="the library and the texts of practice")
    parser.add_argument("--kernel", default="", help="a file of one kernel, in place of random ones")
    parser.add_argument("--lowered", action="store_true", help="no machine code")
    parser.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument(
        "--results", default="", help="a file of a line of JSON for each batch: what it has is left out"
    )
    parser.add_argument("--child", type=int, default=-1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not HAS_LLVM:
        without_llvmlite()
    if options.child >= 0:
        batch(options.child, options)
        return 0
    given = options.targets.split(",") if options.targets else ["llvm", "c", "avx2", "avx512", "cuda"]
    able = [t for t in given if t in GPUS or options.lowered or ((HAS_LLVM or t != "llvm") and runs_here(t))]
    assert able, f"none of {', '.join(given)} runs here"
    options.targets = ",".join(able)
    print(f"targets {options.targets}, seed {options.seed}", flush=True)
    return 1 if run_all(options) else 0


def run_all(options: argparse.Namespace) -> int:
    """Runs batches until there are no more, or the time is over; gives the number of failures."""
    before = known(options)
    if options.kernel:
        end = 1
    elif options.texts:
        end = len(texts())
    else:
        end = options.first + (options.cases or (10**9 if options.minutes else 100))
    waiting = (first for first in range(options.first, end, BATCH) if first not in before)
    counts: Counter[str] = Counter()
    failed, batches, began = 0, 0, time.monotonic()

    def note(record: Record) -> None:
        nonlocal failed, batches
        counts.update(record["counts"])
        failed, batches = failed + len(record["failures"]), batches + 1
        for text in record["failures"]:
            print(f"--- batch {record['batch']}: {text}", flush=True)

    for record in before.values():
        note(record)
    with ThreadPoolExecutor(options.jobs) as pool:
        running: set[Future[Record]] = set()
        while True:
            late = bool(options.minutes) and time.monotonic() - began > options.minutes * 60
            more = [] if late else islice(waiting, options.jobs - len(running))
            running |= {pool.submit(run_batch, first, options) for first in more}
            if not running:
                break
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                record = future.result()
                if options.results:
                    with open(options.results, "a", encoding="utf-8") as file:
                        file.write(json.dumps(record) + "\n")
                note(record)
                print(f"{batches} batches: {dict(counts)}, {failed} failures", flush=True)
    seconds = time.monotonic() - began
    print(f"{batches * BATCH} cases, {_calls(counts)} calls, {failed} failures, {seconds:.0f} s")
    return failed


def _calls(counts: Counter[str]) -> int:
    return sum(count for name, count in counts.items() if "," in name)


if __name__ == "__main__":
    sys.exit(main())
