"""Instruction sets as data: which intrinsic stands for which operation of a lowered program on which vector.

A set is a table of rows `operation  types  spelling`, each operation one of `OPERATIONS`. Types are names (`f32`),
groups of them (`float`), or pairs `to<from`, each perhaps with the widths in bits that the row is for: `@128,256`
of the register or of the lanes in it, `@=64` of the lanes alone. The first row that fits counts. A spelling is C
with operands `a b c` (values), `p` (a pointer), `m` (a mask), `n` (a count or stride), `vl` or `pg` (which lanes
are at work), and words in angle brackets that follow from the type: `<mm>_add_<s>(a, b)`. What the table lacks,
`simd.rules` makes of other operations, or a helper does lane by lane.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from functools import cached_property

from dojoir.codegen.c.precedence import Level, Text
from dojoir.codegen.lir.program import Type
from dojoir.codegen.simd.operations import OPERATIONS
from dojoir.codegen.target import Target
from dojoir.ir.dtypes import DType
from dojoir.support.frozen import dataclass

Words = Callable[[Type], Mapping[str, str]]
"""The words that a vector type gives to the spellings of an instruction set; `type` is its name in C."""

MASKS = {bits: DType(f"m{bits}", "b", bits) for bits in (8, 16, 32, 64)}
"""The types of masks where they are vectors of integers, all of whose bits say the same."""

_GROUPS = {
    "float": ("f32", "f64"),
    "signed": ("i8", "i16", "i32", "i64"),
    "unsigned": ("u8", "u16", "u32", "u64"),
    "int": ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"),
    "mask": ("bool", "m8", "m16", "m32", "m64"),
    "int8": ("i8", "u8"),
    "int16": ("i16", "u16"),
    "int32": ("i32", "u32"),
    "int64": ("i64", "u64"),
}


@dataclass(frozen=True)
class Row:
    """One row of a table, for one type: `source` is the type of the operand where that is another; `widths` are
    those of the result in bits that it is for, none: all."""

    operation: str
    dtype: str
    source: str
    widths: frozenset[str]
    spelling: str


def rows(table: str) -> Iterator[Row]:
    """The rows of a table as written; what stands behind a `#` at the beginning of a line is a comment."""
    for line in filter(None, table.splitlines()):
        if not line.startswith("#"):
            operation, types, spelling = re.split(r"\s{2,}", line.strip(), maxsplit=2)
            assert operation in OPERATIONS, f"no operation is called {operation}"
            for word in types.split():
                pair, _, widths = word.partition("@")
                to, _, source = pair.partition("<")
                for dtype in _GROUPS.get(to, (to,)):
                    for origin in _GROUPS.get(source, (source,)):
                        bits = frozenset(filter(None, widths.split(",")))
                        yield Row(operation, dtype, origin, bits, spelling)


@dataclass(frozen=True)
class Isa:
    """An instruction set. A vector value has at most `most_bits`, its lanes a power of two, at least `least_bits`
    in its widest type (fewer lanes are scalars).

    `active`, if it is not empty, names the operand that tells every operation which lanes are at work, a number
    (`vl`) or a predicate (`pg`), and `active_type` is its type in C; lanes may then be any number. `keeping`,
    there, is a suffix of the names that begin with `prefix`, for operations that take first what the other lanes
    keep. `mask_bits` says that a mask is one bit a lane in a type of its own; else it is a vector of integers.
    `gathers` says that strided and gathered accesses use vectors of i64 offsets.

    `options` is what GCC and Clang need to be told, `cross_options` a Clang on another machine; `features` is what
    the processor must have, by LLVM's names. `emulator_options` are those of QEMU's user emulator, with `{bits}`
    and `{bytes}` for the length of a register, which may be one of `lengths` (none: it has one length). `helpers`
    are functions that the spellings call."""

    name: str
    target: Target
    words: Words
    table: tuple[Row, ...]
    most_bits: int
    least_bits: int
    header: str
    options: tuple[str, ...]
    architecture: str
    features: frozenset[str] = frozenset()
    cross_options: tuple[str, ...] = ()
    emulator_options: tuple[str, ...] = ()
    lengths: tuple[int, ...] = ()
    active: str = ""
    active_type: str = "size_t"
    prefix: str = ""
    keeping: str = ""
    mask_bits: bool = False
    gathers: bool = False
    helpers: Mapping[str, str] = field(default_factory=dict)

    def find(self, operation: str, type: Type, source: Type | None = None) -> str | None:
        """The spelling of an operation that gives `type` (from `source`, where that is another type), words filled
        in; None where the set has no such instruction."""
        origin = "" if source is None else source.dtype.name
        lanes = 1 << (type.lanes - 1).bit_length() if self.active else type.lanes
        used = lanes * type.dtype.bits
        widths = {f"{max(self.least_bits, used)}", f"{used}", f"={used}"}
        for row in self._index.get((operation, type.dtype.name, origin), ()):
            if not row.widths or row.widths & widths:
                return self._filled(row.spelling, type, source)
        return None

    def has(self, operation: str, type: Type, source: Type | None = None) -> bool:
        return self.find(operation, type, source) is not None

    def type_name(self, type: Type) -> str:
        """The C name of a vector type."""
        return self.words(type)["type"]

    def label(self, type: Type) -> str:
        """The type in the names of functions: f32x16, or what the set says, as f32m4 for a group of registers."""
        return self.words(type).get("label", str(type))

    def register_bits(self, type: Type) -> int:
        """The bits of the register that holds a vector."""
        return max(self.least_bits, type.lanes * type.dtype.bits)

    def _filled(self, spelling: str, type: Type, source: Type | None) -> str:
        words = dict(self.words(type))
        if source is not None:
            given = self.words(source)
            words |= {f"from_{name}": word for name, word in given.items()}
            wider = given if self.register_bits(source) > self.register_bits(type) else words
            words["wide"] = wider.get("mm", "")
        return re.sub(r"<(\w+)>", lambda found: words.get(found[1], found[0]), spelling)

    @cached_property
    def _index(self) -> Mapping[tuple[str, str, str], list[Row]]:
        index: dict[tuple[str, str, str], list[Row]] = {}
        for row in self.table:
            index.setdefault((row.operation, row.dtype, row.source), []).append(row)
        return index


@dataclass(frozen=True)
class Template:
    """The form of an operation that an instruction set spells: `operands` are the names in it, in the order in
    which their values are given."""

    spelling: str
    operands: tuple[str, ...] = ("a", "b", "c")

    def apply(self, *operands: Text) -> Text:
        given = dict(zip(self.operands, operands, strict=False))
        if self.spelling == "a":
            return given["a"]

        def fill(found: re.Match[str]) -> str:
            operand = given.get(found[0])
            if operand is None:
                return found[0]
            before, after = self.spelling[: found.start()], self.spelling[found.end() :]
            alone = before.endswith(("(", ", ")) and after.startswith((")", ","))
            return operand.text if alone else operand.within(Level.UNARY)

        return Text(re.sub(r"\b(?:vl|pg|[abcpmn])\b", fill, self.spelling), _level(self.spelling))


_LEVELS = {"?": Level.CONDITIONAL, "|": Level.BIT_OR, "^": Level.BIT_XOR, "&": Level.BIT_AND}
_LEVELS |= {"==": Level.EQUALITY, "!=": Level.EQUALITY, ">>": Level.SHIFT, "<<": Level.SHIFT, "+": Level.ADD}


def _level(spelling: str) -> Level:
    """How tightly a spelling binds: by the loosest operator outside of brackets."""
    depth, found = 0, [Level.PRIMARY]
    for word in re.findall(r"[()\[\]{}]|[?|^&=!<>+]+|[^()\[\]{}?|^&=!<>+]+", spelling):
        if word in "([{":
            depth += 1
        elif word in ")]}":
            depth -= 1
        elif depth == 0 and word in _LEVELS:
            found.append(_LEVELS[word])
    cast = spelling.startswith(("(", "~", "*", "!"))
    return min(*found, Level.UNARY if cast else Level.PRIMARY)
