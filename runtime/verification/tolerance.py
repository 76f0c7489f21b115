"""How far a right result may be from the exact one: a second kernel that computes, beside every float, a bound.

`bounded(kernel)` is the kernel in f64 with a new buffer beside each one that rounding can reach. It holds a bound
of the error that any correct execution in the declared types may have there: for every operation the rounding of
its result, and what the errors of its operands become. This is running error analysis (J. H. Wilkinson,
"Error analysis revisited", 1986; N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed. 2002,
sections 3.3 and 4.2) written out as statements. A sum of n terms in the order of the text is off by at most about
`n u sum |term|`: each accumulation adds `u` times the sum of magnitudes so far, which is kept as well. Where the
order is free less is allowed, as `sums` says.

All of it comes from the reference and its inputs, nothing from what is tested. Where rounding decides a
comparison, a selection, a floor or an index, the bound is the whole difference that this can make.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from dojoir.ir.dtypes import BOOL, F64, DType
from dojoir.ir.nodes import (
    Access,
    Buffer,
    Cast,
    Const,
    Expr,
    Guard,
    Index,
    Kernel,
    Node,
    Op,
    Scope,
    Statement,
    index_value,
)
from dojoir.ir.operations import ACCUMULATIONS, ELEMENTARY
from dojoir.runtime.verification import strays
from dojoir.runtime.verification.beside import BoundBuffers, beside, free_name
from dojoir.runtime.verification.by_name import by_name
from dojoir.runtime.verification.comparison_rules import rounds_to_codes
from dojoir.runtime.verification.discrete import converted, doubt
from dojoir.runtime.verification.propagation import (
    INFINITE,
    ONE,
    ZERO,
    Bound,
    anything_if,
    coarser,
    error_sum,
    is_exact,
    is_whole,
    magnitude,
    of_either,
    of_extreme,
    of_function,
    of_multiple,
    of_product,
    of_quotient,
    of_step,
    of_two,
    op,
    roundoff,
)
from dojoir.runtime.verification.slack import slack_of
from dojoir.runtime.verification.sums import finite, in_parts_off, is_in_parts, weight, written_out
from dojoir.support.frozen import dataclass
from dojoir.types.elaborate import check
from dojoir.types.keys_apart import keys_apart
from dojoir.types.rounding import FORMATS
from dojoir.types.typed import Apply, Convert, IndexValue, Load, Number, Typed, TypedStatement

FUNCTION_ROUNDINGS = {"asin": 5, "erfc": 8}
"""Roundings that a call counts for; 4 of exp and the like, which are within 2 ulp: up to 4 units of roundoff."""

FLUSHED = 2.0**-126
"""Under `fp fast`, smaller numbers of f32 and bf16 may be taken for zero, as some instructions do with operands
and sums."""

_ASSIGNMENT: dict[str | None, str] = {None: "=", **{name: spelled for spelled, name in ACCUMULATIONS.items()}}


@dataclass(frozen=True)
class Bounded:
    """`kernel` computes what the original does, in f64, and bounds. `errors` names the buffer with the bounds of
    an argument, for those that rounding can reach. `sums` names, for an `inout` that is accumulated into, the
    buffer that must come in with the magnitudes of its elements. The bounds of an `inout`, and what is counted of
    its terms (`zeros`), come in as zeros."""

    kernel: Kernel
    errors: Mapping[str, str]
    sums: Mapping[str, str]
    zeros: Mapping[str, tuple[str, ...]]


def bounded(kernel: Kernel) -> Bounded:
    """The kernel with bounds. It must be well typed; its marks and what it says of storage are dropped."""
    kernel = keys_apart(kernel)
    typed = check(kernel)
    running = {t.target.buffer for t in typed if written_out(kernel, t) is not None}
    summed = {t.target.buffer for t in typed if t.op == "add" and t.dtype.is_float}
    in_parts = {name for name in summed - running if is_in_parts(kernel, name)}
    names = BoundBuffers(
        kernel, {}, beside(kernel, summed | running, "sum"), beside(kernel, in_parts, "count"),
        beside(kernel, in_parts, "order"), {},
    )  # fmt: skip
    while True:
        astray = {t.target.buffer for t in typed if _Lines(names).place(t.target) is not None}
        reached = astray | {t.target.buffer for t in typed if _Lines(names).is_reached(t)}
        if reached <= names.errors.keys() and astray <= names.strays.keys():
            return _written(kernel, typed, names)
        errors = beside(kernel, reached | names.errors.keys(), "error")
        names = replace(names, errors=errors, strays=beside(kernel, astray, "stray"))


# -- the kernel --------------------------------------------------------------------------------------------
def _written(kernel: Kernel, typed: tuple[TypedStatement, ...], names: BoundBuffers) -> Bounded:
    lines = _Lines(names)
    statements = iter(typed)

    def visit(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        written: list[Node] = []
        for node in nodes:
            match node:
                case Statement():
                    written.extend(lines.around(next(statements)))
                case Scope(extent, body):
                    written.append(Scope(extent, visit(body)))
                case Guard(conditions, body):
                    written.append(Guard(conditions, visit(body)))
        return tuple(written)

    body = (*strays.begun(names.strays), *visit(kernel.body), *strays.ended(names, kernel.buffers))
    buffers = [Buffer("tmp", stray, F64) for stray in names.strays.values()]
    for buffer in kernel.buffers:
        plain = Buffer(buffer.role, buffer.name, F64 if buffer.dtype.is_float else buffer.dtype, buffer.dims)
        buffers.append(plain)
        if buffer.name in names.errors:
            buffers.append(replace(plain, name=names.errors[buffer.name], dtype=F64))
        for others in (names.sums, names.counts, names.orders):
            if buffer.name in others:
                role = "inout" if buffer.role == "inout" else "tmp"
                buffers.append(replace(plain, name=others[buffer.name], role=role))
    roles = {buffer.name: buffer.role for buffer in kernel.buffers}
    return Bounded(
        Kernel(kernel.name, kernel.sizes, (*buffers, *lines.temporaries), body, kernel.facts),
        {name: error for name, error in names.errors.items() if roles[name] != "tmp"},
        {name: total for name, total in names.sums.items() if roles[name] == "inout"},
        {name: (x, names.orders[name]) for name, x in names.counts.items() if roles[name] == "inout"},
    )


# -- statements --------------------------------------------------------------------------------------------
@dataclass
class _Lines:
    """Writes the statements for one statement after the other. An operand that a bound uses again is computed
    once, into a temporary without dimensions."""

    names: BoundBuffers
    temporaries: list[Buffer] = field(default_factory=list)
    lines: list[Statement] = field(default_factory=list)

    def is_reached(self, typed: TypedStatement) -> bool:
        """Whether rounding makes a difference to what a statement stores."""
        _, bound = self.compute(typed.value)
        rounds = typed.op in ("add", "mul") or typed.value.dtype != typed.dtype
        doubt = None if typed.condition is None else self.compute(typed.condition)[1]
        return bound is not None or doubt is not None or (typed.dtype.is_float and rounds)

    def around(self, typed: TypedStatement) -> list[Statement]:
        """The statement in f64, with those before and after it that bound its error. Where rounding may change
        whether it runs, its element may be any."""
        if typed.condition is None:
            return [*self._strayed(typed), *self._around(typed)]
        self.lines = []
        holds, doubt = self.compute(typed.condition)
        asked, before = self._named(holds, BOOL), self.lines
        bare = [*self._strayed(always := replace(typed, condition=None)), *self._around(always)]
        inner = [replace(line, value=Op("when", (asked, line.value))) for line in bare]
        kept = {buffer.name: buffer.dtype for buffer in self.temporaries}
        begun = [line.target for line in bare if line.target.buffer in kept]  # what may stay as it was has a value
        before += [Statement(target, "=", Cast(kept[target.buffer], Const(0))) for target in begun]
        if doubt is not None:
            error = Access(self.names.errors[typed.target.buffer], typed.target.indices)
            inner.append(Statement(error, "max=", anything_if(doubt)))
        return [*before, *inner]

    def place(self, access: Access) -> Bound:
        """How far off the place of an element may be: not at all, where it is affine."""
        return error_sum(*(self._load(index) for index in access.indices if isinstance(index, Access)))

    def _strayed(self, typed: TypedStatement) -> list[Statement]:
        """What counts a value whose place rounding may decide."""
        self.lines = []
        place, stray = self.place(typed.target), self.names.strays.get(typed.target.buffer, "")
        if place is None:
            return []
        counted = strays.strayed(typed, stray, place, *self.compute(typed.value))
        return [*self.lines, counted]

    def _around(self, typed: TypedStatement) -> list[Statement]:
        name, indices = typed.target.buffer, typed.target.indices
        if name not in self.names.errors:
            self.lines = []
            value, _ = self.compute(typed.value)
            return [*self.lines, Statement(typed.target, _ASSIGNMENT[typed.op], value)]
        self.lines = []
        before = written_out(self.names.kernel, typed)
        if before is not None:  # as the element that it goes on from, and then the accumulation
            source, typed = before
            known = [name, self.names.errors[name], self.names.sums[name]] if source != typed.target else []
            self.lines += [Statement(Access(one, indices), "=", Access(one, source.indices)) for one in known]
        value, bound = self.compute(typed.value)
        error = Access(self.names.errors[name], indices)
        total = Access(self.names.sums[name], indices) if name in self.names.sums else None
        count = Access(self.names.counts[name], indices) if name in self.names.counts else None
        order = Access(self.names.orders[name], indices) if name in self.names.orders else error
        own = Statement(typed.target, _ASSIGNMENT[typed.op], value)
        coarse = coarser(typed.value.dtype, typed.dtype)
        anew = [] if total is None else [Statement(total, "=", finite(typed.target))]  # no sum before it counts
        anew += [] if count is None else [Statement(count, "=", ZERO), Statement(order, "=", ZERO)]
        match typed.op:
            case None:
                if typed.dtype.is_float and typed.dtype != typed.value.dtype:
                    value, bound = self.stored(typed, value, bound)
                    own = replace(own, value=value)
                self.lines += [Statement(error, "=", bound or ZERO), own, *anew]
            case "add":
                if bound is not None:
                    self.lines.append(Statement(error, "+=", bound))
                if self._flushes(typed.dtype):
                    self.lines.append(Statement(error, "+=", Const(FLUSHED)))
                self.lines.append(own)
                if total is not None:
                    self.lines.append(Statement(total, "+=", finite(value)))
                    lost = _lost(total, coarse)
                    if count is not None:
                        lost = self.keep(lost, F64)
                        self.lines.append(Statement(count, "+=", weight(value, lost)))
                        lost = self.keep(in_parts_off(lost, count, order), F64)
                    lost = _rounding_of_sum(lost, value, total, coarse, error)
                    if count is not None:
                        lost = self.keep(lost, F64)
                        self.lines.append(Statement(order, "+=", lost))
                    self.lines.append(Statement(error, "+=", lost))
            case "mul":
                product = self.keep(op("mul", typed.target, value), F64)
                bound = self._keep(of_product(typed.target, error, value, bound))
                if typed.dtype.is_float:
                    bound = error_sum(bound, _rounding(product, coarse, bound))
                self.lines += [Statement(error, "=", bound or ZERO), own, *anew]
            case "bitxor" | "bitand" | "bitor":  # no bit says how far another is
                if bound is not None:
                    self.lines.append(Statement(error, "max=", anything_if(bound)))
                self.lines.append(own)
            case _:  # max or min of a wider type is rounded when it is stored
                if typed.dtype.is_float and typed.dtype != typed.value.dtype:
                    value, bound = self.stored(typed, value, bound)
                    own = replace(own, value=value)
                if not typed.dtype.is_float:
                    self.lines += [Statement(error, "max=", bound or ZERO), own]
                    return self.lines
                value = self.keep(value, F64)
                off = of_extreme(typed.op, typed.target, error, value, self._keep(bound))
                self.lines += [Statement(error, "=", off or ZERO), replace(own, value=value), *anew]
        return self.lines

    def stored(self, typed: TypedStatement, value: Expr, bound: Bound) -> tuple[Expr, Bound]:
        """A value of a wider type as it is held in one of floats, and its bound."""
        if not rounds_to_codes(self.names.kernel, typed.dtype):
            return value, error_sum(bound, _rounding(value, typed.dtype, bound))
        return self.rounded(typed.dtype, "cast", typed.value, value, bound)

    def rounded(self, dtype: DType, way: str, arg: Typed, value: Expr, bound: Bound) -> tuple[Expr, Bound]:
        """A value converted to a narrow float, and its bound."""
        result = self.keep(converted(dtype, way, value), F64)
        number = self.keep(value if arg.dtype.is_float else Cast(F64, value), F64)
        bound = self._keep(bound)
        return result, self._keep(doubt(dtype, way, number, result, bound, slack_of(self.names.kernel)))

    def wide(self, dtype: DType, arg: Typed, bound: Bound) -> Bound:
        """The bound of a float that becomes an integer: all that is allowed of it, since a bound of integers is
        exact."""
        if bound is None or not dtype.is_integer or not arg.dtype.is_float:
            return bound
        return self.keep(op("mul", Const(slack_of(self.names.kernel)), bound), F64)

    def keep(self, value: Expr, dtype: DType) -> Expr:
        """The value under a name of its own, unless it is as simple as one."""
        return value if isinstance(value, Const | Access | Index) else self._named(value, dtype)

    def _named(self, value: Expr, dtype: DType) -> Expr:
        taken = self.names.taken
        name = free_name(f"v{len(self.temporaries)}", taken)
        self.temporaries.append(Buffer("tmp", name, dtype))
        self.lines.append(Statement(Access(name, ()), "=", value))
        return Access(name, ())

    # -- values and bounds -------------------------------------------------------------------------------
    def compute(self, typed: Typed) -> tuple[Expr, Bound]:
        """A value (in f64, or in its own type if that is no float), and a bound of its error."""
        match typed:
            case Number(dtype, given):
                return Const(float(given)) if dtype.is_float else Cast(dtype, Const(given)), None
            case IndexValue(affine):
                return Cast(typed.dtype, index_value(affine)), None
            case Load(_, access):
                return access, self._load(access)
            case Convert(dtype, arg, way) if way != "bitcast" and rounds_to_codes(self.names.kernel, dtype):
                value, bound = self.compute(arg)
                return self.rounded(dtype, way, arg, value, bound)
            case Convert(dtype, arg, way) if way != "cast":
                value, bound = self.compute(arg)
                result = self.keep(by_name(dtype, arg.dtype, way, value), F64 if dtype.is_float else dtype)
                number = value if arg.dtype.is_float else Cast(F64, value)
                return result, self._keep(_named_bound(dtype, arg.dtype, way, number, self.wide(dtype, arg, bound)))
            case Convert(dtype, arg):
                value, bound = self.compute(arg)
                number = value if arg.dtype.is_float else Cast(F64, value)
                result = self.keep(_converted(dtype, arg.dtype, value), F64 if dtype.is_float else dtype)
                return result, self._keep(_conversion(dtype, arg.dtype, number, self.wide(dtype, arg, bound)))
            case Apply(dtype, name, args):
                pairs = [self.compute(arg) for arg in args]
                values = [value for value, _ in pairs]
                bounds = [bound for _, bound in pairs]
                result = self.keep(op(name, *values), F64 if dtype.is_float else dtype)
                floats = [v if arg.dtype.is_float else Cast(F64, v) for v, arg in zip(values, args, strict=True)]
                if name == "exp" and self._flushes(dtype):
                    bounds = [error_sum(bounds[0], of_multiple(floats[0]))]
                bound = _operation(dtype, name, values, floats, bounds, result)
                if name == "fma" and self.names.kernel.fp != "strict":  # the product may be rounded before
                    product = self.keep(op("mul", *floats[:2]), F64)
                    bound = error_sum(bound, _rounding(product, dtype, error_sum(*bounds[:2])))
                return result, self._keep(bound)

    def _keep(self, bound: Bound) -> Bound:
        return None if bound is None else self.keep(bound, F64)

    def _flushes(self, dtype: DType) -> bool:
        """Whether small numbers of a type may be taken for zero."""
        return self.names.kernel.fp == "fast" and dtype.name in ("f32", "bf16")

    def _load(self, access: Access) -> Bound:
        """The error of an element; it may be any, where it was rounding that chose the element."""
        error = self.names.errors.get(access.buffer)
        own = None if error is None else Access(error, access.indices)
        stray = self.names.strays.get(access.buffer)
        bound = own if stray is None else error_sum(own, Access(stray, ()))
        if self._flushes(self.names.kernel.buffer(access.buffer).dtype):
            small = op("lt", magnitude(access), Const(FLUSHED))
            bound = error_sum(bound, op("select", small, magnitude(access), ZERO))
        off = self.place(access)
        return self._keep(bound if off is None else error_sum(bound, anything_if(off)))


def _converted(dtype: DType, source: DType, value: Expr) -> Expr:
    if dtype.is_float:
        return value if source.is_float else Cast(F64, value)
    return Cast(dtype, value)


def _named_bound(dtype: DType, source: DType, way: str, value: Expr, bound: Bound) -> Bound:
    if way == "bitcast":
        return bound and anything_if(bound)
    if dtype.is_integer:
        return _conversion(dtype, source, value, bound, way)
    lost = _lost(value, dtype, 2)
    if way != "sat" or FORMATS[dtype.name].is_scale:
        lost = _within_range(lost, value, dtype, bound)
    return error_sum(bound, _unless_exact(lost, value, dtype, bound))


# -- rules -------------------------------------------------------------------------------------------------
def _rounding(value: Expr, dtype: DType, bound: Bound) -> Expr:
    """The most that rounding `value`, itself off by `bound`, to `dtype` changes it: nothing, where it is exact."""
    lost = _within_range(_lost(value, dtype), value, dtype, bound)
    return _unless_exact(lost, value, dtype, bound)


def _within_range(lost: Expr, value: Expr, dtype: DType, bound: Bound = None) -> Expr:
    """`lost`, where `dtype` can hold `value`: beyond its largest number the result may be anything, and below 0
    where it has no sign (`value` is up to `bound` off). Infinity and NaN are exact in types that have them."""
    if dtype == F64:
        return lost
    format_ = FORMATS[dtype.name]
    has_infinity = format_.overflow == "inf"
    is_lost = op("lt", magnitude(value), INFINITE) if has_infinity else op("eq", value, value)
    beyond = op("select", is_lost, INFINITE, ZERO)
    within = op("le", magnitude(value), Const(format_.largest))
    if format_.is_scale:
        within = op("and", within, op("le", bound or ZERO, value))
    return op("select", within, lost, beyond)


def _rounding_of_sum(lost: Expr, value: Expr, total: Access, dtype: DType, bound: Access) -> Expr:
    """The share of one accumulation in the rounding error `lost`: nothing where any order is exact. That is so
    where all terms are integers whose magnitudes add up to at most 2^precision. Each is the difference of two sums
    of magnitudes, and what some of them add up to is such an integer too. That the sums of this order are exact
    says nothing of another: of 1.5, 1.5 and 9 in two digits, 1.5 + 1.5 = 3 and 3 + 9 = 12 are, and 1.5 + 9 is not.
    Where the sum of magnitudes overflows, another order may."""
    lost = _within_range(lost, total, dtype)
    if dtype == F64:
        return lost
    if FORMATS[dtype.name].is_scale:
        return op("select", op("ge", value, ZERO), lost, INFINITE)
    few = op("le", total, Const(2.0 ** FORMATS[dtype.name].precision))
    whole = op("and", is_whole(value), is_whole(total))  # a small term may be lost in the total
    exact = op("and", op("and", op("eq", bound, ZERO), few), whole)  # what is asked first is rarely so
    return op("select", exact, ZERO, lost)


def _lost(value: Expr, dtype: DType, times: int = 1) -> Expr:
    """The largest change of `value` by `times` roundings to `dtype`."""
    relative, absolute = roundoff(dtype)
    return op("add", op("mul", Const(times * relative), magnitude(value)), Const(times * absolute))


def _unless_exact(lost: Expr, value: Expr, dtype: DType, bound: Bound) -> Expr:
    """`lost`, or zero where a value is exact in `dtype` and nothing was lost before."""
    if dtype == F64:
        return lost
    exact = is_exact(value, dtype)
    if bound is not None:
        exact = op("and", exact, op("eq", bound, ZERO))
    return op("select", exact, ZERO, lost)


def _conversion(dtype: DType, source: DType, value: Expr, bound: Bound, way: str = "cast") -> Bound:
    if dtype.is_float:
        widens = source.is_float and coarser(dtype, source) == source
        return bound if widens else error_sum(bound, _rounding(value, dtype, bound))
    if bound is None:
        return None
    if dtype.kind == "b":
        return op("select", op("gt", magnitude(value), bound), ZERO, ONE)
    if not source.is_float:
        return bound
    high, low = (Cast(dtype, op(side, value, bound), way=way) for side in ("add", "sub"))
    off = op("sub", Cast(F64, high), Cast(F64, low))
    return op("select", op("lt", bound, INFINITE), off, INFINITE)


def _operation(
    dtype: DType, name: str, values: list[Expr], floats: list[Expr], bounds: list[Bound], result: Expr
) -> Bound:
    """The bound of an operation. `floats` are the `values` as f64."""
    match name, floats, bounds:
        case "neg" | "abs", _, [a]:
            return a
        case "and" | "or" | "not", _, _:
            return error_sum(*bounds)
        case "bitand" | "bitor" | "bitxor" | "bitnot" | "shl" | "shr", _, _:  # no bit says how far another is
            off = error_sum(*bounds)
            return off and anything_if(off)
        case "eq" | "ne", [x, y], [a, _] if x == y:  # whether it is NaN
            return a and op("select", op("lt", a, INFINITE), ZERO, ONE)
        case "eq" | "ne" | "lt" | "le" | "gt" | "ge", [x, y], [a, b]:
            off = error_sum(a, b)
            sure = off and op("or", op("gt", magnitude(op("sub", x, y)), off), op("eq", off, ZERO))
            return sure and op("select", sure, ZERO, ONE)
        case "select", [_, x, y], [c, a, b]:
            chosen = op("select", values[0], a or ZERO, b or ZERO) if a or b else None
            if c is None:
                return chosen
            return op("select", op("eq", c, ZERO), chosen or ZERO, of_either(x, a, y, b))
        case "min" | "max", [x, y], [a, b]:
            return of_extreme(name, x, a, y, b)
        case "floordiv" | "mod", _, _:
            off = error_sum(*bounds)
            return off and anything_if(off)
        case "floor" | "ceil" | "round", [x], [a]:
            return a and of_step(name, x, a)
    propagated = _propagated(name, floats, bounds, result)
    if not dtype.is_float:
        return propagated
    if name not in ELEMENTARY:
        return error_sum(propagated, _rounding(result, dtype, error_sum(*bounds)))
    return error_sum(
        propagated, _within_range(_lost(result, dtype, FUNCTION_ROUNDINGS.get(name, 4)), result, dtype)
    )


def _propagated(name: str, values: list[Expr], bounds: list[Bound], result: Expr) -> Bound:
    """The propagated errors of the operands in the result."""
    match name, values, bounds:
        case "add" | "sub", _, [a, b]:
            return error_sum(a, b)
        case "mul", [x, y], [a, b]:
            return of_product(x, a, y, b)
        case "fma", [x, y, _], [a, b, c]:
            return error_sum(of_product(x, a, y, b), c)
        case "div", [_, y], [a, b]:
            return of_quotient(y, a, b, result)
        case _, [x, y], [a, b]:
            return of_two(name, x, a, y, b, result)
        case _, [x], [a] if a is not None:
            return of_function(name, x, a, result)
    return None


# -- expressions -------------------------------------------------------------------------------------------
