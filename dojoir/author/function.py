"""Kernels written as functions of Python, a subset that is the language itself.

The function is read, and never runs: its parameters are the declarations of the text, `for i in range(N)` is a
scope labelled `@i`, an assignment a statement, `m[i] = max(m[i], …)` the accumulation `max=`, `if` a guard. What
the names in it mean is decided by the rules of the text (`grammar.resolve`), at the places of the user's own file.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial, reduce
from itertools import count
from numbers import Integral, Real
from types import CellType, FunctionType
from typing import Any, overload

import numpy as np

from dojoir.errors import ArgumentError, Diagnostic, DojoError, ParseError, Source, Span, did_you_mean, repr_of
from dojoir.grammar import syntax
from dojoir.grammar.parser import parse_declaration
from dojoir.grammar.resolve import resolve
from dojoir.ir.dtypes import DTYPES
from dojoir.ir.nodes import Kernel
from dojoir.ir.operations import ACCUMULATIONS, CALLS, CONVERSIONS
from dojoir.support.public import public

_SIGNS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.LShift: "<<",
    ast.RShift: ">>", ast.BitOr: "|", ast.BitXor: "^", ast.BitAnd: "&", ast.And: "and", ast.Or: "or",
    ast.Not: "not", ast.USub: "-", ast.Invert: "~", ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=",
    ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip
_LOOP = "a loop is `for i in range(N):`"
_STATEMENTS = "a function has loops over `range`, `if`, assignments, and `assert` of sizes"
_VALUES = "a value is made of numbers, elements, operators and functions of the language"
_CURES: dict[type[ast.AST], str] = {
    ast.While: f"{_LOOP}, and what holds in some of its iterations stands under `if`",
    ast.Return: "a kernel returns nothing: write to a parameter that is declared `out`",
    ast.MatMult: "a product of matrices is a sum in a loop, `c[i, j] += a[i, k] * b[k, j]`",
    ast.Slice: f"an element has a number for each index: {_LOOP} for each dimension",
    ast.Starred: "an element has a number for each index",
    ast.Sub: "write `x += -(…)`",
    ast.Div: "write `x *= 1 / (…)`",
    ast.AugAssign: f"there are {' '.join(one for one in ACCUMULATIONS if one[0] != 'm')}: write an assignment",
    ast.Assert: "a fact about sizes stands in the body of the function, outside of loops and `if`",
    ast.AsyncFunctionDef: "write `def`",
    ast.Break: "a loop runs to its end: what holds in some of its iterations stands under `if`",
    ast.Continue: "what holds in some iterations stands under `if`",
    ast.Pass: "a loop or an `if` has a statement in it",
    ast.ListComp: f"{_LOOP}, with an assignment in it",
    ast.GeneratorExp: f"a sum is an accumulation: {_LOOP}, with `s += …` in it",
    ast.Tuple: "a pair is assigned a pair, or a max of two: `m[i], at[i] = max((m[i], at[i]), (x[i, j], j))`",
    ast.Is: "write ==",
    ast.In: "write a comparison for each",
    ast.FunctionDef: "write its body where it is called",
}  # fmt: skip
"""The constructs that the language lacks, each with its cure."""


@overload
def kernel(function: Callable[..., object], /) -> Kernel: ...
@overload
def kernel(*, fp: str = "reassoc") -> Callable[[Callable[..., object]], Kernel]: ...
@public
def kernel(
    function: Callable[..., object] | None = None, /, *, fp: str = "reassoc"
) -> Kernel | Callable[[Callable[..., object]], Kernel]:
    """A decorator that makes a kernel of a Python function. The source of the function is read; it never runs.

    >>> import dojoir
    >>> @dojoir.kernel
    ... def row_norms(x: "f32[N, M]", y: "out f32[N]"):
    ...     s: "f32[N~] reg"
    ...     for i in range(N):
    ...         s[i] = 0
    ...         for j in range(M):
    ...             s[i] += x[i, j] ** 2
    ...         y[i] = sqrt(s[i])
    >>> print(row_norms)
    kernel row_norms(N, M)
    in  x: f32[N, M]
    out y: f32[N]
    tmp s: f32[N~] reg
    <BLANKLINE>
    N @i
    | s[{i}] = 0
    | M @j
    | | s[{i}] += pow(x[{i}, {j}], 2)
    | y[{i}] = sqrt(s[{i}])
    <BLANKLINE>

    An annotation is a declaration without its name: `in` is left out, a temporary is declared in the body. Names in
    shapes are sizes; others, and fixed ones (`S=2`), stand behind `*` in the head. Other names are numbers of
    Python's, as they are when the function is read. `assert M % 16 == 0` is a fact about the sizes. A max of pairs
    keeps the smaller place where values are equal, as the argmax of NumPy; that of Python keeps the larger one.

    Raises ParseError and KernelError, at the line of the function, ArgumentError for what has no source.
    """
    if function is None:
        return partial(_kernel, fp=fp)
    return _kernel(function, fp)


def _kernel(function: Callable[..., object], fp: str) -> Kernel:
    if not isinstance(function, FunctionType) or hasattr(function, "__wrapped__"):
        also = ": it stands under all other decorators" if callable(function) else ""
        raise ArgumentError(f"kernel takes a function of Python, not {repr_of(function)}{also}", "bad-arguments")
    try:
        lines, first = inspect.findsource(function)
        lines = inspect.getblock(lines[first:])
        tree = ast.parse("".join(["if True:\n" if lines[0][:1].isspace() else "True\n", *lines]))
        of_name = (node for node in ast.walk(tree) if getattr(node, "name", "") == function.__code__.co_name)
        head = next(node for node in of_name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    except (OSError, SyntaxError, StopIteration):
        cure = "write it by `def` in a file or a cell, or dojoir.parse a text"
        raise ArgumentError(f"there is no source of {function.__name__}: {cure}", "bad-arguments") from None
    ast.increment_lineno(head, first - 1)
    source = Source(function.__code__.co_filename, "\n" * first + "".join(lines))
    reader = _WrittenFunction(function, source)
    try:
        return resolve(reader.read(head, fp), source)
    except RecursionError:
        message = "an expression nests too deep: compute a part of it into a temporary first"
        raise reader._wrong(head, message, "too-deep") from None
    except DojoError as error:
        raise error.with_traceback(None) from None  # the place is the user's own, told by the error


class _WrittenFunction:
    """A function on its way to a text as written."""

    def __init__(self, function: FunctionType, source: Source) -> None:
        self._source, self._fixed = source, function.__kwdefaults__ or {}
        code, named = function.__code__, {"inf": math.inf, "nan": math.nan, **function.__globals__}
        cells = zip(code.co_freevars, map(_content, function.__closure__ or ()), strict=True)
        own = {*code.co_varnames, *code.co_cellvars}
        self._outside = {name: value for name, value in {**named, **dict(cells)}.items() if name not in own}
        self._header: list[syntax.Where | syntax.Fp | syntax.Buffer] = []
        self._sizes: dict[str, syntax.Size] = {}
        self._loops: dict[str, str] = {}  # the labels of the loops around, by their names
        self._labels: set[str] = set()

    def read(self, head: ast.FunctionDef | ast.AsyncFunctionDef, fp: str) -> syntax.Kernel:
        """The function as a text as written. Raises ParseError for what is not in the language."""
        if isinstance(head, ast.AsyncFunctionDef):
            raise self._wrong(head)
        given = head.args
        for more in (one for one in (given.vararg, given.kwarg, *given.defaults) if one is not None):
            raise self._wrong(more, 'a parameter is an array or a scalar, `x: "f32[N]"`, and has no default')
        name = syntax.Word(head.name, self._at(head, width=len("def")))
        self._header.append(syntax.Fp(syntax.Word(str(fp), name.span)))
        for parameter in (*given.posonlyargs, *given.args):
            if parameter.annotation is None:
                raise self._wrong(
                    parameter, f'declare the parameter: `{parameter.arg}: "f32[N]"`, or `"out f32[N]"`'
                )
            self._declare(parameter.arg, parameter, parameter.annotation, "in")
        for parameter in given.kwonlyargs:
            word, value = syntax.Word(parameter.arg, self._at(parameter)), self._fixed.get(parameter.arg)
            if parameter.annotation is not None and self._segment(parameter.annotation) != "int":
                raise self._wrong(parameter, "what stands behind `*` is a size: arrays and scalars stand before it")
            text = str(value) if isinstance(value, Integral) else repr(value)
            fixed = syntax.Word(text, word.span) if parameter.arg in self._fixed else None
            self._sizes.pop(word.text, None)  # those that are listed stand in the order of the list
            self._sizes[word.text] = syntax.Size(word, fixed)
        body = head.body
        if ast.get_docstring(head) is not None:
            body = body[1:]
        nodes = tuple(node for statement in body for node in self._fact_or_nodes(statement))
        return syntax.Kernel(name, tuple(self._sizes.values()), tuple(self._header), nodes)

    # -- declarations ------------------------------------------------------------------------------------
    def _declare(self, name: str, place: ast.AST, annotation: ast.expr, role: str) -> None:
        span, text = self._at(annotation), self._segment(annotation)
        if name in self._loops:
            raise self._wrong(place, f"a loop around counts by '{name}': call this otherwise", "duplicate-name")
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            text, quoted = annotation.value, text
            span = replace(span, column=span.column + max(quoted.find(text or '"'), 1))
        if not text.strip():
            raise self._wrong(annotation, 'nothing is declared here: write `"f32[N]"`')
        found = parse_declaration(text, span, self._source)
        if (found.role or role) != role and (role == "tmp" or found.role == "tmp"):
            raise self._wrong(annotation, "a parameter is in, out or inout, and a tmp is declared in the body")
        buffer = replace(found, name=syntax.Word(name, self._at(place, width=len(name))), role=found.role or role)
        for part in (part for dim in buffer.dims for part in syntax.every(dim.extent)):
            if isinstance(part, syntax.Name) and part.text not in self._sizes:
                if role == "tmp":
                    cure = "sizes stand in the shapes of parameters, or behind `*` in the head"
                    raise self._wrong(part.span, f"there is no size '{part.text}': {cure}", "unknown-name")
                self._sizes[part.text] = syntax.Size(syntax.Word(part.text, part.span), None)
        self._header.append(buffer)

    def _is_declared(self, name: str) -> bool:
        return name in self._sizes or name in self._buffers()

    def _buffers(self) -> list[str]:
        return [line.name.text for line in self._header if isinstance(line, syntax.Buffer)]

    # -- the body ----------------------------------------------------------------------------------------
    def _inside(self, body: list[ast.stmt]) -> tuple[syntax.Node, ...]:
        return tuple(node for statement in body for node in self._nodes(statement))

    def _fact_or_nodes(self, node: ast.stmt) -> Iterator[syntax.Node]:
        if not isinstance(node, ast.Assert):
            yield from self._nodes(node)
        else:
            self._header.append(syntax.Where(tuple(_facts(self._expr(node.test)))))

    def _nodes(self, node: ast.stmt) -> Iterator[syntax.Node]:
        match node:
            case ast.AnnAssign(ast.Name(name) as target, annotation, value):
                self._declare(name, target, annotation, "tmp")
                if value is not None:
                    yield self._statement(node, target, "=", value)
            case ast.Assign([target], value):
                match value:
                    case ast.Call(ast.Name("max" | "min" as name) as called, [first, second], []) if _is_same(
                        first, target
                    ) and self._is_the_languages(called, name):
                        yield self._statement(node, target, f"{name}=", second)
                    case _:
                        yield self._statement(node, target, "=", value)
            case ast.AugAssign(target, sign, value) if (word := f"{_SIGNS.get(type(sign))}=") in ACCUMULATIONS:
                yield self._statement(node, target, word, value)
            case ast.AugAssign(_, ast.Sub() | ast.Div() as sign):
                raise self._wrong(node, f"there is no '{_SIGNS[type(sign)]}=': {_CURES[type(sign)]}")
            case ast.For(ast.Name(name), ast.Call(ast.Name("range"), [extent], []), body, []):
                yield self._scope(node, name, extent, body)
            case ast.For(iter=ast.Call(ast.Name("range"), [_, _, *_])):
                cure = "a loop begins at 0 and counts by 1: write `range(b - a)`, and `i + a` for i"
                raise self._wrong(node.iter, cure)
            case ast.For():
                raise self._wrong(node, f"{_LOOP}, without `else`")
            case ast.If(test, body, others):
                condition = self._expr(test)
                yield syntax.Guard(condition, self._inside(body), self._at(node))
                if others:
                    yield syntax.Guard(self._opposite(condition, node), self._inside(others), self._at(node))
            case _:
                raise self._wrong(node)

    def _statement(self, node: ast.stmt, target: ast.expr, sign: str, value: ast.expr) -> syntax.Statement:
        if isinstance(target, ast.Name) and not self._is_declared(target.id) and target.id not in self._loops:
            cure = f"there is no '{target.id}'{did_you_mean(target.id, self._buffers())}"
            raise self._wrong(
                target, f'{cure}: a value in between is declared, `{target.id}: "f32" = …`', "unknown-name"
            )
        return syntax.Statement(self._side(target), sign, self._side(value), None, self._at(node))

    def _side(self, node: ast.expr) -> syntax.Expr:
        """A side of a statement: an expression, or a pair of such."""
        if isinstance(node, ast.Tuple) and len(node.elts) == 2:
            return syntax.Call(syntax.Word(syntax.PAIR, self._at(node)), self._all(node.elts), self._at(node))
        return self._expr(node)

    def _scope(self, node: ast.For, name: str, extent: ast.expr, body: list[ast.stmt]) -> syntax.Scope:
        if name in self._loops or self._is_declared(name):
            has = f"a loop around this one counts by '{name}'" if name in self._loops else f"'{name}' is declared"
            raise self._wrong(node.target, f"{has}: call the counter otherwise", "duplicate-name")
        around = self._expr(extent)
        label = next(one for n in count(1) if (one := name if n == 1 else f"{name}{n}") not in self._labels)
        self._labels.add(label)
        outer, self._loops = self._loops, {**self._loops, name: label}
        inner = self._inside(body)
        self._loops = outer
        return syntax.Scope(around, (), syntax.Word(label, self._at(node.target)), inner, self._at(node))

    def _opposite(self, condition: syntax.Expr, node: ast.If) -> syntax.Expr:
        """The condition of `else`, which nothing under the `if` may change."""
        opposite = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
        data = {one.text for one in syntax.every(condition) if isinstance(one, syntax.Name)} & {*self._buffers()}
        data |= {one.name.text for one in syntax.every(condition) if isinstance(one, syntax.Subscript)}
        if isinstance(condition, syntax.Binary) and condition.sign in opposite and not data:
            return replace(condition, sign=opposite[condition.sign])
        cure = "`else` is of one comparison of sizes and counters: write `if` with the opposite"
        raise self._wrong(node.orelse[0], cure)

    # -- expressions -------------------------------------------------------------------------------------
    def _all(self, nodes: list[ast.expr]) -> tuple[syntax.Expr, ...]:
        return tuple(self._expr(node) for node in nodes)

    def _expr(self, node: ast.expr) -> syntax.Expr:
        span = self._at(node)
        match node:
            case ast.Constant(int() | float() as value) if not isinstance(value, bool):
                return _constant_of(value, span)
            case ast.Name(name) if name in self._loops:
                return syntax.Iterator(self._loops[name], span)
            case ast.Name(name) if self._is_declared(name) or name in DTYPES:
                return syntax.Name(name, span)
            case ast.Call(ast.Name("float"), [ast.Constant("inf" | "-inf" | "nan" as name)], []):
                return _constant_of(float(name), span)
            case ast.Name() | ast.Attribute():
                return self._constant(node, span)
            case ast.Subscript(ast.Name(name) as array, index):
                if name not in self._buffers():
                    known = did_you_mean(name, self._buffers())
                    raise self._wrong(
                        array,
                        f"there is no array '{name}'{known}: declare it, `{name}: \"f32[N]\"`",
                        "unknown-buffer",
                    )
                indices = index.elts if isinstance(index, ast.Tuple) else [index]
                return syntax.Subscript(syntax.Word(name, self._at(array)), self._all(indices), span)
            case ast.Subscript():
                raise self._wrong(node, "an element is `x[i, j]`, an array with all of its indices")
            case ast.Call(ast.Name(name) | ast.Attribute(attr=name) as called, args, []):
                if not self._is_the_languages(called, name):
                    message = f"this is no {name} of the language, of math, NumPy or PyTorch: write its body here"
                    raise self._wrong(called, message, "unknown-function")
                return syntax.Call(syntax.Word(name, self._at(called)), self._all(args), span)
            case ast.BinOp(left, ast.Pow(), right):
                return syntax.Call(syntax.Word("pow", span), self._all([left, right]), span)
            case ast.BinOp(left, sign, right) if type(sign) in _SIGNS:
                return syntax.Binary(self._expr(left), _SIGNS[type(sign)], self._expr(right), span)
            case ast.BinOp(op=ast.MatMult() as sign):
                raise self._wrong(node, _CURES[type(sign)])
            case ast.UnaryOp(ast.UAdd(), operand):
                return self._expr(operand)
            case ast.UnaryOp(sign, operand):
                return syntax.Unary(_SIGNS[type(sign)], self._expr(operand), span)
            case ast.BoolOp(sign, values):
                joined = partial(syntax.Binary, sign=_SIGNS[type(sign)], span=span)
                return reduce(lambda left, right: joined(left=left, right=right), self._all(values))
            case ast.Compare(left, signs, others):
                for unknown in (type(one) for one in signs if type(one) not in _SIGNS):
                    raise self._wrong(node, _CURES.get(unknown, "write a comparison, such as ==, of numbers"))
                sides = self._all([left, *others])
                found: list[syntax.Expr] = [
                    syntax.Binary(one, _SIGNS[type(relation)], other, span)
                    for one, relation, other in zip(sides, signs, sides[1:], strict=False)
                ]
                return reduce(lambda one, other: syntax.Binary(one, "and", other, span), found)
            case ast.IfExp(test, body, other):
                return syntax.Call(syntax.Word("select", span), self._all([test, body, other]), span)
            case _:
                raise self._wrong(node)

    def _constant(self, node: ast.Name | ast.Attribute, span: Span) -> syntax.Expr:
        """A number of Python's by its name, such as `math.pi` or a constant of the module."""
        value = self._value_outside(node)
        value = None if isinstance(value, bool) else value
        if isinstance(value, Real):
            if isinstance(value, Integral) and int(value).bit_length() > 64:
                raise self._wrong(node, "this integer has more than 64 bits", "number-too-large")
            return _constant_of(value, span)
        if isinstance(node, ast.Attribute):
            raise self._wrong(node, 'this is no number: a size has a name in a shape, `x: "f32[N]"`')
        known = [*self._sizes, *self._buffers(), *self._loops]
        hint = did_you_mean(node.id, known) or ': declare it, as a parameter or by `t: "f32"`'
        if node.id in CALLS or node.id in CONVERSIONS:
            hint = f": write {node.id}(…)"
        raise self._wrong(node, f"there is no size, scalar or number '{node.id}'{hint}", "unknown-name")

    def _value_outside(self, node: ast.expr) -> object:
        """The value of a name outside of the function; None where it has none."""
        match node:
            case ast.Name(name):
                return self._outside.get(name)
            case ast.Attribute(inner, name):
                return getattr(self._value_outside(inner), name, None)
        return None

    def _is_the_languages(self, called: ast.expr, name: str) -> bool:
        """Whether a call means what the language has by that name: nobody else has taken it."""
        value = self._value_outside(called)
        if value is None:
            return isinstance(called, ast.Name)
        modules = (builtins, math, np, sys.modules.get("torch"))
        return any(getattr(module, name, None) is value for module in modules)

    # -- places ------------------------------------------------------------------------------------------
    def _segment(self, node: ast.expr) -> str:
        return ast.get_source_segment(self._source.text, node) or ""

    def _at(self, node: Any, before: str = "", width: int | None = None) -> Span:
        """The place of a node, behind what stands `before` its name; of one with lines below it, its own line."""
        text, own = self._source.line(node.lineno), isinstance(node, ast.stmt) and hasattr(node, "body")
        start = len(text.encode()[: node.col_offset].decode()) + len(before)
        end = len(text.encode()[: node.end_col_offset].decode())
        if node.end_lineno != node.lineno or own:
            end = len(text.partition("#")[0].rstrip().removesuffix(":"))
        return Span(node.lineno, start + 1, (end if width is None else start + width) + 1)

    def _wrong(self, node: ast.AST | Span, message: str | None = None, code: str = "unexpected") -> ParseError:
        """The error at a place."""
        if isinstance(node, ast.AST):
            of_all = _STATEMENTS if isinstance(node, ast.stmt) else _VALUES
            message = message or f"this is not in the language: {_CURES.get(type(node), of_all)}"
            node = self._at(node)
        return ParseError(Diagnostic(code, message or "", node, self._source))


def _content(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # it is assigned later
        return None


def _facts(condition: syntax.Expr) -> Iterator[syntax.Expr]:
    if isinstance(condition, syntax.Binary) and condition.sign == "and":
        yield from _facts(condition.left)
        yield from _facts(condition.right)
    else:
        yield condition


def _is_same(one: ast.expr, other: ast.expr) -> bool:
    """Whether two expressions read alike; one of them is written to."""
    return ast.unparse(one) == ast.unparse(other)


def _constant_of(value: Real | float, span: Span) -> syntax.Expr:
    """A number, behind its sign where it is below 0."""
    text = str(int(value)) if isinstance(value, Integral) else repr(float(value))
    number = syntax.Number(text.removeprefix("-"), span)
    return syntax.Unary("-", number, span) if text.startswith("-") else number


__all__ = ["kernel"]
