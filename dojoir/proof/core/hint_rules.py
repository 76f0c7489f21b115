"""Whether the hints of a scope fit its body. A hint that does not would have no effect, and is an error."""

from __future__ import annotations

from dojoir.errors import Diagnostic
from dojoir.ir.affine import Affine
from dojoir.ir.hints import LARGEST_DISTANCE, Hint, Prefetch
from dojoir.ir.instruction import Use
from dojoir.ir.nodes import Access, Kernel, Path, Scope, accesses_in, format_path
from dojoir.ir.where import diagnostic_at
from dojoir.types.recognise import Misfit, recognise


def hint_error(kernel: Kernel, path: Path, scope: Scope) -> Diagnostic | None:
    """The error in the hints of the scope at `path`, or None."""
    for number, hint in enumerate(scope.hints):
        match hint:
            case Prefetch():
                wrong = _prefetch_error(kernel, hint, path, scope)
            case Use():
                wrong = _use_error(kernel, hint, path, scope)
            case _:
                raise AssertionError(f"a hint of no known kind: {hint}")
        found = _repeated(hint, scope.hints[:number]) or wrong
        if found is not None:
            return diagnostic_at(kernel, path, *found, hint)
    return None


def _repeated(hint: Hint, earlier: tuple[Hint, ...]) -> tuple[str, str] | None:
    if any(other.about == hint.about for other in earlier):
        return "duplicate-hint", f"a scope has the hint {hint.about} once: take one of them away"
    return None


def _prefetch_error(kernel: Kernel, hint: Prefetch, path: Path, scope: Scope) -> tuple[str, str] | None:
    if not 1 <= hint.distance <= LARGEST_DISTANCE:
        return "bad-hint", f"{hint} is not 1 to {LARGEST_DISTANCE} iterations ahead"
    used = sorted({access.buffer for access in accesses_in(scope.body)})
    if hint.buffer not in used:
        known = f"it uses {', '.join(used)}"
        cure = f"take it off with {hint.removal(format_path(path))}"
        return "unused-hint", f"{hint} is on a scope that does not use {hint.buffer}: {known}; {cure}"
    depth = kernel.depth_of(path)
    if not any(access.buffer == hint.buffer and moves_along(access, depth) for access in accesses_in(scope.body)):
        why = f"no plain index of {hint.buffer} there has {{{depth}}}, so each iteration touches the same elements"
        return "idle-hint", f"{hint} has nothing to fetch: {why}; put it on another scope"
    return None


def _use_error(kernel: Kernel, hint: Use, path: Path, scope: Scope) -> tuple[str, str] | None:
    where, cure = format_path(path), f"take it off with {hint.removal(format_path(path))}"
    others = [other for other in scope.hints if other != hint]
    if others:
        where = "put it on the scope around"
        return "lost-hint", f"{others[0]} is on a scope that is an instruction: {where}, or {cure}"
    fit = recognise(kernel, path, hint.instruction)
    if isinstance(fit, Misfit):
        return "not-this-instruction", f"the scope at {where} is not {hint.instruction.name}: {fit.reason}; {cure}"
    return None


def moves_along(access: Access, depth: int) -> bool:
    """Whether an access is to another element in each iteration at `depth`, and is known without a read."""
    affine = [index for index in access.indices if isinstance(index, Affine)]
    return len(affine) == len(access.indices) and any(depth in index.iterators for index in affine)
