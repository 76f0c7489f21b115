"""The plan of a call of a GPU program for given sizes: the memory of its temporaries, and its launches in order.

Host code (loops over time steps, guards in sizes, extents of grids) depends on the sizes and scalars of a call
alone. So it is run once, and the launches are made as often as they are wanted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import cached_property
from itertools import islice

from dojoir.codegen.gpu.program import GpuProgram, passed
from dojoir.errors import ArgumentError
from dojoir.ir.dtypes import DType
from dojoir.support.frozen import dataclass

MOST_LAUNCHES = 1 << 20
"""How many launches a call may come to."""

MOST_SIZES = 64
"""For how many sizes it is remembered whether a call counts in 32 bits."""

Number = int | float


@dataclass(frozen=True)
class DeviceKernel:
    """One kernel of the device. It takes the address of each of `arrays`, then a number of each type of `numbers`,
    then, if it `reports`, the address of a status word. A launch asks for `shared_bytes` of shared memory."""

    name: str
    threads: int
    arrays: tuple[str, ...]
    numbers: tuple[DType, ...]
    reports: bool
    shared_bytes: int = 0


@dataclass(frozen=True)
class LaunchStep:
    """A launch: the number of its entry, how many blocks along each axis, and the numbers it takes."""

    entry: int
    grid: tuple[int, int, int]
    numbers: tuple[Number, ...]


@dataclass(frozen=True)
class LaunchPlan:
    """The plan of a call: the bytes of its temporaries in global memory, by name, and its launches in order."""

    workspace: tuple[tuple[str, int], ...]
    steps: tuple[LaunchStep, ...]


@dataclass(frozen=True)
class HostCode:
    """The host code of a program."""

    program: GpuProgram
    _fitting: dict[tuple[int, ...], bool] = field(default_factory=dict)

    @cached_property
    def shortened(self) -> HostCode:
        """That of the program as it counts in 32 bits, for sizes that are `short`; this where none are."""
        return self if self.program.shortened is self.program else HostCode(self.program.shortened)

    def is_short(self, sizes: Mapping[str, int]) -> bool:
        """Whether the program as it counts in 32 bits is right for a call of these sizes. What is right for larger
        ones is right."""
        if self.shortened is self:
            return False
        given = tuple(sizes.values())
        if given in self._fitting:
            return self._fitting[given]
        for most, fits in self._fitting.items():
            if fits and all(size <= limit for size, limit in zip(given, most, strict=True)):
                return True
        if len(self._fitting) >= MOST_SIZES:
            self._fitting.clear()
        rounded = {name: 1 << max(size - 1, 0).bit_length() for name, size in sizes.items()}
        if self.shortened.program.fits(rounded):
            self._fitting[tuple(rounded.values())] = True
            return True
        self._fitting[given] = self.shortened.program.fits(sizes)
        return self._fitting[given]

    @cached_property
    def entries(self) -> tuple[DeviceKernel, ...]:
        """The kernels, in the order of the text."""
        return tuple(
            DeviceKernel(
                name,
                launch.threads,
                tuple(array.name for array in launch.captured_arrays),
                tuple(passed(var, launch) for var in launch.captures),
                reports,
                self.program.dynamic_bytes(launch),
            )
            for launch, (name, reports) in zip(self.program.launches, self.program.kernels, strict=True)
        )

    @cached_property
    def _numbers(self) -> Mapping[str, int]:
        return {entry.name: number for number, entry in enumerate(self.entries)}

    def plan(self, values: Mapping[str, Number]) -> LaunchPlan:
        """The launches of a call with these sizes and scalar arguments, by name. Raises ArgumentError for a grid
        that no device takes."""
        name = self.program.program.name
        sizes = {var.name: int(values[var.name]) for var in self.program.program.sizes}
        scalars = {var.name: values[var.name] for var in self.program.program.by_value}
        steps: list[LaunchStep] = []
        for run in islice(self.program.runs(sizes, scalars), MOST_LAUNCHES + 1):
            number = self._numbers[run.kernel]
            for axis, extent, limit in zip("xyz", run.grid, self.program.grid, strict=True):
                if extent > limit:
                    raise ArgumentError(
                        f"kernel {name} asks for {extent} blocks along g{axis} "
                        f"({self.program.launches[number].comment}), and a grid has at most {limit} there: bind a "
                        f"longer scope to gx, or split it",
                        "grid-too-large",
                    )
            given = tuple(value for value in run.arguments if not isinstance(value, str))
            steps.append(LaunchStep(number, run.grid, given))
        if len(steps) > MOST_LAUNCHES:
            message = f"a call of {name} with these sizes makes more than {MOST_LAUNCHES} launches"
            raise ArgumentError(message, "too-many-launches")
        workspace = [
            (array.name, self.program.elements(array, sizes) * array.dtype.itemsize)
            for array in self.program.workspace
        ]
        return LaunchPlan(tuple(workspace), tuple(steps))
