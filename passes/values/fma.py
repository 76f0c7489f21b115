"""Moves between a product that is added and the operation that rounds once, `fma`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dojoir.ir.expressions import parts
from dojoir.ir.nodes import Expr, Kernel, Op, Statement
from dojoir.passes.base.about import AboutStatement, Arguments, Here
from dojoir.passes.base.move import Move, Rewrite, Undoing, Word
from dojoir.passes.base.reach import Reach
from dojoir.passes.values.inlining import with_parts
from dojoir.support.frozen import dataclass
from dojoir.types.fma import FORMS, form_of, fused, may_fuse, unfused

ACCUMULATE = "accumulate"
"""The form of `x += a * b`, beside those of an expression."""


@dataclass(frozen=True)
class ToFma(AboutStatement, name="to_fma", reach=Reach.PANE):
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

    part: int

    def rewritten(self, at: Here[Statement]) -> Rewrite:
        if at.kernel.fp == "strict":
            raise at.refusal("needs-reassoc", "an fma rounds once, not twice, and the at.kernel is `fp strict`")
        form, part = self._form(at)
        if form == ACCUMULATE:
            return at.unmoved(fused_accumulation(at.node))
        new = _with_part(at, self.part, fused(part, form))
        if new.accumulation != at.node.accumulation:
            raise at.refusal("accumulates", "this accumulates into the target: write it with += first")
        return at.unmoved(new)

    def back(self, at: Here[Statement]) -> Move:
        return FromFma(at.place, self.part, Word(self._form(at)[0]))

    def _form(self, at: Here[Statement]) -> tuple[str, Expr]:
        """How the sum is written, and the sum."""
        found = list(parts(at.node.value))
        for number, form in _sums(at):
            if number == self.part:
                return form, found[number]
        message = f"part {self.part} adds no product of its own float type, or there is none"
        raise at.refusal("no-product", message)

    @classmethod
    def listed(cls, at: Here[Statement]) -> Arguments:
        return ((number,) for number, _ in _sums(at) if at.kernel.fp != "strict")


def _sums(at: Here[Statement]) -> Iterator[tuple[int, str]]:
    """The parts of the expression that add a product, by number, each with its form."""
    buffers = {buffer.name: buffer for buffer in at.kernel.buffers}
    if at.node.op == "+=" and may_fuse(at.node, buffers):
        yield 0, ACCUMULATE
    for number, part in enumerate(parts(at.node.value)):
        form = form_of(part, buffers)
        if form is not None:
            yield number, form


@dataclass(frozen=True)
class FromFma(Undoing, AboutStatement, name="from_fma"):
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

    part: int
    form: Word

    def undone(self, kernel: Kernel) -> tuple[Kernel, Move]:
        at = self.found(kernel)
        if self.form not in (ACCUMULATE, *FORMS):
            forms = ", ".join((ACCUMULATE, *FORMS))
            raise at.refusal("unknown-form", f"'{self.form}' is no form of a sum: {forms}")
        part = dict(enumerate(parts(at.node.value))).get(self.part)
        if not (isinstance(part, Op) and part.name == "fma"):
            raise at.refusal("no-fma", f"part {self.part} of the expression is no fma")
        if self.form != ACCUMULATE:
            earlier = _with_part(at, self.part, unfused(part, self.form))
        elif self.part == 0 and at.node.fused:
            earlier = Statement(at.node.target, "+=", at.node.term)
        else:
            raise at.refusal("no-accumulation", "the fma does not add to the target of the statement")
        return at.replaced(earlier), ToFma(at.place, self.part)

    @classmethod
    def listed(cls, at: Here[Statement]) -> Arguments:
        for number, part in enumerate(parts(at.node.value)):
            if isinstance(part, Op) and part.name == "fma" and at.kernel.fp != "strict":
                yield number, Word(ACCUMULATE if number == 0 and at.node.fused else "product_first")


def fused_accumulation(statement: Statement) -> Statement:
    """`x = fma(a, b, x)` for `x += a * b`."""
    assert isinstance(statement.value, Op)
    return Statement(statement.target, "=", Op("fma", (*statement.value.args, statement.target)))


def _with_part(at: Here[Statement], number: int, part: Expr) -> Statement:
    return replace(at.node, value=with_parts(at.node.value, {number: part}, at.path))
