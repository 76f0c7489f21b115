"""The one lowering: a kernel becomes the small imperative program that every printer spells."""

from __future__ import annotations

from dojoir.codegen import lir
from dojoir.codegen.conversions import as_passed, as_stored
from dojoir.codegen.fences import fenced
from dojoir.codegen.homes import homes_of, uses_of
from dojoir.codegen.lanes import Analysis
from dojoir.codegen.layout import Layout
from dojoir.codegen.lir import INDEX, Program, Type, Var
from dojoir.codegen.lower_lanes import vector_nest, vector_scope
from dojoir.codegen.lower_parallel import parallel_scope
from dojoir.codegen.lower_scopes import Scopes
from dojoir.codegen.state import Block, Memory, Names, Place, State, Unit, Variable
from dojoir.codegen.target import Target
from dojoir.ir import Buffer, Kernel
from dojoir.printer import lines, to_text
from dojoir.typecheck import elaborate


def lower(kernel: Kernel, target: Target) -> Program:
    """The program of a kernel for a target. The marks of the kernel must be legal (`dojoir.prove`).

    Raises KernelError for types that do not fit and for a buffer that cannot live where it is placed.
    """
    buffers = {buffer.name: buffer for buffer in kernel.buffers}
    typed = {site.path: elaborate(site.statement, buffers) for site in kernel.sites}
    uses = uses_of(kernel)
    homes = homes_of(kernel, uses)
    plans = Analysis(kernel, target, buffers, uses, homes, typed).plans()
    text = {path: line.lstrip("| ") for path, line in lines(kernel, names=True) if path}
    arguments = {buffer.name: _argument(buffer, target) for buffer in kernel.arguments}
    names = Names({kernel.name, *arguments, *kernel.runtime_sizes})
    unit = Unit(kernel, target, buffers, uses, homes, typed, plans, text, names, arrays=dict(arguments))
    by_value: list[Var] = []
    places: dict[str, Place] = {}
    scopes = Scopes(unit, vector_scope, parallel_scope, vector_nest)
    block = Block()
    for buffer in kernel.arguments:
        if buffer.role == "in" and not buffer.dims:
            by_value.append(Var(Type(as_passed(buffer.dtype)), buffer.name))
            places[buffer.name] = Variable(_unpacked(by_value[-1], buffer, unit, block))
        else:
            places[buffer.name] = Memory(buffer.name, Layout(buffer))
    for name, home in homes.items():
        if home.lives == "heap" and not home.is_variable and not scopes.is_private_to_chunk(home):
            places[name] = scopes.allocate(home, scopes.lane_copies(home), block)
    scopes.fill((), kernel.body, State(places=places), block)
    return Program(
        kernel.name,
        tuple(arguments.values()),
        tuple(by_value),
        tuple(Var(INDEX, size) for size in kernel.runtime_sizes),
        tuple(unit.functions.values()),
        fenced(block.body),
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
