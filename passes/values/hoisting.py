"""Moves that compute a part of an expression before a scope around it, and back."""

from __future__ import annotations

from collections.abc import Iterator

from dojoir.ir.affine import Affine
from dojoir.ir.expressions import affine_parts, parts
from dojoir.ir.nodes import (
    Access,
    Cast,
    Expr,
    Kernel,
    Node,
    Op,
    Path,
    Scope,
    Site,
    Statement,
    substitute,
    substitute_iterators,
)
from dojoir.ir.paths import is_inside, next_sibling
from dojoir.passes.base.about import AboutScope, AboutStatement, Here
from dojoir.passes.base.move import BufferName, Move, Place, Rewrite, Undoing, fresh_name, place_of
from dojoir.passes.base.reach import Reach
from dojoir.passes.storage.temporaries import temporary
from dojoir.passes.values.subexpressions import computed_before, last_users, reads_of, taken_out
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class Hoist(AboutScope, name="hoist", reach=Reach.CHILDREN):
    """Computes a part of the expression in the statement at `statement`, which is inside of the scope at `scope`,
    just before that scope, into a new temporary, called `buffer`: once, and not in each iteration.

    `part` is its number, as `extract_subexpression` counts them. Where the part depends on iterators of scopes at
    or inside of `scope`, it is computed in scopes of their extents, without labels and marks, for all of their
    iterations. A part that is a read alone is then copied. The temporary has a dimension for each scope around what
    computes it; `reuse_dims` takes off those that need no storage. Legal where nothing writes in between what the
    part reads, and all that is read is there: conditions around the statement do not hold before the scope. The
    inverse is `unhoist`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N, M)
    ... in  x: f32[N, M]
    ... in  s: f32[N]
    ... out y: f32[N, M]
    ... N
    ... | M
    ... | | y[{0}, {1}] = x[{0}, {1}] - log(s[{0}])
    ... ''')
    >>> print(dojoir.apply(k, "hoist(0.0, 0.0.0, 2, t)"))
    kernel f(N, M)
    in  x: f32[N, M]
    in  s: f32[N]
    out y: f32[N, M]
    tmp t: f32[N]
    <BLANKLINE>
    N
    | t[{0}] = log(s[{0}])
    | M
    | | y[{0}, {1}] = x[{0}, {1}] - t[{0}]
    <BLANKLINE>
    """

    statement: Place
    part: int
    buffer: BufferName

    def rewritten(self, around: Here[Scope]) -> Rewrite:
        at = AboutStatement.named(around.kernel, self.statement)
        if not is_inside(at.path, around.path):
            message = f"{self.statement} is not inside of the scope at {self.scope}"
            raise at.refusal("not-inside", message)
        part = dict(enumerate(parts(at.node.value))).get(self.part)
        needed = [] if part is None else _needed(part, at.site, around.depth)
        return computed_before(at, around.path, needed, self.part, self.buffer)

    def back(self, around: Here[Scope]) -> Move:
        inside = around.kernel.path(self.statement)[len(around.path) :]
        return Unhoist(place_of((*next_sibling(around.path), *inside)), self.buffer)

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        """Out of each scope around that the part does not depend on."""
        name = BufferName(fresh_name(kernel, "part"))
        for site in kernel.sites:
            around = list(_around(kernel, site.path))
            for number, part in enumerate(parts(site.statement.value)):
                if isinstance(part, Op | Cast | Access) and not (isinstance(part, Op) and part.name == "when"):
                    for path, depth in around:
                        needed = _needed(part, site, depth)
                        copies = len(needed) > depth
                        if depth not in needed and (copies or not isinstance(part, Access)):
                            yield cls(place_of(path), place_of(site.path), number, name)


@dataclass(frozen=True)
class Unhoist(Undoing, AboutStatement, name="unhoist"):
    """Takes out the temporary `buffer`, the last one declared, which is computed before a scope around the
    statement at `statement`, for a single read there: the expression takes the place of the read. The inverse of
    `hoist`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N, M)
    ... in  x: f32[N, M]
    ... in  s: f32[N]
    ... out y: f32[N, M]
    ... tmp t: f32[N]
    ... N
    ... | t[{0}] = log(s[{0}])
    ... | M
    ... | | y[{0}, {1}] = x[{0}, {1}] - t[{0}]
    ... ''')
    >>> print(dojoir.apply(k, "unhoist(0.1.0, t)"))
    kernel f(N, M)
    in  x: f32[N, M]
    in  s: f32[N]
    out y: f32[N, M]
    <BLANKLINE>
    N
    | M
    | | y[{0}, {1}] = x[{0}, {1}] - log(s[{0}])
    <BLANKLINE>
    """

    buffer: BufferName

    def undone(self, kernel: Kernel) -> tuple[Kernel, Move]:
        at, gone = self.found(kernel), temporary(kernel, self.buffer).name
        around, reads = _hoisted_before(kernel, at.path, gone), reads_of(at, gone)
        if around is None or len(reads) != 1:
            message = f"a nest before a scope around must assign `{gone}`, and this one read it once"
            raise at.refusal("another-form", message)
        path, writer = around
        read = list(parts(at.node.value))[reads[0]]
        assert isinstance(read, Access)
        indices = {d: index for d, index in enumerate(read.indices) if isinstance(index, Affine)}
        copy = substitute(writer, substitute_iterators(indices))
        assert isinstance(copy, Statement)
        if any(d >= at.depth for affine in affine_parts(copy.value) for d in affine.iterators):
            message = f"what is assigned to `{gone}` depends on scopes that are not around its read"
            raise at.refusal("another-form", message)
        place = next_sibling(path, -1)
        earlier = taken_out(at, reads[0], copy.value, place, gone)
        statement = place_of((*place, *at.path[len(path) :]))
        return earlier, Hoist(place_of(place), statement, reads[0], self.buffer)

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for first, site in last_users(kernel):
            name = first.statement.target.buffer
            if _hoisted_before(kernel, site.path, name) is not None:
                yield cls(place_of(site.path), BufferName(name))


def _around(kernel: Kernel, path: Path) -> Iterator[tuple[Path, int]]:
    """The scopes around a place, outermost first, each with how many are around it."""
    for length in range(1, len(path)):
        if isinstance(kernel.at(path[:length]), Scope):
            yield path[:length], kernel.depth_of(path[:length])


def _needed(part: Expr, site: Site, depth: int) -> list[int]:
    """The depths of the scopes that compute a part which is needed outside of the scope at `depth`. All around
    that, and of those inside the ones that the part depends on, or the extent of one of them."""
    used = {d for affine in affine_parts(part) for d in affine.iterators}
    for inner in range(len(site.scopes) - 1, depth - 1, -1):
        if inner in used:
            used.update(d for bound in site.scopes[inner].extent.bounds for d in bound.iterators)
    return [*range(depth), *sorted(d for d in used if d >= depth)]


def _hoisted_before(kernel: Kernel, path: Path, buffer: str) -> tuple[Path, Statement] | None:
    """The scope around a place just before which a nest assigns a temporary and does nothing else, and what assigns
    it there; None where there is none."""
    for around, _ in _around(kernel, path):
        if around[-1] > 0:
            first = _alone(kernel.at(next_sibling(around, -1)))
            if first is not None and first.target.buffer == buffer and first.accumulation is None:
                return around, first
    return None


def _alone(node: Node) -> Statement | None:
    """The statement that is all that a nest of scopes runs; None where it does more, or under a condition."""
    while isinstance(node, Scope) and len(node.body) == 1:
        node = node.body[0]
    return node if isinstance(node, Statement) else None
