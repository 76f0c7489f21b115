"""Wrong rewrites and wrong instance maps, which the checker must refuse wherever they do harm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import TypeVar

from drawing.expressions import accumulations
from races import race
from walks import disagreement, draw_moves, runs, start_kernel

import dojoir
from dojoir.ir.affine import Affine
from dojoir.ir.expressions import Leaf, map_leaves
from dojoir.ir.nodes import (
    RELATIONS,
    Access,
    Const,
    Expr,
    Guard,
    Index,
    Kernel,
    Node,
    Op,
    Scope,
    Statement,
    expr_accesses,
)
from dojoir.ir.paths import is_inside
from dojoir.passes import MOVES
from dojoir.passes.base.move import Move, Refusal, Rewrite
from dojoir.proof.certificate import LastWriter, Origin
from dojoir.proof.check import InstanceMap, compare, identity, is_legal
from dojoir.proof.claim import Claim
from dojoir.proof.core.compare import Correspondence
from dojoir.proof.core.data_writes import claim_without_data_writes
from dojoir.sets.limits import StepLimitReached, limited

Fault = Callable[[Rewrite, Random], Rewrite | None]


T = TypeVar("T")
N = TypeVar("N", Scope, Guard, Statement)


def _edited(
    done: Rewrite, random: Random, kind: type[N], change: Callable[[N], Sequence[Node] | None]
) -> Rewrite | None:
    """The rewrite with others in the place of one node of a kind, if there is one and it is changed."""
    nodes = [(path, node) for path, node in done.kernel.walk() if isinstance(node, kind)]
    path, node = random.choice(nodes) if nodes else ((), None)
    changed = None if node is None else change(node)
    return None if changed is None else Rewrite(done.kernel.replace_node(path, *changed), done.instances)


def _nudge(affine: Affine, random: Random) -> Affine:
    return affine + random.choice((1, -1))


def _at(row: Sequence[T], number: int, *new: T) -> tuple[T, ...]:
    """A row with others in the place of one."""
    return (*row[:number], *new, *row[number + 1 :])


def drop_guard(done: Rewrite, random: Random) -> Rewrite | None:
    return _edited(done, random, Guard, lambda guard: guard.body)


def another_condition(done: Rewrite, random: Random) -> Rewrite | None:
    def change(guard: Guard) -> list[Node]:
        number = random.randrange(len(guard.conditions))
        one = guard.conditions[number]
        relation, right = random.choice(RELATIONS), _nudge(one.right, random)
        one = random.choice((replace(one, relation=relation), replace(one, right=right)))
        return [replace(guard, conditions=_at(guard.conditions, number, one))]

    return _edited(done, random, Guard, change)


def another_extent(done: Rewrite, random: Random) -> Rewrite | None:
    def change(scope: Scope) -> list[Node]:
        bounds = scope.extent.bounds
        number = random.randrange(len(bounds))
        is_left_out = len(bounds) > 1 and random.random() < 0.5
        bounds = _at(bounds, number, *(() if is_left_out else (_nudge(bounds[number], random),)))
        return [replace(scope, extent=replace(scope.extent, bounds=bounds))]

    return _edited(done, random, Scope, change)


def another_mark(done: Rewrite, random: Random) -> Rewrite | None:
    return _edited(done, random, Scope, lambda scope: [replace(scope, marks=(random.choice("pv"),))])


def another_index(done: Rewrite, random: Random) -> Rewrite | None:
    """Off by one, another iterator, or the indices exchanged, in the target or in one read."""

    def change(access: Access) -> Access:
        indices = access.indices
        number = random.randrange(len(indices)) if indices else 0
        if len(indices) > 1 and random.random() < 0.2:
            return replace(access, indices=(*indices[1:], indices[0]))
        if not indices or not isinstance(index := indices[number], Affine):
            return access
        depths = sorted(index.iterators)
        if depths and random.random() < 0.3:
            other = random.choice((0, depths[0]))
            index = index + Affine.iterator(random.choice(depths)) - Affine.iterator(other)
        else:
            index = _nudge(index, random)
        return replace(access, indices=_at(indices, number, index))

    def leaf(expr: Leaf) -> Expr:
        return change(expr) if isinstance(expr, Access) and random.random() < 0.6 else expr

    def statement(old: Statement) -> list[Node]:
        if random.random() < 0.4:
            return [replace(old, target=change(old.target))]
        return [replace(old, value=map_leaves(old.value, leaf))]

    return _edited(done, random, Statement, statement)


def swapped_operands(done: Rewrite, random: Random) -> Rewrite | None:
    def change(old: Statement) -> list[Node] | None:
        match old.value:
            case Op(name, args) if len(args) > 1:
                return [replace(old, value=Op(name, args[::-1]))]
        return None

    return _edited(done, random, Statement, change)


def permuted_reads(done: Rewrite, random: Random) -> Rewrite | None:
    """The same reads in the same expression, in other places of it: `fma(b, a, c)` or `fma(c, a, b)` for
    `fma(a, b, c)`."""

    def change(old: Statement) -> list[Node] | None:
        reads = list(expr_accesses(old.value))
        if len(set(reads)) < 2 or any(isinstance(i, Access) for read in reads for i in read.indices):
            return None
        random.shuffle(reads)
        value = map_leaves(old.value, lambda leaf: reads.pop() if isinstance(leaf, Access) else leaf)
        return [replace(old, value=value)]

    return _edited(done, random, Statement, change)


def another_value(done: Rewrite, random: Random) -> Rewrite | None:
    def within(expr: Expr) -> Expr:
        match expr:
            case Const(value):
                return Const(value + 1)
            case Index(affine):
                return Index(_nudge(affine, random))
            case Op(name, args):
                other = random.choice((name, "max")) if name in {"add", "sub"} else name
                return Op(other, tuple(map(within, args)))
        return expr

    return _edited(done, random, Statement, lambda old: [replace(old, value=within(old.value))])


def another_operator(done: Rewrite, random: Random) -> Rewrite | None:
    def change(old: Statement) -> list[Node]:
        dtype = done.kernel.buffer(old.target.buffer).dtype
        return [replace(old, op=random.choice(("=", *accumulations(dtype))))]

    return _edited(done, random, Statement, change)


def another_buffer(done: Rewrite, random: Random) -> Rewrite | None:
    """Writes to another buffer of the same type and number of dimensions."""

    def change(old: Statement) -> list[Node] | None:
        mine = done.kernel.buffer(old.target.buffer)
        alike = [b for b in done.kernel.buffers if b.dtype == mine.dtype and len(b.dims) == len(mine.dims)]
        others = [b.name for b in alike if b.role != "in" and b != mine]
        return [replace(old, target=replace(old.target, buffer=random.choice(others)))] if others else None

    return _edited(done, random, Statement, change)


def _with_origins(done: Rewrite, kernel: Kernel, origins: Sequence[Origin | None]) -> Rewrite:
    return Rewrite(kernel, replace(done.instances, origins=tuple(origins)))


def lost_statement(done: Rewrite, random: Random) -> Rewrite | None:
    number = random.randrange(len(done.kernel.sites))
    path = done.kernel.sites[number].path
    return _with_origins(done, done.kernel.replace_node(path), _at(done.instances.origins, number))


def doubled_statement(done: Rewrite, random: Random) -> Rewrite | None:
    number = random.randrange(len(done.kernel.sites))
    path, origins = done.kernel.sites[number].path, done.instances.origins
    twice = done.kernel.replace_node(path, *[done.kernel.at(path)] * 2)
    return _with_origins(done, twice, (*origins[: number + 1], *origins[number:]))


def another_order(done: Rewrite, random: Random) -> Rewrite | None:
    """Two neighbours exchanged, the map with them."""
    kernel, origins = done.kernel, done.instances.origins
    pairs = [path for path, _ in kernel.walk() if path[-1] > 0]
    if not pairs or not origins:
        return None
    second = random.choice(pairs)
    first = (*second[:-1], second[-1] - 1)
    a, b = ([k for k, site in enumerate(kernel.sites) if is_inside(site.path, at)] for at in (first, second))
    if not a or not b:
        return None
    swapped = kernel.replace_node(second, kernel.at(first)).replace_node(first, kernel.at(second))
    order = [*range(a[0]), *b, *a, *range(b[-1] + 1, len(kernel.sites))]
    return _with_origins(done, swapped, [origins[k] for k in order])


def another_origin(done: Rewrite, random: Random) -> Rewrite | None:
    """The right rewrite, and a map that is off by one or names another statement."""
    origins = done.instances.origins
    number = random.randrange(len(origins)) if origins else 0
    origin = origins[number] if origins else None
    if origin is None:
        return None
    if origin.iterators and random.random() < 0.6:
        at = random.randrange(len(origin.iterators))
        origin = replace(origin, iterators=_at(origin.iterators, at, _nudge(origin.iterators[at], random)))
    else:
        origin = random.choice(origins)
    return _with_origins(done, done.kernel, _at(origins, number, origin))


def no_origin(done: Rewrite, random: Random) -> Rewrite | None:
    """A map that says of a statement that it stands for nothing."""
    origins = done.instances.origins
    return _with_origins(done, done.kernel, _at(origins, random.randrange(len(origins)), None)) if origins else None


def another_substitution(done: Rewrite, random: Random) -> Rewrite | None:
    """A map whose read that became an expression, or expression that became a read, is another one."""
    for kind in ("inlined", "extracted"):
        steps = getattr(done.instances, kind)
        if not steps:
            continue
        number = random.randrange(len(steps))
        step, sites = steps[number], len(done.kernel.sites)
        changes = [
            {"definition": random.randrange(sites)},
            {"ordinal": step.ordinal + random.choice((1, -1))},
            {"site": random.randrange(sites)},
        ]
        if step.iterators:
            at = random.randrange(len(step.iterators))
            nudged = _nudge(step.iterators[at], random)
            changes += [{"iterators": _at(step.iterators, at, nudged)}] * 3
        steps = _at(steps, number, replace(step, **random.choice(changes)))
        kept = steps if random.random() < 0.8 else ()
        return Rewrite(done.kernel, replace(done.instances, **{kind: kept}))
    return None


def another_use(done: Rewrite, random: Random) -> Rewrite | None:
    """A map that names another rule of algebra, another place, or other parts."""
    use = done.instances.rule
    if isinstance(use, LastWriter):
        sites, taken = len(done.kernel.sites), tuple(buffer.name for buffer in done.kernel.buffers)
        changes: list[dict[str, object]] = [
            {"site": random.randrange(sites)},
            {"depth": random.randrange(3)},
            {"free": tuple(random.sample(range(3), random.randrange(3)))},
            {"last": random.choice(taken)},
            {"places": taken[: random.randrange(2)]},
        ]
        return Rewrite(done.kernel, replace(done.instances, rule=replace(use, **random.choice(changes))))
    if use is None:
        return None
    match random.randrange(3):
        case 0:
            use = replace(use, rule=random.choice(dojoir.rules.names()))
        case 1:
            use = replace(use, path=random.choice([path for path, _ in done.kernel.walk()]))
        case 2:
            swapped = [expr for _, expr in use.match.inputs][::-1]
            inputs = tuple(zip((name for name, _ in use.match.inputs), swapped, strict=True))
            use = replace(use, match=replace(use.match, inputs=inputs))
    return Rewrite(done.kernel, replace(done.instances, rule=use))


def another_collapse(done: Rewrite, random: Random) -> Rewrite | None:
    temporaries = [b for b in done.kernel.buffers if b.role == "tmp" and b.dims]
    if not temporaries:
        return None
    buffer = random.choice(temporaries)
    number = random.randrange(len(buffer.dims))
    dim = buffer.dims[number]
    dims = _at(buffer.dims, number, replace(dim, collapsed=not dim.collapsed))
    return Rewrite(done.kernel.replace_buffer(replace(buffer, dims=dims)), done.instances)


FAULTS: tuple[Fault, ...] = (
    drop_guard, another_condition, another_extent, another_index, another_index, swapped_operands, another_value,
    another_operator, another_buffer, lost_statement, doubled_statement, another_order, another_origin, no_origin,
    another_substitution, another_use, another_collapse, another_mark, permuted_reads, permuted_reads,
)  # fmt: skip


@dataclass(frozen=True)
class Planted:
    """A fault that was accepted and does harm."""

    what: str
    before: Kernel
    after: Kernel
    instances: InstanceMap

    def text(self) -> str:
        return f"{dojoir.to_text(self.before)}\n# became\n{dojoir.to_text(self.after)}\n# by {self.instances}"


def _with_a_map(kernel: Kernel, random: Random) -> list[Move]:
    """Some moves whose maps say more than which statement stands for which, where there are any."""
    kinds = [
        kind for kind in MOVES if kind.name in {"inline", "extract", "recompute", "use_rule", "split_reduction"}
    ]
    listed = [list(kind.candidates(kernel)) for kind in kinds]
    return [random.choice(moves) for moves in listed if moves]


def _of_another(wrong: Rewrite | None, move: Move) -> Rewrite | None:
    """What a move, and its map, make of a kernel with a fault: no rewrite of the kernel without it."""
    if wrong is None:
        return None
    try:
        return move.rewrite(wrong.kernel)
    except (Refusal, dojoir.DojoError):
        return None


def plant(random: Random, counts: Counter[str], tries: int = 12) -> list[Planted]:
    """Faults in rewrites of one kernel; those that the checker accepts though they do harm."""
    kernel, exact = start_kernel(random)
    calls = runs(kernel, random, (1, 2, 6))
    same = Rewrite(kernel, identity(kernel))
    moves, rewrites = [], [same]
    for move in [*draw_moves(kernel, random, 4), *_with_a_map(kernel, random)]:
        try:
            rewrites.append(move.rewrite(kernel))
        except (Refusal, dojoir.ArgumentError):
            continue
        moves.append(move)
    found = []
    for _ in range(tries):
        fault = random.choice(FAULTS)
        if moves and random.random() < 0.4:
            wrong = _of_another(fault(same, random), random.choice(moves))
            counts["planted before a move"] += wrong is not None
        else:
            wrong = fault(random.choice(rewrites), random)
        if wrong is None:
            continue
        counts["planted"] += 1
        try:
            verdict = compare(kernel, wrong.kernel, wrong.instances)
            listed = is_legal(kernel, wrong.kernel, wrong.instances)
        except Exception as error:
            what = f"{fault.__name__}: {type(error).__name__}: {error}"
            found.append(Planted(what, kernel, wrong.kernel, wrong.instances))
            continue
        counts[f"planted, {verdict.status}"] += 1
        if not verdict and not listed:
            continue
        ordered = exact or _keeps_bits(kernel, wrong)
        harm = disagreement(wrong.kernel, calls, ordered) or next(
            filter(None, (race(wrong.kernel, call.sizes) for call in calls)), None
        )
        if harm is not None:
            found.append(Planted(f"{fault.__name__}: {harm}", kernel, wrong.kernel, wrong.instances))
    return found


def _keeps_bits(kernel: Kernel, wrong: Rewrite) -> bool:
    if wrong.instances.rule is not None:
        return False
    plain = claim_without_data_writes(Claim(kernel, wrong.kernel, wrong.instances))
    if not isinstance(plain, Claim):
        return False
    try:
        with limited(2_000_000):
            return Correspondence(plain.forth, True).difference() is None
    except StepLimitReached:
        return False
