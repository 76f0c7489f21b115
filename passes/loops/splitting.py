"""A scope strip-mined, and back: an outer scope over blocks of iterations, an inner one over each block."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dojoir.backends.machine import Machine
from dojoir.ir.affine import Affine, FloorDiv, Iter
from dojoir.ir.format import format_extent
from dojoir.ir.nodes import Condition, Extent, Kernel, Scope, divided_in, substitute
from dojoir.passes.base.about import AboutScope, Arguments, Here
from dojoir.passes.base.alternatives import inner_scope
from dojoir.passes.base.indices import deeper, map_indices, merged, without_divisions
from dojoir.passes.base.move import Formula, Move, Refusal, Rewrite, Undoing, fresh_label, reversible
from dojoir.passes.base.reach import Reach
from dojoir.sets.kernel_sets import sets_of
from dojoir.support.frozen import dataclass

OUTER_MARKS = frozenset({"p", "gx", "gy", "gz"})
"""The marks that stay on the outer scope of a split; the others go to the inner one."""

SPLIT_FACTORS = (2, 4, 8, 16, 32, 64, 128, 256, 1024, 4096)
"""The factors that are listed for a scope of open extent."""

ZERO = Affine.constant(0)


@dataclass(frozen=True)
class Split(AboutScope, name="split", reach=Reach.NODE | Reach.PANE):
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

    factor: int

    def rewritten(self, at: Here[Scope]) -> Rewrite:
        return split_reversibly(self, at, [at.node], lambda decide: split(at, self.factor, decide))

    def back(self, at: Here[Scope]) -> Move:
        return Unsplit(at.place, Formula(format_extent(at.node.extent)))

    @classmethod
    def listed(cls, at: Here[Scope]) -> Arguments:
        """Powers of two, and of a small extent the divisors."""
        most = at.node.constant_bound
        if most is None:
            return ((factor,) for factor in SPLIT_FACTORS)
        divisors = [d for d in range(2, min(most, 65)) if most % d == 0]
        return ((factor,) for factor in sorted({*divisors, *(f for f in SPLIT_FACTORS if f < most)}))

    @classmethod
    def numbered(cls, at: Here[Scope], numbers: Sequence[int]) -> Arguments:
        most = at.node.constant_bound
        return ((n,) for n in numbers if n >= 1 and (most is None or n < most))

    @classmethod
    def more(cls, at: Here[Scope], machine: Machine) -> Arguments:
        """By all of its extent: the threads of a GPU that go over one row of a tile."""
        whole = at.node.constant_bound
        return [(whole,)] if machine.kind == "gpu" and whole else []


@dataclass(frozen=True)
class Unsplit(Undoing, AboutScope, name="unsplit", reach=Reach.PANE):
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

    extent: Formula

    def undone(self, kernel: Kernel) -> tuple[Kernel, Move]:
        at = self.found(kernel)
        return unsplit(at, self.extent.extent(kernel, at.depth))

    @classmethod
    def listed(cls, at: Here[Scope]) -> Arguments:
        inner = inner_scope(at.node)
        extent = None if inner is None else original_extent(at.kernel, at.node, inner, at.depth)
        return [] if extent is None else [(Formula(format_extent(extent)),)]


def split_reversibly(
    move: Move, at: Here[Scope], nest: Sequence[Scope], attempt: Callable[[bool], Rewrite]
) -> Rewrite:
    """The effect of a move by `split` on the scopes of a nest, the first of which is `at`. Divisions that
    the extents decide are left out, unless the inverse could not find them again. Raises Refusal where it would
    not find the text either way."""
    if comes_back(nest, at.depth):
        return attempt(False)
    try:
        return reversible(move, at.kernel, attempt(True))
    except Refusal:
        return reversible(move, at.kernel, attempt(False))


def comes_back(nest: Sequence[Scope], depth: int) -> bool:
    """Whether it is seen of some scopes, each the only child of the one before, that the inverse of a split of them
    finds their text. Where no iterator of theirs is divided, c*(f*{o} + {r}) with r = i - f*o is c*{i} to the
    letter, and one mark goes to one of the two scopes."""
    own = range(depth, depth + len(nest))
    return divided_in(nest[0].body).isdisjoint(own) and all(len(scope.marks) < 2 for scope in nest)


def split(at: Here[Scope], factor: int, decide: bool) -> Rewrite:
    """The scope in two. `decide` leaves out the divisions that the inner extent decides."""
    kernel, scope, depth = at.kernel, at.node, at.depth
    if factor < 1:
        raise at.refusal("bad-factor", f"the factor must be at least 1, not {factor}")
    at.unhinted()
    bounds = [(bound, divides(kernel, bound, factor)) for bound in scope.extent.bounds]
    outer = Extent(tuple(bound // factor if is_full else blocks(bound, factor) for bound, is_full in bounds))
    rest = [bound - at.own * factor for bound, is_full in bounds if not is_full]
    new = deeper(depth, {depth: at.own * factor + Affine.iterator(depth + 1)})
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
    return at.renamed(new, Scope(outer, (inner,), marks, scope.label))


def divides(kernel: Kernel, bound: Affine, factor: int) -> bool:
    """Whether a bound is a multiple of the factor, by its form or by the facts of the kernel."""
    rest = bound % factor
    return rest == ZERO or (not rest.iterators and sets_of(kernel).always(Condition(rest, "==", ZERO)))


def unsplit(at: Here[Scope], extent: Extent) -> tuple[Kernel, Move]:
    """The kernel with one scope of that extent in place of a strip-mined one, and the split that leads back."""
    child = at.only_child
    at.unhinted(child)
    first = child.extent.bounds[0]
    if not first.is_constant or first.offset < 1:
        raise at.refusal("not-strip-mined", "the inner extent must be a constant, or a min that begins with one")
    body = merged(child.body, at.depth, first.offset, quotient=0)
    whole = Scope(extent, body, at.node.marks + child.marks, at.node.label)
    return at.replaced(whole), Split(at.place, first.offset)


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
