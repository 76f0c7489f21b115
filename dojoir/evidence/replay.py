"""Proving a bundle again: every claim by its files, the machine code, the results, and, where that is asked for,
the times. The first difference is named."""

from __future__ import annotations

from collections.abc import Iterator

import dojoir
from dojoir.evidence.benching import bench
from dojoir.evidence.bundle import BENCH, TRACE, Said
from dojoir.evidence.bundle_reading import Bundle
from dojoir.evidence.claims import BundleProof, Prover
from dojoir.evidence.code import code_and_text
from dojoir.evidence.figures import Bench, sizes_in_words

SAME = 0.1
"""By how much a ratio that is taken again may be another than the one that a bundle has, beside its interval."""


def replay(given: Bundle, *, again: bool = False, seconds: float = 10.0) -> BundleProof:
    """Replays a bundle here; with `again` it is timed as well, beside what it was timed beside. Raises
    ArgumentError only for a bundle that has no answer (`no-answer`)."""
    _ = given.has(TRACE) or given.trace
    prover = Prover()
    prover.ask_claims(given)
    prover.ask("results", lambda: _results(given), ["moves"])
    if given.run.code is not None:
        prover.ask("built", lambda: _code(given), ["moves"])
    if again:
        prover.ask("times", lambda: _times(given, seconds), ["results"], BENCH)
    return BundleProof(given.run.name, tuple(prover.found))


def _code(given: Bundle) -> Said:
    kept, made = given.run.code, code_and_text(given.trace.kernel, given.run.target)
    now = None if made is None else made[0]
    assert kept is not None
    if now is None or (kept.compiler, kept.processor) != (now.compiler, now.processor):
        there = "none" if now is None else f"{now.compiler} for {now.processor}"
        return "unavailable", f"it was made by {kept.compiler} for {kept.processor}; here that is {there}"
    return ("pass", "") if kept.sha256 == now.sha256 else ("fail", "the machine code is another")


def _results(given: Bundle) -> Said:
    trace, run = given.trace, given.run
    report = dojoir.verify(trace.kernel, trace.start, target=run.target, threads=run.threads)
    if report.status == "undecided":
        return "undecided", f"too little could be compared: {', '.join(report.undecided)} inputs"
    return ("pass", f"{len(report.cases)} cases") if report.ok else ("fail", str(report.reason))


def _times(given: Bundle, seconds: float) -> Said:
    """The ratios once more, at the same shapes, beside the same peers by the same protocol."""
    kept = given.bench
    if kept is None:
        return "undecided", "nothing was benched"
    now = bench(
        given.trace, kept.target, shapes=[shape.sizes for shape in kept.shapes], beside=kept.names,
        threads=kept.threads, seconds=seconds, check=False,
    )  # fmt: skip
    why = incomparable(kept, now)
    if why is not None:
        return "undecided", f"incomparable: {why}"
    far = list(_far(kept, now))
    return ("fail", "; ".join(far[:3])) if far else ("pass", "every ratio is where it was")


def incomparable(one: Bench, other: Bench) -> str | None:
    """Why times of two benches may not be compared; None where they may."""
    for name in ("target", "threads", "protocol", "machine"):
        a, b = getattr(one, name), getattr(other, name)
        if a != b:
            return f"{name} is {a} and {b}"
    return None


def _far(kept: Bench, now: Bench) -> Iterator[str]:
    for old, new in zip(kept.shapes, now.shapes, strict=True):
        for peer in old.peers:
            other = new.peer(peer.name)
            if peer.ratio is None or other is None or other.ratio is None:
                continue
            if other.ratio.low > peer.ratio.high * (1 + SAME) or other.ratio.high < peer.ratio.low * (1 - SAME):
                yield f"beside {peer.name} at {sizes_in_words(old.sizes)} it is {other.ratio}, and was {peer.ratio}"
