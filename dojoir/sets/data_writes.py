"""Writes that depend on data, in the form in which the checker sees them. An accumulation at an index from data,
`h[x[{0}]] += v`, is a loop over all the elements that it may touch, which adds `v` to the one and nothing to the
others. One under a condition on data, `s += v if c`, adds `v` or nothing. An assignment of either kind,
`h[x[{0}]] = v if c`, assigns `v` to an element, or what that has:

    E
    | h[{1}] += select(i64(x[{0}]) == {1}, v, 0)
    | h[{1}] = select(i64(x[{0}]) == {1} and c, v, h[{1}])

*Why that is enough.* Of data that keep their indices in range, the two do the same to `h`. Of the instances of the
loop that belong to one of the scatter, exactly one combines `v` with its element, or stores it, and the others
leave theirs alone. The checker knows nothing of what `select` gives. It compares which instances reach each element
that is read, in which order where that counts, and where the operands of each come from. The index or the condition
that is data is one of these operands, and the number of the element is an iterator. So two kernels that it finds
equal in this form give equal elements whatever the data, also where partial results are passed on between elements
of different arrays. That data are in range, and divisors not 0, is asked when the kernel runs, where the condition
holds. What is written before, what conflicts between iterations, and what bounds an index follow in the same way. A
scatter may touch every element of the dimensions that it indexes by data. What has a condition may read all that it
names, whether or not that holds, and an assignment that may leave an element is a read of what was there.

*Distinct indices.* Where no two elements of `at` are equal (an argument that is `distinct`: a call checks it), and
the instances of `h[at[i]] = v` each read another element of it, no two of them change one element of `h`. What they
write there is then a set, of which at most one counts for an element, as sums are sets. They are `apart`, their
order is free, and iterations share them (`dojoir.sets.distinct_writes`). Against what else touches `h`, statements
apart for another reason too, they count as touching all of it.

    h[{1}] = select(i64(at[{0}]) == {1}, v, 0)    apart: Apart("distinct", "at", (0,), "=")
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce

from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import I64
from dojoir.ir.nodes import Access, Cast, Const, Expr, Extent, Guard, Index, Kernel, Node, Op, Scope, Statement
from dojoir.ir.tree import MAY_ASSIGN, Apart
from dojoir.sets.distinct_writes import distinct_writes as told_apart
from dojoir.support.derived import once_for_each
from dojoir.types.identities import neutral_value


@once_for_each
def without_data_writes(kernel: Kernel) -> Kernel:
    """The kernel with a loop, or another value, in the place of each write that data decide; the kernel itself
    where it has none. Statements keep their numbers, and scopes their paths."""
    if not any(decided(site.statement) for site in kernel.sites):
        return kernel
    known = told_apart(kernel)
    told = iter([known.get(number) for number in range(len(kernel.sites))])
    return replace(kernel, body=tuple(_node(kernel, node, 0, told) for node in kernel.body))


def decided(statement: Statement) -> bool:
    """Whether a statement writes at an index from data, or under a condition on data."""
    return bool(statement.scatters) or statement.condition is not None


def _node(kernel: Kernel, node: Node, depth: int, told: Iterator[Apart | None]) -> Node:
    match node:
        case Scope():
            return replace(node, body=tuple(_node(kernel, child, depth + 1, told) for child in node.body))
        case Guard():
            return replace(node, body=tuple(_node(kernel, child, depth, told) for child in node.body))
        case Statement():
            apart = next(told)
            return _chosen(kernel, node, depth, apart) if decided(node) else node


def _chosen(kernel: Kernel, statement: Statement, depth: int, apart: Apart | None) -> Node:
    buffer, target, value = kernel.buffer(statement.target.buffer), statement.target, statement.value
    indices, tests, extents = list(target.indices), list[Expr](), list[Affine]()
    for dim in statement.scatters:
        own, index = Affine.iterator(depth + len(extents)), indices[dim]
        assert isinstance(index, Access)
        tests.append(Op("eq", (Cast(I64, index), Index(own))))
        indices[dim] = own
        extents.append(buffer.dims[dim].extent)
    match value:
        case Op("when", (condition, value)):
            tests.append(condition)
    element = replace(target, indices=tuple(indices))
    alone = element if apart is None else Cast(buffer.dtype, Const(0))
    otherwise = alone if statement.op == "=" else neutral_value(statement.op, buffer.dtype)
    op = MAY_ASSIGN if apart is not None and statement.op == "=" else statement.op
    assert otherwise is not None, "what accumulates has a neutral value"
    chosen = Op("select", (reduce(lambda one, other: Op("and", (one, other)), tests), value, otherwise))
    inner: Node = replace(statement, target=element, op=op, value=chosen, apart=apart)
    for extent in reversed(extents):
        inner = Scope(Extent((extent,)), (inner,), loc=statement.loc)
    return inner
