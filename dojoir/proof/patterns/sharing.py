"""Recognises `share_buffer` where the two live ranges are disjoint: temporary `b` now uses the storage of `a`.

The theorem. Let `a` and `b` be temporaries declared alike, and let every top-level child of the kernel that uses
`a` come before every one that uses `b`, or the other way round. Then renaming `b` to `a` everywhere keeps the
meaning.

Why. The kernel before is well-formed: each read of `b`, and each accumulation into it, is of an element that a
plain assignment to `b` gave earlier. That assignment and all that follows it on `b` run after the last use of `a`,
so nothing of `a` overwrites the value in between. The same holds for `a` if it is the later of the two. With at
most one operator among the accumulations, renaming makes no two of them clash that were on different buffers.

Decided on the text alone, without isl.
"""

from __future__ import annotations

from dojoir.ir.nodes import Kernel
from dojoir.proof.claim import Claim
from dojoir.proof.difference import told_apart


def takes_the_storage(claim: Claim) -> bool:
    """Whether the kernel after is the kernel before with one temporary renamed to another that is declared alike
    and has a disjoint live range. False says nothing."""
    before, after, instances = claim.parts
    if len(before.buffers) != len(after.buffers) + 1:
        return False
    names = told_apart(before, after, instances)
    if names is None or len(names) != 2:
        return False
    gone = names - after.declared
    return len(gone) == 1 and are_apart(before, *sorted(names)) and set(after.buffers) < set(before.buffers)


def are_apart(kernel: Kernel, one: str, other: str) -> bool:
    """Whether two buffers are temporaries that are declared alike, the top-level children that use the one all come
    before those that use the other, and at most one operator accumulates into the two together."""
    first, second = kernel.buffer(one), kernel.buffer(other)
    if not first.role == second.role == "tmp" or first.form != second.form:
        return False
    lives = [kernel.users.get(name, ()) for name in (one, other)]
    tops = [(kernel.sites[life[0]].path[0], kernel.sites[life[-1]].path[0]) for life in lives if life]
    if len(tops) == 2 and tops[0][1] >= tops[1][0] and tops[1][1] >= tops[0][0]:
        return False
    statements = (kernel.sites[k].statement for life in lives for k in life)
    added = (s for s in statements if s.target.buffer in (one, other) and s.accumulation is not None)
    return len({s.commuting for s in added}) < 2
