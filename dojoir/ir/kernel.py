"""A kernel: its sizes, the facts about them, its buffers, and an ordered tree of scopes, guards and statements.

Two kernels are equal when they mean the same by their text: labels and source positions do not count.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from itertools import chain
from typing import ClassVar

from dojoir.errors import ArgumentError, Source, did_you_mean, repr_of
from dojoir.ir.buffer import Buffer, DataFact, Size
from dojoir.ir.format import format_buffer, format_condition, node_lines, unlabelled
from dojoir.ir.paths import Path, format_path, parse_path
from dojoir.ir.rewriting.retyped import retyped
from dojoir.ir.rewriting.substitution import fixed_sizes, substitute, substitute_condition
from dojoir.ir.tree import Condition, Node, Scope, Site, Statement, holds, sites_at, with_body
from dojoir.support.derived import cached_property
from dojoir.support.frozen import dataclass, hash_once
from dojoir.support.public import public

FP_MODES = ("strict", "reassoc", "fast")


@hash_once
@dataclass(frozen=True)
class Kernel:
    """A kernel: its sizes, the facts about them, its buffers and its body."""

    held_bytes: ClassVar[int] = 10_000
    """Approximate size of one, with the properties of its statements that are computed on demand."""

    name: str
    sizes: tuple[Size, ...]
    buffers: tuple[Buffer, ...]
    body: tuple[Node, ...]
    facts: tuple[Condition, ...] = ()
    fp: str = "reassoc"
    source: Source | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        """The text with its labels, which parses back to an equal kernel; `dojoir.ir.text.canonical_text` has
        none."""
        return self.text(labels=True)

    def text(self, names: bool = False, labels: bool = False) -> str:
        """See `dojoir.to_text`."""
        return "".join(f"{line}\n" for _, line in self.lines(names, labels))

    def lines(self, names: bool = False, labels: bool = False) -> Iterator[tuple[Path, str]]:
        """The lines of the text, each with the path of its node (an empty path for the header)."""
        yield from (((), line) for line in self.head_lines())
        yield from (((), format_buffer(buffer)) for buffer in self.buffers)
        if self.body:
            yield (), ""
        for i, node in enumerate(self.body):
            yield from node_lines(node, (i,), (), 0, names, labels)

    def head_lines(self) -> Iterator[str]:
        """The lines of the text before those of the buffers."""
        sizes = ", ".join(s.name if s.value is None else f"{s.name} = {s.value}" for s in self.sizes)
        yield f"kernel {self.name}({sizes})"
        if self.facts:
            yield "where " + ", ".join(format_condition(fact) for fact in self.facts)
        if self.fp != "reassoc":
            yield f"fp {self.fp}"

    def unlabelled(self) -> Kernel:
        """The kernel without labels: its text is the canonical one."""
        return self.evolve(body=tuple(map(unlabelled, self.body)))

    def __repr__(self) -> str:
        sizes = ", ".join(size.name if size.value is None else f"{size.name} = {size.value}" for size in self.sizes)
        count = len(self.sites)
        given = ", ".join(buffer.name for buffer in self.buffers if buffer.role in ("in", "inout"))
        back = ", ".join(buffer.name for buffer in self.buffers if buffer.role in ("out", "inout"))
        statements = f"{count} statement{'' if count == 1 else 's'}"
        return f"<Kernel {self.name}({sizes}): {given} -> {back}, {statements}>"

    def _repr_html_(self) -> str:
        """The text in colours, as notebooks show it."""
        from dojoir.ir.html import kernel_html

        return kernel_html(str(self))

    @cached_property
    def hash(self) -> str:
        """The identity of the canonical text (depth style, no labels): 64 hex digits."""
        return hashlib.sha256(self.unlabelled().text().encode()).hexdigest()

    @cached_property
    def runtime_sizes(self) -> tuple[str, ...]:
        """The names of the sizes that are given at run time, in declared order."""
        return tuple(size.name for size in self.sizes if size.value is None)

    @cached_property
    def _buffers(self) -> dict[str, Buffer]:
        return {buffer.name: buffer for buffer in self.buffers}

    @cached_property
    def declared(self) -> frozenset[str]:
        """The names of its sizes and buffers."""
        return frozenset((*(size.name for size in self.sizes), *self._buffers))

    @property
    def arguments(self) -> tuple[Buffer, ...]:
        """The buffers that a call takes, in declared order: in, out and inout."""
        return tuple(buffer for buffer in self.buffers if buffer.role != "tmp")

    @cached_property
    def data_facts(self) -> tuple[tuple[Buffer, DataFact], ...]:
        """The facts on the data of its arguments, which each call checks."""
        return tuple((buffer, fact) for buffer in self.arguments for fact in buffer.facts)

    @cached_property
    def undeclared(self) -> tuple[str, ...]:
        """The buffers that statements use and the kernel does not declare: none in a well-formed one."""
        if all(self._buffers.keys() >= node.buffers for node in self.body):
            return ()
        used = (access.buffer for site in self.sites for access in site.statement.accesses)
        return tuple(name for name in dict.fromkeys(used) if name not in self._buffers)

    def buffer(self, name: str) -> Buffer:
        """The buffer of that name. Raises ArgumentError with the nearest name."""
        try:
            return self._buffers[name]
        except Exception:
            if not isinstance(name, str):
                raise ArgumentError(f"a buffer is named by a text, not {repr_of(name)}", "unknown-buffer") from None
            raise ArgumentError(
                f"kernel {self.name} has no buffer '{name}'{did_you_mean(name, self._buffers)}",
                "unknown-buffer",
            ) from None

    def at(self, place: str | Path) -> Node:
        """The node at a path (`"0.1"`) or a label (`"@j"`). Raises ArgumentError if there is none."""
        node: Node | Kernel = self
        for child in self.path(place):
            assert not isinstance(node, Statement)
            node = node.body[child]
        assert not isinstance(node, Kernel)
        return node

    def path(self, place: str | Path) -> Path:
        """The path of a place (`"0.1"`, `"@j"`). Raises ArgumentError if there is none, or more than one."""
        if not isinstance(place, str):
            return self._path(place)
        word = str.__str__(place)  # a subclass may compare as it likes
        found = self._paths.get(word)
        if found is None:
            found = self._paths[word] = self._path(word)
        return found

    @cached_property
    def _paths(self) -> dict[str, Path]:
        """The paths of the places that were asked for, by their words."""
        return {}

    def _path(self, place: str | Path) -> Path:
        if isinstance(place, str) and place.startswith("@"):
            found = [path for path, node in self.walk() if isinstance(node, Scope) and node.label == place[1:]]
            if len(found) == 1:
                return found[0]
            if found:
                places = ", ".join(format_path(path) for path in found)
                raise ArgumentError(
                    f"{place} is the label of several scopes: {places}; give a path", "ambiguous-place"
                )
            labels = sorted({f"@{n.label}" for _, n in self.walk() if isinstance(n, Scope) and n.label})
            known = f"; labels here: {', '.join(labels)}" if labels else "; this kernel has no labels"
            raise ArgumentError(
                f"no scope is labelled {place}{did_you_mean(place, labels)}{known}", "unknown-place"
            )
        path = parse_path(place) if isinstance(place, str) else place
        if not (isinstance(path, tuple) and all(type(child) is int for child in path)):
            message = f"a place is a path or a label, such as '0.1' or '@j', not {repr_of(place)}"
            raise ArgumentError(message, "bad-place")
        node: Node | Kernel = self
        for depth, child in enumerate(path):
            children = () if isinstance(node, Statement) else node.body
            if not 0 <= child < len(children):
                where = format_path(path[:depth]) if depth else "the kernel"
                has = f"{where} has {len(children)} child{'' if len(children) == 1 else 'ren'}"
                raise ArgumentError(f"there is no place {format_path(path)}: {has}", "unknown-place")
            node = children[child]
        if not path:
            raise ArgumentError("a place needs at least one child index, such as 0 or 0.1", "unknown-place")
        return path

    def walk(self) -> Iterator[tuple[Path, Node]]:
        """Every node with its path, in the order of the text."""

        def visit(nodes: tuple[Node, ...], prefix: Path) -> Iterator[tuple[Path, Node]]:
            for i, node in enumerate(nodes):
                path = (*prefix, i)
                yield path, node
                if not isinstance(node, Statement):
                    yield from visit(node.body, path)

        yield from visit(self.body, ())

    def depth_of(self, path: Path) -> int:
        """How many scopes enclose the node at `path`: the depth of its iterator, if it is a scope."""
        depth = 0
        node: Node | Kernel = self
        try:
            for child in path:
                depth += isinstance(node, Scope)
                assert not isinstance(node, Statement)
                node = node.body[child]
        except Exception:
            message = f"there is no node at {repr_of(path)}; a path is a tuple of child indices"
            raise ArgumentError(message, "unknown-place") from None
        return depth

    @cached_property
    def sites(self) -> tuple[Site, ...]:
        """Every statement with what is around it, in the order of the text. The statements of a child that
        another kernel has in the same place are the same objects."""
        return tuple(chain.from_iterable(sites_at(i, node) for i, node in enumerate(self.body)))

    @cached_property
    def users(self) -> Mapping[str, tuple[int, ...]]:
        """The numbers of the statements that touch each buffer, in the order of the text."""
        found: dict[str, list[int]] = {}
        for k, site in enumerate(self.sites):
            for name in site.statement.buffers:
                found.setdefault(name, []).append(k)
        return {name: tuple(numbers) for name, numbers in found.items()}

    @public
    def replace_node(self, path: Path, *new: Node, count: int = 1) -> Kernel:
        """The kernel with the node at `path`, and those after it, `count` in all, replaced by `new` (any number of
        siblings, none removes them). Raises ArgumentError where there is none."""
        self.path(path)

        def visit(nodes: tuple[Node, ...], rest: Path) -> tuple[Node, ...]:
            i, *deeper = rest
            node = nodes[i]
            if not deeper:
                return (*nodes[:i], *new, *nodes[i + count :])
            assert not isinstance(node, Statement)
            return (*nodes[:i], with_body(node, visit(node.body, tuple(deeper))), *nodes[i + 1 :])

        return self.evolve(body=visit(self.body, path))

    @public
    def replace_buffer(self, buffer: Buffer) -> Kernel:
        """The kernel with the buffer of that name replaced."""
        return self.evolve(buffers=tuple(buffer if b.name == buffer.name else b for b in self.buffers))

    @public
    def without_buffers(self, *names: str) -> Kernel:
        """The kernel without the declarations of some buffers."""
        return self.evolve(buffers=tuple(buffer for buffer in self.buffers if buffer.name not in names))

    @public
    def evolve(
        self,
        *,
        name: str | None = None,
        sizes: tuple[Size, ...] | None = None,
        buffers: tuple[Buffer, ...] | None = None,
        body: tuple[Node, ...] | None = None,
        facts: tuple[Condition, ...] | None = None,
        fp: str | None = None,
    ) -> Kernel:
        """A kernel with some fields replaced. It no longer has the source of this one."""
        return Kernel(
            self.name if name is None else name,
            self.sizes if sizes is None else sizes,
            self.buffers if buffers is None else buffers,
            self.body if body is None else body,
            self.facts if facts is None else facts,
            self.fp if fp is None else fp,
        )

    @public
    def with_fp(self, mode: str) -> Kernel:
        """The kernel under `fp strict`, `reassoc` or `fast`: what rewrites may do to floating point is the user's
        to say, so no move changes it. Raises ArgumentError for another mode."""
        if mode not in FP_MODES:
            known = f"{', '.join(FP_MODES[:-1])} or {FP_MODES[-1]}"
            raise ArgumentError(f"the fp mode is {known}, not '{mode}'", "bad-fp")
        return replace(self, fp=mode)

    @public
    def with_dtype(self, dtype: str) -> Kernel:
        """The kernel for arguments of another floating-point type: f64, f32, f16 or bf16. Those of its main type,
        which is that of the first floating-point array it takes, become `dtype`. Temporaries become f32, f64 where
        `dtype` is that, and so do scalars that are taken by value: only what lies in memory of the caller's is
        narrow. Wider temporaries stay. Raises ArgumentError (`bad-dtype`) for another type."""
        buffers, body = retyped(self.buffers, self.body, dtype)
        return self if buffers is self.buffers else self.evolve(buffers=buffers, body=body)

    @public
    def specialize(self, **sizes: int) -> Kernel:
        """The kernel with some runtime sizes fixed. Raises ArgumentError for an unknown size, a size below 1 or
        one that breaks a fact of the kernel."""
        for name, value in sizes.items():
            if name not in self.runtime_sizes:
                known = ", ".join(self.runtime_sizes) or "none"
                raise ArgumentError(
                    f"kernel {self.name} has no runtime size '{name}'{did_you_mean(name, self.runtime_sizes)}"
                    f"; its runtime sizes: {known}",
                    "unknown-size",
                )
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**63:
                raise ArgumentError(
                    f"size {name} must be an integer of at least 1, not {repr_of(value)}", "bad-size"
                )
        fixed = fixed_sizes(sizes)
        kept = []
        for fact in self.facts:
            here = substitute_condition(fact, fixed)
            if here.left.is_constant and here.right.is_constant:
                if not holds(here, {}, ()):
                    text = f"{fact.left} {fact.relation} {fact.right}"
                    given = ", ".join(f"{k}={v}" for k, v in sizes.items())
                    raise ArgumentError(f"{given} breaks 'where {text}' of kernel {self.name}", "broken-fact")
            else:
                kept.append(here)
        return self.evolve(
            sizes=tuple(Size(s.name, sizes.get(s.name, s.value)) for s in self.sizes),
            buffers=tuple(b.with_sizes(fixed) for b in self.buffers),
            body=tuple(substitute(node, fixed) for node in self.body),
            facts=tuple(kept),
        )


def given_kernel(value: object) -> Kernel:
    """A value that a caller gave for a kernel. Raises ArgumentError where it is none."""
    if isinstance(value, Kernel):
        return value
    cure = "a text becomes one by dojoir.parse, a name of the library by dojoir.kernels.load"
    raise ArgumentError(f"this takes a kernel, not {repr_of(value)}: {cure}", "not-a-kernel")
