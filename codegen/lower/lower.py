"""The one lowering: a kernel becomes the small imperative program that every printer spells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.offsets import shortened
from dojoir.codegen.lir.program import INDEX, Program, Type, Var
from dojoir.codegen.lower.access.conversions import as_passed, as_stored
from dojoir.codegen.lower.access.state import Block, Memory, Names, Place, State, Unit, Variable
from dojoir.codegen.lower.gpu.capacity import refuse_misfits
from dojoir.codegen.lower.gpu.groups import as_spelled
from dojoir.codegen.lower.gpu.launch_homes import within_launches
from dojoir.codegen.lower.gpu.spread import in_registers
from dojoir.codegen.lower.gpu.threads import Threads
from dojoir.codegen.lower.nests.device import DeviceScopes
from dojoir.codegen.lower.nests.lanes import vector_nest, vector_scope
from dojoir.codegen.lower.nests.parallel import parallel_scope
from dojoir.codegen.lower.nests.scopes import Scopes
from dojoir.codegen.lower.plans.layout import Layout
from dojoir.codegen.lower.plans.placement import homes_of, uses_of
from dojoir.codegen.lower.plans.plan import Analysis
from dojoir.codegen.lower.sums.carry import carried, with_room
from dojoir.codegen.lower.sums.thread_sums import carried_by_threads
from dojoir.codegen.lower.texts.beside import Beside
from dojoir.codegen.lower.texts.block_sums import with_block_sums
from dojoir.codegen.lower.texts.known_sizes import with_known_sizes
from dojoir.codegen.lower.texts.summed_beside import with_sums_beside
from dojoir.codegen.lower.texts.words_beside import Met, accumulating, with_words_beside
from dojoir.codegen.lower.vectors.dots import with_dots
from dojoir.codegen.lower.vectors.mixed_dots import with_sums_apart
from dojoir.codegen.lower.waits.barrier_proof import proved, refuse_unproved
from dojoir.codegen.lower.waits.barriers import barriers_of
from dojoir.codegen.lower.waits.crossing import refuse_crossing
from dojoir.codegen.lower.waits.exchanges import met
from dojoir.codegen.lower.waits.fences import fenced
from dojoir.codegen.target import Target
from dojoir.errors import Diagnostic, KernelError
from dojoir.ir.nodes import Buffer, Kernel, Path
from dojoir.ir.text import to_text
from dojoir.ir.where import place
from dojoir.proof.wellformed import keeps_marks
from dojoir.sets.data_writes import without_data_writes
from dojoir.sets.limits import StepLimitReached, limited_in_part
from dojoir.types.elaborate import elaborate
from dojoir.types.in_bytes import in_bytes

STEP_LIMIT = 5_000_000
"""How many isl operations the proof of a kernel with arrays beside its elements may take."""

EMPTY: Mapping[str, str] = MappingProxyType({})


def lower(kernel: Kernel, target: Target) -> Program:
    """The program of a kernel for a target. The marks of the kernel must be legal (`dojoir.prove`).

    Raises KernelError for types that do not fit and for a buffer that cannot live where it is placed.
    """
    if target.warp:
        return lower_for_device(kernel, target)
    given, beside = kernel, with_block_sums(with_room(in_bytes(kernel)), lambda now: _analysis(now, target))
    beside = with_sums_beside(beside, lambda now: _carriers(now, target))
    kernel = beside.kernel
    analysis = _analysis(kernel, target)
    buffers, typed, uses, homes = analysis.buffers, analysis.typed, analysis.uses, analysis.homes
    plans = analysis.plans()
    arguments = {buffer.name: _argument(buffer, target) for buffer in kernel.arguments}
    names = Names({kernel.name, *arguments, *kernel.runtime_sizes})
    sums = carried(analysis, plans)
    unit = Unit(kernel, target, buffers, uses, homes, typed, plans, beside.lines, names, beside, sums)
    unit.arrays |= arguments
    scopes = Scopes(unit, vector_scope, parallel_scope, vector_nest)
    block = Block()
    strides = _strides(unit)
    places, by_value = _placed(unit, block, strides)
    for name, home in homes.items():
        if home.lives == "heap" and not home.is_variable and not scopes.is_private_to_chunk(home):
            places[name] = scopes.allocate(home, scopes.lane_copies(home), block)
    scopes.fill((), kernel.body, State(places=places), block)
    steps = tuple(step for found in strides.values() for step in found)
    body = with_dots(block.body, target.dots) if target.dots else block.body
    body = with_sums_apart(body, names) if target.mixed else body
    return replace(_program(unit, by_value, fenced(body), steps), text=to_text(given, names=True))


def _analysis(kernel: Kernel, target: Target) -> Analysis:
    buffers = {buffer.name: buffer for buffer in kernel.buffers}
    typed = {site.path: elaborate(site.statement, buffers) for site in kernel.sites}
    uses = uses_of(kernel)
    return Analysis(kernel, target, buffers, uses, homes_of(kernel, uses), typed)


def _carriers(kernel: Kernel, target: Target) -> dict[Path, Path]:
    """The statements whose sums variables carry, each with the scope that its variable is for."""
    analysis = _analysis(kernel, target)
    plans = analysis.plans()
    in_lanes = (a for plan in plans.values() for a in plan.accumulators)
    plain = (a for some in carried(analysis, plans).values() for a in some)
    return {path: a.until for a in (*in_lanes, *plain) for path in a.paths}


def lower_for_device(kernel: Kernel, target: Target) -> Program:
    """The program of a kernel for a GPU: host code around launches."""
    _refuse_strides(kernel, target)
    given, plain = kernel, with_room(in_bytes(as_spelled(kernel, target)))
    sized, same = with_known_sizes(plain)
    beside = _with_arrays(sized, target)
    named = {array: same.get(buffer, buffer) for array, buffer in beside.arrays.items()}
    beside = replace(beside, text=plain, arrays={**same, **named})
    kernel = beside.kernel
    threads = Threads(kernel, target.warp)
    refuse_crossing(threads)
    spread = in_registers(threads)
    refuse_misfits(threads, spread, target)
    barriers, atomic = proved(kernel, target.warp, barriers_of(threads)), met(threads)
    refuse_unproved(kernel, target.warp, atomic)
    arguments = {buffer.name: _argument(buffer, target) for buffer in plain.arguments}
    names = Names({kernel.name, *arguments, *same, *kernel.runtime_sizes})
    analysis = _thread_analysis(spread, threads, target)
    buffers, typed, uses, homes = analysis.buffers, analysis.typed, analysis.uses, analysis.homes
    unit = Unit(spread, target, buffers, uses, homes, typed, {}, beside.lines, names, beside)
    unit.arrays |= arguments
    unit.carried = carried_by_threads(analysis, threads)
    scopes = DeviceScopes(unit, threads, barriers, atomic)
    block = Block()
    places, by_value = _placed(unit, block, {}, same)
    for name, home in homes.items():
        if home.buffer.storage == "heap":
            places[name] = scopes.workspace(home, block)
    scopes.fill((), spread.body, State(places=places), block)
    return shortened(replace(_program(unit, by_value, block.body), text=to_text(given, names=True)), {})


def _with_arrays(kernel: Kernel, target: Target) -> Beside:
    """The kernel with arrays beside its narrow elements. What its threads do then is in no text that was proved, so
    that is proved here. Without a proof, all that they accumulate goes into words around the launches."""
    choices: tuple[Met, ...] = (lambda now: met(Threads(now, target.warp)), accumulating)
    for which in choices:
        beside = with_words_beside(kernel, which)
        beside = with_sums_beside(beside, lambda now: _thread_carriers(now, target))
        if beside.kernel is kernel or _has_right_marks(beside.kernel, kernel):
            return beside
    source, span = place(kernel, ())
    message = f"no proof was found that the threads of {kernel.name} add to narrow elements of their own"
    raise KernelError(Diagnostic("narrow-sum", message, span, source))


def _has_right_marks(made: Kernel, text: Kernel) -> bool:
    """Whether iterations under marks are independent in a kernel that was made of a text in which they are."""
    try:
        with limited_in_part(STEP_LIMIT):
            return keeps_marks(without_data_writes(made), right=without_data_writes(text))
    except StepLimitReached:
        return False


def _thread_analysis(spread: Kernel, threads: Threads, target: Target) -> Analysis:
    found = _analysis(spread, target)
    return replace(found, homes=within_launches(threads, found.homes))


def _thread_carriers(kernel: Kernel, target: Target) -> dict[Path, Path]:
    """The same on a GPU: what threads accumulate together has a variable until the nest of their scopes ends."""
    threads = Threads(kernel, target.warp)
    together = {path: collective.nest.path for path, collective in threads.collectives.items()}
    analysis = _thread_analysis(in_registers(threads), threads, target)
    alone = (a for some in carried_by_threads(analysis, threads).values() for a in some)
    return together | {path: a.until for a in alone for path in a.paths}


def _strides(unit: Unit) -> dict[str, tuple[str, ...]]:
    """The names of the strides that a call gives of each argument that is strided, from the outermost on."""
    return {
        buffer.name: tuple(unit.names.fresh(f"{buffer.name}_stride") for _ in buffer.steps)
        for buffer in unit.kernel.arguments
        if buffer.strided
    }


def _refuse_strides(kernel: Kernel, target: Target) -> None:
    """Raises KernelError for an argument whose strides come from the call: a GPU takes dense arrays."""
    for buffer in kernel.arguments:
        if buffer.strided:
            message = f"target {target.name} takes dense arrays, and {buffer.name} is strided: leave out 'strided'"
            source, span = place(kernel, (), buffer)
            raise KernelError(Diagnostic("strided-argument", message, span, source))


def _placed(
    unit: Unit, block: Block, strides: Mapping[str, tuple[str, ...]], same: Mapping[str, str] = EMPTY
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
    unit: Unit, by_value: tuple[Var, ...], body: tuple[lir.Stmt, ...], steps: tuple[str, ...] = ()
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
        to_text(kernel, names=True),
        unit.fast,
    )


def _unpacked(passed: Var, buffer: Buffer, unit: Unit, block: Block) -> Var:
    """A scalar argument in the type in which the target holds it."""
    kind = Type(as_stored(buffer.dtype, unit.target))
    if passed.type == kind:
        return passed
    var = Var(kind, unit.names.fresh(passed.name))
    block.emit(lir.Let(var, lir.Bitcast(kind, passed)))
    return var


def _argument(buffer: Buffer, target: Target) -> lir.Array:
    return lir.Array(
        buffer.name,
        as_stored(buffer.dtype, target),
        Layout(buffer).elements.value,
        "argument",
        buffer.align,
        buffer.role == "in",
    )
