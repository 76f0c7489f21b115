"""The checker: whether a kernel after a rewrite means what it meant before.

It is given two kernels and the instance map, which says for each statement of the new kernel which old instance
each of its instances stands for, and trusts neither. It proves, for all sizes at once, that

1. the new instances stand for old ones, and no accumulation counts twice;
2. each does the same operation on the same types, with the same values of its iterators;
3. every read gets its value from the same writes, and every returned element does, in the value graphs of the
   two kernels (`dojoir.graph`), where statements that only pass values on are transparent;
4. no access leaves its buffer, and nothing is read before it is written;
5. scopes that a mark takes out of order have independent iterations (`dojoir.independence`).

What cannot be decided within the step limit is `unknown`, which is not legal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from dojoir.algebra import rule_refusal
from dojoir.change import change_of
from dojoir.correspondence import Correspondence
from dojoir.errors import Diagnostic, KernelError
from dojoir.flow import Flow, flow_of
from dojoir.independence import are_independent, find_conflict, is_uniform
from dojoir.instances import (
    InstanceMap,
    Origin,
    Substitution,
    identity,
    same_elements,
)
from dojoir.ir import Guard, Kernel, Node, Path, Scope, any_marked, format_path
from dojoir.limits import StepLimitReached, limited, limited_in_part
from dojoir.marks import are_right, mark_error
from dojoir.memo import Memo
from dojoir.quick import is_plain, is_plain_both_ways, keeps_order, runs_alike
from dojoir.refuted import differs_somewhere, is_refuted
from dojoir.sampled import shares_too_much
from dojoir.sets import sets_of
from dojoir.slices import Slice, slice_of
from dojoir.staged import was_read
from dojoir.traced import goes_wrong
from dojoir.verdict import LEGAL, Verdict, refuse
from dojoir.wellformed import prove, prove_bounds, prove_dimensions, prove_storage
from dojoir.witness import accuse
from dojoir.written import is_written, keeps_elements_apart, prove_collapsed, prove_written

__all__ = [
    "LEGAL",
    "STEP_LIMIT",
    "Answer",
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
    "prove_rewrite",
    "refuse",
]

STEP_LIMIT = 2_000_000
"""How many isl operations one check may take before the answer is `unknown`. What was kept from earlier checks
costs none: a question near the limit may be answered after others and be `unknown` alone. No answer but that
depends on what is kept."""


def compare(before: Kernel, after: Kernel, instances: InstanceMap, step_limit: int = STEP_LIMIT) -> Verdict:
    """Whether `after` means what `before` means, its statements standing for what `instances` says.

    To mean the same goes both ways: for a backward map, `after` is proved to be well-formed by itself, and `before`
    to mean what it means.
    """
    try:
        with limited(step_limit):
            if not instances.backward:
                return _first(_refusals(before, after, instances))
            forth = instances.forth(before, after)
            plain = instances.rule is None and _first(_form(*forth)) and is_plain_both_ways(*forth)
            if plain:  # what is seen from the text to run as the other does is well-formed as that is
                return _first(_beside_the_order(before, after))
            return _well_formed_by_itself(after) and _first(_refusals(*forth))
    except StepLimitReached:
        return Verdict(
            "unknown",
            Diagnostic("undecided", f"the checker did not come to an answer within {step_limit} steps"),
        )


def _beside_the_order(before: Kernel, after: Kernel) -> Iterator[Verdict | None]:
    """What is to be asked of a kernel that runs as another does."""
    yield _declarations(before, after)
    yield _marks(after)


def _first(refusals: Iterable[Verdict | None]) -> Verdict:
    return next((verdict for verdict in refusals if verdict is not None), LEGAL)


def _well_formed_by_itself(kernel: Kernel) -> Verdict:
    try:
        prove(kernel)
    except KernelError as error:
        status = "unknown" if error.diagnostic.code == "undecided" else "illegal"
        return Verdict(status, error.diagnostic)
    return LEGAL


class Answer(NamedTuple):
    """Whether a rewrite is legal; whether that follows from what changed, what is around it, and the buffers used
    there (their declarations, and whether anything else uses them) alone; and whether it follows from a slice, or
    from those children of the kernel that it changed."""

    legal: bool
    local: bool
    sliced: bool


def is_legal(before: Kernel, after: Kernel, instances: InstanceMap, step_limit: int = STEP_LIMIT) -> bool:
    """Whether `compare` would say `legal`."""
    return answer(before, after, instances, step_limit).legal


def answer(before: Kernel, after: Kernel, instances: InstanceMap, step_limit: int = STEP_LIMIT) -> Answer:
    """As `compare`, without a reason: a refusal may be found in a shorter way."""
    if instances.rule is not None:
        return Answer(bool(compare(before, after, instances, step_limit)), False, False)
    try:
        with limited(step_limit):
            if instances.backward:
                return _taken_back(before, after, instances, step_limit)
            if not _first(_form(before, after, instances)):
                return Answer(False, False, False)
            if _is_same_tree(before, after, instances):
                marked = before.buffers == after.buffers
                if not marked and _may_mix(before, after) != []:
                    if goes_wrong(before, after, instances):
                        return Answer(False, False, True)
                    if len(before.buffers) == len(after.buffers) and shares_too_much(before, after):
                        return Answer(False, False, True)
                kept = marked or _storage(before, after, instances, before.fp == "strict") is None
                return Answer(kept and _keeps_marks(after, before if marked else None), marked, True)
            return _by_slice(before, after, instances, step_limit)
    except StepLimitReached:
        return Answer(False, False, False)


def prove_rewrite(before: Kernel, after: Kernel, instances: InstanceMap, step_limit: int = STEP_LIMIT) -> Verdict:
    """As `compare`, but what changed is asked first by itself: a slice of the kernels may be decided where the two
    as a whole are not."""
    if answer(before, after, instances, step_limit).legal:
        return LEGAL
    return compare(before, after, instances, step_limit)


def _taken_back(before: Kernel, after: Kernel, instances: InstanceMap, step_limit: int) -> Answer:
    """The answer for a backward map. What is seen from the text to run as the other does is well-formed as that
    is."""
    forth = instances.forth(before, after)
    if _first(_form(*forth)) and is_plain_both_ways(*forth):
        return Answer(_declarations(before, after) is None and _keeps_marks(after), False, True)
    return Answer(bool(compare(before, after, instances, step_limit)), False, False)


def _by_slice(before: Kernel, after: Kernel, instances: InstanceMap, step_limit: int) -> Answer:
    """The answer from a slice of the two kernels, where there is one that gives it."""
    change = change_of(before, after, instances)
    if change is not None and runs_alike(before, after, instances, change):
        return Answer(_keeps_marks(after), True, True)
    part = slice_of(before, after, instances, change) if change is not None else None
    key = (part, step_limit)
    found = _meanings.get(key) if part is not None else None
    if found is None:
        plain = is_plain(before, after, instances)
        if part is None or plain:
            found = _Meaning(plain or None, plain)
        elif _is_seen_to_differ(part):
            found = _Meaning(False, False)
        elif not (_has_room(before, after, instances) and _are_written(after, part.begun)):
            return Answer(False, False, False)  # as would be found in the end; it is sooner said than the rest
        else:
            found = _Meaning(_meaning_of(part), False)
        if part is not None:
            _meanings.put(key, found)
    if part is None or change is None or found.kept is None:
        if found.plain:
            return Answer(_keeps_marks(after), True, False)
        return Answer(_of_the_whole(before, after, instances), False, False)
    if not found.kept:
        return Answer(False, False, True)
    known = all(was_read(before, after, instances, change, name) for name in part.filled)
    asked = (*(() if known else part.filled), *(() if found.plain else part.begun))
    kept = _are_written(after, asked)
    return Answer(kept and _keeps_marks(after), found.plain and kept, not asked)


def _has_room(before: Kernel, after: Kernel, instances: InstanceMap) -> bool:
    """Whether every dimension still has an element, and statements that stand for nothing stay in bounds."""
    if before.buffers == after.buffers:
        return True
    new = [k for k, origin in enumerate(instances.origins) if origin is None]
    return prove_dimensions(after) is None and prove_bounds(after, new) is None


def _are_written(kernel: Kernel, names: Iterable[str]) -> bool:
    """Whether all that is read of some buffers has been written."""
    return all(is_written(kernel, kernel.buffer(name)) for name in names)


class _Meaning(NamedTuple):
    """Whether the kernels of a slice mean the same, marks aside, and the new one is well-formed, if what it fills
    has been written; None where the slice does not say it. And whether that is seen from the text."""

    kept: bool | None
    plain: bool


_meanings: Memo[tuple[Slice | None, int], _Meaning] = Memo(4096)


def _is_seen_to_differ(part: Slice) -> bool:
    """Whether runs at small sizes show that a slice does not keep the meaning."""
    kernels = (part.before, part.after, part.instances)
    return goes_wrong(*kernels, part.held) or differs_somewhere(*kernels)


def _meaning_of(part: Slice) -> bool | None:
    """`_Meaning.kept` of a slice that is not seen to differ."""
    kernels = (part.before, part.after, part.instances)
    try:
        if _is_seen_refuted(*kernels):
            return False
        if keeps_order(*kernels):
            return True
        if part.held and goes_wrong(*kernels):
            return None
        if _same_values(*kernels):
            return True
        loose = part.loose()
        return None if part.held and _same_values(loose.before, loose.after, loose.instances) else False
    except StepLimitReached:
        return None


def _is_seen_refuted(before: Kernel, after: Kernel, instances: InstanceMap) -> bool:
    """Whether it is refuted soon: most answers take few steps, and where none is found, others are asked."""
    with suppress(StepLimitReached), limited_in_part(STEP_LIMIT // 10):
        return is_refuted(before, after, instances)
    return False


def _same_values(before: Kernel, after: Kernel, instances: InstanceMap) -> bool:
    """Whether the full comparison of a slice finds no difference. What it returns need not be wholly assigned."""
    if Correspondence(before, after, instances, before.fp == "strict").refusal() is not None:
        return False
    return _well_formed(before, after, instances, outputs=False) is None


def _of_the_whole(before: Kernel, after: Kernel, instances: InstanceMap) -> bool:
    """The answer where no slice of the kernels gives one, and it is not seen from the text."""
    if goes_wrong(before, after, instances) or differs_somewhere(before, after, instances):
        return False
    if _is_seen_refuted(before, after, instances):
        return False
    if keeps_order(before, after, instances):
        return _keeps_marks(after)
    return bool(_first(_in_full(before, after, instances)))


def _refusals(before: Kernel, after: Kernel, instances: InstanceMap) -> Iterator[Verdict | None]:
    if instances.rule is not None:
        yield rule_refusal(before, after, instances.rule)
        return
    yield from _form(before, after, instances)
    if _is_same_tree(before, after, instances):
        if before.buffers != after.buffers:
            yield _storage(before, after, instances, before.fp == "strict")
        yield _marks(after, before if before.buffers == after.buffers else None)
        return
    if is_plain(before, after, instances) or keeps_order(before, after, instances):
        yield _marks(after)
    else:
        yield from _in_full(before, after, instances)


def _is_same_tree(before: Kernel, after: Kernel, instances: InstanceMap) -> bool:
    """Whether the trees of the two differ in nothing but marks and hints."""
    return instances == identity(before) and _same_but_marks(before.body, after.body)


def _in_full(before: Kernel, after: Kernel, instances: InstanceMap) -> Iterator[Verdict | None]:
    yield Correspondence(before, after, instances, before.fp == "strict").refusal()
    yield _well_formed(before, after, instances)
    yield _marks(after)


def _form(before: Kernel, after: Kernel, instances: InstanceMap) -> Iterator[Verdict | None]:
    """What must hold before anything can be asked of the two kernels."""
    yield _declarations(before, after)
    yield _shape(before, after, instances)


def is_exact(before: Kernel, after: Kernel, instances: InstanceMap) -> bool:
    """Whether a legal rewrite also keeps the order of all float accumulations, so that results are equal bit
    for bit. Raises isl.Error where the step limit of the context is reached."""
    if instances.rule is not None:
        return False
    forth = Correspondence(*instances.forth(before, after), True)
    return forth.refusal() is None and _lane_sums(after) <= _lane_sums(before)


def _declarations(before: Kernel, after: Kernel) -> Verdict | None:
    if (before.sizes, before.facts, before.fp) != (after.sizes, after.facts, after.fp):
        return refuse("changed-header", "the sizes, facts or fp mode of the kernel would change", before)
    if after.undeclared:
        return refuse("unknown-buffer", f"`{after.undeclared[0]}` would be used, and not declared", before)
    if before.buffers == after.buffers:
        return None
    for old in before.arguments:
        new = next((b for b in after.arguments if b.name == old.name), None)
        if new is not old and (new is None or replace(new, stream=old.stream) != old):
            return refuse("changed-argument", f"the argument `{old.name}` would change", before)
    if len(after.arguments) != len(before.arguments):
        return refuse("changed-argument", "the kernel would have another argument", before)
    error = prove_storage(after)
    return Verdict("illegal", error) if error is not None else None


def _shape(before: Kernel, after: Kernel, instances: InstanceMap) -> Verdict | None:
    """The instance map fits the two trees."""
    if len(instances.origins) != len(after.sites):
        return refuse("lost-statement", "the instance map does not name every statement", before)
    for origin in instances.origins:
        if origin is not None and not 0 <= origin.site < len(before.sites):
            return refuse("lost-statement", "the instance map names a statement that does not exist", before)
        if origin is not None and len(origin.iterators) != len(before.sites[origin.site].scopes):
            return refuse("lost-statement", "the instance map has another depth than the statement", before)
    for origin, site in zip(instances.origins, after.sites, strict=True):
        if origin is not None and origin.reach > len(site.scopes):
            return refuse("lost-statement", "the instance map names an iterator that is not there", before)
    for kernel, steps in ((before, instances.inlined), (after, instances.extracted)):
        numbers = range(len(kernel.sites))
        for step in steps:
            if step.site not in numbers or step.definition not in numbers:
                return refuse("lost-statement", "the instance map names a statement that does not exist", before)
    return None


def _same_but_marks(some: tuple[Node, ...], others: tuple[Node, ...]) -> bool:
    """Whether two trees are the same without their marks and hints."""

    def same(one: Node, other: Node) -> bool:
        match one, other:
            case Scope(), Scope():
                return one.extent == other.extent and _same_but_marks(one.body, other.body)
            case Guard(), Guard():
                return one.conditions == other.conditions and _same_but_marks(one.body, other.body)
        return one == other

    return some is others or (len(some) == len(others) and all(map(same, some, others)))


def _storage(before: Kernel, after: Kernel, instances: InstanceMap, strict: bool) -> Verdict | None:
    """Only declarations changed: where they are of the same types and extents, only what flows through the
    changed buffers may differ."""
    mixed = _may_mix(before, after)
    if mixed is None:
        found = Correspondence(before, after, instances, strict).refusal()
        return _well_formed(before, after, instances) if found is None else found
    old, new = sets_of(before), sets_of(after)
    # The kernel before is well-formed: there, every read gets what was written to its element.
    same = all(_same_flow(flow_of(old, name, strict), flow_of(new, name, strict)) for name in mixed)
    return None if same else Correspondence(before, after, instances, strict).refusal()


def _may_mix(before: Kernel, after: Kernel) -> list[str] | None:
    """The buffers of which it is not seen that each read still gets what was written to its element, where only the
    storage of some differs; None where more does."""
    extents = [(b.name, b.role, b.dtype, [d.extent for d in b.dims]) for b in before.buffers]
    if extents != [(b.name, b.role, b.dtype, [d.extent for d in b.dims]) for b in after.buffers]:
        return None
    changed = (b for a, b in zip(before.buffers, after.buffers, strict=True) if a.dims != b.dims)
    return [buffer.name for buffer in changed if not keeps_elements_apart(after, buffer)]


def _same_flow(old: Flow, new: Flow) -> bool:
    return old.sources.is_equal(new.sources) and old.initial.is_equal(new.initial)


def _well_formed(before: Kernel, after: Kernel, instances: InstanceMap, outputs: bool = True) -> Verdict | None:
    """Every dimension has an element, no new access leaves its buffer, and none reads what was never written. An
    access that touches the element that the old one did cannot leave it."""
    extents = {b.name: tuple(d.extent for d in b.dims) for b in before.buffers}
    changed = [
        k
        for k, (site, origin) in enumerate(zip(after.sites, instances.origins, strict=True))
        if origin is None
        or instances.inlined
        or instances.extracted
        or not same_elements(before.sites[origin.site].statement, origin, site.statement)
        or any(
            extents.get(access.buffer) != tuple(d.extent for d in after.buffer(access.buffer).dims)
            for access in site.statement.accesses
        )
    ]
    error = prove_dimensions(after) if before.buffers != after.buffers else None
    if error is None and changed:
        error = prove_bounds(after, changed)
    if error is None and (before.body, before.buffers) != (after.body, after.buffers):
        error = prove_written(after, outputs) or prove_collapsed(after)
    return Verdict("illegal", error) if error is not None else None


def _marks(after: Kernel, before: Kernel | None = None) -> Verdict | None:
    """Scopes that are out of order are independent. Where nothing but marks differs from `before`, those that
    it has are."""
    error = mark_error(after)
    if error is not None:
        return Verdict("illegal", error)
    for path, mark in _promises(after, before):
        conflict = find_conflict(after, path, mark)
        if conflict is not None:
            what = "carried-value" if conflict.carried else "shared-element"
            shown = after if before is None else before
            message = f"iterations of {format_path(path)} are not independent: {conflict.message(shown)}"
            return Verdict("illegal", accuse(what, message, conflict.parties(shown), conflict.example.sizes))
    return None


def _keeps_marks(after: Kernel, before: Kernel | None = None) -> bool:
    """Whether `_marks` would find nothing."""
    return are_right(after) and all(are_independent(after, *promise) for promise in _promises(after, before))


def _promises(after: Kernel, before: Kernel | None) -> Iterator[tuple[Path, str]]:
    """The scopes that a mark takes out of order, each with the mark, which `before` does not have."""
    if not any_marked(after.body):
        return
    for path, node in after.walk():
        if isinstance(node, Scope):
            was = before.at(path) if before is not None else None
            known = was.marks if isinstance(was, Scope) else ()
            yield from ((path, mark) for mark in node.marks if mark != "u" and mark not in known)


def _lane_sums(kernel: Kernel) -> int:
    """How many statements accumulate floats across lanes: their order is not that of the text."""
    count = 0
    for site in kernel.sites:
        statement = site.statement
        if statement.accumulation in {"+=", "*="}:
            is_float = kernel.buffer(statement.target.buffer).dtype.is_float
            count += is_float and any(
                "v" in scope.marks and is_uniform(kernel, statement.target, depth)
                for depth, scope in enumerate(site.scopes)
            )
    return count
