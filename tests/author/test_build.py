"""The builder: it gives the tree that the text gives, and says what is wrong where it is said."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from strategies import drawn_kernels

from dojoir import ArgumentError, KernelError, build, kernels, parse, to_text
from dojoir.author.build import Array, Builder, Value
from dojoir.ir.affine import Affine, Atom, Extremum, FloorDiv, Iter, Mod, SizeVar
from dojoir.ir.nodes import Access, Cast, Condition, Const, Expr, Guard, Index, Kernel, Node, Op, Scope, Statement


def test_every_construct() -> None:
    with build.kernel("everything", "N", "M", K=16) as b:
        N, M, K = b.sizes
        b.where(build.eq(M % K, 0), (N >= 4) & build.ne(N, 7))
        b.fp("strict")
        x = b.input("x", "f32", ["N", M])
        y = b.inout("y", "f32", [N + 1, M // 16], align=64)
        t = b.temp("t", "i32", ["N~", K], storage="stack", order=(1, 0), pad=(0, 8))
        s = b.temp("s", "bool", storage="reg")
        c = b.input("c", "bf16")
        r = b.output("r", "f32")
        with b.scope(N - 1, "p", label="i") as i:
            with b.scope(build.min(K, N - i), "v", "u") as j:
                with b.guard(i < N, build.eq(j % 4, 0)):
                    t[i, j] = build.cast("i32", x[i, t[0, j]] * 2) // 3 + j
                b.max(y[i, 0], -1.5e-3 * -x[0, 0] / c)
                y[i, 0] += 2 * x[0, 0] - 1
                y[i, 0] *= 1 / x[0, 0] + 1 - (i - 3)
            s[()] = ~(x[0, 0] < 1) | s & build.eq(N, 2)
        y[0, 0] = build.select(s, build.fma(0.5, float("inf"), c), abs(x[0, 0]) ** 2)
        b.set(r, 0)
        b.add(r, build.pow(2, x[0, 0]))
        b.mul(r, build.exp(x[0, 0]))
        b.min(r, build.max(x[0, 0], 2.0))
        with b.scope("K", label="a"):
            r[()] += N
    assert b.kernel == parse(
        """
kernel everything(N, M, K = 16)
where M % K == 0, N >= 4, N != 7
fp strict
in x: f32[N, M]
inout y: f32[N + 1, M // 16] align 64
tmp t: i32[N~, K] stack order(1, 0) pad(0, 8)
tmp s: bool reg
in c: bf16
out r: f32
N - 1 : p @i
| min(K, N - {0}) : v, u
| | if {0} < N and {1} % 4 == 0
| | | t[{0}, {1}] = i32(x[{0}, t[0, {1}]] * 2) // 3 + {1}
| | y[{0}, 0] max= -1.5e-3 * -x[0, 0] / c
| | y[{0}, 0] += 2 * x[0, 0] - 1
| | y[{0}, 0] *= 1 / x[0, 0] + 1 - ({0} - 3)
| s = not x[0, 0] < 1 or s and N == 2
y[0, 0] = select(s, fma(.5, inf, c), pow(abs(x[0, 0]), 2))
r = 0
r += pow(2, x[0, 0])
r *= exp(x[0, 0])
r min= max(x[0, 0], 2.0)
K @a
| r += N
"""
    )


# -- any kernel that has a text can be built ---------------------------------------------------------------
class Rebuild:
    """Makes a kernel again, by calls of the builder."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        sizes = [s.name if s.value is None else (s.name, s.value) for s in kernel.sizes]
        self.builder = build.kernel(kernel.name, *sizes)
        self.sizes = dict(zip((size.name for size in kernel.sizes), self.builder.sizes, strict=True))
        self.arrays: dict[str, Array] = {}
        self.iterators: list[Value] = []

    def make(self) -> Builder:
        b, kernel = self.builder, self.kernel
        declare: dict[str, Callable[..., Array]] = {"in": b.input, "out": b.output, "inout": b.inout, "tmp": b.temp}
        for buffer in kernel.buffers:
            more: dict[str, Any] = {"order": buffer.order, "pad": buffer.pad, "align": buffer.align}
            more |= {} if buffer.role == "tmp" else {"flat": buffer.flat}
            more |= {fact.word: True if fact.most is None else self.affine(fact.most) for fact in buffer.facts}
            if buffer.role == "tmp":
                collapsed = [number for number, dim in enumerate(buffer.dims) if dim.collapsed]
                more |= {"storage": buffer.storage, "collapsed": collapsed}
            dims = [self.affine(dim.extent) for dim in buffer.dims]
            self.arrays[buffer.name] = declare[buffer.role](buffer.name, buffer.dtype.name, dims, **more)
        b.where(*(self.condition(fact) for fact in kernel.facts))
        b.fp(kernel.fp)
        for node in kernel.body:
            self.node(node)
        return b

    def node(self, node: Node) -> None:
        match node:
            case Statement(target, op, Op("when", (condition, value))):
                self.builder.accumulate(self.access(target), op, self.expr(value), when=self.expr(condition))
            case Statement(target, op, value):
                self.builder.accumulate(self.access(target), op, self.expr(value))
            case Guard(conditions, body):
                with self.builder.guard(*(self.condition(condition) for condition in conditions)):
                    for child in body:
                        self.node(child)
            case Scope(extent, body, marks, label):
                first, *others = (self.affine(bound) for bound in extent.bounds)
                for other in others:
                    first = build.min(first, other)
                with self.builder.scope(first, *marks, label=label) as iterator:
                    self.iterators.append(iterator)
                    for child in body:
                        self.node(child)
                    self.iterators.pop()

    def expr(self, expr: Expr) -> Value:
        match expr:
            case Const(value):
                return Value(Const(value))
            case Index(affine):
                return self.affine(affine)
            case Access():
                return self.access(expr)
            case Cast(dtype, arg, way=way):
                convert: Callable[[str, Value], Value] = getattr(build, way)
                return convert(dtype.name, self.expr(arg))
            case Op(name, args):
                a, *rest = (self.expr(arg) for arg in args)
                return OPERATORS[name](a, *rest) if name in OPERATORS else getattr(build, name)(a, *rest)

    def access(self, access: Access) -> Value:
        indices = (self.access(i) if isinstance(i, Access) else self.affine(i) for i in access.indices)
        return self.arrays[access.buffer][tuple(indices)]

    def condition(self, condition: Condition) -> Value:
        names = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
        sides = self.affine(condition.left), self.affine(condition.right)
        name = names[condition.relation]
        return OPERATORS[name](*sides) if name in OPERATORS else getattr(build, name)(*sides)

    def affine(self, affine: Affine) -> Value:
        total = Value(Const(affine.offset))
        for atom, coefficient in affine.terms:
            total = self.atom(atom) * coefficient + total
        return total

    def atom(self, atom: Atom) -> Value:
        match atom:
            case SizeVar(name):
                return self.sizes[name]
            case Iter(depth):
                return self.iterators[depth]
            case FloorDiv(numerator, divisor):
                return self.affine(numerator) // divisor
            case Mod(numerator, divisor):
                return self.affine(numerator) % divisor
            case Extremum(word, parts):
                values = map(self.affine, parts)
                return reduce(build.min if word == "min" else build.max, values)


OPERATORS: dict[str, Callable[..., Value]] = {
    "bitxor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "neg": lambda a: -a,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "not": lambda a: ~a,
}


@settings(max_examples=150, deadline=None)
@given(drawn_kernels("any"))
def test_any_kernel_can_be_built(kernel: Kernel) -> None:
    built = Rebuild(kernel).make().kernel
    assert built == kernel
    assert to_text(built, names=True) == to_text(kernel, names=True)


@pytest.mark.parametrize("name", kernels.names())
def test_library_kernels_can_be_built(name: str) -> None:
    kernel = kernels.load(name)
    assert Rebuild(kernel).make().kernel == kernel


# -- numbers -----------------------------------------------------------------------------------------------
def test_python_and_numpy_numbers() -> None:
    b = build.kernel("k", "N")
    y = b.output("y", "f32", ["N"])
    y[np.int64(0)] = np.float64(0.5)
    y[0] = np.int32(3) + b.sizes[0]
    y[0] = 2 - y[0]
    y[0] = 2 * y[0] / 3
    y[0] = 2 ** y[0]
    assert to_text(b.kernel).splitlines()[3:] == [
        "y[0] = 0.5",
        "y[0] = N + 3",
        "y[0] = 2 - y[0]",
        "y[0] = 2 * y[0] / 3",
        "y[0] = pow(2, y[0])",
    ]


def test_an_accumulated_value_is_a_value() -> None:
    b = build.kernel("k", "N")
    y = b.output("y", "f32", ["N"])
    total = y[0]
    total += 1
    total *= 2
    y[1] = total
    y[0] = y[0] + 1
    y[0] += y[1]
    assert b.kernel == parse("kernel k(N)\nout y: f32[N]\ny[1] = (y[0] + 1) * 2\ny[0] = y[0] + 1\ny[0] += y[1]\n")


# -- misuse ------------------------------------------------------------------------------------------------
def misuses() -> dict[str, tuple[Callable[[Builder, Array, Array], object], str]]:
    """What is done with a builder, an input x: f32[N] and an output s: f32, and the code of the error."""

    def stale(b: Builder, x: Array, s: Array) -> None:
        with b.scope("N") as i:
            s[()] = 1
        with b.scope("N"):
            s[()] = x[i]

    def inside(body: Callable[[Builder, Array, Array], object], **more: Any) -> Callable[..., None]:
        def run(b: Builder, x: Array, s: Array) -> None:
            with b.scope("N", **more):
                body(b, x, s)

        return run

    def labelled_twice(b: Builder, x: Array, s: Array) -> None:
        with b.scope("N", label="i"), b.scope("N", label="i"):
            s[()] = 1

    def deep(b: Builder, x: Array, s: Array) -> None:
        with contextlib.ExitStack() as stack:
            for _ in range(65):
                stack.enter_context(b.scope("N"))
            s[()] = 1

    def long(b: Builder, x: Array, s: Array) -> None:
        total = x[0]
        for _ in range(200):
            total = total + x[0]
        s[()] = total

    def scope(*args: Any, **more: Any) -> Callable[[Builder, Array, Array], object]:
        return lambda b, x, s: b.scope(*args, **more).__enter__()

    def guard(*args: Any) -> Callable[[Builder, Array, Array], object]:
        return lambda b, x, s: b.guard(*args).__enter__()

    def iterator_dim(b: Builder, x: Array, s: Array) -> None:
        with b.scope("N") as i:
            b.temp("t", "f32", [i])

    def fact_on_iterator(b: Builder, x: Array, s: Array) -> None:
        with b.scope("N") as i:
            b.where(i > 3)

    def augmented(b: Builder, x: Array, s: Array) -> None:
        s += 1

    return {
        "a size twice": (lambda b, x, s: build.kernel("k", "N", N=3), "duplicate-name"),
        "a reserved word": (lambda b, x, s: build.kernel("k", "exp"), "reserved-word"),
        "a wrong name": (lambda b, x, s: b.temp("a b", "f32"), "reserved-word"),
        "a wrong kernel name": (lambda b, x, s: build.kernel("in"), "bad-name"),
        "a negative size": (lambda b, x, s: build.kernel("k", N=-1), "bad-size"),
        "a buffer twice": (lambda b, x, s: b.temp("x", "f32"), "duplicate-name"),
        "an unknown type": (lambda b, x, s: b.temp("t", "float32"), "unknown-dtype"),
        "an unknown type of a cast": (lambda b, x, s: build.cast("f23", s), "unknown-dtype"),
        "an unknown size": (lambda b, x, s: b.temp("t", "f32", ["M"]), "unknown-name"),
        "an unknown storage": (lambda b, x, s: b.temp("t", "f32", storage="stak"), "bad-attribute"),
        "a collapsed input": (lambda b, x, s: b.input("t", "f32", ["N~"]), "bad-attribute"),
        "a wrong order": (lambda b, x, s: b.temp("t", "f32", ["N"], order=(1,)), "bad-attribute"),
        "a wrong pad": (lambda b, x, s: b.temp("t", "f32", ["N"], pad=(-1,)), "bad-attribute"),
        "a wrong alignment": (lambda b, x, s: b.temp("t", "f32", ["N"], align=3), "bad-attribute"),
        "a collapsed dimension too many": (lambda b, x, s: b.temp("t", "f32", ["N"], collapsed=[1]), "wrong-rank"),
        "a dimension of iterators": (iterator_dim, "not-affine"),
        "a fact on an iterator": (fact_on_iterator, "not-a-condition"),
        "a fact that never holds": (lambda b, x, s: b.where(Value(Const(1)) > 2), "broken-fact"),
        "an unknown mode": (lambda b, x, s: b.fp("fest"), "unknown-fp-mode"),
        "an index too many": (lambda b, x, s: x[0, 0], "wrong-rank"),
        "an array as a value": (lambda b, x, s: x + 1, "wrong-rank"),
        "a scalar accumulated by name": (augmented, "wrong-rank"),
        "a float index": (lambda b, x, s: x[0.5], "not-affine"),
        "an index that is no value": (lambda b, x, s: x.__getitem__(*["N"]), "not-an-expression"),
        "a product of sizes": (lambda b, x, s: x[b.sizes[0] * b.sizes[0]], "not-affine"),
        "a truth value": (lambda b, x, s: s + True, "not-an-expression"),
        "a chained comparison": (lambda b, x, s: 0 < s < 1, "not-an-expression"),
        "an equality": (lambda b, x, s: s == 1, "not-an-expression"),
        "an inequality": (lambda b, x, s: s != 1, "not-an-expression"),
        "a huge number": (lambda b, x, s: s + 2**64, "number-too-large"),
        "a huge product": (lambda b, x, s: b.sizes[0] * 2**40 * 2**40, "number-too-large"),
        "a write to an input": (lambda b, x, s: b.set(x[0], 1), "write-to-input"),
        "a write to a number": (lambda b, x, s: b.add(s + 1, 1), "not-a-target"),
        "an unknown accumulation": (lambda b, x, s: b.accumulate(s, "-=", 1), "unknown-operation"),
        "an iterator outside its scope": (stale, "unknown-iterator"),
        "an array of another kernel": (
            lambda b, x, s: b.set(s, build.kernel("j", "N").input("z", "f32", ["N"])[0]),
            "unknown-buffer",
        ),
        "an empty scope": (inside(lambda b, x, s: None), "empty-body"),
        "a kernel inside a scope": (inside(lambda b, x, s: b.kernel), "open-scope"),
        "an unknown mark": (scope("N", "w"), "unknown-mark"),
        "a mark twice": (scope("N", "p", "p"), "duplicate-mark"),
        "a wrong label": (scope("N", label="@i"), "bad-name"),
        "a label twice": (labelled_twice, "duplicate-label"),
        "a wrong extent": (scope(1.5), "not-affine"),
        "a guard without conditions": (guard(), "not-a-condition"),
        "a guard on a truth value": (guard(True), "not-a-condition"),
        "a guard on a number": (guard(Value(Const(1))), "not-a-condition"),
        "too many scopes": (deep, "too-deep"),
        "too long an expression": (long, "too-deep"),
    }


@pytest.mark.parametrize("name", misuses())
def test_misuse(name: str) -> None:
    act, code = misuses()[name]
    b = build.kernel("k", "N")
    x, s = b.input("x", "f32", ["N"]), b.output("s", "f32")
    with pytest.raises(ArgumentError) as caught:
        act(b, x, s)
    assert caught.value.diagnostic.code == code, str(caught.value)


def test_types_are_checked_at_the_end() -> None:
    with pytest.raises(KernelError, match="type-mismatch"), build.kernel("k", "N") as b:
        s = b.output("s", "f32")
        s[()] = b.sizes[0] < 3


def test_an_error_inside_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError), build.kernel("k", "N") as b, b.scope("N"):
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError), b.guard(b.sizes[0] > 1):
        raise ZeroDivisionError
    assert b.kernel == parse("kernel k(N)\n")
