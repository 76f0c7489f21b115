"""What it costs not to say the sizes: `optimize()` beside `optimize(sizes=…)`, at the rows of the CPU table.

    python benchmarks/open_sizes.py [--rows softmax gemv] [--json FILE [--resume]]
    python benchmarks/open_sizes.py --from FILE      # what was measured before; runs nothing

One thread, target `llvm`, both in turn in one process on its clock, the best of some turns. A ratio above 1 says
that the kernel without sizes takes that much longer; over 1.3 a version by size is missing. Results are compared.
Where both have the same schedule the ratio is 1 but for noise, and the row says so.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from drawn import in_turn
from rows import ROWS
from rows import Row as Given

import dojoir

ALLOWED = 1.3
TOLERANCE = 2e-3

POSITIVE = {"var"}
"""Inputs of which the kernel takes the root."""


@dataclass(frozen=True)
class Row:
    """Seconds of both, how many moves each has, and how far apart the results are, as a share of the largest."""

    title: str
    known: float
    unknown: float
    moves: tuple[int, int]
    same: bool
    error: float

    @property
    def ratio(self) -> float:
        return self.unknown / self.known


def measured(given: Given, budget: float) -> Row:
    """Both in turn. Raises ArithmeticError where the results differ by more than rounding."""
    kernel, target = given.load(), "llvm"
    traces = [dojoir.optimize(kernel, target, sizes=sizes, threads=1) for sizes in (given.sizes, None)]
    sizes = {name: size for name, size in given.sizes.items() if name in kernel.runtime_sizes}
    inputs = dojoir.random_inputs(kernel, seed=1, **sizes)
    inputs |= {name: np.abs(array) for name, array in inputs.items() if name in POSITIVE}
    calls, results = [], []
    for trace in traces:
        run = dojoir.compile(trace.kernel, target, threads=1)
        arrays = {name: _placed(run, name, array, sizes) for name, array in inputs.items()}
        outputs = {b.name: run.empty(b.name, **sizes) for b in kernel.arguments if b.role == "out"}
        call = run.bind(*(outputs[b.name] if b.role == "out" else arrays[b.name] for b in kernel.arguments))
        call()
        calls.append(call)
        results.append({b.name: np.array((outputs | arrays)[b.name]) for b in kernel.arguments if b.role != "in"})
    error = max(_apart(results[1][name], right) for name, right in results[0].items())
    if not error <= TOLERANCE:
        raise ArithmeticError(f"{given.title}: results are {error:.2e} apart, as a share of the largest")
    known, unknown = in_turn(calls[0], calls[1], budget)
    moves = (len(traces[0].moves), len(traces[1].moves))
    return Row(given.title, known, unknown, moves, traces[0].kernel == traces[1].kernel, error)


def _placed(run: dojoir.Compiled, name: str, array: np.ndarray, sizes: Mapping[str, int]) -> np.ndarray:
    """The same elements where dojoir places arrays, so that both kernels find them alike."""
    if not array.shape:
        return array
    placed = run.empty(name, **sizes)
    placed[...] = array
    return placed


def _apart(one: np.ndarray, other: np.ndarray) -> float:
    a, b = np.asarray(one, np.float64), np.asarray(other, np.float64)
    return float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30))


def report(rows: list[Row], failed: list[str]) -> str:
    """The rows from the worst to the best."""
    lines = ["| row | with sizes, ms | without, ms | ratio | moves with | without |", "|---|---|---|---|---|---|"]
    for row in sorted(rows, key=lambda row: -row.ratio):
        with_sizes, without = row.moves
        ratio = f"{row.ratio:.2f}" + (" (the same kernel)" if row.same else "")
        times = f"{row.known * 1e3:.3f} | {row.unknown * 1e3:.3f}"
        lines.append(f"| {row.title} | {times} | {ratio} | {with_sizes} | {without} |")
    over = sum(row.ratio > ALLOWED and not row.same for row in rows)
    lines.append(f"\n{len(rows)} rows, {over} over {ALLOWED}, {sum(row.same for row in rows)} have one schedule")
    return "\n".join(lines + [f"FAILED: {why}" for why in failed])


def main() -> None:
    options = argparse.ArgumentParser(description="optimize() without sizes beside optimize(sizes=…)")
    options.add_argument("--rows", nargs="+", help="only rows of these kernels")
    options.add_argument("--budget", type=float, default=1.0, help="seconds of the timing of a row")
    options.add_argument("--json", type=Path, help="write the results there after each row")
    options.add_argument("--resume", action="store_true", help="leave out what that file has")
    options.add_argument("--from", dest="made", type=Path, help="print what that file has")
    given = options.parse_args()
    source = given.made or (given.json if given.resume and given.json.exists() else None)
    kept = json.loads(source.read_text()) if source else []
    rows = [Row(**{**row, "moves": tuple(row["moves"])}) for row in kept]
    failed: list[str] = []
    for one in () if given.made else ROWS:
        if (given.rows and one.kernel not in given.rows) or any(row.title == one.title for row in rows):
            continue
        try:
            rows.append(measured(one, given.budget))
            print(f"{one.title:40}{rows[-1].ratio:8.2f}", flush=True)
        except (dojoir.DojoError, ArithmeticError, MemoryError) as error:
            failed.append(f"{one.title}: {str(error).splitlines()[0]}")
        if given.json:
            given.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    print(report(rows, failed))


if __name__ == "__main__":
    main()
