"""Index arithmetic as values: sums and products folded where they are constant, scalars spread over lanes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from dojoir.codegen.lir.program import INDEX, Binary, Compare, Const, Splat, Type, Value, Var
from dojoir.codegen.lir.walk import rebuilt
from dojoir.ir.affine import Affine, Extremum, FloorDiv, Iter, Mod, SizeVar
from dojoir.ir.nodes import Condition, Extent

RELATION = {"==": "eq", "!=": "ne", "<=": "le", ">=": "ge", "<": "lt", ">": "gt"}


def integer(value: int) -> Const:
    """An index."""
    return Const(INDEX, value)


def constant_value(value: Value) -> int | None:
    """The number that an integer value is, where that is known."""
    if isinstance(value, Const) and not isinstance(value.value, float):
        return int(value.value)
    return constant_value(value.arg) if isinstance(value, Splat) else None


def spread(value: Value, lanes: int) -> Value:
    """The value in `lanes` lanes, if it is not there already."""
    if value.type.lanes == lanes:
        return value
    assert value.type.lanes == 1, "a vector of another lane count"
    if isinstance(value, Const):
        return Const(Type(value.type.dtype, lanes), value.value)
    return Splat(lanes, value)


def level(*values: Value) -> tuple[Value, ...]:
    """The values in as many lanes as the widest of them."""
    lanes = max(value.type.lanes for value in values)
    return tuple(spread(value, lanes) for value in values)


def binary(op: str, left: Value, right: Value) -> Value:
    left, right = level(left, right)
    return Binary(left.type, op, left, right)


def add(left: Value, right: Value) -> Value:
    a, b = constant_value(left), constant_value(right)
    if a is not None and b is not None:
        return spread(integer(a + b), max(left.type.lanes, right.type.lanes))
    if a == 0:
        return spread(right, max(left.type.lanes, right.type.lanes))
    if b == 0:
        return spread(left, max(left.type.lanes, right.type.lanes))
    if b is not None and b < 0:
        return binary("sub", left, spread(integer(-b), right.type.lanes))
    return binary("add", left, right)


def sub(left: Value, right: Value) -> Value:
    b = constant_value(right)
    if b is not None:
        return add(left, spread(integer(-b), right.type.lanes))
    return binary("sub", left, right)


def mul(left: Value, right: Value) -> Value:
    lanes = max(left.type.lanes, right.type.lanes)
    a, b = constant_value(left), constant_value(right)
    if a is not None and b is not None:
        return spread(integer(a * b), lanes)
    if 0 in (a, b):
        return spread(integer(0), lanes)
    if a == 1:
        return spread(right, lanes)
    if b == 1:
        return spread(left, lanes)
    return binary("mul", left, right)


def smaller(left: Value, right: Value) -> Value:
    """The smaller of two indices."""
    a, b = constant_value(left), constant_value(right)
    if a is not None and b is not None:
        return integer(min(a, b))
    return binary("min", left, right)


def compare(op: str, left: Value, right: Value) -> Value:
    left, right = level(left, right)
    return Compare(op, left, right)


def both(left: Value | None, right: Value | None) -> Value | None:
    """The conjunction of two conditions, of which None is always true."""
    if left is None or right is None:
        return left if right is None else right
    left, right = level(left, right)
    return Binary(left.type, "and", left, right)


# -- affine expressions ------------------------------------------------------------------------------------
def least(affine: Affine) -> int | None:
    """A lower bound that holds for all sizes (at least 1) and iterators (at least 0), if there is one."""
    total = affine.offset
    for atom, coefficient in affine.terms:
        match atom:
            case SizeVar():
                low, high = 1, None
            case Iter():
                low, high = 0, None
            case FloorDiv(numerator, divisor):
                inner = least(numerator)
                if inner is None:
                    return None
                low, high = inner // divisor, None
            case Mod(_, divisor):
                low, high = 0, divisor - 1
            case Extremum(word, some):
                lows = [bound for part in some if (bound := least(part)) is not None]
                if not lows or (word == "min" and len(lows) < len(some)):
                    return None
                low, high = atom.of(lows), None
        if coefficient > 0:
            total += coefficient * low
        elif high is not None:
            total += coefficient * high
        else:
            return None
    return total


def along(affine: Affine, depth: int) -> tuple[int, bool]:
    """The coefficient of the iterator at `depth`, and whether that is all that depends on it: then the value
    grows by as much from one iteration to the next."""
    coefficient = affine.coefficient(Iter(depth))
    return coefficient, depth not in (affine - Affine.iterator(depth) * coefficient).iterators


def affine_value(affine: Affine, iterators: Sequence[Value]) -> Value:
    """The value of an affine expression, given those of the iterators by depth (scalars or vectors)."""
    total: Value | None = None
    # A positive term first reads better: `N - i`, not `-i + N`.
    for atom, coefficient in sorted(affine.terms, key=lambda term: term[1] < 0):
        match atom:
            case SizeVar(name):
                value: Value = Var(INDEX, name)
            case Iter(depth):
                value = iterators[depth]
            case FloorDiv(numerator, divisor) | Mod(numerator, divisor):
                low = least(numerator)
                small = ("div", "rem") if low is not None and low >= 0 else ("floordiv", "mod")
                value = divide(small[isinstance(atom, Mod)], affine_value(numerator, iterators), divisor)
            case Extremum(word, some):
                value = extremum(word, [affine_value(part, iterators) for part in some])
        if total is None:
            total = mul(integer(coefficient), value)
        elif coefficient < 0:
            total = sub(total, mul(integer(-coefficient), value))
        else:
            total = add(total, mul(integer(coefficient), value))
    return integer(affine.offset) if total is None else add(total, integer(affine.offset))


def extremum(word: str, values: Sequence[Value]) -> Value:
    """The smallest (`min`) or the largest (`max`) of some indices."""
    total = values[0]
    for value in values[1:]:
        a, b = constant_value(total), constant_value(value)
        if a is not None and b is not None:
            total = spread(integer(min(a, b) if word == "min" else max(a, b)), level(total, value)[0].type.lanes)
        else:
            total = binary(word, total, value)
    return total


def divide(op: str, value: Value, divisor: int) -> Value:
    """`value` divided (`div`, `floordiv`) or reduced (`rem`, `mod`) by a positive constant."""
    number = constant_value(value)
    if number is not None:
        quotient = number % divisor if op in ("rem", "mod") else number // divisor
        return spread(integer(quotient), value.type.lanes)
    return binary(op, value, integer(divisor))


def extent_value(extent: Extent, iterators: Sequence[Value]) -> Value:
    """How often a scope runs, not at all if that is 0 or less."""
    return reduce(smaller, (affine_value(bound, iterators) for bound in extent.bounds))


def condition_value(condition: Condition, iterators: Sequence[Value]) -> Value:
    left = affine_value(condition.left, iterators)
    right = affine_value(condition.right, iterators)
    return compare(RELATION[condition.relation], left, right)


def folded(value: Value) -> Value:
    """An index, computed where its operands are known."""
    if isinstance(value, Binary) and value.type == INDEX:
        left, right = constant_value(value.left), constant_value(value.right)
        match value.op:
            case "add":
                return add(value.left, value.right)
            case "sub":
                return sub(value.left, value.right)
            case "mul":
                return mul(value.left, value.right)
            case "div" | "rem" | "floordiv" | "mod" if left is not None and right is not None:
                return divide(value.op, value.left, right)
    return value


def substituted(value: Value, known: Mapping[str, Value]) -> Value:
    """A value with others for some variables, its indices computed where their operands are known then."""
    if isinstance(value, Var):
        return known.get(value.name, value)
    return folded(rebuilt(value, lambda part: substituted(part, known)))
