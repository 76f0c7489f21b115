"""The layouts that a buffer may have."""

from __future__ import annotations

from dojoir.ir.nodes import STORAGES, Buffer
from dojoir.ir.words import DATA_FACTS

LARGEST_PAD = 2**20
SWIZZLED_ROWS = 8
"""The rows of a block within which chunks are exchanged."""

SWIZZLES = (32, 64, 128)
"""The bytes of the rows in blocks of which chunks may be exchanged: those that GPUs know."""

LARGEST_ALIGNMENT = 4096
MOST_BYTES = 2**62
"""A limit above the number of elements that any array can have."""


def order_error(buffer: Buffer) -> str | None:
    """Why the buffer cannot have its `order`, or None."""
    rank = len(buffer.dims)
    if buffer.order is None or (rank and sorted(buffer.order) == list(range(rank))):
        return None
    every = ", ".join(str(dim) for dim in range(rank)) or "none, it is a scalar"
    return f"order(…) names each dimension of {buffer.name} once ({every}), outermost first"


def pad_error(buffer: Buffer) -> str | None:
    """Why the buffer cannot have its `pad`, or None."""
    rank = len(buffer.dims)
    if buffer.pad is None:
        return None
    if not rank or len(buffer.pad) != rank:
        return f"pad(…) takes one number for each dimension of {buffer.name}, which has {rank}"
    if not all(0 <= pad <= LARGEST_PAD for pad in buffer.pad):
        return f"a dimension is padded by 0 to {LARGEST_PAD} elements"
    return None


def swizzle_error(buffer: Buffer) -> str | None:
    """Why chunks of the buffer cannot be exchanged, or None."""
    if not buffer.swizzle:
        return None
    if buffer.swizzle not in SWIZZLES:
        return f"swizzle takes the bytes of a row: {', '.join(map(str, SWIZZLES))}, as in swizzle(128)"
    if buffer.role != "tmp" or buffer.storage != "shared":
        lives = "an argument" if buffer.role != "tmp" else f"in {buffer.storage}"
        return f"swizzle is for the shared memory of a block, and {buffer.name} is {lives}: leave it out"
    if buffer.packed:
        return f"swizzle is for whole bytes, and {buffer.name} is packed: leave out one of them"
    return None


def align_error(buffer: Buffer) -> str | None:
    """Why the buffer cannot have its `align` (0 is none), or None."""
    if buffer.align & (buffer.align - 1) or not 0 <= buffer.align <= LARGEST_ALIGNMENT:
        return f"align takes a power of two, in bytes, such as align 64, of at most {LARGEST_ALIGNMENT}"
    return None


def storage_error(buffer: Buffer) -> str | None:
    """Why the buffer cannot have its storage, or None."""
    if buffer.storage not in STORAGES:
        return f"there is no storage '{buffer.storage}': it is one of {', '.join(STORAGES)}"
    if buffer.role == "tmp":
        return None
    if buffer.storage != "heap":
        return f"{buffer.storage} is for a tmp; {_argument(buffer)}"
    if any(dim.collapsed for dim in buffer.dims):
        return f"'~' is for a tmp; {_argument(buffer)}"
    return None


def stream_error(buffer: Buffer) -> str | None:
    """Why the stores to the buffer cannot bypass the caches, or None."""
    if buffer.stream and buffer.role == "in":
        return f"stream is for stores, and {buffer.name} is an input: leave it out"
    if buffer.stream and buffer.storage != "heap":
        return f"stream is for memory, and {buffer.name} is in {buffer.storage}: leave out one of them"
    if buffer.stream < 0 or buffer.stream > MOST_BYTES:
        return f"an array that is streamed has 1 to 2^{MOST_BYTES.bit_length() - 1} bytes, not {buffer.stream}"
    return None


def strided_error(buffer: Buffer) -> str | None:
    """Why a call cannot give the strides of the buffer, or None."""
    if not buffer.strided:
        return None
    if buffer.role == "tmp":
        return f"strided is for arguments, and {buffer.name} is a tmp: leave it out"
    if len(buffer.dims) < 2:
        return (
            f"strided is for rows that are apart, and {buffer.name} has none: its innermost dimension has no gaps"
        )
    if buffer.pad is not None:
        return f"the strides of {buffer.name} come from the call or from pad(…): leave out one of them"
    return None


def flat_error(buffer: Buffer) -> str | None:
    """Why dimensions of the buffer cannot be one of the array of a call, or None."""
    if buffer.flat is None:
        return None
    if buffer.role == "tmp":
        return f"flat is for arguments, and {buffer.name} is a tmp: leave it out"
    if not all(buffer.flat) or sum(buffer.flat) != len(buffer.dims):
        count = len(buffer.dims)
        return f"flat says how many dimensions are one, as in flat(2, 1): together {count}, those of {buffer.name}"
    if buffer.strided or buffer.packed or buffer.pad is not None or buffer.order is not None:
        return f"flat is for bytes without gaps, in the order of the dimensions of {buffer.name}"
    return None


def data_fact_error(buffer: Buffer) -> str | None:
    """Why a fact cannot be said of the data of the buffer, or None."""
    for word, form in ((fact.word, DATA_FACTS[fact.word]) for fact in buffer.facts):
        if buffer.role != "in":
            fact = f"{word} is a fact of an input as a call gives it"
            return f"{fact}, and {buffer.name} is {buffer.role}: leave it out"
        wrong = not buffer.dtype.is_integer or buffer.dtype.is_nibble
        if wrong or not (buffer.dims or form.scalars):
            what = f"of {buffer.dtype}" if wrong else "one number"
            return f"{word} is for {form.kind}, and {buffer.name} is {what}: leave it out"
    if buffer.flat is not None and any(fact.word == "offsets" for fact in buffer.facts):
        return (
            f"offsets are neighbours along one dimension, and one of {buffer.name} is a product: declare one size"
        )
    return None


def declaration_error(buffer: Buffer) -> str | None:
    """The first thing that is wrong with how a buffer is declared, or None."""
    rules = (
        storage_error, order_error, pad_error, swizzle_error, align_error, stream_error, strided_error, flat_error,
        data_fact_error,
    )  # fmt: skip
    return next((error for rule in rules if (error := rule(buffer)) is not None), None)


def _argument(buffer: Buffer) -> str:
    return f"{buffer.name} is an argument, and its storage is the caller's"
