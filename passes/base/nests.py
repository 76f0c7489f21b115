"""Scopes inside of each other, each the only child of the one before."""

from __future__ import annotations

from dojoir.ir.nodes import Scope


def inner_scope(scope: Scope) -> Scope | None:
    """The scope that is the only child of a scope; None where there is none."""
    return scope.body[0] if len(scope.body) == 1 and isinstance(scope.body[0], Scope) else None


def nest_of(scope: Scope, most: int) -> list[Scope]:
    """A scope and those inside, each the only child of the one before, `most` at most."""
    found = [scope]
    while len(found) < most and (child := inner_scope(found[-1])) is not None:
        found.append(child)
    return found
