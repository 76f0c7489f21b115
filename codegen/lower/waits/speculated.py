"""Guards that a thread of a GPU may ignore: nobody reads what it computes where the condition does not hold.

A tile that does not divide a result has a condition on each sum of a thread. Registers past the end of the result
are the thread's own, and nothing reads them; so it may add up there whatever it finds, which costs less than to
ask. That is proved here of each condition. What is read and written without it is in registers and shared memory,
and inside of what is declared. Nothing can fail; and no access of the text is to an element of the target that is
written only without it, in the same iteration of the grid and of what is around. Of conditions inside each other
the inner ones are asked about first; what is proved of the outer one is proved without those that are left out.
Shared memory that is read so is cleared before, once for each block: no thread reads what nobody wrote. Nor does
one read what another writes at that time: that barriers separate the two is proved of what is left without
conditions (`barrier_proof.are_separated_unasked`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

import islpy as isl

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.program import INDEX, Barrier, Const, ThreadNumber, Type, Value, Var
from dojoir.codegen.lir.walk import parts as values_in
from dojoir.codegen.lir.walk import replaced, statements
from dojoir.codegen.lower.gpu.launches import Launched
from dojoir.codegen.lower.gpu.thread_plan import Threads
from dojoir.codegen.lower.waits.meetings import one_element, pairs, runs_by, same, second
from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import DTYPES
from dojoir.ir.expressions import parts
from dojoir.ir.nodes import Access, Guard, Kernel, Op, Path, Scope, Site
from dojoir.ir.operations import MAY_FAIL
from dojoir.ir.places import sites_inside
from dojoir.ir.words import GRID
from dojoir.sets.kernel_sets import KernelSets, isl_affine, iterators, sets_of
from dojoir.sets.limits import StepLimitReached, limited_in_part
from dojoir.support.frozen import dataclass

STEP_LIMIT = 3_000_000
"""How many isl operations one question may take; past them, the condition is asked."""


@dataclass(frozen=True)
class LaunchConditions:
    """The conditions of one launch."""

    threads: Threads
    launched: Launched

    @property
    def kernel(self) -> Kernel:
        return self.threads.kernel

    def is_idle(self, path: Path) -> bool:
        """Whether what the guard at `path` holds back has no effect where its condition does not hold, so that a
        thread may leave the condition out."""
        sites = sites_inside(self.kernel, path)
        if len(sites) != 1 or not _stays_near(self.kernel, sites[0]):
            return False
        if sites[0].path in self.threads.collectives:  # what a thread adds to it, the others get
            return False
        try:
            with limited_in_part(STEP_LIMIT):
                asked = self._left_out(path, sites[0])
                around = [node for n, node in enumerate(sites[0].ancestors, 1) if n not in asked]
                inside = _stays_inside(self.kernel, sites[0], around, sites[0].statement.accesses)
                return inside and self._is_unread(sites[0], around, asked)
        except (StepLimitReached, isl.Error):
            return False

    def loadable_before(self, path: Path) -> set[str]:
        """The buffers in shared memory of which a thread may read what the one statement inside of the guard at
        `path` reads before it asks the condition. The elements are there where it does not hold, too; what is read
        then is not used (what nobody writes is cleared). Compilers read several neighbours at once where they need
        not ask for each."""
        sites = sites_inside(self.kernel, path)
        if len(sites) != 1:
            return set()
        site, target = sites[0], sites[0].statement.target.buffer
        reads = [a for a in site.statement.reads if a.buffer != target]
        around = [node for n, node in enumerate(site.ancestors, 1) if n < len(path) or isinstance(node, Scope)]
        try:
            with limited_in_part(STEP_LIMIT):
                outside = {
                    a.buffer
                    for a in reads
                    if not (_is_plain(self.kernel, a) and _stays_inside(self.kernel, site, around, [a]))
                }
        except (StepLimitReached, isl.Error):
            return set()
        return {a.buffer for a in reads if self.kernel.buffer(a.buffer).storage == "shared"} - outside

    def shared(self, path: Path) -> Iterator[str]:
        """The buffers in shared memory that are read inside of a guard."""
        for site in sites_inside(self.kernel, path):
            for access in site.statement.accesses:
                if self.kernel.buffer(access.buffer).storage == "shared":
                    yield access.buffer

    def _left_out(self, path: Path, site: Site) -> list[int]:
        """The guards around a statement, by the lengths of their paths, that go with the one at `path`."""
        inner = range(len(path) + 1, len(site.path))
        guards = [n for n in inner if isinstance(site.ancestors[n - 1], Guard)]
        return [len(path), *(n for n in guards if self.is_idle(site.path[:n]))]

    def _is_unread(self, site: Site, around: Sequence[Scope | Guard], asked: Sequence[int]) -> bool:
        """Whether no access of the text is to an element that the statement writes without some guards alone."""
        sets = sets_of(self.kernel)
        guards = [node for n, node in enumerate(site.ancestors, 1) if n in asked and isinstance(node, Guard)]
        target = site.statement.target
        for number, other in enumerate(self.kernel.sites):
            for access in _accesses(sets, number, other, target.buffer):
                conditions = [
                    f"not ({sets.constraints(guards)})",
                    *same(range(_shared(site, other))),
                    *self._one_thread(site, other),
                    *one_element(sets, target, access),
                ]
                if not sets.is_empty(pairs(sets, site, other, conditions, around=around)):
                    return False
        return True

    def _one_thread(self, site: Site, other: Site) -> Iterator[str]:
        """That one thread runs two statements, as far as it is one that does: each has registers of its own."""
        if self.launched.holds(site.path) and self.launched.holds(other.path):
            runs = [runs_by(self.launched, self.launched.phase_of(s.path), s) for s in (site, other)]
            if all(span == 1 for _, span in runs):
                yield f"({runs[0][0]}) = ({second(runs[1][0])})"


def cleared(arrays: Sequence[lir.ProgramArray], threads: int, fresh: Callable[[str], str]) -> tuple[lir.Stmt, ...]:
    """Code in which the threads of a block set all elements of some arrays to 0, and wait for each other."""
    loops = []
    for array in arrays:
        number = Var(INDEX, fresh("cleared"))
        zero = lir.Store(array.name, number, Const(Type(array.dtype), 0))
        loops.append(lir.For(number, ThreadNumber(INDEX), array.elements, threads, (zero,)))
    return (*loops, Barrier(tuple(array.name for array in arrays))) if loops else ()


def _mentions(value: Value, names: Collection[str]) -> bool:
    """Whether some variables occur in a value."""
    return any(isinstance(part, Var) and part.name in names for part in values_in(value))


def loaded_before(
    guarded: Sequence[lir.Stmt], buffers: Collection[str], fresh: Callable[[str], str]
) -> tuple[lir.Stmt, ...]:
    """A statement inside of conditions, with its loads of some buffers in front of all of them, but for those of
    elements that are found inside."""
    found: dict[Value, Var] = {}
    own = {stmt.var.name for stmt in statements(tuple(guarded)) if isinstance(stmt, lir.Let)}

    def there(value: Value) -> Value | None:
        match value:
            case lir.Unary(op="loaded", arg=arg):
                return change(arg)
            case lir.Load(buffer=buffer, mask=None) if buffer in buffers and not _mentions(value, own):
                return found.setdefault(value, Var(value.type, fresh(f"{buffer}_there")))
        return None

    def change(value: Value) -> Value:
        return replaced(value, there)

    def inside(stmt: lir.Stmt) -> lir.Stmt:
        match stmt:
            case lir.If(then=then, otherwise=()):
                return replace(stmt, then=tuple(map(inside, then)))
            case lir.Let(value=value) | lir.Assign(value=value) | lir.Store(value=value):
                return replace(stmt, value=change(value))
        return stmt

    changed = tuple(map(inside, guarded))
    return (*(lir.Let(var, lir.Unary(var.type, "loaded", load)) for load, var in found.items()), *changed)


PLAIN = frozenset(DTYPES[n] for n in ("f64", "f32", "i64", "i32", "i16", "i8", "u64", "u32", "u16", "u8"))
"""The types whose elements lie in memory as they are."""


def _stays_near(kernel: Kernel, site: Site) -> bool:
    """Whether a statement writes a thread's own register and reads registers and shared memory, by affine indices,
    and cannot fail."""
    statement = site.statement
    target = kernel.buffer(statement.target.buffer)
    near = {"reg", "stack", "shared"}
    return (
        target.role == "tmp"
        and target.storage == "reg"
        and all(kernel.buffer(a.buffer).storage in near for a in statement.accesses)
        and all(_is_plain(kernel, a) for a in statement.accesses)
        and not any(isinstance(part, Op) and part.name in MAY_FAIL for part in parts(statement.value))
    )


def _is_plain(kernel: Kernel, access: Access) -> bool:
    """Whether an access is by affine indices, to a type whose elements lie in memory as they are."""
    return kernel.buffer(access.buffer).dtype in PLAIN and all(isinstance(i, Affine) for i in access.indices)


def _stays_inside(kernel: Kernel, site: Site, around: Sequence[Scope | Guard], accesses: Sequence[Access]) -> bool:
    """Whether each index of some accesses of a statement is one of its array wherever what is `around` lets it
    run."""
    sets, names = sets_of(kernel), iterators(len(site.scopes))
    for access in accesses:
        for index, dim in zip(access.indices, kernel.buffer(access.buffer).dims, strict=True):
            assert isinstance(index, Affine)
            value, extent = isl_affine(index), isl_affine(dim.extent)
            outside = f"{sets.constraints(around)} and ({value} < 0 or {value} >= {extent})"
            if not dim.collapsed and not sets.is_empty(f"[{names}] -> [] : {outside}"):
                return False
    return True


def _accesses(sets: KernelSets, number: int, site: Site, buffer: str) -> Iterator[Access]:
    """The elements of a buffer that a statement reads, and those that it accumulates into."""
    reads = [a for read in sets.reads[number] for a in read.access.accesses() if a.buffer == buffer]
    if site.statement.accumulation is not None and site.statement.target.buffer == buffer:
        reads.append(site.statement.target)
    yield from dict.fromkeys(reads)


def _shared(site: Site, other: Site) -> int:
    """How many scopes of the grid, and of host code around it, two statements are in together: other iterations of
    these have registers of their own."""
    depth = last = 0
    for node, mine, its in zip(site.ancestors, site.path[:-1], other.path[:-1], strict=False):
        if mine != its:
            break
        if isinstance(node, Scope):
            depth += 1
            last = depth if not set(GRID).isdisjoint(node.marks) else last
    return last
