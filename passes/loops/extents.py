"""A move that writes an extent in another way."""

from __future__ import annotations

from typing import ClassVar

from dojoir.backends.machine import Machine
from dojoir.ir.nodes import Extent, Kernel, Scope
from dojoir.ir.text import format_extent
from dojoir.passes.base.about import AboutScope, Arguments, Here
from dojoir.passes.base.move import Formula, Move, Rewrite, scopes
from dojoir.passes.base.properties import is_host_code
from dojoir.passes.base.reach import Reach
from dojoir.support.frozen import dataclass

BLOCK_THREADS = (32, 64, 128, 256, 512, 1024)
"""The threads of a block: what an open extent is made where the iterations behind its end do nothing."""


@dataclass(frozen=True)
class SetExtent(AboutScope):
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
    extent: Formula

    def rewrite(self, kernel: Kernel) -> Rewrite:
        at = self.found(kernel)
        extent = self.extent.extent(kernel, at.depth)
        if extent == at.node.extent:
            raise at.refusal("no-change", f"the extent of {self.scope} is written so already")
        return at.changed(extent=extent)

    def inverse(self, before: Kernel) -> Move:
        at = self.found(before)
        return SetExtent(at.place, Formula(format_extent(at.node.extent)))

    @classmethod
    def listed(cls, at: Here[Scope]) -> Arguments:
        """Those of the scopes before and after it."""
        number, around = at.path[-1], at.siblings
        for other in (*around[max(number - 1, 0) : number], *around[number + 1 : number + 2]):
            if isinstance(other, Scope) and other.extent != at.node.extent:
                yield (Formula(format_extent(other.extent)),)

    @classmethod
    def more(cls, at: Here[Scope], machine: Machine) -> Arguments:
        """Each bound of the extent by itself, the extents of the scopes around what is beside it, and any other of
        the kernel that has a meaning there. For launches of a GPU 1, and for what may be bound to threads the sizes
        of blocks."""
        own = at.node.extent
        if machine.kind == "gpu" and is_host_code(at.kernel, at.path) and own.constant != 1:
            yield (Formula("1"),)  # under a guard that says when it runs
        if machine.kind == "gpu" and own.constant is None:
            yield from ((Formula(str(threads)),) for threads in BLOCK_THREADS)
        for extent in (
            *(Extent((bound,)) for bound in own.bounds),
            *(other.extent for _, other in scopes(at.kernel)),
        ):
            if extent != own and all(d < at.depth for bound in extent.bounds for d in bound.iterators):
                yield (Formula(format_extent(extent)),)


MOVES = (SetExtent,)
