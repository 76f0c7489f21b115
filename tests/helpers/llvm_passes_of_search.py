"""What each pass of LLVM costs and gains on the states of a search. A script, not a test.

    python tests/helpers/llvm_passes_of_search.py [--states 12] [--kernels softmax matmul] [--least 0] [--most N]
                                                  [--lanes yes|no] [--seed 0]

States of random walks and the stored schedule of each kernel are built with all passes, without each of the parts
of LLVM's pipeline that can be left out, without all of them, and at lower levels. The table has the seconds of the
processor, as a share of those of all passes, and how many times as fast the code is, from calls in turn: the
least, the tenth, the median of the states; and how the order of the states by speed agrees with that of all passes
(the rank correlation). `--least` and `--most` leave out states by the characters of their LLVM IR, `--lanes` those
that moves have, or have not, put in lanes. States with the same code count once.
"""

from __future__ import annotations

import argparse
import re
import statistics
import time
from collections.abc import Callable
from random import Random

import numpy as np

import dojoir
from dojoir.codegen.c.symbols import symbol
from dojoir.codegen.llvm.printer import print_llvm
from dojoir.codegen.lower.pipeline import lower
from dojoir.codegen.target import llvm_host
from dojoir.runtime.build import llvm_engine
from dojoir.runtime.build.llvm_passes import PARTS, Processor, compiled_here
from dojoir.runtime.build.pool import parallel_for
from dojoir.runtime.call.compiled import Compiled

SIZES = {
    "softmax": {"N": 1024, "M": 512}, "layernorm": {"N": 1024, "M": 512}, "gelu": {"N": 1 << 20},
    "matmul": {"N": 256, "M": 256, "K": 256}, "transpose": {"N": 1024, "M": 1024},
}  # fmt: skip
ROUNDS = 9
VECTOR = r"<\d+ x (float|double|i32|i64|half|bfloat|i8|i16)>"
"""What the type of lanes looks like."""

Variant = tuple[tuple[str, ...], int]
"""The parts that are left out, and the level."""


def states(kernel: dojoir.Kernel, count: int, seed: int) -> list[dojoir.Kernel]:
    """The stored schedule, and states of random walks from the default one."""
    start = dojoir.PASSES["default_schedule"].for_machine(dojoir.machine_for("llvm")).on(kernel)
    random, walks = Random(seed), [start]
    while len(walks) < count:
        trace = random.choice([start, *walks[-5:]])
        trace = start if len(trace.moves) > len(start.moves) + 6 else trace
        drawn = dojoir.search.draw(trace.kernel, random, 1, "llvm", dojoir.search.WEIGHTS)
        walks += [trace.then(move) for move in drawn]
    return [dojoir.optimize(kernel, "llvm", threads=1).kernel, *(trace.kernel for trace in walks)]


def timed(
    kernel: dojoir.Kernel, variants: dict[str, Variant], wanted: Callable[[str], bool]
) -> dict[str, tuple[float, float, int]] | None:
    """The seconds of the build, those of a call, and the characters of the text, of each variant."""
    target = llvm_host(None)
    program = lower(kernel, target)
    text = print_llvm(program, target)
    if not wanted("\n".join(line for line in text.splitlines() if not line.startswith(";"))):
        return None
    here, name = llvm_engine.host(), symbol(kernel.name)
    random = np.random.default_rng(0)
    sizes = {size: SIZES[kernel.name].get(size, 256) for size in kernel.runtime_sizes}
    arguments = [
        random.standard_normal(tuple(d.extent.evaluate(sizes) for d in b.dims)).astype(np.float32)
        for b in kernel.arguments
    ]
    seconds, calls = {}, {}
    for variant, (without, level) in variants.items():
        begin = time.process_time()
        code = compiled_here(text, Processor(here.triple, here.cpu, here.features), without, level)
        seconds[variant] = time.process_time() - begin
        symbols = {"dojo_parallel_for": parallel_for(1)} if "@dojo_parallel_for" in text else {}
        library = llvm_engine.load_object(code, [name], symbols)
        compiled = Compiled(kernel, "llvm", 1, text, library.addresses[name], library, program.checks)
        calls[variant] = compiled.bind(*arguments, **sizes)
    took: dict[str, list[float]] = {variant: [] for variant in variants}
    for _ in range(ROUNDS):
        for variant, call in calls.items():
            call()
            begin = time.perf_counter()
            call()
            took[variant].append(time.perf_counter() - begin)
    return {variant: (seconds[variant], min(took[variant]), len(text)) for variant in variants}


def correlation(one: list[float], other: list[float]) -> float:
    """Spearman's, of values of which no two are equal."""
    ranks = [np.argsort(np.argsort(values)).astype(float) for values in (one, other)]
    return float(np.corrcoef(*ranks)[0, 1]) if len(one) > 1 else 1.0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--states", type=int, default=12)
    parser.add_argument("--kernels", nargs="+", default=[*SIZES], choices=[*SIZES])
    parser.add_argument("--least", type=int, default=0)
    parser.add_argument("--most", type=int, default=dojoir.Evaluator.CODE_LIMIT)
    parser.add_argument("--lanes", choices=("yes", "no"))
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    variants: dict[str, Variant] = {"all": ((), 3)}
    variants |= {f"without {part}": ((part,), 3) for part in PARTS}
    variants |= {"without the last two": (PARTS[2:], 3), "level 2, without the last two": (PARTS[2:], 2)}
    variants |= {f"level {level}, without these": (PARTS, level) for level in (3, 2, 1)}
    for name in given.kernels:
        kernel = dojoir.kernels.load(name)
        met: set[str] = set()

        def wanted(code: str, met: set[str] = met) -> bool:
            lanes = given.lanes is None or (given.lanes == "yes") == bool(re.search(VECTOR, code))
            fits = given.least <= len(code) <= given.most and lanes and code not in met
            met.add(code)
            return fits

        found = [timed(state, variants, wanted) for state in states(kernel, given.states, given.seed)]
        rows = [row for row in found if row is not None]
        if not rows:
            continue
        characters = statistics.median(row["all"][2] for row in rows)
        print(f"{name}: {len(rows)} states, {characters:.0f} characters in the median (seed {given.seed})")
        full = sum(row["all"][0] for row in rows)
        for variant in variants:
            share = sum(row[variant][0] for row in rows) / full
            speeds = sorted(row["all"][1] / row[variant][1] for row in rows)
            low, tenth, middle = speeds[0], speeds[len(speeds) // 10], statistics.median(speeds)
            order = correlation([row["all"][1] for row in rows], [row[variant][1] for row in rows])
            about = f"speed {low:.2f} {tenth:.2f} {middle:.2f}, order {order:.2f}"
            print(
                f"  {variant:28} {1e3 * full * share / len(rows):7.1f} ms, {share:.2f} of all; {about}", flush=True
            )


if __name__ == "__main__":
    main()
