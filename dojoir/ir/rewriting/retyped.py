"""A kernel for another floating-point type of its arguments."""

from __future__ import annotations

from dataclasses import replace

from dojoir.errors import ArgumentError, did_you_mean, repr_of
from dojoir.ir.buffer import Buffer
from dojoir.ir.dtypes import DTYPES, F64, DType
from dojoir.ir.expressions import Cast, Expr, Leaf, Op
from dojoir.ir.tree import Node, Statement, with_body

WIDE = ("f64", "f32", "f16", "bf16")
"""The types that arguments may change to and from."""


def retyped(
    buffers: tuple[Buffer, ...], body: tuple[Node, ...], dtype: object
) -> tuple[tuple[Buffer, ...], tuple[Node, ...]]:
    """The buffers and the body of a kernel as `Kernel.with_dtype` makes them; the same objects where nothing
    changes."""
    if not isinstance(dtype, str) or dtype not in WIDE:
        said = f"'{dtype}'{did_you_mean(dtype, WIDE)}" if isinstance(dtype, str) else repr_of(dtype)
        raise ArgumentError(f"arguments may be of {', '.join(WIDE[:-1])} or {WIDE[-1]}, not {said}", "bad-dtype")
    new, old = DTYPES[dtype], _main_type(buffers)
    if old is None or new == old:
        return buffers, body
    if F64 in (old, new):
        body = tuple(_retyped_node(node, old.compute, new.compute) for node in body)
    return tuple(_buffer(buffer, old, new) for buffer in buffers), body


def _main_type(buffers: tuple[Buffer, ...]) -> DType | None:
    """The type of the first floating-point array that a kernel takes, else of the first that it gives; None where
    there is none."""
    found = [b for b in buffers if b.role != "tmp" and b.dtype.name in WIDE]
    found.sort(key=lambda b: (not b.dims, b.role == "out"))
    return found[0].dtype if found else None


def _buffer(buffer: Buffer, old: DType, new: DType) -> Buffer:
    if buffer.dtype.name not in WIDE:
        return buffer
    if buffer.role == "tmp":
        wider = buffer.dtype.bits > old.compute.bits
        return buffer if wider else replace(buffer, dtype=new.compute)
    if buffer.dtype != old:
        return buffer
    return replace(buffer, dtype=new.compute if buffer.role == "in" and not buffer.dims else new)


def _retyped_node(node: Node, old: DType, new: DType) -> Node:
    """With casts to the type that is computed in changed as well."""
    if isinstance(node, Statement):
        value = _expr(node.value, old, new)
        return node if value is node.value else node.made_of(node.target, value, node.loc)
    return with_body(node, tuple(_retyped_node(child, old, new) for child in node.body))


def _expr(expr: Expr | Leaf, old: DType, new: DType) -> Expr:
    match expr:
        case Op(name, args, loc):
            return Op(name, tuple(_expr(arg, old, new) for arg in args), loc)
        case Cast(dtype, arg, loc, "cast") if dtype == old:
            return Cast(new, _expr(arg, old, new), loc)
        case Cast(dtype, arg, loc, way):
            return Cast(dtype, _expr(arg, old, new), loc, way)
    return expr
