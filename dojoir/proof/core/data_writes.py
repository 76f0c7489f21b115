"""Claims about kernels with writes that depend on data, as claims about kernels without (`dojoir.sets.data_writes`,
which says why that is enough).

Both kernels of a claim are brought into that form, and the certificate with them: an instance of a scatter for the
element `g` stands for that of the old one for the same `g`. Nothing else in the core knows that there are such
writes, but that a scatter or a condition touches nothing for sure (`dojoir.proof.core.touched`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dojoir import rules
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Kernel
from dojoir.proof.certificate import InstanceMap, LastWriter, Origin, Substitution
from dojoir.proof.claim import Claim
from dojoir.sets.data_writes import without_data_writes


def claim_without_data_writes(claim: Claim) -> Claim:
    """The same claim about kernels without such writes."""
    before, after, certificate = claim.parts
    if isinstance(certificate.rule, LastWriter):
        return claim  # it is about such writes
    old, new = without_data_writes(before), without_data_writes(after)
    if old is before and new is after:
        return claim
    if certificate.rule is not None:
        use = rules.seen_in(new if certificate.backward else old, certificate.rule)
        return Claim(old, new, replace(certificate, rule=use))
    lifted = _lifted(*certificate.forth(before, after))
    return Claim(old, new, replace(lifted, backward=certificate.backward, beyond=certificate.beyond))


def _lifted(before: Kernel, after: Kernel, certificate: InstanceMap) -> InstanceMap:
    """The certificate, not yet checked, for kernels without such writes. Where it says that a scatter stands for
    what is none, or for one of other dimensions, the depths do not fit, which is found later."""

    def origin(site: int, given: Origin | None) -> Origin | None:
        own = after.sites[site]
        if given is None or not 0 <= given.site < len(before.sites) or not own.statement.scatters:
            return given
        more = tuple(Affine.iterator(len(own.scopes) + n) for n in range(len(own.statement.scatters)))
        return Origin(given.site, (*given.iterators, *more))

    def steps(kernel: Kernel, given: Iterable[Substitution]) -> tuple[Substitution, ...]:
        before = [
            len(s.statement.index_reads) for s in kernel.sites
        ]  # reads that now come before those of the value
        known = range(len(before))
        return tuple(replace(s, ordinal=s.ordinal + before[s.site]) if s.site in known else s for s in given)

    if len(certificate.origins) != len(after.sites):
        return replace(certificate, backward=False)
    return InstanceMap(
        tuple(origin(k, given) for k, given in enumerate(certificate.origins)),
        steps(before, certificate.inlined),
        steps(after, certificate.extracted),
    )
