"""Steps of time in a block of a GPU: it goes through them one by one, its threads along what is in each."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from on_harness import run

import dojoir
from dojoir.runtime.verification.random_inputs import random_inputs

STATE = """kernel state(H, T, D)                       # causal linear attention, by a state that is carried along
in  q: f32[H, T, D]
in  k: f32[H, T, D]
in  v: f32[H, T, D]
out y: f32[H, T, D]
tmp s: f32[D, D]
tmp z: f32[D]
tmp n: f32

H @h
| D @i
| | z[{i}] = 0
| | D @j
| | | s[{i}, {j}] = 0
| T @t
| | D @d
| | | z[{d}] += k[{h}, {t}, {d}]
| | | D @e
| | | | s[{d}, {e}] += k[{h}, {t}, {d}] * v[{h}, {t}, {e}]
| | n = 1
| | D @f
| | | n += abs(q[{h}, {t}, {f}] * z[{f}])
| | D @g
| | | y[{h}, {t}, {g}] = 0
| | | D @l
| | | | y[{h}, {t}, {g}] += q[{h}, {t}, {l}] * s[{l}, {g}]
| | | y[{h}, {t}, {g}] = y[{h}, {t}, {g}] / n
"""
RECURRENT = """kernel recurrent(B, T, D)
in  x: f32[B, T, D]
in  w: f32[D, D]
out y: f32[B, T, D]
tmp h: f32[B, D]
tmp g: f32[B, D]

B @b
| D @i
| | h[{b}, {i}] = 0
| T @t
| | D @d
| | | g[{b}, {d}] = x[{b}, {t}, {d}]
| | | D @e
| | | | g[{b}, {d}] += w[{d}, {e}] * h[{b}, {e}]
| | D @f
| | | h[{b}, {f}] = tanh(g[{b}, {f}])
| | | y[{b}, {t}, {f}] = h[{b}, {f}]
"""


@pytest.mark.parametrize("target", ["cuda", "hip"])
@pytest.mark.parametrize("text", [STATE, RECURRENT], ids=["state", "recurrent"])
@pytest.mark.parametrize("width", [64, 72])
def test_steps_of_a_block_are_right_in_both_orders(text: str, target: str, width: int) -> None:
    start = dojoir.parse(text).specialize(D=width)
    sizes = dict(zip(start.runtime_sizes, (2, 3), strict=True))
    trace = dojoir.optimize(start, target, sizes={name: 256 * size for name, size in sizes.items()})
    steps = [node for node in str(trace.kernel).splitlines() if "@t" in node and " : " not in node]
    assert any(line.startswith("| ") for line in steps), "steps inside of a block"
    assert dojoir.certify(trace).status == "legal"
    inputs = random_inputs(start, sizes=sizes)
    expected = dojoir.interpret(start, inputs)["y"]
    orders: tuple[Literal["forward", "backward"], ...] = ("forward", "backward")
    for order in orders:
        found = run(trace.kernel, inputs, sizes, target, order)["y"]
        assert np.allclose(found, expected, rtol=1e-4, atol=1e-5), order
