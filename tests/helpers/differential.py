"""One kernel, every target: the interpreter, LLVM and C must give the same, bit for bit where they can."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from random import Random

from agreement import agree, random_arguments, small_sizes
from drawing import draw
from drawing.damage import damage

import dojoir
from dojoir.ir.nodes import Cast, Const, Expr, Index, Kernel, Op, Statement
from dojoir.ir.operations import ELEMENTARY

INEXACT = frozenset(ELEMENTARY)
"""The functions whose last bit is free."""


@cache
def targets() -> tuple[str, ...]:
    """The targets that this machine can build."""
    kernel = dojoir.kernels.load("relu")
    found = []
    for target in ("llvm", "c"):
        try:
            dojoir.compile(kernel, target=target)
        except dojoir.ToolchainError:
            continue
        found.append(target)
    return tuple(found)


def operations(expr: Expr) -> frozenset[str]:
    """The names of the operations in an expression."""
    match expr:
        case Op(name, args):
            return frozenset({name}).union(*map(operations, args))
        case Cast(_, arg):
            return operations(arg)
        case Const() | Index():
            return frozenset()
    return frozenset()


def is_bitwise(kernel: Kernel) -> bool:
    """Whether every target must give the bits of the interpreter: no function whose last bit is free, no float sum
    that lanes or wider variables may carry, no product across lanes, no algebra."""
    if kernel.fp == "fast":
        return False
    for site in kernel.sites:
        statement: Statement = site.statement
        if operations(statement.value) & INEXACT:
            return False
        lanes = any("v" in scope.marks for scope in site.scopes) or (statement.op == "+=" and kernel.fp != "strict")
        if lanes and statement.op in {"+=", "*="} and kernel.buffer(statement.target.buffer).dtype.is_float:
            return False
    return True


def differ(kernel: Kernel, random: Random, exact: bool, on: Sequence[str], calls: int = 2) -> str | None:
    """How the targets `on` differ from the interpreter, or None."""
    bitwise = exact or is_bitwise(kernel)
    compiled = {target: dojoir.compile(kernel, target=target, threads=2) for target in on}
    for _ in range(calls):
        sizes = bearable_sizes(kernel, random)
        inputs = random_arguments(kernel, sizes, random, special=exact and random.random() < 0.5)
        expected = dojoir.interpret(kernel, inputs, **sizes)
        for target, callable_ in compiled.items():
            wrong = agree(kernel, expected, callable_.run(inputs, **sizes), bitwise)
            if wrong is not None:
                return f"{target} at {sizes}: {wrong}"
    return None


WORK = 400_000
"""How many statements the interpreter may run in a call: about a second."""


def bearable_sizes(kernel: Kernel, random: Random) -> dict[str, int]:
    """Small sizes, not so large that the interpreter of a deep nest takes long."""
    sizes = small_sizes(kernel, random)
    if max((len(site.scopes) for site in kernel.sites), default=0) > 3:
        instances = dojoir.cost(kernel).instances
        for _ in range(20):
            if instances(sizes) < WORK:
                break
            sizes = small_sizes(kernel, random)
    return sizes


def generated(random: Random, on: Sequence[str]) -> tuple[Kernel, str | None]:
    """A generated kernel, and what went wrong with it."""
    exact = random.random() < 0.5
    kernel = draw("runnable", random, exact=exact, strided=True)
    return kernel, examine(kernel, random, exact, on)


def examine(kernel: Kernel, random: Random, exact: bool, on: Sequence[str]) -> str | None:
    """The round trip, the proof and the targets of one kernel that is well-formed."""
    try:
        for names in (False, True):
            if dojoir.parse(dojoir.to_text(kernel, names=names)) != kernel:
                return f"another kernel after printing and parsing (names={names})"
        dojoir.prove(kernel)
        return differ(kernel, random, exact, on)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


LARGE = re.compile(r"\d{3}")


def mutation(random: Random, on: Sequence[str]) -> tuple[str, str | None]:
    """A damaged text, and what went wrong with it: only ParseError and KernelError are right. What is still a
    kernel must run."""
    whole = draw("runnable", random) if random.random() < 0.7 else draw("any", random)
    text = damage(dojoir.to_text(whole, names=random.random() < 0.3), random)
    try:
        kernel = dojoir.parse(text)
    except dojoir.ParseError as error:
        return text, _unclear(error)
    except dojoir.KernelError as error:
        return text, _unclear(error)
    except Exception as error:
        return text, f"parse: {type(error).__name__}: {error}"
    try:
        if dojoir.parse(dojoir.to_text(kernel)) != kernel:
            return text, "another kernel after printing and parsing"
        dojoir.prove(kernel)
    except dojoir.KernelError as error:
        return text, _unclear(error)
    except Exception as error:
        return text, f"prove: {type(error).__name__}: {error}"
    if LARGE.search(dojoir.to_text(kernel)) or LARGE.search(text):
        return text, None
    if not is_bitwise(kernel):
        on = ()
    try:
        return text, differ(kernel, random, False, on, calls=1)
    except dojoir.RunError as error:
        return text, None if error.diagnostic.code in {
            "index-out-of-range",
            "shift-out-of-range",
            "division-by-zero",
        } else f"run: {error}"
    except dojoir.ArgumentError as error:  # arguments here lie anywhere
        return text, None if error.diagnostic.code == "bad-alignment" else f"run: {error}"
    except AssertionError:
        return text, None  # no small sizes
    except Exception as error:
        return text, f"run: {type(error).__name__}: {error}"


def _unclear(error: dojoir.DojoError) -> str | None:
    rendered = str(error)
    return None if rendered.strip() and error.diagnostic.code else "an error without a message"
