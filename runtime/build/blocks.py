"""Memory for the temporaries of kernels, kept from one call to the next.

A kernel allocates its `heap` temporaries at each call and frees them at its end. Large ones go back to the system
then, and the next call gets them a page at a time. Each page costs a fault and 4 KB of zeros, which can take longer
than all that the kernel computes.

Kernels that LLVM compiles in this process have a `malloc` and a `free` of their own, in LLVM IR. Blocks that were
given back last stay in some slots. The next call of any kernel that asks for about as much takes one. No lock is
held, so that threads and forks need no care. Code that is emitted as text calls those of the system.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from string import Template

from dojoir.runtime.build.llvm_engine import LoadedCode, build
from dojoir.runtime.build.pool import parallel_for
from dojoir.support.cache import Cache

SLOTS = 16
"""How many blocks are kept."""

LEAST = 1 << 16
"""The bytes of the smallest block that is kept: a system keeps smaller ones itself."""

MOST = 1 << 28
"""How many bytes all blocks that are kept have at most."""

ALLOCATE, FREE = "dojo_allocate", "dojo_free"
"""The functions of blocks.ll."""


def symbols_of(text: str, threads: int) -> Mapping[str, int]:
    """The addresses of what the LLVM module of a kernel calls, but for functions of the process: what shares its
    loops out to so many `threads`, and what gives it memory."""
    found = {"dojo_parallel_for": parallel_for(threads)} if "@dojo_parallel_for" in text else {}
    if "@malloc(" in text:
        addresses = _shared().addresses
        found = {**found, "malloc": addresses[ALLOCATE], "free": addresses[FREE]}
    return found


@cache
def _shared() -> LoadedCode:
    """What all kernels of this process share."""
    return memory()


def memory() -> LoadedCode:
    """Another pair of functions ALLOCATE and FREE, which keep blocks in slots of their own."""
    source = files(__package__).joinpath("blocks.ll").read_text(encoding="utf-8")
    text = Template(source).substitute(SLOTS=SLOTS, LEAST=LEAST, MOST=MOST)
    return build(text, [ALLOCATE, FREE], {}, Cache.default())
