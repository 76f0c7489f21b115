"""Which legal rewrites also keep every bit of a result.

In a kernel that is not `fp strict`, a legal rewrite may change the order of float accumulations. Here is asked
whether it would be legal if the kernel were strict.
"""

from __future__ import annotations

from dojoir.ir.nodes import Kernel
from dojoir.ir.places import is_uniform
from dojoir.proof.certificate import InstanceMap, LastWriter
from dojoir.proof.claim import Claim
from dojoir.proof.core.compare import Correspondence
from dojoir.proof.core.independence import COLLECTIVE


def is_exact(before: Kernel, after: Kernel, instances: InstanceMap) -> bool:
    """Whether a legal rewrite also keeps the order of all float accumulations, so that results are equal bit for
    bit."""
    if instances.rule is not None:
        return isinstance(instances.rule, LastWriter)
    kept = Correspondence(Claim(before, after, instances).forth, True).difference() is None
    return kept and _lane_sums(after) <= _lane_sums(before)


def _lane_sums(kernel: Kernel) -> int:
    """How many statements accumulate floats across lanes, threads or blocks: their order is not that of the
    text."""
    count = 0
    for site in kernel.sites:
        statement = site.statement
        if statement.accumulation in {"+=", "*="}:
            is_float = kernel.buffer(statement.target.buffer).dtype.is_float
            count += is_float and any(
                not COLLECTIVE.isdisjoint(scope.marks) and is_uniform(kernel, statement.target, depth)
                for depth, scope in enumerate(site.scopes)
            )
    return count
