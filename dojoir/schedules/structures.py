"""Structures: those of the caller, passes that each schedule one nest, tried on every nest of a kernel; and what
is made by rule for a CPU without one of those that come with dojoir."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import dojoir

if TYPE_CHECKING:
    from dojoir.passes.schedule.plan.planner import TriedStructure
    from dojoir.passes.schedule.plan.structures import Structure


def fitted(
    structures: Sequence[dojoir.Pass], machine: dojoir.Machine, sizes: Mapping[str, int]
) -> list[tuple[str, Callable[[dojoir.Trace, str], None]]]:
    """The name of each structure, and what schedules the nest at a place by it. Raises ArgumentError for a pass
    that takes no place."""

    def on_place(one: dojoir.Pass) -> Callable[[dojoir.Trace, str], None]:
        ready = one.for_sizes(sizes).for_machine(machine)
        return lambda trace, nest: replace(ready, arguments=(nest,))(trace)

    for one in structures:
        parameters = list(inspect.signature(one.run).parameters.values())[1:]
        needed = [p.name for p in parameters if p.default is inspect.Parameter.empty]
        if one.arguments or not needed or set(needed[1:]) - {"machine", "sizes"}:
            raise dojoir.ArgumentError(
                f"the pass {one} is no structure: it is written {one.usage}, and a structure takes the place of a "
                f"nest alone, as def {one.name}(trace: dojoir.Trace, nest: str)",
                "bad-arguments",
            )
    return [(one.name, on_place(one)) for one in structures]


def for_planner(
    structures: Sequence[dojoir.Pass], machine: dojoir.Machine, sizes: Mapping[str, int]
) -> tuple[Structure, ...]:
    """The structures as the planner for GPUs tries them: on the path of a nest."""

    def on_path(name: str, run: Callable[[dojoir.Trace, str], None]) -> Structure:
        def structure(trace: dojoir.Trace, path: tuple[int, ...], machine: dojoir.Machine) -> None:
            run(trace, ".".join(map(str, path)))

        structure.__name__ = name
        return structure

    return tuple(on_path(name, run) for name, run in fitted(structures, machine, sizes))


def on_nests(
    kernel: dojoir.Kernel,
    structures: Sequence[dojoir.Pass],
    machine: dojoir.Machine,
    sizes: Mapping[str, int],
    tried: list[TriedStructure],
) -> tuple[tuple[str, ...], dojoir.Trace]:
    """For a CPU: a trace in which each outermost scope is scheduled by the first structure that it is of, and the
    names of those that were used. `tried` collects why a nest is of none."""
    from dojoir.passes.schedule.forms.plain import settle
    from dojoir.passes.schedule.plan.planner import TriedStructure

    trace = dojoir.Trace(kernel)
    settle(trace)
    used: dict[str, None] = {}
    known = fitted(structures, machine, sizes)
    for place in [match.place for match in reversed(dojoir.find(trace.kernel, "outermost scope"))]:
        for name, run in known:
            other = trace.copy()
            try:
                run(other, place)
            except dojoir.DojoError as error:
                tried.append(TriedStructure("the text", place, name, None, str(error)))
                continue
            tried.append(TriedStructure("the text", place, name, None))
            used[name] = None
            trace = other
            break
    return tuple(used), trace
