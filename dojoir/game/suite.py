"""Several kernels at several sizes to play on, apart for training and for testing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

import dojoir
from dojoir.support.public import Count, Share, public

STATEMENTS = 1 << 20
"""The most statements that sizes chosen here make a kernel run."""


def wrong(message: str) -> dojoir.ArgumentError:
    """The error of an argument that does not fit."""
    return dojoir.ArgumentError(message, "bad-arguments")


def shown(value: object) -> str:
    """A value as an error shows it: short ones as they are, others by their type."""
    text = repr(value)
    return text if len(text) <= 60 and "\n" not in text else type(value).__name__


Entry = tuple[dojoir.Kernel, Mapping[str, int]]


@dataclass(frozen=True)
class Suite:
    """Kernels, each with the sizes that it is played at. An episode takes one at random, by its seed. Raises
    ArgumentError for no kernel, or for what is no pair of a kernel and a dict of sizes."""

    entries: tuple[Entry, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.entries, Sequence) or not self.entries:
            raise wrong(f"a suite has at least one kernel with its sizes, not {shown(self.entries)}")
        for entry in self.entries:
            match entry:
                case (dojoir.Kernel(), Mapping()):
                    pass
                case _:
                    raise wrong(f"a suite has pairs of a Kernel and a dict of its sizes, not {shown(entry)}")

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    @public
    def split(self, share: Share = 0.5, seed: int = 0) -> tuple[Suite, Suite]:
        """The suite in two, to train and to test: each kernel, by its name, is in one of them with all its sizes.
        `share` of the kernels are in the first. Raises ArgumentError where one would be empty."""
        names = sorted({kernel.name for kernel, _ in self.entries})
        Random(seed).shuffle(names)
        first = set(names[: round(share * len(names))])
        return (
            Suite(tuple(entry for entry in self.entries if entry[0].name in first)),
            Suite(tuple(entry for entry in self.entries if entry[0].name not in first)),
        )


@public
def library(names: Sequence[str] | None = None, statements: Sequence[Count] = (STATEMENTS,)) -> Suite:
    """Library kernels (all by default), each at the largest sizes at which it runs so many statements at most. A
    kernel that has no sizes of a power of two is left out of the suite of all. Raises ArgumentError for names that
    are none, and where a kernel that is named has no such sizes."""
    entries: list[Entry] = []
    for name in dojoir.kernels.names() if names is None else names:
        kernel = dojoir.kernels.load(name)
        for most in statements:
            try:
                entry = kernel, chosen_sizes(kernel, most)
            except dojoir.ArgumentError:
                if names is not None:
                    raise
                continue
            if entry not in entries:
                entries.append(entry)
    return Suite(tuple(entries))


def chosen_sizes(kernel: dojoir.Kernel, statements: int = STATEMENTS) -> dict[str, int]:
    """The largest power of two for all sizes with which a kernel runs so many statements at most. Raises
    ArgumentError, `size-missing`, where its facts allow none."""
    names = kernel.runtime_sizes
    cost = dojoir.cost(kernel)
    for exponent in range(20 if names else 0, -1, -1):
        sizes = dict.fromkeys(names, 1 << exponent)
        try:
            kernel.specialize(**sizes)
        except dojoir.ArgumentError:
            continue
        if not names or cost.instances(sizes) <= statements:
            return sizes
    raise dojoir.ArgumentError(f"no sizes to play {kernel.name} at were found: give them", "size-missing")
