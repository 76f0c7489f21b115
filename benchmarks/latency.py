"""How long a person or a search waits: from text to a callable, by phase; for a first result; for
threads to begin; for the check of one move.

    python benchmarks/latency.py [--json] [--first] [--launch] [--checks]

Cold is a new process with an empty cache; warm is a process that has compiled another kernel before, with the
text new to it. The first result is softmax of a matrix of 64 × 64, import included, of dojoir, as it is written and
with the moves of its stored schedule, and of what else is installed; Python's own compiled files are there, as for
anything that was installed or imported before. Run it with a Python in which dojoir is installed from a wheel,
which holds the tables of its grammars, not from a checkout. Without options, all is measured.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from statistics import median
from time import perf_counter, process_time
from typing import TypeVar

import numpy as np

import dojoir

T = TypeVar("T")


def timed(run: Callable[[], T], clock: Callable[[], float] = perf_counter) -> tuple[T, float]:
    """What `run` gives, and the milliseconds it took."""
    start = clock()
    result = run()
    return result, (clock() - start) * 1e3


def phases(text: str) -> dict[str, float]:
    """Milliseconds from a text to a callable, by phase."""
    taken: dict[str, float] = {}
    kernel, taken["parse"] = timed(lambda: dojoir.parse(text))
    _, taken["prove"] = timed(lambda: dojoir.prove(kernel))
    _, taken["compile"] = timed(lambda: dojoir.compile(kernel))
    taken["total"] = sum(taken.values())
    return taken


def cold() -> dict[str, float]:
    """The phases for softmax in a new process with an empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(
            [sys.executable, __file__, "--phases"],
            env=os.environ | {"DOJOIR_CACHE": folder},
            check=True,
            capture_output=True,
            text=True,
        )
    result: dict[str, float] = json.loads(run.stdout)
    return result


def warm(repeats: int = 7) -> dict[str, float]:
    """The median phases for softmax, each time under another name, in a process that is warm."""
    text = dojoir.to_text(dojoir.kernels.load("softmax"))
    phases(dojoir.to_text(dojoir.kernels.load("rmsnorm")))
    new = f"_{os.getpid()}_"  # so that no cache knows the text
    runs = [phases(text.replace("softmax", f"softmax{new}{i}")) for i in range(repeats)]
    return {phase: median(run[phase] for run in runs) for phase in runs[0]}


FIRST = {
    "import numpy": """
y = numpy.exp(x - x.max(1, keepdims=True))
y /= y.sum(1, keepdims=True)""",
    "dojoir": """
import dojoir
y = dojoir.compile(dojoir.kernels.load("softmax")).run({"x": x})["y"]""",
    "dojoir, optimized": """
import dojoir
softmax = dojoir.optimize(dojoir.kernels.load("softmax"), sizes={"N": 64, "M": 64}).kernel
y = dojoir.compile(softmax).run({"x": x})["y"]""",
    "torch.compile": """
import torch
y = torch.compile(lambda a: torch.softmax(a, 1))(torch.from_numpy(x)).numpy()""",
    "jax": """
import jax
y = numpy.asarray(jax.jit(lambda a: jax.nn.softmax(a, axis=1))(x))""",
    "Halide": """
import halide as hl
given = hl.Buffer(x)
i, j, k = hl.Var("i"), hl.Var("j"), hl.RDom([(0, 64)])
m, p, s, f = hl.Func("m"), hl.Func("p"), hl.Func("s"), hl.Func("f")
m[i] = hl.maximum(given[k.x, i])
p[j, i] = hl.exp(given[j, i] - m[i])
s[i] = hl.sum(p[k.x, i])
f[j, i] = p[j, i] / s[i]
for part in (m, p, s):
    part.compute_root()
y = numpy.asarray(f.vectorize(j, 16).realize([64, 64]))""",
    "TVM": """
import tvm
from tvm import te, topi
given = te.placeholder((64, 64), "float32")
softmax = tvm.compile(te.create_prim_func([given, topi.nn.softmax(given)]), target="llvm")
result = tvm.runtime.empty((64, 64), "float32")
softmax(tvm.runtime.tensor(x), result)
y = result.numpy()""",
    "numba": """
import numba, math
@numba.njit(fastmath=True)
def softmax(x):
    y = numpy.empty_like(x)
    for i in range(x.shape[0]):
        m = x[i].max()
        s = numpy.float32(0)
        for j in range(x.shape[1]):
            y[i, j] = math.exp(x[i, j] - m)
            s += y[i, j]
        for j in range(x.shape[1]):
            y[i, j] /= s
    return y
y = softmax(x)""",
}
"""Programs that make softmax of `x` in a new process, by what they use."""


def first_result(program: str, cache: str, compiled: str) -> tuple[float, float] | None:
    """Seconds of time and of CPU time from the start of a new process to the first result of a program; None where
    what it uses is not installed. NumPy is part of it. `compiled` is a folder for Python's compiled files. Raises
    RunError where it fails."""
    text = f"""
import numpy
x = numpy.random.default_rng(0).standard_normal((64, 64), numpy.float32)
{program}
e = numpy.exp(x - x.max(1, keepdims=True))
assert numpy.allclose(y, e / e.sum(1, keepdims=True), atol=1e-5)
import resource
print(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))
"""
    environment = os.environ | {"DOJOIR_CACHE": cache, "PYTHONPYCACHEPREFIX": compiled}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", text]
    run, taken = timed(lambda: subprocess.run(command, env=environment, capture_output=True, text=True))
    if run.returncode != 0:
        *_, last = run.stderr.strip().splitlines() or [f"it ended with status {run.returncode}"]
        if last.startswith("ModuleNotFoundError") and "dojoir" not in program:
            return None
        raise dojoir.RunError(f"a program for the first result does not run: {last}", "no-result")
    return taken / 1e3, float(run.stdout)


def firsts(rounds: int = 5) -> dict[str, tuple[float, float]]:
    """The first results of all that runs here, in turn, the best of some rounds; of dojoir with an empty cache, and
    with all built before. The first round only fills caches."""
    found: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as kept, tempfile.TemporaryDirectory() as compiled:
        for first in (True, *(False,) * rounds):
            for name, program in FIRST.items():
                if not first and name not in found:
                    continue
                if "dojoir" in name and not first:
                    with tempfile.TemporaryDirectory() as empty:
                        found.setdefault(f"{name}, nothing built", []).append(
                            _present(first_result(program, empty, compiled))
                        )
                taken = first_result(program, kept, compiled)
                if taken is not None:
                    found.setdefault(name, []).extend([] if first else [taken])
    return {name: (min(w for w, _ in runs), min(c for _, c in runs)) for name, runs in found.items()}


def _present(taken: tuple[float, float] | None) -> tuple[float, float]:
    assert taken is not None
    return taken


COPY = """
kernel copy(N)
in  x: f32[N]
out y: f32[N]
N{mark}
| y[{{0}}] = x[{{0}}]
"""


def launches(rounds: int = 200, calls: int = 50) -> dict[str, float]:
    """Microseconds of a call that copies two elements, serial and shared out to threads, by how; the medians of
    `rounds` times `calls` in a row, in turn. Peers are torch's threads and numba's, where they are installed."""
    x, y = np.zeros(2, np.float32), np.zeros(2, np.float32)
    marked = dojoir.parse(COPY.format(mark=" : p"))
    subjects: dict[str, Callable[[], object]] = {
        "serial": dojoir.compile(dojoir.parse(COPY.format(mark=""))).bind(x, y),
        **{f"{n} threads": dojoir.compile(marked, threads=n).bind(x, y) for n in (1, 2)},
    }
    with suppress(ImportError):
        numba = importlib.import_module("numba")
        body = "def copy(x, y):\n    for i in numba.prange(2):\n        y[i] = x[i]\n"
        space: dict[str, Callable[..., object]] = {"numba": numba}
        exec(body, space)
        for name, shared in (("numba serial", False), ("numba parallel", True)):
            function = numba.njit(space["copy"], parallel=shared)
            subjects[name] = lambda f=function: f(x, y)
    with suppress(ImportError):
        torch = importlib.import_module("torch")
        torch.set_num_threads(2)
        for name, size in (("torch serial, 2", 2), ("torch 2 threads, 65536", 65536)):
            a, b = torch.zeros(size), torch.zeros(size)
            subjects[name] = lambda a=a, b=b: torch.add(a, 1.0, out=b)
    times: dict[str, list[float]] = {name: [] for name in subjects}
    for call in subjects.values():
        call()
    for _ in range(rounds):
        for name, call in subjects.items():
            _, taken = timed(lambda c=call: [c() for _ in range(calls)])
            times[name].append(taken * 1e3 / calls)
    return {name: median(taken) for name, taken in times.items()}


def checks() -> dict[str, list[float]]:
    """Milliseconds of CPU time of `check` for every candidate move on every library kernel, the first of each not
    counted (it proves the kernel, which is remembered)."""
    taken: dict[str, list[float]] = {}
    for name in dojoir.kernels.names():
        kernel = dojoir.kernels.load(name)
        moves = dojoir.candidates(kernel)
        dojoir.check(kernel, moves[0])
        taken[name] = [timed(lambda m=move, k=kernel: dojoir.check(k, m), process_time)[1] for move in moves]
    return taken


def main() -> None:
    options = argparse.ArgumentParser(description="latency of compilation and of the check of one move")
    options.add_argument("--json", action="store_true", help="print the result as JSON")
    options.add_argument("--first", action="store_true", help="only the first result of a new process")
    options.add_argument("--launch", action="store_true", help="only how long threads take to begin")
    options.add_argument("--checks", action="store_true", help="only phases, and the checks of moves")
    options.add_argument("--phases", action="store_true", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.phases:
        print(json.dumps(phases(dojoir.to_text(dojoir.kernels.load("softmax")))))
        return
    everything = not (given.first or given.launch or given.checks)
    result: dict[str, object] = {}
    if given.first or everything:
        result["first_result_s"] = first_results = firsts()
        if not given.json:
            print("softmax in a new process, seconds to the first result, and of CPU time")
            for name, (wall, cpu) in first_results.items():
                print(f"  {name:34}{wall:8.2f}{cpu:8.2f}")
    if given.launch or everything:
        result["launch_us"] = launched = launches()
        if not given.json:
            print("\na call that copies two elements, us")
            for name, taken in launched.items():
                print(f"  {name:22}{taken:8.2f}")
    if given.checks or everything:
        result |= phases_and_checks(given.json)
    if given.json:
        print(json.dumps(result))


def phases_and_checks(quiet: bool) -> dict[str, object]:
    """The phases of a compilation and the checks of all moves, printed unless `quiet`."""
    first, again, moves = cold(), warm(), checks()
    every = sorted(t for times in moves.values() for t in times)
    result: dict[str, object] = {
        "text_to_callable_ms": {"cold": first, "warm": again},
        "check_ms": {
            "moves": len(every),
            "median": median(every),
            "p90": every[int(0.9 * len(every))],
            "largest": every[-1],
            "median_by_kernel": {name: median(times) for name, times in moves.items()},
        },
    }
    if quiet:
        return result
    print("softmax, from text to callable through llvm, ms")
    print(f"{'':8}" + "".join(f"{phase:>10}" for phase in first))
    for label, run in (("cold", first), ("warm", again)):
        print(f"{label:8}" + "".join(f"{ms:10.1f}" for ms in run.values()))
    print(f"\ncheck of one move, {len(every)} candidates on {len(moves)} kernels, ms of CPU time")
    print(f"median {median(every):.2f}, 90% under {every[int(0.9 * len(every))]:.2f}, largest {every[-1]:.1f}")
    for name, times in sorted(moves.items(), key=lambda item: -median(item[1]))[:5]:
        print(f"  {name:22}{median(times):8.2f}  of {len(times)} moves")
    return result


if __name__ == "__main__":
    main()
