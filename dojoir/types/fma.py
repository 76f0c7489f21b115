"""Products that are added, as one operation: `a * b + c` and `fma(a, b, c)` differ in rounding only.

Where the fp mode lets rewrites round otherwise, expressions are compared in the form in which every product that is
added to something is an `fma`. The text decides which product that is: the left one, where both sides of a sum are
products.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from dojoir.ir.dtypes import F64, DType
from dojoir.ir.expressions import parts
from dojoir.ir.nodes import Access, Buffer, Cast, Const, Expr, Index, Kernel, Op, Statement, expr_accesses, make_op
from dojoir.types.elaborate import natural_type

_T = TypeVar("_T")


def contracted(expr: Expr, reads: Sequence[_T], buffers: Mapping[str, Buffer]) -> tuple[Expr, list[_T]]:
    """An expression in which every product that is added is an `fma`, and what belongs to its reads in their new
    order. `reads` has an entry for each of `expr_accesses(expr)`."""
    match expr:
        case Op(name, args):
            left = list(reads)
            parts: list[tuple[Expr, list[_T]]] = []
            for arg in args:
                count = len(list(expr_accesses(arg)))
                parts.append(contracted(arg, left[:count], buffers))
                del left[:count]
            new = Op(name, tuple(part for part, _ in parts))
            form = form_of(expr, buffers)
            if form in {"product_last", "minus_product"}:
                parts.reverse()
            return new if form is None else fused(new, form), [read for _, its in parts for read in its]
        case Cast(dtype, arg, way=way):
            value, ordered = contracted(arg, reads, buffers)
            return Cast(dtype, value, way=way), ordered
        case Access() | Const() | Index():
            return expr, list(reads)


FORMS = ("product_first", "product_last", "product_minus", "minus_product")
"""The expressions that an `fma` may stand for: a * b + c, c + a * b, a * b - c and c - a * b."""


def form_of(expr: Expr, buffers: Mapping[str, Buffer]) -> str | None:
    """Which of FORMS an expression has, if its product may be added without rounding it first: all is done in one
    float type."""
    match expr:
        case Op("add" | "sub" as name, (left, right)):
            first = isinstance(left, Op) and left.name == "mul"
            product = left if first else right
            if not (isinstance(product, Op) and product.name == "mul"):
                return None
            whole, part = natural_type(expr, buffers), natural_type(product, buffers)
            if whole is None or not whole.is_float or part not in (None, whole):
                return None
            if name == "add":
                return "product_first" if first else "product_last"
            return "product_minus" if first else "minus_product"
    return None


def fused(expr: Expr, form: str) -> Expr:
    """The `fma` of an expression that has a form."""
    assert isinstance(expr, Op)
    left, right = expr.args
    product, other = (left, right) if form in {"product_first", "product_minus"} else (right, left)
    assert isinstance(product, Op)
    a, b = product.args
    match form:
        case "product_minus":
            return Op("fma", (a, b, make_op("neg", (other,))))
        case "minus_product":
            return Op("fma", (make_op("neg", (a,)), b, other))
    return Op("fma", (a, b, other))


def unfused(expr: Op, form: str) -> Expr:
    """The expression of that form whose `fma` this is."""
    a, b, c = expr.args
    match form:
        case "product_first":
            return make_op("add", (make_op("mul", (a, b)), c))
        case "product_last":
            return make_op("add", (c, make_op("mul", (a, b))))
        case "product_minus":
            return make_op("sub", (make_op("mul", (a, b)), _negated(c)))
        case "minus_product":
            return make_op("sub", (c, make_op("mul", (_negated(a), b))))
    raise AssertionError(form)


def _negated(expr: Expr) -> Expr:
    """The operand whose negation is `expr`."""
    return expr.args[0] if isinstance(expr, Op) and expr.name == "neg" else make_op("neg", (expr,))


def may_fuse(statement: Statement, buffers: Mapping[str, Buffer]) -> bool:
    """Whether an accumulation adds a product that need not be rounded first: it is added in its own float type."""
    match statement.accumulation, statement.term:
        case "+=", Op("mul"):
            dtype: DType = buffers[statement.target.buffer].dtype
            product = natural_type(statement.term, buffers)
            return dtype.is_float and (product in (None, F64) or dtype != F64)
    return False


def fuse_alike(one: Expr, other: Expr, buffers: Mapping[str, Buffer]) -> bool:
    """Whether two expressions are the same on the same elements, once every product that is added is an `fma`; one
    of them has one already."""
    if not any(isinstance(part, Op) and part.name == "fma" for expr in (one, other) for part in parts(expr)):
        return False
    forms = (contracted(expr, list(expr_accesses(expr)), buffers)[0] for expr in (one, other))
    return next(forms) == next(forms)


def has_fma(kernel: Kernel) -> bool:
    """Whether an `fma` occurs in a kernel."""
    return any(
        isinstance(part, Op) and part.name == "fma" for site in kernel.sites for part in parts(site.statement.value)
    )
