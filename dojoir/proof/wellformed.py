"""Proves that a kernel is well-formed and its marked scopes independent, as the core defines it, with shortcuts.

`prove` is what everyone asks of a kernel that comes from outside; `dojoir.proof.core.wellformed` says what it
means.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from dojoir.errors import Diagnostic, KernelError
from dojoir.ir.nodes import Guard, Kernel, Node, Path, Scope, Statement, given_kernel
from dojoir.ir.packing import packing_error
from dojoir.ir.paths import is_inside
from dojoir.ir.places import ancestors
from dojoir.ir.where import diagnostic_at
from dojoir.proof.checker_mode import CORE_FACTOR, uses_core
from dojoir.proof.core import independence
from dojoir.proof.core.check import promises
from dojoir.proof.core.hint_rules import hint_error
from dojoir.proof.core.independence import Conflict
from dojoir.proof.core.marks import marked, scope_error
from dojoir.proof.core.wellformed import complaint, prove_dimensions, prove_storage
from dojoir.proof.explain.effects import zero_divisor
from dojoir.proof.explain.thread_conflicts import with_threads
from dojoir.proof.explain.verdicts import in_words
from dojoir.proof.node_in_context import NodeInContext, node_in_context, same_context
from dojoir.proof.patterns.independent import seen_apart
from dojoir.proof.refute.first_iteration import write_one_element
from dojoir.proof.under_sizes import out_of_guard, versions_of
from dojoir.sets.limits import StepBudget, StepLimitReached, limited_in_part
from dojoir.support.derived import once_for_each
from dojoir.support.memo import Memo
from dojoir.support.public import public

STEP_LIMIT = 20_000_000
"""How many isl operations a proof may take for each outermost nest before the answer is `undecided`."""


@public
def prove(kernel: Kernel, step_limit: int = STEP_LIMIT) -> None:
    """Proves that a kernel is well-formed for all sizes that it allows.

    Raises KernelError, which names the line and, where one exists, sizes and an iteration at which it fails. Its
    code is `undecided` where no proof was found within `step_limit` isl operations for each outermost nest. What a
    legal move led to from a kernel that is well-formed is not proved again.
    """
    kernel = given_kernel(kernel)
    if is_proved(kernel):
        return
    alone = uses_core()
    nests = sum(not isinstance(child, Statement) for _, child in _children_of(kernel))
    steps = step_limit * max(1, nests) * (CORE_FACTOR if alone else 1)
    try:
        found = StepBudget(steps).ask(lambda: _complaint(kernel))
    except StepLimitReached:
        message = f"no proof that {kernel.name} is well-formed was found within {steps} steps"
        raise KernelError(diagnostic_at(kernel, (), "undecided", message)) from None
    if found is not None:
        raise KernelError(with_threads(found, kernel))
    _proved.put((kernel, alone), True)


def is_proved(kernel: Kernel) -> bool:
    """Whether a kernel is known to be well-formed: it was proved to be, or a legal move led to it from one that is.
    Behind many moves, the proof from the text alone can take minutes. Asks the core alone where that is wanted."""
    return _proved.get((kernel, uses_core())) is not None


def keep_proved(kernel: Kernel) -> None:
    """Keeps that a kernel is well-formed, which a legal move led to from one that is: equivalent kernels are
    equally so. The core alone proves it anew."""
    _proved.put((kernel, False), True)


def _complaint(kernel: Kernel) -> Diagnostic | None:
    versions = None if uses_core() or _is_misdeclared(kernel) else versions_of(kernel)
    if versions is not None and all(_complaint(version) is None for version in versions):
        return None
    found = complaint(kernel, find_conflict)
    return zero_divisor(kernel) if found is None else in_words(found)


def _is_misdeclared(kernel: Kernel) -> bool:
    """Whether a declaration is wrong at some sizes. Storage is made in every call, whichever version runs."""
    return bool(prove_dimensions(kernel) or prove_storage(kernel) or packing_error(kernel))


_proved: Memo[tuple[Kernel, bool], bool] = Memo(2048)
"""The kernels that are well-formed, and whether the core alone said so. What is raised is not kept: it shows the
text at hand."""


def find_conflict(kernel: Kernel, path: Path, mark: str) -> Conflict | None:
    """Two iterations of the scope at `path` that may not run side by side under `mark`, or None."""
    seen = frozenset() if uses_core() else seen_apart(kernel, path, mark)
    return independence.find_conflict(kernel, path, mark, seen)


def are_independent(kernel: Kernel, path: Path, mark: str) -> bool:
    """Whether `find_conflict` would find none.

    That follows from the scope and its `NodeInContext`, and is kept by them. The core asks of the instances inside
    of the scope where they run (the extents and conditions around it, its tree, the sizes and facts). It asks
    which elements they touch (the declarations of what they use), which temporaries are its own (those that
    nothing outside uses, in the storage that they are declared with), which accumulations commute (their operators
    and the fp mode), and, of its own temporaries alone, which write each read gets its value from: all of these
    writes are inside. Nothing else of the kernel is looked at.
    """
    if uses_core():
        return find_conflict(kernel, path, mark) is None
    asked = mark, node_in_context(kernel, path)
    known = _independent.get(asked)
    if known is None:
        out, yes = out_of_guard(kernel, path), False
        if out is not None:
            with suppress(StepLimitReached), limited_in_part(out.steps(STEP_LIMIT)):
                yes = are_independent(out.kernel, out.path, mark)
        if yes:
            known = True  # without the guard the scope has all its instances and more
        elif out is not None and out.exact:
            known = False
        else:
            apart = not (mark == "p" and write_one_element(kernel, path, mark))
            known = apart and find_conflict(kernel, path, mark) is None
        _independent.put(asked, known)
    return known


_independent: Memo[tuple[str, NodeInContext], bool] = Memo(4096, of_key=True)
"""Whether the iterations of a scope are independent under a mark."""


# -- the marks of a whole kernel, child by child -------------------------------------------------------------
def keeps_marks(
    after: Kernel, before: Kernel | None = None, *, but: Path | None = None, right: Kernel | None = None
) -> bool:
    """Whether `core.check.marks` would find nothing: marks and hints stand where they may, and what marks promise
    holds. Where `before` is given, which has the same tree but for marks, its marks are known to be right. Of the
    child `but`, it is not asked what its marks promise. `right` is any kernel whose marks are known to be right: a
    child that stands in it too, with the same `NodeInContext`, is not asked.

    Each child of the kernel is asked by itself, and those that a rewrite left alone are not asked again. (What a
    guard holds stands in its place: one of several versions of a nest.) What the marks in a child promise follows
    from its `NodeInContext`, in which those of each scope inside of it are. The extents and conditions around that
    scope are in the child or around it, and a buffer is used outside of that scope if it is used elsewhere in the
    child or outside of it.
    """
    if not are_right(after):
        return False
    standing = {} if right is None else {id(child): path for path, child in _children_of(right)}
    for path, child in _children_of(after):
        if isinstance(child, Statement) or not child.marked or path == but:
            continue
        was = None if before is None else before.at(path)
        stood = standing.get(id(child))
        if child is was or (right is not None and stood is not None and same_context(after, path, right, stood)):
            continue
        if was is not None:
            new = promises(_alone(child), _alone(was))
            if not all(are_independent(after, (*path, *inner[1:]), mark) for inner, mark in new):
                return False
        elif not _child_keeps(after, path, child):
            return False
    return True


def _children_of(kernel: Kernel) -> Iterator[tuple[Path, Node]]:
    """The children of a kernel, with their paths: in place of a guard what it holds."""

    def inside(nodes: tuple[Node, ...], around: Path) -> Iterator[tuple[Path, Node]]:
        for n, node in enumerate(nodes):
            if isinstance(node, Guard):
                yield from inside(node.body, (*around, n))
            else:
                yield (*around, n), node

    return inside(kernel.body, ())


def child_around(kernel: Kernel, place: Path) -> Path | None:
    """The child, in the same sense, that a place is in, or None where the place is a guard around several."""
    for n in range(1, len(place) + 1):
        if not isinstance(kernel.at(place[:n]), Guard):
            return place[:n]
    return None


def _child_keeps(kernel: Kernel, place: Path, child: Node) -> bool:
    """Whether what the marks in a child of a kernel promise holds."""
    promised = promised_in(child)
    if not promised:
        return True
    around = node_in_context(kernel, place)
    known = _children.get(around)
    if known is None:
        kept = all(are_independent(kernel, (*place, *path), mark) for path, mark in promised)
        known = _children.put(around, kept)
    return known


_children: Memo[NodeInContext, bool] = Memo(2048, of_key=True)
"""Whether what the marks in a child of a kernel promise holds."""


def are_right(kernel: Kernel) -> bool:
    """Whether `core.marks.mark_error` finds nothing. Of the marks in a child of the kernel, that child alone says
    it; of hints, also the declarations."""
    children = [(n, c) for n, c in enumerate(kernel.body) if not isinstance(c, Statement) and c.marked]
    return all(_stand_well(child) for _, child in children) and all(
        _is_well_hinted(kernel, (number, *path), scope)
        for number, child in children
        for path, scope in _hinted(child)
    )


def _is_well_hinted(kernel: Kernel, path: Path, scope: Scope) -> bool:
    """Whether `core.hint_rules.hint_error` finds nothing. That follows from the scope, its depth, the mode, the
    declarations of what it uses and which of these others use too, and from lanes around it."""
    used = [buffer for buffer in kernel.buffers if buffer.name in scope.buffers]
    sites = kernel.sites
    shared = [b.name for b in used if not all(is_inside(sites[k].path, path) for k in kernel.users[b.name])]
    lanes = any(isinstance(node, Scope) and "v" in node.marks for node in ancestors(kernel, path))
    asked = (scope, len(path), kernel.depth_of(path), kernel.fp, tuple(used), tuple(shared), lanes)
    known = _hints.get(asked)
    if known is None:
        known = _hints.put(asked, hint_error(kernel, path, scope) is None)
    return known


_hints: Memo[tuple[object, ...], bool] = Memo(1024, of_key=True)
"""Whether the hints of a scope are right, by what that follows from."""


@once_for_each
def _stand_well(child: Node) -> bool:
    """Whether each mark in a child of a kernel may stand there."""
    kernel = _alone(child)
    return all(not scope.marks or scope_error(kernel, path, scope) is None for path, scope in marked(kernel))


@once_for_each
def _hinted(child: Node) -> tuple[tuple[Path, Scope], ...]:
    """The scopes of a child of a kernel that have hints, with their paths from the child on."""
    return tuple((path[1:], scope) for path, scope in marked(_alone(child)) if scope.hints)


@once_for_each
def promised_in(child: Node) -> tuple[tuple[Path, str], ...]:
    """The scopes of a child of a kernel whose mark allows reordering, by their paths from the child on, with the
    mark."""
    return tuple((path[1:], mark) for path, mark in promises(_alone(child), None))


def _alone(child: Node) -> Kernel:
    """A child of a kernel without the rest: it says where marks stand, and nothing of buffers."""
    return Kernel("child", (), (), (child,))
