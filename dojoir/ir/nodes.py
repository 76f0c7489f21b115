"""The IR as a whole: what `paths`, `expressions`, `tree`, `substitution` and `kernel` of this folder define.

A kernel is an ordered tree of scopes, guards and scalar statements. Every node is frozen, and two are equal when
they mean the same by their text.
"""

from __future__ import annotations

from dojoir.ir.expressions import (
    DEEPEST_EXPRESSION,
    Access,
    Cast,
    Const,
    Expr,
    Index,
    Op,
    affine_parts,
    are,
    expr_accesses,
    index_value,
    make_op,
)
from dojoir.ir.kernel import FP_MODES, LARGEST_SIZE, STORAGES, Buffer, Dim, Kernel, Size, given_kernel
from dojoir.ir.paths import Path, format_path, is_inside, parse_path
from dojoir.ir.substitution import (
    Replace,
    substitute,
    substitute_access,
    substitute_condition,
    substitute_expr,
    substitute_extent,
    substitute_iterators,
)
from dojoir.ir.tree import (
    DEEPEST,
    MARKS,
    RELATIONS,
    Condition,
    Extent,
    Guard,
    Node,
    Scope,
    Site,
    Statement,
    accesses_in,
    any_marked,
    divided_in,
    holds,
    with_body,
)

__all__ = [
    "DEEPEST",
    "DEEPEST_EXPRESSION",
    "FP_MODES",
    "LARGEST_SIZE",
    "MARKS",
    "RELATIONS",
    "STORAGES",
    "Access",
    "Buffer",
    "Cast",
    "Condition",
    "Const",
    "Dim",
    "Expr",
    "Extent",
    "Guard",
    "Index",
    "Kernel",
    "Node",
    "Op",
    "Path",
    "Replace",
    "Scope",
    "Site",
    "Size",
    "Statement",
    "accesses_in",
    "affine_parts",
    "any_marked",
    "are",
    "divided_in",
    "expr_accesses",
    "format_path",
    "given_kernel",
    "holds",
    "index_value",
    "is_inside",
    "make_op",
    "parse_path",
    "substitute",
    "substitute_access",
    "substitute_condition",
    "substitute_expr",
    "substitute_extent",
    "substitute_iterators",
    "with_body",
]
