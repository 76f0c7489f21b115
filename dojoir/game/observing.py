"""Observations of a state: a box of numbers for each way to look at it, or several of them by name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

import dojoir
from dojoir.game.actions import Actions, rows
from dojoir.game.encoders import MOVE_SIZE, Encoder

LONGEST = 8192
"""How many bytes of a text are seen."""

WAYS = ("text", "features", "embedding", "moves")
"""text: the kernel as UTF-8, zeros after its end. features: `dojoir.search.features`, each number x as the
logarithm sign(x) log2(1 + |x|). embedding: the vector of an encoder. moves: a row of numbers for each action."""

MOST = 128.0
"""The bound of a feature: more than the logarithm of any."""


class Observer:
    """Makes observations: one box for one way to look, a dict for several."""

    def __init__(self, ways: str | tuple[str, ...], capacity: int, encoder: Encoder, target: str) -> None:
        self.one = isinstance(ways, str)
        self.ways = (ways,) if isinstance(ways, str) else tuple(ways)
        unknown = [way for way in self.ways if way not in WAYS]
        if unknown or not self.ways or len(set(self.ways)) < len(self.ways):
            raise dojoir.ArgumentError(
                f"an observation is one of {', '.join(WAYS)}, or several of them, not {ways!r}", "bad-arguments"
            )
        self.capacity, self.encoder, self.target = capacity, encoder, target
        self.names = tuple(feature_values(dojoir.kernels.load("relu"), {"N": 8}, target))
        boxes = {way: self._box(way) for way in self.ways}
        self.space: spaces.Space[Any] = boxes[self.ways[0]] if self.one else spaces.Dict(dict(boxes))

    def _box(self, way: str) -> spaces.Box:
        match way:
            case "text":
                return spaces.Box(0, 255, (LONGEST,), np.uint8)
            case "features":
                return spaces.Box(-MOST, MOST, (len(self.names),), np.float32)
            case "embedding":
                return spaces.Box(-1, 1, (self.encoder.size,), np.float32)
            case _:
                return spaces.Box(-1, 1, (self.capacity, MOVE_SIZE), np.float32)

    def observe(self, kernel: dojoir.Kernel, sizes: Mapping[str, int], actions: Actions) -> Any:
        """The observation of a state."""
        seen = {way: self._see(way, kernel, sizes, actions) for way in self.ways}
        return seen[self.ways[0]] if self.one else seen

    def _see(self, way: str, kernel: dojoir.Kernel, sizes: Mapping[str, int], actions: Actions) -> Any:
        match way:
            case "text":
                data = dojoir.to_text(kernel).encode()[:LONGEST]
                return np.frombuffer(data.ljust(LONGEST, b"\0"), np.uint8).copy()
            case "features":
                found = feature_values(kernel, sizes, self.target)
                return np.array([found.get(name, 0.0) for name in self.names], np.float32)
            case "embedding":
                return np.array(self.encoder.encode(kernel), np.float32)
            case _:
                return rows(kernel, actions, self.capacity)


def feature_values(kernel: dojoir.Kernel, sizes: Mapping[str, int], target: str) -> dict[str, float]:
    """The features of a kernel as logarithms, each between -MOST and MOST."""
    found = dojoir.search.features(kernel, sizes)
    return {
        name: max(-MOST, min(MOST, math.copysign(math.log2(1 + abs(value)), value)))
        for name, value in found.items()
    }
