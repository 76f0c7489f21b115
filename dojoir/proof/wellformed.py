"""Whether a kernel is well-formed, and its marked scopes independent: as the core says, sooner where it is seen.

`prove` is what everyone asks of a kernel that comes from outside; `dojoir.proof.core.wellformed` says what it
means.
"""

from __future__ import annotations

from dojoir.errors import Diagnostic, KernelError
from dojoir.ir.nodes import Kernel, Path, given_kernel
from dojoir.ir.where import diagnostic_at
from dojoir.proof.core import independence
from dojoir.proof.core.independence import Conflict
from dojoir.proof.core.wellformed import complaint
from dojoir.proof.explain.threads import with_threads
from dojoir.proof.explain.verdicts import in_words
from dojoir.proof.patterns.independent import seen_apart
from dojoir.proof.refute.one_element import write_one_element
from dojoir.proof.surroundings import Surroundings, surroundings
from dojoir.proof.way import CORE_FACTOR, uses_core
from dojoir.sets.limits import Budget, StepLimitReached
from dojoir.support.memo import Memo
from dojoir.support.public import public

STEP_LIMIT = 5_000_000
"""How many isl operations a proof may take before the answer is `undecided`."""


@public
def prove(kernel: Kernel, step_limit: int = STEP_LIMIT) -> None:
    """Proves that a kernel is well-formed for all sizes that it allows.

    Raises KernelError, which names the line and, where one exists, sizes and an iteration at which it fails. Its
    code is `undecided` where no proof was found within `step_limit` isl operations.
    """
    kernel = given_kernel(kernel)
    alone = uses_core()
    steps = step_limit * CORE_FACTOR if alone else step_limit
    if _proved.get((kernel, steps, alone)):
        return
    try:
        found = Budget(steps).ask(lambda: _complaint(kernel))
    except StepLimitReached:
        message = f"no proof that {kernel.name} is well-formed was found within {steps} steps"
        raise KernelError(diagnostic_at(kernel, (), "undecided", message)) from None
    if found is not None:
        raise KernelError(with_threads(found, kernel))
    _proved.put((kernel, steps, alone), True)


def _complaint(kernel: Kernel) -> Diagnostic | None:
    found = complaint(kernel, find_conflict)
    return None if found is None else in_words(found)


_proved: Memo[tuple[Kernel, int, bool], bool] = Memo(1024)
"""The kernels that are well-formed, by the steps that were enough and whether the core alone said so. What is
raised is not kept: it shows the text at hand."""


def find_conflict(kernel: Kernel, path: Path, mark: str) -> Conflict | None:
    """Two iterations of the scope at `path` that may not run side by side under `mark`, or None."""
    seen = frozenset() if uses_core() else seen_apart(kernel, path, mark)
    return independence.find_conflict(kernel, path, mark, seen)


def are_independent(kernel: Kernel, path: Path, mark: str) -> bool:
    """Whether `find_conflict` would find none.

    That follows from the scope and its `Surroundings`, and is kept by them. The core asks of the instances inside
    of the scope where they run (the extents and conditions around it, its tree, the sizes and facts), which
    elements they touch (the declarations of what they use), which temporaries are its own (those that nothing
    outside uses, in the storage that they are declared with), which accumulations may be swapped (the fp mode, and
    whether other operators accumulate there), and, of its own temporaries alone, which write each read gets its
    value from: all of these writes are inside. Nothing else of the kernel is looked at.
    """
    if uses_core():
        return find_conflict(kernel, path, mark) is None
    asked = mark, surroundings(kernel, path)
    known = _independent.get(asked)
    if known is None:
        apart = not (mark == "p" and write_one_element(kernel, path, mark))
        known = _independent.put(asked, apart and find_conflict(kernel, path, mark) is None)
    return known


_independent: Memo[tuple[str, Surroundings], bool] = Memo(4096)
"""Whether the iterations of a scope are independent under a mark."""
