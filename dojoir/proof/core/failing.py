"""The obligation *fails*: the kernel after ends in an error for no data for which the one before does not.

What may end a run is a divisor that is 0, a count that is no distance, and an index that is data and out of its
range (`dojoir.sets.failing`). Conditions are asked before what they guard, `and` and `or` go from left to right,
and what is not reached does not fail. Which of two errors comes first is no matter.

*Theorem.* Let the values be proved (instances, operations and flow). A statement that stands for another one
computes, in each of its instances, what an instance of that one does, from the same values, once reads are replaced
as the certificate says. So each part of it that may fail is computed before too: by the old instance, or by the
assignment that was inlined there, which ran, as its value was read. An index from data has the same value, and is
in range where it was if its dimension is no smaller (`_narrower`). A statement that stands for nothing computes
what may fail only as the value of an extracted part: each of its instances is one whose value some statement with
an old instance reads, where that always computes it (`_unreached`). Then the old instance computes the part itself.

By a rule of algebra, what may fail is computed by a statement between the same bounds before. The rule of the last
writer brings an index from data into range where its condition does not hold, and nothing else of it may fail anew
(`dojoir.proof.core.last_writer`).

This is about the kernels as their texts are: a value under a condition is not computed where that does not hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import islpy as isl

from dojoir.ir.affine import Affine
from dojoir.ir.expressions import may_end_a_run, parts
from dojoir.ir.nodes import Access, Cast, Condition, Expr, Kernel, Op, Statement, expr_accesses
from dojoir.ir.rewriting.rewrite import replace_read
from dojoir.proof.certificate import LastWriter, Substitution
from dojoir.proof.claim import Claim
from dojoir.proof.core.unchanged import standing
from dojoir.sets.failing import may_fail
from dojoir.sets.flow import same_bounds
from dojoir.sets.kernel_sets import isl_affine, iterators, sets_of
from dojoir.support.frozen import dataclass
from dojoir.types.elaborate import elaborate
from dojoir.types.fma import contracted


@dataclass(frozen=True)
class MayFail:
    """Statement `number` of the kernel after may end the run in `iterations`, a map to nothing, in which no
    statement of the one before computes what may fail there."""

    kernel: Kernel
    number: int
    iterations: isl.UnionMap


def find_new_error(claim: Claim) -> MayFail | None:
    """A statement by which the kernel after may fail where the one before does not, or None. One without an
    instance fails nowhere."""
    return next((failure for failure in _new_errors(claim) if not failure.iterations.is_empty()), None)


def _new_errors(claim: Claim) -> Iterator[MayFail]:
    before, after, certificate = claim.parts
    if isinstance(certificate.rule, LastWriter) or not any(node.suspect for node in after.body):
        return
    if certificate.rule is not None:
        yield from _by_rule(before, after)
        return
    steps, old_steps = certificate.extracted, certificate.inlined
    if certificate.backward:
        steps, old_steps = old_steps, steps
    stands = standing(claim)
    for k, j in claim.pairs:
        if after.sites[k].statement.suspect and _narrower(before, after, (j, old_steps), (k, steps)):
            yield MayFail(after, k, _running(after, k))
    for k in range(len(after.sites)):
        if k not in stands and _computes_what_may_fail(after, k):
            left = _unreached(after, k, steps, stands)
            if left is not None:
                yield MayFail(after, k, left)


def _running(kernel: Kernel, number: int) -> isl.UnionMap:
    """The instances of a statement, as a map to nothing."""
    site, sets = kernel.sites[number], sets_of(kernel)
    return sets.map(f"s{number}[{iterators(len(site.scopes))}] -> [] : {sets.constraints(site.ancestors)}")


def _computes_what_may_fail(kernel: Kernel, number: int) -> bool:
    site = kernel.sites[number]
    if not site.statement.suspect:
        return False
    sets = sets_of(kernel)

    def holds(affine: Affine) -> bool:
        return sets.implies(site.ancestors, Condition(affine, ">=", Affine.constant(0)))

    typed = elaborate(site.statement, {buffer.name: buffer for buffer in kernel.buffers})
    values = (typed.value,) if typed.condition is None else (typed.value, typed.condition)
    return bool(site.statement.scatters) or any(may_fail(value, holds) for value in values)


# -- what is extracted -----------------------------------------------------------------------------------------
def _unreached(
    after: Kernel, number: int, steps: Sequence[Substitution], stands: frozenset[int]
) -> isl.UnionMap | None:
    """The instances of a statement, as a map to nothing, whose value is not one that a statement with an old
    instance always computes; None where there are none."""
    site, sets, reached = after.sites[number], sets_of(after), sets_of(after).map()
    itself = tuple(map(Affine.iterator, range(len(site.scopes))))
    for step in steps:
        reader = after.sites[step.site]
        if step.definition != number or step.ordinal not in set(_always_read(reader.statement)):
            continue
        if step.site not in stands and _unreached(after, step.site, steps, stands) is not None:
            continue
        if step.iterators == itself and same_bounds(reader, site):
            return None
        at, own = ", ".join(map(isl_affine, step.iterators)), iterators(len(reader.scopes))
        where = sets.constraints(reader.ancestors)
        reached = reached.union(sets.map(f"s{step.site}[{own}] -> s{number}[{at}] : {where}"))
    left = _running(after, number).subtract_domain(reached.range())
    return None if left.is_empty() else left


def _always_read(statement: Statement) -> Iterator[int]:
    """The reads of a value, by number, that are made whenever its statement runs."""
    count = 0

    def visit(expr: Expr, always: bool) -> Iterator[int]:
        nonlocal count
        match expr:
            case Access():
                count += len(list(expr.accesses()))
                if always:
                    yield count - 1
            case Op(name, args):
                for position, arg in enumerate(args):
                    yield from visit(arg, always and (not position or name not in ("when", "and", "or")))
            case Cast(_, arg):
                yield from visit(arg, always)

    yield from visit(statement.value, True)


# -- indices from data -----------------------------------------------------------------------------------------
_Side = tuple[int, Sequence[Substitution]]


def _narrower(before: Kernel, after: Kernel, old: _Side, new: _Side) -> bool:
    """Whether an index from data of a statement must be in a smaller range than that of the one it stands for."""
    were, are = _ranges(before, *old), _ranges(after, *new)
    return len(were) != len(are) or not all(
        now == was or sets_of(after).always(Condition(now, ">=", was)) for was, now in zip(were, are, strict=True)
    )


def _ranges(kernel: Kernel, number: int, steps: Sequence[Substitution]) -> list[Affine]:
    """The sizes of the dimensions that a value indexes by data, in order of evaluation: with the expressions in the
    place of its reads that the certificate says, and, where rounding is free, products that are added as `fma`."""
    value = kernel.sites[number].statement.term
    for step in steps:
        if step.site == number:
            value = replace_read(value, step.ordinal, kernel.sites[step.definition].statement.value)
    found = []
    for access in expr_accesses(value):
        dims = kernel.buffer(access.buffer).dims
        found.append([dims[d].extent for d, i in enumerate(access.indices) if isinstance(i, Access)])
    if kernel.fp != "strict":
        _, found = contracted(value, found, {buffer.name: buffer for buffer in kernel.buffers})
    return [extent for extents in found for extent in extents]


# -- rules -----------------------------------------------------------------------------------------------------
def _by_rule(before: Kernel, after: Kernel) -> Iterator[MayFail]:
    """The statements that may fail, of which no statement between the same bounds computes as much before."""
    for k, site in enumerate(after.sites):
        suspects = {part for part in parts(site.statement.value) if may_end_a_run(part)}
        if suspects and site.statement not in {s.statement for s in before.sites if same_bounds(s, site)}:
            there = (
                {*parts(s.statement.value)} for s in before.sites if same_bounds(s, site) and _is_plain(s.statement)
            )
            if not any(suspects <= those for those in there) and _computes_what_may_fail(after, k):
                yield MayFail(after, k, _running(after, k))


def _is_plain(statement: Statement) -> bool:
    """Whether all parts of a value are computed whenever its statement runs."""
    return not any(isinstance(part, Op) and part.name in ("when", "and", "or") for part in parts(statement.value))
