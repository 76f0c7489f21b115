"""Scatters as the checker looks at them: an accumulation at an index that is data, `h[x[{0}]] += v`, is a loop over
all the elements that it may touch, which adds `v` to the one and nothing to the others:

    E
    | h[{1}] += select(i64(x[{0}]) == {1}, v, 0)

*Why that is enough.* Of data that keep their indices in range, the two do the same to `h`: of the instances of the
loop that belong to one of the scatter, exactly one combines `v` with its element, and the others leave theirs
alone. The checker knows nothing of what `select` gives. It compares which instances reach each element that is
read, in which order where that counts, and where the operands of each come from; the index that is data is one of
these operands, and the number of the element is an iterator. So two kernels that it finds equal in this form give
equal elements whatever the data, also where partial results are passed on between elements of different arrays.
That data are in range is asked when the kernel runs. What is written before, what conflicts between iterations, and
what bounds an index follow in the same way: a scatter may touch every element of the dimensions that it indexes by
data.

Both kernels of a claim are brought into this form, and the certificate with them: an instance of a scatter for the
element `g` stands for that of the old one for the same `g`. Nothing else in the core knows that there are scatters.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dojoir.errors import Diagnostic
from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import I64
from dojoir.ir.nodes import Access, Cast, Expr, Extent, Guard, Index, Kernel, Node, Op, Scope, Statement
from dojoir.ir.text import format_access
from dojoir.ir.where import diagnostic_at
from dojoir.proof.certificate import InstanceMap, Origin, Substitution
from dojoir.proof.claim import Claim
from dojoir.proof.core.marks import LEVELS
from dojoir.support.kept import once_for_each
from dojoir.types.identities import neutral_value


@once_for_each
def without_scatters(kernel: Kernel) -> Kernel:
    """The kernel with a loop in the place of each scatter; the kernel itself where it has none. Statements keep
    their numbers, and scopes their paths."""
    if not any(site.statement.scatters for site in kernel.sites):
        return kernel
    return kernel.evolve(body=tuple(_node(kernel, node, 0) for node in kernel.body))


def _node(kernel: Kernel, node: Node, depth: int) -> Node:
    match node:
        case Scope():
            return replace(node, body=tuple(_node(kernel, child, depth + 1) for child in node.body))
        case Guard():
            return replace(node, body=tuple(_node(kernel, child, depth) for child in node.body))
        case Statement():
            return _loop(kernel, node, depth) if node.scatters else node


def _loop(kernel: Kernel, statement: Statement, depth: int) -> Node:
    buffer, target = kernel.buffer(statement.target.buffer), statement.target
    begin = neutral_value(statement.op, buffer.dtype)
    assert begin is not None, "what accumulates has a neutral value"
    indices, tests, extents = list(target.indices), list[Expr](), list[Affine]()
    for dim in statement.scatters:
        own, index = Affine.iterator(depth + len(extents)), indices[dim]
        assert isinstance(index, Access)
        tests.append(Op("eq", (Cast(I64, index), Index(own))))
        indices[dim] = own
        extents.append(buffer.dims[dim].extent)
    chosen = tests[0]
    for test in tests[1:]:
        chosen = Op("and", (chosen, test))
    value = Op("select", (chosen, statement.value, begin))
    inner: Node = replace(statement, target=replace(target, indices=tuple(indices)), value=value)
    for extent in reversed(extents):
        inner = Scope(Extent((extent,)), (inner,), loc=statement.loc)
    return inner


def claim_without_scatters(claim: Claim) -> Claim | Diagnostic:
    """The same claim about kernels without scatters, or why there is none: a scatter may stand under no mark of a
    GPU, must accumulate, and no rule of algebra is applied beside one."""
    before, after, certificate = claim.parts
    if not any(site.statement.scatters for kernel in (before, after) for site in kernel.sites):
        return claim
    error = misplaced_scatter(after)
    if error is not None:
        return error
    if certificate.rule is not None:
        message = "no rule of algebra is applied to a kernel that accumulates at indices from data"
        return Diagnostic("scatter", message)
    old, new = without_scatters(before), without_scatters(after)
    forth = certificate.forth(before, after)
    lifted = _lifted(*forth)
    return Claim(old, new, replace(lifted, backward=certificate.backward))


def _lifted(before: Kernel, after: Kernel, certificate: InstanceMap) -> InstanceMap:
    """A certificate, which nobody has looked at yet, of kernels without scatters. Where it says that a scatter
    stands for what is none, or for one of other dimensions, the depths do not fit, which is found later."""

    def origin(site: int, given: Origin | None) -> Origin | None:
        own = after.sites[site]
        if given is None or not 0 <= given.site < len(before.sites) or not own.statement.scatters:
            return given
        more = tuple(Affine.iterator(len(own.scopes) + n) for n in range(len(own.statement.scatters)))
        return Origin(given.site, (*given.iterators, *more))

    def steps(kernel: Kernel, given: Iterable[Substitution]) -> tuple[Substitution, ...]:
        return tuple(
            replace(step, ordinal=step.ordinal + _reads_before(kernel, step.site))
            if 0 <= step.site < len(kernel.sites)
            else step
            for step in given
        )

    if len(certificate.origins) != len(after.sites):
        return replace(certificate, backward=False)
    return InstanceMap(
        tuple(origin(k, given) for k, given in enumerate(certificate.origins)),
        steps(before, certificate.inlined),
        steps(after, certificate.extracted),
    )


def _reads_before(kernel: Kernel, site: int) -> int:
    """How many reads of the statement without scatters come before those of its value."""
    statement = kernel.sites[site].statement
    return len(statement.index_reads) if statement.scatters else 0


def misplaced_scatter(kernel: Kernel) -> Diagnostic | None:
    """A scatter that may not be where it is, or None."""
    for site in kernel.sites:
        if not site.statement.scatters:
            continue
        written = format_access(site.statement.target)
        mark = next((mark for scope in site.scopes for mark in scope.marks if mark in LEVELS), None)
        if site.statement.accumulation is None or site.statement.fused:
            message = f"{written} is assigned, so its indices must be affine: only an accumulation may scatter"
        elif mark is not None:
            message = (
                f"{written} accumulates at an index from data, which no thread of a GPU may do beside others: take "
                f"the mark `{mark}` away, or accumulate into private copies on cores (split_reduction)"
            )
        else:
            continue
        return diagnostic_at(kernel, site.path, "scatter", message, site.statement.target)
    return None
