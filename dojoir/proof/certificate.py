"""Instance maps: which old statement instance each new one stands for, after a rewrite."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

import islpy as isl

from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Kernel, Replace, Statement, substitute, substitute_iterators
from dojoir.rules.rule import RuleUse
from dojoir.sets.kernel_sets import isl_affine, iterators, sets_of
from dojoir.support.derived import cached_property, once_for_each
from dojoir.support.frozen import dataclass, hash_once


@dataclass(frozen=True)
class Substitution:
    """In the statement `site`, read number `ordinal` (of its value as it stands) is replaced by the value of the
    statement `definition` at `iterators`, in terms of the iterators of `site`."""

    site: int
    ordinal: int
    definition: int
    iterators: tuple[Affine, ...]


@hash_once
@dataclass(frozen=True)
class Origin:
    """The source of one statement of the new kernel: the statement `site` of the old kernel, with the old
    iterators (outermost first) as affine expressions in the new ones."""

    site: int
    iterators: tuple[Affine, ...]

    @cached_property
    def reach(self) -> int:
        """The number of scopes whose iterators are named."""
        return max((depth + 1 for value in self.iterators for depth in value.iterators), default=0)

    @property
    def replace(self) -> Replace:
        """The expression that replaces each old iterator."""
        return substitute_iterators(dict(enumerate(self.iterators)))


@dataclass(frozen=True)
class LastWriter:
    """One use of the rewrite that `dojoir.proof.core.last_writer` proves: the statement `site` and, of the scopes
    around it, the one at `depth`, which of those inside of that are `free`, the temporary `last`, and one for each
    index from data that is under a condition."""

    site: int
    depth: int
    free: tuple[int, ...]
    last: str
    places: tuple[str, ...] = ()


@hash_once
@dataclass(frozen=True)
class InstanceMap:
    """The claim of a move about its rewrite: which old statement instance each new one stands for. The checker
    proves it and trusts no part of it.

    `origins` has an entry for each statement of the new kernel. None is for one that stands for nothing old: it may
    only pass values on (a copy, partial results of a reduction and their neutral start), or have no effect.
    `inlined` are reads of the old kernel that were replaced by the expression that gave their value; `extracted`
    are reads of the new kernel that, replaced so, give the old one.

    With `backward`, all of this is said in the other direction, of the kernel before in terms of the one after: the
    inverse of a move is proved by what the move does. With `beyond`, statements may run for more instances than
    there were, to no effect (`dojoir.proof.core.padding`). With a `rule`, one of algebra or that of the last
    writer, the rewrite is one use of that, and the other fields say nothing.
    """

    origins: tuple[Origin | None, ...]
    inlined: tuple[Substitution, ...] = ()
    extracted: tuple[Substitution, ...] = ()
    backward: bool = False
    beyond: bool = False
    rule: RuleUse | LastWriter | None = None

    def forth(self, before: Kernel, after: Kernel) -> tuple[Kernel, Kernel, InstanceMap]:
        """The two kernels in the order in which the map goes, and the map in that direction."""
        if self.backward:
            return after, before, replace(self, backward=False)
        return before, after, self


def identity(kernel: Kernel) -> InstanceMap:
    """The instance map of a rewrite that leaves every statement where it is."""
    return _unmoved(kernel)


@once_for_each
def _unmoved(kernel: Kernel) -> InstanceMap:
    return _identity(tuple(len(site.scopes) for site in kernel.sites))


@lru_cache(maxsize=1024)
def _identity(depths: tuple[int, ...]) -> InstanceMap:
    return InstanceMap(tuple(map(_itself, range(len(depths)), depths)))


@lru_cache(maxsize=4096)
def _itself(number: int, depth: int) -> Origin:
    """The origin of a statement that stays where it is: one shared object, so that comparing it is cheap."""
    return Origin(number, tuple(map(Affine.iterator, range(depth))))


def stand_for(after: Kernel, instances: InstanceMap, numbers: Iterable[int] | None = None) -> isl.UnionMap:
    """Each new instance that runs to the old one that it stands for; only those of some statements if given."""
    sets = sets_of(after)
    pieces = []
    for k in sets.numbers if numbers is None else numbers:
        origin = instances.origins[k]
        if origin is not None:
            old = ", ".join(map(isl_affine, origin.iterators))
            where = sets.constraints(after.sites[k].ancestors)
            pieces.append(f"s{k}[{iterators(len(after.sites[k].scopes))}] -> s{origin.site}[{old}] : {where}")
    return sets.map(*pieces)


def same_statement(old: Statement, origin: Origin, new: Statement) -> bool:
    """Whether a new statement is exactly the old one, written in the new iterators."""
    return substitute(old, origin.replace) == new


def same_elements(old: Statement, origin: Origin, new: Statement) -> bool:
    """Whether a new statement touches, by its text, the elements that the old one does."""
    moved = substitute(old, origin.replace)
    assert isinstance(moved, Statement)
    return moved.accesses == new.accesses
