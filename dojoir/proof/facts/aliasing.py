"""The iterations that two accesses to one element must share, as their indices show.

Where two instances of statements touch one element, each index of the one equals that of the other. What follows
for their iterators is seen where both indices are the same sum of iterators, quotients and remainders. The sum of
c_d * (p_d - q_d) is 0 over the terms d that are not known to agree. With |c_1| < |c_2| < … that has only the
solution p = q if each |c_k| is more than the largest value of the part below it, the sum of |c_j| * (extent_j - 1)
over j < k. An iterator agrees, too, where its quotient and its remainder by one number do. Where one index is
always less than the other, the two never touch one element, and nothing need agree.

Source: the greatest-common-divisor and bounds tests on subscripts, as in R. Allen and K. Kennedy, "Optimizing
Compilers for Modern Architectures" (2001), chapter 3, for the case of equal coefficients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import combinations_with_replacement

from dojoir.ir.affine import Affine, Atom, FloorDiv, Iter, Mod
from dojoir.ir.nodes import Access, Kernel, Scope, Site, substitute_extent, substitute_iterators
from dojoir.sets.kernel_sets import KernelSets
from dojoir.sets.ranges import is_nonnegative
from dojoir.support.memo import charge

STEPS = 16
"""The steps charged for comparing two statements."""


def agreement(kernel: Kernel, left: tuple[Site, Access], right: tuple[Site, Access], depth: int) -> frozenset[int]:
    """The depths at which two instances of statements surely have equal iterators if they touch one element of
    storage through these accesses of one buffer, given that they agree in the iterators above `depth`."""
    (one, a), (other, b) = left, right
    known: set[int] = set(range(depth))
    dims = kernel.buffer(a.buffer).dims
    open_pairs = [
        (x, y)
        for x, y, dim in zip(a.indices, b.indices, dims, strict=True)
        if not dim.collapsed and isinstance(x, Affine) and isinstance(y, Affine)
    ]
    agreed: set[Atom] = set()
    found = True
    while found:
        found = False
        for x, y in open_pairs:
            more = _equal_terms(x, y, known, agreed, one, other)
            if more:
                agreed |= more
                known |= _iterators_of(agreed)
                found = True
    return frozenset(known)


def never_meet(kernel: Kernel, left: tuple[Site, Access], right: tuple[Site, Access], depth: int) -> bool:
    """Whether two instances of statements surely touch different elements of storage through these accesses of one
    buffer, given that they agree in the iterators above `depth`. An index of the one is always less than that of
    the other."""
    (one, a), (other, b) = left, right
    further = len(one.scopes) - depth
    inner = {d: Affine.iterator(d + further) for d in range(depth, len(other.scopes))}
    moved = substitute_iterators(inner)
    scopes: list[Scope] | None = None
    for x, y, dim in zip(a.indices, b.indices, kernel.buffer(a.buffer).dims, strict=True):
        if dim.collapsed or x == y or not (isinstance(x, Affine) and isinstance(y, Affine)):
            continue
        if scopes is None:
            rest = (Scope(substitute_extent(scope.extent, moved), ()) for scope in other.scopes[depth:])
            scopes = [*one.scopes, *rest]
        apart = y.substitute(moved) - x
        if is_nonnegative(apart - 1, scopes) or is_nonnegative(-apart - 1, scopes):
            return True
    return False


def _iterators_of(agreed: set[Atom]) -> set[int]:
    """The iterators that agree if these terms do."""
    found: set[int] = set()
    for atom in agreed:
        match atom:
            case Iter(depth):
                found.add(depth)
            case FloorDiv(Affine(((Iter(depth), 1),), 0) as whole, divisor) if Mod(whole, divisor) in agreed:
                found.add(depth)
    return found


def _equal_terms(x: Affine, y: Affine, known: set[int], agreed: set[Atom], one: Site, other: Site) -> set[Atom]:
    """The further terms that agree if two indices do, and the iterators known and terms agreed; none where that is
    not plain."""
    if (x - y).terms or x.offset != y.offset:
        return set()
    sums: list[tuple[int, Atom]] = []
    for atom, coefficient in x.terms:
        if atom not in agreed and not Affine.atom(atom).iterators <= known:
            sums.append((abs(coefficient), atom))
    reach = 0
    for number, (coefficient, atom) in enumerate(sorted(sums)):
        if coefficient <= reach:
            return set()
        if number < len(sums) - 1:
            largest = _largest(atom, one), _largest(atom, other)
            if largest[0] is None or largest[1] is None:
                return set()
            reach += coefficient * max(largest[0], largest[1])
    return {atom for _, atom in sums}


def _largest(atom: Atom, site: Site) -> int | None:
    """The largest value of a term at a statement, of which it is known that it has none below 0; None where it is
    not seen."""
    match atom:
        case Iter(depth):
            bound = site.scopes[depth].constant_bound
            return None if bound is None else max(0, bound - 1)
        case FloorDiv(Affine(((Iter() as iterator, 1),), 0), divisor):
            largest = _largest(iterator, site)
            return None if largest is None else largest // divisor
        case Mod(_, divisor):
            return divisor - 1
    return None


def conflicts(
    sets: KernelSets,
    numbers: Iterable[int],
    commute: Callable[[int, int], bool],
    ignored: frozenset[str] = frozenset(),
) -> Iterator[tuple[int, Access, int, Access]]:
    """The pairs of accesses of some statements, by number, that may not change places where they touch one element:
    one of them writes, and they are not two accumulations that `commute`. Buffers in `ignored` are left out."""
    kernel = sets.kernel
    for k, other in combinations_with_replacement(numbers, 2):
        charge(STEPS)
        target, its = kernel.sites[k].statement.target, kernel.sites[other].statement.target
        if target.buffer == its.buffer and target.buffer not in ignored and not commute(k, other):
            yield k, target, other, its
        for read in sets.reads[other]:
            if read.access.buffer == target.buffer and target.buffer not in ignored:
                yield k, target, other, read.access
        if k != other:
            for read in sets.reads[k]:
                if read.access.buffer == its.buffer and its.buffer not in ignored:
                    yield k, read.access, other, its
