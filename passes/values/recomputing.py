"""Computing the values of a temporary again where they are used, instead of reading what was stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from dojoir.ir.affine import Affine, Iter, SizeVar
from dojoir.ir.format import format_access, format_statement
from dojoir.ir.nodes import (
    Access,
    Buffer,
    Dim,
    Extent,
    Guard,
    Kernel,
    Node,
    Path,
    Replace,
    Scope,
    Site,
    Statement,
    substitute,
)
from dojoir.ir.paths import is_inside, next_sibling
from dojoir.ir.places import sites_inside
from dojoir.passes.base.about import AboutNode, Arguments, Here
from dojoir.passes.base.move import (
    BufferName,
    Formula,
    Move,
    Refusal,
    Rewrite,
    Undoing,
    check_new_name,
    fresh_name,
    reversible,
)
from dojoir.passes.base.reach import Reach
from dojoir.passes.storage.boxes import accesses_to, base_of, copied, inner_extents, reach_of, redirected, within
from dojoir.passes.storage.temporaries import temporary
from dojoir.passes.values.inlining import temporary_element
from dojoir.proof.check import InstanceMap, Origin, identity
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class Recompute(AboutNode, name="recompute", reach=Reach.PANE):
    """Computes the part of a temporary that the node at `node` reads again, just before it, into a new temporary
    called `copy`, and makes the node read that. Less to store and carry through memory, for more to compute.

    What part that is, `stage` says. Every statement that writes the temporary is written out again for it, within
    the loops that it needs besides those that choose the element, such as a sum's; they have no marks and labels.
    Conditions that are around the node as well are not asked again.
    Where nothing else reads the temporary, `delete_temporary` then removes it. The inverse is `unrecompute`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N + 2]
    ... out y: f32[N]
    ... tmp t: f32[N + 2]
    ... N + 2
    ... | t[{0}] = exp(x[{0}])
    ... N @i
    ... | 3 @j
    ... | | y[{i}] = 0.5 * t[{i} + {j}]
    ... ''')
    >>> print(dojoir.apply(k, "recompute(@j, t, u)"))
    kernel f(N)
    in  x: f32[N + 2]
    out y: f32[N]
    tmp t: f32[N + 2]
    tmp u: f32[3]
    <BLANKLINE>
    N + 2
    | t[{0}] = exp(x[{0}])
    N @i
    | 3
    | | u[{1}] = exp(x[{i} + {1}])
    | 3 @j
    | | y[{i}] = 0.5 * u[{j}]
    <BLANKLINE>
    """

    buffer: BufferName
    copy: BufferName

    def rewritten(self, at: Here[Node]) -> Rewrite:
        kernel, buffer = at.kernel, temporary(at.kernel, self.buffer)
        check_new_name(kernel, self.copy)
        part, fresh, origins = _again(at, buffer, self.copy)
        node = redirected(at.node, buffer.name, self.copy, part.bases)
        after = at.replaced(fresh, node).evolve(buffers=(*kernel.buffers, part.copy))
        stays = identity(kernel).origins
        instances = InstanceMap((*stays[: at.number], *origins, *stays[at.number :]))
        return reversible(self, kernel, Rewrite(after, instances))

    def back(self, at: Here[Node]) -> Move:
        bases = _part(at, at.kernel.buffer(self.buffer), self.copy).bases
        read = Access(self.buffer, tuple(base + Affine.iterator(at.depth + d) for d, base in enumerate(bases)))
        return Unrecompute(at.beside(), self.copy, Formula(format_access(read)))

    @classmethod
    def listed(cls, at: Here[Node]) -> Arguments:
        """Of a scope, unless the temporary is written in what is around it: then it is written just for that."""
        if not isinstance(at.node, Scope):
            return
        around, sites = at.path[:-1], at.kernel.sites
        reads = {a.buffer for s in sites if is_inside(s.path, at.path) for a in s.statement.reads}
        beside = {s.statement.target.buffer for s in sites if is_inside(s.path, around)}
        for buffer in at.kernel.buffers:
            if buffer.role == "tmp" and buffer.dims and buffer.name in reads - beside:
                name = fresh_name(at.kernel, f"{buffer.name}_again")
                yield BufferName(buffer.name), BufferName(name)


@dataclass(frozen=True)
class Unrecompute(Undoing, AboutNode, name="unrecompute"):
    """Makes the node at `node` read a temporary again that has the values which the node before it computes into
    `copy`, and deletes that one. The inverse of `recompute`; none are listed.

    `read` is the element of the temporary that `copy` has at {d}, {d + 1}, …, where the node is at depth d.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N + 2]
    ... out y: f32[N]
    ... tmp t: f32[N + 2]
    ... tmp u: f32[3]
    ... N + 2
    ... | t[{0}] = exp(x[{0}])
    ... N @i
    ... | 3
    ... | | u[{1}] = exp(x[{0} + {1}])
    ... | 3 @j
    ... | | y[{i}] = 0.5 * u[{j}]
    ... ''')
    >>> print(dojoir.apply(k, "unrecompute(@j, u, t[{0} + {1}])"))
    kernel f(N)
    in  x: f32[N + 2]
    out y: f32[N]
    tmp t: f32[N + 2]
    <BLANKLINE>
    N + 2
    | t[{0}] = exp(x[{0}])
    N @i
    | 3 @j
    | | y[{i}] = 0.5 * t[{i} + {j}]
    <BLANKLINE>
    """

    copy: BufferName
    read: Formula

    def undone(self, kernel: Kernel) -> tuple[Kernel, Move]:
        at, copy = self.found(kernel), temporary(kernel, self.copy)
        if at.path[-1] == 0:
            raise at.refusal("not-recomputed", f"nothing before {self.node} computes `{copy.name}`")
        read = temporary_element(self.read, kernel, at.depth + len(copy.dims))
        if len(read.indices) != len(copy.dims):
            raise at.refusal("bad-read", f"`{copy.name}` and `{read.buffer}` have not as many dimensions")
        plain = [index for index in read.indices if isinstance(index, Affine)]
        bases = [Affine.iterator(at.depth + d) - index for d, index in enumerate(plain)]
        node = redirected(at.node, copy.name, read.buffer, bases)
        earlier = kernel.replace_node(next_sibling(at.path, -1), node, count=2).without_buffers(copy.name)
        return earlier, Recompute(at.beside(-1), BufferName(read.buffer), self.copy)


@dataclass(frozen=True)
class _ReadPart:
    """The part of a buffer that a node reads: where it begins in each dimension, its copy, and how far that is
    filled."""

    bases: list[Affine]
    copy: Buffer
    extents: list[Extent]


def _part(at: Here[Node], buffer: Buffer, name: str) -> _ReadPart:
    """Raises Refusal where the part is not plain, or the node writes to the buffer too."""
    depth, numbers = at.depth, range(len(buffer.dims))
    inside = sites_inside(at.kernel, at.path)
    found = accesses_to(at.node, {buffer.name})
    if not any(a.buffer == buffer.name for site in inside for a in site.statement.reads):
        raise at.refusal("not-read", f"`{buffer.name}` is not read there")
    writer = next((site for site in inside if site.statement.target.buffer == buffer.name), None)
    if writer is not None:
        raise Refusal("written-there", f"`{format_statement(writer.statement)}` is a part of it", writer.path)
    ranges = inner_extents(buffer.name, at.node, depth)
    bases = [base_of(buffer.name, d, found, depth, ranges) for d in numbers]
    reach = [reach_of(buffer.name, d, found, bases[d], ranges, depth) for d in numbers]
    most = [
        its.extent - base if mine.iterators else mine
        for mine, its, base in zip(reach, buffer.dims, bases, strict=True)
    ]
    copy = Buffer("tmp", name, buffer.dtype, tuple(map(Dim, most)))
    filled = zip(reach, copied(buffer, copy, bases), strict=True)
    return _ReadPart(
        bases, copy, [within(at.kernel, at.path, Extent((mine,)), whole) for mine, (_, whole) in filled]
    )


def _again(at: Here[Node], buffer: Buffer, name: str) -> tuple[_ReadPart, Node, list[Origin]]:
    """The part of a buffer that a node reads, what computes it again, and what the statements of that stand for."""
    part, kernel = _part(at, buffer, name), at.kernel
    own = [Affine.iterator(at.depth + d) for d in range(len(buffer.dims))]
    element = [base + i for base, i in zip(part.bases, own, strict=True)]
    writers = {k: site for k, site in enumerate(kernel.sites) if site.statement.target.buffer == buffer.name}
    fixed = {site.path: _fixed(site, element) for site in writers.values()}
    producer = _Producer({site.path: k for k, site in writers.items()}, fixed, at.path, Access(name, tuple(own)))
    body = producer.again(kernel.body, (), (), at.depth + len(own))
    if not body:
        raise at.refusal("not-written", f"nothing writes `{buffer.name}`")
    for extent in reversed(part.extents):
        body = (Scope(extent, body),)
    if len(body) > 1:
        raise at.refusal("several-values", f"`{buffer.name}` is one element, written by several statements")
    return part, body[0], producer.origins


def _fixed(site: Site, element: list[Affine]) -> dict[int, Affine]:
    """The iterators of a statement, by depth, at which it writes an element. Raises Refusal where that is not
    plain: where an index is more than an iterator of its own and something that does not vary."""
    fixed: dict[int, Affine] = {}
    for index, wanted in zip(site.statement.target.indices, element, strict=True):
        if isinstance(index, Access):
            raise Refusal(
                "gathered", f"`{site.statement.target.buffer}` is written at an index from data", site.path
            )
        match [(atom, c) for atom, c in index.terms if Affine.atom(atom).iterators]:
            case [(Iter(depth), 1)] if depth not in fixed:
                fixed[depth] = wanted - (index - Affine.iterator(depth))
            case _:
                text = format_access(site.statement.target)
                raise Refusal("no-instance", f"which iteration writes an element `{text}` is not plain", site.path)
    return fixed


@dataclass(frozen=True)
class _Producer:
    """Writes out again the statements that give one element. `numbers` are those statements, by their paths, and
    `fixed` the iterators that choose the element; `node` is the place where it is to be."""

    numbers: Mapping[Path, int]
    fixed: Mapping[Path, Mapping[int, Affine]]
    node: Path
    target: Access
    origins: list[Origin] = field(default_factory=list)

    def again(self, nodes: tuple[Node, ...], prefix: Path, now: tuple[Affine, ...], depth: int) -> tuple[Node, ...]:
        """The remaining part of some siblings for one element, at `depth`. `now` are the iterators around them, in
        terms of the new ones."""
        new: list[Node] = []
        for child, node in enumerate(nodes):
            path = (*prefix, child)
            below = [values for writer, values in self.fixed.items() if is_inside(writer, path)]
            if not below:
                continue
            match node:
                case Statement():
                    self.origins.append(Origin(self.numbers[path], now))
                    moved = substitute(node, _by_depth(now))
                    assert isinstance(moved, Statement)
                    new.append(replace(moved, target=self.target))
                case Guard():
                    sides = substitute(replace(node, body=()), _by_depth(now))
                    assert isinstance(sides, Guard)
                    body = self.again(node.body, path, now, depth)
                    holds = sides.conditions == node.conditions and is_inside(self.node, path)
                    new += body if holds and self.target.indices else (replace(sides, body=body),)
                case Scope():
                    new += self._scope(node, path, now, depth, below)
        return tuple(new)

    def _scope(
        self, scope: Scope, path: Path, now: tuple[Affine, ...], depth: int, below: list[Mapping[int, Affine]]
    ) -> tuple[Node, ...]:
        own = len(now)
        values = {values.get(own) for values in below}
        if len(values) > 1:
            raise Refusal("no-instance", "the statements in one scope choose their elements differently", path)
        value = values.pop()
        if value is None and is_inside(self.node, path):
            value = Affine.iterator(own)
        if value is not None:
            return self.again(scope.body, path, (*now, value), depth)
        bounds = tuple(bound.substitute(_by_depth(now)) for bound in scope.extent.bounds)
        body = self.again(scope.body, path, (*now, Affine.iterator(depth)), depth + 1)
        return (Scope(Extent(bounds), body),)


def _by_depth(now: tuple[Affine, ...]) -> Replace:
    def new(atom: SizeVar | Iter) -> Affine:
        return now[atom.depth] if isinstance(atom, Iter) else Affine.atom(atom)

    return new
