"""Long f32 sums of one GPU thread in two levels: after at most `PART` additions, the partial sum is added to a
total in f64.

One f32 that is added to takes up less and less of each number: a sum of ones stands still at 2^24. Carrying it
in f64 is what CPUs do (`carry`), and costs a GPU dear: many have one unit for f64 beside 64 for f32. So the loop is
cut into pieces of at most `PART` additions, after which the variable goes into an f64 and begins anew. That
is one addition in f64 in `PART`, and each part is off by what `PART` roundings are. What is a sum of f32, added to
in a loop and not otherwise used there, is rewritten; the order of the additions was free before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.arith import integer
from dojoir.codegen.lir.program import INDEX, Assign, Binary, Const, Convert, Declare, For, Stmt, Type, Value, Var
from dojoir.codegen.lir.walk import parts, statements, values, with_blocks
from dojoir.codegen.lower.access.state import LoweredNames
from dojoir.ir.dtypes import F32, F64
from dojoir.support.frozen import dataclass

PART = 512
"""How many numbers are added up in f32."""

Body = tuple[Stmt, ...]

_NOTHING = -0.0
"""The neutral element of a sum: adding it leaves a sum as it is."""


def in_parts(body: Body, sums: frozenset[str], names: LoweredNames) -> Body:
    """The code of a thread, its long sums in parts. `sums` are the variables of f32 that add up in any order."""
    return _PartialSums(names).block(body, sums)


@dataclass(frozen=True)
class _PartialSums:
    names: LoweredNames

    def block(self, body: Body, sums: frozenset[str]) -> Body:
        if not any(
            name in sums for stmt in statements(body) if isinstance(stmt, Assign) for name in (stmt.var.name,)
        ):
            return body
        return tuple(made for stmt in body for made in self._outside(stmt, sums))

    def _outside(self, stmt: Stmt, sums: frozenset[str]) -> Iterator[Stmt]:
        """A statement that is in no loop of which the sums are known to be only added to."""
        match stmt:
            case For():
                mine = frozenset(name for name in sums if _only_summed(stmt, name))
                stmt = replace(stmt, body=self.block(stmt.body, sums - mine))
                long = sorted(name for name in mine if not _is_short(_weight((stmt,), name)))
                totals = {name: Var(Type(F64), self.names.fresh(f"{name}_total")) for name in long}
                yield from (Declare(total, Const(total.type, _NOTHING)) for total in totals.values())
                yield self._cut(stmt, totals)
                for name, total in totals.items():
                    part = Var(Type(F32), name)
                    yield Assign(part, Convert(part.type, _added(total, part)))
            case _:
                yield with_blocks(stmt, lambda body: self.block(body, sums))

    def _cut(self, loop: For, totals: dict[str, Var]) -> For:
        """A loop in which no sum has more than PART additions in a row before it goes into its total."""
        weights = {name: _weight(loop.body, name) for name in totals}
        here = {name: total for name, total in totals.items() if _is_short(weights[name]) and loop.step == 1}
        deeper = {name: total for name, total in totals.items() if name not in here}
        body = loop.body
        if deeper:
            body = tuple(self._inside(stmt, deeper) for stmt in body)
            beside = {name: total for name, total in deeper.items() if any(_weight((s,), name) for s in loop.body)}
            loop = replace(loop, body=(*body, *_flushed(beside)))
        if not here:
            return loop
        most = max(weight for name in here if (weight := weights[name]) is not None)
        first = Var(INDEX, self.names.fresh(f"{loop.var.name}_from"))
        piece = PART // most
        last = Binary(INDEX, "min", Binary(INDEX, "add", first, integer(piece)), loop.stop)
        inner = replace(loop, start=first, stop=last)
        return For(first, loop.start, loop.stop, piece, (inner, *_flushed(here)))

    def _inside(self, stmt: Stmt, totals: dict[str, Var]) -> Stmt:
        if isinstance(stmt, For):
            long = {name: total for name, total in totals.items() if not _is_short(_weight((stmt,), name))}
            return self._cut(stmt, long) if long else stmt
        return with_blocks(stmt, lambda body: tuple(self._inside(s, totals) for s in body))


def _flushed(totals: dict[str, Var]) -> Iterator[Stmt]:
    """Adds the partial sums to the totals."""
    for name, total in totals.items():
        part = Var(Type(F32), name)
        yield Assign(total, _added(total, part))
        yield Assign(part, Const(part.type, _NOTHING))


def _added(total: Var, part: Var) -> Value:
    return Binary(total.type, "add", total, Convert(total.type, part))


def _is_short(weight: int | None) -> bool:
    return weight is not None and weight <= PART


def _weight(body: Sequence[Stmt], name: str) -> int | None:
    """How often a variable is added to at most; None where that has no bound."""
    found = 0
    for stmt in body:
        match stmt:
            case Assign(var) if var.name == name:
                own: int | None = 1
            case For(body=inner):
                own = _weight(inner, name)
                if own:
                    times = _times(stmt)
                    own = None if times is None else own * times
            case lir.If(then=then, otherwise=otherwise):
                both = (_weight(then, name), _weight(otherwise, name))
                own = None if None in both else max(weight or 0 for weight in both)
            case lir.Phase(body=inner):
                own = _weight(inner, name)
            case _:
                own = 0
        if own is None:
            return None
        found += own
    return found


def _times(loop: For) -> int | None:
    most = _most(loop.stop)
    if most is None or not isinstance(loop.start, Const):
        return None
    return max(0, -(-(most - int(loop.start.value)) // loop.step))


def _most(value: Value) -> int | None:
    """A constant that a value is not above."""
    match value:
        case Const(value=number):
            return int(number)
        case Binary(op="min", left=left, right=right):
            bounds = [bound for bound in (_most(left), _most(right)) if bound is not None]
            return min(bounds, default=None)
    return None


def _only_summed(loop: For, name: str) -> bool:
    """Whether all that a loop does with a variable is to add to it."""
    found = False
    for stmt in statements((loop,)):
        if isinstance(stmt, Assign) and stmt.var.name == name:
            if not _adds(stmt.value, name):
                return False
            found = True
            continue
        declared = isinstance(stmt, Declare) and stmt.var.name == name
        if declared or any(_reads(value, name) for value in values(stmt)):
            return False
    return found


def _adds(value: Value, name: str) -> bool:
    match value:
        case lir.Select(condition, added, Var(name=own)) if own == name:
            return not _reads(condition, name) and _adds(added, name)
        case Binary(op="add", left=Var(name=own), right=other) if own == name:
            return not _reads(other, name)
        case Binary(op="add", left=other, right=Var(name=own)) if own == name:
            return not _reads(other, name)
        case lir.Fma(a, b, Var(name=own)) if own == name:
            return not _reads(a, name) and not _reads(b, name)
    return False


def _reads(value: Value, name: str) -> bool:
    return any(isinstance(part, Var) and part.name == name for part in parts(value))
