"""Sums that are carried in a wider type than their elements have, and rounded once.

One f32 that a loop adds to takes up less and less of each number: a sum of 2^27 ones stands still at 2^24. Where
the order of the accumulations into an element is free (`fp reassoc`, `fast`), so is what they are rounded to on the
way. A sum means the set of what is added, and each rounding that is left out only brings the result nearer to that
(the bounds of `dojoir.verify` hold for any number of them). So an element of f32 that all of a plain loop adds to
is carried in f64, one of a narrower float in f32. A chain of scalar additions takes as long in f64 as in f32: it
waits for the sum before, and what converts the numbers does not stand in that chain.

Scopes in lanes keep sums of their own, many side by side (`plan`); one marked `v` that a target cannot run in lanes
is a plain loop. Tiles keep sums of their own too: their temporaries have room for f32 where they are of a narrower
float (`with_room`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from dojoir.codegen.lower.plans.plan import Accumulator, Analysis, Plan
from dojoir.ir.dtypes import F32, F64, DType
from dojoir.ir.instruction import Use
from dojoir.ir.nodes import Access, Buffer, Const, Kernel, Path, Scope, Site
from dojoir.types.rounding import FORMATS

FEWEST = 32
"""Of fewer numbers in f32, a constant number of them, no wider sum is made."""


def wider(dtype: DType) -> DType | None:
    """The type in which sums of elements of a type are carried; None where it is their own."""
    if not dtype.is_float or dtype.bits >= 64:
        return None
    return F64 if dtype.bits == 32 else F32


def carried(analysis: Analysis, plans: Mapping[Path, Plan]) -> dict[Path, tuple[Accumulator, ...]]:
    """The sums that scopes carry, by the outermost scope that does nothing else with the element."""
    if analysis.kernel.fp == "strict":
        return {}
    found: dict[Path, tuple[Accumulator, ...]] = {}
    done: set[Path] = set()
    for path, node in analysis.kernel.walk():
        if isinstance(node, Scope) and "p" not in node.marks and not _in_lanes(path, plans):
            own = [a for a in analysis.reductions(path, node) if _is_carried(analysis, path, a, plans)]
            own = [a for a in own if not done.intersection(a.paths)]
            done.update(at for accumulator in own for at in accumulator.paths)
            if own:
                found[path] = tuple(replace(a, dtype=_carrier(analysis, a), until=path) for a in own)
    return found


def with_room(kernel: Kernel) -> Kernel:
    """The kernel with temporaries of f32 in place of those of narrower floats that only hold sums. Their elements
    begin as numbers or copies of elements of their type, are added to, and are copied or added to such again."""
    if kernel.fp == "strict":
        return kernel
    narrow = [b for b in kernel.buffers if b.role == "tmp" and b.dtype.is_float and b.dtype.bits < 32]
    narrow = [b for b in narrow if not FORMATS[b.dtype.name].is_scale]  # 0 is none of its numbers
    widened = kernel
    for buffer in narrow:
        if _holds_sums(kernel, buffer):
            widened = widened.replace_buffer(replace(buffer, dtype=F32))
    return widened


def _holds_sums(kernel: Kernel, buffer: Buffer) -> bool:
    sites = [site for site in kernel.sites if buffer.name in site.statement.buffers]
    types = {one.name: one.dtype for one in kernel.buffers}
    sums = False
    for site in sites:
        statement = site.statement
        summed = statement.accumulation == "+="
        written = statement.target.buffer == buffer.name
        read = [access for access in statement.term_reads if access.buffer == buffer.name]
        copied = (
            isinstance(statement.value, Access) and types[statement.value.buffer] == types[statement.target.buffer]
        )
        if any(isinstance(h, Use) and h.instruction.group == 1 for scope in site.scopes for h in scope.hints):
            return False
        if written and not (summed or (statement.op == "=" and (copied or isinstance(statement.value, Const)))):
            return False
        if read and not (copied and (summed or statement.op == "=")):
            return False
        sums |= written and summed
    return sums


def _carrier(analysis: Analysis, accumulator: Accumulator) -> DType:
    """The type of a sum: that of what is added where it is wider still."""
    kind = wider(analysis.typed[accumulator.paths[0]].dtype)
    assert kind is not None
    return max(kind, accumulator.dtype, key=lambda dtype: dtype.bits)


def _in_lanes(path: Path, plans: Mapping[Path, Plan]) -> bool:
    """Whether a scope is one in lanes, or inside of one."""
    return any(path[: len(plan)] == plan for plan in plans)


def _is_carried(analysis: Analysis, path: Path, accumulator: Accumulator, plans: Mapping[Path, Plan]) -> bool:
    sites = [site for site in analysis.kernel.sites if site.path in accumulator.paths]
    dtype = analysis.typed[accumulator.paths[0]].dtype
    if accumulator.op != "add" or accumulator.along or wider(dtype) is None:
        return False
    inner = [_inner(site, path) for site in sites]
    if any(_in_lanes(site.path, plans) for site in sites) or not all(map(_is_plain, inner)):
        return False
    return dtype.bits < 32 or not all(_is_short(scopes) for scopes in inner)


def _inner(site: Site, path: Path) -> Sequence[Scope]:
    """The scopes around a statement from the one at `path` on."""
    return [node for node in site.ancestors[len(path) - 1 :] if isinstance(node, Scope)]


def _is_plain(scopes: Sequence[Scope]) -> bool:
    """Whether all run on one thread, spelled as loops."""
    return not any("p" in scope.marks or any(isinstance(h, Use) for h in scope.hints) for scope in scopes)


def _is_short(scopes: Sequence[Scope]) -> bool:
    bounds = [scope.constant_bound for scope in scopes]
    return all(bound is not None for bound in bounds) and prod(bound or 0 for bound in bounds) < FEWEST
