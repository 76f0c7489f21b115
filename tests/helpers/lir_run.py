"""Lowered programs run by NumPy: what each one computes, and which elements it reads and writes, and for whom.

Written from the docstrings of `codegen.lir`, as `lir_eval` is for functions, and independent of the printers. A
value has one row for each thread and one column for each lane; on a CPU there is one thread. The threads of a block
run in step, those that a branch leaves out masked. Scratch of the program is not recorded, nor are masked lanes and
prefetches, which touch nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from lir_eval import _COMPARE, _UNARY, _convert, binary, evaluate, fma, numpy_type
from numpy.typing import NDArray

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.walk import statements

Values = NDArray[Any]
Key = tuple[int, ...]
"""For whom: the iteration of a scope on cores, or the block of a grid; () outside of all."""

REDUCED = {"add": np.add, "mul": np.multiply, "and": np.bitwise_and, "or": np.bitwise_or}


@dataclass
class Footprint:
    """The elements that were read and written, by buffer and for whom."""

    reads: dict[tuple[str, Key], set[int]] = field(default_factory=dict)
    writes: dict[tuple[str, Key], set[int]] = field(default_factory=dict)


@dataclass
class Memory:
    """An array of the program: one for all (1 dimension), or one for each thread."""

    values: Values
    recorded: bool = False


class TooLong(Exception):
    """A run has taken as many steps as it may."""


class OutOfBounds(AssertionError):
    """An element outside of its array was touched."""


class Shared(OutOfBounds):
    """An element that an iteration wrote was touched by another one, of a loop that a compiler may run in lanes."""


class Run:
    """One run of a program: `arrays` are the arguments by name, flat, as stored; they are written to. It may
    compute as many values as `most` says."""

    def __init__(
        self,
        program: lir.Program,
        arrays: Mapping[str, Values],
        scalars: Mapping[str, Values],
        most: int = 10_000_000,
    ) -> None:
        self.left = most
        self.program = program
        self.functions = {function.name: function for function in program.functions}
        self.memory = {a.name: Memory(arrays[a.name], True) for a in program.arguments if a.name in arrays}
        self.given = dict(scalars)
        self.threads, self.on = 1, np.ones(1, np.bool_)
        self.number = np.zeros(1, np.int64)
        self.block: Key = (0, 0, 0)
        self.key: Key = ()
        self.lanes: int | None = None
        self.values: dict[str, Values] = {}
        self.footprint = Footprint()
        self.failed: set[int] = set()
        self.iteration: int | None = None
        self.touched: dict[tuple[int, int], tuple[int, bool, Memory]] = {}

    def run(self) -> Footprint:
        """Runs the program."""
        with np.errstate(all="ignore"):
            for name, value in self.given.items():
                self.values[name] = np.asarray(value).reshape(1, 1)
            self.body(self.program.body)
        return self.footprint

    # -- statements ------------------------------------------------------------------------------------------
    def body(self, block: Sequence[lir.Stmt]) -> None:
        for statement in block:
            self.statement(statement)

    def statement(self, stmt: lir.Stmt) -> None:
        match stmt:
            case lir.Let(var, value) | lir.Declare(var, value):
                self.values[var.name] = self.spread(self.value(value), var.type.lanes).copy()
            case lir.Assign(var, value):
                self._assign(var, self.value(value))
            case lir.Store():
                self._store(stmt)
            case lir.Stream():
                self._stream(stmt)
            case lir.If(condition, then, otherwise):
                holds = self.value(condition)[:, 0]
                for branch, chosen in ((then, holds), (otherwise, ~holds)):
                    with self.only(chosen) as some:
                        if some:
                            self.body(branch)
            case lir.For():
                self._for(stmt)
            case lir.Parallel():
                self._parallel(stmt)
            case lir.Allocate(array):
                self._allocate(array)
            case lir.Fail(condition, status):
                if (self.value(condition) & self.on[:, None]).any():
                    self.failed.add(status)
            case lir.Instruct(otherwise=otherwise):
                self.body(otherwise)
            case lir.Comment() | lir.Fence() | lir.Prefetch() | lir.Barrier():
                pass
            case lir.Launch():
                self._launch(stmt)
            case lir.Phase(threads, body):
                with self.only(self.number < (self.threads if threads is None else threads)) as some:
                    if some:
                        self.body(body)
            case lir.Atomic():
                self._atomic(stmt)
            case lir.Swap():
                self._swap(stmt)

    @contextmanager
    def only(self, chosen: Values) -> Iterator[bool]:
        """Runs a part for the threads that are chosen; whether there are any."""
        around = self.on
        self.on = around & chosen
        try:
            yield bool(self.on.any())
        finally:
            self.on = around

    def _assign(self, var: lir.Var, value: Values) -> None:
        old = self.values[var.name]
        value = self.spread(value, var.type.lanes)
        assert value.dtype == old.dtype, var
        mask = np.broadcast_to(self.on[:, None], old.shape)
        if self.lanes is not None and var.type.lanes > 1:
            mask = mask & (np.arange(var.type.lanes) < self.lanes)
        self.values[var.name] = np.where(mask, value, old)

    def _for(self, loop: lir.For) -> None:
        if loop.kind == "simd":
            own = {stmt.var for stmt in statements(loop.body) if isinstance(stmt, lir.Declare)}
            kept = {var for _, var in loop.reductions}
            for stmt in statements(loop.body):
                if isinstance(stmt, lir.Assign) and stmt.var not in own | kept:
                    raise Shared(f"{stmt.var.name} is assigned in all iterations of a loop in lanes")
        at = np.broadcast_to(self.value(loop.start), (self.threads, 1)).copy()
        stop = self.value(loop.stop)
        around, lanes = self.on, self.lanes
        while True:
            with self.only((at < stop)[:, 0]) as some:
                if not some:
                    break
                self.values[loop.var.name] = at.copy()
                if loop.kind == "simd":
                    self.iteration = int(at[0, 0])
                if loop.kind in ("strips", "open strips"):
                    self.lanes = min(loop.step, int(stop[0, 0] - at[0, 0]))
                self.body(loop.body)
                self.lanes = lanes
            at += loop.step
        if loop.kind == "simd":
            self.iteration = None
            self.touched.clear()
        assert self.on is around

    def _parallel(self, loop: lir.Parallel) -> None:
        stop, around = int(self.value(loop.stop)[0, 0]), self.key
        self.body(loop.prologue)
        for i in range(max(stop, 0)):
            self.key = (i,)
            self.values[loop.var.name] = np.full((1, 1), i, np.int64)
            self.body(loop.body)
        self.key = around
        self.body(loop.epilogue)

    def _allocate(self, array: lir.ProgramArray) -> None:
        count = max(int(self.value(array.elements)[0, 0]), 0)
        own = self.threads > 1 and array.lives in ("stack", "reg")
        shape = (self.threads, count) if own else (count,)
        self.memory[array.name] = Memory(_garbage(shape, numpy_type(array.dtype)))

    def _launch(self, launch: lir.Launch) -> None:
        grid = [int(self.value(extent)[0, 0]) for extent in launch.grid]
        grid += [1] * (3 - len(grid))
        around = (self.threads, self.on, self.number, self.values, self.memory, self.key)
        for block in product(*(range(extent) for extent in reversed(grid))):
            self.block = block[::-1]
            self.threads, self.number = launch.threads, np.arange(launch.threads)
            self.on = np.ones(launch.threads, np.bool_)
            self.values = {name: np.broadcast_to(v, (self.threads, v.shape[1])) for name, v in around[3].items()}
            self.memory, self.key = dict(around[4]), self.block
            for array in launch.shared:
                self._allocate(array)
            self.body(launch.body)
        self.threads, self.on, self.number, self.values, self.memory, self.key = around

    # -- memory ----------------------------------------------------------------------------------------------
    def _touch(self, name: str, offsets: Values, mask: Values, writes: bool) -> tuple[Memory, Values, Values]:
        """The memory of a buffer, the offsets that are in it, and where; those are recorded."""
        memory = self.memory[name]
        mask = np.broadcast_to(mask, offsets.shape) & self.on[:, None]
        elements = memory.values.shape[-1]
        outside = mask & ((offsets < 0) | (offsets >= elements))
        if outside.any():
            raise OutOfBounds(f"{name}[{offsets[outside][0]}] of {elements} at {self.key}, write={writes}")
        if memory.recorded:
            where = self.footprint.writes if writes else self.footprint.reads
            where.setdefault((name, self.key), set()).update(offsets[mask].tolist())
        if self.iteration is not None:
            for offset in offsets[mask].tolist():
                last, wrote, _ = self.touched.get((id(memory), offset), (self.iteration, False, memory))
                if last != self.iteration and (wrote or writes):
                    raise Shared(f"{name}[{offset}] in iterations {last} and {self.iteration}, write={writes}")
                who = self.iteration if last == self.iteration else -1  # several read it
                self.touched[id(memory), offset] = (who, wrote or writes, memory)
        return memory, np.where(mask, offsets, 0), mask

    def _offsets(self, offset: lir.Value, lanes: int, stride: lir.Value | None) -> Values:
        first = self.value(offset).astype(np.int64)
        if offset.type.lanes > 1 or lanes == 1:
            return np.broadcast_to(first, (self.threads, lanes))
        step = 1 if stride is None else self.value(stride).astype(np.int64)
        return first + step * np.arange(lanes)

    def _mask(self, mask: lir.Value | None, lanes: int) -> Values:
        found = np.ones((self.threads, lanes), np.bool_) if mask is None else self.value(mask)
        if self.lanes is not None and lanes > 1:
            found = found & (np.arange(lanes) < self.lanes)
        return found

    def load(self, load: lir.Load) -> Values:
        lanes = load.type.lanes
        offsets = self._offsets(load.offset, lanes, load.stride)
        memory, at, mask = self._touch(load.buffer, offsets, self._mask(load.mask, lanes), False)
        if memory.values.shape[-1] == 0:
            return np.zeros(offsets.shape, memory.values.dtype)
        rows = np.arange(self.threads)[:, None]
        found = memory.values[at] if memory.values.ndim == 1 else memory.values[rows, at]
        return np.where(mask, found, np.zeros((), found.dtype))

    def _store(self, store: lir.Store) -> None:
        lanes = store.value.type.lanes
        value = np.broadcast_to(self.value(store.value), (self.threads, lanes))
        offsets = self._offsets(store.offset, lanes, store.stride)
        memory, at, mask = self._touch(store.buffer, offsets, self._mask(store.mask, lanes), True)
        assert value.dtype == memory.values.dtype, store
        for lane in range(lanes):
            chosen = mask[:, lane]
            if memory.values.ndim == 1:
                memory.values[at[chosen, lane]] = value[chosen, lane]
            else:
                memory.values[np.flatnonzero(chosen), at[chosen, lane]] = value[chosen, lane]

    def _stream(self, stream: lir.Stream) -> None:
        count = int(self.value(stream.elements)[0, 0])
        first = int(self.value(stream.offset)[0, 0])
        offsets = np.arange(first, first + count)[None, :]
        memory, at, _ = self._touch(stream.buffer, offsets, np.ones(offsets.shape, np.bool_), True)
        memory.values[at[0]] = self.memory[stream.source].values[:count]

    def _atomic(self, stmt: lir.Atomic) -> None:
        offsets = self._offsets(stmt.offset, 1, None)
        value = np.broadcast_to(self.value(stmt.value), offsets.shape)
        every = np.ones(offsets.shape, np.bool_)
        self._touch(stmt.buffer, offsets, every, False)
        memory, at, mask = self._touch(stmt.buffer, offsets, every, True)
        for thread in np.flatnonzero(mask[:, 0]):
            where = at[thread, 0]
            memory.values[where] = binary(stmt.op, memory.values[where : where + 1], value[thread])[0]

    def _swap(self, stmt: lir.Swap) -> None:
        offsets = self._offsets(stmt.offset, 1, None)
        every = np.ones(offsets.shape, np.bool_)
        self._touch(stmt.buffer, offsets, every, False)
        memory, at, mask = self._touch(stmt.buffer, offsets, every, True)
        for thread in np.flatnonzero(mask[:, 0]):
            where = at[thread, 0]
            with self.only(np.arange(self.threads) == thread):
                self.assign(stmt.seen, memory.values[where : where + 1])
                memory.values[where] = self.value(stmt.value)[thread, 0]

    # -- values ----------------------------------------------------------------------------------------------
    def spread(self, value: Values, lanes: int) -> Values:
        return np.broadcast_to(value, (self.threads, lanes))

    def value(self, value: lir.Value) -> Values:
        self.left -= 1 + 20 * isinstance(value, lir.Call)
        if self.left < 0:
            raise TooLong
        found = np.asarray(self._value(value))
        assert found.dtype == numpy_type(value.type.dtype), f"{value} gives {found.dtype}"
        return self.spread(found, value.type.lanes)

    def _value(self, value: lir.Value) -> Values:
        match value:
            case lir.Const(type=t, value=number):
                return _constant(number, numpy_type(t.dtype))
            case lir.Var(name=name):
                return self.values[name]
            case lir.Unary(op=op, arg=arg):
                return _UNARY[op](self.value(arg))
            case lir.Binary(op=op, left=left, right=right):
                return binary(op, self.value(left), self.value(right))
            case lir.Compare(op=op, left=left, right=right):
                return np.asarray(_COMPARE[op](self.value(left), self.value(right)))
            case lir.Select(condition=condition, yes=yes, no=no):
                return np.where(self.value(condition), self.value(yes), self.value(no))
            case lir.Fma(a=a, b=b, c=c):
                return _fma(self.value(a), self.value(b), self.value(c))
            case lir.Convert(type=t, arg=arg):
                return _convert(self.value(arg), numpy_type(t.dtype))
            case lir.Bitcast(type=t, arg=arg):
                return np.ascontiguousarray(self.value(arg)).view(numpy_type(t.dtype))
            case lir.Splat(arg=arg):
                return self.value(arg)
            case lir.Iota(type=t):
                return np.arange(t.lanes).astype(numpy_type(t.dtype))[None, :]
            case lir.Reduce(op=op, arg=arg):
                return self._reduce(op, self.value(arg))
            case lir.Load():
                return self.load(value)
            case lir.Quads(type=t, buffer=buffer, offset=offset, mask=mask):
                return self._quads(t.lanes, buffer, offset, mask)
            case lir.Dot(a=a, b=b, c=c, signed=signed):
                return self._dot(self.value(a), self.value(b), self.value(c), signed)
            case lir.Call(function=function, args=args):
                lanes = value.type.lanes
                given = [self.spread(self.value(arg), lanes).copy() for arg in args]
                return evaluate(self.functions[function], *given)
            case lir.AddressOf(buffer=buffer):
                return np.full((1, 1), 4096 * (1 + sorted(self.memory).index(buffer)) + 16, np.int64)
            case lir.ThreadNumber(type=t):
                return self.number[:, None].astype(numpy_type(t.dtype))
            case lir.BlockNumber(type=t, axis=axis):
                return np.full((1, 1), self.block[axis], numpy_type(t.dtype))
            case lir.Extract(arg=arg, lane=lane):
                return self.value(arg)[:, lane : lane + 1]
            case lir.Pack(args=args):
                return np.concatenate([self.value(arg) for arg in args], axis=1)
            case lir.Shuffle(how=how, arg=arg, by=by, width=width):
                return self._shuffled(how, self.value(arg), int(self.value(by)[0, 0]), width)

    def _reduce(self, op: str, value: Values) -> Values:
        found = value[:, :1]
        for lane in range(1, min(value.shape[1], self.lanes or value.shape[1])):
            found = binary(op, found, value[:, lane : lane + 1])
        return found

    def _quads(self, lanes: int, buffer: str, offset: lir.Value, mask: lir.Value | None) -> Values:
        first = self.value(offset)
        chosen = np.repeat(self._mask(mask, lanes), 4, axis=1)
        memory, at, within = self._touch(buffer, first + np.arange(4 * lanes), chosen, False)
        found = np.where(within, memory.values[at], 0).astype(memory.values.dtype)
        return np.ascontiguousarray(found).view(np.int32)

    def _dot(self, a: Values, b: Values, c: Values, signed: tuple[bool, bool]) -> Values:
        one, other = (
            np.ascontiguousarray(v).view(np.int8 if s else np.uint8).astype(np.int32)
            for v, s in zip((a, b), signed, strict=True)
        )
        products = (one * other).reshape(self.threads, -1, 4).sum(axis=2, dtype=np.int32)
        return (c + products).astype(c.dtype)

    def _shuffled(self, how: str, value: Values, by: int, width: int) -> Values:
        number = np.arange(self.threads)
        group = number - number % width
        match how:
            case "xor":
                source = group + ((number - group) ^ by)
            case "up":
                source = np.where(number - group >= by, number - by, number)
            case _:
                source = group
        return value[np.minimum(source, self.threads - 1)]


def _garbage(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Values:
    count = int(np.prod(shape)) * dtype.itemsize
    if dtype == np.bool_:
        return np.zeros(shape, dtype)
    return np.full(count, 0xA5, np.uint8).view(dtype).reshape(shape).copy()


def _constant(number: float | bool, dtype: np.dtype[Any]) -> Values:
    if dtype.kind in "iu" and isinstance(number, int):
        bits = 8 * dtype.itemsize
        number &= (1 << bits) - 1
        return np.array([[number]], np.dtype(f"u{dtype.itemsize}")).view(dtype)
    return np.array([[number]], dtype)


def _fma(a: Values, b: Values, c: Values) -> Values:
    if a.dtype.itemsize >= 4:
        return fma(a, b, c)
    return fma(*(v.astype(np.float64) for v in (a, b, c))).astype(a.dtype)
