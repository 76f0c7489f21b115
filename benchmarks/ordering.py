"""How well the model of a GPU orders the schedules of a text: `python benchmarks/ordering.py --json FILE`.

Of each text of practice (at the sizes that its comment `gpu` says) up to `--each` schedules are made: by each
structure of the planner in each form of the text, and from these by changing one move. All are timed on a GPU of
this machine, compared with eager's result, and written to the file as texts with their seconds. `--from FILE`
measures nothing: it asks the model of now about those, and prints for each text the rank correlation (Spearman's)
of its seconds with the measured ones, and how much slower than the best the best of the model's first three is.
`--fit` fits the rates of the machine to every second text, prints them, and the error and the order of both halves
before and after.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import random
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from functools import lru_cache
from math import exp, log
from multiprocessing import get_context
from pathlib import Path
from tempfile import gettempdir
from typing import Any

from on_gpu import Bench
from peers import as_results
from suites import TOLERANCE, Text, texts

import dojoir
from dojoir.backends.machine import Rates
from dojoir.costs.launches import crosses_launches, launch_seconds
from dojoir.passes.engine.trace import take_over
from dojoir.passes.schedule.plan.planner import FORMS, Planner
from dojoir.passes.schedule.plan.structures import STRUCTURES, Structure, rules
from dojoir.search.variation import mutated

CALLS, LONG = 7, 0.02
"""How often a schedule is timed, and the seconds from which once is enough."""

HOPELESS = 0.5
"""Schedules that take longer by the model are left out: a GPU cannot be stopped."""

FIRST = 3
"""The best of so many by the model is compared with the best of all."""


def candidates(text: Text, machine: dojoir.Machine, each: int, seconds: float) -> list[dojoir.Kernel]:
    """Schedules of a text for a machine, all different, in a random order."""
    start, draw, began = (
        dojoir.Trace(text.kernel.specialize(**text.gpu)),
        random.Random(text.name),
        time.perf_counter(),
    )
    found: dict[dojoir.Kernel, dojoir.Trace] = {}
    for structure in (rules, *(one for one in STRUCTURES if one is not rules)):
        planner = Planner(machine, {}, structures=(_preferred(structure),))
        for form in FORMS:
            if time.perf_counter() - began > seconds / 2:
                break
            begun = start.copy()
            with suppress(dojoir.DojoError):
                form(begun)
                made = planner.scheduled(begun, form)
                found.setdefault(made.trace.kernel, made.trace)
    kept = [trace for trace in found.values() if _is_fit(trace.kernel, machine)]
    draw.shuffle(kept)
    kept, misses = kept[:each], 0
    known = {trace.kernel for trace in kept}
    while kept and len(kept) < each and misses < 40 and time.perf_counter() - began < seconds:
        other = mutated(draw.choice(kept), draw, "cuda")
        if other is None or other.kernel in known or not _is_fit(other.kernel, machine):
            misses += 1
            continue
        known.add(other.kernel)
        kept.append(other)
    return [trace.kernel for trace in kept]


def _preferred(structure: Structure) -> Structure:
    """A structure where it fits, else what the rules make."""

    def chosen(trace: dojoir.Trace, path: Any, machine: dojoir.Machine) -> Any:
        other = trace.copy()
        try:
            parts = structure(other, path, machine)
        except dojoir.DojoError:
            return rules(trace, path, machine)
        take_over(trace, other)
        return parts

    return chosen


def _is_fit(kernel: dojoir.Kernel, machine: dojoir.Machine) -> bool:
    """Whether a kernel has code for the GPU and is not hopeless."""
    if crosses_launches(kernel) or launch_seconds(kernel, machine, {}) > HOPELESS:
        return False
    try:
        dojoir.emit(kernel, "cuda")
    except dojoir.DojoError:
        return False
    return True


# -- on a GPU ------------------------------------------------------------------------------------------------------
@contextmanager
def alone() -> Iterator[None]:
    """The GPU, for one of the processes of this program at a time."""
    with open(Path(gettempdir()) / "dojoir-ordering.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@lru_cache
def _bench() -> Bench:
    return Bench()


def measured(job: tuple[str, int, float]) -> dict[str, Any]:
    """The schedules of a text, each with its seconds, or with what went wrong."""
    name, each, seconds = job
    text, machine = texts()[name], dojoir.machine_for("cuda")
    began = time.process_time()
    try:
        kernels = candidates(text, machine, each, seconds)
    except Exception as error:  # the other texts are wanted all the same
        return {"name": name, "error": f"{type(error).__name__}: {str(error)[:300]}", "schedules": []}
    made, found = time.process_time() - began, []
    bench = _bench()
    try:
        with alone():
            given, outputs, function = bench.subject(text)
            results = as_results(function(*given.values()))
        for kernel in kernels:
            row: dict[str, Any] = {"text": dojoir.to_text(kernel)}
            try:
                compiled = dojoir.compile(kernel, "cuda")
                with alone():
                    fresh = {name: value.clone() for name, value in outputs.items()}
                    call = compiled.bind(**{**given, **fresh})
                    row["seconds"] = _seconds(bench, call, fresh, results)
            except Exception as error:
                row["error"] = f"{type(error).__name__}: {str(error)[:300]}"
            found.append(row)
    except Exception as error:
        return {"name": name, "error": f"{type(error).__name__}: {str(error)[:300]}", "schedules": found}
    finally:
        bench.torch.cuda.empty_cache()
    return {"name": name, "error": "", "made": made, "gpu": bench.name, "schedules": found}


def _seconds(bench: Bench, call: Any, outputs: Mapping[str, Any], results: Sequence[Any]) -> float:
    """The median of the seconds of a call. Raises ArithmeticError where its results are wrong."""
    torch, samples = bench.torch, []
    for number in range(1 + CALLS):
        first, second = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        bench.flushed.fill_(number)
        torch.cuda._sleep(200_000)
        first.record()
        call()
        second.record()
        torch.cuda.synchronize()
        samples.append(first.elapsed_time(second) / 1e3)
        if number == 0:
            apart = max(bench.apart(*pair) for pair in zip(outputs.values(), results, strict=True))
            if not apart <= TOLERANCE:
                raise ArithmeticError(f"results are {apart:.2e} apart, as a share of the largest")
        if samples[-1] > LONG:
            break
    return statistics.median(samples[1:] or samples)


# -- the model beside what was measured ----------------------------------------------------------------------------
Timed = tuple[dojoir.Kernel, float]


def known(path: Path) -> dict[str, list[Timed]]:
    """The schedules of each text with at least 5, and their seconds."""
    found: dict[str, list[Timed]] = {}
    for row in json.loads(path.read_text()):
        timed = [(dojoir.parse(one["text"]), one["seconds"]) for one in row["schedules"] if "seconds" in one]
        if len(timed) >= 5:
            found[row["name"]] = timed
    return found


def predicted(timed: Sequence[Timed], machine: dojoir.Machine) -> list[float]:
    """The seconds of the model."""
    return [launch_seconds(kernel, machine, {}) for kernel, _ in timed]


def order(timed: Sequence[Timed], model: Sequence[float]) -> tuple[float, float]:
    """The rank correlation, and the seconds of the best of the model's first three beside the best's."""
    from scipy.stats import spearmanr

    real = [seconds for _, seconds in timed]
    first = sorted(range(len(real)), key=lambda n: model[n])[:FIRST]
    return float(spearmanr(model, real).statistic), min(real[n] for n in first) / min(real)


def error(timed: Sequence[Timed], model: Sequence[float]) -> float:
    """The mean of how far the model is from what was measured, as a logarithm."""
    return statistics.mean(abs(log(m / seconds)) for (_, seconds), m in zip(timed, model, strict=True))


def summary(found: Mapping[str, list[Timed]], machine: dojoir.Machine) -> str:
    """What the model is worth on some texts."""
    models = {name: predicted(timed, machine) for name, timed in found.items()}
    orders = [order(timed, models[name]) for name, timed in found.items()]
    factor = exp(statistics.mean(error(timed, models[name]) for name, timed in found.items()))
    near = sum(first <= 1.15 for _, first in orders) / len(orders)
    rank = statistics.median(rank for rank, _ in orders)
    return (
        f"{len(found)} texts: median rank correlation {rank:.2f}; the best of the first {FIRST} within 1.15 of the "
        f"best on {near:.0%}; seconds wrong by a factor of {factor:.2f}"
    )


def report(found: Mapping[str, list[Timed]], machine: dojoir.Machine) -> str:
    """A line for each text, the worst first, and the summary."""
    rows = []
    for name, timed in found.items():
        model = predicted(timed, machine)
        rank, first = order(timed, model)
        rows.append((rank, f"{name:26}{len(timed):4}{rank:7.2f}{first:8.2f}{exp(error(timed, model)):8.2f}"))
    lines = [f"{'text':26}{'n':>4}{'rank':>7}{'first3':>8}{'factor':>8}"]
    return "\n".join([*lines, *(line for _, line in sorted(rows)), summary(found, machine)])


def fit(found: Mapping[str, list[Timed]], machine: dojoir.Machine) -> dojoir.Machine:
    """The machine with rates of which none can be changed by a step to have less error: descent along coordinates,
    with steps that get smaller."""

    def loss(rates: Rates) -> float:
        other = replace(machine, rates=rates)
        return statistics.mean(error(timed, predicted(timed, other)) for timed in found.values())

    rates = machine.rates
    least = loss(rates)
    for step in (2.0, 1.4, 1.15):
        for part in fields(Rates):
            for factor in (step, 1 / step):
                while (
                    now := loss(other := replace(rates, **{part.name: getattr(rates, part.name) * factor}))
                ) < least - 1e-4:
                    rates, least = other, now
        print(f"steps of {step}: {least:.4f}", file=sys.stderr, flush=True)
    return replace(machine, rates=rates)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", nargs="+", choices=[*texts()], metavar="ROW", help="only these texts")
    options.add_argument("--every", type=int, default=4, help="every so manieth text")
    options.add_argument("--each", type=int, default=30, help="schedules of a text")
    options.add_argument("--seconds", type=float, default=40, help="to make those of a text")
    options.add_argument("--minutes", type=float, default=9, help="begin no text after so long")
    options.add_argument("--processes", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    options.add_argument("--json", type=Path, default=Path("ordering.json"), help="write what is measured there")
    options.add_argument("--from", dest="made", type=Path, help="ask the model about what that file has")
    options.add_argument("--fit", action="store_true", help="fit the rates of the machine to it")
    given, machine = options.parse_args(), dojoir.machine_for("cuda")
    if not given.made:
        _measure(given)
        return
    found = known(given.made)
    print(report(found, machine))
    if given.fit:
        names = [*found]
        halves = [{name: found[name] for name in names[n::2]} for n in range(2)]
        fitted = fit(halves[0], machine)
        print(fitted.rates)
        for half, label in zip(halves, ("fitted to", "not seen"), strict=True):
            print(f"{label}, before: {summary(half, machine)}")
            print(f"{label}, after:  {summary(half, fitted)}")


def _measure(given: argparse.Namespace) -> None:
    began, rows = time.perf_counter(), []
    names = given.rows or [*texts()][:: given.every]
    with ProcessPoolExecutor(given.processes, mp_context=get_context("spawn"), max_tasks_per_child=4) as pool:
        jobs = [pool.submit(measured, (name, given.each, given.seconds)) for name in names]
        try:
            for job in as_completed(jobs, 60 * given.minutes):
                row = job.result()
                rows.append(row)
                right = sum("seconds" in one for one in row["schedules"])
                said = f"{row['name']} {right} of {len(row['schedules'])} {row['error']}"
                print(said, f"{time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
                given.json.write_text(json.dumps(rows))
        except TimeoutError:
            print("no time is left", file=sys.stderr)
        for process in [*(pool._processes or {}).values()]:
            process.kill()
        os._exit(0)  # what a killed process was to do is waited for else


if __name__ == "__main__":
    main()
