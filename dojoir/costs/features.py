"""The features of a text, as named numbers: for models that predict how fast a kernel is.

Everything is counted by walking the tree once at given sizes, without integer sets. It is exact where extents are
numbers at these sizes, else (tiles at an edge, triangles) as in the middle iteration of the scopes around, and as
if every guard held. `dojoir.cost` is exact, and takes a hundred times as long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil, gcd, log2, prod
from typing import NamedTuple

from dojoir.backends.host import machine_for
from dojoir.backends.machine import Machine
from dojoir.ir.affine import Affine, Extremum, FloorDiv, Iter, Mod
from dojoir.ir.expressions import parts
from dojoir.ir.nodes import Access, Expr, Guard, Kernel, Node, Op, Scope, Statement, given_kernel
from dojoir.ir.packing import in_halves
from dojoir.ir.words import MARKS, STORAGES
from dojoir.meaning.sizes import solve
from dojoir.support.frozen import dataclass
from dojoir.support.public import public

SLOW = {"exp": 20, "exp2": 16, "log": 20, "log2": 18, "pow": 40, "rsqrt": 8, "sqrt": 8, "div": 8, "tanh": 25,
        "erf": 25, "sigmoid": 25, "sin": 25, "cos": 25,
        "tan": 35, "atan": 25, "expm1": 25, "log1p": 25, "floordiv": 20, "mod": 20,
        "log10": 20, "erfc": 40, "sinh": 30, "cosh": 30, "asin": 30, "acos": 30, "asinh": 40, "acosh": 40,
        "atanh": 40, "atan2": 35, "hypot": 20, "fmod": 60, "floor_mod": 60, "floor_div": 70}  # fmt: skip
"""About how many cycles the operations take that are not done in one."""

OPS = ("=", "+=", "*=", "max=", "min=", "^=", "&=", "|=")

PAGE = 4096
"""Bytes after which the sets of a first cache repeat, on every processor that looks them up beside the page."""


class IndexSpread(NamedTuple):
    """The values that an index has, and how many there are from the first to the last."""

    values: int
    span: int


Box = tuple[IndexSpread, ...]
"""Of each index of an access."""


@dataclass(frozen=True)
class EnclosingScope:
    """A scope on the way: how often it runs each time it is reached, and its marks."""

    trips: int
    marks: tuple[str, ...]


class CountedTree:
    """The tree with numbers in the place of sizes."""

    def __init__(self, kernel: Kernel, sizes: Mapping[str, int], machine: Machine) -> None:
        self.kernel, self.sizes, self.machine = kernel, sizes, machine
        self.buffers = {buffer.name: buffer for buffer in kernel.buffers}
        self.shapes = {
            b.name: tuple(1 if d.collapsed else max(1, d.extent.evaluate(sizes)) for d in b.dims)
            for b in kernel.buffers
        }
        self.found: dict[str, float] = {}
        self.spreads: dict[tuple[Affine, tuple[int, ...], int], IndexSpread] = {}
        self.boxes: dict[tuple[tuple[Node, ...], tuple[int, ...], int], dict[str, Box]] = {}

    def add(self, name: str, amount: float) -> None:
        self.found[name] = self.found.get(name, 0.0) + amount

    def most(self, name: str, amount: float) -> None:
        self.found[name] = max(self.found.get(name, 0.0), amount)

    # -- the tree -----------------------------------------------------------------------------------------
    def trips(self, scope: Scope, around: tuple[int, ...]) -> int:
        """How often a scope runs in the middle of those around, which run so often."""
        middle = tuple([max(0, (trips - 1) // 2) for trips in around])
        return max(0, min([bound.evaluate(self.sizes, middle) for bound in scope.extent.bounds]))

    def visit(self, nodes: tuple[Node, ...], loops: tuple[EnclosingScope, ...], times: int) -> None:
        """Counts what is in some nodes that run `times` times."""
        for node in nodes:
            match node:
                case Statement():
                    self.statement(node, loops, times)
                case Guard(_, body):
                    self.add("guards", 1)
                    self.visit(body, loops, times)
                case Scope():
                    self.scope(node, loops, times)

    def scope(self, scope: Scope, loops: tuple[EnclosingScope, ...], times: int) -> None:
        trips = self.trips(scope, tuple([loop.trips for loop in loops]))
        inside = (*loops, EnclosingScope(trips, scope.marks))
        self.add("scopes", 1)
        self.add("iterations", trips * times)
        self.most("depth", len(inside))
        self.add("hints", len(scope.hints))
        for mark in scope.marks:
            self.add(f"mark {mark}", 1)
            self.most(f"extent {mark}", trips)
        if all(isinstance(child, Statement) for child in scope.body):
            self.add("leaves", 1)
            self.add("leaf extent", log2(1 + trips))
        self.visit(scope.body, inside, times * trips)

    def statement(self, statement: Statement, loops: tuple[EnclosingScope, ...], times: int) -> None:
        self.add("statements", 1)
        self.add("instances", times)
        self.add(f"op {statement.op}", 1)
        flops = 0.0 if statement.op == "=" else 1.0
        for name in _operations(statement.value):
            flops += 2 if name == "fma" else 1
            if name in SLOW:
                self.add("functions", times)
        self.add("flops", flops * times)
        if loops and "v" in loops[-1].marks:
            self.add("vector instances", times)
        for access in statement.accesses:
            self.access(access, loops, times)
        waits = statement.accumulation is not None and bool(loops) and loops[-1].trips > 1
        if waits and self.step(statement.target, len(loops) - 1) == 0:
            self.add("chains", 1)

    def access(self, access: Access, loops: tuple[EnclosingScope, ...], times: int) -> None:
        buffer = self.buffers[access.buffer]
        self.add("accessed", times * buffer.dtype.itemsize)
        if buffer.storage == "reg":
            self.add("register accesses", times)
            return
        step = self.step(access, len(loops) - 1) if loops else 0
        kind = "gathered" if step is None else "still" if step == 0 else "next" if abs(step) == 1 else "strided"
        self.add(f"accesses {kind}", times)

    def step(self, access: Access, depth: int) -> int | None:
        """By how many elements of memory an access moves with an iterator; None where data say."""
        buffer = self.buffers[access.buffer]
        strides, stride = {}, 1
        shape = self.shapes[buffer.name]
        for d in reversed(buffer.order or tuple(range(len(shape)))):
            strides[d] = 0 if buffer.dims[d].collapsed else stride
            stride *= shape[d]
        step = 0
        for d, index in enumerate(access.indices):
            if isinstance(index, Access):
                if self.buffers[index.buffer].role == "tmp" or self.step(index, depth) != 0:
                    return None
            elif depth in index.iterators and not buffer.dims[d].collapsed:
                whole = index.coefficient(Iter(depth))
                step += (whole or 1) * strides[d]
        return step

    # -- how much memory is touched ------------------------------------------------------------------------
    def spread(self, index: Affine, trips: tuple[int, ...], inside: int) -> IndexSpread:
        """The values of an index while the scopes from depth `inside` on run, of those around it."""
        key = (index, trips, inside)
        found = self.spreads.get(key)
        if found is None:
            span = 1 + _reach(index, trips, inside)
            values = prod([max(1, trips[d]) for d in index.iterators if inside <= d < len(trips)])
            found = self.spreads[key] = IndexSpread(min(values, span), span)
        return found

    def touched(self, nodes: tuple[Node, ...], trips: tuple[int, ...], inside: int) -> dict[str, Box]:
        """The widest box of each buffer that is touched while the scopes from depth `inside` on run."""
        key = (nodes, trips, inside)
        known = self.boxes.get(key)
        if known is not None:
            return known
        found: dict[str, Box] = {}
        for node in nodes:
            if isinstance(node, Statement):
                for access in node.accesses:
                    box = self.box(access, trips, inside)
                    found[access.buffer] = _larger(found.get(access.buffer), box)
                continue
            around = (*trips, self.trips(node, trips)) if isinstance(node, Scope) else trips
            for name, box in self.touched(node.body, around, inside).items():
                found[name] = _larger(found.get(name), box)
        self.boxes[key] = found
        return found

    def box(self, access: Access, trips: tuple[int, ...], inside: int) -> Box:
        """The box that an access touches while the scopes from depth `inside` on run."""
        found = []
        for n, index in zip(self.shapes[access.buffer], access.indices, strict=True):
            if isinstance(index, Access):
                led = min(n, self.led_to(index, trips, inside))
                found.append(IndexSpread(led, led))
            else:
                values, span = self.spread(index, trips, inside)
                found.append(IndexSpread(min(n, values), min(n, span)))
        return tuple(found)

    def led_to(self, index: Access, trips: tuple[int, ...], inside: int) -> int:
        """How many elements an index that is data leads to at most while the scopes from depth `inside` on run."""
        return prod(max(1, trips[d]) for d in range(inside, len(trips)) if self.step(index, d) != 0)

    def footprint(self, nodes: tuple[Node, ...], trips: tuple[int, ...], inside: int) -> int:
        """The bytes of the lines that are touched."""
        return sum([self._bytes(name, box) for name, box in self.touched(nodes, trips, inside).items()])

    def _bytes(self, name: str, box: Box) -> int:
        lines, _ = self._lines(name, box)
        return lines * self.machine.line

    def _lines(self, name: str, box: Box) -> tuple[int, int]:
        """The lines of a box, each of its rows in memory by itself, and the sets of the first cache they are in."""
        buffer, line = self.buffers[name], self.machine.line
        if buffer.storage == "reg" or (buffer.role == "in" and not buffer.dims):
            return 0, 1
        lines, sets, stride = 1, 1, buffer.dtype.itemsize
        for place, d in enumerate(reversed(buffer.order or tuple(range(len(box))))):
            values, span = box[d]
            apart = stride * ((span - 1) // (values - 1) if values > 1 else 1)
            if place == 0:
                values = min(values, ceil(span * stride / line))
                apart = max(apart, line)
            lines *= values
            sets *= min(values, PAGE // gcd(apart, PAGE))
            stride *= 1 if buffer.dims[d].collapsed else self.shapes[name][d]
        return lines, max(1, min(sets, PAGE // line))

    def fits(self, nodes: tuple[Node, ...], trips: tuple[int, ...], inside: int, cache: int) -> bool:
        """Whether what is touched stays in a cache: there is room, and in the first cache each set has, too."""
        touched = self.touched(nodes, trips, inside)
        found = [self._lines(name, box) for name, box in touched.items()]
        ways = cache // PAGE if self.machine.caches[:1] == (cache,) else cache
        bytes_touched = sum([lines for lines, _ in found]) * self.machine.line
        return bytes_touched <= cache and all(lines <= ways * sets for lines, sets in found)

    def brought(self) -> list[float]:
        """The bytes that come from beyond each of three caches."""
        caches = [*self.machine.caches, *([max(self.machine.caches, default=1 << 20) * 16] * 3)][:3]
        return [self.traffic(self.kernel.body, (), cache) for cache in caches]

    def traffic(self, nodes: tuple[Node, ...], trips: tuple[int, ...], cache: int) -> float:
        """The bytes that come from beyond a cache of so many bytes while some nodes run: what is touched once,
        where one iteration fits into it, else what all iterations bring."""
        brought = 0.0
        for node in nodes:
            if isinstance(node, Guard):
                brought += self.traffic(node.body, trips, cache)
            elif isinstance(node, Statement):
                brought += self.footprint((node,), trips, len(trips))
            else:
                inner = (*trips, self.trips(node, trips))
                if self.fits(node.body, inner, len(inner), cache):
                    brought += self.footprint(node.body, inner, len(trips))
                else:
                    brought += inner[-1] * self.traffic(node.body, inner, cache)
        return brought


def _operations(value: Expr) -> Iterator[str]:
    return (part.name for part in parts(value) if isinstance(part, Op))


def _reach(index: Affine, trips: tuple[int, ...], inside: int) -> int:
    """How far apart the values of an index are at most."""
    reach = 0
    for atom, coefficient in index.terms:
        if isinstance(atom, Iter):
            if inside <= atom.depth < len(trips):
                reach += abs(coefficient) * max(0, trips[atom.depth] - 1)
        elif isinstance(atom, FloorDiv):
            inner = _reach(atom.numerator, trips, inside)
            reach += abs(coefficient) * -(-inner // atom.divisor)
        elif isinstance(atom, Mod):
            reach += abs(coefficient) * min(atom.divisor - 1, _reach(atom.numerator, trips, inside))
        elif isinstance(atom, Extremum):
            reach += abs(coefficient) * max(_reach(part, trips, inside) for part in atom.parts)
    return reach


def _larger(one: Box | None, other: Box) -> Box:
    if one is None:
        return other
    return tuple(
        [IndexSpread(max(a.values, b.values), max(a.span, b.span)) for a, b in zip(one, other, strict=True)]
    )


@public
def features(kernel: Kernel, sizes: Mapping[str, int]) -> dict[str, float]:
    """Named numbers that describe a kernel at given sizes, the same names in the same order for every kernel.

    Work (`flops`, `functions`, `instances`, `iterations`), memory (`bytes` of the lines that are touched,
    `accessed` by the text, `intensity`, `traffic L1` and so on: the bytes from beyond each cache of this machine).
    Then come the tree (`depth`, `scopes`, `leaves`, `guards`, marks with the largest extent of each), `share in
    lanes`, how the innermost scopes step through memory, temporaries and their bytes by storage, `register tile`
    in vectors, and the statements by operator. Raises ArgumentError for sizes that do not fit the kernel.
    """
    counted = counted_at(kernel, sizes, machine_for("llvm"))
    kernel, machine = counted.kernel, counted.machine
    names = ["flops", "functions", "instances", "vector instances", "iterations", "statements", "scopes", "leaves",
             "leaf extent", "guards", "hints", "depth", "chains", "accessed", "register accesses"]  # fmt: skip
    names += [f"accesses {kind}" for kind in ("still", "next", "strided", "gathered")]
    names += [f"{what} {mark}" for mark in MARKS for what in ("mark", "extent")] + [f"op {op}" for op in OPS]
    counted.found.update(dict.fromkeys(names, 0.0))
    counted.visit(kernel.body, (), 1)
    found = counted.found
    found["bytes"] = float(counted.footprint(kernel.body, (), 0))
    found["intensity"] = found["flops"] / max(1.0, found["bytes"])
    for storage in STORAGES:
        own = [b for b in kernel.buffers if b.role == "tmp" and b.storage == storage]
        found[f"temporaries {storage}"] = float(len(own))
        sizes_of = (prod(counted.shapes[b.name]) * b.dtype.itemsize for b in own)
        found[f"temporary bytes {storage}"] = float(sum(sizes_of))
    found["register tile"] = found["temporary bytes reg"] / machine.vector_bytes
    found["share in lanes"] = found["vector instances"] / max(1.0, found["instances"])
    for level, brought in enumerate(counted.brought(), 1):
        found[f"traffic L{level}"] = brought
    return {name: float(amount) for name, amount in found.items()}


def counted_at(kernel: Kernel, sizes: Mapping[str, int], machine: Machine) -> CountedTree:
    """A kernel at sizes on a machine. Raises ArgumentError for sizes that do not fit the kernel."""
    kernel = in_halves(given_kernel(kernel))
    return CountedTree(kernel, solve(kernel, {}, sizes), machine)
