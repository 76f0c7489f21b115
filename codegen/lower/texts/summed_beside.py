"""Sums of narrow floats that no variable carries: they are made in an array of f32 beside the elements.

What is accumulated into f16, bf16 or a narrower float is summed in f32 and rounded once. A variable does that where
a loop adds to one element (`carry`, lanes, collectives). Where it adds to several, one after another
or wherever data say, the element would be rounded each time: a sum of ones in f16 stands still at 2048. So the sums
of a part of the tree that does nothing else with the buffer are made in an array of the shape of the buffer:

    N                                   B
    | B                                 | y_sum[{0}] = -0.0
    | | y[{1}] += x[{0}, {1}]           | y_added[{0}] = False
                                        N
                                        | B
                                        | | y_added[{1}] |= True
                                        | | y_sum[{1}] += x[{0}, {1}]
                                        B
                                        | y[{0}] = y[{0}] + y_sum[{0}] if y_added[{0}]
                                        | y_added[{0}] = False

Before and behind it the loops run again that say which elements there are, with the same marks. So each thread has
to do with the elements that it had to do with, and what nothing is added to is neither read nor written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from dojoir.codegen.lower.gpu.thread_plan import THREADS
from dojoir.codegen.lower.texts.beside import (
    ON_DEVICE,
    AccumulatingPart,
    TextBeside,
    fresh,
    held_in,
    parts_of,
    where,
)
from dojoir.errors import Diagnostic, KernelError
from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import BOOL, DType
from dojoir.ir.format import format_access
from dojoir.ir.nodes import (
    Access,
    Buffer,
    Cast,
    Const,
    Expr,
    Extent,
    Guard,
    Kernel,
    Node,
    Op,
    Path,
    Scope,
    Site,
    Statement,
    affine_parts,
    expr_accesses,
    substitute_access,
    substitute_condition,
    substitute_expr,
    substitute_extent,
    substitute_iterators,
)
from dojoir.ir.where import place
from dojoir.sets.kernel_sets import KernelSets, isl_affine, iterators, sets_of
from dojoir.sets.limits import StepLimitReached, limited_in_part

STEP_LIMIT = 200_000
"""How many isl operations it may take to find that each element is rounded once as it is."""

Carriers = Mapping[Path, Path]
"""The statements whose sums variables carry, each with the scope behind which that goes into the element."""


def _has_narrow_sums(kernel: Kernel) -> bool:
    """Whether a kernel adds to elements of narrow floats in an order that is free."""
    return kernel.fp != "strict" and any(
        site.statement.accumulation == "+=" and _is_narrow(kernel.buffer(site.statement.target.buffer))
        for site in kernel.sites
    )


def _is_narrow(buffer: Buffer) -> bool:
    """Whether sums of elements of a buffer are rounded to a float narrower than f32."""
    return buffer.dtype.is_float and buffer.dtype.bits < 32


def with_sums_beside(beside: TextBeside, carriers: Callable[[Kernel], Carriers]) -> TextBeside:
    """A kernel with arrays of f32 for the sums of narrow floats that would be rounded more than once, those of
    statements in `carriers` being carried as said there.

    Raises KernelError where threads of a GPU add to elements under a condition that tells no threads apart.
    """
    if not _has_narrow_sums(beside.kernel):
        return beside
    for buffer in beside.kernel.buffers:
        if _is_narrow(buffer):
            known, before = carriers(beside.kernel), beside
            parts = [part for part in parts_of(before.kernel, buffer) if part.operator == "+="]
            for part in reversed(parts):  # from the end: what is before stays in its place
                if _is_rounded_again(before, buffer.name, part, known):
                    beside = _Rewrite(beside, buffer, part).result()
    return beside


# -- whether an element is rounded more than once --------------------------------------------------------------
def _is_rounded_again(beside: TextBeside, name: str, part: AccumulatingPart, carriers: Carriers) -> bool:
    """Whether two sums that are rounded by themselves go into one element."""
    inside = beside.sites(part)
    sites = [(number, site) for number, site in inside if site.statement.target.buffer == name]
    kernel = beside.kernel
    around = kernel.depth_of((*part.parent, 0))
    units = {k: carriers.get(site.path, site.path) for k, site in sites}
    depths = {k: kernel.depth_of(unit) for k, unit in units.items()}
    if all(depth <= around for depth in depths.values()) and len(set(units.values())) == 1:
        return False
    read = {access.buffer for _, site in sites for access in site.statement.index_reads}
    alike = len({_chosen(site.statement.target) for _, site in sites}) == 1
    if read and not (alike and all(kernel.buffer(name).distinct for name in read)):
        return True  # data may choose one element twice
    sets, numbers = sets_of(kernel), {unit: n for n, unit in enumerate(dict.fromkeys(units.values()))}
    try:
        with limited_in_part(STEP_LIMIT):
            return _meet(sets, sites, around, {k: (numbers[unit], depths[k]) for k, unit in units.items()})
    except StepLimitReached:
        return True


def _meet(
    sets: KernelSets, sites: Sequence[tuple[int, Site]], around: int, units: Mapping[int, tuple[int, int]]
) -> bool:
    own, element, most = list[str](), list[str](), max(depth for _, depth in units.values())
    for k, site in sites:
        number, depth = units[k]
        instance = f"s{k}[{iterators(len(site.scopes))}]"
        outer, inner = (", ".join(f"i{d}" for d in range(a, b)) for a, b in ((0, around), (around, depth)))
        tail = ["0"] * (most - depth)
        own.append(f"{instance} -> [{', '.join(filter(None, [outer, str(number), inner, *tail]))}]")
        outside = [f"i{d}" for d in range(around)]
        place = ", ".join((*outside, *_told(sets.kernel, site.statement.target)))
        element.append(f"{instance} -> [{place}] : {sets.constraints(site.ancestors)}")
    touch, unit = sets.map(*element), sets.map(*own)
    alike = touch.apply_range(touch.reverse())
    return not alike.is_subset(unit.apply_range(unit.reverse()))


def _chosen(target: Access) -> tuple[object, ...]:
    """For each dimension the arrays that have its index, or nothing where that is no element."""
    return tuple((i.buffer, _chosen(i)) if isinstance(i, Access) else None for i in target.indices)


def _told(kernel: Kernel, access: Access) -> Iterator[str]:
    """The key that tells an element from others of its buffer: its indices, and those of distinct ones."""
    for index, dim in zip(access.indices, kernel.buffer(access.buffer).dims, strict=True):
        if isinstance(index, Access):
            yield from _told(kernel, index)
        else:
            yield "0" if dim.collapsed else isl_affine(index)


_Around = list[tuple[Scope | Guard, int | None]]
"""Scopes, each with its depth, and guards, outermost first."""


# -- the rewriting ---------------------------------------------------------------------------------------------
class _Rewrite:
    """A kernel with the sums that one part of it makes into elements of a buffer made in an array beside it."""

    def __init__(self, made: TextBeside, buffer: Buffer, part: AccumulatingPart) -> None:
        self.made, self.kernel, self.buffer, self.part = made, made.kernel, buffer, part
        kernel, inside = made.kernel, made.sites(part)
        self.sites = {number: site for number, site in inside if site.statement.target.buffer == buffer.name}
        self.written = {site.statement.target.buffer for _, site in inside}
        self.around = kernel.depth_of((*part.parent, part.first))
        self.name, self.flag = (fresh(kernel, f"{buffer.name}_{word}") for word in ("sum", "added"))
        self.dtype: DType = held_in(kernel, self.sites.values())

    def result(self) -> TextBeside:
        before, behind = (
            [(number, self._again(site, done)) for number, site in self.sites.items()]
            for done in (self._begun, self._rounded)
        )
        arrays = {self.name: self.dtype, self.flag: BOOL}
        return self.made.instead(self.part, self.buffer, self._summed, before, behind, arrays)

    def _summed(self, site: Site) -> tuple[Statement, ...]:
        """A statement of the part, that adds to the array instead. Iterations of some scopes around it (`together`)
        may add to one element beside each other."""
        node = site.statement
        inner = [(depth, scope) for depth, scope in enumerate(site.scopes) if depth >= self.around]
        together = {depth for depth, scope in inner if _TOGETHER.intersection(scope.marks)}
        flag, total = (Access(name, node.target.indices, node.target.loc) for name in (self.flag, self.name))
        set_by = "=" if together <= _iterators(node.target) else "|="
        return Statement(flag, set_by, where(node.condition, _YES), node.loc), replace(
            node.onto(total), loc=node.loc
        )

    def _begun(self, element: Access, condition: Expr | None, old: Statement) -> Iterator[Statement]:
        flag, total = (Access(name, element.indices) for name in (self.flag, self.name))
        yield Statement(total, "=", where(condition, _NOTHING), old.loc)
        yield Statement(flag, "=", where(condition, _NO), old.loc)

    def _rounded(self, element: Access, condition: Expr | None, old: Statement) -> Iterator[Statement]:
        flag, total = (Access(name, element.indices) for name in (self.flag, self.name))
        chosen = flag if condition is None else Op("and", (condition, flag))
        yield Statement(element, "=", where(chosen, Op("add", (element, total))), old.loc)
        yield Statement(flag, "=", where(condition, _NO), old.loc)

    # -- loops that run again --------------------------------------------------------------------------------
    def _again(
        self, site: Site, done: Callable[[Access, Expr | None, Statement], Iterator[Statement]]
    ) -> tuple[Node, ...]:
        """The loops around a statement that say which elements it adds to, with what is done to each of these."""
        statement, condition = site.statement, site.statement.condition
        indices, spread = list(statement.target.indices), tuple[int, ...]()
        if self._is_made_inside(statement):  # what is known here is only that it is an element
            condition, spread = None, statement.scatters
            if spread and any(ON_DEVICE.intersection(scope.marks) for scope in site.scopes):
                raise self._error(site, "at an index, or under a condition, that they work out beside it")
        told = {d for n, index in enumerate(indices) if n not in spread for d in _iterators(index)}
        kept = self._kept(site, frozenset(told), condition)
        old = [depth for _, depth in kept if depth is not None]
        new = substitute_iterators({depth: Affine.iterator(self.around + n) for n, depth in enumerate(old)})
        own = substitute_access(Access(self.buffer.name, tuple(indices)), new)
        condition = substitute_expr(condition, new) if condition is not None else None
        extents = [self.buffer.dims[dim].extent for dim in spread]
        element = replace(own, indices=_put(own.indices, spread, self.around + len(old)), loc=statement.target.loc)
        body = tuple[Node, ...](done(element, condition, statement))
        for extent in reversed(extents):
            body = (Scope(Extent((extent,)), body),)
        for node, _ in reversed(kept):
            if isinstance(node, Guard):
                body = (Guard(tuple([substitute_condition(c, new) for c in node.conditions]), body),)
            else:
                body = (Scope(substitute_extent(node.extent, new), body, node.marks, node.label),)
        return body

    def _is_made_inside(self, statement: Statement) -> bool:
        """Whether what an index or a condition reads is written by the part itself."""
        condition = statement.condition
        read = [*statement.index_reads, *(expr_accesses(condition) if condition is not None else ())]
        return not self.written.isdisjoint(access.buffer for access in read)

    def _kept(
        self, site: Site, told: frozenset[int], condition: Expr | None
    ) -> list[tuple[Scope | Guard, int | None]]:
        """The scopes, each with its depth, and guards around a statement that say which elements there are, given
        the iterators that its indices have."""
        needed = set(told)
        needed |= (
            {d for affine in affine_parts(condition) for d in affine.iterators} if condition is not None else set()
        )
        kept, depth = list[tuple[Scope | Guard, int | None]](), len(site.scopes)
        for node in reversed(site.ancestors[len(self.part.parent) :]):
            if isinstance(node, Guard):
                needed |= {d for c in node.conditions for side in (c.left, c.right) for d in side.iterators}
                kept.append((node, None))
                continue
            depth -= 1
            if depth in needed:
                needed |= {d for bound in node.extent.bounds for d in bound.iterators}
                kept.append((node if depth in told else self._by_one(site, node), depth))
        return kept[::-1]

    def _by_one(self, site: Site, scope: Scope) -> Scope:
        """A scope without its marks, whose iterations may have to do with one element. Raises KernelError where its
        threads run on a GPU."""
        if ON_DEVICE.intersection(scope.marks):
            raise self._error(site, "under a condition that does not say which element it is")
        return replace(scope, marks=())

    def _error(self, site: Site, how: str) -> KernelError:
        message = (
            f"threads add to {format_access(site.statement.target)} {how}, and it would be rounded to "
            f"{self.buffer.dtype} more than once: accumulate into a tmp of f32, and store that behind the loops"
        )
        source, span = place(self.kernel, site.path, site.statement.target)
        return KernelError(Diagnostic("narrow-sum", message, span, source))


_TOGETHER = frozenset({"v", *THREADS})
"""The marks of scopes whose iterations may add to one element."""

_NOTHING = Const(-0.0)
"""The initial value of a sum: adding to it gives what is added, and adding it leaves an element as it is."""

_YES, _NO = (Cast(BOOL, Const(value)) for value in (1, 0))


def _iterators(index: Affine | Access) -> frozenset[int]:
    return index.iterators if isinstance(index, Affine) else frozenset().union(*map(_iterators, index.indices))


def _put(indices: tuple[Affine | Access, ...], dims: Sequence[int], depth: int) -> tuple[Affine | Access, ...]:
    """Indices with iterators from `depth` on in some dimensions."""
    return tuple(Affine.iterator(depth + dims.index(d)) if d in dims else index for d, index in enumerate(indices))
