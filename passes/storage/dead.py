"""Moves that delete what has no effect, and put it back."""

from __future__ import annotations

from collections.abc import Iterator

from dojoir.ir.format import format_buffer, format_statement
from dojoir.ir.nodes import Buffer, Kernel, Node, Path, Statement, format_path, parse_path
from dojoir.passes.base.about import AboutTemporary, Arguments, Declared
from dojoir.passes.base.alternatives import Alternative
from dojoir.passes.base.move import BufferName, Move, Place, Quoted, Refusal, Rewrite, Undoing, place_of
from dojoir.passes.base.node_text import header, inserted, node_of, node_text, parsed
from dojoir.proof.check import InstanceMap, identity
from dojoir.proof.explain.example import spelling
from dojoir.proof.patterns.dead import without_writers
from dojoir.proof.verdict import Verdict
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class DeleteTemporary(AboutTemporary, name="delete_temporary"):
    """Deletes a temporary and every statement that writes it, with the scopes and guards that become empty.

    Legal where nothing else reads it. The inverse is `restore_temporary`, which holds the text that is deleted.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... tmp t: f32[N]
    ... N
    ... | t[{0}] = 2 * x[{0}]
    ... | y[{0}] = 2 * x[{0}] + 1
    ... ''')
    >>> print(dojoir.apply(k, "delete_temporary(t)"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    <BLANKLINE>
    N
    | y[{0}] = 2 * x[{0}] + 1
    <BLANKLINE>
    """

    def rewritten(self, at: Declared) -> Rewrite:
        kernel, name = at.kernel, at.place
        for site in kernel.sites:
            reader = site.statement
            if reader.target.buffer != name and any(a.buffer == name for a in reader.accesses):
                text = format_statement(reader, spelling(kernel, site.scopes))
                raise Refusal("still-read", f"`{name}` is read by `{text}`", site.path)
        pairs = zip(identity(kernel).origins, kernel.sites, strict=True)
        kept = tuple(origin for origin, site in pairs if site.statement.target.buffer != name)
        if not kept:
            raise Refusal("nothing-left", "nothing of the kernel would be left")
        after = kernel.without_buffers(name).evolve(body=without_writers(kernel.body, name))
        return Rewrite(after, InstanceMap(kept))

    def back(self, at: Declared) -> Move:
        number = next(n for n, b in enumerate(at.kernel.buffers) if b.name == self.buffer)
        deleted = list(_emptied(at.kernel.body, self.buffer, ()))
        return RestoreTemporary(
            Quoted(format_buffer(at.kernel.buffers[number])),
            number,
            tuple(map(place_of, deleted)),
            tuple(Quoted(node_text(at.kernel, path)) for path in deleted),
        )

    def alternatives(self, kernel: Kernel, verdict: Verdict) -> Iterator[Alternative]:
        """A temporary that nothing reads: its reads inlined."""
        readers = [
            site.path
            for site in kernel.sites
            if site.statement.target.buffer != self.buffer
            and any(access.buffer == self.buffer for access in site.statement.reads)
        ]
        yield Alternative(tuple(f"inline({format_path(path)}, {self.buffer})" for path in readers), str(self))

    @classmethod
    def listed(cls, at: Declared) -> Arguments:
        return [()]


def _emptied(nodes: tuple[Node, ...], buffer: str, around: Path) -> Iterator[Path]:
    """The largest subtrees that only write a buffer, in the order of the text."""
    for n, node in enumerate(nodes):
        if not without_writers((node,), buffer):
            yield (*around, n)
        elif not isinstance(node, Statement):
            yield from _emptied(node.body, buffer, (*around, n))


@dataclass(frozen=True)
class RestoreTemporary(Undoing, name="restore_temporary"):
    """Declares a temporary, as number `position` of the buffers, and puts in what writes it and has no other
    effect. The inverse of `delete_temporary`.

    `at` are the paths that the new nodes have afterwards, in the order of the text, and `nodes` their texts, in
    quotes, with `;` between the lines of one.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... N
    ... | y[{0}] = 2 * x[{0}] + 1
    ... ''')
    >>> print(dojoir.apply(k, 'restore_temporary("tmp t: f32[N]", 2, 0, "N; | t[{0}] = 2 * x[{0}]")'))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    tmp t: f32[N]
    <BLANKLINE>
    N
    | t[{0}] = 2 * x[{0}]
    N
    | y[{0}] = 2 * x[{0}] + 1
    <BLANKLINE>
    """

    declaration: Quoted
    position: int
    at: tuple[Place, ...] = ()
    nodes: tuple[Quoted, ...] = ()

    def undone(self, kernel: Kernel) -> tuple[Kernel, Move]:
        if not 0 <= self.position <= len(kernel.buffers):
            raise Refusal("bad-position", f"the kernel declares {len(kernel.buffers)} buffers, not {self.position}")
        if len(self.at) != len(self.nodes):
            raise Refusal("bad-text", "give as many places as texts of nodes")
        buffer = self._declared(kernel)
        buffers = (*kernel.buffers[: self.position], buffer, *kernel.buffers[self.position :])
        earlier = kernel.evolve(buffers=buffers)
        for place, text in zip(self.at, self.nodes, strict=True):
            path = parse_path(place)
            node = node_of(earlier, path[:-1], text.text)
            earlier = earlier.evolve(body=inserted(earlier.body, path, node))
        return earlier, DeleteTemporary(BufferName(buffer.name))

    def _declared(self, kernel: Kernel) -> Buffer:
        """The buffer that is declared. Raises Refusal."""
        found = parsed([*header(kernel), self.declaration.text]).buffers
        if len(found) != len(kernel.buffers) + 1 or found[-1].role != "tmp":
            raise Refusal("bad-text", f"{self.declaration} declares no temporary, such as tmp t: f32[N]")
        return found[-1]
