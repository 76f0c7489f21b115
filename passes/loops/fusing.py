"""The moves that can make two scopes fusible that cannot be fused as they stand."""

from __future__ import annotations

from collections.abc import Iterator

from dojoir.ir.affine import Affine, Iter
from dojoir.ir.nodes import Kernel, Path, Scope, Statement, format_path
from dojoir.ir.paths import is_inside
from dojoir.ir.text import format_extent
from dojoir.passes.base.alternatives import Alternative, next_to


def to_join(kernel: Kernel, first: Path, second: Path) -> Iterator[Alternative]:
    """Two scopes side by side, alike, the second late enough."""
    a, b = kernel.at(first), kernel.at(second)
    one, two = format_path(first), format_path(second)
    if not (isinstance(a, Scope) and isinstance(b, Scope)):
        return
    if first[:-1] != second[:-1]:
        yield from _around_them(kernel, first, second)
        return
    if second[-1] == first[-1] - 1:
        yield Alternative((), f"join_scopes({two}, {one})")
    for mark in dict.fromkeys(a.marks + b.marks):
        yield Alternative(tuple(f"unmark({p}, {mark})" for p, s in ((one, a), (two, b)) if mark in s.marks),
                          f"join_scopes({one}, {two})")  # fmt: skip
    if second[-1] - first[-1] == 2:
        between = next_to(first)
        yield Alternative((f"swap_siblings({one})",), f"join_scopes({between}, {two})")
        yield Alternative((f"swap_siblings({between})",), f"join_scopes({one}, {between})")
    join = f"join_scopes({one}, {two})"
    yield Alternative((f"set_extent({two}, {format_extent(a.extent)})",), join)
    yield Alternative((f"set_extent({one}, {format_extent(b.extent)})",), join)
    if len(a.extent.bounds) == 1 and len(b.extent.bounds) == 1:
        longer = a.extent.bounds[0] - b.extent.bounds[0]
        if longer.is_constant and longer.offset > 0:
            yield Alternative((f"shift({two}, {longer.offset})",), join)
            yield Alternative(
                (f"cut({one}, {longer.offset})",), f"join_scopes({next_to(first)}, {next_to(second)})"
            )
        elif longer.is_constant and longer.offset < 0:
            yield Alternative((f"shift({one}, {-longer.offset})",), join)
            # The rest of the second is cut off behind it.
            yield Alternative((f"cut({two}, {format_extent(a.extent)})",), join)
    yield from _with_halo(kernel, first, second, a, b)
    for by in (1, 2):
        # Both run to the same end: the first with nothing to do in its last iterations.
        later = f"{format_extent(b.extent)} + {by}"
        yield Alternative((f"shift({two}, {by})", f"set_extent({one}, {later})"), join)
        yield Alternative((f"shift({two}, {by})", f"cut({two}, {format_extent(a.extent)})"), join)


def _around_them(kernel: Kernel, first: Path, second: Path) -> Iterator[Alternative]:
    """The two scopes around them fused, which may bring them side by side."""
    outer, other = first[:-1], second[:-1]
    if not outer or other != (*outer[:-1], outer[-1] + 1):
        return
    join = f"join_scopes({format_path(outer)}, {format_path(other)})"
    above = kernel.at(outer)
    if not isinstance(above, Statement):
        moved = (*outer, len(above.body) + second[-1])
        yield Alternative((join,), f"join_scopes({format_path(first)}, {format_path(moved)})")
    yield Alternative((), join)


def _with_halo(kernel: Kernel, first: Path, second: Path, a: Scope, b: Scope) -> Iterator[Alternative]:
    """The second scope as many iterations later as it reads ahead of what the first one writes; the first one runs
    on to the same end, under a guard."""
    by = _reads_ahead(kernel, first, second)
    if by < 1 or len(a.extent.bounds) != 1 or len(b.extent.bounds) != 1:
        return
    one, two, join = (
        format_path(first),
        format_path(second),
        f"join_scopes({format_path(first)}, {format_path(second)})",
    )
    end, last = a.extent.bounds[0], b.extent.bounds[0] + by
    depth = kernel.depth_of(first)
    yield Alternative((f"shift({two}, {by})",), join)
    yield Alternative((f"shift({two}, {by})", f"set_extent({one}, {last})"), join)
    guard = f'add_guard({one}.0, {len(a.body)}, "{{{depth}}} < {end}")'
    yield Alternative((f"shift({two}, {by})", guard, f"set_extent({one}, {last})"), join)


def _reads_ahead(kernel: Kernel, first: Path, second: Path) -> int:
    """How many iterations ahead the second scope reads what the first one writes, as far as indices that are their
    iterators and a number show it."""
    depth = kernel.depth_of(first)
    written: dict[tuple[str, int], int] = {}
    for site in kernel.sites:
        if is_inside(site.path, first):
            for d, offset in _offsets(site.statement.target.indices, depth):
                known = written.get((site.statement.target.buffer, d), offset)
                written[site.statement.target.buffer, d] = min(known, offset)
    ahead = [
        offset - written[access.buffer, d]
        for site in kernel.sites
        if is_inside(site.path, second)
        for access in site.statement.reads
        for d, offset in _offsets(access.indices, depth)
        if (access.buffer, d) in written
    ]
    return max(ahead, default=0)


def _offsets(indices: tuple[object, ...], depth: int) -> Iterator[tuple[int, int]]:
    """The dimensions that an iterator indexes, each with the number that is added to it."""
    for d, index in enumerate(indices):
        if isinstance(index, Affine) and index.coefficient(Iter(depth)) == 1:
            rest = index - Affine.iterator(depth)
            if rest.is_constant:
                yield d, rest.offset
