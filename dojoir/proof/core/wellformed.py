"""The well-formedness of a kernel beyond its syntax, proved for every size it allows.

The facts on the sizes can hold; every dimension has an element; the types fit, also where a rule has put numbers or
signs that no text had. Every index is in bounds
(`dojoir.proof.core.bounds`); every read comes after a write and every output is written
(`dojoir.proof.core.written`). Scopes marked `p` or `v` have independent iterations
(`dojoir.proof.core.independence`), and the other marks stand where they can (`dojoir.proof.core.marks`).
"""

from __future__ import annotations

from collections.abc import Set

import islpy as isl

from dojoir.errors import Diagnostic, KernelError
from dojoir.ir.buffer_rules import stream_error
from dojoir.ir.format import format_condition
from dojoir.ir.nodes import Access, Buffer, Kernel, Scope, Site
from dojoir.ir.packing import packing_error
from dojoir.ir.where import diagnostic_at
from dojoir.proof.core.bounds import OutOfBounds, prove_bounds
from dojoir.proof.core.independence import Conflict, Finder, find_conflict
from dojoir.proof.core.marks import mark_error
from dojoir.proof.core.written import Unwritten, prove_collapsed, prove_written
from dojoir.sets.data_writes import without_data_writes
from dojoir.sets.kernel_sets import isl_affine, sets_of
from dojoir.sets.ranges import is_nonnegative
from dojoir.support.frozen import dataclass
from dojoir.types.elaborate import check


@dataclass(frozen=True)
class EmptyDimension:
    """Dimension `number` of a buffer has no element at the sizes in `where`, a map of nothing to nothing."""

    kernel: Kernel
    buffer: Buffer
    number: int
    where: isl.UnionMap


@dataclass(frozen=True)
class Dependent:
    """The iterations of a marked scope are not independent: of one that the text of a kernel marks with `mark`, or,
    where that is None, of one that a rewrite would mark or leave marked."""

    kernel: Kernel
    conflict: Conflict
    mark: str | None = None


IllFormed = Diagnostic | EmptyDimension | OutOfBounds | Unwritten | Dependent
"""The error that makes a kernel ill-formed. A Diagnostic is seen in the tree, whatever the sizes: there is nothing
to sample."""


def complaint(kernel: Kernel, find: Finder = find_conflict) -> IllFormed | None:
    """The error of a kernel, for some sizes that it allows, or None if it is well-formed. `find` is what looks for
    iterations of marked scopes in conflict."""
    found = _impossible_facts(kernel) or prove_dimensions(kernel) or prove_storage(kernel) or packing_error(kernel)
    if (found := found or _ill_typed(kernel)) is not None:
        return found
    kernel = without_data_writes(kernel)
    return (
        prove_bounds(kernel, range(len(kernel.sites)))
        or prove_written(kernel)
        or prove_collapsed(kernel)
        or mark_error(kernel)
        or _dependent_iterations(kernel, find)
    )


def _impossible_facts(kernel: Kernel) -> Diagnostic | None:
    if not kernel.facts or not sets_of(kernel).parameters.is_empty():
        return None
    message = f"no sizes satisfy the facts {', '.join(map(format_condition, kernel.facts))}"
    return diagnostic_at(kernel, (), "impossible-facts", message, kernel.facts[0])


def _ill_typed(kernel: Kernel) -> Diagnostic | None:
    """The first types that do not fit. The parser refuses these as well; a rule can write them."""
    try:
        check(kernel)
    except KernelError as error:
        return error.diagnostic
    return None


def prove_dimensions(kernel: Kernel) -> EmptyDimension | None:
    """A dimension that may have no element, or None."""
    sets = sets_of(kernel)
    for buffer in kernel.buffers:
        for number, dim in enumerate(buffer.dims):
            if is_nonnegative(dim.extent - 1, ()):
                continue
            wrong = sets.map(f"[] -> [] : {isl_affine(dim.extent)} < 1")
            if not wrong.is_empty():
                return EmptyDimension(kernel, buffer, number, wrong)
    return None


def prove_storage(kernel: Kernel) -> Diagnostic | None:
    """Storage and accesses that a buffer does not permit, whatever the sizes."""
    for buffer in kernel.buffers:
        found = _misplaced_buffer(buffer)
        if found is not None:
            return diagnostic_at(kernel, (), *found, buffer)
    declared = {buffer.name for buffer in kernel.buffers}
    for site in kernel.sites:
        if (misplaced := _misplaced_access(kernel, site, declared)) is not None:
            return diagnostic_at(kernel, site.path, *misplaced)
    return None


def _misplaced_access(kernel: Kernel, site: Site, declared: Set[str]) -> tuple[str, str, Access] | None:
    """The parser refuses these; a program can build them."""
    target = site.statement.target
    for access in (target, *site.statement.reads):
        if access.buffer not in declared:
            return "unknown-buffer", f"kernel {kernel.name} has no buffer '{access.buffer}'", access
    if kernel.buffer(target.buffer).role == "in":
        message = f"{target.buffer} is an in buffer, which nothing may write: declare it `inout`"
        return "write-to-input", message, target
    return None


def _misplaced_buffer(buffer: Buffer) -> tuple[str, str] | None:
    name = buffer.name
    unstreamed = stream_error(buffer)
    if unstreamed is not None:
        return "bad-attribute", unstreamed
    if buffer.role != "tmp":
        if any(dim.collapsed for dim in buffer.dims):
            return "argument-storage", f"the caller has storage for every index of {name}: remove the `~`"
        if buffer.storage != "heap":
            return "argument-storage", f"the caller chooses where {name} lives: remove `{buffer.storage}`"
    if buffer.storage in {"stack", "reg"}:
        for dim in buffer.dims:
            if not dim.collapsed and not dim.extent.is_constant:
                return (
                    "open-extent",
                    f"{name} is in `{buffer.storage}`, which needs constant extents, and {dim.extent} is not: "
                    f"use `heap`, or collapse the dimension with `~`",
                )
    return None


def _dependent_iterations(kernel: Kernel, find: Finder) -> Dependent | None:
    for path, node in kernel.walk():
        if not isinstance(node, Scope):
            continue
        for mark in node.marks:
            conflict = find(kernel, path, mark) if mark != "u" else None
            if conflict is not None:
                return Dependent(kernel, conflict, mark)
    return None
