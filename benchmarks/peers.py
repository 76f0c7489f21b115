"""How long one schedule step takes in Exo and in TVM, on the product of two matrices: what `moves.py` shows beside
its own figures. It needs neither of them, nor dojoir: what is not installed is said to be so.

    python benchmarks/peers.py [--json]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

REPEATS = 7

EXO = """from __future__ import annotations
from exo import DRAM, proc
@proc
def matmul(N: size, M: size, K: size, A: f32[N, K] @ DRAM, B: f32[K, M] @ DRAM, C: f32[N, M] @ DRAM):
    for i in seq(0, N):
        for j in seq(0, M):
            for k in seq(0, K):
                C[i, j] += A[i, k] * B[k, j]
"""


def timed(step: Callable[[], Any]) -> float:
    """The median of the milliseconds of CPU time that a step takes."""
    taken = []
    for _ in range(REPEATS):
        start = process_time()
        step()
        taken.append((process_time() - start) * 1e3)
    return median(taken)


def exo_steps() -> dict[str, float]:
    """Exo: each step gives a new procedure, checked with an SMT solver where it must be."""
    from exo.stdlib import scheduling

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "matmul_exo.py")  # Exo reads the source of what it is given
        path.write_text(EXO)
        spec = importlib.util.spec_from_file_location("matmul_exo", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    plain = module.matmul

    def split(proc: Any, loop: str) -> Any:
        return scheduling.divide_loop(proc, loop, 16, [f"{loop}o", f"{loop}i"], tail="guard")

    tiled = split(split(plain, "i"), "j")
    return {
        "split": timed(lambda: split(plain, "i")),
        "split, tiled": timed(lambda: split(tiled, "k")),
        "interchange": timed(lambda: scheduling.reorder_loops(plain, "j k")),
    }


def tvm_steps() -> dict[str, float]:
    """TVM: a step changes the schedule in place; what is timed has the copy that it works on."""
    from tvm import s_tir, te

    n, m, k = (te.var(name) for name in "nmk")
    a, b = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B")
    over = te.reduce_axis((0, k), name="k")
    c = te.compute((n, m), lambda i, j: te.sum(a[i, over] * b[over, j], axis=over), name="C")
    plain = s_tir.Schedule(te.create_prim_func([a, b, c]))

    def loops(schedule: Any) -> Any:
        return schedule.get_loops(schedule.get_sblock("C"))

    def split() -> None:
        schedule = plain.copy()
        schedule.split(loops(schedule)[0], [None, 16])

    tiled = plain.copy()
    for position in (0, 2):
        tiled.split(loops(tiled)[position], [None, 16])

    def split_tiled() -> None:
        schedule = tiled.copy()
        schedule.split(loops(schedule)[4], [None, 16])

    def interchange() -> None:
        schedule = plain.copy()
        _, j, inner = loops(schedule)
        schedule.reorder(inner, j)

    return {"split": timed(split), "split, tiled": timed(split_tiled), "interchange": timed(interchange)}


def peers() -> dict[str, dict[str, float] | str]:
    """What each takes for each step, or why there are no figures."""
    found: dict[str, dict[str, float] | str] = {}
    for name, module, steps in (("Exo", "exo", exo_steps), ("TVM", "tvm", tvm_steps)):
        if importlib.util.find_spec(module) is None:
            found[name] = "not installed"
            continue
        try:
            found[name] = steps()
        except Exception as error:  # another version has other names; the figures of dojoir do not hang on it
            found[name] = f"{type(error).__name__}: {error}"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    found = peers()
    if parser.parse_args().json:
        print(json.dumps(found))
        return
    for name, steps in found.items():
        if isinstance(steps, str):
            print(f"{name}: {steps}")
        else:
            print(f"{name}: " + ", ".join(f"{step} {taken:.2f} ms" for step, taken in steps.items()))


if __name__ == "__main__":
    main()
