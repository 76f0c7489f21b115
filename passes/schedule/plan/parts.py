"""The parts of a plan as passes: one form of a kernel, one structure of a nest, for who would choose himself."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import TypeVar

from dojoir.backends.host import machine_named
from dojoir.backends.machine import Machine
from dojoir.errors import ArgumentError, did_you_mean
from dojoir.ir.nodes import Kernel, Path, format_path, parse_path
from dojoir.ir.paths import is_inside
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.cpu.structures import CPU_STRUCTURES, schedule_nests, use
from dojoir.passes.schedule.facts.strides import Sizes
from dojoir.passes.schedule.forms.plain import settle
from dojoir.passes.schedule.plan import kernel_forms, structures

_T = TypeVar("_T")

FORMS: Mapping[str, Callable[[Trace], None]] = MappingProxyType(
    {form.__name__: form for form in kernel_forms.FORMS}
)
"""Which nests of a kernel are fused, by name."""

STRUCTURES: Mapping[str, structures.Structure] = MappingProxyType(
    {structure.__name__: structure for structure in structures.STRUCTURES}
)
"""The structures of nests for a GPU, by name; those for CPUs are in `CPU_STRUCTURES`."""


def arrange(trace: Trace, form: str) -> None:
    """Brings the nests of a kernel into one of the forms that the planner for GPUs begins with. `joined` fuses as
    many as can be, `products` all but those around products, `chained` the same and two products with the rows
    between them, `apart` gives each sum a nest of its own.

    >>> import dojoir
    >>> trace = dojoir.PASSES["arrange"].given("joined").on(dojoir.kernels.load("softmax"))
    >>> [str(move) for move in trace.moves]
    ['join_scopes(0, 1)']
    """
    _named(form, "form", FORMS)(trace)


def structure(
    trace: Trace, nest: str, name: str, machine: Machine | str = "cuda", *, sizes: Sizes = MappingProxyType({})
) -> None:
    """Schedules the outermost scope at `nest` by one structure. For a GPU that is one of the planner: `rules`,
    `elements_in_threads`, `blocks_in_threads`, `rows_in_warps`, `rows_in_blocks`, `rows_as_one`, `sum_along`,
    `sum_across`, `partial_sums`, `partial_products`, `rows_of_warps`, `few_rows`, `large_tiles`, `small_tiles`,
    `quad_tiles`, `scaled_tiles`, `adds_at_data`, `copies_in_blocks`, `assigns_at_data` or `columns_in_threads`.
    What becomes a nest of its own thereby is left to `rules`.

    For a CPU it is `waves`, `turned_recurrences`, `triangles`, `columns_alone`, `long_sums`, `register_tiles`,
    `channel_tiles`, `window_tiles`, `gathered_rows`, `rows_in_lanes`, `sums_abreast`, `rows_abreast`,
    `blocks_apart`, `sums_in_parts`, `blocks_of_scans`, `interchange`, `lanes`, `streams`, `next_rows` or `cores`,
    at all places in the nest that it fits. Raises ArgumentError or IllegalMove where the nest is not of its form.

    >>> import dojoir
    >>> trace = dojoir.PASSES["structure"].given("0", "rules").on(dojoir.kernels.load("relu"))
    >>> print(trace.kernel)
    kernel relu(N)
    in  x: f32[N]
    out y: f32[N]
    <BLANKLINE>
    (N + 1023) // 1024 : gx @i
    | min(256, (N + 3) // 4 - 256*{i}) : bx @i_in
    | | min(4, N - 1024*{i} - 4*{i_in}) : v @i_in_in
    | | | y[1024*{i} + 4*{i_in} + {i_in_in}] = max(x[1024*{i} + 4*{i_in} + {i_in_in}], 0)
    <BLANKLINE>
    >>> lanes = dojoir.PASSES["structure"].given("0", "lanes", "avx512").on(dojoir.kernels.load("relu"))
    >>> [str(move) for move in lanes.moves]
    ['split(0, 4096)', 'vectorize(0.0)']
    """
    planned = machine if isinstance(machine, Machine) else machine_named(machine)
    path = trace.kernel.path(nest)
    if len(path) != 1:
        raise ArgumentError(f"{nest} is inside of another scope: a nest is outermost", "bad-arguments")
    if planned.kind == "cpu":
        _check_name(name, _optional(), STRUCTURES, planned)
        _use(trace, path, name, planned, sizes)
        return
    _check_name(name, STRUCTURES, _optional(), planned)
    chosen = STRUCTURES[name]
    try:
        parts = chosen(trace, path, planned)
    except ArgumentError as error:
        message = f"the nest at {nest} is not of the structure {name}: {error.diagnostic.message}"
        raise ArgumentError(message, error.diagnostic.code) from None
    for part in sorted(parts or (), key=lambda part: part.path, reverse=True):
        structures.rules(trace, part.path, planned)


def _optional() -> list[str]:
    """The names of the structures for CPUs that a user may ask for, or do without."""
    return [name for name, (role, _) in CPU_STRUCTURES.items() if role.optional]


def _check_name(name: str, known: Collection[str], others: Collection[str], machine: Machine) -> None:
    """Raises ArgumentError for a structure that is not one of those `known` for a kind of machine."""
    if name in known:
        return
    if name in others:
        kind, other = ("CPUs", "cuda") if machine.kind == "cpu" else ("GPUs", "avx512")
        message = f"{name} is no structure for {kind}, as {machine.name} is one: give a machine such as {other}"
        raise ArgumentError(message, "bad-target")
    near = did_you_mean(name, known)
    message = f"there is no structure '{name}' for {machine.name}{near}: they are {', '.join(known)}"
    raise ArgumentError(message, "bad-arguments")


def _use(trace: Trace, nest: Path, name: str, machine: Machine, sizes: Sizes) -> None:
    """Schedules a nest by a structure for CPUs. Raises DojoError where it does not fit there."""
    fitted = use(trace, name, machine, sizes, lambda _, path: not is_inside(path, nest))
    if not any(fit.moves for fit in fitted):
        for fit in fitted:
            if fit.refusal is not None:
                raise fit.refusal
        raise ArgumentError(f"the nest at {format_path(nest)} is not of the structure {name}", "bad-arguments")


def default_without(
    trace: Trace,
    name: str,
    place: str = "",
    machine: Machine | str = "host",
    *,
    sizes: Sizes = MappingProxyType({}),
) -> None:
    """Schedules a kernel for a CPU as `default_schedule` does, but without one of its structures: at no place that
    it fits, or at all but one `place`, which `dojoir.plan` names. Others may fit there then. Raises ArgumentError
    for an unknown name, where it would not fit, and for a GPU, whose structures are tried by themselves
    (`structure`).

    >>> import dojoir
    >>> trace = dojoir.PASSES["default_without"].given("lanes", "", "avx512").on(dojoir.kernels.load("relu"))
    >>> [str(move) for move in trace.moves]
    ['parallelize(0)']
    """
    planned = machine if isinstance(machine, Machine) else machine_named(machine)
    if planned.kind == "gpu":
        message = f"default_without is for CPUs, and {planned.name} is a GPU: use structure(NEST, NAME) there"
        raise ArgumentError(message, "bad-target")
    _check_name(name, _optional(), STRUCTURES, planned)
    if place and not re.fullmatch(r"[0-9]+(\.[0-9]+)*", place):
        message = f"'{place}' is no path as dojoir.plan prints one, such as 0.1"
        raise ArgumentError(message, "bad-arguments")
    where = parse_path(place) if place else None
    skipped: list[Path] = []

    def skips(one: str, path: Path) -> bool:
        is_skipped = one == name and where in (None, path)
        skipped.extend([path] * is_skipped)
        return is_skipped

    settle(trace)
    fitted = schedule_nests(trace, planned, sizes, skips)
    if not skipped:
        places = ", ".join(sorted(format_path(fit.path) for fit in fitted if fit.structure == name))
        at, others = f" at {place}" if place else "", f"; it fits at {places}" if places else ""
        message = f"{name} does not fit{at}: there is nothing to leave out{others}"
        raise ArgumentError(message, "bad-arguments")


def asked_for(kernel: Kernel, machine: Machine) -> frozenset[str]:
    """The structures that `default_without` can leave out of a kernel: those that `default_schedule` asks for."""
    trace, found = Trace(kernel), set[str]()

    def noted(one: str, path: Path) -> bool:
        found.add(one)
        return False

    settle(trace)
    schedule_nests(trace, machine, {}, noted)
    return frozenset(found)


def _named(name: str, what: str, known: Mapping[str, _T]) -> _T:
    if name not in known:
        message = f"there is no {what} '{name}'{did_you_mean(name, known)}: they are {', '.join(known)}"
        raise ArgumentError(message, "bad-arguments")
    return known[name]
