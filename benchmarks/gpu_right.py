"""Whether a GPU computes what the texts say: `python benchmarks/gpu_right.py --results right.jsonl --minutes 8.5`.

The library, all texts of practice, the types, accumulations at data by every operator and random kernels, each as
`optimize(kernel, "cuda")` schedules it, with open sizes and with fixed ones. At small sizes the interpreter says
what is right; texts of practice also run at the sizes that they are timed at and at odd ones, beside the same
mathematics in PyTorch and, where that takes no such sizes, dojoir's own `llvm`. Each case is a line of JSON in
`--results`, and the next run goes on behind it. Cases run in processes of their own, as many as `--processes`
says, each with its compilers and a context of the GPU: one that crashes or hangs is a wrong case, not the end. At
the end those that were wrong are listed, with status 1 where there is one, and those that were refused: a target
has no room for what the rules made of them.

`--emulated` runs small sizes only, with no GPU; `--compile` runs nothing and asks NVRTC alone.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path += [str(ROOT / "benchmarks"), str(ROOT / "tests" / "helpers"), str(ROOT)]

import numpy as np  # noqa: E402

import dojoir  # noqa: E402

RANDOM, SCATTERED, CASE_SECONDS = 300, 200, 150.0
FLOATS = ("f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2", "f4e2m1", "f8e8m0")
TYPES = (*FLOATS, "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8", "bool")
OF_TYPES = {
    "sum": "in x: {t}[N]\nout y: {t}\n\ny = 0\nN\n| y += x[{{0}}]\n",
    "product": "in x: {t}[N]\nout y: {t}\n\ny = 1\nN\n| y *= x[{{0}}]\n",
    "most": "in x: {t}[N]\nout y: {t}\n\ny = x[0]\nN\n| y max= x[{{0}}]\n",
    "least": "in x: {t}[N]\nout y: {t}\n\ny = x[0]\nN\n| y min= x[{{0}}]\n",
    "each": "in x: {t}[N]\nin z: {t}[N]\nout y: {t}[N]\n\nN\n| y[{{0}}] = x[{{0}}] * z[{{0}}] + x[{{0}}]\n",
    "rows": "in x: {t}[N, 70]\nout y: {t}[N]\n\nN\n| y[{{0}}] = 0\n| 70\n| | y[{{0}}] += x[{{0}}, {{1}}]\n",
    "matmul": "in x: {t}[N, 40]\nin z: {t}[40, 33]\nout y: {t}[N, 33]\n\nN\n| 33\n| | y[{{0}}, {{1}}] = 0\n| | 40\n"
    "| | | y[{{0}}, {{1}}] += x[{{0}}, {{2}}] * z[{{2}}, {{1}}]\n",
}
OF_BOOL = {"each": "in x: bool[N]\nin z: bool[N]\nout y: bool[N]\n\nN\n| y[{{0}}] = x[{{0}}] and not z[{{0}}]\n"}
EAGER_TOLERANCE = 2e-3


# -- cases: by name, made where they run ---------------------------------------------------------------------------
def cases() -> Iterator[str]:
    """The names of all cases."""
    from suites import names

    yield from (f"library {name} {mode}" for name in dojoir.kernels.names() for mode in ("open", "fixed"))
    yield from (f"practice {name} {mode}" for name in names() for mode in ("open", "fixed", "sized"))
    yield from (f"type {t} {form}" for t in TYPES for form in (OF_BOOL if t == "bool" else OF_TYPES))
    yield from (f"atdata {t} {mode}" for t in TYPES for mode in ("open", "fixed", "told", "threads"))
    yield from (f"scattered {number}" for number in range(SCATTERED))
    yield from (f"random {number}" for number in range(RANDOM))


def run_case(name: str, how: str) -> dict[str, Any]:
    """What a case gives: how many calls were compared, and what was wrong with which."""
    kind, *rest = name.split()
    families: dict[str, Callable[..., Iterator[tuple[str, str]]]] = {
        "library": _library, "practice": _practice, "type": _type, "random": _random, "atdata": _at_data,
        "scattered": _scattered,
    }  # fmt: skip
    found = families[kind](how, *rest)
    calls, wrong, notes = 0, [], []
    for label, outcome in found:
        calls += 1
        if outcome.startswith("note "):
            notes.append(f"{label}: {outcome[5:]}")
        elif outcome:
            wrong.append(f"{label}: {outcome}")
    return {"case": name, "calls": calls, "wrong": wrong, "notes": notes}


def _library(how: str, name: str, mode: str) -> Iterator[tuple[str, str]]:
    kernel = dojoir.kernels.load(name)
    yield from _small(kernel, mode, how, Random(name))


def _type(how: str, t: str, form: str) -> Iterator[tuple[str, str]]:
    from agreement import random_factors

    body = (OF_BOOL if t == "bool" else OF_TYPES)[form].format(t=t)
    kernel = dojoir.parse(f"kernel {form}(N)\n{body}")
    for size in (1, 37, 3000 if form in ("sum", "most", "least", "each") else 100):
        random = Random(f"{t} {form} {size}")
        inputs = (
            {"x": random_factors(kernel.buffer("x").dtype, size, random)}
            if form == "product" and t in FLOATS
            else None
        )
        yield from _compared(kernel, kernel, how, {"N": size}, random, inputs)


def _at_data(how: str, t: str, mode: str) -> Iterator[tuple[str, str]]:
    """Every operator of a type, at data: as it is scheduled, or as its threads stand in the text."""
    from scattered import arguments, every_operator

    threads, fixed = mode == "threads", mode == "fixed"
    text = dojoir.parse(every_operator(t, threads))
    told = {"N": 100_000, "B": 50_000} if mode == "told" else {}
    for size, rows in ((1, 2), (70, 5), (5000, 300)):
        sizes, random = {"N": size, "B": rows}, Random(f"{t} {size}")
        given = arguments(text, sizes, random)
        kernel = text.specialize(**sizes) if fixed else text
        yield from _compared(text, kernel, how, {} if fixed else sizes, random, given, told, not threads)


def _scattered(how: str, number: str) -> Iterator[tuple[str, str]]:
    from scattered import arguments, scattered_text

    random = Random(f"gpu_right scattered {number}")
    kernel = dojoir.parse(scattered_text(random))
    yield from _compared(kernel, kernel, how, {}, random, arguments(kernel, {}, random), by_rule=False)


def _random(how: str, number: str) -> Iterator[tuple[str, str]]:
    from drawing import draw

    random = Random(f"gpu_right {number}")
    yield from _small(draw("runnable", random, marks=False), "open", how, random)


def _small(kernel: dojoir.Kernel, mode: str, how: str, random: Random) -> Iterator[tuple[str, str]]:
    """Two small calls beside the interpreter."""
    from agreement import small_sizes

    drawn = [small_sizes(kernel, random) for _ in range(2)] if kernel.runtime_sizes else [{}]
    for sizes in drawn:
        given = kernel.specialize(**sizes) if mode == "fixed" and sizes else kernel
        yield from _compared(kernel, given, how, {} if mode == "fixed" else sizes, random)


SCHEDULED: dict[str, dojoir.Kernel] = {}


def _scheduled(kernel: dojoir.Kernel, told: Mapping[str, int]) -> dojoir.Kernel:
    """By rule, for sizes that it is told it will mostly run at: once a process."""
    key = f"{kernel.hash} {dict(told)}"
    if key not in SCHEDULED:
        SCHEDULED[key] = dojoir.optimize(kernel, "cuda", sizes=told).kernel
    return SCHEDULED[key]


def _called(
    kernel: dojoir.Kernel,
    inputs: Mapping[str, Any],
    sizes: Mapping[str, int],
    how: str,
    told: Mapping[str, int] = MappingProxyType({}),
    by_rule: bool = True,
) -> Any:
    """The results of the schedule by rule, or of the kernel as it stands; None where nothing is to run."""
    made = _scheduled(kernel, told) if by_rule else kernel
    if how == "compile":
        from gpu_compile import nvrtc_error

        if error := nvrtc_error(dojoir.emit(made, "cuda"), "sm_90"):
            raise ArithmeticError(error)
        return None
    compiled = dojoir.compile(made, "cuda", emulated=how == "emulated")
    results = compiled.run(dict(inputs), **sizes)
    return {name: np.asarray(array) for name, array in results.items()}


def _compared(
    text: dojoir.Kernel,
    kernel: dojoir.Kernel,
    how: str,
    sizes: Mapping[str, int],
    random: Random,
    inputs: Mapping[str, Any] | None = None,
    told: Mapping[str, int] = MappingProxyType({}),
    by_rule: bool = True,
) -> Iterator[tuple[str, str]]:
    from practice_texts import arguments_of

    label = f"{dict(sizes) or 'fixed'}"
    try:
        inputs = inputs or arguments_of(kernel, sizes, random)
        expected: Mapping[str, Any] = {}
        if how != "compile":
            try:
                expected = dojoir.interpret(kernel, inputs, **sizes)
            except dojoir.DojoError as error:  # a text that fails there says nothing
                yield label, f"note not compared: {str(error).splitlines()[0]}"
                return
        found = _called(kernel, inputs, sizes, how, told, by_rule)
        if found is None:
            yield label, ""
            return
        yield label, _apart(kernel, expected, found)
    except dojoir.KernelError as error:
        yield label, f"refused: {str(error).splitlines()[0]}"


def _apart(kernel: dojoir.Kernel, expected: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    from agreement import agree

    return agree(kernel, expected, found, exact=False) or ""


# -- practice: beside PyTorch --------------------------------------------------------------------------------------
def _practice(how: str, name: str, mode: str) -> Iterator[tuple[str, str]]:
    from suites import texts

    text = texts()[name]
    small = _reduced(text.kernel, text.sizes, 6)
    wanted = [("small", small)]
    if how == "gpu":
        wanted += [("odd", _reduced(text.kernel, text.sizes, 67)), ("timed", text.sizes)]
    for label, sizes in wanted:
        if sizes is None:
            yield label, "note no such sizes"
            continue
        open_sizes = {size: value for size, value in sizes.items() if size in text.kernel.runtime_sizes}
        kernel = text.kernel.specialize(**open_sizes) if mode == "fixed" and open_sizes else text.kernel
        at = replace(text, sizes=dict(sizes))
        try:
            given = at.inputs()
            told = {size: text.sizes[size] for size in open_sizes} if mode == "sized" else {}
            found = _called(kernel, given, {} if mode == "fixed" else open_sizes, how, told)
        except dojoir.KernelError as error:
            yield label, f"refused: {str(error).splitlines()[0]}"
            continue
        if found is None:
            yield label, ""
            continue
        yield (
            f"{label} {dict(sizes)}",
            _beside(at, kernel, given, {} if mode == "fixed" else open_sizes, found, label),
        )


def _reduced(kernel: dojoir.Kernel, sizes: Mapping[str, int], most: int) -> dict[str, int] | None:
    """Sizes up to about `most` that the facts of a kernel allow, and so does a call."""
    open_sizes = [name for name in sizes if name in kernel.runtime_sizes]
    for shift in product(range(3), repeat=min(len(open_sizes), 4)):
        found = dict(sizes)
        for name, more in zip(open_sizes, (*shift, 0, 0, 0, 0), strict=False):
            found[name] = min(sizes[name], most + more - len(name) % 2)
        try:
            kernel.specialize(**{name: found[name] for name in open_sizes})
        except dojoir.DojoError:
            continue
        return found
    return None


def _beside(
    text: Any, kernel: dojoir.Kernel, given: Mapping[str, Any], sizes: Mapping[str, int], found: Any, label: str
) -> str:
    outputs = [buffer.name for buffer in kernel.arguments if buffer.role != "in"]
    if label == "small":
        expected = dojoir.interpret(kernel, dict(given), **sizes)
        return _far(kernel, outputs, expected, found)
    try:
        theirs = dict(zip([b.name for b in kernel.arguments if b.role == "out"], _eager(text, given), strict=True))
        against_eager = _far(kernel, [*theirs], theirs, found)
    except Exception as error:  # an expression that takes only its own sizes
        against_eager = f"PyTorch says {str(error).splitlines()[0][:80]}"
    if not against_eager:
        return ""
    if find_spec("llvmlite") is None:
        return f"note {against_eager}" if against_eager.startswith("PyTorch says") else against_eager
    on_cpu = dojoir.compile(dojoir.optimize(kernel, "llvm").kernel, "llvm").run(dict(given), **sizes)
    ours = _far(kernel, outputs, on_cpu, found)
    return f"{against_eager}; beside llvm {ours}" if ours else f"note as llvm; {against_eager}"


def _eager(text: Any, given: Mapping[str, Any]) -> list[Any]:
    import torch
    import torch.nn.functional as functional

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    where = "cuda" if torch.cuda.is_available() else "cpu"
    with torch.no_grad():
        names = {n: torch.from_numpy(a.copy()).to(where) if a.shape else float(a) for n, a in given.items()}
        found = eval(text.eager, {"torch": torch, "F": functional, "reduce": reduce, **names})
        return [r.cpu().numpy() for r in (found if isinstance(found, tuple) else (found,))]


def _far(kernel: dojoir.Kernel, outputs: list[str], expected: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """How far results are apart, as a share of the largest, where that is more than rounding."""
    for name in outputs:
        a, b = np.asarray(expected[name]), np.asarray(found[name])
        if a.size != b.size:
            return f"{name}: {a.shape} and {b.shape}"
        a, b = (v.reshape(-1).astype(np.float64) for v in (a, b))
        known = np.isfinite(a) & np.isfinite(b)
        alike = (a == b) | (np.isnan(a) & np.isnan(b))
        if not alike[~known].all():
            return f"{name}: {int((~alike[~known]).sum())} elements are NaN or infinite on one side only"
        far = np.abs(a - b)[known].max(initial=0.0) / max(np.abs(a[known]).max(initial=0.0), 1e-30)
        if far > (EAGER_TOLERANCE if kernel.buffer(name).dtype.is_float else 0.0):
            return f"{name}: {far:.2e} of the largest apart"
    return ""


# -- processes -----------------------------------------------------------------------------------------------------
def work(how: str) -> None:
    """A process that is given cases, one a line, and says what each gives, one a line."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        name = line.strip()
        try:
            found = run_case(name, how)
        except Exception as error:
            words = traceback.format_exception_only(error)[-1].strip().splitlines()[0][:300]
            found = {"case": name, "calls": 1, "wrong": [words], "notes": []}
            broken = isinstance(error, dojoir.RunError)
        else:
            broken = any("device-error" in words for words in found["wrong"])
        out.write(json.dumps(found) + "\n")
        out.flush()
        if broken:  # nothing more can be done on the device in this process
            return


class Pool:
    """Processes that share out cases, and the file of what was found."""

    def __init__(
        self,
        left: list[str],
        command: Sequence[str],
        results: Path,
        until: float,
        case_seconds: float = CASE_SECONDS,
    ) -> None:
        self.left, self.command, self.results, self.until = left[::-1], command, results, until
        self.case_seconds = case_seconds
        self.lock = threading.Lock()

    def run(self, processes: int) -> None:
        threads = [threading.Thread(target=self._serve) for _ in range(processes)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _next(self) -> str | None:
        with self.lock:
            return self.left.pop() if self.left and time.monotonic() < self.until else None

    def _serve(self) -> None:
        worker: subprocess.Popen[str] | None = None
        while (name := self._next()) is not None:
            if worker is not None and worker.poll() is not None:
                _ended(worker)
                worker = None
            began = time.monotonic()
            try:
                worker = worker or self._started()
                _asked(worker, name)
            except BrokenPipeError:  # it went away since
                _ended(worker)
                worker = self._started()
                _asked(worker, name)
            assert worker.stdout is not None
            line = ""
            limit = min(self.case_seconds, max(self.until + 20 - time.monotonic(), 1))
            late = not select.select([worker.stdout], [], [], limit)[0]
            if not late:
                line = worker.stdout.readline()
            if not line:
                worker.kill()
                _ended(worker)
                if late and limit < self.case_seconds:
                    return  # the time is over; the next run does this case
            found = json.loads(line) if line else {"case": name, "calls": 1, "notes": []}
            if not line:
                found["wrong"] = [f"took longer than {limit:.0f} s" if late else f"crashed ({worker.returncode})"]
            found["seconds"] = round(time.monotonic() - began, 2)
            if line and found["wrong"]:  # it may be about to end, as nothing more can be done on its device
                _ended(worker)
                worker = None
            with self.lock, self.results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(found) + "\n")
        if worker is not None:
            _ended(worker)

    def _started(self) -> subprocess.Popen[str]:
        limits = {"OMP_NUM_THREADS": "1", "DOJOIR_THREADS": "1"}
        return subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **limits}
        )


def _asked(worker: subprocess.Popen[str], name: str) -> None:
    assert worker.stdin is not None
    worker.stdin.write(f"{name}\n")
    worker.stdin.flush()


def _ended(worker: subprocess.Popen[str] | None) -> None:
    """Waits for a process that has nothing more to do, and closes its pipes."""
    if worker is not None:
        for pipe in (worker.stdin, worker.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()
        worker.wait()


def _is_refused(words: str) -> bool:
    return "refused: " in words


def summary(results: Path, every: list[str], say: Callable[[str], None] = print) -> int:
    """Prints what was wrong, and counts; 1 where something was."""
    lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    known = {found["case"]: found for found in map(json.loads, lines)}
    for found in known.values():
        for words in found["wrong"]:
            say(f"{'REFUSED' if _is_refused(words) else 'WRONG'} {found['case']}: {words}")
    wrong = [found for found in known.values() if not all(map(_is_refused, found["wrong"]))]
    refused = [found for found in known.values() if any(map(_is_refused, found["wrong"]))]
    counts: dict[str, Counter[str]] = {}
    for name, found in known.items():
        row = counts.setdefault(name.split()[0], Counter())
        row.update(cases=1, calls=found["calls"], notes=len(found["notes"]))
        row.update(wrong=found in wrong, refused=found in refused)
    say("\n| kind | cases | calls | notes | refused | wrong |\n|---|---|---|---|---|---|")
    for kind, row in counts.items():
        say(f"| {kind} | {row['cases']} | {row['calls']} | {row['notes']} | {row['refused']} | {row['wrong']} |")
    left = len([name for name in every if name not in known])
    say(f"\n{len(wrong)} wrong, {len(refused)} refused of {len(known)} cases, {left} left")
    return 1 if wrong else 0


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--results", type=Path, default=Path("gpu_right.jsonl"))
    options.add_argument("--minutes", type=float, default=8.5)
    options.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options.add_argument("--only", nargs="*", default=[], help="cases whose names begin so")
    options.add_argument("--again", action="store_true", help="runs what was wrong once more")
    options.add_argument("--emulated", action="store_true")
    options.add_argument("--compile", action="store_true")
    options.add_argument("--worker", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.worker:
        work(given.worker)
        return
    every = [name for name in cases() if not given.only or name.startswith(tuple(given.only))]
    lines = given.results.read_text(encoding="utf-8").splitlines() if given.results.exists() else []
    if given.again:
        lines = [line for line in lines if not json.loads(line)["wrong"]]
        given.results.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    done = {json.loads(line)["case"] for line in lines}
    how = "emulated" if given.emulated else "compile" if given.compile else "gpu"
    left = [name for name in every if name not in done]
    until = time.monotonic() + 60 * given.minutes
    command = [sys.executable, __file__, "--worker", how]
    if left and (words := lacking(command)):
        print(f"nothing was run, as the first case cannot be: {words}")
        sys.exit(4)
    Pool(left, command, given.results, until).run(given.processes)
    sys.exit(summary(given.results, every))


def lacking(command: Sequence[str]) -> str:
    """What is not there that a case needs, a package or a device; nothing where one is right."""
    done = subprocess.run(command, input="type f32 sum\n", stdout=subprocess.PIPE, text=True, timeout=300)
    found = json.loads(done.stdout) if done.stdout else {"wrong": ["it crashed"]}
    return "; ".join(found["wrong"])


if __name__ == "__main__":
    main()
