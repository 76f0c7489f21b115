"""Random kernels and texts, a sample, held to what they touch: lowered for all targets, and as machine code."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from random import Random

import numpy as np
import pytest
from everywhere import runs_here
from folders import HELPERS
from footprint_runs import examine
from footprints import results_of, run_lowered, strays
from lir_run import Shared

import dojoir
from dojoir.codegen.emission import lower
from dojoir.codegen.lower.plans import plan
from dojoir.codegen.lower.sums import reductions

SCRIPT = HELPERS / "fuzz.py"

NATIVE = [target for target in ("llvm", "c", "avx2", "avx512") if runs_here(target)]


def test_machine_code_of_random_kernels_keeps_to_its_elements() -> None:
    """In a process of its own, which may crash."""
    command = [sys.executable, str(SCRIPT), "--footprints", "1", "--seed", "7", "--targets", ",".join(NATIVE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "footprints: 1 ran, 0 failures" in done.stdout
    assert all(f"{target}, machine code" in done.stdout for target in NATIVE)


@pytest.mark.parametrize("seed", ["tests", "four", "more", "kernels"])
@pytest.mark.parametrize("target", ["avx512", "neon", "rvv", "sve", "cuda", "hip"])
def test_lowered_random_kernels_keep_to_theirs(target: str, seed: str) -> None:
    counts: Counter[str] = Counter()
    found = examine(False, 0, Random(f"{seed}:{target}"), [target], counts, machine=False)
    assert found == [], "\n\n".join(found)
    assert counts[f"{target}, lowered"] > 12


BACKWARDS = """kernel backwards(N)
inout a: {t}[2*N]
out y: {t}[N]
in z: f64[N]
out w: f64[N]

N : v
| w[{{0}}] = z[{{0}}] + 1
| y[{{0}}] = a[2*N - {{0}} - 1]
N : v
| w[{{0}}] += z[{{0}}]
| a[{{0}}] = a[2*N - {{0}} - 2]
"""


ONE = """
import sys
from collections import Counter
from random import Random
import dojoir
from footprint_runs import failures
counts = Counter()
found = failures([("one", dojoir.parse(sys.argv[1]))], [sys.argv[2]], Random(0), counts)
sys.exit("\\n".join(found) or counts[f"{sys.argv[2]}, machine code"] == 0)
"""


@pytest.mark.parametrize("dtype", ["f32", "i32"])
@pytest.mark.parametrize("target", [target for target in ("avx2", "avx512") if target in NATIVE])
def test_masked_stores_of_gathers_stay_on_their_pages(target: str, dtype: str) -> None:
    """GCC makes one instruction of the two, which faults where the lanes that are off do."""
    command = [sys.executable, "-c", ONE, BACKWARDS.format(t=dtype), target]
    path = os.pathsep.join([str(HELPERS), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("target", ["llvm", "cuda"])
@pytest.mark.parametrize("name", ["softmax", "layernorm", "matmul"])
def test_kernels_of_the_library_keep_to_theirs(name: str, target: str) -> None:
    kernel = dojoir.kernels.load(name)
    sizes = dict.fromkeys(kernel.runtime_sizes, 5)
    scheduled = dojoir.optimize(kernel, target).kernel
    assert not list(strays(scheduled, sizes, dojoir.testing.random_inputs(kernel, seed=0, **sizes), [target]))


def test_a_sum_that_is_written_back_where_nothing_ran_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reductions, "where_touched", lambda *_: None)
    kernel = dojoir.parse("kernel planted(N)\nin x: f32[N]\ninout y: f32[N]\n\nN // 8\n| y[0] += x[{0}]\n")
    inputs = dojoir.testing.random_inputs(kernel, seed=0, N=5)
    found = list(strays(kernel, {"N": 5}, inputs, ["c"]))
    assert any("is written at" in wrong for wrong in found) and any("is read at" in wrong for wrong in found)


def test_a_fused_accumulation_reads_its_target() -> None:
    kernel = dojoir.parse("kernel f(N)\nin x: f32[N]\ninout y: f32[N]\n\nN\n| y[{0}] = fma(x[{0}], 2.0, y[{0}])\n")
    inputs = dojoir.testing.random_inputs(kernel, seed=0, N=5)
    assert not list(strays(kernel, {"N": 5}, inputs, ["llvm", "c", "cuda"]))


@pytest.mark.parametrize("divisor", ["3", "-3", "x[{0}] | 1"])
def test_lowered_programs_divide_integers_of_64_bits(divisor: str) -> None:
    """By no float: 53 bits of a quotient are not all of it."""
    kernel = dojoir.parse(f"kernel f(N)\nin x: i64[N]\nout y: i64[N]\n\nN\n| y[{{0}}] = x[{{0}}] // ({divisor})\n")
    x = np.array([2**62 + 5, -(2**63) + 7, 3 * 2**60 + 1, 7, -7], np.int64)
    _, memory = run_lowered(lower(kernel, "llvm"), kernel, {"N": 5}, {"x": x}, 10**6)
    found = results_of(kernel, {"N": 5}, memory)["y"]
    assert np.array_equal(found, dojoir.interpret(kernel, {"x": x})["y"])


def test_lanes_that_are_off_stay_inside_of_what_each_lane_has() -> None:
    """Of an array that each lane has for itself, an index that moves with the lane is right where the lane is at
    work: the others read and wrote behind its end."""
    kernel = dojoir.parse("""kernel own(N)
in    x: u8[N]
inout y: u8[N]
tmp   t: u8[16, 1] stack

5 : v
| if {0} < 2
| | 16
| | | t[{1}, {0} // 2] = x[0]
| | 16
| | | t[{1}, {0} // 2] += x[0]
| | if {0} < 1
| | | y[{0}] += t[15, {0} // 2]
""")
    dojoir.prove(kernel)
    inputs = {"x": np.array([3], np.uint8), "y": np.array([5], np.uint8)}
    assert list(strays(kernel, {"N": 1}, inputs, ("avx2", "avx512", "neon", "sve", "rvv", "llvm", "c"))) == []


def test_lanes_of_a_compiler_that_share_an_element_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = dojoir.parse(
        "kernel k(N)\nin at: i32[1]\nin x: f32[N]\ninout y: f32[4]\n\nN : v\n| y[at[0]] += x[{0}]\n"
    )
    inputs = {"at": np.array([1], np.int32), "x": np.ones(9, np.float32), "y": np.zeros(4, np.float32)}
    run_lowered(lower(kernel, "c"), kernel, {"N": 9}, inputs)
    monkeypatch.setattr(plan.Analysis, "_target_allows", lambda *_: True)
    with pytest.raises(Shared, match=r"y\[1\] in iterations 0 and 1"):
        run_lowered(lower(kernel, "c"), kernel, {"N": 9}, inputs)
