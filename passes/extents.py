"""A move that writes an extent in another way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from dojoir.dataflow import identity
from dojoir.ir import Kernel, Scope
from dojoir.passes.move import Formula, Move, Place, Refusal, Rewrite, place_of, scope_at, scopes, siblings
from dojoir.printer import format_extent


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
    | y[{0}] = 2 * x[{0}]
    <BLANKLINE>
    """

    name: ClassVar[str] = "set_extent"
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
