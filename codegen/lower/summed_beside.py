"""Sums of narrow floats that no variable carries: they are made in an array of f32 beside the elements.

What is accumulated into f16, bf16 or a narrower float is summed in f32 and rounded once. A variable does that where
a loop adds to one element (`carry`, `thread_sums`, lanes, collectives). Where it adds to several, one after another
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
from dataclasses import field, replace
from functools import cached_property

from dojoir.codegen.lower.threads import THREADS
from dojoir.errors import Diagnostic, KernelError
from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import BOOL, F32, DType
from dojoir.ir.instruction import Use
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
    is_inside,
    substitute_access,
    substitute_condition,
    substitute_expr,
    substitute_extent,
    substitute_iterators,
    with_body,
)
from dojoir.ir.text import format_access, lines
from dojoir.ir.where import place
from dojoir.proof.core.marks import BLOCK, GRID
from dojoir.sets.kernel_sets import KernelSets, isl_affine, iterators, sets_of
from dojoir.sets.limits import StepLimitReached, limited_in_part
from dojoir.support.frozen import dataclass
from dojoir.types.elaborate import natural_type

OWN = frozenset({*GRID, *BLOCK, "lane", "p"})
"""The marks of scopes whose iterations add to elements of their own: such a scope is gone into."""

STEP_LIMIT = 200_000
"""How many isl operations it may take to find that each element is rounded once as it is."""

Carriers = Mapping[Path, Path]
"""The statements whose sums variables carry, each with the scope behind which that goes into the element."""


@dataclass(frozen=True)
class Part:
    """The children of the node at `parent` from number `first` to `last`: all that they do with a buffer is to add
    to its elements."""

    parent: Path
    first: int
    last: int

    def holds(self, path: Path) -> bool:
        own = len(self.parent)
        return is_inside(path, self.parent) and len(path) > own and self.first <= path[own] <= self.last


def is_narrow(buffer: Buffer) -> bool:
    """Whether sums of elements of a buffer are rounded to a float narrower than f32."""
    return buffer.dtype.is_float and buffer.dtype.bits < 32


def has_narrow_sums(kernel: Kernel) -> bool:
    """Whether a kernel adds to elements of narrow floats in an order that is free."""
    return kernel.fp != "strict" and any(
        site.statement.accumulation == "+=" and is_narrow(kernel.buffer(site.statement.target.buffer))
        for site in kernel.sites
    )


@dataclass(frozen=True)
class Beside:
    """A kernel with sums in arrays beside their elements: the place in the text of each statement, and the buffers
    that the arrays are for."""

    text: Kernel
    kernel: Kernel
    origins: tuple[Path, ...]
    arrays: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def _places(self) -> Mapping[Path, Path]:
        return {site.path: origin for site, origin in zip(self.kernel.sites, self.origins, strict=True)}

    @cached_property
    def lines(self) -> dict[Path, str]:
        """The line of each node, that of a statement as it was in the text."""
        now, were = (dict(lines(kernel, names=True)) for kernel in (self.kernel, self.text))
        found = {path: line.lstrip("| ") for path, line in now.items() if path}
        return {**found, **{path: were[origin].lstrip("| ") for path, origin in self._places.items()}}

    def place(self, path: Path) -> Path:
        """The place in the text of the statement at a path."""
        return self._places[path]

    def named(self, access: Access) -> Access:
        """An access by the name in the text."""
        return replace(access, buffer=self.arrays.get(access.buffer, access.buffer))


def with_sums_beside(kernel: Kernel, carriers: Callable[[Kernel], Carriers]) -> Beside:
    """The kernel with arrays of f32 for the sums of narrow floats that would be rounded more than once, those of
    statements in `carriers` being carried as said there.

    Raises KernelError where threads of a GPU add to elements under a condition that tells no threads apart.
    """
    made = Beside(kernel, kernel, tuple(site.path for site in kernel.sites))
    if not has_narrow_sums(kernel):
        return made
    for buffer in kernel.buffers:
        if is_narrow(buffer):
            known, now = carriers(made.kernel), made.kernel
            parts = list(_parts(now, buffer.name, (), now.body))
            for part in reversed(parts):  # from the end: what is before stays in its place
                if _is_rounded_again(now, buffer.name, part, known):
                    made = _Rewrite(made, buffer, part).result()
    return made


def _parts(kernel: Kernel, name: str, parent: Path, nodes: tuple[Node, ...]) -> Iterator[Part]:
    """The largest parts of a tree that only add to elements of a buffer."""
    run: list[int] = []

    def ended() -> Iterator[Part]:
        match [nodes[number] for number in run]:
            case []:
                return
            case [Guard() | Scope() as only] if isinstance(only, Guard) or OWN.intersection(only.marks):
                yield from _parts(kernel, name, (*parent, run[0]), only.body)
            case _:
                yield Part(parent, run[0], run[-1])

    for number, node in enumerate(nodes):
        mentions = list(_mentions(node, name))
        if all(mentions):
            run += [number] if mentions else []
            continue
        yield from ended()
        run = []
        if not isinstance(node, Statement) and not _is_instruction(node):
            yield from _parts(kernel, name, (*parent, number), node.body)
    yield from ended()


def _is_instruction(node: Node) -> bool:
    return isinstance(node, Scope) and any(isinstance(hint, Use) for hint in node.hints)


def _mentions(node: Node, name: str) -> Iterator[bool]:
    """For each statement that touches a buffer, whether all that it does is to add to an element."""
    if not isinstance(node, Statement):
        for child in node.body:
            yield from (found and not _is_instruction(node) for found in _mentions(child, name))
    elif name in node.buffers:
        read = [access for access in node.term_reads if access.buffer == name]
        yield node.accumulation == "+=" and node.target.buffer == name and not read


# -- whether an element is rounded more than once --------------------------------------------------------------
def _is_rounded_again(kernel: Kernel, name: str, part: Part, carriers: Carriers) -> bool:
    """Whether two sums that are rounded by themselves go into one element."""
    sites = [
        (k, site)
        for k, site in enumerate(kernel.sites)
        if part.holds(site.path) and site.statement.target.buffer == name
    ]
    around = kernel.depth_of(part.parent) + isinstance(kernel.at(part.parent), Scope) if part.parent else 0
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


_Done = Callable[[Access, Expr | None, Statement], Iterator[Statement]]
"""The action on an element, under a condition if any, for a statement that adds to it."""

_Around = list[tuple[Scope | Guard, int | None]]
"""Scopes, each with its depth, and guards, outermost first."""


# -- the rewriting ---------------------------------------------------------------------------------------------
class _Rewrite:
    """A kernel with the sums that one part of it makes into elements of a buffer made in an array beside it."""

    def __init__(self, made: Beside, buffer: Buffer, part: Part) -> None:
        self.made, self.kernel, self.buffer, self.part = made, made.kernel, buffer, part
        kernel = made.kernel
        inside = [site for site in kernel.sites if part.holds(site.path)]
        self.sites = [site for site in inside if site.statement.target.buffer == buffer.name]
        self.written = {site.statement.target.buffer for site in inside}
        self.around = kernel.depth_of((*part.parent, part.first))
        self.name, self.flag = (fresh(kernel, f"{buffer.name}_{word}") for word in ("sum", "added"))
        types = {b.name: b for b in kernel.buffers}
        found = [natural_type(_added(site.statement), types) or F32 for site in self.sites]
        self.dtype: DType = max(F32, *found, key=lambda dtype: dtype.bits)

    def result(self) -> Beside:
        part, kernel = self.part, self.kernel
        around = kernel.at(part.parent) if part.parent else kernel
        assert not isinstance(around, Statement)
        nodes = around.body
        inner = [new for node in nodes[part.first : part.last + 1] for new in self._summed(node, self.around)]
        before, behind = (
            [node for site in self.sites for node in self._again(site, done)]
            for done in (self._begun, self._rounded)
        )
        body = (*nodes[: part.first], *before, *inner, *behind, *nodes[part.last + 1 :])
        storage = self.buffer.storage if self.buffer.role == "tmp" else "heap"
        arrays = (
            Buffer("tmp", self.name, self.dtype, self.buffer.dims, storage),
            Buffer("tmp", self.flag, BOOL, self.buffer.dims, storage),
        )
        kernel = kernel.evolve(buffers=(*kernel.buffers, *arrays))
        kernel = (
            kernel.evolve(body=body)
            if isinstance(around, Kernel)
            else kernel.replace_node(part.parent, with_body(around, body))
        )
        return Beside(
            self.made.text,
            kernel,
            self._origins(),
            {**self.made.arrays, self.name: self.buffer.name, self.flag: self.buffer.name},
        )

    def _origins(self) -> tuple[Path, ...]:
        origins, part = self.made.origins, list[Path]()
        numbers = [k for k, site in enumerate(self.kernel.sites) if self.part.holds(site.path)]
        for k in numbers:
            part += [origins[k]] * (2 if self.kernel.sites[k] in self.sites else 1)
        again = [origins[k] for k in numbers if self.kernel.sites[k] in self.sites for _ in range(2)]
        return (*origins[: numbers[0]], *again, *part, *again, *origins[numbers[-1] + 1 :])

    def _summed(self, node: Node, depth: int, together: frozenset[int] = frozenset()) -> tuple[Node, ...]:
        """A node of the part in so many scopes, that adds to the array instead. Iterations of scopes at the depths
        `together` may add to one element beside each other."""
        if isinstance(node, Scope):
            together = together | {depth} if _TOGETHER.intersection(node.marks) else together
            depth += 1
        if not isinstance(node, Statement):
            return (
                with_body(node, tuple(new for child in node.body for new in self._summed(child, depth, together))),
            )
        if node.target.buffer != self.buffer.name:
            return (node,)
        flag, total = (Access(name, node.target.indices, node.target.loc) for name in (self.flag, self.name))
        set_by = "=" if together <= _iterators(node.target) else "|="
        return Statement(flag, set_by, _where(node.condition, _YES), node.loc), replace(
            node.onto(total), loc=node.loc
        )

    def _begun(self, element: Access, condition: Expr | None, old: Statement) -> Iterator[Statement]:
        flag, total = (Access(name, element.indices) for name in (self.flag, self.name))
        yield Statement(total, "=", _where(condition, _NOTHING), old.loc)
        yield Statement(flag, "=", _where(condition, _NO), old.loc)

    def _rounded(self, element: Access, condition: Expr | None, old: Statement) -> Iterator[Statement]:
        flag, total = (Access(name, element.indices) for name in (self.flag, self.name))
        chosen = flag if condition is None else Op("and", (condition, flag))
        yield Statement(element, "=", _where(chosen, Op("add", (element, total))), old.loc)
        yield Statement(flag, "=", _where(condition, _NO), old.loc)

    # -- loops that run again --------------------------------------------------------------------------------
    def _again(
        self, site: Site, done: Callable[[Access, Expr | None, Statement], Iterator[Statement]]
    ) -> tuple[Node, ...]:
        """The loops around a statement that say which elements it adds to, with what is done to each of these."""
        statement, condition = site.statement, site.statement.condition
        indices, spread = list(statement.target.indices), tuple[int, ...]()
        if self._is_made_inside(statement):  # what is known here is only that it is an element
            condition, spread = None, statement.scatters
            if spread and any(_ON_DEVICE.intersection(scope.marks) for scope in site.scopes):
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
        if _ON_DEVICE.intersection(scope.marks):
            raise self._error(site, "under a condition that does not say which element it is")
        return replace(scope, marks=())

    def _error(self, site: Site, how: str) -> KernelError:
        message = (
            f"threads add to {format_access(site.statement.target)} {how}, and it would be rounded to "
            f"{self.buffer.dtype} more than once: accumulate into a tmp of f32, and store that behind the loops"
        )
        source, span = place(self.kernel, site.path, site.statement.target)
        return KernelError(Diagnostic("narrow-sum", message, span, source))


_ON_DEVICE = frozenset({*GRID, *THREADS})

_TOGETHER = frozenset({"v", *THREADS})
"""The marks of scopes whose iterations may add to one element."""

_NOTHING = Const(-0.0)
"""The initial value of a sum: adding to it gives what is added, and adding it leaves an element as it is."""

_YES, _NO = (Cast(BOOL, Const(value)) for value in (1, 0))


def fresh(kernel: Kernel, name: str) -> str:
    """A name that nothing in a kernel has."""
    taken = {*(b.name for b in kernel.buffers), *(size.name for size in kernel.sizes), kernel.name}
    return next(made for n in range(len(taken) + 1) if (made := f"{name}{n or ''}") not in taken)


def _added(statement: Statement) -> Expr:
    match statement.term:
        case Op("when", (_, value)):
            return value
    return statement.term


def _where(condition: Expr | None, value: Expr) -> Expr:
    return value if condition is None else Op("when", (condition, value))


def _iterators(index: Affine | Access) -> frozenset[int]:
    return index.iterators if isinstance(index, Affine) else frozenset().union(*map(_iterators, index.indices))


def _put(indices: tuple[Affine | Access, ...], dims: Sequence[int], depth: int) -> tuple[Affine | Access, ...]:
    """Indices with iterators from `depth` on in some dimensions."""
    return tuple(Affine.iterator(depth + dims.index(d)) if d in dims else index for d, index in enumerate(indices))
