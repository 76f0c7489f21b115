"""Footprints: which elements of its arguments a kernel touches, and whether what it is lowered to keeps to them.

What no iteration touches is not touched (DESIGN, "the meaning"): the program that a kernel is lowered to must read
elements that the kernel reads, and write just those that it writes; each iteration of a scope on cores, and each
block of a grid, must keep to its own. On machine code, every element that the kernel does not touch holds a canary,
among them signalling NaNs, and must hold the same bits afterwards; arrays lie between guard pages. `footprint_runs`
does so for many.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import Any

import numpy as np
from lir_run import Footprint, Key, OutOfBounds, Run
from numpy.typing import NDArray

from dojoir.codegen.emission import lower
from dojoir.codegen.lir.program import Program
from dojoir.ir.nodes import Access, Guard, Kernel, Node, Scope, holds
from dojoir.ir.packing import packed_dim
from dojoir.meaning.flat import flattened
from dojoir.runtime.call.layout import dense_steps, place, storage_bytes
from dojoir.runtime.call.scalars import scalar_argument, takes_value

Arrays = Mapping[str, NDArray[Any]]

GPUS = ("cuda", "hip")

AXES = ("gx", "gy", "gz")


class NotKnown(Exception):
    """Which elements are touched depends on what the kernel computes."""


@dataclass
class Text:
    """A call of a kernel, as its text says it: what each iteration touches."""

    kernel: Kernel
    sizes: Mapping[str, int]
    inputs: Arrays
    outside: Key = ()
    """For whom what is outside of all such scopes runs: on a GPU, for the only block of a launch."""
    most: int = 200_000
    found: Footprint = field(default_factory=Footprint)
    required: dict[tuple[str, Key], set[int]] = field(default_factory=dict)
    """What is written whatever the data: the rest is written where a condition on data holds."""

    @cached_property
    def footprint(self) -> Footprint:
        """Every element that is touched, by its place in storage, and for whom, or may be."""
        self._nodes(self.kernel.body, (), self.outside)
        return self.found

    @cached_property
    def places(self) -> dict[str, NDArray[Any]]:
        """The place in storage of every element of each argument."""
        return {
            buffer.name: places_of(self.kernel, buffer.name, self.sizes)
            for buffer in self.kernel.arguments
            if not takes_value(buffer)
        }

    def _nodes(self, nodes: Sequence[Node], iterators: tuple[int, ...], key: Key) -> None:
        for node in nodes:
            match node:
                case Guard(conditions, body):
                    if all(holds(condition, self.sizes, iterators) for condition in conditions):
                        self._nodes(body, iterators, key)
                case Scope():
                    self._scope(node, iterators, key)
                case _:
                    self.most -= 1
                    if self.most < 0:
                        raise NotKnown
                    own = node.accumulation is not None or self.kernel.buffer(node.target.buffer).packed
                    for access in (*node.term_reads, *((node.target,) if own else ())):
                        self._touch(access, iterators, key, False)
                    self._touch(node.target, iterators, key, True, node.condition is not None)

    def _scope(self, scope: Scope, iterators: tuple[int, ...], key: Key) -> None:
        extent = min(bound.evaluate(self.sizes, iterators) for bound in scope.extent.bounds)
        axis = next((AXES.index(mark) for mark in scope.marks if mark in AXES), None)
        for i in range(extent):
            inner = key
            if axis is not None:
                inner = (*key[:axis], i, *key[axis + 1 :]) if key else ()
            elif "p" in scope.marks and not key:
                inner = (i,)
            self._nodes(scope.body, (*iterators, i), inner)

    def _touch(
        self, access: Access, iterators: tuple[int, ...], key: Key, writes: bool, optional: bool = False
    ) -> None:
        index = []
        for at, dim in zip(access.indices, self.kernel.buffer(access.buffer).dims, strict=True):
            if isinstance(at, Access):
                self._touch(at, iterators, key, False)
                index.append(self._data(at, iterators))
            else:
                index.append(0 if dim.collapsed else at.evaluate(self.sizes, iterators))
        buffer = self.kernel.buffer(access.buffer)
        if buffer.packed:
            index[packed_dim(buffer)] //= 2
        if access.buffer in self.places:
            where = self.found.writes if writes else self.found.reads
            try:
                element = int(self.places[access.buffer][tuple(index)])
            except IndexError:
                return  # behind a condition that does not hold: the interpreter would have refused the call
            where.setdefault((access.buffer, key), set()).add(element)
            if writes and not optional:
                self.required.setdefault((access.buffer, key), set()).add(element)

    def _data(self, access: Access, iterators: tuple[int, ...]) -> int:
        buffer = self.kernel.buffer(access.buffer)
        if buffer.role != "in" or any(isinstance(at, Access) for at in access.indices):
            raise NotKnown
        index = tuple(at.evaluate(self.sizes, iterators) for at in access.indices if not isinstance(at, Access))
        try:
            return int(np.asarray(self.inputs[access.buffer])[index])
        except IndexError:
            raise NotKnown from None  # behind a condition that does not hold


def places_of(kernel: Kernel, name: str, sizes: Mapping[str, int]) -> NDArray[Any]:
    """The number in storage of each element of an argument."""
    buffer = kernel.buffer(name)
    count = storage_bytes(buffer, sizes)
    view = place(np.zeros(max(count, 1), np.uint8), buffer, sizes)
    steps = tuple(step // view.itemsize for step in view.strides)
    found = np.zeros(view.shape, np.int64)
    for d, step in enumerate(steps):
        shape = [1] * len(steps)
        shape[d] = -1
        found += np.arange(view.shape[d]).reshape(shape) * step
    return found


def stored_arrays(kernel: Kernel, sizes: Mapping[str, int], inputs: Arrays) -> dict[str, NDArray[Any]]:
    """The arguments as they lie in memory, flat; what no input gives is a pattern."""
    found = {}
    for buffer in kernel.arguments:
        if not takes_value(buffer):
            memory = np.full(storage_bytes(buffer, sizes), 0xA5, np.uint8)
            if buffer.dtype.name == "bool":
                memory[...] = 1
            if buffer.role != "out":
                view = place(memory, buffer, sizes)
                view[...] = np.asarray(inputs[buffer.name]).reshape(view.shape)
            found[buffer.name] = memory
    return found


def run_lowered(
    program: Program, kernel: Kernel, sizes: Mapping[str, int], inputs: Arrays, most: int = 10_000_000
) -> tuple[Footprint, Arrays]:
    """What a program touches, and what it leaves in the arguments, as they lie in memory."""
    memory = stored_arrays(kernel, sizes, inputs)
    types = {array.name: array.dtype for array in program.arguments}
    arrays = {name: bytes_.view(_as_stored(types[name])) for name, bytes_ in memory.items()}
    scalars: dict[str, NDArray[Any]] = {}
    for var in program.by_value:
        buffer = kernel.buffer(var.name)
        value = scalar_argument(buffer, inputs[var.name])
        stored = np.asarray(value).astype(buffer.dtype.stored).reshape(1)
        scalars[var.name] = stored.view(_as_stored(var.type.dtype))
    numbers = [sizes[name] for name in kernel.runtime_sizes] + list(dense_steps(kernel.arguments, sizes))
    for var, number in zip(program.sizes, numbers, strict=True):
        scalars[var.name] = np.array([number], np.int64)
    return Run(program, arrays, scalars, most).run(), memory


def _as_stored(dtype: Any) -> np.dtype[Any]:
    return np.dtype(np.bool_) if dtype.name == "bool" else np.dtype(f"{dtype.kind}{dtype.bits // 8}")


# -- the comparison ----------------------------------------------------------------------------------------
def beyond(text: Text, found: Footprint, by_key: bool) -> Iterator[str]:
    """How a footprint goes beyond what the text touches, or lacks what it surely writes."""
    own_all = text.footprint
    for (name, key), mine in _grouped(found.reads, by_key).items():
        own = _grouped(own_all.reads, by_key).get((name, key), set())
        if mine - own:
            yield f"{name} at {key} is read at {sorted(mine - own)[:4]}"
    written, own_writes = _grouped(found.writes, by_key), _grouped(own_all.writes, by_key)
    required = _grouped(text.required, by_key)
    for name, key in dict.fromkeys([*written, *own_writes]):
        mine, own = written.get((name, key), set()), own_writes.get((name, key), set())
        if mine - own:
            yield f"{name} at {key} is written at {sorted(mine - own)[:4]}"
        missing = required.get((name, key), set()) - mine
        if missing:
            yield f"{name} at {key} is not written at {sorted(missing)[:4]}"


def _grouped(by: Mapping[tuple[str, Key], set[int]], by_key: bool) -> dict[tuple[str, Key], set[int]]:
    found: dict[tuple[str, Key], set[int]] = {}
    for (name, key), elements in by.items():
        found.setdefault((name, key if by_key else ()), set()).update(elements)
    return found


def tells_apart(kernel: Kernel) -> bool:
    """Whether each iteration on cores, or block, is one in what is lowered as well: not, where lanes are around."""
    return not any(
        "p" in scope.marks and any("v" in outer.marks for outer in site.scopes)
        for site in kernel.sites
        for scope in site.scopes
    )


def strays(kernel: Kernel, sizes: Mapping[str, int], inputs: Arrays, targets: Sequence[str]) -> Iterator[str]:
    """How what a kernel is lowered to, for some targets, goes beyond its text in one call."""
    for target in targets:
        try:
            outside = (0, 0, 0) if target in GPUS else ()
            text = Text(kernel, sizes, inputs, outside)
            _ = text.footprint
            found, _ = run_lowered(lower(kernel, target), kernel, sizes, inputs)
        except NotKnown:
            continue
        except OutOfBounds as error:
            yield f"{target} at {dict(sizes)}: {error}"
            continue
        for wrong in beyond(text, found, tells_apart(kernel)):
            yield f"{target} at {dict(sizes)}: {wrong}"


def canary(dtype: Any, random: Random, count: int) -> NDArray[Any]:
    """`count` elements of bits that no arithmetic leaves alone: signalling NaNs and others."""
    bits = dtype.itemsize * 8
    patterns = {
        "f64": (0x7FF0000000000001, 0xFFF4000000000123, 0x8000000000000000, 1),
        "f32": (0x7F800001, 0xFFA00123, 0x80000000, 1),
        "f16": (0x7C01, 0xFD12, 0x8000, 1),
        "bf16": (0x7F81, 0xFFA1, 0x8000, 1),
    }.get(dtype.name, (1, 0) if dtype.name == "bool" else (0x5A, (1 << bits) - 1, 0, 1 << (bits - 1)))
    chosen = [random.choice(patterns) for _ in range(count)]
    return np.array(chosen, np.dtype(f"u{dtype.itemsize}")).view(np.uint8)


# -- machine code ------------------------------------------------------------------------------------------
def with_canaries(kernel: Kernel, text: Text, random: Random) -> dict[str, NDArray[Any]]:
    """The arguments as they lie in memory: canaries wherever the text touches nothing."""
    memory = stored_arrays(kernel, text.sizes, text.inputs)
    touched = elements_of(text.footprint, (text.footprint.reads, text.footprint.writes))
    for name, bytes_ in memory.items():
        dtype = kernel.buffer(name).dtype
        elements = bytes_.reshape(-1, dtype.itemsize)
        free = np.setdiff1d(np.arange(len(elements)), list(touched.get(name, ())))
        elements[free] = canary(dtype, random, len(free)).reshape(-1, dtype.itemsize)
    return memory


def elements_of(footprint: Footprint, which: Sequence[Mapping[tuple[str, Key], set[int]]]) -> dict[str, set[int]]:
    """The elements of each buffer that are in some footprint, for whomever."""
    found: dict[str, set[int]] = {}
    for touched in which:
        for (name, _), elements in touched.items():
            found.setdefault(name, set()).update(elements)
    return found


def changed(kernel: Kernel, text: Text, before: Arrays, after: Arrays) -> Iterator[str]:
    """The elements that a call changed and the text does not write."""
    written = elements_of(text.footprint, (text.footprint.writes,))
    for name, bytes_ in after.items():
        size = kernel.buffer(name).dtype.itemsize
        differ = (bytes_.reshape(-1, size) != before[name].reshape(-1, size)).any(axis=1)
        stray = sorted(set(np.flatnonzero(differ).tolist()) - written.get(name, set()))
        if stray:
            yield f"{name} is changed at {stray[:4]}"


def results_of(kernel: Kernel, sizes: Mapping[str, int], memory: Arrays) -> dict[str, NDArray[Any]]:
    """What a call returns, of the arguments as they lie in memory."""
    outputs = [buffer for buffer in kernel.arguments if buffer.role != "in"]
    return {b.name: flattened(b, place(memory[b.name], b, sizes).copy()) for b in outputs}
