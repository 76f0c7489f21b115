"""How many states a minute a search evaluates.

    python benchmarks/search.py [--states 40] [--kernels softmax gelu] [--seed 0]

It counts seconds of the processor, of the driver and of its worker, so that what else runs on the machine counts
less; timing itself is waited for. States are those of random walks from the default schedule; `same code` are those
whose machine code was verified and timed before, which are not built again.
"""

from __future__ import annotations

import argparse
import statistics
import time
from random import Random

import dojoir

SIZES: dict[str, dict[str, int]] = {
    "softmax": {"N": 1024, "M": 512},
    "layernorm": {"N": 1024, "M": 512},
    "rmsnorm": {"N": 1024, "M": 512},
    "gelu": {"N": 1 << 20},
    "matmul": {"N": 256, "M": 256, "K": 256},
    "transpose": {"N": 1024, "M": 1024},
    "jacobi2d": {"N": 512, "M": 512, "T": 1},
    "batchnorm_training": {"N": 8, "C": 16, "H": 56, "W": 56},
}
STAGES = ("draw", "driver", "build", "verify", "time")


def sizes_of(kernel: dojoir.Kernel) -> dict[str, int]:
    """The sizes that a kernel of the library is searched at."""
    given = SIZES[kernel.name]
    return {name: given.get(name, 256) for name in kernel.runtime_sizes}


def walked(start: dojoir.Trace, states: int, seed: int) -> tuple[list[dojoir.Trace], float]:
    """States of random walks of up to six moves, and the seconds of the processor that drawing took. As in a
    search, no walk goes on from a state that is too long to be built."""
    random, walks, alive, spent = Random(seed), [start], [start], 0.0
    weights, limit = dict(dojoir.search.WEIGHTS), max(dojoir.Evaluator.CODE_LIMIT, 5 * length(start) // 4)
    while len(walks) <= states:
        trace = random.choice([start, *alive[-5:]])
        trace = start if len(trace.moves) > len(start.moves) + 6 else trace
        begin = time.process_time()
        new = [trace.then(move) for move in dojoir.draw(trace.kernel, random, 1, "llvm", weights)]
        spent += time.process_time() - begin
        walks += new
        alive += [one for one in new if length(one) <= limit]
    return walks, spent


def length(trace: dojoir.Trace) -> int:
    """The characters of its code."""
    return len(dojoir.emit(trace.kernel, "llvm"))


def throughput(name: str, states: int, seed: int) -> dict[str, float]:
    """The milliseconds of each stage for a state, and states a minute of the processor, on the states of random
    walks from the default schedule. Those that are refused cost time, and do not count as states."""
    kernel = dojoir.kernels.load(name)
    start = dojoir.PASSES["default_schedule"].for_machine(dojoir.machine_for("llvm")).on(kernel)
    sizes = sizes_of(kernel)
    walks, drawing = walked(start, states, seed)
    spent = {"draw": drawing}
    limit = max(dojoir.Evaluator.CODE_LIMIT, 5 * length(start) // 4)
    with dojoir.Evaluator(kernel, "llvm", sizes, seed=seed, code_limit=limit) as evaluator:
        (first,) = evaluator.evaluate([start.kernel])
        begin = time.process_time()
        found = list(evaluator.evaluate([trace.kernel for trace in walks[1:]], start.kernel))
        spent["driver"] = time.process_time() - begin
    assert first.ok, first.reason
    for stage in ("build", "verify", "time"):
        spent[stage] = sum(one.stages.get(stage, 0.0) for one in found)
    wrong = [one for one in found if one.status == "wrong"]
    assert not wrong, wrong[0].reason
    verified = [one for one in found if one.status in ("ok", "cut")]
    each = {stage: 1e3 * seconds / len(verified) for stage, seconds in spent.items()}
    middle = statistics.median(sum(one.stages.get(s, 0.0) for s in ("build", "verify", "time")) for one in verified)
    ahead = each["draw"] + each["driver"]
    return {
        **each,
        "a minute": 60e3 / sum(each.values()),
        "median state": 60e3 / (ahead + 1e3 * middle),
        "verified": len(verified),
        "same code": sum(one.ok and not one.cases for one in verified),
        "cut": sum(one.status == "cut" for one in found),
        "refused": sum(one.status == "build-failed" for one in found),
    }


def show_throughput(names: list[str], states: int, seed: int) -> None:
    """A row a kernel."""
    print(f"milliseconds of the processor for each of {states} states, and states a minute of it (seed {seed})")
    head = [*STAGES, "a minute", "median state", "verified", "same code", "cut", "refused"]
    print(f"{'kernel':18}", *(f"{word:>9}" for word in head))
    rows = []
    for name in names:
        row = throughput(name, states, seed)
        rows.append(row)
        print(f"{name:18}", *(f"{row[word]:{max(9, len(word))}.1f}" for word in head), flush=True)
    whole = sum(sum(row[stage] for stage in STAGES) for row in rows)
    shares = ", ".join(f"{stage} {sum(row[stage] for row in rows) / whole:.0%}" for stage in STAGES)
    minutes = sorted(row["a minute"] for row in rows)
    print(f"a minute: median {statistics.median(minutes):.0f}, worst {minutes[0]:.0f}; of the time {shares}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kernels", nargs="+", default=[*SIZES], choices=[*SIZES])
    parser.add_argument("--states", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    show_throughput(given.kernels, given.states, given.seed)


if __name__ == "__main__":
    main()
