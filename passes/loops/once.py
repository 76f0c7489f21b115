"""Moves that put nodes into a scope that runs once, and take such a scope away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from dojoir.backends.machine import Machine
from dojoir.ir.affine import Affine, Iter, SizeVar
from dojoir.ir.nodes import Extent, Kernel, Node, Path, Scope, Statement, substitute
from dojoir.ir.paths import is_inside
from dojoir.ir.places import siblings
from dojoir.ir.text import format_extent
from dojoir.passes.base.indices import map_slots, slots_of
from dojoir.passes.base.move import (
    Formula,
    Move,
    Place,
    Refusal,
    Rewrite,
    Undoing,
    place_of,
    reversible,
    scope_at,
    scopes,
    unhinted,
    well_typed,
)
from dojoir.passes.base.reach import Reach
from dojoir.passes.base.versions import is_host_code
from dojoir.proof.check import InstanceMap, Origin, identity
from dojoir.support.frozen import dataclass

ONCE = Extent((Affine.constant(1),))


@dataclass(frozen=True)
class RemoveScope(Move):
    """Takes away a scope of extent 1: what it runs stands in its place, its iterator being 0.

    Marks must be taken off first. The label goes; the labels inside stay. The inverse is `add_scope`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... N @i
    ... | 1 @j
    ... | | y[{i} + {j}] = 2 * x[{i}]
    ... ''')
    >>> print(dojoir.apply(k, "remove_scope(@j)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    <BLANKLINE>
    N @i
    | y[{i}] = 2 * x[{i}]
    <BLANKLINE>
    """

    name: ClassVar[str] = "remove_scope"
    reach: ClassVar[Reach] = Reach.PANE
    scope: Place

    def rewrite(self, kernel: Kernel) -> Rewrite:
        path, scope = scope_at(kernel, self.scope)
        if scope.extent != ONCE:
            text = format_extent(scope.extent)
            raise Refusal(
                "runs-more", f"the extent is {text}, not 1", path, "set_extent writes an extent that is always 1 so"
            )
        if scope.marks:
            raise Refusal(
                "marked", f"it is marked `{scope.marks[-1]}`", path, f"unmark({self.scope}, {scope.marks[-1]})"
            )
        unhinted(path, scope)
        depth = kernel.depth_of(path)

        def new(atom: SizeVar | Iter) -> Affine:
            match atom:
                case Iter(d) if d == depth:
                    return Affine.constant(0)
                case Iter(d) if d > depth:
                    return Affine.iterator(d - 1)
            return Affine.atom(atom)

        body = tuple(substitute(node, new) for node in scope.body)
        origins = tuple(
            Origin(k, tuple(new(Iter(d)) for d in range(len(site.scopes))))
            if is_inside(site.path, path)
            else origin
            for k, (site, origin) in enumerate(zip(kernel.sites, identity(kernel).origins, strict=True))
        )
        done = Rewrite(kernel.replace_node(path, *body), InstanceMap(origins))
        return reversible(self, kernel, well_typed(done))

    def inverse(self, before: Kernel) -> Move:
        path, scope = scope_at(before, self.scope)
        depth = before.depth_of(path)
        used = [
            (number, Formula(str(slot)))
            for number, (slot, _) in enumerate(slots_of(scope.body, depth + 1))
            if depth in slot.iterators
        ]
        numbers = tuple(number for number, _ in used)
        return AddScope(place_of(path), len(scope.body), numbers, tuple(form for _, form in used))

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for path, scope in scopes(kernel):
            if scope.extent == ONCE and not scope.marks:
                yield cls(place_of(path))


@dataclass(frozen=True)
class AddScope(Undoing):
    """Puts the node at `node` and those after it, `count` in all, into a scope of extent 1, without a label. The
    inverse of `remove_scope`; those that are listed make all siblings of a scope scopes too.

    Where the iterator of the new scope is to be used, `forms` say how. Each is what one affine expression becomes
    that it equals at 0, and `slots` say which, by their numbers in the order of the text.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... N @i
    ... | y[{i}] = 2 * x[{i}]
    ... ''')
    >>> print(dojoir.apply(k, "add_scope(0.0, 1)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    <BLANKLINE>
    N @i
    | 1
    | | y[{i}] = 2 * x[{i}]
    <BLANKLINE>
    >>> print(dojoir.apply(k, "add_scope(0.0, 1, 2, {0} + {1})"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    <BLANKLINE>
    N @i
    | 1
    | | y[{i}] = 2 * x[{i} + {1}]
    <BLANKLINE>
    """

    name: ClassVar[str] = "add_scope"
    reach: ClassVar[Reach] = Reach.PANE
    node: Place
    count: int

    def followers(self) -> int:
        return self.count - 1

    slots: tuple[int, ...] = ()
    forms: tuple[Formula, ...] = ()

    def undone(self, kernel: Kernel) -> tuple[Kernel, Move]:
        path = kernel.path(self.node)
        following = siblings(kernel, path)[path[-1] :]
        if not 0 < self.count <= len(following):
            have = f"{len(following)} node{'' if len(following) == 1 else 's'} from {self.node} on"
            raise Refusal(
                "bad-count", f"there {'is' if len(following) == 1 else 'are'} {have}, not {self.count}", path
            )
        if len(self.slots) != len(self.forms):
            raise Refusal("bad-forms", "add_scope takes one form for each slot: add_scope(0, 1, 2, {0} + 1)", path)
        depth = kernel.depth_of(path)

        def deeper(atom: SizeVar | Iter) -> Affine:
            return (
                Affine.iterator(atom.depth + 1)
                if isinstance(atom, Iter) and atom.depth >= depth
                else Affine.atom(atom)
            )

        body = tuple(substitute(node, deeper) for node in following[: self.count])
        body = self._with_forms(kernel, body, depth + 1)
        earlier = kernel.replace_node(path, Scope(ONCE, body))
        for _ in range(self.count - 1):
            earlier = earlier.replace_node((*path[:-1], path[-1] + 1))
        return earlier, RemoveScope(place_of(path))

    def _with_forms(self, kernel: Kernel, body: tuple[Node, ...], depth: int) -> tuple[Node, ...]:
        left = dict(zip(self.slots, self.forms, strict=True))
        if left and max(left) >= sum(1 for _ in slots_of(body, depth)):
            raise Refusal("no-slot", f"there are no {max(left) + 1} affine expressions in what the scope would run")
        return map_slots(body, depth, lambda n, slot, inside: left[n].affine(kernel, inside) if n in left else slot)

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for path, _ in kernel.walk():
            around = siblings(kernel, path)
            if not any(isinstance(node, Scope) for node in around) or not isinstance(around[path[-1]], Statement):
                continue
            if path[-1] and isinstance(around[path[-1] - 1], Statement):
                continue
            rest = around[path[-1] :]
            count = next((n for n, node in enumerate(rest) if not isinstance(node, Statement)), len(rest))
            yield cls(place_of(path), count)

    @classmethod
    def _further(cls, kernel: Kernel, place: Path | str, machine: Machine) -> Iterator[Move]:
        """Any node of host code by itself: a launch of one block, or one to be made in versions."""
        if machine.kind == "gpu" and not isinstance(place, str) and is_host_code(kernel, place):
            yield cls(place_of(place), 1)


MOVES = (RemoveScope, AddScope)
