"""Statements and values of a kernel of the device as lines of C++."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import reduce
from itertools import compress

from dojoir.codegen.c.c_values import CValues
from dojoir.codegen.c.precedence import ADD, BIT_OR, SHIFT_LEFT, SHIFT_RIGHT, Prefix, Text, comment, indent
from dojoir.codegen.c.statements import BlockContext, CStatements
from dojoir.codegen.gpu.dialects import CUDA, TYPES, GpuSpelling, Language, transported
from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.arith import integer
from dojoir.codegen.lir.linear import parted
from dojoir.codegen.lir.program import (
    AXES,
    Atomic,
    Barrier,
    BlockNumber,
    Dot,
    Phase,
    ProgramArray,
    Shuffle,
    Store,
    Value,
)
from dojoir.ir.buffer_rules import SWIZZLED_ROWS
from dojoir.support.frozen import dataclass

PARTS = "xyzw"


@dataclass(frozen=True)
class DeviceValues(CValues):
    """Prints values with those of threads."""

    language: Language = field(default=CUDA)
    swizzled: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Of the arrays of which chunks are exchanged, the bytes of a row and of an element."""

    def place(self, buffer: str, offset: Value) -> Text:
        if buffer not in self.swizzled:
            return self.linear(buffer, offset)
        row, size = self.swizzled[buffer]
        blocks, inside = parted(offset, SWIZZLED_ROWS * row // size)
        place = Text(f"swizzled{row}<{size}>({self.text(inside, True)})")
        if blocks != integer(0):
            place = ADD.apply(self.text(blocks, True), place)
        return Text(f"{self.names[buffer]}[{place}]")

    def linear(self, buffer: str, offset: Value) -> Text:
        """The place that an element would have if no chunks were exchanged: instructions exchange them."""
        return super().place(buffer, offset)

    def text(self, value: Value, at_position: bool = False) -> Text:
        match value:
            case lir.ThreadNumber():
                return self._number(self.language.thread)
            case BlockNumber(_, axis):
                return self._number(self.language.block.format(axis=AXES[axis]))
            case lir.Extract(arg, lane):
                return self._neighbour(arg, lane)
            case lir.Pack(type, args):
                words = self._words(type, [self.text(arg) for arg in args])
                return Text(f"{self.spelling.type(type)}{{{', '.join(words)}}}")
            case lir.Load(type, buffer, offset) if type.lanes > 1:
                return Text(f"*({self._wide(buffer, offset, self.spelling.type(type), 'const ')})")
            case Shuffle():
                return self._shuffle(value)
            case lir.Quads(_, buffer, offset):
                return Text(f"*({self._wide(buffer, offset, 'int', 'const ')})")
            case Dot(a, b, c, signed):
                kinds = "_".join("i8" if each else "u8" for each in signed)
                total = Text(f"dot4_{kinds}({self.text(a)}, {self.text(b)}, {self.text(c)})")
                return total if c.type.dtype.name == "i32" else Prefix("(unsigned)").apply(total)
        return super().text(value, at_position)

    def _neighbour(self, wide: Value, lane: int) -> Text:
        """One of the neighbours that were moved together."""
        kind = wide.type
        if transported(kind) == kind:
            return Text(f"{self.text(wide)}.{PARTS[lane]}")
        word, place = divmod(lane * kind.dtype.bits, 32)
        shifted = Text(f"{self.text(wide)}.{PARTS[word]}")
        if place:
            shifted = SHIFT_RIGHT.apply(shifted, Text(str(place)))
        return Prefix(f"({self.spelling.element(kind.dtype)})").apply(shifted)

    def _words(self, kind: lir.Type, elements: Sequence[Text]) -> list[str]:
        """Neighbours that are moved together, as the parts of what they are moved as."""
        if transported(kind) == kind:
            return [str(element) for element in elements]
        unsigned, bits = f"(unsigned)({TYPES[f'u{kind.dtype.bits}']})", kind.dtype.bits
        each = 32 // bits
        parts = [Prefix(unsigned).apply(element) for element in elements]
        shifted = [
            SHIFT_LEFT.apply(part, Text(str(n % each * bits))) if n % each else part for n, part in enumerate(parts)
        ]
        return [str(reduce(BIT_OR.apply, shifted[start : start + each])) for start in range(0, len(shifted), each)]

    def _number(self, word: str) -> Text:
        """A number of the device, which has no sign: in a sum of 32 bits it would take that of the others."""
        return Prefix("(int)").apply(Text(word)) if self.short else Text(word)

    @property
    def short(self) -> bool:
        """Whether indices have 32 bits."""
        return isinstance(self.spelling, GpuSpelling) and self.spelling.short

    def _wide(self, buffer: str, offset: Value, kind: str, const: str) -> str:
        return f"({const}{kind} *)&{self.place(buffer, offset)}"

    def wide_place(self, store: Store) -> str:
        """The place of a wide store."""
        kind = self.spelling.type(store.value.type)
        return f"*({kind} *)&{self.place(store.buffer, store.offset)}"

    def _shuffle(self, shuffle: Shuffle) -> Text:
        arg, width = self.text(shuffle.arg), shuffle.width
        mask = group_mask(width, self.language)
        by = self.text(shuffle.by)
        word = self.language.shuffle.format(how={"xor": "_xor", "up": "_up"}.get(shuffle.how, ""))
        if shuffle.how == "xor":
            return Text(f"{word}({mask}, {arg}, {by})")
        whole = width == self.language.warp
        return Text(f"{word}({mask}, {arg}, {by})" if whole else f"{word}({mask}, {arg}, {by}, {width})")


def group_mask(width: int, language: Language) -> str:
    """The threads of a warp that stand together with this one in groups of `width`."""
    if width == language.warp:
        return f"0x{(1 << width) - 1:x}{'u' if width <= 32 else 'ull'}"
    ones = f"0x{(1 << width) - 1:x}{'u' if language.warp <= 32 else 'ull'}"
    return f"{ones} << ({language.thread} % {language.warp} / {width} * {width})"


@dataclass(frozen=True)
class DeviceStatements(CStatements):
    """Prints what every thread of a block runs."""

    values: DeviceValues

    def _statement_lines(self, stmt: lir.Stmt, around: BlockContext) -> Iterator[str]:
        match stmt:
            case Phase():
                yield from self._phase(stmt, around)
            case Barrier(about, lanes, proxy):
                language = self.values.language
                if proxy:
                    yield "fence_proxy();"
                word = language.barrier
                if lanes:
                    word = f"{language.warp_barrier}({group_mask(lanes, language)})"
                names = ", ".join(self.values.names.get(name, name) for name in about)
                yield f"{word};  {comment(f'barrier: {names}')}"
            case lir.Start(buffer, offset, value):
                source = self.values.place(value.buffer, value.offset)
                size = value.type.lanes * value.type.dtype.itemsize
                yield f"start_copy<{size}>(&{self.values.place(buffer, offset)}, &{source});"
            case lir.Commit():
                yield "commit_copies();"
            case lir.Land(groups):
                yield f"land_copies<{groups}>();  {comment('but for so many groups, the last ones')}"
            case Atomic(op, buffer, offset, value):
                yield self._atomic(op, self.values.place(buffer, offset), value)
            case lir.Swap(seen, buffer, offset, value):
                word = "unsigned" if seen.type.dtype.bits == 32 else "unsigned long long"
                own, made = self.values.text(seen), self.values.text(value)
                yield f"while (!swapped<{word}>(&{self.values.place(buffer, offset)}, {own}, {made}));"
            case lir.Prefetch():
                return
            case _:
                yield from super()._statement_lines(stmt, around)

    def _atomic(self, op: str, place: Text, value: Value) -> str:
        word, text = self.values.language.atomics[op], self.values.text(value)
        if op not in ("min", "max") and value.type.dtype.name == "i64":  # the bits are those without a sign
            return f"{word}((u64 *)&{place}, (u64)({text}));"
        return f"{word}(&{place}, {text});"

    def _phase(self, phase: Phase, around: BlockContext) -> Iterator[str]:
        body = list(self.block(phase.body, around))
        if not body:
            return
        language = self.values.language
        head = "{" if phase.threads is None else f"if ({language.thread} < {phase.threads}) {{"
        yield f"{head}  {comment(phase.comment)}" if phase.comment else head
        yield from indent(body)
        yield "}"

    def _instruct(self, stmt: lir.Instruct, around: BlockContext) -> Iterator[str]:
        """A call of the helper function that is the instruction."""
        given, arrays = list[str](), list[str]()
        for _, operand in stmt.operands:
            assert isinstance(operand, lir.Element), "a group of threads has its operands in arrays"
            arrays.append(operand.buffer)
            place = f"&{self.values.linear(operand.buffer, operand.offset)}"
            given.append(place if operand.near is None else f"{place} + ({self.values.text(operand.near, True)})")
        given += [str(stride) for _, stride in stmt.strides]
        asked = (name in stmt.instruction.may_swizzle for name, _ in stmt.operands)
        given += ["7" if buffer in self.values.swizzled else "0" for buffer in compress(arrays, asked)]
        yield f"{stmt.instruction.name}({', '.join(given)});"

    def _store(self, store: Store) -> Iterator[str]:
        if store.value.type.lanes > 1:
            yield f"{self.values.wide_place(store)} = {self.values.text(store.value)};"
        else:
            yield from super()._store(store)

    def _record(self, condition: Text, status: int) -> str:
        return f"if ({condition}) {self.values.language.atomics['max']}(status, {status});"

    def _local(self, array: ProgramArray) -> Iterator[str]:
        yield self.array(array)

    def array(self, array: ProgramArray) -> str:
        """The declaration of an array in registers, in the memory of a thread, or shared by a block."""
        assert isinstance(array.elements, lir.Const), f"array {array.name} has an open size"
        shared = "__shared__ " if array.lives == "shared" else ""
        align = f"__align__({array.align}) " if array.align > array.dtype.itemsize else ""
        element = self.values.spelling.element(array.dtype)
        return f"{shared}{align}{element} {self.values.names[array.name]}[{max(1, int(array.elements.value))}];"

    def _for(self, loop: lir.For, around: BlockContext) -> Iterator[str]:
        for line in super()._for(loop, around):
            yield "#pragma unroll" if line.startswith("#pragma GCC unroll") else line
