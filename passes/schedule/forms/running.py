"""Running values along a row, as of a scan or a linear recurrence: blocks of the row, put together each by itself.

By the rules `blocked_scan`, of sums, products, maxima and minima, what the blocks make comes first, then what
comes before each, and then each block goes on from there; `blocked_recurrence` does likewise for `s = a*s + x`.
A step that is written otherwise is brought into this form first, and the value before, where it was read from what
was written, is kept beside the row.
"""

from __future__ import annotations

from functools import partial

from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine
from dojoir.ir.expressions import parts
from dojoir.ir.nodes import Access, Condition, Extent, Kernel, Path, Scope, Statement, format_path
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.extents import SetExtent
from dojoir.passes.loops.joining import JoinScopes, SplitScopes
from dojoir.passes.loops.once import AddScope, RemoveScope
from dojoir.passes.loops.peeling import Peel
from dojoir.passes.loops.siblings import SwapSiblings
from dojoir.passes.loops.splitting import Split
from dojoir.passes.schedule.facts.strides import depends
from dojoir.passes.schedule.forms.carried import carry, recurs
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.spots import Spot, act, move, spot
from dojoir.passes.storage.dims import DropDim
from dojoir.passes.storage.layout import PlaceBuffer, ReuseDims
from dojoir.passes.storage.staging import Stage
from dojoir.passes.values.rule import UseRule
from dojoir.passes.values.subexpressions import ExtractSubexpression
from dojoir.rules.operators import OPERATORS, SUM
from dojoir.sets.kernel_sets import sets_of
from dojoir.support.frozen import dataclass

MAPS = ("factor", "block", "before", "within")
"""The names of the temporaries of blocks: the factor and the addend of a map, the value before, and the value
inside."""


FORMS = (
    *(f"{rule}{kind}" for rule in ("accumulate", "accumulate_turned") for kind in ("", "_product", "_max", "_min")),
    *("recurrence_turned", "recurrence_difference", "recurrence_state_first"),
)
"""The rules that bring a step into the form that the rules of blocks have."""


@dataclass(frozen=True)
class Running:
    """A scope that continues from a value in each iteration and gives it away, after the step or `before` it."""

    path: Path
    step: int
    before: bool


@dataclass(frozen=True)
class Blocks:
    """The result of a rule for a running value: the names of its temporaries, the one inside of a block last. Then
    come the scope that combines each block, the scope over the results of the blocks, and the one that continues
    inside of blocks."""

    names: tuple[str, ...]
    totals: Spot
    sums: Spot
    inside: Spot


def store_running(trace: Trace) -> None:
    """Stores a running value that a statement in the same scope computes with, as `t += x[j]`, `y[j] = bf16(t)`, in
    an array: the scope that makes the value is then a scan, and what is made of it a scope behind it."""
    for site in reversed(trace.kernel.sites):  # the last first: others stay where they are
        if site.statement.accumulation is not None and (path := site.path[:-1]):
            _ = tried(trace, partial(_stored, scope=path))


def _stored(trace: Trace, scope: Path) -> None:
    """Raises DojoError where a scope is not of that form, or a move is refused."""
    match trace.kernel.at(scope):
        case Scope(body=(Statement(total), Statement(_, "=", value))) if not isinstance(value, Access):
            reads = [number for number, part in enumerate(parts(value)) if part == total]
        case _:
            reads = []
    if not reads or depends(total, trace.kernel.depth_of(scope)):
        raise ArgumentError(f"the scope at {format_path(scope)} has no running value", "bad-arguments")
    along = spot(trace, scope)
    act(trace, ExtractSubexpression, along.child(1), reads[0], fresh_name(trace.kernel, f"{total.buffer}_row"))
    act(trace, SplitScopes, along, 2)


def running(kernel: Kernel, path: Path) -> Running | None:
    """The running value in a scope of two statements: a step into an element that is the same for all iterations,
    and a result. The result is that element, stored where no other iteration stores."""
    scope, depth = kernel.at(path), kernel.depth_of(path)
    assert isinstance(scope, Scope)
    match scope.body:
        case (Statement() as one, Statement() as other):
            for number, (step, result) in enumerate(((one, other), (other, one))):
                goes_on = step.accumulation is not None or step.target in step.reads
                gives = result.op == "=" and result.value == step.target and depends(result.target, depth)
                if goes_on and gives and not depends(step.target, depth):
                    return Running(path, number, before=number == 1)
    return None


def make_blocks(trace: Trace, row: Spot, size: int, count: int | None = None) -> Blocks:
    """Splits a scope along a row into blocks and makes its running value one of blocks, from the statement before
    it on. Into `count` blocks, if that is given, the last of which may be empty. The value inside of a block is in
    a register. Raises DojoError where it is no running value, or a move of it is refused."""
    found = running(trace.kernel, row.path)
    if found is None:
        raise ArgumentError(f"no value goes on along the scope at {row}", "bad-arguments")
    normal_step(trace, row.child(found.step))
    bounds = row.scope.extent.bounds
    extent = bounds[0]
    act(trace, Split, row, size)
    if count is not None:
        rest = (bound - row.iterator * size for bound in bounds if bound != Affine.constant(count * size))
        inner = Extent((Affine.constant(size), *rest))
        for scope, new in ((row.child(0), inner), (row, Extent((Affine.constant(count),)))):
            if scope.scope.extent != new:
                act(trace, SetExtent, scope, new)
    elif not sets_of(trace.kernel).always(Condition(extent, ">=", Affine.constant(1))):
        act(trace, SetExtent, row, (extent + size) // size)  # a block at least, as arrays have no other number
    rule, wanted = _rule(trace, row, found)
    names = fresh_names(trace.kernel, wanted)
    path = row.beside(-1).path
    act(trace, UseRule, row.beside(-1), rule, names)
    act(trace, PlaceBuffer, names[-1], "reg")
    first = spot(trace, path)
    return Blocks(tuple(names), first, first.beside(2), first.beside(3))


def normal_step(trace: Trace, step: Spot) -> None:
    """Brings the step of a running value into the form that the rules of blocks have, where it can be."""
    for form in FORMS:
        if tried(trace, move(UseRule, step, form, ())):
            return


def _rule(trace: Trace, row: Spot, found: Running) -> tuple[str, list[str]]:
    """The rule for a running value, and what its temporaries are called."""
    step = row.child(0, found.step).node
    assert isinstance(step, Statement)
    before = "_before" if found.before else ""
    for name, operator in OPERATORS.items():
        if step.accumulation == operator.accumulates:
            kind = "" if operator == SUM else f"_{name}"
            return f"blocked_scan{before}{kind}", list(MAPS[1:])
    return f"blocked_recurrence{before}", list(MAPS)


def fresh_names(kernel: Kernel, wanted: list[str]) -> list[str]:
    """Names that a kernel does not have yet."""
    return [fresh_name(kernel, name) for name in wanted]


def keep_beside(trace: Trace, row: Spot) -> None:
    """Keeps the value before beside a row where each element was read from what was written before it: the scope at
    `row` is then one of two statements. Raises DojoError where a move of it is refused."""
    match row.scope.body:
        case (Statement() as step,) if step.accumulation is None:
            pass
        case _:
            return
    kept = fresh_name(trace.kernel, f"{step.target.buffer}_kept")
    if len(row.path) > 1 and recurs(trace.kernel, row.path[:-1], row.path[-1], step):
        carry(trace, row.path[:-1], step.target.buffer)
    else:
        _carry_row(trace, row, step.target.buffer, kept)
    act(trace, DropDim, kept, len(trace.kernel.buffer(kept).dims) - 1)
    first = row.beside(-2)
    act(trace, UseRule, first, "give_first", ())
    act(trace, SwapSiblings, first)


def _carry_row(trace: Trace, row: Spot, written: str, kept: str) -> None:
    """As `carry`, for one row: its first element and the scope along it."""
    act(trace, AddScope, row.beside(-1), 2)
    around = row.around()
    act(trace, Stage, around, written, kept, "out")
    act(trace, Peel, around.beside(1))
    act(trace, RemoveScope, around)
    act(trace, SwapSiblings, row)
    act(trace, JoinScopes, row, row.beside(1))
    act(trace, ReuseDims, kept, len(trace.kernel.buffer(kept).dims) - 1)
