"""Launches, their phases, and who of their threads runs an iteration: found by `codegen.lower.gpu.thread_plan`."""

from __future__ import annotations

from math import prod

from dojoir.ir.nodes import Kernel, Path, Statement
from dojoir.ir.paths import is_inside
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class ThreadNest:
    """Thread scopes inside each other: their paths, and how often each runs at most. Iterators are numbered from
    `depth` on."""

    paths: tuple[Path, ...]
    depth: int
    extents: tuple[int, ...]

    @property
    def path(self) -> Path:
        return self.paths[0]

    @property
    def depths(self) -> range:
        return range(self.depth, self.depth + len(self.extents))

    @property
    def threads(self) -> int:
        return prod(self.extents)

    @property
    def strides(self) -> tuple[int, ...]:
        """How many threads apart neighbours along each scope are."""
        return tuple(prod(self.extents[n + 1 :]) for n in range(len(self.extents)))


@dataclass(frozen=True)
class ThreadPhase:
    """The code of threads between two barriers: a nest of scopes. `lanes` is how many iterations its lane scopes
    have (1: it has none), and `groups` the nests of these where the block scopes have warp code inside; `used` are
    the instructions there that all lanes execute together."""

    nest: ThreadNest
    lanes: int = 1
    groups: tuple[ThreadNest, ...] = ()
    used: tuple[Path, ...] = ()

    @property
    def is_warp_code(self) -> bool:
        """Whether the block scopes have warp code inside."""
        return bool(self.groups or self.used)

    @property
    def path(self) -> Path:
        return self.nest.path

    @property
    def inner(self) -> Path:
        """The path of the innermost scope that all of it is in."""
        return self.nest.paths[-1]

    @property
    def threads(self) -> int:
        return self.nest.threads * (self.lanes if self.is_warp_code else 1)

    def alike_at(self, path: Path) -> int:
        """How many neighbouring threads run each iteration of a node."""
        group = next((group for group in self.groups if is_inside(path, group.path)), None)
        return self.lanes // group.threads if group is not None else self.lanes if self.is_warp_code else 1

    def digits(self, path: Path) -> dict[int, tuple[int, int]]:
        """The iterators of threads around a node, by depth: how many threads apart neighbours are, and how many
        there are. They make the number of the thread that runs an iteration, the first of those that do."""
        nests = [self.nest, *(group for group in self.groups if is_inside(path, group.path))]
        return {
            depth: (stride * self.alike_at(nest.path), extent)
            for nest in nests
            for depth, stride, extent in zip(nest.depths, nest.strides, nest.extents, strict=True)
        }


@dataclass(frozen=True)
class Collective:
    """The accumulation by statements at `paths`, of one nest, into elements that the threads share: those that
    differ in the iterators at `depths`. `width` threads in a row share one where these are the last of the nest
    (else 0)."""

    paths: tuple[Path, ...]
    nest: ThreadNest
    depths: tuple[int, ...]
    width: int

    @property
    def is_one(self) -> bool:
        """Whether all threads of the nest share one element."""
        return all(n == 1 or d in self.depths for d, n in zip(self.nest.depths, self.nest.extents, strict=True))


@dataclass(frozen=True)
class Launched:
    """A launch: its grid scopes, from the outside in, or none and the nodes of the block at `parent` from number
    `first` to `last`. `body` is the path of its block code."""

    grid: tuple[Path, ...]
    parent: Path
    first: int
    last: int
    phases: tuple[ThreadPhase, ...]
    threads: int

    @property
    def body(self) -> Path:
        return self.grid[-1] if self.grid else self.parent

    def holds(self, path: Path) -> bool:
        """Whether a node is part of it."""
        if self.grid:
            return path[: len(self.grid[0])] == self.grid[0]
        own = len(self.parent)
        return path[:own] == self.parent and len(path) > own and self.first <= path[own] <= self.last

    def children(self, kernel: Kernel, path: Path) -> range:
        """The numbers of the children of the node at `path` that are part of it."""
        if not self.grid and path == self.parent:
            return range(self.first, self.last + 1)
        node = kernel.at(path) if path else kernel
        assert not isinstance(node, Statement)
        return range(len(node.body))

    def phase_of(self, path: Path) -> ThreadPhase | None:
        return next((phase for phase in self.phases if is_inside(path, phase.path)), None)
