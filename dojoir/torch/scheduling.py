"""The kernels of a program scheduled one after another: told on a terminal, and for as long as the budget lasts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic

import dojoir


@dataclass
class Spending:
    """The seconds that are left for planning; None without a bound."""

    left: float | None = None

    @classmethod
    def of(cls, budget: object) -> Spending:
        """Raises ArgumentError for what is no number of seconds."""
        if budget is None or (isinstance(budget, int | float) and not isinstance(budget, bool) and budget >= 0):
            return cls(None if budget is None else float(budget))
        raise dojoir.ArgumentError(f"budget is seconds for planning, 0 or more, not {budget!r}", "bad-arguments")

    @property
    def is_spent(self) -> bool:
        return self.left is not None and self.left <= 0

    @property
    def rest(self) -> float | None:
        """The seconds that a further plan may take."""
        return None if self.left is None else max(self.left, 0)

    @contextmanager
    def counted(self) -> Iterator[None]:
        start = monotonic()
        try:
            yield
        finally:
            if self.left is not None:
                self.left -= monotonic() - start


def scheduled(
    kernels: Sequence[dojoir.Kernel], plan: Callable[[dojoir.Kernel], dojoir.Trace], spending: Spending
) -> list[dojoir.Trace]:
    """The schedule of each kernel; of those for which no time is left, the text as it stands."""
    made = []
    for kernel in told(kernels):
        with spending.counted():
            made.append(dojoir.Trace(kernel) if spending.is_spent else plan(kernel))
    return made


def told(kernels: Sequence[dojoir.Kernel]) -> Iterable[dojoir.Kernel]:
    """The kernels, of which a terminal shows the number that is at hand: one line, which is gone at the end."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield from kernels
        return
    try:
        for number, kernel in enumerate(kernels, 1):
            sys.stderr.write(f"\r\x1b[Kscheduling {number} of {len(kernels)}")
            sys.stderr.flush()
            yield kernel
    finally:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


__all__ = ["Spending", "scheduled"]
