"""Why a rewrite may do what the kernel did not, beside its values: end in an error, or touch an element. And where
a kernel divides by 0 whatever the data: divisors that are data are checked by the run."""

from __future__ import annotations

from collections.abc import Iterator

from dojoir.errors import Diagnostic
from dojoir.ir.affine import Affine
from dojoir.ir.expressions import parts
from dojoir.ir.format import Name, format_access, format_expr
from dojoir.ir.nodes import Access, Cast, Expr, Index, Kernel, Op, Scope
from dojoir.ir.operations import MAY_FAIL
from dojoir.proof.core.failing import MayFail
from dojoir.proof.core.touched import NewTouch
from dojoir.proof.explain.example import accuse, describe, occasion, party, spelling, with_sizes, witness
from dojoir.sets.kernel_sets import isl_affine, iterators, sets_of
from dojoir.sets.ranges import is_nonnegative


def may_fail(failure: MayFail) -> Diagnostic:
    """An iteration that may end the run, and with what data."""
    kernel, site = failure.kernel, failure.kernel.sites[failure.number]
    found = witness(failure.iterations, kernel)
    name = spelling(kernel, site.scopes)
    start = occasion(found.sizes, found.left.iteration(kernel), name)
    what, data = _suspect(failure, name)
    message = f"{start}`{what}` may end the run, where {data}, and would be computed where it is not computed now"
    return accuse("may-fail", message, [party(found.left, kernel, "may end the run")], found.sizes)


def _suspect(failure: MayFail, name: Name) -> tuple[str, str]:
    """The first part of a statement that may fail, and the data with which it does."""
    statement = failure.kernel.sites[failure.number].statement
    for part in (*parts(statement.value), statement.target):
        match part:
            case Op(word, (_, other)) if word in MAY_FAIL:
                fails = "is 0" if word in ("floordiv", "mod") else "is no distance to shift by"
                return format_expr(part, name), f"`{format_expr(other, name)}` {fails}"
            case Access(indices=indices) if data := [index for index in indices if isinstance(index, Access)]:
                shown = format_access(data[0], name)
                return format_access(part, name), f"`{shown}` is no index of {part.buffer}"
    return format_expr(statement.value, name), "a part of it fails"


def new_touch(failure: NewTouch) -> Diagnostic:
    """An element that would be touched, and by which instance."""
    found, kernel = witness(failure.elements, failure.kernel), failure.kernel
    buffer = found.right.name.removeprefix("b_")
    indices = ", ".join(map(str, found.right.coordinates))
    element = f"{buffer}[{indices}]" if indices else buffer
    does = "read" if failure.how == "read" else "written"
    now = {
        "read": "is not touched now",
        "written": "is not written now",
        "for sure": "is written now only where the data say so",
    }[failure.how]
    message = f"{with_sizes(found.sizes)}{element} would be {does} by {describe(found.left, kernel)}, and {now}"
    message += ": it may be another's"
    return accuse("touches", message, [party(found.left, kernel, f"would have it {does}")], found.sizes)


def zero_divisor(kernel: Kernel) -> Diagnostic | None:
    """An iteration in which a statement divides by 0, whatever the data, or None."""
    for number, site in enumerate(kernel.sites):
        for part, divisor in _divisions(site.statement.value):
            if is_never_0(divisor, site.scopes):
                continue
            sets = sets_of(kernel)
            where = f"{sets.constraints(site.ancestors)} and {isl_affine(divisor)} = 0"
            wrong = sets.map(f"s{number}[{iterators(len(site.scopes))}] -> [] : {where}")
            if wrong.is_empty():
                continue
            found = witness(wrong, kernel)
            name = spelling(kernel, site.scopes)
            start = occasion(found.sizes, found.left.iteration(kernel), name)
            message = f"{start}this divides by 0: '{format_expr(part, name)}'; put a guard around it"
            return accuse("zero-divisor", message, [party(found.left, kernel, "divides by 0")], found.sizes)
    return None


def _divisions(value: Expr) -> Iterator[tuple[Op, Affine]]:
    for part in parts(value):
        if isinstance(part, Op) and part.name in ("floordiv", "mod"):
            divisor = part.args[1].arg if isinstance(part.args[1], Cast) else part.args[1]
            if isinstance(divisor, Index):
                yield part, divisor.affine


def is_never_0(affine: Affine, scopes: tuple[Scope, ...]) -> bool:
    """Whether an expression in the iterators of these scopes is seen to be more than 0, or less."""
    return is_nonnegative(affine - 1, scopes) or is_nonnegative(-affine - 1, scopes)
