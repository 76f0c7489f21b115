"""Accumulations that are written out, as `s = s + x`, and the rule that makes an accumulation of each."""

from __future__ import annotations

from collections.abc import Iterator

from dojoir.ir.nodes import Kernel, Op, Path, Statement, expr_accesses
from dojoir.ir.paths import is_inside
from dojoir.rules.operators import OPERATORS, SUM

_KINDS = {o.combines: "" if o == SUM else f"_{name}" for name, o in OPERATORS.items()}


def written_out(kernel: Kernel, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """The statements inside of a node, or of the kernel, that put an element together with a value that does not
    depend on it: where each stands, and the rule for it."""
    for site in kernel.sites:
        if is_inside(site.path, path):
            rule = _rule_for(site.statement)
            if rule is not None:
                yield site.path, rule


def _rule_for(statement: Statement) -> str | None:
    match statement:
        case Statement(target, "=", Op(name, (left, right))) if name in _KINDS:
            for rule, here, other in (("accumulate", left, right), ("accumulate_turned", right, left)):
                if here == target and all(a.buffer != target.buffer for a in expr_accesses(other)):
                    return f"{rule}{_KINDS[name]}"
    return None
