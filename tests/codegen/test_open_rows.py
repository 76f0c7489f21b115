"""Rows of an attention with open sizes: a version for the usual length of a row on matrix units, the plain plan for
all others, right on the harness at each."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from narrow_products import drawn, numbers
from on_harness import run

import dojoir
from dojoir.backends.machine import MACHINES
from dojoir.costs.launches import launch_seconds
from dojoir.ir.nodes import Guard
from dojoir.passes.schedule.gpu.tiles.row_products import row_products
from dojoir.passes.schedule.plan import planner
from dojoir.passes.schedule.plan.planner import Planner, ScheduledForm
from dojoir.passes.schedule.plan.structures import rules

TEXT = """kernel attention(H, T, D)
fp MODE
in  q: TYPE[H, T, D]
in  k: TYPE[H, T, D]
in  v: TYPE[H, T, D]
out y: TYPE[H, T, D]
tmp s: f32[T]
tmp p: TYPE[T]
tmp m: f32
tmp l: f32
tmp o: f32

H @h
| T @i
| | m = -inf
| | END @j
| | | s[{j}] = 0
| | | D @d
| | | | s[{j}] += f32(q[{h}, {i}, {d}]) * f32(k[{h}, {j}, {d}])
| | | m max= s[{j}]
| | l = 0
| | END @u
| | | p[{u}] = TYPE(exp(0.125 * (s[{u}] - m)))
| | | l += f32(p[{u}])
| | D @e
| | | o = 0
| | | END @r
| | | | o += f32(p[{r}]) * f32(v[{h}, {r}, {e}])
| | | y[{h}, {i}, {e}] = TYPE(o / l)
"""

CASES = {"full": ("bf16", "T", "reassoc"), "causal": ("f16", "{i} + 1", "fast")}
USUAL = {"full": 64, "causal": 16}


def kernel(name: str) -> dojoir.Kernel:
    dtype, end, mode = CASES[name]
    return dojoir.parse(TEXT.replace("TYPE", dtype).replace("END", end).replace("MODE", mode))


@cache
def plans(name: str, machine: str = "cuda") -> list[ScheduledForm]:
    """By two structures alone, which is faster to plan."""
    found = Planner(MACHINES[machine], {}, structures=(rules, row_products))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(planner, "FORMS", planner.FORMS[:1])
        patched.setattr(planner, "USUAL_SIZES", (USUAL[name],))
        return found.plans(dojoir.Trace(kernel(name)))


@pytest.mark.parametrize("name", CASES)
def test_rows_of_a_usual_length_are_on_matrix_units(name: str) -> None:
    best = plans(name)[0].trace.kernel
    guard = best.body[0]
    assert isinstance(guard, Guard) and f"if D == {USUAL[name]}\n" in str(best)
    assert "mma_" in str(best)
    at, plain = {"H": 16, "T": 512, "D": USUAL[name]}, plans(name)[-1].trace.kernel
    machine = MACHINES["cuda"]
    assert launch_seconds(best, machine, at) * 100 < launch_seconds(plain, machine, at)


@pytest.mark.parametrize("sizes", [(2, 100, 64), (1, 64, 64), (1, 1, 64), (2, 70, 16), (2, 5, 3), (1, 1, 1)])
@pytest.mark.parametrize("name", CASES)
def test_every_version_is_right_on_the_harness(name: str, sizes: tuple[int, int, int]) -> None:
    at = dict(zip("HTD", sizes, strict=True))
    before = kernel(name)
    given = drawn(before.specialize(**at))
    wanted = np.zeros(sizes, given["q"].dtype)
    dojoir.compile(before, "llvm")(**given, y=wanted)
    dtype = before.buffer("q").dtype.name
    for order in ("forward", "backward"):
        found = run(plans(name)[0].trace.kernel, given, at, order=order)["y"].reshape(wanted.shape)
        assert np.allclose(numbers(found, dtype), numbers(wanted, dtype), rtol=2**-6, atol=2**-7)


def test_a_machine_without_the_units_has_one_version() -> None:
    assert "if D ==" not in str(plans("full", "hip")[0].trace.kernel)
