"""The features that a statement has, by axis: its scopes' marks, the storage of its buffers, its operator …"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from dojoir.ir.affine import Affine, Iter
from dojoir.ir.dtypes import DTYPES, I64
from dojoir.ir.expressions import Cast, Expr, Index, Op, parts
from dojoir.ir.nodes import Access, Buffer, Guard, Kernel, Scope, Site, Statement, holds
from dojoir.ir.operations import CONVERSIONS
from dojoir.ir.words import MARKS, STORAGES
from dojoir.sets.distinct_writes import distinct_writes

Feature = tuple[str, str]
"""An axis, and one of its values."""

GPUS = ("cuda", "hip")
CPUS = ("llvm", "c", "avx2", "avx512", "neon", "sve", "rvv")
ACCUMULATES = frozenset({"+=", "*=", "max=", "min=", "^=", "&=", "|="})
AXES: dict[str, tuple[str, ...]] = {
    "mark": ("none", *MARKS),
    "storage": STORAGES,
    "operator": ("=", "+=", "*=", "max=", "min=", "^=", "&=", "|=", "fused"),
    "word": ("none", "//", "%", "argmax_key", "argmin_key", *CONVERSIONS),
    "running": ("none", "after", "before", "linear"),
    "type": tuple(DTYPES),
    "guard": ("none", "sizes", "iterators", "data", "length"),
    "empty": ("never", "maybe"),
    "single": ("no", "yes"),
    "attribute": ("none", "align", "stream", "strided"),
    "stride": ("0", "1", "constant", "reversed", "other", "gather", "computed", "scatter", "distinct", "last"),
    "threads": ("1", "2", "more"),
    "target": (*CPUS, *GPUS),
}
"""The features that a statement has, with its scopes, its kernel and the call. A word is one of its value."""


def features(kernel: Kernel, site: Site, target: str, threads: int) -> frozenset[Feature]:
    """The features of a statement, read off its kernel's tree; of some axes several."""
    statement = site.statement
    marks = [mark for scope in site.scopes for mark in scope.marks] or ["none"]
    conditions = [c for node in site.ancestors if isinstance(node, Guard) for c in node.conditions]
    guards = {"iterators" if c.left.iterators | c.right.iterators else "sizes" for c in conditions}
    guards |= {"length" if _ends_at_data(site) else "data"} if statement.condition is not None else set()
    found = {
        "mark": marks,
        "storage": {kernel.buffer(name).storage for name in statement.buffers},
        "operator": {"fused" if statement.fused else statement.op},
        "word": set(_words(statement.value)) or {"none"},
        "running": {_running(site)},
        "attribute": {name for of in statement.buffers for name in _attributes(kernel.buffer(of))} or {"none"},
        "type": {kernel.buffer(statement.target.buffer).dtype.name},
        "guard": guards or {"none"},
        "empty": {"maybe" if any(0 in found for found in _extents(kernel, site)) else "never"},
        "single": {"yes" if any(map(_is_single, site.scopes, _extents(kernel, site))) else "no"},
        "stride": set(_strides(kernel, site)),
        "threads": set() if target in GPUS else {{1: "1", 2: "2"}.get(threads, "more")},
        "target": {target},
    }
    return frozenset((axis, value) for axis, values in found.items() for value in values)


def _attributes(buffer: Buffer) -> list[str]:
    """The words after its type that say how it is laid out."""
    given = {name: getattr(buffer, name) for name in AXES["attribute"] if name != "none"}
    return [name for name, value in given.items() if value]


def _ends_at_data(site: Site) -> bool:
    """Whether the condition of a statement bounds the innermost scope by a length from data."""
    asked: list[Expr | None] = [site.statement.condition]
    innermost = Index(Affine.iterator(len(site.scopes) - 1))
    while asked:
        match asked.pop():
            case Op("and", both):
                asked += both
            case Op("lt", (left, Cast(dtype, _))) if left == innermost and dtype == I64:
                return True
            case _:
                pass
    return False


def _extents(kernel: Kernel, site: Site) -> list[frozenset[int]]:
    """How often each scope around runs in its first and in its last iteration of those around it, at small sizes:
    0 where it does not run."""
    found: list[set[int]] = [set() for _ in site.scopes]
    for size in product(range(1, 5), repeat=len(kernel.runtime_sizes)):
        sizes = dict(zip(kernel.runtime_sizes, size, strict=True))
        if not all(holds(fact, sizes, ()) for fact in kernel.facts):
            continue
        ends: list[tuple[int, ...]] = [(), ()]
        for scope, extents in zip(site.scopes, found, strict=True):
            here = [max(0, min(bound.evaluate(sizes, end) for bound in scope.extent.bounds)) for end in ends]
            extents.update(here)
            if not min(here):
                break
            ends = [(*ends[0], 0), (*ends[1], here[1] - 1)]
    return list(map(frozenset, found))


def _is_single(scope: Scope, extents: frozenset[int]) -> bool:
    """Whether a scope runs once, and its constant bound says that it may run more often."""
    return (scope.constant_bound or 0) > 1 and extents == {1}


def _running(site: Site) -> str:
    """Whether a statement is the step of a running value: it goes on from an element that is one for all iterations
    of the scope around it, and a statement beside it gives that away, after the step or before it."""
    scopes = [number for number, node in enumerate(site.ancestors) if isinstance(node, Scope)]
    statement = site.statement
    own = site.ancestors[scopes[-1]].body if scopes else ()
    depth = len(site.scopes) - 1
    goes_on = statement.accumulation in ACCUMULATES or (statement.op == "=" and statement.target in statement.reads)
    if not goes_on or any(depth in _depths(index) for index in statement.target.indices):
        return "none"
    gives = [isinstance(node, Statement) and node.op == "=" and node.value == statement.target for node in own]
    if True not in gives:
        return "none"
    value = statement.value.args[1] if statement.condition is not None else statement.value
    if statement.op == "=" and isinstance(value, Op) and value.name in ("add", "sub", "fma"):
        products = [part for part in parts(value) if isinstance(part, Op) and part.name in ("mul", "fma")]
        if any(statement.target in product.args for product in products):
            return "linear"
    return "before" if gives[0] else "after"


def _depths(index: Affine | Access) -> frozenset[int]:
    return index.iterators if isinstance(index, Affine) else frozenset()


def _words(value: Expr) -> Iterator[str]:
    """The words of a value that came late to the language."""
    for part in parts(value):
        match part:
            case Op("floordiv"):
                yield "//"
            case Op("mod"):
                yield "%"
            case Op("argmax_key" | "argmin_key" as name):
                yield name
            case Cast(way=way) if way in CONVERSIONS:
                yield way


def _strides(kernel: Kernel, site: Site) -> Iterator[str]:
    """How the innermost index of each access moves with the innermost iterator."""
    for access in site.statement.accesses:
        last = access.indices[-1] if access.indices else Affine.constant(0)
        if isinstance(last, Access):
            told = kernel.sites.index(site) in distinct_writes(kernel)
            scatters = "distinct" if kernel.buffer(last.buffer).distinct else "last" if told else "scatter"
            of = kernel.buffer(last.buffer)
            gathers = "computed" if of.role == "tmp" and not of.dims else "gather"
            yield scatters if access == site.statement.target else gathers
        elif not site.scopes or len(site.scopes) - 1 not in last.iterators:
            yield "0"
        else:
            step = last.coefficient(Iter(len(site.scopes) - 1))
            if len(site.scopes) - 1 in last.divided or step < -1:
                yield "other"
            else:
                yield {1: "1", -1: "reversed"}.get(step, "constant")
