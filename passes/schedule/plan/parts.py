"""The parts of a plan as passes: one form of a kernel, one structure of a nest, for who would choose himself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeVar

from dojoir.backends.host import machine_named
from dojoir.backends.machine import Machine
from dojoir.errors import ArgumentError, did_you_mean
from dojoir.passes.engine.trace import Trace
from dojoir.passes.schedule.plan import planner

_T = TypeVar("_T")

FORMS: Mapping[str, Callable[[Trace], None]] = MappingProxyType(
    {form.__name__.lstrip("_"): form for form in planner.FORMS}
)
"""Which nests of a kernel are fused, by name."""

STRUCTURES: Mapping[str, planner.Structure] = MappingProxyType(
    {structure.__name__: structure for structure in planner.STRUCTURES}
)
"""The structures of nests for a GPU, by name."""


def arrange(trace: Trace, form: str) -> None:
    """Brings the nests of a kernel into one of the forms that the planner for GPUs begins with. `joined` fuses as
    many as can be, `products` all but those around products, `apart` gives each sum a nest of its own.

    >>> import dojoir
    >>> trace = dojoir.PASSES["arrange"].given("joined").on(dojoir.kernels.load("softmax"))
    >>> [str(move) for move in trace.moves]
    ['join_scopes(0, 1)']
    """
    _named(form, "form", FORMS)(trace)


def structure(trace: Trace, nest: str, name: str, machine: Machine | str = "cuda") -> None:
    """Schedules the outermost scope at `nest` for a GPU by one structure of the planner: `rules`,
    `elements_in_threads`, `blocks_in_threads`, `rows_in_warps`, `rows_in_blocks`, `rows_as_one`, `sum_along`,
    `sum_across`, `partial_sums`, `partial_products`, `large_tiles`, `small_tiles`, `quad_tiles`, `scaled_tiles`,
    `adds_at_data`, `copies_in_blocks`, `assigns_at_data` or `columns_in_threads`. What becomes a nest of its own
    thereby is left to `rules`. Raises ArgumentError or IllegalMove where the nest is not of its form.

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
    """
    planned = machine if isinstance(machine, Machine) else machine_named(machine)
    chosen = _named(name, "structure", STRUCTURES)
    if planned.kind != "gpu":
        raise ArgumentError(f"a structure is for a GPU, and {planned.name} is none", "bad-target")
    path = trace.kernel.path(nest)
    if len(path) != 1:
        raise ArgumentError(f"{nest} is inside of another scope: a nest is outermost", "bad-arguments")
    try:
        parts = chosen(trace, path, planned)
    except ArgumentError as error:
        message = f"the nest at {nest} is not of the structure {name}: {error.diagnostic.message}"
        raise ArgumentError(message, error.diagnostic.code) from None
    for part in sorted(parts or (), key=lambda part: part.path, reverse=True):
        planner.rules(trace, part.path, planned)


def _named(name: str, what: str, known: Mapping[str, _T]) -> _T:
    if name not in known:
        message = f"there is no {what} '{name}'{did_you_mean(name, known)}: they are {', '.join(known)}"
        raise ArgumentError(message, "bad-arguments")
    return known[name]
