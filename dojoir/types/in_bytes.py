"""Kernels on bytes in the place of those with packed buffers: what is lowered, and what a call takes.

A read takes its half out of the byte, an assignment puts its code into one half and leaves the other as it is.
Where both halves are assigned, one after the other, the whole byte is stored at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import DTYPES, F32
from dojoir.ir.expressions import Cast, Const, Expr, Leaf, index_value, make_op, map_leaves
from dojoir.ir.nodes import Access, Buffer, Extent, Guard, Kernel, Node, Scope, Statement
from dojoir.ir.packing import at_byte, has_packed, is_even, of_bytes, packed_dim
from dojoir.ir.substitution import substitute, substitute_iterators
from dojoir.ir.tree import with_body
from dojoir.support.frozen import dataclass
from dojoir.types.elaborate import natural_type

U8 = DTYPES["u8"]
ZERO, ONE, TWO = (Affine.constant(number) for number in range(3))


def in_bytes(kernel: Kernel) -> Kernel:
    """The kernel with a buffer of u8, half as long, for each that is packed; the kernel itself, where none is."""
    if not has_packed(kernel):
        return kernel
    buffers = {buffer.name: buffer for buffer in kernel.buffers}
    body = _Writer(kernel, buffers).block(kernel.body, 0)
    bytes_ = (replace(of_bytes(b), dtype=U8) if b.packed else b for b in kernel.buffers)
    made = kernel.evolve(buffers=tuple(bytes_), body=body)
    return replace(made, source=kernel.source)


@dataclass(frozen=True)
class _Writer:
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
                return self._statement(node)
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
        even, odd = sorted((one, other), key=lambda statement: self._half(statement.target) != ZERO)
        dim = packed_dim(self.buffers[name])
        both = self._half(even.target) == ZERO and self._half(odd.target) == ONE
        return (even, odd) if both and at_byte(even.target, dim) == at_byte(odd.target, dim) else None

    def _byte(self, even: Statement, odd: Statement) -> Statement:
        """The assignment of both halves."""
        low, high = self._code(even), make_op("shl", (self._code(odd), Const(4)))
        return Statement(self._to(even.target), "=", make_op("bitor", (low, high)), even.loc)

    # -- halves ----------------------------------------------------------------------------------------------
    def _statement(self, statement: Statement) -> Statement:
        target = statement.target
        if not self.buffers[target.buffer].packed:
            return replace(statement, value=self._value(statement.value)) if statement.reads else statement
        half, to = self._half(target), self._to(target)
        shift = index_value(4 * half)
        known = Const(0xF0 >> 4 * half.offset) if half.is_constant else None
        kept = make_op("bitand", (to, known or make_op("shr", (Cast(U8, Const(0xF0)), shift))))
        value = make_op("bitor", (kept, make_op("shl", (self._code(statement), shift))))
        return Statement(to, "=", value, statement.loc)

    def _half(self, access: Access) -> Affine:
        """Which half of its byte an element is: 0 or 1."""
        index = access.indices[packed_dim(self.buffers[access.buffer])]
        assert isinstance(index, Affine)
        return index % 2

    def _to(self, access: Access) -> Access:
        return at_byte(access, packed_dim(self.buffers[access.buffer]))

    def _code(self, statement: Statement) -> Expr:
        """The four bits of what a statement assigns, rounded as it is stored."""
        dtype = self.buffers[statement.target.buffer].dtype
        value = statement.value
        if natural_type(value, self.buffers) is None and dtype.is_float:
            value = make_op("mul", (value, Cast(F32, Const(1.0))))  # which is done in f32, as the text does it
        return Cast(U8, Cast(dtype, self._value(value)), way="bitcast")

    def _value(self, value: Expr) -> Expr:
        def leaf(old: Leaf) -> Expr:
            if not (isinstance(old, Access) and self.buffers[old.buffer].packed):
                return old
            shifted = make_op("shr", (self._to(old), index_value(4 * self._half(old))))
            return Cast(self.buffers[old.buffer].dtype, make_op("bitand", (shifted, Const(0xF))), way="bitcast")

        return map_leaves(value, leaf)


def _at(statement: Statement, depth: int, index: Affine) -> Statement:
    """A statement in one iteration of the scope at `depth`."""
    found = substitute(statement, substitute_iterators({depth: index}))
    assert isinstance(found, Statement)
    return found
