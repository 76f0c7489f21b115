"""Vector values as C with intrinsics: the forms come from the table of an instruction set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from dojoir.codegen.c.c_values import CValues
from dojoir.codegen.c.precedence import Precedence, Template, Ternary, Text
from dojoir.codegen.c.spelling import mask_text
from dojoir.codegen.legal import DOTS
from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.arith import constant_value
from dojoir.codegen.lir.program import INDEX, Binary, Call, Const, Convert, Iota, Load, Splat, Type, Unary, Value
from dojoir.codegen.simd import helpers as simd_helpers
from dojoir.codegen.simd.isa_table import Isa
from dojoir.ir.dtypes import DTYPES
from dojoir.support.frozen import dataclass

_COMMUTES = frozenset({"add", "mul", "and", "or", "xor"})


@dataclass(frozen=True)
class VectorValues(CValues):
    """Prints values of one register each. `helpers` takes the functions that the text calls and the set lacks,
    `vl` says which lanes are at work where that is not a constant number."""

    isa: Isa
    helpers: dict[str, str] = field(default_factory=dict)
    vl: str = ""

    def text(self, value: Value, at_position: bool = False) -> Text:
        if isinstance(value, lir.Reduce) and value.arg.type.lanes > 1:
            return self._reduce(value)
        if isinstance(value, Call):
            return self._call(value)
        if value.type.lanes == 1:
            return super().text(value, at_position)
        match value:
            case Const(type, number):
                return self._constant(type, number)
            case lir.Var(_, name):
                return Text(self.names[name])
            case Unary(type, op, arg):
                return self._unary(type, op, arg)
            case Binary():
                return self._vector_binary(value)
            case lir.Compare(op, left, right):
                return self._vector_compare(op, left, right)
            case lir.Select(condition, yes, no):
                if condition.type.lanes == 1:
                    return Ternary().apply(*map(self.text, (condition, yes, no)))
                return self._operation("select", yes.type, condition, yes, no)
            case lir.Fma(a, b, c):
                return self._fma(value.type, a, b, c)
            case lir.Dot(a, b, c, signed):
                return self._operation(DOTS[signed], value.type, a, b, c)
            case lir.Quads(type, buffer, offset, mask):
                word = "quads" if self.isa.has("quads", type) else "load"
                return self._access(word, type, self.pointer(buffer, offset), [], mask, None)
            case Convert(type, arg):
                if self.isa.has("convert", type, arg.type):
                    return self._operation("convert", type, arg, source=arg.type)
                return self._lane_by_lane(f"{type.dtype}_from_{self.isa.label(arg.type)}", Convert(type, arg), arg)
            case lir.Bitcast(type, arg):
                return self._operation("bitcast", type, arg, source=self._kind(arg))
            case Splat(_, arg):
                return self.operation("splat", value.type, self.text(arg))
            case Iota(type):
                return self._iota(type, 0, 1)
            case Load():
                return self._vector_load(value)
        raise AssertionError(f"a value that is no vector: {value}")

    def update(self, target: Text, old: Value, value: Value, at_position: bool) -> str | None:
        return super().update(target, old, value, at_position) if value.type.lanes == 1 else None

    # -- forms -----------------------------------------------------------------------------------------------
    def _active(self, lanes: int) -> str:
        """Which lanes are at work, as operations are told: those of the loop around, else so many."""
        return self.vl or self.isa.find("lanes", Type(DTYPES["bool"], lanes)) or str(lanes)

    def operation(self, op: str, type: Type, *operands: Text, names: Sequence[str] = "abc") -> Text:
        """An operation of the table on operands that are spelled."""
        return self._filled(self.isa.spelled(op, type), type.lanes, operands, names)

    def _filled(self, spelling: str, lanes: int, operands: Sequence[Text], names: Sequence[str] = "abc") -> Text:
        for name, helper in self.isa.helpers.items():
            if name in spelling:
                self.helpers.setdefault(name, helper)
        given = (*operands, Text(self._active(lanes)))
        return Template(spelling, (*names[: len(operands)], self.isa.active)).apply(*given)

    def _operation(self, op: str, type: Type, *args: Value, source: Type | None = None) -> Text:
        """An operation of the table."""
        return self._filled(self.isa.spelled(op, type, source), type.lanes, [self.text(arg) for arg in args])

    def _lane_by_lane(self, name: str, value: Value, *args: Value) -> Text:
        """An operation that the set lacks: a helper does it on scalars. `value` is the operation on `args`."""
        self.helpers.setdefault(name, simd_helpers.lane_by_lane(self.isa, name, value, args))
        operands = [self.text(arg).text for arg in args]
        return Text(f"{name}({', '.join([*operands, *self._given_vl(args[0].type)])})")

    def _given_vl(self, type: Type) -> list[str]:
        return [self._active(type.lanes)] if self.isa.active else []

    # -- constants -------------------------------------------------------------------------------------------
    def _constant(self, type: Type, number: int | float | bool) -> Text:
        if type.dtype.kind == "b":
            return self.operation("true" if number else "false", type)
        if str(number) in ("0", "0.0") and self.isa.has("zero", type):
            return self.operation("zero", type)
        return self.operation("splat", type, self._number(type, number))

    def _number(self, type: Type, number: int | float | bool) -> Text:
        scalar = Type(type.dtype)
        return mask_text(type.dtype, int(number)) if type.dtype.kind == "u" else self.spelling.const(scalar, number)

    def _iota(self, type: Type, first: int, step: int) -> Text:
        """first, first + step, … in the lanes; lanes of the register behind those of the type hold 0."""
        spelling = self.isa.find("iota", type)
        lanes = max(type.lanes, self.isa.least_bits // type.dtype.bits)
        numbers = [str(first + step * lane) if lane < type.lanes else "0" for lane in range(lanes)]
        if spelling is None:
            name = f"lanes_{type}" if (first, step) == (0, 1) else f"lanes_{type}_{first}_{step}"
            self.helpers.setdefault(name, simd_helpers.numbers(self.isa, name, type, numbers))
            return Text(f"{name}()")
        listed = spelling.replace("<list>", ", ".join(numbers)).replace("<reversed>", ", ".join(numbers[::-1]))
        return self._filled(listed, type.lanes, ())

    def _scalar_of(self, value: Value) -> Text | None:
        """The scalar that is in every lane of a vector."""
        match value:
            case Const(type, number) if type.dtype.kind != "b":
                return self._number(type, number)
            case Splat(_, arg):
                return self.text(arg)
        return None

    # -- operations ------------------------------------------------------------------------------------------
    def _unary(self, type: Type, op: str, arg: Value) -> Text:
        if op in ("truncate", "decode", "encode", "low", "high") or op.startswith("whole_"):
            return self._operation(op, type, arg, source=arg.type)
        if self.isa.has(op, type):
            return self._operation(op, type, arg)
        return self._lane_by_lane(f"{op}_{self.isa.label(type)}", Unary(type, op, arg), arg)

    def _vector_binary(self, value: Binary) -> Text:
        type, op, left, right = value.type, value.op, value.left, value.right
        if isinstance(left, Iota) and isinstance(right, Const) and op in ("add", "mul") and not self.isa.active:
            return self._iota(type, *((int(right.value), 1) if op == "add" else (0, int(right.value))))
        if isinstance(right, Const) and self.isa.has(f"{op}_i", type):
            return self.operation(f"{op}_i", type, self.text(left), Text(str(right.value)))
        if self.isa.has(f"{op}_s", type):
            if op in _COMMUTES and isinstance(left, Const | Splat):
                left, right = right, left
            scalar = self._scalar_of(right)
            if scalar is not None:
                return self.operation(f"{op}_s", type, self.text(left), scalar)
        if isinstance(left, Const | Splat) and self.isa.has(f"r{op}_s", type):
            scalar = self._scalar_of(left)
            if scalar is not None:
                return self.operation(f"r{op}_s", type, self.text(right), scalar)
        if self.isa.has(op, type):
            return self._operation(op, type, left, right)
        return self._lane_by_lane(f"{value.op}_{self.isa.label(type)}", value, value.left, value.right)

    def _vector_compare(self, op: str, left: Value, right: Value) -> Text:
        type = left.type
        first = self._first_lanes(op, left, right)
        if first is not None:
            return first
        scalar = self._scalar_of(right)
        if scalar is not None and self.isa.has(f"{op}_s", type):
            return self.operation(f"{op}_s", type, self.text(left), scalar)
        found = self._operation(op, type, left, right)
        if self.isa.mask_bits and type.lanes * type.dtype.bits < self.isa.least_bits:
            return self.operation("trim", Type(DTYPES["bool"], type.lanes), found)
        return found

    def _first_lanes(self, op: str, left: Value, right: Value) -> Text | None:
        """The mask of the first n lanes, or of those behind some that another piece has."""
        mask = Type(DTYPES["bool"], left.type.lanes)
        if op != "lt" or left.type.dtype.name != "u8" or not self.isa.has("first", mask):
            return None
        match left, right:
            case Iota(), Splat(_, Convert(_, count)) if count.type == INDEX:
                return self.operation("first", mask, self.text(count, True), names="n")
            case Binary(_, "add", Iota(), Const(_, skipped)), Splat(_, Convert(_, count)) if count.type == INDEX:
                return self.operation("later", mask, self.text(count, True), Text(str(skipped)), names="na")
        return None

    def _fma(self, type: Type, a: Value, b: Value, c: Value) -> Text:
        if isinstance(a, Const | Splat) and not isinstance(b, Const | Splat):
            a, b = b, a
        scalar = self._scalar_of(b)
        if scalar is not None and self.isa.has("fma_s", type):
            return self.operation("fma_s", type, self.text(a), scalar, self.text(c))
        match a, c:
            case Unary(_, "neg", inner), _ if self.isa.has("fnma", type):
                return self._operation("fnma", type, inner, b, c)
            case _, Unary(_, "neg", inner) if self.isa.has("fms", type):
                return self._operation("fms", type, a, b, inner)
        return self._operation("fma", type, a, b, c)

    def _kind(self, value: Value) -> Type:
        """The type of a value, that of a mask as the set has it."""
        if isinstance(value, lir.Compare):
            return value.type.with_dtype(simd_helpers.mask_of(self.isa, value.left.type.dtype))
        return value.type

    def _call(self, call: Call) -> Text:
        given = [self.text(arg).text for arg in call.args]
        lanes = max([call.type.lanes, *(arg.type.lanes for arg in call.args)])
        vl = self._given_vl(Type(call.type.dtype, lanes)) if lanes > 1 else []
        return Text(f"{self.names[call.function]}({', '.join([*given, *vl])})")

    def _reduce(self, value: lir.Reduce) -> Text:
        op, arg = value.op, value.arg
        kind = arg.type
        if kind.dtype.kind == "b":
            return self.operation({"or": "any", "and": "all"}[op], self._kind(arg), self.text(arg))
        has = self.isa.has(f"reduce_{op}", kind)
        if has and not self.isa.prefix:
            return self.operation(f"reduce_{op}", kind, self.text(arg))
        name = f"reduce_{op}_{self.isa.label(kind)}"
        make = simd_helpers.reduction if has else simd_helpers.across
        self.helpers.setdefault(name, make(self.isa, name, op, kind))
        return Text(f"{name}({', '.join([self.text(arg).text, *self._given_vl(kind)])})")

    # -- memory ----------------------------------------------------------------------------------------------
    def pointer(self, buffer: str, offset: Value) -> Text:
        """The address of an element."""
        if constant_value(offset) == 0:
            return Text(self.names[buffer])
        return Text(f"&{self.place(buffer, offset)}", Precedence.UNARY)

    def _vector_load(self, load: Load) -> Text:
        way, pointer, extra = self._way(load)
        op = {"": "load", "n": "strided", "a": "gather"}[way]
        return self._access(op, load.type, pointer, extra, load.mask, None)

    def keeping_tail(self, var: lir.Var, value: Value) -> Text:
        """A new value for a variable, in the lanes that are at work; the others keep theirs."""
        kind, own = var.type, self.text(var)
        match value:
            case lir.Fma(a, b, c) if c == var:
                a, b = (b, a) if isinstance(a, Const | Splat) else (a, b)
                scalar = self._scalar_of(b)
                if scalar is not None:
                    return self.operation("fma_tail_s", kind, self.text(a), scalar, own)
                return self.operation("fma_tail", kind, self.text(a), self.text(b), own)
            case Binary():
                plain = self.text(value).text
                name, _, operands = plain.partition("(")
                if self.isa.keeping and name.startswith(self.isa.prefix):
                    return Text(f"{name}{self.isa.keeping}({own}, {operands}")
        return self.operation("keep_tail", kind, self.text(value), Text(""), own)

    def store(self, store: lir.Store) -> str:
        """The call that stores a vector."""
        way, pointer, extra = self._way(store)
        op = {"": "store", "n": "strided_store", "a": "scatter"}[way]
        type = store.value.type
        if store.streaming and op == "store" and store.mask is None and self._can_stream(type):
            op = "stream"
        return f"{self._access(op, type, pointer, extra, store.mask, store.value)};"

    def _can_stream(self, type: Type) -> bool:
        return self.isa.has("stream", type) and type.lanes * type.dtype.bits >= self.isa.least_bits

    def _way(self, access: Load | lir.Store) -> tuple[str, Text, list[tuple[str, Text]]]:
        """How the lanes of an access lie: in a row, `n` apart, or at offsets `a`; with the address."""
        if access.offset.type.lanes > 1:
            return "a", Text(self.names[access.buffer]), [("a", self.text(access.offset))]
        pointer = self.pointer(access.buffer, access.offset)
        if access.stride is None or constant_value(access.stride) == 1:
            return "", pointer, []
        type = access.type if isinstance(access, Load) else access.value.type
        op = "gather" if isinstance(access, Load) else "scatter"
        if self.isa.gathers and self.isa.has(op, type):
            steps = Binary(Type(INDEX.dtype, type.lanes), "mul", Iota(Type(INDEX.dtype, type.lanes)),
                           _spread(access.stride, type.lanes))  # fmt: skip
            return "a", pointer, [("a", self.text(steps))]
        return "n", pointer, [("n", self.text(access.stride, True))]

    def _access(
        self,
        op: str,
        type: Type,
        pointer: Text,
        extra: list[tuple[str, Text]],
        mask: Value | None,
        value: Value | None,
    ) -> Text:
        if mask is not None:
            op += "_if"
        given = [("p", pointer), *extra]
        given += [("m", self.text(mask))] if mask is not None else []
        given += [("b" if extra and extra[0][0] == "a" else "a", self.text(value))] if value is not None else []
        spelling = self.isa.find(op, type)
        if spelling is not None:
            return self._filled(spelling, type.lanes, [text for _, text in given], [name for name, _ in given])
        name = f"{op}_{self.isa.label(type)}"
        self.helpers.setdefault(name, simd_helpers.memory(self.isa, name, op, type))
        return Text(f"{name}({', '.join([*(text.text for _, text in given), *self._given_vl(type)])})")


def _spread(value: Value, lanes: int) -> Value:
    match value:
        case Const(type, number):
            return Const(Type(type.dtype, lanes), number)
    return Splat(lanes, value)
