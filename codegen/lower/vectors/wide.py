"""Wide memory accesses of a GPU thread: the unrolled iterations of a scope marked `v` load or store contiguous
elements by one access.

The iterations are written one after another. Loads of neighbours become one wide load before them, stores one wide
store behind them, where the address is seen to be a multiple of its width. An iteration may take several
neighbours, as two codes that share a byte: its elements and those of the others are one run. No iteration
touches what another writes, so only the order within each counts. A load stays in front of the iteration's own
store, and one behind it of the same element is the value that is stored.
What all iterations compute alike, as an index from data, is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace

from dojoir.backends.machine import ACCESS_BYTES
from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.arith import add, integer
from dojoir.codegen.lir.linear import distance, divisor
from dojoir.codegen.lir.program import Extract, Load, Pack, Stmt, Store, Type, Value, Var
from dojoir.codegen.lir.walk import buffers, changed_by, mapped, parts, parts_of, replaced, statements
from dojoir.codegen.lower.vectors.alike import computed_once
from dojoir.ir.affine import Affine, Mod, SizeVar
from dojoir.ir.nodes import Condition
from dojoir.support.frozen import dataclass

MOST_LANES = 16
"""How many iterations of a scope marked `v` are spelled side by side; of more, a loop is made."""


def size_divisors(facts: Sequence[Condition]) -> dict[str, int]:
    """The divisors of sizes by the facts of a kernel, as `M % 4 == 0` does."""
    found: dict[str, int] = {}
    for fact in facts:
        match fact.left.terms:
            case ((Mod(numerator, number), 1),) if fact.relation == "==" and fact.right == Affine.constant(0):
                match numerator.terms:
                    case ((SizeVar(name), 1),) if not numerator.offset and not fact.left.offset:
                        found[name] = max(found.get(name, 1), number)
    return found


@dataclass
class Widening:
    """Makes wide accesses of one launch. `memory` are the arrays that are not in registers, by name; `wide`
    collects the alignment in bytes that is needed of each."""

    memory: Callable[[str], lir.ProgramArray | None]
    divisors: Mapping[str, int]
    fresh: Callable[[str], str]
    wide: dict[str, int] = field(default_factory=dict)

    def widened(self, lanes: Sequence[tuple[Stmt, ...]]) -> list[Stmt]:
        """The bodies of the iterations as one block."""
        first = lanes[0]
        if len({len(body) for body in lanes}) > 1:
            return [stmt for body in lanes for stmt in body]
        before, lanes = computed_once(lanes)
        first = lanes[0]
        conditions = _conditions_of_all(lanes)
        if conditions is not None:
            for position, condition in enumerate(conditions):
                inner = [stmt.then for body in lanes if isinstance(stmt := body[position], lir.If)]
                before.append(lir.If(condition, tuple(self.widened(inner))))
            return before
        found = _Merge(self, lanes)
        for position in range(len(first)):
            before += found.loads(position)
        before += found.interleaved()
        middle: list[Stmt] = []
        for number in range(len(lanes)):
            middle += found.lane(number)
        return [*before, *middle, *found.stores()]

    def started(self, lanes: Sequence[tuple[Stmt, ...]]) -> list[Stmt]:
        """The bodies of iterations that copy neighbours as copies that land later; nothing where they are no more
        than that, or not aligned."""
        pairs = [(s, s.value) for body in lanes for s in body if isinstance(s, Store) and isinstance(s.value, Load)]
        if not pairs or any(len(body) != 1 for body in lanes) or len(pairs) != len(lanes):
            return []
        store, load = pairs[0]
        plain = (one.mask is None and one.stride is None for pair in pairs for one in pair)
        if len({(to.buffer, one.buffer) for to, one in pairs}) > 1 or not all(plain):
            return []
        most = self.offer(store.buffer, [one.offset for one, _ in pairs], load.type)
        width = min(most, self.offer(load.buffer, [one.offset for _, one in pairs], load.type))
        if width * load.type.dtype.itemsize < lir.WORD:
            return []
        kind = replace(load.type, lanes=width)
        return [
            lir.Start(one.buffer, one.offset, Load(kind, other.buffer, other.offset))
            for one, other in pairs[::width]
        ]

    def width(self, kind: Type, lanes: int) -> int:
        """How many elements one access moves, of `lanes` in a row; 1: none is wide."""
        size = kind.dtype.itemsize
        width = min(ACCESS_BYTES // size, lanes)
        while width > 1 and (lanes % width or width & (width - 1)):
            width -= 1
        return width if kind.lanes == 1 and kind.dtype.kind != "b" else 1

    def offer(self, buffer: str, offsets: Sequence[Value], kind: Type) -> int:
        """The elements of each access where elements of `buffer` at some offsets can be moved by wide ones, else
        1."""
        array = self.memory(buffer)
        width = self.width(kind, len(offsets))
        if array is None or width == 1 or any(distance(offsets[0], o) != n for n, o in enumerate(offsets)):
            return 1
        while width > 1 and divisor(offsets[0], self.divisors) % width:
            width //= 2
        if width > 1:
            need = width * kind.dtype.itemsize
            self.wide[buffer] = max(self.wide.get(buffer, 0), need)
        return width


def _conditions_of_all(lanes: Sequence[tuple[Stmt, ...]]) -> list[Value] | None:
    """The conditions of iterations that are nothing else than statements under conditions, the same ones in all,
    which none of them changes: each is asked once."""
    found: list[Value] = []
    for group in zip(*lanes, strict=True):
        asked = {stmt.condition for stmt in group if isinstance(stmt, lir.If) and not stmt.otherwise}
        if len(asked) != 1 or not all(isinstance(stmt, lir.If) and not stmt.otherwise for stmt in group):
            return None
        found += asked
    changed = changed_by(tuple(stmt for body in lanes for stmt in body))
    read = {part for condition in found for part in parts(condition)}
    names = {part.buffer for part in read if isinstance(part, Load)} | {p.name for p in read if isinstance(p, Var)}
    return found if found and changed.isdisjoint(names) else None


@dataclass(frozen=True)
class _Element:
    """A load of an iteration, so many elements from the first of a run."""

    distance: int
    lane: int
    load: Load


class _Merge:
    """One scope: its iterations as blocks of as many statements."""

    def __init__(self, widening: Widening, lanes: Sequence[tuple[Stmt, ...]]) -> None:
        self.widening, self.lanes = widening, lanes
        self.replaced: list[dict[Value, Value]] = [{} for _ in lanes]
        self.packed: dict[int, int] = {}
        self.behind: list[Stmt] = []
        self.first_store = self._first_stores()
        self.taken: dict[int, list[Value]] = {}
        self.stored: list[dict[Value, Value]] = [{} for _ in lanes]
        self._choose_stores()

    def _first_stores(self) -> dict[str, int]:
        """The first statement of an iteration that writes each array."""
        found: dict[str, int] = {}
        for position, stmt in enumerate(self.lanes[0]):
            for inner in statements((stmt,)):
                if not isinstance(inner, lir.Let | lir.Declare | lir.Assign | lir.For | lir.If | lir.Comment):
                    for name in buffers(inner) if not isinstance(inner, Store) else (inner.buffer,):
                        found.setdefault(name, position)
        return found

    # -- loads -----------------------------------------------------------------------------------------------
    def loads(self, position: int) -> Iterator[Stmt]:
        """Wide loads for those of the statement at a position."""
        given = [self._loads_of(body[position]) for body in self.lanes]
        if len({len(loads) for loads in given}) > 1:
            return
        for group in zip(*given, strict=True):
            load = group[0]
            if load in self.replaced[0] or self.first_store.get(load.buffer, position) < position:
                continue
            if len({other.buffer for other in group}) > 1:
                continue
            yield from self._run([_Element(n, n, other) for n, other in enumerate(group)])

    def _run(self, run: Sequence[_Element]) -> Iterator[Stmt]:
        """Wide loads for elements in their order; several may be one and the same."""
        ends = {one.distance: one.load for one in run}
        first = run[0].load
        width = self.widening.offer(first.buffer, [ends[n].offset for n in sorted(ends)], first.type)
        for start in range(0, len(ends) if width > 1 else 0, width):
            kind = replace(first.type, lanes=width)
            var = Var(kind, self.widening.fresh(f"{first.buffer}{width}"))
            yield lir.Let(var, Load(kind, first.buffer, add(first.offset, integer(start))))
            for one in run:
                if start <= one.distance < start + width:
                    self.replaced[one.lane][one.load] = Extract(var, one.distance - start)

    def interleaved(self) -> Iterator[Stmt]:
        """Wide loads for runs of neighbours of which each iteration takes several, by one statement or by many."""
        lanes = len(self.lanes)
        left = [
            _Element(0, number, load)
            for number, body in enumerate(self.lanes)
            for position, stmt in enumerate(body)
            for load in self._loads_of(stmt)
            if load not in self.replaced[number] and self.first_store.get(load.buffer, position) >= position
        ]
        while left:
            base = left[0].load
            apart = [(distance(base.offset, one.load.offset), one) for one in left]
            near = [
                replace(one, distance=d)
                for d, one in apart
                if d is not None and 0 <= d < MOST_LANES * lanes
                and (one.load.buffer, one.load.type) == (base.buffer, base.type)
            ]  # fmt: skip
            count = len({one.distance for one in near})
            if count > lanes and count % lanes == 0 and max(one.distance for one in near) == count - 1:
                yield from self._run(sorted(near, key=lambda one: one.distance))
            taken = {(one.lane, one.load) for one in near}
            left = [one for one in left[1:] if (one.lane, one.load) not in taken]

    def _loads_of(self, stmt: Stmt) -> list[Load]:
        if not isinstance(stmt, lir.Let | lir.Declare | lir.Assign | Store):
            return []
        found = [part for part in parts_of(stmt) if isinstance(part, Load)]
        return [load for load in dict.fromkeys(found) if load.mask is None and load.stride is None]

    # -- stores ----------------------------------------------------------------------------------------------
    def _choose_stores(self) -> None:
        for position in range(len(self.lanes[0])):
            group = [body[position] for body in self.lanes]
            stores = [stmt for stmt in group if isinstance(stmt, Store)]
            if len(stores) < len(group) or len({store.buffer for store in stores}) > 1:
                continue
            store = stores[0]
            if not self._only_store(store.buffer) or not self._read_as_stored(position):
                continue
            width = self.widening.offer(store.buffer, [other.offset for other in stores], store.value.type)
            if width > 1:
                self.packed[position] = width

    def _read_as_stored(self, position: int) -> bool:
        """Whether later loads from the array of a store are all of the element that it wrote, in each iteration."""
        for body in self.lanes:
            store = body[position]
            assert isinstance(store, Store)
            kind = store.value.type
            for stmt in body[position + 1 :]:
                read = [
                    p for p in parts_of(*statements((stmt,))) if isinstance(p, Load) and p.buffer == store.buffer
                ]
                own = self._loads_of(stmt)
                if any(
                    one not in own or one.type != kind or distance(store.offset, one.offset) != 0 for one in read
                ):
                    return False
        return True

    def _only_store(self, buffer: str) -> bool:
        """Whether an iteration writes an array by one statement."""
        found = [
            inner
            for stmt in self.lanes[0]
            for inner in statements((stmt,))
            if buffer in buffers(inner) and not isinstance(inner, lir.Let | lir.Declare | lir.Assign)
        ]
        return sum(isinstance(stmt, Store) and stmt.buffer == buffer for stmt in found) == 1

    def lane(self, number: int) -> Iterator[Stmt]:
        """The statements of an iteration, without what wide stores do."""
        for position, stmt in enumerate(self.lanes[number]):
            changed = self._changed(stmt, number, position)
            if position in self.packed and isinstance(changed, Store):
                var = Var(changed.value.type, self.widening.fresh(f"{changed.buffer}_{number}"))
                yield lir.Let(var, changed.value)
                self.taken.setdefault(position, []).append(var)
                self.stored[number] |= {
                    load: var
                    for later in self.lanes[number][position + 1 :]
                    for load in self._loads_of(later)
                    if load.buffer == changed.buffer
                }
            else:
                yield changed

    def stores(self) -> Iterator[Stmt]:
        """The wide stores."""
        for position, width in self.packed.items():
            store = self.lanes[0][position]
            assert isinstance(store, Store)
            for start in range(0, len(self.lanes), width):
                kind = replace(store.value.type, lanes=width)
                value = Pack(kind, tuple(self.taken[position][start : start + width]))
                yield Store(store.buffer, add(store.offset, integer(start)), value)

    def _changed(self, stmt: Stmt, number: int, position: int) -> Stmt:
        """A statement with the elements of wide loads. What reads an array behind a store to it has what is stored,
        or reads memory again."""

        def there(value: Value) -> Value | None:
            behind = isinstance(value, Load) and self.first_store.get(value.buffer, position) < position
            return (self.stored if behind else self.replaced)[number].get(value)

        plain = isinstance(stmt, lir.Let | lir.Declare | lir.Assign | Store)
        return mapped(stmt, lambda value: replaced(value, there)) if plain else stmt
