"""Substitutes the values of sizes inside guards that fix them, before a kernel is lowered for a GPU.

Each version of a multiversioned kernel is a guard around launches. Under `if N == 512 and M == 64` the constants
replace the sizes in indices, extents, conditions and the dimensions of arguments. So the lowering sees that rows
of 64 elements are aligned for vectors, and no address multiplies by a size. Since an argument has other
dimensions inside of the guard, it is declared there under a second name (an alias) for the same memory. No launch
uses an array under both names: if a guard contains a grid, every launch that runs a part of it lies inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dojoir.codegen.lower.gpu.thread_plan import has_mark
from dojoir.ir.nodes import Access, Buffer, Condition, Guard, Kernel, Node
from dojoir.ir.rewriting.rewrite import map_accesses
from dojoir.ir.rewriting.substitution import fixed_sizes, substitute
from dojoir.ir.words import GRID


def with_known_sizes(kernel: Kernel) -> tuple[Kernel, dict[str, str]]:
    """The kernel with constants substituted in each outermost guard that fixes sizes, and its aliases: the names
    that it adds, each with the argument that it stands for. Paths of nodes do not change."""
    body, added, same = list(kernel.body), list[Buffer](), dict[str, str]()
    taken = {buffer.name for buffer in kernel.buffers} | {size.name for size in kernel.sizes}
    for n, node in enumerate(kernel.body):
        if not isinstance(node, Guard) or not has_mark(node, GRID):
            continue
        known = _fixed_sizes(kernel, node.conditions)
        at, names = fixed_sizes(known), dict[str, str]()
        for buffer in kernel.arguments:
            fixed = buffer.with_sizes(at)
            if fixed.dims != buffer.dims:
                name = next(name for k in range(len(taken) + 1) if (name := f"{buffer.name}_{k}") not in taken)
                taken.add(name)
                names[buffer.name], same[name] = name, buffer.name
                added.append(replace(fixed, name=name))
        inside = (substitute(_renamed(child, names), at) for child in node.body)
        body[n] = replace(node, body=tuple(inside))
    return kernel.evolve(buffers=(*kernel.buffers, *added), body=tuple(body)) if added else kernel, same


def _fixed_sizes(kernel: Kernel, conditions: tuple[Condition, ...]) -> dict[str, int]:
    """The sizes that the conditions fix, with their values."""
    equal = [c for c in conditions if c.relation == "==" and c.right.is_constant]
    by_text = {str(c.left): c.right.offset for c in equal}
    return {name: by_text[name] for name in kernel.runtime_sizes if by_text.get(name, 0) > 0}


def _renamed(node: Node, names: Mapping[str, str]) -> Node:
    def new(access: Access) -> Access:
        name = names.get(access.buffer)
        return access if name is None else replace(access, buffer=name)

    return map_accesses(node, new)
