"""Running sums of rows on a GPU: a row a block, its elements in the registers of the threads.

By the rule `blocked_scan` the row becomes groups of a few neighbours, which are a thread's, and the sums of the
groups; these, in shared memory, are blocked again until a few are left, which every thread adds up by itself.
"""

from __future__ import annotations

from dojoir.errors import ArgumentError
from dojoir.ir.nodes import Access, Kernel, Node, Path, Scope, Statement, format_path
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.combinators import make

ACCESS_BYTES = 16

GROUPS = (16, 8, 32)
"""How many sums a thread adds up of those in shared memory, the best first."""

FEW = 32
"""So many sums every thread adds up by itself."""

THREADS = (512, 256, 128, 64, 32)

LONGEST = 32
"""How many elements of a row a thread keeps at most."""


def scan_rows(trace: Trace, path: Path) -> None:
    """Makes each iteration of the scope at `path`, the running sum of a row of constant length, the work of a
    block. Raises DojoError where it is nothing such, or threads do not share a row equally."""
    row = format_path(path)
    length, source, result, total = _scan(trace.kernel, path)
    width = ACCESS_BYTES // max(trace.kernel.buffer(name).dtype.itemsize for name in (source, result, total))
    groups, left = divmod(length, width)
    threads = next((t for t in THREADS if groups % t == 0 and LONGEST * t >= length), 0)
    if left or not threads:
        raise ArgumentError(f"threads do not share rows of {length} elements equally", "bad-arguments")
    if trace.kernel.buffer(total).role == "tmp":
        for d, dim in enumerate(trace.kernel.buffer(total).dims):
            if not dim.collapsed:
                make(trace, f"reuse_dims({total}, {d})")
        make(trace, f"place({total}, reg)")
    make(trace, f"split({row}.1, {width})")
    shared = [_blocked(trace, row, 0, "blocked_scan")]
    _in_registers(trace, row, source, result, width, threads)
    counts = [groups]
    while counts[-1] > FEW:
        size = next((g for g in GROUPS if counts[-1] % g == 0), 0)
        if not size:
            raise ArgumentError(f"{counts[-1]} sums of groups are no groups of equal size", "bad-arguments")
        level = len(counts)
        make(trace, f"split({row}.{level + 2}, {size})")
        shared.append(_blocked(trace, row, level + 1, "blocked_scan_before"))
        for name in shared[-2]:
            make(trace, f"split_dim({name}, 0, {size})")
            make(trace, f"pad_dims({name}, 1, 1)")
        counts.append(counts[-1] // size)
    for name in (name for names in shared for name in names):
        make(trace, f"place({name}, shared)")
    last = 2 * len(counts) + 2
    for level, count in enumerate(counts):
        for n in (level + 1, last - level):
            _on_threads(trace, f"{row}.{n}", count, threads)
    make(trace, f"unroll({row}.{len(counts) + 2})")
    make(trace, f"bind({row}, gx)")


def _scan(kernel: Kernel, path: Path) -> tuple[int, str, str, str]:
    """The length of the rows, what is added up, where the sums go, and what they are added up in."""
    match kernel.at(path):
        case Scope(body=(Statement(first, "="), Scope(extent, (Statement(sum_, "+=", Access(source)), last)))):
            plain = extent.constant is not None and not kernel.buffer(sum_.buffer).order and sum_ == first
            if plain and isinstance(last, Statement) and last.op == "=" and last.value == sum_:
                return extent.constant or 0, source, last.target.buffer, sum_.buffer
    raise ArgumentError(f"the scope at {format_path(path)} has no running sum of constant length", "bad-arguments")


def _blocked(trace: Trace, row: str, at: int, rule: str) -> tuple[str, str]:
    """Uses a rule at a child of a row; gives the names of the arrays for the sums of blocks, and for those before
    each. The sum inside a block is in a register."""
    names = [fresh_name(trace.kernel, wanted) for wanted in ("block", "before", "within")]
    make(trace, f"use_rule({row}.{at}, {rule}, {', '.join(names)})")
    make(trace, f"place({names[2]}, reg)")
    return names[0], names[1]


def _in_registers(trace: Trace, row: str, source: str, result: str, width: int, threads: int) -> None:
    """The row is read once, into registers, and written by wide accesses; groups of `width` are shared out over the
    threads, so that neighbours have neighbours."""
    out = fresh_name(trace.kernel, f"{result}_out")
    make(trace, f"stage({row}.3.1, {result}, {out}, out)")
    make(trace, f"remove_scope({row}.3.2)")
    make(trace, f"reuse_dims({out}, 0)")
    kept = fresh_name(trace.kernel, f"{source}_row")
    number = int(row)
    make(trace, f"stage({row}, {source}, {kept}, in)")
    make(trace, f"join_scopes({number}, {number + 1})")
    make(trace, f"reuse_dims({kept}, 0)")
    make(trace, f"split({row}.0, {width * threads})")
    make(trace, f"split({row}.0.0, {width})")
    make(trace, f"swap_scopes({row}.0)")
    make(trace, f"split_dim({kept}, 1, {width * threads})")
    make(trace, f"split_dim({kept}, 2, {width})")
    for name in (kept, out):
        make(trace, f"place({name}, reg)")
    make(trace, f"bind({row}.0, bx)")
    make(trace, f"unroll({row}.0.0)")
    make(trace, f"vectorize({row}.0.0.0)")
    make(trace, f"vectorize({row}.4.2)")


def _on_threads(trace: Trace, place: str, count: int, threads: int) -> None:
    """The scope at a place, of `count` iterations, on threads; loops inside are written out."""
    if count > threads:
        make(trace, f"split({place}, {threads})")
        make(trace, f"swap_scopes({place})")
        make(trace, f"unroll({place}.0)")
    make(trace, f"bind({place}, bx)")
    inner = trace.kernel.path(f"{place}.0" if count > threads else place)
    for n, node in enumerate(_children(trace.kernel, inner)):
        if isinstance(node, Scope) and not node.marks:
            make(trace, f"unroll({format_path((*inner, n))})")


def _children(kernel: Kernel, path: Path) -> tuple[Node, ...]:
    scope = kernel.at(path)
    assert isinstance(scope, Scope)
    return scope.body
