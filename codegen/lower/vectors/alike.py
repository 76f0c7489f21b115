"""Common computations of unrolled iterations: done once, before the first iteration.

Where an index from data is the same in all iterations of a scope that are written one after another, each of these
would read it and ask whether it is in range. A value counts as the same if its text is, and no iteration changes
what it reads.
"""

from __future__ import annotations

from collections.abc import Sequence

from dojoir.codegen.lir.program import Fail, Let, Load, Stmt, Value, Var
from dojoir.codegen.lir.walk import changed_by, changed_values, parts, parts_of, replaced

Body = tuple[Stmt, ...]


def computed_once(lanes: Sequence[Body]) -> tuple[list[Stmt], list[Body]]:
    """Hoists the statements that are equal in all unrolled iterations: (the hoisted ones, the rest of each).

    All iterations have the same number of statements."""
    changed = changed_by(tuple(stmt for body in lanes for stmt in body))
    own: list[dict[Value, Value]] = [{} for _ in lanes]
    once: list[Stmt] = []
    named: dict[Value, Var] = {}
    rest: list[list[Stmt]] = [[] for _ in lanes]
    for group in zip(*lanes, strict=True):
        some = [_renamed(stmt, names) for stmt, names in zip(group, own, strict=True)]
        first = some[0]
        if not _is_alike(some) or not changed.isdisjoint(_read(first) - {var.name for var in named.values()}):
            for stmt, body in zip(some, rest, strict=True):
                body.append(stmt)
        elif isinstance(first, Let):
            if first.value not in named:
                named[first.value] = first.var
                once.append(first)
            for stmt, names in zip(some, own, strict=True):
                assert isinstance(stmt, Let)
                names[stmt.var] = named[first.value]
        else:
            once.append(first)
    return once, [tuple(body) for body in rest]


def _is_alike(some: Sequence[Stmt]) -> bool:
    """Whether statements give names to one value that no float is part of, or record one failure."""
    found = [stmt.value for stmt in some if isinstance(stmt, Let)]
    if len(found) == len(some):
        whole = all(part.type.dtype.kind != "f" for part in parts(found[0]))  # as 0.0 and -0.0 have one text
        return whole and len(set(found)) == 1
    return isinstance(some[0], Fail) and len(set(some)) == 1


def _read(stmt: Stmt) -> set[str]:
    """The arrays and variables that a statement reads."""
    found = [*parts_of(stmt)]
    return {p.buffer for p in found if isinstance(p, Load)} | {p.name for p in found if isinstance(p, Var)}


def _renamed(stmt: Stmt, names: dict[Value, Value]) -> Stmt:
    """A statement with other variables in the place of some."""
    return changed_values((stmt,), lambda value: replaced(value, names.get))[0] if names else stmt
