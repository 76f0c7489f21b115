"""The parts that a rewrite left unchanged, seen in the trees alone: for them there is nothing to prove.

Five theorems. The first three say that a part of the new kernel and what it stands for in the old one are equal.
The others, that the new kernel has something since the old one, which is well-formed, has it.

- *instances* (`alone`): a statement that is between the same bounds and guards as another of the old kernel, stands
  for that one in the same iteration, and is the only one that stands for any of it, has just the instances that
  the other one has. None is lost, made up or repeated, whatever the other statements are: theirs are others.
- *operations* (`same_operations`): a statement that is the same to the letter, on buffers that are declared alike,
  and stands for the other one in the same iteration, computes the same from what it reads, and its indices are in
  bounds as they were.
- *values* (`settled`): where the same statements touch a buffer in both kernels, the same to the letter (the same
  reads in another expression may mean something else), between the same bounds and in the same order, and each
  stands for itself in the same iteration, they touch the same elements at the same times. So no other read gets a
  value from there, and none of them is taken out of a value graph.
- *flow* and *written* (`alike`): through a buffer that the same statements touch, with the same bounds and in the
  same order, the same values flow. What is said of a read is which of these statements write its element before it,
  and that is the same: so what it reads was written, as it was, and to that very element.
- *marks* (`children`): whether the iterations of a scope are independent follows from the child of the kernel that
  it is in, and of each buffer used there from how it is declared and whether anything outside of the child uses it.
  So they are in a child that is the same tree, if these are the same.

Everything here is a quick yes: of what is not seen to be unchanged everything is asked.
"""

from __future__ import annotations

from collections import Counter

from dojoir.ir.nodes import Kernel
from dojoir.proof.certificate import identity
from dojoir.proof.claim import Claim
from dojoir.sets.flow import flows_alike, same_bounds, users_of
from dojoir.sets.kernel_sets import KernelSets


def alone(claim: Claim) -> frozenset[int]:
    """The statements of the new kernel that have just the instances of the one that they alone stand for."""
    before, after, instances = claim.parts
    same = identity(before).origins
    count = Counter(origin.site for origin in instances.origins if origin is not None)
    return frozenset(
        k
        for k, origin in enumerate(instances.origins)
        if origin is not None
        and count[origin.site] == 1
        and origin == same[origin.site]
        and same_bounds(before.sites[origin.site], after.sites[k])
    )


def standing(claim: Claim) -> frozenset[int]:
    """The statements of the kernel after each of whose instances stands for one of the kernel before, or one of
    those for it. Where a certificate says `beyond`, those that are seen to have no more."""
    certificate = claim.certificate
    return alone(claim) if certificate.beyond and not certificate.backward else frozenset(k for k, _ in claim.pairs)


def same_operations(claim: Claim) -> frozenset[int]:
    """The statements of the new kernel that are what they stand for to the letter, in the same iterators, on
    buffers that are declared alike. None where reads are replaced by expressions."""
    before, after, instances = claim.parts
    if instances.inlined or instances.extracted:
        return frozenset()
    same, declared = identity(before).origins, {buffer.name for buffer in {*before.buffers} & {*after.buffers}}
    return frozenset(
        k
        for k, (origin, site) in enumerate(zip(instances.origins, after.sites, strict=True))
        if origin is not None
        and origin == same[origin.site]
        and site.statement == before.sites[origin.site].statement
        and site.statement.buffers <= declared
    )


def alike(claim: Claim, strict: bool) -> frozenset[str]:
    """The buffers that both kernels declare alike and touch by the same statements, with the same bounds and in the
    same order."""
    before, after = claim.before, claim.after

    def stays(name: str) -> bool:
        were, are = users_of(claim.old, name), users_of(claim.new, name)
        return (
            len(were) == len(are)
            and all(before.sites[k].statement == after.sites[n].statement for k, n in zip(were, are, strict=True))
            and flows_alike(claim.old, claim.new, name, strict)
        )

    return frozenset(buffer.name for buffer in {*before.buffers} & {*after.buffers} if stays(buffer.name))


def settled(claim: Claim, alike: frozenset[str]) -> frozenset[str]:
    """The buffers, of those that are `alike`, of which no value needs to be compared. None where reads are replaced
    by expressions."""
    instances, same = claim.certificate, identity(claim.before).origins
    if instances.inlined or instances.extracted:
        return frozenset()

    def stays(name: str) -> bool:
        were, are = users_of(claim.old, name), users_of(claim.new, name)
        return all(instances.origins[n] == same[k] for k, n in zip(were, are, strict=True))

    return frozenset(name for name in alike if stays(name))


def children(claim: Claim) -> frozenset[int]:
    """The children of the new kernel, by number, whose marked scopes have independent iterations as they had."""
    known = {node: number for number, node in enumerate(claim.before.body)}
    return frozenset(
        number
        for number, node in enumerate(claim.after.body)
        if node in known and _standing(claim.new, number) == _standing(claim.old, known[node])
    )


def _standing(sets: KernelSets, number: int) -> list[tuple[object, ...]]:
    """Each buffer as the iterations of a child of a kernel depend on it: its declaration, and whether it is used
    outside."""
    kernel = sets.kernel
    return [
        (kernel.buffer(name), _is_used_outside(kernel, number, name))
        for name in sorted(kernel.body[number].buffers)
    ]


def _is_used_outside(kernel: Kernel, number: int, name: str) -> bool:
    """Whether a buffer that a child of a kernel uses is used outside of it."""
    first, last = kernel.users[name][0], kernel.users[name][-1]
    return not kernel.sites[first].path[0] == kernel.sites[last].path[0] == number
