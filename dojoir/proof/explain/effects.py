"""Why a rewrite may do what the kernel did not, beside its values: end in an error, or touch an element."""

from __future__ import annotations

from dojoir.errors import Diagnostic
from dojoir.ir.expressions import parts
from dojoir.ir.nodes import Access, Op
from dojoir.ir.operations import MAY_FAIL
from dojoir.ir.text import Name, format_access, format_expr
from dojoir.proof.core.failing import MayFail
from dojoir.proof.core.touched import NewTouch
from dojoir.proof.explain.example import accuse, describe, occasion, party, spelling, with_sizes, witness


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
