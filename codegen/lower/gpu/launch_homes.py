"""Where temporaries that live as long as a launch are declared: inside of it, however far out its host code stands.

A launch in a loop of the host is another one in each iteration, in which registers and shared memory have nothing
of the one before. What an iteration leaves for the next is refused there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dojoir.codegen.lower.gpu.launches import Launched
from dojoir.codegen.lower.gpu.thread_plan import Threads
from dojoir.codegen.lower.plans.placement import Home, may_carry
from dojoir.errors import Diagnostic, KernelError
from dojoir.ir.nodes import Kernel, Path, Scope
from dojoir.ir.where import place
from dojoir.proof.core.written import gives_itself


def within_launches(threads: Threads, homes: Mapping[str, Home]) -> dict[str, Home]:
    """The homes, each of a launch inside of it. Raises KernelError where two launches use a temporary that lives
    as long as one."""
    return {name: _within(threads, home) for name, home in homes.items()}


def _within(threads: Threads, home: Home) -> Home:
    if home.buffer.storage == "heap":
        return home
    kernel = threads.kernel
    for launched in threads.launches:
        held = {launched.holds(use.site.path) for use in home.uses}
        if len(held) > 1:
            raise _crosses(kernel, home, "two launches use it")
        if True in held:
            own = launched.grid[0] if launched.grid else launched.body
            around = () if gives_itself(kernel, home.buffer, own) else _host_scopes(kernel, launched)
            if any(may_carry(kernel, path, home.buffer.name) for path in around):
                raise _crosses(kernel, home, "a launch may read what the one before it left there")
            return _inside(kernel, launched, home)
    return home


def _inside(kernel: Kernel, launched: Launched, home: Home) -> Home:
    """The home, at the launch where it is further out."""
    if len(home.owner) >= len(launched.body):
        return home
    scopes = (kernel.at(launched.body[:end]) for end in range(1, len(launched.body) + 1))
    return replace(home, owner=launched.body, around=tuple(node for node in scopes if isinstance(node, Scope)))


def _host_scopes(kernel: Kernel, launched: Launched) -> tuple[Path, ...]:
    """The scopes around a launch, from the outside in."""
    outer = launched.grid[0][:-1] if launched.grid else launched.parent
    paths = (outer[:end] for end in range(1, len(outer) + 1))
    return tuple(path for path in paths if isinstance(kernel.at(path), Scope))


def _crosses(kernel: Kernel, home: Home, why: str) -> KernelError:
    buffer = home.buffer
    source, span = place(kernel, (), kernel.buffer(buffer.name))  # as it is declared
    message = (
        f"{buffer.name} is in `{buffer.storage}`, and {why}: what is to stay from one to the next lives "
        f"in global memory: place({buffer.name}, heap)"
    )
    return KernelError(Diagnostic("crosses-launches", message, span, source))
