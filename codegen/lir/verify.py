"""The verifier of lowered programs: what every pass has to leave, and every printer may believe.

Each name is defined before it is used, once at a place, with the type that it is used with. What is assigned again
was declared. Arrays are there where they are used. Operands have the types that an operation asks for. Inside of a
launch or of a scope on the cores, what is from outside is among what it captures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.program import Allocate, Call, Declare, Let, Parallel, Program, Stmt, Swap, Type, Value, Var
from dojoir.codegen.lir.walk import blocks, buffers, operands, values
from dojoir.support.frozen import dataclass


def verify(program: Program, after: str, nodes: frozenset[type] | None = None) -> None:
    """Raises AssertionError for a program that is none, after a pass by name; `nodes` are the classes of nodes that
    there may be (None: any)."""
    for problem in problems(program, nodes):
        raise AssertionError(f"{program.name} after {after}: {problem}")


def problems(program: Program, nodes: frozenset[type] | None = None) -> Iterator[str]:
    """The faults of a program."""
    functions = {function.name: function for function in program.functions}
    for function in program.functions:
        names = {var.name: var for var in function.params}
        inside = _Scope(names, frozenset(), frozenset(), functions, nodes)
        for let in function.body:
            yield from inside.statement(let)
            inside = inside.behind(let)
        yield from inside.value(function.result)
    given = {var.name: var for var in (*program.sizes, *program.by_value)}
    by_value = {var.name for var in program.by_value}
    arrays = frozenset(array.name for array in program.arguments if array.name not in by_value)
    yield from _Scope(given, frozenset(), arrays, functions, nodes).block(program.body)


@dataclass(frozen=True)
class _Scope:
    """A place and all that is known there: variables by name, those that may be assigned, arrays."""

    names: Mapping[str, Var]
    mutable: frozenset[str]
    arrays: frozenset[str]
    functions: Mapping[str, lir.Function]
    nodes: frozenset[type] | None

    def block(self, body: Sequence[Stmt]) -> Iterator[str]:
        here = self
        for stmt in body:
            yield from here.statement(stmt)
            here = here.behind(stmt)

    def behind(self, stmt: Stmt) -> _Scope:
        """The same behind a statement of a block."""
        match stmt:
            case Let(var):
                return self._with(var)
            case Declare(var):
                return replace(self._with(var), mutable=self.mutable | {var.name})
            case Allocate(array):
                return replace(self, arrays=self.arrays | {array.name})
        return self

    def _with(self, *variables: Var) -> _Scope:
        return replace(self, names={**self.names, **{var.name: var for var in variables}})

    def statement(self, stmt: Stmt) -> Iterator[str]:
        if self.nodes is not None and type(stmt) not in self.nodes:
            yield f"there is a {type(stmt).__name__}"
        inside = self
        match stmt:
            case Let(var, value) | Declare(var, value):
                if var.name in self.names:
                    yield f"{var.name} is defined again"
                if not _same(var.type, value.type):
                    yield f"{var.name} is a {var.type}, and gets a {value.type}"
            case lir.Assign(var, value):
                if var.name not in self.mutable:
                    yield f"{var.name} is assigned, and was not declared"
                if not _same(var.type, value.type, self.names.get(var.name, var).type):
                    yield f"{var.name} is a {var.type}, and gets a {value.type}"
            case Swap(seen):
                inside = self._with(seen)
            case lir.For(var=var, reductions=reductions):
                lost = (other.name for _, other in reductions if other.name not in self.names)
                yield from (f"{name} is no variable" for name in lost)
                inside = self._with(var)
            case Parallel(var=var, captures=captures, captured_arrays=arrays):
                yield from self._captured(captures, frozenset(array.name for array in arrays))
                inside = self._alone(captures, frozenset(array.name for array in arrays))
                for part in stmt.prologue:
                    yield from inside.statement(part)
                    inside = inside.behind(part)
                yield from inside.block(stmt.epilogue)
                yield from inside._with(var).block(stmt.body)
            case lir.Launch(captures=captures, captured_arrays=arrays, shared=shared):
                yield from self._captured(captures, frozenset(array.name for array in arrays))
                inside = self._alone(captures, frozenset(array.name for array in (*arrays, *shared)))
            case lir.If(condition=condition) if condition.type.lanes > 1:
                yield f"a branch on {condition.type}"
            case lir.Store(_, offset, value, stride, mask):
                yield from _access(value, offset, stride, mask)
        own = inside if isinstance(stmt, Swap) else self
        for value in values(stmt):
            yield from own.value(value)
        yield from (f"{name} is no array here" for name in buffers(stmt) if name not in self.arrays)
        if not isinstance(stmt, Parallel):
            for block in blocks(stmt):
                yield from inside.block(block)

    def _captured(self, captures: Sequence[Var], arrays: frozenset[str]) -> Iterator[str]:
        yield from (f"{var.name} is captured, and not there" for var in captures if var.name not in self.names)
        yield from (f"array {name} is captured, and not there" for name in arrays - self.arrays)

    def _alone(self, captures: Sequence[Var], arrays: frozenset[str]) -> _Scope:
        return replace(self, names={var.name: var for var in captures}, mutable=frozenset(), arrays=arrays)

    def value(self, whole: Value) -> Iterator[str]:
        waiting = [whole]
        while waiting:
            value = waiting.pop()
            given = operands(value)
            waiting += given
            if self.nodes is not None and type(value) not in self.nodes:
                yield f"there is a {type(value).__name__}"
            match value:
                case Var(kind, name):
                    if name not in self.names:
                        yield f"{name} is used, and not defined"
                    elif not _same(self.names[name].type, kind):
                        yield f"{name} is a {self.names[name].type}, and used as a {kind}"
                case Call(kind, name, args):
                    function = self.functions.get(name)
                    params = [] if function is None else [var.type for var in function.params]
                    if len(params) != len(args) or not all(map(_same, params, [arg.type for arg in args])):
                        yield f"{name} is no function of these types"
                    elif function is not None and not _same(function.result.type, kind):
                        yield f"{name} gives a {function.result.type}, no {kind}"
                case _:
                    yield from _typed(value, [operand.type for operand in given])


def _same(*types: Type) -> bool:
    """Whether some types are one. Of masks, an instruction set has several, and a comparison gives any of them."""
    if types.count(types[0]) == len(types):
        return True
    masks = all(type.dtype.kind == "b" for type in types)
    return len({type.lanes if masks else type for type in types}) == 1


def _typed(value: Value, given: Sequence[Type]) -> Iterator[str]:
    """Operands, whose types are given, that an operation does not take."""
    match value:
        case lir.Binary(kind, op):
            if not _same(kind, *given):
                yield f"{op} that gives a {kind} has operands of {given[0]} and {given[1]}"
        case lir.Compare(op) if not _same(*given):
            yield f"{op} compares a {given[0]} with a {given[1]}"
        case lir.Fma() if not _same(*given):
            yield f"a sum of products of {', '.join(map(str, given))}"
        case lir.Dot() if not _same(*given[:2]) or (given[2].dtype.bits, given[2].lanes) != (32, given[0].lanes):
            yield f"a sum of products of bytes of {', '.join(map(str, given))}"
        case lir.Select():
            if not _same(*given[1:]) or given[0].lanes not in (1, given[1].lanes):
                yield f"{given[0]} chooses between a {given[1]} and a {given[2]}"
        case lir.Convert(kind) if kind.lanes != given[0].lanes:
            yield f"a {given[0]} is converted to a {kind}"
        case lir.Bitcast(kind) if given[0].dtype.kind != "b" and _bits(kind) != _bits(given[0]):
            yield f"the bits of a {given[0]} are those of a {kind}"
        case lir.Load(offset=offset, stride=stride, mask=mask):
            yield from _access(value, offset, stride, mask)


def _bits(kind: Type) -> int:
    return kind.dtype.bits * kind.lanes


def _access(value: Value, offset: Value, stride: Value | None, mask: Value | None) -> Iterator[str]:
    lanes = value.type.lanes
    if offset.type.lanes not in (1, lanes) or (mask is not None and mask.type.lanes != lanes):
        yield f"an access of {value.type} at {offset.type}"
    if stride is not None and (stride.type.lanes > 1 or offset.type.lanes > 1):
        yield f"an access with a stride at {offset.type}"
