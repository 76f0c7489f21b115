"""Schedules for GPUs: every kernel of the library, by rule, right and without a race on the harness."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from random import Random
from typing import Literal

import pytest
from agreement import agree
from drawing import draw
from folders import ROOT
from on_harness import run
from references import inputs
from scheduled import by_default

import dojoir
from dojoir import schedules
from dojoir.ir.nodes import Scope
from dojoir.ir.words import GRID
from dojoir.passes.schedule.plan.planner import Planner, ScheduledForm
from dojoir.runtime.gpu import nvrtc

PAGE = ROOT / "docs" / "targets.md"

Order = Literal["forward", "backward"]
ORDERS: tuple[tuple[str, Order], ...] = (("cuda", "forward"), ("hip", "backward"))

SIZES = {
    "N": 3, "M": 300, "K": 7, "H": 5, "T": 3, "D": 40, "V": 9, "B": 2, "C": 3, "G": 2, "L": 270, "O": 2, "W": 35,
    "KH": 3, "KW": 3, "Z": 900, "R": 2, "S": 2,
}  # fmt: skip
"""Sizes by name: rows are longer than a block has threads."""

OTHERS = {"jacobi2d": {"N": 70}, "heat3d": {"N": 9}, "cross_entropy": {"N": 70, "C": 300}, "transpose": {"N": 41},
          "attention": {"T": 9, "H": 2}, "conv2d": {"pad": 1}, "reduce_mean_0": {"N": 9}}  # fmt: skip
LONG = 9001
"""The size of what has one: two blocks of partial sums, and a last access that is not whole."""


DOUBLES = """kernel twice(N)
in  x: f64[N]
out y: f64[N]
N
| y[{0}] = 2 * x[{0}]
"""

SHIFTED = """kernel differences(N)
in  x: f32[N + 1]
out y: f32[N]
N
| y[{0}] = x[{0} + 1] - x[{0}]
"""


@cache
def by_rule(kernel: dojoir.Kernel, target: str = "cuda") -> dojoir.Kernel:
    return by_default(kernel, target).kernel


def grids(kernel: dojoir.Kernel) -> int:
    """How many scopes of grids a kernel has."""
    return sum(isinstance(node, Scope) and bool(set(node.marks) & {*GRID}) for _, node in kernel.walk())


def sizes_of(kernel: dojoir.Kernel) -> dict[str, int]:
    names = kernel.runtime_sizes
    if len(names) == 1:
        return {names[0]: LONG}
    return {name: OTHERS.get(kernel.name, {}).get(name, SIZES[name]) for name in names}


def runs_right(
    kernel: dojoir.Kernel, scheduled: dojoir.Kernel, sizes: dict[str, int], target: str, order: Order
) -> None:
    given = inputs(kernel, sizes)
    expected = dojoir.interpret(kernel, given, **sizes)
    assert agree(kernel, expected, run(scheduled, given, sizes, target, order), exact=False) is None


@pytest.mark.parametrize("name", dojoir.kernels.names())
def test_the_library_by_rule(name: str) -> None:
    kernel = dojoir.kernels.load(name)
    sizes = sizes_of(kernel)
    for target, order in ORDERS:
        scheduled = by_rule(kernel, target)
        assert grids(scheduled) >= 1, "nothing of it is a grid"
        runs_right(kernel, scheduled, sizes, target, order)
    if find_spec("cuda") is not None:
        nvrtc_takes(by_rule(kernel))


def nvrtc_takes(scheduled: dojoir.Kernel) -> None:
    """Compiles the code for a GPU, where there is a compiler."""
    try:
        nvrtc.cubin(dojoir.emit(scheduled, "cuda"), "sm_90a")
    except dojoir.ToolchainError as error:
        if "failed" in str(error):
            raise


@pytest.mark.parametrize("seed", range(6))
def test_random_kernels_by_rule(seed: int) -> None:
    random = Random(seed)
    kernel = dojoir.parse(dojoir.to_text(draw("runnable", random)))
    trace = dojoir.PASSES["default_schedule"].given("cuda").on(kernel)
    assert dojoir.certify(trace)
    dojoir.emit(trace.kernel, "cuda")
    dojoir.emit(trace.kernel, "hip")


@pytest.mark.parametrize("target", ["cuda", "hip"])
def test_a_short_row_is_a_warp(target: str) -> None:
    kernel = dojoir.kernels.load("softmax").specialize(M=512)
    scheduled = by_rule(kernel, target)
    assert f"{32 if target == 'cuda' else 64} : lane" in dojoir.to_text(scheduled)
    text = dojoir.emit(scheduled, target)
    kernels = text[text.index('extern "C"') :]
    assert (
        "__shared__" not in kernels and "barrier" not in kernels and "__sync" not in kernels.replace("_sync(", "")
    )
    runs_right(kernel, scheduled, {"N": 11}, target, "backward")


@pytest.mark.parametrize(("columns", "threads"), [(4096, 256), (2048, 128)])
def test_rows_of_constant_length_stay_in_registers(columns: int, threads: int) -> None:
    kernel = dojoir.kernels.load("softmax").specialize(M=columns)
    scheduled = by_rule(kernel)
    assert f"{threads} : bx" in dojoir.to_text(scheduled)
    assert "tmp e: f32[N~" in dojoir.to_text(scheduled) and " if " not in dojoir.to_text(scheduled)
    runs_right(kernel, scheduled, {"N": 2}, "cuda", "backward")


def test_what_other_threads_use_of_a_row_is_not_in_registers() -> None:
    """Each element of a row of `t` is summed up for all elements of the row, by the threads of all of them."""
    kernel = dojoir.parse(
        "kernel rows(N)\nin x: f32[N, 128]\nin b: f32[128, 128]\nout y: f32[N, 128]\ntmp t: f32[N, 128]\n\n"
        "N\n| 128\n| | t[{0}, {1}] = exp(x[{0}, {1}])\n"
        "| 128\n| | y[{0}, {1}] = 0\n| | 128\n| | | y[{0}, {1}] += t[{0}, {2}] + b[{2}, {1}]\n"
    )
    with pytest.raises(dojoir.ArgumentError, match="another one has"):
        dojoir.parse_pipeline("block_rows(0, 32)")[0].on(kernel)
    for target, order in ORDERS:
        runs_right(kernel, by_rule(kernel, target), {"N": 3}, target, order)


def test_a_vector_is_one_access_of_a_thread() -> None:
    text = dojoir.emit(by_rule(dojoir.kernels.load("add")), "cuda")
    assert text.count("float4 *)&") == 3
    assert "double2" in dojoir.emit(by_rule(dojoir.parse(DOUBLES)), "cuda")
    assert "float4" not in dojoir.emit(by_rule(dojoir.parse(SHIFTED)), "cuda")


def test_what_is_turned_goes_through_shared_memory() -> None:
    scheduled = by_rule(dojoir.kernels.load("transpose"))
    assert "x_tile: f32[64, 64] shared pad(0, 1)" in dojoir.to_text(scheduled)


BATCH = """kernel turned(B, N, M)
in  x: f32[B, N, M]
out y: f32[{shape}]
B
| N
| | M
| | | y[{place}] = x[{{0}}, {{1}}, {{2}}]
"""


@pytest.mark.parametrize(("target", "order"), ORDERS)
@pytest.mark.parametrize(
    ("shape", "place"), [("B, M, N", "{0}, {2}, {1}"), ("M, B, N", "{2}, {0}, {1}")], ids=["matrices", "outermost"]
)
def test_what_is_turned_in_a_batch_does_too(shape: str, place: str, target: str, order: Order) -> None:
    kernel = dojoir.parse(BATCH.format(shape=shape, place=place))
    scheduled = by_rule(kernel, target)
    assert "x_tile: f32[1, 64, 64] shared pad(0, 0, 1)" in dojoir.to_text(scheduled)
    runs_right(kernel, scheduled, {"B": 2, "N": 70, "M": 130}, target, order)


def test_planes_on_a_diagonal_are_no_square() -> None:
    kernel = dojoir.parse("""kernel diagonal(N, M)
in  x: f32[N, N, M]
out y: f32[M, N]
N
| M
| | y[{1}, {0}] = x[{0}, {0}, {1}]
""")
    scheduled = by_rule(kernel)
    assert ": gx" in dojoir.to_text(scheduled) and "shared" not in dojoir.to_text(scheduled)
    runs_right(kernel, scheduled, {"N": 70, "M": 130}, "cuda", "forward")


STORED: tuple[tuple[str, dict[str, int], dict[str, int]], ...] = (
    ("softmax.gpu.moves", {"M": 4096}, {"N": 2}),
    ("layernorm.gpu.moves", {"M": 16384}, {"N": 2}),
    ("transpose.gpu.moves", {"N": 128, "M": 64}, {}),
)
"""The stored schedules for GPUs, with sizes that they are for: fixed, and at run time."""


@pytest.mark.parametrize(("name", "fixed", "rest"), STORED)
def test_a_stored_schedule_is_right(name: str, fixed: dict[str, int], rest: dict[str, int]) -> None:
    kernel = dojoir.kernels.load(name.split(".")[0], **fixed)
    for target, order in ORDERS:
        choice = schedules.choose(kernel, target, sizes=rest)
        assert choice.schedule is not None and choice.schedule.path == name
        assert dojoir.certify(choice.trace)
        runs_right(kernel, choice.trace.kernel, rest, target, order)
    large = {"N": 1 << 20} if "N" in kernel.runtime_sizes else {}
    other = schedules.choose(kernel, "avx2", sizes={**large, **rest}).schedule
    assert other is None or "gpu" not in other.needs


def test_every_stored_schedule_for_gpus_is_tested() -> None:
    stored = {entry.name for entry in files("dojoir.schedules").iterdir() if ".gpu" in entry.name}
    assert stored == {name for name, *_ in STORED}


@pytest.mark.parametrize("name", dojoir.kernels.names())
def test_no_schedule_for_cores_is_chosen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Planner, "plans", lambda _, trace: [ScheduledForm("as it stands", trace, 0.0)])
    kernel = dojoir.kernels.load(name)
    for sizes in ({}, dict.fromkeys(kernel.runtime_sizes, 4096)):
        chosen = schedules.choose(kernel, "cuda", sizes=sizes).schedule
        assert chosen is None or "gpu" in chosen.needs


@pytest.mark.parametrize("sizes", [{"N": 64, "M": 4096}, {"N": 64}, {}], ids=["all", "rows", "none"])
def test_open_sizes_have_what_the_rules_give(sizes: dict[str, int]) -> None:
    softmax = dojoir.kernels.load("softmax")
    trace = dojoir.optimize(softmax, "cuda", sizes=sizes)
    default = dojoir.PASSES["default_schedule"].given("cuda").for_sizes(sizes)
    assert trace.kernel == default.on(softmax).kernel


def test_the_page_shows_what_is_printed() -> None:
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    rows, softmax, tiles, matmul = (text for _, text in blocks[-4:])
    for name, fixed, moves, shown in (
        ("softmax", {"M": 1024}, rows, softmax),
        ("matmul", {"N": 1024, "M": 1024, "K": 1024}, tiles, matmul),
    ):
        trace = dojoir.Trace(dojoir.kernels.load(name).specialize(**fixed))
        for step in dojoir.parse_pipeline(moves):
            if isinstance(step, dojoir.Pass):
                step(trace)
            else:
                trace.apply(step)
        assert shown.strip() in dojoir.emit(trace.kernel, "cuda")


def test_optimize_takes_the_rules_of_the_target() -> None:
    kernel = dojoir.kernels.load("gelu")
    trace = dojoir.optimize(kernel, "cuda", sizes={"N": 64})
    assert grids(trace.kernel) == 1


@pytest.mark.parametrize(("length", "shift"), [(1025, 1), (2048, 1024)])
def test_a_row_that_is_read_again_at_a_shift_is_left_to_other_structures(length: int, shift: int) -> None:
    kernel = dojoir.parse(f"""kernel shifted(N)
in  x: f32[N, {length}]
out y: f32[N, 1024]
tmp s: f32[N]

N @i
| s[{{i}}] = 0
| 1024 @j
| | s[{{i}}] += x[{{i}}, {{j}}]
| 1024 @k
| | y[{{i}}, {{k}}] = x[{{i}}, {{k}} + {shift}] / s[{{i}}]
""")
    trace = dojoir.optimize(kernel.specialize(N=4096), "cuda")
    assert ": gx" in str(trace.kernel)
    assert dojoir.certify(trace).status == "legal"
