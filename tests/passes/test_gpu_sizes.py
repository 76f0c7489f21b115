"""Schedules for open sizes that are told which they will mostly be: one version for these, one for all others."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from agreement import agree, random_arguments
from drawing import draw
from folders import ROOT

import dojoir
from dojoir.ir.nodes import Guard
from dojoir.passes.schedule.forms.plain import settle
from dojoir.passes.schedule.plan import planner

MEANT = {"softmax": {"N": 4, "M": 1000}, "reduce_mean": {"N": 6, "M": 64}, "transpose": {"N": 32, "M": 40}}


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """A version for sizes is made where it is no faster, too."""
    monkeypatch.setattr(planner, "WORTH", 1e9)


def held(kernel: dojoir.Kernel, meant: dict[str, int], random: Random) -> bool:
    """Holds what is made for sizes to what the text gives, at these sizes and at others. Says whether there are
    two versions."""
    trace = dojoir.Trace(kernel)
    settle(trace)
    made = planner.Planner(dojoir.machine_for("cuda"), meant).plans(trace)[0].trace.kernel
    try:
        dojoir.emit(made, "cuda")
    except dojoir.KernelError:  # what `optimize` makes of it is another plan
        return False
    dojoir.prove(made)
    compiled = dojoir.compile(made, "cuda", emulated=True)
    for sizes in (meant, {name: value + 1 + n for n, (name, value) in enumerate(meant.items())}):
        given = random_arguments(kernel, sizes, random)
        expected = dojoir.interpret(kernel, given, **sizes)
        assert agree(kernel, expected, compiled.run(given, **sizes), exact=False) is None
    return isinstance(made.body[0], Guard)


@pytest.mark.parametrize("name", [name for name in MEANT if name in dojoir.kernels.names()])
def test_the_library(name: str) -> None:
    kernel = dojoir.kernels.load(name)
    meant = {size: MEANT[name].get(size, 16) for size in kernel.runtime_sizes}
    assert held(kernel, meant, Random(name))


def test_the_version_for_these_sizes_is_what_they_get_as_numbers() -> None:
    """Both the schedule and the code: no address has a size in it."""
    kernel = dojoir.parse((ROOT / "benchmarks" / "practice" / "conv1x1.dojo").read_text(encoding="utf-8"))
    meant = {"N": 32, "C": 64, "O": 256, "H": 56, "W": 56}
    made = dojoir.optimize(kernel, "cuda", sizes=meant).kernel
    fixed = dojoir.optimize(kernel.specialize(**meant), "cuda").kernel
    assert "if C == 64 and H == 56 and N == 32 and O == 256 and W == 56\n" in str(made)
    first = made.body[0]
    assert isinstance(first, Guard)
    assert first.body == fixed.body
    code = dojoir.emit(made, "cuda")
    kernel_text = code[code.index("__global__") : code.index("__global__", code.index("__global__") + 1)]
    assert "i64 W" not in kernel_text and "i64 C" not in kernel_text


@pytest.mark.parametrize("seed", [n for n in range(16) if n != 4])  # 4 is a long scan: 25 s
def test_random_kernels(seed: int) -> None:
    random = Random(f"sized {seed}")
    kernel = draw("runnable", random, marks=False)
    if not kernel.runtime_sizes:
        pytest.skip("no size is open")
    meant = {name: random.randint(1, 40) for name in kernel.runtime_sizes}
    try:
        kernel.specialize(**meant)
        kernel.specialize(**{name: value + 1 + n for n, (name, value) in enumerate(meant.items())})
    except dojoir.ArgumentError:
        pytest.skip("a fact of the kernel forbids such sizes")
    held(kernel, meant, random)


def test_sizes_that_a_fact_forbids_have_no_version() -> None:
    kernel = dojoir.parse("kernel f(N)\nwhere N % 4 == 0\nin x: f32[N]\nout y: f32[N]\nN\n| y[{0}] = 2 * x[{0}]\n")
    made = dojoir.optimize(kernel, "cuda", sizes={"N": 1001}).kernel
    assert made == dojoir.optimize(kernel, "cuda").kernel


def test_temporaries_whose_names_begin_alike() -> None:
    kernel = dojoir.parse(
        "kernel f(N, M)\nin x: f32[N, M]\nout y: f32[N, M]\ntmp s: f32[N]\ntmp s_2: f32[N]\nN\n| s[{0}] = 0\n| M\n"
        "| | s[{0}] += x[{0}, {1}]\n| s_2[{0}] = s[{0}] + 1\n"
        "| M\n| | y[{0}, {1}] = x[{0}, {1}] * s_2[{0}] + s[{0}]\n"
    )
    assert held(kernel, {"N": 4, "M": 64}, Random(3))


def test_a_checked_index_is_named_as_in_the_text() -> None:
    """In a version an argument has other dimensions, and is called what it is."""
    kernel = dojoir.parse(
        "kernel f(N, M)\nin i: i32[N]\nin x: f32[M]\nout y: f32[N]\nif N == 4 and M == 8\n| 4 : gx\n"
        "| | y[{0}] = x[i[{0}]]\nif 5*((N - 1) // 4) + 4 - N + 9*((M - 1) // 8) + 8 - M >= 1\n| N : gx\n"
        "| | y[{0}] = x[i[{0}]]\n"
    )
    compiled = dojoir.compile(kernel, "cuda", emulated=True)
    x = np.arange(8, dtype=np.float32)
    good = compiled.run({"i": np.array([0, 7, 3, 3], np.int32), "x": x}, N=4, M=8)
    assert good["y"].tolist() == [0, 7, 3, 3]
    with pytest.raises(dojoir.DojoError, match=r"x\[i\["):
        compiled.run({"i": np.array([0, 8, 3, 3], np.int32), "x": x}, N=4, M=8)
