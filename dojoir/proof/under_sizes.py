"""A slice all of which stands under one guard on sizes, without the guard.

At sizes for which the guard does not hold, neither kernel of the slice runs anything: they mean the same. At all
others they run what is in the guard. So it is enough that what is in the guard means the same at the sizes for
which it holds. If its conditions say the values of sizes, these are the kernels with such sizes fixed, and the
answer is that about the slice. Else the conditions are left out, and only a yes is an answer: what means the same
at all sizes does so at those of the guard.

Kernels in versions for sizes are such guards side by side. Without this, each question about one version is one
about all sizes of the kernel, with the conditions that tell it from the others in each set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple, TypeGuard

from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Condition, Guard, Kernel, Node, Path
from dojoir.ir.rewriting.substitution import fixed_sizes, substitute
from dojoir.proof.certificate import InstanceMap
from dojoir.proof.slice import Slice


class Inside(NamedTuple):
    """What is in the guard of a slice; `exact`, where any answer about it is one about the slice."""

    part: Slice
    exact: bool


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
