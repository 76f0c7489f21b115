"""The cures of an error: facts on the sizes under which it cannot happen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import islpy as isl

from dojoir.ir.affine import Affine, FloorDiv, Iter, Mod
from dojoir.ir.format import format_condition
from dojoir.ir.nodes import Condition, Scope, Site
from dojoir.sets.kernel_sets import KernelSets, isl_condition


def mending_fact(sets: KernelSets, wrong: isl.UnionMap, facts: Iterable[Condition]) -> str | None:
    """The first of `facts` that leaves nothing of `wrong` and yet some sizes, written `where M % 16 == 0`."""
    for fact in facts:
        allowed = sets.parameters.intersect(sets.workspace.set(f"{sets.prefix}{{ : {isl_condition(fact)} }}"))
        if not allowed.is_empty() and wrong.intersect_params(allowed).is_empty():
            return f"`where {format_condition(fact)}`"
    return None


def nonnegative(affine: Affine) -> Condition:
    """`affine >= 0` as a person would write it: `N >= M + 2`, `M <= 4`."""
    left = Affine(tuple((a, c) for a, c in affine.terms if c > 0), 0)
    right = Affine(tuple((a, -c) for a, c in affine.terms if c < 0), 0)
    if not left.terms:
        return Condition(right, "<=", Affine.constant(affine.offset))
    return Condition(left, ">=", right - affine.offset)


def with_cure(message: str, cures: Iterable[str | None]) -> str:
    """The message and what one may add, if anything."""
    known = [cure for cure in cures if cure is not None]
    return f"{message}; add {', or '.join(known)}" if known else message


def divisibility(site: Site, *others: Affine) -> Iterator[Condition]:
    """`M % 16 == 0` for each size that is divided by a number in what encloses a statement, or in `others`."""
    affines = list(others)
    for node in site.ancestors:
        if isinstance(node, Scope):
            affines += node.extent.bounds
        else:
            affines += [side for c in node.conditions for side in (c.left, c.right)]
    seen: set[tuple[Affine, int]] = set()
    for affine in affines:
        for atom, _ in affine.terms:
            if isinstance(atom, FloorDiv | Mod) and not atom.numerator.iterators:
                # (M + 15) // 16 is a division of M rounded up: M itself is to be a multiple.
                numerator = Affine(atom.numerator.terms, 0)
                if (numerator, atom.divisor) not in seen:
                    seen.add((numerator, atom.divisor))
                    yield Condition(numerator % atom.divisor, "==", Affine.constant(0))


def least(affine: Affine, scopes: Sequence[Scope]) -> Iterator[Affine]:
    """Lower bounds of `affine` over the iterations of `scopes`, free of iterators: one for each way to bound
    them. Gives nothing where an iterator is divided, or in a min or a max."""
    depth = max((a.depth for a, _ in affine.terms if isinstance(a, Iter)), default=None)
    if depth is None:
        if not (affine.iterators or affine.is_clamped):
            yield affine
        return
    coefficient = affine.coefficient(Iter(depth))
    rest = affine - Affine.iterator(depth) * coefficient
    if coefficient > 0:
        yield from least(rest, scopes)
    else:
        for bound in scopes[depth].extent.bounds:
            yield from least(rest + (bound - 1) * coefficient, scopes)
