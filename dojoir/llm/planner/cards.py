"""The bottleneck of a state, for a question: the card of `dojoir.profile` where times are measured; features of
its text where they are not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import dojoir
from dojoir import runtime
from dojoir.support.seconds import format_seconds

SECONDS = 30.0
"""The seconds that a card may take."""

SHOWN = ("instances", "flops", "accesses next", "accesses strided", "accesses gathered", "chains", "guards")
"""The features (`dojoir.search.features`) that are told where nothing is timed."""


@dataclass(frozen=True)
class CardBottleneck:
    """The bottleneck of a state, in `words`; and the share of the ceiling that it reaches, None where that is
    unknown."""

    words: str
    share: float | None = None
    of: str = ""


class Cards:
    """The bounds of states, each found once. `timer` is that of the search: `measure`, `static` or `cluster`."""

    def __init__(self, target: str, sizes: Mapping[str, int], threads: int, timer: str) -> None:
        self.target, self.sizes, self.threads, self.timer = target, dict(sizes), threads, timer
        self._known: dict[str, CardBottleneck] = {}

    @cached_property
    def ceilings(self) -> str:
        """What the machine reaches, as it was measured where states are timed; empty where others time."""
        machine = dojoir.machine_for(self.target)
        if machine.kind == "gpu" or self.timer == "cluster":
            return ""
        if self.timer == "measure":
            top = runtime.ceilings().at(self.threads)
            return f"Ceilings, measured: {top.memory:.3g} GB/s of memory, {top.fma_f32:.3g} GFLOP/s of f32."
        return f"Ceilings, by the model: {peak(machine, self.threads):.3g} GFLOP/s of f32."

    def of(self, kernel: dojoir.Kernel) -> CardBottleneck:
        """The bound of a kernel."""
        if kernel.hash not in self._known:
            self._known[kernel.hash] = self._measured(kernel) if self.timer == "measure" else self._read(kernel)
        return self._known[kernel.hash]

    def _measured(self, kernel: dojoir.Kernel) -> CardBottleneck:
        try:
            card = dojoir.profile(
                kernel, self.target, sizes=self.sizes, threads=self.threads, counted=False, time_limit=SECONDS
            )
        except dojoir.DojoError as error:
            return CardBottleneck(f"no card: {error.diagnostic.message[:200]}")
        lines = [f"bound by {card.kind}: {card.why}", f"{card.gbytes:.3g} GB/s, {card.gflops:.3g} GFLOP/s"]
        if card.share is not None:
            lines.append(f"it reaches {card.share:.0%} of the {card.of} ceiling of this machine")
        written = card.text.splitlines()
        lines += [f"hot line: {written[n - 1].strip()}" for n in card.lines if 0 < n <= len(written)]
        if not card.code.reason:
            code = card.code
            kinds = ", ".join(f"{count} {kind}" for kind, count in (code.kinds or {}).items())
            lines.append(f"hot loop: {code.instructions} instructions ({kinds}), {code.lanes} elements at a time, "
                         f"{code.stack:.0%} of them go to the stack (spills)")  # fmt: skip
        lines += [
            f"launch {one.name}: {one.registers} registers, {one.local_bytes} bytes spilled, {one.shared_bytes} "
            f"shared bytes, occupancy {one.occupancy:.0%}"
            for one in card.launches
        ]
        if card.moves:
            lines.append(f"legal moves that address it: {'; '.join(card.moves)}")
        return CardBottleneck("\n".join(lines), card.share, card.of or "")

    def _read(self, kernel: dojoir.Kernel) -> CardBottleneck:
        found = dojoir.search.features(kernel, self.sizes)
        seconds = dojoir.search.estimate(kernel, self.sizes, self.target, self.threads)
        counts = ", ".join(f"{found[name]:.3g} {name}" for name in SHOWN if found.get(name))
        least = dojoir.search.floor(kernel, self.sizes, self.target, self.threads)
        return CardBottleneck(
            f"not timed; estimated {format_seconds(seconds)} from the text: {counts}\n"
            f"no schedule is faster than {format_seconds(least)}, by the model; "
            f"it reaches {least / seconds:.0%} of that"
        )


def peak(machine: dojoir.Machine, threads: int) -> float:
    """The GFLOP/s of a CPU by the model: two sums and products in f32 a cycle and lane, at 3 GHz."""
    return 4 * machine.vector_bytes / 4 * 3 * max(1, threads)
