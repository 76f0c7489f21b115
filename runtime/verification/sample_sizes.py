"""Sizes to check a kernel at: one, primes, what no vector length divides, and one beyond unrolled blocks of
vectors, as far as its facts allow."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from dojoir.errors import ArgumentError
from dojoir.ir.nodes import Guard, Kernel, Node, Scope, Statement, holds
from dojoir.runtime.verification.inputs import has_room
from dojoir.support.public import public

TRIED = 64
"""How far above a wished size one is searched that fits the facts of the kernel."""

LONG = (1031, 131)
"""More than two blocks of eight vectors of 64 lanes, or, where that takes long, of four of 16 lanes."""

STRIDES = (1, 64, 512, 4096)
"""What a size that is drawn is made a multiple of, where facts ask for it."""

STEPS = 4000
"""How many combinations that search may look at."""


SAMPLE_INSTANCES = 20_000
"""How many statements a kernel may run at each of the default sizes."""


@public
def sample_sizes(kernel: Kernel, most_instances: int = SAMPLE_INSTANCES) -> list[dict[str, int]]:
    """A few small assignments of the runtime sizes at which the facts of the kernel hold, and at which it runs at
    most `most_instances` statements (but at least one assignment). Raises ArgumentError where none is found."""
    names = kernel.runtime_sizes
    n = len(names)
    wishes = [
        [1] * n,
        [(2, 3, 5, 7)[i % 4] for i in range(n)],
        [(7, 5, 3, 2)[i % 4] for i in range(n)],
        [3] * (n - 1) + [67] * min(n, 1),
        [37] * min(n, 1) + [3] * (n - 1),
        [(17, 19, 13, 11)[i % 4] for i in range(n)],
    ]
    found = [sizes for wish in wishes if (sizes := _nearest(kernel, wish)) is not None]
    found += [sizes for at in range(n) if (sizes := _long(kernel, at, most_instances)) is not None]
    distinct = list({tuple(sizes.values()): sizes for sizes in found}.values())
    if not distinct:
        raise ArgumentError(
            f"no small sizes were found at which the facts of kernel {kernel.name} hold: pass sizes=", "no-sizes"
        )
    counted = sorted((count_instances(kernel, sizes, 1 << 40), i) for i, sizes in enumerate(distinct))
    within = {i for count, i in counted if count <= most_instances} or {counted[0][1]}
    return [sizes for i, sizes in enumerate(distinct) if i in within]


@public
def sizes_between(
    kernel: Kernel, largest: Mapping[str, int], count: int = 2, seed: int = 0
) -> list[dict[str, int]]:
    """At most `count` assignments of the runtime sizes that are drawn below `largest`, the first in its upper
    half, the others of any magnitude, as far as the facts of the kernel allow. Raises ArgumentError for a size
    that the kernel does not have."""
    kernel.specialize(**largest)
    random = Random(seed)
    most = [largest[name] for name in kernel.runtime_sizes]
    drawn: dict[tuple[int, ...], dict[str, int]] = {}
    for number in range(2 * count):
        shares = [1 - random.random() / 2 if not number else random.random() for _ in most]
        wish = [max(1, round(m * s if not number else m**s) - 1) for m, s in zip(most, shares, strict=True)]
        wishes = (
            [v - v % min(g, m & -m) or min(g, m & -m) for v, m in zip(wish, most, strict=True)] for g in STRIDES
        )
        sizes = next((found for one in wishes if (found := _nearest(kernel, one)) is not None), None)
        if sizes is not None and sizes != dict(largest):
            drawn.setdefault(tuple(sizes.values()), sizes)
    return [*drawn.values()][:count]


def _long(kernel: Kernel, at: int, most_instances: int) -> dict[str, int] | None:
    """Sizes of which the one of number `at` is long and the others are small."""
    for length in LONG:
        wish = [2] * len(kernel.runtime_sizes)
        wish[at] = length
        sizes = _nearest(kernel, wish)
        if sizes is not None and count_instances(kernel, sizes, most_instances) <= most_instances:
            return sizes
    return None


def _nearest(kernel: Kernel, wish: list[int]) -> dict[str, int] | None:
    """The first assignment at which all facts hold, with each size at least what is wished."""
    names = kernel.runtime_sizes
    left = [STEPS]

    def search(chosen: dict[str, int]) -> dict[str, int] | None:
        ready = [f for f in kernel.facts if f.left.sizes | f.right.sizes <= chosen.keys()]
        left[0] -= 1
        if left[0] < 0 or not all(holds(fact, chosen, ()) for fact in ready):
            return None
        if len(chosen) == len(names):
            return chosen if has_room(kernel, chosen) else None
        name = names[len(chosen)]
        for value in range(wish[len(chosen)], wish[len(chosen)] + TRIED):
            complete = search({**chosen, name: value})
            if complete is not None:
                return complete
        return None

    return search({})


def count_instances(kernel: Kernel, sizes: Mapping[str, int], limit: int) -> int:
    """How many statements the kernel runs at these sizes, guards counted as if they held; any number above
    `limit` where it is more than that."""

    def total(nodes: tuple[Node, ...], iterators: tuple[int, ...]) -> int:
        count = 0
        for node in nodes:
            match node:
                case Statement():
                    count += 1
                case Guard(_, body):
                    count += total(body, iterators)
                case Scope(extent, body):
                    trips = max(0, min(bound.evaluate(sizes, iterators) for bound in extent.bounds))
                    if not _depends(body, len(iterators)):
                        count += trips * total(body, (*iterators, 0)) if trips else 0
                        continue
                    for i in range(trips):
                        count += total(body, (*iterators, i))
                        if count > limit:
                            return count
            if count > limit:
                return count
        return count

    return total(kernel.body, ())


def _depends(nodes: tuple[Node, ...], depth: int) -> bool:
    """Whether the extent of a scope within `nodes` depends on the iterator at `depth`."""
    for node in nodes:
        if isinstance(node, Scope) and any(depth in bound.iterators for bound in node.extent.bounds):
            return True
        if not isinstance(node, Statement) and _depends(node.body, depth):
            return True
    return False
