"""A node and what is around it: what an answer about its iterations, or about a local change of it, follows from.

Two kernels that agree in this may differ anywhere else. Equal ones may have other labels.
"""

from __future__ import annotations

from collections import Counter

from dojoir.ir.nodes import Buffer, Condition, Extent, Guard, Kernel, Node, Path, Size, Statement
from dojoir.ir.places import ancestors, siblings
from dojoir.sets.kernel_sets import sets_of
from dojoir.support.frozen import dataclass, hash_once
from dojoir.support.memo import Memo


@hash_once
@dataclass(frozen=True)
class Surroundings:
    """A node; the sizes, facts and fp mode of its kernel; the extents and conditions around it; and of the buffers
    that it uses their declarations, whether they are used elsewhere, and whether several operators accumulate
    there. Marks and hints around it are left out."""

    header: tuple[tuple[Size, ...], tuple[Condition, ...], str]
    around: tuple[Extent | tuple[Condition, ...], ...]
    node: Node
    buffers: tuple[tuple[Buffer, bool, bool], ...]


def surroundings(kernel: Kernel, path: Path) -> Surroundings:
    """What is at a path, and around it."""
    node = siblings(kernel, path)[path[-1]]
    inside, everywhere = _uses((node,)), _uses(kernel.body)
    mixed = sets_of(kernel).mixed
    made = Surroundings(
        (kernel.sizes, kernel.facts, kernel.fp),
        tuple(outer.conditions if isinstance(outer, Guard) else outer.extent for outer in ancestors(kernel, path)),
        node,
        tuple((kernel.buffer(b), everywhere[b] > inside[b], b in mixed) for b in sorted(inside)),
    )
    known = _known.get(made)
    return known if known is not None else _known.put(made, made)


_known: Memo[Surroundings, Surroundings] = Memo(4096)
"""One object for all that are equal, so that they are compared once."""


_counted: Memo[tuple[Node, ...], Counter[str]] = Memo(4096)


def _uses(nodes: tuple[Node, ...]) -> Counter[str]:
    """How many statements use each buffer."""
    found = _counted.get(nodes)
    if found is None:
        found = Counter()
        for node in nodes:
            if isinstance(node, Statement):
                found.update({access.buffer for access in node.accesses})
            else:
                found.update(_uses(node.body))
        _counted.put(nodes, found)
    return found
