"""Arrays beside the elements of a buffer, in which a part of a kernel makes what it accumulates into these."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property

from dojoir.ir.dtypes import DType
from dojoir.ir.instruction import Use
from dojoir.ir.nodes import (
    MAY_ASSIGN,
    Access,
    Buffer,
    Guard,
    Kernel,
    Node,
    Path,
    Scope,
    Statement,
    is_inside,
    with_body,
)
from dojoir.ir.text import lines
from dojoir.ir.words import BLOCK, GRID
from dojoir.support.frozen import dataclass

ON_DEVICE = frozenset({*GRID, *BLOCK, "lane"})
"""The marks of scopes whose iterations are the blocks and threads of a GPU."""

_OWN = ON_DEVICE | {"p"}
"""The marks of scopes whose iterations accumulate into elements of their own, but for those that meet at data or by
blocks: such a scope is gone into."""


@dataclass(frozen=True)
class Part:
    """The children of the node at `parent` from number `first` to `last`: all that they do with a buffer is to
    accumulate into its elements by one operator, as `+=`."""

    parent: Path
    first: int
    last: int
    operator: str

    def holds(self, path: Path) -> bool:
        own = len(self.parent)
        return is_inside(path, self.parent) and len(path) > own and self.first <= path[own] <= self.last


@dataclass(frozen=True)
class Beside:
    """A kernel with such arrays: the place in the text of each statement, and the buffers that they are for."""

    text: Kernel
    kernel: Kernel
    origins: tuple[Path, ...]
    arrays: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(kernel: Kernel) -> Beside:
        """A kernel as it is."""
        return Beside(kernel, kernel, tuple(site.path for site in kernel.sites))

    def instead(
        self,
        part: Part,
        buffer: Buffer,
        nodes: Sequence[Node],
        origins: Iterable[Path],
        arrays: Mapping[str, DType],
    ) -> Beside:
        """The kernel with `nodes` for a part that accumulates into a buffer, and with arrays of its shape, by name.
        `origins` are the places in the text of the statements in `nodes`."""
        kernel = self.kernel
        around = kernel.at(part.parent) if part.parent else kernel
        assert not isinstance(around, Statement)
        body = (*around.body[: part.first], *nodes, *around.body[part.last + 1 :])
        storage = buffer.storage if buffer.role == "tmp" else "heap"
        made = [Buffer("tmp", name, dtype, buffer.dims, storage) for name, dtype in arrays.items()]
        kernel = kernel.evolve(buffers=(*kernel.buffers, *made))
        numbers = [k for k, site in enumerate(self.kernel.sites) if part.holds(site.path)]
        return Beside(
            self.text,
            kernel.evolve(body=body)
            if isinstance(around, Kernel)
            else kernel.replace_node(part.parent, with_body(around, body)),
            (*self.origins[: numbers[0]], *origins, *self.origins[numbers[-1] + 1 :]),
            {**self.arrays, **dict.fromkeys(arrays, buffer.name)},
        )

    @cached_property
    def _places(self) -> Mapping[Path, Path]:
        return {site.path: origin for site, origin in zip(self.kernel.sites, self.origins, strict=True)}

    @cached_property
    def lines(self) -> dict[Path, str]:
        """The line of each node, that of a statement as it was in the text."""
        now, were = (dict(lines(kernel, names=True)) for kernel in (self.kernel, self.text))
        found = {path: line.lstrip("| ") for path, line in now.items() if path}
        return {**found, **{path: were[origin].lstrip("| ") for path, origin in self._places.items()}}

    def place(self, path: Path) -> Path:
        """The place in the text of the statement at a path."""
        return self._places[path]

    def named(self, access: Access) -> Access:
        """An access by the name in the text."""
        return replace(access, buffer=self.arrays.get(access.buffer, access.buffer))


def fresh(kernel: Kernel, name: str) -> str:
    """A name that nothing in a kernel has."""
    taken = {*(b.name for b in kernel.buffers), *(size.name for size in kernel.sizes), kernel.name}
    return next(made for n in range(len(taken) + 1) if (made := f"{name}{n or ''}") not in taken)


def is_around(kernel: Kernel, part: Part, buffer: Buffer) -> bool:
    """Whether a part is around all threads that may have an element of a buffer in common."""
    around = (kernel.at(part.parent[:end]) for end in range(1, len(part.parent) + 1))
    return not any(isinstance(node, Scope) and _share(node, buffer) for node in around)


def parts_of(kernel: Kernel, buffer: Buffer, met: Collection[Path] = ()) -> Iterator[Part]:
    """The largest parts of a kernel that only accumulate into elements of a buffer, by one operator each. `met`
    are its statements that accumulate into elements which other threads accumulate into as well."""
    return _parts(kernel, buffer, met, (), kernel.body)


def _parts(
    kernel: Kernel, buffer: Buffer, met: Collection[Path], parent: Path, nodes: tuple[Node, ...]
) -> Iterator[Part]:
    run: list[int] = []
    by: set[str | None] = set()

    def ended() -> Iterator[Part]:
        match [nodes[number] for number in run]:
            case []:
                return
            case [Guard() | Scope() as only] if _is_gone_into(kernel, buffer, met, (*parent, run[0])):
                yield from _parts(kernel, buffer, met, (*parent, run[0]), only.body)
            case _:
                (operator,) = by
                assert operator is not None
                yield Part(parent, run[0], run[-1], operator)

    for number, node in enumerate(nodes):
        operators = set(_operators(node, buffer.name))
        if not operators:
            continue
        if len(by | operators) > 1 or None in operators:
            yield from ended()
            run, by = [], set()
        if len(operators) == 1 and None not in operators:
            run.append(number)
            by = operators
        elif not isinstance(node, Statement) and not _is_instruction(node):
            yield from _parts(kernel, buffer, met, (*parent, number), node.body)
    yield from ended()


def _is_gone_into(kernel: Kernel, buffer: Buffer, met: Collection[Path], path: Path) -> bool:
    """Whether each iteration of a node at a path has elements of its own."""
    node = kernel.at(path)
    if not isinstance(node, Scope) or _OWN.isdisjoint(node.marks):
        return isinstance(node, Guard)
    return not (_share(node, buffer) and any(is_inside(at, path) for at in met))


def _share(scope: Scope, buffer: Buffer) -> bool:
    """Whether the iterations of a scope are threads that see the same elements of a buffer."""
    return not ON_DEVICE.isdisjoint(scope.marks) and not (
        buffer.storage == "shared" and not _GRID.isdisjoint(scope.marks)
    )


_GRID = frozenset(GRID)


def _is_instruction(node: Node) -> bool:
    return isinstance(node, Scope) and any(isinstance(hint, Use) for hint in node.hints)


def _operators(node: Node, name: str) -> Iterator[str | None]:
    """For each statement that touches a buffer, the operator of an accumulation if that is all that it does."""
    if not isinstance(node, Statement):
        for child in node.body:
            yield from (None if _is_instruction(node) else found for found in _operators(child, name))
    elif name in node.buffers:
        read = [access for access in node.term_reads if access.buffer == name]
        only = node.target.buffer == name and not read and node.accumulation != MAY_ASSIGN
        yield node.accumulation if only else None
