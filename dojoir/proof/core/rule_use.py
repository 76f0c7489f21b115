"""The checker for rewrites by a rule of algebra (`dojoir.rules`).

That the two sides of a rule are equal over the real numbers is proved for each rule, once, in the tests. What is
proved here is that a rewrite is nothing but one use of it. For one meaning of the parts of the rule, the tree
before is the left side to the letter and the tree after the right side; all around is the same. The arrays of the
rule do not touch each other; what it reads is not written inside it; and what is scratch is used nowhere else. That
the kernel after is well-formed is asked besides (`dojoir.proof.core.check`).

A rule says what it may do to floating point, in the header of its two kernels. One under `fp fast` is algebra. One
under `fp reassoc` changes the order of operations alone: where the operator does not round, as in integers, it may
be used in any kernel. Where the rule accumulates, that is proved here as well, for each use
(`dojoir.proof.core.same_sums`): each result is the sum, or product, maximum or minimum, of the same elements.
"""

from __future__ import annotations

from collections.abc import Iterator

from dojoir import rules
from dojoir.errors import ArgumentError, Diagnostic
from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import DType
from dojoir.ir.format import format_extent
from dojoir.ir.nodes import (
    Access,
    Buffer,
    Condition,
    Dim,
    Kernel,
    Scope,
    affine_parts,
    expr_accesses,
    format_path,
)
from dojoir.ir.places import ancestors, siblings
from dojoir.ir.where import diagnostic_at
from dojoir.proof.core.same_sums import adds_the_same
from dojoir.rules.rule import Rule, RuleMatch, RuleUse
from dojoir.sets.kernel_sets import isl_affine, isl_extent, iterators, sets_of
from dojoir.types.elaborate import natural_type


def rule_fault(before: Kernel, after: Kernel, use: RuleUse) -> Diagnostic | None:
    """Why `after` is not `before`, which is well-formed, with one use of a rule; None if it is. That `after` is
    well-formed is another question."""
    try:
        rule = rules.load(use.rule)
    except ArgumentError as error:
        return error.diagnostic
    for code, message in filter(None, _faults(before, after, rule, use)):
        return diagnostic_at(before, use.path, code, f"{rule.name} is no rule for this: {message}")
    return None


Fault = tuple[str, str]
"""A code, and what is wrong."""


def _faults(before: Kernel, after: Kernel, rule: Rule, use: RuleUse) -> Iterator[Fault | None]:
    match = use.match
    yield _names(before, rule, use)
    yield _mode(before, rule, match)
    yield _sizes(before, rule, use)
    first = use.path[-1]
    if match.nodes(rule.left) != siblings(before, use.path)[first : first + len(rule.left.body)]:
        yield "another-form", f"what stands at {format_path(use.path)} is not the left side of the rule"
    if rewritten(before, rule, use) != after:
        yield "another-form", "more than the nodes of the rule would change, or they would become something else"
    yield _elements(before, rule, match)
    yield _expressions(before, rule, match)
    yield _uses_of_scratch(before, rule, use)
    yield _overlap(before, rule, use)
    if rule.fp != "fast" and rule.adds and not adds_the_same(before, rule, use):
        yield "other-sums", "a result would not be the sum of the same elements, each once"


def _mode(before: Kernel, rule: Rule, match: RuleMatch) -> Fault | None:
    """The kernel allows as much as the rule does to floating point."""
    types = _types(before, rule, match)
    if rule.fits(before.fp, *(types if len(types) == 1 else ())):
        return None
    code = "needs-fast" if rule.fp == "fast" else "needs-reassoc"
    return code, f"it rounds otherwise, and needs `fp {rule.fp}`: the kernel is `fp {before.fp}`"


# -- the trees -----------------------------------------------------------------------------------------------
def _names(before: Kernel, rule: Rule, use: RuleUse) -> Fault | None:
    """Everything in the rule has a meaning, and new temporaries have new names."""
    match = use.match
    elements = {*rule.results, *rule.scratch, *rule.fresh}
    if (
        set(match.expression) != set(rule.inputs)
        or set(match.element) != elements
        or set(match.size) != {size.name for size in rule.left.sizes}
    ):
        return "another-form", "not every part of the rule has a meaning here"
    if match.depth != before.depth_of(use.path):
        return "another-form", "the place is at another depth"
    used = {b.name for b in before.buffers} | {size.name for size in before.sizes}
    for name in rule.fresh:
        given = match.element[name]
        if given.buffer in used or given != rule.new_element(name, given.buffer, match.depth):
            return "name-taken", f"`{given.buffer}` is no new temporary"
        for dim in rule.right.buffer(name).dims:
            extent = match.size[str(dim.extent)]
            if len(extent.bounds) > 1 or extent.bounds[0].iterators:
                text = format_extent(extent)
                return "dependent-extent", f"`{given.buffer}` would have {text} elements, which is no one number"
    return None


def rewritten(kernel: Kernel, rule: Rule, use: RuleUse, labels: dict[str, str] | None = None) -> Kernel:
    """The kernel with the left side of a rule replaced by the right one, and its new temporaries declared."""
    for _ in rule.left.body[1:]:
        kernel = kernel.replace_node((*use.path[:-1], use.path[-1] + 1))
    kernel = kernel.replace_node(use.path, *use.match.nodes(rule.right, labels))
    dtype = computed_in(kernel, rule, use.match)
    new = (_fresh(rule, use.match, name, dtype) for name in rule.fresh) if dtype else ()
    return kernel.evolve(buffers=(*kernel.buffers, *new))


def _fresh(rule: Rule, match: RuleMatch, name: str, dtype: DType) -> Buffer:
    """A new temporary of a rule: a dimension has as many elements as the scope that the rule has it for."""
    extents = (match.size[str(dim.extent)] for dim in rule.right.buffer(name).dims)
    return Buffer("tmp", match.element[name].buffer, dtype, tuple(Dim(extent.bounds[0]) for extent in extents))


def computed_in(kernel: Kernel, rule: Rule, match: RuleMatch) -> DType | None:
    """The type in which the arrays of the rule compute, or None where they do in several or in none."""
    types = _types(kernel, rule, match)
    computes = {dtype.compute for dtype in types}
    dtype = computes.pop()
    fits = dtype.is_float or (rule.fp == "reassoc" and dtype.is_integer and types == {dtype})
    return dtype if fits and not computes else None


def _types(kernel: Kernel, rule: Rule, match: RuleMatch) -> set[DType]:
    return {kernel.buffer(match.element[name].buffer).dtype for name in (*rule.results, *rule.scratch)}


# -- conditions ----------------------------------------------------------------------------------------------
def _sizes(before: Kernel, rule: Rule, use: RuleUse) -> Fault | None:
    """Sizes depend on no iterators of the rule but those that they may; one used as a number is at least 1."""
    for name, extent in use.match.sizes:
        limit = use.match.depth + rule.reach.get(name, 0)
        if any(d >= limit for bound in extent.bounds for d in bound.iterators):
            return "another-form", f"the extent that {name} stands for depends on an iterator of the rule"
        if name in rule.numbers:
            positive = [Condition(bound, ">=", Affine.constant(1)) for bound in extent.bounds]
            if len(extent.bounds) > 1 or not sets_of(before).holds_around(use.path, positive):
                return "may-not-run", f"the extent {extent.bounds[0]} may be 0"
    return None


def _elements(before: Kernel, rule: Rule, match: RuleMatch) -> Fault | None:
    """The arrays of the rule are different arrays of one float type; scratch is temporary."""
    named = [match.element[name].buffer for name in (*rule.results, *rule.scratch)]
    if len(set(named)) < len(named):
        return "same-buffer", "two arrays of the rule are one array here"
    for name in named:
        if before.buffer(name).role == "in":
            return "write-to-input", f"`{name}` is written"
    if computed_in(before, rule, match) is None:
        types = ", ".join(f"`{name}` {before.buffer(name).dtype}" for name in named)
        return "type-mismatch", f"the arrays of the rule are not all floats that compute in one type: {types}"
    for name in rule.scratch:
        buffer = before.buffer(match.element[name].buffer)
        if buffer.role != "tmp":
            return "not-a-temporary", f"`{buffer.name}` is no temporary, and would hold other values"
    return None


def _expressions(before: Kernel, rule: Rule, match: RuleMatch) -> Fault | None:
    """The fault of a rule's inputs: each must be of a type that its arrays compute in, and not written inside
    it."""
    buffers = {buffer.name: buffer for buffer in before.buffers}
    written = {access.buffer for _, access in match.elements}
    dtype = computed_in(before, rule, match)
    assert dtype is not None
    for name, expr in match.inputs:
        dims = len(rule.left.buffer(name).dims)
        depths = {d for affine in affine_parts(expr) for d in affine.iterators}
        if any(d >= match.depth + dims for d in depths):
            return "another-form", f"the expression that {name} stands for depends on another iterator"
        for access in expr_accesses(expr):
            if access.buffer in written:
                return "written-inside", f"`{access.buffer}` is read by what {name} stands for, and written"
            if any(isinstance(index, Access) for index in access.indices) and dims == 0:
                return "gathered", f"what {name} stands for reads at an index from data"
        natural = natural_type(expr, buffers)
        if natural and natural != dtype and not (natural.is_float and dtype.is_float and natural.bits < dtype.bits):
            return "type-mismatch", f"what {name} stands for is {natural}, and the rule computes in {dtype}"
    return None


def _uses_of_scratch(before: Kernel, rule: Rule, use: RuleUse) -> Fault | None:
    """Scratch is used by nothing outside."""
    scratch = {use.match.element[name].buffer for name in rule.scratch}
    depth, first = len(use.path) - 1, use.path[-1]
    for site in before.sites:
        inside = site.path[:depth] == use.path[:-1] and first <= site.path[depth] < first + len(rule.left.body)
        for access in site.statement.accesses if not inside else ():
            if access.buffer in scratch:
                return "used-outside", f"`{access.buffer}` is used at {format_path(site.path)} as well"
    return None


def _overlap(before: Kernel, rule: Rule, use: RuleUse) -> Fault | None:
    """Each element of an array of the rule is another element here."""
    sets = sets_of(before)
    around = ancestors(before, use.path)
    outer = sum(isinstance(node, Scope) for node in around)
    for name in (*rule.results, *rule.scratch):
        element, dims = use.match.element[name], rule.left.buffer(name).dims
        if not dims:
            continue
        buffer = before.buffer(element.buffer)
        extents = (use.match.size[str(dim.extent)] for dim in dims)
        inside = [isl_extent(extent, outer + p) for p, extent in enumerate(extents)]
        indices = [
            isl_affine(index)
            for index, dim in zip(element.indices, buffer.dims, strict=True)
            if isinstance(index, Affine) and not dim.collapsed
        ]
        own = [f"i{d}" for d in range(outer)]
        where = " and ".join([sets.constraints(around), *inside])
        place = f"[{iterators(outer + len(dims))}] -> [{', '.join([*own, *indices])}] : {where}"
        if not sets.map(place).is_injective():
            return "shared-element", f"several elements of {name} are one element of `{buffer.name}`"
    return None
