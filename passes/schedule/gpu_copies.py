"""What the threads of a block copy to shared memory together, whatever the shape of it."""

from __future__ import annotations

from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Condition, Path, Scope, format_path
from dojoir.ir.text import format_condition
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.combinators import make


def shared_copy(trace: Trace, node: str, array: str, copy: str, threads: int) -> None:
    """Makes the node at `node` work on a `copy` of what it touches of an `array`, in shared memory, which `threads`
    fill: neighbours in memory side by side, the last time under a guard where they do not share it equally."""
    make(trace, f"stage({node}, {array}, {copy}, in)")
    path = trace.kernel.path(node)
    while _scope(trace, path).extent.constant == 1 and isinstance(_scope(trace, path).body[0], Scope):
        make(trace, f"remove_scope({node})")
    make(trace, f"place({copy}, shared)")
    elements, at = 1, path
    while True:
        scope = _scope(trace, at)
        elements *= scope.extent.constant or 1
        if not isinstance(scope.body[0], Scope):
            break
        at = (*at, 0)
    for _ in at[len(path) :]:
        make(trace, f"collapse({node})")
    if elements > threads:
        make(trace, f"split({node}, {threads})")
        if elements % threads:
            depth = trace.kernel.depth_of(path)
            number = Affine.iterator(depth) * threads + Affine.iterator(depth + 1)
            within = format_condition(Condition(number, "<", Affine.constant(elements)))
            make(trace, f'add_guard({node}.0.0, 1, "{within}")')
            make(trace, f"set_extent({node}.0, {threads})")
        make(trace, f"swap_scopes({node})")
        make(trace, f"unroll({node}.0)")
    make(trace, f"bind({format_path(path)}, bx)")


def _scope(trace: Trace, path: Path) -> Scope:
    scope = trace.kernel.at(path)
    assert isinstance(scope, Scope)
    return scope
