"""Helper functions for what an instruction set lacks: written lane by lane, with the scalars of C."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from dojoir.codegen.c.c_values import CValues
from dojoir.codegen.c.dialect import MASKS
from dojoir.codegen.c.precedence import Template, Text
from dojoir.codegen.c.prelude import C_TYPES
from dojoir.codegen.c.spelling import Spelling
from dojoir.codegen.lir.program import Binary, Convert, Type, Value, Var
from dojoir.codegen.lir.usage import Usage
from dojoir.codegen.lir.walk import rebuilt
from dojoir.codegen.simd.isa_table import Isa
from dojoir.codegen.simd.pieces import retyped
from dojoir.ir.dtypes import BOOL, DTYPES, DType

_NONE = Usage(frozenset(), frozenset(), frozenset())


def mask_of(isa: Isa, dtype: DType) -> DType:
    """The type of a mask for lanes of `dtype`."""
    return BOOL if isa.mask_bits or isa.active else MASKS[dtype.bits]


def lane_by_lane(isa: Isa, name: str, value: Value, args: Sequence[Value]) -> str:
    """A function that applies the operation of `value` to each lane of its arguments `args`."""
    letters = "abc"[: len(args)]
    scalars = [Var(Type(arg.type.dtype), f"{letter}s[i]") for letter, arg in zip(letters, args, strict=True)]
    each, kind = iter(scalars), value.type
    one = rebuilt(value, lambda _: next(each))
    lines = [line for letter, arg in zip(letters, args, strict=True) for line in _spilled(isa, letter, arg.type)]
    lines += [
        f"{C_TYPES[kind.dtype.name]} rs[{_lanes(isa, kind)}];",
        *_loop(isa, kind, f"rs[i] = {_scalar(one, scalars)};"),
        f"return {_filled(isa, 'load', kind, p='rs')};",
    ]
    params = [f"{isa.type_name(arg.type)} {letter}" for letter, arg in zip(letters, args, strict=True)]
    op = name.partition("_")[0] if not isinstance(value, Convert) else f"conversion to {kind.dtype}"
    return _function(isa, f"{op}, lane by lane", isa.type_name(kind), kind, name, params, lines)


def across(isa: Isa, name: str, op: str, kind: Type) -> str:
    """A function that combines all lanes: the lower half with the upper half, until one is left."""
    pair = [Var(Type(kind.dtype), f"as[{at}]") for at in ("i", "i + n")]
    combined = f"as[i] = {_scalar(Binary(Type(kind.dtype), op, pair[0], pair[1]), pair)};"
    lines = list(_spilled(isa, "a", kind))
    if isa.active or kind.lanes & (kind.lanes - 1):
        pair = [Var(Type(kind.dtype), f"as[{at}]") for at in ("0", "i")]
        combined = f"as[0] = {_scalar(Binary(Type(kind.dtype), op, pair[0], pair[1]), pair)};"
        count = "(int)vl" if isa.active else str(kind.lanes)
        lines += [f"for (int i = 1; i < {count}; i++)", f"    {combined}"]
    else:
        lines += [
            f"for (int n = {kind.lanes // 2}; n > 0; n /= 2)",
            "    for (int i = 0; i < n; i++)",
            f"        {combined}",
        ]
    lines.append("return as[0];")
    result = C_TYPES[kind.dtype.name]
    return _function(isa, f"all lanes of a: {op}", result, kind, name, [f"{isa.type_name(kind)} a"], lines)


_REDUCED = {"add": "the sum of the lanes", "max": "the largest lane", "min": "the smallest lane"}


def reduction(isa: Isa, name: str, op: str, kind: Type) -> str:
    """A function around the instructions that combine all lanes, where they are many."""
    nan, _, value = _filled(isa, f"reduce_{op}", kind, a="a").rpartition(" ? NAN : ")
    lines = [f"if ({nan})", "    return NAN;"] if nan else []
    first, _, rest = value.partition(", ")
    lines += [f"return {first},", f"        {rest};"]
    base = op.partition("_")[0]
    remark = _REDUCED.get(base, f"all lanes of a: {base}") + (", NaN if there is one" if nan else "")
    result = C_TYPES[kind.dtype.name]
    return _function(isa, remark, result, kind, name, [f"{isa.type_name(kind)} a"], lines)


def numbers(isa: Isa, name: str, type: Type, listed: Sequence[str]) -> str:
    """A function that gives a vector of these numbers."""
    lines = [
        f"static const {C_TYPES[type.dtype.name]} lanes[] = {{{', '.join(listed)}}};",
        f"return {_filled(isa, 'load', type, p='lanes')};",
    ]
    plain = replace(isa, active="")
    return _function(plain, "the number of each lane", isa.type_name(type), type, name, ["void"], lines)


def memory(isa: Isa, name: str, op: str, type: Type) -> str:
    """A function that loads or stores lanes one by one: `strided`, `gather` and their like, under a mask with
    `_if`."""
    element, vector = C_TYPES[type.dtype.name], isa.type_name(type)
    base = op.removesuffix("_if")
    stores = base in ("store", "strided_store", "scatter")
    params = [f"{'' if stores else 'const '}{element} *p"]
    lines: list[str] = []
    where = {"load": "i", "store": "i", "strided": "i * n", "strided_store": "i * n"}.get(base, "as[i]")
    if base in ("gather", "scatter"):
        offsets = Type(DTYPES["i64"], type.lanes)
        params.append(f"{isa.type_name(offsets)} a")
        lines += _spilled(isa, "a", offsets)
    elif base.startswith("strided"):
        params.append("int64_t n")
    guard = ""
    if op.endswith("_if"):
        mask = Type(mask_of(isa, type.dtype), type.lanes)
        params.append(f"{isa.type_name(mask)} m")
        if isa.mask_bits:
            guard = "m >> i & 1"
        else:
            numbers = Type(DTYPES[f"i{type.dtype.bits}"], type.lanes)
            back = isa.find("bitcast", numbers, mask) or "a"
            lines += [
                f"{C_TYPES[numbers.dtype.name]} ms[{_lanes(isa, type)}];",
                f"{_filled(isa, 'store', numbers, p='ms', a=Template(back).apply(Text('m')).text)};",
            ]
            guard = "ms[i]"
    if stores:
        letter = "b" if base == "scatter" else "a"
        params.append(f"{vector} {letter}")
        lines += _spilled(isa, letter, type)
        body = f"p[{where}] = {letter}s[i];"
        lines += _loop(isa, type, f"if ({guard}) {body}" if guard else body)
        remark = _REMARKS[base] + (", where m says so" if guard else "")
        return _function(isa, remark, "void", type, name, params, lines)
    value = f"p[{where}]"
    lines += [
        f"{element} rs[{_lanes(isa, type)}];",
        *_loop(isa, type, f"rs[i] = {guard} ? {value} : 0;" if guard else f"rs[i] = {value};"),
        f"return {_filled(isa, 'load', type, p='rs')};",
    ]
    remark = _REMARKS[base] + (", 0 where m does not say so" if guard else "")
    return _function(isa, remark, vector, type, name, params, lines)


_REMARKS = {
    "load": "elements from p on",
    "store": "elements from p on",
    "strided": "elements n apart",
    "strided_store": "elements n apart",
    "gather": "elements at offsets a",
    "scatter": "elements at offsets a",
}


def _spilled(isa: Isa, letter: str, type: Type) -> Iterator[str]:
    """The lanes of parameter `letter` in an array."""
    yield f"{C_TYPES[type.dtype.name]} {letter}s[{_lanes(isa, type)}];"
    yield f"{_filled(isa, 'store', type, p=f'{letter}s', a=letter)};"


def _loop(isa: Isa, type: Type, body: str) -> list[str]:
    counter = "size_t" if isa.active else "int"
    return [f"for ({counter} i = 0; i < {_lanes(isa, type)}; i++)", f"    {body}"]


def _lanes(isa: Isa, type: Type) -> str:
    return "vl" if isa.active else str(type.lanes)


def _filled(isa: Isa, op: str, type: Type, **operands: str) -> str:
    return Template(isa.spelled(op, type), tuple(operands)).apply(*map(Text, operands.values())).text


def _scalar(value: Value, variables: Sequence[Var]) -> str:
    names = {var.name: var.name for var in variables}
    return CValues(names, _NONE, {}, Spelling()).text(retyped(value, 1)).text


def _function(
    isa: Isa, remark: str, result: str, kind: Type, name: str, params: Sequence[str], lines: Sequence[str]
) -> str:
    """A function on vectors with as many lanes as `kind`."""
    given = [*params, *([f"{isa.active_type} {isa.active}"] if isa.active else [])]
    count = isa.find("at_work", kind)
    if count is not None and any(re.search(r"\bvl\b", line) for line in lines):
        lines = [f"const size_t vl = {count};", *lines]
    body = "".join(f"    {line}\n" for line in lines)
    return f"// {remark}\nstatic inline {result} {name}({', '.join(given)})\n{{\n{body}}}\n"
