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

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod

from dojoir.codegen.lower.gpu.thread_plan import Threads, has_mark
from dojoir.codegen.lower.plans.plan import Accumulator, Analysis, LanePlan
from dojoir.ir.dtypes import F32, F64, DType
from dojoir.ir.instruction import Use
from dojoir.ir.nodes import Access, Buffer, Const, Kernel, Path, Scope
from dojoir.ir.words import BLOCK, GRID
from dojoir.types.rounding import FORMATS

BESIDE = frozenset({*GRID, *BLOCK, "lane", "p"})
"""The marks of scopes whose iterations are not one thread's."""

FEWEST = 32
"""Of fewer numbers in f32, a constant number of them, no wider sum is made."""


def wider(dtype: DType) -> DType | None:
    """The type in which sums of elements of a type are carried; None where it is their own."""
    if not dtype.is_float or dtype.bits >= 64:
        return None
    return F64 if dtype.bits == 32 else F32


def carried(analysis: Analysis, plans: Mapping[Path, LanePlan]) -> dict[Path, tuple[Accumulator, ...]]:
    """The sums that plain loops of a CPU carry, each by a scope."""

    def has(path: Path, scope: Scope) -> bool:
        return "p" not in scope.marks and not _in_lanes(path, plans)

    def takes(path: Path, accumulator: Accumulator) -> bool:
        plain = not accumulator.along and not any(_in_lanes(at, plans) for at in accumulator.paths)
        return plain and _is_carried(analysis, path, accumulator, frozenset("p"))

    return _in_variables(analysis, has, takes, (), _wider_of)


def carried_by_threads(analysis: Analysis, threads: Threads) -> dict[Path, tuple[Accumulator, ...]]:
    """The sums that threads of a GPU carry in variables of f32, each by a scope: those whose element is in global
    or shared memory, or of a narrower float. `partial_sums` can put them in parts. What threads accumulate together
    has such a variable already (`collectives`)."""

    def has(path: Path, scope: Scope) -> bool:
        return not has_mark(scope, BESIDE) and any(launched.holds(path) for launched in threads.launches)

    def takes(path: Path, accumulator: Accumulator) -> bool:
        return _is_carried(analysis, path, accumulator, frozenset(), accumulator.along != ())

    return _in_variables(analysis, has, takes, threads.collectives, lambda _: F32)


def _in_variables(
    analysis: Analysis,
    has: Callable[[Path, Scope], bool],
    takes: Callable[[Path, Accumulator], bool],
    taken: Iterable[Path],
    carrier: Callable[[DType], DType],
) -> dict[Path, tuple[Accumulator, ...]]:
    """Sums in variables of a type that follows from that of the element, or of what is added if that is wider."""
    if analysis.kernel.fp == "strict":
        return {}

    def widened(path: Path, accumulator: Accumulator) -> Accumulator:
        own = carrier(analysis.typed[accumulator.paths[0]].dtype)
        return replace(accumulator, dtype=max(own, accumulator.dtype, key=lambda dtype: dtype.bits), until=path)

    found = analysis.sums(has, takes, taken)
    return {path: tuple(widened(path, a) for a in own) for path, own in found.items()}


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


def _wider_of(dtype: DType) -> DType:
    kind = wider(dtype)
    assert kind is not None
    return kind


def _in_lanes(path: Path, plans: Mapping[Path, LanePlan]) -> bool:
    """Whether a scope is one in lanes, or inside of one."""
    return any(path[: len(plan)] == plan for plan in plans)


def _is_carried(
    analysis: Analysis, path: Path, accumulator: Accumulator, without: frozenset[str], short: bool = False
) -> bool:
    """Whether a sum of the scope at a path gains by a variable of a wider type: that of a narrow float always does,
    of f32 a long one. None of the scopes around its statements has one of some marks, or is an instruction. A
    `short` one of f32 needs none, whatever the text says."""
    dtype = analysis.typed[accumulator.paths[0]].dtype
    if accumulator.op != "add" or wider(dtype) is None:
        return False
    inner = [_inner(analysis.kernel, path, at) for at in accumulator.paths]
    if any(without & {*scope.marks} or any(isinstance(h, Use) for h in scope.hints) for s in inner for scope in s):
        return False
    return dtype.bits < 32 or not (short or all(map(_is_short, inner)))


def _inner(kernel: Kernel, path: Path, statement: Path) -> Sequence[Scope]:
    """The scopes around a statement from the one at `path` on."""
    nodes = (kernel.at(statement[:end]) for end in range(len(path), len(statement)))
    return [node for node in nodes if isinstance(node, Scope)]


def _is_short(scopes: Sequence[Scope]) -> bool:
    bounds = [scope.constant_bound for scope in scopes]
    return all(bound is not None for bound in bounds) and prod(bound or 0 for bound in bounds) < FEWEST
