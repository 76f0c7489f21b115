"""The work and the traffic of a kernel by its text: operations by class, statement instances and bytes. Each is a
formula in the sizes, and an exact number for given ones. The counts come from the integer sets of the kernel.

- `flops` counts operations on floats: add, sub, mul, div and sqrt one each, fma two, and each math function (exp,
  pow, rsqrt, …) one. An accumulation is the operation that it repeats. Negation, comparison, max, min, select and
  rounding are no flops: they are `other`, with the logic. Arithmetic on integer elements is `integer`. Conversions,
  what sizes and iterators need, and a length from data, count nowhere.
- `bytes` is the traffic that every schedule has if nothing is in a cache before: the distinct elements of `in` and
  `inout` buffers that are read, and of `out` and `inout` buffers that are written, times their size. Scalars of
  role `in` are passed by value and do not count. Gathered elements are counted as if each instance of the gather
  read another one, as far as there are any: `bytes` is then an upper bound, and `bounded` says so.
- `accessed` is every load and store of the text, of temporaries too, in bytes: what flows if nothing is kept.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any

import islpy as isl

from dojoir.costs.amounts import Amount, Least, count, product, total
from dojoir.costs.counting import Counter
from dojoir.costs.formulas import formula_text
from dojoir.costs.systems import system, systems_of
from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Buffer, Condition, Kernel, Scope, Site, given_kernel
from dojoir.ir.operations import ACCUMULATIONS, ELEMENTARY, OPERATIONS, Class
from dojoir.ir.packing import in_halves
from dojoir.meaning.sizes import solve
from dojoir.sets.data_writes import without_data_writes
from dojoir.sets.kernel_sets import Read, sets_of
from dojoir.support.frozen import dataclass
from dojoir.support.public import public
from dojoir.types.elaborate import elaborate
from dojoir.types.typed import Apply, Typed
from dojoir.types.typed_parts import typed_parts

FLOPS = {"add": 1, "sub": 1, "mul": 1, "div": 1, "sqrt": 1, "fma": 2}
"""How many flops an operation on floats is; a math function is one."""

LONGEST_FORMULA = 600
"""Longer formulas are not shown in a report."""

LONGEST_IN_REPR = 60
"""Nor longer ones in a `repr`."""


@dataclass(frozen=True)
class Counts:
    """A cost for given sizes: see `Cost`, whose names these are."""

    flops: int
    integer: int
    other: int
    functions: int
    instances: int
    read: int
    written: int
    accessed: int

    @property
    def bytes(self) -> int:
        """Read and written together."""
        return self.read + self.written


@dataclass(frozen=True)
class Cost:
    """The work and the traffic of a kernel; the module says how each is counted. Every amount is a function of the
    sizes (`cost.flops({"N": 4})`), and `dojoir.costs.formulas.formula` gives its formula.

    `floats` has the operations on floats by name; `read` and `written` are bytes.
    """

    kernel: Kernel
    floats: Mapping[str, Amount]
    integer: Amount
    other: Amount
    instances: Amount
    read: Amount
    written: Amount
    accessed: Amount
    bounded: bool

    @cached_property
    def flops(self) -> Amount:
        """Operations on floats, an fma being two."""
        return total((FLOPS.get(name, 1), amount) for name, amount in self.floats.items())

    @cached_property
    def functions(self) -> Amount:
        """Calls of math functions; they are among the flops."""
        return total((1, amount) for name, amount in self.floats.items() if name in ELEMENTARY)

    @cached_property
    def bytes(self) -> Amount:
        """The traffic that every schedule has."""
        return total([(1, self.read), (1, self.written)])

    @public
    def at(self, **sizes: int) -> Counts:
        """The exact numbers for given sizes. Raises ArgumentError for sizes that do not fit the kernel."""
        given = solve(self.kernel, {}, sizes)
        return Counts(
            flops=self.flops(given),
            integer=self.integer(given),
            other=self.other(given),
            functions=self.functions(given),
            instances=self.instances(given),
            read=self.read(given),
            written=self.written(given),
            accessed=self.accessed(given),
        )

    def rows(self) -> Iterator[tuple[str, Amount]]:
        """The amounts that a report shows, in order; those of a part of one above are indented."""
        yield "flops", self.flops
        for name, amount in self.floats.items():
            yield f"  {name}", amount
        yield "integer operations", self.integer
        yield "other operations", self.other
        yield "statement instances", self.instances
        yield "bytes" + (", at most" if self.bounded else ""), self.bytes
        yield "  read", self.read
        yield "  written", self.written
        yield "bytes accessed", self.accessed

    @public
    def describe(self, sizes: Mapping[str, int] | None = None) -> str:
        """One line an amount, `flops = 4*M*N`; and its value where sizes are given."""
        given = solve(self.kernel, {}, sizes) if sizes else None
        lines = []
        rows = self._shown()
        width = max(len(name) for name, _ in rows)
        for name, amount in rows:
            text = _formula(amount)
            value = f" = {amount(given):,}" if given is not None and not text.isdigit() else ""
            lines.append(f"{name:<{width}} = {text}{value}")
        return "\n".join(lines)

    def _shown(self) -> list[tuple[str, Amount]]:
        """The rows of a report: those that are 0 only where they are always shown."""
        always = ("flops", "statement", "bytes")
        return [(n, amount) for n, amount in self.rows() if amount != total(()) or n.startswith(always)]

    @public
    def to_json(self, sizes: Mapping[str, int] | None = None) -> dict[str, Any]:
        """The same as plain data: for each amount its formula, or null, and its value where sizes are given."""
        given = solve(self.kernel, {}, sizes) if sizes else None

        def plain(amount: Amount) -> dict[str, Any]:
            shown: dict[str, Any] = {"formula": formula_text(amount)}
            return shown if given is None else {**shown, "value": amount(given)}

        names = ("flops", "functions", "integer", "other", "instances", "bytes", "read", "written", "accessed")
        return {
            "kernel": self.kernel.name,
            **{name: plain(getattr(self, name)) for name in names},
            "floats": {name: plain(amount) for name, amount in self.floats.items()},
            "bounded": self.bounded,
        }

    def __repr__(self) -> str:
        formulas = {"flops": self.flops, "bytes": self.bytes}
        texts = {name: formula_text(amount) or "?" for name, amount in formulas.items()}
        shown = [f"{name} = {text if len(text) <= LONGEST_IN_REPR else '...'}" for name, text in texts.items()]
        return f"<Cost of {self.kernel.name}: {', '.join(shown)}>"

    def _repr_html_(self) -> str:
        """The amounts and their formulas as a table, for notebooks."""
        from dojoir.ir.html import table_html

        rows = [(name.replace("  ", "\u2003"), _formula(amount)) for name, amount in self._shown()]
        return table_html(f"cost of {self.kernel.name}", rows)

    def __str__(self) -> str:
        return self.describe()


def _formula(amount: Amount) -> str:
    """The formula of an amount as a report shows it."""
    text = formula_text(amount) or "(no formula was found; it is exact for given sizes)"
    return text if len(text) <= LONGEST_FORMULA else f"(a formula of {len(text)} characters, in `to_json`)"


_OF_INTEGERS = frozenset({Class.INTEGER, Class.BITS, Class.SHIFT})


@public
def cost(kernel: Kernel) -> Cost:
    """The cost of a well-formed kernel."""
    given = _cost(in_halves(given_kernel(kernel)))
    return given if given.kernel is kernel else replace(given, kernel=kernel)


@lru_cache(maxsize=256)
def _cost(kernel: Kernel) -> Cost:
    runs = _Runs(kernel)
    floats: dict[str, list[tuple[int, Amount]]] = {}
    integer: list[tuple[int, Amount]] = []
    other: list[tuple[int, Amount]] = []
    accessed: list[tuple[int, Amount]] = []
    buffers = {buffer.name: buffer for buffer in kernel.buffers}
    for site in kernel.sites:
        often = runs.of(site)
        typed = elaborate(site.statement, buffers)
        for (kind, name), times in Tally(_operations(typed.result)).items():
            if kind == "float":
                floats.setdefault(name, []).append((times, often))
            else:
                (integer if kind == "integer" else other).append((times, often))
        own = [site.statement.target] if site.statement.op in ACCUMULATIONS else []
        accesses = [*site.statement.accesses, *own]
        accessed.append((sum(buffers[a.buffer].dtype.itemsize for a in accesses), often))
    read = [(b.dtype.itemsize, runs.read(b)) for b in kernel.buffers if b.role in {"in", "inout"} and _in_memory(b)]
    written = [(b.dtype.itemsize, runs.written(b)) for b in kernel.buffers if b.role in {"out", "inout"}]
    order = {name: n for n, name in enumerate(OPERATIONS)}
    return Cost(
        kernel,
        {name: total(floats[name]) for name in sorted(floats, key=order.__getitem__)},
        total(integer),
        total(other),
        total((1, runs.of(site)) for site in kernel.sites),
        total(read),
        total(written),
        total(accessed),
        any(isinstance(amount, Least) for _, amount in read),
    )


def _operations(value: Typed) -> Iterator[tuple[str, str]]:
    """The operations in a typed value: `float`, `integer` or `other`, and the name."""
    for part in typed_parts(value):
        match part:
            case Apply(dtype, name):
                counted = name in FLOPS or name in ELEMENTARY or OPERATIONS[name].kind in _OF_INTEGERS
                yield ("other" if not counted else "float" if dtype.is_float else "integer"), name


def _in_memory(buffer: Buffer) -> bool:
    """Whether reading an argument is traffic: scalars of role `in` are passed by value."""
    return bool(buffer.dims) or buffer.role != "in"


class _Runs:
    """How often the statements of a kernel run, and how many elements of its buffers they touch."""

    def __init__(self, kernel: Kernel) -> None:
        self._sites = kernel.sites
        self._kernel = without_data_writes(kernel)
        self._sets = sets_of(self._kernel)
        self._counter = Counter(kernel)
        self._known: dict[tuple[Condition, ...], Amount] = {}

    def of(self, site: Site) -> Amount:
        """The instances of a statement."""
        conditions = tuple(_conditions(site))
        found = self._known.get(conditions)
        if found is None:
            found = count(self._counter, system(len(site.scopes), conditions))
            self._known[conditions] = found
        return found

    def written(self, buffer: Buffer) -> Amount:
        """The elements of a buffer that are written."""
        writes = [k for k, s in enumerate(self._kernel.sites) if s.statement.target.buffer == buffer.name]
        return self._points(self._elements([self._sets.write_text(k, storage=False) for k in writes]))

    def read(self, buffer: Buffer) -> Amount:
        """The elements of a buffer that are read, by accumulations too; at most, where indices are gathered."""
        plain: list[str] = []
        gathered: list[str] = []
        instances: list[tuple[int, Amount]] = []
        for k, site in enumerate(self._kernel.sites):
            for n, access in enumerate(site.statement.reads):
                if access.buffer == buffer.name:
                    read = Read(k, n, access)
                    (gathered if read.gathers else plain).append(self._sets.read_text(read, storage=False))
                    instances += [(1, self.of(self._sites[k]))] if read.gathers else []
            if self._sites[k].statement.op in ACCUMULATIONS and site.statement.target.buffer == buffer.name:
                plain.append(self._sets.write_text(k, storage=False))
        surely, perhaps = self._elements(plain), self._elements([*plain, *gathered])
        if perhaps is None or (surely is not None and perhaps.is_subset(surely)):
            return self._points(surely)
        return Least((self._points(perhaps), total([(1, self._points(surely)), *instances])))

    def _elements(self, accesses: list[str]) -> isl.Set | None:
        """The elements that accesses, given as maps, touch together; None if there are none."""
        touched = self._sets.map(*accesses).range()
        return None if touched.is_empty() else isl.Set.from_union_set(touched)

    def _points(self, elements: isl.Set | None) -> Amount:
        """The number of points of a set."""
        if elements is None:
            return total(())
        return product(count(self._counter, systems_of(side)) for side in _sides(elements))


def _sides(points: isl.Set) -> list[isl.Set]:
    """One-dimensional sets whose product a set is; only itself if it is no such product."""
    dims = points.dim(isl.dim_type.set)
    if dims < 2:
        return [points]
    sides = []
    box = isl.Set.universe(points.get_space())
    for d in range(dims):
        side = points.project_out(isl.dim_type.set, d + 1, dims - d - 1).project_out(isl.dim_type.set, 0, d)
        sides.append(side)
        wide = side.reset_tuple_id().insert_dims(isl.dim_type.set, 0, d)
        wide = wide.insert_dims(isl.dim_type.set, d + 1, dims - d - 1)
        box = box.intersect(wide.set_tuple_name(points.get_tuple_name()))
    return sides if box.is_subset(points) else [points]


def _conditions(site: Site) -> Iterator[Condition]:
    """The conditions that the iterators of a statement satisfy."""
    depth = 0
    for node in site.ancestors:
        if isinstance(node, Scope):
            yield Condition(Affine.iterator(depth), ">=", Affine.constant(0))
            for bound in node.extent.bounds:
                yield Condition(Affine.iterator(depth), "<", bound)
            depth += 1
        else:
            yield from node.conditions
