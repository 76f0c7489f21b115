"""Kernels on bytes in the place of those with packed buffers, and of those with integers of 4 bits: what is
lowered, and what a call takes.

A read takes its half out of the byte, an assignment puts its code into one half and leaves the other as it is.
Where both halves are assigned, one after the other, the whole byte is stored at once. An i4 that is not packed is
the low half of an i8, with the sign in the high half.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import DTYPES, F32, DType
from dojoir.ir.expressions import Cast, Const, Expr, Index, Op, index_value, make_op, parts
from dojoir.ir.nodes import Access, Buffer, Extent, Guard, Kernel, Node, Scope, Statement
from dojoir.ir.operations import OF_KEYS
from dojoir.ir.packing import at_byte, has_packed, is_even, of_bytes, packed_dim
from dojoir.ir.rewriting.substitution import substitute, substitute_iterators
from dojoir.ir.tree import with_body
from dojoir.support.frozen import dataclass
from dojoir.types.elaborate import natural_type, settled_type

U8 = DTYPES["u8"]
ZERO, ONE, TWO = (Affine.constant(number) for number in range(3))
LOW = Const(0xF)


def in_bytes(kernel: Kernel) -> Kernel:
    """The kernel with a buffer of u8, half as long, for each that is packed, and of i8 or u8 for others of i4 and
    u4; the kernel itself, where there is no such type."""
    if not (has_packed(kernel) or _has_nibbles(kernel)):
        return kernel
    buffers = {buffer.name: buffer for buffer in kernel.buffers}
    body = _ByteWriter(kernel, buffers).block(kernel.body, 0)
    made = kernel.evolve(buffers=tuple(map(byte_buffer, kernel.buffers)), body=body)
    return replace(made, source=kernel.source)


def _unconditional(statement: Statement) -> Statement:
    """A statement without its condition."""
    if statement.condition is None:
        return statement
    assert isinstance(statement.value, Op)
    return replace(statement, value=statement.value.args[1])


def byte_buffer(buffer: Buffer) -> Buffer:
    """The memory representation of a buffer."""
    if buffer.packed:
        return replace(of_bytes(buffer), dtype=U8)
    return replace(buffer, dtype=buffer.dtype.compute) if buffer.dtype.is_nibble else buffer


def _has_nibbles(kernel: Kernel) -> bool:
    return any(buffer.dtype.is_nibble for buffer in kernel.buffers) or any(
        isinstance(part, Cast) and part.dtype.is_nibble
        for site in kernel.sites
        for part in parts(site.statement.value)
    )


@dataclass(frozen=True)
class _ByteWriter:
    kernel: Kernel
    buffers: Mapping[str, Buffer]

    def block(self, nodes: tuple[Node, ...], depth: int) -> tuple[Node, ...]:
        """Nodes inside of `depth` scopes."""
        written: list[Node] = []
        left = list(nodes)
        while left:
            node = left.pop(0)
            pair = self._pair(node, left[0]) if left else None
            if pair is not None:
                left.pop(0)
                written.append(self._byte(*pair))
            else:
                written.append(self._node(node, depth))
        return tuple(written)

    def _node(self, node: Node, depth: int) -> Node:
        match node:
            case Statement():
                return self._statement_in_bytes(node)
            case Guard(_, body):
                return with_body(node, self.block(body, depth))
            case Scope(_, body):
                return self._pairs(node, depth) or with_body(node, self.block(body, depth + 1))

    # -- whole bytes ---------------------------------------------------------------------------------------
    def _pairs(self, scope: Scope, depth: int) -> Node | None:
        """A scope that assigns one half after the other as one that assigns bytes, or as the only byte."""
        match scope:
            case Scope(Extent((extent,)), (Statement() as statement,)) if not {*scope.marks} - {"u"}:
                single = extent == TWO
                first = ZERO if single else 2 * Affine.iterator(depth)
                pair = self._pair(*(_at(statement, depth, index) for index in (first, first + 1)))
                if scope.hints or pair is None or not is_even(extent, self.kernel.facts):
                    return None
                byte = self._byte(*pair)
                return byte if single else replace(scope, extent=Extent((extent // 2,)), body=(byte,))
        return None

    def _pair(self, one: Node, other: Node) -> tuple[Statement, Statement] | None:
        """The statements that assign the even and the odd half of one byte, where two neighbours do so."""
        if not (isinstance(one, Statement) and isinstance(other, Statement)):
            return None
        name = one.target.buffer
        if other.target.buffer != name or not self.buffers[name].packed or name in other.buffers_read:
            return None
        if one.condition != other.condition:  # one that is alike for both is read once: no half is in it
            return None
        even, odd = sorted((one, other), key=lambda statement: self._half(statement.target) != ZERO)
        dim = packed_dim(self.buffers[name])
        both = self._half(even.target) == ZERO and self._half(odd.target) == ONE
        return (even, odd) if both and at_byte(even.target, dim) == at_byte(odd.target, dim) else None

    def _byte(self, even: Statement, odd: Statement) -> Statement:
        """The assignment of both halves."""
        low, high = self._code(_unconditional(even)), make_op("shl", (self._code(_unconditional(odd)), Const(4)))
        byte = make_op("bitor", (low, high))
        value = byte if even.condition is None else Op("when", (self._value(even.condition), byte))
        return Statement(self._to(even.target), "=", value, even.loc)

    # -- halves ----------------------------------------------------------------------------------------------
    def _statement_in_bytes(self, statement: Statement) -> Statement:
        target, condition = statement.target, statement.condition
        buffer = self.buffers[target.buffer]
        if condition is not None:
            done = self._statement_in_bytes(_unconditional(statement))
            return replace(done, value=Op("when", (self._value(condition), done.value)))
        if buffer.packed:
            half, to = self._half(target), self._to(target)
            shift = index_value(4 * half)
            known = Const(0xF0 >> 4 * half.offset) if half.is_constant else None
            kept = make_op("bitand", (to, known or make_op("shr", (Cast(U8, Const(0xF0)), shift))))
            value = make_op("bitor", (kept, make_op("shl", (self._code(statement), shift))))
            return Statement(to, "=", value, statement.loc)
        value = self._value(self._typed(statement))
        return replace(statement, value=_wrapped(buffer.dtype, value) if buffer.dtype.is_nibble else value)

    def _half(self, access: Access) -> Affine:
        """Which half of its byte an element is: 0 or 1."""
        index = access.indices[packed_dim(self.buffers[access.buffer])]
        assert isinstance(index, Affine)
        return index % 2

    def _to(self, access: Access) -> Access:
        return at_byte(access, packed_dim(self.buffers[access.buffer]))

    def _code(self, statement: Statement) -> Expr:
        """The four bits of what a statement assigns, rounded or wrapped as it is stored."""
        dtype, value = self.buffers[statement.target.buffer].dtype, self._value(self._typed(statement))
        if dtype.is_nibble:
            return make_op("bitand", (Cast(U8, value), LOW))
        return Cast(U8, Cast(dtype, value), way="bitcast")

    def _typed(self, statement: Statement) -> Expr:
        """The value of a statement; numbers, sizes and iterators alone are of the type that the text uses."""
        dtype, value = self.buffers[statement.target.buffer].dtype, statement.value
        if dtype.bits > 4 or natural_type(value, self.buffers) is not None:
            return value
        if dtype.is_float:
            return make_op("mul", (value, Cast(F32, Const(1.0))))
        return make_op("add", (value, Cast(dtype.compute, Const(0))))

    # -- values ----------------------------------------------------------------------------------------------
    def _value(self, value: Expr) -> Expr:
        """An expression on bytes. What is of i4 or u4 is of i8 or u8, in the range of the former."""
        match value:
            case Const() | Index():
                return value
            case Access():
                return self._element_in_bytes(value)
            case Op(name, args, loc):
                return Op(name, tuple(map(self._value, args)), loc)
            case Cast(dtype, arg, loc, way):
                source, inner = settled_type(arg, self.buffers), self._value(arg)
                if dtype.is_nibble:
                    return _narrowed(dtype, source, inner, way)
                if way == "bitcast" and source.is_nibble:
                    inner = Cast(U8, inner)
                return Cast(dtype, inner, loc, way)

    def _element_in_bytes(self, access: Access) -> Expr:
        buffer = self.buffers[access.buffer]
        if not buffer.packed:
            return _wrapped(buffer.dtype, access) if buffer.dtype.is_nibble else access
        code = make_op("bitand", (make_op("shr", (self._to(access), index_value(4 * self._half(access)))), LOW))
        return _wrapped(buffer.dtype, code) if buffer.dtype.is_nibble else Cast(buffer.dtype, code, way="bitcast")


def _wrapped(dtype: DType, value: Expr) -> Expr:
    """An integer modulo 16 in the range of i4 or u4."""
    low = make_op("bitand", (Cast(dtype.compute, value), LOW))
    return make_op("sub", (make_op("bitxor", (low, Const(8))), Const(8))) if dtype.kind == "i" else low


def _narrowed(dtype: DType, source: DType, value: Expr, way: str) -> Expr:
    """A number converted to i4 or u4: integers wrap where they are not to saturate, floats saturate."""
    if way == "bitcast":
        return _wrapped(dtype, Cast(U8, value, way="bitcast") if source.is_float else value)
    if way in OF_KEYS:
        return _wrapped(dtype, Cast(dtype.compute, value, way=way))
    if way == "cast" and not source.is_float:
        return _wrapped(dtype, value)
    least, most = (-8, 7) if dtype.kind == "i" else (0, 15)
    return make_op("max", (make_op("min", (Cast(dtype.compute, value, way=way), Const(most))), Const(least)))


def _at(statement: Statement, depth: int, index: Affine) -> Statement:
    """A statement in one iteration of the scope at `depth`."""
    found = substitute(statement, substitute_iterators({depth: index}))
    assert isinstance(found, Statement)
    return found
