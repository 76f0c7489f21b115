"""Moves that replace a read of a temporary by the expression that gave its value, and back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import ClassVar

from dojoir.ir.affine import Affine, Iter
from dojoir.ir.expressions import parts
from dojoir.ir.nodes import (
    Access,
    Cast,
    Const,
    Expr,
    Index,
    Kernel,
    Op,
    Path,
    Site,
    Statement,
    expr_accesses,
    format_path,
    make_op,
    substitute_access,
    substitute_iterators,
)
from dojoir.ir.rewriting.rewrite import replace_read
from dojoir.ir.text import format_access
from dojoir.passes.base.move import BufferName, Formula, Move, Place, Refusal, Rewrite, Undoing, place_of
from dojoir.passes.base.reach import Reach
from dojoir.passes.storage.temporaries import temporary
from dojoir.proof.check import InstanceMap, Substitution, identity
from dojoir.support.frozen import dataclass
from dojoir.types.elaborate import definition_value


@dataclass(frozen=True)
class Inline(Move):
    """Replaces, in the statement at `statement`, every read of a temporary by the expression that was assigned.

    Legal where each read gets its value from that one assignment, and what the expression reads is unchanged in
    between. The temporary stays; `delete_temporary` removes it when nothing reads it any more. The inverse is
    `extract`. To compute a value again near its use, `stage` the temporary there and inline it into the copy.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... tmp t: f32[N]
    ... N
    ... | t[{0}] = 2 * x[{0}]
    ... N
    ... | y[{0}] = t[{0}] + 1
    ... ''')
    >>> print(dojoir.apply(k, "inline(1.0, t)"))
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

    name: ClassVar[str] = "inline"
    reach: ClassVar[Reach] = Reach.PANE
    statement: Place
    buffer: BufferName

    def rewrite(self, kernel: Kernel) -> Rewrite:
        path = kernel.path(self.statement)
        number, site = statement_at(kernel, self.statement)
        buffer = temporary(kernel, self.buffer)
        writers = [(k, s) for k, s in enumerate(kernel.sites) if s.statement.target.buffer == buffer.name]
        if len(writers) != 1 or writers[0][1].statement.accumulation is not None:
            raise Refusal("several-values", f"`{buffer.name}` is not written by one plain assignment alone", path)
        definition, writer = writers[0]
        steps: list[Substitution] = []
        value = site.statement.value
        while True:
            reads = list(expr_accesses(value))
            found = next((n for n, a in enumerate(reads) if a.buffer == buffer.name), None)
            if found is None:
                break
            at = _solve(writer, reads[found])
            if at is None:
                raise Refusal(
                    "no-instance", f"which iteration wrote the element of `{buffer.name}` is not plain", path
                )
            new = definition_value(writer.statement, at, {b.name: b for b in kernel.buffers})
            if new is None or any(a.buffer == buffer.name for a in expr_accesses(new)):
                raise Refusal("weak-value", "the value has no type of its own; cast it first", writer.path)
            replaced = replace_read(value, found, new)
            if replaced == value:
                raise Refusal("index-value", f"`{buffer.name}` is read as an index", path)
            steps.append(Substitution(number, found, definition, at))
            value = replaced
        if not steps:
            raise Refusal("not-read", f"the statement does not read `{buffer.name}`", path)
        after = kernel.replace_node(path, replace(site.statement, value=value))
        return Rewrite(after, InstanceMap(identity(kernel).origins, inlined=tuple(steps)))

    def inverse(self, before: Kernel) -> Move:
        number, site = statement_at(before, self.statement)
        step = self.rewrite(before).instances.inlined[0]
        definition = before.sites[step.definition].statement
        value = definition_value(definition, step.iterators, {b.name: b for b in before.buffers})
        assert number == step.site
        assert value is not None
        length = len(list(parts(value)))
        positions: list[int] = []
        reads: list[Formula] = []
        position = 0
        for part in parts(site.statement.value):
            if isinstance(part, Access) and part.buffer == self.buffer:
                positions.append(position)
                reads.append(Formula(format_access(part)))
                position += length
            else:
                position += 1
        return Extract(place_of(site.path), tuple(positions), tuple(reads))

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        for site in kernel.sites:
            names = dict.fromkeys(a.buffer for a in site.statement.reads)
            for name in names:
                if kernel.buffer(name).role == "tmp":
                    yield cls(Place(format_path(site.path)), BufferName(name))


@dataclass(frozen=True)
class Extract(Undoing):
    """Replaces, in the statement at `statement`, parts of the expression by reads of a temporary that has their
    value. The inverse of `inline`.

    `parts` are their numbers, the whole expression being 0, then what it is made of from left to right; `reads` are
    the reads to put there, all of one temporary, which one plain assignment writes.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  x: f32[N]
    ... out y: f32[N]
    ... tmp t: f32[N]
    ... N
    ... | t[{0}] = 2 * x[{0}]
    ... N
    ... | y[{0}] = 2 * x[{0}] + 1
    ... ''')
    >>> print(dojoir.apply(k, "extract(1.0, 1, t[{0}])"))
    kernel f(N)
    in  x: f32[N]
    out y: f32[N]
    tmp t: f32[N]
    <BLANKLINE>
    N
    | t[{0}] = 2 * x[{0}]
    N
    | y[{0}] = t[{0}] + 1
    <BLANKLINE>
    """

    name: ClassVar[str] = "extract"
    statement: Place
    parts: tuple[int, ...]
    reads: tuple[Formula, ...]

    def undone(self, kernel: Kernel) -> tuple[Kernel, Move]:
        _, site = statement_at(kernel, self.statement)
        if len(self.parts) != len(self.reads) or len(set(self.parts)) != len(self.parts) or not self.parts:
            raise Refusal("bad-extract", "extract takes one read for each part: extract(1.0, 1, t[{0}])", site.path)
        reads = [temporary_element(read, kernel, len(site.scopes)) for read in self.reads]
        if len({read.buffer for read in reads}) > 1:
            raise Refusal("several-buffers", "all parts must be read from one temporary", site.path)
        value = with_parts(site.statement.value, dict(zip(self.parts, reads, strict=True)), site.path)
        earlier = kernel.replace_node(site.path, replace(site.statement, value=value))
        return earlier, Inline(place_of(site.path), BufferName(reads[0].buffer))

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        buffers = {b.name: b for b in kernel.buffers}
        written = Counter(site.statement.target.buffer for site in kernel.sites)
        for writer in kernel.sites:
            target = writer.statement.target
            if buffers[target.buffer].role != "tmp" or written[target.buffer] > 1 or writer.statement.accumulation:
                continue
            own = tuple(map(Affine.iterator, range(len(writer.scopes))))
            pattern = definition_value(writer.statement, own, buffers)
            if pattern is None or isinstance(pattern, Const | Index):
                continue
            for site in kernel.sites:
                if site.path == writer.path:
                    continue
                for number, part in enumerate(parts(site.statement.value)):
                    found: dict[int, Affine] = {}
                    if _matches(pattern, part, found) and len(found) == len(own):
                        read = substitute_access(target, substitute_iterators(found))
                        yield cls(place_of(site.path), (number,), (Formula(format_access(read)),))


def with_parts(expr: Expr, new: Mapping[int, Expr], path: Path) -> Expr:
    """The expression with some of its parts, by number, replaced. Raises Refusal for a number that it lacks or that
    lies inside another."""
    left = dict(new)
    number = -1

    def visit(node: Expr) -> Expr:
        nonlocal number
        number += 1
        if number in left:
            number_after = number + len(list(parts(node))) - 1
            result = left.pop(number)
            number = number_after
            return result
        match node:
            case Op(name, args):
                return make_op(name, tuple(visit(arg) for arg in args))
            case Cast(dtype, arg, way=way):
                return Cast(dtype, visit(arg), way=way)
            case Access() | Const() | Index():
                return node

    result = visit(expr)
    if left:
        raise Refusal("no-part", f"the expression has no part {min(left)} outside of the others", path)
    return result


def temporary_element(read: Formula, kernel: Kernel, depth: int) -> Access:
    """The access that a text such as `t[{0}, N - 1]` writes. Raises Refusal."""
    name, _, rest = read.text.partition("[")
    buffer = temporary(kernel, name.strip())
    texts = rest.removesuffix("]").split(",") if rest else []
    if len(texts) != len(buffer.dims) or (rest and not rest.endswith("]")):
        count = len(buffer.dims)
        raise Refusal("bad-read", f"{read} is no element of `{buffer.name}`, which has {count} dimension"
                      + ("" if count == 1 else "s"))  # fmt: skip
    return Access(buffer.name, tuple(Formula(text.strip()).affine(kernel, depth) for text in texts))


def _matches(pattern: Expr, expr: Expr, found: dict[int, Affine]) -> bool:
    """Whether an expression is the pattern for some values of its iterators, which are put into `found`: those that
    stand alone in some index."""
    match pattern, expr:
        case Op(name, args), Op(other, others):
            pairs = zip(args, others, strict=False)
            return name == other and len(args) == len(others) and all(_matches(a, b, found) for a, b in pairs)
        case Cast(dtype, arg, way=way), Cast(other_type, other_arg, way=other_way):
            return (dtype, way) == (other_type, other_way) and _matches(arg, other_arg, found)
        case Access(buffer, indices), Access(other, others):
            return buffer == other and all(map(lambda a, b: _matches_index(a, b, found), indices, others))
        case Const(), Const():
            return pattern == expr
        case Index(affine), Index(value):
            return _matches_index(affine, value, found)
    return False


def _matches_index(pattern: Affine | Access, index: Affine | Access, found: dict[int, Affine]) -> bool:
    match pattern, index:
        case Access(), Access():
            return _matches(pattern, index, found)
        case Affine(), Affine():
            match pattern.terms:
                case [(Iter(depth), 1)] if depth not in found:
                    found[depth] = index - pattern.offset
            return pattern.substitute(substitute_iterators(found)) == index
    return False


def statement_at(kernel: Kernel, place: Place) -> tuple[int, Site]:
    path = kernel.path(place)
    for k, site in enumerate(kernel.sites):
        if site.path == path:
            return k, site
    raise Refusal("not-a-statement", f"{place} is not a statement", path)


def _solve(writer: Site, read: Access) -> tuple[Affine, ...] | None:
    """The iterators of the writer, in terms of those of the reader, at which it writes the element that is read.
    Where each of them is alone the index of some dimension, up to a constant."""
    target: Statement = writer.statement
    solution: dict[int, Affine] = {}
    for mine, its in zip(target.target.indices, read.indices, strict=True):
        if isinstance(mine, Access) or isinstance(its, Access):
            return None
        match mine.terms:
            case [(Iter(depth), 1)] if depth not in solution:
                solution[depth] = its - mine.offset
    if len(solution) != len(writer.scopes):
        return None
    return tuple(solution[d] for d in range(len(writer.scopes)))


MOVES = (Inline, Extract)
