"""Sorting: each element goes where as many come before it. All pairs of a row are compared, so rows are short."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from dojoir.torch.importer.builder import ProgramBuilder, Tensor, Unsupported, element
from dojoir.torch.importer.element_values import (
    BOOL,
    I32,
    I64,
    DType,
    IndexAsValue,
    Value,
    apply,
    cast,
    compare,
    number,
    select,
)
from dojoir.torch.importer.index import as_index
from dojoir.torch.importer.nests import ProgramStatement, loops

aten: Any = torch.ops.aten

LONGEST = 512
"""How many elements a row has at most."""


def _sort(b: ProgramBuilder, x: Tensor, dim: int = -1, is_descending: bool = False) -> tuple[Tensor, Tensor]:
    """The elements along a dimension in order, equal ones as they stood, NaN as the largest; and their places."""
    if not x.rank:
        return x, b.full((), 0, I64)
    dim %= x.rank
    count = x.shape[dim].constant
    if count is None or count > LONGEST:
        raise Unsupported(
            f"sorting compares all pairs of a row here, and has at most {LONGEST} elements of one, not "
            f"{x.shape[dim].key}: torch.topk takes the first few of a longer one"
        )
    x = b.stored(x)
    name = b.node.name
    rank = b.declare(x.shape, I32, f"{name}_rank")
    outer, index = b.iterate(x.shape)
    inner, (j,) = b.iterate([as_index(count)])
    other = (*index[:dim], j, *index[dim + 1 :])
    mine, its = x.at(index), x.at(other)
    before = is_before(its, mine, x.dtype, is_descending)
    ties = apply("and", apply("not", is_before(mine, its, x.dtype, is_descending)), _less(j, index[dim]))
    counted = select(apply("or", before, ties), number(1, I32), number(0, I32))
    target = element(rank, index)
    b.emit(
        outer,
        ProgramStatement(target, "=", number(0, I32)),
        *loops(inner, (ProgramStatement(target, "+=", counted),)),
    )

    def picked(dtype: DType, what: Callable[[Any], Value], suffix: str) -> Tensor:
        carried = I32 if dtype == BOOL else dtype.compute
        buffer = b.declare(x.shape, carried, f"{name}_{suffix}")
        variables, place = b.iterate(x.shape)
        all_of, (k,) = b.iterate([as_index(count)])
        source = (*place[:dim], k, *place[dim + 1 :])
        is_here = compare("==", element(rank, source), IndexAsValue(place[dim], I32))
        value = select(is_here, cast(what(source), carried), number(0, carried))
        to = element(buffer, place)
        b.emit(
            variables,
            ProgramStatement(to, "=", number(0, carried)),
            *loops(all_of, (ProgramStatement(to, "+=", value),)),
        )
        return b.tensor(buffer, x.shape, dtype)

    return picked(x.dtype, x.at, "value"), picked(I64, lambda source: IndexAsValue(source[dim], I64), "at")


def _less(left: Any, right: Any) -> Value:
    return compare("<", IndexAsValue(left, I64), IndexAsValue(right, I64))


def is_before(left: Value, right: Value, dtype: DType, is_descending: bool) -> Value:
    """Whether an element comes before another, whatever their places."""
    if is_descending:
        left, right = right, left
    if dtype == BOOL:
        return compare("<", cast(left, I32), cast(right, I32))
    found = compare("<", left, right)
    if not dtype.is_float:
        return found
    return apply("or", found, apply("and", compare("==", left, left), compare("!=", right, right)))


def _stable(b: ProgramBuilder, x: Tensor, *, stable: Any = None, dim: int = -1, descending: bool = False) -> Any:
    return _sort(b, x, dim, descending)


TABLE: dict[Any, Callable[..., Any]] = {aten.sort.default: _sort, aten.sort.stable: _stable}
