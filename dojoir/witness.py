"""Concrete points of sets and maps: the iteration that a refusal shows, at sizes as small as it happens."""

from __future__ import annotations

from dataclasses import dataclass

import islpy as isl

from dojoir.ir import Kernel
from dojoir.printer import format_statement

SMALL = (2, 3, 5, 9, 33)
"""The largest sizes that are tried, before any are."""


@dataclass(frozen=True)
class Point:
    """A point of one tuple: `name` as in `dojoir.sets`, and its coordinates."""

    name: str
    coordinates: tuple[int, ...]

    @property
    def site(self) -> int | None:
        """The number of the statement, for an instance of one or a read of one."""
        digits = self.name[1:].partition("r")[0]
        return int(digits) if self.name[0] in "st" and digits.isdigit() else None

    def iteration(self, kernel: Kernel) -> tuple[int, ...]:
        """The iterators of the statement, without the gathered indices that may follow."""
        return self.coordinates[: len(kernel.sites[self.site].scopes)] if self.site is not None else ()


@dataclass(frozen=True)
class Example:
    """A pair of points that are related, and the sizes with which they are."""

    sizes: tuple[tuple[str, int], ...]
    left: Point
    right: Point


def example(relation: isl.UnionMap, kernel: Kernel) -> Example | None:
    """A point of a union map, with sizes as small as possible. None if the map is empty."""
    maps = [m for m in _maps(relation) if not m.is_empty()]
    if not maps:
        return None
    for limit in SMALL:
        for candidate in maps:
            bounded = candidate
            for i in range(candidate.dim(isl.dim_type.param)):
                bounded = bounded.upper_bound_val(isl.dim_type.param, i, limit)
            if not bounded.is_empty():
                return _sample(bounded, kernel)
    return _sample(maps[0], kernel)


def _maps(relation: isl.UnionMap) -> list[isl.Map]:
    found: list[isl.Map] = []
    relation.foreach_map(found.append)
    return sorted(found, key=str)


def _sample(relation: isl.Map, kernel: Kernel) -> Example:
    sample = relation.lexmin().sample() if relation.dim(isl.dim_type.param) == 0 else relation.sample()
    names = relation.get_var_names(isl.dim_type.param)
    given = dict(zip(names, _values(sample, isl.dim_type.param), strict=True))
    sizes = tuple((name, given.get(f"n_{name}", 1)) for name in kernel.runtime_sizes)
    return Example(
        sizes,
        Point(relation.get_tuple_name(isl.dim_type.in_) or "", _values(sample, isl.dim_type.in_)),
        Point(relation.get_tuple_name(isl.dim_type.out) or "", _values(sample, isl.dim_type.out)),
    )


def _values(sample: isl.BasicMap, kind: isl.dim_type) -> tuple[int, ...]:
    return tuple(int(sample.plain_get_val_if_fixed(kind, i).to_python()) for i in range(sample.dim(kind)))


def at(iteration: tuple[int, ...]) -> str:
    """`at {0}=1, {1}=0`, or nothing outside of all scopes."""
    return "at " + ", ".join(f"{{{d}}}={value}" for d, value in enumerate(iteration)) if iteration else ""


def statement_text(point: Point, kernel: Kernel) -> str:
    """The text of the statement of which `point` is an instance, quoted."""
    assert point.site is not None
    return f"`{format_statement(kernel.sites[point.site].statement)}`"


def describe(point: Point, kernel: Kernel) -> str:
    """`` `y[{0}] = x[{0}]` at {0}=1 ``: a statement instance in words."""
    return f"{statement_text(point, kernel)} {at(point.iteration(kernel))}".rstrip()


def with_sizes(sizes: tuple[tuple[str, int], ...]) -> str:
    """`with N=1, M=2: `, or nothing where the kernel has no runtime sizes."""
    return f"with {', '.join(f'{name}={value}' for name, value in sizes)}: " if sizes else ""


def occasion(sizes: tuple[tuple[str, int], ...], iteration: tuple[int, ...] = ()) -> str:
    """`with N=1, M=2 at {0}=0: `, as much of it as there is."""
    words = with_sizes(sizes).removesuffix(": "), at(iteration)
    return " ".join(filter(None, words)) + ": " if any(words) else ""
