"""Moves that put nodes into a scope that runs once, and take such a scope away."""

from __future__ import annotations

from dojoir.backends.machine import Machine
from dojoir.ir.affine import Affine
from dojoir.ir.format import format_extent
from dojoir.ir.nodes import Extent, Kernel, Node, Scope, Statement, substitute
from dojoir.passes.base.about import AboutNode, AboutScope, Arguments, Here
from dojoir.passes.base.indices import deeper, map_slots, shallower, slots_of
from dojoir.passes.base.move import Formula, Move, Refusal, Rewrite, Undoing, reversible, well_typed
from dojoir.passes.base.properties import is_host_code
from dojoir.passes.base.reach import Reach
from dojoir.support.frozen import dataclass

ONCE = Extent((Affine.constant(1),))


@dataclass(frozen=True)
class RemoveScope(AboutScope, name="remove_scope", reach=Reach.PANE):
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

    def rewritten(self, at: Here[Scope]) -> Rewrite:
        if at.node.extent != ONCE:
            message = f"the extent is {format_extent(at.node.extent)}, not 1"
            raise at.refusal("runs-more", message, "set_extent writes an extent that is always 1 so")
        at.unmarked(self.scope)
        at.unhinted()
        new = shallower(at.depth, {at.depth: Affine.constant(0)})
        done = at.renamed(new, *(substitute(node, new) for node in at.node.body))
        return reversible(self, at.kernel, well_typed(done))

    def back(self, at: Here[Scope]) -> Move:
        slots = [slot for slot, _ in slots_of(at.node.body, at.depth + 1)]
        numbers = tuple(number for number, slot in enumerate(slots) if at.depth in slot.iterators)
        return AddScope(at.place, len(at.node.body), numbers, tuple(Formula(str(slots[n])) for n in numbers))

    @classmethod
    def listed(cls, at: Here[Scope]) -> Arguments:
        return [()] if at.node.extent == ONCE and not at.node.marks else []


@dataclass(frozen=True)
class AddScope(Undoing, AboutNode, name="add_scope", reach=Reach.PANE):
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

    count: int
    slots: tuple[int, ...] = ()
    forms: tuple[Formula, ...] = ()

    def followers(self) -> int:
        return self.count - 1

    def undone(self, kernel: Kernel) -> tuple[Kernel, Move]:
        at = self.found(kernel)
        following = at.siblings[at.path[-1] :]
        if not 0 < self.count <= len(following):
            is_one = len(following) == 1
            have = f"{len(following)} node{'' if is_one else 's'} from {self.node} on"
            raise at.refusal("bad-count", f"there {'is' if is_one else 'are'} {have}, not {self.count}")
        if len(self.slots) != len(self.forms):
            raise at.refusal("bad-forms", "add_scope takes one form for each slot: add_scope(0, 1, 2, {0} + 1)")
        new = deeper(at.depth - 1, {})
        body = tuple(substitute(node, new) for node in following[: self.count])
        body = self._with_forms(kernel, body, at.depth + 1)
        return at.replaced(Scope(ONCE, body), count=self.count), RemoveScope(at.place)

    def _with_forms(self, kernel: Kernel, body: tuple[Node, ...], depth: int) -> tuple[Node, ...]:
        left = dict(zip(self.slots, self.forms, strict=True))
        if left and max(left) >= sum(1 for _ in slots_of(body, depth)):
            raise Refusal("no-slot", f"there are no {max(left) + 1} affine expressions in what the scope would run")
        return map_slots(body, depth, lambda n, slot, inside: left[n].affine(kernel, inside) if n in left else slot)

    @classmethod
    def listed(cls, at: Here[Node]) -> Arguments:
        """The statements that follow one another beside a scope."""
        first, around = at.path[-1], [isinstance(node, Statement) for node in at.siblings]
        if (
            any(isinstance(node, Scope) for node in at.siblings)
            and around[first]
            and not (first and around[first - 1])
        ):
            yield ([*around[first:], False].index(False),)

    @classmethod
    def more(cls, at: Here[Node], machine: Machine) -> Arguments:
        """Any node of host code by itself: a launch of one block, or one to be made in versions."""
        return [(1,)] if machine.kind == "gpu" and is_host_code(at.kernel, at.path) else []
