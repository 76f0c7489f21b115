"""Moves that put a copy of a part of an array into a buffer of its own: packing, and accumulating aside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import count
from typing import ClassVar, TypeVar

from dojoir.backends.machine import Machine
from dojoir.ir.affine import Affine, Iter
from dojoir.ir.nodes import (
    Access,
    Buffer,
    Dim,
    Guard,
    Kernel,
    Node,
    Path,
    Scope,
    Statement,
    format_path,
)
from dojoir.ir.places import numbers_inside, siblings, sites_inside
from dojoir.ir.rewriting.rewrite import map_accesses
from dojoir.passes.base.alternatives import Alternative, further_inside
from dojoir.passes.base.move import (
    BufferName,
    Move,
    Place,
    Refusal,
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
    within,
)
from dojoir.passes.storage.temporaries import temporary
from dojoir.passes.storage.used import Part, used_part
from dojoir.proof.check import InstanceMap, Origin, identity
from dojoir.proof.core.written import comes_and_goes, gives_itself
from dojoir.proof.verdict import Verdict
from dojoir.support.frozen import dataclass

_T = TypeVar("_T")


@dataclass(frozen=True)
class Stage(Move):
    """Makes the node at `node` work on a copy of the part of a buffer that it touches. A new temporary, filled
    before the node where `direction` is `in` or `inout`, written back after it where it is `out` or `inout`.

    In each dimension, all accesses of the node must have one part that depends on the iterators around it only.
    What is left runs from 0 to a constant or a size and is the index of the copy: of a triangle, all of the square
    around it. Where all of them are multiples of a number apart, the copy has these elements side by side. What may
    begin before the array does, as at the edge of an image, is copied under a guard. Of an `inout` no more is
    copied than the node uses: the extents and guards inside of it go with the copies. The temporary is called
    `copy`, and `reorder_dims`, `place` and `reuse_dims` then say how it is laid out. The scopes that copy have no
    labels; all others keep theirs. The inverse is `unstage`.

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

    name: ClassVar[str] = "stage"
    reach: ClassVar[Reach] = Reach.CHILDREN
    node: Place
    buffer: BufferName
    copy: BufferName
    direction: Word
    only: tuple[int, ...] = ()

    def rewrite(self, kernel: Kernel) -> Rewrite:
        path = kernel.path(self.node)
        buffer = kernel.buffer(self.buffer)
        if self.direction not in {"in", "out", "inout"}:
            raise Refusal("unknown-direction", f"'{self.direction}' is no direction: in, out or inout", path)
        check_new_name(kernel, self.copy)
        node = kernel.at(path)
        depth = kernel.depth_of(path)
        found = self._found(node, path)
        ranges = self._copied_of(inner_extents(buffer.name, node, depth))
        bases = [base_of(buffer.name, d, found, depth) for d in range(len(buffer.dims))]
        steps = [common_step(d, found, bases[d], depth) for d in range(len(buffer.dims))]
        local = [redirected_access(a, self.copy, bases, steps) for a in found]
        origin = Affine.constant(0)
        dims = tuple(Dim(reach_of(buffer.name, d, local, origin, ranges)) for d in range(len(buffer.dims)))
        staged = Buffer("tmp", self.copy, buffer.dtype, dims)
        renamed = self._redirected(node, bases, steps)
        boxes = list(copied(buffer, staged, bases, steps))
        extents = [within(kernel, path, part, whole) for part, whole in boxes]
        box = Part(tuple(extents), tuple(inside_of_array(kernel, path, bases, steps)))

        def used(written: bool = False) -> Part:
            part = used_part(kernel, path, buffer.name, bases, steps, written)
            return narrowed(kernel, path, box, part, boxes, buffer.role == "inout")

        def copied_by(filled: Part, drained: Part) -> Kernel:
            fill = copy_nest(buffer, staged, bases, steps, filled, depth, back=False)
            drain = copy_nest(buffer, staged, bases, steps, drained, depth, back=True)
            first, last = [fill] if self.direction != "out" else [], [drain] if self.direction != "in" else []
            return kernel.replace_node(path, *first, renamed, *last).evolve(buffers=(*kernel.buffers, staged))

        own = used()
        match buffer.role:
            case "inout":  # others may have what the node leaves alone
                after = copied_by(own, used(written=True))
            case "tmp":  # what is not used may not be there
                after = copied_by(own, own)
            case _:
                after = copied_by(box, box)
                if self.direction == "out" and own != box and not comes_and_goes(after, staged):
                    after = copied_by(own, own)  # nor is what the node does not give
        return reversible(self, kernel, Rewrite(after, InstanceMap(tuple(self._origins(kernel)))))

    def _found(self, node: Node, path: Path) -> list[Access]:
        """The accesses that are to work on the copy."""
        every = accesses_to(node, {self.buffer})
        if not every:
            raise Refusal("not-used", f"`{self.buffer}` is not used there", path)
        if self.only and self.direction != "in":
            raise Refusal(
                "unknown-direction", f"the copy of some accesses goes in only, not {self.direction}", path
            )
        if any(not 0 <= number < len(every) for number in self.only):
            message = f"`{self.buffer}` has {len(every)} accesses there, numbered from 0"
            raise Refusal("not-used", message, path)
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

    def inverse(self, before: Kernel) -> Move:
        path = before.path(self.node)
        return Unstage(place_of(path if self.direction == "out" else (*path[:-1], path[-1] + 1)), self.copy)

    def _origins(self, kernel: Kernel) -> Iterator[Origin | None]:
        path = kernel.path(self.node)
        inside = numbers_inside(kernel, path)
        for k, origin in enumerate(identity(kernel).origins):
            if k == inside[0] and self.direction != "out":
                yield None
            yield origin
            if k == inside[-1] and self.direction != "in":
                yield None

    def alternatives(self, kernel: Kernel, verdict: Verdict) -> Iterator[Alternative]:
        text = str(replace(self, node=Place("{}")))
        return further_inside(kernel, kernel.path(self.node), text)

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for path, node in kernel.walk():
            if not isinstance(node, Scope):
                continue
            sites = sites_inside(kernel, path)
            for buffer in kernel.buffers:
                reads = any(a.buffer == buffer.name for s in sites for a in s.statement.reads)
                adds = any(
                    s.statement.target.buffer == buffer.name and s.statement.accumulation is not None for s in sites
                )
                writes = any(s.statement.target.buffer == buffer.name for s in sites)
                if buffer.dims and (reads or writes) and not any(d.collapsed for d in buffer.dims):
                    given = not (reads or adds) or (writes and gives_itself(kernel, buffer, path))
                    direction = "out" if given else "inout" if writes else "in"
                    name = fresh_name(kernel, f"{buffer.name}_copy")
                    yield cls(Place(format_path(path)), BufferName(buffer.name), BufferName(name), Word(direction))

    @classmethod
    def _further(cls, kernel: Kernel, place: Path | str, machine: Machine) -> Iterator[Move]:
        """Of any array that is used there, in each direction: a statement may work on a copy as well."""
        if isinstance(place, str):
            return
        sites = sites_inside(kernel, place)
        for buffer in dict.fromkeys(access.buffer for site in sites for access in site.statement.accesses):
            name = BufferName(fresh_name(kernel, f"{buffer}_copy"))
            yield from (cls(place_of(place), BufferName(buffer), name, Word(d)) for d in ("in", "out", "inout"))
            if sum(a.buffer == buffer for site in sites for a in site.statement.accesses) == 2:
                yield from (cls(place_of(place), BufferName(buffer), name, Word("in"), (n,)) for n in (0, 1))


@dataclass(frozen=True)
class Unstage(Undoing):
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

    name: ClassVar[str] = "unstage"
    node: Place
    copy: BufferName

    def undone(self, kernel: Kernel) -> tuple[Kernel, Move]:
        path = kernel.path(self.node)
        copy = temporary(kernel, self.copy)
        depth = kernel.depth_of(path)
        around = siblings(kernel, path)
        fill = _copying(around[path[-1] - 1 : path[-1]], copy.name, back=False)
        drain = _copying(around[path[-1] + 1 : path[-1] + 2], copy.name, back=True)
        outside = fill or drain
        if outside is None:
            raise Refusal(
                "not-staged", f"`{copy.name}` is not filled just before {self.node} or written back after", path
            )
        indices = [index for index in outside.indices if isinstance(index, Affine)]
        steps = [index.coefficient(Iter(depth + d)) for d, index in enumerate(indices)]
        bases = [i - Affine.iterator(depth + d) * s for d, (i, s) in enumerate(zip(indices, steps, strict=True))]
        inner = any(d >= depth for base in bases for d in base.iterators)
        if len(bases) != len(copy.dims) or inner or min(steps, default=1) < 1:
            raise Refusal("not-staged", f"`{copy.name}` is not a plain part of `{outside.buffer}`", path)
        node = map_accesses(around[path[-1]], partial(original_access, copy.name, outside.buffer, bases, steps))
        only = _numbers(around[path[-1]], outside.buffer, copy.name)
        place = (*path[:-1], path[-1] - (fill is not None))
        earlier = kernel.replace_node(path, node)
        if drain is not None:
            earlier = earlier.replace_node((*path[:-1], path[-1] + 1))
        if fill is not None:
            earlier = earlier.replace_node(place)
        if any(copy.name == access.buffer for site in earlier.sites for access in site.statement.accesses):
            raise Refusal("still-used", f"`{copy.name}` is also used outside of {self.node} and its copying", path)
        earlier = earlier.evolve(buffers=tuple(b for b in kernel.buffers if b.name != copy.name))
        direction = Word("inout" if fill and drain else "in" if fill else "out")
        return earlier, Stage(place_of(place), BufferName(outside.buffer), self.copy, direction, only)

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        temporaries = [b.name for b in kernel.buffers if b.role == "tmp" and b.dims]
        for path, node in kernel.walk():
            around = siblings(kernel, path)
            if len(around) > 1 and isinstance(node, Scope):
                for name in temporaries:
                    before = _copying(around[path[-1] - 1 : path[-1]], name, back=False)
                    if before or _copying(around[path[-1] + 1 : path[-1] + 2], name, back=True):
                        yield cls(place_of(path), BufferName(name))


def _numbers(node: Node, buffer: str, copy: str) -> tuple[int, ...]:
    """The numbers of the accesses to a copy among those to it and to its buffer; none where all are to it."""
    names = [access.buffer for access in accesses_to(node, {buffer, copy})]
    return tuple(n for n, name in enumerate(names) if name == copy) if buffer in names else ()


def _copying(nodes: tuple[Node, ...], copy: str, back: bool) -> Access | None:
    """The source or the target of a copy by a node that does nothing else; or None."""
    while len(nodes) == 1 and isinstance(nodes[0], Scope | Guard):
        nodes = nodes[0].body
    match nodes:
        case [Statement(target, "=", Access() as value)]:
            inside, outside = (value, target) if back else (target, value)
            return outside if inside.buffer == copy and outside.buffer != copy else None
    return None


MOVES = (Stage, Unstage)
