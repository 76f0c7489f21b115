"""Concrete points of sets and maps: the iteration that a refusal shows, at sizes as small as it happens."""

from __future__ import annotations

from collections.abc import Sequence

import islpy as isl

from dojoir.errors import Diagnostic, Note, Party
from dojoir.ir.format import Name, format_access, format_statement
from dojoir.ir.nodes import Access, Kernel, Path, Scope, format_path
from dojoir.ir.where import place
from dojoir.sets.limits import integer
from dojoir.support.frozen import dataclass

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


def witness(relation: isl.UnionMap, kernel: Kernel) -> Example:
    """The same of a union map that is known not to be empty."""
    found = example(relation, kernel)
    assert found is not None, "the map is empty"
    return found


def _maps(relation: isl.UnionMap) -> list[isl.Map]:
    found: list[isl.Map] = []
    relation.foreach_map(found.append)
    return sorted(found, key=str)


def _sample(relation: isl.Map, kernel: Kernel) -> Example:
    sample = _least(relation) if relation.dim(isl.dim_type.param) == 0 else relation.sample()
    names = relation.get_var_names(isl.dim_type.param)
    given = dict(zip(names, _values(sample, isl.dim_type.param), strict=True))
    sizes = tuple((name, given.get(f"n_{name}", 1)) for name in kernel.runtime_sizes)
    return Example(
        sizes,
        Point(relation.get_tuple_name(isl.dim_type.in_) or "", _values(sample, isl.dim_type.in_)),
        Point(relation.get_tuple_name(isl.dim_type.out) or "", _values(sample, isl.dim_type.out)),
    )


def _least(relation: isl.Map) -> isl.BasicMap:
    """The first pair of points, or any: in some sets with remainders, isl 0.27 ends the search for the first with
    an error of its own, or finds none."""
    try:
        first = relation.lexmin().sample()
    except isl.Error:
        return relation.sample()
    return relation.sample() if first.is_empty() else first


def _values(sample: isl.BasicMap, kind: isl.dim_type) -> tuple[int, ...]:
    """The numbers of a point. Raises isl.Error where isl has none, as when its steps are spent."""
    return tuple(integer(sample.plain_get_val_if_fixed(kind, i)) for i in range(sample.dim(kind)))


def spelling(kernel: Kernel, scopes: Sequence[Scope]) -> Name:
    """How the iterators of these scopes are written to a user: by label where the kernel has a text of its own and
    the scope a label, else by depth."""
    labels = [scope.label if kernel.source is not None else None for scope in scopes]
    return lambda depth: (labels[depth] if depth < len(labels) else None) or str(depth)


def at(iteration: tuple[int, ...], name: Name = str) -> str:
    """`at {0}=1, {1}=0`, or nothing outside of all scopes."""
    return "at " + ", ".join(f"{{{name(d)}}}={value}" for d, value in enumerate(iteration)) if iteration else ""


def statement_text(point: Point, kernel: Kernel) -> str:
    """The text of the statement of which `point` is an instance, quoted."""
    assert point.site is not None
    site = kernel.sites[point.site]
    return f"`{format_statement(site.statement, spelling(kernel, site.scopes))}`"


def when(point: Point, kernel: Kernel) -> str:
    """`at {0}=1`: the iteration of a statement instance."""
    scopes = kernel.sites[point.site].scopes if point.site is not None else ()
    return at(point.iteration(kernel), spelling(kernel, scopes))


def describe(point: Point, kernel: Kernel) -> str:
    """`` `y[{0}] = x[{0}]` at {0}=1 ``: a statement instance in words."""
    return f"{statement_text(point, kernel)} {when(point, kernel)}".rstrip()


def read_by(point: Point, kernel: Kernel) -> Access | None:
    """The access that a read makes, where `point` is one of the text, or of a statement's own target."""
    if point.site is None:
        return None
    statement = kernel.sites[point.site].statement
    if point.name.startswith("t"):
        return statement.target
    ordinal = point.name.partition("r")[2]
    return statement.reads[int(ordinal)] if ordinal.isdigit() else None


def party(point: Point, kernel: Kernel, does: str, access: Access | None = None) -> Party:
    """A statement instance as one of those that a diagnostic is about."""
    assert point.site is not None
    site = kernel.sites[point.site]
    source, span = place(kernel, site.path, access)
    name = spelling(kernel, site.scopes)
    shown = None if access is None else format_access(access, name)
    text = format_statement(site.statement, name)
    return Party(does, format_path(site.path), text, shown, point.iteration(kernel), span, source)


def node_party(kernel: Kernel, path: Path, does: str) -> Party:
    """A node, whatever its iteration, as one of those that a diagnostic is about."""
    source, span = place(kernel, path)
    text = source.line(span.line)[span.column - 1 : span.end - 1]
    return Party(does, format_path(path), text, None, (), span, source)


def accuse(
    code: str,
    message: str,
    parties: Sequence[Party],
    sizes: tuple[tuple[str, int], ...] = (),
    notes: tuple[Note, ...] = (),
) -> Diagnostic:
    """A diagnostic about the first of several parties, with a note for each of the others on another line."""
    first = parties[0]
    shown = {(first.source.name, first.span.line)}
    others: list[Note] = []
    for other in parties[1:]:
        if (other.source.name, other.span.line) not in shown:
            shown.add((other.source.name, other.span.line))
            others.append(Note(other.does, other.span, other.source))
    return Diagnostic(code, message, first.span, first.source, (*others, *notes), sizes, tuple(parties))


def with_sizes(sizes: tuple[tuple[str, int], ...]) -> str:
    """`with N=1, M=2: `, or nothing where the kernel has no runtime sizes."""
    return f"with {', '.join(f'{name}={value}' for name, value in sizes)}: " if sizes else ""


def occasion(sizes: tuple[tuple[str, int], ...], iteration: tuple[int, ...] = (), name: Name = str) -> str:
    """`with N=1, M=2 at {0}=0: `, as much of it as there is."""
    words = with_sizes(sizes).removesuffix(": "), at(iteration, name)
    return " ".join(filter(None, words)) + ": " if any(words) else ""
