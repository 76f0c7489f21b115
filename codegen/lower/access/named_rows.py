"""Contiguous indices that go through a temporary: `at = start[i] + j`, then `x[at]`.

A ragged row begins where the data say, so that its elements have no affine index. In lanes along it they are still
neighbours, read as such from the first one on: the temporary is set once, before it is read, to the iterator of
the lanes and to what all lanes share.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dojoir.codegen.lir.arith import add, affine_value, along, integer
from dojoir.codegen.lir.program import Value
from dojoir.codegen.lower.access.state import LoweringState, LoweringUnit
from dojoir.ir.dtypes import I64
from dojoir.ir.expressions import expr_accesses
from dojoir.ir.nodes import Access, Cast, Expr, Index, Kernel, Op, Path, Scope, Statement
from dojoir.ir.paths import is_inside
from dojoir.ir.places import ancestors, sites_inside
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class NamedRow:
    """The terms whose sum is the index in the first lane, all computed as i64, and the state in which they are."""

    terms: tuple[Expr, ...]
    state: LoweringState

    @property
    def reads(self) -> tuple[Access, ...]:
        """The elements among the terms."""
        return tuple(access for term in self.terms for access in expr_accesses(term))

    def first(self, elements: Iterable[Value]) -> Value:
        """The index in the first lane, from the elements that it reads, as i64."""
        total: Value = integer(0)
        for element in elements:
            total = add(total, element)
        for term in self.terms:
            if isinstance(term, Index):
                total = add(total, affine_value(term.affine, self.state.iterators))
        return total


def row_of(unit: LoweringUnit, state: LoweringState, path: Path, index: Access) -> NamedRow | None:
    """The terms that add up to an index of the statement at `path` in the first lane, where the index grows by
    one from lane to lane. They are i64, and no range is checked. None for any other index."""
    lanes = state.lanes
    if lanes is None or unit.buffers[index.buffer].role != "tmp" or unit.buffers[index.buffer].dtype != I64:
        return None
    setting = _only_setting(unit.kernel, path, index)
    if setting is None:
        return None
    terms = _terms(setting.value)
    steps = [along(term.affine, lanes.depth) for term in terms if isinstance(term, Index)]
    reads = expr_accesses(setting.value)
    shared = all(_is_shared(unit.kernel, access, lanes.depth, path) for access in reads)
    plain = all(isinstance(term, Index) or _is_i64(unit, term) for term in terms)
    if not (plain and shared and all(linear for _, linear in steps) and sum(step for step, _ in steps) == 1):
        return None
    return NamedRow(tuple(terms), replace(state, lanes=None))


def _only_setting(kernel: Kernel, path: Path, index: Access) -> Statement | None:
    """The one statement that gives a temporary its value, where it runs before the one at `path` in each iteration
    of the scopes around that one, and under no condition that this one is not under."""
    sites = [site for site in kernel.sites if site.statement.target.buffer == index.buffer]
    if len(sites) != 1 or sites[0].statement.accumulation or sites[0].statement.target != index:
        return None
    around, place = sites[0].path[:-1], sites[0].path
    before = is_inside(path, around) and path[: len(place)] > place
    return sites[0].statement if before else None


def _terms(value: Expr) -> list[Expr]:
    """The terms of a sum; the value alone where it is none."""
    if isinstance(value, Op) and value.name == "add":
        return [term for arg in value.args for term in _terms(arg)]
    return [value]


def _is_shared(kernel: Kernel, access: Access, depth: int, path: Path) -> bool:
    """Whether an element that is read beside the statement at `path` is the same in all lanes, and whenever it is
    read in an iteration: nothing in the scope that runs in lanes, the one at `depth`, writes its array."""
    if any(isinstance(index, Access) or depth in index.iterators for index in access.indices):
        return False
    scopes = [n for n, node in enumerate(ancestors(kernel, path), 1) if isinstance(node, Scope)]
    inside = sites_inside(kernel, path[: scopes[depth]])
    return all(site.statement.target.buffer != access.buffer for site in inside)


def _is_i64(unit: LoweringUnit, term: Expr) -> bool:
    """Whether a term is an integer element as an i64."""
    match term:
        case Access(name, _):
            return unit.buffers[name].dtype == I64
        case Cast(dtype, Access(name, _), way="cast"):
            held = unit.buffers[name].dtype
            return dtype == I64 and held.is_integer and held.bits >= 8
    return False
