"""The lowering: a kernel becomes the small imperative program that every printer spells, by the passes listed here.

First passes from text to text, then the one that lowers the nests, then passes from program to program. The page
docs/lowering.md follows a kernel through them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import get_args

from dojoir.codegen.lir import program as lir
from dojoir.codegen.lir.offsets import shortened
from dojoir.codegen.lir.passes import left
from dojoir.codegen.lir.program import Program
from dojoir.codegen.lir.walk import changed_by, with_blocks
from dojoir.codegen.lower.gpu.capacity import refuse_misfits
from dojoir.codegen.lower.gpu.groups import as_spelled
from dojoir.codegen.lower.gpu.thread_plan import Threads
from dojoir.codegen.lower.nests.programs import (
    analysis_of,
    carriers,
    thread_carriers,
    with_launches,
    with_nests,
)
from dojoir.codegen.lower.nests.work import LoweringWork
from dojoir.codegen.lower.sums.carry import with_room
from dojoir.codegen.lower.texts.beside import TextBeside
from dojoir.codegen.lower.texts.block_sums import with_block_sums
from dojoir.codegen.lower.texts.known_sizes import with_known_sizes
from dojoir.codegen.lower.texts.summed_beside import with_sums_beside
from dojoir.codegen.lower.texts.words_beside import Met, accumulating, with_words_beside
from dojoir.codegen.lower.vectors.dots import with_dots
from dojoir.codegen.lower.vectors.mixed_dots import with_sums_apart
from dojoir.codegen.lower.waits.barrier_proof import refuse_unproved
from dojoir.codegen.lower.waits.copies_ahead import Body, copies_ahead
from dojoir.codegen.lower.waits.crossing import refuse_crossing
from dojoir.codegen.lower.waits.exchanges import met
from dojoir.codegen.lower.waits.fences import fenced
from dojoir.codegen.target import Target
from dojoir.errors import Diagnostic, KernelError
from dojoir.ir.nodes import Kernel
from dojoir.ir.where import place
from dojoir.proof.wellformed import keeps_marks
from dojoir.sets.data_writes import without_data_writes
from dojoir.sets.limits import StepLimitReached, limited_in_part
from dojoir.support.frozen import dataclass
from dojoir.types.in_bytes import in_bytes

STEP_LIMIT = 5_000_000
"""How many isl operations the proof of a kernel with arrays beside its elements may take."""


@dataclass(frozen=True)
class LoweringPass:
    """A pass: what it needs, what it leaves, and the classes of nodes that it brings into a program, none of which
    is there before it."""

    name: str
    run: Callable[[LoweringWork], LoweringWork]
    needs: str
    leaves: str
    brings: frozenset[type] = frozenset()


def lower(kernel: Kernel, target: Target) -> Program:
    """The program of a kernel for a target. The marks of the kernel must be legal (`dojoir.prove`).

    Raises KernelError for types that do not fit and for a buffer that cannot live where it is placed.
    """
    work = LoweringWork(kernel, target, kernel, TextBeside.of(kernel))
    nodes: frozenset[type] = frozenset()
    for each in DEVICE if target.warp else HOST:
        nodes |= each.brings
        work = each.run(work)
        left(each.name, work.program or work.kernel, nodes)
    assert work.program is not None
    return work.program


def _with_dense_arguments(work: LoweringWork) -> LoweringWork:
    """Raises KernelError for an argument whose strides come from the call: a GPU takes dense arrays."""
    kernel, target = work.kernel, work.target
    for buffer in kernel.arguments:
        if buffer.strided:
            message = f"target {target.name} takes dense arrays, and {buffer.name} is strided: leave out 'strided'"
            source, span = place(kernel, (), buffer)
            raise KernelError(Diagnostic("strided-argument", message, span, source))
    return work


def _with_block_sums(work: LoweringWork) -> LoweringWork:
    return replace(work, beside=with_block_sums(work.kernel, lambda now: analysis_of(now, work.target)))


def _with_sums_beside(work: LoweringWork) -> LoweringWork:
    return replace(work, beside=with_sums_beside(work.beside, lambda now: carriers(now, work.target)))


def _with_known_sizes(work: LoweringWork) -> LoweringWork:
    sized, same = with_known_sizes(work.kernel)
    return replace(work, beside=TextBeside.of(sized), same=same)


def _with_arrays_beside(work: LoweringWork) -> LoweringWork:
    beside = _with_arrays(work.kernel, work.target)
    named = {array: work.same.get(buffer, buffer) for array, buffer in beside.arrays.items()}
    return replace(work, beside=replace(beside, text=work.text, arrays={**work.same, **named}))


def _with_arrays(kernel: Kernel, target: Target) -> TextBeside:
    """The kernel with arrays beside its narrow elements. What its threads do then is in no text that was proved, so
    that is proved here. Without a proof, all that they accumulate goes into words around the launches."""
    choices: tuple[Met, ...] = (lambda now: met(Threads(now, target.warp)), accumulating)
    for which in choices:
        beside = with_words_beside(kernel, which)
        beside = with_sums_beside(beside, lambda now: thread_carriers(now, target))
        if beside.kernel is kernel or _has_right_marks(beside.kernel, kernel):
            return beside
    source, span = place(kernel, ())
    message = f"no proof was found that the threads of {kernel.name} add to narrow elements of their own"
    raise KernelError(Diagnostic("narrow-sum", message, span, source))


def _has_right_marks(made: Kernel, text: Kernel) -> bool:
    """Whether iterations under marks are independent in a kernel that was made of a text in which they are."""
    try:
        with limited_in_part(STEP_LIMIT):
            return keeps_marks(without_data_writes(made), right=without_data_writes(text))
    except StepLimitReached:
        return False


def _refused(work: LoweringWork) -> LoweringWork:
    """Raises KernelError for what a GPU has no room for."""
    refuse_crossing(work.threads)
    refuse_misfits(work.threads, work.of_one_thread, work.target)
    return work


def _with_barriers(work: LoweringWork) -> LoweringWork:
    """Raises KernelError for accumulations of several threads into one element without a proof that it is right."""
    refuse_unproved(work.kernel, work.target.warp, work.atomic)
    assert work.barriers is not None
    return work


def _with_dots(work: LoweringWork) -> LoweringWork:
    return work.on_body(lambda body: with_dots(body, work.target.dots)) if work.target.dots else work


def _with_sums_apart(work: LoweringWork) -> LoweringWork:
    return work.on_body(lambda body: with_sums_apart(body, work.names)) if work.target.mixed else work


def _with_room(work: LoweringWork) -> LoweringWork:
    return work.of(with_room(work.kernel))


def _in_bytes(work: LoweringWork) -> LoweringWork:
    return work.of(in_bytes(work.kernel))


def _as_spelled(work: LoweringWork) -> LoweringWork:
    return work.of(as_spelled(work.kernel, work.target))


def _on_launches(work: LoweringWork, change: Callable[[Body, set[str], set[str]], Body]) -> LoweringWork:
    """The program with what `change` makes of the code of each launch, of its shared arrays and of the others that
    it only reads."""

    def block(body: Body) -> Body:
        return tuple(of_launch(stmt) if isinstance(stmt, lir.Launch) else with_blocks(stmt, block) for stmt in body)

    def of_launch(launch: lir.Launch) -> lir.Launch:
        read_only = {array.name for array in launch.captured_arrays} - changed_by(launch.body)
        return replace(launch, body=change(launch.body, {array.name for array in launch.shared}, read_only))

    return work.on_body(block)


def _with_copies_ahead(work: LoweringWork) -> LoweringWork:
    return _on_launches(work, lambda body, shared, read: copies_ahead(body, shared, read, work.names.fresh))


def _with_dots_of_threads(work: LoweringWork) -> LoweringWork:
    return _on_launches(work, lambda body, shared, _: with_dots(body, 1, shared))


def _fenced(work: LoweringWork) -> LoweringWork:
    return work.on_body(fenced)


def _shortened(work: LoweringWork) -> LoweringWork:
    assert work.program is not None
    return replace(work, program=shortened(work.program, {}))


_EVERY = frozenset((*get_args(lir.Stmt), *get_args(lir.Value)))
_LATER = frozenset({lir.Start, lir.Commit, lir.Land})
_DEVICE = _LATER | {lir.Launch, lir.Phase, lir.Barrier, lir.Atomic, lir.Swap, lir.Shuffle, lir.Extract, lir.Pack}
_ON_GPU = _EVERY - {lir.Parallel, lir.Stream, lir.Fence, lir.Dot, lir.Quads}
_ON_CPU = _EVERY - _DEVICE - {lir.ThreadNumber, lir.BlockNumber, lir.Dot, lir.Quads, lir.Fence}
_DOTS, _FENCES = frozenset({lir.Dot, lir.Quads}), frozenset({lir.Fence})

BYTES = LoweringPass("in-bytes", _in_bytes, "any text", "no element shares a byte with another")
ROOM = LoweringPass("room-for-sums", _with_room, "whole bytes", "temporaries that only hold narrow sums are of f32")

HOST: tuple[LoweringPass, ...] = (
    BYTES,
    ROOM,
    LoweringPass(
        "block-sums", _with_block_sums, "sums of the text", "a long one of f32 in a lane is one of blocks"
    ),
    LoweringPass(
        "sums-beside", _with_sums_beside, "who carries which sum", "other narrow sums are made in arrays beside"
    ),
    LoweringPass("nests", with_nests, "legal marks", "a program: loops, lanes, chunks for cores, checks", _ON_CPU),
    LoweringPass(
        "dots", _with_dots, "loops over four bytes", "their sums of products are one operation, if it is", _DOTS
    ),
    LoweringPass(
        "dots-of-one-sign", _with_sums_apart, "dots of bytes", "those of tiles are of u8 by i8, if no other is"
    ),
    LoweringPass(
        "fences", _fenced, "all stores past the caches", "they are there for other threads and callers", _FENCES
    ),
)
"""The passes for a CPU, in order."""

DEVICE: tuple[LoweringPass, ...] = (
    LoweringPass("dense", _with_dense_arguments, "any text", "no argument is strided"),
    LoweringPass(
        "spelled", _as_spelled, "instructions of groups of threads", "the target can spell those that are left"
    ),
    BYTES,
    ROOM,
    LoweringPass(
        "known-sizes", _with_known_sizes, "versions by size", "sizes are numbers where a version fixes them"
    ),
    LoweringPass(
        "arrays-beside", _with_arrays_beside, "who meets whom", "narrow sums are made in words or f32, proved"
    ),
    LoweringPass("room-on-chip", _refused, "all arrays", "or an error: for what a GPU cannot hold"),
    LoweringPass("barriers", _with_barriers, "who touches what", "where threads wait, proved enough; or an error"),
    LoweringPass("launches", with_launches, "legal marks", "a program: host code around launches", _ON_GPU),
    LoweringPass(
        "copies-ahead", _with_copies_ahead, "barriers", "loops read what they copy next before they compute"
    ),
    LoweringPass(
        "dots", _with_dots_of_threads, "loops over four bytes", "sums of products of shared ones are one", _DOTS
    ),
    LoweringPass(
        "short-indices", _shortened, "all numbers of a launch", "it counts in 32 bits where none needs more"
    ),
)
"""The passes for a GPU, in order."""
