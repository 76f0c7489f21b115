"""Random legal moves that make kernels for GPUs, run on the harness: `fuzz.py --gpu 500`.

A walk begins with a kernel as it is written, or as a GPU runs it, and ends with one that has blocks and threads.
What it then is for `cuda` and for `hip` must be refused by a rule of the target, or have enough barriers by the
proof, and give on the harness what the interpreter gives for the kernel that it began with, the threads in both
orders, with no race.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Literal

from agreement import agree, random_arguments
from drawing import draw
from drawing.single import GPU_MARKS, run_once
from gpu_copies import copying_kernel
from gpu_kernels import ALL
from in_versions import in_versions
from on_harness import run
from scattered import scattered_text
from walks import some_sizes

import dojoir
from dojoir.codegen.emission import gpu_program
from dojoir.codegen.lower.gpu.thread_plan import Threads
from dojoir.codegen.lower.waits.barrier_proof import unseparated
from dojoir.codegen.lower.waits.barriers import barriers_of
from dojoir.ir.nodes import Kernel, Scope
from dojoir.passes import MOVES
from dojoir.passes.base.move import Move

PLAIN = (
    "relu", "add", "saxpy", "bias_relu", "transpose", "reduce_mean_0", "reduce_max", "cumsum", "dot", "gemv",
    "softmax", "rmsnorm", "layernorm", "matmul", "matmul_tn", "bmm", "maxpool2d", "argmax", "embedding",
    "matmul_int8",
)  # fmt: skip
"""Kernels of the library with few statements."""

USUAL: dict[str, float] = {
    "bind": 12, "split": 3, "place": 4, "unroll": 1.5, "vectorize": 1.5, "swap_scopes": 1.5, "split_scopes": 1.5,
    "join_scopes": 1, "stage": 1.5, "materialize_dims": 1, "split_dim": 1, "collapse": 1, "split_reduction": 1,
    "pad_dims": 0.5, "swizzle": 1, "unmark": 0.5, "peel": 0.2, "unsplit": 0.2, "reuse_dims": 0.2,
    "collapse_dims": 0.2,
}  # fmt: skip
"""How often a family is drawn; any other 0.15."""

FACTORS = (2, 3, 4, 8, 16, 32, 64)
TARGETS: tuple[tuple[str, int], ...] = (("cuda", 32), ("hip", 64))
ORDERS: tuple[Literal["forward", "backward"], ...] = ("forward", "backward")
LONGEST_TEXT = 2500

RULES = frozenset({
    "broken-block", "broken-grid", "collective-loop", "crosses-launches", "crosses-threads", "indexed-register",
    "lane-extent", "large-block", "nested-mark", "no-atomic", "open-extent", "register-size", "shared-size",
    "stack-size", "unequal-lanes", "warps-accumulate",
})  # fmt: skip
"""The errors of a target: a kernel that is well-formed and that it has no room or no instruction for."""


@dataclass
class GpuWalk:
    """A walk: the kernel it began with, its trace, what was counted and what was wrong."""

    random: Random
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def go(self, steps: int) -> None:
        self.trace = dojoir.Trace(start(self.random))
        try:
            for _ in range(steps):
                if not self._step() or len(dojoir.to_text(self.trace.kernel)) > LONGEST_TEXT:
                    break
            self._bound()
            self._hold()
        except Exception:
            self.fail(traceback.format_exc(limit=-6))

    def fail(self, what: str) -> None:
        moves = "; ".join(map(str, self.trace.moves))
        self.failures.append(f"{what}\n{dojoir.to_text(self.trace.start)}\n# {moves}\n{self.trace.kernel}")

    def _step(self) -> bool:
        return any(self._made(draw_move(self.trace.kernel, self.random)) for _ in range(15))

    def _made(self, move: Move | None) -> bool:
        if move is None or not dojoir.check(self.trace.kernel, move, 300_000):
            return False
        self.trace.apply(move)
        self.counts["moves"] += 1
        self.counts[f"made {move.name}"] += 1
        return True

    def _bound(self) -> None:
        """Gives the kernel blocks and threads, where it has none."""
        for marks in (("gx", "gy"), ("bx", "by", "lane")):
            kernel = self.trace.kernel
            if any(isinstance(n, Scope) and {*n.marks} & {*marks} for _, n in kernel.walk()):
                continue
            listed = [move for move in MOVES_BY_NAME["bind"].candidates(kernel) if move.arguments()[1] in marks]
            self.random.shuffle(listed)
            any(map(self._made, listed[:12]))

    # -- what a target makes of it --------------------------------------------------------------------------
    def _hold(self) -> None:
        kernel, start = self.trace.kernel, self.trace.start
        calls = []
        for most in (4, {0: 1, 1: 150, 2: 70, 3: 20}.get(len(start.runtime_sizes), 6)):
            sizes = some_sizes(start, self.random, most)
            if sizes is not None:
                given = random_arguments(start, sizes, self.random)
                calls.append((sizes, given, dojoir.interpret(start, given, **sizes)))
        for target, warp in TARGETS:
            try:
                program = gpu_program(kernel, target)
            except dojoir.KernelError as error:
                self.counts[f"refused {error.diagnostic.code}"] += 1
                if error.diagnostic.code not in RULES:
                    self.fail(f"{target}: {error}")
                continue
            threads = Threads(kernel, warp)
            found = barriers_of(threads)
            self.counts["barriers"] += len(found)
            self.counts["with threads"] += any(launch.threads > 1 for launch in threads.launches)
            if unseparated(kernel, warp, found):
                self.fail(f"{target}: the proof finds accesses that no barrier separates")
            for sizes, given, expected in calls:
                for order in ORDERS:
                    self.counts["runs"] += 1
                    results = run(kernel, given, sizes, target, order, program)
                    wrong = agree(start, expected, results, exact=False)
                    if wrong is not None:
                        self.fail(f"{target}, {order}, at {sizes}: {wrong}")


MOVES_BY_NAME: dict[str, type[Move]] = {kind.name: kind for kind in MOVES}


def start(random: Random) -> Kernel:
    """A kernel to begin with: as a GPU runs it, as the library has it, or a random one; in some a part of it runs
    once, by one of several threads."""
    made: Callable[[], Kernel] = random.choices(
        (
            lambda: dojoir.parse(random.choice([*ALL.values()])),
            lambda: dojoir.kernels.load(random.choice(PLAIN)),
            lambda: dojoir.parse(dojoir.to_text(draw("runnable", random, small=True))),
            lambda: copying_kernel(random),
            lambda: dojoir.parse(scattered_text(random)),
            lambda: draw("threads", random),
        ),
        (0.2, 0.35, 0.2, 0.1, 0.1, 0.05),
    )[0]
    kernel = in_versions(made(), random) if random.random() < 0.15 else made()
    return run_once(kernel, random, GPU_MARKS) if random.random() < 0.15 else kernel


def draw_move(kernel: Kernel, random: Random) -> Move | None:
    """A candidate of a random family, or a split by a number that threads come in."""
    (kind,) = random.choices(MOVES, [USUAL.get(kind.name, 0.15) for kind in MOVES])
    listed = list(kind.candidates(kernel))
    if kind.name == "split" and listed:
        return dojoir.parse_move(f"split({random.choice(listed).arguments()[0]}, {random.choice(FACTORS)})")
    return random.choice(listed) if listed else None


def walk(random: Random) -> GpuWalk:
    found = GpuWalk(random)
    found.go(random.randint(3, 14))
    return found
