"""Moves that put a copy of a part of an array into a buffer of its own: packing, and accumulating aside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TypeVar

from dojoir.backends.machine import Machine
from dojoir.ir.affine import Affine, Iter
from dojoir.ir.nodes import Access, Buffer, Dim, Guard, Kernel, Node, Scope, Statement
from dojoir.ir.paths import next_sibling
from dojoir.ir.places import sites_inside
from dojoir.ir.rewriting.rewrite import map_accesses
from dojoir.passes.base.about import AboutNode, Arguments, Here
from dojoir.passes.base.alternatives import Alternative, further_inside
from dojoir.passes.base.move import (
    BufferName,
    Move,
    Place,
    Rewrite,
    Undoing,
    Word,
    check_new_name,
    fresh_name,
    place_of,
    reversible,
)
from dojoir.passes.base.reach import Reach
from dojoir.passes.storage.boxes import (
    BoxPart,
    accesses_to,
    base_of,
    common_step,
    copied,
    copy_nest,
    inner_extents,
    inside_of_array,
    narrowed,
    original_access,
    reach_of,
    redirected,
    redirected_access,
    used_part,
    within,
)
from dojoir.passes.storage.temporaries import temporary
from dojoir.proof.check import InstanceMap, identity
from dojoir.proof.core.written import comes_and_goes, gives_itself
from dojoir.proof.verdict import Verdict
from dojoir.support.frozen import dataclass

_T = TypeVar("_T")


@dataclass(frozen=True)
class Stage(AboutNode, name="stage", reach=Reach.CHILDREN):
    """Makes the node at `node` work on a copy of the part of a buffer that it touches. A new temporary, filled
    before the node where `direction` is `in` or `inout`, written back after it where it is `out` or `inout`.

    In each dimension, all accesses of the node must have one part that depends on the iterators around it only.
    What is left runs from 0 to a constant or a size and is the index of the copy: of a triangle, all of the square
    around it. Where all of them are multiples of a number apart, the copy has these elements side by side. What may
    begin before the array does, as at the edge of an image, is copied under a guard. Of an `inout`, and of an
    output that is copied in both directions, no more is copied than the node uses: the extents and guards inside of
    it go with the copies. The temporary is called `copy`, and `reorder_dims`, `place` and `reuse_dims` then say how
    it is laid out. The scopes that copy have no labels; all others keep theirs. The inverse is `unstage`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... where N % 8 == 0
    ... in  x: f32[N]
    ... out y: f32[N]
    ... N // 8 @b
    ... | 8 @i
    ... | | y[8*{b} + {i}] = 2 * x[8*{b} + {i}]
    ... ''')
    >>> print(dojoir.apply(k, "stage(0.0, x, t, in)"))
    kernel f(N)
    where N % 8 == 0
    in  x: f32[N]
    out y: f32[N]
    tmp t: f32[8]
    <BLANKLINE>
    N // 8 @b
    | 8
    | | t[{1}] = x[8*{b} + {1}]
    | 8 @i
    | | y[8*{b} + {i}] = 2 * t[{i}]
    <BLANKLINE>
    """

    buffer: BufferName
    copy: BufferName
    direction: Word
    only: tuple[int, ...] = ()

    def rewritten(self, at: Here[Node]) -> Rewrite:
        kernel, path, node = at
        buffer, depth = kernel.buffer(self.buffer), at.depth
        if self.direction not in {"in", "out", "inout"}:
            raise at.refusal("unknown-direction", f"'{self.direction}' is no direction: in, out or inout")
        check_new_name(kernel, self.copy)
        found, numbers = self._found(at), range(len(buffer.dims))
        ranges = self._copied_of(inner_extents(buffer.name, node, depth))
        bases = [base_of(buffer.name, d, found, depth, ranges) for d in numbers]
        steps = [common_step(d, found, bases[d], depth) for d in numbers]
        local = [redirected_access(a, self.copy, bases, steps) for a in found]
        origin = Affine.constant(0)
        dims = tuple(Dim(reach_of(buffer.name, d, local, origin, ranges)) for d in numbers)
        staged = Buffer("tmp", self.copy, buffer.dtype, dims)
        renamed = self._redirected(node, bases, steps)
        boxes = list(copied(buffer, staged, bases, steps))
        extents = [within(kernel, path, part, whole) for part, whole in boxes]
        box = BoxPart(tuple(extents), tuple(inside_of_array(kernel, path, bases, steps)))

        kept = buffer.role == "inout" or (buffer.role == "out" and self.direction == "inout")

        def used(written: bool = False) -> BoxPart:
            part = used_part(kernel, path, buffer.name, bases, steps, written)
            return narrowed(kernel, path, box, part, boxes, kept)

        def copied_by(filled: BoxPart, drained: BoxPart) -> Kernel:
            fill = copy_nest(buffer, staged, bases, steps, filled, depth, back=False)
            drain = copy_nest(buffer, staged, bases, steps, drained, depth, back=True)
            first, last = [fill] if self.direction != "out" else [], [drain] if self.direction != "in" else []
            return at.replaced(*first, renamed, *last).evolve(buffers=(*kernel.buffers, staged))

        own = used()
        match buffer.role:
            case _ if kept:  # others may have what the node leaves alone, or nothing has given it yet
                after = copied_by(own, used(written=True))
            case "tmp":  # what is not used may not be there
                after = copied_by(own, own)
            case _:
                after = copied_by(box, box)
                if self.direction == "out" and own != box and not comes_and_goes(after, staged):
                    after = copied_by(own, own)  # nor is what the node does not give
        origins, begin, end = identity(kernel).origins, at.number, at.numbers[-1] + 1
        new = [(None,) if self.direction != way else () for way in ("out", "in")]
        instances = InstanceMap((*origins[:begin], *new[0], *origins[begin:end], *new[1], *origins[end:]))
        return reversible(self, kernel, Rewrite(after, instances))

    def _found(self, at: Here[Node]) -> list[Access]:
        """The accesses that are to work on the copy."""
        every = accesses_to(at.node, {self.buffer})
        if not every:
            raise at.refusal("not-used", f"`{self.buffer}` is not used there")
        if self.only and self.direction != "in":
            message = f"the copy of some accesses goes in only, not {self.direction}"
            raise at.refusal("unknown-direction", message)
        if any(not 0 <= number < len(every) for number in self.only):
            message = f"`{self.buffer}` has {len(every)} accesses there, numbered from 0"
            raise at.refusal("not-used", message)
        return self._copied_of(every)

    def _copied_of(self, every: list[_T]) -> list[_T]:
        return [one for n, one in enumerate(every) if not self.only or n in self.only]

    def _redirected(self, node: Node, bases: list[Affine], steps: list[int]) -> Node:
        """The node with the accesses that are to work on the copy made to it."""
        if not self.only:
            return redirected(node, self.buffer, self.copy, bases, steps)
        numbers = count()

        def one(access: Access) -> Access:
            if access.buffer != self.buffer or next(numbers) not in self.only:
                return access
            return redirected_access(access, self.copy, bases, steps)

        return map_accesses(node, one)

    def reach_in(self, kernel: Kernel) -> Reach:
        """The node too, where nothing else gives values to the copy: the caller does, or the node itself."""
        if self.buffer in kernel.declared and (
            self.direction == "out" or kernel.buffer(self.buffer).role in {"in", "inout"}
        ):
            return self.reach | Reach.NODE
        return self.reach

    def back(self, at: Here[Node]) -> Move:
        return Unstage(at.beside(int(self.direction != "out")), self.copy)

    def alternatives(self, kernel: Kernel, verdict: Verdict) -> Iterator[Alternative]:
        text = str(replace(self, node=Place("{}")))
        return further_inside(kernel, kernel.path(self.node), text)

    @classmethod
    def listed(cls, at: Here[Node]) -> Arguments:
        """Of a scope, in the direction that its uses of the array ask for."""
        statements = [site.statement for site in sites_inside(at.kernel, at.path)]
        for buffer in at.kernel.buffers if isinstance(at.node, Scope) else ():
            reads = any(a.buffer == buffer.name for s in statements for a in s.reads)
            writers = [s for s in statements if s.target.buffer == buffer.name]
            if buffer.dims and (reads or writers) and not any(d.collapsed for d in buffer.dims):
                adds = any(s.accumulation is not None for s in writers)
                given = not (reads or adds) or (writers and gives_itself(at.kernel, buffer, at.path))
                direction = "out" if given else "inout" if writers else "in"
                name = fresh_name(at.kernel, f"{buffer.name}_copy")
                yield BufferName(buffer.name), BufferName(name), Word(direction)

    @classmethod
    def more(cls, at: Here[Node], machine: Machine) -> Arguments:
        """Of any array that is used there, in each direction: a statement may work on a copy as well."""
        used = [access.buffer for site in sites_inside(at.kernel, at.path) for access in site.statement.accesses]
        for buffer in dict.fromkeys(used):
            names = BufferName(buffer), BufferName(fresh_name(at.kernel, f"{buffer}_copy"))
            yield from ((*names, Word(direction)) for direction in ("in", "out", "inout"))
            if used.count(buffer) == 2:
                yield from ((*names, Word("in"), (number,)) for number in (0, 1))


@dataclass(frozen=True)
class Unstage(Undoing, AboutNode, name="unstage"):
    """Makes the node at `node` work on the array itself again, without the temporary `copy` and the copying before
    and after it. The inverse of `stage`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... where N % 8 == 0
    ... in  x: f32[N]
    ... out y: f32[N]
    ... tmp t: f32[8]
    ... N // 8 @b
    ... | 8
    ... | | t[{1}] = x[8*{0} + {1}]
    ... | 8 @i
    ... | | y[8*{0} + {1}] = 2 * t[{1}]
    ... ''')
    >>> print(dojoir.apply(k, "unstage(@i, t)"))
    kernel f(N)
    where N % 8 == 0
    in  x: f32[N]
    out y: f32[N]
    <BLANKLINE>
    N // 8 @b
    | 8 @i
    | | y[8*{b} + {i}] = 2 * x[8*{b} + {i}]
    <BLANKLINE>
    """

    copy: BufferName

    def undone(self, kernel: Kernel) -> tuple[Kernel, Move]:
        at, copy = self.found(kernel), temporary(kernel, self.copy)
        fill, drain = _copies(at, copy.name)
        outside = fill or drain
        if outside is None:
            message = f"`{copy.name}` is not filled just before {self.node} or written back after"
            raise at.refusal("not-staged", message)
        indices = [index for index in outside.indices if isinstance(index, Affine)]
        own = [Affine.iterator(at.depth + d) for d in range(len(indices))]
        steps = [index.coefficient(Iter(d)) for d, index in enumerate(indices, at.depth)]
        bases = [index - i * step for index, i, step in zip(indices, own, steps, strict=True)]
        inner = any(d >= at.depth for base in bases for d in base.iterators)
        if len(bases) != len(copy.dims) or inner or min(steps, default=1) < 1:
            raise at.refusal("not-staged", f"`{copy.name}` is not a plain part of `{outside.buffer}`")
        node = map_accesses(at.node, partial(original_access, copy.name, outside.buffer, bases, steps))
        only = _numbers(at.node, outside.buffer, copy.name)
        before, after = fill is not None, drain is not None
        place = next_sibling(at.path, -before)
        earlier = kernel.replace_node(place, node, count=1 + before + after)
        if any(copy.name == access.buffer for site in earlier.sites for access in site.statement.accesses):
            raise at.refusal("still-used", f"`{copy.name}` is also used outside of {self.node} and its copying")
        direction = Word("inout" if fill and drain else "in" if fill else "out")
        move = Stage(place_of(place), BufferName(outside.buffer), self.copy, direction, only)
        return earlier.without_buffers(copy.name), move

    @classmethod
    def listed(cls, at: Here[Node]) -> Arguments:
        for buffer in at.kernel.buffers if isinstance(at.node, Scope) and len(at.siblings) > 1 else ():
            if buffer.role == "tmp" and buffer.dims and any(_copies(at, buffer.name)):
                yield (BufferName(buffer.name),)


def _numbers(node: Node, buffer: str, copy: str) -> tuple[int, ...]:
    """The numbers of the accesses to a copy among those to it and to its buffer; none where all are to it."""
    names = [access.buffer for access in accesses_to(node, {buffer, copy})]
    return tuple(n for n, name in enumerate(names) if name == copy) if buffer in names else ()


def _copies(at: Here[Node], copy: str) -> tuple[Access | None, Access | None]:
    """The source of a copy that the node before one does and the target of a copy that the one after it does, if
    these do nothing else."""
    number, around = at.path[-1], at.siblings
    before = _copying(around[max(number - 1, 0) : number], copy, back=False)
    return before, _copying(around[number + 1 : number + 2], copy, back=True)


def _copying(nodes: tuple[Node, ...], copy: str, back: bool) -> Access | None:
    """The source or the target of a copy by a node that does nothing else; or None."""
    while len(nodes) == 1 and isinstance(nodes[0], Scope | Guard):
        nodes = nodes[0].body
    match nodes:
        case [Statement(target, "=", Access() as value)]:
            inside, outside = (value, target) if back else (target, value)
            return outside if inside.buffer == copy and outside.buffer != copy else None
    return None
