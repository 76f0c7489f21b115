"""What the threads of a block copy to shared memory together, whatever the shape of it."""

from __future__ import annotations

from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Condition, Guard, Path, Scope, Statement, format_path
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
        elements *= whole_extent(trace, at)
        if not isinstance(_scope(trace, at).body[0], Scope):
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


def whole_extent(trace: Trace, path: Path) -> int:
    """Makes the extent of a scope of a copy a constant, what is not of the array under a guard. Returns it."""
    scope = _scope(trace, path)
    most = scope.constant_bound
    if most is None:
        raise ArgumentError(f"no constant bounds the extent of {format_path(path)}", "bad-arguments")
    own = Affine.iterator(trace.kernel.depth_of(path))
    ends = [Condition(own, "<", bound) for bound in scope.extent.bounds if not bound.is_constant]
    if ends:
        inside = path
        while isinstance(node := trace.kernel.at((*inside, 0)), Scope | Guard):
            inside = (*inside, 0)
        assert isinstance(node, Statement)
        make(trace, f'add_guard({format_path((*inside, 0))}, 1, "{" and ".join(map(format_condition, ends))}")')
    if len(scope.extent.bounds) > 1:
        make(trace, f"set_extent({format_path(path)}, {most})")
    return most


def _scope(trace: Trace, path: Path) -> Scope:
    scope = trace.kernel.at(path)
    assert isinstance(scope, Scope)
    return scope
