"""What "legal" means: the obligations of a claim, and the one entry that proves them all.

A claim is two kernels and a certificate, which says for each statement of the new kernel which old instance each of
its instances stands for (`dojoir.proof.claim`). `check` trusts neither kernel nor certificate. It proves, for all
sizes at once, that

1. *form*: the kernels have the same sizes, facts and arguments, and the certificate fits their trees;
2. *instances*: the new instances stand for old ones, none is lost, and no accumulation counts twice;
3. *operations*: each does the same operation on the same types, with the same values of its iterators;
4. *flow*: every read, and every element that a call returns, gets its value from the same writes in the value
   graphs of the two kernels, in which statements that only pass values on are taken out;
5. *bounds* and *written*: no access leaves its buffer, nothing is read before it is written, every output is
   written to the last element, and no shared storage mixes up values;
6. *marks*: scopes whose mark allows reordering have independent iterations, and marks and hints stand where they
may.

A claim by a rule of algebra has two obligations instead: it is one use of the rule to the letter, and the new
kernel is well-formed by itself. A claim with a backward certificate, of a rule or not, is proved the other way
round, and before that the new kernel to be well-formed by itself: to mean the same goes both ways.

Nothing here answers from what another question found, from a shape that a move is known to leave, or from a part of
the kernels. `dojoir.proof.check` does that, for speed: it may say yes only where `check`, without a budget, does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from dojoir.ir.nodes import Kernel, Path, Scope, format_path
from dojoir.proof.certificate import same_elements
from dojoir.proof.claim import Claim
from dojoir.proof.core.bounds import prove_bounds
from dojoir.proof.core.compare import Correspondence
from dojoir.proof.core.independence import Finder, find_conflict
from dojoir.proof.core.marks import mark_error, marked
from dojoir.proof.core.rule_use import rule_fault
from dojoir.proof.core.scatters import claim_without_scatters
from dojoir.proof.core.wellformed import complaint, prove_dimensions, prove_storage
from dojoir.proof.core.written import prove_collapsed, prove_written
from dojoir.proof.explain.example import accuse
from dojoir.proof.verdict import LEGAL, Verdict, refuse


def check(claim: Claim) -> Verdict:
    """Whether a claim holds: legal, or illegal with the first obligation that fails and a witness.

    As long as it takes, or within the budget that is set around it (`dojoir.sets.limits`): past that, raises
    StepLimitReached.
    """
    plain = claim_without_scatters(claim)
    return plain if isinstance(plain, Verdict) else first(_obligations(plain))


def first(refusals: Iterable[Verdict | None]) -> Verdict:
    """The first refusal, or that there is none."""
    return next((verdict for verdict in refusals if verdict is not None), LEGAL)


def _obligations(claim: Claim) -> Iterator[Verdict | None]:
    if claim.certificate.backward:
        yield ill_formed(claim.after)
    if claim.certificate.rule is not None:
        forth = claim.forth
        yield rule_fault(forth.before, forth.after, claim.certificate.rule)
        if not claim.certificate.backward:
            yield ill_formed(claim.after)
        return
    yield from form(claim.forth)
    yield from in_full(claim.forth)


def ill_formed(kernel: Kernel) -> Verdict | None:
    """Why a kernel is not well-formed by itself, or None if it is."""
    error = complaint(kernel)
    return Verdict("illegal", error) if error is not None else None


def in_full(claim: Claim, find: Finder = find_conflict) -> Iterator[Verdict | None]:
    """What remains to be shown of two kernels that a certificate fits."""
    yield Correspondence(claim, claim.strict).refusal()
    yield well_formed(claim)
    yield marks(claim.after, find=find)


# -- form ----------------------------------------------------------------------------------------------------
def form(claim: Claim) -> Iterator[Verdict | None]:
    """What must hold before anything else can be asked of the two kernels."""
    yield declarations(claim.before, claim.after)
    yield _shape(claim)


def declarations(before: Kernel, after: Kernel) -> Verdict | None:
    """What is wrong with the header and the buffers of the kernel after, or None."""
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


def _shape(claim: Claim) -> Verdict | None:
    """Whether the certificate fits the two trees."""
    before, after, instances = claim.before, claim.after, claim.certificate

    def wrong(what: str) -> Verdict:
        return refuse("lost-statement", f"the instance map {what}", before)

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
def well_formed(claim: Claim, outputs: bool = True) -> Verdict | None:
    """Why the kernel after is not well-formed, where the one before is, marks aside: every dimension has an
    element, no new access leaves its buffer, and none reads what was never written. An access that touches the
    element that the old one did cannot leave it. Whether `outputs` are wholly written may be left out."""
    before, after, instances = claim.before, claim.after, claim.certificate
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


# -- marks ---------------------------------------------------------------------------------------------------
def marks(after: Kernel, before: Kernel | None = None, find: Finder = find_conflict) -> Verdict | None:
    """Why the marks and hints of a kernel may not stand there, or None. Marks that `before` has are known to be
    right: the trees must be the same but for marks. `find` is what looks for iterations in conflict."""
    error = mark_error(after)
    if error is not None:
        return Verdict("illegal", error)
    for path, mark in promises(after, before):
        conflict = find(after, path, mark)
        if conflict is not None:
            what = "carried-value" if conflict.carried else "shared-element"
            shown = after if before is None else before
            message = f"iterations of {format_path(path)} are not independent: {conflict.message(shown)}"
            return Verdict("illegal", accuse(what, message, conflict.parties(shown), conflict.example.sizes))
    return None


def promises(after: Kernel, before: Kernel | None) -> Iterator[tuple[Path, str]]:
    """The scopes whose mark allows reordering, each with the mark, where `before` does not have it."""
    for path, node in marked(after):
        was = before.at(path) if before is not None else None
        known = was.marks if isinstance(was, Scope) else ()
        yield from ((path, mark) for mark in node.marks if mark != "u" and mark not in known)
