"""The expansion of operations without an instruction in the instruction set: rules on lowered programs, the same
for all sets.

Masks get the type that the set has for them here, too: one bit a lane, or integers as wide as what was compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from functools import partial

from dojoir.codegen.c.dialect import MASKS
from dojoir.codegen.legal import Legaliser
from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.notation import Body, Expr, select
from dojoir.codegen.lir.program import Binary, Bitcast, Compare, Const, Convert, Reduce, Type, Unary, Value, Var
from dojoir.codegen.lir.walk import mapped, operands, rebuilt, with_blocks
from dojoir.codegen.simd.isa_table import Isa
from dojoir.ir.dtypes import BOOL, DTYPES, DType
from dojoir.support.frozen import dataclass

I32, U8 = DTYPES["i32"], DTYPES["u8"]
_MIRRORED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}
_OPPOSITE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}


def to_instructions(program: lir.Program, isa: Isa) -> lir.Program:
    """The program in operations that `isa` has, as far as the rules go."""
    rules = SimdLegaliser(isa)
    for function in program.functions:
        rules.functions[function.name] = rules.function(function)
    body = rules.block(program.body)
    return replace(program, body=body, functions=tuple(rules.functions.values()))


@dataclass
class SimdLegaliser(Legaliser):
    """The rules for one program. `functions` are those that it calls, `masks` what its mask variables are."""

    isa: Isa
    functions: dict[str, lir.Function] = field(default_factory=dict)
    masks: dict[str, DType] = field(default_factory=dict)

    def function(self, function: lir.Function) -> lir.Function:
        inner = replace(self, masks={})
        lets = tuple(inner.let(let) for let in function.body)
        return replace(function, body=lets, result=inner.value(function.result))

    # -- statements ------------------------------------------------------------------------------------------
    def block(self, body: tuple[lir.Stmt, ...]) -> tuple[lir.Stmt, ...]:
        return tuple(self._statement_by_rules(stmt) for stmt in body)

    def let(self, let: lir.Let) -> lir.Let:
        var, value = self._defined(let.var, let.value)
        return lir.Let(var, value)

    def _defined(self, var: Var, value: Value) -> tuple[Var, Value]:
        new = self.value(value)
        if var.type.lanes > 1 and var.type.dtype == BOOL:
            dtype = self.masks.setdefault(var.name, self._kind(new))
            return Var(Type(dtype, var.type.lanes), var.name), self._as_mask(new, dtype)
        return var, new

    def _statement_by_rules(self, stmt: lir.Stmt) -> lir.Stmt:
        match stmt:
            case lir.Let(var, value) | lir.Declare(var, value) | lir.Assign(var, value):
                return type(stmt)(*self._defined(var, value))
            case lir.Store():
                return self._store(mapped(stmt, self.value))
        return with_blocks(mapped(stmt, self.value), self.block)

    def _store(self, store: lir.Store) -> lir.Store:
        kind = store.value.type
        if kind.lanes > 1 and kind.dtype.kind == "b":
            byte = Type(U8, kind.lanes)
            ones = self.value(lir.Select(store.value, Const(byte, 1), Const(byte, 0)))
            store = replace(store, value=ones)
        if kind.lanes > 1 and store.mask is not None:
            store = replace(store, mask=self._as_mask(store.mask, self._mask_for(store.value.type.dtype)))
        return store

    # -- masks -----------------------------------------------------------------------------------------------
    def _mask_for(self, dtype: DType) -> DType:
        """The type of a mask for lanes of `dtype`."""
        return BOOL if self.isa.mask_bits or self.isa.active else MASKS[dtype.bits]

    def _kind(self, value: Value) -> DType:
        """The type of a mask."""
        return self._mask_for(value.left.type.dtype) if isinstance(value, Compare) else value.type.dtype

    def _as_mask(self, value: Value, dtype: DType) -> Value:
        """A mask as another type of mask."""
        own = self._kind(value)
        if own == dtype or value.type.lanes == 1:
            return value
        kind = Type(dtype, value.type.lanes)
        if isinstance(value, Const):
            return Const(kind, value.value)
        given, wanted = DTYPES[f"i{own.bits}"], DTYPES[f"i{dtype.bits}"]
        numbers = Bitcast(kind.with_dtype(given), value)
        return Bitcast(kind, self.value(Convert(kind.with_dtype(wanted), numbers)))

    # -- values ----------------------------------------------------------------------------------------------
    def value(self, value: Value) -> Value:
        """`value` in operations that the set has."""
        new = rebuilt(value, self.value)
        if isinstance(new, Reduce):
            return self._reduce(new)
        return new if new.type.lanes == 1 else self._vector(new)

    def _vector(self, value: Value) -> Value:
        match value:
            case Var(type, name) if name in self.masks:
                return Var(type.with_dtype(self.masks[name]), name)
            case Const(type, number) if type.dtype == BOOL:
                return Const(type.with_dtype(self._mask_for(U8)), number)
            case lir.Splat(lanes, arg) if arg.type.dtype == BOOL and not (self.isa.mask_bits or self.isa.active):
                return self._vector(
                    Compare("ne", lir.Splat(lanes, Convert(Type(U8), arg)), Const(Type(U8, lanes), 0))
                )
            case Unary():
                return self._unary(value)
            case Binary():
                return self._binary(value)
            case Compare():
                return self._compare(value)
            case lir.Select(condition, yes, no):
                return self._select(condition, yes, no)
            case Convert(type, arg):
                return self._convert(type, arg)
            case lir.Load():
                return self._load(value)
            case lir.Call(type, name, (arg,)) if found := self._native(name, type, arg.type):
                return Unary(type, found, arg)
        return value

    def called(self, name: str, kind: Type, write: Callable[..., Expr], comment: str, *args: Value) -> Value:
        """A call of the function that `write` gives, which the program gets."""
        name = f"{name}_{self.isa.label(args[0].type)}"
        if name not in self.functions:
            body = Body(args[0].type.lanes)
            params = [body.param("ab"[n], arg.type.dtype) for n, arg in enumerate(args)]
            self.functions[name] = self.function(body.function(name, write(body, *params), comment))
        return lir.Call(kind, name, args)

    def _native(self, function: str, type: Type, source: Type) -> str | None:
        """The operation that is a whole function of the program: `f16_to_f32x16` is decode."""
        if function.startswith("f16_to_f32") and self.has("decode", type, source):
            return "decode"
        if function.startswith("f32_to_f16") and self.has("encode", type, source):
            return "encode"
        return None

    def has(self, op: str, kind: Type, source: Type | None = None) -> bool:
        return self.isa.has(op, kind, source)

    # -- arithmetic ------------------------------------------------------------------------------------------
    def _unary(self, value: Unary) -> Value:
        kind, op, arg = value.type, value.op, value.arg
        dtype = kind.dtype
        if dtype.kind == "b":
            return Unary(kind.with_dtype(self._kind(arg)), op, arg)
        if op in ("floor", "ceil", "round") and not self.has(op, kind):
            whole = kind.with_dtype(DTYPES[f"i{dtype.bits}"])
            if self.has(f"whole_{op}", whole, kind):
                return self.called(op, kind, partial(_by_whole, op, whole), f"{op} of a", arg)
        return self._again(value, self.unary(value))

    def _binary(self, value: Binary) -> Value:
        kind, op, left, right = value.type, value.op, value.left, value.right
        if kind.dtype.kind != "b":
            return self._again(value, self.binary(value))
        own = self._kind(right if isinstance(left, Const) else left)
        return Binary(kind.with_dtype(own), op, self._as_mask(left, own), self._as_mask(right, own))

    def _again(self, before: Value, now: Value) -> Value:
        """The rules asked of what they made of a value, too."""
        done = now is before or isinstance(now, lir.Call | Const) or now in operands(before)
        return now if done else self._vector(now)

    def _compare(self, value: Compare) -> Value:
        op, left, right = value.op, value.left, value.right
        kind = left.type
        if kind.dtype.kind == "b":
            return self._compare_flags(op, left, right)
        if self.has(op, kind):
            return value
        mask = kind.with_dtype(self._mask_for(kind.dtype))
        if self.has(_MIRRORED[op], kind):
            return Compare(_MIRRORED[op], right, left)
        unsigned = kind.dtype.kind == "u"
        if unsigned and op not in ("eq", "ne"):
            signed = kind.with_dtype(DTYPES[f"i{kind.dtype.bits}"])
            top = Const(signed, -(1 << (kind.dtype.bits - 1)))
            flipped = [self.value(Binary(signed, "xor", Bitcast(signed, arg), top)) for arg in (left, right)]
            return self._compare(Compare(op, *flipped))
        opposite = _OPPOSITE[op]
        if self.has(opposite, kind) or self.has(_MIRRORED[opposite], kind):
            return Unary(mask, "not", self._compare(Compare(opposite, left, right)))
        return value

    def _compare_flags(self, op: str, left: Value, right: Value) -> Value:
        """A comparison of bools, of which false is the lesser."""
        if op in ("gt", "le"):
            op, left, right = _MIRRORED[op], right, left
        own = self._kind(right if isinstance(left, Const) else left)
        left, right = self._as_mask(left, own), self._as_mask(right, own)
        kind = left.type.with_dtype(own)
        match op:
            case "ne":
                return Binary(kind, "xor", left, right)
            case "eq":
                return Unary(kind, "not", Binary(kind, "xor", left, right))
            case "lt":
                return Binary(kind, "and", Unary(kind, "not", left), right)
            case _:
                return Binary(kind, "or", left, Unary(kind, "not", right))

    def _select(self, condition: Value, yes: Value, no: Value) -> Value:
        kind = yes.type
        if condition.type.lanes == 1:
            if not self.isa.active:
                return lir.Select(condition, yes, no)
            condition = lir.Splat(kind.lanes, condition)  # such vectors have no `? :`
        if kind.dtype.kind == "b":
            own = self._kind(yes)
            yes, no, condition = (self._as_mask(arg, own) for arg in (yes, no, condition))
            type = kind.with_dtype(own)
            both = Binary(type, "and", condition, yes)
            return Binary(type, "or", both, Binary(type, "and", Unary(type, "not", condition), no))
        return lir.Select(self._as_mask(condition, self._mask_for(kind.dtype)), yes, no)

    # -- conversions -----------------------------------------------------------------------------------------
    def _convert(self, to: Type, arg: Value) -> Value:
        source, dtype = arg.type, to.dtype
        if source.dtype == dtype:
            return arg
        if dtype.kind == "b":
            return self._compare(Compare("ne", arg, Const(source, 0)))
        if source.dtype.kind == "b":
            return self._select(arg, Const(to, 1), Const(to, 0))
        if self.has("convert", to, source):
            return Convert(to, arg)
        if source.dtype.is_float and dtype.is_integer:
            return self._from_float(to, arg)
        if source.dtype.is_integer and dtype.is_float:
            as_wide = source.with_dtype(DTYPES[f"i{dtype.bits}"])
            if source.dtype.bits < dtype.bits and self.has("convert", to, as_wide):
                return Convert(to, self._convert(as_wide, arg))
            return Convert(to, arg)
        if source.dtype.is_integer and dtype.is_integer:
            return self._resized(to, arg)
        return Convert(to, arg)

    def _resized(self, to: Type, arg: Value) -> Value:
        """An integer in another width, by steps where there is no way in one."""
        source = arg.type
        if source.dtype.bits == to.dtype.bits:
            return Bitcast(to, arg)
        if to.dtype.bits < source.dtype.bits:
            signs, steps = ("i", "i"), (to.dtype.bits * 2, source.dtype.bits)
        else:
            signs, steps = (source.dtype.kind, source.dtype.kind), (source.dtype.bits * 2, to.dtype.bits)
        given = source.with_dtype(DTYPES[f"{signs[0]}{source.dtype.bits}"])
        wanted = to.with_dtype(DTYPES[f"{signs[1]}{to.dtype.bits}"])
        if given != source:
            arg = Bitcast(given, arg)
        if not self.has("convert", wanted, given) and steps[0] != steps[1]:
            middle = steps[0] if to.dtype.bits > source.dtype.bits else source.dtype.bits // 2
            sign = signs[0] if to.dtype.bits > source.dtype.bits else "i"
            return self._resized(to, self._resized(to.with_dtype(DTYPES[f"{sign}{middle}"]), arg))
        new = Convert(wanted, arg)
        return new if wanted == to else Bitcast(to, new)

    def _from_float(self, to: Type, arg: Value) -> Value:
        """Truncation that saturates, from one that does not."""
        source, dtype = arg.type, to.dtype
        low, high = (0 if dtype.kind == "u" else -(1 << (dtype.bits - 1))), 1 << (dtype.bits - (dtype.kind == "i"))
        ways = ("truncate", "whole_floor")
        if dtype.bits < source.dtype.bits and not any(self.has(way, to, source) for way in ways):
            middle = to.with_dtype(DTYPES[f"i{source.dtype.bits}"])

            def clamped(_: Body, a: Expr) -> Expr:
                whole = a.convert(middle.dtype)
                return select(whole < low, low, select(whole > high - 1, high - 1, whole)).convert(dtype)

            if not any(self.has(way, middle, source) for way in (*ways, "convert")):
                return Convert(to, arg)
            write: Callable[..., Expr] = clamped
        elif any(self.has(way, to, source) for way in ways):

            def saturated(_: Body, a: Expr) -> Expr:
                whole = self._truncated(to, a)
                if dtype.kind == "u":
                    inside = select(a > -1.0, whole, 0)
                else:
                    inside = select(a > float(low), whole, select(a.ne(a), whole.constant(0), low))
                return select(a >= float(high), high - 1, inside)

            write = saturated
        else:
            return Convert(to, arg)
        comment = "a truncated, the nearest number where it does not fit, 0 for NaN"
        return self.called(f"{dtype}_from", to, write, comment, arg)

    def _truncated(self, to: Type, a: Expr) -> Expr:
        """The integer part of what fits, whatever else gives."""
        if self.has("truncate", to, a.type):
            return Expr(Unary(to, "truncate", a.value))
        whole = Expr(Unary(to, "whole_floor", a.abs().value))
        return whole if to.dtype.kind == "u" else select(a < 0.0, -whole, whole)

    # -- memory, across lanes --------------------------------------------------------------------------------
    def _load(self, load: lir.Load) -> Value:
        kind = load.type
        if load.mask is not None:
            load = replace(load, mask=self._as_mask(load.mask, self._mask_for(kind.dtype)))
        if kind.dtype.kind == "b":
            byte = replace(load, type=kind.with_dtype(U8))
            return self._compare(Compare("ne", self._load(byte), Const(byte.type, 0)))
        return load

    def _reduce(self, value: Reduce) -> Value:
        op, arg = value.op, value.arg
        kind = arg.type
        if kind.dtype.kind == "b" and op == "xor":  # masks are only asked for all or any of them
            ones = self._convert(kind.with_dtype(U8), arg)
            return Compare("ne", self._reduce(Reduce(op, ones)), Const(Type(U8), 0))
        if kind.dtype.kind == "b":
            return value
        if op.endswith("_fast") and not kind.dtype.is_float:
            op = op.removesuffix("_fast")
        if self.has(f"reduce_{op}", kind) or kind.lanes % 2:
            return Reduce(op, arg)
        half = Type(kind.dtype, kind.lanes // 2)
        if kind.lanes * kind.dtype.bits <= self.isa.least_bits:
            return Reduce(op, arg)
        if not (self.has("low", half, kind) and self.has("high", half, kind)):
            return Reduce(op, arg)

        def write(body: Body, a: Expr) -> Expr:
            low, high = (body.let(part, Expr(Unary(half, part, a.value))) for part in ("low", "high"))
            return Expr(Reduce(op, Binary(half, op, low.value, high.value)))

        return self.called(f"reduce_{op}", Type(kind.dtype), write, f"all lanes of a: {op}", arg)


def _by_whole(op: str, whole: Type, _: Body, a: Expr) -> Expr:
    """A float rounded by a conversion to an integer, where it has digits behind the point."""
    bits, digits = DTYPES[f"u{a.dtype.bits}"], 2.0**23 if a.dtype.bits == 32 else 2.0**52
    rounded = Expr(Unary(whole, f"whole_{op}", a.value)).convert(a.dtype)
    signed = (rounded.abs().bits(bits) | (a.bits(bits) & (1 << (a.dtype.bits - 1)))).bits(a.dtype)
    return select(a.abs() < digits, signed, a)
