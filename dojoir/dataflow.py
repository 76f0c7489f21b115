"""The checker: whether a kernel after a rewrite means what it meant before.

It is given two kernels and the instance map, which says for each statement of the new kernel which old instance
each of its instances stands for, and trusts neither. It proves, for all sizes at once, that

1. the new instances stand for all old ones, each once;
2. each does the same operation on the same types, with the same values of its iterators;
3. every read gets its value from the same writes, and every returned element does (`dojoir.flow`);
4. no access leaves its buffer;
5. scopes that a mark takes out of order have independent iterations (`dojoir.independence`).

What cannot be decided within the step limit is `unknown`, which is not legal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import islpy as isl

from dojoir.affine import Affine
from dojoir.errors import Diagnostic
from dojoir.flow import flow_of
from dojoir.independence import find_conflict, is_uniform
from dojoir.ir import (
    Access,
    Cast,
    Const,
    Expr,
    Index,
    Kernel,
    Op,
    Path,
    Scope,
    Site,
    Statement,
    expr_accesses,
    format_path,
    substitute_access,
    substitute_expr,
    substitute_iterators,
)
from dojoir.locate import place
from dojoir.marks import mark_error
from dojoir.operations import ACCUMULATIONS
from dojoir.printer import format_access, format_statement
from dojoir.sets import KernelSets, isl_affine, iterators, sets_of, workspace
from dojoir.wellformed import prove_bounds
from dojoir.witness import Point, at, describe, example, with_sizes

STEP_LIMIT = 2_000_000
"""How many isl operations one check may take before the answer is `unknown`."""


@dataclass(frozen=True)
class Origin:
    """What one statement of the new kernel stands for: the statement `site` of the old kernel, with the old
    iterators (outermost first) as affine expressions in the new ones."""

    site: int
    iterators: tuple[Affine, ...]


InstanceMap = tuple[Origin, ...]


def identity(kernel: Kernel) -> InstanceMap:
    """The instance map of a rewrite that leaves every statement where it is."""
    return tuple(
        Origin(k, tuple(Affine.iterator(d) for d in range(len(site.scopes)))) for k, site in enumerate(kernel.sites)
    )


@dataclass(frozen=True)
class Verdict:
    """What the checker says: `status` is legal, illegal or unknown; `diagnostic` says why it is not legal, and
    `hint` names the nearest legal move where one was found. Truth of a verdict is legality."""

    status: str
    diagnostic: Diagnostic
    hint: str | None = None

    def __bool__(self) -> bool:
        return self.status == "legal"

    @property
    def code(self) -> str:
        """A stable word for the kind of refusal, `legal` if there is none."""
        return self.diagnostic.code

    @property
    def reason(self) -> str:
        """Why, in one sentence, with the witness."""
        return self.diagnostic.message

    def to_json(self) -> dict[str, Any]:
        """The same as plain data."""
        return {"status": self.status, "hint": self.hint, **self.diagnostic.to_json()}

    def __str__(self) -> str:
        if self:
            return "legal"
        return self.diagnostic.render() + (f"\nhelp: {self.hint}" if self.hint else "")


LEGAL = Verdict("legal", Diagnostic("legal", "the rewrite keeps the meaning of the kernel"))


def refuse(code: str, message: str, kernel: Kernel, path: Path | None = None) -> Verdict:
    """An `illegal` verdict about the node at `path`."""
    if path is None:
        return Verdict("illegal", Diagnostic(code, message))
    source, span = place(kernel, path)
    return Verdict("illegal", Diagnostic(code, message, span, source))


def compare(before: Kernel, after: Kernel, origins: InstanceMap, step_limit: int = STEP_LIMIT) -> Verdict:
    """Whether `after` means what `before` means, its statements standing for what `origins` says."""
    if len(origins) != len(after.sites):
        return refuse("lost-statement", "the instance map does not name every statement", before)
    try:
        with limited(step_limit):
            refusals = _refusals(before, after, origins)
            return next((verdict for verdict in refusals if verdict is not None), LEGAL)
    except isl.Error:
        return Verdict(
            "unknown",
            Diagnostic("undecided", f"the checker did not come to an answer within {step_limit} steps"),
        )


def _refusals(before: Kernel, after: Kernel, origins: InstanceMap) -> Iterator[Verdict | None]:
    yield _declarations(before, after)
    yield _operations(before, after, origins)
    yield _instances(before, after, origins)
    yield _flows(before, after, origins)
    yield _bounds(before, after, origins)
    yield _marks(after)


def is_exact(before: Kernel, after: Kernel, origins: InstanceMap) -> bool:
    """Whether a legal rewrite also keeps the order of all float accumulations, so that results are equal bit
    for bit. Raises isl.Error where the step limit of the context is reached."""
    return _flows(before, after, origins, strict=True) is None and _lane_sums(after) <= _lane_sums(before)


@contextmanager
def limited(steps: int) -> Iterator[None]:
    """Runs isl operations under a limit: past it, they raise isl.Error."""
    context = workspace().context
    context.reset_operations()
    context.set_max_operations(steps)
    try:
        yield
    finally:
        context.set_max_operations(0)
        context.reset_operations()


# -- 1. instances --------------------------------------------------------------------------------------------
def _stands_for(after: KernelSets, origins: Sequence[Origin]) -> list[str]:
    """For each new statement, `s3[i0, i1] -> s1[…]`."""
    pieces = []
    for k, origin in enumerate(origins):
        old = ", ".join(isl_affine(a) for a in origin.iterators)
        pieces.append(f"s{k}[{iterators(len(after.kernel.sites[k].scopes))}] -> s{origin.site}[{old}]")
    return pieces


def _instances(before: Kernel, after: Kernel, origins: InstanceMap) -> Verdict | None:
    old, new = sets_of(before), sets_of(after)
    if before.body == after.body and origins == identity(before):
        return None
    mapping = new.map(*_stands_for(new, origins)).intersect_domain(new.domains)
    reached = mapping.range()
    lost = old.domains.subtract(reached)
    if not lost.is_empty():
        point = example(lost.identity(), before)
        assert point is not None
        return refuse(
            "lost-instance",
            f"{with_sizes(point.sizes)}{describe(point.left, before)} would not run",
            before,
            before.sites[point.left.site or 0].path,
        )
    extra = reached.subtract(old.domains)
    if not extra.is_empty():
        point = example(extra.identity(), before)
        assert point is not None
        return refuse(
            "extra-instance",
            f"{with_sizes(point.sizes)}{describe(point.left, before)} would run, and does not now",
            before,
            before.sites[point.left.site or 0].path,
        )
    if not mapping.is_injective():
        twice = mapping.apply_range(mapping.reverse()).subtract(mapping.domain().identity())
        point = example(twice.intersect_domain(new.domains).apply_range(mapping), before)
        assert point is not None
        return refuse(
            "repeated-instance",
            f"{with_sizes(point.sizes)}{describe(point.right, before)} would run more than once",
            before,
            before.sites[point.right.site or 0].path,
        )
    return None


# -- 2. operations -------------------------------------------------------------------------------------------
def _declarations(before: Kernel, after: Kernel) -> Verdict | None:
    if (before.sizes, before.facts, before.fp) != (after.sizes, after.facts, after.fp):
        return refuse("changed-header", "the sizes, facts or fp mode of the kernel would change", before)
    for old in before.arguments:
        new = next((b for b in after.arguments if b.name == old.name), None)
        if new is None or replace(new, loc=None) != replace(old, loc=None):
            return refuse("changed-argument", f"the argument `{old.name}` would change", before)
    if len(after.arguments) != len(before.arguments):
        return refuse("changed-argument", "the kernel would have another argument", before)
    return None


def _operations(before: Kernel, after: Kernel, origins: InstanceMap) -> Verdict | None:
    for site, origin in zip(after.sites, origins, strict=True):
        if not 0 <= origin.site < len(before.sites):
            return refuse("lost-statement", "the instance map names a statement that does not exist", before)
        old = before.sites[origin.site]
        if len(origin.iterators) != len(old.scopes):
            return refuse("lost-statement", "the instance map has another depth than the statement", before)
        expected = _moved(old.statement, origin)
        if not _same_statement(expected, site, before, after):
            return refuse(
                "changed-operation",
                f"`{format_statement(old.statement)}` would become `{format_statement(site.statement)}`",
                before,
                old.path,
            )
    return None


def _moved(statement: Statement, origin: Origin) -> Statement:
    """The old statement, written in the new iterators."""
    new = substitute_iterators(dict(enumerate(origin.iterators)))
    return Statement(substitute_access(statement.target, new), statement.op, substitute_expr(statement.value, new))


def _same_statement(expected: Statement, site: Site, before: Kernel, after: Kernel) -> bool:
    actual = site.statement
    return (
        expected.op == actual.op
        and _same_type(expected.target, actual.target, before, after)
        and _same_value(expected.value, actual.value, site, before, after)
    )


def _same_type(old: Access, new: Access, before: Kernel, after: Kernel) -> bool:
    return before.buffer(old.buffer).dtype == after.buffer(new.buffer).dtype


def _same_value(old: Expr, new: Expr, site: Site, before: Kernel, after: Kernel) -> bool:
    match old, new:
        case Access(), Access():
            # Which element is read does not count here: where its value comes from does, and `_flows` asks it.
            return _same_type(old, new, before, after) and _same_gathers(old, new, before, after)
        case Op(name, args), Op(other, others):
            return (
                name == other
                and len(args) == len(others)
                and all(_same_value(a, b, site, before, after) for a, b in zip(args, others, strict=True))
            )
        case Cast(dtype, arg), Cast(other_type, other_arg):
            return dtype == other_type and _same_value(arg, other_arg, site, before, after)
        case ((Index() | Const()), (Index() | Const())):
            return old == new or _same_index(old, new, site, after)
    return False


def _same_gathers(old: Access, new: Access, before: Kernel, after: Kernel) -> bool:
    if len(old.indices) != len(new.indices):
        return not any(isinstance(i, Access) for i in (*old.indices, *new.indices))
    return all(
        isinstance(a, Access) == isinstance(b, Access)
        and (not (isinstance(a, Access) and isinstance(b, Access)) or _same_gathers(a, b, before, after))
        for a, b in zip(old.indices, new.indices, strict=True)
    )


def _same_index(old: Const | Index, new: Const | Index, site: Site, after: Kernel) -> bool:
    """Whether two affine values agree on every instance of a statement."""
    sides = []
    for value in (old, new):
        if isinstance(value, Index):
            sides.append(value.affine)
        elif type(value.value) is int:
            sides.append(Affine.constant(value.value))
        else:
            return False
    sets = sets_of(after)
    differ = f"{isl_affine(sides[0])} != {isl_affine(sides[1])}"
    domain = iterators(len(site.scopes))
    return sets.map(f"[{domain}] -> [] : {sets.constraints(site.ancestors)} and {differ}").is_empty()


# -- 3. flow -------------------------------------------------------------------------------------------------
def _flows(before: Kernel, after: Kernel, origins: InstanceMap, strict: bool | None = None) -> Verdict | None:
    order = before.fp == "strict" if strict is None else strict
    old, new = sets_of(before), sets_of(after)
    expected, actual = flow_of(old, order), flow_of(new, order)
    sources, initial = actual.sources, actual.initial
    if origins != identity(before):
        to_old = _to_old(new, origins, order)
        sources = sources.apply_domain(to_old).apply_range(to_old)
        initial = initial.apply_domain(to_old)
    wrong = sources.subtract(expected.sources)
    if not wrong.is_empty():
        return _wrong_source(before, wrong, expected.sources)
    missing = expected.sources.subtract(sources)
    if not missing.is_empty():
        return _missing_source(before, missing)
    for difference, would in (
        (initial.subtract(expected.initial), True),
        (expected.initial.subtract(initial), False),
    ):
        if not difference.is_empty():
            return _wrong_initial(before, difference, would)
    return None


def _to_old(new: KernelSets, origins: InstanceMap, strict: bool) -> isl.UnionMap:
    """Writes, reads and returned elements of the new kernel to those of the old one."""
    pieces = _stands_for(new, origins)
    for k, origin in enumerate(origins):
        own = iterators(len(new.kernel.sites[k].scopes))
        old = ", ".join(isl_affine(a) for a in origin.iterators)
        if new.is_ordered(k, strict):
            pieces.append(f"t{k}[{own}] -> t{origin.site}[{old}]")
        for read in new.reads[k]:
            gathered = [f"g{d}" for d in read.gathers]
            left = ", ".join(filter(None, [own, *gathered]))
            right = ", ".join(filter(None, [old, *gathered]))
            pieces.append(f"{read.name}[{left}] -> s{origin.site}r{read.ordinal}[{right}]")
    for buffer in new.returned:
        element = ", ".join(f"e{d}" for d in range(len(buffer.dims)))
        pieces.append(f"out_{buffer.name}[{element}] -> out_{buffer.name}[{element}]")
    return new.map(*pieces)


def _reader(point: Point, kernel: Kernel) -> tuple[str, str, Path | None]:
    """A read in words: who reads, and what; and the path of the statement."""
    if point.site is None:
        name = point.name.removeprefix("out_")
        element = f"[{', '.join(map(str, point.coordinates))}]" if point.coordinates else ""
        return f"the returned `{name}{element}`", "", None
    site = kernel.sites[point.site]
    if point.name.startswith("t"):
        access = site.statement.target
    else:
        access = list(expr_accesses(site.statement.value))[int(point.name.partition("r")[2])]
    return describe(point, kernel), f"`{format_access(access)}`", site.path


def _wrong_source(before: Kernel, wrong: isl.UnionMap, expected: isl.UnionMap) -> Verdict:
    found = example(wrong, before)
    assert found is not None
    who, what, path = _reader(found.right, before)
    message = f"{with_sizes(found.sizes)}{who} would {'read ' + what if what else 'be'} as written by "
    message += describe(found.left, before)
    right = _at_point(found.right, found.sizes, sets_of(before))
    proper = example(expected.intersect_range(right), before)
    if proper is not None:
        now = describe(proper.left, before)
        if proper.left.name == found.left.name:
            now = at(proper.left.iteration(before))
        message += f"; now it is the one written {'by ' if proper.left.name != found.left.name else ''}{now}"
    return refuse("wrong-value", message, before, path or before.sites[found.left.site or 0].path)


def _at_point(point: Point, sizes: tuple[tuple[str, int], ...], sets: KernelSets) -> isl.UnionSet:
    """The set of one point, at given sizes."""
    given = " and ".join(f"n_{name} = {value}" for name, value in sizes) or "true"
    coordinates = ", ".join(map(str, point.coordinates))
    return sets.map(f"{point.name}[{coordinates}] -> [] : {given}").domain()


def _missing_source(before: Kernel, missing: isl.UnionMap) -> Verdict:
    found = example(missing, before)
    assert found is not None
    who, what, path = _reader(found.right, before)
    message = (
        f"{with_sizes(found.sizes)}{who} would {'read ' + what + ' ' if what else 'be '}without what "
        f"{describe(found.left, before)} writes to it"
    )
    return refuse("lost-value", message, before, path or before.sites[found.left.site or 0].path)


def _wrong_initial(before: Kernel, difference: isl.UnionMap, would: bool) -> Verdict:
    found = example(difference, before)
    assert found is not None
    who, what, path = _reader(found.left, before)
    buffer = found.right.name.removeprefix("b_")
    element = f"{buffer}[{', '.join(map(str, found.right.coordinates))}]" if found.right.coordinates else buffer
    start = f"{with_sizes(found.sizes)}{who} would {'read ' + what + ' ' if what else 'be '}"
    role = before.buffer(buffer).role
    value = f"`{element}` as the caller gave it" if role in {"in", "inout"} else f"`{element}`, never written"
    message = f"{start}{'as ' if would else 'no longer as '}{value}"
    return refuse("wrong-value" if would else "lost-value", message, before, path)


# -- 4. bounds -----------------------------------------------------------------------------------------------
def _bounds(before: Kernel, after: Kernel, origins: InstanceMap) -> Verdict | None:
    """No new access leaves its buffer. One that touches the element that the old one did cannot."""
    changed = [
        k
        for k, (site, origin) in enumerate(zip(after.sites, origins, strict=True))
        if not _same_elements(_moved(before.sites[origin.site].statement, origin), site.statement)
    ]
    if {b.name: [d.extent for d in b.dims] for b in before.buffers} != {
        b.name: [d.extent for d in b.dims] for b in after.buffers
    }:
        changed = list(range(len(after.sites)))
    error = prove_bounds(after, changed) if changed else None
    return Verdict("illegal", error) if error is not None else None


def _same_elements(expected: Statement, actual: Statement) -> bool:
    return expected.target == actual.target and list(expr_accesses(expected.value)) == list(
        expr_accesses(actual.value)
    )


# -- 5. marks ------------------------------------------------------------------------------------------------
def _marks(after: Kernel) -> Verdict | None:
    error = mark_error(after)
    if error is not None:
        return Verdict("illegal", error)
    for path, node in after.walk():
        if not isinstance(node, Scope):
            continue
        for mark in node.marks:
            if mark == "u":
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
