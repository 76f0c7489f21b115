"""A search of a peer beside ours: candidates a minute, and the best after equal time.

    python benchmarks/search_peers.py tvm matmul --trials 64          # in an environment that has TVM
    python benchmarks/search_peers.py tinygrad softmax --beam 4       # in one that has tinygrad
    python benchmarks/search_peers.py dojoir matmul --seconds 120

Each prints a line of JSON: how many candidates were timed, the seconds of the search by the clock and of the
processor (with those of the processes that it started), and the time of the best, as the peer's own clock has it.
TVM's MetaSchedule begins with the definition, tinygrad's BEAM with its own kernel, dojoir with the plain text. One
core. TVM and tinygrad verify none of their candidates; dojoir counts those that it verified.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from peer_common import library

SHAPES: dict[str, tuple[int, ...]] = {"matmul": (256, 256, 256), "softmax": (1024, 512)}

Found = tuple[int, float]
"""How many candidates were timed, and the seconds of the best."""


def with_tvm(kernel: str, trials: int) -> Found:
    """MetaSchedule, `trials` candidates."""
    tvm, te, topi = library("tvm"), library("tvm.te"), library("tvm.topi")
    ms: Any = library("tvm.s_tir.meta_schedule")
    if kernel == "matmul":
        n, m, k = SHAPES[kernel]
        a, b = te.placeholder((n, k), "float32", name="a"), te.placeholder((k, m), "float32", name="b")
        at = te.reduce_axis((0, k), name="at")
        out = te.compute((n, m), lambda i, j: te.sum(a[i, at] * b[at, j], axis=at), name="c")
        function = te.create_prim_func([a, b, out])
    else:
        a = te.placeholder(SHAPES[kernel], "float32", name="a")
        function = te.create_prim_func([a, topi.nn.softmax(a)])
    cpu = library("tvm.target.codegen").llvm_get_system_cpu()
    target = tvm.target.Target({"kind": "llvm", "mcpu": cpu, "num-cores": 1})
    with tempfile.TemporaryDirectory() as folder:
        database = ms.tune_tir(
            tvm.IRModule({"main": function.with_attr("global_symbol", "main")}), target, folder, trials,
            num_trials_per_iter=min(16, trials), database="memory",
            builder=ms.builder.LocalBuilder(max_workers=1), seed=1, num_tuning_cores=1,
        )  # fmt: skip
        records = database.get_all_tuning_records()
        seconds = [min(map(float, record.run_secs)) for record in records if record.run_secs]
    return len(seconds), min(seconds)


def with_tinygrad(kernel: str, beam: int) -> Found:
    """BEAM of a width; its candidates are counted where it times them."""
    os.environ.update(BEAM=str(beam), DEV="CPU", CACHELEVEL="0", IGNORE_BEAM_CACHE="1", PARALLEL="0", THREADS="0")
    tinygrad: Any = library("tinygrad")
    search: Any = library("tinygrad.codegen.opt.search")
    seconds: list[float] = []
    timed: Callable[..., Any] = search._time_program

    def counted(*arguments: Any, **more: Any) -> Any:
        found = timed(*arguments, **more)
        seconds.append(min(found))
        return found

    search._time_program = counted
    values = [np.random.default_rng(0).random(shape, np.float32) for shape in _arrays(kernel)]
    tensors = [tinygrad.Tensor(value).realize() for value in values]
    (tensors[0] @ tensors[1] if kernel == "matmul" else tensors[0].softmax(-1)).realize()
    return len(seconds), min(seconds)


def _arrays(kernel: str) -> list[tuple[int, ...]]:
    if kernel == "matmul":
        n, m, k = SHAPES[kernel]
        return [(n, k), (k, m)]
    return [SHAPES[kernel]]


def with_dojoir(kernel: str, seconds: float) -> Found:
    """`tune` from the plain text, for a time; what was timed and verified counts."""
    import dojoir

    text = dojoir.kernels.load(kernel)
    sizes = dict(zip("NMK", SHAPES[kernel], strict=False))
    tuned = dojoir.tune(text, sizes=sizes, budget=dojoir.Budget(seconds=seconds))
    verified = [one for one in tuned.states if one.status in ("ok", "cut")]
    return len(verified), dojoir.measure(tuned.trace.kernel, "llvm", threads=1, sizes=sizes).seconds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("peer", choices=("tvm", "tinygrad", "dojoir"))
    parser.add_argument("kernel", choices=[*SHAPES])
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    begin = time.perf_counter()
    if given.peer == "tvm":
        count, best = with_tvm(given.kernel, given.trials)
    elif given.peer == "tinygrad":
        count, best = with_tinygrad(given.kernel, given.beam)
    else:
        count, best = with_dojoir(given.kernel, given.seconds)
    spent = time.perf_counter() - begin
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    row = {
        "peer": given.peer, "kernel": given.kernel, "candidates": count, "seconds": round(spent, 1),
        "processor": round(sum(one.ru_utime + one.ru_stime for one in used), 1),
        "a minute": round(60 * count / spent, 1), "best ms": round(best * 1e3, 4),
    }  # fmt: skip
    print(json.dumps(row))


if __name__ == "__main__":
    main()
