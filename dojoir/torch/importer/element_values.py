"""Values of an imported program: typed expressions (`dojoir.types.typed`), with two leaves of their own.

Both leaves have indices that are polynomials (`importer.index`). A view of a tensor multiplies sizes, and no affine
value of the IR does before the grammar has taken such products apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from dojoir.ir.dtypes import BF16, BOOL, F16, F32, F64, I32, I64, DType
from dojoir.ir.format import operation_text
from dojoir.ir.operations import ATOM, ELEMENTARY, INFIX, OPERATIONS, PREFIX, SIGN, Class
from dojoir.torch.importer.index import Atom, Data, IndexSum, IteratorAtom, of_atom, render, substitute
from dojoir.types.identities import neutral
from dojoir.types.typed import Apply, Convert, Number, TypedOver
from dojoir.types.typed_parts import typed_operands, typed_parts

__all__ = (
    "BF16", "BOOL", "COSTLY", "F16", "F32", "F64", "I32", "I64", "NARROW", "Apply", "Convert", "DType",
    "ElementValue", "IndexAsValue", "Number", "Value", "ValueCost", "apply", "cast", "compare", "cost", "data",
    "indices", "lowest", "number", "of_data", "parts", "rewrite", "select", "to_text",
)  # fmt: skip
"""The names that operators make values of; those of the IR are among them."""

NARROW = frozenset({BF16, F16})
COSTLY = frozenset({*ELEMENTARY, "sqrt", "fmod", "floor_mod", "div", "floordiv", "mod"})


@dataclass(frozen=True)
class ElementValue:
    """An element of a buffer."""

    buffer: str
    index: tuple[IndexSum, ...]
    dtype: DType


@dataclass(frozen=True)
class IndexAsValue:
    """An index as a value."""

    index: IndexSum
    dtype: DType


Value: TypeAlias = TypedOver[ElementValue | IndexAsValue]


def data(value: Value) -> IndexSum:
    """The index that a value is."""
    return value.index if isinstance(value, IndexAsValue) else of_atom(Data(value, _key(value)))


def _key(value: Value) -> str:
    """A text that equal values have, and no others."""
    match value:
        case Number(dtype, known):
            return f"{known!r}:{dtype}"
        case ElementValue(buffer, index):
            return f"{buffer}[{', '.join(i.key for i in index)}]"
        case IndexAsValue(index, dtype):
            return f"{dtype}({index.key})"
        case Apply(dtype, name, args):
            return f"{OPERATIONS[name].symbol or name}({', '.join(map(_key, args))}):{dtype}"
        case Convert(dtype, arg):
            return f"{dtype}({_key(arg)})"


def of_data(atom: Data) -> Value:
    """The value that an index is read from."""
    assert isinstance(atom.value, Number | ElementValue | IndexAsValue | Apply | Convert)
    return atom.value


def lowest(dtype: DType, op: str) -> float | int:
    """The initial value of an extreme: of `max=` the least number of a type."""
    begin = int(op == "min=") if dtype == BOOL else neutral(op, dtype)
    assert begin is not None
    return begin


def number(value: float | int | bool, dtype: DType) -> Number:
    """A number, as the type has it."""
    if dtype == BOOL:
        return Number(dtype, bool(value))
    return Number(dtype, float(value) if dtype.is_float else int(value))


def cast(value: Value, dtype: DType) -> Value:
    """A value in another type; numbers are converted at once."""
    if value.dtype == dtype:
        return value
    if isinstance(value, Number) and not (dtype.is_integer and not math.isfinite(value.value)):
        return number(value.value, dtype)
    if dtype == BOOL:
        return Apply(BOOL, "ne", (value, number(0, value.dtype)))
    if isinstance(value, IndexAsValue):
        return IndexAsValue(value.index, dtype)
    if value.dtype == BOOL:
        return Apply(dtype, "select", (value, number(1, dtype), number(0, dtype)))
    return Convert(dtype, value)


def apply(sign: str, *args: Value, dtype: DType | None = None) -> Value:
    """An operation by its name or its sign, with what is seen at once: sums with 0, products with 1, choices that
    are known."""
    kind = args[-1].dtype if dtype is None else dtype
    name = sign if sign in OPERATIONS else INFIX.get(sign) or PREFIX[sign]
    match name, args:
        case "add", (Number(_, 0), other) | (other, Number(_, 0)):
            return other
        case "sub", (other, Number(_, 0)):
            return other
        case "mul", (Number(_, 1), other) | (other, Number(_, 1)):
            return other
        case "div", (other, Number(_, 1)):
            return other
        case "mul", (Number(_, a), Number(_, b)):
            return number(a * b, kind)
        case "add", (Number(_, a), Number(_, b)):
            return number(a + b, kind)
        case "sub", (Number(_, a), Number(_, b)):
            return number(a - b, kind)
        case "div", (other, Number(_, a)) if kind.is_float and a and math.frexp(a)[0] in (0.5, -0.5):
            return apply("mul", other, number(1 / a, kind))
        case "neg", (Number(_, a),):
            return number(-a, kind)
        case "select", (Number(_, condition), yes, no):
            return yes if condition else no
        case "select", (_, yes, no) if yes == no:
            return yes
        case "select", (condition, Number(_, True), Number(_, False)) if kind == BOOL:
            return condition
        case "select", (Apply(_, "select", (condition, Number(_, a), Number(_, b))), yes, no):
            return no if not (a or b) else select(condition, yes if a else no, yes if b else no)
        case "not", (Number(_, a),):
            return number(not a, BOOL)
        case "and", (Number(_, a), other) | (other, Number(_, a)):
            return other if a else number(False, BOOL)
        case "or", (Number(_, a), other) | (other, Number(_, a)):
            return number(True, BOOL) if a else other
        case _:
            return Apply(kind, name, args)


def select(condition: Value, yes: Value, no: Value) -> Value:
    """One of two values."""
    return apply("select", condition, yes, no, dtype=yes.dtype)


def compare(sign: str, left: Value, right: Value) -> Value:
    """A comparison by its sign."""
    if isinstance(left, Number) and isinstance(right, Number):
        a, b = left.value, right.value
        known = {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b, "==": a == b, "!=": a != b}
        return number(known[sign], BOOL)
    if (
        isinstance(left, IndexAsValue)
        and isinstance(right, IndexAsValue)
        and (left.index - right.index).constant is not None
    ):
        return compare(sign, number((left.index - right.index).constant or 0, I64), number(0, I64))
    return Apply(BOOL, INFIX[sign], (left, right))


def _own_indices(value: Value) -> tuple[IndexSum, ...]:
    match value:
        case ElementValue(_, index):
            return index
        case IndexAsValue(index):
            return (index,)
        case Apply() | Convert() | Number():
            return ()


def parts(value: Value) -> Iterator[Value]:
    """The value and all in it, also what its indices read."""
    yield value
    inside: tuple[Value, ...] = typed_operands(value)
    for operand in inside:
        yield from parts(operand)
    for index in _own_indices(value):
        for atom in index.atoms:
            if isinstance(atom, Data):
                yield from parts(of_data(atom))


def indices(value: Value) -> Iterator[IndexSum]:
    """All indices in a value."""
    return (index for part in parts(value) for index in _own_indices(part))


def rewrite(value: Value, var: Callable[[IteratorAtom], IndexSum], load: Callable[[ElementValue], Value]) -> Value:
    """The value with other iterators and, after that, with other elements."""

    def in_index(atom: IteratorAtom | Data) -> IndexSum:
        if isinstance(atom, IteratorAtom):
            return var(atom)
        return data(again(of_data(atom)))

    def again(one: Value) -> Value:
        match one:
            case Number():
                return one
            case ElementValue(buffer, index, dtype):
                return load(ElementValue(buffer, tuple(substitute(i, in_index) for i in index), dtype))
            case IndexAsValue(index, dtype):
                return IndexAsValue(substitute(index, in_index), dtype)
            case Apply(dtype, name, args):
                return Apply(dtype, name, tuple(map(again, args)))
            case Convert(dtype, arg):
                return Convert(dtype, again(arg))

    return again(value)


@dataclass(frozen=True)
class ValueCost:
    """The cost of computing a value: operations, slow operations, elements that are read."""

    operations: int
    costly: int
    reads: int


def cost(value: Value) -> ValueCost:
    """Counted over the tree, but for what is in indices."""
    operations = costly = reads = 0
    for part in typed_parts(value):
        match part:
            case Apply(_, name):
                operations += 1
                costly += name in COSTLY
            case ElementValue():
                reads += 1
            case _:
                pass
    return ValueCost(operations, costly, reads)


def to_text(value: Value, var: Callable[[IteratorAtom], str], is_bare: bool = False) -> str:
    """The value as the language writes it; where `is_bare`, an index as it is, without its type."""

    def atom(one: Atom) -> str:
        if isinstance(one, IteratorAtom):
            return var(one)
        assert isinstance(one, Data)
        return text(of_data(one))[0]

    def applied(name: str, args: tuple[Value, ...]) -> tuple[str, int]:
        # The checker reads a comparison of indices as one.
        plain = all(isinstance(arg, IndexAsValue | Number) for arg in args)
        bare = plain and OPERATIONS[name].kind is Class.COMPARISON

        def operand(n: int, tightest: int) -> str:
            inner, precedence = text(args[n], bare)
            return f"({inner})" if precedence < tightest and not bare else inner

        return operation_text(name, operand)

    def text(one: Value, bare: bool = False) -> tuple[str, int]:
        match one:
            case Number(dtype, value):
                return _number(value, dtype)
            case ElementValue(buffer, index):
                inside = ", ".join(render(i, atom) for i in index)
                return (f"{buffer}[{inside}]" if index else buffer), ATOM
            case IndexAsValue(index, dtype):
                return render(index, atom) if bare else f"{dtype}({render(index, atom)})", ATOM
            case Convert(dtype, arg):
                return f"{dtype}({text(arg)[0]})", ATOM
            case Apply(_, name, args):
                return applied(name, args)

    return text(value, is_bare)[0]


def _number(value: float | int | bool, dtype: DType) -> tuple[str, int]:
    if dtype == BOOL:
        return f"bool({int(value)})", ATOM
    if isinstance(value, float):
        if math.isnan(value):
            return "nan", ATOM
        if math.isinf(value):
            return ("inf", ATOM) if value > 0 else ("-inf", SIGN)
        text = repr(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)
        if value == 0 and math.copysign(1, value) < 0:
            text = "0"
        return text, SIGN if value < 0 else ATOM
    return str(value), SIGN if value < 0 else ATOM
