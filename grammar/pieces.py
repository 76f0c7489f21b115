"""Texts that have most of their lines in common, as those along a trace, each piece of them read once.

What a line of a kernel means follows from itself, the sizes, facts and fp mode, the declarations of the buffers
that it names, and how many scopes are around it, with which labels. Nothing else is looked up where a line is read
(`dojoir.grammar.names_in_scope`). A node is its line and those behind it that have more bars, so it means what
these lines mean there, whatever else the text holds. So the tree of a text can be put together from the trees of
its pieces, each read by the grammar from a small text of its own. The header, the buffers that the piece names, as
many scopes as are around it, with their labels, and the piece.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise

from dojoir.errors import Source
from dojoir.grammar.instructions import find_instruction
from dojoir.grammar.parser import written_kernel
from dojoir.ir.format import child_lines, format_buffer
from dojoir.ir.nodes import Buffer, Kernel, Node, Statement
from dojoir.ir.tree import with_body
from dojoir.support.derived import once_for_each
from dojoir.support.frozen import dataclass

Lines = tuple[str, ...]

_WORD = re.compile(r"[A-Za-z_]\w*")
_LABEL = re.compile(r" @\w+$")
_BAR = "| "


@dataclass(frozen=True)
class _Piece:
    """All that the meaning of some lines follows from. The header with the buffers that they name, what is around
    them, from the outside in, as lines of `_around`, and the lines, the first without bars."""

    header: Lines
    around: Lines
    lines: Lines

    def read(self) -> Kernel:
        """The kernel that has nothing but this."""
        depth = len(self.around)
        above = (_BAR * d + line for d, line in enumerate(self.around))
        return _kernel_of((*self.header, "", *above, *(_BAR * depth + line for line in self.lines)))


class Pieces:
    """The parsed pieces of some texts: trees by the texts that they were read from, and nothing else."""

    def __init__(self) -> None:
        self._headers: dict[Lines, Kernel] = {}
        self._nodes: dict[_Piece, Node] = {}
        self._heads: dict[_Piece, Node] = {}
        self._words: dict[Lines, frozenset[str]] = {}

    def read(self, kernel: Kernel) -> Kernel:
        """The kernel of a text, as `written_kernel` reads it. It has no source, as its pieces have several: a
        diagnostic shows its canonical text. Raises as `written_kernel` does, of a text with less in it."""
        head = tuple(kernel.head_lines())
        lines = [_declaration(buffer) for buffer in kernel.buffers]
        header, buffers = self._header(head), tuple(self._header((*head, line)).buffers[0] for line in lines)
        declared = dict(zip((buffer.name for buffer in buffers), lines, strict=True))
        if len(declared) < len(lines):
            _kernel_of((*head, *lines))  # raises, as a name is declared twice
        here = _NodeReader(self, head, declared)
        body = tuple(here.node(child_lines(child), ()) for child in kernel.body)
        return header.evolve(buffers=buffers, body=body)

    def _header(self, lines: Lines) -> Kernel:
        found = self._headers.get(lines)
        if found is None:
            found = self._headers[lines] = _kernel_of(lines)
        return found

    def words(self, lines: Lines) -> frozenset[str]:
        """All that may be a name in some lines."""
        found = self._words.get(lines)
        if found is None:
            found = self._words[lines] = frozenset(_WORD.findall("\n".join(lines)))
        return found


@dataclass(frozen=True)
class _NodeReader:
    """The reader of the nodes of one kernel: its header, and the line of each of its buffers."""

    pieces: Pieces
    head: Lines
    declared: Mapping[str, str]

    def node(self, lines: Lines, around: Lines) -> Node:
        """The node that some lines write, below others."""
        piece, known = self._piece(lines, around), self.pieces._nodes
        found = known.get(piece)
        if found is None:
            found = known[piece] = self._new(piece)
        return found

    def _new(self, piece: _Piece) -> Node:
        """A node that was not read yet: where something in it was, its line and its children each by itself."""
        lines, around = piece.lines, piece.around
        below = (*around, _around(lines[0]))
        children = list(_blocks(lines))
        if any(self._has_known(child, below) for child in children):
            head = self._head(lines, around)
            assert not isinstance(head, Statement)
            return with_body(head, tuple(self.node(child, below) for child in children))
        found = _innermost(piece)
        self._learn(found, lines, around)
        return found

    def _has_known(self, lines: Lines, around: Lines) -> bool:
        """Whether some node in these lines was read."""
        below = (*around, _around(lines[0]))
        return self._piece(lines, around) in self.pieces._nodes or any(
            self._has_known(child, below) for child in _blocks(lines)
        )

    def _head(self, lines: Lines, around: Lines) -> Node:
        """A node with the first line of some, whatever its children: read with the first statement in it."""
        key, known = self._piece(lines[:1], around), self.pieces._heads
        found = known.get(key)
        if found is None:
            first = tuple(line for depth, line in enumerate(lines) if _depth(line) == depth)
            found = known[key] = _innermost(self._piece(first, around))
        return found

    def _learn(self, node: Node, lines: Lines, around: Lines) -> None:
        """Notes what was read in one piece, of each node in it."""
        self.pieces._nodes[self._piece(lines, around)] = node
        if not isinstance(node, Statement):
            self.pieces._heads[self._piece(lines[:1], around)] = node
            below = (*around, _around(lines[0]))
            for child, block in zip(node.body, _blocks(lines), strict=True):
                self._learn(child, block, below)

    def _piece(self, lines: Lines, around: Lines) -> _Piece:
        named = sorted(word for word in self.pieces.words(lines) if word in self.declared)
        return _Piece((*self.head, *(self.declared[name] for name in named)), around, lines)


@once_for_each
def _declaration(buffer: Buffer) -> str:
    return format_buffer(buffer)


def _kernel_of(lines: Lines) -> Kernel:
    return written_kernel(Source("<certified>", "\n".join(lines) + "\n"), find_instruction)


def _innermost(piece: _Piece) -> Node:
    """The node of a piece, read by the grammar, from inside what is around it."""
    (node,) = piece.read().body
    for _ in piece.around:
        assert not isinstance(node, Statement)
        (node,) = node.body
    return node


def _around(line: str) -> str:
    """As much of the line of a node as counts for those in it: a guard, or a scope with its label."""
    label = _LABEL.search(line)
    return line if line.startswith("if ") else "1" + (label[0] if label else "")


def _depth(line: str) -> int:
    """The number of bars before a line."""
    depth = 0
    while line.startswith(_BAR, len(_BAR) * depth):
        depth += 1
    return depth


def _blocks(lines: Lines) -> Iterator[Lines]:
    """The lines of each child of a node, without the bars of the node."""
    inner = [line.removeprefix(_BAR) for line in lines[1:]]
    starts = [n for n, line in enumerate(inner) if not line.startswith(_BAR)]
    yield from (tuple(inner[a:b]) for a, b in pairwise((*starts, len(inner))))
