"""Refusals that a run at small sizes shows: no isl.

Both kernels run side by side, without values: each read is told which writes give its value, the last assignment
to its element and all accumulations since where their order is free. Sizes are all equal. A kernel that is long
even so gets no answer. A run of the new one may be cut off, since up to that point it is the same as a complete
run."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import field
from itertools import count

from dojoir.ir.format import format_statement
from dojoir.ir.nodes import Access, Cast, Const, Expr, Guard, Index, Kernel, Node, Op, Statement, holds
from dojoir.proof.certificate import InstanceMap
from dojoir.sets.kernel_sets import KernelSets, sets_of
from dojoir.support.frozen import dataclass
from dojoir.support.memo import Memo, charge

LONGEST = 100
"""The largest number of statement instances of a run."""

MOST_ITERATIONS = 20_000
"""The largest number of scope iterations that it visits to find them."""

STEPS = 10
"""The steps charged for an iteration."""

RUNS = 2
"""The number of sizes that are tried."""

Instance = tuple[int, tuple[int, ...]]
Element = tuple[str, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class _Value:
    """The value of an element: the value of `last`, added to the earlier value where `to` is given. Without `last`
    it is the value of `first` at the start."""

    first: Element
    last: Instance | None = None
    to: _Value | None = None

    def sources(self) -> frozenset[Instance | Element]:
        """All instances on which it depends."""
        if self.to is None:
            return frozenset((self.first if self.last is None else self.last,))
        found: set[Instance | Element] = set()
        value: _Value | None = self
        while value is not None:
            found.add(value.first if value.last is None else value.last)
            value = value.to
        return frozenset(found)


@dataclass
class _Run:
    """A run, as far as it goes: what each instance reads, and what the elements have after it. Both are in terms
    of the instances that those of this kernel stand for. It also says whether an element is read that has no
    value."""

    reads: dict[Instance, tuple[_Value, ...]] = field(default_factory=dict)
    memory: dict[Element, _Value] = field(default_factory=dict)
    whole: bool = True
    unwritten: bool = False


@dataclass(frozen=True)
class RunFinding:
    """The finding of a run: its sizes, and the difference, by the code of such a refusal and in words."""

    sizes: tuple[tuple[str, int], ...]
    code: str
    what: str


def goes_wrong(before: Kernel, after: Kernel, instances: InstanceMap, unread: Collection[str] = ()) -> bool:
    """Whether some run surely shows that the kernels differ (`seen`)."""
    return seen(before, after, instances, unread) is not None


def seen(before: Kernel, after: Kernel, instances: InstanceMap, unread: Collection[str] = ()) -> RunFinding | None:
    """The difference of the kernels that some run is certain to show. A read gets its value from other writes, or
    none, a statement runs that did not, or none does that did, or something else is returned. Of the last values
    of the buffers `unread` nothing is asked.

    No statement may stand for nothing, and none be lost; else nothing is said.
    """
    origins = instances.origins
    if instances.inlined or instances.extracted or None in origins:
        return None
    if {o.site for o in origins if o is not None} != set(range(len(before.sites))):
        return None
    for origin, site in zip(origins, after.sites, strict=True):
        if origin is None or not _fits(before.sites[origin.site].statement, site.statement):
            return None
    if any(_gathers(site.statement) for kernel in (before, after) for site in kernel.sites):
        return None
    old, new = sets_of(before), sets_of(after)
    for sizes in _tried(old):
        was = _known_run(old, tuple(sizes.items()))
        if not was.whole:
            continue
        found = _difference(old, was, _run_of(new, instances, sizes), unread)
        if found is not None:
            return RunFinding(tuple(sizes.items()), *found)
    return None


def reads_unwritten(kernel: Kernel) -> bool:
    """Whether some run surely reads an element that has no value."""
    sets = sets_of(kernel)
    if any(_gathers(site.statement) for site in kernel.sites):
        return False
    return any(_known_run(sets, tuple(sizes.items())).unwritten for sizes in _tried(sets))


def _tried(sets: KernelSets) -> list[dict[str, int]]:
    """Sizes at which scopes run several times, and last those at which they may not run at all."""
    some = [sizes for sizes in sets.some_sizes if sizes]
    several = [sizes for sizes in some if max(sizes.values()) > 1]
    return [*several[:RUNS], *(sizes for sizes in some if sizes not in several)]


def _difference(sets: KernelSets, was: _Run, now: _Run, unread: Collection[str]) -> tuple[str, str] | None:
    if now.unwritten and not was.unwritten:
        return "lost-value", "an element would be read that has no value"
    for instance, values in now.reads.items():
        expected = was.reads.get(instance)
        # Whether an accumulation reads what it adds to, the kernels may say otherwise: that read comes last.
        if expected is None:
            return "extra-instance", f"{_instance(sets, instance)} would run, which did not"
        if any(a.sources() != b.sources() for a, b in zip(expected, values, strict=False)):
            return "wrong-value", f"{_instance(sets, instance)} would read what other writes gave"
    if not now.whole:
        return None
    lost = min(was.reads.keys() - now.reads.keys(), default=None)
    if lost is not None:
        return "lost-instance", f"{_instance(sets, lost)} would not run"
    returned = {buffer.name for buffer in sets.returned if buffer.name not in unread}
    for element in sorted({*was.memory, *now.memory}):
        if element[0] in returned:
            start = _Value(element)
            ends = was.memory.get(element, start), now.memory.get(element, start)
            if ends[0].sources() != ends[1].sources():
                name = f"{element[0]}[{', '.join(map(str, element[1]))}]"
                return "wrong-value", f"`{name}` would be left with what other writes gave"
    return None


def _instance(sets: KernelSets, instance: Instance) -> str:
    number, iteration = instance
    at = ", ".join(f"{{{depth}}}={value}" for depth, value in enumerate(iteration))
    return f"`{format_statement(sets.kernel.sites[number].statement)}`{f' at {at}' if at else ''}"


def _known_run(sets: KernelSets, sizes: tuple[tuple[str, int], ...]) -> _Run:
    found = _runs.get((sets.kernel, sizes))
    return found if found is not None else _runs.put((sets.kernel, sizes), _run_of(sets, None, dict(sizes)))


_runs: Memo[tuple[Kernel, tuple[tuple[str, int], ...]], _Run] = Memo(64)


def _run_of(sets: KernelSets, instances: InstanceMap | None, sizes: dict[str, int]) -> _Run:
    """A run of a kernel. Without an instance map, each statement stands for itself."""
    run = _Run()
    strict = sets.kernel.fp == "strict"
    given = {buffer.name for buffer in sets.kernel.buffers if buffer.role in {"in", "inout"}}
    for found in _instances(sets.kernel.body, sizes):
        if found is None or len(run.reads) >= LONGEST:
            run.whole = False
            break
        number, iteration = found
        statement = sets.kernel.sites[number].statement
        stands: Instance = (number, iteration)
        if instances is not None:
            origin = instances.origins[number]
            assert origin is not None
            stands = (origin.site, tuple(value.evaluate(sizes, iteration) for value in origin.iterators))
        target = _stored_element(sets, statement.target, sizes, iteration)
        had = run.memory.get(target) or _Value(target)
        ordered = sets.is_ordered(number, strict)
        elements = [_stored_element(sets, read.access, sizes, iteration) for read in sets.reads[number]]
        values = [run.memory.get(element) or _Value(element) for element in elements]
        run.reads[stands] = (*values, *((had,) if ordered else ()))
        needed = values if statement.accumulation is None else [*values, had]
        run.unwritten = run.unwritten or any(v.last is None and v.first[0] not in given for v in needed)
        adds = statement.accumulation is not None and not ordered
        run.memory[target] = _Value(target, stands, had if adds else None)
    return run


def _instances(nodes: tuple[Node, ...], sizes: dict[str, int]) -> Iterator[tuple[int, tuple[int, ...]] | None]:
    """The instances of all statements in the order in which they run, each with its number and its iteration. None
    for each iteration after the first MOST_ITERATIONS: most of them may have nothing to do."""
    iterations = count()

    def visit(some: tuple[Node, ...], first: int, at: tuple[int, ...]) -> Iterator[Instance | None]:
        for node in some:
            if isinstance(node, Statement):
                yield first, at
            elif isinstance(node, Guard):
                if all(holds(condition, sizes, at) for condition in node.conditions):
                    yield from visit(node.body, first, at)
            else:
                for i in range(min(bound.evaluate(sizes, at) for bound in node.extent.bounds)):
                    charge(STEPS)
                    if next(iterations) >= MOST_ITERATIONS:
                        yield None
                    yield from visit(node.body, first, (*at, i))
            first += _count(node)

    return visit(nodes, 0, ())


def _count(node: Node) -> int:
    return 1 if isinstance(node, Statement) else sum(map(_count, node.body))


def _stored_element(sets: KernelSets, access: Access, sizes: dict[str, int], at: tuple[int, ...]) -> Element:
    """The element of storage that an access touches."""
    dims = sets.kernel.buffer(access.buffer).dims
    indices = []
    for index, dim in zip(access.indices, dims, strict=True):
        assert not isinstance(index, Access)
        indices.append(0 if dim.collapsed else index.evaluate(sizes, at))
    return access.buffer, tuple(indices)


def _gathers(statement: Statement) -> bool:
    return any(isinstance(index, Access) for read in statement.reads for index in read.indices)


def _fits(old: Statement, new: Statement) -> bool:
    """Whether two statements compute the same function of their reads and write it in the same way, wherever
    these are."""

    def same(one: Expr, other: Expr) -> bool:
        match one, other:
            case Access(), Access():
                return True
            case ((Const() | Index()), (Const() | Index())):
                return True
            case Op(name, args), Op(also, others):
                return name == also and len(args) == len(others) and all(map(same, args, others))
            case Cast(_, arg), Cast(_, given):
                return same(arg, given)
        return False

    return old.accumulation == new.accumulation and old.fused == new.fused and same(old.value, new.value)
