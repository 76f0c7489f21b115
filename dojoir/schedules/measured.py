"""The fastest of several ways to schedule a kernel: the first, those that the model says are near it, and the last,
the text as it stands, are run here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from math import inf
from typing import Generic, Protocol, TypeVar

import dojoir
from dojoir import runtime

NEAR = 1.3
"""How many times the seconds of the first way another may take, by the model, to be timed beside it."""

TEXT_NEAR = 30
"""The same for the last way, the text as it stands. What compilers make of it the model of a CPU underrates up to
ten times; on a GPU it may run on one thread, and take minutes."""

MOST_TIMED = 4
"""How many ways are timed at most, the nearest to the first."""

SECONDS = 2.0
"""The seconds for the samples of all of them together."""

BRIEF = 0.1
"""The seconds for those of one that is run only to see whether it can be."""


MANY = 1 << 26
"""Statements of a kernel of fixed sizes above which it is compared with the reference on one input, not on three:
the reference alone takes seconds."""


class Makes(Protocol):
    """A way to schedule a kernel, as `dojoir.schedules.choice.Way` is."""

    @property
    def name(self) -> str: ...

    @property
    def make(self) -> Callable[[], dojoir.Trace]: ...

    @property
    def seconds(self) -> float | None: ...

    @property
    def given(self) -> bool: ...
    @property
    def known(self) -> bool: ...


W = TypeVar("W", bound=Makes)

Model = Callable[[dojoir.Trace], float]
"""The seconds of the last kernel of a trace, where the ways do not say theirs."""


@dataclass(frozen=True)
class MadeWay(Generic[W]):
    """A way and the moves that it made."""

    way: W
    trace: dojoir.Trace


@dataclass(frozen=True)
class Fastest(Generic[W]):
    """The way that was taken, its moves, and the seconds of each that was timed, by name (of one alone, none)."""

    way: W
    trace: dojoir.Trace
    timed: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class WayBench:
    """Where ways are run: for the kernel as it was, a target with its processor, all open sizes, and threads."""

    kernel: dojoir.Kernel
    target: str
    sizes: Mapping[str, int]
    threads: int | None

    def check(self, trace: dojoir.Trace) -> None:
        """Raises DojoError for a kernel that cannot be built or has a wrong result, at the sizes of `verify`: small
        ones, or those that are fixed."""
        is_long = not self.kernel.runtime_sizes and dojoir.cost(self.kernel).instances({}) > MANY
        seeds = (0,) if is_long else (0, 1, 2)
        report = dojoir.verify(trace.kernel, self.kernel, target=self.target, threads=self.threads, seeds=seeds)
        if report.reason is not None:
            raise dojoir.RunError(report.reason, "verification-failed")

    def in_turn(self, kernels: Sequence[dojoir.Kernel]) -> list[runtime.Measurement | None]:
        """The times of kernels in turn in one run; None for one that cannot be run at these sizes by itself. Raises
        DojoError where no kernel can, or all can, but not together."""
        try:
            return [*self._together(kernels, SECONDS).measurements]
        except dojoir.DojoError as error:
            able = [error.diagnostic.code != "busy" and self._is_run(kernel) for kernel in kernels]
            if all(able) or not any(able):
                raise
        found = iter(self.in_turn([kernel for kernel, is_able in zip(kernels, able, strict=True) if is_able]))
        return [next(found) if is_able else None for is_able in able]

    def _is_run(self, kernel: dojoir.Kernel) -> bool:
        with suppress(dojoir.DojoError):
            self._together([kernel], BRIEF)
            return True
        return False

    def _together(self, kernels: Sequence[dojoir.Kernel], seconds: float) -> runtime.Together:
        return dojoir.measure_together(
            kernels,
            self.target,
            threads=self.threads,
            sizes=self.sizes,
            with_ceilings=False,
            budget=seconds,
        )


def bench(
    kernel: dojoir.Kernel, target: str, cpu: str | None, sizes: Mapping[str, int], threads: int | None
) -> WayBench:
    """The bench for the ways of a kernel. Raises ArgumentError for a size that is open or breaks a fact,
    ToolchainError for a target that does not run here."""
    missing = [name for name in kernel.runtime_sizes if name not in sizes]
    if missing:
        given = ", ".join(f"'{name}': …" for name in missing)
        raise dojoir.ArgumentError(
            f"measure=True needs a number for each size of {kernel.name}: {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} open; give sizes={{{given}}}, in a shell "
            f"{' '.join(f'-s {name}=…' for name in missing)}",
            "size-missing",
        )
    known = {name: sizes[name] for name in kernel.runtime_sizes}
    kernel.specialize(**known)  # says which fact they break
    where = target if cpu is None or "@" in target else f"{target}@{cpu}"
    dojoir.Evaluator(kernel, where, known, threads=runtime.thread_count(threads))  # says why it does not run here
    return WayBench(kernel, where, known, threads)


def fastest(ways: Iterable[W], on: WayBench, model: Model) -> Fastest[W]:
    """The fastest of the first way, of those that the model says are near it, and of the last, which is the text as
    it stands: so what is returned is never measured to be slower than that. All that are timed were run and are
    right; what cannot be made or built, or is wrong, is left out. One is kept unless another is faster beyond
    noise. Raises the error of a first way that is given and cannot be made; where none is right, that of the
    first."""
    coming = iter(ways)
    errors: list[dojoir.DojoError] = []
    first = next(_right(_that_can_be_made(coming, errors), on, errors), None)
    if first is None:
        raise errors[0]
    *others, text = [*coming] or [first.way]
    known = _near((way for way in others if way.known), first, model, inf)
    usual = _near((way for way in others if not way.known), first, model, NEAR)
    near = [first, *islice(_right([*known, *usual], on, errors), MOST_TIMED - 2)]
    last = _right(_near([text], first, model, TEXT_NEAR), on, errors)
    timed = [*near, *(one for one in last if one.trace.kernel not in {other.trace.kernel for other in near})]
    if len(timed) == 1:
        return Fastest(first.way, first.trace)
    times = zip(timed, on.in_turn([one.trace.kernel for one in timed]), strict=True)
    run = [(one, time) for one, time in times if time is not None]
    best, least = run[0]
    for one, time in run[1:]:
        if runtime.ratio_of(least, time).low > 1:
            best, least = one, time
    return Fastest(best.way, best.trace, tuple((one.way.name, time.seconds) for one, time in run))


def _that_can_be_made(ways: Iterable[W], errors: list[dojoir.DojoError]) -> Iterator[MadeWay[W]]:
    """The ways that can be made, in order. Raises the error of one that is given."""
    for way in ways:
        try:
            made = MadeWay(way, way.make())
        except dojoir.DojoError as error:
            if way.given:
                raise
            errors.append(error)
        else:
            yield made


def _right(made: Iterable[MadeWay[W]], on: WayBench, errors: list[dojoir.DojoError]) -> Iterator[MadeWay[W]]:
    """Those that can be built, and are right, each run when it is asked for."""
    for one in made:
        try:
            on.check(one.trace)
        except dojoir.DojoError as error:
            errors.append(error)
        else:
            yield one


def _near(ways: Iterable[W], first: MadeWay[W], model: Model, most: float) -> list[MadeWay[W]]:
    """The ways that take at most so many times the seconds of the first by the model, and are other kernels than
    that, the fastest first. Where both say their seconds, what takes longer is not made."""
    seen = {first.trace.kernel}
    found: list[tuple[float, MadeWay[W]]] = []
    for way in ways:
        share = _share(way.seconds, first.way.seconds)
        if share is not None and share > most:
            continue
        with suppress(dojoir.DojoError):
            one = MadeWay(way, way.make())
            if one.trace.kernel in seen:
                continue
            seen.add(one.trace.kernel)
            if share is None:
                share = _share(model(one.trace), model(first.trace))
            if share is not None and share <= most:
                found.append((share, one))
    return [one for _, one in sorted(found, key=lambda each: each[0])]


def _share(seconds: float | None, of: float | None) -> float | None:
    """How many times as long one takes as another; None where that of one is not known."""
    if seconds is None or of is None:
        return None
    return 1.0 if seconds == of else seconds / of if of else inf
