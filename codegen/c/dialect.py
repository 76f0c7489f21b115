"""Dialects as tables: how each operation of a lowered program is spelled, on which types.

A row is `operation  types  spelling`, each operation one of `OPERATIONS`. Types are names (`f32`), groups of them
(`float`), or pairs `to<from`, each perhaps with the widths in bits that the row is for: `@128,256` of the register
or of the lanes in it, `@=64` of the lanes alone. The first row that fits counts, then those of the dialect's base.
A spelling has operands `a b c` (values), `p` (a pointer), `m` (a mask), `n` (a count or stride), and words in angle
brackets that follow from the type: `<mm>_add_<s>(a, b)`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property

from dojoir.codegen.c.precedence import INFIX, Form, FunctionCall, Prefix, Template, Ternary
from dojoir.codegen.lir.operations import OPERATIONS
from dojoir.codegen.lir.program import Type
from dojoir.errors import did_you_mean
from dojoir.ir.dtypes import DTYPES, DType
from dojoir.support.frozen import dataclass

Words = Callable[[Type], Mapping[str, str]]
"""The words that a type gives to the spellings of a dialect; `type` is its name."""

MASKS = {bits: DType(f"m{bits}", "b", bits) for bits in (8, 16, 32, 64)}
"""The types of masks where they are vectors of integers, all of whose bits say the same."""

_SIZES = (8, 16, 32, 64)
_GROUPS = {
    "float": ("f32", "f64"),
    "signed": tuple(f"i{bits}" for bits in _SIZES),
    "unsigned": tuple(f"u{bits}" for bits in _SIZES),
    "mask": ("bool", *(f"m{bits}" for bits in _SIZES)),
    **{f"int{bits}": (f"i{bits}", f"u{bits}") for bits in _SIZES},
}
_GROUPS["int"] = (*_GROUPS["signed"], *_GROUPS["unsigned"])
_GROUPS["number"] = (*_GROUPS["float"], *_GROUPS["int"])
_TYPES = frozenset({"", *_GROUPS, *DTYPES, *_GROUPS["mask"]})


@dataclass(frozen=True)
class DialectRow:
    """One row of a table, for one type: `source` is the type of the operand where that is another; `widths` are
    those of the result in bits that it is for, none: all."""

    operation: str
    dtype: str
    source: str
    widths: frozenset[str]
    spelling: str


def rows(table: str) -> Iterator[DialectRow]:
    """The rows of a table as written; what stands behind a `#` at the beginning of a line is a comment."""
    for number, line in enumerate(table.splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        where, parts = f"line {number} of the table, {line!r}", re.split(r"\s{2,}", line.strip(), maxsplit=2)
        assert len(parts) == 3, f"{where}: a row is an operation, types and a spelling, two spaces apart"
        operation, types, spelling = parts
        unknown = operation not in OPERATIONS
        assert not unknown, f"{where}: no operation is called {operation}{did_you_mean(operation, OPERATIONS)}"
        for word in types.split():
            pair, _, widths = word.partition("@")
            to, _, source = pair.partition("<")
            for name in (to, source):
                assert name in _TYPES, f"{where}: no type is called {name}{did_you_mean(name, _TYPES)}"
            bits = frozenset(filter(None, widths.split(",")))
            for dtype in _GROUPS.get(to, (to,)):
                for origin in _GROUPS.get(source, (source,)):
                    yield DialectRow(operation, dtype, origin, bits, spelling)


@dataclass(frozen=True)
class Dialect:
    """The words of a language. What `table` has no row for is spelled as `base` does, in this one's words. Types
    that the table does not take are those of the base."""

    name: str
    words: Words
    table: tuple[DialectRow, ...]
    base: Dialect | None

    def takes(self, type: Type) -> bool:
        """Whether the table is for such types: here for scalars."""
        return type.lanes == 1

    def type_name(self, type: Type) -> str:
        """The name of a type."""
        return self.words(type)["type"] if self.base is None or self.takes(type) else self.base.type_name(type)

    def find(self, operation: str, type: Type, source: Type | None = None) -> str | None:
        """The spelling of an operation that gives `type` (from `source`, where that is another type), words filled
        in; None where the dialect has none."""
        if self.base is not None and not self.takes(type):
            return self.base.find(operation, type, source)
        key = operation, type, source
        if key not in self._looked_up:
            found = self._spelled(operation, type, source)
            self._looked_up[key] = None if found is None else self._filled(found, type, source)
        return self._looked_up[key]

    def has(self, operation: str, type: Type, source: Type | None = None) -> bool:
        return self.find(operation, type, source) is not None

    def spelled(self, operation: str, type: Type, source: Type | None = None) -> str:
        """The spelling of an operation that the dialect has."""
        found = self.find(operation, type, source)
        assert found is not None, f"{self.name} has no {operation} that gives {type}"
        return found

    def form(self, operation: str, type: Type, source: Type | None = None) -> Form:
        """The form that the operands of an operation go into."""
        return form_of(self.spelled(operation, type, source))

    def widths(self, type: Type) -> set[str]:
        """The widths of a type, as rows ask for them."""
        return {str(type.lanes * type.dtype.bits)}

    def _spelled(self, operation: str, type: Type, source: Type | None) -> str | None:
        key = operation, type.dtype.name, "" if source is None else source.dtype.name
        for row in self._index.get(key, ()) if self.takes(type) else ():
            if not row.widths or row.widths & self.widths(type):
                return row.spelling
        return None if self.base is None else self.base._spelled(operation, type, source)

    def _filled(self, spelling: str, type: Type, source: Type | None) -> str:
        if "<" not in spelling:
            return spelling
        words = {**self.words(type)}
        if source is not None:
            words |= self.of_source(type, source)
        return re.sub(r"<(\w+)>", lambda found: words.get(found[1], found[0]), spelling)

    def of_source(self, type: Type, source: Type) -> Mapping[str, str]:
        """The words that the type of an operand gives."""
        return {f"from_{name}": word for name, word in self.words(source).items()}

    @cached_property
    def _looked_up(self) -> dict[tuple[str, Type, Type | None], str | None]:
        return {}

    @cached_property
    def _index(self) -> Mapping[tuple[str, str, str], list[DialectRow]]:
        index: dict[tuple[str, str, str], list[DialectRow]] = {}
        for row in self.table:
            index.setdefault((row.operation, row.dtype, row.source), []).append(row)
        return index


@cache
def form_of(spelling: str) -> Form:
    """The form of an operation of C."""
    if spelling == "a ? b : c":
        return Ternary()
    if found := re.fullmatch(r"a (\S+) b", spelling):
        return INFIX[found[1]]
    if found := re.fullmatch(r"((?:\([\w ]+\))?[-!~]?)a", spelling):
        return Prefix(found[1])
    if found := re.fullmatch(r"(\w+)\(a(?:, b(?:, c)?)?\)", spelling):
        return FunctionCall(found[1])
    return Template(spelling)
