"""The features that a statement has, by axis: its scopes' marks, the storage of its buffers, its operator …"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from dojoir.ir.affine import Affine, Iter
from dojoir.ir.dtypes import DTYPES
from dojoir.ir.expressions import Cast, Expr, Op, parts
from dojoir.ir.kernel import STORAGES
from dojoir.ir.nodes import Access, Guard, Kernel, Site, holds
from dojoir.ir.operations import CONVERSIONS
from dojoir.ir.tree import MARKS

Feature = tuple[str, str]
"""An axis, and one of its values."""

GPUS = ("cuda", "hip")
CPUS = ("llvm", "c", "avx2", "avx512", "neon", "sve", "rvv")
AXES: dict[str, tuple[str, ...]] = {
    "mark": ("none", *MARKS),
    "storage": STORAGES,
    "operator": ("=", "+=", "*=", "max=", "min=", "^=", "&=", "|=", "fused"),
    "word": ("none", "//", "%", "argmax_key", "argmin_key", *CONVERSIONS),
    "type": tuple(DTYPES),
    "guard": ("none", "sizes", "iterators", "data"),
    "empty": ("never", "maybe"),
    "stride": ("0", "1", "constant", "reversed", "other", "gather", "computed", "scatter", "distinct"),
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
    guards |= {"data"} if statement.condition is not None else set()
    found = {
        "mark": marks,
        "storage": {kernel.buffer(name).storage for name in statement.buffers},
        "operator": {"fused" if statement.fused else statement.op},
        "word": set(_words(statement.value)) or {"none"},
        "type": {kernel.buffer(statement.target.buffer).dtype.name},
        "guard": guards or {"none"},
        "empty": {"maybe" if _may_be_empty(kernel, site) else "never"},
        "stride": set(_strides(kernel, site)),
        "threads": set() if target in GPUS else {{1: "1", 2: "2"}.get(threads, "more")},
        "target": {target},
    }
    return frozenset((axis, value) for axis, values in found.items() for value in values)


def _may_be_empty(kernel: Kernel, site: Site) -> bool:
    """Whether a scope around may run no iteration, at some small size."""
    for size in product(range(1, 5), repeat=len(kernel.runtime_sizes)):
        sizes = dict(zip(kernel.runtime_sizes, size, strict=True))
        if not all(holds(fact, sizes, ()) for fact in kernel.facts):
            continue
        ends: list[tuple[int, ...]] = [(), ()]
        for scope in site.scopes:
            extents = [min(bound.evaluate(sizes, end) for bound in scope.extent.bounds) for end in ends]
            if min(extents) <= 0:
                return True
            ends = [(*ends[0], 0), (*ends[1], extents[1] - 1)]
    return False


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
            scatters = "distinct" if kernel.buffer(last.buffer).distinct else "scatter"
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
