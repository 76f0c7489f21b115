"""The statements of a kernel taken backwards: the last first, each adding to the gradients of what it read."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from dojoir.gradient.bounds import dim_for
from dojoir.gradient.derivative import products
from dojoir.gradient.extremes import EXTREMES, ExtremeSearch
from dojoir.gradient.gradient_names import FreshNames
from dojoir.gradient.order import Order
from dojoir.ir.affine import Affine
from dojoir.ir.expressions import Access, Const, Expr, Op, map_leaves
from dojoir.ir.nodes import Buffer, Guard, Kernel, Node, Path, Scope, Site, Statement, substitute
from dojoir.ir.rewriting.substitution import substitute_iterators


class Backward:
    """The way back through a kernel. `gradients` names the gradient of each active buffer; `searches` are those of
    extremes, by the number of their statement."""

    def __init__(
        self,
        kernel: Kernel,
        gradients: Mapping[str, str],
        searches: Mapping[int, ExtremeSearch],
        names: FreshNames,
        given: Collection[str],
    ) -> None:
        self._kernel, self._gradients, self._searches = kernel, gradients, searches
        self._order = Order(kernel)
        self._active = frozenset(gradients)
        self._numbers: dict[Path, int] = {site.path: k for k, site in enumerate(kernel.sites)}
        self._names, self._given = names, frozenset(given)
        self.kept: dict[tuple[int, Access], Buffer] = {}
        """The arrays for values that are written over before the way back comes to them, by the number of the
        statement that reads them and the element."""
        self.scalars: list[Buffer] = []
        """The temporaries for the gradient of a statement that reads what it writes."""

    def tree(self) -> list[Node]:
        """The nodes of the whole way back."""
        return self._reversed(self._kernel.body, (), 0)

    def _reversed(self, nodes: tuple[Node, ...], path: Path, depth: int) -> list[Node]:
        found: list[Node] = []
        for i in reversed(range(len(nodes))):
            node, here = nodes[i], (*path, i)
            match node:
                case Statement():
                    found += self._statement(self._numbers[here])
                case Guard(conditions, body):
                    inner = self._reversed(body, here, depth)
                    if inner:
                        found.append(Guard(conditions, tuple(inner)))
                case Scope(extent, body):
                    inner = self._reversed(body, here, depth + 1)
                    if inner:
                        inside = [k for k, s in enumerate(self._kernel.sites) if s.path[: len(here)] == here]
                        if not self._order.is_free(depth, inside, self._active):
                            last = Affine.smallest(*extent.bounds) - 1 - Affine.iterator(depth)
                            turned = substitute_iterators({depth: last})
                            inner = [substitute(child, turned) for child in inner]
                        found.append(Scope(extent, tuple(inner)))
        return found

    # -- one statement -----------------------------------------------------------------------------------
    def _statement(self, number: int) -> list[Statement]:
        site = self._kernel.sites[number]
        statement = site.statement
        target = statement.target
        if target.buffer not in self._active:
            return []
        seed = Access(self._gradients[target.buffer], target.indices)
        value = statement.value
        if statement.condition is not None and isinstance(value, Op):
            value = value.args[1]
        known = target if self._holds(number) else None
        sums = self._sums(number, site, value, seed, known)
        return [self.as_it_was(number, made, None if known is None else known.buffer) for made in sums]

    def as_it_was(self, number: int, made: Statement, last: str | None = None) -> Statement:
        """A statement made of what the statement of that number reads, with the values that it read; those of the
        buffer `last` are the last ones."""

        def held(access: Access) -> Access:
            if access.buffer in self._own or access.buffer == last:
                return inside(access)
            if (number, access) in self.kept or self._order.is_stale(number, access):
                buffer = self._kept(number, access)
                return Access(buffer.name, tuple(map(Affine.iterator, range(len(buffer.dims)))))
            return inside(access)

        def inside(access: Access) -> Access:
            indices = tuple(held(index) if isinstance(index, Access) else index for index in access.indices)
            return Access(access.buffer, indices, access.loc)

        value = map_leaves(made.value, lambda leaf: held(leaf) if isinstance(leaf, Access) else leaf)
        return Statement(inside(made.target), made.op, value, made.loc)

    @property
    def _own(self) -> set[str]:
        """The buffers that are none of the kernel's."""
        own = {*self._gradients.values(), *(b.name for b in self.scalars)}
        return own | {s.buffer.name for s in self._searches.values()}

    def _kept(self, number: int, access: Access) -> Buffer:
        found = self.kept.get((number, access))
        if found is None:
            site, of = self._kernel.sites[number], self._kernel.buffer(access.buffer)
            dims = tuple(dim_for(self._kernel, site.scopes, d) for d in range(len(site.scopes)))
            found = Buffer("tmp", self._names.free(f"{of.name}_was"), of.dtype, dims)
            self.kept[number, access] = found
        return found

    def _sums(self, number: int, site: Site, value: Expr, seed: Access, known: Access | None) -> list[Statement]:
        statement = site.statement
        slopes = products(self._kernel, site.path, value, seed, self._active, known)
        if statement.op == "+=" or statement.op in EXTREMES:
            search = self._searches.get(number)
            return [self._sum(site, a, what, search) for a, what, _ in slopes]
        own = [slope for slope in slopes if slope[0].buffer == statement.target.buffer]
        others = [slope for slope in slopes if slope[0].buffer != statement.target.buffer]
        if not own:
            found = [self._sum(site, a, what, None) for a, what, _ in others]
            conditional = statement.accumulation is not None
            if (conditional or self._order.is_touched_before(number)) or self._is_input(site):
                found.append(self._set(site, seed, Const(0)))
            return found
        if all(a == statement.target for a, _, _ in own):
            found = [self._sum(site, a, what, None) for a, what, _ in others]
            return [*found, *(self._set(site, seed, what) for _, what, same in own if not same)]
        scalar = Buffer(
            "tmp",
            self._names.free(f"{seed.buffer}_here"),
            self._kernel.buffer(statement.target.buffer).dtype.compute,
        )
        self.scalars.append(scalar)
        held = Access(scalar.name, ())
        again = products(self._kernel, site.path, value, held, self._active)
        return [
            Statement(held, "=", seed),
            self._set(site, seed, Const(0)),
            *(self._sum(site, a, what, None) for a, what, _ in again),
        ]

    def _holds(self, number: int) -> bool:
        """Whether the element that a statement assigns holds its value until the end, and is at hand there."""
        statement = self._kernel.sites[number].statement
        target = statement.target
        at_hand = self._kernel.buffer(target.buffer).role == "tmp" or target.buffer in self._given
        exact = self._kernel.buffer(target.buffer).dtype.bits >= 32
        own = target.buffer in statement.buffers_read or statement.accumulation is not None
        return at_hand and exact and not own and not self._order.is_written_again(number)

    def _is_input(self, site: Site) -> bool:
        return self._kernel.buffer(site.statement.target.buffer).role == "inout"

    def _sum(self, site: Site, element: Access, what: Expr, search: ExtremeSearch | None) -> Statement:
        if search is not None:
            what = Op("select", (search.chosen, what, Const(0)))
        target = Access(self._gradients[element.buffer], element.indices)
        return Statement(target, "+=", _when(site, what), site.statement.loc)

    def _set(self, site: Site, seed: Access, what: Expr) -> Statement:
        return Statement(seed, "=", _when(site, what), site.statement.loc)


def _when(site: Site, what: Expr) -> Expr:
    condition = site.statement.condition
    return what if condition is None else Op("when", (condition, what))
