"""Whether iterations of marked scopes are independent at given sizes, by running over every instance.

What the proof of `p` and `v` (`dojoir.independence`) is held to: slow, obvious, and free of sets.
"""

from __future__ import annotations

from collections.abc import Mapping

from enumeration import Element, elements, instances, reads

from dojoir.ir import Kernel, Path, Scope, Statement
from dojoir.operations import ACCUMULATIONS

MARKS = ("p", "v")


def race(kernel: Kernel, sizes: Mapping[str, int]) -> str | None:
    """A conflict between two iterations of a scope marked `p` or `v`, in words, or None."""
    for path, node in kernel.walk():
        if isinstance(node, Scope):
            for mark in MARKS:
                if mark in node.marks:
                    found = _race_in(kernel, path, mark, sizes)
                    if found is not None:
                        return found
    return None


def private_buffers(kernel: Kernel, path: Path) -> set[str]:
    """The temporaries that are used nowhere but inside the scope at `path`."""
    users: dict[str, list[Path]] = {}
    for site in kernel.sites:
        for access in (site.statement.target, *reads(site)):
            users.setdefault(access.buffer, []).append(site.path)
    return {
        name
        for name, paths in users.items()
        if kernel.buffer(name).role == "tmp" and all(p[: len(path)] == path for p in paths)
    }


def _free(kernel: Kernel, statement: Statement) -> bool:
    """Whether the order of the accumulations into the element is free."""
    name = statement.target.buffer
    operators = {s.statement.op for s in kernel.sites if s.statement.target.buffer == name} & ACCUMULATIONS.keys()
    inexact = kernel.buffer(name).dtype.is_float and statement.op in {"+=", "*="}
    return statement.op in ACCUMULATIONS and len(operators) == 1 and not (inexact and kernel.fp == "strict")


def _race_in(kernel: Kernel, path: Path, mark: str, sizes: Mapping[str, int]) -> str | None:
    depth = kernel.depth_of(path)
    private = private_buffers(kernel, path)
    touched: dict[tuple[tuple[int, ...], Element], set[tuple[int, str]]] = {}
    values: dict[Element, set[tuple[int, ...]]] = {}

    def storage(element: Element) -> Element:
        dims = kernel.buffer(element[0]).dims
        return element[0], tuple(0 if d.collapsed else i for d, i in zip(dims, element[1], strict=True))

    for number, at in instances(kernel, sizes):
        site = kernel.sites[number]
        if site.path[: len(path)] != path:
            continue
        statement, me = site.statement, at[: depth + 1]
        for access in reads(site):
            for element in map(storage, elements(kernel, access, sizes, at)):
                if element[0] not in private:
                    touched.setdefault((at[:depth], element), set()).add((at[depth], "read"))
                elif values.get(element, {me}) != {me}:
                    return f"scope {path} {mark}: {element} carried to {at} from {values[element]}"
        (target,) = map(storage, elements(kernel, statement.target, sizes, at))
        if target[0] in private:
            values[target] = {me} | (values.get(target, set()) if statement.op != "=" else set())
        else:
            how = statement.op if mark == "v" and _free(kernel, statement) else "write"
            touched.setdefault((at[:depth], target), set()).add((at[depth], how))
    for (run, element), users in touched.items():
        for turn, how in users:
            if how != "read" and any(t != turn and (h != how or h == "write") for t, h in users):
                return f"scope {path} {mark}: {element} at {run} by {sorted(users)}"
    return None
