"""Functions of Python as kernels: they give the tree that the text gives, and errors at the user's own line."""

from __future__ import annotations

import functools
import linecache
import math
import re
from itertools import count
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from strategies import drawn_kernels

import dojoir
from dojoir import ArgumentError, DojoError, Kernel, parse
from dojoir.ir.text import canonical_text

_numbers = count()


def read(text: str, **names: object) -> Kernel:
    """The kernel of a function of that text, as a cell of a notebook holds it."""
    name = f"<cell {next(_numbers)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    scope: dict[str, object] = {"dojoir": dojoir, "math": math, **names}
    exec(compile(text, name, "exec", dont_inherit=True), scope)
    (kernel,) = (value for value in scope.values() if isinstance(value, Kernel))
    return kernel


EVERYTHING = '''
def around():
    low = -2

    @dojoir.kernel(fp="strict")
    def everything(
        x: "f32[N, M]", p: "i32[N] distinct", c: "f32", y: "out f32[N] align 64", z: "inout i64[N, S]", *, S=2, K
    ):
        """What is said of it."""
        assert M % 16 == 0 and 1 < K <= 9, "as the tiles are"
        m: "f32[N~] reg"
        at: "i64[N~] reg"
        for i in range(N):
            m[i], at[i] = -float("inf"), 0
            for j in range(M):
                m[i], at[i] = max((m[i], at[i]), (x[i, j], j))
            t: "f32" = m[i] * HALF + math.pi - low
            y[i] = t if 0 <= t < c else -t**2
            y[i] = min(y[i], c)
            if i % 2 == 0 and i < N - 1:
                y[i] *= exp(c)
            else_: "f32" = 1
            if i == 0:
                y[i] += else_
            elif i > K:
                y[i] += 2
            if x[i, 0] > c:
                z[p[i], S - 1] += i64(not c == inf) + (at[i] & 3 | ~at[i] << 1)
        for i in range(min(N, K)):
            z[i, 0] = max(z[i, 0], 1)

    return everything


kernel = around()
'''


def test_every_construct() -> None:
    everything = read(EVERYTHING, HALF=0.5)
    assert everything == parse(
        f"""
kernel everything(N, M, S = 2, K)
where M % 16 == 0, 1 < K, K <= 9
fp strict
in x: f32[N, M]
in p: i32[N] distinct
in c: f32
out y: f32[N] align 64
inout z: i64[N, S]
tmp m: f32[N~] reg
tmp at: i64[N~] reg
tmp t: f32
tmp else_: f32
N @i
| (m[{{i}}], at[{{i}}]) = (-inf, 0)
| M @j
| | (m[{{i}}], at[{{i}}]) max= (x[{{i}}, {{j}}], {{j}})
| t = m[{{i}}] * 0.5 + {math.pi!r} - -2
| y[{{i}}] = select(0 <= t and t < c, t, -pow(t, 2))
| y[{{i}}] min= c
| if {{i}} % 2 == 0 and {{i}} < N - 1
| | y[{{i}}] *= exp(c)
| else_ = 1
| if {{i}} == 0
| | y[{{i}}] += else_
| if {{i}} != 0
| | if {{i}} > K
| | | y[{{i}}] += 2
| if x[{{i}}, 0] > c
| | z[p[{{i}}], S - 1] += i64(not c == inf) + (at[{{i}}] & 3 | ~at[{{i}}] << 1)
min(N, K) @i2
| z[{{i2}}, 0] max= 1
"""
    )
    assert str(parse(str(everything))) == str(everything)


# -- any kernel that has a text ------------------------------------------------------------------------------
def quoted(declared: str, role: str) -> str:
    name, rest = declared.split(": ", 1)
    return f'{name}: "{role}{rest}"'


def as_function(text: str) -> str:
    """A text without labels and marks as a function of Python."""
    decorator, parameters, body = "@dojoir.kernel", list[str](), list[str]()
    around: list[bool] = []  # whether each line around is a loop, and no guard
    for line in text.splitlines():
        depth = len(line) - len(line.lstrip("| ")) >> 1
        node, indent = re.sub(r"{(\d+)}", r"i_\1", line[2 * depth :]), "    " * (depth + 1)
        match re.findall(r"^(kernel|fp|where|in|out|inout|tmp|if) +(.*)", node):
            case [("kernel", rest)]:
                name, sizes = rest[:-1].split("(")
            case [("fp", mode)]:
                decorator += f'(fp="{mode}")'
            case [("where", facts)]:
                body += [f"{indent}assert {fact}" for fact in facts.split(", ")]
            case [("tmp", declared)]:
                body.append(indent + quoted(declared, ""))
            case [("if", condition)]:
                body.append(f"{indent}if {condition}:")
                around[depth:] = [False]
            case [(role, declared)]:
                parameters.append(quoted(declared, f"{role} "))
            case _:
                if found := re.fullmatch(r"(.*?) (max|min)= (.*)", node):
                    target, word, value = found.groups()
                    body.append(f"{indent}{target} = {word}({target}, {value})")
                elif re.search(r" [-+*^&|]?= ", node):
                    body.append(f"{indent}{node}")
                elif node:
                    body.append(f"{indent}for i_{sum(around[:depth])} in range({node}):")
                    around[depth:] = [True]
    parameters += ["*", *sizes.split(", ")] if sizes else []
    return "\n".join([decorator, f"def {name}({', '.join(parameters)}):", '    """."""', *body, ""])


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(drawn_kernels("any"))
def test_any_kernel_can_be_a_function(kernel: Kernel) -> None:
    """All but marks, which moves set, the condition of a statement, which stands under `if`, and an assignment of
    the maximum of an element and another to it, which accumulates."""
    order = sorted(kernel.buffers, key=lambda buffer: buffer.role == "tmp")
    text = re.sub(r" : [\w, ]+$", "", canonical_text(kernel.evolve(buffers=tuple(order))), flags=re.MULTILINE)
    if not re.search(r"= .* if |(?:^|\| )(\S.*) = (max|min)\(\1,", text):
        assert read(as_function(text)) == parse(text), as_function(text)


# -- the same function, run by Python ------------------------------------------------------------------------
PLAIN = """@dojoir.kernel(fp="strict")
def k(x: "f64[N, M]", z: "i64[N]", c: "f64", y: "inout f64[N]", w: "inout i64[N]"):
    t: "f64" = 0
    for i in range(N):
        {}
"""
MEANT = [
    "w[i] = z[i] // 3 + z[i] % 3 * 10 + z[i] // -3 * 100 + z[i] % -3 * 1000 + -7 // 2 + -z[i] // 2",
    "w[i] = (i - 5) // 2 * 100 + (i - 5) % 3 - (i * 3 - 7) // 4 * 10 + (-i) // 2 - (-9 >> 1)",
    "w[i] = (z[i] >> 1) + (z[i] << 2) ^ (z[i] & 6 | 1) + ~z[i]",
    "w[i] ^= 5; w[i] |= 8; w[i] &= 13; w[i] += 2; w[i] *= 3",
    "w[i] = i64(x[i, 0] * 5) + i64(f64(z[i]) / 2)",
    "y[i] = -x[i, 0] ** 2 + 2 * c - c / 2 / 3 - (1 - c - 3) + 2 ** 3 ** 0.5 + c ** -1 + 7 / 2 - 7 // 2",
    "y[i] = 1 if -1 < x[i, 0] <= c < 5 else 2 if x[i, 0] > c and i > 2 or not z[i] > 0 else 3",
    "y[i] = max(c, min(x[i, 0], 0.25)) + max(i, 2) - round(f64(z[i]) / 2) + math.fmod(x[i, 0], 0.3)",
    "if i < 1: y[i] = 1\n        elif i == 3: y[i] = 3\n        else: y[i] = 4",
    "if x[i, 0] > 0: t = x[i, 0]\n    y[0] = t",
    "t += x[i, 0]\n        y[i] += y[i] * 2 + t\n        y[i] *= y[i]",
    "for j in range(min(i, M)):\n            y[i] = max(y[i], x[i, j])",
    "if i < N - 1: y[i + 1] = y[i] + x[abs(z[i]) % N, 0]",
]


@pytest.mark.parametrize("body", MEANT)
def test_it_means_what_python_means(body: str) -> None:
    text, draw = PLAIN.format(body), np.random.default_rng(0)
    decorator = SimpleNamespace(kernel=lambda fp: lambda function: function)
    scope: dict[str, Any] = {"dojoir": decorator, "math": math, "N": 6, "M": 4, "f64": float, "i64": int}
    exec(text, scope)
    for _ in range(4):
        given = {"x": draw.normal(size=(6, 4)), "z": draw.integers(-9, 9, 6), "c": float(draw.normal())}
        results = {"y": draw.normal(size=6), "w": draw.integers(-9, 9, 6)}
        found = dojoir.interpret(read(text), given | {name: one.copy() for name, one in results.items()})
        scope["k"](**given, **results)
        for name, one in results.items():
            np.testing.assert_allclose(found[name], one, rtol=1e-14)


# -- errors --------------------------------------------------------------------------------------------------
HEAD = '@dojoir.kernel\ndef k(x: "f32[N, M]", y: "out f32[N]", c: "f32"):\n'
LOOP = "for i in range(N):\n        "
WRONG = {
    "y[i] = 0": (3, "i", "unknown-name", "declare it"),
    LOOP + "y[i] = w": (4, "w", "unknown-name", 'by `t: "f32"`'),
    LOOP + "w = x[i, 0]": (4, "w", "unknown-name", '`w: "f32" = …`'),
    LOOP + "yy[i] = 0": (4, "yy", "unknown-buffer", "did you mean 'y'"),
    LOOP + "y[i] = exp": (4, "exp", "unknown-name", "write exp(…)"),
    LOOP + "y[i] = maxx(c, 1)": (4, "maxx", "unknown-function", "did you mean 'max'"),
    LOOP + "y[i] = x[i]": (4, "x[i]", "wrong-rank", "2 dimensions"),
    LOOP + "x[i, 0] = 1": (4, "x[i, 0]", "write-to-input", "declare it inout"),
    LOOP + "y[i] -= 1": (4, "y[i] -= 1", "unexpected", "write `x += -(…)`"),
    LOOP + "y[i] = x[i, 0] @ x[i, 1]": (4, "x[i, 0] @ x[i, 1]", "unexpected", "c[i, j] += a[i, k] * b[k, j]"),
    LOOP + "y[i] = sum(x[i, :])": (4, ":", "unexpected", "for each dimension"),
    LOOP + "y[i] = (c +\n    w)": (5, "w", "unknown-name", "declare it"),
    LOOP + "pass": (4, "pass", "unexpected", "has a statement in it"),
    LOOP + "for i in range(M):\n            y[i] = 1": (4, "i", "duplicate-name", "call the counter otherwise"),
    LOOP + "if c > 0:\n            y[i] = 1\n        else:\n            y[i] = 2":
        (7, "y[i] = 2", "unexpected", "write `if` with the opposite"),
    "for i in range(1, N):\n        y[i] = 0": (3, "range(1, N)", "unexpected", "write `range(b - a)`"),
    "for i in N:\n        y[i] = 0": (3, "for i in N", "unexpected", "a loop is `for i in range(N):`"),
    "while c > 0:  # so long\n        y[0] = 1": (3, "while c > 0", "unexpected", "stands under `if`"),
    "return x": (3, "return x", "unexpected", "declared `out`"),
    "y[0] = 'a'": (3, "'a'", "unexpected", "numbers, elements"),
    "y[0] = True": (3, "True", "unexpected", "numbers, elements"),
    "y[0] = math.nothing": (3, "math.nothing", "unexpected", "no number"),
    "print(y)": (3, "print(y)", "unexpected", "assignments"),
    "y[0] = c is N": (3, "c is N", "unexpected", "write =="),
    "é: 'f32' = 1; y[0] = é": (3, "é", "reserved-word", "é"),
    "t: 'f32[K]' = 0": (3, "K", "unknown-name", "behind `*`"),
    "t: 'f23[N]'\n    y[0] = 0": (3, "f23", "unknown-dtype", "did you mean 'f32'"),
    "t: 'out f32[N]'\n    y[0] = 0": (3, "'out f32[N]'", "unexpected", "in, out or inout"),
    "assert c > 0\n    y[0] = 1": (3, "c", "not-affine", "is data"),
    "if N > 3:\n        assert M % 16 == 0": (4, "assert M % 16 == 0", "unexpected", "outside of loops and `if`"),
    LOOP + "y[i] //= 2": (4, "y[i] //= 2", "unexpected", "write an assignment"),
    LOOP + "y[i] <<= 2": (4, "y[i] <<= 2", "unexpected", "write an assignment"),
    "for at in range(N):\n        y[at] = 1\n    y[0] = at": (5, "at", "unknown-name", "declare it"),
    LOOP + "y[i] = t\n        t: 'f32' = 1": (4, "t", "unknown-name", "declare it"),
    LOOP + "i: 'f32' = 1": (4, "i", "duplicate-name", "call this otherwise"),
    "for c in range(N):\n        y[c] = c": (3, "c", "duplicate-name", "call the counter otherwise"),
    "for N in range(N):\n        y[N] = 1": (3, "N", "duplicate-name", "call the counter otherwise"),
    LOOP + "y[i] = erf(c)": (4, "erf", "unknown-function", "write its body here"),
    LOOP + "y[i] = own.exp(c)": (4, "own.exp", "unknown-function", "write its body here"),
    LOOP + "y[i] = min(y[i], c)": (4, "min", "unknown-function", "write its body here"),
    "y[0] = BIG": (3, "BIG", "number-too-large", "64 bits"),
    "t: '' = 1": (3, "''", "unexpected", "write `\"f32[N]\"`"),
}  # fmt: skip


@pytest.mark.parametrize("body", WRONG)
def test_an_error_is_at_the_users_own_line(body: str) -> None:
    line, culprit, code, cure = WRONG[body]
    with pytest.raises(DojoError) as raised:
        read(f"{HEAD}    {body}\n", at=5, t=5, erf=lambda v: v, own=SimpleNamespace(exp=abs), min=max, BIG=10**5000)
    found = raised.value.diagnostic
    assert found.span is not None and found.source is not None
    shown = found.source.line(found.span.line)[found.span.column - 1 : found.span.end - 1]
    assert (found.span.line, shown, found.code) == (line, culprit, code)
    assert cure in found.message and found.source.name.startswith("<cell")
    assert found.render().splitlines()[2].strip() == "^" + "~" * (len(culprit) - 1)


@pytest.mark.parametrize(
    "head",
    ["x", "x: 'f32' = 1", "*x", "x: 'tmp f32'", "x: 'f32[N'", "*, N='a'", "*, N=None", "x: ''", "*, x: 'f32'"],
)
def test_so_is_one_of_the_head(head: str) -> None:
    with pytest.raises(DojoError) as raised:
        read(f"@dojoir.kernel\ndef k({head}):\n    'nothing'\n")
    assert raised.value.diagnostic.span is not None and raised.value.diagnostic.span.line == 2


def test_what_the_checker_says_later_is_there_too() -> None:
    kernel = read(f"{HEAD}    {LOOP}y[i] = x[i, i]\n")
    with pytest.raises(dojoir.KernelError, match=r"^<cell \d+>:4:16: error\[out-of-bounds\]"):
        dojoir.prove(kernel)


@pytest.mark.parametrize("above", ["", "@around\n"])
def test_another_function_is_not_read_for_it(above: str) -> None:
    """One that is inside, or that another decorator made."""
    inner = '    def k(y: "out f32"):\n        y = 1\n'
    text = f'@dojoir.kernel\n{above}{"" if above else "async "}def k(y: "out f32"):\n{inner}'
    with pytest.raises(DojoError, match="under all other decorators" if above else "write `def`"):
        read(text, around=lambda function: functools.wraps(function)(lambda y: y))


def test_what_has_no_source_is_told() -> None:
    scope: dict[str, object] = {"dojoir": dojoir}
    for code in ("dojoir.kernel(3)", "dojoir.kernel(lambda x: x)", "@dojoir.kernel\ndef k(): pass"):
        with pytest.raises(ArgumentError):
            exec(code, scope)
    with pytest.raises(DojoError, match="mode 'loose'"):
        read('@dojoir.kernel(fp="loose")\ndef k(y: "out f32"):\n    y = 0\n')
