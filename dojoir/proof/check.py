"""The checker as moves use it: the answer of the core, faster.

What "legal" means is in `dojoir.proof.core.check`, and nowhere else. This file makes it fast enough to list all
moves of a kernel, by these steps in this order:

1. patterns (`dojoir.proof.patterns.pattern_table`): shapes of rewrites of which a theorem says that they are legal;
2. refuters (`dojoir.proof.refute`): small runs, and cheap questions to isl, that show that a rewrite is not legal;
3. slices (`dojoir.proof.slice`): the part of the two kernels that an answer depends on, which many rewrites share;
4. the core, for the slice or for the whole.

Every answer costs steps, and has a budget. What cannot be decided within it is `unknown`, which is not legal.
With `DOJOIR_CHECK=core` (`dojoir.proof.checker_mode`) the core alone is asked, with twenty times the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from enum import Flag, auto
from typing import NamedTuple

from dojoir.errors import Diagnostic, KernelError
from dojoir.ir.nodes import Kernel, Path
from dojoir.proof.certificate import InstanceMap, Origin, Substitution, identity
from dojoir.proof.checker_mode import CORE_FACTOR, uses_core
from dojoir.proof.claim import Claim
from dojoir.proof.core import check as core
from dojoir.proof.core.bounds import prove_bounds
from dojoir.proof.core.check import Failure, first_failure, form_errors
from dojoir.proof.core.compare import Correspondence
from dojoir.proof.core.data_writes import claim_without_data_writes
from dojoir.proof.core.independence import may_share
from dojoir.proof.core.touched import asked_of
from dojoir.proof.core.wellformed import prove_dimensions
from dojoir.proof.difference import Change, change_of, put_in, same_but_marks, told_apart
from dojoir.proof.exactness import is_exact
from dojoir.proof.explain.verdicts import check, verdict_of
from dojoir.proof.patterns.pattern_table import (
    STORAGE,
    is_plain,
    is_plain_both_ways,
    keeps_order,
    mixed_up,
    runs_alike,
    same_but_storage,
)
from dojoir.proof.patterns.staging import was_read
from dojoir.proof.patterns.written_before import is_written
from dojoir.proof.refute.first_iteration import differs_somewhere, shares_too_much
from dojoir.proof.refute.small_run import goes_wrong, seen
from dojoir.proof.slice import Slice, slice_of, users_slice
from dojoir.proof.under_sizes import inside_of
from dojoir.proof.verdict import LEGAL, Verdict
from dojoir.proof.wellformed import (
    are_independent,
    are_right,
    child_around,
    find_conflict,
    keeps_marks,
    promised_in,
    prove,
)
from dojoir.sets.limits import StepBudget, StepLimitReached, limited_in_part
from dojoir.support.memo import Memo

__all__ = [
    "LEGAL",
    "STEP_LIMIT",
    "CheckerAnswer",
    "InstanceMap",
    "Origin",
    "Substitution",
    "Verdict",
    "answer",
    "compare",
    "identity",
    "is_exact",
    "is_legal",
    "is_plain",
    "keeps_order",
    "prove_by_core",
    "prove_rewrite",
]

STEP_LIMIT = 3_000_000
"""The budget of one check, over all its stages, before the answer is `unknown`: about 0.7 seconds on an idle
core. No answer depends on cached ones (`dojoir.sets.limits`)."""


def compare(before: Kernel, after: Kernel, instances: InstanceMap, step_limit: int = STEP_LIMIT) -> Verdict:
    """Whether `after` means what `before` means, its statements standing for what `instances` says; with the reason
    and a witness if not. `before` must be well-formed."""
    if uses_core():
        return prove_by_core(before, after, instances, step_limit * CORE_FACTOR)
    key = ("compare", before, after, instances)
    try:
        return StepBudget(step_limit).ask(lambda: _plainly(Claim(before, after, instances), _compared), key)
    except StepLimitReached:
        return _undecided(step_limit)


def prove_by_core(before: Kernel, after: Kernel, instances: InstanceMap, step_limit: int | None = None) -> Verdict:
    """The verdict of the core alone (`dojoir.proof.core.check`), within a budget if one is given. Each try makes
    the claim anew: a claim keeps the sets of its kernels, and the second try has an isl context of its own."""

    def question() -> Verdict:
        return check(Claim(before, after, instances))

    try:
        return question() if step_limit is None else StepBudget(step_limit).ask(question)
    except StepLimitReached:
        return _undecided(step_limit)


def _plainly(claim: Claim, answered: Callable[[Claim], Verdict]) -> Verdict:
    """The answer of `answered` for a claim without scatters, then that about failing and touching."""
    return answered(claim_without_data_writes(claim)) and verdict_of(first_failure(core.effects(claim)))


def _undecided(step_limit: int | None) -> Verdict:
    within = "" if step_limit is None else f" within {step_limit} steps"
    return Verdict("unknown", Diagnostic("undecided", f"the checker did not come to an answer{within}"))


def _compared(claim: Claim) -> Verdict:
    if not claim.certificate.backward:
        return _of_kernels(claim)
    forth = claim.forth
    if not (claim.certificate.rule or claim.certificate.beyond) and _fits(forth) and is_plain_both_ways(forth):
        return verdict_of(first_failure(_beside_the_order(claim)))  # equivalent kernels are equally well-formed
    return _well_formed_by_itself(claim.after) and _of_kernels(forth)


def _of_kernels(claim: Claim) -> Verdict:
    """The verdict on a claim whose certificate goes from the old kernel to the new one."""
    if claim.certificate.rule is None:
        return verdict_of(first_failure(_failures(claim)))
    fault = core.misused(claim, claim.certificate.rule)
    return verdict_of(fault) and _well_formed_by_itself(claim.after)


def _fits(claim: Claim) -> bool:
    """Whether the certificate of a claim fits its kernels."""
    return first_failure(form_errors(claim)) is None


def _beside_the_order(claim: Claim) -> Iterator[Failure | None]:
    """The remaining obligations for a kernel that a pattern shows to run in the same order."""
    yield core.declarations(claim.before, claim.after)
    yield _marks(claim.after)


def _well_formed_by_itself(kernel: Kernel) -> Verdict:
    try:
        prove(kernel)
    except KernelError as error:
        status = "unknown" if error.diagnostic.code == "undecided" else "illegal"
        return Verdict(status, error.diagnostic)
    return LEGAL


class AnswerReach(Flag):
    """From what an answer follows, and so for which other kernels it may be kept. `PANE`: from a slice, or from
    those children of the kernel that were changed. `NODE`: from what changed, what is around it, and the buffers
    used there (their declarations, and whether anything else uses them). `ORDER`: from how ranges are counted
    alone, the same instances run in the same order whatever they are."""

    PANE = auto()
    NODE = auto()
    ORDER = auto()


class CheckerAnswer(NamedTuple):
    """Whether a rewrite is legal, from what that follows, and about what it cost in steps."""

    legal: bool
    kept: AnswerReach = AnswerReach(0)
    steps: int = 0


def is_legal(before: Kernel, after: Kernel, instances: InstanceMap, step_limit: int = STEP_LIMIT) -> bool:
    """Whether the verdict of `compare` would be `legal`."""
    return answer(before, after, instances, step_limit).legal


def answer(before: Kernel, after: Kernel, instances: InstanceMap, step_limit: int = STEP_LIMIT) -> CheckerAnswer:
    """Like `compare`, but without a reason, so that a refusal is cheaper to find."""
    if uses_core():
        return CheckerAnswer(bool(prove_by_core(before, after, instances, step_limit * CORE_FACTOR)))
    try:
        key = ("answer", before, after, instances)
        given, steps = StepBudget(step_limit).measure(lambda: _answered(Claim(before, after, instances)), key)
        return given._replace(steps=steps)
    except StepLimitReached:
        return CheckerAnswer(False, steps=step_limit)


def _answered(claim: Claim) -> CheckerAnswer:
    """The answer of a claim. What a scatter may touch, and what of an array is touched at all, is nowhere in the
    text around a change: such an answer is kept for no other kernel."""
    plain = claim_without_data_writes(claim)
    found = _answer(plain)
    legal = found.legal and first_failure(core.effects(claim)) is None
    kept = legal == found.legal and plain is claim and not (legal and asked_of(claim))
    return found if kept else CheckerAnswer(legal)


def _answer(claim: Claim) -> CheckerAnswer:
    before, after, instances = claim.parts
    if instances.rule is not None or instances.beyond:
        return CheckerAnswer(bool(_compared(claim)))
    if instances.backward:
        return _taken_back(claim)
    if not _fits(claim):
        return CheckerAnswer(False)
    if _is_same_tree(claim):
        marked = before.buffers == after.buffers
        mixed = [] if marked else _mixes(claim)
        old, new = users_slice(before, after, mixed) if mixed else (before, after)
        part = Claim(old, new, identity(old))
        if mixed != [] and (shares_too_much(old, new) or goes_wrong(*part.parts)):
            return CheckerAnswer(False, AnswerReach.PANE)
        kept = mixed == [] or _storage(part) is None
        legal = kept and keeps_marks(after, before if marked else None, right=before)
        return CheckerAnswer(legal, AnswerReach.PANE | AnswerReach.NODE if marked else AnswerReach.PANE)
    names = told_apart(before, after, instances)
    return _by_users(claim, names) if names is not None else _by_slice(claim)


def prove_rewrite(before: Kernel, after: Kernel, instances: InstanceMap, step_limit: int = STEP_LIMIT) -> Verdict:
    """As `compare`, but what changed is asked first by itself: a slice of the kernels may be decided where the two
    as a whole are not."""
    if uses_core():
        return prove_by_core(before, after, instances, step_limit * CORE_FACTOR)

    def question() -> Verdict:
        claim = Claim(before, after, instances)
        return _plainly(claim, lambda plain: LEGAL if _answer(plain).legal else _refused(plain))

    try:
        return StepBudget(step_limit).ask(question, ("rewrite", before, after, instances))
    except StepLimitReached:
        return _undecided(step_limit)


def _refused(claim: Claim) -> Verdict:
    """The verdict on a claim that does not hold: the reason of the core or, if that takes long, of a small run."""
    *_, instances = claim.parts
    shown = seen(*claim.parts) if instances.rule is None and not (instances.backward or instances.beyond) else None
    if shown is None:
        return _compared(claim)
    with suppress(StepLimitReached), limited_in_part(STEP_LIMIT // 10):
        return _compared(claim)
    sizes = ", ".join(f"{name}={size}" for name, size in shown.sizes)
    message = f"at {sizes} {shown.what}" if sizes else shown.what
    return Verdict("illegal", Diagnostic(shown.code, message, sizes=shown.sizes))


def _taken_back(claim: Claim) -> CheckerAnswer:
    """The answer for a backward map. Equivalent kernels are equally well-formed. Where statements were only put in,
    a slice decides, from the kernel before to the one after."""
    if not _fits(claim.forth):
        return CheckerAnswer(bool(_compared(claim)))
    if is_plain_both_ways(claim.forth):
        declared = core.declarations(claim.before, claim.after) is None
        return CheckerAnswer(declared and keeps_marks(claim.after, right=claim.before), AnswerReach.PANE)
    put = put_in(*claim.parts)
    shown = Claim(claim.before, claim.after, put) if put is not None else None
    found = _in_part(shown) if shown is not None and _fits(shown) else None
    return CheckerAnswer(True) if found is not None and found.legal else CheckerAnswer(bool(_compared(claim)))


# -- by the users of some buffers ----------------------------------------------------------------------------
def _by_users(claim: Claim, names: frozenset[str]) -> CheckerAnswer:
    """The answer where the kernels differ only in which of some temporaries an access names. It follows from
    their users alone."""
    users = users_slice(claim.before, claim.after, names)
    found = _named.get(users)
    if found is None:
        part = Claim(*users, identity(users[0]))
        wrong = not is_plain(part) and (goes_wrong(*part.parts) or not _same_values(part))
        found = _named.put(users, not wrong)
    return CheckerAnswer(found and _keeps_marks_around(claim.after, names), AnswerReach.PANE)


_named: Memo[tuple[Kernel, Kernel], bool] = Memo(4096)
"""Whether two kernels of the users of some temporaries mean the same, marks aside."""


def _keeps_marks_around(after: Kernel, names: frozenset[str]) -> bool:
    """Whether `keeps_marks` holds of a kernel, where nothing changed but which of some temporaries an access
    names: what marks promise is asked of the scopes that hold such accesses. The others run what they ran, on
    buffers that are used where they were."""
    paths = [after.sites[k].path for name in names for k in after.users.get(name, ())]
    promised = (
        promise for promise in core.promises(after, None) if any(p[: len(promise[0])] == promise[0] for p in paths)
    )
    return are_right(after) and all(are_independent(after, *promise) for promise in promised)


# -- by a slice ----------------------------------------------------------------------------------------------
def _by_slice(claim: Claim) -> CheckerAnswer:
    """The answer from a slice of the two kernels, where one decides; else from the whole."""
    found = _in_part(claim)
    return CheckerAnswer(_of_the_whole(claim)) if found is None else found


def _in_part(claim: Claim) -> CheckerAnswer | None:
    """The answer from a slice of the two kernels; None where none decides."""
    before, after, instances = claim.parts
    change = change_of(before, after, instances)
    if change is not None and runs_alike(before, after, instances, change):
        return CheckerAnswer(
            _keeps_marks_alike(claim, change), AnswerReach.PANE | AnswerReach.NODE | AnswerReach.ORDER
        )
    part = slice_of(before, after, instances, change) if change is not None else None
    found = _meanings.get(part) if part is not None else None
    if found is None:
        plain = is_plain(claim)
        if part is None or plain:
            found = _Meaning(plain or None, plain)
        elif _is_seen_to_differ(part):
            found = _Meaning(False, False)
        elif not (_has_room(before, after, instances) and _are_written(after, part.begun)):
            return CheckerAnswer(False)  # not well-formed: checked before the values because it is cheap
        else:
            found = _Meaning(_meaning_under_sizes(part), False)
        if part is not None:
            _meanings.put(part, found)
    if part is None or change is None or found.kept is None:
        return CheckerAnswer(keeps_marks(after, right=before), AnswerReach.NODE) if found.plain else None
    if not found.kept:
        return CheckerAnswer(False, AnswerReach.PANE)
    known = all(was_read(before, after, instances, change, name) for name in part.filled)
    asked = (*(() if known else part.filled), *(() if found.plain else part.begun))
    kept = _are_written(after, asked)
    follows = (AnswerReach.NODE if found.plain and kept else AnswerReach(0)) | (
        AnswerReach(0) if asked else AnswerReach.PANE
    )
    return CheckerAnswer(kept and keeps_marks(after, right=before), follows)


def _has_room(before: Kernel, after: Kernel, instances: InstanceMap) -> bool:
    """Whether every dimension still has an element, and statements that stand for nothing stay in bounds."""
    if before.buffers == after.buffers:
        return True
    new = [k for k, origin in enumerate(instances.origins) if origin is None]
    return prove_dimensions(after) is None and prove_bounds(after, new) is None


def _are_written(kernel: Kernel, names: Iterable[str]) -> bool:
    """Whether every element of some buffers is written before it is read."""
    return all(is_written(kernel, kernel.buffer(name)) for name in names)


class _Meaning(NamedTuple):
    """The facts about a slice that hold for every two kernels that have it.

    `kept`: whether its kernels mean the same, marks aside, and the new one is well-formed if what it fills has been
    written; None where the slice does not tell. `plain`: whether that was seen by a pattern of the whole kernels,
    which looks at the change, what is around it and the users of its buffers: all of that is in the slice.
    """

    kept: bool | None
    plain: bool


_meanings: Memo[Slice, _Meaning] = Memo(4096)


def _is_seen_to_differ(part: Slice) -> bool:
    """Whether runs at small sizes show that a slice does not keep the meaning."""
    return goes_wrong(*part.parts, part.held) or differs_somewhere(*part.parts)


def _meaning_under_sizes(part: Slice) -> bool | None:
    """The same, asked of what is in a guard on sizes where all of the slice is under one."""
    inside, kept = inside_of(part), None
    if inside is not None:
        with suppress(StepLimitReached), limited_in_part(inside.steps(STEP_LIMIT)):
            kept = _meaning_inside(inside.part)
        if kept or (inside.exact and kept is not None):
            return kept
    return _meaning_of(part)


def _meaning_inside(part: Slice) -> bool | None:
    """The same of a slice that has several children, from a slice of it."""
    change, smaller = change_of(*part.parts), None
    if is_plain(Claim(*part.parts)) or (change is not None and runs_alike(*part.parts, change)):
        return True
    if change is not None and _has_room(*part.parts):
        smaller = slice_of(*part.parts, change)
    if smaller is None or not _meaning_under_sizes(smaller):
        return _meaning_of(part)
    return True if _are_written(part.after, (*smaller.filled, *smaller.begun)) else _meaning_of(part)


def _meaning_of(part: Slice) -> bool | None:
    """The value of `_Meaning.kept` for a slice in which no difference was found."""
    claim = Claim(*part.parts)
    try:
        if keeps_order(claim):
            return True
        if part.held and goes_wrong(*part.parts):
            return None
        if _same_values(claim):
            return True
        return None if part.held and _same_values(Claim(*part.loose().parts)) else False
    except StepLimitReached:
        return None


def _same_values(claim: Claim) -> bool:
    """Whether the core finds no difference between the kernels of a slice. What the new one returns need not be
    wholly assigned."""
    if Correspondence(claim, claim.strict).difference() is not None:
        return False
    return core.well_formed(claim, outputs=False) is None


# -- of the whole --------------------------------------------------------------------------------------------
def _of_the_whole(claim: Claim) -> bool:
    """The answer where no slice of the kernels gives one, and no pattern holds."""
    if goes_wrong(*claim.parts) or differs_somewhere(*claim.parts):
        return False
    if keeps_order(claim):
        return keeps_marks(claim.after)
    return first_failure(core.in_full(claim, find_conflict)) is None


def _failures(claim: Claim) -> Iterator[Failure | None]:
    yield from form_errors(claim)
    if _is_same_tree(claim):
        same = claim.before.buffers == claim.after.buffers
        if not same:
            yield _storage(claim)
        yield _marks(claim.after, claim.before if same else None)
    elif not claim.certificate.beyond and (is_plain(claim) or keeps_order(claim)):
        yield _marks(claim.after)
    else:
        if claim.before.buffers != claim.after.buffers:
            yield prove_dimensions(claim.after)  # cheap, and refuses most bad copies early
        yield from core.in_full(claim, find_conflict)


def _storage(claim: Claim) -> Failure | None:
    """The reason why a claim does not hold whose kernels differ only in declarations, apart from marks."""
    if STORAGE.holds(claim):
        return None
    return Correspondence(claim, claim.strict).difference() or core.well_formed(claim)


def _mixes(claim: Claim) -> list[str] | None:
    """The buffers of which it is not seen that each read still gets what was written to its element, where only the
    storage of some differs; None where more does."""
    before, after, _ = claim.parts
    return mixed_up(before, after) if same_but_storage(before, after) else None


def _is_same_tree(claim: Claim) -> bool:
    """Whether the trees of the two differ in nothing but marks and hints, and both have as many buffers."""
    same = claim.certificate == identity(claim.before) and len(claim.before.buffers) == len(claim.after.buffers)
    return same and same_but_marks(claim.before.body, claim.after.body)


# -- marks ---------------------------------------------------------------------------------------------------
def _marks(after: Kernel, before: Kernel | None = None) -> Failure | None:
    return core.marks(after, before, find_conflict)


def _keeps_marks_alike(claim: Claim, change: Change) -> bool:
    """`keeps_marks` of a kernel that runs the instances of the one before in the same order.

    Of a scope around what changed, which both kernels have, each iteration runs what it ran. The same instances, on
    the same elements, and each read gets what it got from the same instance, in the same iteration or not. Its
    temporaries are used where they were. So its iterations are independent as they were, if those accumulations are
    seen to go to one element of all iterations that were: that is asked of the text (`may_share`).
    """
    after, origins = claim.after, claim.certificate.origins
    kept = {change.place[:n] for n in range(1, len(change.place) + 1)}

    def promised(path: Path, mark: str) -> bool:
        if path not in kept:
            return are_independent(after, path, mark)
        depth = after.depth_of(path)
        return all(
            origin is not None
            and may_share(claim.new, k, depth, mark) == may_share(claim.old, origin.site, depth, mark)
            for k, origin in zip(change.are, origins[change.are.start : change.are.stop], strict=True)
        ) or are_independent(after, path, mark)

    child = child_around(after, change.place)
    if child is None:
        return keeps_marks(after, right=claim.before)
    mine = (((*child, *path), mark) for path, mark in promised_in(after.at(child)))
    return keeps_marks(after, but=child, right=claim.before) and all(promised(*promise) for promise in mine)
