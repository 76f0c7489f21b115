"""A kernel as exact integer sets: domains, accesses and schedule, with the runtime sizes as parameters.

Statement instance `s3[i0, i1]` is the fourth statement of the text at {0}=i0, {1}=i1. Its n-th read is
`s3r0[i0, i1]`, with one more dimension for each index that is gathered, running over all values that a valid
gather may take. `out_y[e0, e1]` is the read of what a call returns. Sizes are parameters `n_N`, elements of
storage are `b_x[e0, e1]` with collapsed dimensions held at 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, reduce
from typing import ClassVar

import islpy as isl

from dojoir.ir.affine import Affine, Extremum, FloorDiv, Iter, Mod, SizeVar
from dojoir.ir.nodes import (
    Access,
    Accumulated,
    Buffer,
    Commuting,
    Condition,
    Extent,
    Guard,
    Kernel,
    Path,
    Scope,
    Site,
    holds,
)
from dojoir.ir.places import ancestors
from dojoir.sets.flow_maps import Flow
from dojoir.sets.ranges import is_nonnegative
from dojoir.support.derived import cached_property
from dojoir.support.frozen import dataclass
from dojoir.support.memo import Memo, charge, single, spent
from dojoir.types.rounding import FORMATS

SOME_SIZES = (1, 2, 3, 5, 8, 256, 4096)
"""The sizes tried before isl is asked: a false condition usually fails at one of them."""


class Workspace:
    """One isl context with what was parsed in it. isl is not thread-safe: each thread has its own."""

    def __init__(self) -> None:
        self.context = isl.Context()

    def union_map(self, sizes: str, pieces: tuple[str, ...]) -> isl.UnionMap:
        """The union of maps given as text, for the sizes in a set given as text. Each is parsed once."""
        found = _maps.get((sizes, pieces))
        if found is not None:
            return found
        if len(pieces) == 1:
            found = self._parsed(pieces[0]).intersect_params(self.sizes(sizes))
        elif pieces:
            found = reduce(isl.UnionMap.union, (self.union_map(sizes, (piece,)) for piece in pieces))
        else:
            found = isl.UnionMap.read_from_str(self.context, "{ }").intersect_params(self.sizes(sizes))
        return _maps.put((sizes, pieces), found)

    def _parsed(self, piece: str) -> isl.UnionMap:
        """The map that a text gives. Most of such a text is what bounds the iterators, which all accesses of a
        statement share: that part is parsed once, and the rest intersected with it."""
        before, _, where = piece.partition(" : ")
        found = _DOMAIN.match(before)
        if found is None or not where or ";" in piece or not _named(where) <= _named(found[3]) | _WORDS:
            return isl.UnionMap.read_from_str(self.context, piece)
        prefix, name, dims = found.groups()
        text = f"{prefix}{{ [{dims}] : {where}"
        domain = _domains.get(text)
        if domain is None:
            domain = _domains.put(text, self.set(text))
        named = domain.set_tuple_name(name) if name else domain
        return isl.UnionMap.read_from_str(self.context, f"{before} }}").intersect_domain(named.to_union_set())

    def set(self, text: str) -> isl.Set:
        return isl.Set.read_from_str(self.context, text)

    def sizes(self, text: str) -> isl.Set:
        """The set of sizes that a text gives. Each is parsed once."""
        found = _sizes.get(text)
        return found if found is not None else _sizes.put(text, self.set(text))

    def is_empty(self, sizes: str, piece: str) -> bool:
        """Whether a map given as text is empty for all sizes in a set given as text. Each is asked once."""
        found = _empty.get((sizes, piece))
        if found is None:
            found = _empty.put((sizes, piece), bool(self.union_map(sizes, (piece,)).is_empty()))
        return found

    def sets_of(self, kernel: Kernel) -> KernelSets:
        """The sets of a kernel, computed once."""
        found = _kernels.get(kernel)
        return found if found is not None else _kernels.put(kernel, KernelSets(kernel, self))


_DOMAIN = re.compile(r"((?:\[[^]]*\] -> )?)\{ (\w*)\[([^]]*)\] -> ")
"""How a map begins: the sizes, and the name and the dimensions of its domain."""

_WORDS = {"and", "or", "not", "mod", "floor", "true", "min", "max"}
"""The words of a condition besides names."""


def _named(condition: str) -> set[str]:
    """The names in a condition, apart from sizes."""
    return set(re.findall(r"\b(?!n_)[A-Za-z_]\w*", condition))


_domains: Memo[str, isl.Set] = Memo(4096, of_key=True)
_maps: Memo[tuple[str, tuple[str, ...]], isl.UnionMap] = Memo(20_000, of_key=True)
_empty: Memo[tuple[str, str], bool] = Memo(20_000, of_key=True)
_sizes: Memo[str, isl.Set] = Memo(256, of_key=True)
_kernels: Memo[Kernel, KernelSets] = Memo(256, of_key=True)


def workspace() -> Workspace:
    """This thread's workspace, as long as its tables."""
    return single(Workspace, Workspace)


def sets_of(kernel: Kernel) -> KernelSets:
    """The sets of a kernel in this thread's workspace."""
    return workspace().sets_of(kernel)


# -- text for isl --------------------------------------------------------------------------------------------
@lru_cache(maxsize=8192)
def isl_affine(affine: Affine) -> str:
    """An affine expression in isl's notation."""
    parts = [str(affine.offset)] if affine.offset or not affine.terms else []
    for atom, coefficient in affine.terms:
        match atom:
            case SizeVar(name):
                text = f"n_{name}"
            case Iter(depth):
                text = f"i{depth}"
            case FloorDiv(numerator, divisor):
                text = f"floor(({isl_affine(numerator)})/{divisor})"
            case Mod(numerator, divisor):
                text = f"(({isl_affine(numerator)}) mod {divisor})"
            case Extremum(word, some):
                text = f"{word}({', '.join(map(isl_affine, some))})"
        parts.append(text if coefficient == 1 else f"{coefficient}*{text}")
    return " + ".join(parts)


def isl_condition(condition: Condition) -> str:
    relation = "=" if condition.relation == "==" else condition.relation
    return f"{isl_affine(condition.left)} {relation} {isl_affine(condition.right)}"


@lru_cache(maxsize=4096)
def isl_extent(extent: Extent, depth: int) -> str:
    return f"0 <= i{depth} and {' and '.join(_below(depth, bound) for bound in extent.bounds)}"


def _below(depth: int, bound: Affine) -> str:
    """The text of: iterator `depth` is less than `bound`. A quotient is multiplied out, since isl is much faster
    without: over the integers i < n // d + r is d * (i + 1 - r) <= n, for d > 0."""
    quotients = [atom for atom, _ in bound.terms if isinstance(atom, FloorDiv | Mod)]
    match quotients:
        case [FloorDiv(numerator, divisor) as quotient] if bound.coefficient(quotient) == 1:
            rest = bound - Affine.atom(quotient)
            return f"{isl_affine((Affine.iterator(depth) + 1 - rest) * divisor)} <= {isl_affine(numerator)}"
    return f"i{depth} < {isl_affine(bound)}"


def iterators(count: int) -> str:
    return ", ".join(f"i{depth}" for depth in range(count))


@dataclass(frozen=True)
class Read:
    """The n-th read of a statement. `name` is its isl name, `gathers` the dims of the buffer it gathers."""

    site: int
    ordinal: int
    access: Access

    @property
    def name(self) -> str:
        return f"s{self.site}r{self.ordinal}"

    @cached_property
    def gathers(self) -> tuple[int, ...]:
        return tuple(d for d, index in enumerate(self.access.indices) if isinstance(index, Access))


class KernelSets:
    """The sets of one kernel. Everything is computed when first asked for."""

    held_bytes: ClassVar[int] = 40_000

    def __init__(self, kernel: Kernel, workspace: Workspace) -> None:
        self.kernel = kernel
        self.workspace = workspace
        names = ", ".join(f"n_{name}" for name in kernel.runtime_sizes)
        self.prefix = f"[{names}] -> " if names else ""
        self.flows: dict[tuple[str, frozenset[int]], tuple[Flow, int]] = {}
        """The flows that are known, by the buffer and the ordered accumulations, and the steps that each took."""
        self.orders: dict[range, tuple[isl.UnionMap, int]] = {}
        """The dependences among some statements that are known, and the steps that each took."""
        self._domains: tuple[isl.UnionSet, int] | None = None
        self.inside: dict[int, int] = {}
        """The statements all indices of which are known to be in bounds, and the steps that each one took."""

    # -- parameters and domains --------------------------------------------------------------------------
    @cached_property
    def sizes(self) -> str:
        """`parameters` as text."""
        conditions = [f"n_{name} >= 1" for name in self.kernel.runtime_sizes]
        conditions += [isl_condition(fact) for fact in self.kernel.facts]
        return f"{self.prefix}{{ : {' and '.join(conditions) or 'true'} }}"

    @cached_property
    def parameters(self) -> isl.Set:
        """The sizes that a call may have: each at least 1, and the facts of the kernel."""
        return self.workspace.sizes(self.sizes)

    def is_empty(self, piece: str) -> bool:
        """Whether a map given as text without parameters is empty for all sizes that a call may have."""
        return self.workspace.is_empty(self.sizes, f"{self.prefix}{{ {piece} }}")

    def always(self, condition: Condition) -> bool:
        """Whether a condition on the sizes holds for all sizes that a call may have."""
        return self.implies((), condition)

    def implies(self, around: Sequence[Scope | Guard], condition: Condition) -> bool:
        """Whether a condition on the sizes and the iterators of `around` holds whenever something inside runs."""
        slack = {">=": condition.left - condition.right, "<=": condition.right - condition.left}
        if condition.relation in slack:
            scopes = [node for node in around if isinstance(node, Scope)]
            if is_nonnegative(slack[condition.relation], scopes):
                return True
        if any(self._fails(around, condition, sizes) for sizes in self.some_sizes):
            return False
        dims = f"[{iterators(sum(isinstance(node, Scope) for node in around))}]"
        return self.is_empty(f"{dims} -> [] : {self.constraints(around)} and not ({isl_condition(condition)})")

    @cached_property
    def some_sizes(self) -> list[dict[str, int]]:
        """Sizes that a call may have, all equal."""
        found = [dict.fromkeys(self.kernel.runtime_sizes, value) for value in SOME_SIZES]
        return [sizes for sizes in found if all(holds(fact, sizes, ()) for fact in self.kernel.facts)]

    def _fails(self, around: Sequence[Scope | Guard], condition: Condition, sizes: Mapping[str, int]) -> bool:
        """Whether the first iteration of everything in `around` runs, and the condition does not hold there."""
        first = (0,) * sum(isinstance(node, Scope) for node in around)
        return not holds(condition, sizes, first) and all(
            all(holds(c, sizes, first) for c in node.conditions)
            if isinstance(node, Guard)
            else all(bound.evaluate(sizes, first) > 0 for bound in node.extent.bounds)
            for node in around
        )

    def holds_around(self, path: Path, conditions: Sequence[Condition]) -> bool:
        """Whether conditions on the sizes and the iterators around the node at `path` hold whenever it runs."""
        around = ancestors(self.kernel, path)
        return all(self.implies(around, condition) for condition in conditions)

    def constraints(self, around: Iterable[Scope | Guard]) -> str:
        """The conditions under which something inside `around` (outermost first) runs."""
        conditions: list[str] = []
        depth = 0
        for node in around:
            if isinstance(node, Scope):
                conditions.append(isl_extent(node.extent, depth))
                depth += 1
            else:
                conditions += [isl_condition(condition) for condition in node.conditions]
        return " and ".join(conditions) or "true"

    def map(self, *pieces: str) -> isl.UnionMap:
        """The union of maps given as text without parameters, for the sizes that a call may have."""
        return self.workspace.union_map(self.sizes, tuple(f"{self.prefix}{{ {piece} }}" for piece in pieces))

    def domains_of(self, numbers: Iterable[int]) -> isl.UnionSet:
        """The instances of some statements."""
        sites = [(k, self.kernel.sites[k]) for k in numbers]
        pieces = (f"s{k}[{iterators(len(s.scopes))}] -> [] : {self.constraints(s.ancestors)}" for k, s in sites)
        return self.map(*pieces).domain()

    @property
    def domains(self) -> isl.UnionSet:
        """Every statement instance."""
        if self._domains is not None:
            charge(self._domains[1])
            return self._domains[0]
        start = spent()
        found = self.domains_of(self.numbers)
        self._domains = found, spent() - start
        return found

    @property
    def numbers(self) -> range:
        return range(len(self.kernel.sites))

    # -- accesses ----------------------------------------------------------------------------------------
    @cached_property
    def reads(self) -> tuple[tuple[Read, ...], ...]:
        """The reads of each statement: those of its value in order of evaluation."""
        return tuple(
            tuple(Read(k, n, access) for n, access in enumerate(site.statement.term_reads))
            for k, site in enumerate(self.kernel.sites)
        )

    def element(self, access: Access, gathered: Mapping[int, str], storage: bool) -> str:
        """The element that an access touches, in isl's notation; with `storage`, its place in storage, where
        collapsed dimensions are 0. `gathered` names the variable for each index that comes from data."""
        buffer = self.kernel.buffer(access.buffer)
        indices = []
        for d, index in enumerate(access.indices):
            if storage and buffer.dims[d].collapsed:
                indices.append("0")
            else:
                indices.append(gathered[d] if isinstance(index, Access) else isl_affine(index))
        return f"b_{buffer.name}[{', '.join(indices)}]"

    def read_text(self, read: Read, storage: bool = True) -> str:
        site = self.kernel.sites[read.site]
        gathered = {d: f"g{d}" for d in read.gathers}
        domain = ", ".join(filter(None, [iterators(len(site.scopes)), *gathered.values()]))
        conditions = [self.constraints(site.ancestors)]
        conditions += self.gather_bounds(read)
        element = self.element(read.access, gathered, storage)
        return f"{read.name}[{domain}] -> {element} : {' and '.join(conditions)}"

    def read_by_statement(self, read: Read) -> str:
        """The text of a read as an access of its statement: an index from data is any that a valid gather may
        take."""
        site, dims = self.kernel.sites[read.site], self.kernel.buffer(read.access.buffer).dims
        element = self.element(read.access, {d: f"g{d}" for d in read.gathers}, True)
        where = [self.constraints(site.ancestors), *self.gather_bounds(read, [not dim.collapsed for dim in dims])]
        return f"s{read.site}[{iterators(len(site.scopes))}] -> {element} : {' and '.join(where)}"

    def gather_bounds(self, read: Read, of: Sequence[bool] | None = None) -> tuple[str, ...]:
        """The bounds of the gathered indices of a read, or of those in the dims that `of` says: a valid gather
        stays inside the buffer."""
        dims = self.kernel.buffer(read.access.buffer).dims
        gathers = [d for d in read.gathers if of is None or of[d]]
        return tuple(f"0 <= g{d} < {isl_affine(dims[d].extent)}" for d in gathers)

    def write_text(self, number: int, storage: bool = True, name: str = "s") -> str:
        site = self.kernel.sites[number]
        element = self.element(site.statement.target, {}, storage)
        domain = f"{name}{number}[{iterators(len(site.scopes))}]"
        return f"{domain} -> {element} : {self.constraints(site.ancestors)}"

    def box_text(self, buffer: Buffer, name: str, storage: bool = True) -> str:
        """`name[e0, …] -> b_x[e0, …]` for every element of a buffer."""
        dims = [f"e{d}" for d in range(len(buffer.dims))]
        inside = [f"0 <= e{d} < {isl_affine(dim.extent)}" for d, dim in enumerate(buffer.dims)]
        stored = ["0" if storage and dim.collapsed else f"e{d}" for d, dim in enumerate(buffer.dims)]
        where = " and ".join(inside) or "true"
        return f"{name}[{', '.join(dims)}] -> b_{buffer.name}[{', '.join(stored)}] : {where}"

    # -- schedule ----------------------------------------------------------------------------------------
    @cached_property
    def time_dims(self) -> int:
        return max((len(s.path) + len(s.scopes) for s in self.kernel.sites), default=0) + 1

    def time(self, site: Site, path: Path | None = None, dims: int | None = None) -> list[str]:
        """When an instance runs, as a list of texts: the numbers of children and the iterators from the outside
        in, then zeros up to `dims`. `path` gives other numbers of children than the statement's own."""
        result: list[str] = []
        depth = 0
        for child, node in zip(path or site.path, (*site.ancestors, None), strict=True):
            result.append(str(child))
            if isinstance(node, Scope):
                result.append(f"i{depth}")
                depth += 1
        return result + ["0"] * ((dims or self.time_dims) - len(result))

    def schedule_text(self, number: int, read: Read | None = None, name: str = "s") -> str:
        """The schedule of a statement, or of one of its reads: both run when it does."""
        site = self.kernel.sites[number]
        own = iterators(len(site.scopes))
        time = f"[{', '.join(self.time(site))}]"
        if read is None:
            return f"{name}{number}[{own}] -> {time}"
        domain = ", ".join(filter(None, [own, *(f"g{d}" for d in read.gathers)]))
        return f"{read.name}[{domain}] -> {time}"

    def final_time(self, buffer: Buffer) -> str:
        """The schedule of the read of a returned buffer: after everything."""
        dims = ", ".join(f"e{d}" for d in range(len(buffer.dims)))
        time = [str(len(self.kernel.body))] + ["0"] * (self.time_dims - 1)
        return f"out_{buffer.name}[{dims}] -> [{', '.join(time)}]"

    @property
    def returned(self) -> tuple[Buffer, ...]:
        return tuple(b for b in self.kernel.buffers if b.role in {"out", "inout"})

    # -- accumulation ------------------------------------------------------------------------------------
    def is_ordered(self, number: int, strict: bool) -> bool:
        """Whether the order of this statement's accumulations into one element counts among themselves.

        Accumulation in integers, and with max and min, gives the same bits in any order. In floats, `+=` and `*=`
        do not; nor do max and min in a type without NaN: one of the values may be NaN, and is stored as a number.
        Where `strict` is true, that counts. The order of assignments that may leave an element counts always,
        that of statements which touch elements `apart` never.
        """
        statement = self.kernel.sites[number].statement
        match statement.commuting:
            case None:
                return statement.accumulation is not None
            case Accumulated(operator) if strict:
                dtype = self.kernel.buffer(statement.target.buffer).dtype
                if operator in {"max=", "min="}:
                    return dtype.is_float and FORMATS[dtype.name].overflow == "max"
                return dtype.is_float
        return False

    def ordered(self, strict: bool, free: Commuting | None = None) -> frozenset[int]:
        """The statements whose accumulations count in order; where those of one kind are left `free`, every other
        as well."""
        sites, others = self.kernel.sites, {None, free}
        return frozenset(
            k
            for k in self.numbers
            if self.is_ordered(k, strict) or (free is not None and sites[k].statement.commuting not in others)
        )

    def is_free(self, number: int) -> bool:
        """Whether a statement accumulates in an order that is free under the fp mode of the kernel."""
        is_accumulation = self.kernel.sites[number].statement.accumulation is not None
        return is_accumulation and not self.is_ordered(number, self.kernel.fp == "strict")

    def commute(self, one: int, other: int) -> bool:
        """Whether two statements may accumulate into one element in either order: in an order that is free, and by
        the same operator. Those of two operators do not commute: `(c * 2) + 1` is not `(c + 1) * 2`."""
        first, second = (self.kernel.sites[number].statement.commuting for number in (one, other))
        return first is not None and first == second and self.is_free(one) and self.is_free(other)
