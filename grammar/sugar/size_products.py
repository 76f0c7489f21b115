"""Products of sizes, taken apart where a text is read: arrays and scopes of `N*C` become ones of `N` and `C`.

Neither sets nor moves know of products. What a text says of an array `x: f32[N*C]` by `x[C*{n} + {c}]` is said as
well of the same memory by `x: f32[N, C]` and `x[{n}, {c}]`: an index is divided by each size but the first of the
product, as a polynomial, and what is left over is the index in that dimension. The two are one element wherever
each part is in its dimension, which is proved of the kernel as of any other. A scope of `N*C` iterations is one of
`N` around one of `C`, and its iterator `C*{n} + {c}`, so that `{f} // C` is `{n}` and `{f} % C` is `{c}`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import permutations
from typing import NoReturn

from dojoir.errors import Diagnostic, KernelError, Source, Span
from dojoir.grammar import syntax
from dojoir.support.frozen import dataclass

Monomial = tuple[str, ...]
"""Sizes, iterators (`{0}`) and what is divided, by their texts, in order."""

Polynomial = dict[Monomial, int]

MOST_TERMS = 64
"""Of a polynomial that is larger nothing is made."""


@dataclass(frozen=True)
class WrittenScope:
    """A scope as it was written: its label, and its iterator in those of the scopes that it becomes."""

    label: str | None
    iterator: Polynomial
    depth: int

    @property
    def is_product(self) -> bool:
        return len(self.iterator) > 1


def split_products(written: syntax.Kernel, source: Source) -> syntax.Kernel:
    """The text without products of sizes as dimensions and extents, as far as that can be; the very text where it
    has none. Raises KernelError for an index that cannot be taken apart."""
    sizes = {size.name.text: size.value for size in written.sizes}
    found = _TextFacts(source, sizes)
    if not any(map(found.is_product, syntax.extents(written))):
        return written
    buffers = [line for line in written.header if isinstance(line, syntax.Buffer)]
    for buffer in buffers:
        factors = [found.factors(dim.extent) for dim in buffer.dims]
        if any(len(some) > 1 for some in factors) and not any(dim.collapsed for dim in buffer.dims):
            found.dims[buffer.name.text] = factors
    if not found.dims and not any(map(found.has_product, written.body)):
        return written
    for buffer in buffers:
        if buffer.name.text in found.dims:
            found.order(buffer, written.body)
    header = tuple(found.buffer(line) if isinstance(line, syntax.Buffer) else line for line in written.header)
    return replace(written, header=header, body=found.nodes(written.body, ()))


@dataclass
class _TextFacts:
    """The facts about one text: its sizes, and the factors of each dimension of the arrays that have products."""

    source: Source
    sizes: Mapping[str, syntax.Word | None]
    dims: dict[str, list[list[syntax.Expr]]] = field(default_factory=dict)
    symbols: dict[str, syntax.Expr] = field(default_factory=dict)
    extents: dict[str, str] = field(default_factory=dict)
    """The size below which an iterator of a scope around stays, where that is its extent."""

    # -- factors -----------------------------------------------------------------------------------------
    def factors(self, expr: syntax.Expr) -> list[syntax.Expr]:
        """The factors of a product of which all but the first are sizes; the expression alone where it is none."""
        match expr:
            case syntax.Binary(left, "*", syntax.Name(text) as right) if self.is_open(text):
                before = self.factors(left)
                if len(before) > 1 or not self.is_number(left):
                    return [*before, right]
        return [expr]

    def is_product(self, expr: syntax.Expr) -> bool:
        """Whether an expression looks like a product with a size."""
        return isinstance(expr, syntax.Binary) and expr.sign == "*" and self.is_size(expr.right)

    def is_size(self, expr: syntax.Expr) -> bool:
        return isinstance(expr, syntax.Name) and self.is_open(expr.text)

    def is_open(self, name: str) -> bool:
        """Whether a name is a size that a call gives."""
        return name in self.sizes and self.sizes[name] is None

    def is_number(self, expr: syntax.Expr) -> bool:
        polynomial = self.polynomial(expr, ())
        return polynomial is not None and set(polynomial) <= {()}

    def has_product(self, node: syntax.Node) -> bool:
        """Whether a scope in a node has a product for its extent."""
        if isinstance(node, syntax.Statement):
            return False
        mine = isinstance(node, syntax.Scope) and self.is_split(node)
        return mine or any(map(self.has_product, node.body))

    def is_split(self, scope: syntax.Scope) -> bool:
        return len(self.factors(scope.extent)) > 1 and not scope.marks

    # -- the header --------------------------------------------------------------------------------------
    def order(self, buffer: syntax.Buffer, body: tuple[syntax.Node, ...]) -> None:
        """Puts the factors of a buffer into an order in which its indices can be divided by them, if there is."""
        name = buffer.name.text
        for d, factors in enumerate(self.dims[name]):
            if len(factors) > 1:
                indices = [p for args, around in _accesses(body, (), name, self) if len(args) == len(buffer.dims)
                           if (p := self.polynomial(args[d], around)) is not None]  # fmt: skip
                for order in permutations(factors):
                    plain = all(isinstance(size, syntax.Name) for size in order[1:])
                    if plain and all(self.parts(index, order) is not None for index in indices):
                        self.dims[name][d] = list(order)
                        break

    def buffer(self, buffer: syntax.Buffer) -> syntax.Buffer:
        """A declaration with a dimension for each factor."""
        name = buffer.name
        if name.text not in self.dims:
            return buffer
        groups = self.dims[name.text]
        dims = tuple(syntax.Dim(extent, False) for factors in groups for extent in factors)
        attributes = buffer.attributes
        if buffer.role != "tmp":
            numbers = tuple(syntax.Number(str(len(factors)), name.span) for factors in groups)
            attributes += (syntax.Attribute(syntax.Word("flat", name.span), numbers, True, name.span),)
        return replace(buffer, dims=dims, attributes=attributes)

    # -- the body ----------------------------------------------------------------------------------------
    def nodes(self, nodes: tuple[syntax.Node, ...], around: tuple[WrittenScope, ...]) -> tuple[syntax.Node, ...]:
        return tuple(self.node(node, around) for node in nodes)

    def node(self, node: syntax.Node, around: tuple[WrittenScope, ...]) -> syntax.Node:
        match node:
            case syntax.Statement(target, _, value, condition):
                asked = None if condition is None else self.plain(condition, around)
                target, value = self.plain(target, around), self.plain(value, around)
                return replace(node, target=target, value=value, condition=asked)
            case syntax.Guard(condition, body):
                return replace(node, condition=self.plain(condition, around), body=self.nodes(body, around))
            case syntax.Scope():
                return self.scope(node, around)

    def scope(self, scope: syntax.Scope, around: tuple[WrittenScope, ...]) -> syntax.Scope:
        """A scope, or one for each factor of its extent."""
        inside = self.inside(scope, around)
        body = self.nodes(scope.body, (*around, inside))
        if not self.is_split(scope):
            return replace(scope, extent=self.plain(scope.extent, around), body=body)
        first, *others = self.factors(scope.extent)
        for size in reversed(others):
            body = (syntax.Scope(size, (), None, body, scope.span),)
        return replace(scope, extent=self.plain(first, around), body=body)

    def inside(self, scope: syntax.Scope, around: tuple[WrittenScope, ...]) -> WrittenScope:
        """The facts about the iterator of a scope in its body."""
        depth = around[-1].depth + 1 if around else 0
        label = scope.label.text if scope.label is not None else None
        factors = self.factors(scope.extent) if self.is_split(scope) else [scope.extent]
        iterator: Polynomial = {(f"{{{depth}}}",): 1}
        for n, factor in enumerate(factors):
            own = f"{{{depth + n}}}"
            self.symbols[own] = syntax.Iterator(str(depth + n), scope.span)
            self.extents.pop(own, None)
            if isinstance(factor, syntax.Name) and self.is_open(factor.text):
                self.extents[own] = factor.text
            if n:
                assert isinstance(factor, syntax.Name)
                iterator = _sum(_product(iterator, {(factor.text,): 1}), {(own,): 1})
        return WrittenScope(label, iterator, depth + len(factors) - 1)

    def plain(self, expr: syntax.Expr, around: tuple[WrittenScope, ...]) -> syntax.Expr:
        """An expression with the iterators of the scopes that there are now, and each index in the dimensions."""
        match expr:
            case syntax.Iterator(_, span):
                own = _scope_of(expr, around)
                if own is None:
                    return expr
                if own.is_product:
                    self.refuse("the iterator of a scope of a product of sizes stands only in indices", span)
                return syntax.Iterator(str(own.depth), span) if expr.text[0].isdigit() else expr
            case syntax.Subscript(name, args):
                return replace(expr, args=tuple(self.indices(name, args, around)))
            case syntax.Binary(left, "//" | "%", _, span) if self.is_of_product(left, around):
                return self.affine(self.polynomial(expr, around), span)
        return syntax.with_inner(expr, lambda part: self.plain(part, around))

    def indices(
        self, name: syntax.Word, args: tuple[syntax.Expr, ...], around: tuple[WrittenScope, ...]
    ) -> Iterator[syntax.Expr]:
        groups = self.dims.get(name.text, [])
        for n, arg in enumerate(args):
            factors = groups[n] if len(groups) == len(args) else []
            if len(factors) > 1:
                polynomial = self.polynomial(arg, around)
                parts = None if polynomial is None else self.parts(polynomial, factors)
                if parts is None:
                    self.refuse(self.cure(name.text, groups), arg.span)
                yield from (self.affine(part, arg.span) for part in parts)
            elif self.is_of_product(arg, around) and not isinstance(arg, syntax.Subscript):
                yield self.affine(self.polynomial(arg, around), arg.span)
            else:
                yield self.plain(arg, around)

    def is_of_product(self, expr: syntax.Expr, around: tuple[WrittenScope, ...]) -> bool:
        """Whether an iterator of a scope that is taken apart is in an expression."""
        if isinstance(expr, syntax.Iterator):
            own = _scope_of(expr, around)
            return own is not None and own.is_product
        return any(self.is_of_product(part, around) for part in syntax.inner(expr))

    # -- polynomials -------------------------------------------------------------------------------------
    def polynomial(self, expr: syntax.Expr, around: tuple[WrittenScope, ...]) -> Polynomial | None:
        """An expression as a polynomial in sizes, iterators, and what is divided by a number or chosen from; None
        for one that is none."""
        match expr:
            case syntax.Number(text) if text.isdigit() and len(text) < 20:
                return {(): int(text)} if int(text) else {}
            case syntax.Name(text) if text in self.sizes:
                value = self.sizes[text]
                return {(text,): 1} if value is None else {(): int(value.text)}
            case syntax.Iterator():
                own = _scope_of(expr, around)
                return None if own is None else own.iterator
            case syntax.Unary("-", arg):
                inner = self.polynomial(arg, around)
                return None if inner is None else _product(inner, {(): -1})
            case syntax.Binary(left, sign, right, span):
                a, b = self.polynomial(left, around), self.polynomial(right, around)
                return None if a is None or b is None else self.combined(a, sign, b, span)
            case syntax.Call(name, args, span) if name.text in ("min", "max", "abs", "clamp"):
                found = [self.polynomial(arg, around) for arg in args]
                plain = [self.affine(p, span) for p in found if p is not None and _is_affine(p)]
                return self.atom(replace(expr, args=tuple(plain))) if len(plain) == len(args) else None
        return None

    def combined(self, a: Polynomial, sign: str, b: Polynomial, span: Span) -> Polynomial | None:
        match sign:
            case "+":
                return _sum(a, b)
            case "-":
                return _sum(a, _product(b, {(): -1}))
            case "*":
                return _product(a, b) if len(a) * len(b) <= MOST_TERMS else None
            case "//" | "%" if list(b) == [()] and _is_affine(a):
                return self.atom(syntax.Binary(self.affine(a, span), sign, self.affine(b, span), span))
            case "//" | "%" if len(b) == 1:
                ((monomial, factor),) = b.items()
                if factor == 1 and len(monomial) == 1 and self.is_open(monomial[0]):
                    quotient, rest = _divided(a, monomial[0])
                    if not rest or (len(rest) == 1 and self.is_below(rest, monomial[0])):
                        return quotient if sign == "//" else rest
        return None

    def is_below(self, rest: Polynomial, size: str) -> bool:
        """Whether what is left of a division is an iterator that stays below the divisor."""
        ((monomial, factor),) = rest.items()
        return factor == 1 and len(monomial) == 1 and self.extents.get(monomial[0]) == size

    def atom(self, expr: syntax.Expr) -> Polynomial:
        """The divided, or chosen, expression as one symbol."""
        text = syntax.wording(expr)
        self.symbols[text] = expr
        return {(text,): 1}

    def parts(self, index: Polynomial, factors: Sequence[syntax.Expr]) -> list[Polynomial] | None:
        """An index in the dimensions of a product; None where a part is no sum of sizes and iterators."""
        found: list[Polynomial] = []
        for size in reversed(factors[1:]):
            assert isinstance(size, syntax.Name)
            index, rest = _divided(index, size.text)
            found.insert(0, rest)
        found.insert(0, index)
        return found if all(map(_is_affine, found)) else None

    def affine(self, polynomial: Polynomial | None, span: Span) -> syntax.Expr:
        """A sum of sizes and iterators as it is written. Raises KernelError for what is none."""
        if polynomial is None or not _is_affine(polynomial):
            self.refuse("this is no sum of sizes and iterators, also when products of sizes are taken apart", span)
        total: syntax.Expr | None = None
        for monomial, factor in sorted(polynomial.items(), key=lambda term: (term[1] < 0, not term[0], term[0])):
            number = syntax.Number(str(abs(factor)), span)
            term: syntax.Expr = number
            if monomial:
                (symbol,) = monomial
                term = syntax.Name(symbol, span) if symbol in self.sizes else self.symbols[symbol]
                term = term if abs(factor) == 1 else syntax.Binary(number, "*", term, span)
            if total is None:
                total = term if factor > 0 else syntax.Unary("-", term, span)
            else:
                total = syntax.Binary(total, "+" if factor > 0 else "-", term, span)
        return syntax.with_span(syntax.Number("0", span) if total is None else total, span)

    # -- errors ------------------------------------------------------------------------------------------
    def cure(self, name: str, groups: list[list[syntax.Expr]]) -> str:
        """The cure for an index that cannot be divided."""
        shape = ", ".join(syntax.wording(factor) for factors in groups for factor in factors)
        last = next(syntax.wording(factors[-1]) for factors in groups if len(factors) > 1)
        rank = sum(map(len, groups))
        return (
            f"this index cannot be divided into {last}*(…) + (…) with sums of sizes and iterators for both: "
            f"declare {name} with the dimensions [{shape}], which is the same memory, and write {name}[…] with "
            f"an index for each of the {rank}"
        )

    def refuse(self, message: str, span: Span) -> NoReturn:
        raise KernelError(Diagnostic("not-affine", message, span, self.source))


def _accesses(
    nodes: tuple[syntax.Node, ...], around: tuple[WrittenScope, ...], name: str, found: _TextFacts
) -> Iterator[tuple[tuple[syntax.Expr, ...], tuple[WrittenScope, ...]]]:
    """The indices of every access to a buffer, with what is around it."""
    for node in nodes:
        match node:
            case syntax.Statement(target, _, value, condition):
                asked = () if condition is None else syntax.every(condition)
                for part in (*syntax.every(target), *syntax.every(value), *asked):
                    if isinstance(part, syntax.Subscript) and part.name.text == name:
                        yield part.args, around
            case syntax.Guard(_, body):
                yield from _accesses(body, around, name, found)
            case syntax.Scope(_, _, _, body):
                yield from _accesses(body, (*around, found.inside(node, around)), name, found)


def _scope_of(iterator: syntax.Iterator, around: tuple[WrittenScope, ...]) -> WrittenScope | None:
    """The scope that an iterator is of; None where there is none, of which more is said later."""
    if iterator.text.isdigit():
        return around[int(iterator.text)] if int(iterator.text[:9]) < len(around) else None
    return next((scope for scope in around if scope.label == iterator.text), None)


def _is_affine(polynomial: Polynomial) -> bool:
    return all(len(monomial) < 2 for monomial in polynomial)


def _sum(a: Polynomial, b: Polynomial) -> Polynomial:
    total = dict(a)
    for monomial, factor in b.items():
        total[monomial] = total.get(monomial, 0) + factor
    return {monomial: factor for monomial, factor in total.items() if factor}


def _product(a: Polynomial, b: Polynomial) -> Polynomial:
    total: Polynomial = {}
    for one, c in a.items():
        for other, d in b.items():
            monomial = tuple(sorted((*one, *other)))
            total[monomial] = total.get(monomial, 0) + c * d
    return {monomial: factor for monomial, factor in total.items() if factor}


def _divided(index: Polynomial, size: str) -> tuple[Polynomial, Polynomial]:
    """The factor of a size in an index, and the rest. A rest that is never 0 or more, as of an index that runs
    backwards, has the size once more, and the quotient is one less."""
    quotient: Polynomial = {}
    rest: Polynomial = {}
    for monomial, factor in index.items():
        if size in monomial:
            at = monomial.index(size)
            quotient[(*monomial[:at], *monomial[at + 1 :])] = factor
        else:
            rest[monomial] = factor
    varying = [factor for monomial, factor in rest.items() if monomial]
    first = rest.get((), 0)  # the rest at the first iteration
    below = first < 0 or (first == 0 and bool(varying) and quotient.get((), 0) > 0)
    if below and all(factor < 0 for factor in varying):
        return _sum(quotient, {(): -1}), _sum(rest, {(size,): 1})
    return quotient, rest
