"""The core's answer as a verdict: what fails, with an example at small sizes, in words."""

from __future__ import annotations

from dojoir.errors import Diagnostic
from dojoir.proof.claim import Claim
from dojoir.proof.core.bounds import OutOfBounds
from dojoir.proof.core.check import Failure, find_failure
from dojoir.proof.core.compare import StrayValues, WrongFlow, WrongInstances
from dojoir.proof.core.failing import MayFail
from dojoir.proof.core.touched import NewTouch
from dojoir.proof.core.wellformed import Dependent, EmptyDimension
from dojoir.proof.core.written import ReadBeforeWrite, SharedStorage, UnwrittenOutput
from dojoir.proof.explain.conflicts import dependent_iterations
from dojoir.proof.explain.effects import may_fail, new_touch
from dojoir.proof.explain.elements import (
    empty_dimension,
    out_of_bounds,
    read_before_write,
    shared_storage,
    unwritten_output,
)
from dojoir.proof.explain.value_differences import stray_values, wrong_flow, wrong_instances
from dojoir.proof.verdict import LEGAL, Verdict


def check(claim: Claim) -> Verdict:
    """Whether a claim holds, by the core alone: legal, or illegal with the first obligation that fails and a
    witness. Raises StepLimitReached past the budget that is set around it, if one is."""
    return verdict_of(find_failure(claim))


def verdict_of(failure: Failure | None) -> Verdict:
    """Legal where nothing fails, else illegal and why."""
    return LEGAL if failure is None else Verdict("illegal", in_words(failure))


def in_words(failure: Failure) -> Diagnostic:
    """The failure in words, with an example. Raises StepLimitReached as `check` does: it asks isl for the
    example."""
    match failure:
        case Diagnostic():
            return failure
        case EmptyDimension():
            return empty_dimension(failure)
        case OutOfBounds():
            return out_of_bounds(failure)
        case ReadBeforeWrite():
            return read_before_write(failure)
        case UnwrittenOutput():
            return unwritten_output(failure)
        case SharedStorage():
            return shared_storage(failure)
        case Dependent():
            return dependent_iterations(failure)
        case WrongInstances():
            return wrong_instances(failure)
        case StrayValues():
            return stray_values(failure)
        case WrongFlow():
            return wrong_flow(failure)
        case MayFail():
            return may_fail(failure)
        case NewTouch():
            return new_touch(failure)
