"""The device part of a program for a GPU: launches, and inside of them threads that meet at barriers.

A launch is a grid of blocks, each of `threads` threads. Its body is what every thread of a block runs; a `Phase` in
it is for the first threads only. The printers of CPUs never see any of this.
"""

from __future__ import annotations

from dojoir.codegen.lir.program import (
    Atomic,
    Barrier,
    BlockNumber,
    Extract,
    Launch,
    Pack,
    Phase,
    Shuffle,
    Swap,
    ThreadNumber,
)

AXES = ("x", "y", "z")

_WORDS = frozenset({"i32", "u32", "i64", "u64"})
ATOMICS = {
    "add": _WORDS | {"f32", "f64"},
    **dict.fromkeys(("max", "min", "bitand", "bitor", "bitxor"), _WORDS),
}
"""The elements of which GPUs have an instruction, by its operation; other ones of 4 and 8 bytes are swapped."""

__all__ = [
    "ATOMICS",
    "AXES",
    "Atomic",
    "Barrier",
    "BlockNumber",
    "Extract",
    "Launch",
    "Pack",
    "Phase",
    "Shuffle",
    "Swap",
    "ThreadNumber",
]
