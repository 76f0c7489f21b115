"""Long sums inside of lanes, made of the sums of blocks.

A loop inside of lanes adds to one f32 in each lane (`mean[j] += x[i, j]` with j in lanes), which no wider variable
carries (`carry`). Two registers of f64 for one of f32, and conversions in the innermost loop, take more time than
the sum. Where the order is free, its iterations are taken by blocks of 32 and each block is summed by itself, twice
over where the extent is open:

    N                                (N + 31) // 32
    | acc[{0}] += x[{1}, {0}]        | block = -0.0
                                     | min(32, N - 32*{1})
                                     | | block += x[32*{1} + {2}, {0}]
                                     | acc[{0}] += block

So a number is rounded 32 + N/32 times on its way into the sum, or 64 + N/1024 times, instead of N times (N. J.
Higham, "The accuracy of floating point summation", SIAM J. Sci. Comput. 14 (1993): blocked summation). A block is
never empty, and only unconditional accumulations are taken: so what is written is what the text writes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from dojoir.codegen.lower.plans.plan import Accumulator, Analysis
from dojoir.codegen.lower.texts.beside import TextBeside, fresh, with_statements
from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import F32
from dojoir.ir.nodes import (
    Access,
    Buffer,
    Const,
    Extent,
    Kernel,
    Path,
    Scope,
    Statement,
    is_inside,
    substitute,
    substitute_iterators,
)

BLOCK = 32
"""How many iterations are summed by themselves."""

LEVELS = 2
"""How often the sums of blocks are summed by blocks again."""


def with_block_sums(kernel: Kernel, analysed: Callable[[Kernel], Analysis]) -> TextBeside:
    """The kernel with each long sum of f32 inside of lanes made of the sums of blocks."""
    beside = TextBeside.of(kernel)
    if kernel.fp == "strict" or not any(isinstance(node, Scope) and "v" in node.marks for _, node in kernel.walk()):
        return beside
    for _ in range(LEVELS):
        sums_of = _sums(analysed(beside.kernel))
        for path, sums in reversed(sums_of.items()):  # from the end: what is before keeps its place
            beside = _blocked(beside, path, sums)
    return beside


def _sums(analysis: Analysis) -> dict[Path, tuple[Accumulator, ...]]:
    """The sums that long loops inside of lanes make into elements of f32, by the outermost loop of each sum."""
    plans = analysis.plans()

    def has(path: Path, scope: Scope) -> bool:
        return _is_long(scope) and any(_is_below(path, plan) for plan in plans)

    return analysis.sums(has, lambda path, accumulator: _is_sum(analysis, path, accumulator))


def _is_below(path: Path, other: Path) -> bool:
    return len(path) > len(other) and is_inside(path, other)


def _is_long(scope: Scope) -> bool:
    """Whether a scope is a plain loop of more iterations than two blocks."""
    bound = scope.constant_bound
    return not scope.marks and not scope.hints and (bound is None or bound > 2 * BLOCK)


def _is_sum(analysis: Analysis, path: Path, accumulator: Accumulator) -> bool:
    """Whether a reduction of the scope at a path adds in each iteration, unconditionally, to one element of f32."""
    if accumulator.op != "add" or accumulator.along:
        return False
    return all(_adds(analysis, path, at) for at in accumulator.paths)


def _adds(analysis: Analysis, path: Path, at: Path) -> bool:
    typed, inner = analysis.typed[at], [analysis.kernel.at(at[:n]) for n in range(len(path) + 1, len(at))]
    repeated = all(
        isinstance(node, Scope) and not node.marks and not node.hints and (node.extent.constant or 0) > 0
        for node in inner
    )
    return repeated and typed.dtype == F32 and typed.condition is None


# -- the rewriting ---------------------------------------------------------------------------------------------
def _blocked(beside: TextBeside, path: Path, sums: Sequence[Accumulator]) -> TextBeside:
    """The kernel with the loop at a path by blocks, each with a sum of its own."""
    kernel = beside.kernel
    scope, depth = kernel.at(path), kernel.depth_of(path)
    assert isinstance(scope, Scope)
    totals: list[tuple[Access, Access]] = []
    for accumulator in sums:
        name = fresh(kernel, f"{accumulator.target.buffer}_block")
        kernel = kernel.evolve(buffers=(*kernel.buffers, Buffer("tmp", name, F32, (), "reg")))
        totals.append((accumulator.target, Access(name, ())))
    adding = ((at, total) for a, (_, total) in zip(sums, totals, strict=True) for at in a.paths)
    body = with_statements(path, scope.body, {at: (_added(kernel, at, total),) for at, total in adding})
    around, inner = Affine.iterator(depth), Affine.iterator(depth + 1)
    most = max(kernel.depth_of(site.path) for site in kernel.sites)
    moved = substitute_iterators(
        {depth: around * BLOCK + inner, **{d: Affine.iterator(d + 1) for d in range(depth + 1, most + 1)}}
    )
    block = replace(
        scope,
        extent=Extent((Affine.constant(BLOCK), *(bound - around * BLOCK for bound in scope.extent.bounds))),
        body=tuple(substitute(node, moved) for node in body),
        label=None,
    )
    blocks = Extent(tuple((bound + (BLOCK - 1)) // BLOCK for bound in scope.extent.bounds))
    begun = (Statement(total, "=", Const(-0.0)) for _, total in totals)
    added = (Statement(element, "+=", total) for element, total in totals)
    own = [number for number, site in enumerate(kernel.sites) if is_inside(site.path, path)]
    ends = [beside.place(accumulator.paths[0]) for accumulator in sums]
    return replace(
        beside,
        kernel=kernel.replace_node(path, replace(scope, extent=blocks, body=(*begun, block, *added))),
        origins=(
            *beside.origins[: own[0]],
            *(*ends, *beside.origins[own[0] : own[-1] + 1], *ends),
            *beside.origins[own[-1] + 1 :],
        ),
        arrays={**beside.arrays, **{total.buffer: element.buffer for element, total in totals}},
    )


def _added(kernel: Kernel, at: Path, total: Access) -> Statement:
    """The statement at a place, that adds to another element."""
    statement = kernel.at(at)
    assert isinstance(statement, Statement)
    return statement.onto(total)
