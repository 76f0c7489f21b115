"""What TVM's schedules by hand share: a plan of one row's computation, its arrays, and how rows are walked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from peer_common import Call, library

tvm: Any = library("tvm")
te: Any = library("tvm.te")
tirx: Any = library("tvm.tirx")
s_tir: Any = library("tvm.s_tir")
codegen: Any = library("tvm.target.codegen")

LANES = 16
WIDE = 4 * LANES
CHUNK = 1 << 15
Array = np.ndarray[Any, Any]
LOWEST = -3.4e38


def source(array: Array, name: str) -> Any:
    return te.placeholder(array.shape, "float32", name=name)


def real(value: float) -> Any:
    return tirx.const(value, "float32")


class Plan:
    """A schedule under way, on a number of threads."""

    def __init__(self, function: Any, threads: int) -> None:
        self.s = s_tir.Schedule(function)
        self.threads = threads

    def loops(self, name: str) -> list[Any]:
        return list(self.s.get_loops(self.s.get_sblock(name)))

    def parallel(self, loop: Any) -> None:
        if self.threads > 1:
            self.s.parallel(loop)

    def vectors(self, name: str, unroll: int = 1) -> None:
        """Vectors along the innermost loop of a stage, several at a time."""
        _, some, lanes = self.s.split(self.loops(name)[-1], [None, unroll, LANES])
        self.s.vectorize(lanes)
        if unroll > 1:
            self.s.unroll(some)

    def at(self, name: str, loop: Any) -> None:
        self.s.compute_at(self.s.get_sblock(name), loop)

    def inline(self, *names: str) -> None:
        for name in names:
            self.s.compute_inline(self.s.get_sblock(name))

    def partial(self, name: str) -> None:
        """The stage of partial results: its last loop but one reduces, its last is `WIDE` places."""
        *_, lane, block = self.loops(name)
        some, lanes = self.s.split(lane, [None, LANES])
        self.s.reorder(block, some, lanes)
        self.s.vectorize(lanes)
        self.s.unroll(some)
        self.clear(name, block)

    def clear(self, name: str, loop: Any) -> None:
        """Start values before the loop, in vectors."""
        start = self.s.decompose_reduction(self.s.get_sblock(name), loop)
        assert start is not None

    def build(self) -> Any:
        target = tvm.target.Target(
            {"kind": "llvm", "mcpu": codegen.llvm_get_system_cpu(), "num-cores": self.threads}
        )
        with tvm.ir.transform.PassContext(
            opt_level=3, config={"s_tir.LoopPartition": {"partition_const_loop": True}}
        ):
            return tirx.build(self.s.mod, target=target)["main"]


def call(
    arguments: Sequence[tuple[Any, Array]], threads: int, schedule: Callable[[Plan], None], alias: bool = False
) -> Call:
    """The function of these tensors, scheduled and compiled, on these arrays."""
    function = te.create_prim_func([tensor for tensor, _ in arguments])
    if alias:
        function = function.with_attr("tirx.noalias", False)
    return bound(Plan(function, threads), [array for _, array in arguments], schedule)


def bound(plan: Plan, arrays: Sequence[Array], schedule: Callable[[Plan], None]) -> Call:
    schedule(plan)
    compiled = plan.build()
    tensors = [tvm.runtime.from_dlpack(array) for array in arrays]
    return lambda: compiled(*tensors)


def along(
    name: str, shape: tuple[int, ...], length: int, term: Callable[..., Any], kind: str = "sum"
) -> tuple[Callable[..., Any], list[str], list[str]]:
    """The reduction of `term(*index, position)` at each index of `shape`: how to read it, its stages, and which of
    them have partial results."""
    reduce = te.sum if kind == "sum" else te.max
    blocks, rest = divmod(length, WIDE)
    block, lane = te.reduce_axis((0, blocks)), te.reduce_axis((0, WIDE))
    part = te.compute(
        (*shape, WIDE), lambda *at: reduce(term(*at[:-1], block * WIDE + at[-1]), axis=block), name=f"{name}_part"
    )
    total = te.compute(shape, lambda *at: reduce(part(*at, lane), axis=lane), name=f"{name}_total")
    if not rest:
        return total, [f"{name}_part", f"{name}_total"], [f"{name}_part"]
    last = te.reduce_axis((0, rest))
    tail = te.compute(shape, lambda *at: reduce(term(*at, blocks * WIDE + last), axis=last), name=f"{name}_tail")
    both = te.compute(
        shape,
        lambda *at: total(*at) + tail(*at) if kind == "sum" else te.max(total(*at), tail(*at)),
        name=f"{name}_both",
    )
    names = [f"{name}_{end}" for end in ("part", "total", "tail", "both")]
    return both, names, [f"{name}_part"]


def by_rows(plan: Plan, output: str, stages: Sequence[str], partial: Sequence[str], vectors: Sequence[str]) -> None:
    """Everything that a row needs, where it is used."""
    row = plan.loops(output)[0]
    plan.parallel(row)
    for stage in reversed(stages):
        plan.at(stage, row)
    for stage in partial:
        plan.partial(stage)
    for stage in (*vectors, output):
        plan.vectors(stage)
