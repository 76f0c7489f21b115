"""Tiling, a composition of `split` and `swap_scopes`, and its inverse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from dojoir.ir.format import format_extent
from dojoir.ir.nodes import Extent, Kernel, Path, Scope
from dojoir.passes.base.about import AboutKind, Arguments, Here
from dojoir.passes.base.alternatives import Alternative, inner_scope, to_nest
from dojoir.passes.base.move import Formula, Move, Place, Refusal, Rewrite, Undoing, place_of, scope_at, then
from dojoir.passes.base.reach import Reach
from dojoir.passes.loops.splitting import original_extent, split, split_reversibly, unsplit
from dojoir.passes.loops.swapping import swap
from dojoir.proof.check import identity
from dojoir.proof.verdict import Verdict
from dojoir.support.frozen import dataclass

TILE_SIZES = (16, 32, 64)
"""The tile sizes that are listed."""

REGISTER_TILE = (6, 64)
"""The tile in registers that is listed: six rows of four vectors of 64 bytes, and what they are made of besides,
are what 32 registers hold."""


@dataclass(frozen=True)
class _AboutNest(AboutKind[Scope]):
    """A move about scopes, each the only child of the one before, with a number or a formula for each."""

    KIND = Scope
    scopes: tuple[Place, ...]

    @classmethod
    def _moves_at(cls, at: Here[Scope], arguments: Arguments) -> Iterator[Move]:
        family: Any = cls
        return (family(tuple(_nest_places(at.path, len(rest))), rest) for rest in arguments)


@dataclass(frozen=True)
class Tile(_AboutNest, name="tile", reach=Reach.NODE | Reach.PANE):
    """Tiles a nest of scopes, each the only child of the one before: `split` of each and `swap_scopes` until the
    scopes over blocks are outside of those inside a block. Labels and marks as in `split`. The inverse is `untile`.

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
    | | | | y[16*{j} + {j_in}, 8*{i} + {i_in}] = x[8*{i} + {i_in}, 16*{j} + {j_in}]
    <BLANKLINE>
    """

    sizes: tuple[int, ...]

    def rewrite(self, kernel: Kernel) -> Rewrite:
        if len(self.scopes) != len(self.sizes) or not self.scopes:
            raise Refusal("bad-tile", "tile takes as many sizes as scopes: tile(0, 0.0, 32, 64)")
        base = kernel.path(self.scopes[0])
        for level, place in enumerate(self.scopes):
            if kernel.path(place) != base + (0,) * level:
                raise Refusal("not-nested", f"{place} is not the only child of {self.scopes[level - 1]}", base)
        nest = [scope_at(kernel, place)[1] for place in self.scopes]
        return split_reversibly(
            self, Here(kernel, base, nest[0]), nest, lambda decide: self._tiled(kernel, base, decide)
        )

    def _tiled(self, kernel: Kernel, base: Path, decide: bool) -> Rewrite:
        result = Rewrite(kernel, identity(kernel))
        for k, size in enumerate(self.sizes):
            for level in range(2 * k - 1, k - 1, -1):
                result = then(result, swap(_level(result.kernel, base, level)))
            result = then(result, split(_level(result.kernel, base, k), size, decide))
            for level in range(k + 1, 2 * k + 1):
                result = then(result, swap(_level(result.kernel, base, level)))
        return result

    def inverse(self, before: Kernel) -> Move:
        nest = [scope_at(before, place) for place in self.scopes]
        extents = tuple(Formula(format_extent(scope.extent)) for _, scope in nest)
        return Untile(tuple(place_of(path) for path, _ in nest), extents)

    def alternatives(self, kernel: Kernel, verdict: Verdict) -> Iterator[Alternative]:
        if len(self.scopes) == 2:
            rest = ", ".join(map(str, self.sizes))
            yield from to_nest(kernel, kernel.path(self.scopes[0]), f"tile({{0}}, {{1}}, {rest})")

    @classmethod
    def listed(cls, at: Here[Scope]) -> Arguments:
        nest = _nest_of(at.node, 3)
        for count in range(2, len(nest) + 1):
            most = min(filter(None, (scope.constant_bound for scope in nest[:count])), default=None)
            yield from ((size,) * count for size in TILE_SIZES if most is None or size < most)
            if count == 2 and (most is None or max(REGISTER_TILE) < most):
                yield REGISTER_TILE

    @classmethod
    def numbered(cls, at: Here[Scope], numbers: Sequence[int]) -> Arguments:
        """Of a nest of three scopes, the sizes are powers of two: they are enough to begin with, and few enough."""
        nest = _nest_of(at.node, 3)
        for count in range(2, len(nest) + 1):
            sizes = [
                [n for n in numbers if n >= 1 and (most is None or n < most) and (count < 3 or n & (n - 1) == 0)]
                for most in (scope.constant_bound for scope in nest[:count])
            ]
            yield from product(*sizes)


@dataclass(frozen=True)
class Untile(Undoing, _AboutNest, name="untile", reach=Reach.PANE):
    """Makes scopes of `extents` again of a tiled nest: the scopes over blocks, then what their extents were. The
    inverse of `tile`; the labels of the scopes over blocks stay.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N, M)
    ... where N % 8 == 0, M % 16 == 0
    ... in  x: f32[N, M]
    ... out y: f32[M, N]
    ... N // 8 @i
    ... | M // 16 @j
    ... | | 8
    ... | | | 16
    ... | | | | y[16*{1} + {3}, 8*{0} + {2}] = x[8*{0} + {2}, 16*{1} + {3}]
    ... ''')
    >>> print(dojoir.apply(k, "untile(@i, @j, N, M)"))
    kernel f(N, M)
    where N % 8 == 0, M % 16 == 0
    in  x: f32[N, M]
    out y: f32[M, N]
    <BLANKLINE>
    N @i
    | M @j
    | | y[{j}, {i}] = x[{i}, {j}]
    <BLANKLINE>
    """

    extents: tuple[Formula, ...]

    def undone(self, kernel: Kernel) -> tuple[Kernel, Move]:
        if len(self.scopes) != len(self.extents) or not self.scopes:
            raise Refusal("bad-tile", "untile takes as many extents as scopes: untile(0, 0.0, N, M)")
        base, count = kernel.path(self.scopes[0]), len(self.scopes)
        depth = kernel.depth_of(base)
        extents = [extent.extent(kernel, depth) for extent in self.extents]
        sizes = tuple(_tile_size(kernel, base, count + k) for k in range(count))
        for k in reversed(range(count)):
            kernel = self._untile_one(kernel, base, k, extents[k])
        return kernel, Tile(tuple(_nest_places(base, count)), sizes)

    def _untile_one(self, kernel: Kernel, base: Path, k: int, extent: Extent) -> Kernel:
        """Takes back the `k`th step of `Tile`, the last one that was made."""
        for level in range(2 * k, k, -1):
            kernel = swap(_level(kernel, base, level)).kernel
        kernel, _ = unsplit(_level(kernel, base, k), extent)
        for level in range(k, 2 * k):
            kernel = swap(_level(kernel, base, level)).kernel
        return kernel

    @classmethod
    def listed(cls, at: Here[Scope]) -> Arguments:
        """Nests of four or six scopes, the inner half of which have constant extents or begin with one."""
        nest = _nest_of(at.node, 6)
        for count in (2, 3):
            pairs = enumerate(zip(nest, nest[count : 2 * count], strict=False), at.depth)
            found = [original_extent(at.kernel, *pair, depth) for depth, pair in pairs]
            extents = [Formula(format_extent(extent)) for extent in found if extent is not None]
            if len(extents) == count:
                yield tuple(extents)


def _nest_of(scope: Scope, most: int) -> list[Scope]:
    """A scope and those inside, each the only child of the one before, `most` at most."""
    found = [scope]
    while len(found) < most and (child := inner_scope(found[-1])) is not None:
        found.append(child)
    return found


def _nest_places(base: Path, count: int) -> Iterator[Place]:
    """The places of a nest of so many scopes."""
    return (place_of(base + (0,) * level) for level in range(count))


def _level(kernel: Kernel, base: Path, level: int) -> Here[Scope]:
    """The scope so many levels inside of a nest. Raises Refusal."""
    path, scope = scope_at(kernel, place_of(base + (0,) * level))
    return Here(kernel, path, scope)


def _tile_size(kernel: Kernel, base: Path, level: int) -> int:
    at = _level(kernel, base, level)
    first = at.node.extent.bounds[0]
    if not first.is_constant:
        raise at.refusal("not-tiled", "the extents inside a block must be constants, or begin with one")
    return first.offset
