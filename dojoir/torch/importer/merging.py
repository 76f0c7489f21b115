"""Fewer loops for the planner: dimensions of extent 1 are dropped, and nested loops over contiguous elements
collapsed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from dojoir.torch.importer.element_values import ElementValue
from dojoir.torch.importer.index import (
    Data,
    Divided,
    IndexSum,
    IteratorAtom,
    SizeAtom,
    as_index,
    degree,
    divide,
    of_atom,
    recombine,
)
from dojoir.torch.importer.nests import (
    ImportedProgram,
    Node,
    ProgramBuffer,
    ProgramLoop,
    ProgramStatement,
    bare_indices,
    change,
    loop_extents,
    stores,
    with_body,
)


def drop_ones(program: ImportedProgram) -> None:
    """Takes away the dimensions of one element of each buffer."""
    dropped: dict[str, set[int]] = {}
    for name, buffer in program.buffers.items():
        ones = {d for d, s in enumerate(buffer.shape) if s.constant == 1}
        if len(ones) == len(buffer.shape):
            ones.discard(0)
        if ones and buffer.order is None:
            dropped[name] = ones
            shape = tuple(s for d, s in enumerate(buffer.shape) if d not in ones)
            program.buffers[name] = ProgramBuffer(name, shape, buffer.dtype)

    def without(load: ElementValue) -> ElementValue:
        gone = dropped.get(load.buffer)
        if not gone:
            return load
        return ElementValue(load.buffer, tuple(i for d, i in enumerate(load.index) if d not in gone), load.dtype)

    if dropped:
        program.nests = [change(nest, of_atom, without) for nest in program.nests]


def part_products(program: ImportedProgram) -> None:
    """Splits a dimension whose extent is a product of sizes, by a factor that indices into it have."""
    while (found := next(_products(program), None)) is not None:
        part(program, *found)


def _products(program: ImportedProgram) -> Iterator[tuple[str, int, IndexSum]]:
    """The buffers, dimensions and factors to split by."""
    for nest in program.nests:
        for load in nest.loads:
            for d, (index, extent) in enumerate(zip(load.index, program.buffers[load.buffer].shape, strict=True)):
                by = _factor(index, extent) if degree(extent) > 1 else None
                if by is not None:
                    yield load.buffer, d, by


def _factor(index: IndexSum, extent: IndexSum) -> IndexSum | None:
    """A factor of an extent that an index multiplies an iterator by, or divides one by."""
    found = [atom.by for atom in index.atoms if isinstance(atom, Divided)]
    for monomial, factor in index.terms.items():
        if any(isinstance(a, IteratorAtom) for a in monomial):
            found.append(IndexSum({tuple(a for a in monomial if isinstance(a, SizeAtom)): factor}))
    for one in found:
        if one.constant is None and one != extent and divide(extent, one)[1] == as_index(0):
            return one
    return None


def part(program: ImportedProgram, name: str, d: int, by: IndexSum) -> None:
    """Splits a dimension in two, the inner one of extent `by`; nothing where `by` does not divide the extent."""
    buffer = program.buffers[name]
    if d >= len(buffer.shape) or divide(buffer.shape[d], by)[1] != as_index(0):
        return
    shape = (*buffer.shape[:d], divide(buffer.shape[d], by)[0], by, *buffer.shape[d + 1 :])
    program.buffers[name] = ProgramBuffer(name, shape, buffer.dtype, _order(buffer.order, d))

    def parted(load: ElementValue) -> ElementValue:
        if load.buffer != name:
            return load
        return ElementValue(name, (*load.index[:d], *divide(load.index[d], by), *load.index[d + 1 :]), load.dtype)

    program.nests = [change(nest, of_atom, parted) for nest in program.nests]


def _order(order: tuple[int, ...] | None, d: int) -> tuple[int, ...] | None:
    if order is None:
        return None
    made: list[int] = []
    for one in order:
        made += [one + (one > d)] if one != d else [d, d + 1]
    return tuple(made)


@dataclass(frozen=True)
class _Uses:
    """Who uses each buffer of a program, which no change of loops and dimensions changes."""

    together: Mapping[str, frozenset[str]]
    """A buffer and those that are written in pairs with it: the halves of a pair have one index."""

    nests: Mapping[str, frozenset[int]]
    """The numbers of the nests that read or write it or what stands in a pair with it."""

    asked: dict[tuple[int, int, int], tuple[Node, bool]] = field(default_factory=dict)
    """Whether two loops of a nest could be one, of each nest that was asked: by identity, as nests are values."""

    @classmethod
    def of(cls, program: ImportedProgram) -> _Uses:
        together = {name: frozenset({name}) for name in program.buffers}
        users: dict[str, set[int]] = {name: set() for name in program.buffers}
        for number, nest in enumerate(program.nests):
            for load in nest.loads:
                users[load.buffer].add(number)
            for store in stores(nest):
                if store.at is not None and store.target.index and store.at.index:
                    both = together[store.target.buffer] | together[store.at.buffer]
                    together.update(dict.fromkeys(both, both))
        nests = {name: frozenset().union(*(users[one] for one in all_of)) for name, all_of in together.items()}
        return cls(together, nests)

    def is_one_loop(self, nest: Node, outer: IteratorAtom, inner: IteratorAtom) -> bool:
        key = id(nest), outer.number, inner.number
        if key not in self.asked:
            self.asked[key] = nest, _is_one_loop(nest, outer, inner)
        return self.asked[key][1]

    def beside(self, nest: Node) -> frozenset[int]:
        """The nests that use a buffer of this one."""
        return frozenset().union(*(self.nests[load.buffer] for load in nest.loads))


def flatten(program: ImportedProgram) -> None:
    """Makes one dimension of two neighbours of a buffer that some access indexes as the parts of one index: the
    view that merged them is then the buffer's own shape. Where what writes the buffer needs them to be two, the
    iterator of that access becomes two instead (`split_loops`)."""
    uses = _Uses.of(program)
    pending = set(range(len(program.nests)))
    while pending:
        number = min(pending)
        found = next(_views(program, uses, number), None)
        if found is None:
            pending.discard(number)
        else:
            _join(program, uses, *found)
            pending |= uses.nests[found[0]].union(*(uses.beside(program.nests[n]) for n in uses.nests[found[0]]))


def _views(program: ImportedProgram, uses: _Uses, number: int) -> Iterator[tuple[str, int]]:
    """The buffers and dimensions that an access of a nest sees as one with the next."""
    for load in program.nests[number].loads:
        shape = program.buffers[load.buffer].shape
        for d in range(len(load.index) - 1):
            if recombine(load.index[d], load.index[d + 1], shape[d + 1]) is None:
                continue
            if not _can_be_joined(program, uses, load.buffer, d):
                continue
            if not (_is_of_two_loops(load.index[d + 1]) and _parts_a_sum(program, uses, number, load.buffer, d)):
                yield load.buffer, d


def _is_of_two_loops(index: IndexSum) -> bool:
    """Whether a rest is that of an iterator which can be two, the inner one of the extent of the divisor."""
    rest = index.only
    var = rest.of.only if isinstance(rest, Divided) else None
    return (
        isinstance(var, IteratorAtom)
        and isinstance(rest, Divided)
        and divide(var.extent, rest.by)[1] == as_index(0)
    )


def merge_loops(program: ImportedProgram, fresh: Callable[[IndexSum], IteratorAtom]) -> None:
    """Collapses two nested loops into one where all indices contain both iterators in one sum, and joins two
    dimensions of a buffer where that helps."""
    uses = _Uses.of(program)
    pending = set(range(len(program.nests)))
    while pending:
        now, pending = sorted(pending), set()
        for number in now:
            nest = program.nests[number]
            for outer, inner in list(_pairs(nest)):
                joined = _mergeable(program, uses, nest, outer, inner)
                if joined is None or any(_parts_a_sum(program, uses, number, *one) for one in joined):
                    continue
                for name, d in joined:
                    _join(program, uses, name, d)
                one = fresh(outer.extent * inner.extent)
                program.nests[number] = _merged(program.nests[number], outer, inner, one)
                changed = {number}.union(*(uses.nests[name] for name, _ in joined))
                pending |= changed.union(*(uses.beside(program.nests[n]) for n in changed))
                break


def _pairs(node: Node) -> Iterator[tuple[IteratorAtom, IteratorAtom]]:
    """Loops right inside of each other, innermost first."""
    if isinstance(node, ProgramStatement):
        return
    for below in node.body:
        yield from _pairs(below)
    match node:
        case ProgramLoop(outer, (ProgramLoop(inner),)):
            yield outer, inner
        case _:
            pass


def _mergeable(
    program: ImportedProgram, uses: _Uses, nest: Node, outer: IteratorAtom, inner: IteratorAtom
) -> set[tuple[str, int]] | None:
    """The dimensions of buffers to be joined with the next, so that two loops can be one; None if they cannot."""
    if any(outer in i.atoms for i in loop_extents(nest)) or any(inner in i.atoms for i in loop_extents(nest)):
        return None
    if degree(outer.extent * inner.extent) > 1:
        return None  # a product of sizes is no extent that is planned for
    joined: set[tuple[str, int]] = set()
    for load in nest.loads:
        buffer = program.buffers[load.buffer]
        index, extents = list(load.index), list(buffer.shape)
        wrong = [d for d, i in enumerate(index) if not _fits(i, outer, inner)]
        if not wrong:
            continue
        if len(wrong) != 2 or wrong[1] != wrong[0] + 1:
            return None
        d = wrong[0]
        if not _fits(index[d] * extents[d + 1] + index[d + 1], outer, inner):
            return None
        if not _can_be_joined(program, uses, buffer.name, d) or _is_from_data(program, uses, buffer.name, d):
            return None
        joined.add((min(uses.together[buffer.name]), d))
    if not all(_fits(one, outer, inner) for one in bare_indices(nest)):
        return None
    # what is joined is joined for all: two joined pairs of one buffer may not overlap
    names = [name for name, _ in joined]
    return joined if len(set(names)) == len(names) else None


def _is_from_data(program: ImportedProgram, uses: _Uses, name: str, d: int) -> bool:
    """Whether a dimension or the next is indexed by data somewhere: a row that is known then stays apart."""
    loads = (load for number in uses.nests[name] for load in program.nests[number].loads if load.buffer == name)
    return any(isinstance(atom, Data) for load in loads for index in load.index[d : d + 2] for atom in index.atoms)


def _parts_a_sum(program: ImportedProgram, uses: _Uses, nest: int, name: str, d: int) -> bool:
    """Whether another nest accumulates in loops over a dimension and the next that have to stay two: a convolution
    is planned by its own dimensions, and so is what is computed of its results. What is asked of is reached from
    buffer to buffer through the nests that index both alike; each way into a buffer is followed once."""
    seen = {(name, d, nest)}
    pending = [(name, d, nest)]
    while pending:
        name, d, nest = pending.pop()
        for number in uses.nests[name] - {nest}:
            other = program.nests[number]
            sums = any(store.op != "=" for store in stores(other))
            for load in other.loads:
                if load.buffer not in uses.together[name]:
                    continue
                if sums and any(map(_is_window, load.index[d : d + 2])):
                    return True
                outer, inner = load.index[d].only, load.index[d + 1].only
                if not (isinstance(outer, IteratorAtom) and isinstance(inner, IteratorAtom)):
                    continue
                if sums and not uses.is_one_loop(other, outer, inner):
                    return True
                found = {
                    (min(uses.together[one.buffer]), n) for one in other.loads for n in _pairs_in(one, outer, inner)
                }
                ways = {(*pair, number) for pair in found} - seen
                seen |= ways
                pending += sorted(ways)
    return False


def _is_window(index: IndexSum) -> bool:
    """Whether an index may be the same at several values of two iterators."""
    steps = {
        m[0]: abs(factor) for m, factor in index.terms.items() if len(m) == 1 and isinstance(m[0], IteratorAtom)
    }
    pairs = ((one, steps[one], steps[other]) for one in steps for other in steps if one != other)
    return any(least <= step < least * (one.extent.constant or step + 1) for one, least, step in pairs)


def _pairs_in(load: ElementValue, outer: IteratorAtom, inner: IteratorAtom) -> Iterator[int]:
    """The dimensions that one iterator indexes, and the next one the other."""
    found = [index.only for index in load.index]
    yield from (n for n in range(len(found) - 1) if found[n : n + 2] == [outer, inner])


def _is_one_loop(nest: Node, outer: IteratorAtom, inner: IteratorAtom) -> bool:
    """Whether two loops could be one but for the dimensions of buffers that have to be joined as well."""
    if not all(_fits(one, outer, inner) for one in bare_indices(nest)):
        return False
    for load in nest.loads:
        wrong = [i.only for i in load.index if not _fits(i, outer, inner)]
        if wrong and wrong != [outer, inner]:
            return False
    return True


def _fits(index: IndexSum, outer: IteratorAtom, inner: IteratorAtom) -> bool:
    """Whether the outer iterator has the factor of the inner one, times its extent."""
    if outer not in index.atoms and inner not in index.atoms:
        return True
    of_outer = of_inner = as_index(0)
    for monomial, factor in index.terms.items():
        others = [a for a in monomial if not isinstance(a, SizeAtom | IteratorAtom)]
        if any({outer, inner} & of_atom(a).atoms for a in others):
            return False
        if outer in monomial and inner in monomial:
            return False
        for var in (outer, inner):
            if var in monomial:
                rest = list(monomial)
                rest.remove(var)
                if var in rest:
                    return False
                if var == outer:
                    of_outer = of_outer + IndexSum({tuple(rest): factor})
                else:
                    of_inner = of_inner + IndexSum({tuple(rest): factor})
    return of_outer == of_inner * inner.extent


def _join(program: ImportedProgram, uses: _Uses, name: str, d: int) -> None:
    """Makes one dimension of a buffer of two neighbours, and of what stands in a pair with it."""
    together = uses.together[name]
    extent = program.buffers[name].shape[d + 1]
    for one in together:
        shape = program.buffers[one].shape
        program.buffers[one] = ProgramBuffer(
            one, (*shape[:d], shape[d] * extent, *shape[d + 2 :]), program.buffers[one].dtype
        )

    def joined(load: ElementValue) -> ElementValue:
        if load.buffer not in together:
            return load
        outer, inner = load.index[d], load.index[d + 1]
        whole = recombine(outer, inner, extent)
        index = outer * extent + inner if whole is None else whole
        return ElementValue(load.buffer, (*load.index[:d], index, *load.index[d + 2 :]), load.dtype)

    for number in uses.nests[name]:
        program.nests[number] = change(program.nests[number], of_atom, joined)


def _can_be_joined(program: ImportedProgram, uses: _Uses, name: str, d: int) -> bool:
    """Whether a dimension and the next may be one: all that would be joined has them, in row-major order, and their
    extent is at most one size times a number, as a product of sizes is no extent that is planned for."""
    buffers = [program.buffers[one] for one in uses.together[name]]
    return len({buffer.shape for buffer in buffers}) == 1 and all(
        buffer.order is None and degree(buffer.shape[d] * buffer.shape[d + 1]) < 2 for buffer in buffers
    )


def _merged(node: Node, outer: IteratorAtom, inner: IteratorAtom, one: IteratorAtom) -> Node:
    def replaced(var: IteratorAtom) -> IndexSum:
        return as_index(0) if var == outer else of_atom(one) if var == inner else of_atom(var)

    return _without(change(node, replaced, lambda load: load), outer, inner, one)


def _without(node: Node, outer: IteratorAtom, inner: IteratorAtom, one: IteratorAtom) -> Node:
    match node:
        case ProgramLoop(own, (ProgramLoop(below, body), *_)) if (own, below) == (outer, inner):
            return ProgramLoop(one, body)
        case _:
            return with_body(node, lambda below: _without(below, outer, inner, one))
