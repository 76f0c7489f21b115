"""Sweeps over rows that are made again and again: several go through the rows together, one behind the other.

A scope that sweeps over the rows of large arrays in each iteration, as a stencil over time does, brings all of
them through the caches each time. Here its sweeps become one, each late enough for what it takes from those
before. Blocks of iterations go down the rows as a wave: the next one follows as many rows behind as it needs,
while what it reads is still in the cache.

Rows of which each element waits for the one before and for the row before: several of them in flight.

`a[i, j] = f(a[i, j - 1], a[i - 1, j + 1], …)` is a chain along the row, and rows wait for each other as well.
Blocks of a row go on as soon as the row before is two blocks further, so that the chains of several rows overlap.
What each element takes from elsewhere is added up before the chain, in lanes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

from dojoir.backends.machine import Machine
from dojoir.ir.affine import Affine
from dojoir.ir.expressions import parts
from dojoir.ir.nodes import Access, Condition, Expr, Extent, Kernel, Op, Path, Scope, Statement
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.shifting import Shift
from dojoir.passes.loops.skewing import Skew
from dojoir.passes.schedule.facts.strides import Sizes, bytes_of, is_short, lanes_of, sites_in, value_of
from dojoir.passes.schedule.steps.combinators import Fit, tried
from dojoir.passes.schedule.steps.spots import Array, Spot, act, move, spot
from dojoir.passes.storage.layout import ReuseDims
from dojoir.passes.values.rule import UseRule
from dojoir.passes.values.subexpressions import ExtractSubexpression, InlineSubexpression
from dojoir.support.frozen import dataclass

TOGETHER = 8
"""How many iterations go through the rows together at most: each is one more time that memory is spared."""

SHARE = 8
"""The largest part of the last cache for the rows between the first iteration and the last."""

FURTHEST = 4
"""How many rows apart two sweeps may have to stay."""


@dataclass(frozen=True)
class SweepAccess:
    """An access of a sweep to an array that is written: at row `offset` from its own, or at that row alone where it
    stays there."""

    buffer: str
    offset: int
    writes: bool


@dataclass(frozen=True)
class Sweep:
    """The effect of a child of the repeated scope on rows: a scope over `rows`, or, where that is None, a node
    that stays at one row."""

    rows: Affine | None
    touches: tuple[SweepAccess, ...]

    def conflicts(self, other: Sweep) -> Iterator[int]:
        """The row distances of the dependences between this sweep and another: how much further the row of this one
        is where both touch one element and at least one of them writes it."""
        for mine, its in product(self.touches, other.touches):
            if mine.buffer == its.buffer and (mine.writes or its.writes):
                own, others = mine.offset, its.offset
                if self.rows is None and other.rows is not None and own - others < 0:
                    continue  # its row is not one that the other has
                if other.rows is None and self.rows is not None and others - own < 0:
                    continue
                yield others - own


@dataclass(frozen=True)
class Repeated:
    """A scope at `path` that sweeps over rows in each iteration, and how many rows later each sweep runs when they
    are one."""

    path: Path
    sweeps: tuple[Sweep, ...]
    shifts: tuple[int, ...]
    behind: int
    """How many rows behind an iteration the next one can follow it."""


def waves(kernel: Kernel, machine: Machine, sizes: Sizes) -> Iterator[Fit]:
    """Lets blocks of iterations go through the rows together wherever a scope sweeps over arrays that its caches
    do not hold, as far as is known. It also brings rows into flight of which each element waits for the one
    before. Where rows of a sweep are independent they are left to the cores, if there are several."""
    for number in range(len(kernel.body)):
        found = repeated(kernel, (number,))
        if found is not None:
            chained = len(found.sweeps) == 1 and chain_of(kernel, (number, 0)) is not None
            if chained or machine.cores == 1:
                make = partial(_in_waves, found=found, chained=chained, machine=machine, sizes=sizes)
                yield Fit((number,), make)


def repeated(kernel: Kernel, path: Path) -> Repeated | None:
    """The sweeps that the scope at `path` repeats, if that is sweeps over rows alone which take from rows further
    on."""
    node = kernel.at(path)
    if not isinstance(node, Scope) or node.marks or node.hints or len(node.extent.bounds) != 1:
        return None
    written = {site.statement.target.buffer for site in sites_in(kernel, path)}
    sweeps = []
    for number in range(len(node.body)):
        sweep = _sweep(kernel, (*path, number), written)
        if sweep is None:
            return None
        sweeps.append(sweep)
    ends = [sweep.rows for sweep in sweeps if sweep.rows is not None]
    if not ends or not all((end - ends[0]).is_constant for end in ends):
        return None
    shifts: list[int] = []
    for n, sweep in enumerate(sweeps):
        late = [shifts[p] + far for p in range(n) for far in sweeps[p].conflicts(sweep)]
        shifts.append(max(0, *late) if late else 0)
    late = [
        shifts[p] + far - shifts[c]
        for (p, before), (c, after) in product(enumerate(sweeps), repeat=2)
        for far in before.conflicts(after)
    ]
    behind = max(0, *late) if late else 0
    if not behind or max(behind, *shifts) > FURTHEST:
        return None
    return Repeated(path, tuple(sweeps), tuple(shifts), behind)


def _sweep(kernel: Kernel, path: Path, written: set[str]) -> Sweep | None:
    """The sweep of the nest at `path` over rows, which are the first index of each array that is written, if it is
    a nest of scopes with nothing between them."""
    node = kernel.at(path)
    depth, levels = kernel.depth_of(path), 0
    while isinstance(node, Scope):
        if node.marks or node.hints:
            return None
        levels += 1
        if not all(isinstance(child, Statement) for child in node.body) and len(node.body) != 1:
            return None
        node = node.body[0]
    outer = kernel.at(path)
    if not isinstance(node, Statement) or not isinstance(outer, Scope) or len(outer.extent.bounds) != 1:
        return None
    touches: list[SweepAccess] = []
    moving = set()
    for site in sites_in(kernel, path):
        for number, access in enumerate(site.statement.accesses):
            if access.buffer in written:
                row = _row(access, depth)
                if row is None or kernel.buffer(access.buffer).order is not None:
                    return None
                moving.add(row[0])
                touches.append(SweepAccess(access.buffer, row[1], number == 0))
    (rows,) = outer.extent.bounds
    if len(moving) != 1 or rows.iterators:
        return None
    if not moving.pop():
        return Sweep(None, tuple(touches))
    return Sweep(rows, tuple(touches)) if levels > 1 else None


def _row(access: Access, depth: int) -> tuple[bool, int] | None:
    """Whether the first index of an access is the iterator of `depth`, which no other has and no other scope around
    is in, and what is added to it."""
    first, *others = access.indices if access.indices else (None,)
    if not isinstance(first, Affine) or not all(isinstance(index, Affine) for index in others):
        return None
    around = {d for index in access.indices if isinstance(index, Affine) for d in index.iterators if d < depth}
    moves = depth in first.iterators
    rest = first - Affine.iterator(depth) if moves else first
    if around or not rest.is_constant:
        return None
    if moves and any(isinstance(index, Affine) and depth in index.iterators for index in others):
        return None
    return moves, rest.offset


def _in_waves(trace: Trace, found: Repeated, chained: bool, machine: Machine, sizes: Sizes) -> None:
    """Raises IllegalMove where a move is refused."""
    height = ROWS if chained else 1
    behind = -(-found.behind // height)
    count = _together(trace.kernel, found, height * max(behind, 1), machine, sizes)
    if count < 2 and not chained:
        return
    if chained:
        put_last(trace, (*found.path, 0))
    _join_sweeps(trace, found)
    steps = spot(trace, found.path)
    rows = steps.child(0)
    if height > 1:
        rows.split(height)
    if count > 1:
        if not is_short(steps.scope.extent, sizes, count + 1):
            steps = steps.split(count)
        path = steps.path
        if behind:
            act(trace, Skew, steps, behind)
        spot(trace, path).swap()
    if chained:
        inner = found.path
        while chain_of(trace.kernel, inner) is None:
            inner = (*inner, 0)
        rows_in_flight(trace, inner, machine)


def _together(kernel: Kernel, found: Repeated, far: int, machine: Machine, sizes: Sizes) -> int:
    """How many iterations go through the rows together. As many as leave the rows between the first and the last
    in a part of the last cache; 1 where all the arrays fit into a core's own, or there is one iteration."""
    steps = kernel.at(found.path)
    if isinstance(steps, Scope) and is_short(steps.extent, sizes, 2):
        return 1
    touched = {a.buffer for site in sites_in(kernel, found.path) for a in site.statement.accesses}
    held = machine.caches[-1] if machine.caches else 0
    whole, rows = 0, 0
    for name in touched:
        buffer = kernel.buffer(name)
        size = bytes_of(buffer, sizes)
        first = value_of(buffer.dims[0].extent, sizes) if buffer.dims else None
        if size is None or first is None:
            return TOGETHER
        if len(buffer.dims) > 1:
            whole, rows = whole + size, rows + size // first
    if whole <= held:
        return 1
    return min(TOGETHER, machine.held // SHARE // (rows * far))


def _join_sweeps(trace: Trace, found: Repeated) -> None:
    """Makes one scope over rows of the sweeps, each as many rows later as it must be."""
    path = found.path
    ends = {
        n: sweep.rows + shift
        for n, (sweep, shift) in enumerate(zip(found.sweeps, found.shifts, strict=True))
        if sweep.rows is not None
    }
    end = max(ends.values(), key=lambda e: (e - next(iter(ends.values()))).offset)
    for n, (sweep, shift) in enumerate(zip(found.sweeps, found.shifts, strict=True)):
        if sweep.rows is None:
            spot(trace, (*path, n)).wrap(1)
        rows = spot(trace, (*path, n))
        if shift:
            act(trace, Shift, rows, Affine.constant(shift))
        own = ends.get(n, Affine.constant(1 + shift))
        if own != end:
            rows.guard([Condition(rows.iterator, "<", own)])
            rows.bound(Extent((end,)))
    for _ in found.sweeps[1:]:
        spot(trace, (*path, 0)).join(spot(trace, (*path, 1)))


ROWS = 4
"""How many rows are in flight: as many as the processor sees at once."""

APART = 2
"""How many blocks a row is behind the one before: what it reads is written by then, and on its way to the cache."""

BLOCK = 8
"""The least elements of a block."""


def chain_of(kernel: Kernel, path: Path) -> Access | None:
    """The read of the element before in a scope over rows, with nothing in it but a scope along the row with one
    statement that takes its element from that one."""
    rows = kernel.at(path)
    if not isinstance(rows, Scope) or rows.marks or rows.hints:
        return None
    match rows.body:
        case (Scope(body=(Statement() as step,)) as along,) if not along.marks and not along.hints:
            pass
        case _:
            return None
    depth, target = kernel.depth_of(path) + 1, step.target
    if step.accumulation is not None or not target.indices:
        return None
    for read in step.reads:
        if read.buffer == target.buffer and read.indices[:-1] == target.indices[:-1]:
            last, own = read.indices[-1], target.indices[-1]
            if isinstance(last, Affine) and isinstance(own, Affine) and depth in own.iterators and own == last + 1:
                return read
    return None


def put_last(trace: Trace, path: Path) -> None:
    """Makes the term of a sum that has the element before its last one, as far as it is a sum and algebra is
    allowed, in rows at `path` which have a chain. Raises IllegalMove where a move is refused."""
    chain = chain_of(trace.kernel, path)
    assert chain is not None
    along = spot(trace, path).child(0)
    while trace.kernel.fp == "fast" and (found := _early(_value_along(along), chain)) is not None:
        part, rule = found
        name = fresh_name(trace.kernel, "sum")
        act(trace, ExtractSubexpression, along.child(0), part, name)
        act(trace, UseRule, along.child(0), rule)
        act(trace, InlineSubexpression, along.child(1), name)


def _value_along(along: Spot) -> Expr:
    """The value that the first statement in a scope assigns."""
    statement = along.body[0]
    assert isinstance(statement, Statement)
    return statement.value


def rows_in_flight(trace: Trace, path: Path, machine: Machine) -> None:
    """Runs blocks of the rows at `path`, which have a chain, two blocks behind each other, with what the chain
    takes from elsewhere added up before, in lanes. Raises IllegalMove where a move is refused."""
    chain = chain_of(trace.kernel, path)
    assert chain is not None
    rows = spot(trace, path)
    along = rows.child(0)
    size = max(BLOCK, lanes_of(trace.kernel, chain.buffer, machine))
    name = fresh_name(trace.kernel, f"{chain.buffer}_around")
    part = _around(_value_along(along), chain)
    if part is not None:
        act(trace, ExtractSubexpression, along.child(0), part, name)
    block = along.split(size)
    if part is not None:
        block.part(1)
        last = len(trace.kernel.buffer(name).dims) - 1
        for dim in range(last):
            tried(trace, move(ReuseDims, name, dim))
        Array(trace, name).split(last, size)
    act(trace, Skew, rows, APART)
    spot(trace, path).swap()
    if part is not None:
        Array(trace, name).reuse(last).place("stack")
        spot(trace, (*path, 0, 0, 0)).mark("v")


def _early(value: Expr, chain: Access) -> tuple[int, str] | None:
    """A part of an expression in which the term with a read is not the last, and the rule that brings it on."""
    for number, part in enumerate(parts(value)):
        match part:
            case Op("add", (Op("add", (_, term)), _)) if _has(term, chain):
                return number, "exchange_terms"
            case Op("add", (term, _)) if _has(term, chain) and not (isinstance(term, Op) and term.name == "add"):
                return number, "turn_sum"
    return None


def _around(value: Expr, chain: Access) -> int | None:
    """The number of the part that is added to the term with a read, if there is something to compute in it."""
    for number, part in enumerate(parts(value)):
        match part:
            case Op("add", (Op(), term)) if _has(term, chain) and not _has(part.args[0], chain):
                return number + 1
    return None


def _has(expr: Expr, read: Access) -> bool:
    return any(part == read for part in parts(expr))
