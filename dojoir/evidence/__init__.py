"""Evidence that what was found is right and fast: benches, gates, bundles of runs that a stranger proves again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dojoir.support.lazily import lazily

if TYPE_CHECKING:
    from dojoir.evidence.benching import bench
    from dojoir.evidence.bundle import Gate
    from dojoir.evidence.figures import Bench, Shape, Times, fast_p
    from dojoir.evidence.gates import Asked, Gates, gate, gate_lines
    from dojoir.evidence.peers import PEERS, TorchFunction
    from dojoir.records.plain_data import from_text, schema, to_data, to_text

__all__ = [
    "PEERS", "Asked", "Bench", "Gate", "Gates", "Shape", "Times", "TorchFunction", "bench",
    "fast_p", "from_text", "gate", "gate_lines", "schema", "to_data", "to_text",
]  # fmt: skip
__getattr__, __dir__ = lazily(__name__, Interval="dojoir.runtime.Ratio")
