"""The lowered program: what every printer spells.

Loops, lets, mutable variables, loads and stores on flat buffers, and vector values of a fixed lane count.
Everything that is a decision (layout, masks, accumulators, expansion of exp and its like, where a buffer is
allocated) has been taken by `codegen.lower`; a printer only chooses words.

Types are a `DType` of the IR and a lane count (1: a scalar). Offsets, strides and trip counts are i64 in
elements. A comparison gives `bool` lanes. Nothing here is undefined: integer arithmetic wraps, shifts are by
less than the width, float to integer conversion saturates and sends NaN to 0.
"""

from __future__ import annotations

from dataclasses import field

from dojoir.codegen.lir.outcome import Check
from dojoir.codegen.lir.values import *
from dojoir.ir.dtypes import DType
from dojoir.ir.instruction import Instruction
from dojoir.support.frozen import dataclass


@dataclass(frozen=True)
class Let:
    """Names a value; never assigned again."""

    var: Var
    value: Value


@dataclass(frozen=True)
class Declare:
    """A mutable variable, here to the end of the enclosing block."""

    var: Var
    value: Value


@dataclass(frozen=True)
class Assign:
    var: Var
    value: Value


@dataclass(frozen=True)
class Store:
    """The counterpart of `Load`: contiguous, strided, or scattered by a vector offset, under `mask`.
    `streaming` is a store past the caches, where the target has one: of a contiguous vector, without mask, at an
    address that is a multiple of `stream_alignment` of its type."""

    buffer: str
    offset: Position
    value: Value
    stride: Position | None = None
    mask: Value | None = None
    streaming: bool = False


@dataclass(frozen=True)
class Stream:
    """Copies `elements` elements from the beginning of array `source` to `buffer` at `offset`, past the caches
    where the target can and the address is that of a cache line. For targets without vectors."""

    buffer: str
    offset: Position
    source: str
    elements: Position


@dataclass(frozen=True)
class Fence:
    """Stores past the caches that were made before it are there for other threads after it."""


@dataclass(frozen=True)
class Prefetch:
    """Asks the caches for the line with the element of `buffer` at `offset`, to be written if `write`. The offset
    may lie outside of the array."""

    buffer: str
    offset: Position
    write: bool = False


@dataclass(frozen=True)
class Element:
    """The element of `buffer` at `offset`, or so many behind it as `near` says, which is a number once loops are
    unrolled. It may be the first of several."""

    buffer: str
    offset: Value
    near: Value | None = None


@dataclass(frozen=True)
class Instruct:
    """An instruction on operands, by name. The element with which an array begins, or the vector variable that is
    all of it; the value of a scalar, or for one that it writes, its element or variable. `otherwise` does the same
    in other words: for a C compiler that may not have the instruction. `strides` say how many elements apart the
    rows of strided operands are."""

    instruction: Instruction
    operands: tuple[tuple[str, Element | Value], ...]
    otherwise: tuple[Stmt, ...]
    strides: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class ProgramArray:
    """A buffer of the program: `elements` of `dtype` (the type as stored; packed types as u16 or u8), aligned
    to `align` bytes (0: that of an element). `lives` is argument, heap, stack, reg or shared. Of a shared one with
    `swizzle`, chunks of 16 bytes are exchanged, in rows of so many bytes: offsets are those before that."""

    name: str
    dtype: DType
    elements: Value
    lives: str
    align: int = 0
    constant: bool = False
    swizzle: int = 0


@dataclass(frozen=True)
class Allocate:
    """`array` exists from here to the end of the enclosing block; its contents are undefined at first. A heap
    array that cannot be had ends the program with status OUT_OF_MEMORY."""

    array: ProgramArray


@dataclass(frozen=True)
class For:
    """`var` from `start` below `stop` in steps of `step`. `kind` is seq, unroll (repeat the body, trip count
    constant), strips (the vectors in the body have `step` lanes, and as many iterations as are left at the end),
    open strips (the same, but with more lanes where the registers hold more) or simd (a plain loop whose iterations
    a compiler may run in lanes, `reductions` being variables that it may accumulate in any order with an op)."""

    var: Var
    start: Position
    stop: Position
    step: int
    body: tuple[Stmt, ...]
    kind: str = "seq"
    reductions: tuple[tuple[str, Var], ...] = ()
    comment: str = ""


@dataclass(frozen=True)
class Parallel:
    """`var` from 0 below `stop`, iterations shared out over the cores in contiguous chunks. `prologue` runs
    once for each chunk, before its iterations (private buffers), and `epilogue` after them. `captures` are the
    variables and arrays of the outside that the inside uses; it assigns none of them."""

    var: Var
    stop: Position
    prologue: tuple[Stmt, ...]
    body: tuple[Stmt, ...]
    captures: tuple[Var, ...] = ()
    captured_arrays: tuple[ProgramArray, ...] = ()
    comment: str = ""
    epilogue: tuple[Stmt, ...] = ()


@dataclass(frozen=True)
class If:
    condition: Position
    then: tuple[Stmt, ...]
    otherwise: tuple[Stmt, ...] = ()
    comment: str = ""


@dataclass(frozen=True)
class Fail:
    """Records that the program failed with `status` (where `condition` is true, in any lane) and goes on. The
    program returns the highest status that was recorded."""

    condition: Position
    status: int


@dataclass(frozen=True)
class Comment:
    text: str


# -- on a GPU: a launch is a grid of blocks, whose threads meet at barriers; the printers of CPUs never see it ---
@dataclass(frozen=True)
class Barrier:
    """A barrier: all work of the threads before it is done for all of them after it: for those of the block, or of
    each group of `lanes` threads. `about` are the buffers for which it stands here. A `proxy` that reads what is
    shared sees that work, too."""

    about: tuple[str, ...]
    lanes: int = 0
    proxy: bool = False


@dataclass(frozen=True)
class Start:
    """A thread starts to copy neighbours of 4, 8 or 16 bytes from global memory to `buffer` at `offset`, in shared
    memory: they are there behind a `Land` for the group that the next `Commit` ends."""

    buffer: str
    offset: Position
    value: Load


@dataclass(frozen=True)
class Commit:
    """Ends a group of copies that a thread has started, of none too."""


@dataclass(frozen=True)
class Land:
    """A thread waits until at most so many of its groups of copies are on their way, the last ones."""

    groups: int


@dataclass(frozen=True)
class Phase:
    """The body, for the first `threads` of the block; None: for all of them."""

    threads: int | None
    body: tuple[Stmt, ...]
    comment: str = ""


@dataclass(frozen=True)
class Atomic:
    """Combines the element of `buffer` at `offset` with a value (add, max, min), in one step for all threads of the
    grid."""

    op: str
    buffer: str
    offset: Position
    value: Value


@dataclass(frozen=True)
class Swap:
    """Assigns `value` to the element of `buffer` at `offset`, of 4 or 8 bytes, in one step for all threads of the
    grid: by compare and swap. In `value` the variable `seen` is the element as it was; before, it has a guess at
    that."""

    seen: Var
    buffer: str
    offset: Position
    value: Value


@dataclass(frozen=True)
class Launch:
    """Runs `body` in every thread of a grid: `grid` are its extents along the AXES, outermost last; a launch of
    which one is 0 or less does nothing. `shared` are the arrays that each block has one of; `captures` and
    `captured_arrays` what it takes from the host, in the order of its parameters. `wide` are the bytes to which the
    beginning of an array must be aligned, by name, where it must be more than an element. `alone` are the arrays of
    which no thread uses an element that another writes. Its indices have
    `index_bits`, 64 or 32: then no value of type i64 in it needs more, for the sizes that it is launched with
    (`codegen.lir.offsets`)."""

    name: str
    grid: tuple[Position, ...]
    threads: int
    shared: tuple[ProgramArray, ...]
    captures: tuple[Var, ...]
    captured_arrays: tuple[ProgramArray, ...]
    body: tuple[Stmt, ...]
    comment: str = ""
    wide: tuple[tuple[str, int], ...] = ()
    alone: frozenset[str] = frozenset()
    index_bits: int = 64


Stmt = (
    Let
    | Declare
    | Assign
    | Store
    | Stream
    | Fence
    | Prefetch
    | Instruct
    | Allocate
    | For
    | Parallel
    | If
    | Fail
    | Comment
    | Launch
    | Barrier
    | Start
    | Commit
    | Land
    | Phase
    | Atomic
    | Swap
)


WORD = 4
"""The bytes of the smallest copy that is started."""

AXES = ("x", "y", "z")

_WORDS = frozenset({"i32", "u32", "i64", "u64"})
ATOMICS = {
    "add": _WORDS | {"f32", "f64"},
    **dict.fromkeys(("max", "min", "bitand", "bitor", "bitxor"), _WORDS),
}
"""The elements of which GPUs have an instruction, by its operation; other ones of 4 and 8 bytes are swapped."""


def stream_alignment(kind: Type) -> int:
    """The bytes to whose multiple a vector must be aligned to be stored past the caches: its size, or that of a
    cache line if it is larger. 0 for one that cannot be: less than 16 bytes, or no power of two."""
    size = kind.lanes * kind.dtype.itemsize
    return min(size, LINE) if size >= 16 and size & (size - 1) == 0 else 0


# -- programs ----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Function:
    """A pure function on values: `body` holds only Let, the value is `result`."""

    name: str
    params: tuple[Var, ...]
    body: tuple[Let, ...]
    result: Value
    comment: str = ""


@dataclass(frozen=True)
class Program:
    """A kernel, lowered. The compiled function takes `arguments` in order (a pointer each, or the value itself for
    those named in `by_value`: narrow floats as u16 or u8). Then come `sizes` as i64, behind those of the kernel
    the strides of strided arguments in elements, and returns an i32 status. `text` is the kernel; `fast` says that
    it allows floating-point algebra (`fp fast`)."""

    name: str
    arguments: tuple[ProgramArray, ...]
    by_value: tuple[Var, ...]
    sizes: tuple[Var, ...]
    functions: tuple[Function, ...]
    body: tuple[Stmt, ...]
    checks: tuple[Check, ...] = field(default=())
    text: str = ""
    fast: bool = False
