"""Moves between a product that is added and the operation that rounds once, `fma`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from dojoir.ir.expressions import parts
from dojoir.ir.nodes import Expr, Kernel, Op, Path, Statement
from dojoir.passes.base.move import Move, Place, Refusal, Rewrite, Undoing, Word, place_of
from dojoir.passes.base.reach import Reach
from dojoir.passes.values.inlining import with_parts
from dojoir.proof.check import identity
from dojoir.support.frozen import dataclass
from dojoir.types.fma import FORMS, form_of, fused, may_fuse, unfused

ACCUMULATE = "accumulate"
"""The form of `x += a * b`, beside those of an expression."""


@dataclass(frozen=True)
class ToFma(Move):
    """Makes one `fma`, which rounds once, of a product that is added: of `x += a * b` (then it is still an
    accumulation, its order as free as before), or of `a * b + c` and its like inside the expression.

    `part` is the number of the sum in the expression, as `extract` counts: the whole is 0, then what it is made of
    from left to right. 0 is also the whole product in `x += a * b`. Where both sides of a sum are products the left
    one is taken. Legal unless the kernel is `fp strict`, where all is done in one float type. The inverse is
    `from_fma`.

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  a: f32[N]
    ... in  b: f32[N]
    ... out s: f32
    ... s = 0
    ... N
    ... | s += a[{0}] * b[{0}]
    ... ''')
    >>> print(dojoir.apply(k, "to_fma(1.0, 0)"))
    kernel f(N)
    in  a: f32[N]
    in  b: f32[N]
    out s: f32
    <BLANKLINE>
    s = 0
    N
    | s = fma(a[{0}], b[{0}], s)
    <BLANKLINE>
    """

    name: ClassVar[str] = "to_fma"
    reach: ClassVar[Reach] = Reach.PANE
    statement: Place
    part: int

    def rewrite(self, kernel: Kernel) -> Rewrite:
        path, statement = _statement_at(kernel, self.statement)
        if kernel.fp == "strict":
            raise Refusal("needs-reassoc", "an fma rounds once, not twice, and the kernel is `fp strict`", path)
        form, part = self._form(kernel, path, statement)
        if form == ACCUMULATE:
            new = fused_accumulation(statement)
        else:
            new = _with_part(statement, self.part, fused(part, form), path)
            if new.accumulation != statement.accumulation:
                raise Refusal("accumulates", "this accumulates into the target: write it with += first", path)
        return Rewrite(kernel.replace_node(path, new), identity(kernel))

    def inverse(self, before: Kernel) -> Move:
        path, statement = _statement_at(before, self.statement)
        return FromFma(place_of(path), self.part, Word(self._form(before, path, statement)[0]))

    def _form(self, kernel: Kernel, path: Path, statement: Statement) -> tuple[str, Expr]:
        """How the sum is written, and the sum."""
        buffers = {buffer.name: buffer for buffer in kernel.buffers}
        if self.part == 0 and statement.op == "+=" and may_fuse(statement, buffers):
            return ACCUMULATE, statement.value
        found = list(parts(statement.value))
        form = form_of(found[self.part], buffers) if 0 <= self.part < len(found) else None
        if form is None:
            raise Refusal(
                "no-product", f"part {self.part} adds no product of its own float type, or there is none", path
            )
        return form, found[self.part]

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        if kernel.fp == "strict":
            return
        buffers = {buffer.name: buffer for buffer in kernel.buffers}
        for site in kernel.sites:
            if site.statement.op == "+=" and may_fuse(site.statement, buffers):
                yield cls(place_of(site.path), 0)
            for number, part in enumerate(parts(site.statement.value)):
                if form_of(part, buffers) is not None:
                    yield cls(place_of(site.path), number)


@dataclass(frozen=True)
class FromFma(Undoing):
    """Writes an `fma` as a product that is rounded and then added. The inverse of `to_fma`.

    `part` is the number of the `fma` in the expression, and `form` says how the sum is written: `accumulate`
    (x += a * b), `product_first` (a * b + c), `product_last` (c + a * b), `product_minus` (a * b - c) or
    `minus_product` (c - a * b).

    >>> import dojoir
    >>> k = dojoir.parse('''kernel f(N)
    ... in  a: f32[N]
    ... in  b: f32[N]
    ... out y: f32[N]
    ... N
    ... | y[{0}] = 2 * fma(a[{0}], b[{0}], 1)
    ... ''')
    >>> print(dojoir.apply(k, "from_fma(0.0, 2, product_last)"))
    kernel f(N)
    in  a: f32[N]
    in  b: f32[N]
    out y: f32[N]
    <BLANKLINE>
    N
    | y[{0}] = 2 * (1 + a[{0}] * b[{0}])
    <BLANKLINE>
    """

    name: ClassVar[str] = "from_fma"
    statement: Place
    part: int
    form: Word

    def undone(self, kernel: Kernel) -> tuple[Kernel, Move]:
        path, statement = _statement_at(kernel, self.statement)
        if self.form not in (ACCUMULATE, *FORMS):
            forms = ", ".join((ACCUMULATE, *FORMS))
            raise Refusal("unknown-form", f"'{self.form}' is no form of a sum: {forms}", path)
        found = list(parts(statement.value))
        part = found[self.part] if 0 <= self.part < len(found) else None
        if not (isinstance(part, Op) and part.name == "fma"):
            raise Refusal("no-fma", f"part {self.part} of the expression is no fma", path)
        if self.form == ACCUMULATE:
            if self.part != 0 or not statement.fused:
                raise Refusal("no-accumulation", "the fma does not add to the target of the statement", path)
            earlier = Statement(statement.target, "+=", statement.term)
        else:
            earlier = _with_part(statement, self.part, unfused(part, self.form), path)
        return kernel.replace_node(path, earlier), ToFma(place_of(path), self.part)

    @classmethod
    def candidates(cls, kernel: Kernel) -> Iterator[Move]:
        if kernel.fp == "strict":
            return
        for site in kernel.sites:
            for number, part in enumerate(parts(site.statement.value)):
                if isinstance(part, Op) and part.name == "fma":
                    fused_here = number == 0 and site.statement.fused
                    form = ACCUMULATE if fused_here else "product_first"
                    yield cls(place_of(site.path), number, Word(form))


def fused_accumulation(statement: Statement) -> Statement:
    """`x = fma(a, b, x)` for `x += a * b`."""
    assert isinstance(statement.value, Op)
    return Statement(statement.target, "=", Op("fma", (*statement.value.args, statement.target)))


def _with_part(statement: Statement, number: int, part: Expr, path: Path) -> Statement:
    return replace(statement, value=with_parts(statement.value, {number: part}, path))


def _statement_at(kernel: Kernel, place: Place) -> tuple[Path, Statement]:
    path = kernel.path(place)
    node = kernel.at(path)
    if not isinstance(node, Statement):
        raise Refusal("not-a-statement", f"{place} is not a statement", path)
    return path, node


MOVES = (ToFma, FromFma)
