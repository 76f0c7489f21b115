"""Values of a lowered program as expressions of C."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dojoir.codegen.c.precedence import (
    ADD,
    MULTIPLY,
    SUBTRACT,
    Form,
    FunctionCall,
    Infix,
    Precedence,
    Prefix,
    Ternary,
    Text,
)
from dojoir.codegen.c.spelling import BITWISE, Spelling, mask_text
from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.program import FLAG, AddressOf, Binary, Bitcast, Call, Compare, Const, Load, Type, Value
from dojoir.codegen.lir.ranges import Range, fits
from dojoir.codegen.lir.usage import Usage, is_nonnegative, operand_positions
from dojoir.ir.dtypes import BOOL
from dojoir.support.frozen import dataclass

_EXACT = {"add": ADD, "sub": SUBTRACT, "mul": MULTIPLY}
_SIGN_TESTS = {"lt": False, "ge": True}


@dataclass(frozen=True)
class CValues:
    """Prints values. `names` is what variables, buffers and functions are called, `ranges` bounds variables."""

    names: Mapping[str, str]
    usage: Usage
    ranges: Mapping[str, Range]
    spelling: Spelling

    def text(self, value: Value, at_position: bool = False) -> Text:
        """`value` as an expression. `at_position`: it counts elements, so its i64 arithmetic is plain."""
        spelling = self.spelling
        match value:
            case Const(type, number):
                return spelling.const(type, number)
            case lir.Var(_, name):
                return Text(self.names[name])
            case lir.Unary(type, op, arg):
                return spelling.form(op, type).apply(self._typed(arg, type))
            case Binary():
                return self._binary(value, at_position)
            case Compare():
                return self._compare(value, at_position)
            case lir.Select(condition, yes, no):
                operands = (self.text(part, at_position) for part in (condition, yes, no))
                return spelling.form("select", yes.type).apply(*operands)
            case lir.Fma():
                return spelling.form("fma", value.type).apply(*map(self.text, (value.a, value.b, value.c)))
            case lir.Convert(type, arg):
                return self._convert(type, arg)
            case Bitcast(type, arg):
                return spelling.form("bitcast", type, arg.type).apply(self._typed(arg, arg.type))
            case Load():
                return self._load(value)
            case Call(_, function, args):
                return Text(f"{self.names[function]}({', '.join(self.text(arg).text for arg in args)})")
            case AddressOf(buffer):
                return Prefix("(int64_t)(uintptr_t)").apply(Text(self.names[buffer]))
            case lir.Quads(_, buffer, offset):
                return FunctionCall("quad").apply(Text(f"&{self.place(buffer, offset)}", Precedence.UNARY))
            case lir.Splat() | lir.Iota() | lir.Reduce() | lir.Dot():
                raise AssertionError(f"portable C has no vectors, here {value.type}")
        raise AssertionError(f"a CPU has no {value.__class__.__name__}")

    def place(self, buffer: str, offset: Value) -> Text:
        """An element of a buffer."""
        return Text(f"{self.names[buffer]}[{self.text(offset, True)}]")

    def count(self, elements: Value) -> Text:
        """The elements of an array: at least as many as any memory holds, where the number overflows."""
        match elements:
            case Binary(_, "add", left, right):
                return ADD.apply(self.count(left), self.count(right))
            case Binary(_, "mul", left, right):
                return FunctionCall("product").apply(self.count(left), self.count(right))
        return self.text(elements, True)

    def update(self, target: Text, old: Value, value: Value, at_position: bool) -> str | None:
        """`target op= right` where `value` is `old op right` and C has such an assignment; `old` is what the target
        holds."""
        if not (isinstance(value, Binary) and value.left == old and value.op in ("add", "sub", "mul", "div")):
            return None
        value = _tidy(value)
        form = self._form(value, at_position)
        if not isinstance(form, Infix):
            return None
        return f"{target} {form.symbol}= {self.text(value.right, at_position)}"

    def accumulation(self, op: str, type: Type) -> str:
        """The name in a reduction clause for the accumulation of data with `op`."""
        if op in ("max", "min") and type.dtype.is_integer:
            return op  # OpenMP knows these, and a compiler has instructions for their end
        if op == "xor":
            return "^"  # of bools as well, where the operation itself is `!=`
        form = self.spelling.form(op, type)
        return form.symbol if isinstance(form, Infix) else _name(form)

    def _binary(self, value: Binary, at_position: bool) -> Text:
        value = _tidy(value)
        form = self._form(value, at_position)
        if form in BITWISE:
            return form.apply(self._mask(value.left), self._mask(value.right))
        left, right = self.text(value.left, at_position), self.text(value.right, at_position)
        if isinstance(value.right, Const) and value.op in ("shl", "shr", "sar"):
            right = Text(str(value.right.value))
        if isinstance(form, Infix) and left.literal and (right.literal or form.level == Precedence.SHIFT):
            left = self._cast(value.type, left)
        return form.apply(left, right)

    def _form(self, value: Binary, at_position: bool) -> Form:
        if at_position and value.type == lir.INDEX and not value.of_data:
            known = self.usage.nonnegative
            nonnegative = is_nonnegative(value.left, known, True) and is_nonnegative(value.right, known, True)
            if form := self.spelling.position(value.op, nonnegative):
                return form
        if value.op in _EXACT and value.type.dtype.is_integer and fits(value, self.ranges):
            return _EXACT[value.op]
        return self.spelling.form(value.op, value.type)

    def _compare(self, value: Compare, at_position: bool) -> Text:
        (left, inner), (right, _) = operand_positions(value, at_position)
        dtype = left.type.dtype
        if left == right and not dtype.is_float:
            return self.spelling.const(FLAG, value.op in ("eq", "le", "ge"))  # compilers would warn of these
        if dtype.kind == "u" and isinstance(right, Const) and right.value == 0 and value.op in _SIGN_TESTS:
            return self.spelling.const(FLAG, _SIGN_TESTS[value.op])
        form = self.spelling.form(value.op, left.type)
        return form.apply(self.text(left, inner), self.text(right, inner))

    def _convert(self, type: Type, arg: Value) -> Text:
        if type == arg.type:
            return self.text(arg)
        if type.dtype == BOOL:
            return self.text(Compare("ne", arg, Const(arg.type, 0)))
        return self.spelling.form("convert", type, arg.type).apply(self.text(arg))

    def _load(self, load: Load) -> Text:
        element = self.place(load.buffer, load.offset)
        if load.type.dtype == BOOL:
            element = Text(f"{element} != 0", Precedence.EQUALITY)
        if load.mask is None:
            return element
        return Ternary().apply(self.text(load.mask), element, self.spelling.const(load.type, 0))

    def _mask(self, value: Value) -> Text:
        """An operand of a bitwise operation: a constant in hexadecimal, in its own type."""
        if isinstance(value, Const) and value.type.lanes == 1:
            return mask_text(value.type.dtype, int(value.value))
        return self.text(value)

    def _typed(self, value: Value, type: Type) -> Text:
        text = self.text(value)
        return self._cast(type, text) if text.literal else text

    def _cast(self, type: Type, text: Text) -> Text:
        return Prefix(f"({self.spelling.type(type)})").apply(text)


def _name(form: Form) -> str:
    assert isinstance(form, FunctionCall), f"nothing accumulates with {form}"
    return form.name


def _tidy(value: Binary) -> Binary:
    """A sum as a person writes it: `a - 1` for `a + -1`, and of integers `a - 2 * i` for `-2 * i + a`."""
    if value.op not in ("add", "sub"):
        return value
    opposite = "sub" if value.op == "add" else "add"
    if (right := _negated(value.right)) is not None:
        return replace(value, op=opposite, right=right)
    if value.op == "add" and (left := _negated(value.left)) is not None and value.type.dtype.is_integer:
        return replace(value, op="sub", left=value.right, right=left)
    return value


def _negated(value: Value) -> Value | None:
    """The opposite of a negative number, or of an integer multiple by one."""
    match value:
        case Const(type, number) if -(2**62) < number < 0 and number != -(2 ** (type.dtype.bits - 1)):
            return Const(type, -number)
        case Binary(type, "mul", Const() as factor, right) if type.dtype.is_integer:
            opposite = _negated(factor)
            return right if opposite == Const(type, 1) else opposite and replace(value, left=opposite)
    return None
