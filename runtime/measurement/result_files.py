"""The results of timed calls that are kept to be held to a reference, and the inputs of these calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

import numpy as np

from dojoir.ir.nodes import Kernel
from dojoir.runtime.call.scalars import takes_value
from dojoir.runtime.verification.inputs import make_inputs
from dojoir.runtime.verification.trial import save_arrays
from dojoir.support.frozen import dataclass

FIRST, AMONG, OTHER = "first", "among", "other"
"""The results that are kept of the first contestant: of its first call, of a call among the samples that gave other
bits, and of a call on other inputs after all of them."""

WHERE = {
    FIRST: "its first call",
    AMONG: "one of its timed calls",
    OTHER: "a call on other inputs after its timed calls",
}


@dataclass
class ResultFiles:
    """Files of results, `folder-name` each; without a folder nothing is kept."""

    folder: str | None
    names: list[str] = field(default_factory=list)

    def __call__(self, name: str, outputs: Mapping[str, np.ndarray]) -> None:
        if self.folder is not None:
            save_arrays(f"{self.folder}-{name}", outputs)
            self.names += [name] if name not in self.names else []


def inputs_of(kernel: Kernel, sizes: Mapping[str, int], seed: int) -> dict[str, dict[str, np.ndarray]]:
    """The inputs of each of these calls: scalars, which are a part of a call, are the same in all."""
    first, other = (make_inputs(kernel, sizes, seed + more, "uniform") for more in (0, 1))
    other |= {buffer.name: first[buffer.name] for buffer in kernel.arguments if takes_value(buffer)}
    return {FIRST: first, AMONG: first, OTHER: other}
