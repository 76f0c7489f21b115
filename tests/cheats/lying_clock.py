"""A clock that goes ten times too slow."""

# kernel: scaled
# gate: honest

import time

from dojoir.runtime.evaluation import paired_timing

SLOW = time.perf_counter_ns


def begin():
    """Is called in the process that times, once the code is loaded."""
    paired_timing.CLOCK = lambda: SLOW() // 10


CODE = """
#include <stdint.h>

int32_t scaled(const float *x, float *y, int64_t N)
{
    for (int64_t i = 0; i < N; i++) y[i] = x[i] * 2 + 1;
    return 0;
}
"""
