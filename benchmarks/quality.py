"""What a search comes to from plain text, beside what comes with dojoir: a table that goes on where it was stopped.

    python benchmarks/quality.py FILE [--seconds 300] [--rows softmax gate] [--strategy beam] [--stored]

Twelve kernels of the library and six texts for which nothing is stored, one core. A search begins with the text,
`--stored` with what `optimize` gives. `of optimize`: how many times as fast the answer is as that of `optimize` for
the same text; `of default`: as `default_schedule`; both timed in turn after the search. `took` are the seconds of
the search, `idle` the moves of the answer without which its code would be the same. Each row is a line of FILE.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from time import monotonic

import dojoir
from dojoir.search.idle import without_idle

PRACTICE = Path(__file__).parent / "practice"

FUSED = """
kernel residual_layernorm_gelu(N, M)
in  x: f32[N, M]
in  r: f32[N, M]
in  g: f32[M]
in  b: f32[M]
out y: f32[N, M]
tmp h: f32[N, M]
tmp mean: f32[N]
tmp var: f32[N]
tmp z: f32[N, M]

N @i
| mean[{i}] = 0
| M @j
| | h[{i}, {j}] = x[{i}, {j}] + r[{i}, {j}]
| | mean[{i}] += h[{i}, {j}]
| mean[{i}] = mean[{i}] / M
| var[{i}] = 0
| M @k
| | var[{i}] += (h[{i}, {k}] - mean[{i}]) * (h[{i}, {k}] - mean[{i}])
| M @l
| | z[{i}, {l}] = (h[{i}, {l}] - mean[{i}]) * rsqrt(var[{i}] / M + 0.00001) * g[{l}] + b[{l}]
| | y[{i}, {l}] = 0.5 * z[{i}, {l}] * (1 + erf(0.70710678 * z[{i}, {l}]))
"""

LIBRARY: dict[str, dict[str, int]] = {
    "softmax": {"N": 1024, "M": 1024},
    "layernorm": {"N": 1024, "M": 1024},
    "rmsnorm": {"N": 1024, "M": 1024},
    "gelu": {"N": 1 << 20},
    "relu": {"N": 1 << 20},
    "matmul": {"N": 256, "M": 256, "K": 256},
    "gemv": {"N": 1024, "M": 1024},
    "transpose": {"N": 1024, "M": 1024},
    "reduce_mean_1": {"N": 1024, "M": 1024},
    "bias_relu": {"N": 1024, "M": 1024},
    "cumsum": {"N": 1024, "M": 1024},
    "jacobi2d": {"T": 4, "N": 512},
}
TEXTS: dict[str, dict[str, int]] = {
    "gate": {"N": 1024, "M": 1024},
    "axpy": {"N": 1 << 20},
    "laplace_smooth": {"H": 1024, "W": 1024},
    "batchnorm_training": {"N": 32, "C": 64, "H": 56, "W": 56},
    "residual_layernorm_gelu": {"N": 1024, "M": 1024},
    "conv3x3": {"N": 1, "C": 64, "O": 64, "H": 56, "W": 56},
}


def kernel_of(name: str) -> dojoir.Kernel:
    """The text of a row."""
    if name == "residual_layernorm_gelu":
        return dojoir.parse(FUSED)
    file = PRACTICE / f"{name}.dojo"
    return dojoir.load(file) if file.exists() else dojoir.kernels.load(name)


def row(name: str, seconds: float, strategy: str, stored: bool, seed: int) -> dict[str, object]:
    """The search of a row, and the answer beside the others."""
    kernel, sizes = kernel_of(name), {**LIBRARY, **TEXTS}[name]
    default = dojoir.PASSES["default_schedule"].for_machine(dojoir.machine_for("llvm")).on(kernel)
    known = dojoir.optimize(kernel, "llvm", sizes=sizes, threads=1)
    begun = monotonic()
    tuned = dojoir.tune(
        kernel, sizes=sizes, strategy=strategy, seed=seed, budget=dojoir.Budget(seconds=seconds),
        start=[known] if stored else None,
    )  # fmt: skip
    took = monotonic() - begun
    together = dojoir.measure_together(
        [tuned.trace.kernel, known.kernel, default.kernel], "llvm", threads=1, sizes=sizes, with_ceilings=False
    )
    first, *others = together.measurements
    of_known, of_default = (dojoir.ratio_of(other, first) for other in others)
    return {
        "row": name, "states": len(tuned.states), "moves": len(tuned.trace.moves), "stopped": tuned.stopped,
        "took": took, "idle": len(tuned.trace.moves) - len(without_idle(tuned.trace, "llvm", 60.0).moves),
        "of optimize": [of_known.median, of_known.low, of_known.high],
        "of default": [of_default.median, of_default.low, of_default.high],
        "wrong": sum(one.status == "wrong" for one in tuned.states), "notes": list(tuned.notes),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--rows", nargs="+", default=[*LIBRARY, *TEXTS], choices=[*LIBRARY, *TEXTS])
    parser.add_argument("--strategy", default="beam")
    parser.add_argument("--stored", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    about = {"seconds": given.seconds, "strategy": given.strategy, "stored": given.stored, "seed": given.seed}
    done = [json.loads(line) for line in given.file.read_text().splitlines()] if given.file.exists() else []
    mine = {one["row"]: one for one in done if {key: one[key] for key in about} == about}
    for name in given.rows:
        if name not in mine:
            mine[name] = {**row(name, given.seconds, given.strategy, given.stored, given.seed), **about}
            with given.file.open("a") as lines:
                lines.write(json.dumps(mine[name]) + "\n")
        median, low, high = mine[name]["of optimize"]
        default = mine[name]["of default"][0]
        print(f"{name:24} {mine[name]['states']:5} states  {median:.2f}x of optimize ({low:.2f} to {high:.2f})  "
              f"{default:.2f}x of default, took {mine[name]['took']:.1f} s, {mine[name]['idle']} moves idle",
              flush=True)  # fmt: skip
    rows = [mine[name] for name in given.rows]
    print(
        f"{len(rows)} rows: {sum(one['of optimize'][0] >= 0.95 for one in rows)} at 0.95x of optimize and more, "
        f"{sum(one['of optimize'][1] > 1 for one in rows)} faster, "
        f"{statistics.geometric_mean(one['of default'][0] for one in rows):.2f}x of default, {about}"
    )


if __name__ == "__main__":
    main()
