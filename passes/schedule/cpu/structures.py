"""The structures for CPUs by their roles, and what schedules a kernel by them.

A structure is a pattern of facts and the moves that it allows (`Fit`, `steps/combinators.py`). Roles come one after
the other, each on the kernel that those before it made: nests are skewed and cut before they are tiled, what is in
no tile is brought abreast, and lanes, hints and cores are given last. The structures of a role are tried in order
of the table, the more special ones first. What they make is marked, as a tile is, or of another form, so that later
ones fit it only where they have more to do in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from dojoir.backends.machine import Machine
from dojoir.errors import ArgumentError, DojoError
from dojoir.ir.nodes import Kernel, Path
from dojoir.passes.base.move import Move
from dojoir.passes.engine.trace import Trace, take_over
from dojoir.passes.schedule.cpu.roles import collapsed, cores, interchange, lanes, registers
from dojoir.passes.schedule.cpu.rows.abreast import rows_abreast, sums_abreast
from dojoir.passes.schedule.cpu.rows.recurrences import blocks_apart, rows_in_lanes, turned_recurrences
from dojoir.passes.schedule.cpu.rows.streams import next_rows, streams
from dojoir.passes.schedule.cpu.rows.sums import blocks_of_scans, sums_in_parts
from dojoir.passes.schedule.cpu.rows.waves import waves
from dojoir.passes.schedule.cpu.tiles.convolution import channel_tiles, columns_alone, window_tiles
from dojoir.passes.schedule.cpu.tiles.gathered_rows import gathered_rows
from dojoir.passes.schedule.cpu.tiles.register_tile import long_sums, register_tiles
from dojoir.passes.schedule.cpu.tiles.triangles import triangles
from dojoir.passes.schedule.facts.strides import Sizes
from dojoir.passes.schedule.forms.borders import conditions_to_bounds, count_from_zero, cut_borders
from dojoir.passes.schedule.forms.fusing import join_around_products
from dojoir.passes.schedule.forms.parting import part_products, sink_sums, take_units_away
from dojoir.passes.schedule.forms.pivots import cut_pivots
from dojoir.passes.schedule.forms.plain import as_plain_scopes, remove_guards, rows_outside, sums_along_rows
from dojoir.passes.schedule.forms.residues import gather_scattered, split_residues
from dojoir.passes.schedule.forms.temporaries import (
    expand_shared,
    expand_sums,
    hoist_factors,
    inline_once,
    keep_repeated,
    own_scalars,
)
from dojoir.passes.schedule.steps.combinators import Structure, make, tried
from dojoir.passes.schedule.steps.simplify import delete_dead
from dojoir.passes.schedule.steps.spots import Spot, spot
from dojoir.support.frozen import dataclass

Form = Callable[[Trace, Sizes], object]
"""Brings a kernel into a form that structures are recognised in."""


@dataclass(frozen=True)
class Role:
    """A role of structures in a schedule, and the form that a kernel is brought into before them, if any. Plans and
    searches try a schedule without those that are `optional`."""

    name: str
    structures: tuple[Structure, ...]
    form: Form | None = None
    optional: bool = True


@dataclass(frozen=True)
class Fitted:
    """A place that a structure of a role fitted: how many moves were made there (0 where what goes through a nest
    by itself found nothing to do), or the `refusal` of one, and the seconds of the kernel then, if these were asked
    for."""

    role: Role
    structure: str
    path: Path
    moves: int = 0
    refusal: DojoError | None = None
    seconds: float | None = None


Cost = Callable[[Trace], float | None]
"""The seconds of a kernel, as far as they are known."""

Skips = Callable[[str, Path], bool]
"""Whether a structure, by its name, is skipped at a place."""


def _nowhere(name: str, path: Path) -> bool:
    return False


def schedule_nests(
    trace: Trace, machine: Machine, sizes: Sizes, skips: Skips = _nowhere, cost: Cost | None = None
) -> list[Fitted]:
    """Schedules a kernel by all structures that fit it, but where they are skipped. A refusal leaves the kernel as
    it was. Returns what fitted, in the order in which it was tried, with what it costs if that is given."""
    found: list[Fitted] = []
    for role in ROLES:
        if role.form is not None:
            role.form(trace, sizes)
        for structure in role.structures:
            found += use(trace, name_of(structure), machine, sizes, skips, cost)
    return found


def use(
    trace: Trace,
    name: str,
    machine: Machine,
    sizes: Sizes,
    skips: Skips = _nowhere,
    cost: Cost | None = None,
) -> list[Fitted]:
    """Schedules the places that a structure fits, but where it is skipped, the last of the text first: so the
    places of others mostly stay as they are. Where they do not (a copy for one may stand before a scope that others
    are in), the structure is asked again. Of several fits at one place the last that is legal is made. Raises
    KeyError for an unknown name."""
    found: list[Fitted] = []
    role, structure = CPU_STRUCTURES[name]
    fits = list(structure(trace.kernel, machine, sizes))
    made: list[Spot] = []
    for _ in range(len(fits)):  # as often as there are fits at most: what is asked again finds no more
        moved = False
        done = {place.path for place in made if place.is_there}
        while fits and not moved:
            fit = fits.pop()
            if fit.path in done or skips(name, fit.path):
                continue
            before, refusal, place = trace.copy(), None, spot(trace, fit.path) if fit.path else None
            if isinstance(fit.step, Move):
                tried(trace, fit.step)  # of a move alone nobody asks why it is refused, which takes long to say
            else:
                try:
                    make(trace, fit.step)
                except DojoError as error:
                    take_over(trace, before)
                    refusal = error
            seconds = cost(trace) if cost is not None and role.optional and refusal is None else None
            found.append(Fitted(role, name, fit.path, len(trace.steps) - len(before.steps), refusal, seconds))
            if place is not None and refusal is None:  # without a path it is about one buffer, others about others
                done.add(fit.path)
                made.append(place)
                moved = any(not _is_as_before(before.kernel, trace.kernel, other.path) for other in fits)
        if moved:
            fits = list(structure(trace.kernel, machine, sizes))
    return found


def _is_as_before(before: Kernel, now: Kernel, path: Path) -> bool:
    """Whether the same node stands at a place."""
    try:
        return now.at(path) == before.at(path)
    except ArgumentError:
        return False


def name_of(structure: Structure) -> str:
    """The name of a structure: that of its function."""
    return str(getattr(structure, "__name__", structure))


# -- the table ---------------------------------------------------------------------------------------------
def _borders(trace: Trace, sizes: Sizes) -> None:
    """Sums that windows scatter gathered, scopes cut at pivots, a nest for each residue that a condition asks for,
    and the ends of rows cut off where something is clamped."""
    gather_scattered(trace)
    cut_pivots(trace)
    if split_residues(trace):
        remove_guards(trace)
    cut_borders(trace, sizes)


def _scalars(trace: Trace, sizes: Sizes) -> None:
    """No scopes of one iteration, a scalar for each nest, and an element for each result of a product."""
    take_units_away(trace)
    own_scalars(trace)
    expand_sums(trace, sizes)


def _contractions(trace: Trace, sizes: Sizes) -> None:
    """One form of the same work however it is written: sums inside of what they sum up for, along rows and from 0
    on; products with nests of their own, and all else fused."""
    inline_once(trace)
    as_plain_scopes(trace)
    conditions_to_bounds(trace)
    sums_along_rows(trace)
    sink_sums(trace)
    expand_shared(trace, sizes)
    part_products(trace, tiled=True)
    sink_sums(trace)
    join_around_products(trace)
    rows_outside(trace, tiled=True)
    hoist_factors(trace, tiled=True)
    keep_repeated(trace)
    count_from_zero(trace)


def _alive(trace: Trace, sizes: Sizes) -> None:
    delete_dead(trace)


ROLES: tuple[Role, ...] = (
    Role("skew", (waves,), _borders),
    Role("turn", (turned_recurrences,), _scalars),
    Role("cut", (triangles,), _contractions),
    Role("tile", (columns_alone, long_sums, register_tiles, channel_tiles, window_tiles)),
    Role("abreast", (gathered_rows, rows_in_lanes, sums_abreast, rows_abreast, blocks_apart), _alive),
    Role("collapse", (collapsed,), optional=False),
    Role("registers", (registers,), optional=False),
    Role("parts", (sums_in_parts, blocks_of_scans)),
    Role("interchange", (interchange,)),
    Role("lanes", (lanes,)),
    Role("hints", (streams, next_rows)),
    Role("cores", (cores,)),
)
"""All roles, in the order in which they are given."""

CPU_STRUCTURES: Mapping[str, tuple[Role, Structure]] = MappingProxyType(
    {name_of(structure): (role, structure) for role in ROLES for structure in role.structures}
)
"""All structures for CPUs, each with its role, by name."""
