"""The planner: of each nest several schedules, made by moves on copies of the trace, and the one kept that the
model of the machine says is fastest. A structure that a nest is not of, and a move that is refused, are one
candidate fewer. For a CPU structures have roles, which come one after the other on the whole kernel
(`cpu/structures.py`): all that fit are used, each is left out once, and the text as it stands is a choice.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import field, replace
from functools import partial
from math import inf

from dojoir.backends.machine import Machine
from dojoir.costs.cycles import seconds_of
from dojoir.costs.launches import (
    crosses_launches,
    floor_seconds,
    known_sizes,
    launch_seconds,
    node_seconds,
    temporary_share,
)
from dojoir.errors import ArgumentError, DojoError
from dojoir.ir.nodes import Kernel, Path, Scope, Statement, format_path, parse_path
from dojoir.passes.engine.supposing import proved, supposing
from dojoir.passes.engine.trace import Trace, take_over
from dojoir.passes.schedule.cpu.structures import schedule_nests
from dojoir.passes.schedule.facts.strides import OpenSize
from dojoir.passes.schedule.forms.borders import conditions_to_bounds
from dojoir.passes.schedule.forms.parting import (
    is_contraction,
)
from dojoir.passes.schedule.forms.pivots import cut_pivots
from dojoir.passes.schedule.forms.plain import as_plain_scopes
from dojoir.passes.schedule.forms.running_values import store_running
from dojoir.passes.schedule.forms.temporaries import (
    MOST_MEMORY,
    expand_temporaries,
    keep_scalars,
    own_arrays,
    own_scalars,
)
from dojoir.passes.schedule.plan.kernel_forms import FORMS, Form, products
from dojoir.passes.schedule.plan.sized import version_for, version_for_others
from dojoir.passes.schedule.plan.structures import STRUCTURES, SURE, Structure, rules
from dojoir.passes.schedule.plan.units import Unit, UnitMoves, units_of
from dojoir.passes.schedule.steps.combinators import tried
from dojoir.passes.schedule.steps.simplify import delete_dead
from dojoir.passes.schedule.steps.spots import Spot, spot
from dojoir.proof.verdict import IllegalMove
from dojoir.support.frozen import dataclass
from dojoir.support.memo import Memo, Tables

NEAR = 1.6
"""How near to what no schedule can be faster than a plan must come, by the model, for no other to be looked for."""

FAR = 3.0
"""How far from that a plan must be for arrays in place of temporaries to be tried, where they show no product."""

GAIN, OPEN_GAIN, CPU_GAIN = 1.15, 1.5, 1.35
"""How much faster by the model a plan must be that is not the usual one: of a CPU the model knows less."""

TEXT_NEAR = 2.0
"""The usual plan without one of its structures is made where the text as it stands takes at most so many times its
seconds, by the model of a CPU. Where all of them gain more, each does."""

WORTH = 0.99
"""The share of the seconds of a schedule for any sizes that one for some must stay below, for both to be made."""

USUAL_SIZES, CLIFF = (64,), 16
"""Sizes for which a plan for open ones has versions, where a structure needs a size as a number: the length of the
rows of an attention. None is made where the plan for any is not so many times slower."""

MOST_TRIED = 2
"""How many schedules for any sizes are made again as the second of two versions, until one can be."""

OWN_MEMORY = 4.0
"""How many times the memory of the temporaries that the text has itself those of its plan may take."""

SOME_CORES = 4
"""The cores of a CPU of which it is not known how many it has."""

USUAL, TEXT = "default_schedule", "the text as it stands"
"""The names of two plans for a CPU."""

MOST_PARTS = 6
"""How often a nest becomes several, one inside of the other's planning, at most."""


@dataclass(frozen=True)
class TriedStructure:
    """A structure that was tried on an outermost nest of a form: the seconds of the nest by the model, or None and
    why it is not of that structure. For a CPU, one that fitted a place: `form` is its role, `nest` the place, and
    no seconds are known."""

    form: str
    nest: str
    structure: str
    seconds: float | None
    refusal: str = ""


@dataclass(frozen=True)
class ScheduledForm:
    """A kernel scheduled in one of its forms, and its seconds by the model. Moves of the trace beyond the first
    `sure` are supposed to be legal, where that is a number: ask `proved` before it is used. `without` is the
    structure for CPUs that is left out, if it is such a one."""

    form: str
    trace: Trace
    seconds: float
    sure: int | None = None
    without: str = ""

    def proved(self) -> Trace:
        """A trace of which each move is proved. Raises IllegalMove where one is not legal."""
        return self.trace.copy() if self.sure is None else proved(self.trace, self.sure)


@dataclass(frozen=True)
class UnitPlan:
    """The plan of a unit: its moves, the structures that were tried, and the open sizes wanted as numbers."""

    moves: UnitMoves
    tried: tuple[TriedStructure, ...]
    wanted: frozenset[str]


_unit_plans: Memo[tuple[object, ...], UnitPlan] = Memo(256, of_key=True)
"""A key is the kernel of a unit with all else that its plan depends on, and whether its moves are only supposed to
be legal."""


@dataclass(frozen=True)
class Planner:
    """The subject of a plan. `tried` collects what is tried, of `structures`: those of a caller's need to be no
    faster by the model than the rules."""

    machine: Machine
    sizes: Mapping[str, int]
    tried: list[TriedStructure] = field(default_factory=list)
    structures: tuple[Structure, ...] = field(default_factory=lambda: STRUCTURES)
    wanted: set[str] = field(default_factory=set)
    """The open sizes that a structure needed as numbers."""
    proves: bool = True
    """Whether the best plan is proved; else who replays it does."""
    supposed: Tables | None = field(default_factory=lambda: Tables(0), repr=False)
    """What is found while moves are supposed to be legal; None where each is proved when it is made."""
    typical: Mapping[str, int] | None = None
    """The sizes for which the model is asked, where a unit of a kernel is planned: they follow from the whole."""

    @property
    def _model_sizes(self) -> Mapping[str, int]:
        return self.sizes if self.typical is None else self.typical

    def cost(self, trace: Trace) -> float:
        """Seconds of the kernel as it is, by the model; infinite where it is none for a GPU. Raises ArgumentError
        on a CPU where a size is open, or none that it can be."""
        if self.machine.kind == "cpu":
            known = {name: value for name, value in self.sizes.items() if name in trace.kernel.runtime_sizes}
            return seconds_of(trace.kernel, known, replace(self.machine, cores=self.machine.cores or SOME_CORES))
        if crosses_launches(trace.kernel):
            return inf
        return launch_seconds(trace.kernel, self.machine, self._model_sizes)

    def gain(self, kernel: Kernel) -> float:
        """How much faster than what the rules make another structure must be, by the model, to be taken. More where
        sizes are open, since the model then knows only some of those that there may be."""
        return OPEN_GAIN if self.is_open(kernel) else GAIN

    def is_open(self, kernel: Kernel) -> bool:
        """Whether a size of a kernel is not known."""
        return any(size.value is None and size.name not in self.sizes for size in kernel.sizes)

    def plans(self, trace: Trace) -> list[ScheduledForm]:
        """The kernel of a trace with all nests scheduled, in each of its forms, the best first. Where all open
        sizes are known, what is best for these comes first, with a version for all others."""
        if self.machine.kind == "cpu":
            return self.by_roles(trace)
        found = self.general(trace)
        sizes = trace.kernel.runtime_sizes
        known = {name: self.sizes[name] for name in sizes if name in self.sizes}
        versions = [known] if len(known) == len(sizes) else []
        if not known:  # a structure asks for a number, and none is told
            versions = [{name: usual} for name in sorted(self.wanted)[:1] for usual in USUAL_SIZES]
        for version in versions:
            found = self._with_version(trace, found, version)
        return found

    def _with_version(
        self, trace: Trace, found: list[ScheduledForm], sizes: Mapping[str, int]
    ) -> list[ScheduledForm]:
        """The plans with one before them that has a version for some `sizes`, where that is faster."""
        try:
            fixed = trace.kernel.specialize(**sizes)
        except ArgumentError:  # a fact of the kernel says that they are not such
            return found
        told, plain = sizes.keys() <= self.sizes.keys(), found[0]
        otherwise = plain.seconds if told else replace(self, sizes=sizes).cost(plain.trace)
        if not told and otherwise < CLIFF * floor_seconds(fixed, self.machine, {}):
            return found
        here = replace(self, sizes={}, proves=told).general(Trace(fixed))[0]
        same = plain.trace.kernel.specialize(**sizes).body == here.trace.kernel.body
        first = trace.copy()
        if (
            same
            or here.seconds > (WORTH if told else 1 / CLIFF) * otherwise
            or not tried(first, partial(version_for, sizes=sizes, here=here.trace))
        ):
            return found
        for others in found[:MOST_TRIED]:
            both = first.copy()
            if tried(both, partial(version_for_others, start=trace, others=others.trace)):
                return [
                    ScheduledForm(f"{here.form} at these sizes, else {others.form}", both, here.seconds),
                    *found,
                ]
        return found

    def by_roles(self, trace: Trace, every: bool = False) -> list[ScheduledForm]:
        """The same for a CPU: the best first, then what all structures make that fit in their roles, what they make
        without one of them, and the text as it stands. What leaves a structure out is made where all together do
        not gain much by the model, and `every` one where that is asked for. With open sizes the first of these is
        the best."""
        usual = trace.copy()
        fitted = schedule_nests(usual, self.machine, self.sizes, cost=self._known_cost if every else None)
        fitted = [fit for fit in fitted if fit.role.optional and (fit.moves or fit.refusal)]
        self.tried.extend(
            TriedStructure(fit.role.name, format_path(fit.path), fit.structure, fit.seconds, str(fit.refusal or ""))
            for fit in fitted
        )
        usually, plain = self._known_cost(usual), self._known_cost(trace)
        near = usually is not None and plain is not None and plain < TEXT_NEAR * usually
        found = [ScheduledForm(USUAL, usual, usually or inf)]
        for name in dict.fromkeys(fit.structure for fit in fitted if fit.moves) if near or every else ():
            other = trace.copy()
            schedule_nests(other, self.machine, self.sizes, partial(_is_left_out, name))
            found.append(
                ScheduledForm(f"{USUAL} without {name}", other, self._known_cost(other) or inf, without=name)
            )
        found.append(ScheduledForm(TEXT, trace.copy(), plain or inf))
        best = min(found, key=lambda one: one.seconds * (1 if one is found[0] else CPU_GAIN))
        return [best, *(one for one in found if one is not best)]

    def _known_cost(self, trace: Trace) -> float | None:
        """The seconds on a CPU; None where a size is open, or none that it can be."""
        if not all(name in self.sizes for name in trace.kernel.runtime_sizes):
            return None
        with suppress(ArgumentError):
            return self.cost(trace)
        return None

    def general(self, trace: Trace) -> list[ScheduledForm]:
        """The same for one version. Temporaries may be what iterations wait for, or hide a product: arrays in their
        place are tried first where they show one, and else where a loop is left to the host or the plan is slow."""
        own = trace.copy()
        own_scalars(own)
        cut_pivots(own)
        as_plain_scopes(own)
        conditions_to_bounds(own)
        kept, expanded = own.copy(), own.copy()
        keep_scalars(kept)
        store_running(expanded)
        shows = expand_temporaries(expanded)
        found, large = [] if shows else self._forms(kept), list[ScheduledForm]()
        floor = floor_seconds(own.kernel, self.machine, self.sizes)
        is_far = shows or _waits(found[0].trace.kernel) or found[0].seconds > FAR * floor
        if is_far and len(expanded.steps) > len(own.steps):
            most = max(MOST_MEMORY, OWN_MEMORY * temporary_share(kept.kernel, self.sizes))

            def add(other: Trace) -> None:
                keep_scalars(other)
                for one in self._forms(other):
                    fits = temporary_share(one.trace.kernel, self.sizes) <= most
                    (found if fits else large).append(replace(one, form=f"{one.form}, temporaries expanded"))

            add(expanded)
            if all(_waits(one.trace.kernel) for one in found) and (other := self._rows_apart(own, most)):
                add(other)
        if shows and (not found or found[0].seconds > NEAR * floor):
            found += self._forms(kept)
        found.sort(key=lambda one: one.seconds)
        if _waits(found[0].trace.kernel) and not self.is_open(own.kernel):  # a loop of the host may never end
            large = [one for one in large if not _waits(one.trace.kernel)]
            found = sorted([*found, *large], key=lambda one: one.seconds)
        return found

    def _rows_apart(self, trace: Trace, most: float) -> Trace | None:
        """The kernel with an array for each stretch of the text that begins to use a row anew, as far outside as
        there is memory for. None where it has no such rows."""
        for outside in range(2):
            other = trace.copy()
            own_arrays(other, ())
            expand_temporaries(other, outside)
            if temporary_share(other.kernel, self.sizes) <= most and len(other.steps) > len(trace.steps):
                return other
        return None

    def _forms(self, trace: Trace) -> list[ScheduledForm]:
        """The kernel in each of its forms, the best first, of which every move is proved. Where that shows a move
        not to be legal that was supposed to be, or a kernel that no move could make was too much for a structure,
        all is made again with each move proved at once."""
        if self.supposed is not None:
            noted = len(self.tried)
            with suppress(DojoError):
                best, *others = self._each_form(trace)
                return [replace(best, trace=best.proved(), sure=None) if self.proves else best, *others]
            del self.tried[noted:]
        return replace(self, supposed=None)._each_form(trace)

    def _each_form(self, trace: Trace) -> list[ScheduledForm]:
        found: list[ScheduledForm] = []
        begun = set()
        floor = floor_seconds(trace.kernel, self.machine, self.sizes)
        multiplies = any(is_contraction(site) for site in trace.kernel.sites)
        for form in sorted(FORMS, key=lambda form: form is not products) if multiplies else FORMS:
            other = trace.copy()
            if not tried(other, form) or other.kernel in begun:
                continue
            begun.add(other.kernel)
            one = self.scheduled(other, form)
            seconds = one.seconds * (self.gain(other.kernel) if found else 1)
            found.append(replace(one, seconds=seconds))
            if seconds <= NEAR * floor:
                break
        return sorted(found, key=lambda one: one.seconds)

    def scheduled(self, trace: Trace, form: Form) -> ScheduledForm:
        """A kernel in a form, with all its nests scheduled: unit after unit, the last first, so that those before
        are where they were. What cannot be made of a unit by itself is made on the whole kernel."""
        other, name = trace.copy(), form.__name__
        delete_dead(other)
        units = units_of(other.kernel)
        alone = replace(self, typical=self.typical or known_sizes(trace.kernel, self.sizes))
        made = [alone._of_unit(unit, name) for unit in units] if len(units) > 1 else [None]
        with self._supposing(other.kernel):
            for unit, moves in zip(reversed(units), reversed(made), strict=True):
                if moves is None or not tried(other, partial(moves.make, unit=unit)):
                    self._nests(other, name, unit.first, len(unit.kernel.body))
            delete_dead(other)  # as a sum that a tile keeps in registers, and nothing else reads
            seconds = self.cost(other)
        return ScheduledForm(name, other, seconds, None if self.supposed is None else len(trace.steps))

    def _supposing(self, kernel: Kernel) -> AbstractContextManager[None]:
        return nullcontext() if self.supposed is None else supposing(kernel, self.supposed)

    def _nests(self, trace: Trace, form: str, begin: int, count: int) -> None:
        """Schedules some nests of a kernel one after the other."""
        order = (n for n in _order(trace.kernel) if begin <= n < begin + count)
        for nest in [spot(trace, (n,)) for n in order]:
            if (path := _where(nest)) is not None:
                self.nest(trace, path, form)

    def _of_unit(self, unit: Unit, form: str) -> UnitMoves:
        """The moves that schedule a unit, found once for all that are alike. Where each is to be proved at once,
        what was supposed before is taken if it can be proved, and else others are looked for."""
        key = unit.kernel, self.machine, self.structures, *map(_items, (self.sizes, self.typical or {}))
        supposed = _unit_plans.get((*key, True))
        found = supposed if self.supposed is not None else _unit_plans.get((*key, False))
        if found is None and supposed is not None and tried(Trace(unit.kernel), supposed.moves.make_all):
            found = _unit_plans.put((*key, False), supposed)
        if found is None:
            trace, planner = Trace(unit.kernel), replace(self, tried=[], wanted=set())
            with self._supposing(trace.kernel):
                planner._nests(trace, form, 0, len(unit.kernel.body))
                delete_dead(trace)
            noted = tuple(planner.tried), frozenset(planner.wanted)
            found = _unit_plans.put((*key, True), UnitPlan(UnitMoves.of(trace), *noted))
            if self.supposed is None:
                _unit_plans.put((*key, False), found)
        for one in found.tried:
            (nest,) = parse_path(one.nest)
            place, refusal = format_path((nest + unit.first,)), unit.in_whole(one.refusal)
            self.tried.append(replace(one, form=form, nest=place, refusal=refusal))
        self.wanted.update(found.wanted)
        return found.moves

    def nest(self, trace: Trace, path: Path, form: str = "", depth: int = 0) -> None:
        """Schedules the nest at a path."""
        node = trace.kernel.at(path)
        if isinstance(node, Statement) or (isinstance(node, Scope) and node.marks) or depth > MOST_PARTS:
            return
        others, enough = 0.0, 0.0
        if len(path) == 1:
            others = self.cost(trace) - node_seconds(trace.kernel, path, self.machine, self._model_sizes)
            enough = NEAR * floor_seconds(trace.kernel, self.machine, self._model_sizes, path)
        best, least, asked = trace, inf, rules not in self.structures
        for structure in self.structures:
            asked |= structure is rules  # whatever else is near enough, a plan costs no more than they do
            other = trace.copy()
            beside = [spot(other, (n,)) for n in range(len(other.kernel.body)) if (n,) != path]
            try:
                parts = structure(other, path, self.machine)
            except DojoError as error:
                self.wanted.update([error.name] if isinstance(error, OpenSize) else ())
                self._note(trace, path, form, depth, structure, None, str(error))
                continue
            for part in sorted(parts or (), key=lambda part: part.path, reverse=True):
                self.nest(other, part.path, form, depth + 1)
            seconds = self.cost(other) - others
            if len(path) == 1:  # a nest that is gone is not among the others, for it is not scheduled yet
                gone = [parse_path(nest.place) for nest in beside if _where(nest) is None]
                seconds += sum(node_seconds(trace.kernel, nest, self.machine, self._model_sizes) for nest in gone)
            self._note(trace, path, form, depth, structure, seconds)
            if structure not in SURE and structure in STRUCTURES:
                seconds *= self.gain(trace.kernel)
            if seconds < least:
                best, least = other, seconds
            if least <= enough and asked:
                break
        take_over(trace, best)

    def _note(
        self,
        trace: Trace,
        path: Path,
        form: str,
        depth: int,
        structure: Structure,
        seconds: float | None,
        refusal: str = "",
    ) -> None:
        if depth == 0 and len(path) == 1:
            self.tried.append(TriedStructure(form, format_path(path), structure.__name__, seconds, refusal))


def _items(sizes: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sizes.items())


def _waits(kernel: Kernel) -> bool:
    """Whether a loop is left to the host."""
    return any(isinstance(n, Scope) and not n.marks and n.extent.constant != 1 for n in kernel.body)


def _is_left_out(name: str, structure: str, path: Path) -> bool:
    return structure == name


def _where(nest: Spot) -> Path | None:
    """The path of a nest; None where the schedule of another nest took it in, as the first value of a sum."""
    try:
        return nest.path
    except ArgumentError:
        return None


def _order(kernel: Kernel) -> list[int]:
    """The nests of a kernel in the order in which they are scheduled. Contractions come first: what is proved of
    their tiles is a question about all nests, and simpler before scopes of others are one. Then come the others,
    the last of the text first."""
    products = {site.path[0] for site in kernel.sites if is_contraction(site)}
    return sorted(range(len(kernel.body)), key=lambda n: (n not in products, -n))


def floor(kernel: Kernel, machine: Machine, sizes: Mapping[str, int]) -> float:
    """Seconds that no schedule of a kernel is faster than on a GPU, by the model."""
    return floor_seconds(kernel, machine, sizes)


def plan(trace: Trace, machine: Machine, sizes: Mapping[str, int]) -> None:
    """Schedules a kernel by the best plan that can be proved."""
    for one in Planner(machine, sizes).plans(trace):
        with suppress(IllegalMove):
            take_over(trace, one.proved())
            return
