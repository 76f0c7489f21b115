"""The IR: a kernel is an ordered tree of scopes, guards and scalar statements. Every node is frozen.

Two kernels are equal when they mean the same by their text: labels and source positions do not count.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import is_
from typing import NamedTuple

from dojoir.affine import Affine, Iter, SizeVar
from dojoir.dtypes import DType
from dojoir.errors import ArgumentError, Source, Span, did_you_mean
from dojoir.hashing import hash_once
from dojoir.hints import Hint, in_order
from dojoir.memo import Memo

Path = tuple[int, ...]
"""A place in the tree: child indices from the root, `(0, 1)` written `0.1`."""

MARKS = ("p", "v", "u", "gx", "gy", "gz", "bx", "by", "bz", "lane")
STORAGES = ("heap", "stack", "reg", "shared")
RELATIONS = ("==", "!=", "<=", ">=", "<", ">")
FP_MODES = ("strict", "reassoc", "fast")

LARGEST_SIZE = 2**31 - 1
"""The largest value of a fixed size."""
DEEPEST = 64
"""How many scopes and guards may be around a node. No kernel comes near it; what walks the tree may recurse."""
DEEPEST_EXPRESSION = 128
"""How deep an expression may nest, for the same reason."""


# -- expressions -------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Const:
    """A number. An `int` adapts to any numeric type of its context, a `float` to any float type."""

    value: int | float

    def __eq__(self, other: object) -> bool:  # 1 and 1.0 differ, nan equals itself, -0.0 differs from 0.0
        return isinstance(other, Const) and repr(self.value) == repr(other.value)

    def __hash__(self) -> int:
        return hash(repr(self.value))


@dataclass(frozen=True)
class Index:
    """Sizes and iterators used as a value. Never constant: that is a `Const`. It adapts as an int does."""

    affine: Affine


@hash_once
@dataclass(frozen=True)
class Access:
    """One element of a buffer. An index is affine, or the value of an integer element (a gather)."""

    buffer: str
    indices: tuple[Affine | Access, ...]
    loc: Span | None = field(default=None, compare=False, repr=False)

    def accesses(self) -> Iterator[Access]:
        """The accesses made to reach this one, innermost first, itself last."""
        for index in self.indices:
            if isinstance(index, Access):
                yield from index.accesses()
        yield self


@hash_once
@dataclass(frozen=True)
class Op:
    """An operation of `dojoir.operations.OPERATIONS` on expressions. Build it with `make_op`."""

    name: str
    args: tuple[Expr, ...]
    loc: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Cast:
    """The value of `arg` rounded or converted to `dtype`."""

    dtype: DType
    arg: Expr
    loc: Span | None = field(default=None, compare=False, repr=False)


Expr = Const | Index | Access | Op | Cast


def index_value(affine: Affine) -> Const | Index:
    """An affine value as an expression, in normal form."""
    return Const(affine.offset) if affine.is_constant else Index(affine)


def make_op(name: str, args: tuple[Expr, ...], loc: Span | None = None) -> Expr:
    """`Op(name, args)` in normal form: whatever is affine in sizes and iterators is one `Index`."""
    affine = [_as_affine(arg) for arg in args]
    match name, affine:
        case "neg", [Affine() as a]:
            return index_value(-a)
        case "neg", _ if isinstance(args[0], Const):
            return Const(-args[0].value)
        case "add", [Affine() as a, Affine() as b]:
            return index_value(a + b)
        case "sub", [Affine() as a, Affine() as b]:
            return index_value(a - b)
        case "mul", [Affine() as a, Affine() as b] if a.is_constant or b.is_constant:
            return index_value(a * b.offset if b.is_constant else b * a.offset)
        case "floordiv", [Affine() as a, Affine() as b] if b.is_constant and b.offset > 0:
            return index_value(a // b.offset)
        case "mod", [Affine() as a, Affine() as b] if b.is_constant and b.offset > 0:
            return index_value(a % b.offset)
    return Op(name, args, loc)


def _as_affine(expr: Expr) -> Affine | None:
    match expr:
        case Index(affine):
            return affine
        case Const(value) if type(value) is int:
            return Affine.constant(value)
    return None


# -- the tree ----------------------------------------------------------------------------------------------
@hash_once
@dataclass(frozen=True)
class Condition:
    """`left relation right`, with `relation` one of RELATIONS."""

    left: Affine
    relation: str
    right: Affine
    loc: Span | None = field(default=None, compare=False, repr=False)


@hash_once
@dataclass(frozen=True)
class Extent:
    """How often a scope runs: the smallest of `bounds`, and not at all if that is 0 or less."""

    bounds: tuple[Affine, ...]
    loc: Span | None = field(default=None, compare=False, repr=False)

    @property
    def constant(self) -> int | None:
        """The extent as a number, where it is one."""
        return self.bounds[0].offset if len(self.bounds) == 1 and self.bounds[0].is_constant else None


@hash_once
@dataclass(frozen=True)
class Statement:
    """`target op value`: op is `=` or an accumulation (`+=`, `*=`, `max=`, `min=`).

    `x = fma(a, b, x)`, with the target itself as what the product is added to, is a *fused* accumulation: it does
    `x += a * b` and rounds once. What reads `accumulation` and `term` sees no difference.
    """

    target: Access
    op: str
    value: Expr
    loc: Span | None = field(default=None, compare=False, repr=False)

    @cached_property
    def fused(self) -> bool:
        """Whether this is a fused accumulation."""
        match self.op, self.value:
            case "=", Op("fma", (_, _, own)):
                return own == self.target
        return False

    @cached_property
    def reads(self) -> tuple[Access, ...]:
        """Every access that the value reads, in order of evaluation."""
        return tuple(expr_accesses(self.value))

    @cached_property
    def term_reads(self) -> tuple[Access, ...]:
        """Every access that `term` reads, in order of evaluation."""
        return tuple(expr_accesses(self.term)) if self.fused else self.reads

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        """All accesses: the target, then what the value reads."""
        return (self.target, *self.reads)

    @cached_property
    def buffers_read(self) -> frozenset[str]:
        """The buffers that the value reads."""
        return frozenset(access.buffer for access in self.reads)

    @cached_property
    def affine_parts(self) -> tuple[Affine, ...]:
        """The affine values in it: indices, and sizes and iterators used as numbers."""
        return (*affine_parts(self.target), *affine_parts(self.value))

    @cached_property
    def atoms(self) -> tuple[SizeVar | Iter, ...]:
        """Every size and iterator that occurs in it, once each."""
        return tuple(dict.fromkeys(atom for affine in self.affine_parts for atom in affine.atoms()))

    @cached_property
    def divided(self) -> frozenset[int]:
        """The depths of the iterators that occur in a division or a remainder."""
        return frozenset().union(*(affine.divided for affine in self.affine_parts))

    @property
    def accumulation(self) -> str | None:
        """The operator that combines `term` with the target (`+=`, `*=`, `max=`, `min=`), or None for a plain
        assignment."""
        return "+=" if self.fused else None if self.op == "=" else self.op

    @property
    def term(self) -> Expr:
        """The value, without the target that a fused accumulation adds it to."""
        if not self.fused:
            return self.value
        assert isinstance(self.value, Op)
        return Op("mul", self.value.args[:2], self.value.loc)

    def onto(self, target: Access) -> Statement:
        """The statement with another target, which a fused accumulation adds to as well."""
        if self.fused and isinstance(self.value, Op):
            return Statement(target, self.op, Op("fma", (*self.value.args[:2], target)))
        return Statement(target, self.op, self.value)


@hash_once
@dataclass(frozen=True)
class Scope:
    """A one-dimensional loop from 0 to its extent. `marks` say how a target runs it, `hints` what else it may do;
    their order says nothing."""

    extent: Extent
    body: tuple[Node, ...]
    marks: tuple[str, ...] = ()
    label: str | None = field(default=None, compare=False, repr=False)
    loc: Span | None = field(default=None, compare=False, repr=False)
    hints: tuple[Hint, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        if len(self.hints) > 1:
            object.__setattr__(self, "hints", in_order(self.hints))

    @cached_property
    def marked(self) -> bool:
        """Whether it or a scope inside has a mark or a hint."""
        return bool(self.marks or self.hints) or any_marked(self.body)

    @cached_property
    def divided(self) -> frozenset[int]:
        """The depths of the iterators that occur in a division or a remainder, in its extent or inside."""
        return divided_in(self.body).union(*(bound.divided for bound in self.extent.bounds))


@hash_once
@dataclass(frozen=True)
class Guard:
    """Runs its children where all `conditions` hold. It has no iterator and adds no depth."""

    conditions: tuple[Condition, ...]
    body: tuple[Node, ...]
    loc: Span | None = field(default=None, compare=False, repr=False)

    @cached_property
    def marked(self) -> bool:
        """Whether a scope inside has a mark or a hint."""
        return any_marked(self.body)

    @cached_property
    def divided(self) -> frozenset[int]:
        """The depths of the iterators that occur in a division or a remainder, in a condition or inside."""
        return divided_in(self.body).union(*(c.left.divided | c.right.divided for c in self.conditions))


Node = Scope | Guard | Statement


def any_marked(nodes: tuple[Node, ...]) -> bool:
    """Whether a scope anywhere in some trees has a mark or a hint."""
    return any(node.marked for node in nodes if not isinstance(node, Statement))


def divided_in(nodes: tuple[Node, ...]) -> frozenset[int]:
    """The depths of the iterators that occur in a division or a remainder anywhere in some trees."""
    return frozenset().union(*(node.divided for node in nodes))


@dataclass(frozen=True)
class Size:
    """A size of the kernel: a runtime integer ≥ 1, or fixed. A fixed size is folded wherever it is used."""

    name: str
    value: int | None = None
    loc: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Dim:
    """One dimension of a buffer. A collapsed one (`~`) has no storage of its own: all indices share it."""

    extent: Affine
    collapsed: bool = False
    loc: Span | None = field(default=None, compare=False, repr=False)


@hash_once
@dataclass(frozen=True)
class Buffer:
    """An array. `role` is in, out, inout or tmp; `order` lists the dimensions from outermost to innermost in
    memory; `pad` adds elements to the storage of each dimension; `align` is in bytes (0: the natural one);
    `stream` says that stores to it bypass the caches.

    An order that is the natural one, and a padding of nothing, are None."""

    role: str
    name: str
    dtype: DType
    dims: tuple[Dim, ...] = ()
    storage: str = "heap"
    order: tuple[int, ...] | None = None
    pad: tuple[int, ...] | None = None
    align: int = 0
    stream: bool = False
    loc: Span | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.dims and self.order == tuple(range(len(self.dims))):
            object.__setattr__(self, "order", None)
        if self.dims and self.pad == (0,) * len(self.dims):
            object.__setattr__(self, "pad", None)


class Site(NamedTuple):
    """A statement with everything around it, outermost first. `scopes[d]` has iterator `{d}`."""

    path: Path
    statement: Statement
    scopes: tuple[Scope, ...]
    ancestors: tuple[Scope | Guard, ...]

    def shared_ancestors(self, path: Path) -> int:
        """How many of the ancestors, from outside, are around the node at `path` too."""
        count = 0
        for mine, its in zip(self.path[:-1], path[:-1], strict=False):
            if mine != its:
                break
            count += 1
        return count

    def shared_scopes(self, path: Path) -> int:
        """How many of the scopes, from outside, are around the node at `path` too."""
        return sum(isinstance(node, Scope) for node in self.ancestors[: self.shared_ancestors(path)])


@hash_once
@dataclass(frozen=True)
class Kernel:
    """A kernel: its sizes, the facts about them, its buffers and its body."""

    name: str
    sizes: tuple[Size, ...]
    buffers: tuple[Buffer, ...]
    body: tuple[Node, ...]
    facts: tuple[Condition, ...] = ()
    fp: str = "reassoc"
    source: Source | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        from dojoir.printer import to_text

        return to_text(self)

    @cached_property
    def hash(self) -> str:
        """The identity of the canonical text (depth style, no labels): 64 hex digits."""
        from dojoir.printer import canonical_text

        return hashlib.sha256(canonical_text(self).encode()).hexdigest()

    @cached_property
    def runtime_sizes(self) -> tuple[str, ...]:
        """The names of the sizes that are given at run time, in declared order."""
        return tuple(size.name for size in self.sizes if size.value is None)

    @cached_property
    def _buffers(self) -> dict[str, Buffer]:
        return {buffer.name: buffer for buffer in self.buffers}

    @cached_property
    def declared(self) -> frozenset[str]:
        """The names of its sizes and buffers."""
        return frozenset((*(size.name for size in self.sizes), *self._buffers))

    @property
    def arguments(self) -> tuple[Buffer, ...]:
        """The buffers that a call takes, in declared order: in, out and inout."""
        return tuple(buffer for buffer in self.buffers if buffer.role != "tmp")

    @cached_property
    def undeclared(self) -> tuple[str, ...]:
        """The buffers that statements use and the kernel does not declare: none in a well-formed one."""
        used = (access.buffer for site in self.sites for access in site.statement.accesses)
        return tuple(name for name in dict.fromkeys(used) if name not in self._buffers)

    def buffer(self, name: str) -> Buffer:
        """The buffer of that name. Raises ArgumentError with the nearest name."""
        try:
            return self._buffers[name]
        except KeyError:
            raise ArgumentError(
                f"kernel {self.name} has no buffer '{name}'{did_you_mean(name, self._buffers)}",
                "unknown-buffer",
            ) from None

    def at(self, place: str | Path) -> Node:
        """The node at a path (`"0.1"`) or a label (`"@j"`). Raises ArgumentError if there is none."""
        node: Node | Kernel = self
        for child in self.path(place):
            assert not isinstance(node, Statement)
            node = node.body[child]
        assert not isinstance(node, Kernel)
        return node

    def path(self, place: str | Path) -> Path:
        """The path of a place (`"0.1"`, `"@j"`). Raises ArgumentError if there is none, or more than one."""
        if isinstance(place, str) and place.startswith("@"):
            found = [path for path, node in self.walk() if isinstance(node, Scope) and node.label == place[1:]]
            if len(found) == 1:
                return found[0]
            if found:
                places = ", ".join(format_path(path) for path in found)
                raise ArgumentError(
                    f"{place} is the label of several scopes: {places}; give a path", "ambiguous-place"
                )
            labels = sorted({f"@{n.label}" for _, n in self.walk() if isinstance(n, Scope) and n.label})
            known = f"; labels here: {', '.join(labels)}" if labels else "; this kernel has no labels"
            raise ArgumentError(
                f"no scope is labelled {place}{did_you_mean(place, labels)}{known}", "unknown-place"
            )
        path = parse_path(place) if isinstance(place, str) else place
        node: Node | Kernel = self
        for depth, child in enumerate(path):
            children = () if isinstance(node, Statement) else node.body
            if not 0 <= child < len(children):
                where = format_path(path[:depth]) if depth else "the kernel"
                has = f"{where} has {len(children)} child{'' if len(children) == 1 else 'ren'}"
                raise ArgumentError(f"there is no place {format_path(path)}: {has}", "unknown-place")
            node = children[child]
        if not path:
            raise ArgumentError("a place needs at least one child index, such as 0 or 0.1", "unknown-place")
        return path

    def walk(self) -> Iterator[tuple[Path, Node]]:
        """Every node with its path, in the order of the text."""

        def visit(nodes: tuple[Node, ...], prefix: Path) -> Iterator[tuple[Path, Node]]:
            for i, node in enumerate(nodes):
                path = (*prefix, i)
                yield path, node
                if not isinstance(node, Statement):
                    yield from visit(node.body, path)

        yield from visit(self.body, ())

    def depth_of(self, path: Path) -> int:
        """How many scopes enclose the node at `path`: the depth of its iterator, if it is a scope."""
        depth = 0
        node: Node | Kernel = self
        for child in path:
            depth += isinstance(node, Scope)
            assert not isinstance(node, Statement)
            node = node.body[child]
        return depth

    @cached_property
    def sites(self) -> tuple[Site, ...]:
        """Every statement with what is around it, in the order of the text."""

        def visit(nodes: tuple[Node, ...], prefix: Path, around: tuple[Scope | Guard, ...]) -> Iterator[Site]:
            for i, node in enumerate(nodes):
                path = (*prefix, i)
                if isinstance(node, Statement):
                    scopes = tuple(n for n in around if isinstance(n, Scope))
                    yield Site(path, node, scopes, around)
                else:
                    yield from visit(node.body, path, (*around, node))

        return tuple(visit(self.body, (), ()))

    def replace_node(self, path: Path, *new: Node) -> Kernel:
        """The kernel with the node at `path` replaced by `new` (any number of siblings, none removes it)."""

        def visit(nodes: tuple[Node, ...], rest: Path) -> tuple[Node, ...]:
            i, *deeper = rest
            node = nodes[i]
            if not deeper:
                return (*nodes[:i], *new, *nodes[i + 1 :])
            assert not isinstance(node, Statement)
            return (*nodes[:i], with_body(node, visit(node.body, tuple(deeper))), *nodes[i + 1 :])

        return self.evolve(body=visit(self.body, path))

    def replace_buffer(self, buffer: Buffer) -> Kernel:
        """The kernel with the buffer of that name replaced."""
        return self.evolve(buffers=tuple(buffer if b.name == buffer.name else b for b in self.buffers))

    def evolve(
        self,
        *,
        name: str | None = None,
        sizes: tuple[Size, ...] | None = None,
        buffers: tuple[Buffer, ...] | None = None,
        body: tuple[Node, ...] | None = None,
        facts: tuple[Condition, ...] | None = None,
        fp: str | None = None,
    ) -> Kernel:
        """A kernel with some fields replaced. It no longer has the source of this one."""
        return Kernel(
            self.name if name is None else name,
            self.sizes if sizes is None else sizes,
            self.buffers if buffers is None else buffers,
            self.body if body is None else body,
            self.facts if facts is None else facts,
            self.fp if fp is None else fp,
        )

    def with_fp(self, mode: str) -> Kernel:
        """The kernel under `fp strict`, `reassoc` or `fast`: what rewrites may do to floating point is the user's
        to say, so no move changes it. Raises ArgumentError for another mode."""
        if mode not in FP_MODES:
            known = f"{', '.join(FP_MODES[:-1])} or {FP_MODES[-1]}"
            raise ArgumentError(f"the fp mode is {known}, not '{mode}'", "bad-fp")
        return replace(self, fp=mode)

    def specialize(self, **sizes: int) -> Kernel:
        """The kernel with some runtime sizes fixed. Raises ArgumentError for an unknown size, a size below 1 or
        one that breaks a fact of the kernel."""
        for name, value in sizes.items():
            if name not in self.runtime_sizes:
                known = ", ".join(self.runtime_sizes) or "none"
                raise ArgumentError(
                    f"kernel {self.name} has no runtime size '{name}'{did_you_mean(name, self.runtime_sizes)}"
                    f"; its runtime sizes: {known}",
                    "unknown-size",
                )
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ArgumentError(f"size {name} must be an integer of at least 1, not {value!r}", "bad-size")
        fixed = {name: Affine.constant(value) for name, value in sizes.items()}
        kept = []
        for fact in self.facts:
            here = substitute_condition(fact, lambda a: _fixed(a, fixed))
            if here.left.is_constant and here.right.is_constant:
                if not holds(here, {}, ()):
                    text = f"{fact.left} {fact.relation} {fact.right}"
                    given = ", ".join(f"{k}={v}" for k, v in sizes.items())
                    raise ArgumentError(f"{given} breaks 'where {text}' of kernel {self.name}", "broken-fact")
            else:
                kept.append(here)
        return self.evolve(
            sizes=tuple(Size(s.name, sizes.get(s.name, s.value)) for s in self.sizes),
            buffers=tuple(
                replace(
                    b,
                    dims=tuple(replace(d, extent=d.extent.substitute(lambda a: _fixed(a, fixed))) for d in b.dims),
                )
                for b in self.buffers
            ),
            body=tuple(substitute(node, lambda a: _fixed(a, fixed)) for node in self.body),
            facts=tuple(kept),
        )


# -- rewriting ---------------------------------------------------------------------------------------------
Replace = Callable[[SizeVar | Iter], Affine]


def _fixed(atom: SizeVar | Iter, fixed: Mapping[str, Affine]) -> Affine:
    return fixed.get(atom.name, Affine.atom(atom)) if isinstance(atom, SizeVar) else Affine.atom(atom)


def substitute_iterators(mapping: Mapping[int, Affine]) -> Replace:
    """A `Replace` that changes the iterators of some depths and leaves the rest."""

    def new(atom: SizeVar | Iter) -> Affine:
        found = mapping.get(atom.depth) if isinstance(atom, Iter) else None
        return Affine.atom(atom) if found is None else found

    return new


def substitute_access(access: Access, new: Replace) -> Access:
    indices = tuple(
        substitute_access(i, new) if isinstance(i, Access) else i.substitute(new) for i in access.indices
    )
    return access if are(indices, access.indices) else Access(access.buffer, indices, access.loc)


def substitute_expr(expr: Expr, new: Replace) -> Expr:
    match expr:
        case Access():
            return substitute_access(expr, new)
        case Op(name, args, loc):
            changed = tuple(substitute_expr(arg, new) for arg in args)
            return expr if are(changed, args) else make_op(name, changed, loc)
        case Cast(dtype, arg, loc):
            value = substitute_expr(arg, new)
            return expr if value is arg else Cast(dtype, value, loc)
        case Index(affine):
            moved = affine.substitute(new)
            return expr if moved is affine else index_value(moved)
        case Const():
            return expr


def substitute_condition(condition: Condition, new: Replace) -> Condition:
    left, right = condition.left.substitute(new), condition.right.substitute(new)
    if left is condition.left and right is condition.right:
        return condition
    return Condition(left, condition.relation, right, condition.loc)


def substitute_extent(extent: Extent, new: Replace) -> Extent:
    bounds = tuple(bound.substitute(new) for bound in extent.bounds)
    return extent if are(bounds, extent.bounds) else Extent(bounds, extent.loc)


def substitute(node: Node, new: Replace) -> Node:
    """The node with every size and iterator in it replaced; the very node where that changes nothing. Depths are
    absolute, so a caller that moves the node deeper or shallower replaces the iterators of the scopes inside it as
    well."""
    match node:
        case Statement():
            return _substituted(node, new)
        case Scope():
            extent = substitute_extent(node.extent, new)
            body = tuple(substitute(child, new) for child in node.body)
            if extent is node.extent and are(body, node.body):
                return node
            return Scope(extent, body, node.marks, node.label, node.loc, hints=node.hints)
        case Guard():
            conditions = tuple(substitute_condition(c, new) for c in node.conditions)
            body = tuple(substitute(child, new) for child in node.body)
            if are(conditions, node.conditions) and are(body, node.body):
                return node
            return Guard(conditions, body, node.loc)


def _substituted(statement: Statement, new: Replace) -> Statement:
    """What becomes of a statement follows from what stands for its atoms. A move and its proof ask the same: the
    answer is kept, with the statement that it was for, as an equal one may stand elsewhere in a text."""
    key = (statement, tuple([new(atom) for atom in statement.atoms]))
    found = _kept.get(key)
    if found is not None and found[0] is statement:
        return found[1]
    target, value = substitute_access(statement.target, new), substitute_expr(statement.value, new)
    same = target is statement.target and value is statement.value
    moved = statement if same else Statement(target, statement.op, value, statement.loc)
    return _kept.put(key, (statement, moved))[1]


_kept: Memo[tuple[Statement, tuple[Affine, ...]], tuple[Statement, Statement]] = Memo(16384)


def are(some: tuple[object, ...], others: tuple[object, ...]) -> bool:
    """Whether two tuples of one length hold the same objects."""
    return all(map(is_, some, others))


def with_body(node: Scope | Guard, body: tuple[Node, ...]) -> Scope | Guard:
    """A node with other children; the very node where they are its own."""
    if len(body) == len(node.body) and are(body, node.body):
        return node
    if isinstance(node, Guard):
        return Guard(node.conditions, body, node.loc)
    return Scope(node.extent, body, node.marks, node.label, node.loc, hints=node.hints)


def expr_accesses(expr: Expr) -> Iterator[Access]:
    """Every access that evaluating `expr` reads, in order of evaluation; gathered indices before their user."""
    match expr:
        case Access():
            yield from expr.accesses()
        case Op(_, args):
            for arg in args:
                yield from expr_accesses(arg)
        case Cast(_, arg):
            yield from expr_accesses(arg)
        case Const() | Index():
            return


def affine_parts(expr: Expr) -> Iterator[Affine]:
    """The affine values in an expression: indices, and sizes and iterators used as numbers."""
    match expr:
        case Index(affine):
            yield affine
        case Access(_, indices):
            for index in indices:
                if isinstance(index, Access):
                    yield from affine_parts(index)
                else:
                    yield index
        case Op(_, args):
            for arg in args:
                yield from affine_parts(arg)
        case Cast(_, arg):
            yield from affine_parts(arg)
        case Const():
            return


def accesses_in(nodes: tuple[Node, ...]) -> Iterator[Access]:
    """Every access that some nodes make, in the order of the text."""
    for node in nodes:
        if isinstance(node, Statement):
            yield from node.reads
            yield from node.target.accesses()
        else:
            yield from accesses_in(node.body)


def holds(condition: Condition, sizes: Mapping[str, int], iterators: tuple[int, ...]) -> bool:
    """Whether the condition holds for concrete sizes and iterators."""
    left = condition.left.evaluate(sizes, iterators)
    right = condition.right.evaluate(sizes, iterators)
    match condition.relation:
        case "==":
            return left == right
        case "!=":
            return left != right
        case "<=":
            return left <= right
        case ">=":
            return left >= right
        case "<":
            return left < right
        case _:
            return left > right


def parse_path(text: str) -> Path:
    """`"0.1.2"` as (0, 1, 2). Raises ArgumentError for anything else."""
    parts = text.split(".")
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise ArgumentError(
            f"'{text}' is not a place: write a path such as 0.1, or a label such as @j", "bad-place"
        )
    return tuple(int(part) for part in parts)


def format_path(path: Path) -> str:
    return ".".join(str(child) for child in path)
