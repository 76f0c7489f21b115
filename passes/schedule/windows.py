"""Sums over windows and rows: what `default_schedule` makes of a nest that adds up for each of many neighbours.

Around a window, as of a pooling or of a convolution of each channel by itself, a vector of neighbouring results
stays in a register while the window is gone through: the lanes go inside of it. Around a sum of rows, the rows are
gone through one after the other, as they lie in memory, and as many results as stay in a cache add up side by side.
"""

from __future__ import annotations

from collections.abc import Iterator

from dojoir.backends.machine import Machine
from dojoir.ir.nodes import Kernel, Path, Scope, Site, Statement, format_path
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.combinators import make
from dojoir.passes.schedule.convolution import is_box, levels_outside, mark_tile, path_of, take_trivial_away
from dojoir.passes.schedule.register_tile import fuse
from dojoir.passes.schedule.strides import NEAR, depends, step_of
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class Window:
    """A nest `w > (…, scopes > y[w] op= x[w], …)`: the path of the scope over neighbours, and the statement. It is
    a window of several scopes, or a sum of `rows`."""

    columns: Path
    site: Site
    rows: bool


def windows(kernel: Kernel) -> Iterator[Window]:
    """The nests that accumulate into neighbours from neighbours, in the order of the text."""
    found: set[Path] = set()
    for site in kernel.sites:
        window = _window(kernel, site)
        if window is not None and window.columns not in found:
            found.add(window.columns)
            yield window


def _window(kernel: Kernel, site: Site) -> Window | None:
    target, *reads = site.statement.accesses
    kept = [d for d in range(len(site.scopes)) if depends(target, d)]
    if site.statement.accumulation is None or not kept or any(scope.marks for scope in site.scopes):
        return None
    column = kept[-1]
    path = path_of(site, column)
    inner = len(site.scopes) - column - 1
    rows = inner == 1 and len(path) == 1
    if not (inner > 1 or rows) or not is_box(site, column) or step_of(kernel, target, column) != 1:
        return None
    near = all(step_of(kernel, access, column, NEAR) is not None for access in reads)
    if not near or not any(depends(access, column) for access in reads):
        return None
    scope = kernel.at(path)
    assert isinstance(scope, Scope)
    single = sum(isinstance(node, Scope) for node in scope.body) == 1
    plain = all(isinstance(node, Scope | Statement) for node in scope.body)
    return Window(path, site, rows) if single and plain else None


def tile_window(trace: Trace, window: Window, machine: Machine) -> None:
    """Gives a window one vector of results in a register, and a sum of rows as many results as fill half of the
    first cache. Raises IllegalMove where a move of it is refused."""
    block, target = window.columns, window.site.statement.target.buffer
    size = trace.kernel.buffer(target).dtype.itemsize
    bytes_beside = machine.caches[0] // 2 if window.rows else machine.vector_bytes
    fuse(trace, window.site.path)
    make(trace, f"split({format_path(block)}, {max(bytes_beside // size, 1)})")
    if not window.rows:
        tile = fresh_name(trace.kernel, f"{target}_tile")
        make(trace, f"stage({format_path((*block, 0))}, {target}, {tile}, out)")
        make(trace, f"place({tile}, reg)")
    nest = _alone(trace, block)
    levels = levels_outside(trace.kernel, nest, frozenset({trace.kernel.depth_of(nest)}))
    make(trace, f"sink_scope({format_path(nest)}, {levels})")
    take_trivial_away(trace, block)
    mark_tile(trace, block, 0)


def _alone(trace: Trace, block: Path) -> Path:
    """Distributes the lanes of a block, `w > (before, nest, after)`, so that the nest stands alone in them."""
    lanes = trace.kernel.at((*block, 0))
    assert isinstance(lanes, Scope)
    before = next(n for n, node in enumerate(lanes.body) if isinstance(node, Scope))
    after = len(lanes.body) - before - 1
    nest = (*block, 0)
    if before:
        make(trace, f"split_scopes({format_path(nest)}, {before})")
        nest = (*block, 1)
    if after:
        make(trace, f"split_scopes({format_path(nest)}, 1)")
    return nest
