"""One form for what can be written in several ways: no tiles by hand, conditions of windows innermost, and the
scopes around a product in the order in which its result lies in memory.

Sums down the columns of a matrix, turned: they go along its rows, as these lie in memory.

A vector times a matrix may be said as one sum after the other, each down a column. Row after row, each adds to all
sums, and what else goes along the rows can join: a matrix that is wanted both ways is read once.

The form that every schedule begins with: accumulations, nothing dead, no condition that always holds.

Sums that are written out, `s = s + x`, made the accumulations that they are: their order is free then.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dojoir.ir.affine import Affine, FloorDiv, Iter, Mod
from dojoir.ir.format import format_condition
from dojoir.ir.nodes import Access, Condition, Extent, Guard, Kernel, Path, Scope, Site, Statement
from dojoir.ir.paths import is_inside
from dojoir.ir.places import ancestors, scopes_around
from dojoir.ir.rewriting.rewrite import map_indices
from dojoir.passes.base.move import Move, Quoted, Word, place_of
from dojoir.passes.engine.trace import Trace
from dojoir.passes.loops.guards import AddCondition, DropCondition, RemoveGuard
from dojoir.passes.loops.sinking import LiftScope
from dojoir.passes.loops.splitting import Split, Unsplit
from dojoir.passes.loops.swapping import SwapScopes
from dojoir.passes.schedule.facts.strides import depends, sites_in, step_of
from dojoir.passes.schedule.forms.parting import is_contraction, is_window
from dojoir.passes.schedule.steps.combinators import every, first, repeat, tried
from dojoir.passes.schedule.steps.simplify import delete_dead
from dojoir.passes.schedule.steps.spots import act, spot
from dojoir.passes.values.rule import UseRule
from dojoir.passes.values.written_out import written_out
from dojoir.sets.kernel_sets import sets_of
from dojoir.support.frozen import dataclass


def as_plain_scopes(trace: Trace) -> None:
    """No tiles by hand, no scope for two, and the conditions of windows inside of all scopes."""
    untile(trace)
    split_digits(trace)
    guards_inside(trace)


# -- conditions ---------------------------------------------------------------------------------------------------
def guards_inside(trace: Trace) -> None:
    """Carries scopes out of the conditions of windows, those on an iterator of few values, and makes one condition
    of two that follow each other: what is around a window is a perfect nest then."""
    repeat(first(_out_of_guards))(trace)
    for path, node in reversed(list(trace.kernel.walk())):
        if isinstance(node, Guard) and len(node.body) == 1 and isinstance(node.body[0], Guard):
            _ = tried(trace, partial(_join_guards, path=path))


def _out_of_guards(kernel: Kernel) -> Iterator[Move]:
    for path, node in kernel.walk():
        inner = node.body[0] if isinstance(node, Guard) and len(node.body) == 1 else None
        if (
            isinstance(node, Guard)
            and isinstance(inner, Scope)
            and not inner.marks
            and _is_of_window(kernel, path, node)
        ):
            yield LiftScope(place_of((*path, 0)), 1)


def _is_of_window(kernel: Kernel, path: Path, guard: Guard) -> bool:
    few = {depth for depth, scope in enumerate(scopes_around(kernel, path)) if is_window(scope)}
    return all(
        isinstance(condition, Condition) and few & {*condition.left.iterators, *condition.right.iterators}
        for condition in guard.conditions
    )


def _join_guards(trace: Trace, path: Path) -> None:
    """One condition of a guard and the one that is all it has."""
    outer = trace.kernel.at(path)
    assert isinstance(outer, Guard)
    for condition in reversed(outer.conditions):
        act(trace, AddCondition, spot(trace, (*path, 0)), 0, Quoted(format_condition(condition)))
    spot(trace, path).unguard()


# -- digits -------------------------------------------------------------------------------------------------------
def split_digits(trace: Trace) -> None:
    """Makes two scopes of one that is counted by its digits, `{u} // 3` and `{u} % 3`, and whose extent is a
    multiple of the base."""
    for path, node in reversed(list(trace.kernel.walk())):
        if isinstance(node, Scope) and not node.marks and len(node.extent.bounds) == 1:
            base = _base_of(trace.kernel, path, node)
            (bound,) = node.extent.bounds
            if base is not None and not any(n % base for n in (bound.offset, *(n for _, n in bound.terms))):
                _ = tried(trace, Split(place_of(path), base))


def _base_of(kernel: Kernel, path: Path, scope: Scope) -> int | None:
    """The one number that all uses of an iterator are divided by; None where there is none, or several."""
    own, found = Iter(kernel.depth_of(path)), set[int]()

    def seen(affine: Affine) -> Affine:
        for atom, _ in affine.terms:
            if isinstance(atom, FloorDiv | Mod):
                plain = atom.numerator == Affine.atom(own)
                found.update({atom.divisor} if plain else {0} if own.depth in atom.numerator.iterators else ())
            elif own.depth in Affine.atom(atom).iterators:
                found.add(0)
        return affine

    for node in scope.body:
        map_indices(node, seen)
    return next(iter(found)) if len(found) == 1 and 0 not in found else None


# -- tiles --------------------------------------------------------------------------------------------------------
def untile(trace: Trace) -> None:
    """Makes one scope again of one over blocks and one in each: tiles that a text has for one machine stand in the
    way of those for another. What a condition leaves out of the last block is left out of the extent."""
    for _ in range(MOST_TILES):
        if not any(tried(trace, partial(_made_whole, tiled=tiled)) for tiled in list(_blocked(trace.kernel))):
            return


MOST_RESIDUES = 4
"""Into how many residues a scope is split at most: each is a copy of the nest."""

MOST_TILES = 8
"""How many scopes of a kernel may be tiled by hand."""


@dataclass(frozen=True)
class Tiled:
    """A scope over blocks, how many levels inside of it the scope over one block is, and what both go over. Each
    scope between has nothing else in it."""

    path: Path
    levels: int
    whole: Affine


def _blocked(kernel: Kernel) -> Iterator[Tiled]:
    for path, node in kernel.walk():
        if not isinstance(node, Scope) or node.marks or len(node.extent.bounds) != 1:
            continue
        inner, levels = node, 0
        while len(inner.body) == 1 and isinstance(inner.body[0], Scope) and not inner.body[0].marks:
            inner, levels = inner.body[0], levels + 1
            size = inner.extent.bounds[0]
            if not size.is_constant:
                continue
            whole = _of_blocks(node.extent.bounds[0], size.offset)
            if whole is not None:
                yield Tiled(path, levels, whole)


def _of_blocks(blocks: Affine, size: int) -> Affine | None:
    """The whole of which there are so many blocks, the last one not always full; None where a number is no count
    of blocks."""
    if len(blocks.terms) != 1 or blocks.offset:
        return None
    ((atom, factor),) = blocks.terms
    if factor != 1 or not isinstance(atom, FloorDiv) or atom.divisor != size:
        return None
    whole = atom.numerator - (size - 1)
    return None if whole.iterators else whole


def _made_whole(trace: Trace, tiled: Tiled) -> None:
    outer = spot(trace, tiled.path)
    if tiled.levels > 1:
        spot(trace, tiled.path + (0,) * tiled.levels).lift(tiled.levels - 1)
    inner = outer.child(0)
    size = inner.scope.extent.bounds[0]
    if len(inner.scope.extent.bounds) == 1:
        end = tiled.whole - outer.iterator * size.offset
        inner.bound(Extent((size, end)))
        settle_guards(trace, outer.path)
    act(trace, Unsplit, outer, tiled.whole)


# -- order --------------------------------------------------------------------------------------------------------
def rows_outside(trace: Trace, tiled: bool = False) -> None:
    """Exchanges two scopes where the outer one goes along the rows of all results, the inner one down the columns.
    They stand around products, or all that is read lies as the results do. Rows that share what a register tile
    reads along columns stay next to these, where products are to be `tiled`."""
    for _ in range(MOST_TILES):
        if next(filter(partial(tried, trace), _interchanges(trace.kernel, tiled)), None) is None:
            return


def _interchanges(kernel: Kernel, tiled: bool) -> Iterator[Move]:
    for path, node in kernel.walk():
        inner = node.body[0] if isinstance(node, Scope) and len(node.body) == 1 else None
        if not isinstance(node, Scope) or not isinstance(inner, Scope) or node.marks or inner.marks:
            continue
        if any(is_window(scope, MOST_RESIDUES) for scope in (node, inner)):  # a residue, or a copy of the nest
            continue
        sites, depth = sites_in(kernel, path), kernel.depth_of(path)
        targets = [site.statement.target for site in sites]
        reads = [] if any(map(is_contraction, sites)) else [a for site in sites for a in site.statement.reads]
        both = [a for a in (*targets, *reads) if depends(a, depth) and depends(a, depth + 1)]
        sums = filter(is_contraction, sites if tiled else ())
        if any(_shares(site, depth + 1) and not _shares(site, depth) for site in sums):
            continue
        if set(targets) <= set(both) and all(_lies_along(kernel, access, depth) for access in both):
            yield SwapScopes(place_of(path))


def _shares(site: Site, depth: int) -> bool:
    """Whether a scope goes along rows of a product: all of them read the same of what goes along its columns."""
    column = max(d for d in range(len(site.scopes)) if depends(site.statement.target, d))
    return any(depends(a, column) and not depends(a, depth) for a in site.statement.reads)


def _lies_along(kernel: Kernel, target: Access, depth: int) -> bool:
    """Whether a scope goes along a dimension of an access that is nearer in memory than that of the next scope."""
    order = kernel.buffer(target.buffer).order or tuple(range(len(target.indices)))
    stored = [target.indices[d] for d in order]
    outer, inner = (
        [n for n, index in enumerate(stored) if isinstance(index, Affine) and at in index.iterators]
        for at in (depth, depth + 1)
    )
    return len(outer) == len(inner) == 1 and outer > inner


def sums_along_rows(trace: Trace) -> None:
    """Exchanges the two scopes of each nest `i > j > (x[i] += a[j, i] * y[j], ...)` that does nothing else, where
    no array lies the other way."""
    for path, node in list(trace.kernel.walk()):
        if isinstance(node, Scope) and _goes_down(trace.kernel, path, node):
            tried(trace, SwapScopes(place_of(path)))


def _goes_down(kernel: Kernel, path: Path, outer: Scope) -> bool:
    """Whether all statements of a nest of two scopes sum up along the inner one what lies along the outer one."""
    inner = outer.body[0]
    if len(outer.body) != 1 or not isinstance(inner, Scope) or outer.marks or inner.marks:
        return False
    depth = kernel.depth_of(path)
    return all(isinstance(node, Statement) and _sums_down(kernel, node, depth) for node in inner.body)


def _sums_down(kernel: Kernel, sum_: Statement, depth: int) -> bool:
    target, *reads = sum_.accesses
    if sum_.accumulation is None or step_of(kernel, target, depth) != 1 or depends(target, depth + 1):
        return False
    steps = [(step_of(kernel, a, depth), step_of(kernel, a, depth + 1)) for a in reads]
    return (1, None) in steps and not any(along is None for along, _ in steps)


def settle(trace: Trace) -> None:
    """Makes accumulations of sums written out; deletes dead temporaries, and conditions that always hold."""
    accumulate(trace)
    delete_dead(trace)
    remove_guards(trace)


def remove_guards(trace: Trace) -> None:
    """Removes the conditions that always hold."""
    every(lambda kernel: reversed(list(RemoveGuard.candidates(kernel))))(trace)  # those inside first


def settle_guards(trace: Trace, path: Path) -> None:
    """Takes away the conditions in a node that always hold."""
    guards = [at for at, node in trace.kernel.walk() if isinstance(node, Guard) and is_inside(at, path)]
    for at in reversed(guards):
        guard, place, sets = trace.kernel.at(at), place_of(at), sets_of(trace.kernel)
        assert isinstance(guard, Guard)
        always = [isinstance(c, Condition) and sets.holds_around(at, [c]) for c in guard.conditions]
        if all(always):
            _ = tried(trace, RemoveGuard(place))
        else:
            for number in reversed([n for n, holds in enumerate(always) if holds]):
                _ = tried(trace, DropCondition(place, number))


def accumulate(trace: Trace) -> None:
    """Makes an accumulation of each step of a sum, product, maximum or minimum whose value nothing reads before the
    scope around it ends. One whose every value is read, a running sum, is for the rules of scans."""
    for path, rule in list(written_out(trace.kernel)):
        if _is_whole(trace.kernel, path):
            tried(trace, UseRule(place_of(path), Word(rule), ()))


def _is_whole(kernel: Kernel, path: Path) -> bool:
    """Whether a statement goes into one element for all iterations of the scope around it, which nothing else there
    touches."""
    around = [n for n, node in enumerate(ancestors(kernel, path), 1) if isinstance(node, Scope)]
    if not around:
        return False
    scope = path[: around[-1]]
    (step,) = [site.statement for site in kernel.sites if site.path == path]
    return not depends(step.target, len(around) - 1) and not any(
        access.buffer == step.target.buffer
        for site in kernel.sites
        if site.path != path and is_inside(site.path, scope)
        for access in site.statement.accesses
    )
