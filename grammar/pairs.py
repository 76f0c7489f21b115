"""Pair reductions, `(m[{i}], at[{i}]) max= (x[{i}, {j}], {j})`, written as accumulations of keys.

As it is read, such a statement is `m[{i}] max= PAIR(at[{i}], x[{i}, {j}], {j})`. What becomes of it has a key for
each pair, an i64 (`dojoir.types.pair_keys`): `argmax_key` of both halves before the outermost scope around it in
which nothing else uses them and which does not index them, `key max= argmax_key(x, j)` inside, and behind that
scope both halves read off the key. Where there is no such scope, all of that stands around the one statement. So a
half holds what it is to hold wherever it is read. What the halves were assigned right before goes into the key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import NoReturn

from dojoir.errors import Diagnostic, KernelError, Span
from dojoir.grammar.pair_places import facts_of_place
from dojoir.grammar.under_conditions import UNDER, conditions_around
from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import I64, DType
from dojoir.ir.names import RESERVED
from dojoir.ir.nodes import (
    Access,
    Buffer,
    Cast,
    Condition,
    Const,
    Expr,
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
    targets_in,
    with_body,
)
from dojoir.ir.text import format_access, format_expr
from dojoir.support.frozen import dataclass
from dojoir.types.elaborate import elaborate, natural_type
from dojoir.types.pair_keys import I32, LEAST, has_code, is_place

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


def written_in(nodes: tuple[Node, ...]) -> set[str]:
    """The buffers that nodes write, as they are read."""
    inner = (site.statement for node in nodes if not isinstance(node, Statement) for site in node.inner)
    found = {access.buffer for access in targets_in(nodes)}
    for statement in (*inner, *(node for node in nodes if isinstance(node, Statement))):
        pair = _read(statement)
        found |= set() if pair is None else {pair[1].buffer}
    return found


def with_pairs(kernel: Kernel) -> Kernel:
    """The kernel with keys in the place of its pair statements.

    Raises KernelError (`bad-pair`, and what types that do not fit raise) with the place of the culprit.
    """
    found = [_Pair.of(kernel, site) for site in kernel.sites if _read(site.statement) is not None]
    if not found:
        return kernel
    writer = _Writer(kernel, found)
    body = writer.block(kernel.body, ())
    facts = dict.fromkeys((*kernel.facts, *(fact for pair in found for fact in pair.facts)))
    made = kernel.evolve(buffers=(*kernel.buffers, *writer.keys), body=body, facts=tuple(facts))
    return replace(made, source=kernel.source)


def _when(condition: Expr | None, value: Expr) -> Expr:
    return value if condition is None else Op("when", (condition, value))


def _read(statement: Statement) -> tuple[tuple[Expr, ...], Access, Expr, Expr] | None:
    """The conditions of a pair statement, its second half, the value and the place; None for any other."""
    conditions: tuple[Expr, ...] = ()
    value = statement.value
    while True:
        match value:
            case Op("under" | "when", (condition, inner)):
                conditions, value = (*conditions, *conditions_around(condition)), inner
            case Op("pair", (Access() as second, first, place)):
                return conditions, second, first, place
            case _:
                return None


# -- one statement -------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Pair:
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
    def of(kernel: Kernel, site: Site) -> _Pair:
        statement = site.statement
        read = _read(statement)
        assert read is not None
        conditions, second, value, place = read
        checks = _Checks(kernel, statement, (statement.target, second))
        value = checks.value(value)
        place, facts = checks.place(place, site.scopes)
        return _Pair(site, checks.halves, value, place, conditions, facts)

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

    def asked(self, depth: int, moved: Mapping[int, Affine], written: set[str]) -> list[Expr]:
        """Those of its conditions that are the same wherever the scope at `depth` is."""
        known = {*range(depth), *moved}
        return [
            substitute_expr(condition, substitute_iterators(moved))
            for condition in self.conditions
            if all(part.iterators <= known for part in affine_parts(condition))
            and not written & {access.buffer for access in expr_accesses(condition)}
        ]


@dataclass(frozen=True)
class _Checks:
    """What a pair statement must be."""

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
            self.refuse(f"{names} is at an index from data, and a pair is not: reduce into tmps, and store these")
        if first.indices != second.indices and first.indices and second.indices:
            cure = "index both alike, or let one be a scalar tmp"
            self.refuse(f"the halves of {names} have different indices: {cure}")
        values, places = (self.buffer(half).dtype for half in self.halves)
        if not places.is_integer:
            self.refuse(f"{second.buffer} has the places, which are integers, and is {places}: declare it i32")
        if not has_code(values):
            read = _read(self.statement)
            assert read is not None
            m, at, (value, place) = format_access(first), format_access(second), map(format_expr, read[2:])
            sign = ">" if self.statement.op == "max=" else "<"
            cure = "declare it i32"
            if values.kind != "b":
                cure = f"write {at} = {place} if {value} {sign} {m}, and behind it {m} {self.statement.op} {value}"
            self.refuse(f"{m} is {values}, and the values of a pair have at most 32 bits: {cure}")

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


# -- where a key is made and read ----------------------------------------------------------------------------
@dataclass(frozen=True)
class _Ends:
    """Where a key is made before a scope and read behind: inside of `nodes`, for the elements `halves`."""

    key: Access
    op: str
    nodes: tuple[Scope | Guard, ...]
    halves: tuple[Access, Access]
    conditions: tuple[Expr, ...]
    loc: Span | None

    def under(self, value: Expr) -> Expr:
        if not self.conditions:
            return value
        return Op(UNDER, (reduce(lambda left, right: Op("and", (left, right)), self.conditions), value), self.loc)

    def inside(self, *statements: Statement) -> tuple[Node, ...]:
        body: tuple[Node, ...] = statements
        for node in reversed(self.nodes):
            body = (with_body(node, body),)
        return body


class _Writer:
    def __init__(self, kernel: Kernel, pairs: list[_Pair]) -> None:
        self.kernel, self.buffers = kernel, {buffer.name: buffer for buffer in kernel.buffers}
        self.pairs = {pair.site.path: pair for pair in pairs}
        self.keys: list[Buffer] = []
        self.named: dict[Path, Access] = {}
        self.ends: dict[Path, list[_Ends]] = {}
        regions: dict[tuple[Path, frozenset[str]], list[_Pair]] = {}
        for pair in pairs:
            regions.setdefault((self._region(pair), pair.buffers), []).append(pair)
        for (path, _), members in regions.items():
            self.ends.setdefault(path, []).extend(self._ends_of(path, members))

    # -- regions -------------------------------------------------------------------------------------------
    def _region(self, pair: _Pair) -> Path:
        """The path of the scope around a pair statement before and behind which its key is made and read; of the
        statement, where no scope will do."""
        for length in range(1, len(pair.site.path)):
            if isinstance(pair.site.ancestors[length - 1], Scope) and self._is_region(
                pair.site.path[:length], pair
            ):
                return pair.site.path[:length]
        return pair.site.path

    def _is_region(self, path: Path, pair: _Pair) -> bool:
        users = [
            site
            for site in self.kernel.sites
            if is_inside(site.path, path) and site.statement.buffers & pair.buffers
        ]
        others = [self.pairs.get(site.path) for site in users]
        return all(
            other is not None
            and (other.op, other.buffers) == (pair.op, pair.buffers)
            and other.halves[0].buffer == pair.halves[0].buffer
            and _uses(site, pair.buffers) == 2
            and other.around(_depth(other.site, path)) is not None
            for site, other in zip(users, others, strict=True)
        )

    def _ends_of(self, path: Path, members: list[_Pair]) -> list[_Ends]:
        first = members[0]
        long = max(first.halves, key=lambda half: len(half.indices))
        name = self._free("_".join(half.buffer for half in first.halves))
        self.keys.append(Buffer("tmp", name, I64, self.buffers[long.buffer].dims))
        ends: dict[tuple[object, ...], _Ends] = {}
        for pair in members:
            self.named[pair.site.path] = Access(name, max((half.indices for half in pair.halves), key=len))
            depth = _depth(pair.site, path)
            inside = path != pair.site.path
            nodes, moved = (pair.around(depth) if inside else None) or ((), {})
            new = substitute_iterators(moved)
            halves = substitute_access(pair.halves[0], new), substitute_access(pair.halves[1], new)
            written = set(pair.buffers)
            if inside:
                written |= written_in((self.kernel.at(path),))
            asked = pair.asked(depth, moved, written)
            key = substitute_access(self.named[pair.site.path], new)
            found = ends.get((nodes, halves))
            kept = tuple(c for c in asked if found is None or c in found.conditions)
            ends[nodes, halves] = _Ends(key, pair.op, nodes, halves, kept, pair.site.statement.loc)
        return list(ends.values())

    def _free(self, name: str) -> str:
        taken = {self.kernel.name, *self.buffers, *(size.name for size in self.kernel.sizes), *RESERVED}
        taken |= {key.name for key in self.keys}
        while name in taken:
            name += "_"
        return name

    # -- the tree ------------------------------------------------------------------------------------------
    def block(self, nodes: tuple[Node, ...], path: Path) -> tuple[Node, ...]:
        done: list[Node] = []
        for number, node in enumerate(nodes):
            here = (*path, number)
            made = (
                self._accumulation(here)
                if isinstance(node, Statement)
                else with_body(node, self.block(node.body, here))
            )
            ends = self.ends.get(here, [])
            for end in ends:
                if not self._begins(done, end):
                    done += end.inside(self._packed(end))
            done.append(node if made is None else made)
            for end in ends:
                done += end.inside(*self._unpacked(end))
        return tuple(done)

    def _accumulation(self, path: Path) -> Statement | None:
        pair = self.pairs.get(path)
        if pair is None:
            return None
        statement = pair.site.statement
        key = Op(KEYS[pair.op][0], (pair.value, pair.place), statement.loc)
        return Statement(self.named[path], pair.op, _in_place(statement.value, key), statement.loc)

    def _packed(self, end: _Ends) -> Statement:
        place = self._place(end.halves[1])
        return Statement(end.key, "=", end.under(Op(KEYS[end.op][0], (end.halves[0], place), end.loc)), end.loc)

    def _place(self, half: Access) -> Expr:
        return half if is_place(self.buffers[half.buffer].dtype) else Cast(I32, half)

    def _unpacked(self, end: _Ends) -> tuple[Statement, Statement]:
        first, second = end.halves
        value, place = (self.buffers[half.buffer].dtype.compute for half in end.halves)
        return (
            Statement(first, "=", end.under(Cast(value, end.key, end.loc, "value_of")), end.loc),
            Statement(second, "=", end.under(Cast(place, end.key, end.loc, KEYS[end.op][1])), end.loc),
        )

    # -- what the halves were assigned right before ----------------------------------------------------------
    def _begins(self, done: list[Node], end: _Ends) -> bool:
        """Puts what both halves are assigned at the end of `done` into the key; whether it is so."""
        if not end.nodes:
            made = self._begun(done, end)
            done[:] = done if made is None else made
            return made is not None
        if not done or not isinstance(done[-1], Scope):
            return False
        chain: list[Scope] = [done[-1]]
        for node in end.nodes:
            if not isinstance(node, Scope) or node.extent != chain[-1].extent:
                return False
            if node is not end.nodes[-1]:
                match chain[-1].body:
                    case (Scope() as inner,):
                        chain.append(inner)
                    case _:
                        return False
        made = self._begun(chain[-1].body, end)
        if made is None:
            return False
        node = with_body(chain[-1], tuple(made))
        for outer in reversed(chain[:-1]):
            node = with_body(outer, (node,))
        done[-1] = node
        return True

    def _begun(self, nodes: Sequence[Node], end: _Ends) -> list[Node] | None:
        """The nodes with an assignment of the key for those of both halves, which are among the last statements."""
        found: dict[Access, int] = {}
        read: set[str] = set()
        values: dict[Access, Expr] = {}
        number = len(nodes)
        while len(found) < 2:
            number -= 1
            node = nodes[number] if number >= 0 else None
            if not isinstance(node, Statement):
                return None
            conditions, value = _stored(node)
            if node.target in end.halves and node.target not in found and node.op == "=":
                if node.target.buffer in read or set(conditions) != set(end.conditions):
                    return None
                found[node.target], values[node.target] = number, value
            elif node.target.buffer in {half.buffer for half in end.halves}:
                return None
            read |= node.buffers_read
        after = {node.target.buffer for node in nodes[number:] if isinstance(node, Statement)}
        first, second = end.halves
        value, place = self._first_value(first, values[first]), self._first_place(values[second])
        if place is None or after & {a.buffer for v in values.values() for a in expr_accesses(v)}:
            return None
        key = Statement(end.key, "=", end.under(Op(KEYS[end.op][0], (value, place), end.loc)), end.loc)
        last = max(found.values())
        return [key if n == last else node for n, node in enumerate(nodes) if n == last or n not in found.values()]

    def _first_value(self, half: Access, value: Expr) -> Expr:
        dtype = self.buffers[half.buffer].dtype
        return value if natural_type(value, self.buffers) == dtype else Cast(dtype, value)

    def _first_place(self, place: Expr) -> Expr | None:
        """A place that is an i32; None for others."""
        match place:
            case Const(int() as number):
                return place if LEAST <= number < -LEAST else None
        own = natural_type(place, self.buffers)
        return place if own is not None and is_place(own) else None


def _depth(site: Site, path: Path) -> int:
    """The depth of the scope at `path` around a statement; that of the statement itself, at its own path."""
    return sum(isinstance(node, Scope) for node in site.ancestors[: len(path) - 1])


def _uses(site: Site, names: frozenset[str]) -> int:
    """How often a statement uses some buffers."""
    return sum(inner.buffer in names for access in site.statement.accesses for inner in access.accesses())


def _in_place(value: Expr, key: Expr) -> Expr:
    """The value of a pair statement with the key in the place of the pair, under the same conditions."""
    match value:
        case Op("under" | "when" as name, (condition, inner), loc):
            return Op(name, (condition, _in_place(inner, key)), loc)
    return key


def _stored(statement: Statement) -> tuple[Sequence[Expr], Expr]:
    """The conditions around a statement and on it, and what it stores."""
    conditions: list[Expr] = []
    value = statement.value
    while isinstance(value, Op) and value.name in (UNDER, "when"):
        condition, value = value.args
        conditions += conditions_around(condition)
    return conditions, value
