"""Kernels as they were first read from their texts: a new process needs no parser for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import count

from dojoir.errors import Source
from dojoir.ir.instruction import Instruction
from dojoir.ir.kernel import Kernel
from dojoir.ir.stored import from_bytes, to_bytes
from dojoir.support.shelf import keep, shelf_key, taken

MOST_KEPT = 64
"""How many texts a process keeps for others: one that reads more has use for the parser anyway."""

_reads = count()


@lru_cache(maxsize=128)
def kept_kernel(
    source: Source, instruction: Callable[[str], Instruction] | None = None, for_others: bool = True
) -> Kernel:
    """The kernel of a text; `instruction` finds those that it names, None where it may name none. It is kept in
    this process, and where it is `for_others`, in the cache folder. Raises ParseError and KernelError."""
    key = shelf_key("kernel", source.name, source.text) if for_others else None
    data = taken(key)
    found = None if data is None else from_bytes(data)
    if found is not None:
        return found
    from dojoir.grammar.parser import written_kernel

    kernel = written_kernel(source, instruction)
    if key is not None and next(_reads) < MOST_KEPT:
        keep(key, to_bytes(kernel))
    return kernel
