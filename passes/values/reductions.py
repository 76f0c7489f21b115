"""Moves on reductions: private partial results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from dojoir.backends.machine import Machine
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import (
    MAY_ASSIGN,
    Access,
    Buffer,
    Const,
    Dim,
    Extent,
    Guard,
    Kernel,
    Node,
    Path,
    Scope,
    Site,
    Statement,
    format_path,
)
from dojoir.ir.operations import ACCUMULATIONS
from dojoir.ir.paths import next_sibling
from dojoir.ir.places import sites_inside
from dojoir.passes.base.about import AboutScope, Arguments, Here
from dojoir.passes.base.alternatives import Alternative, after_joins, further_inside
from dojoir.passes.base.move import BufferName, Formula, Move, Refusal, Rewrite, Undoing, check_new_name, fresh_name
from dojoir.passes.base.reach import Reach
from dojoir.passes.storage.temporaries import temporary
from dojoir.proof.check import InstanceMap, identity
from dojoir.proof.verdict import Verdict
from dojoir.support.frozen import dataclass
from dojoir.types.identities import beginning

FACTORS = (4, 8, 16)
"""The numbers of partial results that are listed."""

FEW = 1 << 16
"""Fewer partial results than this, in an array of one dimension, are never too many to be written."""


@dataclass(frozen=True)
class SplitReduction(AboutScope, name="split_reduction", reach=Reach.PANE):
    """Accumulates what a scope adds to one element of `buffer`, or in each iteration to several, at indices of the
    scopes inside or from data (a scatter), into `factor` partial results, and those into the element after the
    scope. Iteration i uses partial result i % `factor`, in a new temporary called `copy`; where `factor` is the
    extent of the scope or more, each iteration has its own, and they can run at once.

    Legal where the order of the accumulations is free. The two new scopes have no labels. The inverse is
    `merge_reduction`.

    Source: the privatisation of reductions, as in R. Allen and K. Kennedy, "Optimizing Compilers for Modern
    Architectures" (2001).

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out s: f32
    ... s = 0
    ... N @i
    ... | s += x[{i}]
    ... ''')
    >>> print(dojoir.apply(k, "split_reduction(@i, s, p, 4)"))
    kernel f(N)
    in  x: f32[N]
    out s: f32
    tmp p: f32[4]
    <BLANKLINE>
    s = 0
    4
    | p[{0}] = 0
    N @i
    | p[{i} % 4] += x[{i}]
    4
    | s += p[{0}]
    <BLANKLINE>
    """

    buffer: BufferName
    copy: BufferName
    factor: Formula

    def rewritten(self, at: Here[Scope]) -> Rewrite:
        kernel, buffer = at.kernel, at.kernel.buffer(self.buffer)
        factor, depth = self.factor.affine(kernel, 0), at.depth
        if factor.is_constant and factor.offset < 2:
            raise at.refusal("bad-factor", f"there must be at least 2 partial results, not {factor}")
        used = _partial(at.own, factor, at.node.extent)
        if used is None:
            message = f"give a number of partial results, or one for each iteration; {factor} is neither"
            raise at.refusal("bad-factor", message)
        check_new_name(kernel, self.copy)
        target, op = _reduction(buffer.name, sites_inside(kernel, at.path), depth)
        begin = beginning(op, buffer.dtype)
        if begin is None:
            raise at.refusal("no-neutral", f"{buffer.dtype} has no value that {op} leaves alone")
        scattered = _several(target, depth)
        partial = Access(self.copy, (used, *(target.indices[d] for d in scattered)))
        body = tuple(_redirected(node, target, partial) for node in at.node.body)
        extents = [factor, *(buffer.dims[d].extent for d in scattered)]
        part = Access(self.copy, tuple(Affine.iterator(depth + n) for n in range(len(extents))))
        whole = _with_indices(target, dict(zip(scattered, part.indices[1:], strict=True)))
        start = _nest(extents, Statement(part, "=", Const(begin)))
        end = _nest(extents, Statement(whole, op, part))
        new = Buffer("tmp", self.copy, buffer.dtype, tuple(map(Dim, extents)))
        after = at.replaced(start, replace(at.node, body=body), end).evolve(buffers=(*kernel.buffers, new))
        origins, first, last = identity(kernel).origins, at.number, at.numbers[-1]
        origins = (*origins[:first], None, *origins[first : last + 1], None, *origins[last + 1 :])
        return Rewrite(after, InstanceMap(origins))

    def like(self, kernel: Kernel) -> Move:
        """With the first number that is listed, where both are fewer than the iterations may be: each iteration
        then has the partial result of a remainder, and how many there are counts for nothing."""
        at = self.thing(kernel, kernel.path(self.scope))
        most = None if at is None else at.node.constant_bound
        few = self.factor.text.isdecimal() and int(self.factor.text) < (FEW if most is None else min(most, FEW))
        first = Formula(str(FACTORS[0]))
        return replace(self, factor=first) if few and int(self.factor.text) >= FACTORS[0] else self

    def back(self, at: Here[Scope]) -> Move:
        return MergeReduction(at.beside(), self.copy)

    def alternatives(self, kernel: Kernel, verdict: Verdict) -> Iterator[Alternative]:
        """Whole blocks of partial results, and what is left over by itself; or a scope inside."""
        at = self.found(kernel)
        here, rest = format_path(at.path), f"{self.buffer}, {self.copy}, {self.factor}"
        for bound in at.node.extent.bounds[:1]:
            if self.factor.text.isdecimal() and int(self.factor.text) > 1:
                end = bound // int(self.factor.text) * int(self.factor.text)
                yield Alternative((f"cut({here}, {end})",), str(self))
        if verdict.code == "bad-factor":
            yield Alternative((), f"split_reduction({here}, {self.buffer}, {self.copy}, {FACTORS[1]})")
        yield from further_inside(kernel, at.path, f"split_reduction({{}}, {rest})")
        yield from after_joins(kernel, str(self))

    @classmethod
    def listed(cls, at: Here[Scope]) -> Arguments:
        return cls._by(at, FACTORS)

    @classmethod
    def numbered(cls, at: Here[Scope], numbers: Sequence[int]) -> Arguments:
        """So many partial results, for each element that the scope accumulates into."""
        return cls._by(at, [n for n in numbers if n > 1])

    @classmethod
    def more(cls, at: Here[Scope], machine: Machine) -> Arguments:
        """One for each iteration, and one more where there may be none."""
        return cls._by(at, [bound + n for bound in at.node.extent.bounds if not bound.iterators for n in (0, 1)])

    @classmethod
    def _by(cls, at: Here[Scope], factors: Sequence[object]) -> Arguments:
        for name in reduced_in(at.kernel, at.path):
            copy = BufferName(fresh_name(at.kernel, f"{name}_part"))
            yield from ((BufferName(name), copy, Formula(str(factor))) for factor in factors)


def reduced_in(kernel: Kernel, path: Path) -> list[str]:
    """The buffers into one element of which the scope at `path` accumulates, without another use of them."""
    sites = sites_inside(kernel, path)
    targets = [s.statement.target.buffer for s in sites if s.statement.accumulation is not None]
    found: list[str] = []
    for name in dict.fromkeys(targets):
        with suppress(Refusal):
            _reduction(name, sites, kernel.depth_of(path))
            found.append(name)
    return found


@dataclass(frozen=True)
class MergeReduction(Undoing, AboutScope, name="merge_reduction"):
    """Accumulates into the element itself again what the scope at `scope` accumulates into partial results in
    `copy`. The inverse of `split_reduction`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out s: f32
    ... tmp p: f32[4]
    ... s = 0
    ... 4
    ... | p[{0}] = 0
    ... N @i
    ... | p[{i} % 4] += x[{i}]
    ... 4
    ... | s += p[{0}]
    ... ''')
    >>> print(dojoir.apply(k, "merge_reduction(@i, p)"))
    kernel f(N)
    in  x: f32[N]
    out s: f32
    <BLANKLINE>
    s = 0
    N @i
    | s += x[{i}]
    <BLANKLINE>
    """

    copy: BufferName

    def undone(self, kernel: Kernel) -> tuple[Kernel, Move]:
        at, copy = self.found(kernel), temporary(kernel, self.copy)
        whole = _combined(at.siblings[at.path[-1] + 1 :], copy.name)
        factor = copy.dims[0].extent if copy.dims else None
        used = _partial(at.own, factor, at.node.extent) if factor is not None else None
        inside = sites_inside(kernel, at.path)
        given = {s.statement.target for s in inside if s.statement.target.buffer == copy.name}
        if whole is None or at.path[-1] == 0 or factor is None or used is None or len(given) != 1:
            raise at.refusal("no-partial-results", f"{self.scope} has no partial results in `{copy.name}`")
        (partial,) = given
        numbers = {Affine.iterator(at.depth + n): n for n in range(1, len(copy.dims))}
        places = {d: numbers[i] for d, i in enumerate(whole.indices) if isinstance(i, Affine) and i in numbers}
        target = _with_indices(whole, {d: partial.indices[n] for d, n in places.items()})
        body = tuple(_redirected(node, partial, target) for node in at.node.body)
        earlier = kernel.replace_node(next_sibling(at.path, -1), replace(at.node, body=body), count=3)
        move = SplitReduction(at.beside(-1), BufferName(target.buffer), self.copy, Formula(str(factor)))
        return earlier.without_buffers(copy.name), move

    @classmethod
    def listed(cls, at: Here[Scope]) -> Arguments:
        following = at.siblings[at.path[-1] + 1 :] if at.path[-1] else ()
        names = (buffer.name for buffer in at.kernel.buffers if buffer.role == "tmp" and following)
        return ((BufferName(name),) for name in names if _combined(following, name))


def _partial(own: Affine, factor: Affine, extent: Extent) -> Affine | None:
    """The partial result that the iteration `own` of a scope uses, if there can be `factor` of them."""
    if any((factor - bound).is_constant and (factor - bound).offset >= 0 for bound in extent.bounds):
        return own
    return own % factor.offset if factor.is_constant else None


def _combined(following: tuple[Node, ...], copy: str) -> Access | None:
    """The element into which the first of some nodes accumulates partial results, where it does that alone."""
    nodes = following[:1]
    while len(nodes) == 1 and isinstance(nodes[0], Scope):
        nodes = nodes[0].body
    match nodes:
        case [Statement(target, op, Access(buffer))] if buffer == copy and op in ACCUMULATIONS:
            return target
    return None


def _several(target: Access, depth: int) -> tuple[int, ...]:
    """The dimensions of what is accumulated into that are indexed by data, or by iterators of scopes inside the one
    at `depth`: partial results have them too."""
    return tuple(
        d
        for d, index in enumerate(target.indices)
        if isinstance(index, Access) or any(inner > depth for inner in index.iterators)
    )


def _with_indices(access: Access, indices: Mapping[int, Affine | Access]) -> Access:
    """An access with other indices in some dimensions."""
    return replace(access, indices=tuple(indices.get(d, index) for d, index in enumerate(access.indices)))


def _nest(extents: Sequence[Affine], statement: Statement) -> Node:
    """A statement in scopes of some extents, outermost first."""
    node: Node = statement
    for extent in reversed(extents):
        node = Scope(Extent((extent,)), (node,))
    return node


def _reduction(name: str, sites: list[Site], depth: int) -> tuple[Access, str]:
    """The element that some statements accumulate into, all with one operator, at indices that the iterator of
    `depth` has no part in. Raises Refusal where they use the buffer in another way."""
    found: set[tuple[Access, str]] = set()
    for site in sites:
        statement = site.statement
        if any(access.buffer == name for access in statement.term_reads):
            raise Refusal("read-inside", f"`{name}` is read inside the scope", site.path)
        if statement.target.buffer == name:
            if statement.accumulation in (None, MAY_ASSIGN):
                raise Refusal("assigned-inside", f"`{name}` is assigned inside the scope", site.path)
            found.add((Access(name, statement.target.indices), statement.accumulation))
    if len(found) != 1:
        raise Refusal("no-reduction", f"the scope does not accumulate into one element of `{name}`")
    target, op = found.pop()
    if any(isinstance(i, Affine) and depth in i.iterators for i in target.indices):
        raise Refusal("several-elements", f"iterations accumulate into elements of `{name}` of their own")
    return target, op


def _redirected(node: Node, target: Access, partial: Access) -> Node:
    """The node with its accumulations into one element made into another."""
    match node:
        case Statement():
            return node.onto(partial) if node.target == target else node
        case Scope() | Guard():
            return replace(node, body=tuple(_redirected(child, target, partial) for child in node.body))
