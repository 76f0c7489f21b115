"""The meaning of the names of a text: sizes, buffers and the iterators around a line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace

from dojoir.errors import Diagnostic, KernelError, Note, Source, Span, did_you_mean
from dojoir.grammar import syntax
from dojoir.grammar.other_languages import cure_of_name, cure_of_type
from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import DTYPES, DType
from dojoir.ir.instruction import Instruction
from dojoir.ir.nodes import Buffer, Size
from dojoir.ir.words import RESERVED
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class OpenScope:
    """A scope around a line: its label, and the place of its line."""

    label: str | None
    span: Span


@dataclass(frozen=True)
class NamesInScope:
    """The names known at one line. `scopes[d]` has iterator `{d}`; None in the header, where there are none."""

    source: Source
    sizes: dict[str, Size]
    buffers: dict[str, Buffer]
    scopes: tuple[OpenScope, ...] | None = None
    instruction: Callable[[str], Instruction] | None = None
    """Finds the instructions that hints name; None where a text may name none, as that of an instruction."""

    def body(self) -> NamesInScope:
        """The names known at the top of the body."""
        return replace(self, scopes=())

    def inside(self, scope: OpenScope) -> NamesInScope:
        """The names known in the body of a scope on this line. Its label must be new among those around it."""
        scopes = self.scopes or ()
        for outer in scopes:
            if scope.label is not None and outer.label == scope.label:
                note = Note(f"@{short(scope.label)} is around this line", outer.span)
                message = f"a scope around this one is already labelled @{short(scope.label)}"
                raise self.error("duplicate-label", message, scope.span, note)
        return replace(self, scopes=(*scopes, scope))

    # -- errors ------------------------------------------------------------------------------------------
    def error(self, code: str, message: str, span: Span, *notes: Note) -> KernelError:
        """A KernelError with its place in this text."""
        return KernelError(Diagnostic(code, message, span, self.source, notes))

    def note(self, buffer: Buffer) -> Note:
        """Where a buffer is declared."""
        return Note(f"{buffer.name} is declared here", buffer.loc)

    # -- looking names up --------------------------------------------------------------------------------
    def size(self, size: Size) -> Affine:
        """A size in an expression: a fixed one is its number."""
        return Affine.size(size.name) if size.value is None else Affine.constant(size.value)

    def buffer(self, name: syntax.Word) -> Buffer:
        """The buffer of that name."""
        if name.text not in self.buffers:
            if name.text in self.sizes:
                raise self.error("wrong-rank", f"{name.text} is a size, and has no indices", name.span)
            if name.text in RESERVED:
                cure = f"write {name.text}(…)"
                raise self.error("unknown-buffer", f"{name.text} is not a buffer: {cure}", name.span)
            raise self._unknown("unknown-buffer", "buffer", name, self.buffers)
        return self.buffers[name.text]

    def unknown(self, name: syntax.Word, known: Iterable[str]) -> KernelError:
        """The error for a name without brackets that is neither a size nor a scalar buffer."""
        if self.scopes and any(scope.label == name.text for scope in self.scopes):
            cure = f"the iterator of @{name.text} is written {{{name.text}}}"
            return self.error("unknown-name", f"'{name.text}' is not a size; {cure}", name.span)
        if name.text in RESERVED:
            return self.error("unknown-name", f"{name.text} is called: write {name.text}(…)", name.span)
        cure = cure_of_name(name.text)
        if cure:
            return self.error("unknown-name", f"there is no '{name.text}': {cure}", name.span)
        return self._unknown("unknown-name", "size or scalar buffer", name, known)

    def _unknown(self, code: str, kind: str, name: syntax.Word, known: Iterable[str]) -> KernelError:
        hint = did_you_mean(name.text, known)
        if "//" in self.source.line(name.span.line)[: name.span.column - 1] and not hint:
            hint = "; if `//` is to begin a comment: one starts with '#'"
        if not hint and re.fullmatch(r"[A-Za-z_]\w*", name.text):
            where = f"`tmp {short(name.text)}: f32`, or with its dimensions in brackets"
            hint = f": declare it below the 'kernel' line, as {where}"
            if kind != "buffer":
                hint += f"; a size is named in 'kernel k({short(name.text)})'"
        return self.error(code, f"there is no {kind} '{short(name.text)}'{hint}", name.span)

    def iterator(self, iterator: syntax.Iterator) -> int:
        """The depth of the iterator."""
        text, span = iterator.text, iterator.span
        if self.scopes is None:
            raise self.error(
                "unknown-iterator", f"{{{short(text)}}} is not known here: only the body has iterators", span
            )
        if text[0].isdigit():
            if not text.isdigit() or str(int(text[:9])) != text:
                raise self.error(
                    "unknown-iterator", f"{{{short(text)}}} is not an iterator: write {{0}} or {{i}}", span
                )
            if int(text) >= len(self.scopes):
                raise self.error("unknown-iterator", f"there is no iterator {{{text}}} here: {self._known()}", span)
            return int(text)
        for depth, scope in enumerate(self.scopes):
            if scope.label == text:
                return depth
        labels = [scope.label for scope in self.scopes if scope.label]
        hint = did_you_mean(text, labels) or f": {self._known()}"
        raise self.error("unknown-iterator", f"no scope around this line is labelled @{short(text)}{hint}", span)

    def _known(self) -> str:
        scopes = self.scopes or ()
        if not scopes:
            return "it has no scope around it"
        known = [f"{{{depth}}}" + (f" or {{{s.label}}}" if s.label else "") for depth, s in enumerate(scopes)]
        return f"the scopes around it have {', '.join(known)}"

    def dtype(self, name: syntax.Word) -> DType:
        """The element type of that name."""
        if name.text not in DTYPES:
            meant = cure_of_type(name.text)
            hint = f": {meant}" if meant else did_you_mean(name.text, DTYPES)
            hint = hint or f": write one of {', '.join(DTYPES)}"
            raise self.error("unknown-dtype", f"there is no element type '{short(name.text)}'{hint}", name.span)
        return DTYPES[name.text]


def short(text: str) -> str:
    """A word of the text, cut where it is too long to show."""
    return text if len(text) <= 40 else text[:37] + "…"
