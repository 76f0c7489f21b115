"""The loops of a text by Numba: a kernel at given sizes as the Python that one would write, with `fastmath`.

An element into which a nest only accumulates is kept in a variable. Everything else stands as in the text.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dojoir.ir.affine import Affine
from dojoir.ir.nodes import Access, Guard, Kernel, Node, Scope, Statement
from dojoir.meaning.affine_text import format_affine
from dojoir.types.elaborate import check
from dojoir.types.keys_apart import keys_apart
from dojoir.types.typed import Apply, Convert, IndexValue, Load, Number, Typed, TypedStatement

TEMPLATES = {
    "or": "({0} or {1})",
    "and": "({0} and {1})",
    "not": "(not {0})",
    "lt": "({0} < {1})",
    "le": "({0} <= {1})",
    "gt": "({0} > {1})",
    "ge": "({0} >= {1})",
    "eq": "({0} == {1})",
    "ne": "({0} != {1})",
    "add": "({0} + {1})",
    "sub": "({0} - {1})",
    "mul": "({0} * {1})",
    "div": "({0} / {1})",
    "neg": "(-{0})",
    "floordiv": "({0} // {1})",
    "mod": "({0} % {1})",
    "bitand": "({0} & {1})",
    "bitor": "({0} | {1})",
    "bitxor": "({0} ^ {1})",
    "bitnot": "(~{0})",
    "shl": "({0} << {1})",
    "shr": "({0} >> {1})",
    "select": "({1} if {0} else {2})",
    "fma": "({0} * {1} + {2})",
    "pow": "({0} ** {1})",
    "abs": "abs({0})",
    "min": "min({0}, {1})",
    "max": "max({0}, {1})",
    "rsqrt": "(one / math.sqrt({0}))",
    "sigmoid": "(one / (one + math.exp(-{0})))",
    **{
        name: f"math.{name}({{0}})" for name in ("exp", "log", "log2", "sqrt", "tanh", "erf", "sin", "cos", "expm1")
    },
    **{name: f"math.{name}({{0}})" for name in ("log1p", "tan", "atan", "floor", "ceil")},
}
"""Each operation in Python; `one` is 1 in the type of the operation."""

NUMPY = {
    "bool": "bool_",
    **{f"f{bits}": f"float{bits}" for bits in (32, 64)},
    **{f"{kind[0]}{bits}": f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
}
"""NumPy's name of each type of elements that the loops can have."""


def call_of(kernel: Kernel, arrays: Sequence[Any]) -> Callable[[], object]:
    """A call of the loops on arrays, in the order of the kernel's arguments; numbers for inputs without dimensions.
    `kernel` has its sizes as constants. Raises NotImplementedError where a type or an operation has no loops here,
    and what Numba raises."""
    import numba

    space: dict[str, Any] = {}
    exec(loops(kernel), {"math": math, "np": np}, space)
    function = numba.njit(space["run"], fastmath=True)
    function(*arrays)
    return lambda: function(*arrays)


def loops(kernel: Kernel) -> str:
    """The Python of a kernel: a function `run` of its arguments. A pair is a value and a place in it."""
    kernel = keys_apart(kernel)
    for buffer in kernel.buffers:
        if str(buffer.dtype) not in NUMPY:
            raise NotImplementedError(f"no loops for {buffer.dtype}")
    writer = _Writer(kernel)
    lines = [f"def run({', '.join(buffer.name for buffer in kernel.arguments)}):"]
    for buffer in kernel.buffers:
        if buffer.role == "tmp":
            shape = [1 if dim.collapsed else dim.extent.evaluate({}) for dim in buffer.dims]
            lines.append(
                f" {buffer.name} = np.empty(({''.join(f'{n}, ' for n in shape)}), np.{NUMPY[str(buffer.dtype)]})"
            )
    lines += [" " + line for line in writer.block(kernel.body, 0, {})]
    return "\n".join(lines) + "\n"


Totals = Mapping[str, str]
"""The variables for elements that are accumulated into, by their buffers."""


class _Writer:
    """Writes a kernel's nodes, in the order of the text."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.typed: Iterator[TypedStatement] = iter(check(kernel))
        self.sums = 0

    def block(self, nodes: Sequence[Node], depth: int, totals: Totals) -> list[str]:
        """Nodes in so many scopes, with variables for the elements of `totals`."""
        lines: list[str] = []
        for node in nodes:
            match node:
                case Scope():
                    lines += self.scope(node, depth, totals)
                case Guard(conditions, body):
                    held = [f"{format_affine(c.left)} {c.relation} {format_affine(c.right)}" for c in conditions]
                    lines.append(f"if {' and '.join(held)}:")
                    lines += [" " + line for line in self.block(body, depth, totals)]
                case Statement():
                    lines.append(self.statement(next(self.typed), totals))
        return lines or ["pass"]

    def scope(self, node: Scope, depth: int, totals: Totals) -> list[str]:
        bounds = ", ".join(format_affine(bound) for bound in node.extent.bounds)
        stop = f"min({bounds})" if len(node.extent.bounds) > 1 else bounds
        here: dict[str, str] = {}
        elements: dict[str, str] = {}
        for target in _sums_of(node, depth):
            if target.buffer not in totals:
                self.sums += 1
                here[target.buffer], elements[target.buffer] = f"_total{self.sums}", self.element(target)
        return [
            *(f"{name} = {elements[buffer]}" for buffer, name in here.items()),
            f"for i{depth} in range({stop}):",
            *(" " + line for line in self.block(node.body, depth + 1, {**totals, **here})),
            *(f"{elements[buffer]} = {name}" for buffer, name in here.items()),
        ]

    def statement(self, typed: TypedStatement, totals: Totals) -> str:
        place = totals.get(typed.target.buffer) or self.element(typed.target)
        value = self.value(typed.value)
        if typed.op is not None:
            value = TEMPLATES[typed.op].format(place, value)
        where = "" if typed.condition is None else f"if {self.value(typed.condition)}: "
        return f"{where}{place} = {value}"

    def element(self, access: Access) -> str:
        buffer = self.kernel.buffer(access.buffer)
        if not access.indices:
            return buffer.name if buffer.role == "in" else f"{buffer.name}[()]"
        indices = [
            "0" if dim.collapsed else self.element(i) if isinstance(i, Access) else format_affine(i)
            for i, dim in zip(access.indices, buffer.dims, strict=True)
        ]
        return f"{buffer.name}[{', '.join(indices)}]"

    def value(self, value: Typed) -> str:
        match value:
            case Number(dtype, number):
                return f"np.{NUMPY[str(dtype)]}({_number(number)})"
            case IndexValue(affine):
                return f"({format_affine(affine)})"
            case Load(_, access):
                return self.element(access)
            case Convert(dtype, arg, "cast"):
                return f"np.{NUMPY[str(dtype)]}({self.value(arg)})"
            case Convert(dtype, _, way):
                raise NotImplementedError(f"no loops for {way}")
            case Apply(dtype, name, args):
                if name not in TEMPLATES:
                    raise NotImplementedError(f"no loops for {name}")
                text = TEMPLATES[name].format(*map(self.value, args))
                return text.replace("one", f"np.{NUMPY[str(dtype)]}(1)") if name in {"rsqrt", "sigmoid"} else text
        raise AssertionError(value)


def _sums_of(scope: Scope, depth: int) -> Iterator[Access]:
    """The elements, the same in all iterations of a scope, into which it accumulates and whose buffers it uses
    nowhere else."""
    found = list(_statements(scope))
    uses = Counter(access.buffer for statement in found for access in statement.accesses)
    for statement in found:
        target = statement.target
        fixed = all(isinstance(i, Affine) and max(i.iterators, default=-1) < depth for i in target.indices)
        if statement.accumulation is not None and fixed and uses[target.buffer] == 1:
            yield target


def _statements(node: Node) -> Iterator[Statement]:
    if isinstance(node, Statement):
        yield node
    else:
        for child in node.body:
            yield from _statements(child)


def _number(number: float) -> str:
    """A number in Python."""
    return repr(number) if math.isfinite(number) else f"float('{number}')"
