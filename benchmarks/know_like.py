"""Schedules of kernels that are built alike, beside `default_schedule`; llvm, one thread.

For each kernel, of the schedules that `dojoir.know.like` makes on it, the four with the best estimates are timed
beside the default, and the fastest of them is timed once more. What is printed is that second timing, so that it
was not chosen by the luck of the first. `python benchmarks/know_like.py [KERNEL...]`
"""

from __future__ import annotations

import sys

import dojoir
from dojoir import know

SIZES = {
    "attention": {"H": 8, "T": 256, "D": 64},
    "avgpool2d": {"N": 4, "C": 32, "H": 64, "W": 64, "KH": 3, "KW": 3},
    "bmm": {"B": 8, "N": 256, "M": 256, "K": 256},
    "conv2d": {"N": 2, "C": 32, "O": 32, "H": 32, "W": 32, "KH": 3, "KW": 3},
    "cross_entropy": {"N": 1024, "C": 1024},
    "cumsum": {"N": 1024, "M": 1024},
    "depthwise_conv2d": {"N": 4, "C": 32, "H": 64, "W": 64, "KH": 3, "KW": 3},
    "dot": {"N": 1 << 22},
    "gemv": {"N": 2048, "M": 2048},
    "groupnorm": {"N": 8, "G": 8, "C": 8, "L": 1024},
    "jacobi2d": {"T": 20, "N": 512},
    "layernorm": {"N": 1024, "M": 1024},
    "log_softmax": {"N": 1024, "M": 1024},
    "matmul": {"N": 512, "M": 512, "K": 512},
    "matmul_int8": {"N": 256, "M": 256, "K": 256},
    "maxpool2d": {"N": 4, "C": 32, "H": 64, "W": 64, "KH": 3, "KW": 3},
    "reduce_mean_1": {"N": 2048, "M": 2048},
    "residual_rmsnorm": {"N": 1024, "M": 1024},
    "rmsnorm": {"N": 1024, "M": 1024},
}


def ratio(kernel: dojoir.Kernel, base: dojoir.Kernel, sizes: dict[str, int]) -> dojoir.Ratio:
    """How many times as fast a kernel is as the base."""
    found = dojoir.measure_together([kernel, base], "llvm", threads=1, sizes=sizes).measurements
    return dojoir.ratio_of(found[1], found[0])


def main(names: list[str]) -> None:
    """Prints a line for each kernel."""
    for name in names:
        kernel, sizes = dojoir.kernels.load(name), SIZES[name]
        base = dojoir.PASSES["default_schedule"].on(kernel).kernel
        tried = [one for each in know.like(kernel, count=8, tried=24, sizes=sizes) for one in each.schedules]
        seen, found = {base.hash}, []
        for one in sorted((one for one in tried if one.ratio), key=lambda one: -(one.ratio or 0)):
            trace = dojoir.Trace(kernel)
            for move in dojoir.parse_pipeline(one.text):
                assert isinstance(move, dojoir.Move)
                trace.apply(move)
            if trace.kernel.hash not in seen:
                seen.add(trace.kernel.hash)
                found.append((one, trace.kernel))
        if not found:
            print(f"{name}: nothing but the default")
            continue
        chosen, best = max(found[:4], key=lambda pair: ratio(pair[1], base, sizes).median)
        last = ratio(best, base, sizes)
        how = f"{chosen.made} of {chosen.moves} moves, estimate {chosen.ratio:.2f}x"
        print(f"{name}: {chosen.name} ({how}): {last.median:.2f}x ({last.low:.2f} to {last.high:.2f})", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or list(SIZES))
