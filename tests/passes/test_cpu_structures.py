"""The structures for CPUs: by name, left out, one at a time, and on random kernels."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random

import pytest
from agreement import agree
from drawing import draw
from drawing.settings import FEW_SIZES, few_inputs

import dojoir
from dojoir.ir.text import canonical_text
from dojoir.passes.schedule.cpu.structures import CPU_STRUCTURES, ROLES, name_of, schedule_nests, use
from dojoir.passes.schedule.forms.plain import settle
from dojoir.search.actions import WITHOUT

CHOSEN = [name_of(one) for role in ROLES if role.optional for one in role.structures]
BOTH = """kernel both(N, M, K)
in  a: f32[N, K]
in  b: f32[K, M]
in  x: f32[N, M]
out c: f32[N, M]
out s: f32[N]

N
| M
| | c[{0}, {1}] = 0
| | K
| | | c[{0}, {1}] += a[{0}, {2}] * b[{2}, {1}]
N
| s[{0}] = 0
| M
| | s[{0}] += x[{0}, {1}] * b[0, {1}]
"""


def by(name: str, *words: str, text: str = BOTH, machine: str = "avx512") -> dojoir.Trace:
    made = dojoir.PASSES[name].given(*words).for_machine(dojoir.machine_for(machine))
    return made.on(dojoir.parse(text))


def test_each_name_is_one_structure_and_all_are_told() -> None:
    assert len(CPU_STRUCTURES) == sum(len(role.structures) for role in ROLES)
    assert list(WITHOUT) == CHOSEN
    told = dojoir.PASSES["structure"].documentation
    assert all(f"`{name}`" in told for name in CHOSEN)


def test_what_is_left_out_leaves_its_place_to_others() -> None:
    whole, without = by("default_schedule"), by("default_without", "register_tiles")
    packed = [{buffer.name for buffer in trace.kernel.buffers} for trace in (whole, without)]
    assert "b_panel" in packed[0] - packed[1]  # a product; else a convolution, which has the other factor packed
    assert without.kernel != without.start and dojoir.verify(without, sizes={"N": 9, "M": 20, "K": 7}).ok


def test_a_structure_may_be_left_out_at_one_place() -> None:
    trace, avx512 = dojoir.Trace(dojoir.parse(BOTH)), dojoir.machine_for("avx512")
    settle(trace)
    made = [fit for fit in schedule_nests(trace, avx512, {}) if fit.structure == "cores"]
    assert [fit.path for fit in made] == [(2,), (1,), (0,)]
    there = by("default_without", "cores", "2")
    assert len([move for move in there.moves if move.name == "parallelize"]) == len(made) - 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("0", "sums_abreast"), "the nest at 0 is not of the structure sums_abreast"),
        (
            ("0", "large_tiles"),
            "large_tiles is no structure for CPUs, as avx512 is one: give a machine such as",
        ),
        (("0", "lane"), "there is no structure 'lane' for avx512; did you mean 'lanes'"),
        (("0.0", "lanes"), "0.0 is inside of another scope"),
    ],
)
def test_a_structure_that_does_not_fit_says_so(words: tuple[str, ...], says: str) -> None:
    with pytest.raises(dojoir.ArgumentError, match=says):
        by("structure", *words)
    with pytest.raises(dojoir.ArgumentError, match="default_without is for CPUs, and cuda is a GPU"):
        by("default_without", "lanes", machine="cuda")
    with pytest.raises(dojoir.ArgumentError, match="lanes is no structure for GPUs, as cuda is one"):
        by("structure", "0", "lanes", machine="cuda")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("lane",), "there is no structure 'lane' for avx512; did you mean 'lanes'"),
        (("collapsed",), "there is no structure 'collapsed' for avx512"),
        (("waves",), "waves does not fit: there is nothing to leave out"),
        (("lanes", "7"), "lanes does not fit at 7: there is nothing to leave out; it fits at 0, 1"),
        (("lanes", "@j"), "'@j' is no path as dojoir.plan prints one, such as 0.1"),
    ],
)
def test_what_cannot_be_left_out_is_told(words: tuple[str, ...], says: str) -> None:
    with pytest.raises(dojoir.ArgumentError, match=re.escape(says)):
        by("default_without", *words)


def test_a_plan_asks_the_estimate_for_its_processor_and_threads() -> None:
    kernel, sizes = dojoir.kernels.load("softmax"), {"N": 512, "M": 2048}
    for threads in (1, 4):
        plan = dojoir.plan(kernel, sizes=sizes, threads=threads, cpu="westmere")
        there = dojoir.search.estimate(plan.best.trace.kernel, sizes, "llvm@westmere", threads)
        assert plan.best.seconds == there


def test_a_plan_takes_the_sizes_that_optimize_takes() -> None:
    softmax = dojoir.kernels.load("softmax").specialize(N=16)
    assert dojoir.plan(softmax, sizes={"N": 16, "M": 2048}).best.seconds is not None
    kernel = dojoir.parse(BOTH.replace("in  a", "where N <= M\nin  a"))
    assert dojoir.plan(kernel, sizes={"N": 100, "M": 10, "K": 5}).best.seconds is None  # a fact is broken


def test_structures_of_a_role_come_in_the_order_of_the_table() -> None:
    """A product with one column is a sum over rows, and that is what a window tile is made of."""
    column = dojoir.kernels.load("matmul")
    plan = dojoir.plan(column, "avx512", sizes={"N": 2000, "M": 1, "K": 9000}, threads=1)
    tiles = [one.structure for one in plan.tried if one.form == "tile"]
    assert tiles == sorted(tiles, key=list(CPU_STRUCTURES).index)


def test_a_structure_is_made_in_one_nest_alone() -> None:
    trace = by("structure", "1", "sums_abreast")
    assert trace.kernel.body[0] == trace.start.body[0] and len(trace.kernel.body) > 2
    assert dojoir.verify(trace, sizes={"N": 19, "M": 20, "K": 7}).ok


def test_a_plan_says_what_fitted_and_what_is_without_it() -> None:
    plan = dojoir.plan(dojoir.parse(BOTH), "avx512", sizes={"N": 300, "M": 200, "K": 100}, threads=1)
    names = [option.name for option in plan.options]
    assert names[0] == plan.best.name == "default_schedule"
    assert "default_schedule without register_tiles" in names and names[-1] == "the text as it stands"
    assert {"register_tiles", "sums_abreast"} <= {option.without for option in plan.options}
    assert plan.best.without == plan.options[-1].without == ""
    assert all(option.seconds is not None and option.seconds > 0 for option in plan.options)
    assert {("tile", "register_tiles"), ("abreast", "sums_abreast")} <= {(t.form, t.structure) for t in plan.tried}
    assert "role" in str(plan) and "sums_abreast" in str(plan)


@pytest.mark.parametrize("name", CHOSEN)
def test_random_kernels_without_it(name: str) -> None:
    random = Random(f"without {name}")
    for _ in range(2):
        kernel = draw("few elements", random)
        left = dojoir.Trace(kernel)
        schedule_nests(left, dojoir.machine_for("llvm"), {}, lambda one, path: one == name)
        compiled = dojoir.compile(left.kernel, "llvm")
        for sizes in FEW_SIZES:
            inputs = few_inputs(random, sizes["N"])
            expected = dojoir.interpret(kernel, inputs, **sizes)
            wrong = agree(kernel, expected, compiled.run(inputs, **sizes), exact=False)
            assert wrong is None, f"{wrong} at {sizes}\n{left.kernel}"


@pytest.mark.parametrize("operator", ["+=", "max=", "*="])
def test_several_rows_are_added_to_a_vector_of_results_at_once(operator: str) -> None:
    kernel = dojoir.parse(f"""kernel down(N, M)
in  x: f32[N, M]
out y: f32[M]

M @j
| y[{{j}}] = 1
| N @i
| | y[{{j}}] {operator} x[{{i}}, {{j}}]
""")
    machine = replace(dojoir.machine_for("avx2"), cores=1)
    trace = dojoir.PASSES["default_schedule"].for_machine(machine).for_sizes({"N": 1000, "M": 1000}).on(kernel)
    assert "min(4, N - 4*{1}) : u" in canonical_text(trace.kernel)
    assert dojoir.verify(trace.kernel, kernel, sizes=[{"N": n, "M": m} for n in (1, 3, 4, 9) for m in (1, 70)]).ok


def test_a_place_that_a_schedule_of_another_moves_is_found_again() -> None:
    """The copy of the second one's filters stands before the scope that both are in."""
    kernel = dojoir.parse("""kernel two()
in x: f32[2, 16, 6, 8]
in w: f32[32, 16]
in v: f32[24, 16]
in z: f32[2, 16, 6, 8]
out a: f32[2, 32, 6, 8]
out c: f32[2, 24, 6, 8]

2 @i
| 32 @j
| | 6 @k
| | | 8 @l
| | | | a[{i}, {j}, {k}, {l}] = 0
| | | | 16 @m
| | | | | a[{i}, {j}, {k}, {l}] += x[{i}, {m}, {k}, {l}] * w[{j}, {m}]
| 24 @j
| | 6 @k
| | | 8 @l
| | | | c[{i}, {j}, {k}, {l}] = 0
| | | | 16 @m
| | | | | c[{i}, {j}, {k}, {l}] += z[{i}, {m}, {k}, {l}] * v[{j}, {m}]
""")
    trace = dojoir.Trace(kernel)
    found = use(trace, "channel_tiles", dojoir.machine_for("llvm", "znver3"), {})
    assert [one.refusal for one in found] == [None, None]
    assert {"a_tile", "c_tile", "w_packed", "v_packed"} <= {buffer.name for buffer in trace.kernel.buffers}
    assert dojoir.verify(trace).ok
