"""A kernel for a GPU as a runtime takes it: one source, and what to launch of it for given sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

from dojoir.backends.machine import MACHINES
from dojoir.codegen.gpu.printer import LANGUAGES, fails, names_of, print_gpu
from dojoir.codegen.gpu.shared import dynamic_bytes
from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.offsets import may_be_short, shortened
from dojoir.codegen.lir.program import (
    Allocate,
    Binary,
    Bitcast,
    Compare,
    Const,
    For,
    Launch,
    Program,
    ProgramArray,
    Var,
)
from dojoir.codegen.lir.walk import statements
from dojoir.ir.dtypes import DTYPES, DType
from dojoir.support.frozen import dataclass

Number = int | float

STATUS = "status"
"""The name of the parameter that takes an int on the device, 0 before, that says whether an index was out of
bounds: the highest status of the program that was recorded."""


@dataclass(frozen=True)
class KernelLaunch:
    """One launch: a kernel of the source by name, its grid (x, y, z), the threads of a block (x). Then its
    arguments (the name of an array, or STATUS, or a number), and the bytes of shared memory that it asks for."""

    kernel: str
    grid: tuple[int, int, int]
    threads: int
    arguments: tuple[str | Number, ...]
    shared_bytes: int = 0


@dataclass(frozen=True)
class GpuProgram:
    """The source of a kernel for `target`, cuda or hip, and the program that it spells: host code around launches.

    `program.arguments` are the arrays of a call in order, with those of `program.by_value` passed as numbers
    (narrow floats by their bits) and `program.sizes` as integers behind them."""

    target: str
    source: str
    program: Program

    @property
    def warp(self) -> int:
        return LANGUAGES[self.target].warp

    @property
    def grid(self) -> tuple[int, int, int]:
        """How many blocks a launch may have along x, y and z."""
        return MACHINES[self.target].grid

    @cached_property
    def launches(self) -> tuple[Launch, ...]:
        """The kernels, in the order of the text: grid extents as values in sizes and host iterators, threads,
        shared arrays, captures, and the alignment that wide accesses need (`wide`)."""
        return tuple(stmt for stmt in statements(self.program.body) if isinstance(stmt, Launch))

    @cached_property
    def kernels(self) -> tuple[tuple[str, bool], ...]:
        """The name of each kernel in the text, and whether it takes STATUS, in order."""
        names = names_of(self.program)
        return tuple((names[launch.name], fails(launch)) for launch in self.launches)

    def dynamic_bytes(self, launch: Launch) -> int:
        """The bytes of shared memory that a launch asks for, beside what its kernel declares."""
        return dynamic_bytes(launch, LANGUAGES[self.target])

    @property
    def has_status(self) -> bool:
        """Whether some launch takes STATUS."""
        return any(reports for _, reports in self.kernels)

    @cached_property
    def shortened(self) -> GpuProgram:
        """The same, with all that can count in 32 bits at some sizes doing so: for sizes that it `fits`."""
        short = shortened(self.program, dict.fromkeys((size.name for size in self.program.sizes), 1))
        return self if short == self.program else GpuProgram(self.target, print_gpu(short, self.target), short)

    def fits(self, sizes: Mapping[str, int]) -> bool:
        """Whether what counts in 32 bits counts right in calls of these sizes, and of smaller ones."""
        return may_be_short(self.program, sizes)

    @cached_property
    def _numbers(self) -> Mapping[int, int]:
        """Which kernel a launch is, by its identity."""
        return {id(launch): number for number, launch in enumerate(self.launches)}

    @cached_property
    def wide(self) -> Mapping[str, int]:
        """The bytes to which the first element of an array must be aligned, where that is more than an element."""
        found: dict[str, int] = {}
        for launch in self.launches:
            for name, align in launch.wide:
                found[name] = max(found.get(name, 0), align)
        return found

    @cached_property
    def workspace(self) -> tuple[ProgramArray, ...]:
        """The arrays that all launches of a call share, and no caller gives."""
        inside = {id(s) for launch in self.launches for s in statements(launch.body)}
        allocated = (s for s in statements(self.program.body) if isinstance(s, Allocate) and id(s) not in inside)
        return tuple(stmt.array for stmt in allocated)

    def elements(self, array: ProgramArray, sizes: Mapping[str, int]) -> int:
        """How many elements an array has at some sizes."""
        return max(int(evaluate(array.elements, sizes)), 1)

    def runs(self, sizes: Mapping[str, int], scalars: Mapping[str, Number] | None = None) -> Iterator[KernelLaunch]:
        """The launches of a call, in order: host loops run, empty grids left out. `scalars` are the arguments that
        are passed by value, by name."""
        yield from self._runs(self.program.body, {**sizes, **(scalars or {})})

    def _runs(self, body: tuple[lir.Stmt, ...], env: dict[str, Number]) -> Iterator[KernelLaunch]:
        for stmt in body:
            match stmt:
                case lir.Let(var, value):
                    env[var.name] = evaluate(value, env)
                case For(var, start, stop, step, inner):
                    for at in range(int(evaluate(start, env)), int(evaluate(stop, env)), step):
                        yield from self._runs(inner, {**env, var.name: at})
                case lir.If(condition, then, otherwise):
                    yield from self._runs(then if evaluate(condition, env) else otherwise, env)
                case Launch():
                    x, y, z = (*(int(evaluate(extent, env)) for extent in stmt.grid), 1, 1)[:3]
                    if min(x, y, z) > 0:
                        names = [array.name for array in stmt.captured_arrays]
                        values = [env[var.name] for var in stmt.captures]
                        kernel, reports = self.kernels[self._numbers[id(stmt)]]
                        status = [STATUS] if reports else []
                        given = (*names, *values, *status)
                        yield KernelLaunch(kernel, (x, y, z), stmt.threads, given, self.dynamic_bytes(stmt))


def passed(var: Var, launch: Launch) -> DType:
    """The type in which a launch takes what it captures."""
    return DTYPES["i32"] if launch.index_bits == 32 and var.type == lir.INDEX else var.type.dtype


def gpu_program(program: Program, target: str) -> GpuProgram:
    """A program lowered for `target`, printed."""
    return GpuProgram(target, print_gpu(program, target), program)


def evaluate(value: lir.Value, env: Mapping[str, Number]) -> Number:
    """The number that a value of host code is, given those of its variables."""
    match value:
        case Const(_, number):
            return number
        case Var(_, name):
            return env[name]
        case Binary(_, op, left, right):
            return _OPERATIONS[op](int(evaluate(left, env)), int(evaluate(right, env)))
        case Compare(op, left, right):
            return _RELATIONS[op](evaluate(left, env), evaluate(right, env))
        case lir.Select(condition, yes, no):
            return evaluate(yes if evaluate(condition, env) else no, env)
        case lir.Convert(_, arg) | Bitcast(_, arg):
            return evaluate(arg, env)
    raise AssertionError(f"host code computes no {value.__class__.__name__}")


_OPERATIONS: Mapping[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a // b,
    "floordiv": lambda a, b: a // b,
    "rem": lambda a, b: a % b,
    "mod": lambda a, b: a % b,
    "min": min,
    "max": max,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
}

_RELATIONS: Mapping[str, Callable[[Number, Number], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
