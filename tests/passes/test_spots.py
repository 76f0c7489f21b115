"""Spots: nodes that a schedule has found once, wherever the moves after that leave them."""

from __future__ import annotations

import pytest

import dojoir
from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Condition
from dojoir.passes.schedule.steps.spots import spot


def test_a_spot_is_where_its_scope_is() -> None:
    trace = dojoir.Trace(dojoir.kernels.load("matmul"))
    row, column = spot(trace, (0,)), spot(trace, (0, 0))
    assert [str(s) for s in column.scopes()] == ["0.0.1"]
    row.swap()
    assert (row.path, column.path) == ((0, 0), (0,))
    assert row.around().path == column.path
    assert (row.depth, column.depth) == (1, 0)
    assert (row.iterator, column.iterator) == (Affine.iterator(1), Affine.iterator(0))
    assert row.scope.extent != column.scope.extent
    row.mark("gx")
    assert [str(made) for made in trace.moves] == ["swap_scopes(0)", "bind(0.0, gx)"]


def test_a_statement_is_no_scope() -> None:
    trace = dojoir.Trace(dojoir.kernels.load("relu"))
    with pytest.raises(ArgumentError, match=r"0\.0 is a statement, not a scope"):
        _ = spot(trace, (0, 0)).scope


def test_the_whole_body_goes_under_a_guard() -> None:
    trace = dojoir.Trace(dojoir.kernels.load("softmax"))
    row = spot(trace, (0,))
    row.child(1).split(16)
    inner = row.child(1, 0)
    (end,) = (bound for bound in inner.scope.extent.bounds if not bound.is_constant)
    guard = inner.guard([Condition(inner.iterator, "<", end)])
    inner.bound(Affine.constant(16))
    assert str(guard) == "0.1.0.0"
    assert str(trace.moves[-2]) == 'add_guard(0.1.0.0, 1, "{2} < M - 16*{1}")'
