"""Parts of expressions that may end a run: a division or a shift by data, an index from data. They are computed
where the text does so, and nowhere else."""

from __future__ import annotations

from dojoir.ir.expressions import parts
from dojoir.ir.nodes import Access, Cast, Const, Expr, Guard, Index, Op, Path, Scope, Site, Statement
from dojoir.ir.operations import MAY_FAIL
from dojoir.ir.text import format_expr
from dojoir.passes.base.move import Refusal
from dojoir.proof.explain.divisors import is_never_0
from dojoir.sets.ranges import is_nonnegative


def may_fail(expr: Expr) -> bool:
    """Whether computing an expression may be an error of the run."""
    return any(
        (isinstance(part, Op) and part.name in MAY_FAIL and not _is_safe(part.args[1]))
        or (isinstance(part, Access) and any(isinstance(index, Access) for index in part.indices))
        for part in parts(expr)
    )


def is_conditional(statement: Statement, number: int) -> bool:
    """Whether the part of that number, of the value of a statement, is computed only where its condition holds."""
    return statement.condition is not None and number > len(list(parts(statement.condition)))


def check_part(statement: Statement, number: int, part: Expr, path: Path) -> None:
    """Raises Refusal where a part of a value cannot be computed by itself, whatever the condition of its
    statement."""
    if isinstance(part, Op) and part.name == "when":
        raise Refusal("several-values", "what a condition guards is no value: extract a part of it", path)
    if is_conditional(statement, number) and may_fail(part):
        message = f"`{format_expr(part)}` may end the run, and would be computed where its condition does not hold"
        raise Refusal("may-fail", message, path)


def _is_safe(operand: Expr) -> bool:
    """Whether a divisor, or a count, is a number (which the types look at), or a divisor that is a size."""
    match operand:
        case Const() | Cast(_, Const(int()), way="cast"):
            return True
        case Index(affine):
            return is_never_0(affine, ())
        case _:
            return False


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
