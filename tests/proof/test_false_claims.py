"""False claims that were once called legal, each with what gives it away when it runs.

Of the straight-line kernels here the new one computes something else, whatever the data."""

from __future__ import annotations

import numpy as np
import pytest

import dojoir
from dojoir.proof.certificate import InstanceMap, Origin
from dojoir.proof.check import compare, prove_by_core
from dojoir.proof.claim import Claim
from dojoir.proof.core.check import find_failure

HEADER = "kernel k(N)\nin x: f32\nin v: f32\nout y: f32\ntmp t: f32\ntmp c: f32\n"


def straight(*lines: str, header: str = HEADER) -> dojoir.Kernel:
    return dojoir.parse(header + "\n".join(lines) + "\n")


def stands_for(*sites: int | None) -> InstanceMap:
    return InstanceMap(tuple(None if site is None else Origin(site, ()) for site in sites))


OTHER_OPERATOR = (
    straight("t = x", "t += 1", "t max= v", "c = 0", "c max= t", "y = c"),
    straight("c = 0", "c max= v", "y = c"),
    stands_for(3, 2, 5),
)
"""A partial result that begins with what another operator gave."""

COPY_BETWEEN = (
    straight("t = x", "t += v", "y = t"),
    straight("t = x", "t += v", "c = t", "c += v", "y = c"),
    stands_for(0, 1, None, 1, 2),
)
"""The same accumulation twice, with a copy between."""

COPY_BETWEEN_PRODUCTS = (
    straight("t = x", "t *= v", "t += 1", "y = t"),
    straight("t = x", "t *= v", "c = t", "c *= v", "c += 1", "y = c"),
    stands_for(0, 1, None, 1, 2, 3),
)
"""The same with two operators."""

TWO_WAYS = (
    straight("t = x", "t += v", "y = t"),
    straight(
        "t = x",
        "3",
        "| z[{0}] = 0",
        "z[0] += v",
        "3",
        "| z[({0} + 2) // 2] += z[{0} // 2]",
        "t += z[2]",
        "y = t",
        header=HEADER + "tmp z: f32[3]\n",
    ),
    stands_for(0, None, 1, None, None, 2),
)
"""Partial results of partial results: z[1] gets v from z[0] twice, and z[2] has it from z[1]."""

FALSE = {
    "another operator": OTHER_OPERATOR,
    "a copy between": COPY_BETWEEN,
    "a copy between products": COPY_BETWEEN_PRODUCTS,
    "two ways": TWO_WAYS,
}


@pytest.mark.parametrize("name", FALSE)
def test_a_false_claim_is_refused(name: str) -> None:
    old, new, certificate = FALSE[name]
    inputs = {buffer.name: np.float32(5 - 2 * n) for n, buffer in enumerate(old.buffers) if buffer.role == "in"}
    assert dojoir.interpret(old, inputs, N=1)["y"] != dojoir.interpret(new, inputs, N=1)["y"]
    dojoir.prove(new)
    assert find_failure(Claim(old, new, certificate)) is not None
    assert compare(old, new, certificate).status == "illegal"
    assert prove_by_core(old, new, certificate).status == "illegal"


EMA = """kernel ema(N)
in  x: f32[N]
out y: f32[N]
tmp s: f32

N @i
| if {i} <= 0
| | s = 0
| s *= 0.9
| s += x[{i}]
| y[{i}] = s
"""

DECAYED = """kernel decayed(N, M)
in  x: f32[N, M]
out y: f32[N, M]
tmp m: f32

N @r
| M @i
| | if {i} <= 0
| | | m = -inf
| | m max= x[{r}, {i}]
| | m *= 0.9
| | y[{r}, {i}] = m
"""


@pytest.mark.parametrize("text", [EMA, DECAYED], ids=["ema", "decayed"])
@pytest.mark.parametrize("move", ["vectorize(@i)", "parallelize(@i)", "bind(@i, gx)", "bind(@i, lane)"])
def test_a_value_that_two_operators_carry_is_not_private(text: str, move: str) -> None:
    kernel = dojoir.parse(text.replace("f32\n\nN", "f32 reg\n\nN") if "bind" in move else text)
    if "lane" in move:
        kernel = kernel.specialize(**dict.fromkeys(kernel.runtime_sizes, 16))
    assert dojoir.check(kernel, move).code == "carried-value"
    marked = dojoir.apply(kernel, move, unsafe=True)
    with pytest.raises(dojoir.KernelError, match="not independent"):
        dojoir.prove(marked)


@pytest.mark.parametrize("text", [EMA, DECAYED], ids=["ema", "decayed"])
def test_what_optimize_makes_of_a_carried_value_is_right(text: str) -> None:
    kernel = dojoir.parse(text)
    assert dojoir.verify(dojoir.optimize(kernel).kernel, kernel).ok


BLURRED = """kernel blurred(N)
in  x: f32[N]
out y: f32[N]
out z: f32
tmp t: f32[N]

z = 1
z = 2
N
| t[{0}] = 0
N
| t[{0}] += x[{0}]
N @l
| y[{0}] = t[{0}]
"""


def test_an_unsafe_move_that_later_ones_blur_is_not_certified() -> None:
    trace = dojoir.Trace(dojoir.parse(BLURRED))
    trace.apply("swap_siblings(0)", unsafe=True)
    for move in ("recompute(@l, t, u)", "share_buffer(t, u)", "delete_node(4.0)", "stage(4, t, c, inout)"):
        trace.apply(move, unsafe=True)
    trace.apply("swap_siblings(0)", unsafe=True)
    x = np.arange(1, 4, dtype=np.float32)
    right = np.array_equal(dojoir.interpret(trace.kernel, {"x": x})["y"], x)
    assert right == bool(dojoir.certify(trace))


NO_NAN = """kernel largest(N)
fp strict
in  a: f32[N]
in  b: f32[N]
inout y: f4e2m1

N @i
| y max= a[{i}] / b[{i}]
"""


def test_where_a_type_has_no_nan_the_order_of_a_maximum_counts() -> None:
    kernel = dojoir.parse(NO_NAN)
    assert dojoir.check(kernel, "reverse_scope(@i)").status == "illegal"
    assert dojoir.check(dojoir.parse(NO_NAN.replace("fp strict\n", "")), "reverse_scope(@i)").status == "legal"
    assert dojoir.check(dojoir.parse(NO_NAN.replace("f4e2m1", "f8e4m3")), "reverse_scope(@i)").status == "legal"


NEVER = """kernel never(N)
out o: f32[N]

N
| o[{0}] = 0
N
| o[{0}] max= 3
| if 1 <= 0
| | o[{0}] += 2
"""

SCALED_MAXIMUM = """kernel scale(N, M)
in  x: f32[N, M]
out s: f32[N]

N
| s[{0}] = 0
| M @j
| | s[{0}] max= abs(x[{0}, {j}])
| s[{0}] *= 0.0078125
"""


def test_what_never_runs_counts_for_nothing() -> None:
    trace = dojoir.Trace(dojoir.parse(NEVER))
    trace.apply("delete_node(1.1)")
    assert dojoir.certify(trace)


@pytest.mark.parametrize("move", ["vectorize(@j)", "split_reduction(@j, s, t, 4)", "reverse_scope(@j)"])
def test_another_operator_outside_of_a_loop_takes_nothing_from_it(move: str) -> None:
    kernel = dojoir.parse(SCALED_MAXIMUM)
    assert dojoir.check(kernel, move).status == "legal"
    trace = dojoir.Trace(kernel)
    trace.apply(move)
    assert dojoir.certify(trace)
