"""Nests of loops: what is done to all of their indices at once, and their text as a kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

from dojoir.torch.importer.element_values import (
    DType,
    ElementValue,
    IndexAsValue,
    Value,
    indices,
    parts,
    rewrite,
    to_text,
)
from dojoir.torch.importer.index import (
    Divided,
    IndexSum,
    IteratorAtom,
    SizeAtom,
    as_index,
    divide,
    of_atom,
    render,
    substitute,
)


@dataclass(frozen=True)
class ProgramBuffer:
    """An array of the program: its shape, its type, and its dimensions from outermost to innermost in memory."""

    name: str
    shape: tuple[IndexSum, ...]
    dtype: DType
    order: tuple[int, ...] | None = None


class _Nested:
    """What has nodes inside."""

    body: tuple[Node, ...]

    @cached_property
    def loads(self) -> tuple[ElementValue, ...]:
        """All elements that are read or written inside, also in indices: asked of a nest after each change of
        another."""
        return tuple(load for below in self.body for load in below.loads)


@dataclass(frozen=True)
class ProgramLoop(_Nested):
    """A scope."""

    var: IteratorAtom
    body: tuple[Node, ...]


@dataclass(frozen=True)
class When(_Nested):
    """A guard of comparisons `left sign right` of indices."""

    conditions: tuple[tuple[IndexSum, str, IndexSum], ...]
    body: tuple[Node, ...]


@dataclass(frozen=True)
class ProgramStatement:
    """A statement; with a `place`, that of a pair: `(buffer, at) op (value, place)`."""

    target: ElementValue
    op: str
    value: Value
    condition: Value | None = None
    at: ElementValue | None = None
    place: Value | None = None

    @cached_property
    def loads(self) -> tuple[ElementValue, ...]:
        """All elements that it reads or writes, also in indices."""
        return tuple(part for value in values(self) for part in parts(value) if isinstance(part, ElementValue))


Node: TypeAlias = ProgramLoop | When | ProgramStatement


@dataclass
class ImportedProgram:
    """Nests in order, and the buffers that they use by name. Of `factors`, products of narrow floats are made: they
    stay in their types."""

    buffers: dict[str, ProgramBuffer] = field(default_factory=dict)
    nests: list[Node] = field(default_factory=list)
    factors: set[str] = field(default_factory=set)


def loops(variables: Sequence[IteratorAtom], body: Sequence[Node]) -> tuple[Node, ...]:
    """The body in a scope for each iterator, the first one outermost."""
    made = tuple(body)
    for var in reversed(variables):
        made = (ProgramLoop(var, made),)
    return made


def nodes(node: Node) -> Iterator[Node]:
    """The node and all below it, in the order of the text."""
    yield node
    if not isinstance(node, ProgramStatement):
        for below in node.body:
            yield from nodes(below)


def with_body(node: Node, new: Callable[[Node], Node]) -> Node:
    """The node with a new one for each in its body; a statement has none."""
    return node if isinstance(node, ProgramStatement) else replace(node, body=tuple(map(new, node.body)))


def stores(node: Node) -> Iterator[ProgramStatement]:
    """All statements of a nest."""
    return (one for one in nodes(node) if isinstance(one, ProgramStatement))


def values(store: ProgramStatement) -> Iterator[Value]:
    """All values of a statement, also the elements that it writes."""
    yield store.target
    yield store.value
    yield from (v for v in (store.condition, store.at, store.place) if v is not None)


def written(node: Node) -> set[str]:
    """The buffers that a nest writes."""
    found = set()
    for store in stores(node):
        found |= {store.target.buffer} | ({store.at.buffer} if store.at is not None else set())
    return found


def read(node: Node) -> set[str]:
    """The buffers that a nest reads before it writes them, or without writing them."""
    found: set[str] = set()
    begun: set[str] = set()
    for store in stores(node):
        for value in (store.value, store.condition, store.place):
            if value is not None:
                found |= {p.buffer for p in parts(value) if isinstance(p, ElementValue)} - begun
        for target in (store.target, store.at):
            if target is not None:
                inside = {p.buffer for p in parts(target) if isinstance(p, ElementValue) and p is not target}
                found |= inside - begun
                if store.op != "=" and target.buffer not in begun:
                    found.add(target.buffer)
                begun.add(target.buffer)
    return found


def change(
    node: Node, var: Callable[[IteratorAtom], IndexSum], load: Callable[[ElementValue], ElementValue]
) -> Node:
    """The nest with other iterators in indices, and other elements."""

    def in_value(value: Value | None) -> Value | None:
        return None if value is None else rewrite(value, var, load)

    def target(one: ElementValue) -> ElementValue:
        made = rewrite(one, var, load)
        assert isinstance(made, ElementValue)
        return made

    def in_index(index: IndexSum) -> IndexSum:
        return substitute(index, lambda a: var(a) if isinstance(a, IteratorAtom) else of_atom(a))

    match with_body(node, lambda below: change(below, var, load)):
        case ProgramLoop(own, body):
            return ProgramLoop(IteratorAtom(own.number, in_index(own.extent)), body)
        case When(conditions, body):
            return When(tuple((in_index(a), sign, in_index(b)) for a, sign, b in conditions), body)
        case ProgramStatement(to, op, value, condition, at, place):
            found = in_value(value)
            assert found is not None
            return ProgramStatement(
                target(to), op, found, in_value(condition), None if at is None else target(at), in_value(place)
            )


# -- iterators as several ------------------------------------------------------------------------------------
def split_loops(node: Node, fresh: Callable[[IndexSum], IteratorAtom]) -> Node:
    """A scope whose iterator is only used in parts, `i // 4` and `i % 4`, as two scopes."""
    while True:
        found = _to_split(node)
        if found is None:
            return node
        var, by = found
        outer, inner = fresh(divide(var.extent, by)[0]), fresh(by)
        whole = of_atom(outer) * by + of_atom(inner)

        def replaced(one: IteratorAtom, var: IteratorAtom = var, whole: IndexSum = whole) -> IndexSum:
            return whole if one == var else of_atom(one)

        node = _split(change(node, replaced, lambda load: load), var, outer, inner)


def _split(node: Node, var: IteratorAtom, outer: IteratorAtom, inner: IteratorAtom) -> Node:
    made = with_body(node, lambda below: _split(below, var, outer, inner))
    if isinstance(made, ProgramLoop) and made.var == var:
        return ProgramLoop(outer, (ProgramLoop(inner, made.body),))
    return made


def _to_split(node: Node) -> tuple[IteratorAtom, IndexSum] | None:
    """An iterator that is divided, with a divisor of its extent."""
    for index in all_indices(node):
        for atom in index.atoms:
            if not isinstance(atom, Divided) or not isinstance(atom.of.only, IteratorAtom):
                continue
            var = atom.of.only
            if divide(var.extent, atom.by)[1] == as_index(0):
                return var, atom.by
    return None


def loop_extents(node: Node) -> Iterator[IndexSum]:
    """The extents of all loops of a nest, outermost first."""
    return (one.var.extent for one in nodes(node) if isinstance(one, ProgramLoop))


def all_indices(node: Node) -> Iterator[IndexSum]:
    """All indices of a nest, also those of guards."""
    return _indices(node, indices)


def bare_indices(node: Node) -> Iterator[IndexSum]:
    """The indices of a nest that are values or stand in guards."""
    return _indices(node, lambda value: (p.index for p in parts(value) if isinstance(p, IndexAsValue)))


def _indices(node: Node, of_value: Callable[[Value], Iterator[IndexSum]]) -> Iterator[IndexSum]:
    for one in nodes(node):
        match one:
            case When(conditions):
                for left, _, right in conditions:
                    yield left
                    yield right
            case ProgramStatement():
                for value in values(one):
                    yield from of_value(value)
            case ProgramLoop():
                pass


# -- text ---------------------------------------------------------------------------------------------------
LETTERS = "ijklmnpqrstuvwxyz"


def kernel_text(
    name: str,
    program: ImportedProgram,
    nests: Sequence[Node],
    roles: dict[str, str],
    facts: dict[str, tuple[int, int | None]],
) -> str:
    """The kernel of some nests of a program. `roles` says of each buffer whether it is `in`, `out` or `tmp`;
    `facts` gives the least and the largest value of sizes."""
    used = dict.fromkeys(load.buffer for nest in nests for load in nest.loads)
    order = {"in": 0, "inout": 1, "out": 2, "tmp": 3}
    buffers = sorted((program.buffers[b] for b in used), key=lambda b: order[roles[b.name]])
    sizes = sorted({a.name for i in _all(buffers, nests) for a in i.atoms if isinstance(a, SizeAtom)})
    lines = [f"kernel {name}({', '.join(sizes)})"]
    known = [f"{s} >= {low}" for s in sizes for low, _ in [facts.get(s, (1, None))] if low > 1]
    known += [f"{s} <= {high}" for s in sizes for _, high in [facts.get(s, (1, None))] if high is not None]
    lines += [f"where {', '.join(known)}"] if known else []
    width = max((len(roles[b.name]) for b in buffers), default=3)
    lines += [f"{roles[b.name]:{width}} {_declared(b)}" for b in buffers]
    lines.append("")
    for nest in nests:
        lines += _lines(nest, 0, {})
    return "\n".join(lines) + "\n"


def _all(buffers: Sequence[ProgramBuffer], nests: Sequence[Node]) -> Iterator[IndexSum]:
    for buffer in buffers:
        yield from buffer.shape
    for nest in nests:
        yield from all_indices(nest)
        yield from loop_extents(nest)


def _declared(buffer: ProgramBuffer) -> str:
    shape = ", ".join(render(s, lambda a: a.key) for s in buffer.shape)
    order = "" if buffer.order is None else f" order({', '.join(map(str, buffer.order))})"
    return f"{buffer.name}: {buffer.dtype}{f'[{shape}]' if buffer.shape else ''}{order}"


def _lines(node: Node, depth: int, labels: dict[int, str]) -> Iterator[str]:
    bars = "| " * depth

    def var(one: IteratorAtom) -> str:
        return f"{{{labels[one.number]}}}"

    def index(one: IndexSum) -> str:
        return render(one, lambda a: var(a) if isinstance(a, IteratorAtom) else a.key)

    match node:
        case ProgramLoop(own, body):
            label = _label(len(labels))
            yield f"{bars}{index(own.extent)} @{label}"
            for below in body:
                yield from _lines(below, depth + 1, {**labels, own.number: label})
        case When(conditions, body):
            yield f"{bars}if {' and '.join(f'{index(a)} {sign} {index(b)}' for a, sign, b in conditions)}"
            for below in body:
                yield from _lines(below, depth + 1, labels)
        case ProgramStatement(target, op, value, condition, at, place):
            under = "" if condition is None else f" if {to_text(condition, var)}"
            left, right = to_text(target, var), to_text(value, var)
            if at is not None and place is not None:
                left, right = f"({left}, {to_text(at, var)})", f"({right}, {to_text(place, var, is_bare=True)})"
            yield f"{bars}{left} {op} {right}{under}"


def _label(number: int) -> str:
    return LETTERS[number] if number < len(LETTERS) else f"i{number}"
