"""Parts of expressions that may end a run, a division or a shift by data, an index from data: they are computed
where the text does so, and nowhere else."""

from __future__ import annotations

from dojoir.ir.affine import Affine
from dojoir.ir.expressions import parts
from dojoir.ir.nodes import Cast, Condition, Expr, Guard, Kernel, Op, Path, Scope, Site
from dojoir.ir.text import format_expr
from dojoir.passes.base.move import Refusal
from dojoir.sets.failing import may_fail
from dojoir.sets.kernel_sets import sets_of
from dojoir.sets.ranges import is_nonnegative
from dojoir.types.elaborate import elaborate


def check_value(part: Expr, path: Path) -> None:
    """Raises Refusal where a part of what a statement says is no value."""
    if isinstance(part, Op) and part.name == "when":
        raise Refusal("several-values", "what a condition guards is no value: extract a part of it", path)


def check_computed(after: Kernel, number: int, is_reached: bool, path: Path) -> None:
    """Raises Refusal where computing the value of a new statement, of that number, may end the run, unless it
    `is_reached` by the statement at `path`, which now computes it, whenever the new one runs."""
    site = after.sites[number]
    if not is_reached and _may_fail(after, site):
        part = format_expr(site.statement.value)
        message = f"`{part}` may end the run, and would be computed where no statement computes it now"
        raise Refusal("may-fail", message, path)


def _may_fail(kernel: Kernel, site: Site) -> bool:
    """Whether the value of a statement may be an error of the run, in the scopes and guards around it."""
    sets = sets_of(kernel)

    def holds(affine: Affine) -> bool:
        return sets.implies(site.ancestors, Condition(affine, ">=", Affine.constant(0)))

    return may_fail(elaborate(site.statement, {buffer.name: buffer for buffer in kernel.buffers}).value, holds)


def is_reached(expr: Expr, number: int) -> bool:
    """Whether the part of that number is computed whenever the expression is: it is neither what a condition guards
    nor on the right of an `and` or an `or`."""
    while number > 0:
        number -= 1
        args = expr.args if isinstance(expr, Op) else (expr.arg,) if isinstance(expr, Cast) else ()
        for position, arg in enumerate(args):
            size = sum(1 for _ in parts(arg))
            if number < size:
                if position and isinstance(expr, Op) and expr.name in ("when", "and", "or"):
                    return False
                expr = arg
                break
            number -= size
    return True


def surely_runs(site: Site, path: Path) -> bool:
    """Whether a statement runs in each iteration in which the scope at `path` around it is reached: no guard stands
    between, and no scope may be empty."""
    inside = site.ancestors[len(path) - 1 :]
    around = [node for node in site.ancestors[: len(path) - 1] if isinstance(node, Scope)]
    for node in inside:
        if isinstance(node, Guard):
            return False
        if isinstance(node, Scope):
            if not all(is_nonnegative(bound - 1, around) for bound in node.extent.bounds):
                return False
            around.append(node)
    return True
