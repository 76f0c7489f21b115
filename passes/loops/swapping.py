"""A scope interchanged with its only child, and one that runs backwards; each taken back is the same move."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dojoir.ir.affine import Affine, Iter
from dojoir.ir.format import format_condition, format_extent
from dojoir.ir.nodes import Condition, Extent, Kernel, Path, Scope, format_path, substitute, substitute_iterators
from dojoir.passes.base.about import AboutScope, Arguments, Here
from dojoir.passes.base.alternatives import Alternative, inner_scope, to_nest
from dojoir.passes.base.indices import largest
from dojoir.passes.base.move import Move, Rewrite, only_child
from dojoir.passes.base.reach import Reach
from dojoir.proof.verdict import Verdict
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class SwapScopes(AboutScope, name="swap_scopes", reach=Reach.NODE | Reach.PANE):
    """Interchanges a scope with its only child, a scope. Labels and marks go with their scope.

    The inverse is the same move.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N, M)
    ... in  x: f32[N, M]
    ... out y: f32[N, M]
    ... N @i
    ... | M @j
    ... | | y[{i}, {j}] = 2 * x[{i}, {j}]
    ... ''')
    >>> print(dojoir.apply(k, "swap_scopes(@i)"))
    kernel f(N, M)
    in  x: f32[N, M]
    out y: f32[N, M]
    <BLANKLINE>
    M @j
    | N @i
    | | y[{i}, {j}] = 2 * x[{i}, {j}]
    <BLANKLINE>
    """

    def rewritten(self, at: Here[Scope]) -> Rewrite:
        return swap(at)

    def back(self, at: Here[Scope]) -> Move:
        return SwapScopes(at.place)

    def alternatives(self, kernel: Kernel, verdict: Verdict) -> Iterator[Alternative]:
        at = self.found(kernel)
        if verdict.code == "dependent-extent":
            yield from self._in_the_box(kernel, at.path, at.node)
        yield from to_nest(kernel, at.path, "swap_scopes({0})")

    def _in_the_box(self, kernel: Kernel, path: Path, scope: Scope) -> Iterator[Alternative]:
        """Of a triangle, the box around it: the inner scope runs as far as it ever does, under a guard."""
        child, depth = only_child(path, scope), kernel.depth_of(path)
        ends = [largest(bound, depth, scope.extent.bounds[0]) for bound in child.extent.bounds]
        if None not in ends and len(scope.extent.bounds) == 1:
            inner = Affine.iterator(depth + 1)
            guard = " and ".join(format_condition(Condition(inner, "<", bound)) for bound in child.extent.bounds)
            wide = format_extent(Extent(tuple(end for end in ends if end is not None)))
            below = (*path, 0)
            first = f'add_guard({format_path((*below, 0))}, {len(child.body)}, "{guard}")'
            yield Alternative((first, f"set_extent({format_path(below)}, {wide})"), f"swap_scopes({self.scope})")

    @classmethod
    def listed(cls, at: Here[Scope]) -> Arguments:
        return [()] if inner_scope(at.node) else []


def swap(at: Here[Scope]) -> Rewrite:
    """A scope interchanged with its only child. Raises Refusal."""
    child, depth = at.only_child, at.depth
    if any(depth in bound.iterators for bound in child.extent.bounds):
        text = format_extent(child.extent)
        message = f"the inner extent {text} depends on {{{depth}}}, the iterator of the outer scope"
        raise at.refusal("dependent-extent", message, _before_the_split(child.extent, depth))
    new = substitute_iterators({depth: Affine.iterator(depth + 1), depth + 1: Affine.iterator(depth)})
    inner = replace(at.node, body=tuple(substitute(node, new) for node in child.body))
    return at.renamed(new, replace(child, body=(inner,)))


def _before_the_split(extent: Extent, depth: int) -> str | None:
    """The hint for the inner part of a split with a tail, `min(16, N - 16*{0})`: a cut leaves full blocks."""
    sizes = [bound.offset for bound in extent.bounds if bound.is_constant]
    if len(extent.bounds) != 2 or len(sizes) != 1:
        return None
    (rest,) = (bound for bound in extent.bounds if not bound.is_constant)
    if rest.coefficient(Iter(depth)) != -sizes[0]:
        return None
    whole = rest + Affine.iterator(depth) * sizes[0]
    cut = f"cut(…, {whole // sizes[0] * sizes[0]})"
    return (
        f"the last block of the split is shorter: {cut} before the split leaves full blocks, as the pass "
        f"split_with_tail(…, {sizes[0]}, cut) does, in the place of the split"
    )


@dataclass(frozen=True)
class ReverseScope(AboutScope, name="reverse_scope", reach=Reach.NODE | Reach.PANE):
    """Runs a scope from its last iteration to its first: what ran at i runs at its extent - 1 - i. Legal where the
    order of the iterations does not count. The inverse is the same move.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... N @i
    ... | y[{i}] = 2 * x[N - 1 - {i}]
    ... ''')
    >>> print(dojoir.apply(k, "reverse_scope(@i)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    <BLANKLINE>
    N @i
    | y[N - {i} - 1] = 2 * x[{i}]
    <BLANKLINE>
    """

    def rewritten(self, at: Here[Scope]) -> Rewrite:
        extent = at.node.extent
        if len(extent.bounds) != 1:
            hint = "set_extent or cut gives it one bound" if extent.constant is None else None
            message = f"the extent {format_extent(extent)} has no one end to count from"
            raise at.refusal("several-bounds", message, hint)
        at.unhinted()
        back = substitute_iterators({at.depth: extent.bounds[0] - 1 - at.own})
        body = tuple(substitute(node, back) for node in at.node.body)
        if tuple(substitute(node, back) for node in body) != at.node.body:
            raise at.refusal("not-reversible", "the divisions in the body lose their form when it is reversed")
        return at.renamed(back, replace(at.node, body=body))

    def back(self, at: Here[Scope]) -> Move:
        return ReverseScope(at.place)

    @classmethod
    def listed(cls, at: Here[Scope]) -> Arguments:
        return [()] if len(at.node.extent.bounds) == 1 and at.node.extent.constant != 1 else []
