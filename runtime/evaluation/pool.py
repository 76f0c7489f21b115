"""The expected results on the inputs that candidates are checked against: computed once, shared by all workers.

A case is a size, a distribution and one of SEEDS seeds. Its inputs, what is expected and how far a right result
may be off lie in files that workers map into memory, so that none of it is computed, or held, twice."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np

from dojoir.errors import ArgumentError
from dojoir.ir.dtypes import DTYPES, DType
from dojoir.ir.nodes import Buffer, Kernel
from dojoir.ir.packing import packed_dim
from dojoir.meaning.bits import to_floats
from dojoir.meaning.packed import unpacked
from dojoir.runtime.process.child import Run, run_child
from dojoir.runtime.verification.compare import CodeCounts, Expected, comparable, compare, counted_of
from dojoir.runtime.verification.comparison_rules import ComparisonRule
from dojoir.runtime.verification.inputs import (
    PEAKS,
    WIDEST,
    changed_inputs,
    distributions_of,
    has_exponentials,
    make_inputs,
    milder,
)
from dojoir.runtime.verification.oracle import Oracle
from dojoir.runtime.verification.sample_sizes import sample_sizes
from dojoir.runtime.verification.slack import slack_of
from dojoir.runtime.verification.verify import can_compare
from dojoir.support.frozen import dataclass
from dojoir.support.temporary import no_room, temporary_place

SEEDS = 16
"""How many seeds a case may have."""

FOLDER = "dojoir-pool-"
"""The prefix of the pool's folder, before the number of its process."""

BLOCK = 1 << 15
"""Elements that are compared at a time: what fits into a cache."""

TIMED_BYTES = 256 << 20
"""How much the cases at one timed size may take; there are at least FEWEST."""

FEWEST = 4

CHANGED = "changed"
"""The inputs of `uniform` with the same seed, some of whose elements are others."""


class InputCase(NamedTuple):
    """A size by its number (those that are timed come after the small ones), a distribution, and the number of a
    seed."""

    size: int
    distribution: str
    seed: int


@dataclass(frozen=True)
class Bounds:
    """One output: `low` and `high` in a type in which all its values can be compared, and what they come from; the
    dimension along which two elements share a byte, if there is one."""

    dtype: DType
    low: np.ndarray
    high: np.ndarray
    expected: Expected
    packed: int | None = None


@dataclass(frozen=True)
class KnownCase:
    """A case with everything that is known of it, by the name of the argument."""

    inputs: Mapping[str, np.ndarray]
    outputs: Mapping[str, Bounds]

    def complaint(self, outputs: Mapping[str, np.ndarray], slack: float) -> str | None:
        """The error in results, as a phrase; None if there is none. `outputs` are their elements, as
        `DType.stored`."""
        for name, bounds in self.outputs.items():
            actual = outputs[name]
            if not within(actual, bounds):
                comparison = compare(name, bounds.dtype, actual, bounds.expected, slack)
                if not comparison.ok:
                    return f"wrong result: {comparison.worst}"
        return None

    def counted(self, slack: float) -> tuple[CodeCounts, ...]:
        """How the codes of each output are compared."""
        found = (counted_of(name, one.dtype, one.expected, slack) for name, one in self.outputs.items())
        return tuple(one for one in found if one is not None)


@dataclass(frozen=True)
class Pool:
    """The cases of a reference, kept in `folder`. `sizes` are those at which candidates are timed. A reference
    that is compiled is run by `run`. Of the outputs in `left_out` any number of codes may not be compared."""

    folder: str
    reference: Kernel
    target: str
    sizes: tuple[Mapping[str, int], ...]
    seeds: tuple[int, ...]
    time_limit: float
    run: Run = run_child
    left_out: tuple[str, ...] = ()

    @cached_property
    def small(self) -> list[dict[str, int]]:
        """The sizes that every candidate is checked at before it is timed."""
        try:
            return sample_sizes(self.reference)
        except ArgumentError:  # its facts leave no small sizes: those that are timed are checked as well
            return []

    def size(self, number: int) -> Mapping[str, int]:
        return [*self.small, *self.sizes][number]

    @cached_property
    def timed_seeds(self) -> int:
        """How many seeds the cases at the timed sizes may have."""
        elements = max(
            sum(
                int(np.prod([max(0, d.extent.evaluate(sizes)) for d in b.dims], dtype=np.int64))
                for b in self.reference.arguments
            )
            for sizes in self.sizes
        )
        return max(FEWEST, min(SEEDS, TIMED_BYTES // (40 * max(1, elements))))

    def draw_timed(self, size: int, count: int, random: Random) -> tuple[InputCase, InputCase, InputCase]:
        """The cases of a candidate at a timed size, of the first `count`. One whose sums are exact, or in which
        few terms count; one to time with; one that is nearly the same as that."""
        seeds = max(1, count // 3)
        firsts = seeds + (count % 3 > 0)
        telling = PEAKS if has_exponentials(self.reference) else "integers"
        seed = random.randrange(seeds)
        pair = [InputCase(size, "uniform", seed), InputCase(size, CHANGED, seed)]
        random.shuffle(pair)
        return InputCase(size, telling, random.randrange(firsts)), pair[0], pair[1]

    def path(self, case: InputCase) -> Path:
        return Path(self.folder, f"{case.size}-{case.distribution}-{case.seed}")

    # -- in the fork server -----------------------------------------------------------------------------------
    @cached_property
    def _oracle(self) -> Oracle:
        return Oracle(self.reference, self.target, self.time_limit, self.run)

    def prepare(self, case: InputCase) -> None:
        """Works a case out, if that was not done. Raises RunError where the reference fails."""
        path = self.path(case)
        if path.exists():
            return
        sizes, seed = self.size(case.size), self.seeds[case.seed]
        match case.distribution:
            case "wide" | "nonfinite":
                inputs, expected = self._mild(sizes, seed, case.distribution)
            case "peaks":
                inputs, expected = self._peaks(sizes, seed)
            case _:
                inputs = self._inputs(sizes, seed, case.distribution)
                expected = self._oracle.expected(sizes, inputs)
        slack = slack_of(self.reference)
        outputs = {}
        for name, found in expected.items():
            buffer = self.reference.buffer(name)
            bounds = _bounds(buffer.dtype, found, slack)
            outputs[name] = replace(bounds, packed=packed_dim(buffer) if buffer.packed else None)
        _write(path, KnownCase(inputs, outputs))

    def _inputs(self, sizes: Mapping[str, int], seed: int, distribution: str) -> dict[str, np.ndarray]:
        if distribution == CHANGED:
            return changed_inputs(self.reference, sizes, seed)
        return make_inputs(self.reference, sizes, seed, distribution)

    def _mild(
        self, sizes: Mapping[str, int], seed: int, distribution: str
    ) -> tuple[dict[str, np.ndarray], dict[str, Expected]]:
        """Inputs of as many magnitudes, or infinities and NaNs, as leave results that can be compared."""
        reach = WIDEST
        while True:
            inputs = make_inputs(self.reference, sizes, seed, distribution, reach)
            expected = self._oracle.expected(sizes, inputs)
            following = milder(distribution, reach)
            if following is None or can_compare(self.reference, expected):
                return inputs, expected
            reach = following

    def _peaks(self, sizes: Mapping[str, int], seed: int) -> tuple[dict[str, np.ndarray], dict[str, Expected]]:
        """Inputs of which few have an exponential that counts; integers, where that leaves too little to ask."""
        for distribution in (PEAKS, "integers"):
            inputs = make_inputs(self.reference, sizes, seed, distribution)
            expected = self._oracle.expected(sizes, inputs)
            if can_compare(self.reference, expected):
                break
        return inputs, expected

    # -- in the workers -----------------------------------------------------------------------------------
    def known(self, case: InputCase) -> KnownCase:
        """A case that was prepared."""
        return _known_in(self.path(case))


def checks(pool: Pool, offset: int) -> list[tuple[int, str]]:
    """The small cases of a candidate, without their seeds: every size at least once, and every distribution at
    least twice, not at the same size."""
    distributions = distributions_of(pool.reference)
    sizes, kinds = len(pool.small), len(distributions)
    if not sizes:
        return []
    again = 0 if kinds % sizes else 1  # then the second round begins where the first one did
    return [
        ((offset // kinds + n + again * (n // kinds)) % sizes, distributions[(offset + n) % kinds])
        for n in range(max(2 * kinds, sizes))
    ]


def elements_of(buffer: Buffer, array: np.ndarray) -> np.ndarray:
    """The elements of an array that a call left, as `DType.stored`, a byte each where they are packed."""
    return array.view(np.uint8) if buffer.dtype.kind == "b" else unpacked(buffer, array)


def within(actual: np.ndarray, bounds: Bounds) -> bool:
    """Whether all elements are within their bounds: then `compare` has nothing to say against them. One that is no
    number is never within."""
    values = actual
    if bounds.dtype.is_float and actual.dtype != bounds.low.dtype:
        values = to_floats(actual, bounds.dtype)
    by_bits = bounds.expected.rule is ComparisonRule.EXACT and bounds.dtype.is_float
    if by_bits and not np.array_equal(np.signbit(values), np.signbit(bounds.low)):
        return False
    if values.flags.c_contiguous and values.size > BLOCK:
        flat, low, high = values.reshape(-1), bounds.low.reshape(-1), bounds.high.reshape(-1)
        return all(
            bool(((flat[n : n + BLOCK] >= low[n : n + BLOCK]) & (flat[n : n + BLOCK] <= high[n : n + BLOCK])).all())
            for n in range(0, flat.size, BLOCK)
        )
    return bool(((values >= bounds.low) & (values <= bounds.high)).all())


def _bounds(dtype: DType, expected: Expected, slack: float) -> Bounds:
    """The least and the largest value that `compare` accepts, in the type itself where NumPy has it, rounded to
    the inside. Nothing is asked of an element between infinities, and NaN, which nothing is within, of one that is
    NaN."""
    if not dtype.is_float:
        values = expected.values.astype(np.dtype(dtype.stored))
        if expected.bounds is None:
            return Bounds(dtype, values, values, expected)
    wanted = expected.values.astype(np.float64)
    with np.errstate(all="ignore"):
        reach = expected.allowed(dtype, slack)
        low = np.where(reach > 0, np.nextafter(wanted - reach, np.inf), wanted)
        high = np.where(reach > 0, np.nextafter(wanted + reach, -np.inf), wanted)
        if expected.rule is ComparisonRule.CODES:
            least, largest = expected.beside(dtype)
            low, high = np.maximum(low, least), np.minimum(high, largest)
        infinite = np.isinf(wanted)
        low, high = np.where(infinite, wanted, low), np.where(infinite, wanted, high)
        asked = comparable(dtype, expected, slack)
        low, high = np.where(asked, low, -np.inf), np.where(asked, high, np.inf)
        if dtype.name == "f32":
            low, high = _bounds_in_f32(low, high)
    return Bounds(dtype, low, high, expected)


def _bounds_in_f32(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bounds in f64 as bounds in f32: the least above the one, and the largest below the other."""
    least, largest = low.astype(np.float32), high.astype(np.float32)
    least = np.where(least.astype(np.float64) < low, np.nextafter(least, np.float32(np.inf)), least)
    largest = np.where(largest.astype(np.float64) > high, np.nextafter(largest, np.float32(-np.inf)), largest)
    return least, largest


def fresh_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder for the cases of a pool. Those of processes that were killed are removed first: they could not do
    it themselves."""
    root = Path(temporary_place())
    for left in root.glob(f"{FOLDER}*"):
        owner = left.name.removeprefix(FOLDER).partition("-")[0]
        if owner.isdigit() and not is_running(int(owner)):
            shutil.rmtree(left, ignore_errors=True)
    try:
        return tempfile.TemporaryDirectory(prefix=f"{FOLDER}{os.getpid()}-")
    except OSError as error:
        raise no_room(error) from None


def is_running(pid: int) -> bool:
    """Whether there is a process of this number, whosever it is."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


# -- files -----------------------------------------------------------------------------------------------------
def _write(path: Path, known: KnownCase) -> None:
    """A case as one file: a line that says where which array lies, then the arrays. Whole or not at all."""
    arrays: list[np.ndarray] = []

    def keep(array: np.ndarray | None) -> int | None:
        if array is None:
            return None
        arrays.append(np.asarray(array, order="C"))
        return len(arrays) - 1

    table = {
        "inputs": {name: keep(array) for name, array in known.inputs.items()},
        "outputs": {
            name: [
                b.dtype.name, keep(b.low), keep(b.high),
                keep(b.expected.values), keep(b.expected.bounds), keep(b.expected.declared), b.packed,
                b.expected.rule.value,
            ]
            for name, b in known.outputs.items()
        },
    }  # fmt: skip
    places: list[tuple[int, str, list[int]]] = []
    offset = 0
    for array in arrays:
        offset = -(-offset // 64) * 64
        places.append((offset, array.dtype.str, list(array.shape)))
        offset += array.nbytes
    head = json.dumps({**table, "places": places}).encode()
    start = -(-(len(head) + 9) // 64) * 64
    unfinished = path.with_suffix(f".{os.getpid()}")
    try:
        with open(unfinished, "wb") as file:
            file.write(f"{len(head):08d}\n".encode() + head)
            for (at, _, _), array in zip(places, arrays, strict=True):
                file.seek(start + at)
                file.write(array.tobytes())
            file.truncate(max(start + offset, start + 1))
    except OSError:  # the room that is left is of use to others
        unfinished.unlink(missing_ok=True)
        raise
    os.replace(unfinished, path)


def _known_in(path: Path) -> KnownCase:
    whole = np.memmap(path, np.uint8, "r")
    length = int(bytes(whole[:8]))
    head = json.loads(bytes(whole[9 : 9 + length]))
    start = -(-(length + 9) // 64) * 64

    def at(number: int | None) -> np.ndarray | None:
        if number is None:
            return None
        place, kind, shape = head["places"][number]
        dtype = np.dtype(kind)
        count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        memory = whole[start + place : start + place + count]
        found: np.ndarray = np.asarray(memory).view(dtype).reshape(shape)
        return found

    def there(number: int) -> np.ndarray:
        array = at(number)
        assert array is not None
        return array

    outputs = {}
    for name, (dtype, low, high, values, bounds, declared, packed, rule) in head["outputs"].items():
        outputs[name] = Bounds(
            DTYPES[dtype],
            there(low),
            there(high),
            Expected(there(values), at(bounds), at(declared), ComparisonRule(rule)),
            packed,
        )
    return KnownCase({name: there(number) for name, number in head["inputs"].items()}, outputs)
