"""Auxiliary arrays: a part of a kernel accumulates into an array of the buffer's shape, whose totals are then
accumulated into the buffer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property

from dojoir.ir.dtypes import F32, DType
from dojoir.ir.instruction import Use
from dojoir.ir.nodes import (
    MAY_ASSIGN,
    Access,
    Buffer,
    Expr,
    Guard,
    Kernel,
    Node,
    Op,
    Path,
    Scope,
    Site,
    Statement,
    is_inside,
    with_body,
)
from dojoir.ir.words import BLOCK, GRID
from dojoir.support.frozen import dataclass
from dojoir.types.elaborate import natural_type

ON_DEVICE = frozenset({*GRID, *BLOCK, "lane"})
"""The marks of scopes whose iterations are the blocks and threads of a GPU."""

_OWN = ON_DEVICE | {"p"}
"""The marks of scopes whose iterations accumulate into elements of their own, but for those that meet at data or by
blocks: such a scope is gone into."""


@dataclass(frozen=True)
class AccumulatingPart:
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
class TextBeside:
    """A kernel with such arrays: the place in the text of each statement, and the buffers that they are for."""

    text: Kernel
    kernel: Kernel
    origins: tuple[Path, ...]
    arrays: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(kernel: Kernel) -> TextBeside:
        """A kernel as it is."""
        return TextBeside(kernel, kernel, tuple(site.path for site in kernel.sites))

    def sites(self, part: AccumulatingPart) -> list[tuple[int, Site]]:
        """The statements of a part, with their numbers."""
        return [(number, site) for number, site in enumerate(self.kernel.sites) if part.holds(site.path)]

    def instead(
        self,
        part: AccumulatingPart,
        buffer: Buffer,
        change: Callable[[Site], tuple[Statement, ...]],
        before: Sequence[Standing],
        behind: Sequence[Standing],
        arrays: Mapping[str, DType],
    ) -> TextBeside:
        """The kernel with what `change` makes of each accumulation into a buffer in a part, with nodes before and
        behind that, and with arrays of the shape of the buffer, by name."""
        kernel, inside = self.kernel, self.sites(part)
        around = kernel.at(part.parent) if part.parent else kernel
        assert not isinstance(around, Statement)
        by = {site.path: change(site) for _, site in inside if site.statement.target.buffer == buffer.name}
        nodes = with_statements(part.parent, around.body, by)  # in other children, nothing is changed
        last = len(nodes) - (len(around.body) - part.last - 1)
        body = (*nodes[: part.first], *_nodes(before), *nodes[part.first : last], *_nodes(behind), *nodes[last:])
        storage = buffer.storage if buffer.role == "tmp" else "heap"
        made = [Buffer("tmp", name, dtype, buffer.dims, storage) for name, dtype in arrays.items()]
        kernel = kernel.evolve(buffers=(*kernel.buffers, *made))
        inner = [number for number, site in inside for _ in by.get(site.path, (site.statement,))]
        outer = range(inside[0][0]), range(inside[-1][0] + 1, len(self.origins))
        numbers = (*outer[0], *_standing(before), *inner, *_standing(behind), *outer[1])
        return TextBeside(
            self.text,
            kernel.evolve(body=body)
            if isinstance(around, Kernel)
            else kernel.replace_node(part.parent, with_body(around, body)),
            tuple(self.origins[number] for number in numbers),
            {**self.arrays, **dict.fromkeys(arrays, buffer.name)},
        )

    @cached_property
    def _places(self) -> Mapping[Path, Path]:
        return {site.path: origin for site, origin in zip(self.kernel.sites, self.origins, strict=True)}

    @cached_property
    def lines(self) -> dict[Path, str]:
        """The line of each node, that of a statement as it was in the text."""
        now, were = (dict(kernel.lines(names=True)) for kernel in (self.kernel, self.text))
        found = {path: line.lstrip("| ") for path, line in now.items() if path}
        return {**found, **{path: were[origin].lstrip("| ") for path, origin in self._places.items()}}

    def place(self, path: Path) -> Path:
        """The place in the text of the statement at a path."""
        return self._places[path]

    def named(self, access: Access) -> Access:
        """An access by the name in the text."""
        return replace(access, buffer=self.arrays.get(access.buffer, access.buffer))


Standing = tuple[int, Sequence[Node]]
"""Some nodes, and the number of the statement for which all in them stand."""


def with_statements(path: Path, nodes: Sequence[Node], by: Mapping[Path, tuple[Statement, ...]]) -> list[Node]:
    """The children of the node at a path with others for some statements, given by their places."""
    found: list[Node] = []
    for number, node in enumerate(nodes):
        own = (*path, number)
        if isinstance(node, Statement):
            found += by.get(own, (node,))
        else:
            found.append(with_body(node, tuple(with_statements(own, node.body, by))))
    return found


def _nodes(some: Sequence[Standing]) -> Iterator[Node]:
    return (node for _, nodes in some for node in nodes)


def _standing(some: Sequence[Standing]) -> Iterator[int]:
    """For each statement in some nodes, the number of the one that it stands for."""
    return (number for number, nodes in some for _ in range(_count(nodes)))


def _count(nodes: Sequence[Node]) -> int:
    return sum(1 if isinstance(node, Statement) else _count(node.body) for node in nodes)


def fresh(kernel: Kernel, name: str) -> str:
    """A name that nothing in a kernel has."""
    taken = {*(b.name for b in kernel.buffers), *(size.name for size in kernel.sizes), kernel.name}
    return next(made for n in range(len(taken) + 1) if (made := f"{name}{n or ''}") not in taken)


def parted(statement: Statement) -> tuple[Expr | None, Expr]:
    """The condition of an accumulation, if it has one, and what it accumulates."""
    match statement.term:
        case Op("when", (condition, value)):
            return condition, value
    return None, statement.term


def where(condition: Expr | None, value: Expr) -> Expr:
    """A value under a condition, if there is one."""
    return value if condition is None else Op("when", (condition, value))


def held_in(kernel: Kernel, sites: Iterable[Site]) -> DType:
    """The float in which what some statements accumulate is put together: that of the values, f32 at least."""
    types = {buffer.name: buffer for buffer in kernel.buffers}
    found = (natural_type(parted(site.statement)[1], types) or F32 for site in sites)
    return max((F32, *found), key=lambda dtype: dtype.bits)


def is_around(kernel: Kernel, part: AccumulatingPart, buffer: Buffer) -> bool:
    """Whether a part is around all threads that may have an element of a buffer in common."""
    around = (kernel.at(part.parent[:end]) for end in range(1, len(part.parent) + 1))
    return not any(isinstance(node, Scope) and _share(node, buffer) for node in around)


def parts_of(kernel: Kernel, buffer: Buffer, met: Collection[Path] = ()) -> Iterator[AccumulatingPart]:
    """The largest parts of a kernel that only accumulate into elements of a buffer, by one operator each. `met`
    are its statements that accumulate into elements which other threads accumulate into as well."""
    return _parts(kernel, buffer, met, (), kernel.body)


def _parts(
    kernel: Kernel, buffer: Buffer, met: Collection[Path], parent: Path, nodes: tuple[Node, ...]
) -> Iterator[AccumulatingPart]:
    run: list[int] = []
    by: set[str | None] = set()

    def ended() -> Iterator[AccumulatingPart]:
        match [nodes[number] for number in run]:
            case []:
                return
            case [Guard() | Scope() as only] if _is_gone_into(kernel, buffer, met, (*parent, run[0])):
                yield from _parts(kernel, buffer, met, (*parent, run[0]), only.body)
            case _:
                (operator,) = by
                assert operator is not None
                yield AccumulatingPart(parent, run[0], run[-1], operator)

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
