"""Evidence that what was found is right and fast: benches, gates, bundles of runs that a stranger proves again."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dojoir.evidence.bench import bench
    from dojoir.evidence.figures import Bench, Interval, Shape, Times, fast_p
    from dojoir.evidence.peers import PEERS, TorchFunction

_HOME = {
    "Bench": "figures",
    "Interval": "figures",
    "PEERS": "peers",
    "Shape": "figures",
    "Times": "figures",
    "TorchFunction": "peers",
    "bench": "bench",
    "fast_p": "figures",
}

__all__ = ["PEERS", "Bench", "Interval", "Shape", "Times", "TorchFunction", "bench", "fast_p"]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'dojoir.evidence' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"dojoir.evidence.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
