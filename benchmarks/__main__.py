"""Texts beside their peers: `python -m benchmarks SUITE`.

    python -m benchmarks practice [--rows conv1x1 mlp_loss] [--group programs] [--share 0/12]
    python -m benchmarks library --peers eager compiled jax onnx numba [--json FILE [--resume]] [--page FILE]
    python -m benchmarks library --peers open               # beside what optimize makes where no sizes are told
    python -m benchmarks polybench --scale 0.5 --peers gcc clang numba numpy
    python -m benchmarks drawn --count 300 --seed 22        # library kernels at sizes that nobody tuned
    python -m benchmarks practice --target cuda --minutes 8 # on a GPU, at the sizes of the comment `gpu`
    python -m benchmarks narrow --target cuda --sizes fixed # bf16, f16, int8 and fp8 beside eager and compile
    python -m benchmarks practice --from FILE… --page FILE  # what was measured before; runs nothing

dojoir runs what `optimize` makes of each text with its sizes told (`--sizes fixed`: as constants; `open`: not
told). On a CPU all run on one thread in one process, in turn, on the clock of the process: others on the machine
disturb all alike; the best of many turns counts. On a GPU they run in one interleaved series, in an order that
changes: a buffer of twice the L2 cache is written before each call, which events time; medians; TF32 is off, and
`compiled` stands beside every third text (beside all of `narrow`). A ratio above 1 says that dojoir is faster.
Results are compared first. Beside it stands which ceiling the time is nearest to: the operations of the text at
the peak of fused multiply-adds, or its arrays once through memory; more than all of it says that the arrays stay
in a cache.
`--json` is written after every row.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import process_time

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))

from peers import PEERS, Contestant, Lacking, by_dojoir, on_page
from report import Record, Row, table
from suites import SUITES, Text, drawn

import dojoir
from dojoir.runtime import processor
from dojoir.support.files import write_file

LEAST = 5
"""The least number of turns."""


def planned(text: Text, target: str, sizes: str, at: Mapping[str, int]) -> dojoir.Trace:
    """The text by its own moves, or by `optimize`."""
    if text.moves is not None:
        trace = dojoir.Trace(text.kernel)
        for element in dojoir.parse_pipeline(text.moves.read_text(encoding="utf-8")):
            element(trace) if isinstance(element, dojoir.Pass) else trace.apply(element)
        return trace
    kernel = text.kernel.specialize(**at) if sizes == "fixed" else text.kernel
    return dojoir.optimize(kernel, target, sizes=at if sizes == "told" else None, threads=1)


def apart(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> float:
    """The largest difference, as a share of the largest value of each result."""
    found = 0.0
    for one, other in zip(ours, theirs, strict=True):
        a, b = np.asarray(one, np.float64), np.asarray(other, np.float64)
        if a.shape != b.shape:
            raise Lacking(f"a result of shape {a.shape} beside one of {b.shape}")
        found = max(found, float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30)))
    return found


def measured(text: Text, given: argparse.Namespace, tolerance: float) -> Row:
    """A row on the CPU. Raises ArithmeticError where dojoir's results differ from those of all peers."""
    inputs = {name: on_page(array) for name, array in text.inputs().items()}
    start = process_time()
    trace = planned(text, given.target, given.sizes, text.sizes)
    spent = process_time() - start
    own = by_dojoir(text, inputs, trace.kernel, given.target)
    own.call()
    results = [array.copy() for array in own.results()]
    calls, lacking, error, right = {"dojoir": own}, dict[str, str](), 0.0, 0
    for peer in given.peers:
        try:
            calls[peer] = PEERS[peer](text, inputs)
            calls[peer].call()
            far = apart(results, calls[peer].results())
            if not far <= tolerance:
                raise Lacking(f"its results are {far:.1e} apart")
            error, right = max(error, far), right + 1
        except Lacking as lack:
            calls.pop(peer, None)
            lacking[peer] = str(lack)
            print(f"{text.name}: without {peer}: {lack}", file=sys.stderr, flush=True)
    if not right and any("apart" in why for why in lacking.values()):
        raise ArithmeticError(f"its results are those of no peer: {lacking}")
    times = dict(zip(calls, in_turn([*calls.values()], given.budget), strict=True))
    ours = times.pop("dojoir")
    moved = sum(array.nbytes for array in [*inputs.values(), *results])
    flops = round(dojoir.cost(text.kernel).flops(text.sizes))
    return Row(
        text.name, text.group, text.written, ours, times, lacking, error, spent, len(trace.moves), moved, flops
    )


def in_turn(contestants: Sequence[Contestant], budget: float) -> list[float]:
    """The least seconds of each: a turn of a fast one is many calls."""
    counts = []
    for one in contestants:
        one.reset()
        start = process_time()
        one.call()
        counts.append(max(1, int(0.004 / max(process_time() - start, 1e-7))))
    best = [math.inf] * len(contestants)
    begun, turns = process_time(), 0
    while turns < LEAST or process_time() - begun < budget:
        for n, one in enumerate(contestants):
            one.reset()
            start = process_time()
            for _ in range(counts[n]):
                one.call()
            best[n] = min(best[n], (process_time() - start) / counts[n])
        turns += 1
        if sum(best) * turns > 20:
            break
    return best


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("suite", choices=[*SUITES])
    parser.add_argument("--rows", nargs="+", metavar="ROW", help="only these rows, or those of these kernels")
    parser.add_argument("--without", nargs="+", default=[], metavar="ROW", help="not these")
    parser.add_argument("--group", help="only those of this group")
    parser.add_argument("--share", help="K/N: only every Nth row from the Kth on")
    parser.add_argument("--count", type=int, default=300, help="how many shapes are drawn (%(default)s)")
    parser.add_argument("--seed", type=int, default=22, help="of the shapes that are drawn (%(default)s)")
    parser.add_argument("--scale", type=float, default=1.0, help="all sizes times this")
    parser.add_argument("--sizes", choices=("told", "fixed", "open"), help="for optimize (told; on a GPU fixed)")
    parser.add_argument("--peers", nargs="*", choices=[*PEERS], help="the suite's own where none are named")
    parser.add_argument("--target", default="llvm", help="`cuda`: on a GPU (%(default)s)")
    parser.add_argument("--budget", type=float, default=0.6, help="seconds of the timing of a row (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="leave out the ceilings of the machine")
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no row after so long")
    parser.add_argument(
        "--processes", type=int, default=os.cpu_count() or 1, help="that plan for a GPU side by side"
    )
    parser.add_argument("--json", type=Path, help="write the results there after each row")
    parser.add_argument("--resume", action="store_true", help="leave out what that file has")
    parser.add_argument("--from", dest="made", type=Path, nargs="+", help="show what those files have; run nothing")
    parser.add_argument("--page", type=Path, help="write all of it there as a page of Markdown")
    return parser


def wanted(given: argparse.Namespace) -> dict[str, Text]:
    """The rows that are asked for."""
    suite = SUITES[given.suite]
    rows = drawn(given.count, given.seed) if given.suite == "drawn" else suite.rows()
    unknown = {row for row in given.rows or () if not any(row in (n, t.kernel.name) for n, t in rows.items())}
    if unknown:
        raise SystemExit(f"no rows {', '.join(sorted(unknown))} are in {given.suite}: there are {', '.join(rows)}")
    first, _, every = (given.share or "0/1").partition("/")
    rows = dict([*rows.items()][int(first) :: int(every)])
    found = {}
    for name, text in rows.items():
        named = not given.rows or name in given.rows or text.kernel.name in given.rows
        at = text.gpu if given.target == "cuda" else text.sizes
        if at and named and name not in given.without and given.group in (None, text.group):
            found[name] = replace(text, sizes=_scaled(text.sizes, given), gpu=_scaled(text.gpu, given))
    return found


def _scaled(sizes: Mapping[str, int], given: argparse.Namespace) -> dict[str, int]:
    return {name: size if given.scale == 1 else max(int(size * given.scale), 8) for name, size in sizes.items()}


def on_cpu(found: Mapping[str, Text], given: argparse.Namespace, take: Callable[[Row], None]) -> None:
    end = time.monotonic() + 60 * given.minutes
    for name, text in found.items():
        if time.monotonic() > end:
            print("no time is left for", name, file=sys.stderr)
            break
        try:
            take(measured(text, given, SUITES[given.suite].tolerance))
        except (dojoir.DojoError, ArithmeticError, Lacking, MemoryError) as error:
            take(Row(name, text.group, text.written, failed=str(error).splitlines()[0]))


def main() -> None:
    given = options().parse_args()
    given.peers = [*SUITES[given.suite].peers] if given.peers is None else given.peers
    given.sizes = given.sizes or ("fixed" if given.target == "cuda" else "told")
    ceiling = {}
    if given.made or (given.resume and given.json and given.json.exists()):
        record = Record.read(given.made or [given.json])
    else:
        command = " ".join(["python -m benchmarks", *sys.argv[1:]])
        record = Record.here(given.suite, given.target, processor(), command)
    if not given.made:

        def take(row: Row) -> None:
            record.rows[row.name] = row
            print(f"{row.name:32}{row.failed or f'{row.order:8.2f}'}", flush=True)
            if given.json:
                record.write(given.json)

        left = {name: text for name, text in wanted(given).items() if name not in record.rows}
        if given.target == "cuda":
            from on_gpu import on_gpu

            record.machine = on_gpu(left, given, take)
        else:
            on_cpu(left, given, take)
    if record.target != "cuda" and not given.quick:
        at = dojoir.runtime.ceilings(1).at(1)
        ceiling = {"copy": at.copy * 1e9, "fma": at.fma_f32 * 1e9}
    print(table(record, ceiling))
    if given.page:
        write_file(given.page, table(record, ceiling, page=True))


if __name__ == "__main__":
    main()
