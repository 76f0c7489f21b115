"""A kernel on its way to a program, handed from pass to pass."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import field, replace
from functools import cached_property

from dojoir.codegen.lir.program import Program, Stmt
from dojoir.codegen.lower.access.state import LoweredNames
from dojoir.codegen.lower.gpu.spread import in_registers
from dojoir.codegen.lower.gpu.thread_plan import Threads
from dojoir.codegen.lower.texts.beside import TextBeside
from dojoir.codegen.lower.waits.barrier_proof import proved
from dojoir.codegen.lower.waits.barriers import barriers_of
from dojoir.codegen.lower.waits.exchanges import met
from dojoir.codegen.lower.waits.landing_proof import landed
from dojoir.codegen.lower.waits.landings import NONE, Landings, landings_of
from dojoir.codegen.lower.waits.places_to_wait import Barriers
from dojoir.codegen.target import Target
from dojoir.ir.nodes import Kernel, Path
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class LoweringWork:
    """A kernel as it was `given`, the `text` that is lowered, and what that is now, with the places in the text of
    its statements (`beside`). `same` are other names of arguments. Then the program, with the names
    in it."""

    given: Kernel
    target: Target
    text: Kernel
    beside: TextBeside
    same: Mapping[str, str] = field(default_factory=dict)
    program: Program | None = None
    names: LoweredNames = field(default_factory=lambda: LoweredNames(set()))

    @property
    def kernel(self) -> Kernel:
        return self.beside.kernel

    @cached_property
    def threads(self) -> Threads:
        """Who runs what on a GPU."""
        return Threads(self.kernel, self.target.warp)

    @cached_property
    def of_one_thread(self) -> Kernel:
        """The kernel with its arrays in registers as one thread of a GPU has them."""
        return in_registers(self.threads)

    @cached_property
    def barriers(self) -> Barriers:
        """Where the threads of a GPU wait: wherever they meet, as far as that is proved to be enough, else wherever
        they can."""
        return proved(self.kernel, self.target.warp, barriers_of(self.threads))

    @cached_property
    def landings(self) -> Landings:
        """Which copies of the threads of a GPU land later, as far as that is proved."""
        if not self.target.lands_later:
            return NONE
        return landed(self.kernel, self.target.warp, landings_of(self.threads, self.barriers))

    @cached_property
    def atomic(self) -> Collection[Path]:
        """The statements with which several threads of a GPU accumulate into one element."""
        return met(self.threads)

    def of(self, text: Kernel) -> LoweringWork:
        """The same with another text to lower."""
        return replace(self, text=text, beside=TextBeside.of(text))

    def on_body(self, change: Callable[[tuple[Stmt, ...]], tuple[Stmt, ...]]) -> LoweringWork:
        """The same with another body of the program."""
        assert self.program is not None
        return replace(self, program=replace(self.program, body=change(self.program.body)))
