"""Moves on scopes: fuse, strip-mine, interchange, tile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from dojoir.affine import Affine, Iter, SizeVar
from dojoir.dataflow import identity
from dojoir.ir import (
    Condition,
    Extent,
    Kernel,
    Path,
    Replace,
    Scope,
    format_path,
    substitute,
    substitute_iterators,
)
from dojoir.passes.move import (
    Move,
    Place,
    Refusal,
    Rewrite,
    fresh_label,
    only_child,
    renamed_inside,
    scope_at,
    scopes,
    siblings,
    then,
)
from dojoir.printer import format_extent
from dojoir.sets import sets_of

OUTER_MARKS = frozenset({"p", "gx", "gy", "gz"})
"""The marks that stay on the outer scope of a split; the others go to the inner one."""

SPLIT_FACTORS = (2, 4, 8, 16, 32, 64, 128, 256)
"""The factors that are listed for a scope of open extent."""

ZERO = Affine.constant(0)

TILE_SIZES = (16, 32, 64)
"""The tile sizes that are listed."""


@dataclass(frozen=True)
class JoinScopes(Move):
    """Fuses two adjacent sibling scopes of equal extent: each iteration runs the first body, then the second.

    The label of the first stays, else that of the second. The inverse is `split_scopes`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... tmp t: f32[N]
    ... N
    ... | t[{0}] = 2 * x[{0}]
    ... N
    ... | y[{0}] = t[{0}] + 1
    ... ''')
    >>> print(dojoir.apply(k, "join_scopes(0, 1)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    tmp t: f32[N]
    <BLANKLINE>
    N
    | t[{0}] = 2 * x[{0}]
    | y[{0}] = t[{0}] + 1
    <BLANKLINE>
    """

    name: ClassVar[str] = "join_scopes"
    first: Place
    second: Place

    def rewrite(self, kernel: Kernel) -> Rewrite:
        path, first = scope_at(kernel, self.first)
        other, second = scope_at(kernel, self.second)
        if other != (*path[:-1], path[-1] + 1):
            raise Refusal("not-adjacent", f"{self.second} does not follow {self.first} in the same scope", other)
        if first.marks != second.marks:
            raise Refusal("different-marks", "the two scopes have different marks", other)
        joined = replace(first, body=first.body + second.body, label=first.label or second.label)
        after = kernel.replace_node(other).replace_node(path, joined)
        return Rewrite(after, identity(kernel))

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for path, _ in scopes(kernel):
            following = siblings(kernel, path)[path[-1] + 1 : path[-1] + 2]
            if following and isinstance(following[0], Scope):
                second = (*path[:-1], path[-1] + 1)
                yield cls(Place(format_path(path)), Place(format_path(second)))


@dataclass(frozen=True)
class Split(Move):
    """Strip-mines a scope: an outer scope over blocks of `factor` iterations, an inner one over each block.

    Where the extent is not known to be a multiple of the factor, the inner extent of the last block is a `min`.
    The label `j` stays on the outer scope, the inner one gets `j_in`. A mark `p` stays outside, `v` and `u` go to
    the inner scope.

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
    | min(16, N - 16*{0}) @j_in
    | | y[16*{0} + {1}] = 2 * x[16*{0} + {1}]
    <BLANKLINE>
    """

    name: ClassVar[str] = "split"
    scope: Place
    factor: int

    def rewrite(self, kernel: Kernel) -> Rewrite:
        path, scope = scope_at(kernel, self.scope)
        return _split(kernel, path, scope, self.factor)

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for path, scope in scopes(kernel):
            constant = scope.extent.constant
            for factor in _factors(constant):
                yield cls(Place(format_path(path)), factor)


def _factors(extent: int | None) -> list[int]:
    """The factors listed for an extent: powers of two, and the divisors of a small constant."""
    if extent is None:
        return list(SPLIT_FACTORS)
    divisors = [d for d in range(2, min(extent, 65)) if extent % d == 0]
    return sorted({*divisors, *(f for f in SPLIT_FACTORS if f < extent)})


def _split(kernel: Kernel, path: Path, scope: Scope, factor: int) -> Rewrite:
    if factor < 1:
        raise Refusal("bad-factor", f"the factor must be at least 1, not {factor}", path)
    depth = kernel.depth_of(path)
    block = Affine.iterator(depth)
    whole = _divides(kernel, scope.extent, factor)
    bounds = scope.extent.bounds
    outer = Extent(tuple(bound // factor if whole else (bound + (factor - 1)) // factor for bound in bounds))
    rest = () if whole else tuple(bound - block * factor for bound in bounds)
    new = _deeper(depth, {depth: block * factor + Affine.iterator(depth + 1)})
    inner = Scope(
        Extent((Affine.constant(factor), *rest)),
        tuple(substitute(child, new) for child in scope.body),
        tuple(mark for mark in scope.marks if mark not in OUTER_MARKS),
        fresh_label(kernel, f"{scope.label}_in") if scope.label else None,
    )
    marks = tuple(mark for mark in scope.marks if mark in OUTER_MARKS)
    after = kernel.replace_node(path, Scope(outer, (inner,), marks, scope.label))
    return Rewrite(after, renamed_inside(kernel, path, new))


def _divides(kernel: Kernel, extent: Extent, factor: int) -> bool:
    """Whether every bound is a multiple of the factor, by its form or by the facts of the kernel."""
    rests = [bound % factor for bound in extent.bounds]
    return all(
        rest == ZERO or (not rest.iterators and sets_of(kernel).always(Condition(rest, "==", ZERO)))
        for rest in rests
    )


def _deeper(depth: int, changed: dict[int, Affine]) -> Replace:
    """What iterators become when a scope is put inside the one at `depth`: those in `changed` as it says, and
    the others below `depth` one deeper."""

    def new(atom: SizeVar | Iter) -> Affine:
        match atom:
            case Iter(d) if d in changed:
                return changed[d]
            case Iter(d) if d > depth:
                return Affine.iterator(d + 1)
        return Affine.atom(atom)

    return new


@dataclass(frozen=True)
class SwapScopes(Move):
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
    | | y[{1}, {0}] = 2 * x[{1}, {0}]
    <BLANKLINE>
    """

    name: ClassVar[str] = "swap_scopes"
    scope: Place

    def rewrite(self, kernel: Kernel) -> Rewrite:
        path, scope = scope_at(kernel, self.scope)
        return _swap(kernel, path, scope)

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for path, scope in scopes(kernel):
            if len(scope.body) == 1 and isinstance(scope.body[0], Scope):
                yield cls(Place(format_path(path)))


def _swap(kernel: Kernel, path: Path, scope: Scope) -> Rewrite:
    child = only_child(path, scope)
    depth = kernel.depth_of(path)
    if any(depth in bound.iterators for bound in child.extent.bounds):
        text = format_extent(child.extent)
        raise Refusal(
            "dependent-extent",
            f"the inner extent {text} depends on {{{depth}}}, the iterator of the outer scope",
            path,
        )
    new = substitute_iterators({depth: Affine.iterator(depth + 1), depth + 1: Affine.iterator(depth)})
    inner = replace(scope, body=tuple(substitute(node, new) for node in child.body))
    after = kernel.replace_node(path, replace(child, body=(inner,)))
    return Rewrite(after, renamed_inside(kernel, path, new))


@dataclass(frozen=True)
class Tile(Move):
    """Tiles a nest of scopes, each the only child of the one before: `split` of each and `swap_scopes` until the
    scopes over blocks are outside of those inside a block. Labels and marks as in `split`.

    Source: M. E. Wolf and M. S. Lam, "A data locality optimizing algorithm" (1991).

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N, M)
    ... where N % 8 == 0, M % 16 == 0
    ... in  x: f32[N, M]
    ... out y: f32[M, N]
    ... N @i
    ... | M @j
    ... | | y[{j}, {i}] = x[{i}, {j}]
    ... ''')
    >>> print(dojoir.apply(k, "tile(@i, @j, 8, 16)"))
    kernel f(N, M)
    where N % 8 == 0, M % 16 == 0
    in  x: f32[N, M]
    out y: f32[M, N]
    <BLANKLINE>
    N // 8 @i
    | M // 16 @j
    | | 8 @i_in
    | | | 16 @j_in
    | | | | y[16*{1} + {3}, 8*{0} + {2}] = x[8*{0} + {2}, 16*{1} + {3}]
    <BLANKLINE>
    """

    name: ClassVar[str] = "tile"
    scopes: tuple[Place, ...]
    sizes: tuple[int, ...]

    def rewrite(self, kernel: Kernel) -> Rewrite:
        if len(self.scopes) != len(self.sizes) or not self.scopes:
            raise Refusal("bad-tile", "tile takes as many sizes as scopes: tile(0, 0.0, 32, 64)")
        base = kernel.path(self.scopes[0])
        for level, place in enumerate(self.scopes):
            if kernel.path(place) != base + (0,) * level:
                raise Refusal("not-nested", f"{place} is not the only child of {self.scopes[level - 1]}", base)
        result = Rewrite(kernel, identity(kernel))
        for k, size in enumerate(self.sizes):
            for level in range(2 * k - 1, k - 1, -1):
                result = _swap_level(result, base, level)
            path = base + (0,) * k
            path, scope = scope_at(result.kernel, Place(format_path(path)))
            result = then(result, _split(result.kernel, path, scope, size))
            for level in range(k + 1, 2 * k + 1):
                result = _swap_level(result, base, level)
        return result

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for path, scope in scopes(kernel):
            nest = [Place(format_path(path))]
            while len(scope.body) == 1 and isinstance(scope.body[0], Scope) and len(nest) < 3:
                scope = scope.body[0]
                nest.append(Place(format_path(path + (0,) * len(nest))))
                for size in TILE_SIZES:
                    yield cls(tuple(nest), (size,) * len(nest))


def _swap_level(result: Rewrite, base: Path, level: int) -> Rewrite:
    path, scope = scope_at(result.kernel, Place(format_path(base + (0,) * level)))
    return then(result, _swap(result.kernel, path, scope))
