"""What a test may not do, found in its text: run a target that this machine may not have, assert a time."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from asked import Source, asked

TARGETS = frozenset({"avx2", "avx512", "neon", "rvv", "sve"})
"""The instruction sets: each machine has some of them."""

RUNNERS = {"Evaluator": 1, "Walk": 4, "compile": 1, "measure": 1, "measure_together": 1, "tune": 1, "verify": 2}
"""What runs code on a target, and the number of the argument that names it, where it is not by name."""

ASKS = frozenset({"able", "can_run", "runs", "runs_here"})
"""What tells whether the machine runs one; so does a handler of ToolchainError."""

CLOCKS = frozenset({"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "time_ns"})

TIMES = frozenset({"duration", "elapsed", "median", "milliseconds", "nanoseconds", "ratio", "seconds", "took"})
"""What times, and ratios of them, are called."""


@asked("tests")
def habits(source: Source) -> tuple[list[str], list[int]]:
    """Both, of a file of tests; one that has none of the words has none of them."""
    runs, asserts = (any(word in source.text for word in words) for words in (TARGETS, (*CLOCKS, *TIMES, "time()")))
    return targets_not_asked_for(source.tree) if runs else [], times_asserted(source.tree) if asserts else []


def targets_not_asked_for(tree: ast.Module) -> list[str]:
    """`LINE: TARGET` for each target that a function runs without having asked whether the machine can. Where an
    error is expected nothing runs."""
    module: list[tuple[str, ast.expr]] = []
    found = []
    for function in _functions(tree):
        runs = [call for call in _calls(function) if any(_targets(call))]
        if not runs or _asks(function):
            continue
        module = module or [*_bindings(tree.body)]
        bound = _table([*module, *_bindings([function]), *_parameters(function)])
        refused = {call for block in ast.walk(function) if _is_raising(block) for call in _calls(block)}
        for call in runs:
            if call not in refused:
                named = {text.partition("@")[0] for value in _targets(call) for text in _texts(value, bound, set())}
                found += [f"{call.lineno}: {target}" for target in sorted(named & TARGETS)]
    return found


def times_asserted(tree: ast.Module) -> list[int]:
    """The lines with an assertion that a time, or a ratio of times, is above or below a number."""
    found = []
    for function in _functions(tree):
        asserts = [node for node in ast.walk(function) if isinstance(node, ast.Assert)]
        clocked = {name for name, value in _bindings([function]) if _reads_a_clock(value)} if asserts else set()
        found += [one.lineno for one in asserts if any(_is_of_time(part, clocked) for part in ast.walk(one.test))]
    return found


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """Those of the module and of its classes, with what is nested in each."""
    for node in tree.body:
        for one in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(one, ast.FunctionDef):
                yield one


def _targets(call: ast.Call) -> Iterator[ast.expr]:
    """The arguments of a call that name the targets it runs on."""
    if _name(call) in RUNNERS:
        yield from call.args[RUNNERS[_name(call)] :][:1]
        yield from (word.value for word in call.keywords if word.arg in ("target", "targets"))


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    return (part for part in ast.walk(node) if isinstance(part, ast.Call))


def _name(call: ast.Call) -> str:
    """The last name of what is called."""
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def _asks(function: ast.FunctionDef) -> bool:
    handlers = [part.type for part in ast.walk(function) if isinstance(part, ast.ExceptHandler)]
    return any(_name(call) in ASKS for call in _calls(function)) or any(
        isinstance(kind, ast.Attribute) and kind.attr == "ToolchainError" for kind in handlers
    )


def _is_raising(node: ast.AST) -> bool:
    return isinstance(node, ast.With) and any(
        isinstance(item.context_expr, ast.Call) and _name(item.context_expr) == "raises" for item in node.items
    )


def _bindings(body: list[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    """Names, and what they may stand for: assigned, gone through, or defaults."""
    for node in (part for one in body for part in ast.walk(one)):
        match node:
            case ast.Assign(targets=targets, value=value):
                yield from ((name, value) for target in targets for name in _names(target))
            case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
                yield from ((name, value) for name in _names(target))
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                yield from ((name, value) for name in _names(target))


def _parameters(function: ast.FunctionDef) -> Iterator[tuple[str, ast.expr]]:
    """The parameters that a decorator gives values to."""
    for one in function.decorator_list:
        if isinstance(one, ast.Call) and _name(one) == "parametrize" and len(one.args) > 1:
            for text in (part.value for part in ast.walk(one.args[0]) if isinstance(part, ast.Constant)):
                yield from ((name.strip(), one.args[1]) for name in str(text).split(","))


def _names(target: ast.expr) -> Iterator[str]:
    return (part.id for part in ast.walk(target) if isinstance(part, ast.Name))


def _table(pairs: list[tuple[str, ast.expr]]) -> dict[str, list[ast.expr]]:
    found: dict[str, list[ast.expr]] = {}
    for name, value in pairs:
        found.setdefault(name, []).append(value)
    return found


def _texts(value: ast.expr, bound: dict[str, list[ast.expr]], seen: set[str]) -> Iterator[str]:
    """The texts that a value may be or hold: of its parts and of what its names stand for, but not of what is
    handed to a function."""
    match value:
        case ast.Constant(value=str(text)):
            yield text
        case ast.Name(id=name) if name not in seen:
            for other in bound.get(name, ()):
                yield from _texts(other, bound, seen | {name})
        case ast.Call(func=ast.Attribute(attr="param"), args=args):
            for part in args:
                yield from _texts(part, bound, seen)
        case ast.Tuple() | ast.List() | ast.Set() | ast.Starred() | ast.IfExp() | ast.BinOp():
            for child in ast.iter_child_nodes(value):
                if isinstance(child, ast.expr):
                    yield from _texts(child, bound, seen)
        case ast.ListComp(elt=part) | ast.GeneratorExp(elt=part) | ast.SetComp(elt=part):
            yield from _texts(part, bound, seen)


def _reads_a_clock(value: ast.expr) -> bool:
    return any(_name(call) in CLOCKS for call in _calls(value)) or any(
        _name(call) == "time" and not call.args for call in _calls(value)
    )


def _is_of_time(node: ast.AST, clocked: set[str]) -> bool:
    """Whether it is a comparison of a clock with anything, or of a time with a number other than 0."""
    if not isinstance(node, ast.Compare) or not any(isinstance(op, ORDERS) for op in node.ops):
        return False
    sides = [node.left, *node.comparators]
    if any(_reads_a_clock(side) or clocked & {*_names(side)} for side in sides):
        return True
    numbers = [side.value for side in sides if isinstance(side, ast.Constant)]
    return any(numbers) and any(_is_a_time(side) for side in sides)


ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def _is_a_time(side: ast.expr) -> bool:
    return any(
        (isinstance(part, ast.Attribute) and part.attr in TIMES)
        or (isinstance(part, ast.Name) and part.id in TIMES)
        or (isinstance(part, ast.Constant) and part.value in TIMES)
        for part in ast.walk(side)
    )
