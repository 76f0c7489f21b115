"""Recognises a kernel without a temporary that nothing read, and without the statements that wrote it.

No other statement reads the temporary, so that no value that is left depends on it; the extents and conditions of
scopes and guards have no access in them. All else is the same text, and what is around it runs as it did.
"""

from __future__ import annotations

from dataclasses import replace

from dojoir.ir.nodes import Kernel, Node, Statement
from dojoir.proof.certificate import InstanceMap, identity


def is_without_dead(before: Kernel, after: Kernel, instances: InstanceMap) -> bool:
    """Whether the rewrite only took away a temporary that no other statement reads, with all that writes it."""
    gone = {buffer.name for buffer in before.buffers} - {buffer.name for buffer in after.buffers}
    if len(gone) != 1 or instances.inlined or instances.extracted:
        return False
    (name,) = gone
    writers = {k for k, site in enumerate(before.sites) if site.statement.target.buffer == name}
    kept = tuple(origin for k, origin in enumerate(identity(before).origins) if k not in writers)
    return (
        before.buffer(name).role == "tmp"
        and writers == set(before.users.get(name, ()))
        and instances == InstanceMap(kept)
        and after == before.without_buffers(name).evolve(body=without_writers(before.body, name))
    )


def without_writers(nodes: tuple[Node, ...], buffer: str) -> tuple[Node, ...]:
    """The tree without the statements that write a buffer, and without what that leaves empty."""
    kept: list[Node] = []
    for node in nodes:
        if not isinstance(node, Statement):
            body = without_writers(node.body, buffer)
            kept += [replace(node, body=body)] if body else []
        elif node.target.buffer != buffer:
            kept.append(node)
    return tuple(kept)
