"""Running values along a row, as of a scan or a linear recurrence: blocks of the row, put together each by itself.

By the rules `blocked_scan`, of sums, products, maxima and minima, what the blocks make comes first, then what
comes before each, and then each block goes on from there; `blocked_recurrence` does likewise for `s = a*s + x`.
A step that is written otherwise is brought into this form first, and the value before, where it was read from what
was written, is kept beside the row.

Recurrences: what an element of a row takes from the one before it is kept beside the row.

`y[i, j + 1] = f(y[i, j], x[i, j + 1])` waits for the store before it, and for the operation. With a temporary that
keeps the last element of each row, and takes no storage but one element, the store is one that nothing waits for.
So the row is a running value like any other.
"""

from __future__ import annotations

from functools import partial

from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine
from dojoir.ir.expressions import parts
from dojoir.ir.nodes import Access, Condition, Extent, Kernel, Path, Scope, Statement, format_path
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.peeling import Peel
from dojoir.passes.schedule.facts.strides import depends, dims_along
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.spots import Array, Spot, act, move, spot
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
    """A value that goes on along a scope: the `number` of its `step` among two statements, and the `result` that
    gives it away in each iteration, after the step or `before` it."""

    number: int
    step: Statement
    result: Statement

    @property
    def before(self) -> bool:
        return self.number == 1


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
    along.part(2)


def running(along: Spot) -> Running:
    """The running value in a scope of two statements: a step into an element that is the same for all iterations,
    and a result. The result is that element, stored where no other iteration stores. Raises ArgumentError where
    there is none."""
    match along.body:
        case (Statement() as one, Statement() as other):
            for number, (step, result) in enumerate(((one, other), (other, one))):
                goes_on = step.accumulation is not None or step.target in step.reads
                gives = result.op == "=" and result.value == step.target and depends(result.target, along.depth)
                if goes_on and gives and not depends(step.target, along.depth):
                    return Running(number, step, result)
    raise ArgumentError(f"no value goes on along the scope at {along}", "bad-arguments")


def make_blocks(trace: Trace, row: Spot, size: int, count: int | None = None) -> Blocks:
    """Splits a scope along a row into blocks and makes its running value one of blocks, from the statement before
    it on. Into `count` blocks, if that is given, the last of which may be empty. The value inside of a block is in
    a register. Raises DojoError where it is no running value, or a move of it is refused."""
    number = running(row).number
    normal_step(row.child(number))
    bounds = row.scope.extent.bounds
    extent = bounds[0]
    inside = row.split(size)
    if count is not None:
        rest = (bound - row.iterator * size for bound in bounds if bound != Affine.constant(count * size))
        inner = Extent((Affine.constant(size), *rest))
        for scope, new in ((inside, inner), (row, Extent((Affine.constant(count),)))):
            if scope.scope.extent != new:
                scope.bound(new)
    elif not sets_of(trace.kernel).always(Condition(extent, ">=", Affine.constant(1))):
        row.bound((extent + size) // size)  # a block at least, as arrays have no other number
    rule, wanted = _rule(running(inside))
    names = [fresh_name(trace.kernel, name) for name in wanted]
    path = row.beside(-1).path
    act(trace, UseRule, row.beside(-1), rule, names)
    Array(trace, names[-1]).place("reg")
    first = spot(trace, path)
    return Blocks(tuple(names), first, first.beside(2), first.beside(3))


def normal_step(step: Spot) -> None:
    """Brings the step of a running value into the form that the rules of blocks have, where it can be."""
    for form in FORMS:
        if tried(step.trace, move(UseRule, step, form, ())):
            return


def _rule(found: Running) -> tuple[str, list[str]]:
    """The rule for a running value, and what its temporaries are called."""
    before = "_before" if found.before else ""
    for name, operator in OPERATORS.items():
        if found.step.accumulation == operator.accumulates:
            kind = "" if operator == SUM else f"_{name}"
            return f"blocked_scan{before}{kind}", list(MAPS[1:])
    return f"blocked_recurrence{before}", list(MAPS)


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
    Array(trace, kept).drop(len(trace.kernel.buffer(kept).dims) - 1)
    first = row.beside(-2)
    act(trace, UseRule, first, "give_first", ())
    first.swap_next()


def _carry_row(trace: Trace, row: Spot, written: str, kept: str) -> None:
    """As `carry`, for one row: its first element and the scope along it."""
    row.beside(-1).wrap(2)
    around = row.around()
    around.stage(written, "kept", "out", name=kept)
    act(trace, Peel, around.beside(1))
    around.remove()
    row.swap_next()
    row.join(row.beside(1))
    Array(trace, kept).reuse(len(trace.kernel.buffer(kept).dims) - 1)


def recurs(kernel: Kernel, path: Path, number: int, step: Statement) -> bool:
    """Whether the scope over rows at `path` only sets the first element of each row of an output, and then, by its
    child `number`, each next one from the one before."""
    rows, depth = kernel.at(path), kernel.depth_of(path)
    target = step.target
    own = [access for access in step.reads if access.buffer == target.buffer]
    if not isinstance(rows, Scope) or number != 1 or len(rows.body) != 2 or step.accumulation is not None:
        return False
    first = rows.body[0]
    used = sum(a.buffer == target.buffer for site in kernel.sites for a in site.statement.accesses)
    return (
        isinstance(first, Statement)
        and first.accumulation is None
        and first.target.buffer == target.buffer
        and used == 2 + len(own)
        and len(own) > 0
        and len(set(own)) == 1
        and kernel.buffer(target.buffer).role == "out"
        and depends(target, depth)
        and target.indices[:-1] == own[0].indices[:-1] == first.target.indices[:-1]
        and all(dim == len(target.indices) - 1 for dim in dims_along(target, depth + 1))
        and target.indices[-1] == Affine.iterator(depth + 1) + 1
        and own[0].indices[-1] == Affine.iterator(depth + 1)
        and first.target.indices[-1] == Affine.constant(0)
    )


def carry(trace: Trace, path: Path, written: str) -> None:
    """Keeps the last element of each row beside it, for a scope over rows of which `recurs` holds. Its children are
    then the first element, its store, and the scope along the row with a statement and a store. Raises IllegalMove
    where a move of it is refused."""
    rows = spot(trace, path)
    kept = rows.stage(written, "kept", "out")
    for _ in range(rows.depth):  # the copy has one element along each scope around
        rows.beside(1).remove()
    rows.join(rows.beside(1))
    act(trace, Peel, rows.child(2))
    rows.child(1).swap_next()
    rows.child(2).join(rows.child(3))
    Array(trace, kept).reuse(len(trace.kernel.buffer(kept).dims) - 1)
