"""Expressions: numbers, affine values, elements of buffers, operations and casts. Every one is frozen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from operator import is_

from dojoir.errors import Span
from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import DType
from dojoir.ir.operations import MAY_FAIL
from dojoir.support.frozen import dataclass, hash_once

DEEPEST_EXPRESSION = 128
"""How deep an expression may nest. No kernel comes near it, so functions that walk an expression may recurse."""


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
    """An operation of `dojoir.ir.operations.OPERATIONS` on expressions. Build it with `make_op`."""

    name: str
    args: tuple[Expr, ...]
    loc: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Cast:
    """The value of `arg` rounded or converted to `dtype`, in the `way` of that name of CONVERSIONS if any."""

    dtype: DType
    arg: Expr
    loc: Span | None = field(default=None, compare=False, repr=False)
    way: str = "cast"


Leaf = Const | Index | Access
Expr = Leaf | Op | Cast


def index_value(affine: Affine) -> Const | Index:
    """An affine value as an expression, in normal form."""
    return Const(affine.offset) if affine.is_constant else Index(affine)


def make_op(name: str, args: tuple[Expr, ...], loc: Span | None = None) -> Expr:
    """`Op(name, args)` in normal form: whatever is affine in sizes and iterators is one `Index`."""
    if name == "neg" and isinstance(args[0], Const):
        return Const(-args[0].value)
    found = affine_operation(name, [as_affine(arg) for arg in args])
    return Op(name, args, loc) if found is None else index_value(found)


def as_affine(expr: Expr) -> Affine | None:
    """The affine value that an expression is, if it is one."""
    match expr:
        case Index(affine):
            return affine
        case Const(value) if type(value) is int:
            return Affine.constant(value)
    return None


def affine_operation(name: str, operands: Sequence[Affine | None]) -> Affine | None:
    """The affine value that an operation on affine values is; None where it is none."""
    match name, operands:
        case "neg", [Affine() as a]:
            return -a
        case "add", [Affine() as a, Affine() as b]:
            return a + b
        case "sub", [Affine() as a, Affine() as b]:
            return a - b
        case "mul", [Affine() as a, Affine() as b] if a.is_constant or b.is_constant:
            return a * b.offset if b.is_constant else b * a.offset
        case "floordiv" | "mod", [Affine() as a, Affine() as b] if b.is_constant and b.offset > 0:
            return a // b.offset if name == "floordiv" else a % b.offset
    return None


def are(some: tuple[object, ...], others: tuple[object, ...]) -> bool:
    """Whether two tuples of one length hold the same objects."""
    return all(map(is_, some, others))


def children(expr: Expr) -> tuple[Expr, ...]:
    """The operands of an operation or a cast, in order of evaluation. The indices of an access are none."""
    match expr:
        case Op(_, args):
            return args
        case Cast(_, arg):
            return (arg,)
        case Const() | Index() | Access():
            return ()


def parts(expr: Expr) -> Iterator[Expr]:
    """An expression and all that it is made of, each before what it is applied to, in order of evaluation."""
    left = [expr]
    while left:
        part = left.pop()
        yield part
        if isinstance(part, Op):
            left += part.args[::-1]
        elif isinstance(part, Cast):
            left.append(part.arg)


def may_end_a_run(part: Expr) -> bool:
    """Whether a part of an expression is of a kind that may be an error of the run."""
    if isinstance(part, Access):
        return any(isinstance(index, Access) for index in part.indices)
    return isinstance(part, Op) and part.name in MAY_FAIL


def map_leaves(expr: Expr, new: Callable[[Leaf], Expr], normal: bool = False) -> Expr:
    """The expression with `new` in place of every number, affine value and access, asked in order of evaluation;
    the very expression where that changes none. With `normal`, what is affine then becomes one `Index`."""
    match expr:
        case Op(name, args, loc):
            mapped = tuple([map_leaves(arg, new, normal) for arg in args])
            if are(mapped, args):
                return expr
            return make_op(name, mapped, loc) if normal else Op(name, mapped, loc)
        case Cast(dtype, arg, loc, way):
            value = map_leaves(arg, new, normal)
            return expr if value is arg else Cast(dtype, value, loc, way)
        case Const() | Index() | Access():
            return new(expr)


def expr_accesses(expr: Expr) -> Iterator[Access]:
    """Every access that evaluating `expr` reads, in order of evaluation; gathered indices before their user."""
    for part in parts(expr):
        if isinstance(part, Access):
            yield from part.accesses()


def affine_parts(expr: Expr) -> Iterator[Affine]:
    """The affine values in an expression: indices, and sizes and iterators used as numbers."""
    for part in parts(expr):
        if isinstance(part, Index):
            yield part.affine
        elif isinstance(part, Access):
            for index in part.indices:
                if isinstance(index, Access):
                    yield from affine_parts(index)
                else:
                    yield index
