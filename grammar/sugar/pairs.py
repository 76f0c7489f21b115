"""Pair reductions, `(m[{i}], at[{i}]) max= (x[{i}, {j}], {j})`, written as accumulations of keys.

As it is read, such a statement is `m[{i}] max= PAIR(at[{i}], x[{i}, {j}], {j})`. What becomes of it has a key for
each pair, an i64 (`dojoir.types.pair_keys`). The key of nothing before the outermost scope around it in which
nothing else uses the halves and which does not index them, `key max= argmax_key(x, j)` inside, and behind that
scope both halves read off the key, where it is better than what they hold: what nothing reaches is as it was. Where
there is no such scope, all of that stands around the one statement. So a half holds what it is to hold wherever it
is read. What the halves were assigned right before goes into the key instead, and the halves are read off it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

from dojoir.errors import Diagnostic, KernelError, Span
from dojoir.grammar.sugar.pair_places import facts_of_place
from dojoir.grammar.sugar.under_conditions import conditions_around
from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import I64, DType
from dojoir.ir.format import format_access, format_expr
from dojoir.ir.nodes import (
    Access,
    Buffer,
    Cast,
    Condition,
    Expr,
    Guard,
    Kernel,
    Node,
    Op,
    Scope,
    Site,
    Statement,
    affine_parts,
    expr_accesses,
    substitute_condition,
    substitute_extent,
    substitute_iterators,
    targets_in,
)
from dojoir.support.frozen import dataclass
from dojoir.types.elaborate import elaborate, natural_type
from dojoir.types.identities import neutral
from dojoir.types.pair_keys import has_code, is_place

PAIR = "pair"
"""The name of an operation on the second half of what a pair statement accumulates into, the value and the place.
It is in no finished kernel."""

KEYS = {"max=": ("argmax_key", "argmax_of"), "min=": ("argmin_key", "argmin_of")}
"""How a key of each accumulation is made, and how its place is read."""


def pair_statements(
    targets: tuple[Access, Access], op: str, values: tuple[Expr, Expr], condition: Expr | None, span: Span | None
) -> tuple[Statement, ...]:
    """`(m, at) op (value, place) if condition` as it is read; an assignment is one of each half."""
    if op == "=":
        pairs = zip(targets, values, strict=True)
        return tuple(Statement(target, "=", _when(condition, value), span) for target, value in pairs)
    return (Statement(targets[0], op, _when(condition, Op(PAIR, (targets[1], *values), span)), span),)


def reads_itself(halves: tuple[Access, Access], values: tuple[Expr, Expr]) -> bool:
    """Whether a pair is made of values that read it."""
    read = {access.buffer for value in values for access in expr_accesses(value)}
    return bool(read & {half.buffer for half in halves})


def written_in(nodes: tuple[Node, ...]) -> set[str]:
    """The buffers that nodes write, as they are read."""
    inner = (site.statement for node in nodes if not isinstance(node, Statement) for site in node.inner)
    found = {access.buffer for access in targets_in(nodes)}
    for statement in (*inner, *(node for node in nodes if isinstance(node, Statement))):
        pair = read_pair(statement)
        found |= set() if pair is None else {pair[1].buffer}
    return found


def _when(condition: Expr | None, value: Expr) -> Expr:
    return value if condition is None else Op("when", (condition, value))


def read_pair(statement: Statement) -> tuple[tuple[Expr, ...], Access, Expr, Expr] | None:
    """The conditions around a pair statement, its second half, the value and the place; None for any other."""
    conditions: tuple[Expr, ...] = ()
    value = statement.value
    while True:
        match value:
            case Op("under", (condition, inner)):
                conditions, value = conditions_around(condition), inner
            case Op("when", (_, inner)):
                value = inner
            case Op("pair", (Access() as second, first, place)):
                return conditions, second, first, place
            case _:
                return None


# -- one statement -------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class PairStatement:
    """A pair statement. `value` and `place` are what a key is made of, `facts` keep the place an i32."""

    site: Site
    halves: tuple[Access, Access]
    value: Expr
    place: Expr
    conditions: tuple[Expr, ...]
    facts: tuple[Condition, ...]

    @property
    def op(self) -> str:
        return self.site.statement.op

    @property
    def buffers(self) -> frozenset[str]:
        return frozenset(half.buffer for half in self.halves)

    @staticmethod
    def of(kernel: Kernel, site: Site) -> PairStatement:
        statement = site.statement
        read = read_pair(statement)
        assert read is not None
        conditions, second, value, place = read
        checks = _Checks(kernel, statement, (statement.target, second))
        value = checks.value(value)
        place, facts = checks.place(place, site.scopes)
        return PairStatement(site, checks.halves, value, place, conditions, facts)

    def around(self, depth: int) -> tuple[tuple[Scope | Guard, ...], Mapping[int, Affine]] | None:
        """The scopes and guards inside of that at `depth` that say which elements the halves are, and the iterators
        there of those here; None if that scope says it as well."""
        scopes = self.site.scopes
        needed = {
            d
            for half in self.halves
            for index in half.indices
            if isinstance(index, Affine)
            for d in index.iterators
        }
        for inner in range(len(scopes) - 1, depth, -1):
            if inner in needed:
                needed |= {d for bound in scopes[inner].extent.bounds for d in bound.iterators}
        if depth in needed:
            return None
        moved = {old: Affine.iterator(depth + n) for n, old in enumerate(d for d in sorted(needed) if d > depth)}
        known = {*range(depth), *moved}
        new = substitute_iterators(moved)
        nodes: list[Scope | Guard] = []
        level = -1
        for node in self.site.ancestors:
            level += isinstance(node, Scope)
            if isinstance(node, Scope) and level in moved:
                nodes.append(Scope(substitute_extent(node.extent, new), (), loc=node.loc))
            elif isinstance(node, Guard) and level >= depth:
                kept = [c for c in node.conditions if (c.left.iterators | c.right.iterators) <= known]
                if kept:
                    nodes.append(Guard(tuple(substitute_condition(c, new) for c in kept), (), node.loc))
        return tuple(nodes), moved

    def asked(self, depth: int, written: set[str]) -> list[Expr]:
        """Those of the conditions around it that are the same wherever the scope at `depth` is."""
        return [
            condition
            for condition in self.conditions
            if all(max(part.iterators, default=-1) < depth for part in affine_parts(condition))
            and not written & {access.buffer for access in expr_accesses(condition)}
        ]


@dataclass(frozen=True)
class _Checks:
    """The rules for a pair statement."""

    kernel: Kernel
    statement: Statement
    halves: tuple[Access, Access]

    def __post_init__(self) -> None:
        first, second = self.halves
        names = f"({format_access(first)}, {format_access(second)})"
        if self.statement.op not in KEYS:
            self.refuse(f"a pair is assigned, or accumulated into by max= or min=, not by {self.statement.op}")
        if first.buffer == second.buffer:
            self.refuse(
                f"the halves of {names} are of one buffer: declare one for the values and one for the places"
            )
        if any(isinstance(index, Access) for half in self.halves for index in half.indices):
            self.refuse(f"{names} is at an index from data, and a pair is not: {self._with_keys()}")
        if first.indices != second.indices and first.indices and second.indices:
            cure = "index both alike, or let one be a scalar tmp"
            self.refuse(f"the halves of {names} have different indices: {cure}")
        values, places = (self.buffer(half).dtype for half in self.halves)
        if not places.is_integer:
            self.refuse(f"{second.buffer} has the places, which are integers, and is {places}: declare it i32")
        if not has_code(values):
            read = read_pair(self.statement)
            assert read is not None
            m, at, (value, place) = format_access(first), format_access(second), map(format_expr, read[2:])
            sign = ">" if self.statement.op == "max=" else "<"
            cure = "declare it i32"
            if values.kind != "b":
                cure = f"write {at} = {place} if {value} {sign} {m}, and behind it {m} {self.statement.op} {value}"
            self.refuse(f"{m} is {values}, and the values of a pair have at most 32 bits: {cure}")

    def _with_keys(self) -> str:
        """What to write in place of a pair at an index from data."""
        first, second = self.halves
        read = read_pair(self.statement)
        assert read is not None
        make, place_of = KEYS[self.statement.op]
        begin = neutral(self.statement.op, I64)
        key = replace(first if first.indices else second, buffer="key")
        value, place = map(format_expr, read[2:])
        held, at = (self.buffer(half).dtype.compute for half in self.halves)
        return (
            f"write {format_access(key)} {self.statement.op} {make}({value}, {place}), where key is a tmp of i64 "
            f"whose elements are {begin} before, and read {first.buffer} off value_of({held}, key[…]) behind it, "
            f"{second.buffer} off {place_of}({at}, key[…])"
        )

    def buffer(self, access: Access) -> Buffer:
        return self.kernel.buffer(access.buffer)

    def value(self, value: Expr) -> Expr:
        """The value, of a type."""
        dtype, own = self.buffer(self.halves[0]).dtype.compute, self.type(self.halves[0], value)
        if own is not None and not has_code(own):
            text = format_expr(value)
            self.refuse(
                f"the values of a pair have at most 32 bits, and {text} is {own}: write {dtype}({text})", value
            )
        return Cast(dtype, value) if own is None else value

    def place(self, place: Expr, scopes: Sequence[Scope]) -> tuple[Expr, tuple[Condition, ...]]:
        """The place, and what keeps it an i32."""
        text, own = format_expr(place), self.type(None, place)
        if own is not None and not is_place(own):
            self.refuse(f"the place of a pair is an i32, and {text} is {own}: write i32({text})", place)
        facts = () if own is not None else facts_of_place(place, scopes)
        if facts is None:
            message = f"the place of a pair is an i32, and {text} is not seen to be one"
            self.refuse(f"{message}: write i32({text}), which wraps, or bound its size", place)
        return place, facts

    def type(self, target: Access | None, value: Expr) -> DType | None:
        """The type of a value, which must be one that the target stores."""
        buffers = {buffer.name: buffer for buffer in self.kernel.buffers}
        try:
            stored = value if target else Cast(self.buffer(self.halves[1]).dtype, value)
            elaborate(Statement(target or self.halves[1], "=", stored), buffers)
        except KernelError as error:
            span = error.diagnostic.span or self.statement.loc
            raise KernelError(replace(error.diagnostic, span=span, source=self.kernel.source)) from None
        return natural_type(value, buffers)

    def refuse(self, message: str, part: Expr | None = None) -> NoReturn:
        span = part.loc if isinstance(part, Op | Access | Cast) and part.loc else self.statement.loc
        raise KernelError(Diagnostic("bad-pair", message, span, self.kernel.source))
