"""A scope strip-mined, and back: an outer scope over blocks of iterations, an inner one over each block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

from dojoir.backends.machine import Machine
from dojoir.ir.affine import Affine, FloorDiv, Iter, Mod, SizeVar
from dojoir.ir.nodes import Condition, Extent, Kernel, Path, Replace, Scope, divided_in, format_path, substitute
from dojoir.ir.text import format_extent
from dojoir.passes.base.indices import map_indices, without_divisions
from dojoir.passes.base.move import (
    Formula,
    Move,
    Place,
    Refusal,
    Rewrite,
    Undoing,
    fresh_label,
    only_child,
    place_of,
    renamed_inside,
    reversible,
    scope_at,
    scope_or_none,
    scopes,
    unhinted,
)
from dojoir.passes.base.reach import Reach
from dojoir.sets.kernel_sets import sets_of
from dojoir.support.frozen import dataclass

OUTER_MARKS = frozenset({"p", "gx", "gy", "gz"})
"""The marks that stay on the outer scope of a split; the others go to the inner one."""

SPLIT_FACTORS = (2, 4, 8, 16, 32, 64, 128, 256, 1024, 4096)
"""The factors that are listed for a scope of open extent."""

ZERO = Affine.constant(0)


@dataclass(frozen=True)
class Split(Move):
    """Strip-mines a scope: an outer scope over blocks of `factor` iterations, an inner one over each block.

    Where a bound of the extent is not known to be a multiple of the factor, the inner extent is a `min` that makes
    the last block end there. The label `j` stays on the outer scope, the inner one gets `j_in`. A mark `p` stays
    outside, `v` and `u` go to the inner scope. Divisions that the inner extent decides are left out: {0} % 16
    becomes {1}. The inverse is `unsplit`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... N @j
    ... | y[{0}] = 2 * x[{0}]
    ... ''')
    >>> print(dojoir.apply(k, "split(@j, 16)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    <BLANKLINE>
    (N + 15) // 16 @j
    | min(16, N - 16*{j}) @j_in
    | | y[16*{j} + {j_in}] = 2 * x[16*{j} + {j_in}]
    <BLANKLINE>
    """

    name: ClassVar[str] = "split"
    reach: ClassVar[Reach] = Reach.NODE | Reach.PANE
    scope: Place
    factor: int

    def rewrite(self, kernel: Kernel) -> Rewrite:
        path, scope = scope_at(kernel, self.scope)
        depth = kernel.depth_of(path)
        return split_reversibly(
            self, kernel, depth, (scope,), lambda decide: split(kernel, path, scope, self.factor, decide)
        )

    def inverse(self, before: Kernel) -> Move:
        path, scope = scope_at(before, self.scope)
        return Unsplit(place_of(path), Formula(format_extent(scope.extent)))

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for path, scope in scopes(kernel):
            for factor in _factors(scope.constant_bound):
                yield cls(Place(format_path(path)), factor)

    @classmethod
    def with_numbers(cls, kernel: Kernel, place: Path | str, numbers: Sequence[int]) -> Iterator[Move]:
        scope = scope_or_none(kernel, place)
        if scope is not None and not isinstance(place, str):
            most = scope.constant_bound
            yield from (cls(place_of(place), n) for n in numbers if n >= 1 and (most is None or n < most))

    @classmethod
    def _further(cls, kernel: Kernel, place: Path | str, machine: Machine) -> Iterator[Move]:
        """By all of its extent: the threads of a GPU that go over one row of a tile."""
        scope = scope_or_none(kernel, place)
        if machine.kind == "gpu" and scope is not None and not isinstance(place, str) and scope.constant_bound:
            yield cls(place_of(place), scope.constant_bound)


@dataclass(frozen=True)
class Unsplit(Undoing):
    """Makes one scope of `extent` again of a strip-mined one and its only child. The inverse of `split`.

    Legal where `split` of the result, by the constant extent of the child, gives this text. The label of the outer
    scope stays. A nest that is not strip-mined is for `collapse`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... (N + 15) // 16 @j
    ... | min(16, N - 16*{0}) @j_in
    ... | | y[16*{0} + {1}] = 2 * x[16*{0} + {1}]
    ... ''')
    >>> print(dojoir.apply(k, "unsplit(@j, N)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    <BLANKLINE>
    N @j
    | y[{j}] = 2 * x[{j}]
    <BLANKLINE>
    """

    name: ClassVar[str] = "unsplit"
    reach: ClassVar[Reach] = Reach.PANE
    scope: Place
    extent: Formula

    def undone(self, kernel: Kernel) -> tuple[Kernel, Move]:
        path, scope = scope_at(kernel, self.scope)
        return unsplit(kernel, path, scope, self.extent.extent(kernel, kernel.depth_of(path)))

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for path, scope in scopes(kernel):
            if len(scope.body) != 1 or not isinstance(scope.body[0], Scope):
                continue
            extent = original_extent(kernel, scope, scope.body[0], kernel.depth_of(path))
            if extent is not None:
                yield cls(place_of(path), Formula(format_extent(extent)))


def split_reversibly(
    move: Move, kernel: Kernel, depth: int, nest: Sequence[Scope], attempt: Callable[[bool], Rewrite]
) -> Rewrite:
    """The effect of a move by `split` on the scopes of a nest, the first of which is at `depth`. Divisions that
    the extents decide are left out, unless the inverse could not find them again. Raises Refusal where it would
    not find the text either way."""
    if comes_back(nest, depth):
        return attempt(False)
    try:
        return reversible(move, kernel, attempt(True))
    except Refusal:
        return reversible(move, kernel, attempt(False))


def comes_back(nest: Sequence[Scope], depth: int) -> bool:
    """Whether it is seen of some scopes, each the only child of the one before, that the inverse of a split of them
    finds their text. Where no iterator of theirs is divided, c*(f*{o} + {r}) with r = i - f*o is c*{i} to the
    letter, and one mark goes to one of the two scopes."""
    own = range(depth, depth + len(nest))
    return divided_in(nest[0].body).isdisjoint(own) and all(len(scope.marks) < 2 for scope in nest)


def split(kernel: Kernel, path: Path, scope: Scope, factor: int, decide: bool) -> Rewrite:
    """The scope in two. `decide` leaves out the divisions that the inner extent decides."""
    if factor < 1:
        raise Refusal("bad-factor", f"the factor must be at least 1, not {factor}", path)
    unhinted(path, scope)
    depth = kernel.depth_of(path)
    block = Affine.iterator(depth)
    bounds = scope.extent.bounds
    full = [divides(kernel, bound, factor) for bound in bounds]
    outer = Extent(
        tuple(b // factor if is_full else blocks(b, factor) for b, is_full in zip(bounds, full, strict=True))
    )
    rest = [b - block * factor for b, is_full in zip(bounds, full, strict=True) if not is_full]
    new = deeper(depth, {depth: block * factor + Affine.iterator(depth + 1)})
    body = tuple(substitute(child, new) for child in scope.body)
    if decide:
        body = tuple(map_indices(n, lambda a: without_divisions(a, Iter(depth + 1), factor)) for n in body)
    inner = Scope(
        Extent((Affine.constant(factor), *rest)),
        body,
        tuple(mark for mark in scope.marks if mark not in OUTER_MARKS),
        fresh_label(kernel, f"{scope.label}_in") if scope.label else None,
    )
    marks = tuple(mark for mark in scope.marks if mark in OUTER_MARKS)
    after = kernel.replace_node(path, Scope(outer, (inner,), marks, scope.label))
    return Rewrite(after, renamed_inside(kernel, path, new))


def divides(kernel: Kernel, bound: Affine, factor: int) -> bool:
    """Whether a bound is a multiple of the factor, by its form or by the facts of the kernel."""
    rest = bound % factor
    return rest == ZERO or (not rest.iterators and sets_of(kernel).always(Condition(rest, "==", ZERO)))


def unsplit(kernel: Kernel, path: Path, scope: Scope, extent: Extent) -> tuple[Kernel, Move]:
    """The kernel with one scope of that extent in place of a strip-mined one, and the split that leads back."""
    child = only_child(path, scope)
    unhinted(path, scope, child)
    first = child.extent.bounds[0]
    if not first.is_constant or first.offset < 1:
        raise Refusal("not-strip-mined", "the inner extent must be a constant, or a min that begins with one", path)
    depth, factor = kernel.depth_of(path), first.offset
    own, block = Affine.iterator(depth), Affine.atom(SizeVar(""))
    # What was {i} is now block*factor + inner. With inner = {i} - block*factor the block goes out of the sums.
    inner = shallower(depth, {depth: block, depth + 1: own - block * factor})
    rest = substitute_sizes({"": own // factor})

    # Where it does not, and nothing else of {i} is left, it was a remainder.
    def settled(affine: Affine) -> Affine:
        return remainders(affine, Iter(depth), block, factor).substitute(rest)

    body = tuple(map_indices(substitute(node, inner), settled) for node in child.body)
    merged = Scope(extent, body, scope.marks + child.marks, scope.label)
    return kernel.replace_node(path, merged), Split(place_of(path), factor)


def original_extent(kernel: Kernel, outer: Scope, inner: Scope, depth: int) -> Extent | None:
    """The extent that was split into those of two scopes, the outer one at `depth`, if it looks like that."""
    first, *rest = inner.extent.bounds
    if not first.is_constant or first.offset < 1:
        return None
    found = (bound + Affine.iterator(depth) * first.offset for bound in rest)
    ends = {blocks(end, first.offset): end for end in found}
    if any(depth in end.iterators for end in ends.values()):
        return None
    return Extent(tuple(ends.get(b) or whole(kernel, b * first.offset) for b in outer.extent.bounds))


def blocks(bound: Affine, factor: int) -> Affine:
    """How many blocks of `factor` iterations there are, the last one not always full."""
    return (bound + (factor - 1)) // factor


def whole(kernel: Kernel, affine: Affine) -> Affine:
    """The expression without the divisions that leave no rest: 8*(N // 8) is N where N is a multiple of 8."""
    result = affine
    for atom, coefficient in affine.terms:
        match atom:
            case FloorDiv(numerator, divisor) if coefficient % divisor == 0 and not numerator.iterators:
                if sets_of(kernel).always(Condition(numerator % divisor, "==", ZERO)):
                    result = result - Affine.atom(atom) * coefficient + numerator * (coefficient // divisor)
    return result


def remainders(affine: Affine, atom: Iter, block: Affine, factor: int) -> Affine:
    """The value with c*(atom % factor) in place of c*atom - c*factor*block."""
    result = Affine.constant(affine.offset)
    for term, coefficient in affine.terms:
        match term:
            case FloorDiv(numerator, divisor):
                value = remainders(numerator, atom, block, factor) // divisor
            case Mod(numerator, divisor):
                value = remainders(numerator, atom, block, factor) % divisor
            case _:
                value = Affine.atom(term)
        result = result + value * coefficient
    own = result.coefficient(atom)
    if own and result.coefficient(block.terms[0][0]) == -own * factor:
        rest = Affine.atom(atom) - block * factor
        return result - rest * own + Affine.atom(atom) % factor * own
    return result


def shallower(depth: int, changed: dict[int, Affine]) -> Replace:
    """The iterators after the scope inside the one at `depth` is removed: those in `changed` as it says, and the
    others below `depth` one less deep."""

    def new(atom: SizeVar | Iter) -> Affine:
        match atom:
            case Iter(d) if d in changed:
                return changed[d]
            case Iter(d) if d > depth:
                return Affine.iterator(d - 1)
        return Affine.atom(atom)

    return new


def deeper(depth: int, changed: dict[int, Affine]) -> Replace:
    """The iterators after a scope is added inside the one at `depth`: those in `changed` as it says, and the
    others below `depth` one deeper."""

    def new(atom: SizeVar | Iter) -> Affine:
        match atom:
            case Iter(d) if d in changed:
                return changed[d]
            case Iter(d) if d > depth:
                return Affine.iterator(d + 1)
        return Affine.atom(atom)

    return new


def substitute_sizes(mapping: dict[str, Affine]) -> Replace:
    """A `Replace` that changes some sizes and leaves the rest."""
    return lambda atom: (
        mapping.get(atom.name, Affine.atom(atom)) if isinstance(atom, SizeVar) else Affine.atom(atom)
    )


def _factors(most: int | None) -> list[int]:
    """The factors listed for a scope that runs at most so often: powers of two, and divisors of that if small."""
    if most is None:
        return list(SPLIT_FACTORS)
    divisors = [d for d in range(2, min(most, 65)) if most % d == 0]
    return sorted({*divisors, *(f for f in SPLIT_FACTORS if f < most)})


MOVES = (Split, Unsplit)
