"""What runs only where sizes are numbers, in a form in which they are.

Of a kernel in versions each is a guard around launches. Under `if N == 512 and M == 64` indices, extents and
conditions have the numbers, and so have the dimensions of arguments: rows of 64 elements begin where vectors do,
and no product of sizes is left in an address. An argument has another name there, as its dimensions are others;
it is the same memory. No launch knows one array by two names: where there is a grid in a guard, all launches that
run anything of it are inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dojoir.codegen.lower.threads import has_mark
from dojoir.ir.nodes import Access, Buffer, Condition, Dim, Guard, Kernel, Node
from dojoir.ir.rewriting.rewrite import map_accesses
from dojoir.ir.rewriting.substitution import Replace, fixed_sizes, substitute
from dojoir.proof.core.marks import GRID


def with_known_sizes(kernel: Kernel) -> tuple[Kernel, dict[str, str]]:
    """The kernel with numbers in place of sizes in each outermost guard that says what these are, and the arguments
    that its other buffers are. Places in the text stay what they are."""
    body, added, same = list(kernel.body), list[Buffer](), dict[str, str]()
    taken = {buffer.name for buffer in kernel.buffers} | {size.name for size in kernel.sizes}
    for n, node in enumerate(kernel.body):
        if not isinstance(node, Guard) or not has_mark(node, GRID):
            continue
        known = _known(kernel, node.conditions)
        at, names = fixed_sizes(known), dict[str, str]()
        for buffer in kernel.arguments:
            fixed = _fixed(buffer, at)
            if fixed != buffer.dims:
                name = next(name for k in range(len(taken) + 1) if (name := f"{buffer.name}_{k}") not in taken)
                taken.add(name)
                names[buffer.name], same[name] = name, buffer.name
                added.append(replace(buffer, name=name, dims=fixed))
        inside = (substitute(_renamed(child, names), at) for child in node.body)
        body[n] = replace(node, body=tuple(inside))
    return kernel.evolve(buffers=(*kernel.buffers, *added), body=tuple(body)) if added else kernel, same


def _known(kernel: Kernel, conditions: tuple[Condition, ...]) -> dict[str, int]:
    """The sizes that conditions say the values of."""
    equal = [c for c in conditions if c.relation == "==" and c.right.is_constant]
    by_text = {str(c.left): c.right.offset for c in equal}
    return {name: by_text[name] for name in kernel.runtime_sizes if by_text.get(name, 0) > 0}


def _fixed(buffer: Buffer, at: Replace) -> tuple[Dim, ...]:
    return tuple(replace(dim, extent=dim.extent.substitute(at)) for dim in buffer.dims)


def _renamed(node: Node, names: Mapping[str, str]) -> Node:
    def new(access: Access) -> Access:
        name = names.get(access.buffer)
        return access if name is None else replace(access, buffer=name)

    return map_accesses(node, new)
