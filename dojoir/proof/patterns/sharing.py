"""Two temporaries that get one storage, the one when the other is done: seen from the text, with no isl.

In the kernel before, all users of the one stand in children of the kernel before those of the other. In the one
after, every access of one of them names the other, and nothing else differs. In a kernel that is well-formed, each
read of a temporary, and each accumulation into it, is of an element that a plain assignment gave before; the last
one to it, and all accumulations since, run behind all users of the other temporary, or before all of them. So each
read gets the value that it got.
"""

from __future__ import annotations

from dojoir.ir.nodes import Kernel
from dojoir.proof.claim import Claim
from dojoir.proof.difference import told_apart


def takes_the_storage(claim: Claim) -> bool:
    """Whether all that changed is that a temporary now uses the storage of another one of its form, which is used
    before all that it is used in, or behind."""
    before, after, instances = claim.parts
    if len(before.buffers) != len(after.buffers) + 1:
        return False
    names = told_apart(before, after, instances)
    if names is None or len(names) != 2:
        return False
    gone = names - after.declared
    return len(gone) == 1 and are_apart(before, *sorted(names)) and set(after.buffers) < set(before.buffers)


def are_apart(kernel: Kernel, one: str, other: str) -> bool:
    """Whether two buffers are temporaries of one form, all users of the one stand in children of the kernel before
    those that hold users of the other, and at most one operator accumulates into them."""
    first, second = kernel.buffer(one), kernel.buffer(other)
    if not first.role == second.role == "tmp" or first.form != second.form:
        return False
    lives = [kernel.users.get(name, ()) for name in (one, other)]
    tops = [(kernel.sites[life[0]].path[0], kernel.sites[life[-1]].path[0]) for life in lives if life]
    if len(tops) == 2 and tops[0][1] >= tops[1][0] and tops[1][1] >= tops[0][0]:
        return False
    statements = (kernel.sites[k].statement for life in lives for k in life)
    operators = {s.accumulation for s in statements if s.target.buffer in (one, other)} - {None}
    return len(operators) < 2
