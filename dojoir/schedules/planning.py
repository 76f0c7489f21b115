"""`plan`: what there is to choose from for a kernel on a machine, what it costs, and why others do not fit."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING

import dojoir
from dojoir import runtime
from dojoir.schedules.choice import Way, check_sizes, emitted, ways
from dojoir.support.public import public

_OPTIONS = ("", "option", "model", "moves", "why not")
_TRIED = ("form", "nest", "structure", "model", "why not")
_FITTED = ("role", "place", "structure", "model", "why not")
"""The titles of both tables of a plan, the second for a GPU and for a CPU."""

if TYPE_CHECKING:
    from dojoir.passes.schedule.plan.planner import TriedStructure


@dataclass(frozen=True)
class Option:
    """One way to schedule a kernel: `name` says where it is from. `trace` are its moves (none where `refusal` says
    why it cannot be made, or its code cannot). `seconds` is what the model of the machine says that it takes, None
    where none is asked: for stored schedules on a GPU, on a CPU where a size is open, and for what is refused.
    `without` is the structure for CPUs that the schedule by rule leaves out, if it is such a one."""

    name: str
    trace: dojoir.Trace
    seconds: float | None
    refusal: str = ""
    without: str = ""


@dataclass(frozen=True)
class Plan:
    """The plan that `plan` found. `options` are in the order in which `optimize` takes them: it returns the first
    that is not refused. For a GPU `tried` are the structures that were tried on each nest of each form, and `floor`
    is the seconds that no schedule can be faster than, by the model. For a CPU `tried` are those of the caller, and
    the places that a structure fits by its facts: its role stands for a form, and a place is where it was then."""

    kernel: dojoir.Kernel
    machine: dojoir.Machine
    options: tuple[Option, ...]
    tried: tuple[TriedStructure, ...] = ()
    floor: float | None = None

    @property
    def best(self) -> Option:
        """The result of `optimize`: the first option that is not refused, or the last, the text as it stands."""
        return next((one for one in self.options if not one.refusal), self.options[-1])

    def to_json(self) -> dict[str, object]:
        """The plan as what JSON can say, with the moves of the best option."""
        options = [
            {"name": one.name, "seconds": _finite(one.seconds), "refusal": one.refusal} for one in self.options
        ]
        tried = [{**asdict(one), "seconds": _finite(one.seconds)} for one in self.tried]
        moves = [str(move) for move in self.best.trace.moves]
        found = {"machine": self.machine.name, "floor": self.floor, "options": options, "tried": tried}
        return {"plan": {**found, "best": self.best.name, "moves": moves}}

    def __str__(self) -> str:
        lines = [f"{self.kernel.name} on {self.machine.name}"]
        if self.floor is not None:
            lines.append(f"no schedule is faster than {_time(self.floor)}, by the model of the machine")
        lines += ["", *_columns([_OPTIONS, *self._rows()])]
        if self.tried:
            lines += ["", *_columns([self._titles, *self._tried()])]
        return "\n".join(lines)

    def __repr__(self) -> str:
        refused = sum(bool(one.refusal) for one in self.options)
        counts = f"{len(self.options)} options, {refused} refused; {self.best.name} is taken"
        return f"<Plan of {self.kernel.name} on {self.machine.name}: {counts}>"

    def _repr_html_(self) -> str:
        """The table of the options, and folded below it that of the structures that were tried, for notebooks."""
        from dojoir.ir.html import table_html

        head = f"{self.kernel.name} on {self.machine.name}"
        if self.floor is not None:
            head += f", no schedule is faster than {_time(self.floor)}"
        shown = table_html(head, self._rows(), _OPTIONS)
        if not self.tried:
            return shown
        tried = table_html("structures of each nest", self._tried(), self._titles)
        return f"<div>{shown}<details><summary>{len(self.tried)} were tried</summary>{tried}</details></div>"

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            ("*" if one is self.best else " ", one.name, _time(one.seconds), _count_of_moves(one), one.refusal)
            for one in self.options
        ]

    @property
    def _titles(self) -> tuple[str, ...]:
        return _TRIED if self.machine.kind == "gpu" else _FITTED

    def _tried(self) -> list[tuple[str, ...]]:
        return [(t.form, t.nest, t.structure, _time(t.seconds), _first(t.refusal)) for t in self.tried]


@public
def plan(
    kernel: dojoir.Kernel,
    target: str = "llvm",
    *,
    sizes: Mapping[str, int] | None = None,
    threads: int | None = None,
    folders: Sequence[str | os.PathLike[str]] = (),
    cpu: str | None = None,
    structures: Sequence[dojoir.Pass] = (),
) -> Plan:
    """The options of `optimize`: the stored schedules that fit, what the rules make, and the text as it stands.

    For a CPU the rules are structures in their roles (`default_schedule`), and an option is also what they make
    without one of these: of some texts that is faster, and `optimize(measure=True)` and `tune` find out. Where
    all sizes are known, the seconds are those of `dojoir.search.estimate`, no more than an order of schedules.
    One of these options, or the text as it stands, comes before the usual one where it is clearly faster by them.
    `Plan.tried` has the seconds of the kernel once each structure was made.

    For a GPU the rules are a planner. Its options are the forms of the kernel (which nests are fused, or made
    several), each with the structures of its nests that the model of the machine says are fastest. `Plan.tried`
    has the structures of every nest, the seconds of each, and why the others do not fit. The code of each option is
    made once: one that the target refuses stays in the list with the reason. The arguments are those of `optimize`,
    without a database. Of `structures` of the caller, `Plan.tried` says of every nest why it is not of them.
    Printed, a plan is a table.

    Raises as `optimize` does, but for a schedule of the caller's that does not fit the kernel: it is listed with
    the reason.

    >>> import dojoir
    >>> made = dojoir.plan(dojoir.kernels.load("relu").specialize(N=1 << 24), "cuda")
    >>> print(made.best.name)
    planned, joined
    >>> made.best.trace.kernel == dojoir.optimize(made.kernel, "cuda").kernel
    True
    """
    machine = dojoir.machine_for(target, cpu)
    check_sizes(kernel, sizes or {})
    tried: list[TriedStructure] = []
    found = ways(kernel, target, machine, sizes, threads, folders, structures, tried, every=True)
    options = tuple(_option(way, kernel, target, machine) for way in found)
    if machine.kind == "cpu":
        where = target if cpu is None or "@" in target else f"{target}@{cpu}"
        known = {name: value for name, value in (sizes or {}).items() if name in kernel.runtime_sizes}
        options = tuple(_costed(option, known, where, runtime.thread_count(threads)) for option in options)
    least = None
    if machine.kind == "gpu":
        from dojoir.passes.schedule.plan.planner import floor  # not where a schedule is kept

        least = floor(kernel, machine, sizes or {})
    return Plan(kernel, machine, options, tuple(tried), least)


def _option(way: Way, kernel: dojoir.Kernel, target: str, machine: dojoir.Machine) -> Option:
    """A way, made and emitted once."""
    option = Option(way.name, dojoir.Trace(kernel), way.seconds, without=way.without)
    try:
        option = replace(option, trace=way.make())
        emitted(option.trace, target, machine)
    except dojoir.DojoError as error:
        return replace(option, refusal=_first(str(error)))
    return option


def _costed(option: Option, sizes: Mapping[str, int], target: str, threads: int) -> Option:
    """An option for a CPU with the seconds of the estimate, where all sizes are known and can be such."""
    if option.refusal or not all(name in sizes for name in option.trace.kernel.runtime_sizes):
        return option
    with suppress(dojoir.ArgumentError):
        return replace(option, seconds=dojoir.search.estimate(option.trace.kernel, sizes, target, threads))
    return option


def _finite(seconds: float | None) -> float | None:
    return seconds if seconds is not None and isfinite(seconds) else None


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds * 1e6:,.1f} us" if isfinite(seconds) else "no launches"


def _count_of_moves(option: Option) -> str:
    return "" if option.refusal else str(len(option.trace.moves))


def _first(text: str) -> str:
    """The first line of an error, without its code, cut where it is long."""
    line = re.sub(r"^.*?error\[[\w-]+\]: ", "", text.partition("\n")[0])
    return line if len(line) <= 100 else f"{line[:97]}..."


def _columns(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Rows as lines, each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
