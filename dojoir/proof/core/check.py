"""The definition of "legal": the obligations of a claim, and the one entry that proves them all.

A claim is two kernels and a certificate, which says for each statement of the new kernel which old instance each of
its instances stands for (`dojoir.proof.claim`). `find_failure` trusts neither kernel nor certificate. It
proves, for all sizes at once, that

1. *form*: the kernels have the same sizes, facts and arguments, and the certificate fits their trees;
2. *instances*: the new instances stand for old ones, or run beyond these to no effect where the certificate says so
   (`dojoir.proof.core.padding`); none is lost, and no accumulation counts twice;
3. *operations*: each does the same operation on the same types, with the same values of its iterators;
4. *flow*: every read, and every element that a call returns, gets its value from the same writes in the value
   graphs of the two kernels, in which statements that only pass values on are taken out;
5. *bounds* and *written*: no access leaves its buffer, nothing is read before it is written, every output is
   written to the last element, and no shared storage mixes up values;
6. *marks*: scopes whose mark allows reordering have independent iterations, and marks and hints stand where they
may;
7. *fails*: the new kernel ends in an error only where the old one does (`dojoir.proof.core.failing`);
8. *touches*: it touches no element of an `inout` that the old one leaves alone (`dojoir.proof.core.touched`).

A claim by a rule, of algebra or that of the last writer (`dojoir.proof.core.last_writer`), has two obligations
instead of the first six: it is one use of the rule to the letter, and the new kernel is well-formed by itself. Of
a claim with a backward certificate, of a rule or not, the first six are proved the other way round, and before that
the new kernel to be well-formed by itself: to mean the same goes both ways. To fail and to touch do not.

Nothing here answers from what another question found, from a shape that a move is known to leave, or from a part of
the kernels. `dojoir.proof.check` does that, for speed: it may say yes only where `find_failure`, without a budget,
finds nothing. Nor is anything put into words here but what is seen in the texts: what else fails is given as data,
of which `dojoir.proof.explain` makes a message.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import replace

from dojoir.errors import Diagnostic
from dojoir.ir.nodes import Kernel, Path, Scope
from dojoir.ir.packing import packing_error
from dojoir.proof.certificate import LastWriter, same_elements
from dojoir.proof.claim import Claim
from dojoir.proof.core.bounds import prove_bounds
from dojoir.proof.core.compare import Correspondence, Difference
from dojoir.proof.core.data_writes import claim_without_data_writes
from dojoir.proof.core.failing import MayFail, find_new_error
from dojoir.proof.core.independence import Finder, find_conflict
from dojoir.proof.core.last_writer import last_writer_fault
from dojoir.proof.core.marks import mark_error, marked
from dojoir.proof.core.rule_use import rule_fault
from dojoir.proof.core.touched import NewTouch, find_new_touch
from dojoir.proof.core.unchanged import children, same_operations, standing
from dojoir.proof.core.wellformed import Dependent, IllFormed, complaint, prove_dimensions, prove_storage
from dojoir.proof.core.written import prove_collapsed, prove_written
from dojoir.rules.rule import RuleUse

Failure = IllFormed | Difference | MayFail | NewTouch
"""The failure of a claim: the obligation, and the set of its counterexamples. `dojoir.proof.explain` picks an
example and puts it in words."""


def find_failure(claim: Claim) -> Failure | None:
    """The first obligation of a claim that fails; None if it holds, which is what "legal" means.

    As long as it takes, or within the budget that is set around it (`dojoir.sets.limits`): past that, raises
    StepLimitReached.
    """
    return first_failure(_obligations(claim_without_data_writes(claim))) or first_failure(effects(claim))


def effects(claim: Claim) -> Iterator[Failure | None]:
    """The obligations of a claim beside that of equal values, which must hold."""
    yield find_new_error(claim)
    yield find_new_touch(claim)


def misused(claim: Claim, use: RuleUse | LastWriter) -> Diagnostic | None:
    """Why a rewrite is no use of the rule that its certificate names, or None if it is. That the kernel after is
    well-formed is another question."""
    if isinstance(use, LastWriter):
        return last_writer_fault(claim.before, claim.after, use)
    return rule_fault(claim.before, claim.after, use)


def first_failure(found: Iterable[Failure | None]) -> Failure | None:
    """The first of some obligations that fails, or None if all hold."""
    return next((failure for failure in found if failure is not None), None)


def _obligations(claim: Claim) -> Iterator[Failure | None]:
    if claim.certificate.backward:
        yield complaint(claim.after)
    if claim.certificate.rule is not None:
        forth = claim.forth
        yield misused(forth, claim.certificate.rule)
        if not claim.certificate.backward:
            yield complaint(claim.after)
        return
    yield from form_errors(claim.forth)
    yield from in_full(claim.forth)


def in_full(claim: Claim, find: Finder = find_conflict) -> Iterator[Failure | None]:
    """The remaining obligations of two kernels that a certificate fits, of which the one before is well-formed.
    The unchanged parts of the one after are taken as correct (`dojoir.proof.core.unchanged`)."""
    correspondence = Correspondence(claim, claim.strict)
    yield correspondence.difference()
    yield well_formed(claim, known=correspondence.alike)
    yield marks(claim.after, find=find, known=children(claim))


# -- form ----------------------------------------------------------------------------------------------------
def form_errors(claim: Claim) -> Iterator[Diagnostic | None]:
    """The errors in the form of a claim, which must be absent before any other question about the two kernels."""
    yield declarations(claim.before, claim.after)
    yield _shape(claim)


def declarations(before: Kernel, after: Kernel) -> Diagnostic | None:
    """The error in the header and the buffers of the kernel after, or None."""
    if (before.sizes, before.facts, before.fp) != (after.sizes, after.facts, after.fp):
        return Diagnostic("changed-header", "the sizes, facts or fp mode of the kernel would change")
    if after.undeclared:
        return Diagnostic("unknown-buffer", f"`{after.undeclared[0]}` would be used, and not declared")
    if before.buffers == after.buffers:
        return packing_error(after)
    for old in before.arguments:
        new = next((b for b in after.arguments if b.name == old.name), None)
        if new is not old and (new is None or replace(new, stream=old.stream) != old):
            return Diagnostic("changed-argument", f"the argument `{old.name}` would change")
    if len(after.arguments) != len(before.arguments):
        return Diagnostic("changed-argument", "the kernel would have another argument")
    return prove_storage(after) or packing_error(after)


def _shape(claim: Claim) -> Diagnostic | None:
    """Whether the certificate fits the two trees."""
    before, after, instances = claim.before, claim.after, claim.certificate

    def wrong(what: str) -> Diagnostic:
        return Diagnostic("lost-statement", f"the instance map {what}")

    if len(instances.origins) != len(after.sites):
        return wrong("does not name every statement")
    for origin in instances.origins:
        if origin is not None and not 0 <= origin.site < len(before.sites):
            return wrong("names a statement that does not exist")
        if origin is not None and len(origin.iterators) != len(before.sites[origin.site].scopes):
            return wrong("has another depth than the statement")
    for origin, site in zip(instances.origins, after.sites, strict=True):
        if origin is not None and origin.reach > len(site.scopes):
            return wrong("names an iterator that is not there")
    for kernel, steps in ((before, instances.inlined), (after, instances.extracted)):
        numbers = range(len(kernel.sites))
        if any(step.site not in numbers or step.definition not in numbers for step in steps):
            return wrong("names a statement that does not exist")
    return None


# -- bounds and values ---------------------------------------------------------------------------------------
def well_formed(claim: Claim, outputs: bool = True, known: Container[str] = ()) -> IllFormed | None:
    """Why the kernel after is not well-formed, where the one before is, marks aside: every dimension has an
    element, no new access leaves its buffer, and none reads what was never written. An access that touches the
    element that the old one did cannot leave it. Whether `outputs` are wholly written may be left out; of the
    buffers `known` it is known that what is read was written."""
    before, after, instances = claim.before, claim.after, claim.certificate
    extents = {b.name: tuple(d.extent for d in b.dims) for b in before.buffers}
    stands = standing(claim)
    same = same_operations(claim) & stands
    others = [(k, site, instances.origins[k]) for k, site in enumerate(after.sites) if k not in same]
    changed = [
        k
        for k, site, origin in others
        if origin is None
        or k not in stands
        or instances.inlined
        or instances.extracted
        or not same_elements(before.sites[origin.site].statement, origin, site.statement)
        or any(
            extents.get(access.buffer) != tuple(d.extent for d in after.buffer(access.buffer).dims)
            for access in site.statement.accesses
        )
    ]
    found: IllFormed | None = prove_dimensions(after) if before.buffers != after.buffers else None
    found = found or prove_bounds(after, changed)
    if found is None and (before.body, before.buffers) != (after.body, after.buffers):
        found = prove_written(after, outputs, known) or prove_collapsed(after, known)
    return found


# -- marks ---------------------------------------------------------------------------------------------------
def marks(
    after: Kernel, before: Kernel | None = None, find: Finder = find_conflict, known: Container[int] = ()
) -> Diagnostic | Dependent | None:
    """Why the marks and hints of a kernel may not stand there, or None. Marks that `before` has are known to be
    right: the trees must be the same but for marks; so are those in the children `known`. `find` is what looks for
    iterations in conflict."""
    error = mark_error(after)
    if error is not None:
        return error
    for path, mark in promises(after, before):
        conflict = find(after, path, mark) if path[0] not in known else None
        if conflict is not None:
            return Dependent(after if before is None else before, conflict)
    return None


def promises(after: Kernel, before: Kernel | None) -> Iterator[tuple[Path, str]]:
    """The scopes whose mark allows reordering, each with the mark, where `before` does not have it."""
    for path, node in marked(after):
        was = before.at(path) if before is not None else None
        known = was.marks if isinstance(was, Scope) else ()
        yield from ((path, mark) for mark in node.marks if mark != "u" and mark not in known)
