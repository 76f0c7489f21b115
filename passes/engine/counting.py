"""The cache key for moves that only count the iterations of a scope in another way: it has little of the scope's
body.

A list of moves asks the same question of every scope of one extent, and again after each move. Here the answer is
that about the range.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from dojoir.errors import ArgumentError
from dojoir.grammar.writable import height, nesting
from dojoir.ir.affine import Affine
from dojoir.ir.expressions import DEEPEST_EXPRESSION, Index, parts
from dojoir.ir.instruction import Use
from dojoir.ir.nodes import (
    DEEPEST,
    Condition,
    Extent,
    Guard,
    Kernel,
    Node,
    Path,
    Scope,
    Size,
    Statement,
    divided_in,
)
from dojoir.ir.places import ancestors
from dojoir.passes.base.move import Formula, Move, Refusal
from dojoir.passes.loops.cutting import Cut
from dojoir.passes.loops.peeling import Peel
from dojoir.passes.loops.shifting import Shift
from dojoir.passes.loops.splitting import OUTER_MARKS, Split, divides
from dojoir.support.derived import once_for_each
from dojoir.support.frozen import dataclass, hash_once

ROOM = 2**31
"""Numbers below it, added up or multiplied by one another, are none that the language cannot write."""


@hash_once
@dataclass(frozen=True)
class Range:
    """The range of a scope: the sizes, facts and fp mode of its kernel, the extents and conditions around it, and
    its own extent. `valued`: whether the iterator is inside other than as an index; `promised`: whether it or a
    scope inside has marks; `marked`: whether any of these or one around has marks or hints."""

    header: tuple[tuple[Size, ...], tuple[Condition, ...], str]
    around: tuple[Extent | tuple[Condition, ...], ...]
    extent: Extent
    valued: bool
    promised: bool
    marked: bool


Counting = tuple[str, tuple[Hashable, ...], Range]
"""A move that counts otherwise: its name, what it says of the range of its scope, and that."""


def counted(kernel: Kernel, move: Move) -> Counting | None:
    """The question that a move shares with all of its kind that only count the iterations of one range in another
    way. By blocks (`split`), in two ranges (`cut`), the first by itself (`peel`), or later (`shift`). None for
    another move, and where what the scope runs may tell.

    Such a move puts another value for the iterator of its scope into what that runs, and changes nothing there. If
    the new scopes enumerate the range from below, the same instances run in the same order, whatever they are
    (`dojoir.proof.patterns.same_order`). And whether they do is said by what is around, the extent, and where it is
    parted. So an answer that was found in this way (`Kept.ORDER`) is one for every other scope of the range.
    That a value put in for an iterator leaves the text as it would be written holds where no division has the
    iterator, and where numbers and nesting have room.

    Marks stay right: each iteration of a scope around runs what it ran. What a marked scope is made of runs some of
    what that ran, so that no two iterations meet that did not. But a temporary of its own would be used outside of
    it where a range is in two parts, which is then left to the checker. The range is parted alike for all that is
    around, at no iterator. Marks that ask for an extent (`u`, and those of threads) stand on no scope that is
    counted. A prefetch fits as it did: what is accessed is another element in each iteration as before.

    This lists such a move without making it; when it is made, it is proved.
    """
    if not isinstance(move, Split | Cut | Peel | Shift):
        return None
    try:
        path = kernel.path(move.scope)
    except ArgumentError:
        return None
    table = _ranges(kernel)
    if path not in table:
        table[path] = _range(kernel, path)
    here = table[path]
    if here is None:
        return None
    bounds, scope = here.extent.bounds, kernel.at(path)
    assert isinstance(scope, Scope)
    match move:
        case Split(factor=factor) if 1 <= factor < ROOM and not scope.hints:
            return move.name, tuple(_divides(kernel, bound, factor) for bound in bounds), here
        case Cut() if not here.promised and (at := _parted(kernel, path, here, move.at)) is not None:
            return move.name, ("whole blocks" if _are_whole_blocks(at, bounds) else at,), here
        case Shift() if not _is_guarded(scope) and (by := _parted(kernel, path, here, move.by)) is not None:
            return move.name, (by,), here
        case Peel() if not (here.promised or here.valued):
            return move.name, (), here
    return None


@once_for_each
def _ranges(kernel: Kernel) -> dict[Path, Range | None]:
    """The ranges of the scopes of a kernel that were asked for, by path."""
    return {}


def _divides(kernel: Kernel, bound: Affine, factor: int) -> bool:
    """As `divides`, found once for all scopes of a kernel that have the bound."""
    table, asked = _multiples(kernel), (bound, factor)
    if asked not in table:
        table[asked] = divides(kernel, bound, factor)
    return table[asked]


@once_for_each
def _multiples(kernel: Kernel) -> dict[tuple[Affine, int], bool]:
    """The bounds and factors of a kernel that were asked for: whether the one is a multiple of the other."""
    return {}


def _range(kernel: Kernel, path: Path) -> Range | None:
    """The range of the scope at a path, or None where what it runs may tell (`counted`)."""
    scope, outer, depth = kernel.at(path), ancestors(kernel, path), kernel.depth_of(path)
    if not isinstance(scope, Scope) or len(path) > DEEPEST // 4 or not _has_room(scope):
        return None
    scopes = [node for node in outer if isinstance(node, Scope)]
    if depth in divided_in(scope.body) or not OUTER_MARKS.union("v").issuperset(scope.marks):
        return None
    said = _said(scope)
    if "use" in said or any(isinstance(hint, Use) for node in scopes for hint in node.hints):
        return None
    around = tuple(node.conditions if isinstance(node, Guard) else node.extent for node in outer)
    marked = scope.marked or any(node.marks or node.hints for node in scopes)
    header = kernel.sizes, kernel.facts, kernel.fp
    return Range(header, around, scope.extent, depth in _valued(scope), "mark" in said, marked)


@once_for_each
def _has_room(node: Node) -> bool:
    """Whether numbers in a node are small and nothing nests deep: counting otherwise can be written."""
    if isinstance(node, Statement):
        small = all(affine.magnitude < ROOM and len(affine.terms) < 16 for affine in node.affine_parts)
        return small and max(nesting(node.value), nesting(node.target)) < DEEPEST_EXPRESSION // 4
    small = all(side.magnitude < ROOM for side in _sides(node))
    return small and height(node) < DEEPEST // 4 and all(map(_has_room, node.body))


@once_for_each
def _said(node: Node) -> frozenset[str]:
    """The marks and hints of the scopes in a node, itself counted: a `mark`, or a hint to `use` an instruction."""
    if isinstance(node, Statement):
        return frozenset()
    mine = {"mark"} if isinstance(node, Scope) and node.marks else set()
    mine |= {"use"} if isinstance(node, Scope) and any(isinstance(hint, Use) for hint in node.hints) else set()
    return frozenset(mine).union(*map(_said, node.body))


@once_for_each
def _valued(node: Node) -> frozenset[int]:
    """The depths of the iterators that are in a node other than as indices."""
    if isinstance(node, Statement):
        values = [part.affine for part in parts(node.value) if isinstance(part, Index)]
        return frozenset(d for affine in values for d in affine.iterators)
    mine = frozenset(d for side in _sides(node) for d in side.iterators)
    return mine.union(*map(_valued, node.body))


def _sides(node: Scope | Guard) -> Sequence[Affine]:
    """The operands of the minimum in an extent, or of the comparisons in conditions."""
    return (
        node.extent.bounds if isinstance(node, Scope) else [s for c in node.conditions for s in (c.left, c.right)]
    )


def _are_whole_blocks(at: Affine, bounds: Sequence[Affine]) -> bool:
    """Whether a range is parted behind its last whole block, of how many iterations ever: f * (E // f)."""
    factor = at.terms[0][1] if len(at.terms) == 1 else 0
    return factor > 1 and len(bounds) == 1 and bounds[0] // factor * factor == at


def _is_guarded(scope: Scope) -> bool:
    """Whether what a scope runs begins with a guard, which a shift may take away."""
    return isinstance(scope.body[0], Guard)


def _parted(kernel: Kernel, path: Path, here: Range, formula: Formula) -> Affine | None:
    """The value of a formula for a range around the node at a path, or None where it may not part all alike."""
    try:
        found = formula.affine(kernel, kernel.depth_of(path))
    except Refusal:
        return None
    fits = found.magnitude < ROOM and len(found.terms) < 16
    return found if fits and not (here.marked and found.iterators) else None
