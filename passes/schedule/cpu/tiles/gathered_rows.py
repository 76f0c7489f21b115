"""Sums of rows that lie where data say, as of a bag of embeddings: the result stays in registers.

`y[i, :] += w[ids[j], :]` for all j of a bag reads and writes the row of the result again for each of them. Some
vectors of it are kept in registers while the bag is gone through, once for each so many columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dojoir.backends.machine import Machine
from dojoir.ir.nodes import Access, Kernel, Path, Scope, Statement
from dojoir.passes.base.move import fresh_name
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.cpu.tiles.convolution import take_trivial_away
from dojoir.passes.schedule.facts.strides import Sizes, count_of, depends, lanes_of, step_of
from dojoir.passes.schedule.steps.combinators import Fit
from dojoir.passes.schedule.steps.spots import Array, act, spot
from dojoir.passes.storage.dead import DeleteTemporary
from dojoir.passes.values.recomputing import Recompute
from dojoir.support.frozen import dataclass

VECTORS, MOST_VECTORS = 2, 4
"""How many vectors of a row are summed at once: where the length of rows is not known, and at most where it is."""


@dataclass(frozen=True)
class Bag:
    """Two nests side by side: `columns > y[…] = …` at `first`, and behind it a scope over what is summed, with the
    `temporaries` of an iteration and `columns > y[…] += …` in it."""

    first: Path
    temporaries: tuple[str, ...]
    target: str


def gathered_rows(kernel: Kernel, machine: Machine, sizes: Sizes) -> Iterator[Fit]:
    """Sums rows that lie where data say in registers."""
    for bag in _bags(kernel):
        yield Fit(bag.first, partial(_in_registers, bag=bag, machine=machine, sizes=sizes))


def _bags(kernel: Kernel) -> Iterator[Bag]:
    """In the order of the text."""
    for path, node in kernel.walk():
        if isinstance(node, Scope) and not node.marks and not node.hints and path[-1] > 0:
            bag = _bag(kernel, path, node)
            if bag is not None:
                yield bag


def _bag(kernel: Kernel, path: Path, scope: Scope) -> Bag | None:
    """The bag that the scope at `path` goes through: all that it sums lies along its columns, and some of it where
    data say."""
    *own, columns = scope.body
    assigned = [node.target for node in own if isinstance(node, Statement) and node.accumulation is None]
    temporaries = tuple(target.buffer for target in assigned)
    if len(assigned) < len(own) or any(target.indices for target in assigned):
        return None
    if any(kernel.buffer(name).role != "tmp" for name in temporaries):
        return None
    first = (*path[:-1], path[-1] - 1)
    begun, added = _single(kernel.at(first)), _single(columns)
    if begun is None or added is None or begun.accumulation is not None or added.accumulation is None:
        return None
    outer = kernel.depth_of(path)
    target, reads = added.target, added.term_reads
    gathered = [access for access in reads if any(isinstance(index, Access) for index in access.indices)]
    steps = [step_of(kernel, access, outer + 1) for access in (target, *added.reads)]
    if depends(target, outer) or step_of(kernel, target, outer + 1) != 1 or None in steps:
        return None
    if begun.target.buffer != target.buffer or not any(depends(access, outer + 1) for access in gathered):
        return None
    return Bag(first, temporaries, target.buffer)


def _single(node: object) -> Statement | None:
    """The one statement of a scope without marks that has no other."""
    if isinstance(node, Scope) and not node.marks and len(node.body) == 1 and isinstance(node.body[0], Statement):
        return node.body[0]
    return None


def _in_registers(trace: Trace, bag: Bag, machine: Machine, sizes: Sizes) -> None:
    """Raises IllegalMove where a move of it is refused."""
    begun = spot(trace, bag.first)
    bags = begun.beside(1)
    columns = bags.child(len(bag.temporaries))
    lanes = lanes_of(trace.kernel, bag.target, machine)
    count = count_of(columns.scope.extent, sizes)
    width = lanes * (VECTORS if count is None else min(max(-(-count // lanes), 1), MOST_VECTORS))
    begun.split(width)
    columns.split(width)
    for name in bag.temporaries:
        again = fresh_name(trace.kernel, f"{name}_of_tile")
        act(trace, Recompute, columns.child(0), name, again)
        act(trace, DeleteTemporary, name)
        Array(trace, again).place("reg")
    bags.swap()
    begun.join(columns)
    begun.child(0).wrap(2)
    begun.child(0).stage(bag.target, "tile", "out", "reg")
    begun.child(0).remove()
    take_trivial_away(begun)
