"""Who runs what on a GPU: the launches of a kernel, the phases of their blocks, the threads of each statement.

A nest of grid scopes is a launch, and so are other nodes beside it that have no grid scope inside (of one block).
In it, a nest of block and lane scopes is a phase; what is around phases is block code, which all threads run alike.
A block scope with several nests of lanes inside has warp code around these, which all lanes of a group run alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import prod

import islpy as isl

from dojoir.codegen.lower.gpu.groups import GroupInstruction, groups_of, paths_in
from dojoir.codegen.lower.gpu.launches import Collective, Launched, ThreadNest, ThreadPhase
from dojoir.errors import Diagnostic, KernelError
from dojoir.ir.affine import Affine
from dojoir.ir.expressions import expr_accesses
from dojoir.ir.format import format_access
from dojoir.ir.nodes import MAY_ASSIGN, Access, Commuting, Kernel, Node, Path, Scope, Site, Statement, format_path
from dojoir.ir.paths import is_inside
from dojoir.ir.places import is_uniform
from dojoir.ir.where import place
from dojoir.ir.words import BLOCK, GRID, MAX_BLOCK
from dojoir.sets.kernel_sets import isl_affine, iterators, sets_of

THREADS = frozenset({*BLOCK, "lane"})


def mark_of(node: Node, marks: frozenset[str] | tuple[str, ...]) -> str | None:
    """The mark of a scope that is among `marks`."""
    if not isinstance(node, Scope):
        return None
    return next((mark for mark in node.marks if mark in marks), None)


def has_mark(node: Node, marks: frozenset[str] | tuple[str, ...]) -> bool:
    """Whether a node, or one inside, is marked with one of `marks`."""
    if isinstance(node, Statement):
        return False
    return mark_of(node, marks) is not None or any(has_mark(child, marks) for child in node.body)


class Threads:
    """The launches of a kernel for a machine whose warps have `warp` threads.

    Raises KernelError for marks that are no launch, and for lanes that do not fit the warp.
    """

    def __init__(self, kernel: Kernel, warp: int) -> None:
        self.kernel, self.warp = kernel, warp
        self.groups: Mapping[Path, GroupInstruction] = groups_of(kernel, warp)
        self.launches: tuple[Launched, ...] = tuple(self._launches((), kernel.body))

    # -- launches --------------------------------------------------------------------------------------------
    def _launches(self, parent: Path, nodes: tuple[Node, ...]) -> Iterator[Launched]:
        run: list[int] = []
        for i, node in enumerate(nodes):
            if not has_mark(node, GRID):
                run.append(i)
                continue
            if run:
                yield self._of_one_block(parent, run)
                run = []
            if mark_of(node, GRID):
                yield self._of_grid((*parent, i))
            else:
                assert not isinstance(node, Statement)
                if mark_of(node, THREADS):
                    raise self._error("nested-mark", (*parent, i), "is a block around a grid")
                yield from self._launches((*parent, i), node.body)
        if run:
            yield self._of_one_block(parent, run)

    def _of_one_block(self, parent: Path, run: list[int]) -> Launched:
        node = self.kernel.at(parent) if parent else self.kernel
        assert not isinstance(node, Statement)
        depth = self.kernel.depth_of((*parent, 0))
        phases = tuple(phase for i in run for phase in self._phases((*parent, i), node.body[i], depth))
        return self._launched((), parent, run[0], run[-1], phases)

    def _of_grid(self, path: Path) -> Launched:
        paths, node = [path], self.kernel.at(path)
        while True:
            assert isinstance(node, Scope)
            match node.body:
                case (Scope() as child,) if mark_of(child, GRID):
                    path, node = (*path, 0), child
                    paths.append(path)
                case body if any(has_mark(child, GRID) for child in body):
                    raise self._error(
                        "broken-grid",
                        path,
                        "is marked as a grid and has another grid scope inside that is not alone in it: "
                        "split_scopes and swap_scopes bring grid scopes together",
                    )
                case body:
                    break
        depth = self.kernel.depth_of((*path, 0))
        phases = tuple(phase for i, child in enumerate(body) for phase in self._phases((*path, i), child, depth))
        return self._launched(tuple(paths), paths[0][:-1], paths[0][-1], paths[0][-1], phases)

    def _launched(
        self, grid: tuple[Path, ...], parent: Path, first: int, last: int, phases: tuple[ThreadPhase, ...]
    ) -> Launched:
        phases = self._with_as_many_lanes(phases)
        launched = Launched(grid, parent, first, last, phases, 1)
        threads = max((phase.threads for phase in phases), default=1)
        if any(collective.width != 1 for collective in self._collectives(launched)):
            threads = self._whole_warps(threads)
        return Launched(grid, parent, first, last, phases, threads)

    def _with_as_many_lanes(self, phases: tuple[ThreadPhase, ...]) -> tuple[ThreadPhase, ...]:
        """The phases of a block. Where two digits count the lanes of some nest, those that assign registers by the
        first alone have as many lanes, which share them out as that nest does."""
        nests = [nest for phase in phases for nest in phase.groups if len(nest.paths) > 1]
        lanes = max((nest.threads for nest in nests), default=0)
        return tuple(
            replace(phase, lanes=lanes)
            if 1 < phase.lanes < lanes and phase.groups and self._keeps_to_registers(phase.nest)
            else phase
            for phase in phases
        )

    def _whole_warps(self, threads: int) -> int:
        """So many threads or more, that shuffles have whole groups."""
        if threads >= self.warp:
            return -(-threads // self.warp) * self.warp
        return 1 << (threads - 1).bit_length()

    # -- phases ----------------------------------------------------------------------------------------------
    def _phases(self, path: Path, node: Node, depth: int) -> Iterator[ThreadPhase]:
        if isinstance(node, Statement):
            return
        if mark_of(node, THREADS):
            yield self._phase(path, depth)
            return
        for i, child in enumerate(node.body):
            yield from self._phases((*path, i), child, depth + isinstance(node, Scope))

    def _nest(self, path: Path, depth: int, marks: frozenset[str]) -> tuple[ThreadNest, Scope]:
        """The scopes with `marks` from `path` on that are alone in each other, and the innermost."""
        scope = self.kernel.at(path)
        paths, extents = [], []
        while True:
            assert isinstance(scope, Scope)
            bound = scope.constant_bound
            assert bound is not None, "the scopes of a block have constant bounds"
            paths.append(path)
            extents.append(max(bound, 1))
            match scope.body:
                case (Scope() as child,) if mark_of(child, marks):
                    path, scope = (*path, 0), child
                case _:
                    return ThreadNest(tuple(paths), depth, tuple(extents)), scope

    def _phase(self, path: Path, depth: int) -> ThreadPhase:
        nest, inner = self._nest(path, depth, THREADS)
        used = tuple(paths_in(self.groups, path))
        if not any(has_mark(child, THREADS) for child in inner.body):
            if used:
                return self._checked(ThreadPhase(nest, self._group_of(nest, used), (), used))
            extents = zip(nest.paths, nest.extents, strict=True)
            counted = {path: n for path, n in extents if mark_of(self.kernel.at(path), ("lane",))}
            self._check_lanes(next(iter(counted), nest.path), prod(counted.values()))
            return self._checked(ThreadPhase(nest, prod(counted.values())))
        if mark_of(inner, ("lane",)) or any(has_mark(child, BLOCK) for child in inner.body):
            raise self._error(
                "broken-block",
                nest.paths[-1],
                "is marked for threads and has other thread scopes inside that are not alone in it: "
                "swap_scopes and split_scopes bring them together",
            )
        groups: list[ThreadNest] = []
        self._groups(nest.paths[-1], inner.body, depth + len(nest.paths), groups)
        lanes = max(*(group.threads for group in groups), self._group_of(nest, used) if used else 1)
        for group in groups:
            if group.threads != lanes and not self._keeps_to_registers(group):
                sizes = " and ".join(map(str, sorted({lanes, group.threads})))
                raise self._error(
                    "unequal-lanes",
                    nest.paths[-1],
                    f"has lane scopes of {sizes} lanes: split them alike (fewer may only assign registers)",
                )
            self._check_lanes(group.path, group.threads)
        return self._checked(ThreadPhase(nest, lanes, tuple(groups), used))

    def _keeps_to_registers(self, group: ThreadNest) -> bool:
        """Whether a nest of threads assigns to registers alone: where it has fewer iterations than there are lanes,
        neighbours run each alike, and each has what all of them assign."""
        inside = [site.statement for site in self.kernel.sites if is_inside(site.path, group.path)]
        targets = (self.kernel.buffer(statement.target.buffer) for statement in inside)
        return all(s.accumulation is None for s in inside) and all(t.storage in ("reg", "stack") for t in targets)

    def _group_of(self, nest: ThreadNest, used: Sequence[Path]) -> int:
        """How many threads come to the instructions in a nest."""
        sizes = sorted({self.groups[path].instruction.group for path in used})
        if len(sizes) > 1:
            what = f"has instructions of {' and of '.join(map(str, sizes))} threads: split_scopes takes them apart"
            raise self._error("unequal-lanes", nest.paths[-1], what)
        return sizes[0]

    def _groups(self, path: Path, nodes: tuple[Node, ...], depth: int, found: list[ThreadNest]) -> None:
        for i, node in enumerate(nodes):
            if isinstance(node, Statement):
                continue
            if mark_of(node, ("lane",)):
                found.append(self._nest((*path, i), depth, frozenset({"lane"}))[0])
                continue
            self._groups((*path, i), node.body, depth + isinstance(node, Scope), found)

    def _checked(self, phase: ThreadPhase) -> ThreadPhase:
        if phase.threads > MAX_BLOCK:
            most = MAX_BLOCK // (phase.threads // phase.nest.extents[0])
            what = (
                f"makes {phase.threads} threads with the scopes inside, and {MAX_BLOCK} fit: split it, so that it "
                f"has at most {most} iterations"
            )
            raise self._error("large-block", phase.path, what)
        return phase

    def _check_lanes(self, path: Path, lanes: int) -> None:
        if lanes & (lanes - 1) or lanes > self.warp:
            raise self._error(
                "lane-extent",
                path,
                f"is marked `lane` and has {lanes} iterations; a warp of {self.warp} is shared by a power of two "
                f"of lanes: split it, or bind it to bx",
            )

    # -- collectives -----------------------------------------------------------------------------------------
    @cached_property
    def collectives(self) -> Mapping[Path, Collective]:
        """The collective of each statement that accumulates into what several threads share, by its path."""
        found = [c for launched in self.launches for c in self._collectives(launched)]
        return {path: collective for collective in found for path in collective.paths}

    def _collectives(self, launched: Launched) -> Iterator[Collective]:
        for phase in launched.phases:
            if phase.is_warp_code:
                self._refuse_between_warps(phase)
            for nest in phase.groups if phase.is_warp_code else (phase.nest,):
                for collective in self._in_nest(nest):
                    if phase.is_warp_code and not collective.width:
                        self._refuse_lanes_apart(collective)
                    yield collective if phase.is_warp_code else self._for_all(launched.threads, collective)

    def _for_all(self, every: int, collective: Collective) -> Collective:
        """A collective into a variable that each of `every` threads has. Where it is one for all, those that have
        no iteration take part, with what adds nothing: they may read the result."""
        own = self.kernel.buffer(self._target(collective).buffer).storage in ("reg", "stack")
        return replace(collective, width=max(every, collective.width)) if own and collective.is_one else collective

    def _target(self, collective: Collective) -> Access:
        statement = self.kernel.at(collective.paths[0])
        assert isinstance(statement, Statement)
        return statement.target

    def _illegal(self, code: str, collective: Collective, what: str) -> KernelError:
        """An error about what threads put together, an element for which `{}` stands."""
        source, span = place(self.kernel, collective.paths[0])
        return KernelError(Diagnostic(code, what.format(format_access(self._target(collective))), span, source))

    def _refuse_between_warps(self, phase: ThreadPhase) -> None:
        """Raises KernelError where block scopes with warp code inside accumulate into an element that several warps
        share: nothing puts together what these have."""
        for collective in self._in_nest(phase.nest):
            message = (
                "several warps accumulate into {} at once, and nothing puts together what they have: give the "
                "accumulation a nest of block scopes of its own (split_scopes)"
            )
            raise self._illegal("warps-accumulate", collective, message)

    def _refuse_lanes_apart(self, collective: Collective) -> None:
        """Raises KernelError where lanes put together what is not of neighbours: shuffles are between these."""
        message = (
            "{} is put together by lanes that are no neighbours, as another scope of lanes is inside of theirs: "
            f"swap_scopes({format_path(collective.nest.path)}) makes them neighbours"
        )
        raise self._illegal("collective-loop", collective, message)

    def _in_nest(self, nest: ThreadNest) -> Iterator[Collective]:
        together: dict[Access, list[Site]] = {}  # by what they accumulate into
        for site in self.kernel.sites:
            statement = site.statement
            if not is_inside(site.path, nest.path) or statement.accumulation in (None, MAY_ASSIGN):
                continue
            if not self.is_own(statement.target.buffer, nest.paths[-1]):
                together.setdefault(statement.target, []).append(site)
        for target, sites in together.items():
            depths = tuple(
                depth
                for depth, extent in zip(nest.depths, nest.extents, strict=True)
                if is_uniform(self.kernel, target, depth) and extent > 1
            )
            if depths and not self._by_one_thread(nest, sites):
                width = prod(e for d, e in zip(nest.depths, nest.extents, strict=True) if d in depths)
                moving = [d for d, e in zip(nest.depths, nest.extents, strict=True) if e > 1]
                last = tuple(moving[-len(depths) :]) == depths
                yield Collective(tuple(s.path for s in sites), nest, depths, width if last else 0)

    def _by_one_thread(self, nest: ThreadNest, sites: Sequence[Site]) -> bool:
        """Whether accumulations into one element are made in memory, in the order of the text, and not summed up
        over the threads of the nest.

        That is needed where another statement of the nest reads or writes the element, or they use several
        operators. The marks are legal, so then one thread alone touches the element: two would conflict. It happens
        in nests with fewer iterations than the constant bounds of their extents say, as `min(256, N - 256*{0})`.
        Raises KernelError where it is not proved that there is only one thread."""
        kernel, target = self.kernel, sites[0].statement.target
        sets, numbers = sets_of(kernel), {site.path: number for number, site in enumerate(kernel.sites)}
        alike = sites[0].statement.commuting
        used = [
            (site, access)
            for site in kernel.sites if is_inside(site.path, nest.path)
            for access in _used(site.statement, alike) if access.buffer == target.buffer
        ]  # fmt: skip
        differ = len({site.statement.commuting for site in sites}) > 1
        if not used and not differ:
            return False
        dims = [
            d for d, index in enumerate(target.indices)
            if all(isinstance(other.indices[d], Affine) for _, other in used) and isinstance(index, Affine)
        ]  # fmt: skip
        outer = [f"i{d}" for d in range(nest.depth)]

        def places(some: Iterable[tuple[Site, Sequence[str]]]) -> isl.UnionMap:
            return sets.map(
                *(
                    f"s{numbers[site.path]}[{iterators(len(site.scopes))}] -> [{', '.join(at)}] : "
                    f"{sets.constraints(site.ancestors)}"
                    for site, at in some
                )
            )

        def element(access: Access) -> list[str]:
            return [*outer, *(isl_affine(i) for d in dims if isinstance(i := access.indices[d], Affine))]

        summed = places((site, element(target)) for site in sites)
        if not differ:
            others = [places([(site, element(access))]).range() for site, access in used]
            if all(summed.range().intersect(other).is_empty() for other in others):
                return False
        threads = places((site, [f"i{d}" for d in nest.depths]) for site in sites)
        if summed.reverse().apply_range(threads).is_single_valued():
            return True
        source, span = place(kernel, sites[0].path)
        message = (
            f"{format_access(target)} is put together by the threads of the scope at {format_path(nest.path)}, and "
            f"used there: give the accumulation a nest of its own (split_scopes)"
        )
        raise KernelError(Diagnostic("collective-use", message, span, source))

    def is_own(self, buffer: str, path: Path) -> bool:
        """Whether a buffer lives inside the scope at `path`."""
        if self.kernel.buffer(buffer).role != "tmp":
            return False
        return all(
            is_inside(site.path, path)
            for site in self.kernel.sites
            if any(access.buffer == buffer for access in _all_accesses(site))
        )

    # -- errors ----------------------------------------------------------------------------------------------
    def _error(self, code: str, path: Path, what: str) -> KernelError:
        source, span = place(self.kernel, path)
        return KernelError(Diagnostic(code, f"the scope at {format_path(path)} {what}", span, source))


def _used(statement: Statement, alike: Commuting | None) -> Iterator[Access]:
    """The accesses of a statement, but for what it accumulates into as others do: such accumulations may
    come in any order."""
    if statement.commuting != alike:
        yield statement.target
    yield from expr_accesses(statement.value)
    for index in statement.target.indices:
        if isinstance(index, Access):
            yield from index.accesses()


def _all_accesses(site: Site) -> Iterator[Access]:
    for access in site.statement.accesses:
        yield from access.accesses()
