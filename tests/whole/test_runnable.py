"""The random kernels of `runnable.py` are what they promise, so that a difference between targets means one."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from agreement import agree, random_arguments, small_sizes
from drawing import draw

from dojoir import interpret, parse, prove, to_text


@pytest.mark.parametrize("exact", [False, True])
def test_they_are_well_formed_and_run(exact: bool) -> None:
    for seed in range(30):
        random = Random(seed)
        kernel = parse(to_text(draw("runnable", random, exact=exact)))
        prove(kernel)
        sizes = small_sizes(kernel, random)
        arguments = random_arguments(kernel, sizes, random, special=exact)
        results = interpret(kernel, arguments, **sizes)
        assert agree(kernel, results, interpret(kernel, arguments, **sizes), exact=True) is None


def test_a_seed_gives_one_kernel() -> None:
    assert draw("runnable", Random(7)) == draw("runnable", Random(7))
    assert draw("runnable", Random(7)) != draw("runnable", Random(8))


def test_what_may_differ() -> None:
    kernel = parse(
        "kernel k(N)\nout y: f32[N]\nout h: bf16[N]\nout i: i32[N]\nN\n| y[{0}] = 1\n| h[{0}] = 1\n| i[{0}] = 1\n"
    )
    ones = {"y": np.ones(3, "float32"), "h": np.full(3, 0x3F80, "uint16"), "i": np.ones(3, "int32")}
    last_bit = {**ones, "y": np.nextafter(ones["y"], np.float32(2)), "h": ones["h"] + np.uint16(1)}
    assert agree(kernel, ones, last_bit, exact=False) is None
    assert agree(kernel, ones, last_bit, exact=True) == "y[0]: 1.0 and 1.0000001192092896"
    for name, wrong in (("y", 1.001), ("h", 0x3F90), ("i", 2), ("y", np.nan)):
        other = {**ones, name: np.full(3, wrong, ones[name].dtype)}
        assert agree(kernel, ones, other, exact=False) is not None
    assert (
        agree(kernel, ones, {**ones, "y": np.ones(4, "float32")}, exact=False) == "y: float32(3,) and float32(4,)"
    )
