"""Running values of one long row, or of a few: blocks of it are put together at once, each by itself, so that all
cores take part.

By the rules `blocked_scan`, of sums, products, maxima and minima, what the blocks make comes first, then what
comes before each, and then each block goes on from there; `blocked_recurrence` does likewise for `s = a*s + x`.
The row is read twice, which a second core makes up for. A step that is written otherwise is brought into this form
first, and the value before, where it was read from what was written, is kept beside the row.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dojoir.backends.machine import Machine
from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Condition, Extent, Kernel, Node, Path, Scope, Statement
from dojoir.ir.places import siblings
from dojoir.passes.base.move import Formula, fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.hardware.marks import Unroll
from dojoir.passes.loops.cutting import Cut
from dojoir.passes.loops.extents import SetExtent
from dojoir.passes.loops.joining import JoinScopes, SplitScopes
from dojoir.passes.loops.once import AddScope, RemoveScope
from dojoir.passes.loops.peeling import Peel
from dojoir.passes.loops.siblings import SwapSiblings
from dojoir.passes.loops.splitting import Split
from dojoir.passes.loops.swapping import SwapScopes
from dojoir.passes.schedule.abreast import CHAINS, cut_rows, dims_of_rows
from dojoir.passes.schedule.carried import carry, recurs
from dojoir.passes.schedule.combinators import tried
from dojoir.passes.schedule.sizes import Sizes, is_little, is_short
from dojoir.passes.schedule.spots import Spot, act, in_two, move, spot
from dojoir.passes.schedule.strides import depends
from dojoir.passes.storage.dropping import AddDim, DropDim
from dojoir.passes.storage.placing import PlaceBuffer
from dojoir.passes.storage.reuse import MaterializeDims, ReuseDims
from dojoir.passes.storage.staging import Stage
from dojoir.passes.values.rule import UseRule
from dojoir.rules.operators import OPERATORS, SUM
from dojoir.sets.kernel_sets import sets_of
from dojoir.support.frozen import dataclass

BLOCK = 4096
"""How many elements of a row a core puts together at a time: what it has read is still in its first cache."""

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


def block_scans(trace: Trace, machine: Machine, sizes: Sizes) -> None:
    """Makes each running value of a row that is outermost, or one of rows known to be fewer than cores, one of
    blocks, unless it is known to be short. One for which a move is refused stays as it was."""
    for path in reversed(list(_rows(trace.kernel, machine, sizes))):
        if not is_little(trace.kernel, path, sizes):
            tried(trace, partial(_block, path=path))


def _rows(kernel: Kernel, machine: Machine, sizes: Sizes) -> Iterator[Path]:
    """The scopes along rows, with a statement before that says what they begin with."""
    for path, node in kernel.walk():
        rows = [kernel.at(path[:length]) for length in range(1, len(path))]
        few = all(isinstance(row, Scope) and is_short(row.extent, sizes, max(machine.cores, 2)) for row in rows)
        first = path[-1] > 0 and isinstance(siblings(kernel, path)[path[-1] - 1], Statement)
        if few and first and _is_plain(node):
            yield path


def _is_plain(node: Node) -> bool:
    """Whether a node is a scope of statements without a mark, which may be long."""
    if not isinstance(node, Scope) or node.marks or node.hints or node.constant_bound is not None:
        return False
    return all(isinstance(child, Statement) for child in node.body)


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


def _block(trace: Trace, path: Path) -> None:
    """Raises DojoError where it is no running value, or a move of it is refused."""
    row = spot(trace, path)
    keep_beside(trace, row)
    full = row.scope.extent.bounds[0] // BLOCK
    blocks = make_blocks(trace, row, BLOCK)
    tried(trace, partial(_inside_abreast, blocks=blocks, full=full))
    if len(blocks.names) == len(MAPS):  # sums and their like go in lanes
        tried(trace, partial(_abreast, blocks=blocks.totals, full=full))


def _inside_abreast(trace: Trace, blocks: Blocks, full: Affine) -> None:
    """Gives each block an element of its own for the value inside, and lets several go on side by side. Raises
    IllegalMove where a move of it is refused."""
    within, inside = blocks.names[-1], blocks.inside
    act(trace, PlaceBuffer, within, "heap")
    add_dim(trace, within, inside.depth, inside.scope.extent.bounds[0])
    _abreast(trace, inside, full)


def add_dim(trace: Trace, name: str, depth: int, extent: Affine) -> None:
    """Gives a temporary a first dimension: an element for each iteration of the scopes of `depth` around its uses.
    Raises IllegalMove where a move of it is refused."""
    uses = sum(a.buffer == name for site in trace.kernel.sites for a in site.statement.accesses)
    act(trace, AddDim, name, 0, extent, [Formula(f"{{{depth}}}")] * uses)
    act(trace, MaterializeDims, name, 0)


def _abreast(trace: Trace, blocks: Spot, full: Affine) -> None:
    """Lets several blocks, of those that are `full`, go on side by side: none waits for the step of another. Raises
    IllegalMove where a move of it is refused."""
    path, number = blocks.path, blocks.scopes()[0].path[-1]
    first, _ = in_two(trace, Cut, blocks, full)
    act(trace, SetExtent, first.child(number), Affine.constant(BLOCK))
    cut_rows(trace, first.path, CHAINS)
    nest = spot(trace, path)
    act(trace, Split, nest, CHAINS)
    dims_of_rows(trace, nest.child(0), CHAINS)
    act(trace, SplitScopes, nest.child(0), number)
    act(trace, SwapScopes, nest.child(1))
    act(trace, Unroll, nest.child(0))
    act(trace, Unroll, nest.child(1, 0))


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


__all__ = ["BLOCK", "block_scans", "keep_beside", "make_blocks", "running"]
