"""`split_cyclic` and `unsplit_cyclic`: the iterations of a scope dealt out by their rest in a division.

`split` gives the iterations of a block to one iteration of the outer scope; this gives it those that leave the same
rest. What a condition or an index asks of an iterator modulo a number is then a constant in each residue.

Source: the block and cyclic distributions of High Performance Fortran (1993); as a transformation of nests, M.
Wolfe, "High Performance Compilers for Parallel Computing" (1996), chapter 9.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import ClassVar

from dojoir.ir.affine import Affine, FloorDiv, Iter, Mod, SizeVar
from dojoir.ir.nodes import Extent, Guard, Kernel, Node, Path, Scope, Statement, accesses_in, substitute
from dojoir.ir.text import format_extent
from dojoir.passes.base.indices import map_indices
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
from dojoir.passes.loops.splitting import deeper, remainders, shallower, substitute_sizes
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class SplitCyclic(Move):
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

    name: ClassVar[str] = "split_cyclic"
    reach: ClassVar[Reach] = Reach.NODE | Reach.PANE
    scope: Place
    factor: int

    def rewrite(self, kernel: Kernel) -> Rewrite:
        path, scope = scope_at(kernel, self.scope)
        if self.factor < 1:
            raise Refusal("bad-factor", f"the factor must be at least 1, not {self.factor}", path)
        if scope.marks:
            raise Refusal(
                "marked", f"it is marked `{scope.marks[-1]}`", path, f"unmark({self.scope}, {scope.marks[-1]})"
            )
        unhinted(path, scope)
        depth = kernel.depth_of(path)
        rest = Affine.iterator(depth)
        new = deeper(depth, {depth: Affine.iterator(depth + 1) * self.factor + rest})
        inner = Scope(
            Extent(tuple(chain.from_iterable(_share(bound, rest, self.factor) for bound in scope.extent.bounds))),
            tuple(substitute(child, new) for child in scope.body),
            label=scope.label,
        )
        label = fresh_label(kernel, f"{scope.label}_of") if scope.label else None
        outer = Scope(Extent((Affine.constant(self.factor),)), (inner,), label=label)
        return reversible(
            self, kernel, Rewrite(kernel.replace_node(path, outer), renamed_inside(kernel, path, new))
        )

    def inverse(self, before: Kernel) -> Move:
        path, scope = scope_at(before, self.scope)
        return UnsplitCyclic(place_of(path), Formula(format_extent(scope.extent)))

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for path, scope in scopes(kernel):
            if not scope.marks and not scope.hints:
                yield from (cls(place_of(path), n) for n in divisors_of(kernel, path))

    @classmethod
    def with_numbers(cls, kernel: Kernel, place: Path | str, numbers: Sequence[int]) -> Iterator[Move]:
        scope = scope_or_none(kernel, place)
        if scope is not None and not isinstance(place, str):
            most = scope.constant_bound
            yield from (cls(place_of(place), n) for n in numbers if n > 1 and (most is None or n <= most))


@dataclass(frozen=True)
class UnsplitCyclic(Undoing):
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

    name: ClassVar[str] = "unsplit_cyclic"
    reach: ClassVar[Reach] = Reach.PANE
    scope: Place
    extent: Formula

    def undone(self, kernel: Kernel) -> tuple[Kernel, Move]:
        path, scope = scope_at(kernel, self.scope)
        child = only_child(path, scope)
        factor = scope.extent.constant
        if factor is None or factor < 1:
            raise Refusal("not-cyclic", "the outer extent must be a constant: the number of residues", path)
        unhinted(path, scope, child)
        depth = kernel.depth_of(path)
        own, turn = Affine.iterator(depth), SizeVar("")
        # What was {i} is now factor*turn + rest. With rest = {i} - factor*turn the turn goes out of the sums.
        new = shallower(depth, {depth: own - Affine.atom(turn) * factor, depth + 1: Affine.atom(turn)})
        left = substitute_sizes({"": own // factor})

        # Where it does not, and nothing else of {i} is left, it was a remainder.
        def settled(affine: Affine) -> Affine:
            return remainders(affine, Iter(depth), Affine.atom(turn), factor).substitute(left)

        body = tuple(map_indices(substitute(node, new), settled) for node in child.body)
        whole = Scope(self.extent.extent(kernel, depth), body, label=child.label)
        return kernel.replace_node(path, whole), SplitCyclic(place_of(path), factor)

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for path, scope in scopes(kernel):
            extent = _extent_before(scope, kernel.depth_of(path))
            if extent is not None:
                yield cls(place_of(path), Formula(format_extent(extent)))


def _share(bound: Affine, rest: Affine, factor: int) -> Iterator[Affine]:
    """How many iterations of those below a bound leave a rest; of a constant first how many at most."""
    if bound.is_constant:
        yield (bound + (factor - 1)) // factor
    yield (bound - rest + (factor - 1)) // factor


def _extent_before(scope: Scope, depth: int) -> Extent | None:
    """The extent that was split into residues, if a scope at `depth` and its only child look like that."""
    factor = scope.extent.constant
    if factor is None or factor < 1 or len(scope.body) != 1 or not isinstance(scope.body[0], Scope):
        return None
    found: list[Affine] = []
    for bound in scope.body[0].extent.bounds:
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
    depth = kernel.depth_of(path)
    node = kernel.at(path)
    assert isinstance(node, Scope)
    found: set[int] = set()
    for affine in _affines(node.body):
        found |= _divisors(affine, depth)
    return sorted(found)


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


MOVES = (SplitCyclic, UnsplitCyclic)
