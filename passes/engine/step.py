"""One move that was made, with what it made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dojoir.ir.nodes import Kernel
from dojoir.support.frozen import dataclass

if TYPE_CHECKING:
    from dojoir.passes.base.move import Move, Rewrite


@dataclass(frozen=True)
class Step:
    """One move of a trace, the rewrite it made, and whether the checker was left out."""

    move: Move
    done: Rewrite
    unsafe: bool = False

    @property
    def kernel(self) -> Kernel:
        """The kernel after the move."""
        return self.done.kernel
