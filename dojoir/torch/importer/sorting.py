"""Sorting: each element goes where as many come before it. All pairs of a row are compared, so rows are short."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from dojoir.torch.importer.builder import ProgramBuilder, Tensor, Unsupported, element
from dojoir.torch.importer.element_values import IndexAsValue, Value, apply, cast, compare, number, select
from dojoir.torch.importer.index import as_index
from dojoir.torch.importer.nests import ProgramStatement, loops

aten: Any = torch.ops.aten

LONGEST = 512
"""How many elements a row has at most."""


def _sort(b: ProgramBuilder, x: Tensor, dim: int = -1, is_descending: bool = False) -> tuple[Tensor, Tensor]:
    """The elements along a dimension in order, equal ones as they stood, NaN as the largest; and their places."""
    if not x.rank:
        return x, b.full((), 0, "i64")
    dim %= x.rank
    count = x.shape[dim].constant
    if count is None or count > LONGEST:
        raise Unsupported(
            f"sorting compares all pairs of a row here, and has at most {LONGEST} elements of one, not "
            f"{x.shape[dim].key}: torch.topk takes the first few of a longer one"
        )
    x = b.stored(x)
    name = b.node.name
    rank = b.declare(x.shape, "i32", f"{name}_rank")
    outer, index = b.iterate(x.shape)
    inner, (j,) = b.iterate([as_index(count)])
    other = (*index[:dim], j, *index[dim + 1 :])
    mine, its = x.at(index), x.at(other)
    before = is_before(its, mine, x.dtype, is_descending)
    ties = apply("and", apply("not", is_before(mine, its, x.dtype, is_descending)), _less(j, index[dim]))
    counted = select(apply("or", before, ties), number(1, "i32"), number(0, "i32"))
    target = element(rank, index)
    b.emit(
        outer,
        ProgramStatement(target, "=", number(0, "i32")),
        *loops(inner, (ProgramStatement(target, "+=", counted),)),
    )

    def picked(dtype: str, what: Callable[[Any], Value], suffix: str) -> Tensor:
        carried = {"bool": "i32", "bf16": "f32", "f16": "f32"}.get(dtype, dtype)
        buffer = b.declare(x.shape, carried, f"{name}_{suffix}")
        variables, place = b.iterate(x.shape)
        all_of, (k,) = b.iterate([as_index(count)])
        source = (*place[:dim], k, *place[dim + 1 :])
        is_here = compare("==", element(rank, source), IndexAsValue(place[dim], "i32"))
        value = select(is_here, cast(what(source), carried), number(0, carried))
        to = element(buffer, place)
        b.emit(
            variables,
            ProgramStatement(to, "=", number(0, carried)),
            *loops(all_of, (ProgramStatement(to, "+=", value),)),
        )
        return b.tensor(buffer, x.shape, dtype)

    return picked(x.dtype, x.at, "value"), picked("i64", lambda source: IndexAsValue(source[dim], "i64"), "at")


def _less(left: Any, right: Any) -> Value:
    return compare("<", IndexAsValue(left, "i64"), IndexAsValue(right, "i64"))


def is_before(left: Value, right: Value, dtype: str, is_descending: bool) -> Value:
    """Whether an element comes before another, whatever their places."""
    if is_descending:
        left, right = right, left
    if dtype == "bool":
        return compare("<", cast(left, "i32"), cast(right, "i32"))
    found = compare("<", left, right)
    if dtype not in ("f64", "f32", "bf16", "f16"):
        return found
    return apply("or", found, apply("and", compare("==", left, left), compare("!=", right, right)))


def _stable(b: ProgramBuilder, x: Tensor, *, stable: Any = None, dim: int = -1, descending: bool = False) -> Any:
    return _sort(b, x, dim, descending)


TABLE: dict[Any, Callable[..., Any]] = {aten.sort.default: _sort, aten.sort.stable: _stable}
