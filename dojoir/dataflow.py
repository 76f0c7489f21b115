"""The checker: whether a kernel after a rewrite means what it meant before.

It is given two kernels and the instance map, which says for each statement of the new kernel which old instance
each of its instances stands for, and trusts neither. It proves, for all sizes at once, that

1. the new instances stand for old ones, and no accumulation counts twice;
2. each does the same operation on the same types, with the same values of its iterators;
3. every read gets its value from the same writes, and every returned element does, in the value graphs of the
   two kernels (`dojoir.graph`), where statements that only pass values on are transparent;
4. no access leaves its buffer, and nothing is read before it is written;
5. scopes that a mark takes out of order have independent iterations (`dojoir.independence`).

What cannot be decided within the step limit is `unknown`, which is not legal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import islpy as isl

from dojoir.affine import Affine
from dojoir.algebra import rule_refusal
from dojoir.correspondence import Correspondence
from dojoir.errors import Diagnostic, KernelError
from dojoir.flow import Flow, dependences, flow_of
from dojoir.independence import find_conflict, is_uniform
from dojoir.instances import (
    InstanceMap,
    Origin,
    Substitution,
    accesses,
    identity,
    same_elements,
    same_statement,
    stand_for,
)
from dojoir.ir import Guard, Kernel, Node, Path, Scope, Statement, format_path
from dojoir.limits import StepLimitReached, limited
from dojoir.marks import mark_error
from dojoir.operations import ACCUMULATIONS
from dojoir.sets import KernelSets, sets_of
from dojoir.verdict import LEGAL, Verdict, refuse
from dojoir.wellformed import prove, prove_bounds, prove_dimensions
from dojoir.written import prove_collapsed, prove_written

__all__ = [
    "LEGAL",
    "STEP_LIMIT",
    "InstanceMap",
    "Origin",
    "Substitution",
    "Verdict",
    "compare",
    "identity",
    "is_exact",
    "keeps_order",
    "refuse",
]

STEP_LIMIT = 2_000_000
"""How many isl operations one check may take before the answer is `unknown`."""


def compare(before: Kernel, after: Kernel, instances: InstanceMap, step_limit: int = STEP_LIMIT) -> Verdict:
    """Whether `after` means what `before` means, its statements standing for what `instances` says.

    To mean the same goes both ways: for a backward map, `after` is proved to be well-formed by itself, and `before`
    to mean what it means.
    """
    if instances.backward:
        try:
            prove(after)
        except KernelError as error:
            status = "unknown" if error.diagnostic.code == "undecided" else "illegal"
            return Verdict(status, error.diagnostic)
        return compare(*instances.forth(before, after), step_limit)
    try:
        with limited(step_limit):
            refusals = _refusals(before, after, instances)
            return next((verdict for verdict in refusals if verdict is not None), LEGAL)
    except StepLimitReached:
        return Verdict(
            "unknown",
            Diagnostic("undecided", f"the checker did not come to an answer within {step_limit} steps"),
        )


def _refusals(before: Kernel, after: Kernel, instances: InstanceMap) -> Iterator[Verdict | None]:
    if instances.rule is not None:
        yield rule_refusal(before, after, instances.rule)
        return
    yield _declarations(before, after)
    yield _shape(before, after, instances)
    strict = before.fp == "strict"
    if instances == identity(before) and _unmarked(before.body) == _unmarked(after.body):
        if before.buffers != after.buffers:
            yield _storage(before, after, instances, strict)
        yield _marks(after, before if before.buffers == after.buffers else None)
        return
    if not keeps_order(before, after, instances):
        yield Correspondence(before, after, instances, strict).refusal()
        yield _well_formed(before, after, instances)
    yield _marks(after)


def keeps_order(before: Kernel, after: Kernel, instances: InstanceMap) -> bool:
    """A quick answer, never wrong where it is yes: the two kernels have the same buffers and the same statements
    on the same elements, and all that depends on order (`dojoir.flow.dependences`) stays in order. Then all of
    `Correspondence` and of `_well_formed` would hold as well."""
    if before.buffers != after.buffers or instances.inlined or instances.extracted:
        return False
    if {o.site for o in instances.origins if o is not None} != set(range(len(before.sites))):
        return False
    for origin, site in zip(instances.origins, after.sites, strict=True):
        if origin is None or not same_statement(before.sites[origin.site].statement, origin, site.statement):
            return False
    old, new = sets_of(before), sets_of(after)
    were, are = _moved_statements(before, after, instances)
    stands_for = stand_for(after, instances, are)
    if not stands_for.range().is_equal(old.domains_of(were)) or not stands_for.is_injective():
        return False
    order = _between(dependences(old), old, were)
    if order.is_empty():
        return True
    when = stands_for.reverse().apply_range(new.map(*(new.schedule_text(k) for k in are)))
    moved = isl.Map.from_union_map(order.apply_domain(when).apply_range(when))
    return moved.is_subset(isl.Map.lex_lt(moved.get_space().domain()))


def _moved_statements(before: Kernel, after: Kernel, instances: InstanceMap) -> tuple[list[int], list[int]]:
    """The statements, old and new, of the part of the tree in which the two differ. The rest is the same text
    around, before and after that part, and each of its statements stands for itself: its order to everything is
    as it was. All statements where there is no such part."""
    prefix, start, old_end, new_end = _difference(before.body, after.body)
    depth = len(prefix)

    def inside(path: Path, end: int) -> bool:
        return path[:depth] == prefix and start <= path[depth] < end

    were = [k for k, site in enumerate(before.sites) if inside(site.path, old_end)]
    are = [k for k, site in enumerate(after.sites) if inside(site.path, new_end)]
    outside = [k for k in range(len(before.sites)) if k not in set(were)]
    mapped = [instances.origins[k] for k in range(len(after.sites)) if k not in set(are)]
    same = identity(before).origins
    around = sum(isinstance(before.at(prefix[: d + 1]), Scope) for d in range(depth))
    outer = tuple(map(Affine.iterator, range(around)))
    stays = [same[k] for k in outside] == mapped and all(
        origin is not None and origin.site in set(were) and origin.iterators[:around] == outer
        for origin in (instances.origins[k] for k in are)
    )
    if stays:
        return were, are
    return list(range(len(before.sites))), list(range(len(after.sites)))


def _difference(old: tuple[Node, ...], new: tuple[Node, ...]) -> tuple[Path, int, int, int]:
    """Where two trees differ: the path of a node that both have, the number of its first child that differs, and
    where the differing children end in either."""
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    tail = 0
    while tail < min(len(old), len(new)) - start and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    old_end, new_end = len(old) - tail, len(new) - tail
    if old_end - start == 1 and new_end - start == 1:
        match old[start], new[start]:
            case Scope() as a, Scope() as b if (a.extent, a.marks) == (b.extent, b.marks):
                prefix, *rest = _difference(a.body, b.body)
                return (start, *prefix), rest[0], rest[1], rest[2]
            case Guard() as a, Guard() as b if a.conditions == b.conditions:
                prefix, *rest = _difference(a.body, b.body)
                return (start, *prefix), rest[0], rest[1], rest[2]
    return (), start, old_end, new_end


def _between(order: isl.UnionMap, sets: KernelSets, numbers: list[int]) -> isl.UnionMap:
    """The pairs of a dependence both ends of which are among the given statements."""
    if len(numbers) == len(sets.numbers):
        return order
    ends = sets.domains_of(numbers)
    return order.intersect_domain(ends).intersect_range(ends)


def is_exact(before: Kernel, after: Kernel, instances: InstanceMap) -> bool:
    """Whether a legal rewrite also keeps the order of all float accumulations, so that results are equal bit
    for bit. Raises isl.Error where the step limit of the context is reached."""
    if instances.rule is not None:
        return False
    forth = Correspondence(*instances.forth(before, after), True)
    return forth.refusal() is None and _lane_sums(after) <= _lane_sums(before)


def _declarations(before: Kernel, after: Kernel) -> Verdict | None:
    if (before.sizes, before.facts, before.fp) != (after.sizes, after.facts, after.fp):
        return refuse("changed-header", "the sizes, facts or fp mode of the kernel would change", before)
    for old in before.arguments:
        new = next((b for b in after.arguments if b.name == old.name), None)
        if new is None or replace(new, stream=old.stream) != old:
            return refuse("changed-argument", f"the argument `{old.name}` would change", before)
    if len(after.arguments) != len(before.arguments):
        return refuse("changed-argument", "the kernel would have another argument", before)
    return None


def _shape(before: Kernel, after: Kernel, instances: InstanceMap) -> Verdict | None:
    """The instance map fits the two trees."""
    if len(instances.origins) != len(after.sites):
        return refuse("lost-statement", "the instance map does not name every statement", before)
    for origin in instances.origins:
        if origin is not None and not 0 <= origin.site < len(before.sites):
            return refuse("lost-statement", "the instance map names a statement that does not exist", before)
        if origin is not None and len(origin.iterators) != len(before.sites[origin.site].scopes):
            return refuse("lost-statement", "the instance map has another depth than the statement", before)
    return None


def _unmarked(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """The tree without its marks and hints."""

    def bare(node: Node) -> Node:
        match node:
            case Statement():
                return node
            case Scope():
                return replace(node, marks=(), hints=(), body=_unmarked(node.body))
            case Guard():
                return replace(node, body=_unmarked(node.body))

    return tuple(map(bare, nodes))


def _storage(before: Kernel, after: Kernel, instances: InstanceMap, strict: bool) -> Verdict | None:
    """Only declarations changed: where they are of the same types and extents, only what flows through the
    changed buffers may differ."""
    extents = [(b.name, b.role, b.dtype, [d.extent for d in b.dims]) for b in before.buffers]
    if extents != [(b.name, b.role, b.dtype, [d.extent for d in b.dims]) for b in after.buffers]:
        found = Correspondence(before, after, instances, strict).refusal()
        return _well_formed(before, after, instances) if found is None else found
    old, new = sets_of(before), sets_of(after)
    stored = [b.name for b, c in zip(before.buffers, after.buffers, strict=True) if b.dims != c.dims]
    same = all(_same_flow(flow_of(old, name, strict), flow_of(new, name, strict)) for name in stored)
    return None if same else Correspondence(before, after, instances, strict).refusal()


def _same_flow(old: Flow, new: Flow) -> bool:
    return old.sources.is_equal(new.sources) and old.initial.is_equal(new.initial)


def _well_formed(before: Kernel, after: Kernel, instances: InstanceMap) -> Verdict | None:
    """Every dimension has an element, no new access leaves its buffer, and none reads what was never written. An
    access that touches the element that the old one did cannot leave it."""
    extents = {b.name: tuple(d.extent for d in b.dims) for b in before.buffers}
    changed = [
        k
        for k, (site, origin) in enumerate(zip(after.sites, instances.origins, strict=True))
        if origin is None
        or instances.inlined
        or instances.extracted
        or not same_elements(before.sites[origin.site].statement, origin, site.statement)
        or any(
            extents.get(access.buffer) != tuple(d.extent for d in after.buffer(access.buffer).dims)
            for access in accesses(site.statement)
        )
    ]
    error = prove_dimensions(after) if before.buffers != after.buffers else None
    if error is None and changed:
        error = prove_bounds(after, changed)
    if error is None and (before.body, before.buffers) != (after.body, after.buffers):
        error = prove_written(after) or prove_collapsed(after)
    return Verdict("illegal", error) if error is not None else None


def _marks(after: Kernel, before: Kernel | None = None) -> Verdict | None:
    """Scopes that are out of order are independent. Where nothing but marks differs from `before`, those that
    it has are."""
    error = mark_error(after)
    if error is not None:
        return Verdict("illegal", error)
    for path, node in after.walk():
        if not isinstance(node, Scope):
            continue
        was = before.at(path) if before is not None else None
        for mark in node.marks:
            if mark == "u" or (isinstance(was, Scope) and mark in was.marks):
                continue
            conflict = find_conflict(after, path, mark)
            if conflict is not None:
                what = "carried-value" if conflict.carried else "shared-element"
                message = f"iterations of {format_path(path)} are not independent: {conflict.message(after)}"
                number = conflict.example.right.site
                assert number is not None
                return refuse(what, message, after, after.sites[number].path)
    return None


def _lane_sums(kernel: Kernel) -> int:
    """How many statements accumulate floats across lanes: their order is not that of the text."""
    count = 0
    for site in kernel.sites:
        statement = site.statement
        if statement.op in ACCUMULATIONS and statement.op in {"+=", "*="}:
            is_float = kernel.buffer(statement.target.buffer).dtype.is_float
            count += is_float and any(
                "v" in scope.marks and is_uniform(kernel, statement.target, depth)
                for depth, scope in enumerate(site.scopes)
            )
    return count
