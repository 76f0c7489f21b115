"""Walking a lowered program: the parts of a value, the values of a statement, the blocks inside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from dojoir.codegen.lir.device import (
    Atomic,
    Barrier,
    BlockNumber,
    Extract,
    Launch,
    Pack,
    Phase,
    Shuffle,
    Swap,
    ThreadNumber,
)
from dojoir.codegen.lir.program import (
    AddressOf,
    Allocate,
    Assign,
    Binary,
    Bitcast,
    Call,
    Comment,
    Compare,
    Const,
    Convert,
    Declare,
    Dot,
    Element,
    Fail,
    Fence,
    Fma,
    For,
    If,
    Instruct,
    Iota,
    Let,
    Load,
    Parallel,
    Prefetch,
    Program,
    Quads,
    Reduce,
    Select,
    Splat,
    Stmt,
    Store,
    Stream,
    Unary,
    Value,
    Var,
)


def mapped(stmt: Stmt, change: Callable[[Value], Value]) -> Stmt:
    """A statement with the values that it computes itself changed."""
    match stmt:
        case Let(var, value) | Declare(var, value) | Assign(var, value):
            return type(stmt)(var, change(value))
        case Store():
            return rebuilt_store(stmt, change)
        case Stream(offset=offset, elements=elements):
            return replace(stmt, offset=change(offset), elements=change(elements))
        case Prefetch(offset=offset):
            return replace(stmt, offset=change(offset))
        case Instruct():
            return rebuilt_instruct(stmt, change)
        case For(start=start, stop=stop):
            return replace(stmt, start=change(start), stop=change(stop))
        case Parallel(stop=stop):
            return replace(stmt, stop=change(stop))
        case If(condition=condition):
            return replace(stmt, condition=change(condition))
        case Fail(condition, status):
            return Fail(change(condition), status)
        case Allocate(array):
            return Allocate(replace(array, elements=change(array.elements)))
        case Atomic(offset=offset, value=value) | Swap(offset=offset, value=value):
            return replace(stmt, offset=change(offset), value=change(value))
        case Launch(grid=grid):
            return replace(stmt, grid=tuple(map(change, grid)))
        case Comment() | Fence() | Barrier() | Phase():
            return stmt


def rebuilt_store(stmt: Store, change: Callable[[Value], Value]) -> Store:
    """A store with its values changed."""
    return replace(
        stmt,
        offset=change(stmt.offset),
        value=change(stmt.value),
        stride=None if stmt.stride is None else change(stmt.stride),
        mask=None if stmt.mask is None else change(stmt.mask),
    )


def changed_by(body: tuple[Stmt, ...]) -> set[str]:
    """The names of the arrays and variables that some code may change, and of the variables that it makes."""
    found: set[str] = set()
    for stmt in statements(body):
        match stmt:
            case Let(var) | Declare(var) | Assign(var) | For(var=var) | Parallel(var=var):
                found.add(var.name)
            case Store(buffer) | Atomic(buffer=buffer):
                found.add(buffer)
            case Swap(seen, buffer):
                found.update((seen.name, buffer))
            case Instruct():
                found.update(*written_by(stmt))
            case Stream(buffer):
                found.add(buffer)
    return found


def operands(value: Value) -> tuple[Value, ...]:
    """The values that `value` is made of, in order."""
    match value:
        case Const() | Var() | Iota() | AddressOf() | ThreadNumber() | BlockNumber():
            return ()
        case Unary(arg=arg) | Convert(arg=arg) | Bitcast(arg=arg) | Splat(arg=arg) | Reduce(arg=arg):
            return (arg,)
        case Extract(arg=arg):
            return (arg,)
        case Shuffle(arg=arg, by=by):
            return (arg, by)
        case Pack(args=args):
            return args
        case Binary(left=left, right=right) | Compare(left=left, right=right):
            return (left, right)
        case Select(condition, yes, no):
            return (condition, yes, no)
        case Fma(a, b, c) | Dot(a, b, c):
            return (a, b, c)
        case Quads(offset=offset, mask=mask):
            return (offset,) if mask is None else (offset, mask)
        case Load(offset=offset, stride=stride, mask=mask):
            return tuple(part for part in (offset, stride, mask) if part is not None)
        case Call(args=args):
            return args


def rebuilt(value: Value, change: Callable[[Value], Value]) -> Value:
    """`value` with each of its operands changed."""
    match value:
        case Const() | Var() | Iota() | AddressOf() | ThreadNumber() | BlockNumber():
            return value
        case Unary(arg=arg) | Convert(arg=arg) | Bitcast(arg=arg) | Splat(arg=arg) | Reduce(arg=arg):
            return replace(value, arg=change(arg))
        case Extract(arg=arg):
            return replace(value, arg=change(arg))
        case Shuffle(arg=arg, by=by):
            return replace(value, arg=change(arg), by=change(by))
        case Pack(args=args):
            return replace(value, args=tuple(map(change, args)))
        case Binary(left=left, right=right) | Compare(left=left, right=right):
            return replace(value, left=change(left), right=change(right))
        case Select(condition, yes, no):
            return Select(change(condition), change(yes), change(no))
        case Fma(a, b, c):
            return Fma(change(a), change(b), change(c))
        case Dot(a, b, c):
            return replace(value, a=change(a), b=change(b), c=change(c))
        case Quads(offset=offset, mask=mask):
            return replace(value, offset=change(offset), mask=None if mask is None else change(mask))
        case Load(offset=offset, stride=stride, mask=mask):
            changed = (None if part is None else change(part) for part in (stride, mask))
            return Load(value.type, value.buffer, change(offset), *changed)
        case Call(args=args):
            return replace(value, args=tuple(map(change, args)))


def rebuilt_instruct(stmt: Instruct, change: Callable[[Value], Value]) -> Instruct:
    """An instruction with the values of its operands changed; a variable that it assigns stays one."""
    operands: list[tuple[str, Element | Value]] = []
    for name, operand in stmt.operands:
        if isinstance(operand, Element):
            operands.append((name, Element(operand.buffer, change(operand.offset))))
        else:
            new = change(operand)
            by_value = stmt.instruction.operands[name].role == "in" and not stmt.instruction.operands[name].dims
            operands.append((name, new if by_value or isinstance(new, Var) else operand))
    return replace(stmt, operands=tuple(operands))


def written_by(stmt: Instruct) -> tuple[set[str], set[str]]:
    """The names of the variables and of the buffers that an instruction writes."""
    given = [operand for name, operand in stmt.operands if stmt.instruction.operands[name].role != "in"]
    variables = {operand.name for operand in given if isinstance(operand, Var)}
    return variables, {operand.buffer for operand in given if isinstance(operand, Element)}


def parts(value: Value) -> Iterator[Value]:
    """`value` and everything inside it, outermost first."""
    yield value
    for operand in operands(value):
        yield from parts(operand)


def values(stmt: Stmt) -> tuple[Value, ...]:
    """The values that a statement itself computes, without those of the blocks inside it."""
    match stmt:
        case Let(value=value) | Declare(value=value) | Assign(value=value):
            return (value,)
        case Store(_, offset, value, stride, mask):
            return tuple(part for part in (offset, value, stride, mask) if part is not None)
        case Stream(offset=offset, elements=elements):
            return (offset, elements)
        case Prefetch(offset=offset):
            return (offset,)
        case Instruct(operands=given):
            return tuple(operand.offset if isinstance(operand, Element) else operand for _, operand in given)
        case Allocate(array):
            return (array.elements,)
        case For(start=start, stop=stop):
            return (start, stop)
        case Parallel(stop=stop):
            return (stop,)
        case If(condition=condition) | Fail(condition=condition):
            return (condition,)
        case Launch(grid=grid):
            return grid
        case Atomic(offset=offset, value=value) | Swap(offset=offset, value=value):
            return (offset, value)
        case Comment() | Fence() | Barrier() | Phase():
            return ()


def blocks(stmt: Stmt) -> tuple[tuple[Stmt, ...], ...]:
    """The blocks inside a statement, in the order of the text."""
    match stmt:
        case For(body=body) | Launch(body=body) | Phase(body=body):
            return (body,)
        case Parallel(prologue=prologue, body=body, epilogue=epilogue):
            return (prologue, body, epilogue)
        case If(then=then, otherwise=otherwise):
            return (then, otherwise)
        case Instruct(otherwise=otherwise):
            return (otherwise,)
        case Let() | Declare() | Assign() | Store() | Stream() | Prefetch():
            return ()
        case Fence() | Allocate() | Fail() | Comment() | Barrier() | Atomic() | Swap():
            return ()


def with_blocks(stmt: Stmt, change: Callable[[tuple[Stmt, ...]], tuple[Stmt, ...]]) -> Stmt:
    """A statement with what `change` makes of each block inside it."""
    match stmt:
        case For(body=body) | Launch(body=body) | Phase(body=body):
            return replace(stmt, body=change(body))
        case Parallel(prologue=prologue, body=body, epilogue=epilogue):
            return replace(stmt, prologue=change(prologue), body=change(body), epilogue=change(epilogue))
        case If(then=then, otherwise=otherwise):
            return replace(stmt, then=change(then), otherwise=change(otherwise))
        case Instruct(otherwise=otherwise):
            return replace(stmt, otherwise=change(otherwise))
    return stmt


def with_loops(body: tuple[Stmt, ...], change: Callable[[For], tuple[Stmt, ...]]) -> tuple[Stmt, ...]:
    """A block with what `change` makes of each loop in it. Where that is nothing, the loop stays, and those inside
    it are asked; what stands for a loop is not asked again."""

    def changed(stmt: Stmt) -> tuple[Stmt, ...]:
        found = change(stmt) if isinstance(stmt, For) else ()
        return found or (with_blocks(stmt, lambda inner: with_loops(inner, change)),)

    return tuple(new for stmt in body for new in changed(stmt))


def statements(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Every statement of a block and of the blocks inside it, in the order of the text."""
    for stmt in body:
        yield stmt
        for block in blocks(stmt):
            yield from statements(block)


def all_values(program: Program) -> Iterator[Value]:
    """The values that the statements of a program and of its functions compute."""
    for stmt in statements((*(let for function in program.functions for let in function.body), *program.body)):
        yield from values(stmt)
    yield from (function.result for function in program.functions)


def buffers(stmt: Stmt) -> Iterator[str]:
    """The buffers that a statement itself touches, without those of the blocks inside it; some more than once."""
    match stmt:
        case Store(buffer) | Prefetch(buffer) | Atomic(buffer=buffer) | Swap(buffer=buffer):
            yield buffer
        case Stream(buffer, source=source):
            yield buffer
            yield source
        case Instruct(operands=given):
            yield from (operand.buffer for _, operand in given if isinstance(operand, Element))
    for value in values(stmt):
        for part in parts(value):
            if isinstance(part, Load | Quads | AddressOf):
                yield part.buffer
