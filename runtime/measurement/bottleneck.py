"""What bounds the innermost loop of a kernel: read off its machine code, and off how near it comes to the ceilings.

The loop that counts is the one with the most arithmetic on floats, else on vectors. A loop that neither reaches the
memory nor the arithmetic of the machine waits for something else: values that do not fit into registers and go to
the stack, elements that are gathered one by one, or a chain of additions each of which waits for the one before.
Only the code of x86 is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from dojoir.ir.nodes import Kernel
from dojoir.runtime.build.emission import emit
from dojoir.runtime.build.host import architecture
from dojoir.runtime.measurement.measure import Measurement
from dojoir.support.frozen import dataclass
from dojoir.support.public import public

Kind = Literal["bytes", "FMA", "spills", "gathers", "latency", "instructions"]

NEAR = 0.6
"""The share of a ceiling from which on that is what bounds a kernel."""

CHAINS = 8
"""How many sums side by side keep the units busy: additions take 4 cycles, and there are two units."""

MANY = 0.15
"""The share of the instructions of a loop from which on those to the stack, or of gathers, count."""

ADDRESSES: dict[Kind, tuple[str, ...]] = {
    "bytes": ("join_scopes", "stage", "reuse_dims", "stream", "prefetch", "tile"),
    "FMA": (),
    "spills": ("unmark", "split", "stage"),
    "gathers": ("swap_scopes", "stage", "reorder_dims"),
    "latency": ("vectorize", "split_reduction", "split", "unroll"),
    "instructions": ("vectorize", "unroll", "to_fma", "swap_scopes"),
}
"""The names of the moves that may help, best first."""

_LABEL = re.compile(r"^([.\w$]+):")
_JUMP = re.compile(r"^\s+j\w+\s+([.\w$]+)\s*(?:#.*)?$")
_STACK = re.compile(r"-?\w*\(%(?:rsp|rbp)\)")
_SUM = re.compile(r"^v?(?:add[sp][sdh]|fn?m(?:add|sub)\d+[sp][sdh]|padd[bwdq])$")
_FLOAT = re.compile(r"^v?(?:add|sub|mul|div|sqrt|max|min|fn?m(?:add|sub)\d+)[sp][sdh]$")
_WHOLE = re.compile(r"^v?(?:pdp\w+|pmadd\w+|pmul[lh]\w+|pmuludq|pmuldq)$")
_GATHER = re.compile(r"^v?(?:p?gather\w+|pinsr\w|insertps)$")


@dataclass(frozen=True)
class Loop:
    """The instructions of an innermost loop: each its name and its operands."""

    code: tuple[tuple[str, str], ...]

    def share(self, form: re.Pattern[str]) -> float:
        """The share of instructions with such names."""
        return sum(bool(form.match(name)) for name, _ in self.code) / max(1, len(self.code))

    @property
    def work(self) -> int:
        """How many instructions compute on floats or multiply integers: a loop that packs what another one
        multiplies has none."""
        return sum(bool(_FLOAT.match(name) or _WHOLE.match(name)) for name, _ in self.code)

    @property
    def on_stack(self) -> float:
        """The share of those that touch the stack."""
        return sum(bool(_STACK.search(operands)) for _, operands in self.code) / max(1, len(self.code))

    @property
    def sums(self) -> int:
        """How many registers are added to that the next iteration adds to again: chains side by side."""
        found = set()
        for name, operands in self.code:
            registers = re.findall(r"%[xyz]mm\d+", operands)
            if _SUM.match(name) and registers and (registers[-1] in registers[:-1] or "fm" in name):
                found.add(registers[-1])
        return len(found)


@dataclass(frozen=True)
class Bottleneck:
    """What bounds a loop, and in words why."""

    kind: Kind
    why: str

    @property
    def moves(self) -> tuple[str, ...]:
        """The names of the moves that may help."""
        return ADDRESSES[self.kind]

    def __str__(self) -> str:
        return f"{self.kind}: {self.why}"


@public
def bottleneck(kernel: Kernel, measurement: Measurement) -> Bottleneck | None:
    """What bounds a kernel that was measured on this machine: its bytes or its arithmetic, where it is near one of
    the ceilings; else what the machine code of its innermost loop shows, if it ran through LLVM on an x86. None
    where neither tells."""
    target, _, cpu = measurement.target.partition("@")
    asm = emit(kernel, "asm", cpu=cpu or None) if target == "llvm" and architecture() == "x86_64" else ""
    return of_code(asm, measurement.bound_by, measurement.fraction)


def of_code(asm: str, bound_by: str | None, fraction: float | None) -> Bottleneck | None:
    """What bounds the kernel with such machine code, which reaches a `fraction` of the ceiling that it is
    `bound_by` (`memory` or `arithmetic`). None where neither tells."""
    if fraction is not None and fraction >= NEAR:
        kind: Kind = "bytes" if bound_by == "memory" else "FMA"
        what = "moves bytes" if kind == "bytes" else "multiplies and adds"
        return Bottleneck(kind, f"it {what} at {fraction:.0%} of what this machine reaches")
    loop = max(_innermost(asm), key=lambda one: (one.work, len(one.code)), default=None)
    if loop is None or not loop.code:
        return None
    count = len(loop.code)
    if loop.on_stack >= MANY:
        return Bottleneck("spills", f"{loop.on_stack:.0%} of the {count} instructions of the loop go to the stack")
    if loop.share(_GATHER) >= MANY:
        return Bottleneck("gathers", f"{loop.share(_GATHER):.0%} of the {count} instructions of the loop gather")
    if 0 < loop.sums < CHAINS:
        chains = f"{loop.sums} sum{'s' if loop.sums > 1 else ''}"
        return Bottleneck("latency", f"each iteration waits for {chains}, and {CHAINS} side by side fill the units")
    what = "multiply integers" if loop.share(_WHOLE) > loop.share(_FLOAT) else "compute on floats"
    return Bottleneck("instructions", f"{loop.work / count:.0%} of the {count} instructions of the loop {what}")


def _innermost(asm: str) -> Iterator[Loop]:
    """The loops without another inside: from a label to a jump back to it."""
    lines = asm.splitlines()
    at = {match[1]: n for n, line in enumerate(lines) if (match := _LABEL.match(line))}
    jumps = [(at[match[1]], n) for n, line in enumerate(lines) if (match := _JUMP.match(line)) and match[1] in at]
    back = [(start, end) for start, end in jumps if start < end]
    for start, end in back:
        if not any((a, b) != (start, end) and start <= a and b <= end for a, b in back):
            yield Loop(tuple(_instructions(lines[start : end + 1])))


def _instructions(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        text = line.partition("#")[0]
        words = text.split(None, 1)
        if text[:1].isspace() and words and not words[0].startswith("."):
            yield words[0], words[1] if len(words) > 1 else ""
