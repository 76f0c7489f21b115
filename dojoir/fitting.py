"""Whether the hints of a scope fit what it runs. One that does not is an error: it would say nothing."""

from __future__ import annotations

from collections.abc import Iterator

from dojoir.affine import Affine
from dojoir.errors import Diagnostic
from dojoir.hints import LARGEST_DISTANCE, Hint, Prefetch
from dojoir.ir import Access, Kernel, Node, Path, Scope, Statement, expr_accesses, format_path
from dojoir.locate import place


def hint_error(kernel: Kernel, path: Path, scope: Scope) -> Diagnostic | None:
    """What is wrong with the hints of the scope at `path`, or None."""
    for number, hint in enumerate(scope.hints):
        found = _repeated(hint, scope.hints[:number]) or _prefetch_error(kernel, hint, path, scope)
        if found is not None:
            source, span = place(kernel, path, hint)
            return Diagnostic(*found, span, source)
    return None


def _repeated(hint: Hint, earlier: tuple[Hint, ...]) -> tuple[str, str] | None:
    if any(other.about == hint.about for other in earlier):
        return "duplicate-hint", f"a scope has the hint {hint.about} once: take one of them away"
    return None


def _prefetch_error(kernel: Kernel, hint: Prefetch, path: Path, scope: Scope) -> tuple[str, str] | None:
    if not 1 <= hint.distance <= LARGEST_DISTANCE:
        return "bad-hint", f"{hint} is not 1 to {LARGEST_DISTANCE} iterations ahead"
    used = sorted(buffers_in(scope.body))
    if hint.buffer not in used:
        known = f"it uses {', '.join(used)}"
        cure = f"take it off with {hint.removal(format_path(path))}"
        return "unused-hint", f"{hint} is on a scope that does not use {hint.buffer}: {known}; {cure}"
    depth = kernel.depth_of(path)
    if not any(access.buffer == hint.buffer and moves_along(access, depth) for access in accesses_in(scope.body)):
        why = f"no plain index of {hint.buffer} there has {{{depth}}}, so each iteration touches the same of it"
        return "idle-hint", f"{hint} has nothing to fetch: {why}; put it on another scope"
    return None


def buffers_in(nodes: tuple[Node, ...]) -> set[str]:
    """The names of the buffers that some nodes read or write."""
    return {access.buffer for access in accesses_in(nodes)}


def accesses_in(nodes: tuple[Node, ...]) -> Iterator[Access]:
    """Every access that some nodes make, in the order of the text."""
    for node in nodes:
        if isinstance(node, Statement):
            yield from expr_accesses(node.value)
            yield from node.target.accesses()
        else:
            yield from accesses_in(node.body)


def moves_along(access: Access, depth: int) -> bool:
    """Whether an access is to another element in each iteration at `depth`, and is known without a read."""
    affine = [index for index in access.indices if isinstance(index, Affine)]
    return len(affine) == len(access.indices) and any(depth in index.iterators for index in affine)
