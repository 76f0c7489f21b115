"""The context that must agree before two times may be compared: machine, target, sizes, threads, protocol,
versions."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import dojoir
from dojoir import runtime

STATIC = "static"
"""The protocol of what was ranked by its text alone: no times, and nothing to verify."""

Sizes = Mapping[str, int] | Sequence[Mapping[str, int]]
"""The sizes of one timing, or of several that count together."""


@dataclass(frozen=True)
class Context:
    """Where and how something was timed. `sizes` are the runtime sizes as text (`sizes_text`); `protocol` names how
    times were taken; `versions` are those of what makes the code."""

    machine: str
    facts: str
    target: str
    sizes: str
    threads: int
    protocol: str
    versions: str

    @property
    def machine_digest(self) -> str:
        """The same for what is the same machine."""
        return digest(self.machine, self.facts)

    def digest_for(self, kernel: str) -> str:
        """The same only where all agrees, for a kernel by its hash."""
        return digest(
            kernel, self.machine_digest, self.target, self.sizes, str(self.threads), self.protocol, self.versions
        )


def here(target: str, sizes: Sizes | None, threads: int | None, protocol: str, kernel: dojoir.Kernel) -> Context:
    """The context of this machine. Of `sizes`, those that the kernel does not fix count."""
    name, facts = this_machine(target)
    at = sizes_text(kernel, sizes or {})
    return Context(name, facts, target, at, runtime.thread_count(threads), protocol, versions_here())


@cache
def this_machine(target: str) -> tuple[str, str]:
    """The name of the machine that a target is run on here, and what tells it from others, as JSON. The model of
    the processor, its cores, its caches, and for a GPU what the driver says of it."""
    machine = dojoir.machine_for(target)
    facts = {
        "model": _model(),
        "system": platform.system(),
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "processor": runtime.processor(),
        "machine": {name: int(value) for name, value in machine.facts.items()},
    }
    return machine.name, json.dumps(facts, sort_keys=True)


def _model() -> str:
    """The model of the processor by the system, as exact as it says."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                word, _, value = line.partition(":")
                if word.strip() == "model name":
                    return value.strip()
    except OSError:
        pass
    return platform.processor()


@cache
def versions_here() -> str:
    """The versions of what makes machine code: a time says nothing of what another version would make."""
    from importlib.metadata import version

    return f"dojoir {dojoir.__version__}, llvmlite {version('llvmlite')}"


def sizes_text(kernel: dojoir.Kernel, sizes: Sizes) -> str:
    """Sizes as one text, the same for the same sizes: an object of JSON, or a list of them where a kernel was timed
    at several."""
    if isinstance(sizes, Mapping):
        return json.dumps({name: int(sizes[name]) for name in sorted(kernel.runtime_sizes) if name in sizes})
    each = [sizes_text(kernel, one) for one in sizes]
    return each[0] if len(each) == 1 else f"[{', '.join(each)}]"


def digest(*words: str) -> str:
    """A short name for texts, the same on every machine."""
    return hashlib.blake2b("\0".join(words).encode(), digest_size=16).hexdigest()
