"""A kernel with a value and a place in the stead of each key of a pair.

Of a key whose value is inexact no bit says how far it may be off. Of a value and a place beside one another the
rules of `runtime/verification/tolerance.py` say it. The value is off by what its terms are, and the place may be
another where rounding may change which value is larger.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace

from dojoir.ir.dtypes import BOOL, I64, DType
from dojoir.ir.expressions import parts
from dojoir.ir.nodes import Access, Buffer, Cast, Const, Expr, Guard, Kernel, Node, Op, Scope, Statement, with_body
from dojoir.ir.operations import OF_KEYS
from dojoir.support.frozen import dataclass
from dojoir.types.elaborate import natural_type
from dojoir.types.identities import neutral

LAST = 2**31 - 1
"""The place in a key that leaves all others alone."""


def keys_apart(kernel: Kernel) -> Kernel:
    """The kernel with the keys apart that are temporaries used as pair reductions use them."""
    if not any(isinstance(p, Op) and p.name in _SIGNS for s in kernel.sites for p in parts(s.statement.value)):
        return kernel
    buffers = {buffer.name: buffer for buffer in kernel.buffers}
    kinds = {b.name: found for b in kernel.buffers if (found := _kind(kernel, b, buffers)) is not None}
    while True:  # a key that others are accumulated into is of their kind
        kept = {name: kind for name, kind in kinds.items() if _goes(kernel, name, kinds)}
        if kept == kinds:
            break
        kinds = kept
    if not kinds:
        return kernel
    writer = _KeysApart(kernel, kinds)
    body = writer.block(kernel.body)
    others = tuple(buffer for buffer in kernel.buffers if buffer.name not in kinds)
    halves = tuple(half for name in kinds for half in writer.halves[name])
    return kernel.evolve(buffers=(*others, *halves, *writer.temporaries), body=body)


_SIGNS = {"argmax_key": ("gt", "max="), "argmin_key": ("lt", "min=")}
"""The comparison by which a key is better than another, and how it is accumulated."""


@dataclass(frozen=True)
class _KeyKind:
    """The kind of the keys in a buffer: their operation, and the type of their values."""

    name: str
    dtype: DType


def _kind(kernel: Kernel, buffer: Buffer, buffers: Mapping[str, Buffer]) -> _KeyKind | None:
    """The kind of the keys in a buffer, where it holds keys of one kind."""
    if buffer.role != "tmp" or buffer.dtype != I64:
        return None
    found: set[_KeyKind] = set()
    for value in (_bare(s.statement.value) for s in kernel.sites if s.statement.target.buffer == buffer.name):
        match value:
            case Op("argmax_key" | "argmin_key" as name, (first, _)):
                dtype = natural_type(first, buffers)
                if dtype is not None:
                    found.add(_KeyKind(name, dtype.compute))
    return found.pop() if len(found) == 1 else None


def _goes(kernel: Kernel, name: str, kinds: Mapping[str, _KeyKind]) -> bool:
    """Whether all that is done with a buffer of keys is what pair reductions do."""
    kind = kinds[name]
    place_of = f"{kind.name[:6]}_of"
    for site in kernel.sites:
        statement, value = site.statement, _bare(site.statement.value)
        if statement.target.buffer == name:
            if statement.op not in ("=", _SIGNS[kind.name][1]):
                return False
            match value:
                case Op(made, _) if made == kind.name:
                    pass
                case Access(source) if kinds.get(source) == kind:
                    pass
                case Const(number) if number == neutral(_SIGNS[kind.name][1], I64):
                    pass
                case _:
                    return False
        elif isinstance(value, Access) and value.buffer == name and kinds.get(statement.target.buffer) != kind:
            return False
        reads = sum(access.buffer == name for access in statement.reads)
        known = sum(
            isinstance(part, Cast)
            and part.way in ("value_of", place_of)
            and isinstance(part.arg, Access)
            and part.arg.buffer == name
            for part in parts(statement.value)
        )
        if reads != known + (isinstance(value, Access) and value.buffer == name):
            return False
    return True


def _bare(value: Expr) -> Expr:
    match value:
        case Op("when", (_, inner)):
            return inner
    return value


@dataclass
class _KeysApart:
    kernel: Kernel
    kinds: Mapping[str, _KeyKind]
    temporaries: list[Buffer] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.taken = {self.kernel.name, *(b.name for b in self.kernel.buffers)}
        self.taken |= {size.name for size in self.kernel.sizes}
        self.halves: dict[str, tuple[Buffer, Buffer]] = {}
        for name, kind in self.kinds.items():
            key = self.kernel.buffer(name)
            value, place = self._free(f"{name}_value"), self._free(f"{name}_place")
            self.halves[name] = replace(key, name=value, dtype=kind.dtype), replace(key, name=place)

    def _free(self, name: str) -> str:
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def _tmp(self, name: str, dtype: DType) -> Access:
        self.temporaries.append(Buffer("tmp", self._free(name), dtype))
        return Access(self.temporaries[-1].name, ())

    def block(self, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        return tuple(made for node in nodes for made in self._node(node))

    def _node(self, node: Node) -> Iterator[Node]:
        match node:
            case Scope() | Guard():
                yield with_body(node, self.block(node.body))
            case Statement(Access(name)) if name in self.kinds:
                yield from self._pair(node)
            case Statement(target, op, value, loc):
                yield Statement(target, op, self._value(value), loc)

    def _pair(self, statement: Statement) -> Iterator[Statement]:
        kind = self.kinds[statement.target.buffer]
        condition = statement.condition
        value, place = self._of(kind, _bare(statement.value))
        holds = None
        if condition is not None:
            holds = self._tmp("holds", BOOL)
            yield Statement(holds, "=", self._value(condition))

        def under(made: Expr) -> Expr:
            return made if holds is None else Op("when", (holds, made))

        first, second = self._both(statement.target)
        if statement.op == "=":
            yield Statement(first, "=", under(value))
            yield Statement(second, "=", under(place))
            return
        sign, op = _SIGNS[kind.name]
        new, at = self._tmp("new", kind.dtype), self._tmp("at", I64)
        yield Statement(new, "=", under(value))
        yield Statement(at, "=", under(place))
        better, tied = Op(sign, (new, first)), Op("eq", (new, first))
        if kind.dtype.is_float:
            is_nan, was_nan = Op("ne", (new, new)), Op("ne", (first, first))
            better = Op("or", (better, Op("and", (is_nan, Op("not", (was_nan,))))))
            tied = Op("or", (tied, Op("and", (is_nan, was_nan))))
        kept = Op("select", (tied, Op("min", (at, second)), second))
        yield Statement(second, "=", under(Op("select", (better, at, kept))))
        yield Statement(first, op, under(new))

    def _of(self, kind: _KeyKind, value: Expr) -> tuple[Expr, Expr]:
        """The value and the place of a key."""
        match value:
            case Op(_, (first, place)):
                return self._value(Cast(kind.dtype, first)), self._value(Cast(I64, place))
            case Access():
                return self._both(value)
        begin = neutral(_SIGNS[kind.name][1], kind.dtype)
        assert begin is not None
        return Const(begin), Const(LAST)

    def _both(self, key: Access) -> tuple[Access, Access]:
        value, place = self.halves[key.buffer]
        return Access(value.name, key.indices), Access(place.name, key.indices)

    def _value(self, value: Expr) -> Expr:
        """A value that reads the halves of keys."""
        match value:
            case Cast(dtype, Access(name) as key, way=way) if way in OF_KEYS and name in self.kinds:
                return Cast(dtype, self._both(key)[way != "value_of"])
            case Cast(dtype, arg, loc, way):
                return Cast(dtype, self._value(arg), loc, way)
            case Op(name, args, loc):
                return Op(name, tuple(map(self._value, args)), loc)
        return value
