"""Looking at calls of a candidate while it is timed: has each of them done its work?

A call that is looked at is one of the many that are timed. Before it some spots of the outputs, and no others,
hold a pattern; right after it what is there is copied, and compared. What skips work where a result is right
already, works on some calls only, gives what an earlier call gave, or works on after it has returned, leaves a
spot wrong. What is known of a spot says nothing of the next, as all are drawn.

That the work is done again is not enough where a right result could be remembered. A call on inputs of which two
elements were exchanged must take about as long as one on the same inputs again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from typing import NamedTuple, Protocol

import numpy as np

from dojoir.runtime.evaluation.pool import Bounds, KnownCase

SPOTS = 3
"""How many spots of each output are looked at."""

LONGEST = 256
"""How many elements a spot has along the last dimension."""

IN_A_ROW = 6
"""How many calls in a row are looked at: what works on every second, third, fourth, fifth or sixth call shows."""

ROUNDS = 3
"""In which of the first rounds of a comparison that is: from the second on."""

FRESH = 16
"""How many calls on changed inputs are timed, where the first were slow."""

SLOWER, LATER = 1.5, 5e-6
"""A call on changed inputs may take so many times as long as on the same ones, and so many seconds more."""

WAKING = 200e-6
"""How much longer a call of several threads may take, which have to be woken."""


class ElementSample(NamedTuple):
    """A few elements of an output, side by side."""

    name: str
    box: tuple[slice, ...]


def draw_spots(random: Random, outputs: Mapping[str, Bounds]) -> list[ElementSample]:
    """Some spots of each output."""
    return [
        ElementSample(name, tuple(_side(random, bounds, d, extent) for d, extent in shape))
        for name, bounds in outputs.items()
        for shape in [[*enumerate(bounds.low.shape)]]
        for _ in range(SPOTS if bounds.low.size > 1 else 1)
    ]


def _side(random: Random, bounds: Bounds, dim: int, extent: int) -> slice:
    """A side of a spot: whole bytes of what is packed."""
    most = LONGEST if dim == bounds.low.ndim - 1 else 2
    if dim != bounds.packed:
        return _part(random, extent, most)
    part = _part(random, extent // 2, max(1, most // 2))
    return slice(2 * part.start, 2 * part.stop)


def _part(random: Random, extent: int, most: int) -> slice:
    length = min(most, max(1, extent // 2))
    start = random.randrange(max(1, extent - length + 1))
    return slice(start, start + length)


def complaint(
    spots: Sequence[ElementSample], seen: Sequence[np.ndarray], known: KnownCase, slack: float
) -> str | None:
    """The error in the values `seen` at the spots; None if there is none."""
    for (name, box), actual in zip(spots, seen, strict=True):
        whole = known.outputs[name]
        part = Bounds(whole.dtype, whole.low[box], whole.high[box], whole.expected.part(box))
        wrong = KnownCase({}, {name: part}).complaint({name: actual}, slack)
        if wrong is not None:
            starts = ", ".join(str(part.start) for part in box)
            return f"{wrong}, from [{starts}] on" if starts else wrong
    return None


def remembers(runner: Watched, random: Random, seconds: float, took: float) -> str | None:
    """Whether a call on the same inputs as the one before takes much less than one on others. `seconds` is the
    time of the one, `took` that of a first call on others, which may have been late for any reason."""
    limit = SLOWER * seconds + LATER + (WAKING if runner.threads > 1 else 0) + runner.slop
    least = took
    for _ in range(FRESH if runner.can_exchange else 0):
        if least <= limit:
            return None
        runner.restore()
        runner.call()
        runner.restore()
        back = runner.exchange(random)
        least = min(least, runner.once()[0])
        back()
    if least <= limit or not runner.can_exchange:
        return None
    return (
        f"a call takes {least * 1e6:.3g} µs where two elements of its inputs have changed, and {seconds * 1e6:.3g} "
        f"µs where none has: it does not do its work each time"
    )


class Watched(Protocol):
    """The interface that `Watch` needs: a `BoundKernel`."""

    call: Callable[[], object]

    @property
    def looks(self) -> int: ...

    def spoil(self, spots: Sequence[ElementSample]) -> None: ...

    def look(self, spots: Sequence[ElementSample]) -> list[np.ndarray]: ...

    def restore(self) -> None: ...

    @property
    def threads(self) -> int: ...

    @property
    def can_exchange(self) -> bool: ...

    @property
    def slop(self) -> float: ...

    def exchange(self, random: Random) -> Callable[[], object]: ...

    def once(self) -> tuple[float, float]: ...


class Watch:
    """Looks at calls among those of a comparison, all on the inputs of `known`. `wrong` says what
    was wrong with one."""

    def __init__(self, random: Random, known: KnownCase, slack: float) -> None:
        self.random, self.known, self.slack = random, known, slack
        self.left = self.round = self.more = 0
        self.in_a_row = False
        self.seen: list[tuple[list[ElementSample], list[np.ndarray]]] = []

    def begin(self, runner: Watched, calls: int, raced: bool) -> None:
        """Chooses: where a sample is one call, one call in each of the first rounds, and in one of these an odd
        number of calls more, or, where it is not `raced` and these are all the calls there are, perhaps one more.
        Else some in a row, between the samples of one of these rounds."""
        self.in_a_row = calls > 1
        between = raced and not self.in_a_row  # the first of those that are looked at and the last
        self.round = self.random.randrange(1, ROUNDS) + between
        self.left = 0 if self.in_a_row else runner.looks
        self.more = self.random.randrange(IN_A_ROW) if self.in_a_row else 1 if raced else self.random.randrange(2)

    def between(self, runner: Watched) -> None:
        """Before a round of a comparison: makes more calls, and looks at them, if it is the round for it."""
        self.round -= 1
        if self.round:
            return
        for _ in range(self.more):
            runner.restore()
            runner.call()
        if self.in_a_row:
            self.left = runner.looks
            while self.left:
                with self.looking(runner):
                    runner.call()

    @contextmanager
    def looking(self, runner: Watched) -> Iterator[None]:
        """Looks at the call that is made inside of it, if one is to be looked at. What is seen is compared later:
        a sample comes at once."""
        if not self.left:
            yield
            return
        self.left -= 1
        spots = draw_spots(self.random, self.known.outputs)
        runner.restore()
        runner.spoil(spots)
        yield
        self.seen.append((spots, runner.look(spots)))

    def wrong(self) -> str | None:
        """The error in the values seen since the last question."""
        seen, self.seen = self.seen, []
        found = (complaint(spots, there, self.known, self.slack) for spots, there in seen)
        return next((wrong for wrong in found if wrong is not None), None)
