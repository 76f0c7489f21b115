"""A kernel at given sizes written out as plain Python: its loops as `for`, each operation as one line.

Nothing is reordered, hoisted or vectorised. A buffer is a list of Python numbers in row-major order, with None for
an element that was never written. What is accumulated into floats narrower than f32 in a free order is kept in f32
beside them (`w0`, `w1`, …): the element is that sum, rounded once. An operation of type f32 is done in f64 and
rounded by a store into `f32`, an array of one f32: for + - * / and sqrt of f32 numbers that gives what one rounding
would (S. A. Figueroa, "When is double rounding innocuous?", SIGNUM Newsletter 30(3), 1995).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import field
from functools import cached_property
from types import CodeType

from dojoir.ir.affine import Affine, SizeVar
from dojoir.ir.dtypes import DType
from dojoir.ir.format import format_statement
from dojoir.ir.nodes import Access, Buffer, Condition, Guard, Kernel, Node, Scope, Statement
from dojoir.meaning.affine_text import Interval, format_affine, interval
from dojoir.meaning.inlining import inlined
from dojoir.meaning.scalar_ops import FUNCTIONS, OF_TWO
from dojoir.support.frozen import dataclass
from dojoir.types.rounding import FORMATS
from dojoir.types.typed import Apply, Convert, IndexValue, Load, Number, Typed, TypedStatement

DEEPEST = 16
"""How deep the blocks of one Python function may nest (CPython allows 20 loops): deeper ones get their own."""

TEMPLATES: dict[str, str] = {
    "not": "not {0}",
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "gt": "{0} > {1}",
    "ge": "{0} >= {1}",
    "eq": "{0} == {1}",
    "ne": "{0} != {1}",
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1} if {1} else divide_by_zero({0}, {1})",
    "floordiv": "{0} // {1}",
    "mod": "{0} % {1}",
    "bitand": "{0} & {1}",
    "bitor": "{0} | {1}",
    "bitxor": "{0} ^ {1}",
    "bitnot": "~{0}",
    "shl": "{0} << {1}",
    "shr": "{0} >> {1}",
    "neg": "-{0}",
    "abs": "abs({0})",
    # Of two zeros the sign decides; the first of the two if it is NaN, as is the second.
    "min": "{0} if {0} < {1} or {0} != {0} else {1} if {0} or {1} else lower_zero({0}, {1})",
    "max": "{0} if {0} > {1} or {0} != {0} else {1} if {0} or {1} else upper_zero({0}, {1})",
    "select": "{1} if {0} else {2}",
    "fma": "fma({0}, {1}, {2})",
    "fma_f32": "fma_f32({0}, {1}, {2})",
    **{name: f"{name}({{0}})" for name in FUNCTIONS},
    **{name: f"{name}({{0}}, {{1}})" for name in OF_TWO},
}
"""Each operation on names and numbers, but for `and` and `or`: these are blocks, written by
`_StatementWriter._short_circuit`."""

EXACT = frozenset({"min", "max", "neg", "abs", "select", "floor", "ceil", "round", "copysign", "fmod"})
"""The operations whose result, given floats of a type, is of that type without rounding."""


@dataclass(frozen=True)
class Script:
    """The text of a Python module that runs the kernel when `kernel()` is called, and the accesses that its calls
    of `outside` and `unwritten` speak of by number, each with the number of its statement."""

    text: str
    accesses: tuple[tuple[int, Access], ...]
    sums: tuple[int, ...] = ()
    """The buffers, by number, whose sums are kept: the list `w3` begins as `b3`."""

    name: str = "kernel"

    @cached_property
    def code(self) -> CodeType:
        """The text, compiled."""
        return compile(self.text, f"<{self.name}>", "exec")


def transcribe(
    kernel: Kernel, typed: tuple[TypedStatement, ...], sizes: Mapping[str, int], exact_floats: bool
) -> Script:
    """The Python text of a kernel at `sizes`. `typed` are its statements as `typecheck.check` gives them.

    With `exact_floats` floats are f64 throughout, and conversions between float types do nothing.
    """
    writer = _PythonWriter(kernel, typed, sizes, exact_floats)
    writer.function("kernel", kernel.body, ())
    sums = tuple(int(name[1:]) for name in writer.sums.values())
    return Script("\n".join(writer.done) + "\n", tuple(writer.accesses), sums, kernel.name)


def carried_sums(kernel: Kernel, typed: Sequence[TypedStatement]) -> dict[str, str]:
    """The buffers of floats narrower than f32 that sums go into in a free order, with what the lists of these are
    called."""
    if kernel.fp == "strict":
        return {}
    summed = {one.target.buffer for one in typed if one.op == "add" and one.dtype.is_float and one.dtype.bits < 32}
    return {b.name: f"w{position}" for position, b in enumerate(kernel.buffers) if b.name in summed}


@dataclass
class _Known:
    """The facts at the start of a statement: elements that are `written`, and the names of places in lists, by
    their text."""

    written: set[Access] = field(default_factory=set)
    places: dict[str, str] = field(default_factory=dict)

    def inside(self) -> _Known:
        """The same, for a block that is there."""
        return _Known(set(self.written), dict(self.places))


@dataclass
class _PythonWriter:
    """Writes functions. `done` holds the lines of the finished ones."""

    kernel: Kernel
    typed: tuple[TypedStatement, ...]
    sizes: Mapping[str, int]
    exact_floats: bool
    done: list[str] = field(default_factory=list)
    accesses: list[tuple[int, Access]] = field(default_factory=list)
    statements: int = 0
    functions: int = 0
    places: int = 0

    @cached_property
    def sums(self) -> dict[str, str]:
        """The lists of what was accumulated into buffers before it was rounded to their elements."""
        return {} if self.exact_floats else carried_sums(self.kernel, self.typed)

    def function(
        self,
        name: str,
        nodes: Sequence[Node],
        ranges: tuple[Interval, ...],
        written: Set[Access] = frozenset(),
    ) -> None:
        """A function of the iterators around `nodes`, which take the values in `ranges`. Some elements are
        `written` before it is called."""
        taken = [f"i{depth}" for depth in range(len(ranges))]
        near = ["f32", *(f"b{position}" for position in range(len(self.kernel.buffers)))]  # quicker than globals
        lines = [f"def {name}({', '.join([*taken, *(f'{one}={one}' for one in near)])}):"]
        self._block(nodes, lines, 1, ranges, _Known(set(written)))
        self.done += lines

    def _block(
        self, nodes: Sequence[Node], lines: list[str], level: int, ranges: tuple[Interval, ...], known: _Known
    ) -> None:
        indent = " " * level
        if level > DEEPEST:
            self.functions += 1
            name = f"part{self.functions}"
            lines.append(f"{indent}{name}({', '.join(f'i{depth}' for depth in range(len(ranges)))})")
            self.function(name, nodes, ranges, known.written)
            return
        if not nodes:
            lines.append(f"{indent}pass")
        for node in nodes:
            match node:
                case Scope(extent, body):
                    bounds = [self.fix(bound) for bound in extent.bounds]
                    stop = ", ".join(format_affine(bound) for bound in bounds)
                    stop = f"min({stop})" if len(bounds) > 1 else stop
                    lines.append(f"{indent}for i{len(ranges)} in range({stop}):")
                    last = min(interval(bound, ranges)[1] for bound in bounds) - 1
                    self._block(body, lines, level + 1, (*ranges, (0, max(last, 0))), known.inside())
                case Guard(conditions, body):
                    lines.append(f"{indent}if {' and '.join(self._condition(c) for c in conditions)}:")
                    self._block(body, lines, level + 1, ranges, known.inside())
                case Statement():
                    lines.append(f"{indent}# {format_statement(node)}")
                    line = _StatementWriter(self, self.statements, node.target, ranges, known)
                    typed = self.typed[self.statements]
                    line.write(typed)
                    always = typed.condition is None
                    if always and not any(isinstance(index, Access) for index in node.target.indices):
                        known.written.add(node.target)
                    lines += [indent + text for text in (inlined(line.lines) if always else line.lines)]
                    self.statements += 1

    def fix(self, affine: Affine) -> Affine:
        """With the sizes as numbers."""
        return affine.substitute(
            lambda atom: Affine.constant(self.sizes[atom.name]) if isinstance(atom, SizeVar) else Affine.atom(atom)
        )

    def _condition(self, condition: Condition) -> str:
        left, right = format_affine(self.fix(condition.left)), format_affine(self.fix(condition.right))
        return f"{left} {condition.relation} {right}"


@dataclass
class _StatementWriter:
    """Writes one statement. What it computes twice is computed once, and an element that it reads twice looked up
    once. Whether one was written is asked where that is not `known`."""

    writer: _PythonWriter
    statement: int
    target: Access
    ranges: tuple[Interval, ...]
    known: _Known
    lines: list[str] = field(default_factory=list)
    places: dict[Access, str] = field(default_factory=dict)
    loaded: dict[Access, str] = field(default_factory=dict)
    named: dict[str, str] = field(default_factory=dict)
    names: int = 0

    def write(self, typed: TypedStatement) -> None:
        if typed.condition is not None:
            self.lines.append(f"if {self._value(typed.condition)}:")
            outside, self.lines, self.known = self.lines, [], self.known.inside()
            self._write(typed)
            self.lines = [*outside, *(f" {line}" for line in self.lines)]
        else:
            self._write(typed)

    def _write(self, typed: TypedStatement) -> None:
        wide = self.writer.sums.get(typed.target.buffer)
        sums = wide is not None and typed.op == "add"
        value = self._total(typed, wide) if wide is not None and sums else self._value(typed.result)
        place = self._place(typed.target)
        self.lines.append(f"{self._list(typed.target)}[{place}] = {value}")
        if wide is not None and not sums:
            self.lines.append(f"{wide}[{place}] = {value}")

    def _total(self, typed: TypedStatement, wide: str) -> str:
        """The element after an accumulation, the sum before its rounding kept in the list `wide`."""
        self._load(typed.target)  # it was written
        place = self._place(typed.target)
        if typed.fused:
            text = TEMPLATES["fma_f32"].format(*map(self._value, typed.factors), f"{wide}[{place}]")
        else:
            text = TEMPLATES["add"].format(f"{wide}[{place}]", self._value(typed.value))
        total = self._rounded(text, typed.value.dtype)
        self.lines.append(f"{wide}[{place}] = {total}")
        return self._rounded(total, typed.dtype)

    # -- elements ----------------------------------------------------------------------------------------
    def _buffer(self, access: Access) -> Buffer:
        return self.writer.kernel.buffer(access.buffer)

    def _list(self, access: Access) -> str:
        return f"b{self.writer.kernel.buffers.index(self._buffer(access))}"

    def _place(self, access: Access) -> str:
        """Where the element is in its list, once every index is known to be in its dimension."""
        if access not in self.places:
            dims = self._buffer(access).dims
            total, gathered, stride = Affine.constant(0), "", 1
            for position, (dim, index) in reversed(list(enumerate(zip(dims, access.indices, strict=True)))):
                extent = self.writer.fix(dim.extent).offset
                step = 0 if dim.collapsed else stride
                if isinstance(index, Access):
                    name = self._load(index)
                    self._check(access, position, extent, name)
                    gathered += f" + {step} * {name}" if step else ""
                else:
                    affine = self.writer.fix(index)
                    low, high = interval(affine, self.ranges)
                    if low < 0 or high >= extent:
                        self._check(access, position, extent, self._name(format_affine(affine)))
                    total += affine * step
                stride *= 1 if dim.collapsed else extent
            text = format_affine(total) + gathered
            if total.is_constant and not gathered:
                self.places[access] = text
            else:
                self.places[access] = self._name(text) if gathered else self._named_place(text)
        return self.places[access]

    def _named_place(self, text: str) -> str:
        """A name for a place that other statements of the block have as well."""
        if text.isidentifier():
            return text
        places = self.known.places
        if text not in places:
            places[text] = f"p{self.writer.places}"
            self.writer.places += 1
            self.lines.append(f"{places[text]} = {text}")
        return places[text]

    def _check(self, access: Access, position: int, extent: int, index: str) -> None:
        self.lines.append(f"if not 0 <= {index} < {extent}:")
        self.lines.append(
            f" raise outside({self._number_of_access(access)}, {position}, {index}, {self._iterators()})"
        )

    def _check_count(self, dtype: DType, typed: Typed, count: str) -> None:
        """A shift is by less than the width, and not by less than nothing."""
        low, high = self._interval(typed)
        if low < 0 or high >= dtype.bits:
            self.lines.append(f"if not 0 <= {count} < {dtype.bits}:")
            self.lines.append(
                f" raise shifted({self._number_of_access(self.target)}, {dtype.bits}, {count}, {self._iterators()})"
            )

    def _check_divisor(self, typed: Typed, divisor: str) -> None:
        low, high = self._interval(typed)
        if low <= 0 <= high:
            self.lines.append(f"if {divisor} == 0:")
            self.lines.append(f" raise divided({self._number_of_access(self.target)}, {self._iterators()})")

    def _load(self, access: Access) -> str:
        if access not in self.loaded:
            name = self.loaded[access] = self._name(f"{self._list(access)}[{self._place(access)}]")
            if self._buffer(access).role in ("out", "tmp") and access not in self.known.written:
                self.lines.append(f"if {name} is None:")
                self.lines.append(f" raise unwritten({self._number_of_access(access)}, {self._iterators()})")
        return self.loaded[access]

    def _number_of_access(self, access: Access) -> int:
        self.writer.accesses.append((self.statement, access))
        return len(self.writer.accesses) - 1

    def _iterators(self) -> str:
        return "(" + "".join(f"i{depth}, " for depth in range(len(self.ranges))) + ")"

    # -- values ------------------------------------------------------------------------------------------
    def _name(self, text: str) -> str:
        """A name for the value of `text`: the same text is the same value, as names are given once."""
        if text.isidentifier():
            return text
        if text not in self.named:
            self.named[text] = self._fresh()
            self.lines.append(f"{self.named[text]} = {text}")
        return self.named[text]

    def _fresh(self) -> str:
        self.names += 1
        return f"t{self.names}"

    def _value(self, typed: Typed) -> str:
        """The name, or the digits, of a value."""
        match typed:
            case Number(_, value):
                return repr(value)
            case IndexValue(affine):
                fixed = self.writer.fix(affine)
                text = format_affine(fixed)
                return self._name(
                    text if _within(interval(fixed, self.ranges), typed.dtype) else wrap(text, typed.dtype)
                )
            case Load(_, access):
                return self._load(access)
            case Convert(dtype, arg, "cast"):
                return self._convert(dtype, arg, self._value(arg))
            case Convert(dtype, arg, way):
                return self._name(by_name(dtype, arg.dtype, way, self._value(arg), self.writer.exact_floats))
            case Apply(_, "and" | "or" as name, (left, right)):
                return self._short_circuit(name, left, right)
            case Apply(dtype, name, args):
                values = [self._value(arg) for arg in args]
                if name in ("floordiv", "mod"):
                    self._check_divisor(args[1], values[1])
                if name in ("shl", "shr"):
                    self._check_count(dtype, args[1], values[1])
                if name == "fma" and dtype.bits == 32 and not self.writer.exact_floats:
                    name = "fma_f32"
                text = TEMPLATES[name].format(*values)
                if dtype.is_integer:
                    return self._name(wrap(text, dtype))
                if dtype.is_float and name not in EXACT:
                    return self._rounded(text, dtype)
                return self._name(text)

    def _short_circuit(self, name: str, left: Typed, right: Typed) -> str:
        """`left and right`, or `or`: the right one is reached where the left one does not decide. What it gives a
        name to has none elsewhere."""
        first = self._value(left)
        outside = self.lines, self.places, self.loaded, self.named, self.known
        self.lines, self.known = [], self.known.inside()
        self.places, self.loaded, self.named = dict(self.places), dict(self.loaded), dict(self.named)
        second = self._value(right)
        inside = self.lines
        self.lines, self.places, self.loaded, self.named, self.known = outside
        result = self._fresh()
        self.lines += [f"{result} = {first}", f"if {'' if name == 'and' else 'not '}{result}:"]
        self.lines += [f" {line}" for line in [*inside, f"{result} = {second}"]]
        return result

    def _convert(self, dtype: DType, arg: Typed, value: str) -> str:
        source = arg.dtype
        match dtype.kind:
            case "b":
                return self._name(f"{value} != 0")
            case "f" if source.is_float:
                wider = dtype.bits > source.bits and dtype.bits >= 32
                return value if wider or self.writer.exact_floats else self._rounded(value, dtype)
            case "f":
                low, high = self._interval(arg)
                form = FORMATS[dtype.name]
                few = max(-low, high) <= 1 << form.precision and not form.is_scale
                if few or dtype.bits == 64 or self.writer.exact_floats:
                    return self._name(f"float({value})")
                exact = max(-low, high) <= 1 << FORMATS["f64"].precision
                return self._rounded(value, dtype) if exact else self._name(f"integer_to_{dtype}({value})")
            case _ if source.is_float:
                low, high = integer_range(dtype)
                return self._name(f"saturate({value}, {low}, {high})")
            case _:
                text = value if source.is_integer else f"int({value})"
                return self._name(text if _within(self._interval(arg), dtype) else wrap(text, dtype))

    def _rounded(self, text: str, dtype: DType) -> str:
        """The name of a float computed in f64, once it is rounded to `dtype`."""
        if dtype.bits == 64 or self.writer.exact_floats:
            return self._name(text)
        if dtype.bits < 32:
            return self._name(f"to_{dtype}({text})")
        rounded = f"f32({text})"
        if rounded not in self.named:
            self.named[rounded] = self._fresh()
            self.lines += [f"f32[0] = {text}", f"{self.named[rounded]} = f32[0]"]
        return self.named[rounded]

    def _interval(self, typed: Typed) -> Interval:
        """Bounds of an integer or bool."""
        match typed:
            case IndexValue(affine):
                bounds = interval(self.writer.fix(affine), self.ranges)
                return bounds if _within(bounds, typed.dtype) else integer_range(typed.dtype)
            case Number(_, int() as value):
                return value, value
            case _:
                return integer_range(typed.dtype)


def by_name(dtype: DType, source: DType, way: str, value: str, exact_floats: bool) -> str:
    """A conversion by name, as Python. With `exact_floats` floats are not rounded, only kept in range."""
    if way == "bitcast":
        return f"code_of_{source}({value})" if source.is_float else f"coded_{dtype}({value})"
    if dtype.is_integer:
        low, high = integer_range(dtype)
        return f"{'saturate(away' if source.is_float else 'clamp('}({value}), {low}, {high})"
    if exact_floats:
        return f"in_range_{dtype}({value})" if way == "sat" else f"float({value})"
    return f"{way}_to_{dtype}({value})" if source.is_float else f"integer_{way}_to_{dtype}({value})"


# -- integers ----------------------------------------------------------------------------------------------
def integer_range(dtype: DType) -> Interval:
    """The smallest and the largest value of an integer type, or of bool."""
    if dtype.kind == "b":
        return 0, 1
    low = -(1 << (dtype.bits - 1)) if dtype.kind == "i" else 0
    return low, low + (1 << dtype.bits) - 1


def wrap(text: str, dtype: DType) -> str:
    """An integer expression, modulo `2**bits`, in the range of `dtype`."""
    mask, half = (1 << dtype.bits) - 1, 1 << (dtype.bits - 1)
    return f"(({text}) + {half} & {mask}) - {half}" if dtype.kind == "i" else f"({text}) & {mask}"


def _within(bounds: Interval, dtype: DType) -> bool:
    low, high = integer_range(dtype)
    return low <= bounds[0] and bounds[1] <= high
