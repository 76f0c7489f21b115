"""A move that writes an extent in another way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from dojoir.backends.machine import Machine
from dojoir.ir.nodes import Extent, Kernel, Path, Scope
from dojoir.ir.places import siblings
from dojoir.ir.text import format_extent
from dojoir.passes.base.move import (
    Formula,
    Move,
    Place,
    Refusal,
    Rewrite,
    place_of,
    scope_at,
    scope_or_none,
    scopes,
)
from dojoir.passes.base.reach import Reach
from dojoir.passes.base.versions import is_host_code
from dojoir.proof.check import identity
from dojoir.support.frozen import dataclass

BLOCK_THREADS = (32, 64, 128, 256, 512, 1024)
"""The threads of a block: what an open extent is made where the iterations behind its end do nothing."""


@dataclass(frozen=True)
class SetExtent(Move):
    """Writes the extent of a scope as `extent`. Legal where the two are equal, by the facts of the kernel or for
    every iteration around. The inverse is the same move, with what was written before.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... where N % 8 == 0
    ... in  x: f32[N]
    ... out y: f32[N]
    ... 8*(N // 8) @i
    ... | y[{i}] = 2 * x[{i}]
    ... ''')
    >>> print(dojoir.apply(k, "set_extent(@i, N)"))
    kernel f(N)
    where N % 8 == 0
    in  x: f32[N]
    out y: f32[N]
    <BLANKLINE>
    N @i
    | y[{i}] = 2 * x[{i}]
    <BLANKLINE>
    """

    name: ClassVar[str] = "set_extent"
    reach: ClassVar[Reach] = Reach.PANE
    scope: Place
    extent: Formula

    def rewrite(self, kernel: Kernel) -> Rewrite:
        path, scope = scope_at(kernel, self.scope)
        extent = self.extent.extent(kernel, kernel.depth_of(path))
        if extent == scope.extent:
            raise Refusal("no-change", f"the extent of {self.scope} is written so already", path)
        return Rewrite(kernel.replace_node(path, replace(scope, extent=extent)), identity(kernel))

    def inverse(self, before: Kernel) -> Move:
        path, scope = scope_at(before, self.scope)
        return SetExtent(place_of(path), Formula(format_extent(scope.extent)))

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for path, scope in scopes(kernel):
            for child in (path[-1] - 1, path[-1] + 1):
                around = siblings(kernel, path)
                other = around[child] if 0 <= child < len(around) else None
                if isinstance(other, Scope) and other.extent != scope.extent:
                    yield cls(place_of(path), Formula(format_extent(other.extent)))

    @classmethod
    def _further(cls, kernel: Kernel, place: Path | str, machine: Machine) -> Iterator[Move]:
        """Each bound of the extent by itself, the extents of the scopes around what is beside it, and any other of
        the kernel that has a meaning there. For launches of a GPU 1, and for what may be bound to threads the sizes
        of blocks."""
        scope = scope_or_none(kernel, place)
        if scope is None or isinstance(place, str):
            return
        depth = kernel.depth_of(place)
        if machine.kind == "gpu" and is_host_code(kernel, place) and scope.extent.constant != 1:
            yield cls(place_of(place), Formula("1"))  # under a guard that says when it runs
        wholes = (other.extent for _, other in scopes(kernel))
        if machine.kind == "gpu" and scope.extent.constant is None:
            yield from (cls(place_of(place), Formula(str(threads))) for threads in BLOCK_THREADS)
        for extent in (*(Extent((bound,)) for bound in scope.extent.bounds), *wholes):
            if extent != scope.extent and all(d < depth for bound in extent.bounds for d in bound.iterators):
                yield cls(place_of(place), Formula(format_extent(extent)))


MOVES = (SetExtent,)
