"""Accumulations other than sums, brought to a form that can be taken backwards.

`m max= e` where nothing reads `m` before its last value: the first iteration that reached it is found again, as
the smallest number of an iteration whose value is the result. All others, and `*=`, become assignments of what
they mean, `t = max(t, e)` and `t = t * e`, of which the values before are kept."""

from __future__ import annotations

import math
from dataclasses import replace

from dojoir.gradient.bounds import largest_extent
from dojoir.gradient.order import Order
from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import DTYPES
from dojoir.ir.expressions import Access, Cast, Const, Expr, Op, index_value, make_op
from dojoir.ir.nodes import Buffer, Guard, Kernel, Node, Scope, Site, Statement, with_body
from dojoir.ir.operations import ACCUMULATIONS
from dojoir.support.frozen import dataclass

EXTREMES = ("max=", "min=")


def assigned(kernel: Kernel, active: frozenset[str]) -> Kernel:
    """The kernel whose accumulations into the buffers `active` are sums, or extremes of which the one that reached
    it can be found again."""
    order = Order(kernel)
    kept: set[int] = set()
    for name in active:
        users = [k for k, site in enumerate(kernel.sites) if site.statement.target.buffer == name]
        wanted = [k for k in users if kernel.sites[k].statement.op in EXTREMES]
        if len(wanted) == 1 and _is_searched(kernel, order, name, wanted[0], users):
            kept.add(wanted[0])
    number = -1

    def visit(node: Node) -> Node:
        nonlocal number
        if not isinstance(node, Statement):
            return with_body(node, tuple(map(visit, node.body)))
        number += 1
        if node.op in ("=", "+=") or number in kept or node.target.buffer not in active:
            return node
        own = node.target
        match node.value:
            case Op("when", (condition, value)):
                return Statement(own, "=", Op("when", (condition, _combined(node, value))), node.loc)
        return Statement(own, "=", _combined(node, node.value), node.loc)

    changed = kernel.evolve(body=tuple(map(visit, kernel.body)))
    return replace(changed, source=kernel.source)


def _combined(node: Statement, value: Expr) -> Expr:
    return Op(ACCUMULATIONS[node.op], (node.target, value))


def _is_searched(kernel: Kernel, order: Order, name: str, number: int, users: list[int]) -> bool:
    """Whether an extreme begins with a number, is read when it is whole only, and by one value an element."""
    for k in users:
        statement = kernel.sites[k].statement
        if k != number and not (statement.op == "=" and isinstance(statement.value, Const)):
            return False
    if kernel.buffer(name).role == "inout" or kernel.sites[number].statement.scatters:
        return False
    if name in kernel.sites[number].statement.buffers_read:
        return False
    starts = [k for k in users if k != number]
    if len(starts) != 1 or order.is_touched_before(starts[0]):
        return False
    readers = [(k, a) for k, s in enumerate(kernel.sites) for a in s.statement.reads if a.buffer == name]
    return not any(order.is_stale(k, access) for k, access in readers)


@dataclass(frozen=True)
class ExtremeSearch:
    """How the iteration that reached an extreme is found: a buffer for its number, and the nest that finds it."""

    buffer: Buffer
    nest: Node
    chosen: Expr


def search(kernel: Kernel, site: Site, name: str) -> ExtremeSearch:
    """The search of the first iteration of a statement `m max= e` that reached `m`, in a buffer `name`. An element
    that the number it began with reached has none."""
    statement = site.statement
    own = statement.target
    plainly = {index for index in own.indices if isinstance(index, Affine)}
    depths = [d for d in range(len(site.scopes)) if Affine.iterator(d) not in plainly]
    extents = [largest_extent(site.scopes[d].extent, site.scopes[:d]) for d in depths]
    dtype = DTYPES["i32" if len(depths) <= 1 else "i64"]
    place: Expr = Const(0)
    for n, (depth, extent) in enumerate(zip(depths, extents, strict=True)):
        here = index_value(Affine.iterator(depth))
        place = here if n == 0 else make_op("add", (make_op("mul", (place, index_value(extent))), here))
    value = statement.value.args[1] if statement.condition and isinstance(statement.value, Op) else statement.value
    reached: Expr = Op("or", (Op("eq", (value, own)), Op("ne", (value, value))))
    start = _start(kernel, own.buffer)
    if math.isfinite(start):
        reached = Op("and", (reached, Op("ne", (own, Const(start)))))
    at = Access(name, own.indices)
    never = Const(2 ** (dtype.bits - 1) - 1)
    found: Expr = Op("select", (reached, place, never))
    if statement.condition is not None:
        found = Op("when", (statement.condition, found))
    nest: Node = Statement(at, "min=", found)
    for around in reversed(site.ancestors):
        nest = Scope(around.extent, (nest,)) if isinstance(around, Scope) else Guard(around.conditions, (nest,))
    buffer = Buffer("tmp", name, dtype, kernel.buffer(own.buffer).dims)
    chosen = Op("eq", (at, place if not isinstance(place, Const) else Cast(dtype, place)))
    return ExtremeSearch(buffer, nest, chosen)


def _start(kernel: Kernel, name: str) -> float:
    values = [
        s.statement.value for s in kernel.sites if s.statement.target.buffer == name and s.statement.op == "="
    ]
    return next((float(value.value) for value in values if isinstance(value, Const)), math.inf)
