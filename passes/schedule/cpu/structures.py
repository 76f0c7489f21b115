"""The structures for CPUs by their roles, and what schedules a kernel by them.

A structure is a pattern of facts and the moves that it allows (`fit.py`). Roles come one after the other, each on
what those before it left: nests are skewed and cut before they are tiled, what is in no tile is brought abreast,
and lanes and cores are given last. Of the structures of one role that fit the same place the one that is named
first is taken. It is the more special one, and what it makes is marked, so that the others do not fit it any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from dojoir.backends.machine import Machine
from dojoir.errors import DojoError
from dojoir.ir.nodes import Path
from dojoir.passes.engine.trace import Trace, take_over
from dojoir.passes.schedule.cpu.roles.cores import cores
from dojoir.passes.schedule.cpu.roles.interchange import interchange
from dojoir.passes.schedule.cpu.roles.lanes import lanes
from dojoir.passes.schedule.cpu.roles.storage import collapsed, registers
from dojoir.passes.schedule.cpu.rows.abreast import rows_abreast
from dojoir.passes.schedule.cpu.rows.blocks_apart import blocks_apart
from dojoir.passes.schedule.cpu.rows.next_rows import next_rows
from dojoir.passes.schedule.cpu.rows.recurrences import turned_recurrences
from dojoir.passes.schedule.cpu.rows.rows_in_lanes import rows_in_lanes
from dojoir.passes.schedule.cpu.rows.scans import blocks_of_scans
from dojoir.passes.schedule.cpu.rows.streams import streams
from dojoir.passes.schedule.cpu.rows.sums import sums_in_parts
from dojoir.passes.schedule.cpu.rows.sums_abreast import sums_abreast
from dojoir.passes.schedule.cpu.rows.waves import waves
from dojoir.passes.schedule.cpu.tiles.convolution import channel_tiles
from dojoir.passes.schedule.cpu.tiles.gathered_rows import gathered_rows
from dojoir.passes.schedule.cpu.tiles.long_sums import long_sums
from dojoir.passes.schedule.cpu.tiles.register_tile import register_tiles
from dojoir.passes.schedule.cpu.tiles.triangles import triangles
from dojoir.passes.schedule.cpu.tiles.windows import columns_alone, window_tiles
from dojoir.passes.schedule.facts.sizes import Sizes
from dojoir.passes.schedule.forms.borders import cut_borders
from dojoir.passes.schedule.forms.contractions import join_around_products, sink_sums, take_units_away
from dojoir.passes.schedule.forms.counted_from_columns import count_from_zero
from dojoir.passes.schedule.forms.parting import part_products
from dojoir.passes.schedule.forms.residues import split_residues
from dojoir.passes.schedule.forms.scalars import own_scalars
from dojoir.passes.schedule.forms.settling import remove_guards
from dojoir.passes.schedule.forms.turning import sums_along_rows
from dojoir.passes.schedule.steps.combinators import make
from dojoir.passes.schedule.steps.fit import Structure
from dojoir.passes.schedule.steps.simplify import delete_dead
from dojoir.support.frozen import dataclass

Form = Callable[[Trace, Sizes], object]
"""Brings a kernel into a form that structures are recognised in."""


@dataclass(frozen=True)
class Role:
    """A role of structures in a schedule, and the form that a kernel is brought into before them, if any. Whether
    its structures are worth leaving out is to be found out by a plan (`is_chosen`); else they cost nothing."""

    name: str
    structures: tuple[Structure, ...]
    form: Form | None = None
    is_chosen: bool = True


@dataclass(frozen=True)
class Made:
    """A place that a structure of a role fitted: how many moves it made there, or the `refusal` that says why it
    could not."""

    role: Role
    structure: str
    path: Path
    moves: int = 0
    refusal: DojoError | None = None


Left = Callable[[str, Path], bool]
"""Whether a structure, by its name, is left out at a place."""


def _none(name: str, path: Path) -> bool:
    return False


def schedule_nests(trace: Trace, machine: Machine, sizes: Sizes, left: Left = _none) -> list[Made]:
    """Schedules a kernel by all structures that fit it, but where they are left out. What is refused leaves the
    kernel as it was. Returns what fitted, in the order in which it was tried."""
    made: list[Made] = []
    for role in ROLES:
        if role.form is not None:
            role.form(trace, sizes)
        for structure in role.structures:
            made += use(trace, name_of(structure), machine, sizes, left)
    return made


def use(trace: Trace, name: str, machine: Machine, sizes: Sizes, left: Left = _none) -> list[Made]:
    """Schedules the places that a structure fits, but where it is left out, the last of the text first: so the
    places of others stay as they are. Of several fits at one place the last that is legal is made. Raises KeyError
    for an unknown name."""
    made: list[Made] = []
    done: set[Path] = set()
    role, structure = STRUCTURES[name]
    for fit in reversed(list(structure(trace.kernel, machine, sizes))):
        if fit.path in done or left(name, fit.path):
            continue
        before = trace.copy()
        try:
            make(trace, fit.step)
        except DojoError as error:
            take_over(trace, before)
            made.append(Made(role, name, fit.path, refusal=error))
        else:
            made.append(Made(role, name, fit.path, len(trace.steps) - len(before.steps)))
            done |= {fit.path} - {()}
    return made


def name_of(structure: Structure) -> str:
    """The name of a structure: that of its function."""
    return str(getattr(structure, "__name__", structure))


# -- the table ---------------------------------------------------------------------------------------------
def _scopes(trace: Trace, sizes: Sizes) -> None:
    """A nest for each residue that a condition asks for, the ends of rows cut off where something is clamped there,
    no scopes of one iteration, a scalar for each nest."""
    if split_residues(trace):
        remove_guards(trace)
    cut_borders(trace, sizes)
    take_units_away(trace)
    own_scalars(trace)


def _contractions(trace: Trace, sizes: Sizes) -> None:
    """Sums inside of what they sum up for, along rows and from 0 on; products with nests of their own, and all else
    fused."""
    sums_along_rows(trace)
    sink_sums(trace)
    part_products(trace)
    join_around_products(trace)
    count_from_zero(trace)


def _alive(trace: Trace, sizes: Sizes) -> None:
    delete_dead(trace)


ROLES: tuple[Role, ...] = (
    Role("skew", (waves, turned_recurrences), _scopes),
    Role("cut", (triangles,), _contractions),
    Role("tile", (columns_alone, long_sums, register_tiles, channel_tiles, window_tiles)),
    Role("abreast", (gathered_rows, rows_in_lanes, sums_abreast, rows_abreast, blocks_apart), _alive),
    Role("collapse", (collapsed,), is_chosen=False),
    Role("registers", (registers,), is_chosen=False),
    Role("parts", (sums_in_parts, blocks_of_scans)),
    Role("interchange", (interchange,)),
    Role("lanes", (lanes,)),
    Role("hints", (streams, next_rows)),
    Role("cores", (cores,)),
)
"""All roles, in the order in which they are given."""

STRUCTURES: Mapping[str, tuple[Role, Structure]] = MappingProxyType(
    {name_of(structure): (role, structure) for role in ROLES for structure in role.structures}
)
"""All structures for CPUs, each with its role, by name."""
