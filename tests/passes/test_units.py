"""Units of a kernel: which nests are planned together, that those that are alike are planned once, and that what is
found for one alone is made on the whole."""

from __future__ import annotations

from collections import Counter
from functools import wraps

import pytest

import dojoir
from dojoir.backends.host import machine_named
from dojoir.ir.nodes import Path
from dojoir.passes.schedule.plan.kernel_forms import joined
from dojoir.passes.schedule.plan.planner import Planner
from dojoir.passes.schedule.plan.structures import STRUCTURES, Structure
from dojoir.passes.schedule.plan.units import UnitMoves, units_of
from dojoir.support.memo import clear_caches

LAYERS = """kernel layers()
in  x: f32[128, 64]
in  a: f32[64, 64]
in  b: f32[64, 64]
in  c: f32[64, 64]
out y: f32[128, 64]
tmp t: f32[128, 64]
tmp u: f32[128, 64]
tmp v: f32[128, 64]
tmp w: f32[128, 64]

128 @i
| 64 @j
| | t[{i}, {j}] = 0
| | 64 @k
| | | t[{i}, {j}] += x[{i}, {k}] * a[{k}, {j}]
128 @m
| 64 @n
| | u[{n} + 64 * ({m} % 2), {m} // 2] = max(t[{m}, {n}], 0)
128 @i2
| 64 @j2
| | v[{i2}, {j2}] = 0
| | 64 @k2
| | | v[{i2}, {j2}] += u[{i2}, {k2}] * b[{k2}, {j2}]
128 @m3
| 64 @n3
| | w[{n3} + 64 * ({m3} % 2), {m3} // 2] = max(v[{m3}, {n3}], 0)
128 @i4
| 64 @j4
| | y[{i4}, {j4}] = 0
| | 64 @k4
| | | y[{i4}, {j4}] += w[{i4}, {k4}] * c[{k4}, {j4}]
"""
LARGE = LAYERS.replace("128", "512").replace("64", "256")


def test_each_nest_is_a_kernel_of_its_own() -> None:
    kernel = dojoir.parse(LAYERS)
    units = units_of(kernel)
    assert [unit.first for unit in units] == [0, 1, 2, 3, 4]
    assert [[(b.role, unit.names[b.name]) for b in unit.kernel.buffers] for unit in units] == [
        [("in", "x"), ("in", "a"), ("inout", "t")], [("inout", "t"), ("inout", "u")],
        [("in", "b"), ("inout", "u"), ("inout", "v")], [("inout", "v"), ("inout", "w")],
        [("in", "c"), ("out", "y"), ("inout", "w")],
    ]  # fmt: skip
    assert units[1].in_whole("array0 of array10") == "t of array10"


@pytest.mark.parametrize(
    ("declared", "first", "second"),
    [
        ("inout z: f32[8]", "z[{0}] = 0", "z[{0}] += x[{0}]"),  # what begins a sum
        ("tmp t: f32", "t = x[{0}]", "y[{0}] = t"),  # a scalar
        ("tmp t: f32[8] shared", "t[{0}] = x[{0}]", "y[{0}] = t[{0}]"),  # no array that an argument can be
        ("tmp t: f32[8] pad(8)", "t[{0}] = x[{0}]", "y[{0}] = t[{0}]"),
        ("tmp t: f32[8]", "t[{0}] = x[{0}]", "y[{0}] = 2 * t[{0}]"),  # a copy, which a tile may read past
    ],
)
def test_what_is_no_argument_is_not_parted(declared: str, first: str, second: str) -> None:
    out = "out y: f32[8]\n" if "y[" in second else ""
    nests = f"8\n| {first}\n8\n| w[{{0}}] = 1\n8\n| {second}\n"
    text = f"kernel k()\nin  x: f32[8]\n{out}out w: f32[8]\n{declared}\n\n{nests}"
    kernel = dojoir.parse(text + "8\n| w[{0}] += 1\n" if "z" in declared else text)
    assert [unit.kernel for unit in units_of(kernel)] == [kernel]


def test_units_that_are_alike_are_planned_once() -> None:
    clear_caches()
    asked: Counter[str] = Counter()

    def counted(structure: Structure) -> Structure:
        @wraps(structure)
        def count(trace: dojoir.Trace, path: Path, machine: dojoir.Machine) -> object:
            asked[structure.__name__] += not trace.steps
            return structure(trace, path, machine)

        return count  # type: ignore[return-value]

    trace = dojoir.Trace(dojoir.parse(LAYERS))
    planner = Planner(machine_named("cuda"), {}, structures=tuple(map(counted, STRUCTURES)))
    made = planner.scheduled(trace, joined)
    assert asked["rows_in_warps"] == 4  # of five nests
    assert dojoir.certify(made.proved())
    before = Counter(asked)
    again = planner.scheduled(trace, joined)
    assert asked == before and again.trace.moves == made.trace.moves and again.seconds == made.seconds
    assert {one.nest for one in planner.tried} == set("01234")


def test_what_a_unit_cannot_is_made_on_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = dojoir.Trace(dojoir.parse(LAYERS))
    best = Planner(machine_named("cuda"), {}).scheduled(trace, joined)

    def refused(self: UnitMoves, trace: dojoir.Trace, unit: object) -> None:
        raise dojoir.ArgumentError("not here", "bad-arguments")

    monkeypatch.setattr(UnitMoves, "make", refused)
    other = Planner(machine_named("cuda"), {}).scheduled(trace, joined)
    assert other.seconds == best.seconds and dojoir.certify(other.proved())


def test_a_name_that_is_there_gets_a_number() -> None:
    planner, trace = Planner(machine_named("cuda"), {}), dojoir.Trace(dojoir.parse(LARGE))
    made = planner.scheduled(trace, joined).trace.kernel
    (name, *_) = (buffer.name for buffer in made.buffers if buffer.name not in trace.kernel.declared)
    taken = planner.scheduled(dojoir.Trace(dojoir.parse(LARGE.replace("layers()", f"layers({name} = 4)"))), joined)
    assert f"{name}2" in taken.trace.kernel.declared and dojoir.certify(taken.proved())


DEAD = """kernel dead()
in  x: f32[128, 64]
in  a: f32[64, 64]
out y: f32[128, 64]
tmp t: f32[128, 64]
tmp u: f32[64, 128]

128 @i
| 64 @j
| | t[{i}, {j}] = 0
| | 64 @k
| | | t[{i}, {j}] += x[{i}, {k}] * a[{k}, {j}]
64 @m
| 128 @n
| | u[{m}, {n}] = 2 * t[{n}, {m}]
128 @p
| 64 @q
| | y[{p}, {q}] = 3 * x[{p}, {q}]
"""


def test_what_nothing_reads_is_gone_before_units_are_made() -> None:
    trace = dojoir.Trace(dojoir.parse(DEAD))
    made = Planner(machine_named("cuda"), {}).scheduled(trace, joined).proved()
    assert [buffer.name for buffer in made.kernel.arguments] == ["x", "a", "y"]
    assert not {"t", "u"} & made.kernel.declared and len(made.kernel.body) == 1


def test_a_size_that_is_called_as_an_array_of_a_unit_is_not_one() -> None:
    units = units_of(dojoir.parse(LAYERS.replace("layers()", "layers(array0 = 4)")))
    assert all("array0" not in unit.names and "array1" in unit.names for unit in units)
