"""The names of a kernel exchanged for others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dojoir.ir.affine import Affine, Iter, SizeVar
from dojoir.ir.nodes import (
    Access,
    Guard,
    Kernel,
    Node,
    Scope,
    Statement,
    substitute,
    substitute_condition,
)
from dojoir.ir.rewriting.rewrite import map_accesses


def renamed(kernel: Kernel, names: Mapping[str, str], labels: Mapping[str, str] | None = None) -> Kernel:
    """The kernel with its sizes and buffers, and the labels of its scopes, called otherwise, all at once: what
    `names` and `labels` do not have stays as it is. No two names may become one."""
    if all(old == new for old, new in (*names.items(), *(labels or {}).items())):
        return kernel

    def size(atom: SizeVar | Iter) -> Affine:
        return Affine.atom(SizeVar(names.get(atom.name, atom.name)) if isinstance(atom, SizeVar) else atom)

    def access(old: Access) -> Access:
        return replace(old, buffer=names.get(old.buffer, old.buffer))

    def node(old: Node) -> Node:
        match old:
            case Statement():
                return map_accesses(old, access)
            case Scope(label=label):
                body = tuple(map(node, old.body))
                hints = tuple(hint.renamed(names) for hint in old.hints)
                new = (labels or {}).get(label, label) if label is not None else None
                return replace(old, body=body, label=new, hints=hints)
            case Guard():
                return replace(old, body=tuple(map(node, old.body)))

    return kernel.evolve(
        sizes=tuple(replace(s, name=names.get(s.name, s.name)) for s in kernel.sizes),
        facts=tuple(substitute_condition(fact, size) for fact in kernel.facts),
        buffers=tuple(
            replace(buffer.with_sizes(size), name=names.get(buffer.name, buffer.name)) for buffer in kernel.buffers
        ),
        body=tuple(node(substitute(child, size)) for child in kernel.body),
    )
