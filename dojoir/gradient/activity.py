"""Which buffers a gradient goes through: those that depend on what is asked for, and that a result depends on."""

from __future__ import annotations

from collections.abc import Collection

from dojoir.errors import KernelError
from dojoir.ir.expressions import Cast, Expr, Op, parts
from dojoir.ir.nodes import Buffer, Kernel, Statement, expr_accesses
from dojoir.ir.operations import OF_KEYS
from dojoir.ir.where import diagnostic_at


def has_gradient(buffer: Buffer) -> bool:
    """Whether elements of its type have gradients of that type: floats of 16 bits and more."""
    return buffer.dtype.is_float and buffer.dtype.bits >= 16 and not buffer.packed


def varied(kernel: Kernel, of: Collection[str]) -> frozenset[str]:
    """The floating-point buffers whose elements may change with those of the buffers `of`."""
    found = set(of)
    _grow(kernel, found, lambda statement, target: target if reads(statement) & found else frozenset())
    return frozenset(found)


def useful(kernel: Kernel, without: Collection[str] = ()) -> frozenset[str]:
    """The floating-point buffers that a floating-point result may change with, not by way of those `without`."""
    found = {b.name for b in kernel.buffers if b.role in ("out", "inout") and has_gradient(b)}
    left = frozenset(without)
    _grow(kernel, found, lambda statement, target: reads(statement) - left if target & found else frozenset())
    return frozenset(found)


def reads(statement: Statement) -> frozenset[str]:
    """The buffers that the value of a statement reads, without those of conditions and indices alone."""
    value = statement.term.args[1] if isinstance(statement.term, Op) and statement.condition else statement.term
    return frozenset(access.buffer for access in expr_accesses(value))


def _grow(kernel: Kernel, found: set[str], more: object) -> None:
    assert callable(more)
    floats = {b.name for b in kernel.buffers if has_gradient(b)}
    while True:
        before = len(found)
        for site in kernel.sites:
            found |= more(site.statement, frozenset({site.statement.target.buffer})) & floats
        if len(found) == before:
            return


def check_keys(kernel: Kernel, active: Collection[str]) -> None:
    """Raises KernelError (`no-derivative`) for a value that goes through the key of a pair, as in argmax."""
    keys = {
        site.statement.target.buffer
        for site in kernel.sites
        if any(_is_key(part) for part in parts(site.statement.value)) and reads(site.statement) & set(active)
    }
    for site in kernel.sites:
        for part in parts(site.statement.value):
            if not isinstance(part, Cast) or part.way != OF_KEYS[0]:
                continue
            if keys & {a.buffer for a in expr_accesses(part)}:
                message = "the value of a pair has no derivative here: accumulate it by max= or min= in a buffer"
                raise KernelError(diagnostic_at(kernel, site.path, "no-derivative", message))


def _is_key(part: Expr) -> bool:
    return isinstance(part, Op) and part.name in ("argmax_key", "argmin_key")
