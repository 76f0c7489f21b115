"""Where the keys of pairs are made, accumulated into and read: `dojoir.grammar.sugar.pairs` says which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from dojoir.errors import Span
from dojoir.grammar.sugar.pairs import KEYS, PairStatement, read_pair, written_in
from dojoir.grammar.sugar.under_conditions import UNDER, conditions_around, with_conditions
from dojoir.ir.dtypes import I64
from dojoir.ir.nodes import (
    Access,
    Buffer,
    Cast,
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
    expr_accesses,
    is_inside,
    substitute_access,
    substitute_iterators,
    with_body,
)
from dojoir.ir.words import RESERVED
from dojoir.support.frozen import dataclass
from dojoir.types.elaborate import natural_type
from dojoir.types.identities import neutral
from dojoir.types.pair_keys import I32, LEAST, U32, is_place


def written_out(kernel: Kernel) -> Kernel:
    """The kernel as it is, of one as it is read: its conditions on each statement, keys in the place of pairs.

    Raises KernelError (`bad-pair`, and what types that do not fit raise) with the place of the culprit.
    """
    return with_conditions(with_pairs(kernel))


def with_pairs(kernel: Kernel) -> Kernel:
    """The kernel with keys in the place of its pair statements."""
    found = [PairStatement.of(kernel, site) for site in kernel.sites if read_pair(site.statement) is not None]
    if not found:
        return kernel
    writer = _PairWriter(kernel, found)
    body = writer.block(kernel.body, ())
    facts = dict.fromkeys((*kernel.facts, *(fact for pair in found for fact in pair.facts)))
    made = kernel.evolve(buffers=(*kernel.buffers, *writer.keys), body=body, facts=tuple(facts))
    return replace(made, source=kernel.source)


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

    def has(self, other: _Ends) -> bool:
        """Whether these are those elements too: the guards there are more."""
        return self is not other and self.halves == other.halves and _with_guards(self.nodes, other.nodes)

    def under(self, value: Expr) -> Expr:
        if not self.conditions:
            return value
        return Op(UNDER, (reduce(lambda left, right: Op("and", (left, right)), self.conditions), value), self.loc)

    def inside(self, *statements: Statement) -> tuple[Node, ...]:
        body: tuple[Node, ...] = statements
        for node in reversed(self.nodes):
            body = (with_body(node, body),)
        return body


class _PairWriter:
    def __init__(self, kernel: Kernel, pairs: list[PairStatement]) -> None:
        self.kernel, self.buffers = kernel, {buffer.name: buffer for buffer in kernel.buffers}
        self.pairs = {pair.site.path: pair for pair in pairs}
        self.keys: list[Buffer] = []
        self.named: dict[Path, Access] = {}
        self.ends: dict[Path, list[_Ends]] = {}
        regions: dict[tuple[Path, frozenset[str]], list[PairStatement]] = {}
        for pair in pairs:
            regions.setdefault((self._region(pair), pair.buffers), []).append(pair)
        for (path, _), members in regions.items():
            self.ends.setdefault(path, []).extend(self._ends_of(path, members))

    # -- regions -------------------------------------------------------------------------------------------
    def _region(self, pair: PairStatement) -> Path:
        """The path of the scope around a pair statement before and behind which its key is made and read; of the
        statement, where no scope will do."""
        for length in range(1, len(pair.site.path)):
            if isinstance(pair.site.ancestors[length - 1], Scope) and self._is_region(
                pair.site.path[:length], pair
            ):
                return pair.site.path[:length]
        return pair.site.path

    def _is_region(self, path: Path, pair: PairStatement) -> bool:
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
            and _count_of_uses(site, pair.buffers) == 2
            and other.around(_depth(other.site, path)) is not None
            for site, other in zip(users, others, strict=True)
        )

    def _ends_of(self, path: Path, members: list[PairStatement]) -> list[_Ends]:
        first = members[0]
        long = max(first.halves, key=lambda half: len(half.indices))
        name = self._free("_".join(half.buffer for half in first.halves))
        self.keys.append(Buffer("tmp", name, I64, self.buffers[long.buffer].dims))
        self.buffers[name] = self.keys[-1]
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
            asked = [] if nodes else pair.asked(depth, written)
            key = substitute_access(self.named[pair.site.path], new)
            found = ends.get((nodes, halves))
            kept = tuple(c for c in asked if found is None or c in found.conditions)
            ends[nodes, halves] = _Ends(key, pair.op, nodes, halves, kept, pair.site.statement.loc)
        return [end for end in ends.values() if not any(other.has(end) for other in ends.values())]

    def _free(self, name: str) -> str:
        taken = {self.kernel.name, *self.buffers, *(size.name for size in self.kernel.sizes), *RESERVED}
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
            behind: list[tuple[_Ends, tuple[Statement, ...]]] = []
            for end in ends:
                alone = sum(other.key.buffer == end.key.buffer for other in ends) == 1
                if alone and self._begins(done, end):
                    behind.append((end, self._unpacked(end)))
                else:
                    done += end.inside(self._empty(end))
                    behind.append((end, self._unpacked_where_better(end)))
            done.append(node if made is None else made)
            for end, statements in behind:
                done += end.inside(*statements)
        return tuple(done)

    def _accumulation(self, path: Path) -> Statement | None:
        pair = self.pairs.get(path)
        if pair is None:
            return None
        statement = pair.site.statement
        key = Op(KEYS[pair.op][0], (pair.value, pair.place), statement.loc)
        return Statement(self.named[path], pair.op, _in_place(statement.value, key), statement.loc)

    def _empty(self, end: _Ends) -> Statement:
        """The key of nothing."""
        return Statement(end.key, "=", end.under(_nothing(end.op)), end.loc)

    def _unpacked_where_better(self, end: _Ends) -> tuple[Statement, Statement]:
        """Both halves read off the key where that is better than what they hold. The place first: of equal values,
        the first half stays as it is."""
        first, second = end.halves
        make, place_of = KEYS[end.op]
        better, rank = ("gt", "ge") if end.op == "max=" else ("lt", "le")

        def beside(place: Expr) -> Expr:
            return Op(make, (first, place), end.loc)

        value = Op(better, (end.key, beside(Const(LEAST))), end.loc)
        if is_place(self.buffers[second.buffer].dtype):
            either: Expr = Op(better, (end.key, beside(second)), end.loc)
        else:  # a place that a key may not hold
            equal = Op(rank, (end.key, beside(Const(-LEAST - 1))), end.loc)
            if self.buffers[first.buffer].dtype in (I32, U32):  # a value of others never has the key of nothing
                equal = Op("and", (Op("ne", (end.key, _nothing(end.op)), end.loc), equal), end.loc)
            held = second if self.buffers[second.buffer].dtype == I64 else Cast(I64, second)
            smaller = Op("lt", (Cast(I64, end.key, end.loc, place_of), held), end.loc)
            either = Op("or", (value, Op("and", (equal, smaller), end.loc)), end.loc)
        stored = self._unpacked(end, value, either)
        return stored[1], stored[0]

    def _unpacked(self, end: _Ends, *conditions: Expr) -> tuple[Statement, Statement]:
        """Both halves read off the key, each under its condition if there are conditions."""
        ways = "value_of", KEYS[end.op][1]
        read: list[Expr] = [
            Cast(self.buffers[half.buffer].dtype.compute, end.key, end.loc, way)
            for half, way in zip(end.halves, ways, strict=True)
        ]
        if conditions:
            read = [Op("when", pair, end.loc) for pair in zip(conditions, read, strict=True)]
        first, second = (
            Statement(half, "=", end.under(value), end.loc) for half, value in zip(end.halves, read, strict=True)
        )
        return first, second

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
        value, place = self._first_value(first, values[first]), self._first_place(second, values[second])
        if place is None or after & {a.buffer for v in values.values() for a in expr_accesses(v)}:
            return None
        key = Statement(end.key, "=", end.under(Op(KEYS[end.op][0], (value, place), end.loc)), end.loc)
        last = max(found.values())
        return [key if n == last else node for n, node in enumerate(nodes) if n == last or n not in found.values()]

    def _first_value(self, half: Access, value: Expr) -> Expr:
        dtype = self.buffers[half.buffer].dtype
        return value if natural_type(value, self.buffers) == dtype else Cast(dtype, value)

    def _first_place(self, half: Access, place: Expr) -> Expr | None:
        """A place that is an i32; None for others."""
        dtype = self.buffers[half.buffer].dtype
        match place:
            case Const(int() as number):
                least, most = neutral("max=", dtype), neutral("min=", dtype)
                assert least is not None
                assert most is not None
                return place if max(least, LEAST) <= number <= min(most, -LEAST - 1) else None
        own = natural_type(place, self.buffers)
        if own is None or not is_place(own):
            return None
        return Cast(dtype, place) if is_place(dtype) and own != dtype else place


def _nothing(op: str) -> Const:
    """The key that any other is better than."""
    number = neutral(op, I64)
    assert number is not None
    return Const(number)


def _with_guards(some: Sequence[Node], others: Sequence[Node]) -> bool:
    """Whether `others` are `some` and guards between them."""
    if not others:
        return not some
    if some and some[0] == others[0]:
        return _with_guards(some[1:], others[1:])
    return isinstance(others[0], Guard) and _with_guards(some, others[1:])


def _depth(site: Site, path: Path) -> int:
    """The depth of the scope at `path` around a statement; that of the statement itself, at its own path."""
    return sum(isinstance(node, Scope) for node in site.ancestors[: len(path) - 1])


def _count_of_uses(site: Site, names: frozenset[str]) -> int:
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
