"""The value graph of a kernel: for each read of each statement, which writes it gets its value from.

It begins as the flow of the kernel (`dojoir.sets.flow`) and is brought into the form in which two kernels are
compared by two exact steps:

- `substitute`: a read of a temporary is replaced by the reads of the one assignment that it gets its value from
  (what inlining does to a text);
- `eliminate`: a statement that only passes a value on, a copy or the adding up of partial results, is taken out,
  its readers reading what it read.

Both are checked here against the flow itself. What does not fit raises `NotTransparent`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import combinations

import islpy as isl

from dojoir.ir.nodes import (
    Access,
    Buffer,
    Commuting,
    Const,
    Expr,
    Statement,
)
from dojoir.ir.rewriting.rewrite import replace_read
from dojoir.proof.certificate import Substitution
from dojoir.sets.flow import whole_flow
from dojoir.sets.flow_check import FlowInput, compute_flow
from dojoir.sets.flow_maps import Flow
from dojoir.sets.kernel_sets import KernelSets, isl_affine, iterators
from dojoir.support.derived import cached_property
from dojoir.support.frozen import dataclass
from dojoir.types.elaborate import definition_value
from dojoir.types.fma import contracted
from dojoir.types.identities import beginning


class NotTransparent(Exception):
    """A step of the graph that the flow does not allow: why, and the statement it is about."""

    def __init__(self, message: str, site: int) -> None:
        super().__init__(message)
        self.message, self.site = message, site


@dataclass(frozen=True)
class Slot:
    """One read of a statement: its isl name, its access, its dimensions after the iterators (gathered indices),
    and their bounds."""

    name: str
    access: Access
    extra: tuple[str, ...]
    bounds: tuple[str, ...]


class _Slots(dict[int, list[Slot]]):
    """The reads of each statement, made when they are first asked for."""

    def __init__(self, sets: KernelSets) -> None:
        super().__init__()
        self._sets = sets

    def __missing__(self, site: int) -> list[Slot]:
        bounds = self._sets.gather_bounds
        self[site] = [
            Slot(read.name, read.access, tuple(f"g{d}" for d in read.gathers), bounds(read))
            for read in self._sets.reads[site]
        ]
        return self[site]


class Graph:
    """The graph of one kernel. `values` and `slots` hold for each statement its expression and its reads. The
    accumulations by the statements `ordered` read their own elements. Of the values that flow through the buffers
    `without`, it says nothing.

    What a reader depends on is a multiset of free accumulations. A statement that is taken out passes on what it
    reads, and no accumulation may come to a reader twice by that (`_check_once`): the relation `sources` could not
    say so.
    """

    def __init__(self, sets: KernelSets, ordered: frozenset[int], without: Collection[str] = ()) -> None:
        self.sets = sets
        self.ordered = ordered
        self.without = without
        self.values: list[Expr] = [site.statement.term for site in sets.kernel.sites]
        self.slots = _Slots(sets)

    @cached_property
    def _flow(self) -> Flow:
        return whole_flow(self.sets, self.ordered, self.without)

    @cached_property
    def sources(self) -> isl.UnionMap:
        """Each write to the reads that get a value from it."""
        return self._flow.sources

    @cached_property
    def initial(self) -> isl.UnionMap:
        """Each read to the elements whose first value it may get."""
        return self._flow.initial

    def tuple_text(self, site: int, slot: Slot | None = None, name: str = "s") -> str:
        """`s3[i0, i1]`, or the tuple of one of its reads."""
        own = iterators(len(self.sets.kernel.sites[site].scopes))
        if slot is None:
            return f"{name}{site}[{own}]"
        return f"{slot.name}[{', '.join(filter(None, [own, *slot.extra]))}]"

    # -- substitution ------------------------------------------------------------------------------------
    def substitute(self, step: Substitution) -> None:
        """Replaces a read by the expression that gave its value. Raises NotTransparent if it is not the value of
        that instance, always and alone."""
        kernel = self.sets.kernel
        if not 0 <= step.ordinal < len(self.slots[step.site]):
            raise NotTransparent("there is no such read", step.site)
        slot = self.slots[step.site][step.ordinal]
        definition = kernel.sites[step.definition].statement
        if definition.accumulation is not None or slot.extra:
            raise NotTransparent("only a plain assignment that is read at an affine index has one value", step.site)
        at = ", ".join(isl_affine(a) for a in step.iterators)
        site = kernel.sites[step.site]
        where = self.sets.constraints(site.ancestors)
        claimed = self.sets.map(
            f"{self.tuple_text(step.site, slot)} -> s{step.definition}[{at}] : {where}"
        ).reverse()
        readers = claimed.range()
        actual = self.sources.intersect_range(readers)
        if not actual.is_equal(claimed) or not self.initial.intersect_domain(readers).is_empty():
            raise NotTransparent("the read does not always get its value from that assignment", step.site)
        inlined = [
            Slot(f"{slot.name}x{n}", inner.access, inner.extra, inner.bounds)
            for n, inner in enumerate(self.slots[step.definition])
        ]
        moved = self.sources.subtract_range(readers)
        begun = self.initial.subtract_domain(readers)
        for inner, new in zip(self.slots[step.definition], inlined, strict=True):
            old = ", ".join(filter(None, [at, *inner.extra]))
            was = self.sets.map(f"{self.tuple_text(step.site, new)} -> {inner.name}[{old}] : {where}")
            moved = moved.union(self.sources.apply_range(was.reverse()))
            begun = begun.union(was.apply_range(self.initial))
        self.sources, self.initial = moved, begun
        value = definition_value(definition, step.iterators, {b.name: b for b in kernel.buffers})
        if value is None:
            raise NotTransparent("the value has no type of its own; cast it first", step.site)
        self.values[step.site] = replace_read(self.values[step.site], step.ordinal, value)
        self.slots[step.site][step.ordinal : step.ordinal + 1] = inlined

    # -- contraction -------------------------------------------------------------------------------------
    def contract(self, sites: Iterable[int]) -> None:
        """Writes every product that some statements add as an `fma`. Only for results that may be rounded
        otherwise."""
        buffers = {buffer.name: buffer for buffer in self.sets.kernel.buffers}
        for k in sites:
            self.values[k], self.slots[k] = contracted(self.values[k], self.slots[k], buffers)

    # -- elimination -------------------------------------------------------------------------------------
    def eliminate(self, site: int) -> None:
        """Takes out a copy, or an accumulation of partial results. Raises NotTransparent if it is neither."""
        statement = self.sets.kernel.sites[site].statement
        value = self.values[site]
        if not isinstance(value, Access) or len(self.slots[site]) != 1 or self.slots[site][0].extra:
            raise NotTransparent("the statement does more than pass a value on", site)
        if self._dtype(value) != self._dtype(statement.target):
            raise NotTransparent("the statement converts the value it passes on", site)
        if site in self.ordered:
            raise NotTransparent("the order of the accumulations counts", site)
        node = self.sets.map(f"{self.tuple_text(site)} -> {self.tuple_text(site)}").domain()
        slot = self.tuple_text(site, self.slots[site][0])
        to_node = self.sets.map(f"{slot} -> {self.tuple_text(site)}")
        into = self.sources.intersect_range(to_node.domain()).apply_range(to_node)
        begins = self.initial.intersect_domain(to_node.domain()).apply_domain(to_node)
        rest = self.sources.subtract_range(to_node.domain())
        out = rest.intersect_domain(node)
        rest = rest.subtract_domain(node)
        again = into.intersect_domain(node)
        entering = into.subtract_domain(node)
        if not again.is_empty():
            first = entering
            entering, begins = self._along(site, again, entering, begins)
            # An instance of a chain is a reader like another, of the instances before it and of what enters there.
            self._check_once(site, entering, again, first)
        if statement.accumulation is not None:
            entering = self._without_neutral(site, statement, entering, begins)
        self._check_once(site, entering, out, rest)
        self.sources = rest.union(entering.apply_range(out))
        self.initial = self.initial.subtract_domain(to_node.domain()).union(
            out.reverse().apply_range(begins) if not begins.is_empty() else begins
        )

    def _along(
        self, site: int, again: isl.UnionMap, entering: isl.UnionMap, begins: isl.UnionMap
    ) -> tuple[isl.UnionMap, isl.UnionMap]:
        """The sources that each instance of a copy hands on, where some instances read what others wrote. They are
        all that `entering` and `begins` give to it, or to one that it has its value from, in any number of steps
        of `again`.

        Where isl knows the closure of `again` exactly, that says it. Else it is guessed, and the guess held against

            sources = entering + (sources of those it reads),  begun = begins + (begun of those it reads).

        These equations have one solution. A value is read after it was written, so the instances of a call,
        finitely many, can be taken in the order in which they run, and what holds of each follows from those before
        it. Whatever solves the equations is what is asked for, wherever it comes from. The guess is the flow of a
        kernel in which what enters the chain is written to the element in which the chain hands it on.
        """
        closure, exact = again.transitive_closure()
        if exact:
            return entering.union(entering.apply_range(closure)), begins.union(begins.apply_domain(closure))
        elements, numbers = self.sets.map(self.sets.write_text(site)), self.sets.numbers
        added = self.accumulations()
        sources, begun = compute_flow(
            FlowInput(
                entering.subtract_domain(added).apply_range(elements),
                entering.intersect_domain(added).apply_range(elements),
                elements,
                self.sets.map(*map(self.sets.schedule_text, numbers)),
            ),
            [self.sets.kernel.sites[k] for k in numbers],
        )
        if not (
            sources.is_equal(entering.union(sources.apply_range(again)))
            and begun.is_equal(begins.union(begun.apply_domain(again)))
        ):
            raise NotTransparent("the chain of copies is not affine", site)
        return sources, begun

    def _dtype(self, access: Access) -> object:
        return self.sets.kernel.buffer(access.buffer).dtype

    def _without_neutral(
        self, site: int, statement: Statement, entering: isl.UnionMap, begins: isl.UnionMap
    ) -> isl.UnionMap:
        """Partial results, without the neutral values that they begin with."""
        if not begins.is_empty():
            raise NotTransparent("partial results begin with what the caller gave", site)
        begin = beginning(statement.op, self.sets.kernel.buffer(statement.target.buffer).dtype)
        for k, other in enumerate(self.sets.kernel.sites):
            mine = self.sets.map(f"{self.tuple_text(k)} -> {self.tuple_text(k)}").domain()
            if entering.intersect_domain(mine).is_empty():
                continue
            value, op = self.values[k], other.statement.accumulation
            if op is None and isinstance(value, Const) and value.value == begin:
                entering = entering.subtract_domain(mine)
            elif other.statement.commuting != statement.commuting or k in self.ordered:
                raise NotTransparent(f"partial results of {op or '='} are accumulated with {statement.op}", site)
        return entering

    def _check_once(self, site: int, entering: isl.UnionMap, out: isl.UnionMap, rest: isl.UnionMap) -> None:
        """Every accumulation must reach a reader once: by one instance of `site`, and by no other way."""
        counted = self.accumulations()
        entering = entering.intersect_domain(counted)
        if entering.is_empty() or out.is_empty():
            return
        pairs = entering.reverse().range_product(out)
        if not pairs.is_injective():
            raise NotTransparent("an accumulation would count twice", site)
        if not entering.apply_range(out).is_disjoint(rest):
            raise NotTransparent("an accumulation would count twice", site)

    def readers(self, sites: Iterable[int]) -> isl.UnionSet:
        """Every read of the given statements, and every returned element of which something is said here."""
        pieces: list[str] = []
        for k in sites:
            where = self.sets.constraints(self.sets.kernel.sites[k].ancestors)
            pieces += [
                f"{self.tuple_text(k, slot)} -> [] : {' and '.join((where, *slot.bounds))}"
                for slot in self.slots[k]
            ]
            if k in self.ordered:
                pieces.append(f"{self.tuple_text(k, name='t')} -> [] : {where}")
        pieces += [self.sets.box_text(buffer, f"out_{buffer.name}") for buffer in self.returned]
        return self.sets.map(*pieces).domain()

    @property
    def returned(self) -> list[Buffer]:
        """The buffers that a call returns and of which something is said here."""
        return [buffer for buffer in self.sets.returned if buffer.name not in self.without]

    def reading(self, sites: Collection[int]) -> isl.UnionMap:
        """Each read of the given statements to the instance that makes it."""
        reads = [(self.tuple_text(k, slot), k) for k in sites for slot in self.slots[k]]
        reads += [(self.tuple_text(k, name="t"), k) for k in self.ordered.intersection(sites)]
        return self.sets.map(*(f"{read} -> {self.tuple_text(k)}" for read, k in reads))

    def instances(self, sites: Iterable[int]) -> isl.UnionSet:
        """All that may be instances of the given statements."""
        return self.sets.map(*(f"{self.tuple_text(k)} -> {self.tuple_text(k)}" for k in sites)).domain()

    def accumulations(self, among: Iterable[int] | None = None) -> isl.UnionSet:
        """The instances of the free accumulations, of some statements if given."""
        sites, numbers = self.sets.kernel.sites, self.sets.numbers if among is None else among
        free = [k for k in numbers if sites[k].statement.accumulation is not None and k not in self.ordered]
        return self.instances(free)

    def mixes_operators(self, sources: isl.UnionMap) -> bool:
        """Whether free accumulations by several operators reach one reader: the set of them does not say in which
        order they apply. `sources` is from statements of this kernel to readers of any."""
        numbers: dict[Commuting | None, list[int]] = {}
        for k, site in enumerate(self.sets.kernel.sites):
            numbers.setdefault(site.statement.commuting, []).append(k)
        reached = [sources.intersect_domain(self.accumulations(some)).range() for some in numbers.values()]
        return any(not some.is_disjoint(others) for some, others in combinations(reached, 2))


# -- expressions ---------------------------------------------------------------------------------------------
