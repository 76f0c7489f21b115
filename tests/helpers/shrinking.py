"""Cutting a kernel down while it still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import dojoir
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import (
    Cast,
    Const,
    Expr,
    Guard,
    Kernel,
    Node,
    Op,
    Path,
    Scope,
    Statement,
    substitute,
    substitute_iterators,
)


def shrink(kernel: Kernel, fails: Callable[[Kernel], bool], tries: int = 400) -> Kernel:
    """A smaller well-formed kernel that fails as well, by taking out one thing after another."""
    found = True
    while found and tries > 0:
        found = False
        for smaller in _smaller(kernel):
            tries -= 1
            if tries <= 0:
                break
            try:
                smaller = dojoir.parse(dojoir.to_text(smaller))
                dojoir.prove(smaller)
            except dojoir.DojoError:
                continue
            if fails(smaller):
                kernel, found = smaller, True
                break
    return kernel


def _smaller(kernel: Kernel) -> Iterator[Kernel]:
    for path, node in kernel.walk():
        yield _without(kernel, path)
        if isinstance(node, Scope | Guard):
            yield from _opened(kernel, path, node)
        if isinstance(node, Scope) and node.marks:
            yield kernel.replace_node(path, replace(node, marks=()))
        if isinstance(node, Scope) and len(node.extent.bounds) > 1:
            for bound in node.extent.bounds:
                yield kernel.replace_node(path, replace(node, extent=replace(node.extent, bounds=(bound,))))
        if isinstance(node, Statement):
            for value in _simpler(node.value):
                yield kernel.replace_node(path, replace(node, value=value))
    used = {name for site in kernel.sites for name in _names(site.statement)}
    for buffer in kernel.buffers:
        if buffer.name not in used:
            yield replace(kernel, buffers=tuple(b for b in kernel.buffers if b is not buffer))
        if (buffer.order, buffer.pad, buffer.align, buffer.storage) != (None, None, 0, "heap"):
            yield kernel.replace_buffer(replace(buffer, order=None, pad=None, align=0, storage="heap"))
    for number in range(len(kernel.facts)):
        yield replace(kernel, facts=kernel.facts[:number] + kernel.facts[number + 1 :])


def _without(kernel: Kernel, path: Path) -> Kernel:
    """The kernel without a node, and without what is empty then."""
    smaller = kernel.replace_node(path)
    while len(path) > 1:
        path = path[:-1]
        parent = smaller.at(path)
        if isinstance(parent, Statement) or parent.body:
            break
        smaller = smaller.replace_node(path)
    return smaller


def _opened(kernel: Kernel, path: Path, node: Scope | Guard) -> Iterator[Kernel]:
    """The kernel with the body of a node in its place: of a scope, its first iteration."""
    body: tuple[Node, ...] = node.body
    if isinstance(node, Scope):
        depth = kernel.depth_of(path)
        new = {depth: Affine.constant(0)} | {d: Affine.iterator(d - 1) for d in range(depth + 1, depth + 12)}
        body = tuple(substitute(child, substitute_iterators(new)) for child in body)
    yield kernel.replace_node(path, *body)


def _simpler(value: Expr) -> Iterator[Expr]:
    if not isinstance(value, Const):
        yield Const(1)
    match value:
        case Op(name, args):
            yield from args
            for n, arg in enumerate(args):
                for simpler in _simpler(arg):
                    yield Op(name, (*args[:n], simpler, *args[n + 1 :]))
        case Cast(dtype, arg, way=way):
            yield arg
            yield from (Cast(dtype, simpler, way=way) for simpler in _simpler(arg))


def _names(statement: Statement) -> set[str]:
    return {statement.target.buffer, *(access.buffer for access in statement.reads)}
