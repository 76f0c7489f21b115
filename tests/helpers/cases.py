"""The kinds of random cases that `fuzz.py` runs."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import attacks
import blurred
import claims
import differential
import effects
import evaluated
import everywhere
import failing_calls
import faults
import footprint_runs
import gpu_copies
import gpu_walks
import padded
import walks
from drawing.table import words_in
from shrinking import shrink

import dojoir
from dojoir.ir.nodes import Kernel

EXAMINED = {
    "blurred": blurred.examine, "claims": claims.examine, "effects": effects.examine, "padded": padded.examine,
    "states": evaluated.examine,
}  # fmt: skip


def case(
    kind: str, number: int, random: Random, fast: bool, small: float, targets: tuple[str, ...]
) -> dict[str, Any]:
    """Runs one case: its failures, each as text with a minimal reproduction, and what it counted. `small` is how
    often a walk is on a kernel with few statements; some kinds ask some `targets` alone."""
    counts: Counter[str] = Counter()
    on = ("llvm",) if fast else differential.targets()
    match kind:
        case "kernels":
            failures = _kernels(random, on, fast, counts)
        case "mutations":
            text, wrong = differential.mutation(random, on)
            failures = [] if wrong is None else [(wrong, text, "")]
        case "walks":
            made = walks.walk(random, random.choices(((), on[:1], on), (0.9, 0.07, 0.03))[0], small=small)
            counts = made.counts
            failures = [(failure.what, failure.text(), "") for failure in made.failures]
        case "faults":
            failures = [(found.what, found.text(), "") for found in faults.plant(random, counts)]
        case "errors":
            kernel, wrong = failing_calls.examine(random, counts)
            failures = [] if wrong is None else [(wrong, dojoir.to_text(kernel), "")]
        case "gpu":
            walk = gpu_walks.walk(random)
            counts, failures = walk.counts, [(what, "", "") for what in walk.failures]
        case "copies":
            wrong = gpu_copies.wrong(gpu_copies.copying_kernel(random), random)
            failures = [] if wrong is None else [(wrong, "", "")]
        case "footprints" | "foot-texts":
            texts = footprint_runs.examine(kind == "foot-texts", number, random, targets, counts)
            failures = [(what, "", "") for what in texts]
        case "library" | "practice":
            texts = everywhere.examine(kind == "practice", number, random, targets, counts)
            failures = [(what, "", "") for what in texts]
        case _ if kind in attacks.FAMILIES:
            texts, counts = attacks.case(kind, random)
            failures = [(what, "", "") for what in texts]
        case _ if kind in EXAMINED:
            failures = [(what, text, "") for what, text in EXAMINED[kind](random, counts)]
        case _:
            raise ValueError(kind)
    named = [dict(zip(("what", "text", "minimal"), failure, strict=True)) for failure in failures]
    return {"failures": named, "counts": counts}


def _kernels(random: Random, on: tuple[str, ...], fast: bool, counts: Counter[str]) -> list[tuple[str, str, str]]:
    kernel, wrong = differential.generated(random, on)
    counts.update(" ".join(word) for word in words_in(kernel))
    if wrong is None:
        return []

    def fails(smaller: Kernel) -> bool:
        exact = differential.is_bitwise(kernel)
        return any(differential.examine(smaller, Random(n), exact, on) is not None for n in range(3))

    return [(wrong, dojoir.to_text(kernel), "" if fast else dojoir.to_text(shrink(kernel, fails)))]
