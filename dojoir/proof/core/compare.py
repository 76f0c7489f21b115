"""Compares two kernels: do they perform the same operations on values that come from the same writes?"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import islpy as isl

from dojoir.errors import Diagnostic
from dojoir.ir.affine import Affine
from dojoir.ir.format import format_statement
from dojoir.ir.nodes import Access, Cast, Const, Expr, Index, Kernel, Op, Site, Statement, substitute_expr
from dojoir.ir.tree import MAY_ASSIGN, Commuting
from dojoir.ir.where import diagnostic_at
from dojoir.proof.certificate import stand_for
from dojoir.proof.claim import Claim
from dojoir.proof.core.padding import adding_zero
from dojoir.proof.core.unchanged import alike, alone, same_operations, settled
from dojoir.proof.core.value_graph import Graph, NotTransparent
from dojoir.sets.flow import users_of
from dojoir.sets.kernel_sets import isl_affine, iterators
from dojoir.support.frozen import dataclass
from dojoir.types.fma import has_fma, may_fuse


@dataclass(frozen=True)
class WrongInstances:
    """Instances of the kernel before that the certificate changes; `code` says how."""

    code: str
    kernel: Kernel
    instances: isl.UnionSet


@dataclass(frozen=True)
class StrayValues:
    """Writes of a kernel after that stand for nothing and cannot be taken out, to the reads that get their
    values."""

    kernel: Kernel
    values: isl.UnionMap


@dataclass(frozen=True)
class WrongFlow:
    """In terms of the kernel before, whose value graph is `graph`. The writes (or, where the values are `initial`,
    the elements as a call finds them) to the reads that would get their values and do not now. Or, where they are
    `lost`, that get them now and would not any more."""

    kernel: Kernel
    graph: Graph
    values: isl.UnionMap
    lost: bool = False
    initial: bool = False


Difference = Diagnostic | WrongInstances | StrayValues | WrongFlow
"""A difference between two kernels. A Diagnostic is one that their texts show."""


class Correspondence:
    """The value graphs of two kernels, and the map from the new one to the old one."""

    def __init__(self, claim: Claim, strict: bool) -> None:
        self.before, self.after, self.instances, self.strict = claim.before, claim.after, claim.certificate, strict
        self.old, self.new = claim.old, claim.new
        self.claim = claim
        self.alike = alike(claim, strict)
        self.settled = settled(claim, self.alike)
        self.unchanged = same_operations(claim)

    def difference(self) -> Difference | None:
        """The first difference between the two, or None.

        Accumulations are first all taken to be free. Where a value is then a set of accumulations by several
        operators, of which the order counts, those by one operator alone are left free, and each of the others is
        a read and a write. That is always right, and asks for more than need be. Each operator is tried, and where
        one comparison finds no difference there is none.
        """
        found = self._compared(None)
        if found is None or not _is_mixed(found):
            return found
        first = found
        for kind in dict.fromkeys(c for s in self.after.sites if (c := s.statement.commuting) is not None):
            found = self._compared(kind)
            if found is None:
                return None
            first = found if _is_mixed(first) else first
        return first

    def _compared(self, free: Commuting | None) -> Difference | None:
        """The first difference, where all accumulations are free, or those of the kind that is given."""
        self.old_graph, self.new_graph = (
            Graph(sets, sets.ordered(self.strict, free), self.settled) for sets in (self.old, self.new)
        )
        try:
            for step in self.instances.inlined:
                self.old_graph.substitute(step)
            for step in self.instances.extracted:
                self.new_graph.substitute(step)
        except NotTransparent as reason:
            return Diagnostic("several-values", str(reason))
        if not self.strict and (has_fma(self.before) or has_fma(self.after)):
            self._contract()
        found: Difference | None = self._operations() or self._instances()
        if found is not None:
            return found
        self._eliminate()
        return self._flows()

    def _contract(self) -> None:
        """Brings both sides in the form in which products are added, but for statements that are the same on both:
        they stay so."""
        origins = self.instances.origins
        numbers = {o.site for k, o in enumerate(origins) if o is not None and k not in self.unchanged}
        self.old_graph.contract(numbers)
        self.new_graph.contract(k for k, o in enumerate(origins) if o is not None and o.site in numbers)

    # -- 1. instances ------------------------------------------------------------------------------------
    def _instances(self) -> WrongInstances | None:
        known = alone(self.claim)
        numbers = [k for k in self.new.numbers if k not in known]
        mapping = stand_for(self.after, self.instances, numbers)
        named = sorted({origin.site for k in numbers if (origin := self.instances.origins[k]) is not None})
        domains = self.old.domains_of(named)
        extra = mapping.subtract_range(domains)
        self.beyond = extra.domain()
        if not (self.instances.beyond or extra.is_empty()):
            return WrongInstances("extra-instance", self.before, extra.range())
        lost = domains.subtract(mapping.range())
        return None if lost.is_empty() else WrongInstances("lost-instance", self.before, lost)

    # -- 2. operations -----------------------------------------------------------------------------------
    def _operations(self) -> Diagnostic | None:
        for k, origin in enumerate(self.instances.origins):
            if origin is None or k in self.unchanged:
                continue
            site, old = self.after.sites[k], self.before.sites[origin.site]
            was, now = self.old_graph.values[origin.site], self.new_graph.values[k]
            same = (
                old.statement.commuting == site.statement.commuting
                and self._same_rounding(old.statement, site.statement)
                and self._same_type(old.statement.target, site.statement.target)
                and self._same_value(substitute_expr(was, origin.replace), now, site)
            )
            if not same:
                became = format_statement(_spelled(site.statement, now))
                message = f"`{format_statement(_spelled(old.statement, was))}` would become `{became}`"
                return diagnostic_at(self.before, old.path, "changed-operation", message)
        return None

    def _same_rounding(self, old: Statement, new: Statement) -> bool:
        """Whether both accumulations are fused or neither is; or that does not count, and no product is
        converted."""
        if old.fused == new.fused:
            return True
        pairs = ((old, self.before), (new, self.after))
        return not self.strict and all(may_fuse(s, {b.name: b for b in kernel.buffers}) for s, kernel in pairs)

    def _same_type(self, old: Access, new: Access) -> bool:
        return self.before.buffer(old.buffer).dtype == self.after.buffer(new.buffer).dtype

    def _same_value(self, old: Expr, new: Expr, site: Site) -> bool:
        match old, new:
            case Access(), Access():
                # Which element is read does not count here: where its value comes from does, and `_flows` asks.
                return self._same_type(old, new) and self._same_gathers(old, new)
            case Op(name, args), Op(other, others):
                return (
                    name == other
                    and len(args) == len(others)
                    and all(self._same_value(a, b, site) for a, b in zip(args, others, strict=True))
                )
            case Cast(dtype, arg, way=way), Cast(other_type, other_arg, way=other_way):
                return (dtype, way) == (other_type, other_way) and self._same_value(arg, other_arg, site)
            case ((Index() | Const()), (Index() | Const())):
                return old == new or self._same_index(old, new, site)
        return False

    def _same_gathers(self, old: Access, new: Access) -> bool:
        """Whether the same dimensions are gathered, by elements of the same types."""
        pairs = [pair for pair in zip(old.indices, new.indices, strict=False) if Access in map(type, pair)]
        count = sum(isinstance(index, Access) for index in (*old.indices, *new.indices))
        return count == 2 * len(pairs) and all(
            isinstance(a, Access) and isinstance(b, Access) and self._same_type(a, b) and self._same_gathers(a, b)
            for a, b in pairs
        )

    def _same_index(self, old: Const | Index, new: Const | Index, site: Site) -> bool:
        """Whether two affine values agree on every instance of a statement."""
        sides = [_affine(old), _affine(new)]
        if None in sides:
            return False
        left, right = (isl_affine(side) for side in sides if side is not None)
        where = self.new.constraints(site.ancestors)
        return self.new.map(f"[{iterators(len(site.scopes))}] -> [] : {where} and {left} != {right}").is_empty()

    # -- 3. flow -----------------------------------------------------------------------------------------
    def _eliminate(self) -> None:
        """Takes out, in both graphs, the statements that stand for nothing on the other side and only pass a
        value on. What cannot be taken out stays; if it has an effect, the flows differ."""
        kept = {origin.site for origin in self.instances.origins if origin is not None}
        fresh = [k for k, origin in enumerate(self.instances.origins) if origin is None]
        for graph, sites in (
            (self.old_graph, [k for k in self.old.numbers if k not in kept]),
            (self.new_graph, fresh),
        ):
            for k in sites:
                with suppress(NotTransparent):
                    graph.eliminate(k)

    def _slots(self, numbers: Iterable[int]) -> isl.UnionMap:
        """Each read of some statements of the new kernel, and each returned element that is compared, to that of
        the old one."""
        pieces = []
        for k in numbers:
            origin = self.instances.origins[k]
            assert origin is not None
            old = ", ".join(map(isl_affine, origin.iterators))
            if k in self.new_graph.ordered:
                pieces.append(f"{self.new_graph.tuple_text(k, name='t')} -> t{origin.site}[{old}]")
            for mine, its in zip(self.new_graph.slots[k], self.old_graph.slots[origin.site], strict=True):
                # Gathered dimensions come in the same order on both sides.
                inner = ", ".join(filter(None, [old, *mine.extra]))
                pieces.append(f"{self.new_graph.tuple_text(k, mine)} -> {its.name}[{inner}]")
        for buffer in self.new_graph.returned:
            element = ", ".join(f"e{d}" for d in range(len(buffer.dims)))
            pieces.append(f"out_{buffer.name}[{element}] -> out_{buffer.name}[{element}]")
        return self.new.map(*pieces)

    def _repeated(self, actual: isl.UnionMap, stands_for: isl.UnionMap) -> WrongInstances | None:
        """Old accumulations that count twice: two new instances that stand for one reach the same reader."""
        known = alone(self.claim)
        counted = self.new_graph.accumulations(k for k in self.new.numbers if k not in known)
        stands = stands_for.intersect_domain(counted)
        if stands.is_injective():
            return None
        ways = actual.intersect_domain(counted).range_product(stands)  # new instance -> [reader -> old instance]
        if ways.is_injective():
            return None
        again = ways.apply_range(ways.reverse()).subtract(counted.identity())
        return WrongInstances("repeated-instance", self.before, again.domain().apply(stands))

    def _flows(self) -> Difference | None:
        # A statement all of whose buffers are settled is the old one to the letter: none of its reads is compared.
        compared = [name for name in self.after.users if name not in self.settled]
        touching = sorted({k for name in compared for k in users_of(self.new, name)})
        numbers = [k for k in touching if self.instances.origins[k] is not None]
        readers = self.new_graph.readers(numbers)
        stands_for = stand_for(self.after, self.instances, numbers)
        if self.instances.beyond:
            idle = adding_zero(self.new_graph, self.beyond)
            self.new_graph.sources = self.new_graph.sources.subtract_domain(idle)
            readers = readers.subtract(self.new_graph.reading(numbers).intersect_range(self.beyond).domain())
            stands_for = stands_for.subtract_domain(self.beyond)
        to_old = self._slots(numbers).intersect_domain(readers)
        actual, begins = (
            self.new_graph.sources.intersect_range(readers),
            self.new_graph.initial.intersect_domain(readers),
        )
        stray = actual.subtract_domain(stands_for.domain())
        if not stray.is_empty():
            return StrayValues(self.after, stray)
        repeated = self._repeated(actual, stands_for)
        if repeated is not None:
            return repeated
        actual = actual.apply_domain(stands_for)
        expected = self.old_graph.sources.apply_range(to_old.reverse())
        initial = to_old.apply_range(self.old_graph.initial)
        for difference, lost, at_start in (
            (actual.subtract(expected), False, False),
            (expected.subtract(actual), True, False),
            (begins.subtract(initial).reverse(), False, True),
            (initial.subtract(begins).reverse(), True, True),
        ):
            if not difference.is_empty():
                return WrongFlow(self.before, self.old_graph, difference.apply_range(to_old), lost, at_start)
        if self.old_graph.mixes_operators(actual):
            return Diagnostic(
                "mixed-operators", "several operators accumulate into a value, and their order may change"
            )
        return None


def _is_mixed(found: Difference) -> bool:
    return isinstance(found, Diagnostic) and found.code == "mixed-operators"


def _spelled(statement: Statement, term: Expr) -> Statement:
    """The statement with another term, as a person would write it."""
    op = "=" if statement.op == MAY_ASSIGN else statement.accumulation or "="
    return Statement(statement.target, op, term)


def _affine(value: Const | Index) -> Affine | None:
    if isinstance(value, Index):
        return value.affine
    return Affine.constant(value.value) if isinstance(value.value, int) else None
