"""Inputs to run a kernel on: reproducible from a seed, of several distributions, within what indices allow."""

from __future__ import annotations

import zlib
from collections.abc import Container, Iterator, Mapping

import numpy as np

from dojoir.errors import ArgumentError
from dojoir.ir.affine import Affine
from dojoir.ir.dtypes import DType
from dojoir.ir.expressions import parts
from dojoir.ir.nodes import Access, Buffer, Cast, Kernel, Op, Statement
from dojoir.meaning.bits import from_floats, to_floats
from dojoir.meaning.packed import packed, unpacked_shape
from dojoir.runtime.call.layout import array_shape
from dojoir.runtime.call.scalars import takes_value
from dojoir.types.elaborate import check
from dojoir.types.rounding import FORMATS
from dojoir.types.typed import Apply, Convert, IndexValue, Load, Typed
from dojoir.types.typed_parts import typed_parts

NONFINITE = "nonfinite"

DISTRIBUTIONS = ("uniform", "normal", "positive", "wide", "integers", "special", NONFINITE)
"""uniform in [-1, 1); normal; positive: uniform in (0, 1]; wide: either sign, magnitudes from tiny to large;
integers: small ones, on which sums and products are exact. Special: uniform with many zeros of both signs, ones,
subnormals and repeated values; nonfinite: uniform with some infinities and NaNs."""

PEAKS = "peaks"
"""PEAK in most elements, whose exponential is nothing, and 0 in PEAKED of all and in the last of each dimension:
what loses one of these shows."""

PEAK, PEAKED = -128.0, 1024

ONES = 1.0
"""The `reach` of `integers` that are 1 and -1, mostly 1: for kernels in which larger ones grow too large."""

LONG = 1 << 12
"""Sums of more terms are of integers that are mostly positive and so small that no order rounds them: f32 holds
all up to EXACT."""

EXACT = 1 << 24

WIDEST, NARROWEST = 24.0, 1.5
"""Magnitudes of `wide` inputs are within 2**-WIDEST and 2**WIDEST, nearer to one for types with a small range, but
those within 2**NARROWEST come no nearer."""

SHARES = (0.4, 0.04, 0.004, 0.0)
"""How many of `nonfinite` inputs are drawn among infinities, NaN and zero: fewer where these leave nothing to
compare."""

SHARE = 1 / 16

BLOCK = 1 << 20
"""Elements that are drawn; a larger array repeats them."""


def make_inputs(
    kernel: Kernel, sizes: Mapping[str, int], seed: int, distribution: str, reach: float = WIDEST
) -> dict[str, np.ndarray]:
    """An array in C order for every `in` and `inout`, by name, of type `DType.stored`; for a scalar one without
    dimensions (f64 for any float: its number, not its bits). Integers that the kernel uses as indices are within
    the dimensions that they index, those that it divides by are not 0. Also offsets (of rows that lie behind each
    other) do not decrease; uniform and normal scalars are not negative. `reach` bounds the magnitudes of `wide`
    numbers, 2**-reach to 2**reach, and the share of `nonfinite` ones.

    Raises ArgumentError for a seed below 0.
    """
    if seed < 0:
        raise ArgumentError(f"a seed is a whole number from 0, not {seed}", "bad-arguments")
    ranges, divide = index_ranges(kernel, sizes), divisors(kernel)
    begin = offsets(kernel, ranges)
    if distribution == "integers" and reach > ONES:
        terms = longest_sum(kernel, sizes)
        reach = 0.0 if terms <= LONG else min(8.0, (EXACT / terms) ** 0.5)
    drawn: dict[str, np.ndarray] = {}
    for buffer in kernel.arguments:
        if buffer.role != "out":
            limits = [ranges.get(buffer.name), begin[buffer.name] + 1 if buffer.name in begin else None]
            limit = min((one for one in limits if one is not None), default=None)
            shape = unpacked_shape(buffer, array_shape(buffer, sizes))
            array = packed(buffer, _array(buffer, shape, seed, distribution, limit, reach, sizes))
            if buffer.name in divide:
                array = np.where(array == 0, 1, array).astype(array.dtype)
            if buffer.name in begin and not buffer.facts:
                array = np.sort(array % np.asarray(begin[buffer.name] + 1, array.dtype), axis=None)
            drawn[buffer.name] = array.reshape(shape) if buffer.name in begin and not buffer.facts else array
    return drawn


def distributions_of(kernel: Kernel) -> tuple[str, ...]:
    """The distributions that say something of a kernel: under `fp fast` NaN and infinities may become anything."""
    return tuple(name for name in DISTRIBUTIONS if name != NONFINITE or kernel.fp != "fast")


def milder(distribution: str, reach: float) -> float | None:
    """The next `reach` of a distribution, where that one leaves too little to compare; None if there is none."""
    match distribution:
        case "wide":
            return reach / 2 if reach > NARROWEST else None
        case "integers":
            return ONES if reach > ONES else None
        case "nonfinite":
            return next((share for share in SHARES if share < min(reach, SHARES[0])), None)
        case _:
            return None


def changed_inputs(kernel: Kernel, sizes: Mapping[str, int], seed: int) -> dict[str, np.ndarray]:
    """The `uniform` inputs of this seed, a SHARE of whose elements are `positive` ones; the first and the last of
    long arrays, and scalars, are the same."""
    inputs, others = (make_inputs(kernel, sizes, seed, name) for name in ("uniform", "positive"))
    for name, array in inputs.items():
        if not array.ndim or not array.size or kernel.buffer(name).facts:
            continue
        length = max(1, min(64, array.size // 64))
        random = np.random.default_rng([seed, zlib.crc32(name.encode()), array.size])
        blocks = random.random(-(-array.size // length)) < SHARE
        blocks[random.integers(len(blocks))] = True
        if len(blocks) > 8:
            blocks[0] = blocks[-1] = False
        changed = np.repeat(blocks, length)[: array.size].reshape(array.shape)
        inputs[name] = np.where(changed, others[name], array)
    return inputs


def longest_sum(kernel: Kernel, sizes: Mapping[str, int]) -> int:
    """About how many terms the longest sum of a kernel has: of a statement that adds, the iterations of the scopes
    whose iterators its element does not have, guards counted as if they held."""
    most = 1
    for site in kernel.sites:
        if site.statement.accumulation != "+=":
            continue
        own = {d for index in site.statement.target.indices if isinstance(index, Affine) for d in index.iterators}
        terms = 1
        largest: list[int] = []
        for scope in site.scopes:
            bounds = [bound.evaluate(sizes, tuple(largest)) for bound in scope.extent.bounds]
            extent = max(0, min(bounds))
            if len(largest) not in own:
                terms *= max(1, extent)
            largest.append(max(0, extent - 1))
        most = max(most, terms)
    return most


def has_exponentials(kernel: Kernel) -> bool:
    """Whether exponentials may be added up: there is one, and a sum."""
    sums = any(site.statement.accumulation == "+=" for site in kernel.sites)
    return sums and any(
        isinstance(part, Op) and part.name in ("exp", "exp2")
        for site in kernel.sites
        for part in parts(site.statement.value)
    )


def index_ranges(kernel: Kernel, sizes: Mapping[str, int]) -> dict[str, int]:
    """For each buffer whose elements are used as indices, the smallest extent that one of them indexes; for each
    whose elements are counts of shifts, the fewest bits that one of them shifts. What is copied into such a buffer
    has its range."""
    ranges: dict[str, int] = {}
    for typed in check(kernel):
        for counts, dtype in _operands(typed.value, ("shl", "shr")):
            ranges[counts] = min(dtype.bits, ranges.get(counts, dtype.bits))
    for access in _indexed_accesses(kernel):
        dims = kernel.buffer(access.buffer).dims
        for index, dim in zip(access.indices, dims, strict=True):
            if isinstance(index, Access):
                extent = dim.extent.evaluate(sizes)
                ranges[index.buffer] = min(extent, ranges.get(index.buffer, extent))
    copies = [copy for site in kernel.sites if (copy := _copied(site.statement)) is not None]
    for _ in copies:  # what is copied is used as its copy is
        for target, source in copies:
            if target in ranges:
                ranges[source] = min(ranges[target], ranges.get(source, ranges[target]))
    return ranges


def offsets(kernel: Kernel, ranges: Mapping[str, int]) -> dict[str, int]:
    """For each buffer to whose elements an iterator is added to make an index, the extent that it indexes. Rows
    that lie behind each other begin there, and the last one ends at most at the extent."""
    found: dict[str, int] = {}
    for typed in check(kernel):
        match typed.value:
            case Apply(_, "add", (first, second)) if typed.op is None and typed.target.buffer in ranges:
                terms = [term.arg if isinstance(term, Convert) else term for term in (first, second)]
                loads = [term.access.buffer for term in terms if isinstance(term, Load)]
                if len(loads) == 1 and any(isinstance(term, IndexValue) for term in terms):
                    extent = ranges[typed.target.buffer]
                    found[loads[0]] = min(extent, found.get(loads[0], extent))
            case _:
                pass
    return found


def divisors(kernel: Kernel) -> frozenset[str]:
    """The buffers by whose elements integers are divided, and those that are copied into them."""
    found = {name for typed in check(kernel) for name, _ in _operands(typed.value, ("floordiv", "mod"))}
    copies = [copy for site in kernel.sites if (copy := _copied(site.statement)) is not None]
    for _ in copies if found else ():
        found |= {source for target, source in copies if target in found}
    return frozenset(found)


def _copied(statement: Statement) -> tuple[str, str] | None:
    """The buffers that a statement copies an element to and from, if that is all it does."""
    value = statement.value.arg if isinstance(statement.value, Cast) else statement.value
    if statement.accumulation is None and isinstance(value, Access):
        return statement.target.buffer, value.buffer
    return None


def _operands(value: Typed, names: Container[str]) -> Iterator[tuple[str, DType]]:
    """The buffers whose elements are the second operand of one of these operations in `value`, each with the type
    of the first."""
    for part in typed_parts(value):
        match part:
            case Apply(dtype, name, (_, Load(_, access) | Convert(_, Load(_, access)), *_)) if name in names:
                yield access.buffer, dtype


def _indexed_accesses(kernel: Kernel) -> Iterator[Access]:
    for site in kernel.sites:
        yield from site.statement.target.accesses()
        yield from site.statement.reads


def _array(
    buffer: Buffer,
    shape: tuple[int, ...],
    seed: int,
    distribution: str,
    limit: int | None,
    reach: float,
    sizes: Mapping[str, int],
) -> np.ndarray:
    # Each buffer has a stream of its own, which another argument more or less does not change.
    random = np.random.default_rng([seed, zlib.crc32(buffer.name.encode()), zlib.crc32(distribution.encode())])
    count = int(np.prod(shape, dtype=np.int64))
    drawn = min(count, BLOCK)
    dtype = buffer.dtype
    if dtype.kind == "b":
        block: np.ndarray = random.random(drawn) < 0.5
    elif dtype.is_integer:
        if buffer.facts:
            return _as_declared(random, buffer, shape, _numbers(buffer, limit, sizes), sizes)
        low, high = (0, max(limit, 1) - 1) if limit is not None else _integer_range(dtype, distribution)
        block = random.integers(low, high, drawn, np.dtype(dtype.stored), endpoint=True)
    else:
        if distribution == PEAKS and not takes_value(buffer):
            return _peaks(random, shape, dtype)
        values = _floats(random, drawn, dtype, distribution, reach)
        if FORMATS[dtype.name].is_scale:  # negative ones would all be NaN
            values = np.abs(values)
        if takes_value(buffer):
            # A scalar is a scale or a small number to add, as a rule.
            values = np.abs(values) if distribution in ("uniform", "normal") else values
            return to_floats(from_floats(values, dtype), dtype).reshape(())
        block = from_floats(values, dtype)
    return np.resize(block, shape) if count > drawn else block.reshape(shape)


# -- facts on data -------------------------------------------------------------------------------------------
def _as_declared(
    random: np.random.Generator, buffer: Buffer, shape: tuple[int, ...], numbers: int, sizes: Mapping[str, int]
) -> np.ndarray:
    """Some of the so many numbers from 0 on, of which all facts on the data of a buffer hold."""
    count = int(np.prod(shape, dtype=np.int64))
    if not _has_numbers(buffer, shape, numbers, sizes):
        what = f"{buffer.name} has {count} elements, which are {' and '.join(map(str, buffer.facts))}"
        if buffer.distinct:
            what = f"{buffer.name} has {count} distinct elements"
        raise ArgumentError(
            f"{what}, and there are {numbers} numbers for them: give sizes at which there are enough, and say so "
            f"in `where`",
            "bad-size",
        )
    step = _largest_step(buffer, shape, numbers, sizes)
    if step is not None:
        rows = count // shape[-1]
        steps = random.integers(int(buffer.distinct), step, (rows, shape[-1] - 1), endpoint=True)
        begin = np.arange(rows)[:, None] * (numbers // rows if buffer.distinct else 0)
        drawn = begin + np.concatenate([np.zeros((rows, 1), np.int64), np.cumsum(steps, axis=1)], axis=1)
    elif buffer.distinct:
        drawn = random.choice(min(numbers, 2 * count + 8), count, replace=False)
    else:
        drawn = random.integers(0, numbers, count)
    return np.asarray(drawn, buffer.dtype.stored).reshape(shape)


def _numbers(buffer: Buffer, limit: int | None, sizes: Mapping[str, int]) -> int:
    """How many numbers from 0 on an element may be."""
    dtype = buffer.dtype
    most: int = 1 << min(dtype.bits - (dtype.kind == "i"), 62)
    stated = [fact.most for fact in buffer.facts if fact.word == "lengths"]
    bounds = [most.evaluate(sizes) + 1 for most in stated if most is not None]
    return min([most, *bounds, *([] if limit is None else [limit])])


def _largest_step(buffer: Buffer, shape: tuple[int, ...], numbers: int, sizes: Mapping[str, int]) -> int | None:
    """The largest step between `offsets` for which so many numbers are enough; None where there is no step."""
    mosts = [fact.most for fact in buffer.facts if fact.word == "offsets"]
    if not mosts or mosts[0] is None or shape[-1] < 2:
        return None
    rows = int(np.prod(shape[:-1], dtype=np.int64))
    room = numbers // max(1, rows) if buffer.distinct else numbers
    return min(mosts[0].evaluate(sizes), (room - 1) // (shape[-1] - 1))


def _has_numbers(buffer: Buffer, shape: tuple[int, ...], numbers: int, sizes: Mapping[str, int]) -> bool:
    """Whether so many numbers from 0 on are enough for all facts on the data of a buffer."""
    count = int(np.prod(shape, dtype=np.int64))
    step = _largest_step(buffer, shape, numbers, sizes) if count else None
    return count == 0 or (
        numbers >= (count if buffer.distinct else 1) and (step is None or step >= int(buffer.distinct))
    )


def has_room(kernel: Kernel, sizes: Mapping[str, int]) -> bool:
    """Whether there are data of which all facts hold that the arguments declare, and that are within the dimensions
    that they index."""
    named = [buffer for buffer in kernel.arguments if buffer.facts]
    ranges = index_ranges(kernel, sizes) if named else {}
    shapes = ((b, tuple(dim.extent.evaluate(sizes) for dim in b.dims)) for b in named)
    return all(_has_numbers(b, shape, _numbers(b, ranges.get(b.name), sizes), sizes) for b, shape in shapes)


def _peaks(random: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    peak, nothing = from_floats(np.array([0.0, PEAK]), dtype)
    array = np.full(shape, nothing)
    if array.size:
        array.reshape(-1)[random.integers(array.size, size=PEAKED)] = peak
    for dim in range(len(shape)):
        array[(*[slice(None)] * dim, slice(-1, None))] = peak
    return array


def _integer_range(dtype: DType, distribution: str) -> tuple[int, int]:
    lowest = -(1 << (dtype.bits - 1)) if dtype.kind == "i" else 0
    highest = lowest + (1 << dtype.bits) - 1
    match distribution:
        case "wide" | "special":
            return lowest, highest
        case "positive":
            return 1, min(100, highest)
        case "integers":
            return max(-8, lowest), 8
        case _:
            return max(-100, lowest), min(100, highest)


def _floats(random: np.random.Generator, count: int, dtype: DType, distribution: str, reach: float) -> np.ndarray:
    """Numbers in f64; rounding to `dtype` comes after."""
    format_ = FORMATS[dtype.name]
    match distribution:
        case "normal":
            return random.standard_normal(count)
        case "positive":
            return 1 - random.random(count)
        case "wide":
            reach = min(reach, np.log2(format_.largest) / 3)
            return np.where(random.random(count) < 0.5, -1, 1) * np.exp2(random.uniform(-reach, reach, count))
        case "integers" if reach:
            signs = np.where(random.random(count) < 1 / 8, -1.0, 1.0)
            if reach < 1:  # even ones would be too many
                signs[random.random(count) > reach**2] = 0.0
            return signs * random.integers(1, max(1, int(min(reach, format_.largest))), count, endpoint=True)
        case "integers":
            most = min(8, int(format_.largest))
            return random.integers(-most, most, count, endpoint=True).astype(np.float64)
        case "special" | "nonfinite":
            tiny = 2.0**format_.quantum
            chosen = [0.0, -0.0, 1.0, -1.0, 0.5, tiny, -tiny, 2.0**format_.lowest]
            share = SHARES[0]
            if distribution == NONFINITE:
                chosen, share = [np.inf, -np.inf, np.nan, 0.0], min(share, reach)
            values = random.uniform(-1, 1, count)
            return np.where(random.random(count) < share, random.choice(chosen, count), values)
        case _:
            return random.uniform(-1, 1, count)
