"""The moves that can make a mark legal for a scope that cannot have it as it stands."""

from __future__ import annotations

from collections.abc import Iterator

from dojoir.ir.nodes import Kernel, Path, Scope, format_path
from dojoir.ir.paths import is_inside
from dojoir.ir.places import ancestors
from dojoir.passes.base.alternatives import Alternative, next_to
from dojoir.passes.base.move import fresh_name
from dojoir.passes.values.written_out import written_out
from dojoir.proof.verdict import Verdict

BLOCK = 4096
"""How many iterations a core is given at a time."""


def to_mark(kernel: Kernel, place: str, name: str, verdict: Verdict) -> Iterator[Alternative]:
    """A scope that may have the mark: of constant extent, with storage of its own in each iteration, with partial
    results, with only what is independent in it; or another scope of the nest."""
    path = kernel.path(place)
    scope = kernel.at(path)
    if not isinstance(scope, Scope):
        return
    here = format_path(path)
    move = f"{name}({place})"
    if verdict.code == "mark-clash" or scope.marks:
        for mark in reversed(scope.marks):
            yield Alternative((f"unmark({here}, {mark})",), move)
        yield Alternative((f"split({here}, 8)",), f"{name}({here}.0)")
    if name == "unroll":
        for factor in (4, 8):
            yield Alternative((f"split({here}, {factor})",), f"unroll({here}.0)")
    written = tuple(f"use_rule({format_path(place)}, {rule})" for place, rule in written_out(kernel, path))
    if written:
        yield Alternative(written, move)
    yield from _with_own_storage(kernel, path, move)
    if name == "vectorize" and kernel.fp != "strict":
        yield from _with_partial_results(kernel, path, scope)
    yield from _distributed_parts(scope, path, name)
    yield from _nearby(kernel, path, name)
    if name == "parallelize" and kernel.fp != "strict":
        yield from _with_partial_blocks(kernel, path, scope)


def _with_own_storage(kernel: Kernel, path: Path, then: str) -> Iterator[Alternative]:
    """The storage that iterations share given back to each of them."""
    touched = dict.fromkeys(
        access.buffer for site in kernel.sites if is_inside(site.path, path) for access in site.statement.accesses
    )
    for name in touched:
        for d, dim in enumerate(kernel.buffer(name).dims):
            if dim.collapsed:
                yield Alternative((f"materialize_dims({name}, {d})",), then)


def _with_partial_results(kernel: Kernel, path: Path, scope: Scope) -> Iterator[Alternative]:
    """Eight partial results, each in a lane; for an open extent, of the whole blocks of eight."""
    here, later = format_path(path), next_to(path)
    for name in _sums(kernel, path):
        part = fresh_name(kernel, f"{name}_part")
        for bound in scope.extent.bounds[:1]:
            cut = () if bound.is_constant else (f"cut({here}, {bound // 8 * 8})",)
            for first in dict.fromkeys(((), cut)):
                steps = (*first, f"split_reduction({here}, {name}, {part}, 8)", f"split({later}, 8)")
                yield Alternative(steps, f"vectorize({later}.0)")


def _with_partial_blocks(kernel: Kernel, path: Path, scope: Scope) -> Iterator[Alternative]:
    """A partial result for each block of iterations, and one more where there may be no block; for an open extent,
    of whole blocks."""
    here, later = format_path(path), next_to(path)
    for name in _sums(kernel, path):
        part = fresh_name(kernel, f"{name}_part")
        for bound in scope.extent.bounds[:1]:
            if bound.iterators:
                continue
            if not bound.is_constant:
                blocks = bound // BLOCK
                steps = (
                    f"cut({here}, {blocks * BLOCK})",
                    f"split({here}, {BLOCK})",
                    f"split_reduction({here}, {name}, {part}, {blocks + 1})",
                )
                yield Alternative(steps, f"parallelize({later})")
            yield Alternative((f"split_reduction({here}, {name}, {part}, {bound})",), f"parallelize({later})")


def _sums(kernel: Kernel, path: Path) -> list[str]:
    """The targets of accumulations inside a scope."""
    return list(
        dict.fromkeys(
            site.statement.target.buffer
            for site in kernel.sites
            if is_inside(site.path, path) and site.statement.accumulation is not None
        )
    )


def _distributed_parts(scope: Scope, path: Path, name: str) -> Iterator[Alternative]:
    """One part of a scope that is distributed."""
    here, later = format_path(path), next_to(path)
    for children in range(1, len(scope.body)):
        first = (f"split_scopes({here}, {children})",)
        yield Alternative(first, f"{name}({here})")
        yield Alternative(first, f"{name}({later})")


def _nearby(kernel: Kernel, path: Path, name: str) -> Iterator[Alternative]:
    """The same mark on a scope inside, or around."""
    for inner, node in kernel.walk():
        if isinstance(node, Scope) and len(inner) > len(path) and is_inside(inner, path):
            yield Alternative((), f"{name}({format_path(inner)})")
    for length, node in reversed(list(enumerate(ancestors(kernel, path), 1))):
        if isinstance(node, Scope):
            yield Alternative((), f"{name}({format_path(path[:length])})")
