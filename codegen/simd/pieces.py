"""Vectors of any number of lanes as vectors that fit the registers of an instruction set.

Statements that share vectors are cut into the same pieces, as wide as a register holds lanes of the widest type
among them. Then each value of each piece is one register, and a conversion goes from one register to another. A
loop over strips, which takes as many lanes as there are, is no longer than one piece. What is left over in fewer
lanes than the smallest register has is computed lane by lane, as scalars.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from dojoir.codegen.c.identifiers import all_names
from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.arith import add, constant_value, integer, mul, spread
from dojoir.codegen.lir.program import Binary, Call, Const, Function, Let, Load, Program, Stmt, Type, Value, Var
from dojoir.codegen.lir.walk import mapped, parts, parts_of, rebuilt, statements, with_blocks
from dojoir.codegen.simd.isa_table import Isa
from dojoir.ir.dtypes import DTYPES
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class VectorPiece:
    """`lanes` lanes from lane `first` on."""

    first: int
    lanes: int


Pieces = tuple[VectorPiece, ...]


def in_pieces(program: Program, isa: Isa) -> Program:
    """The program with no vector wider than a register of `isa`."""
    cutter = _Cutter(program, isa)
    body = cutter.block(program.body)
    return replace(program, body=body, functions=tuple(cutter.functions.values()))


def in_lanes(value: Value, lanes: int, part: Callable[[Value], Value]) -> Value:
    """A value in another number of lanes, in which its operands are what `part` gives."""
    if isinstance(value, Const):
        return Const(Type(value.type.dtype, lanes), value.value)
    new = rebuilt(value, part)
    if isinstance(new, lir.Unary | Binary | lir.Convert | lir.Bitcast | Load | lir.Quads | Call):
        return replace(new, type=Type(new.type.dtype, lanes))
    return new


def retyped(value: Value, lanes: int) -> Value:
    """`value`, which is computed lane by lane, in another number of lanes."""
    match value:
        case Var(type, name):
            return Var(Type(type.dtype, lanes), name)
        case lir.Splat(_, arg):
            return spread(retyped(arg, 1), lanes)
    return in_lanes(value, lanes, lambda operand: retyped(operand, lanes))


def renamed(name: str, lanes: int, isa: Isa) -> str:
    """The name of a function on another number of lanes: `exp_f32x32` is `exp_f32x16`."""
    base = re.sub(r"x\d+$", "", name)
    if lanes == 1:
        return base
    dtype = DTYPES[base.rpartition("_")[2]]
    return base.removesuffix(dtype.name) + isa.label(Type(dtype, lanes))


class _Cutter:
    """Cuts one program. `pieces` gives those of the group of statements that are being cut."""

    def __init__(self, program: Program, isa: Isa) -> None:
        self.isa = isa
        self.given = {function.name: function for function in program.functions}
        self.functions: dict[str, Function] = {}
        self.groups, self.steps = _groups(program, self._widest, self._cut)
        self.taken = set(all_names(replace(program, functions=())))
        self.names: dict[tuple[str, int], str] = {}
        self.pieces: Pieces = ()

    # -- how wide --------------------------------------------------------------------------------------------
    def _widest(self, stmt: Stmt) -> int:
        """The bits of the widest lanes in a statement."""
        widths = [0]
        for part in parts_of(stmt):
            if part.type.lanes > 1:
                widths.append(0 if part.type.dtype.kind == "b" else part.type.dtype.bits)
            if isinstance(part, Load) and part.type.lanes > 1 and self.isa.gathers and _is_apart(part):
                widths.append(64)
            if isinstance(part, Call) and part.type.lanes > 1:
                widths.append(_bits_of(self.given[part.function]))
        if isinstance(stmt, lir.Store) and stmt.value.type.lanes > 1 and self.isa.gathers and _is_apart(stmt):
            widths.append(64)
        return max(widths)

    def _cut(self, bits: int, lanes: int) -> Pieces:
        """The pieces of so many lanes, the widest of which have so many bits."""
        bits = bits or 8
        most, first = self.isa.most_bits // bits, 0
        found: list[VectorPiece] = []
        while first < lanes:
            size = min(most, lanes - first)
            if not self.isa.active:
                size = 1 << (size.bit_length() - 1)
                if size * bits < self.isa.least_bits:
                    size = 1
            found.append(VectorPiece(first, size))
            first += size
        return tuple(found)

    # -- statements ------------------------------------------------------------------------------------------
    def block(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(new for stmt in body for new in self._statement_in_pieces(stmt))

    def _statement_in_pieces(self, stmt: Stmt) -> Iterator[Stmt]:
        outer, self.pieces = self.pieces, self.groups.get(id(stmt), ())
        match stmt:
            case Let(var, value) | lir.Declare(var, value) | lir.Assign(var, value):
                if var.type.lanes == 1:
                    yield type(stmt)(var, self._scalar(value))
                else:
                    for piece in self.pieces:
                        yield type(stmt)(self._var(var, piece), self.piece(value, piece))
            case lir.Store(_, offset, value, stride, mask):
                if value.type.lanes == 1:
                    yield mapped(stmt, self._scalar)
                else:
                    for piece in self.pieces:
                        where, apart = self._where(offset, stride, piece)
                        within = mask and self.piece(mask, piece)
                        yield replace(stmt, offset=where, value=self.piece(value, piece), stride=apart, mask=within)
            case lir.Fail(condition, status) if condition.type.lanes > 1:
                yield lir.Fail(self._scalar(lir.Reduce("or", condition)), status)
            case _:
                new = with_blocks(mapped(stmt, self._scalar), self.block)
                yield replace(new, step=self.steps.get(id(stmt), new.step)) if isinstance(new, lir.For) else new
        self.pieces = outer

    # -- values ----------------------------------------------------------------------------------------------
    def _var(self, var: Var, piece: VectorPiece) -> Var:
        name, number = var.name, self.pieces.index(piece)
        if len(self.pieces) > 1 and (name, number) not in self.names:
            fresh = f"{name}_{number}" if name[-1].isdigit() else f"{name}{number}"
            while fresh in self.taken:
                fresh += "_"
            self.taken.add(fresh)
            self.names[name, number] = fresh
        name = self.names[name, number] if len(self.pieces) > 1 else name
        return Var(Type(var.type.dtype, piece.lanes), name)

    def _scalar(self, value: Value) -> Value:
        """A scalar, with what is combined across lanes in pieces."""
        if isinstance(value, lir.Reduce) and value.arg.type.lanes > 1:
            return self._combined(value.op, [self.piece(value.arg, piece) for piece in self.pieces])
        new = rebuilt(value, self._scalar)
        return replace(new, function=self._function(new.function, 1)) if isinstance(new, Call) else new

    def _combined(self, op: str, given: list[Value]) -> Value:
        """The pieces combined into a scalar: the lower half with the upper half, until one is left."""
        same = len({value.type for value in given}) == 1
        while same and len(given) > 1 and len(given) % 2 == 0:
            half = len(given) // 2
            pairs = zip(given[:half], given[half:], strict=True)
            given = [Binary(low.type, op, low, high) for low, high in pairs]
        total, *rest = (value if value.type.lanes == 1 else lir.Reduce(op, value) for value in given)
        for value in rest:
            total = Binary(total.type, op, total, value)
        return total

    def piece(self, value: Value, piece: VectorPiece) -> Value:
        """The lanes of a piece of a vector."""
        if value.type.lanes == 1:
            return self._scalar(value)
        lanes = piece.lanes
        match value:
            case Var():
                return self._var(value, piece)
            case lir.Splat(_, arg):
                return spread(self._scalar(arg), lanes)
            case lir.Iota(Type(dtype)):
                kind, first = Type(dtype, lanes), Const(Type(dtype, lanes), piece.first)
                iota = lir.Iota(kind)
                return first if lanes == 1 else Binary(kind, "add", iota, first) if piece.first else iota
            case Load(_, _, offset, stride, mask):
                where, apart = self._where(offset, stride, piece)
                kind, within = Type(value.type.dtype, lanes), mask and self.piece(mask, piece)
                return replace(value, type=kind, offset=where, stride=apart, mask=within)
        new = in_lanes(value, lanes, lambda operand: self.piece(operand, piece))
        match new:
            case lir.Quads(offset=offset):
                return replace(new, offset=add(offset, integer(4 * piece.first)))
            case Call(function=function):
                return replace(new, function=self._function(function, lanes))
        return new

    def _where(self, offset: Value, stride: Value | None, piece: VectorPiece) -> tuple[Value, Value | None]:
        """Offset and stride of a piece of an access."""
        if offset.type.lanes > 1:
            return self.piece(offset, piece), None
        offset = self._scalar(offset)
        apart = None if stride is None else self._scalar(stride)
        step = integer(1) if apart is None else apart
        return add(offset, mul(integer(piece.first), step)), None if piece.lanes == 1 else apart

    def _function(self, name: str, lanes: int) -> str:
        """The function on another number of lanes."""
        new = renamed(name, lanes, self.isa)
        if new not in self.functions:
            given = self.given[name]
            params = tuple(Var(Type(var.type.dtype, lanes), var.name) for var in given.params)
            body = tuple(
                Let(Var(Type(let.var.type.dtype, lanes), let.var.name), retyped(let.value, lanes))
                for let in given.body
            )
            self.functions[new] = Function(new, params, body, retyped(given.result, lanes), given.comment)
        return new


def _is_apart(access: Load | lir.Store) -> bool:
    return access.offset.type.lanes > 1 or (access.stride is not None and constant_value(access.stride) != 1)


def _bits_of(function: Function) -> int:
    """The bits of the widest lanes in a function."""
    roots = [let.value for let in function.body] + [function.result]
    return max(part.type.dtype.bits for root in roots for part in parts(root) if part.type.dtype.kind != "b")


def _groups(
    program: Program, widest: Callable[[Stmt], int], cut: Callable[[int, int], Pieces]
) -> tuple[dict[int, Pieces], dict[int, int]]:
    """The pieces of each statement that has vectors, by its identity: the same for all that share a vector, or a
    loop over strips. These have one piece, and the second result is the step of each."""
    parent: dict[object, object] = {}

    def root(key: object) -> object:
        while (above := parent.setdefault(key, key)) != key:
            key = above
        return key

    strips = {
        id(loop): loop for loop in statements(program.body) if isinstance(loop, lir.For) and loop.kind in STRIPS
    }
    around = {id(stmt): key for key, loop in strips.items() for stmt in statements(loop.body)}
    found: list[tuple[Stmt, object, int, int]] = []
    for stmt in statements(program.body):
        vectors = _vectors(stmt)
        lanes = max((part.type.lanes for part in vectors), default=1)
        if lanes > 1:
            names = [part.name for part in vectors if isinstance(part, Var)]
            own: object = around.get(id(stmt), names[0] if names else id(stmt))
            for name in names:
                parent[root(name)] = root(own)
            found.append((stmt, own, lanes, widest(stmt)))
    bits: dict[object, int] = {}
    for _, own, _, width in found:
        bits[root(own)] = max(bits.get(root(own), 0), width)
    single = {root(key) for key in strips}
    groups = {
        id(stmt): cut(bits[root(own)], lanes)[: 1 if root(own) in single else None] for stmt, own, lanes, _ in found
    }
    steps: dict[int, int] = {}
    for key, loop in strips.items():
        (steps[key],) = {groups[id(s)][0].lanes for s in statements(loop.body) if id(s) in groups} or {loop.step}
    return groups, steps


STRIPS = ("strips", "open strips")
"""The kinds of loops that take several iterations at once, as many as the target says."""


def _vectors(stmt: Stmt) -> list[Value]:
    """The values of more than one lane in a statement itself."""
    found = [part for part in parts_of(stmt) if part.type.lanes > 1]
    if isinstance(stmt, Let | lir.Declare | lir.Assign) and stmt.var.type.lanes > 1:
        found.append(stmt.var)
    return found
