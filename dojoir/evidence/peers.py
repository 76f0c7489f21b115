"""The peers that a kernel is timed beside: its text, what the rules make of it, and libraries."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import dojoir
from dojoir import runtime
from dojoir.cli.hints import nearest

PEERS = ("text", "optimize", "default", "c", "numpy", "torch", "compile")
"""The text as it was written; what `optimize` and `default_schedule` make of it; the text through a C compiler;
NumPy; PyTorch, eager and compiled."""


@dataclass(frozen=True)
class TorchFunction:
    """A function of PyTorch in a file: it takes the kernel's `in` and `inout` arguments in declared order, and
    gives what the kernel puts out."""

    path: str
    name: str

    @classmethod
    def of(cls, text: str) -> TorchFunction:
        """`FILE:function`. Raises ArgumentError, `bad-arguments` or `cannot-read`."""
        path, colon, name = text.rpartition(":")
        if not (colon and path and name.isidentifier()):
            raise dojoir.ArgumentError(
                f"{text} names no function of a file: write --torch FILE.py:function", "bad-arguments"
            )
        if not os.path.isfile(path):
            raise dojoir.ArgumentError(f"cannot read {path}: there is no such file", "cannot-read")
        return cls(os.path.abspath(path), name)


def check_peers(names: Sequence[str]) -> None:
    """Raises ArgumentError, `unknown-peer`, for a name that is none of PEERS."""
    for name in names:
        if name not in PEERS:
            known = ", ".join(PEERS)
            message = f"there is no peer {name} to bench beside{nearest(name, PEERS)}: {known}"
            raise dojoir.ArgumentError(message, "unknown-peer")


@dataclass(frozen=True)
class Absent:
    """A peer that there is not, and why."""

    reason: str


def peer(
    name: str,
    kernel: dojoir.Kernel,
    start: dojoir.Kernel,
    target: str,
    sizes: Mapping[str, int],
    threads: int,
    torch: TorchFunction | None = None,
) -> runtime.Contestant | Absent:
    """The peer of a kernel of this name; `start` is the text it was made of. Raises ArgumentError,
    `unknown-peer`."""
    try:
        found = _peer(name, start, target, sizes, threads, torch)
    except (dojoir.ArgumentError, dojoir.KernelError, dojoir.ToolchainError) as error:
        if error.diagnostic.code == "unknown-peer":
            raise
        return Absent(error.diagnostic.message)
    if found == kernel:
        return Absent("it is the kernel itself")
    return found


def _peer(
    name: str,
    start: dojoir.Kernel,
    target: str,
    sizes: Mapping[str, int],
    threads: int,
    torch: TorchFunction | None,
) -> runtime.Contestant | Absent:
    match name:
        case "text":
            return start
        case "optimize":
            return dojoir.optimize(start, target, sizes=sizes, threads=threads).kernel
        case "default":
            return dojoir.PASSES["default_schedule"].for_machine(dojoir.machine_for(target)).on(start).kernel
        case "c":
            if dojoir.machine_for(target).warp:
                return Absent("C runs on the CPU, and what it is beside on a GPU")
            return runtime.ForTarget(start, "c")
        case "numpy":
            if dojoir.machine_for(target).warp:
                return Absent("NumPy runs on the CPU, and what it is beside on a GPU")
            made = dojoir.kernels.numpy_version(start)
            return Absent(f"there is no NumPy version of {start.name}") if made is None else made
        case "torch" | "compile":
            return _torch(name, start, torch)
    check_peers([name])
    raise AssertionError(name)


def _torch(name: str, start: dojoir.Kernel, given: TorchFunction | None) -> runtime.PythonCode | Absent:
    """The call of a PyTorch function on the arrays of a kernel: of `given`, or of the library kernel's own."""
    path, function = ("", start.name) if given is None else (given.path, given.name)
    if given is None and not dojoir.kernels.has_torch_version(start):
        return Absent(f"there is no PyTorch version of {start.name} here: give one with --torch FILE:function")
    taken = [buffer.name for buffer in start.arguments if buffer.role != "out"]
    given_out = [buffer.name for buffer in start.arguments if buffer.role != "in"]
    call = f"bound({path!r}, {function!r}, dict(globals()), {taken!r}, {given_out!r}, {name == 'compile'})"
    return runtime.PythonCode(
        "_call()", setup=f"from dojoir.evidence.torch_call import bound\n_call = {call}", name=name
    )


def contestants(
    names: Sequence[str],
    kernel: dojoir.Kernel,
    start: dojoir.Kernel,
    target: str,
    sizes: Mapping[str, int],
    threads: int,
    torch: TorchFunction | None,
) -> tuple[dict[str, runtime.Contestant], dict[str, str]]:
    """The peers of these names, and why others are left out."""
    there: dict[str, runtime.Contestant] = {}
    left_out: dict[str, str] = {}
    for name in dict.fromkeys(names):
        found = peer(name, kernel, start, target, sizes, threads, torch)
        if isinstance(found, Absent):
            left_out[name] = found.reason
        else:
            there[name] = found
    return there, left_out
