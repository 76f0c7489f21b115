"""Which scopes run in vector lanes, how many lanes they take, and which reductions they keep in registers.

A scope marked `v` whose shape does not allow lanes (another `v` scope inside, an inner extent that differs from
lane to lane, a plain store that several lanes make to one element) runs as a plain loop. That is always right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from math import prod

from dojoir.codegen.lower.plans.placement import BufferMention, Home, is_linear
from dojoir.codegen.target import Target
from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import BOOL, DTYPES, DType
from dojoir.ir.nodes import Access, Buffer, Kernel, Node, Path, Scope, Statement
from dojoir.ir.paths import is_inside
from dojoir.ir.places import is_uniform
from dojoir.support.frozen import dataclass
from dojoir.types.typed import Apply, Convert, Typed, TypedStatement
from dojoir.types.typed_parts import typed_parts

U8 = DTYPES["u8"]

MOST_LANES = 64

MOST_STRIP_LANES = 16
"""How many lanes a strip has at most where registers have 128 bits: eight of them hold as many of 64 bits."""

MOST_KEPT = 16
"""How many variables unrolled scopes may make of one reduction."""


@dataclass(frozen=True)
class UnrolledScope:
    """An unrolled scope inside of one in lanes, whose iterations are written one after another."""

    path: Path
    depth: int
    count: int


@dataclass(frozen=True)
class Accumulator:
    """A reduction into `target`, one element in every lane, that is kept in a variable until the scope at `until`,
    this one or one around it, ends. In one for each iteration of the unrolled scopes inside that the indices
    follow."""

    target: Access
    op: str
    dtype: DType
    paths: tuple[Path, ...]
    until: Path
    along: tuple[UnrolledScope, ...] = ()

    @property
    def iterations(self) -> Iterator[tuple[int, ...]]:
        """The values of the iterators of `along`."""
        return product(*(range(scope.count) for scope in self.along))


@dataclass(frozen=True)
class LanePlan:
    """How a scope runs in lanes: `lanes` at a time, where the target has vectors (else 0), of which one register
    holds as many as `register` says."""

    lanes: int
    accumulators: tuple[Accumulator, ...]
    register: int = 1

    def at_once(self, target: Target) -> int:
        """How many lanes its variables have."""
        return min(self.lanes, MOST_STRIP_LANES) if target.tail == "vl" else max(self.lanes, 1)

    @property
    def spelled(self) -> frozenset[Path]:
        """The unrolled scopes inside whose iterations have variables of their own."""
        return frozenset(scope.path for accumulator in self.accumulators for scope in accumulator.along)


@dataclass(frozen=True)
class Analysis:
    """The results of analysing a kernel for planning."""

    kernel: Kernel
    target: Target
    buffers: Mapping[str, Buffer]
    uses: Mapping[str, list[BufferMention]]
    homes: Mapping[str, Home]
    typed: Mapping[Path, TypedStatement]

    def plans(self) -> dict[Path, LanePlan]:
        """The plan of each scope that runs in lanes, by its path."""
        plans: dict[Path, LanePlan] = {}
        for path, node in self.kernel.walk():
            if isinstance(node, Scope) and "v" in node.marks:
                depth = self.kernel.depth_of(path)
                if self._allows_lanes(path, node, depth):
                    accumulators = tuple(self._accumulators(path, node, depth))
                    lanes = self._lanes(path, node, accumulators)
                    plans[path] = LanePlan(lanes, accumulators, self._register(path))
        return plans

    def reductions(self, path: Path, scope: Scope) -> Iterator[Accumulator]:
        """The reductions that a scope does into elements of which it does nothing else."""
        yield from self._accumulators(path, scope, self.kernel.depth_of(path))

    def sums(
        self,
        has: Callable[[Path, Scope], bool],
        takes: Callable[[Path, Accumulator], bool],
        taken: Iterable[Path] = (),
    ) -> dict[Path, tuple[Accumulator, ...]]:
        """The reductions (`takes`) that scopes of a kind (`has`) carry, each by the outermost one that does nothing
        else with the element. The statements `taken` are in none."""
        found: dict[Path, tuple[Accumulator, ...]] = {}
        done = set(taken)
        for path, node in self.kernel.walk():
            if isinstance(node, Scope) and has(path, node):
                own = [a for a in self.reductions(path, node) if done.isdisjoint(a.paths) and takes(path, a)]
                done.update(at for accumulator in own for at in accumulator.paths)
                if own:
                    found[path] = tuple(own)
        return found

    # -- whether ---------------------------------------------------------------------------------------------
    def _allows_lanes(self, path: Path, scope: Scope, depth: int) -> bool:
        return (
            all(self._node_allows(node, depth) for node in scope.body)
            and all(self._target_allows(statement, path, scope, depth) for _, statement in self._statements(path))
            and not (self.target.vector_bits == 0 and self._shares_memory(path, depth))
        )

    def _shares_memory(self, path: Path, depth: int) -> bool:
        """Whether iterations use one array on the heap after each other: a compiler's lanes would do so at once."""
        return any(
            home.lives == "heap" and not home.is_variable and home.is_private(depth)
            for home in self.homes.values()
            if is_inside(home.owner, path)
        )

    def _node_allows(self, node: Node, depth: int) -> bool:
        match node:
            case Statement():
                return True
            case Scope(extent, _, marks):
                if "v" in marks or any(depth in bound.iterators for bound in extent.bounds):
                    return False
        return all(self._node_allows(child, depth) for child in node.body)

    def _target_allows(self, statement: TypedStatement, path: Path, scope: Scope, depth: int) -> bool:
        """Whether lanes may run the statement side by side: they own the element that they write, each writes
        another one, or they accumulate into the same one. A compiler is told that its lanes share nothing but
        the variables of reductions: what is accumulated in memory, or under a condition, is not for it."""
        target = statement.target
        home = self.homes.get(target.buffer)
        if home is not None and depth < len(home.around):
            return True
        if is_uniform(self.kernel, target, depth):
            if statement.op is None or not self._order_is_free(statement):
                return False
            if self.target.vector_bits:
                return True
            return statement.condition is None and self._accumulator(path, scope, depth, target.buffer) is not None
        if home is not None and home.is_variable:
            return False
        return any(
            isinstance(index, Affine) and not dim.collapsed and is_linear(index, depth)
            for index, dim in zip(target.indices, self.buffers[target.buffer].dims, strict=True)
        )

    def _order_is_free(self, statement: TypedStatement) -> bool:
        """Whether accumulating in another order, and rounding to the type of the element only at the end, gives
        what the text says. Sums are carried, and no max or min of a narrow float is changed by rounding (f4e2m1
        has no NaN, so there it is). A product in a narrow float rounds at each step. Under `fp strict` that is so
        of max and min that nothing rounds."""
        dtype = statement.dtype
        if dtype.is_float and self.kernel.fp == "strict":
            return statement.op in ("max", "min") and dtype == statement.value.dtype
        carried = statement.op == "add" or (statement.op in ("max", "min") and dtype.name != "f4e2m1")
        return dtype.compute == dtype or carried

    # -- how wide --------------------------------------------------------------------------------------------
    def _lanes(self, path: Path, scope: Scope, accumulators: tuple[Accumulator, ...]) -> int:
        """The constant extent, or else as many lanes as keep the target busy: a few registers where a
        reduction must hide its latency, fewer where there are several or none."""
        if self.target.vector_bits == 0:
            return 0
        one = self._register(path)
        fixed = fixed_lanes(scope)
        if fixed is not None:
            # 48 lanes are three registers of 16: a vector of 48 would take four
            part = fixed & -fixed
            return part if part >= one else fixed
        wide = self.target.registers >= 32
        kept = max((prod(scope.count for scope in a.along) for a in accumulators), default=0)
        registers = 4 if kept == 1 else 2 if wide and kept < 8 else 1
        return min(MOST_LANES, registers * one)

    def _register(self, path: Path) -> int:
        """How many lanes of the widest type that a scope computes in one register holds."""
        widths = [bits for _, statement in self._statements(path) for bits in _bits(statement)]
        return max(1, self.target.vector_bits // max(widths, default=32))

    # -- reductions ------------------------------------------------------------------------------------------
    def _accumulators(self, path: Path, scope: Scope, depth: int) -> Iterator[Accumulator]:
        seen: set[str] = set()
        for _, statement in self._statements(path):
            name = statement.target.buffer
            if name not in seen:
                seen.add(name)
                found = self._accumulator(path, scope, depth, name)
                if found is not None:
                    yield found

    def _accumulator(self, path: Path, scope: Scope, depth: int, name: str) -> Accumulator | None:
        """The reduction into buffer `name`, if all that the scope does with it is one reduction into one
        element."""
        home = self.homes.get(name)
        if home is not None and depth < len(home.around):
            return None
        inside = [use for use in self.uses[name] if is_inside(use.site.path, path)]
        target = inside[0].access
        kinds = {(self.typed[use.site.path].op, self.typed[use.site.path].value.dtype) for use in inside}
        op, dtype = next(iter(kinds))
        if len(kinds) > 1 or op is None or any(not use.writes or use.access != target for use in inside):
            return None
        affine = [index for index in target.indices if isinstance(index, Affine)]
        depths = {d for index in affine for d in index.iterators if d >= depth}
        along = self._spelled(path, depths, inside)
        if len(affine) < len(target.indices) or along is None:
            return None
        if along and any(self.typed[use.site.path].condition is not None for use in inside):
            return None  # each variable would need a flag of its own
        until = self._until(path, scope, inside, target)
        dtype = U8 if dtype == BOOL else dtype  # vectors keep bools as masks, which are no variables
        return Accumulator(target, op, dtype, tuple(use.site.path for use in inside), until, along)

    def _until(self, path: Path, scope: Scope, inside: list[BufferMention], target: Access) -> Path:
        """The outermost scope in which nothing is done with a buffer but what is done `inside` the one at `path`,
        to one element."""
        found = path
        if self.target.vector_bits == 0 or (self.target.tail == "vl" and fixed_lanes(scope)):
            return found
        for length in range(len(path) - 1, 0, -1):
            own, node = path[:length], self.kernel.at(path[:length])
            depth = self.kernel.depth_of(own)
            users = [use for use in self.uses[target.buffer] if use.site.path[:length] == own]
            outside = not any(d == depth for i in target.indices if isinstance(i, Affine) for d in i.iterators)
            if not isinstance(node, Scope) or "p" in node.marks or not outside or len(users) != len(inside):
                break
            found = own
        return found

    def _spelled(
        self, path: Path, depths: set[int], inside: list[BufferMention]
    ) -> tuple[UnrolledScope, ...] | None:
        """The scopes at `depths` around all the uses `inside` the scope at `path`, if they are unrolled ones that
        run a few times."""
        found: list[UnrolledScope] = []
        site = inside[0].site
        for length in range(len(path) + 1, len(site.path)):
            own, node = site.path[:length], site.ancestors[length - 1]
            depth = self.kernel.depth_of(own)
            if not isinstance(node, Scope) or depth not in depths:
                continue
            first, *others = node.extent.bounds
            together = all(use.site.path[:length] == own for use in inside)
            if others or not first.is_constant or first.offset < 1 or "u" not in node.marks or not together:
                return None
            found.append(UnrolledScope(own, depth, first.offset))
        if len(found) < len(depths) or prod(scope.count for scope in found) > MOST_KEPT:
            return None
        return tuple(found)

    def _statements(self, path: Path) -> Iterator[tuple[Path, TypedStatement]]:
        for own, statement in self.typed.items():
            if is_inside(own, path):
                yield own, statement


def fixed_lanes(scope: Scope) -> int | None:
    """The constant that bounds the extent, if it is one that lanes can have."""
    constants = [bound.offset for bound in scope.extent.bounds if bound.is_constant]
    return min(constants) if constants and 1 <= min(constants) <= MOST_LANES else None


def _bits(statement: TypedStatement) -> Iterator[int]:
    """The widths of the types that a statement computes in."""
    yield statement.dtype.compute.bits
    yield from _value_bits(statement.value)
    if statement.condition is not None:
        yield from _value_bits(statement.condition)


def _value_bits(value: Typed) -> Iterator[int]:
    for part in typed_parts(value):
        match part:
            case Apply(dtype):
                yield dtype.bits
            case Convert(dtype):
                yield dtype.compute.bits
