"""Moves that replace a read of a temporary by the expression that gave its value, and back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from dojoir.ir.affine import Affine, Iter
from dojoir.ir.expressions import parts
from dojoir.ir.format import format_access
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
    make_op,
    substitute_access,
    substitute_iterators,
)
from dojoir.ir.rewriting.rewrite import replace_read
from dojoir.passes.base.about import AboutStatement, Arguments, Here
from dojoir.passes.base.move import BufferName, Formula, Move, Refusal, Rewrite, Undoing, place_of
from dojoir.passes.base.reach import Reach
from dojoir.passes.storage.temporaries import temporary
from dojoir.proof.check import InstanceMap, Substitution, identity
from dojoir.support.frozen import dataclass
from dojoir.types.elaborate import definition_value


@dataclass(frozen=True)
class Inline(AboutStatement, name="inline", reach=Reach.PANE):
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

    buffer: BufferName

    def rewritten(self, at: Here[Statement]) -> Rewrite:
        kernel, name = at.kernel, temporary(at.kernel, self.buffer).name
        writers = [(k, s) for k, s in enumerate(kernel.sites) if s.statement.target.buffer == name]
        if len(writers) != 1 or writers[0][1].statement.accumulation is not None:
            raise at.refusal("several-values", f"`{name}` is not written by one plain assignment alone")
        ((definition, writer),) = writers
        declared = {b.name: b for b in kernel.buffers}
        steps: list[Substitution] = []
        value = at.node.value
        while True:
            reads = list(expr_accesses(value))
            found = next((n for n, a in enumerate(reads) if a.buffer == name), None)
            if found is None:
                break
            iterators = _solve(writer, reads[found])
            if iterators is None:
                message = f"which iteration wrote the element of `{name}` is not plain"
                raise at.refusal("no-instance", message)
            new = definition_value(writer.statement, iterators, declared)
            if new is None or any(a.buffer == name for a in expr_accesses(new)):
                raise Refusal("weak-value", "the value has no type of its own; cast it first", writer.path)
            replaced = replace_read(value, found, new)
            if replaced == value:
                raise at.refusal("index-value", f"`{name}` is read as an index")
            steps.append(Substitution(at.number, found, definition, iterators))
            value = replaced
        if not steps:
            raise at.refusal("not-read", f"the statement does not read `{name}`")
        instances = InstanceMap(identity(kernel).origins, inlined=tuple(steps))
        return Rewrite(at.replaced(replace(at.node, value=value)), instances)

    def back(self, at: Here[Statement]) -> Move:
        step = self.rewritten(at).instances.inlined[0]
        definition = at.kernel.sites[step.definition].statement
        value = definition_value(definition, step.iterators, {b.name: b for b in at.kernel.buffers})
        assert value is not None
        length = len(list(parts(value)))
        found: dict[int, Formula] = {}
        position = 0
        for part in parts(at.node.value):
            is_read = isinstance(part, Access) and part.buffer == self.buffer
            if isinstance(part, Access) and is_read:
                found[position] = Formula(format_access(part))
            position += length if is_read else 1
        return Extract(at.place, tuple(found), tuple(found.values()))

    @classmethod
    def listed(cls, at: Here[Statement]) -> Arguments:
        names = dict.fromkeys(a.buffer for a in at.node.reads)
        return ((BufferName(name),) for name in names if at.kernel.buffer(name).role == "tmp")


@dataclass(frozen=True)
class Extract(Undoing, AboutStatement, name="extract"):
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

    parts: tuple[int, ...]
    reads: tuple[Formula, ...]

    def undone(self, kernel: Kernel) -> tuple[Kernel, Move]:
        at = self.found(kernel)
        if len(self.parts) != len(self.reads) or len(set(self.parts)) != len(self.parts) or not self.parts:
            raise at.refusal("bad-extract", "extract takes one read for each part: extract(1.0, 1, t[{0}])")
        reads = [temporary_element(read, kernel, at.depth) for read in self.reads]
        if len({read.buffer for read in reads}) > 1:
            raise at.refusal("several-buffers", "all parts must be read from one temporary")
        value = with_parts(at.node.value, dict(zip(self.parts, reads, strict=True)), at.path)
        return at.replaced(replace(at.node, value=value)), Inline(at.place, BufferName(reads[0].buffer))

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
