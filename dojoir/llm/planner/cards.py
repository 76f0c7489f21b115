"""The bottleneck of a state, for a question: the card of `dojoir.profile` where times are measured; features of
its text where they are not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import dojoir
from dojoir.support.seconds import format_seconds

SECONDS = 30.0
"""The seconds that a card may take."""

SHOWN = ("instances", "flops", "accesses next", "accesses strided", "accesses gathered", "chains", "guards")
"""The features (`dojoir.search.features`) that are told where nothing is timed."""


@dataclass(frozen=True)
class Bound:
    """The bottleneck of a state, in `words`; and the share of the ceiling that it reaches, None where that is
    unknown."""

    words: str
    share: float | None = None
    of: str = ""


class Cards:
    """The bounds of states, each found once. `timer` is that of the search: `measure`, `static` or `cluster`."""

    def __init__(self, target: str, sizes: Mapping[str, int], threads: int, timer: str) -> None:
        self.target, self.sizes, self.threads, self.timer = target, dict(sizes), threads, timer
        self._known: dict[str, Bound] = {}

    def of(self, kernel: dojoir.Kernel) -> Bound:
        """The bound of a kernel."""
        if kernel.hash not in self._known:
            self._known[kernel.hash] = self._measured(kernel) if self.timer == "measure" else self._read(kernel)
        return self._known[kernel.hash]

    def _measured(self, kernel: dojoir.Kernel) -> Bound:
        try:
            card = dojoir.profile(
                kernel, self.target, sizes=self.sizes, threads=self.threads, counted=False, time_limit=SECONDS
            )
        except dojoir.DojoError as error:
            return Bound(f"no card: {error.diagnostic.message[:200]}")
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
        return Bound("\n".join(lines), card.share, card.of or "")

    def _read(self, kernel: dojoir.Kernel) -> Bound:
        found = dojoir.search.features(kernel, self.sizes)
        seconds = dojoir.search.estimate(kernel, self.sizes, self.target, self.threads)
        counts = ", ".join(f"{found[name]:.3g} {name}" for name in SHOWN if found.get(name))
        return Bound(f"not timed; estimated {format_seconds(seconds)} from the text: {counts}")
