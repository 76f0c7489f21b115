"""`optimize`: the stored schedule that fits a kernel and a machine best, else the default one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Protocol

import dojoir
from dojoir import runtime
from dojoir.schedules.file import VARIABLE, Schedule, given_schedules, own_schedules
from dojoir.schedules.measured import bench, fastest
from dojoir.schedules.structures import for_planner, on_nests
from dojoir.support.public import public
from dojoir.support.seconds import format_seconds

if TYPE_CHECKING:
    from dojoir.passes.schedule.plan.planner import TriedStructure

AS_LONG = 1.05
"""How many times as long, by the model, what is known to be faster at other sizes may take at these."""

SMALL = 1 << 17
"""A kernel that runs fewer statements is done before other threads have begun: some ten microseconds."""


class HasBest(Protocol):
    """A source of traces that were verified and timed, as `dojoir.records.Database` does."""

    def best(
        self, kernel: dojoir.Kernel, target: str, sizes: Mapping[str, int] | None, threads: int | None
    ) -> dojoir.Trace | None:
        """The fastest of a kernel on this machine, or None. One that has `faster(kernel, than, target, sizes,
        threads)` as well is asked by that: the same, where it is known to be faster than the kernel `than`."""


@dataclass(frozen=True)
class Choice:
    """The choice of `optimize`: the moves, for which machine, and the stored schedule that they are from (None:
    the default). `found` says that they are from a database, `structures` which of the caller's were used. With
    `measure` the option that was taken is `name`, and `timed` has the seconds of each that was timed, by its name
    (none where nothing else was near)."""

    trace: dojoir.Trace
    machine: dojoir.Machine
    schedule: Schedule | None
    found: bool = False
    structures: tuple[str, ...] = ()
    name: str = ""
    timed: tuple[tuple[str, float], ...] = ()

    def __str__(self) -> str:
        name = f"schedule {self.schedule.path}" if self.schedule is not None else "default_schedule"
        name = f"{', '.join(self.structures)}, else {name}" if self.structures else name
        name = "the fastest of the database" if self.found else name
        times = ", ".join(f"{option} {format_seconds(seconds)}" for option, seconds in self.timed)
        end = f"; timed: {times}" if times else ""
        name = self.name or name
        return f"{self.trace.start.name}: {name}, {len(self.trace.moves)} moves, for {self.machine}{end}"


@public
def optimize(
    kernel: dojoir.Kernel | dojoir.Trace,
    target: str = "llvm",
    *,
    sizes: Mapping[str, int] | None = None,
    threads: int | None = None,
    folders: Sequence[str | os.PathLike[str]] = (),
    cpu: str | None = None,
    db: HasBest | None = None,
    structures: Sequence[dojoir.Pass] = (),
    measure: bool = False,
) -> dojoir.Trace:
    """The kernel with the stored schedule that fits it and the machine best, or with `default_schedule` for the
    machine where none does. Of a trace, its last kernel: the answer begins with the moves of the trace.

    `sizes` are the runtime sizes that it will mostly run at, as far as they are known: what is stored for some
    sizes only is not taken where they are not. The result is right for all sizes. For a GPU, where all open sizes
    are known, it has a version for exactly these, as fast as that of a kernel with fixed sizes, where that is
    faster than what it has for all others. Where they all are known, and so small that there is less to do than a
    second thread needs to begin, the kernel stays on one core, and what comes with dojoir is passed over.
    `threads` is how many it will run on; by default as many as `compile` takes. For one, the rules are those of a
    machine with one core. `cpu` is the processor that `llvm` and `c` are for, by LLVM's name, if not this one.
    `db` is a database of what was tuned (`dojoir.records.Database`, or any object with `best(kernel, target,
    sizes, threads)`): the fastest verified trace that it has for this kernel, machine, sizes and number of threads
    goes before all else. That is so where the database has a time of what would be given without it, too, and that
    is longer. A search writes both. Where it knows nothing of these sizes, what was timed to be faster at others
    on this machine is taken, the nearest sizes first, if the model does not say that it takes longer here; with
    `measure` it is timed beside the first option. `folders` are searched first, then those of the variable
    DOJOIR_SCHEDULES, then what comes with dojoir; what was tuned on such a processor goes before what was not, and
    what was tuned on others comes last. Where sizes are fixed so that the moves of one that comes with dojoir do
    not fit, or its code is refused for a GPU, the next is taken, at last the text as it stands. `structures` are
    passes of the caller that take the place of a nest, an outermost scope, and schedule it or raise DojoError.
    They are tried on each nest: for a CPU the first that fits goes before all that comes with dojoir, and
    `default_schedule` goes on from there; for a GPU they are candidates of the planner, by the model.

    With `measure` the first option, those that the model says take at most 1.3 times as long, and the text as it
    stands, unless the model says that it takes 30 times as long, are built, compared with the reference at small
    sizes, and timed here in turn: at most four, for some seconds. The first is returned unless another is faster
    beyond noise. One that cannot be built or is wrong is left out. All sizes must be known, and nothing is kept for
    the next time. A kernel whose sizes are fixed has no small ones: where they are large, the comparison takes
    long, and `sizes` is the place for them.

    Raises KernelError for an ill-formed kernel, ArgumentError for a size that the kernel does not have or that is
    below 1, for an unknown target or processor, a number of threads that there cannot be, a stored schedule that
    cannot be read or a pass that is no structure. Raises IllegalMove for a schedule of the caller's whose moves do
    not fit the kernel that it names. With `measure` also ArgumentError for a size that is open or breaks a fact,
    ToolchainError for a target that does not run here, RunError where no option is right or they cannot be timed.
    """
    if isinstance(kernel, dojoir.Trace):
        whole = kernel.copy()
        further = optimize(
            whole.kernel,
            target,
            sizes=sizes,
            threads=threads,
            folders=folders,
            cpu=cpu,
            db=db,
            structures=structures,
            measure=measure,
        )
        for move in further.moves:
            whole.apply(move)
        whole.machine = further.machine
        return whole

    def made() -> dojoir.Trace:
        choice = choose(
            kernel,
            target,
            sizes=sizes,
            threads=threads,
            folders=folders,
            cpu=cpu,
            db=db,
            structures=structures,
            measure=measure,
        )
        return choice.trace.copy()

    machine = dojoir.machine_for(target, cpu)
    check_sizes(kernel, sizes or {})
    changing = db is not None or folders or structures or os.environ.get(VARIABLE)
    if changing or measure:  # what these hold, and what is faster here, may be another the next time
        trace = made()
    else:
        facts = sorted(machine.facts.items()), machine.caches, sorted(machine.features)
        known = runtime.thread_count(threads), sorted((sizes or {}).items())
        made_for = f"optimize {target!r} {known!r} {machine.name!r} {facts!r}"
        trace = dojoir.Trace.kept(kernel, made_for, made)
    trace.machine = machine
    return trace


@public
def choose(
    kernel: dojoir.Kernel,
    target: str = "llvm",
    *,
    sizes: Mapping[str, int] | None = None,
    threads: int | None = None,
    folders: Sequence[str | os.PathLike[str]] = (),
    cpu: str | None = None,
    db: HasBest | None = None,
    structures: Sequence[dojoir.Pass] = (),
    measure: bool = False,
) -> Choice:
    """The result of `optimize`, with the reason for the choice. Raises as that does."""
    machine = dojoir.machine_for(target, cpu)
    check_sizes(kernel, sizes or {})
    if measure:
        return _measured(kernel, target, machine, sizes or {}, threads, folders, cpu, db, structures)
    plain = _by_itself(kernel, target, machine, sizes, threads, folders, structures)
    if db is None or cpu is not None:
        return plain
    faster = getattr(db, "faster", None)
    if callable(faster):
        best = faster(kernel, plain.trace.kernel, target, sizes, threads)
    else:
        best = db.best(kernel, target, sizes, threads)
    if best is not None and best.start == kernel and best.is_safe:
        return Choice(best, machine, None, found=True)
    if machine.kind != "cpu" or not all(name in (sizes or {}) for name in kernel.runtime_sizes):
        return plain

    def seconds(trace: dojoir.Trace) -> float:
        return dojoir.search.estimate(trace.kernel, sizes or {}, target, runtime.thread_count(threads))

    for way in _of_other_sizes(db, kernel, plain.trace, target, sizes or {}, threads):
        if seconds(trace := way.make()) <= AS_LONG * seconds(plain.trace):
            return Choice(trace, machine, None, found=True, name=way.name)
    return plain


def _of_other_sizes(
    db: HasBest,
    kernel: dojoir.Kernel,
    than: dojoir.Trace,
    target: str,
    sizes: Mapping[str, int],
    threads: int | None,
) -> Iterator[Way]:
    """The traces that a database knows to be faster than one at other sizes, the nearest first."""
    elsewhere = getattr(db, "elsewhere", None)
    found = elsewhere(kernel, than.kernel, target, sizes, threads) if callable(elsewhere) else []
    for number, trace in enumerate(found, 1):
        if trace.start == kernel and trace.is_safe:
            yield Way(f"the fastest of the database at other sizes ({number})", trace.copy, known=True)


def _measured(
    kernel: dojoir.Kernel,
    target: str,
    machine: dojoir.Machine,
    sizes: Mapping[str, int],
    threads: int | None,
    folders: Sequence[str | os.PathLike[str]],
    cpu: str | None,
    db: HasBest | None,
    structures: Sequence[dojoir.Pass],
) -> Choice:
    """The fastest of the first way and those near it, timed here. What a database has is the first."""
    on = bench(kernel, target, cpu, sizes, threads)

    def model(trace: dojoir.Trace) -> float:
        if machine.kind == "gpu":
            from dojoir.passes.schedule.plan.planner import Planner  # not where each way says its seconds

            return Planner(machine, sizes).cost(trace)
        return dojoir.search.estimate(trace.kernel, on.sizes, on.target, runtime.thread_count(threads))

    best = None if db is None or cpu is not None else db.best(kernel, target, sizes, threads)
    known: list[Way] = []
    if best is not None and best.start == kernel and best.is_safe:
        known.append(Way("the fastest of the database", best.copy))
    all_ways = chain(known, ways(kernel, target, machine, sizes, threads, folders, structures, every=True))
    if db is not None and cpu is None:
        plain = _by_itself(kernel, target, machine, sizes, threads, folders, structures).trace
        more = [*_of_other_sizes(db, kernel, plain, target, sizes, threads)]
        all_ways, known = chain(islice(all_ways, 1), more, all_ways), [*known, *more]
    found = fastest(all_ways, on, model)
    way, is_known = found.way, found.way in known
    return Choice(found.trace, machine, way.schedule, is_known, way.structures, way.name, found.timed)


def check_sizes(kernel: dojoir.Kernel, sizes: Mapping[str, int]) -> None:
    """Raises ArgumentError for a size that the kernel does not have, or has fixed to another number, or one below
    1. A fact may be broken: what is for no such sizes is not chosen."""
    fixed = {size.name: size.value for size in kernel.sizes}
    for name, value in sizes.items():
        if fixed.get(name) == value:
            continue
        if name not in kernel.runtime_sizes or not 1 <= value < 1 << 63:
            kernel.specialize(**{name: value})  # says what is wrong with it


def _by_itself(
    kernel: dojoir.Kernel,
    target: str,
    machine: dojoir.Machine,
    sizes: Mapping[str, int] | None,
    threads: int | None,
    folders: Sequence[str | os.PathLike[str]],
    structures: Sequence[dojoir.Pass],
) -> Choice:
    """The choice without a database."""
    for way in ways(kernel, target, machine, sizes, threads, folders, structures):
        if way.given:
            return Choice(way.make(), machine, way.schedule)
        with suppress(dojoir.DojoError):  # sizes that are fixed may leave a place of a move without a scope
            trace = emitted(way.make(), target, machine)
            return Choice(trace, machine, way.schedule, structures=way.structures)
    return Choice(dojoir.Trace(kernel), machine, None)  # emission says what is wrong with the text


@dataclass(frozen=True)
class Way:
    """A way to schedule a kernel: its name, what makes its moves (and may raise), and the stored schedule that
    they are from, if any. Then the seconds that the model of the machine says it takes, whether it is the caller's
    own, of which an error is the caller's to see, the structures of the caller in it, the structure for CPUs that
    it is `without`, and whether it is `known` to be fast elsewhere, whatever the model says."""

    name: str
    make: Callable[[], dojoir.Trace]
    schedule: Schedule | None = None
    seconds: float | None = None
    given: bool = False
    structures: tuple[str, ...] = ()
    without: str = ""
    known: bool = False


def ways(
    kernel: dojoir.Kernel,
    target: str,
    machine: dojoir.Machine,
    sizes: Mapping[str, int] | None,
    threads: int | None,
    folders: Sequence[str | os.PathLike[str]],
    structures: Sequence[dojoir.Pass] = (),
    tried: list[TriedStructure] | None = None,
    every: bool = False,
) -> Iterator[Way]:
    """The ways to schedule a kernel in the order in which they are taken, each made when it is asked for; the text
    as it stands is one. With `tried`, which collects what a planner tries, the planner is asked once. For a CPU
    what the rules make without one of their structures is asked for where that may be faster, or `every`
    time."""
    target = target.partition("@")[0]
    fixed = {size.name: size.value for size in kernel.sizes if size.value is not None}
    known = {"threads": runtime.thread_count(threads), **fixed, **(sizes or {})}
    for one in _fitting(given_schedules(kernel.name, folders), kernel, target, known, machine):
        yield Way(f"schedule {one.path}", partial(one.on, kernel), one, given=True)
    if machine.kind == "cpu" and structures:
        used, begun = on_nests(kernel, structures, machine, sizes or {}, [] if tried is None else tried)
        threads = 1 if is_small(kernel, known) else known["threads"]
        rest = default_for(machine, sizes, threads)
        if used:
            yield Way(f"{', '.join(used)}, then default_schedule", partial(_then, begun, rest), structures=used)
    if machine.kind == "cpu" and is_small(kernel, known):
        for way in _ruled(kernel, machine, sizes, known["threads"], tried=tried, every=every):
            yield replace(way, name=f"{way.name} on one core", make=partial(_on_one_core, way))
    else:
        stored = own_schedules(kernel.name)
        if machine.kind == "gpu":  # what is for cores leaves a GPU with one thread
            stored = [one for one in stored if "gpu" in one.needs]
        for own in _fitting(stored, kernel, target, known, machine):
            yield Way(f"schedule {own.path}", partial(own.on, kernel), own)
        yield from _ruled(kernel, machine, sizes, known["threads"], structures, tried, every)
    yield Way("the text as it stands", partial(dojoir.Trace, kernel))


def by_rule(
    kernel: dojoir.Kernel, target: str, machine: dojoir.Machine, sizes: Mapping[str, int] | None, threads: int
) -> dojoir.Trace:
    """The schedule by rule: the first whose code the target takes, else the text as it stands."""
    for way in _ruled(kernel, machine, sizes, threads):
        with suppress(CodeRefused):
            return emitted(way.make(), target, machine)
    return dojoir.Trace(kernel)


def _ruled(
    kernel: dojoir.Kernel,
    machine: dojoir.Machine,
    sizes: Mapping[str, int] | None,
    threads: int,
    structures: Sequence[dojoir.Pass] = (),
    tried: list[TriedStructure] | None = None,
    every: bool = False,
) -> Iterator[Way]:
    """For a CPU what the planner makes, the best first, and the usual schedule by its name. For a GPU what it makes
    of each form, the best first; then, unless what is tried is collected, the same without shared memory."""
    from dojoir.passes.schedule.forms.plain import settle  # what is kept needs no planner
    from dojoir.passes.schedule.plan.planner import TEXT, Planner
    from dojoir.passes.schedule.plan.structures import STRUCTURES

    if machine.kind == "cpu":
        trace = dojoir.Trace(kernel)
        settle(trace)
        planner = Planner(machine_of(machine, threads), sizes or {}, [] if tried is None else tried)
        for n, made in enumerate(planner.by_roles(trace, every)):
            if made.form != TEXT:
                yield Way(made.form, made.trace.copy, without=made.without)
            elif not n:
                yield Way(TEXT, partial(dojoir.Trace, kernel))
        return
    rooms = {"planned": machine, "planned without shared memory": replace(machine, shared_bytes=0)}
    for name, room in rooms.items():
        trace = dojoir.Trace(kernel)
        settle(trace)
        own = (*for_planner(structures, room, sizes or {}), *STRUCTURES)
        for made in Planner(room, sizes or {}, [] if tried is None else tried, own).plans(trace):
            yield Way(f"{name}, {made.form}", made.proved, seconds=made.seconds)
        if tried is not None:
            return


class CodeRefused(dojoir.DojoError):
    """The code of a schedule is refused for a target."""


def emitted(trace: dojoir.Trace, target: str, machine: dojoir.Machine) -> dojoir.Trace:
    """The same trace, once its code for a GPU was made. Raises CodeRefused where it cannot be."""
    if machine.kind == "gpu":
        try:
            dojoir.emit(trace.kernel, target)
        except dojoir.KernelError as error:
            raise CodeRefused(error.diagnostic) from None
    return trace


def _fitting(
    found: Iterable[Schedule],
    kernel: dojoir.Kernel,
    target: str,
    sizes: Mapping[str, int],
    machine: dojoir.Machine,
) -> list[Schedule]:
    """Those that fit: first what was tuned on such a processor, last what was on others."""
    return by_rank((one for one in found if one.fits(kernel, target, sizes, machine)), target, machine)


def by_rank(found: Iterable[Schedule], target: str, machine: dojoir.Machine) -> list[Schedule]:
    """First what was tuned on such a processor, last what was on others."""

    def rank(schedule: Schedule) -> int:
        return 0 if schedule.is_tuned(target, machine) else 2 if schedule.tuned else 1

    return sorted(found, key=rank)


def default_for(machine: dojoir.Machine, sizes: Mapping[str, int] | None = None, threads: int = 0) -> dojoir.Pass:
    """The schedule by rule for a machine, for sizes as far as they are known."""
    rules = dojoir.PASSES["default_schedule"].for_sizes(sizes or {})
    return rules.for_machine(machine_of(machine, threads))


def machine_of(machine: dojoir.Machine, threads: int) -> dojoir.Machine:
    """The machine that the rules are for: one thread is all of a machine with one core."""
    return replace(machine, cores=1) if machine.kind == "cpu" and threads == 1 else machine


def _on_one_core(way: Way) -> dojoir.Trace:
    return on_one_core(way.make())


def _then(begun: dojoir.Trace, rest: dojoir.Pass) -> dojoir.Trace:
    """A trace that goes on by rule."""
    trace = begun.copy()
    rest(trace)
    return trace


def on_one_core(trace: dojoir.Trace) -> dojoir.Trace:
    """The schedule by rule without its last moves, which share work out."""
    while trace.moves and trace.moves[-1].name == "parallelize":
        trace.undo()
    return trace


@public
def is_small(kernel: dojoir.Kernel, sizes: Mapping[str, int]) -> bool:
    """Whether all sizes are known, and other threads are of no use at them."""
    if not all(name in sizes for name in kernel.runtime_sizes):
        return False
    return dojoir.cost(kernel).instances({name: sizes[name] for name in kernel.runtime_sizes}) < SMALL
