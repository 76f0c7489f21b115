"""The bottleneck of a kernel: read off its share of the ceilings, its sizes, and the machine code of its hottest
loop.

A kernel that neither reaches the memory nor the arithmetic of the machine waits for something else. That may be the
call itself, or the thread that has most to do. In the loop that computes most it is values that do not fit into
registers and go to the stack, elements that are gathered one by one, or a chain of additions each of which waits
for the one before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from math import ceil, prod
from typing import Literal

from dojoir.backends.host import machine_for
from dojoir.costs.features import features
from dojoir.ir.nodes import Kernel
from dojoir.passes.engine.engine import candidates, check
from dojoir.runtime.build.emission import emit
from dojoir.runtime.build.host_targets import architecture
from dojoir.runtime.measurement.hot_loop import MachineLoop, hottest
from dojoir.runtime.measurement.measure import Measurement
from dojoir.support.frozen import dataclass
from dojoir.support.public import public
from dojoir.support.seconds import format_seconds

Kind = Literal["bytes", "FMA", "overhead", "imbalance", "occupancy", "spills", "gathers", "latency", "instructions"]

NEAR = 0.6
"""The share of a ceiling from which on that is what bounds a kernel."""

CHAINS = 8
"""How many sums side by side keep the units busy: additions take 4 cycles, and there are two units."""

MANY = 0.15
"""The share of the instructions of a loop from which on those to the stack, or of gathers, count."""

CALL_SECONDS, SHARED_SECONDS, LAUNCH_SECONDS = 2e-6, 12e-6, 6e-6
"""The time of a call with next to no work, in seconds: on one thread, on several, and on a GPU; twice that,
measured."""

UNEVEN = 1.25
"""How many times as long as its share of the work the thread that has most may take."""

MOST_MOVES, MOST_ASKED = 3, 12
"""How many moves are named that may help, and about how many the checker is asked."""

ADDRESSES: dict[Kind, tuple[str, ...]] = {
    "bytes": ("join_scopes", "stage", "reuse_dims", "stream", "prefetch", "tile"),
    "FMA": (),
    "overhead": ("join_scopes", "unmark"),
    "imbalance": ("collapse", "swap_scopes", "split", "unmark"),
    "occupancy": ("bind", "split", "collapse"),
    "spills": ("unmark", "split", "stage"),
    "gathers": ("swap_scopes", "stage", "reorder_dims"),
    "latency": ("vectorize", "split_reduction", "split", "unroll"),
    "instructions": ("vectorize", "unroll", "to_fma", "swap_scopes"),
}
"""The names of the moves that may help, best first."""


@dataclass(frozen=True)
class Bottleneck:
    """The bottleneck of a loop, and the reason in words."""

    kind: Kind
    why: str

    @property
    def moves(self) -> tuple[str, ...]:
        """The names of the moves that may help."""
        return ADDRESSES[self.kind]

    def legal_moves(self, kernel: Kernel, target: str) -> list[str]:
        """Some legal moves of these names, those of deep places first."""
        named: dict[str, list[str]] = {name: [] for name in self.moves}
        for move in candidates(kernel, target):
            if move.name in named:
                named[move.name].append(str(move))
        found: list[str] = []
        for text in islice(_in_turn(list(named.values())), MOST_ASKED):
            if len(found) < MOST_MOVES and check(kernel, text):
                found.append(text)
        return found

    def __repr__(self) -> str:
        return f"<Bottleneck {self}>"

    def _repr_html_(self) -> str:
        """The kind, why, and the names of the moves that may help, as a table for notebooks."""
        from dojoir.ir.html import table_html

        return table_html(self.kind, [("why", self.why), ("moves that may help", ", ".join(self.moves) or "none")])

    def __str__(self) -> str:
        return f"{self.kind}: {self.why}"


def _in_turn(lists: list[list[str]]) -> Iterator[str]:
    """The deepest of each name, then the next of each."""
    ordered = [sorted(one, key=lambda move: -move.partition(",")[0].count(".")) for one in lists]
    for n in range(max(map(len, ordered), default=0)):
        yield from (one[n] for one in ordered if n < len(one))


@public
def bottleneck(kernel: Kernel, measurement: Measurement) -> Bottleneck | None:
    """The bottleneck of a kernel that was measured on this machine: its bytes or its arithmetic, where it is near
    one of the ceilings. By its sizes it can be the call itself, or threads that have more work than others. Else
    the machine code of its hottest loop decides, if it ran through LLVM on an x86. None where nothing tells."""
    found = _of_ceilings(measurement.bound_by, measurement.fraction)
    found = found or _of_sizes(kernel, measurement)
    return found or _of_loop(hottest(machine_code(kernel, measurement.target)))


def machine_code(kernel: Kernel, target: str) -> str:
    """The machine code of a kernel as text, where it is LLVM's for an x86; nothing else is read."""
    name, _, cpu = target.partition("@")
    return emit(kernel, "asm", cpu=cpu or None) if name == "llvm" and architecture() == "x86_64" else ""


def of_code(asm: str, bound_by: str | None, fraction: float | None) -> Bottleneck | None:
    """The bottleneck of the kernel with such machine code, which reaches a `fraction` of the ceiling that it is
    `bound_by` (`memory` or `arithmetic`). None where neither tells."""
    return _of_ceilings(bound_by, fraction) or _of_loop(hottest(asm))


def _of_ceilings(bound_by: str | None, fraction: float | None) -> Bottleneck | None:
    if fraction is None or fraction < NEAR:
        return None
    kind: Kind = "bytes" if bound_by == "memory" else "FMA"
    what = "moves bytes" if kind == "bytes" else "multiplies and adds"
    return Bottleneck(kind, f"it {what} at {fraction:.0%} of what this machine reaches")


def _of_sizes(kernel: Kernel, measurement: Measurement) -> Bottleneck | None:
    """The bottleneck by its sizes: too little work for a call, or work that is not shared evenly."""
    extents = features(kernel, measurement.sizes)
    machine = machine_for(measurement.target)
    threads = measurement.threads if extents["extent p"] else 1
    empty = LAUNCH_SECONDS if machine.kind == "gpu" else SHARED_SECONDS if threads > 1 else CALL_SECONDS
    if measurement.seconds < empty:
        least = format_seconds(empty)
        return Bottleneck("overhead", f"a call of {format_seconds(measurement.seconds)} is within twice what one "
                          f"takes that does nothing ({least})")  # fmt: skip
    if machine.kind == "gpu":
        blocks = _extent(extents, ("gx", "gy", "gz"))
        if blocks < machine.multiprocessors:
            there = f"{machine.multiprocessors} multiprocessors"
            return Bottleneck("occupancy", f"a launch has {blocks} blocks, and the machine {there}")
        return None
    parts = int(extents["extent p"])
    share = ceil(parts / threads) * threads / max(1, parts)
    if threads > 1 and share > UNEVEN:
        most = ceil(parts / threads)
        return Bottleneck(
            "imbalance",
            f"{parts} iterations on {threads} threads: one has {most}, {share:.2f} times an even share",
        )
    return None


def _extent(extents: Mapping[str, float], marks: tuple[str, ...]) -> int:
    return prod(max(1, int(extents[f"extent {mark}"])) for mark in marks)


def _of_loop(loop: MachineLoop | None) -> Bottleneck | None:
    if loop is None:
        return None
    count = len(loop.code)
    if loop.on_stack >= MANY:
        return Bottleneck("spills", f"{loop.on_stack:.0%} of the {count} instructions of the loop go to the stack")
    if loop.share("gathers") >= MANY:
        share = f"{loop.share('gathers'):.0%}"
        return Bottleneck("gathers", f"{share} of the {count} instructions of the loop gather")
    if 0 < loop.sums < CHAINS and loop.waits:
        lanes = f" of {loop.lanes} lanes" if loop.lanes > 1 else ""
        chains = f"{loop.sums} sum{'s' if loop.sums > 1 else ''}{lanes}"
        return Bottleneck("latency", f"each iteration waits for {chains}, and {CHAINS} side by side fill the units")
    what = "multiply integers" if loop.share("integers") > loop.share("floats") else "compute on floats"
    lanes = f", {loop.lanes} elements at a time" if loop.lanes > 1 else ""
    why = f"{loop.work / count:.0%} of the {count} instructions of the loop {what}{lanes}"
    return Bottleneck("instructions", why)
