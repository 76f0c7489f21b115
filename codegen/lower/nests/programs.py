"""Programs of kernels: the nests lowered into one block, with the arguments around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.program import INDEX, Program, Type, Var
from dojoir.codegen.lower.access.conversions import as_passed, as_stored
from dojoir.codegen.lower.access.state import (
    Block,
    LoweredNames,
    LoweringState,
    LoweringUnit,
    Memory,
    Place,
    Variable,
)
from dojoir.codegen.lower.gpu.launch_homes import within_launches
from dojoir.codegen.lower.gpu.spread import in_registers
from dojoir.codegen.lower.gpu.thread_plan import Threads
from dojoir.codegen.lower.nests.device_code import DeviceScopes
from dojoir.codegen.lower.nests.parallel import CoreScopes
from dojoir.codegen.lower.nests.work import LoweringWork
from dojoir.codegen.lower.plans.layout import Layout
from dojoir.codegen.lower.plans.placement import homes_of, uses_of
from dojoir.codegen.lower.plans.plan import Analysis
from dojoir.codegen.lower.sums.carry import carried, carried_by_threads
from dojoir.codegen.target import Target
from dojoir.ir.nodes import Buffer, Kernel, Path
from dojoir.ir.text import to_text
from dojoir.types.elaborate import elaborate

EMPTY: Mapping[str, str] = MappingProxyType({})


def with_nests(work: LoweringWork) -> LoweringWork:
    """The nests of a kernel for a CPU as a program: scopes as loops, lanes and chunks for the cores."""
    kernel, target = work.kernel, work.target
    analysis = analysis_of(kernel, target)
    buffers, typed, uses, homes = analysis.buffers, analysis.typed, analysis.uses, analysis.homes
    plans = analysis.plans()
    arguments = {buffer.name: _argument(buffer, target) for buffer in kernel.arguments}
    names = LoweredNames({kernel.name, *arguments, *kernel.runtime_sizes})
    sums = carried(analysis, plans)
    unit = LoweringUnit(
        kernel, target, buffers, uses, homes, typed, plans, work.beside.lines, names, work.beside, sums
    )
    unit.arrays |= arguments
    scopes = CoreScopes(unit)
    block = Block()
    strides = _strides(unit)
    places, by_value = _placed(unit, block, strides)
    for name, home in homes.items():
        if home.lives == "heap" and not home.is_variable and not scopes.is_private_to_chunk(home):
            places[name] = scopes.allocate(home, scopes.lane_copies(home), block)
    scopes.fill((), kernel.body, LoweringState(places=places), block)
    steps = tuple(step for found in strides.values() for step in found)
    return replace(work, names=names, program=_program(unit, by_value, block.body, work.given, steps))


def with_launches(work: LoweringWork) -> LoweringWork:
    """The nests of a kernel for a GPU as a program: host code around launches. What several threads accumulate into
    is accumulated in one step."""
    kernel, target, threads, spread = work.kernel, work.target, work.threads, work.of_one_thread
    arguments = {buffer.name: _argument(buffer, target) for buffer in work.text.arguments}
    names = LoweredNames({kernel.name, *arguments, *work.same, *kernel.runtime_sizes})
    analysis = _thread_analysis(spread, threads, target)
    buffers, typed, uses, homes = analysis.buffers, analysis.typed, analysis.uses, analysis.homes
    unit = LoweringUnit(spread, target, buffers, uses, homes, typed, {}, work.beside.lines, names, work.beside)
    unit.arrays |= arguments
    unit.carried, unit.met = carried_by_threads(analysis, threads), work.atomic
    scopes = DeviceScopes(unit, threads, work.barriers, work.landings)
    block = Block()
    places, by_value = _placed(unit, block, {}, work.same)
    for name, home in homes.items():
        if home.buffer.storage == "heap":
            places[name] = scopes.workspace(home, block)
    scopes.fill((), spread.body, LoweringState(places=places), block)
    return replace(work, program=_program(unit, by_value, block.body, work.given), names=names)


def analysis_of(kernel: Kernel, target: Target) -> Analysis:
    buffers = {buffer.name: buffer for buffer in kernel.buffers}
    typed = {site.path: elaborate(site.statement, buffers) for site in kernel.sites}
    uses = uses_of(kernel)
    return Analysis(kernel, target, buffers, uses, homes_of(kernel, uses), typed)


def carriers(kernel: Kernel, target: Target) -> dict[Path, Path]:
    """The statements whose sums variables carry, each with the scope that its variable is for."""
    analysis = analysis_of(kernel, target)
    plans = analysis.plans()
    in_lanes = (a for plan in plans.values() for a in plan.accumulators)
    plain = (a for some in carried(analysis, plans).values() for a in some)
    return {path: a.until for a in (*in_lanes, *plain) for path in a.paths}


def _thread_analysis(spread: Kernel, threads: Threads, target: Target) -> Analysis:
    found = analysis_of(spread, target)
    return replace(found, homes=within_launches(threads, found.homes))


def thread_carriers(kernel: Kernel, target: Target) -> dict[Path, Path]:
    """The same on a GPU: what threads accumulate together has a variable until the nest of their scopes ends."""
    threads = Threads(kernel, target.warp)
    together = {path: collective.nest.path for path, collective in threads.collectives.items()}
    analysis = _thread_analysis(in_registers(threads), threads, target)
    alone = (a for some in carried_by_threads(analysis, threads).values() for a in some)
    return together | {path: a.until for a in alone for path in a.paths}


def _strides(unit: LoweringUnit) -> dict[str, tuple[str, ...]]:
    """The names of the strides that a call gives of each argument that is strided, from the outermost on."""
    return {
        buffer.name: tuple(unit.names.fresh(f"{buffer.name}_stride") for _ in buffer.steps)
        for buffer in unit.kernel.arguments
        if buffer.strided
    }


def _placed(
    unit: LoweringUnit, block: Block, strides: Mapping[str, tuple[str, ...]], same: Mapping[str, str] = EMPTY
) -> tuple[dict[str, Place], tuple[Var, ...]]:
    """Where the arguments are, `same` being other names of some, and those that are passed by value."""
    by_value: list[Var] = []
    places: dict[str, Place] = {}
    for buffer in unit.kernel.arguments:
        if buffer.role == "in" and not buffer.dims:
            by_value.append(Var(Type(as_passed(buffer.dtype)), buffer.name))
            places[buffer.name] = Variable(_unpacked(by_value[-1], buffer, unit, block))
        else:
            array = same.get(buffer.name, buffer.name)
            places[buffer.name] = Memory(array, Layout(buffer, strides.get(buffer.name, ())))
    return places, tuple(by_value)


def _program(
    unit: LoweringUnit,
    by_value: tuple[Var, ...],
    body: tuple[lir.Stmt, ...],
    given: Kernel,
    steps: tuple[str, ...] = (),
) -> Program:
    kernel = unit.kernel
    return Program(
        kernel.name,
        tuple(unit.arrays[buffer.name] for buffer in kernel.arguments if buffer.name in unit.arrays),
        by_value,
        tuple(Var(INDEX, size) for size in (*kernel.runtime_sizes, *steps)),
        tuple(unit.functions.values()),
        body,
        tuple(unit.checks.values()),
        to_text(given, names=True),
        unit.fast,
    )


def _unpacked(passed: Var, buffer: Buffer, unit: LoweringUnit, block: Block) -> Var:
    """A scalar argument in the type in which the target holds it."""
    kind = Type(as_stored(buffer.dtype, unit.target))
    if passed.type == kind:
        return passed
    var = Var(kind, unit.names.fresh(passed.name))
    block.emit(lir.Let(var, lir.Bitcast(kind, passed)))
    return var


def _argument(buffer: Buffer, target: Target) -> lir.ProgramArray:
    return lir.ProgramArray(
        buffer.name,
        as_stored(buffer.dtype, target),
        Layout(buffer).elements.value,
        "argument",
        buffer.align,
        buffer.role == "in",
    )
