"""Kernels written by programs: the tree of `dojoir.parse`, made by calls.

>>> from dojoir import build
>>> with build.kernel("softmax", "N", "M") as b:
...     x = b.input("x", "f32", ["N", "M"])
...     y = b.output("y", "f32", ["N", "M"])
...     m = b.temp("m", "f32", ["N~"], storage="reg")
...     s = b.temp("s", "f32", ["N~"], storage="reg")
...     with b.scope("N", "p", label="i") as i:
...         m[i] = -float("inf")
...         with b.scope("M") as j:
...             b.max(m[i], x[i, j])
...         s[i] = 0
...         with b.scope("M") as j:
...             y[i, j] = build.exp(x[i, j] - m[i])
...             s[i] += y[i, j]
...         with b.scope("M") as j:
...             y[i, j] = y[i, j] / s[i]
>>> print(b.kernel)
kernel softmax(N, M)
in  x: f32[N, M]
out y: f32[N, M]
tmp m: f32[N~] reg
tmp s: f32[N~] reg
<BLANKLINE>
N : p @i
| m[{i}] = -inf
| M
| | m[{i}] max= x[{i}, {1}]
| s[{i}] = 0
| M
| | y[{i}, {1}] = exp(x[{i}, {1}] - m[{i}])
| | s[{i}] += y[{i}, {1}]
| M
| | y[{i}, {1}] = y[{i}, {1}] / s[{i}]
<BLANKLINE>

Sizes, iterators and elements take Python's arithmetic, comparisons by `<` and by `eq` and `ne`, `& | ~` for
`and or not`, `<< >> ^` and `bitand`, `bitor`, `bitnot` for bits; functions of the language are functions of this
module. What cannot be said raises ArgumentError where it is said; types that do not fit raise
KernelError at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Unpack

from dojoir.author.arrays import Array, Pair, Target
from dojoir.author.attributes import Attributes
from dojoir.author.conversions import argmax_of, argmin_of, bitcast, cast, round_away, round_to_zero, sat, value_of
from dojoir.author.expressions import (
    Number,
    Operand,
    Value,
    abs,
    acos,
    acosh,
    affine_of,
    argmax_key,
    argmin_key,
    as_value,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    bitand,
    bitnot,
    bitor,
    ceil,
    conditions_of,
    copysign,
    cos,
    cosh,
    eq,
    erf,
    erfc,
    exp,
    exp2,
    expm1,
    extent_of,
    floor,
    floor_div,
    floor_mod,
    fma,
    fmod,
    hypot,
    log,
    log1p,
    log2,
    log10,
    max,
    min,
    ne,
    pow,
    round,
    rsqrt,
    select,
    sigmoid,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
)
from dojoir.errors import ArgumentError, did_you_mean, repr_of
from dojoir.grammar.sugar.keys_of_pairs import written_out
from dojoir.grammar.sugar.pairs import pair_statements, reads_itself
from dojoir.grammar.writable import nesting
from dojoir.ir.affine import Affine
from dojoir.ir.buffer_rules import declaration_error
from dojoir.ir.dtypes import DTYPES
from dojoir.ir.hints import Hint
from dojoir.ir.nodes import (
    DEEPEST,
    DEEPEST_EXPRESSION,
    FP_MODES,
    LARGEST_SIZE,
    MARKS,
    Access,
    Buffer,
    Condition,
    DataFact,
    Dim,
    Expr,
    Guard,
    Index,
    Kernel,
    Node,
    Op,
    Scope,
    Size,
    Statement,
    expr_accesses,
    holds,
    index_value,
)
from dojoir.ir.operations import ACCUMULATIONS
from dojoir.ir.packing import check_packing
from dojoir.ir.words import DATA_FACTS, is_label, is_name, name_error
from dojoir.support.frozen import dataclass
from dojoir.support.public import public, public_with
from dojoir.types.elaborate import check

__all__ = [
    "Array", "Builder", "Value", "abs", "acos", "acosh", "argmax_key", "argmax_of", "argmin_key", "argmin_of",
    "asin", "asinh", "atan", "atan2", "atanh", "bitand", "bitcast", "bitnot", "bitor", "cast", "ceil",
    "copysign", "cos", "cosh", "eq", "erf", "erfc", "exp", "exp2", "expm1", "floor", "floor_div", "floor_mod",
    "fma", "fmod", "hypot", "kernel", "log", "log1p", "log2", "log10", "max", "min", "ne", "pow", "round",
    "round_away", "round_to_zero", "rsqrt", "sat", "select", "sigmoid", "sin", "sinh", "sqrt", "tan", "tanh",
    "value_of",
]  # fmt: skip


@public
def kernel(name: str, /, *sizes: str | tuple[str, int], **fixed: int) -> Builder:
    """A builder for a kernel with these sizes: `"N"` is given when it runs, `("S", 2)` or `S=2` is fixed."""
    return Builder(name, (*sizes, *fixed.items()))


@dataclass(frozen=True)
class _Around:
    """An open scope. Its `token` tells its iterator from those of other scopes at the same depth."""

    token: object
    label: str | None


class Builder:
    """The parts of a kernel that have been declared so far. `kernel` gives it, at any time when no scope is
    open."""

    def __init__(self, name: str, sizes: Sequence[str | tuple[str, int]]) -> None:
        if not is_name(name):
            raise ArgumentError(f"'{name}' cannot be the name of a kernel", "bad-name")
        self._name = name
        self._sizes: dict[str, Size] = {}
        self._buffers: dict[str, Buffer] = {}
        self._facts: list[Condition] = []
        self._fp = "reassoc"
        self._scopes: list[_Around] = []
        self._open: list[list[Node]] = [[]]
        for size in sizes:
            self._add_size(*((size, None) if isinstance(size, str) else size))

    def __enter__(self) -> Builder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            check(self._tree())

    @property
    def kernel(self) -> Kernel:
        """The kernel. Raises KernelError where its types do not fit."""
        made = self._tree()
        check(made)
        return check_packing(made)

    def _tree(self) -> Kernel:
        if len(self._open) > 1:
            raise ArgumentError("a scope or guard is still open: ask for the kernel after it", "open-scope")
        sizes, buffers = tuple(self._sizes.values()), tuple(self._buffers.values())
        return written_out(Kernel(self._name, sizes, buffers, tuple(self._open[0]), tuple(self._facts), self._fp))

    # -- the header --------------------------------------------------------------------------------------
    @property
    def sizes(self) -> tuple[Value, ...]:
        """The sizes as values, in order. A fixed one is its number."""
        return tuple(self._size(size) for size in self._sizes.values())

    @public_with(facts="not-a-condition")
    def where(self, *facts: Value | bool) -> None:
        """Facts about the sizes, such as `N >= 4` or `eq(M % 16, 0)`."""
        for fact in facts:
            for condition in self._conditions(fact):
                if condition.left.iterators or condition.right.iterators:
                    raise ArgumentError("a fact is about sizes alone", "not-a-condition")
                if not (condition.left.is_constant and condition.right.is_constant):
                    self._facts.append(condition)
                elif not holds(condition, {}, ()):
                    raise ArgumentError("this fact never holds, so the kernel could never run", "broken-fact")

    @public_with(mode="unknown-fp-mode")
    def fp(self, mode: str) -> None:
        """Sets the floating-point mode, which bounds what rewrites may do: strict, reassoc (the default) or
        fast."""
        if mode not in FP_MODES:
            raise ArgumentError(f"no floating point mode '{mode}'{did_you_mean(mode, FP_MODES)}", "unknown-fp-mode")
        self._fp = mode

    @public
    def input(
        self, name: str, dtype: str, dims: Sequence[str | Number] = (), **attributes: Unpack[Attributes]
    ) -> Array:
        """An `in` buffer. A dimension is the name of a size or an affine value; none makes it a scalar."""
        return self._declare("in", name, dtype, dims, **attributes)

    @public
    def output(
        self, name: str, dtype: str, dims: Sequence[str | Number] = (), **attributes: Unpack[Attributes]
    ) -> Array:
        """An `out` buffer, as `input`. With `stream` its stores bypass the caches."""
        return self._declare("out", name, dtype, dims, **attributes)

    @public
    def inout(
        self, name: str, dtype: str, dims: Sequence[str | Number] = (), **attributes: Unpack[Attributes]
    ) -> Array:
        """An `inout` buffer, as `output`."""
        return self._declare("inout", name, dtype, dims, **attributes)

    @public_with(storage="bad-attribute")
    def temp(
        self,
        name: str,
        dtype: str,
        dims: Sequence[str | Number] = (),
        *,
        storage: str = "heap",
        collapsed: Sequence[int] = (),
        **attributes: Unpack[Attributes],
    ) -> Array:
        """A `tmp` buffer, as `output`. The dimensions numbered in `collapsed`, and those written `"N~"`, have no
        storage of their own."""
        return self._declare("tmp", name, dtype, dims, storage, collapsed, **attributes)

    def _declare(
        self,
        role: str,
        name: str,
        dtype: str,
        dims: Sequence[str | Number],
        storage: str = "heap",
        collapsed: Sequence[int] = (),
        *,
        order: Sequence[int] | None = None,
        pad: Sequence[int] | None = None,
        swizzle: int = 0,
        align: int = 0,
        stream: bool | int = False,
        strided: bool = False,
        flat: Sequence[int] | None = None,
        packed: bool = False,
        distinct: bool = False,
        lengths: str | Number | None = None,
        offsets: str | Number | None = None,
    ) -> Array:
        self._check_new(name)
        if dtype not in DTYPES:
            raise ArgumentError(f"no element type '{dtype}'{did_you_mean(dtype, DTYPES)}", "unknown-dtype")
        if not set(collapsed) <= set(range(len(dims))):
            raise ArgumentError(f"{name} has {len(dims)} dimensions, numbered from 0", "wrong-rank")
        buffer = Buffer(
            role,
            name,
            DTYPES[dtype],
            tuple(self._dim(name, dim, number in collapsed) for number, dim in enumerate(dims)),
            storage,
            None if order is None else tuple(order),
            None if pad is None else tuple(pad),
            align,
            int(stream),
            strided,
            None if flat is None else tuple(flat),
            packed,
            self._data_facts(distinct=distinct, lengths=lengths, offsets=offsets),
            swizzle,
        )
        error = declaration_error(buffer)
        if error is not None:
            raise ArgumentError(error, "bad-attribute")
        self._buffers[name] = buffer
        return Array(self, buffer)

    def _dim(self, name: str, dim: str | Number, collapsed: bool) -> Dim:
        if isinstance(dim, str) and dim.endswith("~"):
            return replace(self._dim(name, dim[:-1], collapsed), collapsed=True)
        return Dim(self._in_sizes(dim, f"a dimension of {name}"), collapsed)

    def _data_facts(self, **said: bool | str | Number | None) -> tuple[DataFact, ...]:
        facts = {word: bound for word, bound in said.items() if bound is not None and bound is not False}
        return tuple(
            DataFact(word, self._in_sizes(bound, f"the bound of {word}") if DATA_FACTS[word].bounded else None)
            for word, bound in facts.items()
        )

    def _in_sizes(self, given: str | Number, role: str) -> Affine:
        value = self._extent_value(given)
        if value.scopes:
            raise ArgumentError(f"{role} is made of sizes, not of iterators", "not-affine")
        return affine_of(value, role)

    def _add_size(self, name: str, value: int | None) -> None:
        self._check_new(name)
        if value is not None and not 0 <= value <= LARGEST_SIZE:
            raise ArgumentError(f"a fixed size is from 0 to {LARGEST_SIZE}, not {repr_of(value)}", "bad-size")
        self._sizes[name] = Size(name, value)

    def _check_new(self, name: str) -> None:
        error = name_error(name)
        if error is not None:
            raise ArgumentError(error, "reserved-word")
        if name in self._sizes or name in self._buffers:
            kind = "size" if name in self._sizes else "buffer"
            raise ArgumentError(f"there is already a {kind} '{name}'", "duplicate-name")

    def _size(self, size: Size) -> Value:
        return Value(index_value(Affine.size(size.name) if size.value is None else Affine.constant(size.value)))

    # -- the body ----------------------------------------------------------------------------------------
    @contextmanager
    def scope(
        self, extent: str | Number, *marks: str, label: str | None = None, hints: Sequence[Hint] = ()
    ) -> Iterator[Value]:
        """A scope around what is said inside `with`, which gives its iterator. The extent is the name of a size,
        an affine value, or the `min` of such; hints are of `dojoir.ir.hints`."""
        for number, mark in enumerate(marks):
            if mark not in MARKS:
                known = did_you_mean(mark, MARKS) or f": write some of {', '.join(MARKS)}"
                raise ArgumentError(f"no mark '{mark}'{known}", "unknown-mark")
            if mark in marks[:number]:
                raise ArgumentError(f"the mark {mark} is given twice", "duplicate-mark")
        if label is not None and not is_label(label):
            raise ArgumentError(f"'{label}' cannot be a label: it is a name, without '@'", "bad-name")
        if label is not None and any(around.label == label for around in self._scopes):
            raise ArgumentError(f"a scope around this one is already labelled @{label}", "duplicate-label")
        bounds = extent_of(self._usable(self._extent_value(extent)))
        token = object()
        iterator = Value(Index(Affine.iterator(len(self._scopes))), frozenset({token}))
        self._scopes.append(_Around(token, label))
        try:
            with self._inside() as body:
                yield iterator
        finally:
            self._scopes.pop()
        self._open[-1].append(Scope(bounds, tuple(body), marks, label, hints=tuple(hints)))

    @contextmanager
    def guard(self, *conditions: Value | bool) -> Iterator[None]:
        """A guard around what is said inside `with`: it runs where all conditions hold."""
        if not conditions:
            raise ArgumentError("a guard needs a condition", "not-a-condition")
        found = [part for condition in conditions for part in self._conditions(condition)]
        with self._inside() as body:
            yield
        self._open[-1].append(Guard(tuple(found), tuple(body)))

    @contextmanager
    def _inside(self) -> Iterator[list[Node]]:
        """Collects the nodes of a body."""
        if len(self._open) > DEEPEST:
            raise ArgumentError(f"scopes and guards nest at most {DEEPEST} deep", "too-deep")
        body: list[Node] = []
        self._open.append(body)
        try:
            yield body
        finally:
            self._open.pop()
        if not body:
            raise ArgumentError("there is nothing in this scope or guard", "empty-body")

    @public
    def set(self, target: Target, value: Number | Pair) -> None:
        """`target = value`; the target is an element or a scalar, or a pair of such. The same as `x[i] = value`."""
        self.accumulate(target, "=", value)

    @public
    def add(self, target: Operand, value: Number) -> None:
        """`target += value`."""
        self.accumulate(target, "+=", value)

    @public
    def mul(self, target: Operand, value: Number) -> None:
        """`target *= value`."""
        self.accumulate(target, "*=", value)

    @public
    def max(self, target: Target, value: Number | Pair) -> None:
        """`target max= value`, of pairs as well: `b.max((m[i], at[i]), (x[i, j], j))`."""
        self.accumulate(target, "max=", value)

    @public
    def min(self, target: Target, value: Number | Pair) -> None:
        """`target min= value`, of pairs as well."""
        self.accumulate(target, "min=", value)

    @public_with(value="not-an-expression", op="unknown-operation")
    def accumulate(self, target: Target, op: str, value: Number | Pair, *, when: Number | None = None) -> None:
        """`target op value`, where op is `=`, `+=`, `*=`, `max=`, `min=`, `^=`, `&=` or `|=`; with `when`, a bool,
        `target op value if when`. Pairs are assigned, or accumulated by `max=` and `min=`."""
        if op != "=" and op not in ACCUMULATIONS:
            raise ArgumentError(f"no accumulation '{op}'{did_you_mean(op, ACCUMULATIONS)}", "unknown-operation")
        if not 0 < _count_of_values(target) == _count_of_values(value) <= 2:
            raise ArgumentError("a pair is assigned a pair: (m[i], at[i]) and (value, place)", "bad-pair")
        places = [self._place(part) for part in (target if isinstance(target, tuple) else (target,))]
        whats = [self._what(part) for part in (value if isinstance(value, tuple) else (value,))]
        condition = None if when is None else self._what(when)
        if len(places) == 2:
            halves, values = (places[0], places[1]), (whats[0], whats[1])
            if reads_itself(halves, values):
                raise ArgumentError("a pair is made of values that read neither of its halves", "bad-pair")
            self._open[-1] += pair_statements(halves, op, values, condition, None)
            return
        result = whats[0] if condition is None else Op("when", (condition, whats[0]))
        self._open[-1].append(Statement(places[0], op, result))

    def _place(self, target: Operand) -> Access:
        place = self._usable(as_value(target))
        if not isinstance(place.expr, Access):
            raise ArgumentError(f"only an element can be written, not {repr_of(place)}", "not-a-target")
        if self._buffers[place.expr.buffer].role == "in":
            message = f"{place.expr.buffer} is an input: declare it inout, or write to another buffer"
            raise ArgumentError(message, "write-to-input")
        return place.expr

    def _what(self, value: Number) -> Expr:
        what = self._usable(as_value(value)).expr
        if nesting(what) > DEEPEST_EXPRESSION:
            cure = "compute a part of it into a tmp first"
            raise ArgumentError(f"an expression nests at most {DEEPEST_EXPRESSION} deep: {cure}", "too-deep")
        return what

    def _usable(self, value: Value) -> Value:
        """The value, if it has a meaning here: inside the scopes of its iterators, from buffers of this kernel."""
        if not value.scopes <= {around.token for around in self._scopes}:
            message = f"{repr_of(value)} uses the iterator of a scope that is not around here"
            raise ArgumentError(message, "unknown-iterator")
        for access in expr_accesses(value.expr):
            buffer = self._buffers.get(access.buffer)
            if buffer is None or len(buffer.dims) != len(access.indices):
                raise ArgumentError(f"{access.buffer} is not a buffer of this kernel", "unknown-buffer")
        return value

    def _conditions(self, condition: Value | bool) -> tuple[Condition, ...]:
        if not isinstance(condition, Value):
            message = (
                f"a condition compares sizes and iterators, and to Python this is {repr_of(condition)} already"
            )
            raise ArgumentError(message, "not-a-condition")
        return conditions_of(self._usable(condition))

    def _extent_value(self, extent: str | Number) -> Value:
        if not isinstance(extent, str):
            return as_value(extent)
        if extent not in self._sizes:
            raise ArgumentError(f"there is no size '{extent}'{did_you_mean(extent, self._sizes)}", "unknown-name")
        return self._size(self._sizes[extent])


def _count_of_values(value: object) -> int:
    """How many values these are, a pair or one."""
    return len(value) if isinstance(value, tuple) else 1
