"""Extremes whose gradient cancels: the maximum that a softmax takes off before `exp`.

Where a value is computed from `x - m` so that another `m` would give the same results, the gradient by `m` is 0,
whatever `m` is: neither it nor the place of the maximum has to be computed. That is seen by degrees. If `m` grows
by `t`, a value of an additive degree `k` grows by `k t`, and one of a degree `k` is multiplied by `exp(k t)`; sums,
products, quotients, `exp` and `log` combine degrees, and the results must have none. All that has a degree in a
statement must come from the same element of `m`.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from fractions import Fraction

from dojoir.ir.affine import Affine
from dojoir.ir.expressions import Access, Cast, Const, Expr, Index, Op
from dojoir.ir.nodes import Kernel, Site, Statement
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class _Degree:
    """How a value changes with `m`: `added` by a multiple of the growth, or multiplied. `is_any` is a number that
    has each degree: 0, or an infinity (of `both` kinds)."""

    added: bool
    by: Fraction
    is_any: bool = False
    both: bool = False
    unit: Expr | None = None
    """A scalar that the growth is multiplied by, as in `exp(scale * (x - m))`."""

    def meets(self, other: _Degree) -> bool:
        if self.is_any or other.is_any:
            free, fixed = (self, other) if self.is_any else (other, self)
            return free.both or not fixed.added or fixed.is_any
        return self == other


def _degree(added: bool, by: Fraction, *of: _Degree) -> _Degree:
    """A degree that is made of others. Raises _Unknown where these have several units."""
    units = {one.unit for one in of if one.by}
    if by == 0:
        return SAME
    if len(units) > 1:
        raise _Unknown
    return _Degree(added, by, unit=next(iter(units), None))


SAME = _Degree(added=False, by=Fraction(0))
ZERO = _Degree(added=False, by=Fraction(0), is_any=True)
INFINITE = _Degree(added=False, by=Fraction(0), is_any=True, both=True)

Place = tuple[Affine, ...]
"""The element of `m` that a value depends on."""


class _Unknown(Exception):
    """A value of no degree."""


def cancels(kernel: Kernel, name: str) -> bool:
    """Whether the results do not depend on the elements of the temporary `name`, once it has its last values."""
    try:
        degrees = _Degrees(kernel, name)
        for _ in range(2):  # what is read before it is written is seen the second time
            for site in kernel.sites:
                degrees.visit(site)
    except _Unknown:
        return False
    return all(buffer.role not in ("out", "inout") or degrees.of(buffer.name) == SAME for buffer in kernel.buffers)


class _Degrees:
    def __init__(self, kernel: Kernel, name: str) -> None:
        self._kernel, self._name = kernel, name
        rank = len(kernel.buffer(name).dims)
        self._found: dict[str, _Degree] = {name: _Degree(added=True, by=Fraction(1))}
        self._places: dict[str, tuple[int | Affine, ...]] = {name: tuple(range(rank))}
        """For each dimension of `m` the dimension of the buffer that is its index, or a constant."""
        self._at: set[Place] = set()

    def of(self, buffer: str) -> _Degree:
        found = self._found.get(buffer, SAME)
        return SAME if found.is_any else found

    def visit(self, site: Site) -> None:
        statement = site.statement
        if statement.target.buffer == self._name:
            return
        self._at.clear()
        made = self._value(statement.value)
        match statement.op:
            case "=" | "+=" | "max=" | "min=":
                pass
            case _ if made != SAME or self.of(statement.target.buffer) != SAME:
                raise _Unknown
        self._join(statement, made)

    def _join(self, statement: Statement, made: _Degree) -> None:
        target = statement.target
        before = self._found.get(target.buffer)
        if statement.op == "+=" and (made.added and made.by):
            raise _Unknown  # how many there are counts
        if before is not None and not before.meets(made):
            raise _Unknown
        if before is None or before.is_any:
            self._found[target.buffer] = made
        if made.is_any or made.by == 0:
            return
        (place,) = self._at
        dims: list[int | Affine] = []
        for index in place:
            if not index.terms:
                dims.append(index)
            elif index in target.indices:
                dims.append(target.indices.index(index))
            else:
                raise _Unknown
        if self._places.setdefault(target.buffer, tuple(dims)) != tuple(dims):
            raise _Unknown

    def _load(self, access: Access) -> _Degree:
        for inside in access.indices:
            if isinstance(inside, Access) and self._load(inside) != SAME:
                raise _Unknown
        degree = self._found.get(access.buffer, SAME)
        if degree.is_any or degree.by == 0:
            return degree
        place: list[Affine] = []
        for dim in self._places[access.buffer]:
            index = access.indices[dim] if isinstance(dim, int) else dim
            if not isinstance(index, Affine):
                raise _Unknown
            place.append(index)
        self._at.add(tuple(place))
        if len(self._at) > 1:
            raise _Unknown
        return degree

    def _value(self, value: Expr) -> _Degree:
        match value:
            case Const(number):
                return ZERO if number == 0 else INFINITE if math.isinf(number) else SAME
            case Index():
                return SAME
            case Access():
                return self._load(value)
            case Cast(dtype, arg):
                made = self._value(arg)
                if not dtype.is_float and made != SAME and not made.is_any:
                    raise _Unknown
                return made
            case Op(name, args):
                return self._op(name, args, [self._value(arg) for arg in args])

    def _op(self, name: str, args: Collection[Expr], made: list[_Degree]) -> _Degree:
        if all(one == SAME or one.is_any for one in made):
            return ZERO if name in ("mul", "neg") and ZERO in made else SAME
        match name, made:
            case "add" | "sub", [left, right] if _is_added(left) and _is_added(right):
                return _degree(True, left.by + (right.by if name == "add" else -right.by), left, right)
            case "add" | "sub" | "max" | "min", [left, right] if left.meets(right):
                return right if left.is_any else left
            case "neg", [one]:
                return _degree(True, -one.by, one) if one.added else one
            case "mul", [left, right] if not left.added and not right.added:
                return _degree(False, left.by + right.by, left, right)
            case "mul", [left, right]:
                return self._scaled(left, right, [*args])
            case "div", [left, right] if not left.added and not right.added:
                return _degree(False, left.by - right.by, left, right)
            case "exp", [one] if one.added:
                return _degree(False, one.by, one)
            case "log", [one] if not one.added:
                return _degree(True, one.by, one)
            case "sqrt", [one] if not one.added:
                return _degree(False, one.by / 2, one)
            case "rsqrt", [one] if not one.added:
                return _degree(False, -one.by / 2, one)
            case "abs", [one] if not one.added:
                return one
            case "eq" | "ne" | "lt" | "le" | "gt" | "ge", [left, right] if left.meets(right):
                return SAME
            case "select", [condition, yes, no] if condition == SAME and yes.meets(no):
                return no if yes.is_any else yes
            case "when", [condition, one] if condition == SAME:
                return one
            case _:
                raise _Unknown

    def _scaled(self, left: _Degree, right: _Degree, args: list[Expr]) -> _Degree:
        """A number, or a scalar that is the same for all, times what is added to."""
        for one, degree, other in ((left, right, args[1]), (right, left, args[0])):
            if not one.added or degree != SAME:
                continue
            if isinstance(other, Const) and math.isfinite(other.value):
                return _degree(True, one.by * Fraction(other.value), one)
            is_scalar = isinstance(other, Access) and not other.indices and self._is_given(other.buffer)
            if is_scalar and one.unit is None:
                return _Degree(added=True, by=one.by, unit=other)
        raise _Unknown

    def _is_given(self, buffer: str) -> bool:
        return self._kernel.buffer(buffer).role == "in"


def _is_added(one: _Degree) -> bool:
    return one.added or (one.by == 0 and not one.is_any) or one == ZERO
