"""Statements that write at distinct indices from data: no two of their instances touch one element.

`h[at[i], j] = v`, where no two elements of `at` are equal (an argument that is `distinct`, which a call checks),
does so if no two instances have the same `i` and `j`. That is asked of all statements together that write one
buffer so.
"""

from __future__ import annotations

from collections.abc import Mapping

from dojoir.ir.affine import Affine
from dojoir.ir.nodes import APART, Access, Kernel, Statement
from dojoir.sets.kernel_sets import isl_affine, iterators, sets_of


def apart(kernel: Kernel) -> Mapping[int, str]:
    """The statements, by number, that write at distinct indices from data, no two instances of those by one
    operator at the same: and that operator."""
    sets, named = sets_of(kernel), dict[tuple[str, str], list[int]]()
    for number, site in enumerate(kernel.sites):
        if (operator := _distinct_operator(kernel, site.statement)) is not None:
            named.setdefault((site.statement.target.buffer, operator), []).append(number)
    found: dict[int, str] = {}
    for (_, operator), numbers in named.items():
        dim, targets = int(operator.split()[2]), [kernel.sites[k].statement.target.indices for k in numbers]
        plain = [d for d, some in enumerate(zip(*targets, strict=True)) if {*map(type, some)} == {Affine}]
        pieces = []
        for number, indices in zip(numbers, targets, strict=True):
            index = indices[dim]
            assert isinstance(index, Access)
            at = [i for i in (*index.indices, *(indices[d] for d in plain)) if isinstance(i, Affine)]
            domain = f"s{number}[{iterators(len(kernel.sites[number].scopes))}]"
            where = sets.constraints(kernel.sites[number].ancestors)
            pieces.append(f"{domain} -> [{', '.join(map(isl_affine, at))}] : {where}")
        if sets.map(*pieces).is_injective():
            found |= dict.fromkeys(numbers, operator)
    return found


def _distinct_operator(kernel: Kernel, statement: Statement) -> str | None:
    """The operator of a statement that writes at distinct indices from data; None for others."""
    buffer = kernel.buffer(statement.target.buffer)
    if not buffer.packed and not any(dim.collapsed for dim in buffer.dims):
        for dim in statement.scatters:
            match statement.target.indices[dim]:
                case Access(name, at) if kernel.buffer(name).distinct and {*map(type, at)} == {Affine}:
                    return f"{APART}{name} {dim} {statement.op}"
    return None
