"""Which split what begins at a kernel is in: that of its task, where it is one of a task; else by a hash of the
start.

The hash is that of the text without names, so that a kernel under another name or floating point mode is in the
same split. Kernels of one name in one data set are so too."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache

import dojoir
from dojoir.data.dataset_lines import Split
from dojoir.records.likeness import lines
from dojoir.support.public import public
from dojoir.tasks import own_tasks

DEV, HELD_OUT = 10, 10
"""Of a hundred starts that are of no task, how many are in these splits."""

STRICTEST: tuple[Split, ...] = ("held-out", "dev", "train")
"""Of what belongs together, and was to be in two splits, all is in the first of them."""


def shape(kernel: dojoir.Kernel) -> str:
    """The same for kernels that differ by names only."""
    counted = sorted(lines(dojoir.to_text(kernel)).items())
    return hashlib.sha256(repr(counted).encode()).hexdigest()


@cache
def of_tasks() -> dict[str, Split]:
    """The split of each kernel of a task, by its name, its family and its shape."""
    found: dict[str, Split] = {}
    for task in own_tasks():
        for key in (f"name {task.kernel.name}", f"name {task.family}", f"shape {shape(task.kernel)}"):
            found[key] = task.split
    return found


@public
def split_of(kernel: dojoir.Kernel) -> Split:
    """The split of what begins at a kernel."""
    return splits_of([kernel])[kernel.hash]


def splits_of(kernels: Iterable[dojoir.Kernel]) -> dict[str, Split]:
    """The split of each of some kernels, by their hash; those of one name, or of one shape, are in one."""
    groups: list[tuple[set[str], list[dojoir.Kernel]]] = []
    for kernel in sorted({one.hash: one for one in kernels}.values(), key=lambda one: one.hash):
        keys, members = {f"name {kernel.name}", f"shape {shape(kernel)}"}, [kernel]
        apart = []
        for group in groups:
            if group[0] & keys:
                keys |= group[0]
                members = [*group[1], *members]
            else:
                apart.append(group)
        groups = [*apart, (keys, members)]
    return {one.hash: _of(keys) for keys, members in groups for one in members}


def _of(keys: set[str]) -> Split:
    known = {split for key, split in of_tasks().items() if key in keys}
    if known:
        return next(split for split in STRICTEST if split in known)
    number = int(min(key for key in keys if key.startswith("shape"))[6:14], 16) % 100
    return "held-out" if number < HELD_OUT else "dev" if number < HELD_OUT + DEV else "train"
