"""Values of a kernel's statements: numbers, elements, iterators, operations; their text, cost and rewriting."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from dojoir.ir.operations import ELEMENTARY
from dojoir.torch.importer.index import Atom, Data, IndexSum, IteratorAtom, render, substitute

FLOATS = ("f64", "f32", "bf16", "f16")
NARROW = frozenset({"bf16", "f16"})
INTEGERS = ("i64", "i32", "i16", "i8", "u8")
EXTREMES: dict[str, tuple[int, int]] = {"i64": (-(2**63), 2**63 - 1), "i32": (-(2**31), 2**31 - 1)} | {
    "i16": (-(2**15), 2**15 - 1), "i8": (-128, 127), "u8": (0, 255), "bool": (0, 1)
}  # fmt: skip
"""The least and the largest number of each type of integers."""
COSTLY = frozenset({*ELEMENTARY, "sqrt", "fmod", "floor_mod", "/", "//", "%"})
_STRENGTH = {
    "or": 1, "and": 2, "not": 3, "<": 4, "<=": 4, ">": 4, ">=": 4, "==": 4, "!=": 4, "|": 5, "^": 6, "&": 7,
    "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "//": 10, "%": 10, "neg": 11, "~": 11,
}  # fmt: skip


@dataclass(frozen=True)
class NumberValue:
    """A number of a type."""

    value: float | int | bool
    dtype: str

    @property
    def key(self) -> str:
        return f"{self.value!r}:{self.dtype}"


@dataclass(frozen=True)
class ElementValue:
    """An element of a buffer."""

    buffer: str
    index: tuple[IndexSum, ...]
    dtype: str

    @cached_property
    def key(self) -> str:
        return f"{self.buffer}[{', '.join(i.key for i in self.index)}]"


@dataclass(frozen=True)
class IndexAsValue:
    """An index as a value."""

    index: IndexSum
    dtype: str

    @property
    def key(self) -> str:
        return f"{self.dtype}({self.index.key})"


@dataclass(frozen=True)
class AppliedValue:
    """An operation of the language on values: an operator by its sign, or a function."""

    name: str
    args: tuple[Value, ...]
    dtype: str

    @cached_property
    def key(self) -> str:
        return f"{self.name}({', '.join(a.key for a in self.args)}):{self.dtype}"


@dataclass(frozen=True)
class CastValue:
    """A value in another type."""

    of: Value
    dtype: str

    @cached_property
    def key(self) -> str:
        return f"{self.dtype}({self.of.key})"


Value: TypeAlias = NumberValue | ElementValue | IndexAsValue | AppliedValue | CastValue


def of_data(atom: Data) -> Value:
    """The value that an index is read from."""
    assert isinstance(atom.value, NumberValue | ElementValue | IndexAsValue | AppliedValue | CastValue)
    return atom.value


def carrier(dtype: str) -> str:
    """The type that sums of elements of a type are carried in: f32 for narrow floats."""
    return "f32" if dtype in NARROW else dtype


def number(value: float | int | bool, dtype: str) -> NumberValue:
    """A number, as the type has it."""
    if dtype == "bool":
        return NumberValue(bool(value), dtype)
    return NumberValue(float(value) if dtype in FLOATS else int(value), dtype)


def cast(value: Value, dtype: str) -> Value:
    """A value in another type; numbers are converted at once."""
    if value.dtype == dtype:
        return value
    if isinstance(value, NumberValue) and not (dtype in INTEGERS and not math.isfinite(value.value)):
        return number(value.value, dtype)
    if isinstance(value, IndexAsValue):
        return (
            IndexAsValue(value.index, dtype)
            if dtype != "bool"
            else AppliedValue("!=", (value, number(0, value.dtype)), "bool")
        )
    if dtype == "bool":
        return AppliedValue("!=", (value, number(0, value.dtype)), "bool")
    if value.dtype == "bool":
        return AppliedValue("select", (value, number(1, dtype), number(0, dtype)), dtype)
    return CastValue(value, dtype)


def apply(name: str, *args: Value, dtype: str | None = None) -> Value:
    """An operation, with what is seen at once: sums with 0, products with 1, choices that are known."""
    kind = args[-1].dtype if dtype is None else dtype
    match name, args:
        case "+", (NumberValue(0), other) | (other, NumberValue(0)):
            return other
        case "-", (other, NumberValue(0)):
            return other
        case "*", (NumberValue(1), other) | (other, NumberValue(1)):
            return other
        case "/", (other, NumberValue(1)):
            return other
        case "*", (NumberValue(a), NumberValue(b)):
            return number(a * b, kind)
        case "+", (NumberValue(a), NumberValue(b)):
            return number(a + b, kind)
        case "-", (NumberValue(a), NumberValue(b)):
            return number(a - b, kind)
        case "/", (other, NumberValue(a)) if kind in FLOATS and a and math.frexp(a)[0] in (0.5, -0.5):
            return apply("*", other, number(1 / a, kind))
        case "neg", (NumberValue(a),):
            return number(-a, kind)
        case "select", (NumberValue(condition), yes, no):
            return yes if condition else no
        case "select", (_, yes, no) if yes == no:
            return yes
        case "select", (condition, NumberValue(True), NumberValue(False)) if kind == "bool":
            return condition
        case "select", (AppliedValue("select", (condition, NumberValue(a), NumberValue(b)), "bool"), yes, no):
            return no if not (a or b) else select(condition, yes if a else no, yes if b else no)
        case "not", (NumberValue(a),):
            return number(not a, "bool")
        case "and", (NumberValue(a), other) | (other, NumberValue(a)):
            return other if a else number(False, "bool")
        case "or", (NumberValue(a), other) | (other, NumberValue(a)):
            return number(True, "bool") if a else other
        case _:
            return AppliedValue(name, args, kind)


def select(condition: Value, yes: Value, no: Value) -> Value:
    """One of two values."""
    return apply("select", condition, yes, no, dtype=yes.dtype)


def compare(name: str, left: Value, right: Value) -> Value:
    """A comparison."""
    if isinstance(left, NumberValue) and isinstance(right, NumberValue):
        a, b = left.value, right.value
        known = {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b, "==": a == b, "!=": a != b}
        return number(known[name], "bool")
    if (
        isinstance(left, IndexAsValue)
        and isinstance(right, IndexAsValue)
        and (left.index - right.index).constant is not None
    ):
        return compare(name, number((left.index - right.index).constant or 0, "i64"), number(0, "i64"))
    return AppliedValue(name, (left, right), "bool")


def operands(value: Value) -> tuple[Value, ...]:
    """The values that an operation or a cast is of, those in indices not among them."""
    match value:
        case AppliedValue(_, args):
            return args
        case CastValue(of):
            return (of,)
        case ElementValue() | IndexAsValue() | NumberValue():
            return ()


def _own_indices(value: Value) -> tuple[IndexSum, ...]:
    match value:
        case ElementValue(_, index):
            return index
        case IndexAsValue(index):
            return (index,)
        case AppliedValue() | CastValue() | NumberValue():
            return ()


def parts(value: Value) -> Iterator[Value]:
    """The value and all in it, also what its indices read."""
    yield value
    for operand in operands(value):
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
        made = again(of_data(atom))
        return made.index if isinstance(made, IndexAsValue) else IndexSum({(Data(made),): 1})

    def again(one: Value) -> Value:
        match one:
            case NumberValue():
                return one
            case ElementValue(buffer, index, dtype):
                return load(ElementValue(buffer, tuple(substitute(i, in_index) for i in index), dtype))
            case IndexAsValue(index, dtype):
                return IndexAsValue(substitute(index, in_index), dtype)
            case AppliedValue(name, args, dtype):
                return AppliedValue(name, tuple(map(again, args)), dtype)
            case CastValue(of, dtype):
                return CastValue(again(of), dtype)

    return again(value)


@dataclass(frozen=True)
class ValueCost:
    """The cost of computing a value: operations, slow operations, elements that are read."""

    operations: int
    costly: int
    reads: int


def _outside_indices(value: Value) -> Iterator[Value]:
    yield value
    for operand in operands(value):
        yield from _outside_indices(operand)


def cost(value: Value) -> ValueCost:
    """Counted over the tree, but for what is in indices."""
    operations = costly = reads = 0
    for part in _outside_indices(value):
        match part:
            case AppliedValue(name):
                operations += 1
                costly += name in COSTLY
            case ElementValue():
                reads += 1
            case _:
                pass
    return ValueCost(operations, costly, reads)


def to_text(value: Value, var: Callable[[IteratorAtom], str]) -> str:
    """The value as the language writes it."""

    def atom(one: Atom) -> str:
        if isinstance(one, IteratorAtom):
            return var(one)
        assert isinstance(one, Data)
        return _text(of_data(one))[0]

    def wrapped(one: Value, least: int) -> str:
        text, strength = _text(one)
        return f"({text})" if strength < least else text

    def bare(one: IndexAsValue | NumberValue) -> str:
        """A comparison of indices, which the checker reads as one."""
        return render(one.index, atom) if isinstance(one, IndexAsValue) else _number(one.value, one.dtype)[0]

    def _text(one: Value) -> tuple[str, int]:
        match one:
            case NumberValue(value, dtype):
                return _number(value, dtype)
            case ElementValue(buffer, index):
                inside = ", ".join(render(i, atom) for i in index)
                return (f"{buffer}[{inside}]" if index else buffer), 12
            case IndexAsValue(index, "bare"):
                return render(index, atom), 9
            case IndexAsValue(index, dtype):
                return f"{dtype}({render(index, atom)})", 12
            case CastValue(of, dtype):
                return f"{dtype}({_text(of)[0]})", 12
            case AppliedValue("neg", (of,)):
                return f"-{wrapped(of, 11)}", 11
            case AppliedValue("not", (of,)):
                return f"not {wrapped(of, 3)}", 3
            case AppliedValue("~", (of,)):
                return f"~{wrapped(of, 11)}", 11
            case AppliedValue(
                name, (IndexAsValue() | NumberValue() as left, IndexAsValue() | NumberValue() as right)
            ) if _STRENGTH.get(name) == 4:
                return f"{bare(left)} {name} {bare(right)}", 4
            case AppliedValue(name, (left, right)) if name in _STRENGTH:
                strength = _STRENGTH[name]
                first = wrapped(left, strength + (strength == 4))
                return f"{first} {name} {wrapped(right, strength + 1)}", strength
            case AppliedValue(name, args):
                return f"{name}({', '.join(_text(a)[0] for a in args)})", 12

    return _text(value)[0]


def _number(value: float | int | bool, dtype: str) -> tuple[str, int]:
    if dtype == "bool":
        return f"bool({int(value)})", 12
    if isinstance(value, float):
        if math.isnan(value):
            return "nan", 12
        if math.isinf(value):
            return ("inf", 12) if value > 0 else ("-inf", 11)
        text = repr(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)
        if value == 0 and math.copysign(1, value) < 0:
            text = "0"
        return text, 11 if value < 0 else 12
    return str(value), 11 if value < 0 else 12
