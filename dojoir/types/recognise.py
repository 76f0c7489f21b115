"""Whether a scope does just what an instruction does, and on which elements.

All that an instruction takes for granted is looked at. What the statements compute and in which types, how often
the scopes run, how far apart in memory what they touch is, that what is written is nothing else that is used, that
the elements are there after the scope. What is not plainly so is refused, with the reason.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import field, replace
from functools import cached_property, lru_cache
from itertools import permutations

from dojoir.ir.affine import Affine, Iter
from dojoir.ir.buffer_rules import SWIZZLED_ROWS
from dojoir.ir.format import format_access, format_extent, format_statement
from dojoir.ir.instruction import Instruction
from dojoir.ir.nodes import FP_MODES, Access, Buffer, Kernel, Node, Path, Scope, Statement, accesses_in
from dojoir.ir.paths import is_inside
from dojoir.ir.places import ancestors
from dojoir.support.frozen import dataclass
from dojoir.types.elaborate import elaborate
from dojoir.types.typed import Apply, Convert, IndexValue, Load, Number, Typed, TypedStatement

COMMUTATIVE = frozenset({"add", "mul", "max", "min", "bitxor", "bitand", "bitor"})
FREE = frozenset({"v", "u"})
"""The marks that a scope inside an instruction may have: they say how it would run otherwise."""


@dataclass(frozen=True)
class InstructionOperand:
    """The element of `buffer` that an operand begins with: `ahead` elements before that of `access`, in the
    iterators around the scope. `group` are the dimensions of the buffer whose indices say which thread of a
    group has an element, the last counting by one, `stride` how many elements apart the rows of a strided operand
    are."""

    access: Access
    ahead: int = 0
    group: tuple[int, ...] = ()
    stride: int | None = None


@dataclass(frozen=True)
class InstructionFit:
    """The operands of an instruction, by name."""

    operands: Mapping[str, InstructionOperand]


@dataclass(frozen=True)
class Misfit:
    """Why a scope is not an instruction."""

    reason: str


class _No(Exception):
    """Raised where a text does not match."""


def recognise(kernel: Kernel, path: Path, instruction: Instruction) -> InstructionFit | Misfit:
    """The operands of the scope at `path` as an instruction, or why it is none."""
    try:
        return _Recognition(kernel, path, instruction).fit()
    except _No as reason:
        return Misfit(str(reason))


@lru_cache(maxsize=64)
def _typed(instruction: Instruction) -> tuple[TypedStatement, ...]:
    return tuple(elaborate(site.statement, instruction.operands) for site in instruction.body.sites)


class _Recognition:
    def __init__(self, kernel: Kernel, path: Path, instruction: Instruction) -> None:
        self.kernel, self.path, self.instruction = kernel, path, instruction
        self.depth = kernel.depth_of(path)
        self.buffers = {buffer.name: buffer for buffer in kernel.buffers}

    def fit(self) -> InstructionFit:
        scope = self.kernel.at(self.path)
        assert isinstance(scope, Scope)
        self._allowed(scope)
        statements = list(self._pairs((scope,), (self.instruction.scope,)))
        bound: dict[str, InstructionOperand] = {}
        for own, typed in zip(statements, _typed(self.instruction), strict=True):
            bound = self._matched_statement(own, typed, bound)
        self._distinct(bound)
        self._aligned(bound)
        return InstructionFit(bound)

    # -- the scope -------------------------------------------------------------------------------------------
    def _allowed(self, scope: Scope) -> None:
        wanted = self.instruction.body.fp
        if FP_MODES.index(self.kernel.fp) < FP_MODES.index(wanted):
            raise _No(f"it rounds as `fp {wanted}` allows, and the kernel is `fp {self.kernel.fp}`")
        if any(isinstance(node, Scope) and "v" in node.marks for node in ancestors(self.kernel, self.path)):
            raise _No("the scope is inside another one marked `v`, whose lanes would each need it")
        inside = {access.buffer for access in accesses_in((scope,))}
        outside = {
            access.buffer
            for site in self.kernel.sites
            if not is_inside(site.path, self.path)
            for access in accesses_in((site.statement,))
        }
        for name in sorted(inside - outside):
            if self.buffers[name].role == "tmp":
                raise _No(f"`{name}` is used in this scope only, and has no storage around it")

    def _pairs(self, own: tuple[Node, ...], other: tuple[Node, ...]) -> Iterator[Statement]:
        """The statements in the order of the text, if the two trees have one shape."""
        if len(own) != len(other):
            raise _No(f"a scope has {_many(len(own), 'child')}, and that of the instruction {len(other)}")
        for mine, theirs in zip(own, other, strict=True):
            match mine, theirs:
                case Statement(), Statement():
                    yield mine
                case Scope(), Scope():
                    if mine.extent.constant != theirs.extent.constant:
                        extent = format_extent(mine.extent)
                        raise _No(
                            f"a scope runs {extent} times, and that of the instruction {theirs.extent.constant}"
                        )
                    if not set(mine.marks) <= FREE:
                        raise _No(f"a scope of it is marked `{next(m for m in mine.marks if m not in FREE)}`")
                    if mine.hints and other != (self.instruction.scope,):
                        raise _No(f"a scope inside has the hint {mine.hints[0]}")
                    yield from self._pairs(mine.body, theirs.body)
                case _:
                    kinds = [type(node).__name__.lower() for node in (mine, theirs)]
                    raise _No(f"a child is a {kinds[0]}, and that of the instruction a {kinds[1]}")

    # -- statements ------------------------------------------------------------------------------------------
    def _matched_statement(
        self, own: Statement, other: TypedStatement, bound: dict[str, InstructionOperand]
    ) -> dict[str, InstructionOperand]:
        typed = elaborate(own, self.buffers)
        if (typed.op, typed.fused) != (other.op, other.fused):
            raise _No(f"`{format_statement(own)}` is another operation than that of the instruction")
        first: _No | None = None
        for value in _orders(typed.value):
            try:
                return self._access(typed.target, other.target, self._value(value, other.value, bound))
            except _No as reason:
                first = first or reason
        raise first or _No(f"`{format_statement(own)}` computes something else")

    def _value(
        self, own: Typed, other: Typed, bound: dict[str, InstructionOperand]
    ) -> dict[str, InstructionOperand]:
        match own, other:
            case Load(dtype, access), Load(wanted, place):
                if dtype != wanted:
                    raise _No(
                        f"`{format_access(access)}` is {dtype}, and `{place.buffer}` of the instruction {wanted}"
                    )
                return self._access(access, place, bound)
            case Apply(dtype, name, args), Apply(wanted, op, others) if (dtype, name) == (wanted, op):
                for mine, theirs in zip(args, others, strict=True):
                    bound = self._value(mine, theirs, bound)
                return bound
            case Convert(dtype, arg, way), Convert(wanted, value, other_way) if (dtype, way) == (wanted, other_way):
                return self._value(arg, value, bound)
            case Convert(_, Load(dtype, access)), Load(wanted, place) if dtype != wanted:
                raise _No(f"`{format_access(access)}` is {dtype}, and `{place.buffer}` of the instruction {wanted}")
            case Number(), Number() if repr(own) == repr(other):
                return bound
            case ((Load(dtype) | Apply(dtype) | Convert(dtype) | Number(dtype) | IndexValue(dtype=dtype)), _):
                if dtype != other.dtype:
                    raise _No(f"a value of it is {dtype}, and that of the instruction {other.dtype}")
        raise _No("its statements compute something else than the instruction")

    # -- elements --------------------------------------------------------------------------------------------
    def _access(
        self, own: Access, other: Access, bound: dict[str, InstructionOperand]
    ) -> dict[str, InstructionOperand]:
        """The operands, with that of the instruction's access bound to the element here."""
        operand, buffer = self.instruction.operands[other.buffer], self.buffers[own.buffer]
        text = format_access(own)
        if buffer.dtype != operand.dtype and not self._has_room(buffer, operand):
            raise _No(f"`{text}` is {buffer.dtype}, and `{operand.name}` of the instruction {operand.dtype}")
        group = self._spread(own, other, text) if operand.name in self.instruction.spread else ()
        if operand.name in self.instruction.shared and buffer.storage != "shared":
            raise _No(f"`{own.buffer}` is not in shared memory: place({own.buffer}, shared)")
        threads = range(self.instruction.digits(operand))
        here, there = self._offset(own, without(buffer, group), text), _flat(other, without(operand, threads))
        stride = self._row_stride(own, other, here) if operand.strided else None
        for depth in sorted({*here.steps, *(self.depth + level for level in (*there.steps, *there.rows))}):
            mine, theirs = here.steps.get(depth, 0), there.step(depth - self.depth, stride)
            if mine != theirs:
                steps = f"`{text}` moves {_many(mine, 'element')} with {{{depth}}}"
                raise _No(f"{steps}, and `{operand.name}` of the instruction {theirs}")
        found = InstructionOperand(here.base, there.ahead(stride), group, stride)
        earlier = bound.get(operand.name)
        if earlier is None:
            return {**bound, operand.name: found}
        if (
            earlier.access.buffer != own.buffer
            or (earlier.group, earlier.stride) != (group, stride)
            or _elements_between(found, earlier, buffer) != found.ahead - earlier.ahead
        ):
            raise _No(f"`{text}` and `{format_access(earlier.access)}` cannot both be `{operand.name}`")
        return bound

    def _has_room(self, buffer: Buffer, operand: Buffer) -> bool:
        """Whether a buffer in registers only takes sums, in an order that is free: those of a narrow float are made
        in f32, as all sums are, and rounded where they are read."""
        sums = all(
            site.statement.accumulation == "+="
            for site in self.instruction.body.sites
            if site.statement.target.buffer == operand.name
        )
        narrow = buffer.dtype.is_float and buffer.dtype.bits < operand.dtype.bits == 32 and operand.dtype.is_float
        return narrow and sums and buffer.storage == "reg" and operand.name in self.instruction.spread

    def _spread(self, own: Access, other: Access, text: str) -> tuple[int, ...]:
        """The dimensions of a buffer in registers that say which thread has an element, as the first ones of the
        operand do: their indices are the same."""
        buffer, operand = self.buffers[own.buffer], self.instruction.operands[other.buffer]
        if buffer.storage != "reg":
            raise _No(f"`{own.buffer}` is not in registers: place({own.buffer}, reg)")
        found: list[int] = []
        for index, wanted in zip(other.indices, operand.dims[: self.instruction.digits(operand)], strict=False):
            assert isinstance(index, Affine)
            moved = Affine.constant(index.offset)
            for depth, step in _steps(index).items():
                moved = moved + Affine.iterator(self.depth + depth) * step
            same = [
                d
                for d, (mine, dim) in enumerate(zip(own.indices, buffer.dims, strict=True))
                if mine == moved and dim.extent == wanted.extent and not dim.collapsed and d not in found
            ]
            if len(same) != 1:
                raise _No(f"`{text}` has no index {moved} of {wanted.extent}, by which its threads differ")
            found += same
        return tuple(found)

    def _row_stride(self, own: Access, other: Access, here: _Offset) -> int:
        """How many elements apart the rows of a strided operand are here."""
        operand = self.instruction.operands[other.buffer]
        there = _flat(other, operand)
        for level, rows in there.rows.items():
            step, within = here.steps.get(self.depth + level, 0), there.steps.get(level, 0)
            if rows and (step - within) % rows == 0 and step > within:
                stride = (step - within) // rows
                if stride * operand.dtype.itemsize % max(operand.align, 1):
                    raise _No(
                        f"the rows of `{format_access(own)}` are {stride} elements apart, no {operand.align} bytes"
                    )
                return stride
        raise _No(f"`{format_access(own)}` does not go along rows that are as far apart as each other")

    def _offset(self, access: Access, buffer: Buffer, text: str) -> _Offset:
        """Where an access is in memory, in elements, by the iterators from the scope on."""
        steps: dict[int, int] = {}
        indices: list[Affine | Access] = []
        for d, index in enumerate(access.indices):
            if isinstance(index, Access):
                raise _No(f"`{text}` is a gather")
            rest = index
            for depth in sorted(d for d in index.iterators if d >= self.depth):
                step = index.coefficient(Iter(depth))
                rest = rest - Affine.iterator(depth) * step
                if depth in rest.iterators:
                    raise _No(f"`{text}` does not grow by as much in each iteration at {{{depth}}}")
                if buffer.dims[d].collapsed:
                    continue
                stride = _stride(buffer, d)
                if not stride.is_constant:
                    raise _No(f"`{text}` moves {stride} elements with {{{depth}}}, which is not constant")
                steps[depth] = steps.get(depth, 0) + step * stride.offset
            indices.append(rest)
        return _Offset(Access(access.buffer, tuple(indices)), steps)

    @cached_property
    def _still(self) -> frozenset[int]:
        """The depths of the scopes around that run once."""
        around = (node for node in ancestors(self.kernel, self.path) if isinstance(node, Scope))
        return frozenset(depth for depth, scope in enumerate(around) if scope.extent.constant == 1)

    # -- operands --------------------------------------------------------------------------------------------
    def _distinct(self, bound: dict[str, InstructionOperand]) -> None:
        for written, other in permutations(bound, 2):
            if self.instruction.operands[written].role != "in":
                name = bound[written].access.buffer
                if bound[other].access.buffer == name:
                    raise _No(f"`{name}` would be both {written} and {other}, and the instruction writes {written}")

    def _aligned(self, bound: dict[str, InstructionOperand]) -> None:
        for name, operand in bound.items():
            align, buffer = self.instruction.operands[name].align, self.buffers[operand.access.buffer]
            row, wanted = buffer.swizzle, 128 if name in self.instruction.swizzled else 0
            if row != wanted and not (row == 128 and name in self.instruction.may_swizzle):
                cure = f"swizzle({buffer.name}, {wanted})"
                raise _No(
                    f"the instruction takes {name} with swizzle {wanted}, and `{buffer.name}` has {row}: {cure}"
                )
            own = SWIZZLED_ROWS * row or 16 if buffer.storage == "shared" else 64 if buffer.role == "tmp" else 0
            if align > max(buffer.align, own) or not _multiple(operand, buffer, align, self._still):
                raise _No(
                    f"{name} must be aligned to {align} bytes, and `{format_access(operand.access)}` may not be"
                )


@dataclass(frozen=True)
class _Offset:
    """An access without its inner iterators, and how many elements it moves with each of those, by depth."""

    base: Access
    steps: Mapping[int, int]


@dataclass(frozen=True)
class _Flat:
    """A position in an operand: `constant` plus a step for each iterator. Of a strided one, `rows` and `row` count
    what goes from row to row apart."""

    constant: int
    steps: Mapping[int, int]
    row: int = 0
    rows: Mapping[int, int] = field(default_factory=dict)

    def step(self, level: int, stride: int | None) -> int:
        """How many elements it moves with an iterator, rows being so far apart."""
        return self.steps.get(level, 0) + (stride or 0) * self.rows.get(level, 0)

    def ahead(self, stride: int | None) -> int:
        """How many elements behind the first of the operand it begins."""
        return self.constant + (stride or 0) * self.row


def _flat(access: Access, operand: Buffer) -> _Flat:
    """Where an access of an instruction's body is. Its extents are constant."""
    total, rows = Affine.constant(0), Affine.constant(0)
    for d, index in enumerate(access.indices):
        assert isinstance(index, Affine)
        if operand.strided and d == 0:
            rows = index
        elif not operand.dims[d].collapsed:
            total = total + index * _stride(operand, d).offset
    return _Flat(total.offset, _steps(total), rows.offset, _steps(rows))


def without(buffer: Buffer, dims: Collection[int]) -> Buffer:
    """A buffer with some of its dimensions collapsed: as a thread has it that they tell from others."""
    return replace(
        buffer, dims=tuple(replace(d, collapsed=d.collapsed or n in dims) for n, d in enumerate(buffer.dims))
    )


def _steps(affine: Affine) -> dict[int, int]:
    return {atom.depth: c for atom, c in affine.terms if isinstance(atom, Iter)}


def _stride(buffer: Buffer, dim: int) -> Affine:
    """How far apart neighbours along a dimension are: a constant, or an expression that is none."""
    order = buffer.order or tuple(range(len(buffer.dims)))
    pad = buffer.pad or (0,) * len(buffer.dims)
    total = Affine.constant(1)
    for d in reversed(order):
        if d == dim:
            break
        if not buffer.dims[d].collapsed:
            extent = buffer.dims[d].extent + pad[d]
            if total.is_constant:
                total = extent * total.offset
            elif extent.is_constant:
                total = total * extent.offset
    return total


def _elements_between(one: InstructionOperand, other: InstructionOperand, buffer: Buffer) -> int | None:
    """How many elements are between what two operands name, if that is a number."""
    total = 0
    for d, (a, b) in enumerate(zip(one.access.indices, other.access.indices, strict=True)):
        assert isinstance(a, Affine)
        assert isinstance(b, Affine)
        if buffer.dims[d].collapsed or a == b:
            continue
        stride = _stride(buffer, d)
        if not ((a - b).is_constant and stride.is_constant):
            return None
        total += (a - b).offset * stride.offset
    return total


def _multiple(operand: InstructionOperand, buffer: Buffer, align: int, still: Collection[int]) -> bool:
    """Whether an operand is a multiple of `align` bytes from the beginning of its buffer, by its form. Iterators
    at the depths `still` are 0."""
    size, elements = buffer.dtype.itemsize, [operand.ahead]
    for d, index in enumerate(operand.access.indices):
        assert isinstance(index, Affine)
        if not buffer.dims[d].collapsed:
            stride = _stride(buffer, d)
            factors = [c for _, c in stride.terms] + [stride.offset]
            moving = [c for a, c in index.terms if not isinstance(a, Iter) or a.depth not in still]
            elements += [c * f for c in (*moving, index.offset) for f in factors]
    return all(element * size % align == 0 for element in elements) if align else True


def _orders(value: Typed) -> Iterator[Typed]:
    """A value with the operands of what commutes in either order."""
    match value:
        case Apply(dtype, name, args):
            for operands in _products([list(_orders(arg)) for arg in args]):
                yield Apply(dtype, name, operands)
                if name in COMMUTATIVE or name == "fma":
                    yield Apply(dtype, name, (operands[1], operands[0], *operands[2:]))
        case Convert(dtype, arg, way):
            for inner in _orders(arg):
                yield Convert(dtype, inner, way)
        case _:
            yield value


def _products(choices: list[list[Typed]]) -> Iterator[tuple[Typed, ...]]:
    if not choices:
        yield ()
        return
    for first in choices[0]:
        for rest in _products(choices[1:]):
            yield (first, *rest)


def _many(count: int, thing: str) -> str:
    plural = f"{thing}ren" if thing == "child" else f"{thing}s"
    return f"{count} {thing if count == 1 else plural}"
