"""`split_cyclic` and `unsplit_cyclic`: the iterations of a scope dealt out by their rest in a division.

`split` gives the iterations of a block to one iteration of the outer scope; this gives it those that leave the same
rest. What a condition or an index asks of an iterator modulo a number is then a constant in each residue.

Source: the block and cyclic distributions of High Performance Fortran (1993); as a transformation of nests, M.
Wolfe, "High Performance Compilers for Parallel Computing" (1996), chapter 9.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from dojoir.ir.affine import Affine, FloorDiv, Iter, Mod
from dojoir.ir.format import format_extent
from dojoir.ir.nodes import Extent, Guard, Kernel, Node, Path, Scope, Statement, accesses_in, substitute
from dojoir.passes.base.about import AboutScope, Arguments, Here
from dojoir.passes.base.alternatives import inner_scope
from dojoir.passes.base.indices import deeper, merged
from dojoir.passes.base.move import Formula, Move, Rewrite, Undoing, fresh_label, reversible
from dojoir.passes.base.reach import Reach
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class SplitCyclic(AboutScope, name="split_cyclic", reach=Reach.NODE | Reach.PANE):
    """Splits a scope by the rest that its iterator leaves: an outer scope over the `factor` residues, an inner one
    over the iterations of each, in rising order.

    Marks must be taken off first. The label `j` stays on the inner scope, the outer one gets `j_of`. Listed are the
    numbers that an index or a condition divides the iterator by. After it `peel` and `remove_scope` write each
    residue out as a nest of its own, in which that division is decided. The inverse is `unsplit_cyclic`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... N @j
    ... | y[{0}] = 2 * x[{0}]
    ... ''')
    >>> print(dojoir.apply(k, "split_cyclic(@j, 4)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    <BLANKLINE>
    4 @j_of
    | (N - {j_of} + 3) // 4 @j
    | | y[{j_of} + 4*{j}] = 2 * x[{j_of} + 4*{j}]
    <BLANKLINE>
    """

    factor: int

    def rewritten(self, at: Here[Scope]) -> Rewrite:
        factor = self.factor
        if factor < 1:
            raise at.refusal("bad-factor", f"the factor must be at least 1, not {factor}")
        at.unmarked(self.scope)
        at.unhinted()
        scope, rest = at.node, at.own
        new = deeper(at.depth, {at.depth: Affine.iterator(at.depth + 1) * factor + rest})
        inner = Scope(
            Extent(tuple(chain.from_iterable(_share(bound, rest, factor) for bound in scope.extent.bounds))),
            tuple(substitute(child, new) for child in scope.body),
            label=scope.label,
        )
        label = fresh_label(at.kernel, f"{scope.label}_of") if scope.label else None
        outer = Scope(Extent((Affine.constant(factor),)), (inner,), label=label)
        return reversible(self, at.kernel, at.renamed(new, outer))

    def back(self, at: Here[Scope]) -> Move:
        return UnsplitCyclic(at.place, Formula(format_extent(at.node.extent)))

    @classmethod
    def listed(cls, at: Here[Scope]) -> Arguments:
        plain = not at.node.marks and not at.node.hints
        return ((n,) for n in divisors_of(at.kernel, at.path)) if plain else ()

    @classmethod
    def numbered(cls, at: Here[Scope], numbers: Sequence[int]) -> Arguments:
        most = at.node.constant_bound
        return ((n,) for n in numbers if n > 1 and (most is None or n <= most))


@dataclass(frozen=True)
class UnsplitCyclic(Undoing, AboutScope, name="unsplit_cyclic", reach=Reach.PANE):
    """Makes one scope of `extent` again of one over residues and its only child. The inverse of `split_cyclic`; the
    label of the inner scope stays.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... 4
    ... | (N - {0} + 3) // 4 @j
    ... | | y[{0} + 4*{1}] = 2 * x[{0} + 4*{1}]
    ... ''')
    >>> print(dojoir.apply(k, "unsplit_cyclic(0, N)"))
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
        child, factor = at.only_child, at.node.extent.constant
        if factor is None or factor < 1:
            raise at.refusal("not-cyclic", "the outer extent must be a constant: the number of residues")
        at.unhinted(child)
        body = merged(child.body, at.depth, factor, quotient=1)
        whole = Scope(self.extent.extent(kernel, at.depth), body, label=child.label)
        return at.replaced(whole), SplitCyclic(at.place, factor)

    @classmethod
    def listed(cls, at: Here[Scope]) -> Arguments:
        extent = _extent_before(at.node, at.depth)
        return [] if extent is None else [(Formula(format_extent(extent)),)]


def _share(bound: Affine, rest: Affine, factor: int) -> Iterator[Affine]:
    """How many iterations of those below a bound leave a rest; of a constant first how many at most."""
    if bound.is_constant:
        yield (bound + (factor - 1)) // factor
    yield (bound - rest + (factor - 1)) // factor


def _extent_before(scope: Scope, depth: int) -> Extent | None:
    """The extent that was split into residues, if a scope at `depth` and its only child look like that."""
    factor, inner = scope.extent.constant, inner_scope(scope)
    if factor is None or factor < 1 or inner is None:
        return None
    found: list[Affine] = []
    for bound in inner.extent.bounds:
        if bound.is_constant:
            continue
        atoms = [
            atom for atom, _ in bound.terms if isinstance(atom, FloorDiv) and depth in atom.numerator.iterators
        ]
        if len(atoms) != 1 or atoms[0].divisor != factor or bound.coefficient(atoms[0]) != 1:
            return None
        before = atoms[0].numerator + (bound - Affine.atom(atoms[0])) * factor
        before = before + Affine.iterator(depth) - (factor - 1)
        if depth in before.iterators:
            return None
        found.append(before)
    return Extent(tuple(found)) if found else None


def divisors_of(kernel: Kernel, path: Path) -> list[int]:
    """The numbers that what is in a scope divides a sum by in which its iterator stands, in rising order."""
    node = kernel.at(path)
    assert isinstance(node, Scope)
    return sorted(set().union(*(_divisors(affine, kernel.depth_of(path)) for affine in _affines(node.body))))


def _divisors(affine: Affine, depth: int) -> set[int]:
    found: set[int] = set()
    for atom, _ in affine.terms:
        if isinstance(atom, FloorDiv | Mod) and depth in atom.numerator.iterators:
            found |= {atom.divisor} if atom.numerator.coefficient(Iter(depth)) else set()
            found |= _divisors(atom.numerator, depth)
    return found


def _affines(nodes: tuple[Node, ...]) -> Iterator[Affine]:
    """The conditions and indices of some nodes and what is in them."""
    for node in nodes:
        match node:
            case Statement():
                for access in accesses_in((node,)):
                    yield from (index for index in access.indices if isinstance(index, Affine))
            case Guard(conditions, body):
                yield from (side for condition in conditions for side in (condition.left, condition.right))
                yield from _affines(body)
            case Scope(_, body):
                yield from _affines(body)
