"""A target as one value: what it is, and where the code for it is found."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from dojoir.backends.machine import Machine
from dojoir.errors import Diagnostic, KernelError, Note
from dojoir.ir.nodes import Kernel
from dojoir.support.frozen import dataclass

CPU_MARKS = frozenset({"p", "v", "u"})
GPU_MARKS = CPU_MARKS | {"gx", "gy", "gz", "bx", "by", "bz", "lane"}
CPU_STORAGE = frozenset({"heap", "stack", "reg"})


@dataclass(frozen=True)
class Backend:
    """A target: data, with the names of its code as `module:function`, each imported when it is first used.

    `about` is a line for people. `machine` is what kernels for it are scheduled for (None: the processor that is
    named, or this one). `marks` are those of scopes that it makes use of, others run as plain loops; `storage` is
    where temporaries may be told to live. `lacks` are types of buffers that it cannot take.

    - `emit(kernel, name, cpu) -> str` gives the source of a kernel.
    - `target(name, cpu) -> Target` is what the lowering asks of it ("": it takes no lowered program).
    - `compile(kernel, name, threads, cpu) -> Compiled` gives the callable of a kernel that is proved ("": nothing
      of it runs from here); `emulate(kernel, name) -> Compiled` runs the same code on the CPU, checked.
    - `way(name) -> str` says how it runs here, in a few words, or raises ToolchainError with the cure.
    - `on_host(compiled) -> Compiled` is the same kernel on arrays of the CPU, for checking ("": its arrays are
      there anyway).
    """

    name: str
    about: str
    emit: str
    target: str = ""
    compile: str = ""
    emulate: str = ""
    way: str = ""
    on_host: str = ""
    machine: Machine | None = None
    marks: frozenset[str] = CPU_MARKS
    storage: frozenset[str] = CPU_STORAGE
    lacks: frozenset[str] = frozenset()

    @property
    def is_device(self) -> bool:
        """Whether its memory is another than the CPU's."""
        return self.on_host != ""


def code(reference: str) -> Callable[..., Any]:
    """The function that `module:function` names."""
    module, _, name = reference.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found


def check_types(kernel: Kernel, backend: Backend) -> None:
    """Raises KernelError for a buffer of a type that the target lacks."""
    for buffer in kernel.buffers:
        if buffer.dtype.name in backend.lacks:
            message = f"target {backend.name} has no {buffer.dtype}, the type of {buffer.name}"
            note = Note(f"it lacks {', '.join(sorted(backend.lacks))}: take another target, or convert outside")
            raise KernelError(Diagnostic("missing-type", message, notes=(note,)))
