"""Evidence that what was found is right and fast: benches, gates, bundles of runs that a stranger proves again."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dojoir.evidence.benching import bench
    from dojoir.evidence.figures import Bench, Interval, Shape, Times, fast_p
    from dojoir.evidence.forms import from_text, schema, to_data, to_text
    from dojoir.evidence.gates import Asked, Gate, Gates, gate, gate_lines
    from dojoir.evidence.peers import PEERS, TorchFunction

_HOME = {
    "Asked": "gates",
    "Gate": "gates",
    "Gates": "gates",
    "from_text": "forms",
    "gate": "gates",
    "gate_lines": "gates",
    "schema": "forms",
    "to_data": "forms",
    "to_text": "forms",
    "Bench": "figures",
    "Interval": "figures",
    "PEERS": "peers",
    "Shape": "figures",
    "Times": "figures",
    "TorchFunction": "peers",
    "bench": "benching",
    "fast_p": "figures",
}

__all__ = [
    "PEERS",
    "Asked",
    "Bench",
    "Gate",
    "Gates",
    "Interval",
    "Shape",
    "Times",
    "TorchFunction",
    "bench",
    "fast_p",
    "from_text",
    "gate",
    "gate_lines",
    "schema",
    "to_data",
    "to_text",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'dojoir.evidence' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"dojoir.evidence.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
