"""Iterations of a scope on the threads of a block."""

from __future__ import annotations

from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Condition, Path, Scope, format_path
from dojoir.ir.text import format_condition
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.combinators import make

THREADS = 256
"""How many threads a block has, where nothing else is known."""


def along(trace: Trace, path: Path, levels: int, threads: int = THREADS, mark: str = "bx") -> None:
    """The scope at `path`, which `levels` others are around, on threads: each has every so many-th element."""
    scope = trace.kernel.at(path)
    assert isinstance(scope, Scope)
    place = format_path(path)
    if (scope.extent.constant or 0) > threads or scope.extent.constant is None:
        make(trace, f"split({place}, {threads})")
        inner = trace.kernel.at((*path, 0))
        assert isinstance(inner, Scope)
        if inner.extent.constant is None:
            depth = trace.kernel.depth_of((*path, 0))
            conditions = [
                format_condition(Condition(Affine.iterator(depth), "<", bound))
                for bound in inner.extent.bounds
                if not bound.is_constant
            ]
            make(trace, f'add_guard({place}.0.0, {len(inner.body)}, "{" and ".join(conditions)}")')
            make(trace, f"set_extent({place}.0, {threads})")
        make(trace, f"swap_scopes({place})")
    for _ in range(levels):
        path = path[:-1]
        make(trace, f"swap_scopes({format_path(path)})")
    make(trace, f"bind({format_path(path)}, {mark})")
