"""Results of timed calls, held to what a kernel means; nothing that a contestant gave is believed."""

from __future__ import annotations

from collections.abc import Mapping

from dojoir.errors import RunError
from dojoir.ir.nodes import Kernel
from dojoir.meaning.packed import unpacked
from dojoir.runtime.measurement.result_files import FIRST, OTHER, WHERE, inputs_of
from dojoir.runtime.verification.compare import compare
from dojoir.runtime.verification.oracle import Oracle
from dojoir.runtime.verification.slack import slack_of
from dojoir.runtime.verification.trial import load_arrays


def hold(
    kernel: Kernel, against: Kernel, target: str, sizes: Mapping[str, int], seed: int, results: Mapping[str, str],
    time_limit: float,
) -> None:  # fmt: skip
    """Compares results, each in a file of `save_arrays`, with what `against` means on the inputs of `kernel`.
    Raises RunError, `wrong-result`, and as `verify` does."""
    oracle, slack = Oracle(against, target, time_limit), slack_of(against)
    inputs = inputs_of(kernel, sizes, seed)
    expected = {kind: oracle.expected(sizes, inputs[kind]) for kind in (FIRST, OTHER)}
    for kind, path in results.items():
        found, wanted = load_arrays(path), expected[OTHER if kind == OTHER else FIRST]
        for buffer in against.arguments:
            if buffer.role != "in":
                actual = unpacked(buffer, found[buffer.name])
                comparison = compare(buffer.name, buffer.dtype, actual, wanted[buffer.name], slack)
                if not comparison.ok:
                    raise RunError(f"wrong result: {comparison.worst} ({WHERE[kind]})", "wrong-result")
