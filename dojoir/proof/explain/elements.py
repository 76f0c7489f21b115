"""Elements that are not there or have no value, in words. An access out of bounds, a dimension without elements,
a read before a write, an output that is not wholly written, storage that mixes up values. Each comes with a
cure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dojoir.errors import Diagnostic, Note
from dojoir.ir.affine import Affine
from dojoir.ir.format import format_access, format_condition
from dojoir.ir.nodes import MAY_ASSIGN, Access, Buffer, Condition, Kernel, Op
from dojoir.ir.where import place
from dojoir.proof.core.bounds import OutOfBounds, index_and_dim
from dojoir.proof.core.wellformed import EmptyDimension
from dojoir.proof.core.written import ElementRead, ReadBeforeWrite, SharedStorage, UnwrittenOutput, assigning
from dojoir.proof.explain.cures import divisibility, least, mending_fact, nonnegative, with_cure
from dojoir.proof.explain.example import Point, accuse, describe, occasion, party, spelling, when, witness
from dojoir.sets.kernel_sets import sets_of

_NEUTRAL = {"+=": "0", "*=": "1", "max=": "-inf", "min=": "inf", "^=": "0", "|=": "0"}


def empty_dimension(failure: EmptyDimension) -> Diagnostic:
    """Sizes at which a dimension has no element."""
    kernel, dim = failure.kernel, failure.buffer.dims[failure.number]
    found = witness(failure.where, kernel)
    extent = dim.extent.evaluate(dict(found.sizes))
    message = f"{occasion(found.sizes)}dimension {failure.number} of {failure.buffer.name} has extent {extent}"
    cures = [mending_fact(sets_of(kernel), failure.where, [nonnegative(dim.extent - 1)])]
    source, span = place(kernel, (), dim)
    return Diagnostic("empty-dimension", with_cure(message, cures), span, source, sizes=found.sizes)


def out_of_bounds(failure: OutOfBounds) -> Diagnostic:
    """An iteration in which an index leaves its dimension, and facts or a guard that would keep it inside."""
    kernel, number, access = failure.kernel, failure.number, failure.access
    sets, site = sets_of(kernel), kernel.sites[number]
    dim, wrong = next((d, out) for d in failure.dims if not (out := failure.outside(d)).is_empty())
    found = witness(wrong, kernel)
    index, declared = index_and_dim(kernel, access, dim)
    sizes, iteration = dict(found.sizes), found.left.iteration(kernel)
    value = index.evaluate(sizes, iteration)
    equals = "" if index.is_constant else f" = {value}"
    name = spelling(kernel, site.scopes)
    start = f"{occasion(found.sizes, iteration, name)}index {index.format(name)}{equals} of {access.buffer}"
    message = f"{start} is outside 0..{declared.extent.evaluate(sizes) - 1}"
    slack = index if value < 0 else declared.extent - 1 - index
    facts = [*divisibility(site, index, declared.extent), *map(nonnegative, least(slack, site.scopes))]
    if index.is_clamped:
        facts += [nonnegative(Affine.size(size) - most) for size in sorted(index.sizes) for most in range(2, 9)]
    cures = [mending_fact(sets, wrong, facts)]
    if index.is_clamped:
        cures.append(f"bounds to the index: `clamp(…, 0, {declared.extent - 1})`")
    elif index.iterators:
        distinct = len(slack.terms) == len(index.terms) + len(declared.extent.terms)
        guard = Condition(index, "<", declared.extent) if value >= 0 and distinct else nonnegative(slack)
        cures.append(f"a guard `if {format_condition(guard, name)}`")
    accused = party(found.left, kernel, "is out of bounds", access)
    return accuse("out-of-bounds", with_cure(message, cures), [accused], found.sizes)


def read_before_write(failure: ReadBeforeWrite) -> Diagnostic:
    """An iteration that reads an element which has no value yet."""
    kernel, buffer, use = failure.kernel, failure.buffer, failure.use
    writers = assigning(kernel, buffer)
    found = witness(failure.wrong, kernel)
    name = spelling(kernel, use.site.scopes)
    start = occasion(found.sizes, found.left.iteration(kernel), name)
    element, text = _element_name(buffer, found.right), format_access(use.access, name)
    op = use.site.statement.accumulation or "="
    if use.own and op not in ("=", MAY_ASSIGN):
        known = buffer.dtype.is_float or (buffer.dtype.is_integer and op in {"+=", "*=", "^=", "|="})
        first = f"`{text} = {_NEUTRAL[op]}`" if known else "it"
        message = f"{start}`{op}` accumulates into {element}, which has no value yet: assign {first} before"
    elif use.own or _keeps(use):
        message = f"{start}{element} may stay as it was, and has no value yet: assign it before"
    elif not writers:
        message = f"{start}{element} is read, and nothing assigns it"
    else:
        message = f"{start}{element} is read before it is assigned"
    if buffer.role == "out":
        message += "; or declare it `inout`, if the caller gives its values"
    message = with_cure(message, [mending_fact(sets_of(kernel), failure.wrong, _running(kernel, writers))])
    reader = party(found.left, kernel, "reads it", use.access)
    return accuse("read-before-write", message, [reader], found.sizes, _assigned(kernel, writers))


def _keeps(use: ElementRead) -> bool:
    """Whether a read is that of an assignment which may leave its target, as the core looks at it."""
    match use.site.statement.value:
        case Op("select", (_, _, Access() as own)):
            return own is use.access and own == use.site.statement.target
    return False


def unwritten_output(failure: UnwrittenOutput) -> Diagnostic:
    """An element of an output that nothing assigns."""
    kernel, buffer = failure.kernel, failure.buffer
    writers = assigning(kernel, buffer)
    found = witness(failure.missing, kernel)
    element = _element_name(buffer, found.right)
    message = f"{occasion(found.sizes)}{element} is never assigned, and all of an output must be"
    cures = [mending_fact(sets_of(kernel), failure.missing, _running(kernel, writers))]
    source, span = place(kernel, (), buffer)
    notes = _assigned(kernel, writers)
    return Diagnostic("unwritten-output", with_cure(message, cures), span, source, notes, found.sizes)


def shared_storage(failure: SharedStorage) -> Diagnostic:
    """A read that would get what was written to another element, with which its own shares storage."""
    kernel = failure.kernel
    found = witness(failure.wrong, kernel)
    use = failure.uses[found.right.name]
    spelled = spelling(kernel, use.site.scopes)
    start = occasion(found.sizes, found.right.iteration(kernel), spelled)
    message = (
        f"{start}{format_access(use.access, spelled)} would be what "
        f"{describe(found.left, kernel)} left: these elements of {failure.buffer.name} share storage; remove the "
        "`~`, or read each element before the next is written"
    )
    reader = party(found.right, kernel, "reads it", use.access)
    assert found.left.site is not None
    target = kernel.sites[found.left.site].statement.target
    writer = party(found.left, kernel, f"writes what it reads, {when(found.left, kernel)}", target)
    return accuse("shared-storage", message, [reader, writer], found.sizes)


def _assigned(kernel: Kernel, writers: Sequence[int]) -> tuple[Note, ...]:
    sites = [kernel.sites[k] for k in writers[:1]]
    return tuple(Note("assigned here", place(kernel, s.path, s.statement.target)[1]) for s in sites)


def _running(kernel: Kernel, writers: Sequence[int]) -> Iterator[Condition]:
    """Facts that might make an assignment cover more: its scopes run, whole tiles fit."""
    for writer in (kernel.sites[k] for k in writers):
        for scope in writer.scopes:
            for bound in scope.extent.bounds:
                if bound.sizes and not bound.iterators:
                    yield nonnegative(bound - 1)
        yield from divisibility(writer)


def _element_name(buffer: Buffer, point: Point) -> str:
    """`y[0, 1]`."""
    return f"{buffer.name}[{', '.join(map(str, point.coordinates))}]" if point.coordinates else buffer.name
