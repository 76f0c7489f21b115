"""What stands under guards on sizes, without the guards: slices, scopes, whole kernels in versions.

At sizes for which the one guard around all of a slice does not hold, neither of its kernels runs anything: they
mean the same. At all others they run what is in the guard. So it is enough that what is in the guard means the same
at the sizes for which it holds. If its conditions say the values of sizes, these are the kernels with such sizes
fixed, and the answer is that about the slice. Else the conditions are left out, and only a yes is an answer: what
means the same at all sizes does so at those of the guard.

Kernels in versions for sizes are such guards side by side. Without this, each question about one version is one
about all sizes of the kernel, with the conditions that tell it from the others in each set.
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


class Inside(NamedTuple):
    """What is in the guard of a slice; `exact`, where any answer about it is one about the slice."""

    part: Slice
    exact: bool

    def steps(self, limit: int) -> int:
        """How many of the steps of a question may be spent on it: few where only a yes is an answer."""
        return limit if self.exact else limit // 10


def inside_of(part: Slice) -> Inside | None:
    """What is in the one guard around all of both kernels of a slice, or None where there is none on sizes."""
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
    return Inside(inside, len(known) == len(old.conditions))


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
    """Kernels that are well-formed only if this one is: what stands in each of the guards on sizes that it consists
    of, as a kernel for the sizes at which the guard holds. None where it is no such kernel.

    At all sizes one of the guards holds, so that all is written that the kernel returns. Where several hold, what
    runs later finds more elements written than by itself, and temporaries are each used in one guard, so that those
    of an iteration stay its own.
    """
    guards = [node for node in kernel.body if _is_on_sizes(node)]
    if len(guards) < 2 or len(guards) < len(kernel.body) or not _is_any_sure(kernel, guards):
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


def _is_any_sure(kernel: Kernel, guards: Sequence[Guard]) -> bool:
    """Whether at all sizes that a call may have one of some guards holds."""
    sets = sets_of(kernel)
    held = [sets.workspace.sizes(f"{sets.prefix}{{ : {sets.constraints((guard,))} }}") for guard in guards]
    return bool(sets.parameters.is_subset(reduce(lambda a, b: a.union(b), held)))


def _is_on_sizes(node: Node) -> TypeGuard[Guard]:
    """Whether a node is a guard of which the sizes of a call alone say whether it holds."""
    return isinstance(node, Guard) and not any(c.left.iterators or c.right.iterators for c in node.conditions)


def _values(kernel: Kernel, guard: Guard) -> dict[str, int]:
    """The sizes of which the conditions of a guard say the values, with these."""
    return dict(
        value for value in (_value(kernel, condition) for condition in guard.conditions) if value is not None
    )


def _value(kernel: Kernel, condition: Condition) -> tuple[str, int] | None:
    """The size of which a condition says the value, with it."""
    names = [name for name in kernel.runtime_sizes if str(condition.left) == name]
    if condition.relation != "==" or not names or not condition.right.is_constant or condition.right.offset < 1:
        return None
    return names[0], condition.right.offset
