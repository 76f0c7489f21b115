"""The question to the checker: has a kernel the meaning of another one?"""

from __future__ import annotations

from dojoir.ir.nodes import Kernel
from dojoir.proof.certificate import InstanceMap
from dojoir.sets.kernel_sets import KernelSets, sets_of
from dojoir.support.derived import cached_property
from dojoir.support.frozen import dataclass, hash_once


@hash_once
@dataclass(frozen=True)
class Claim:
    """The claim that `after` means what `before` means, for all sizes and data. `certificate` says how: for each
    statement of `after`, which instance of `before` each of its instances stands for. Nothing of it is trusted.

    `before` is taken to be well-formed. What is worked out of a claim belongs to the question it is part of, and to
    the thread that asks: ask again with a new one.
    """

    before: Kernel
    after: Kernel
    certificate: InstanceMap

    @property
    def parts(self) -> tuple[Kernel, Kernel, InstanceMap]:
        """The kernels and the certificate."""
        return self.before, self.after, self.certificate

    @cached_property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The statements that stand for others, or are stood for: of the kernel after, and of the one before."""
        found = ((k, origin.site) for k, origin in enumerate(self.certificate.origins) if origin is not None)
        return tuple((j, k) if self.certificate.backward else (k, j) for k, j in found)

    @property
    def strict(self) -> bool:
        """Whether the order of float accumulations counts."""
        return self.before.fp == "strict"

    @cached_property
    def old(self) -> KernelSets:
        """The sets of the kernel before."""
        return sets_of(self.before)

    @cached_property
    def new(self) -> KernelSets:
        """The sets of the kernel after."""
        return sets_of(self.after)

    @cached_property
    def forth(self) -> Claim:
        """The claim in the direction in which its certificate goes: this one, or, for a backward certificate, that
        the kernel before means what the one after does."""
        return Claim(*self.certificate.forth(self.before, self.after)) if self.certificate.backward else self
