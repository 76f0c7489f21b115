"""Reduces questions about code under a guard on sizes to questions without the guard.

A kernel in versions is a sequence of such guards. Asked as a whole, every question about one version would carry
the conditions of all of them in its sets.

Where one guard encloses both kernels of a slice, they run nothing at sizes for which it does not hold, and so are
equal there. It remains to show that their bodies are equal at the sizes for which it holds. If the conditions fix
sizes (`N == 512`), the bodies with these sizes substituted have the same answer as the slice: the reduction is
exact. Otherwise the conditions are dropped, and only a yes carries over: bodies that are equal at all sizes are
equal at those of the guard.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, reduce
from typing import NamedTuple, TypeGuard

from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Condition, Guard, Kernel, Node, Path
from dojoir.ir.rewriting.substitution import fixed_sizes, substitute
from dojoir.proof.certificate import InstanceMap
from dojoir.proof.slice import Slice
from dojoir.sets.kernel_sets import sets_of


class InsideGuard(NamedTuple):
    """The inside of the guard of a slice; `exact`, where any answer about it is one about the slice."""

    part: Slice
    exact: bool

    def steps(self, limit: int) -> int:
        """How many of the steps of a question may be spent on it: few where only a yes is an answer."""
        return limit if self.exact else limit // 10


def inside_of(part: Slice) -> InsideGuard | None:
    """The inside of the one guard around all of both kernels of a slice, or None where there is none on sizes."""
    before, after = part.before, part.after
    if len(before.body) != 1 or len(after.body) != 1:
        return None
    old, new = before.body[0], after.body[0]
    if not (_is_on_sizes(old) and _is_on_sizes(new) and old.conditions == new.conditions):
        return None
    known = _values(before, old)
    before, after = before.evolve(body=old.body), after.evolve(body=new.body)
    try:
        before, after = (kernel.specialize(**known) for kernel in (before, after))
    except ArgumentError:  # no size is such: the guard holds nowhere
        return None
    inside = replace(part, before=before, after=after, instances=_fixed(part.instances, known))
    return InsideGuard(inside, len(known) == len(old.conditions))


def _fixed(instances: InstanceMap, known: Mapping[str, int]) -> InstanceMap:
    """The map with numbers for some sizes."""
    at = fixed_sizes(known)

    def values(some: tuple[Affine, ...]) -> tuple[Affine, ...]:
        return tuple(one.substitute(at) for one in some)

    if not known:
        return instances
    return replace(
        instances,
        origins=tuple(o and replace(o, iterators=values(o.iterators)) for o in instances.origins),
        inlined=tuple(replace(s, iterators=values(s.iterators)) for s in instances.inlined),
        extracted=tuple(replace(s, iterators=values(s.iterators)) for s in instances.extracted),
    )


class OutOfGuard(NamedTuple):
    """A kernel with what a guard on sizes holds in its place, and a place in it; `exact`, where what is there runs
    as it does under the guard."""

    kernel: Kernel
    path: Path
    exact: bool

    def steps(self, limit: int) -> int:
        """As of what is inside of a guard."""
        return limit if self.exact else limit // 10


def out_of_guard(kernel: Kernel, path: Path) -> OutOfGuard | None:
    """The kernel without the guard on sizes at the top in which a place is, or None where there is none. Where its
    conditions say the values of sizes, what it holds has these for them, and runs what it runs under the guard.
    Else it runs at all sizes, and so in more instances."""
    if len(path) == 1 or not _is_on_sizes(kernel.body[path[0]]):
        return None
    without, exact = _without_guard(kernel, path[0])
    return OutOfGuard(without, (path[0] + path[1], *path[2:]), exact)


@lru_cache(maxsize=64)
def _without_guard(kernel: Kernel, number: int) -> tuple[Kernel, bool]:
    guard = kernel.body[number]
    assert isinstance(guard, Guard)
    known, inside = _values(kernel, guard), guard.body
    if known:
        at = fixed_sizes(known)
        inside = tuple(substitute(child, at) for child in inside)
    body = (*kernel.body[:number], *inside, *kernel.body[number + 1 :])
    return kernel.evolve(body=body), len(known) == len(guard.conditions)


def versions_of(kernel: Kernel) -> list[Kernel] | None:
    """The versions of a kernel, each a kernel for the sizes at which its guard holds. None where the kernel is
    not a sequence of guards on sizes that cover all sizes.

    If all versions are well-formed, so is the kernel, apart from its declarations, which hold for all sizes. At
    all sizes a guard holds, and its version assigns all outputs. Where several hold, a later version only finds
    more elements assigned than it needs. A temporary is used by one version alone, so that it is private to
    iterations in the kernel where it is in the version.
    """
    guards = [node for node in kernel.body if _is_on_sizes(node)]
    if len(guards) < 2 or len(guards) < len(kernel.body) or not _cover_all_sizes(kernel, guards):
        return None
    temporaries = {buffer.name for buffer in kernel.buffers if buffer.role == "tmp"}
    used = [guard.buffers & temporaries for guard in guards]
    if sum(map(len, used)) > len(set[str]().union(*used)):
        return None
    found = []
    for guard, names in zip(guards, used, strict=True):
        known = _values(kernel, guard)
        kept = tuple(b for b in kernel.buffers if b.role != "tmp" or b.name in names)
        rest = tuple(c for c in guard.conditions if _value(kernel, c) is None)
        part = kernel.evolve(buffers=kept, body=guard.body, facts=(*kernel.facts, *rest))
        try:
            found.append(part.specialize(**known))
        except ArgumentError:
            return None
    return found


def _cover_all_sizes(kernel: Kernel, guards: Sequence[Guard]) -> bool:
    """Whether at least one of the guards holds at all sizes that a call may have."""
    sets = sets_of(kernel)
    held = [sets.workspace.sizes(f"{sets.prefix}{{ : {sets.constraints((guard,))} }}") for guard in guards]
    return bool(sets.parameters.is_subset(reduce(lambda a, b: a.union(b), held)))


def _is_on_sizes(node: Node) -> TypeGuard[Guard]:
    """Whether a node is a guard whose conditions depend on sizes alone."""
    return isinstance(node, Guard) and not any(c.left.iterators or c.right.iterators for c in node.conditions)


def _values(kernel: Kernel, guard: Guard) -> dict[str, int]:
    """The sizes that a guard fixes, with their values."""
    return dict(
        value for value in (_value(kernel, condition) for condition in guard.conditions) if value is not None
    )


def _value(kernel: Kernel, condition: Condition) -> tuple[str, int] | None:
    """The size that a condition fixes, with its value; None where it fixes none."""
    names = [name for name in kernel.runtime_sizes if str(condition.left) == name]
    if condition.relation != "==" or not names or not condition.right.is_constant or condition.right.offset < 1:
        return None
    return names[0], condition.right.offset
