"""Schedules of kernels that are built alike, beside `default_schedule`; llvm, one thread.

For each kernel, of the schedules that `dojoir.know.like` makes on it, the ten with the best estimates are timed
beside the default, and the fastest of them is timed once more (`dojoir.know.race`). What is printed is that second
timing, so that it was not chosen by the luck of the first. `python benchmarks/know_like.py [KERNEL...]`
"""

from __future__ import annotations

import sys

import dojoir
from dojoir import know

SIZES = {
    "add": {"N": 1 << 22},
    "argmax": {"N": 2048, "M": 2048},
    "attention": {"H": 8, "T": 256, "D": 64},
    "avgpool2d": {"N": 4, "C": 32, "H": 64, "W": 64, "KH": 3, "KW": 3},
    "batchnorm_inference": {"N": 8, "C": 32, "H": 64, "W": 256},
    "bias_relu": {"N": 4096, "M": 1024},
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
    "softmax": {"N": 1024, "M": 1024},
    "transpose": {"N": 2048, "M": 2048},
}


def main(names: list[str]) -> None:
    """Prints a line for each kernel."""
    for name in names:
        kernel, sizes = dojoir.kernels.load(name), SIZES[name]
        found = know.race(kernel, know.like(kernel, count=8, tried=24, sizes=sizes), sizes)
        print(f"{name}: {'nothing but the default' if found is None else found}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or list(SIZES))
